"""Is the new model worse than before? `strobe eval --against` compares a run with a run, a baseline file or a model."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from strobe.analyses.clips import SCOPES, ClipComparison, Scope
from strobe.analyses.comparison import Comparison
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.variants_view import overall
from strobe.core.codec import encode
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import below, reading, write_json, write_text
from strobe.core.locks import writes
from strobe.core.ports import Progress
from strobe.core.swaps import swapping
from strobe.report.clips import clip_lines, clip_markdown
from strobe.store.opening import Opened
from strobe.store.run_folder import Run
from strobe.workflows.baseline import baseline_entrant, read_baseline
from strobe.workflows.clips import clips_of, entrant_of, pair_on_clips
from strobe.workflows.compare import compare_runs

SETTINGS = "strobe.toml"
"""The file that makes a folder of clips a regression test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSettings:
    """The content of strobe.toml: the models to run, what to compare them with, and what the verdict is about."""

    models: tuple[str, ...] = ()
    against: str | None = None
    scope: Scope = "these-clips"


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
        out = [line for one in self.clips for line in clip_lines(one)]
        out += [one.sentence for one in self.comparisons]
        out += [*self.cautions, f"baseline: {printable(self.against)}{f' ({self.age})' if self.age else ''}"]
        return out

    def markdown(self) -> str:
        """The verdict for a pull request."""
        head = {0: "not worse ✅", 1: "worse ❌", 3: "inconclusive ⚠️"}[self.exit_code]
        parts = [f"### strobe: {head}", *(clip_markdown(one) for one in self.clips)]
        parts += [f"- {one.sentence}" for one in self.comparisons]
        age = f" ({self.age})" if self.age else ""
        return "\n\n".join([*parts, *self.cautions, f"Baseline: `{printable(self.against)}`{age}."]) + "\n"


def settings_of(sources: Sequence[Path]) -> TestSettings | None:
    """Return the settings in the folder of clips, or None if there are none."""
    found = [source / SETTINGS for source in sources if source.is_dir() and (source / SETTINGS).is_file()]
    if not found:
        return None
    path = found[0]
    with reading(path):
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise InvalidFile(path, f"it is not TOML: {error}") from error
    known = {"models", "against", "for"}
    if unknown := sorted(set(data) - known):
        raise InvalidFile(path, f"unknown key {printable(unknown[0])}; known: {', '.join(sorted(known))}")
    models, against, scope = data.get("models", []), data.get("against"), data.get("for", "these-clips")
    if not isinstance(models, list) or not all(isinstance(one, str) for one in models):
        raise InvalidFile(path, "expected a list of model names", where="models")
    if against is not None and not isinstance(against, str):
        raise InvalidFile(path, "expected a run, a baseline file or a model", where="against")
    if scope not in SCOPES:
        raise InvalidFile(path, f"expected one of {', '.join(SCOPES)}", where="for")
    if against is not None and (path.parent / against).exists():
        against = str(path.parent / against)
    return TestSettings(models=tuple(models), against=against, scope=scope)


def is_stored(against: str) -> bool:
    """Return whether a text names a run or a baseline file. Otherwise it is a model."""
    return Path(against).exists() or against.endswith(".json")


def check_against(against: str) -> None:
    """Raise StrobeError if a run or a baseline file cannot be read, before any model runs."""
    path = Path(against)
    if not is_stored(against):
        return
    if path.is_dir():
        Run(path).about()
    else:
        read_baseline(path)


def judge(
    run: Path, against: str, models: Sequence[str], *, scope: Scope, options: ScoreOptions, progress: Progress
) -> Judged:
    """Judge models of a run against an older run, a baseline file, or another model of the run."""
    opened = Opened.of_run(Run(run))
    dataset = overall(opened.dataset)
    clips, _ = clips_of(opened.dataset, dataset, options)
    old_path = Path(against) if is_stored(against) else None
    if clips is None:
        if old_path is not None and not old_path.is_dir():
            raise StrobeError("a baseline file is for videos without labels; give the older run with <<against>>")
        return _by_accuracy(run, against, models, options=options, progress=progress)
    stored = {one.name: one for one in Run(run).models(dataset, k=options.k)}
    new = [one for name in models if name in stored and (one := entrant_of(clips, stored[name], name=name)) is not None]
    if not new:
        raise StrobeError(f"{printable(run)} has no classifier to judge without labels; use strobe compare")
    age, pairs = None, []
    if old_path is None:
        old = entrant_of(clips, stored[against], name=against) if against in stored else None
        if old is None:
            raise StrobeError(f"{printable(against)} is no run, no baseline file and no classifier of {printable(run)}")
        pairs = [(old, one) for one in new if one.columns.name != against]
    elif old_path.is_dir():
        older = Run(old_path)
        if older.about()["dataset"]["frames_digest"] != Run(run).about()["dataset"]["frames_digest"]:
            raise StrobeError(
                f"{printable(old_path)} is on different frames than {printable(run)}: another clip, other bytes of it, "
                "or other sets; run the old model again on these clips to make the baseline anew"
            )
        their = overall(Opened.of_run(older).dataset)
        held = {one.name: one for one in older.models(their, k=options.k)}
        age = str(older.about().get("at", ""))[:10] or None
        for one in new:
            name = one.columns.name if one.columns.name in held else next(iter(held)) if len(held) == 1 else None
            if name is None:
                known = ", ".join(map(printable, held))
                raise StrobeError(f"{printable(old_path)} has no model {printable(one.columns.name)}; it has {known}")
            shown = f"{name} ({printable(old_path.name)})" if name == one.columns.name else name
            if (earlier := entrant_of(clips, held[name], name=shown)) is not None:
                pairs.append((earlier, one))
    else:
        baseline = read_baseline(old_path)
        age = baseline.age
        pairs = [
            (baseline_entrant(clips, Run(run), baseline, model=one.columns.name, file=old_path), one) for one in new
        ]
    found = tuple(pair_on_clips(clips, old, one, scope=scope) for old, one in pairs)
    return Judged(
        against=against,
        age=age,
        worse=any(one.verdict in ("worse", "regression") for one in found),
        is_open=any(one.verdict in (None, "inconclusive") for one in found) or not found,
        clips=found,
    )


def _by_accuracy(
    run: Path, against: str, models: Sequence[str], *, options: ScoreOptions, progress: Progress
) -> Judged:
    """Judge models on sets with labels, by their accuracy on whole sets. Comparisons have p-values and intervals."""
    is_run = is_stored(against)
    runs = [Path(against), run] if is_run else [run]
    wanted = () if is_run else (against, *(one for one in models if one != against))
    found = compare_runs(runs, models=wanted, options=options, subset=None, progress=progress).comparisons
    whole = [one for one in found if one.metric in ("acc_pmk", "map_pmk")]
    gaps = [None if one.difference.value is None else -one.difference.value for one in whole]  # b is the new model
    return Judged(
        against=against,
        age=str(Run(Path(against)).about().get("at", ""))[:10] if is_run else None,
        worse=any(gap is not None and gap < 0 for gap in gaps),
        is_open=not whole or any(gap is None for gap in gaps),
        comparisons=found,
        cautions=("the verdict is about these sets: a lower acc_pmk is worse; p and intervals are about other videos",),
    )


@writes("run")
def write_verdict(judged: Judged, run: Path) -> Path:
    """Write verdict/verdict.md and verdict.json into the run, and return the folder."""
    folder = below(run, "verdict")
    with swapping(folder) as staged:
        write_text(staged.root / "verdict.md", judged.markdown())
        write_json(staged.root / "verdict.json", {**encode(judged), "exit_code": judged.exit_code})
    return folder
