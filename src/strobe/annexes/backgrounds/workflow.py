"""`strobe vary background`: make a ladder of each anchor of a dataset, from the whole image to its object."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from strobe.analyses.drawn import drawn_pictures, with_drawn_boxes
from strobe.annexes.backgrounds.drawing import VERSION
from strobe.annexes.backgrounds.estimates import DetectorBoxes, NetMasks
from strobe.annexes.backgrounds.ladder_sheet import SHEET, draw_ladders
from strobe.annexes.backgrounds.ladder_table import LADDER_FILE, read_ladder, write_ladder
from strobe.annexes.backgrounds.ladders import CONTEXTS, LADDER, NEEDS_MASK, RUNGS, LadderPicture
from strobe.annexes.backgrounds.objects import (
    BoxSource,
    FileBoxes,
    FolderMasks,
    MaskSource,
    TableBoxes,
    own_masks,
    things_of,
    truth_digest,
)
from strobe.annexes.backgrounds.sets import LadderOptions, LadderPlan, known_rungs, ladder_dataset, ladder_of
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.core.locks import writes
from strobe.core.ports import Progress, Silent
from strobe.models.options import LoadOptions
from strobe.store import dataset_folder as folder
from strobe.store.making import finish, made_before
from strobe.store.opening import Opened, frame_source
from strobe.workflows.anchor_images import is_whole, stored_anchors, stored_members

_WAYS = "use <<boxes=FILE>>, <<masks=DIR>>, <<detector=MODEL>> or <<segment=u2netp>>"


@dataclass(frozen=True, slots=True, kw_only=True)
class VaryBackgroundOptions:
    """Options of a ladder. By default, the ladder uses the dataset's boxes and masks, and has every rung that they
    allow.
    """

    boxes: str = ""
    masks: Path | None = None
    detector: str = ""
    segment: str = ""
    context: tuple[float, ...] = CONTEXTS
    fit: str = "squash"
    rungs: tuple[str, ...] = ()
    store: bool = False
    workers: int = 1
    seed: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        known_rungs(self.rungs)
        if self.boxes and self.detector:
            raise InvalidValue("<<boxes>> and <<detector>> both give boxes; use only one of them")
        if self.masks and self.segment:
            raise InvalidValue("<<masks>> and <<segment>> both give masks; use only one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderMade:
    """The dataset, the facts about every image, the images that could not be read, and whether the dataset already
    existed.
    """

    dataset: Dataset
    pictures: tuple[LadderPicture, ...]
    problems: tuple[str, ...] = ()
    was_there: bool = False

    def absent(self) -> dict[str, dict[str, int]]:
        """Return how many images lack each rung, by reason. `ladder` counts images without any rung."""
        reasons: dict[str, Counter[str]] = {}
        for picture in self.pictures:
            for rung, reason in picture.absent.items():
                reasons.setdefault(rung, Counter())[reason] += 1
        return {rung: dict(reasons[rung].most_common()) for rung in (LADDER, *RUNGS) if rung in reasons}

    def sources(self) -> str:
        """Return the origin of the ladder's boxes and masks."""
        about = self.dataset.info.provenance
        return f"boxes {about['boxes']}" + (f", masks {about['masks']}" if about["masks"] else "")

    def counts(self) -> dict[str, int]:
        """Return the number of images with each rung."""
        variants, sets = self.dataset.variants, self.dataset.sets
        names = [] if variants is None else variants.variant[sets.variant].tolist()
        many = Counter(names)
        return {name: many[name] for name in RUNGS if name in many}


