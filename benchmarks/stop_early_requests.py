"""Count the requests that a model behind an address needs on a dataset, in full and with --stop-early.

    strobe import imagenet-vid-robust RELEASE vid/ --no-media
    python benchmarks/stop_early_requests.py vid/

No model runs: answers are drawn with a given accuracy on the anchors and a given pm-k accuracy, as published for three
models. In a set that breaks, the wrong frames are one frame, or a run of random length, at a random place. One request
has one frame, so requests are counted without retries and without the one request of loading.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stop_early import stopped
from strobe.analyses.early import Failures, saved
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.store import dataset_folder

PUBLISHED = {
    "efficientnet-l2-noisystudent": (88.0, 82.1),
    "FixResNeXt101_32x48d_v2": (85.8, 72.2),
    "resnet50": (67.5, 52.5),
}
"""acc_orig and acc_pmk on ImageNet-Vid-Robust in per cent."""


def drawn(dataset: Dataset, *, orig: float, pmk: float, single: bool, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which frames are right, (F,)."""
    right, sets = np.ones(len(dataset.frames), dtype=bool), dataset.sets
    for number in range(len(sets.set_id)):
        rows = np.flatnonzero(sets.set == number)
        rows = rows[np.argsort(sets.distance[rows], kind="stable")]
        draw, anchor = rng.random(), np.flatnonzero(sets.is_anchor[rows])[0]
        if draw < pmk / 100:
            continue
        if draw >= orig / 100:
            right[sets.frame[rows[anchor]]] = False
            continue
        members = np.delete(rows, anchor)
        if len(members):
            start = rng.integers(len(members))
            length = 1 if single else 1 + rng.integers(len(members))
            right[sets.frame[members[start : start + length]]] = False
    return right


def answered(dataset: Dataset, right: NDArray[np.bool_]) -> ClassAnswers:
    """Return answers that are right on these frames and name another class on the others."""
    n = len(dataset.info.label_space)
    truth = np.zeros((len(right), n), dtype=bool)
    truth[dataset.labels.frame, dataset.labels.label] = True
    label = np.where(right, truth.argmax(axis=1), truth.argmin(axis=1))
    scores = np.zeros((len(right), n), dtype=np.float32)
    scores[np.arange(len(right)), label] = 1.0
    return ClassAnswers.from_scores("drawn", scores, kind="probabilities")


def main() -> None:
    """Print one line per published model and pattern: the mean of five draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    dataset = dataset_folder.read(parser.parse_args().dataset)
    plan = Plan(dataset, ScoreOptions(bootstrap=False))
    print("rates of, wrong frames, frames, asked, at least, share asked, rounds")
    for name, (orig, pmk) in PUBLISHED.items():
        for single in (True, False):
            found = []
            for seed in range(5):
                right = drawn(dataset, orig=orig, pmk=pmk, single=single, rng=np.random.default_rng(seed))
                early, rounds = stopped(plan, Failures(plan), answered(dataset, right))
                effort = saved(plan, early)
                found.append((effort.frames, effort.ran, effort.least, rounds))
            frames, ran, least, rounds = np.mean(found, axis=0)
            pattern = "one per set" if single else "a run"
            print(f"{name}, {pattern}, {frames:,.0f}, {ran:,.0f}, {least:,.0f}, {ran / frames:.1%}, {rounds:.0f}")


if __name__ == "__main__":
    main()
