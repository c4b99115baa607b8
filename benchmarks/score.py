"""Compare the speed of the score with the plain-Python reference, for 50 models × 22,179 frames.

    python benchmarks/score.py [--models 50] [--reference-models 2]

Both compute the whole score except the bootstraps, on simulated data of ImageNet-Vid-Robust's shape. The reference is
timed on a few models and scaled, and its figures must equal the fast ones. Times are CPU times, which other programs do
not affect. Exits with 1 below 100×.
"""

import argparse
import sys
import time
import tracemalloc

import numpy as np

from plain_score import PlainData, plain_score
from strobe.analyses.classification import Prepared, score
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.slices import OffsetPool
from strobe.core.estimate import Missing
from vid_shaped import dataset_of, predictions_of, random_scores, vid_world

TARGET = 100.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--reference-models", type=int, default=2)
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    world = vid_world(rng)
    dataset = dataset_of(world)
    options = ScoreOptions(bootstrap=False)
    print(f"{dataset.n_sets} sets, {len(dataset.frames)} frames, {world.n_classes} classes, k = {world.k}")

    start = time.process_time()
    prepared = Prepared(dataset, options)
    pool = OffsetPool(prepared.plan)
    fast = time.process_time() - start
    kept, peak_after_one, peak = [], 0, 0
    tracemalloc.start()
    references = []
    for number in range(arguments.models):
        predictions = predictions_of(f"model-{number}", random_scores(rng, world, 0.9 + 0.099 * rng.random()))
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        if number < arguments.reference_models:
            references.append(predictions)
        tracemalloc.stop()  # tracing slows numpy's small allocations, so time and memory are measured separately
        start = time.process_time()
        kept.append(score(dataset, predictions, prepared=prepared, pool=pool))
        fast += time.process_time() - start
        tracemalloc.start()
        if number in (0, arguments.models - 1):
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            score(dataset, predictions, prepared=prepared)
            peak = tracemalloc.get_traced_memory()[1] - before
            peak_after_one = peak_after_one or peak
    tracemalloc.stop()
    small = sum(part.first_wrong.nbytes for part in kept)
    print(f"fast: {fast:.2f} s for {arguments.models} models, preparation included")
    print(
        f"memory while scoring one model: first {peak_after_one / 1e6:.1f} MB, last {peak / 1e6:.1f} MB; "
        f"kept per model: {small / len(kept) / 1e3:.1f} kB of per-set outcomes"
    )

    start = time.process_time()
    data = PlainData(world)
    found = data.time_cohort(list(range(len(world.sets))))
    once = time.process_time() - start
    ms = [] if isinstance(prepared.time, Missing) else [int(t) for t in prepared.time.ms]
    slow = 0.0
    for place, predictions in enumerate(references):
        probability = None if predictions.probability is None else predictions.probability.tolist()
        label, scored = predictions.label.tolist(), predictions.scored.tolist()
        start = time.process_time()
        plain = plain_score(
            data, label, probability, scored, ms=ms, cohort=None if found is None else found[1:],
            windows=options.windows, alphas=options.alphas,
        )  # fmt: skip
        slow += time.process_time() - start
        for point, (expected, _) in zip(kept[place].curve, plain["curve"], strict=True):
            if point.acc.count != expected["count"]:
                print(f"the figures differ: {point.acc.count} sets right, but the reference has {expected['count']}")
                return 1
    scaled = once + slow / len(references) * arguments.models
    ratio = scaled / fast
    print(f"plain Python: {slow / len(references):.2f} s per model, {scaled:.1f} s for {arguments.models} (scaled)")
    print(f"ratio: {ratio:.0f}× (target: {TARGET:.0f}×)")
    return 0 if ratio >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
