"""`strobe export`: write a dataset in another format, or runs as tables, figures, flips or a leaderboard."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from strobe.analyses.variants_view import overall
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.core.files import inside, json_text, make_folder, read_json, write_bytes, write_text
from strobe.core.locks import writes
from strobe.core.names import short_names
from strobe.core.people import PEOPLE, pseudonyms
from strobe.core.png import png_bytes
from strobe.core.ports import Progress, Silent
from strobe.core.swaps import swapping
from strobe.core.user_secret import server_secret
from strobe.formats.export_media import bring_out
from strobe.formats.registry import EXPORT_FORMATS
from strobe.report.latex import latex_tables
from strobe.report.leaderboard import LeaderboardRun, leaderboard_csv, leaderboard_json, leaderboard_page
from strobe.report.paper_figures import PaperStyle, figures_tex, paper_figures
from strobe.store.bring_media import MediaMode
from strobe.store.opening import Opened, frame_source
from strobe.store.run_folder import Run
from strobe.studies.unlabelled.flips import AROUND, Layout, flip_files


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
    pseudonymous: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write the dataset in another format: the sets that review kept or, with `candidates`, all sets.

    With `pseudonymous`, annotators appear under pseudonyms, and their free notes are left out.

    An interrupted export resumes when it is started again, and a finished one stays unchanged. Other files in the
    folder raise an error, except when a card or croissant.json is written to the dataset's own folder.
    """
    chosen = EXPORT_FORMATS[form]
    if media != "none" and chosen.no_media:
        raise InvalidValue(chosen.no_media)
    if pseudonymous and not chosen.people:
        having = ", ".join(name for name, own_member in EXPORT_FORMATS.own_members().items() if own_member.people)
        raise InvalidValue(
            f"<<pseudonyms>> only works with {having}: {form} does not write people's answers as a table"
        )
    dataset = Opened.of(folder, reviewed_only=not candidates).dataset
    if pseudonymous:
        dataset = _under_pseudonyms(dataset)
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


def _under_pseudonyms(dataset: Dataset) -> Dataset:
    """Return the dataset with pseudonyms for annotators and without their free notes, which may contain names."""
    tables = {table: getattr(dataset, table) for table in PEOPLE}
    known = pseudonyms({answer.annotator for answers in tables.values() for answer in answers}, server_secret())
    hidden: dict[str, Any] = {
        table: tuple(
            replace(answer, annotator=known[answer.annotator], **({"note": ""} if hasattr(answer, "note") else {}))
            for answer in answers
        )
        for table, answers in tables.items()
    }
    return replace(dataset, **hidden)


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


@writes("target")
def export_latex(run: Path, target: Path) -> tuple[Path, ...]:
    """Write tables.tex: the figures of the run's models as LaTeX tables. Other files in the folder raise an error."""
    return _small_files(target, {"tables.tex": latex_tables(Run(run).results())})


@writes("target")
def export_figures(
    run: Path, target: Path, *, style: PaperStyle | None = None, progress: Progress | None = None
) -> tuple[Path, ...]:
    """Write every figure of the run as PDF and SVG for a paper, and figures.tex with their captions.

    Other files in the folder raise an error.
    """
    with (progress or Silent()).task("figures", None) as advance:
        figures = []
        for one in paper_figures(Run(run).results(), style or PaperStyle()):
            figures.append(one)
            advance(1)
    files: dict[str, str | bytes] = {f"{figure.name}.pdf": figure.pdf for figure in figures}
    files |= {f"{figure.name}.svg": figure.svg for figure in figures}
    return _small_files(target, files | {"figures.tex": figures_tex(figures)})


def _small_files(target: Path, files: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Write the files of an export without images, and return their paths."""
    _refuse_others(target, files)
    _write(target, files, _missing(target, files))
    return tuple(target / name for name in files)


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
    """Write every model of the runs to leaderboard.csv, leaderboard.json and index.html.

    An earlier leaderboard is replaced.
    """
    twice = next((run for run in runs if [one.resolve() for one in runs].count(run.resolve()) > 1), None)
    if twice is not None:
        raise StrobeError(f"{printable(twice)} is given twice; pass each run once")
    rows = []
    for run, name in zip(runs, short_names([str(run.resolve()) for run in runs]), strict=True):
        about = Run(run).about()
        facts = {model: one for model, one in about.get("models", {}).items() if isinstance(one, dict)}
        weights = {model: digest for model, fact in facts.items() if isinstance(digest := fact.get("weights"), str)}
        at = about.get("at")
        made = at if isinstance(at, str) else ""
        rows.append(LeaderboardRun(run=name, results=Run(run).results(), weights=weights, at=made))
    files = {
        "leaderboard.csv": leaderboard_csv(rows),
        "leaderboard.json": json_text(leaderboard_json(rows)),
        "index.html": leaderboard_page(rows),
    }
    _refuse_others(target, files)
    path = target / "leaderboard.json"
    others = [target / name for name in files if (target / name).exists()]
    if others and not (path.is_file() and "boards" in read_json(path)):
        raise StrobeError(
            f"{printable(others[0])} already exists and is not a leaderboard of strobe; choose another folder"
        )
    with swapping(target) as staged:
        for name, text in files.items():
            write_text(staged.root / name, text)
    return tuple(target / name for name in files)
