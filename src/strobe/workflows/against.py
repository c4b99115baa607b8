"""Is the new model worse than before? `strobe eval --against` compares a run with a run, a baseline file or a model."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from strobe.analyses.clips import ClipComparison, Scope
from strobe.analyses.comparison import Comparison
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.variants_view import overall
from strobe.core.codec import decode, encode, written_as
from strobe.core.errors import InvalidFile, StrobeError, in_file, printable
from strobe.core.files import below, reading, toml_of, write_bytes, write_json, write_text
from strobe.core.locks import writes
from strobe.core.ports import Progress
from strobe.core.quoting import safe_markdown
from strobe.core.swaps import swapping
from strobe.report.clips import clip_lines, clip_markdown, side_by_side, spot_text
from strobe.store.opening import Opened, frame_source
from strobe.store.run_folder import Run
from strobe.workflows.baseline import baseline_entrant, read_baseline
from strobe.workflows.clips import clips_of, entrant_of, pair_on_clips
from strobe.workflows.compare import compare_runs

SETTINGS = "strobe.toml"
"""The file that makes a folder of clips a regression test."""
MOST_PICTURES = 3
"""The number of new changes that verdict/ shows as pictures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSettings:
    """The content of strobe.toml: the models to run, what to compare them with, and what the verdict is about."""

    models: tuple[str, ...] = ()
    against: str | None = None
    scope: Scope = field(default="these-clips", metadata=written_as("for"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdict on the new models: on the same clips, or, with labels, the comparisons of accuracy.

    `age` is the date and age of the baseline. `worse` is whether a new model is worse, and `is_open` whether one could
    not be judged.
    """

    against: str
    age: str | None
    worse: bool
    is_open: bool
    clips: tuple[ClipComparison, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    cautions: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0, 1 if a model is worse, or 3 if one could not be judged."""
        return 1 if self.worse else 3 if self.is_open else 0

    def lines(self) -> list[str]:
        """The verdict as text."""
        out = [line for clip in self.clips for line in clip_lines(clip)]
        out += [printable(comparison.sentence, limit=2000) for comparison in self.comparisons]
        out += [*self.cautions, f"baseline: {printable(self.against)}{f' ({self.age})' if self.age else ''}"]
        return out

    def markdown(self, pictures: Sequence[str] = ()) -> str:
        """The verdict for a pull request, with lines that show pictures after the first table."""
        head = {0: "not worse ✅", 1: "worse ❌", 3: "inconclusive ⚠️"}[self.exit_code]
        parts = [f"### strobe: {head}", *(clip_markdown(clip) for clip in self.clips), *pictures]
        parts += [f"- {safe_markdown(comparison.sentence)}" for comparison in self.comparisons]
        age = f" ({self.age})" if self.age else ""
        last = (*self.cautions, f"Baseline: {printable(self.against)}{age}.")
        return "\n\n".join([part.rstrip("\n") for part in parts] + [safe_markdown(line) for line in last]) + "\n"


def settings_of(sources: Sequence[Path]) -> TestSettings | None:
    """Return the settings in the folder of clips, or None if there are none."""
    found = [source / SETTINGS for source in sources if source.is_dir() and (source / SETTINGS).is_file()]
    if not found:
        return None
    path = found[0]
    with reading(path):
        try:
            data = toml_of(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InvalidFile(path, f"it is not TOML: {error}") from error
    if unknown := sorted(set(data) - {"models", "against", "for"}):
        raise InvalidFile(path, f"unknown key {printable(unknown[0])}; known: against, for, models")
    with in_file(path):
        settings = decode(TestSettings, data)
    against = settings.against
    if against is not None and (against.endswith(".json") or (path.parent / against).exists()):
        return replace(settings, against=str(path.parent / against))
    return settings


def stored(against: str) -> Path | None:
    """Return the path if a text names a run or a baseline file, or None if it is a model.

    >>> stored("last-month.json"), stored("preds:answers.json")
    (PosixPath('last-month.json'), None)
    """
    path = Path(against)
    is_model = re.match(r"([^/]*=)?[a-z][a-z-]+:", against)
    return path if path.exists() or (path.suffix == ".json" and not is_model) else None


def check_against(path: Path, run: Path) -> None:
    """Raise StrobeError if a run or a baseline file cannot be read, or is the run itself, before any model runs."""
    if path.resolve() == run.resolve():
        raise StrobeError(f"<<against>>: {printable(path)} is also the output; write the new run to another folder")
    if path.is_dir():
        Run(path).about()
    else:
        read_baseline(path)


def judge(
    run: Path, against: str | Path, models: Sequence[str], *, scope: Scope, options: ScoreOptions, progress: Progress
) -> Judged:
    """Judge models of a run against an older run, a baseline file, or the name of another model of the run."""
    opened = Opened.of_run(Run(run))
    dataset = overall(opened.dataset)
    clips, _ = clips_of(opened.dataset, dataset, options)
    models = [name for name in models if name != against]
    if clips is None:
        if isinstance(against, Path) and not against.is_dir():
            raise StrobeError("a baseline file is for videos without labels; give the older run with <<against>>")
        if scope == "this-recording":
            raise StrobeError("<<for=this-recording>> is for videos without labels; use these-clips or other-videos")
        names = (
            [against]
            if isinstance(against, str)
            else [model.name for model in _same_frames(against, run).models(dataset)]
        )
        return _by_accuracy(run, against, models, names, scope=scope, options=options, progress=progress)
    own = {model.name: model for model in Run(run).models(dataset, k=options.k)}
    new = [one for name in models if name in own and (one := entrant_of(clips, own[name], name=name)) is not None]
    if not new:
        raise StrobeError(f"{printable(run)} has no model that can be judged without labels; use strobe compare")
    age, pairs = None, []
    if isinstance(against, str):
        old = entrant_of(clips, own[against], name=against) if against in own else None
        if old is None:
            raise StrobeError(f"{printable(against)} is no run, no baseline file and no model of {printable(run)}")
        pairs = [(old, one) for one in new]
    elif against.is_dir():
        older = _same_frames(against, run)
        their = overall(Opened.of_run(older).dataset)
        held = {model.name: model for model in older.models(their, k=options.k)}
        age = str(older.about().get("at", ""))[:10] or None
        for one in new:
            name = _older(one.name, [*held], against)
            shown = f"{name} ({printable(against.name)})" if name == one.name else name
            if (earlier := entrant_of(clips, held[name], name=shown)) is not None:
                pairs.append((earlier, one))
    else:
        baseline = read_baseline(against)
        age = baseline.age
        pairs = [(baseline_entrant(clips, Run(run), baseline, model=one.name, file=against), one) for one in new]
    found = tuple(pair_on_clips(clips, old, one, scope=scope) for old, one in pairs)
    return Judged(
        against=str(against),
        age=age,
        worse=any(one.verdict in ("worse", "regression") for one in found),
        is_open=any(one.verdict in (None, "inconclusive") for one in found) or not found,
        clips=found,
    )


def _same_frames(older: Path, run: Path) -> Run:
    """Return an older run. Raise StrobeError if it is on other frames than the run."""
    if Run(older).about()["dataset"]["frames_digest"] != Run(run).about()["dataset"]["frames_digest"]:
        raise StrobeError(
            f"{printable(older)} is on different frames than {printable(run)}: another clip, other bytes of it, or "
            "other sets; run the old model again on these clips to make the baseline again"
        )
    return Run(older)


def _older(name: str, held: Sequence[str], run: Path) -> str:
    """Return the model of an older run to compare with: the one of the same name, or the only one."""
    if name not in held and len(held) != 1:
        raise StrobeError(
            f"{printable(run)} has no model {printable(name)}; it has {', '.join(map(printable, held)) or 'none'}"
        )
    return name if name in held else held[0]


def _by_accuracy(
    run: Path,
    against: str | Path,
    models: Sequence[str],
    held: Sequence[str],
    *,
    scope: Scope,
    options: ScoreOptions,
    progress: Progress,
) -> Judged:
    """Judge models on sets with labels, by their accuracy on whole sets: by the figures, or by their intervals.

    `held` are the models to compare with: those of the older run, or the one that `against` names.
    """
    runs = [run] if isinstance(against, str) else [against, run]
    found: list[Comparison] = []
    for name in models:
        old = _older(name, held, runs[0])
        pairs = compare_runs(
            runs, models=tuple(dict.fromkeys((old, name))), options=options, subset=None, progress=progress
        ).comparisons
        first = pairs[0].a if pairs else ""  # the models follow the order of the request, then that of the runs
        last = pairs[-1].b if pairs else ""
        found += [pair for pair in pairs if (pair.a, pair.b) == (first, last)]
    whole = [one.difference for one in found if one.metric in ("acc_pmk", "map_pmk")]  # a is the old model
    if scope == "these-clips":
        losses = [one.value for one in whole]
        caution = "the verdict is about these sets: a lower acc_pmk is worse; p and intervals are about other videos"
    else:
        losses = [None if one.low is None or one.low <= 0 <= (one.high or 0) else one.value for one in whole]
        caution = "the verdict is about other videos: acc_pmk is worse if the whole interval is"
    return Judged(
        against=str(against),
        age=None if isinstance(against, str) else str(Run(against).about().get("at", ""))[:10],
        worse=any(loss is not None and loss > 0 for loss in losses),
        is_open=not losses or None in losses,
        comparisons=tuple(found),
        cautions=(caution,),
    )


@writes("run")
def write_verdict(judged: Judged, run: Path) -> Path:
    """Write verdict.md, verdict.json and pictures of the first new changes into verdict/, and return this folder."""
    folder = below(run, "verdict")
    with swapping(folder) as staged:
        pictures = []
        for number, (caption, picture) in enumerate(_new_changes(judged, run), 1):
            write_bytes(staged.root / f"change-{number}.jpg", picture)
            pictures.append(f"![{safe_markdown(caption)}](change-{number}.jpg)\n{safe_markdown(caption)}")
        write_text(staged.root / "verdict.md", judged.markdown(pictures))
        write_json(staged.root / "verdict.json", {**encode(judged), "exit_code": judged.exit_code})
    return folder


def _new_changes(judged: Judged, run: Path) -> Iterator[tuple[str, bytes]]:
    """Return the frames before and after the first changes that only the new models make, with their captions."""
    spots = [spot for clip in judged.clips for spot in clip.unsteady][:MOST_PICTURES]
    if not spots:
        return
    dataset = Opened.of_run(Run(run)).dataset
    source = frame_source(dataset)
    for spot in spots:
        rows = np.flatnonzero(dataset.videos.name[dataset.frames.video] == spot.video)
        rows = rows[np.argsort(dataset.frames.index[rows])]
        after = int(np.searchsorted(dataset.frames.index[rows], spot.frame))
        images = [source.read(int(row)) for row in rows[max(after - 1, 0) : after + 1]]
        yield spot_text(replace(spot, answers=spot.answers[:2], changes=1)), side_by_side(images)
