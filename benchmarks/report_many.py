"""How long the report of many models takes and how large it is: 335 models on data of ImageNet-Vid-Robust's shape.

    python benchmarks/report_many.py OUT [--models 335]

Answers are random, with accuracies from 30 to 95 % and drops of all sizes; there are no pictures. Prints the seconds of
the score, of the comparison and of the report, and the size of the page. Times are of the wall: on a quiet machine.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from strobe.analyses.classification import Prepared, ScoreOptions, score
from strobe.analyses.comparison import compare
from strobe.analyses.offsets import OffsetPool
from strobe.analyses.results import Results, dataset_facts
from strobe.analyses.trend import fit
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.report.page import write_report
from vid_shaped import dataset_of, vid_world


def answers(dataset: Dataset, n_models: int, rng: np.random.Generator) -> dict[str, ClassAnswers]:
    """Models that find the same sets hard, each with an accuracy and a drop of its own."""
    truth = np.zeros(len(dataset.frames), dtype=np.int64)
    truth[dataset.labels.frame] = dataset.labels.label
    of = np.zeros(len(truth), dtype=np.int64)
    of[dataset.sets.frame] = dataset.sets.set
    anchor = np.zeros(len(truth), dtype=bool)
    anchor[dataset.sets.anchor_frame] = True
    hard, n_classes, out = rng.random(dataset.n_sets), len(dataset.info.label_space), {}
    for number in range(n_models):
        orig = 0.3 + 0.65 * number / max(n_models - 1, 1)
        rank = np.argsort(np.argsort(hard + rng.normal(0, 0.12, dataset.n_sets))) / dataset.n_sets
        breaks = (rank < orig) & (rank >= orig * rng.uniform(0.7, 0.95))
        right = (rank < orig)[of] & ~(breaks[of] & ~anchor & (rng.random(len(truth)) < 0.35))
        other = (truth + 1 + rng.integers(0, n_classes - 1, len(truth))) % n_classes
        out[f"net-{number:03d}"] = ClassAnswers.from_labels(f"net-{number:03d}", np.where(right, truth, other))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=int, default=335)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    dataset = dataset_of(vid_world(rng))
    models = answers(dataset, arguments.models, rng)
    arguments.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    prepared = Prepared(dataset, ScoreOptions(replicates=100, control_seeds=5))
    pool = OffsetPool(prepared.plan)
    scores = [score(dataset, one, prepared=prepared, pool=pool, standard=True) for one in models.values()]
    scored = time.perf_counter()
    results = Results(
        dataset=dataset_facts(dataset), models={one.model: one for one in scores},
        offset_error_all_models=pool.estimates(), comparison=compare(dataset, scores),
        trend=fit(dataset, scores, replicates=100),
    )  # fmt: skip
    compared = time.perf_counter()
    page = write_report(arguments.out, results, dataset, models, None)
    print(
        f"{arguments.models} models: score {scored - start:.1f} s, comparison {compared - scored:.1f} s, report "
        f"{time.perf_counter() - compared:.1f} s, {page.stat().st_size / 1e6:.2f} MB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
