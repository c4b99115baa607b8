"""Paired comparison of models on the same sets, within one run or over several."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from strobe.analyses.classification import ClassificationScore, Prepared, score
from strobe.analyses.comparison import Comparison, compare
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.variants_view import overall
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import Progress
from strobe.core.tasks import Task
from strobe.runs.folder import Held, Run
from strobe.workflows.opening import Opened

__all__ = ["compare_runs"]


def compare_runs(
    runs: Sequence[Path],
    *,
    models: Sequence[str],
    options: ScoreOptions,
    subset: Path | None,
    progress: Progress,
    dataset_path: Path | None = None,
    allow_missing: bool = False,
) -> tuple[Comparison, ...]:
    """Every pair of models of the runs on the sets both were scored on: exact tests, Holm, differences, a sentence.

    Models of the same name in two runs are told apart by the run's folder. `dataset_path` says where the dataset lies
    if it was moved.
    """
    frames = [Run(run).about()["dataset"]["frames_digest"] for run in runs]
    other = next((run for run, digest in zip(runs, frames, strict=True) if digest != frames[0]), None)
    if other is not None:
        raise StrobeError(
            f"{printable(runs[0])} and {printable(other)} are runs on different frames; compare runs of one dataset"
        )
    twice = next((run for run, count in Counter(run.resolve() for run in runs).items() if count > 1), None)
    if twice is not None:
        raise StrobeError(f"the run {printable(twice)} is given twice; give each run once")
    dataset = overall(Opened.of_run(Run(runs[0]), moved_to=dataset_path, subset=subset).dataset)
    wanted = _wanted(runs, models, [Run(run).models(dataset, allow_missing=allow_missing) for run in runs])
    if any(model.task is not Task.CLASSIFICATION for _, model in wanted):
        progress.note("detectors are compared as classifiers, by the class of their most confident box")
    prepared = Prepared(dataset, options)
    scores: list[ClassificationScore] = []
    with progress.task("scoring", len(wanted)) as advance:
        for name, model in wanted:
            answers = model.load().as_classes()
            scores.append(replace(score(dataset, answers, prepared=prepared), model=name))
            advance(1)
    return compare(dataset, scores)


def _wanted(runs: Sequence[Path], models: Sequence[str], found: Sequence[Sequence[Held]]) -> list[tuple[str, Held]]:
    """The models to compare, each under a name of its own."""
    here = [(run, model) for run, held in zip(runs, found, strict=True) for model in held]
    known = Counter(model.name for _, model in here)
    missing = next((name for name in models if name not in known), None)
    if missing is not None:
        names = ", ".join(printable(name) for name in sorted(known)) or "none"
        raise StrobeError(f"no predictions of {printable(missing)} in the runs; they have {names}")
    wanted = [(run, model) for run, model in here if not models or model.name in models]
    if len(wanted) < 2:
        raise StrobeError(f"comparing needs two models, here {len(wanted)}: give another run or model")
    folders = Counter(run.resolve().name for run in runs)
    return [
        (model.name if known[model.name] == 1 else f"{_short(run, folders)}/{model.name}", model)
        for run, model in wanted
    ]


def _short(run: Path, folders: Counter[str]) -> str:
    """The run's folder name where it tells it from the others, else its whole path."""
    whole = run.resolve()
    return whole.name if folders[whole.name] == 1 else str(whole)
