"""One recipe trained several times: means, intervals over clips, spread over seeds."""

import numpy as np
import pytest

from strobe.analyses.classification import score
from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.plan import ScoreOptions
from strobe.annexes.train.study.score import trainings
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from vid_shaped import dataset_of, random_scores, vid_world

QUICK = ScoreOptions(bootstrap=False, control_seeds=1, windows=(), alphas=())


def scored(names: dict[str, float], seed: int = 0) -> tuple[Dataset, list[ClassificationScore]]:
    rng = np.random.default_rng(seed)
    world = vid_world(rng, n_sets=60, k=2, n_classes=3, n_frames=None)
    dataset = dataset_of(world)
    return dataset, [
        score(dataset, ClassAnswers.from_scores(name, np.asarray(random_scores(rng, world, share)), kind="logits"),
              options=QUICK)
        for name, share in names.items()
    ]  # fmt: skip


def test_recipes_are_told_over_their_seeds() -> None:
    names = {
        "pmk~0": 0.9,
        "stills~0": 0.6,
        "pmk~1": 0.8,
        "stills~1": 0.7,
        "stills~2": 0.65,
        "alone~0": 0.9,
        "plain": 0.9,
    }
    dataset, scores = scored(names)
    found = trainings(dataset, scores, replicates=200)
    assert found is not None
    assert [(one.name, one.models) for one in found] == [
        ("pmk", ("pmk~0", "pmk~1")), ("stills", ("stills~0", "stills~1", "stills~2")),
    ]  # fmt: skip
    for one in found:
        members = [score for score in scores if score.model in one.models]
        for key in ("acc_orig", "acc_pmk", "drop"):
            values = [getattr(member, key).value for member in members]
            whole, spread = getattr(one, key), getattr(one, f"{key}_spread")
            assert whole.value == pytest.approx(np.mean(values))
            assert (spread.low, spread.high) == pytest.approx((min(values), max(values)))
            assert spread.sd == pytest.approx(np.std(values, ddof=1))
            assert whole.low < whole.value < whole.high
            assert whole.n == 60


def test_without_seeds_there_is_nothing_to_tell() -> None:
    dataset, scores = scored({"pmk~0": 0.9, "stills~x": 0.6, "stills~y": 0.6, "~1": 0.5, "~2": 0.5})
    assert trainings(dataset, scores) is None


def test_sets_that_one_training_lacks_are_left_out_of_all() -> None:
    rng = np.random.default_rng(3)
    world = vid_world(rng, n_sets=20, k=2, n_classes=3, n_frames=None)
    dataset = dataset_of(world)
    whole = np.asarray(random_scores(rng, world, 0.8))
    seen = np.ones(len(whole), dtype=bool)
    seen[dataset.sets.frame[dataset.sets.set == 4]] = False
    scores = [score(dataset, ClassAnswers.from_scores(f"m~{i}", whole, kind="logits", scored=here), options=QUICK)
              for i, here in enumerate((seen, None))]  # fmt: skip
    (one,) = trainings(dataset, scores, replicates=50) or ()
    assert one.n_sets == 19
    assert one.acc_orig.value == scores[0].acc_orig.value
