"""Paired comparison of models on the same sets, within one run or over several."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strobe.analyses.classification import ClassificationScore, Prepared, score
from strobe.analyses.comparison import compare
from strobe.analyses.plan import ScoreOptions
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import Progress
from strobe.datasets import folder as dataset_folder
from strobe.workflows.runs import open_dataset, read_run, run_models

__all__ = ["compare_runs"]


def compare_runs(
    runs: Sequence[Path], *, models: Sequence[str], options: ScoreOptions, subset: Path | None, progress: Progress
) -> list[dict[str, Any]]:
    """Every pair of models of the runs on the sets both were scored on: exact tests, Holm, differences, a sentence.

    Models of the same name in two runs are told apart by the run's folder name.
    """
    facts = [read_run(run) for run in runs]
    digests = {one["dataset"]["frames_digest"] for one in facts}
    if len(digests) > 1:
        raise StrobeError(
            f"{printable(runs[0])} and {printable(runs[-1])} are runs on different frames; compare runs of one dataset"
        )
    path = Path(facts[0]["dataset"]["path"])
    if dataset_folder.read(path).frames_digest() not in digests:
        raise StrobeError(f"the dataset {printable(path)} is no longer what the runs were predicted on; predict again")
    dataset = open_dataset(path, subset=subset)
    prepared = Prepared(dataset, options)
    scores: list[ClassificationScore] = []
    found = [(run, model) for run in runs for model in run_models(run, dataset) if model.task == "classification"]
    names = [model.name for _, model in found]
    wanted = [(run, model) for run, model in found if not models or model.name in models]
    missing = [name for name in models if name not in names]
    if missing:
        raise StrobeError(
            f"no predictions of {printable(missing[0])} in the runs; they have {', '.join(sorted(set(names)))}"
        )
    if len(wanted) < 2:
        raise StrobeError(f"comparing needs two models, the runs have {len(wanted)}: give another run or model")
    with progress.task("scoring", len(wanted)) as advance:
        for run, model in wanted:
            predictions = model.load()
            one = score(dataset, predictions, prepared=prepared)
            if names.count(model.name) > 1:
                one = _renamed(one, f"{run.name}/{model.name}")
            scores.append(one)
            advance(1)
    return [part.to_json() for part in compare(dataset, scores, seed=options.seed, replicates=options.replicates)]


def _renamed(one: ClassificationScore, name: str) -> ClassificationScore:
    from dataclasses import replace

    return replace(one, model=name)
