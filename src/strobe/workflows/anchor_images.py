"""Store the anchors of a dataset as images in a new folder, and render members from them."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from strobe.build.pool import worker_pool
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.files import sha256_of_file, write_bytes
from strobe.core.png import png_bytes
from strobe.core.ports import FrameSource, Image, Progress
from strobe.store.media import decode_image
from strobe.store.opening import frame_source
from strobe.vary.pictures import AnchorImage, StoreJob, anchors_of, store_members


def is_whole(dataset: Dataset) -> bool:
    """Return whether the folder has every image of the dataset."""
    root = dataset.root or Path()
    return all((root / media).is_file() for media in set(dataset.frames.media.tolist()))


def stored_anchors(
    opened: Dataset, destination: Path, *, version: int, say: Progress
) -> tuple[dict[int, AnchorImage], list[str]]:
    """Store the anchors' images in the new folder. Return the images by row, and an error for each anchor that cannot
    be read.

    Files are copied unchanged. Frames of a video become PNG. `version` is the version of the code that renders the
    members.
    """
    anchors, source, ids = anchors_of(opened), frame_source(opened), opened.frame_ids()
    pictures: dict[int, AnchorImage] = {}
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
            media = f"{_folder(ids[row], digest, version)}/picture{ending}"
            place = destination / media
            # An existing file is complete, and the name of its folder contains the digest of its content.
            if not place.is_file():
                write_bytes(place, content)
            pictures[row] = AnchorImage(media=media, sha256=digest, size_wh=(image.shape[1], image.shape[0]))
    return {row: pictures[row] for row in anchors if row in pictures}, problems


def _content(source: FrameSource, row: int, media: str) -> tuple[Image, bytes, str]:
    """Return the image, its file and the file's suffix. A frame without a file becomes a PNG."""
    image, content = source.read(row), source.read_encoded(row)
    if content is None:
        return image, png_bytes(image), ".png"
    return image, content, Path(media).suffix.lower()


def _folder(anchor: str, digest: str, version: int) -> str:
    """Return the folder of one anchor's images.

    Its name depends on the anchor, its image and the renderer's version.
    """
    return f"media/{hashlib.sha256(f'{anchor} {digest} {version}'.encode()).hexdigest()[:16]}"


def stored_members(
    destination: Path,
    pictures: Mapping[int, AnchorImage],
    renderings: Mapping[int, Mapping[str, Mapping[str, Any]]],
    *,
    what: str,
    workers: int,
    say: Progress,
) -> dict[int, AnchorImage]:
    """Render members to files in several processes, and return the images with these files.

    `renderings` are keyed by row and name.
    """
    jobs = [
        StoreJob(root=destination, media=picture.media, wanted=renderings[row], decode=_decode)
        for row, picture in pictures.items()
    ]
    done: dict[int, AnchorImage] = {}
    with say.task(what, sum(len(job.wanted) for job in jobs)) as advance, _mapped(jobs, workers) as made:
        for (row, picture), job in zip(pictures.items(), made, strict=True):
            paths = {name: job.path(name) for name in job.wanted}
            files = {
                name: (path.relative_to(destination).as_posix(), sha256_of_file(path)) for name, path in paths.items()
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