@writes("destination")
def vary_background(
    source: Path,
    destination: Path,
    options: VaryBackgroundOptions,
    *,
    load: LoadOptions | None = None,
    progress: Progress | None = None,
) -> LadderMade:
    """Write the ladders of a dataset's anchors. The new dataset does not need the old one.

    Running the same command again does only the missing work.
    """
    say, load = progress or Silent(), load or LoadOptions()
    opened = Opened.of(source).dataset
    if destination.resolve() == source.resolve():
        raise StrobeError(f"{printable(destination)} is the dataset itself; choose another folder to write to")
    if options.boxes == "people":
        opened = with_drawn_boxes(opened, drawn_pictures(opened))
    folder.refuse_other_content(destination, leftovers=("media", "masks", LADDER_FILE, SHEET))
    frame_source(opened)  # raises an error if the dataset has no images, before any work
    boxes, masks = _boxes(opened, options, load, destination, say), _masks(opened, options, load, say)
    whose = boxes if boxes is not None else masks
    if whose is None:
        raise InvalidValue(f"{printable(source)} has neither boxes nor masks; {_WAYS}")
    how = LadderOptions(
        rungs=_rungs(options.rungs, masks),
        contexts=options.context,
        fit=options.fit,
        seed=options.seed,
        store=options.store,
        boxes=whose.who,
        masks="" if masks is None else masks.who,
    )
    provenance = {
        "made_by": "strobe vary background",
        "source": {"name": opened.name, "frames": opened.frames_digest(), "truth": truth_digest(opened)},
        **how.to_json(),
        **(boxes.facts if boxes is not None else {}),
        **(masks.facts if masks is not None else {}),
    }
    old = made_before(destination, lambda old: old.info.provenance == provenance)
    known = read_ladder(destination) if old is not None else None
    with _tidied(boxes):
        if old is not None and known is not None and is_whole(old) and _has_masks(destination, known):
            return LadderMade(dataset=old, pictures=known, was_there=True)
        pictures, problems = stored_anchors(opened, destination, version=VERSION, say=say)
        if not pictures:
            raise StrobeError(f"{printable(source)}: none of its {len(problems)} anchors can be read; {problems[0]}")
        ladder = ladder_of(opened, pictures, things_of(pictures, destination, boxes, masks, say), how)
        _refuse_nothing(source, ladder, masks)
        if how.store:
            pictures = stored_members(
                destination,
                {row: picture for row, picture in pictures.items() if ladder.recipes[row]},
                ladder.files(),
                what="rungs",
                workers=options.workers,
                say=say,
            )
        name = options.name or destination.resolve().name
        dataset = ladder_dataset(opened, pictures, ladder, how, name=name, provenance=provenance)
        rows = tuple(ladder.pictures.values())
        write_ladder(destination, rows)
        shown = replace(dataset, root=destination)
        draw_ladders(shown, frame_source(shown), rows, destination / SHEET)
        made = finish(dataset, destination, old=old, own_classes=False, say=say)  # written last, to mark completion
    return LadderMade(dataset=made, pictures=rows, problems=tuple(problems))


@contextmanager
def _tidied(boxes: BoxSource | None) -> Iterator[None]:
    """Remove a detector's run when the command ends or fails. If it is killed, the run stays for the next command."""
    try:
        yield
    except Exception:
        if isinstance(boxes, DetectorBoxes):
            boxes.done()
        raise
    if isinstance(boxes, DetectorBoxes):
        boxes.done()


def _boxes(
    opened: Dataset, options: VaryBackgroundOptions, load: LoadOptions, destination: Path, say: Progress
) -> BoxSource | None:
    """Return the source of boxes, or None to compute them from the masks."""
    if options.detector:
        return DetectorBoxes(options.detector, opened, load, destination)
    if options.boxes not in ("", "truth", "people"):
        return FileBoxes(Path(options.boxes), opened, say)
    if opened.boxes is None and options.boxes == "truth":
        raise InvalidValue(f"<<boxes=truth>>: {printable(opened.name)} has no boxes; {_WAYS}")
    return None if opened.boxes is None else TableBoxes(dataset=opened)


def _masks(opened: Dataset, options: VaryBackgroundOptions, load: LoadOptions, say: Progress) -> MaskSource | None:
    """Return the source of masks: a net, the given folder, or the dataset's own masks."""
    if options.segment:
        return NetMasks(options.segment, opened, load, say)
    place = options.masks or own_masks(opened)
    return None if place is None else FolderMasks(place, opened)


def _rungs(names: Sequence[str], masks: MaskSource | None) -> tuple[str, ...]:
    """Return the requested rungs, or all rungs that can be made."""
    if masks is None and (without := [name for name in names if name in NEEDS_MASK]):
        raise InvalidValue(f"<<rungs={printable(without[0])}>> needs masks; use <<masks=DIR>> or <<segment=u2netp>>")
    return known_rungs(names or [name for name in RUNGS if masks is not None or name not in NEEDS_MASK])


def _has_masks(destination: Path, pictures: Sequence[LadderPicture]) -> bool:
    return all((destination / picture.mask).is_file() for picture in pictures if picture.mask)


def _refuse_nothing(source: Path, ladder: LadderPlan, masks: MaskSource | None) -> None:
    """Raise an error if no image has a ladder, or if masks were requested and none can be used."""
    pictures = list(ladder.pictures.values())
    if not any(ladder.recipes.values()):
        first = pictures[0]
        raise StrobeError(
            f"{printable(source)}: none of its {len(pictures)} images can get a ladder; the first image is "
            f"{printable(first.picture)}: {first.absent.get(LADDER) or ' / '.join(sorted(set(first.absent.values())))}"
        )
    standing = [picture for picture in pictures if not picture.is_left_out]
    if masks is not None and not any(one.mask for one in standing):
        first, reasons = standing[0], set(standing[0].absent.values())
        raise StrobeError(
            f"{printable(source)}: no mask can be used; the first image is {printable(first.picture)}: "
            f"{' / '.join(sorted(reasons))}"
        )
