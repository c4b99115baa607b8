"""`strobe vary corruption`: the anchors of a dataset, and what corruptions make of each."""

from dataclasses import dataclass
from pathlib import Path

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.locks import writes
from strobe.core.ports import Progress, Silent
from strobe.datasets import folder
from strobe.datasets.making import finish, made_before
from strobe.vary.corrupted_sets import Corrupting, corrupted_dataset, recipes_of
from strobe.vary.corruptions import chosen
from strobe.vary.pictures import Picture
from strobe.vary.rendering import VERSION
from strobe.workflows.anchor_pictures import is_whole, stored_anchors, stored_members
from strobe.workflows.opening import Opened

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


@writes("destination")
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
    if old is not None and is_whole(old):
        return Varied(dataset=old, was_there=True)
    pictures, problems = stored_anchors(opened, destination, version=VERSION, say=say)
    if not pictures:
        raise StrobeError(f"{printable(source)}: none of its {len(problems)} anchors can be read; {problems[0]}")
    if how.store:
        pictures = _with_members(opened, destination, pictures, how, workers=options.workers, say=say)
    dataset = corrupted_dataset(
        opened, pictures, how, name=options.name or destination.resolve().name, provenance=provenance
    )
    made = finish(dataset, destination, old=old, own_classes=False, say=say)
    return Varied(dataset=made, problems=tuple(problems))


def _with_members(
    opened: Dataset, destination: Path, pictures: dict[int, Picture], how: Corrupting, *, workers: int, say: Progress
) -> dict[int, Picture]:
    """The pictures with files of their members."""
    frames, videos = opened.frames, opened.videos
    wanted = {row: recipes_of(str(videos.video_id[frames.video[row]]), int(frames.index[row]), how) for row in pictures}
    return stored_members(destination, pictures, wanted, what="corrupted pictures", workers=workers, say=say)
