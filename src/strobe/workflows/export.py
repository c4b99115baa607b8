"""`strobe export`: write a dataset in another format, or runs as a leaderboard."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from strobe.analyses.variants_view import overall
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.core.files import make_folder, read_json, write_bytes, write_json, write_text
from strobe.core.inside import inside
from strobe.core.locks import writes
from strobe.core.names import short_names
from strobe.core.png import png_bytes
from strobe.core.ports import Progress, Silent
from strobe.core.swaps import swapping
from strobe.formats.export_media import bring_out
from strobe.formats.registry import EXPORT_FORMATS
from strobe.report.leaderboard import LeaderboardRun, leaderboard_csv, leaderboard_json
from strobe.store.bring_media import MediaMode
from strobe.store.opening import Opened, frame_source
from strobe.store.run_folder import Run
from strobe.studies.unlabelled.flips import AROUND, Layout, flip_files
from strobe.workflows.report import read_results

__all__ = ["Exported", "export", "export_flickers", "export_leaderboard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The outcome of an export: its files (without images) and the exported dataset."""

    dataset: Dataset
    files: tuple[Path, ...]


@writes("target")
def export(
    folder: Path,
    form: str,
    target: Path,
    *,
    media: MediaMode = "none",
    candidates: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write the dataset in another format: the sets that review kept or, with `candidates`, all sets.

    An interrupted export resumes when it is started again, and a finished one stays unchanged. Other files in the
    folder raise an error, except when a card or croissant.json is written to the dataset's own folder.
    """
    chosen = EXPORT_FORMATS[form]
    if media != "none" and chosen.no_media:
        raise InvalidValue(chosen.no_media)
    dataset = Opened.of(folder, reviewed_only=not candidates).dataset
    outgoing = chosen.make(dataset, media=media)
    if not chosen.into_its_own or target.resolve() != folder.resolve():
        _refuse_others(target, {*outgoing.files, *outgoing.images.values()}, outgoing.also)
    missing = _missing(target, outgoing.files)
    say = progress or Silent()
    written: Sequence[Path] = ()
    if chosen.write_frames is not None:
        written = chosen.write_frames(dataset, frame_source(dataset), target, progress=say)
    else:
        bring_out(dataset, target, outgoing.images, mode=media, progress=say)
    _write(target, outgoing.files, missing)
    return Exported(dataset=dataset, files=(*written, *(target / name for name in outgoing.files)))


def _write(target: Path, files: Mapping[str, str | bytes], names: Sequence[str]) -> None:
    """Write these files, after all images, so that their existence marks a complete export."""
    for name in names:
        make_folder((target / name).parent)
        write_bytes(target / name, _bytes(files[name]))


@writes("target")
def export_flickers(
    run: Path,
    target: Path,
    *,
    models: Sequence[str] = (),
    around: int = AROUND,
    layout: Layout | None = None,
    dataset_path: Path | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write the frames around the flips of a run's models, with the answers and, with `layout`, pseudo-labels.

    No label is used. An interrupted export resumes when it is started again. Other files in the folder raise an error.
    """
    opened = Opened.of_run(Run(run), moved_to=dataset_path)
    dataset = overall(opened.dataset)
    stored = Run(run).models(dataset, only=models, allow_missing=True)
    if not stored:
        raise StrobeError(f"{printable(run)} has no predictions yet; run strobe predict or eval first")
    outgoing = flip_files(dataset, {one.name: one.load() for one in stored}, around=around, layout=layout)
    _refuse_others(target, {*outgoing.files, *outgoing.images.values()})
    missing, source = _missing(target, outgoing.files), frame_source(dataset)
    with (progress or Silent()).task("images", len(outgoing.images)) as advance:
        for row, name in outgoing.images.items():
            place = inside(target, name)
            if not place.is_file():
                content = None if name.endswith(".png") else source.read_encoded(row)
                make_folder(place.parent)
                write_bytes(place, png_bytes(source.read(row)) if content is None else content)
            advance(1)
    _write(target, outgoing.files, missing)
    return Exported(dataset=dataset, files=tuple(target / name for name in outgoing.files))


def _refuse_others(target: Path, names: Collection[str], also: Sequence[str] = ()) -> None:
    """Raise StrobeError if the folder has a file that this export does not write. Hidden files are ignored."""
    for path in target.rglob("*"):
        name = path.relative_to(target).as_posix()
        hidden = any(part.startswith(".") for part in name.split("/"))
        if not path.is_dir() and not hidden and name not in names and not any(fnmatch(name, one) for one in also):
            raise StrobeError(f"{printable(target)} contains other files ({printable(name)}); choose another folder")


def _bytes(content: str | bytes) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else content


def _missing(target: Path, files: Mapping[str, str | bytes]) -> list[str]:
    """Return the files that do not exist yet. Raise StrobeError if an existing one differs."""
    missing = []
    for name, content in files.items():
        place = target / name
        if not place.is_symlink() and not place.exists():
            missing.append(name)
        elif place.is_symlink() or not place.is_file() or place.read_bytes() != _bytes(content):
            raise StrobeError(f"{printable(place)} already exists; choose another folder or remove it first")
    return missing


@writes("target")
def export_leaderboard(runs: Sequence[Path], target: Path) -> tuple[Path, ...]:
    """Write leaderboard.csv and leaderboard.json with every model of the runs. An earlier leaderboard is replaced."""
    twice = next((run for run in runs if [one.resolve() for one in runs].count(run.resolve()) > 1), None)
    if twice is not None:
        raise StrobeError(f"{printable(twice)} is given twice; pass each run once")
    rows = []
    for run, name in zip(runs, short_names([str(run.resolve()) for run in runs]), strict=True):
        about = Run(run).about().get("models", {})
        told = {model: facts.get("weights") for model, facts in about.items() if isinstance(facts, dict)}
        weights = {model: digest for model, digest in told.items() if isinstance(digest, str)}
        rows.append(LeaderboardRun(run=name, results=read_results(run), weights=weights))
    _refuse_others(target, ("leaderboard.csv", "leaderboard.json"))
    path = target / "leaderboard.json"
    others = [place for place in (path, target / "leaderboard.csv") if place.exists()]
    if others and not (path.is_file() and "boards" in read_json(path)):
        raise StrobeError(
            f"{printable(others[0])} already exists and is not a leaderboard of strobe; choose another folder"
        )
    with swapping(target) as staged:
        write_json(staged.root / path.name, leaderboard_json(rows))
        write_text(staged.root / "leaderboard.csv", leaderboard_csv(rows))
    return target / "leaderboard.csv", path
