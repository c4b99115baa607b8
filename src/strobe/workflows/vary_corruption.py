"""`strobe vary corruption`: make corrupted versions of each anchor of a dataset."""

from dataclasses import dataclass, replace
from pathlib import Path

from strobe.core.dataset import Dataset
from strobe.core.errors import CannotDownload, StrobeError, printable
from strobe.core.files import write_bytes
from strobe.core.locks import writes
from strobe.core.ports import Progress, Silent
from strobe.formats.assets import FROST, fetch
from strobe.store import dataset_folder as folder
from strobe.store.making import finish, made_before
from strobe.store.opening import Opened
from strobe.vary.corrupted_sets import CorruptionPlan, corrupted_dataset
from strobe.vary.corruptions import chosen
from strobe.vary.pictures import AnchorImage
from strobe.workflows.anchor_images import is_whole, stored_anchors, stored_members

_PANES = "panes"
"""The folder of the photographs of ice that frost is rendered with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptionOptions:
    """Options: corruptions by name or group, severities, whether to store members as files, processes, and a name."""

    kind: tuple[str, ...] = ("imagenet-c",)
    severity: tuple[int, ...] = (1, 2, 3, 4, 5)
    store: bool = False
    workers: int = 1
    name: str = ""

    def corrupting(self) -> CorruptionPlan:
        """Return the checked request."""
        return CorruptionPlan(kinds=tuple(chosen(self.kind)), severities=self.severity, store=self.store)


@dataclass(frozen=True, slots=True, kw_only=True)
class Varied:
    """The dataset, the unusable images with the reason for each, and whether the dataset already existed."""

    dataset: Dataset
    problems: tuple[str, ...] = ()
    was_there: bool = False


@writes("destination")
def vary_corruption(
    source: Path, destination: Path, options: CorruptionOptions, *, progress: Progress | None = None
) -> Varied:
    """Write the corrupted dataset, which does not need the source. Running it again does only the missing work.

    The anchors' images are copied unchanged, and frames of a video become PNG. Members are rendered from them when they
    are read, or are stored as files with the same pixels.
    """
    say, how = progress or Silent(), options.corrupting()
    photographs = frost_photographs(say) if how.needs_panes else {}
    how = replace(how, panes=tuple((file, digest) for file, (digest, _) in photographs.items()))
    opened = Opened.of(source).dataset
    if destination.resolve() == source.resolve():
        raise StrobeError(f"{printable(destination)} is the dataset itself; choose another folder to write to")
    folder.refuse_other_content(destination, leftovers=("media", _PANES))
    provenance = {
        "made_by": "strobe vary corruption",
        "source": {"name": opened.name, "frames": opened.frames_digest()},
        **how.to_json(),
    }
    old = made_before(destination, lambda old: old.info.provenance == provenance)
    if old is not None and is_whole(old) and all((destination / file).is_file() for file in photographs):
        return Varied(dataset=old, was_there=True)
    pictures, problems = stored_anchors(opened, destination, version=how.version, say=say)
    if not pictures:
        raise StrobeError(f"{printable(source)}: none of its {len(problems)} anchors can be read; {problems[0]}")
    for file, (_, content) in photographs.items():
        write_bytes(destination / file, content)
    if how.store:
        pictures = _with_members(opened, destination, pictures, how, workers=options.workers, say=say)
    dataset = corrupted_dataset(
        opened, pictures, how, name=options.name or destination.resolve().name, provenance=provenance
    )
    made = finish(dataset, destination, old=old, own_classes=False, say=say)
    return Varied(dataset=made, problems=tuple(problems))


def frost_photographs(say: Progress, *, offline: bool = False) -> dict[str, tuple[str, bytes]]:
    """Download the photographs of ice for frost once. Return the digest and content of each by its file in a folder."""
    try:
        paths = fetch(FROST, offline=offline, progress=say)
    except CannotDownload as error:
        raise CannotDownload(f"{error}; or use frost_feathers instead of frost, which needs no download") from error
    return {
        f"{_PANES}/{path.name}": (digest, path.read_bytes())
        for path, digest in zip(paths, FROST.members.values(), strict=True)
    }


def _with_members(
    opened: Dataset,
    destination: Path,
    pictures: dict[int, AnchorImage],
    how: CorruptionPlan,
    *,
    workers: int,
    say: Progress,
) -> dict[int, AnchorImage]:
    """Return the images with the files of their members."""
    frames, videos = opened.frames, opened.videos
    wanted = {row: how.recipes(str(videos.video_id[frames.video[row]]), int(frames.index[row])) for row in pictures}
    return stored_members(destination, pictures, wanted, what="corrupted images", workers=workers, say=say)
