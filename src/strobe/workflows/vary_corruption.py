"""`strobe vary corruption`: the anchors of a dataset, and what corruptions make of each."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from strobe.build.pool import worker_pool
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.files import sha256_of_file, write_bytes
from strobe.core.png import png_bytes
from strobe.core.ports import FrameSource, Image, Progress, Silent
from strobe.datasets import folder
from strobe.datasets.making import finish, made_before
from strobe.datasets.media import decode_image
from strobe.vary.corrupted_sets import Corrupting, Picture, StoreJob, anchors_of, corrupted_dataset, store_members
from strobe.vary.corruptions import chosen
from strobe.vary.rendering import VERSION
from strobe.workflows.opening import Opened
from strobe.workflows.sources import frame_source

__all__ = ["CorruptionOptions", "Varied", "vary_corruption"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptionOptions:
    """Corruptions by name or group, severities, whether members become files, processes that make these, a name."""

    kind: tuple[str, ...] = ("imagenet-c",)
    severity: tuple[int, ...] = (1, 2, 3, 4, 5)
    store: bool = False
    workers: int = 1
    name: str = ""

    def corrupting(self) -> Corrupting:
        """What is asked for, checked."""
        return Corrupting(kinds=tuple(chosen(self.kind)), severities=self.severity, store=self.store)


@dataclass(frozen=True, slots=True, kw_only=True)
class Varied:
    """The dataset, what could not be used and why, and whether it was there already."""

    dataset: Dataset
    problems: tuple[str, ...] = ()
    was_there: bool = False


def vary_corruption(
    source: Path, destination: Path, options: CorruptionOptions, *, progress: Progress | None = None
) -> Varied:
    """Write the corrupted dataset, which needs the other one no more. The same command again does what is missing.

    Its anchors' pictures are copied as they are, frames of a video as PNG; its members are rendered from these when
    they are read, or are files to the same pixels.
    """
    say, how = progress or Silent(), options.corrupting()
    opened = Opened.of(source).dataset
    if destination.resolve() == source.resolve():
        raise StrobeError(f"{printable(destination)} is the dataset itself; choose another folder to write to")
    folder.refuse_other_content(destination, leftovers=("media",))
    provenance = {
        "made_by": "strobe vary corruption",
        "source": {"name": opened.name, "frames": opened.frames_digest()},
        **how.to_json(),
    }
    old = made_before(destination, lambda old: old.info.provenance == provenance)
    if old is not None and _whole(old):
        return Varied(dataset=old, was_there=True)
    pictures, problems = _stored(opened, destination, say)
    if not pictures:
        raise StrobeError(f"{printable(source)}: none of its {len(problems)} anchors can be read; {problems[0]}")
    if how.store:
        pictures = _with_members(opened, destination, pictures, how, workers=options.workers, say=say)
    dataset = corrupted_dataset(
        opened, pictures, how, name=options.name or destination.resolve().name, provenance=provenance
    )
    made = finish(dataset, destination, old=old, own_classes=False, say=say)
    return Varied(dataset=made, problems=tuple(problems))


def _whole(dataset: Dataset) -> bool:
    root = dataset.root or Path()
    return all((root / media).is_file() for media in set(dataset.frames.media.tolist()))


def _stored(opened: Dataset, destination: Path, say: Progress) -> tuple[dict[int, Picture], list[str]]:
    """The anchors' pictures in the new folder, and a line for each that cannot be read."""
    anchors, source, ids = anchors_of(opened), frame_source(opened), opened.frame_ids()
    pictures: dict[int, Picture] = {}
    problems: list[str] = []
    with say.task("pictures", len(anchors)) as advance:
        for row in sorted(anchors, key=lambda row: (int(opened.frames.video[row]), int(opened.frames.index[row]))):
            try:
                image, content, ending = _content(source, row, str(opened.frames.media[row]))
            except StrobeError as error:
                problems.append(f"{printable(opened.frames.key[row])}: {error}")
                continue
            finally:
                advance(1)
            digest = hashlib.sha256(content).hexdigest()
            media = f"{_folder(ids[row], digest)}/picture{ending}"
            place = destination / media
            # A file that is there is whole, and its folder is named by what it holds.
            if not place.is_file():
                write_bytes(place, content)
            size = (image.shape[1], image.shape[0])
            pictures[row] = Picture(media=media, sha256=digest, size_wh=size, members={})
    return {row: pictures[row] for row in anchors if row in pictures}, problems


def _content(source: FrameSource, row: int, media: str) -> tuple[Image, bytes, str]:
    """The picture, the file it is kept in and that file's ending: its own file, or a PNG of a frame without one."""
    image, content = source.read(row), source.read_encoded(row)
    if content is None:
        return image, png_bytes(image), ".png"
    return image, content, Path(media).suffix.lower()


def _folder(anchor: str, digest: str) -> str:
    """The folder of one anchor's pictures, named by the anchor, its picture and what draws the others."""
    return f"media/{hashlib.sha256(f'{anchor} {digest} {VERSION}'.encode()).hexdigest()[:16]}"


def _with_members(
    opened: Dataset, destination: Path, pictures: dict[int, Picture], how: Corrupting, *, workers: int, say: Progress
) -> dict[int, Picture]:
    """The pictures with files of their members."""
    frames, videos = opened.frames, opened.videos
    jobs = [
        StoreJob(
            folder=(destination / picture.media).parent, picture=destination / picture.media,
            video_id=str(videos.video_id[frames.video[row]]), index=int(frames.index[row]),
            wanted=tuple(how.each()), decode=_decode,
        )
        for row, picture in pictures.items()
    ]  # fmt: skip
    done: dict[int, Picture] = {}
    with say.task("corrupted pictures", len(jobs) * len(tuple(how.each()))) as advance, _mapped(jobs, workers) as made:
        for (row, picture), job in zip(pictures.items(), made, strict=True):
            paths = {each: job.path(*each) for each in job.wanted}
            files = {
                each: (path.relative_to(destination).as_posix(), sha256_of_file(path)) for each, path in paths.items()
            }
            done[row] = replace(picture, members=files)
            advance(len(job.wanted))
    return done


@contextmanager
def _mapped(jobs: Sequence[StoreJob], workers: int) -> Iterator[Iterator[StoreJob]]:
    if workers == 1 or len(jobs) == 1:
        yield map(store_members, jobs)
        return
    with worker_pool(min(workers, len(jobs))) as pool:
        yield pool.map(store_members, jobs)


def _decode(data: bytes, path: Path) -> Image:
    return decode_image(data, name=path)
