from dataclasses import replace

import numpy as np
import pytest

from strobe.analyses.classification import score
from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.plan import ScoreOptions
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue
from strobe.studies.temporal.score_trend import fit
from vid_shaped import dataset_of, predictions_of, random_scores, vid_world

QUICK = ScoreOptions(bootstrap=False, control_seeds=1, windows=(), alphas=())
N = 150


@pytest.fixture(scope="module")
def scored() -> tuple[Dataset, list[ClassificationScore]]:
    rng = np.random.default_rng(0)
    world = vid_world(rng, n_sets=N, k=2, n_classes=4, n_frames=None)
    dataset = dataset_of(world)
    out = []
    for place, accuracy in enumerate((0.2, 0.35, 0.5, 0.62, 0.74, 0.85, 0.96, 0.7)):
        predictions = predictions_of(f"m{place}", random_scores(rng, world, accuracy))
        kind = "other" if place == 7 else "plain"
        out.append(score(dataset, predictions, options=QUICK, standard=place < 7, model_type=kind))
    return dataset, out


def shares(scores: list[ClassificationScore]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([s.acc_orig.value for s in scores]), np.array([s.acc_pmk.value for s in scores])


def test_lines_are_those_of_polyfit_over_standard_models(scored: tuple[Dataset, list[ClassificationScore]]) -> None:
    dataset, scores = scored
    found = fit(dataset, scores, replicates=50)
    x, y = shares(scores[:7])
    assert found.linear is not None
    assert found.logit is not None
    assert (found.linear.slope, found.linear.intercept) == pytest.approx(tuple(np.polyfit(100 * x, 100 * y, 1)))
    lx, ly = (np.log((v * N + 0.5) / (N + 1 - (v * N + 0.5))) for v in (x, y))
    assert (found.logit.slope, found.logit.intercept) == pytest.approx(tuple(np.polyfit(lx, ly, 1)))
    residuals = 100 * y - found.linear.at(100 * x)
    assert residuals.sum() == pytest.approx(0, abs=1e-9)


def test_effective_robustness_leaves_the_model_out(scored: tuple[Dataset, list[ClassificationScore]]) -> None:
    dataset, scores = scored
    found = fit(dataset, scores, replicates=50)
    x, y = shares(scores)
    for m, model in enumerate(found.models):
        rest = [i for i in range(7) if i != m]
        slope, intercept = np.polyfit(x[rest], y[rest], 1)
        assert model.effective_robustness.linear.value == pytest.approx(y[m] - intercept - slope * x[m])
        lx, ly = (np.log((v * N + 0.5) / (N + 0.5 - v * N)) for v in (x, y))
        slope, intercept = np.polyfit(lx[rest], ly[rest], 1)
        assert model.effective_robustness.logit.value == pytest.approx(
            y[m] - 1 / (1 + np.exp(-intercept - slope * lx[m]))
        )
        outside = x[m] < x[rest].min() or x[m] > x[rest].max()
        assert model.effective_robustness.linear.extrapolated == outside
        if outside:
            assert model.effective_robustness.linear.verdict is None
            assert "extrapolated" in model.sentence


def test_the_interval_resamples_sets_jointly_and_refits(scored: tuple[Dataset, list[ClassificationScore]]) -> None:
    dataset, scores = scored
    found = fit(dataset, scores, replicates=60, seed=4).models[7].effective_robustness.linear
    index = np.random.Generator(np.random.PCG64(4)).integers(0, N, size=(60, N))
    right = [(s.right_at(0), s.right_at(2)) for s in scores]
    draws = []
    for row in index:
        x = np.array([orig[row].mean() for orig, _ in right])
        y = np.array([perturbed[row].mean() for _, perturbed in right])
        slope, intercept = np.polyfit(x[:7], y[:7], 1)
        draws.append(y[7] - intercept - slope * x[7])
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(draws, [2.5, 97.5])))


def test_duplicates_count_once(scored: tuple[Dataset, list[ClassificationScore]]) -> None:
    dataset, scores = scored
    twin = replace(scores[2], model="a second name")
    found = fit(dataset, [*scores, twin], replicates=20)
    alone = fit(dataset, scores, replicates=20)
    assert found.linear == alone.linear
    assert [m.in_fit for m in found.models] == [True] * 7 + [False, False]
    assert found.models[-1].effective_robustness.linear.value == pytest.approx(
        alone.models[2].effective_robustness.linear.value
    )


def test_too_few_models_give_a_reason(scored: tuple[Dataset, list[ClassificationScore]]) -> None:
    dataset, scores = scored
    found = fit(dataset, scores[:4], replicates=20)
    assert found.linear is None
    assert "at least 5" in (found.reason or "")
    assert found.models[0].effective_robustness.linear.value is None
    assert encode(found)["linear"] is None
    five = fit(dataset, scores[:5], replicates=20)  # a line, but not for its own models
    assert five.linear is not None
    assert five.models[0].effective_robustness.linear.value is None
    none = fit(dataset, scores[7:], replicates=20)
    assert none.models[0].effective_robustness.logit.value is None


def test_median_drop_per_type(scored: tuple[Dataset, list[ClassificationScore]]) -> None:
    dataset, scores = scored
    found = {part.model_type: part.median_drop for part in fit(dataset, scores, replicates=200).median_drop}
    assert found["plain"].value == pytest.approx(np.median([s.drop.value for s in scores[:7]]))
    assert (found["plain"].n, found["other"].n) == (7, 1)
    assert found["other"].low <= found["other"].value <= found["other"].high
    copies = [replace(scores[0], model=f"copy {i}") for i in range(8)]
    again = {part.model_type: part.median_drop for part in fit(dataset, [*scores, *copies], replicates=200).median_drop}
    assert again == found  # what the line counts once, the median counts once


def test_published_tables_stand_beside_and_are_not_fitted(scored: tuple[Dataset, list[ClassificationScore]]) -> None:
    dataset, scores = scored
    found = fit(dataset, scores, replicates=20)
    assert found.linear is not None
    assert found.linear.n == 7
    assert [table.n for table in found.published] == [1145, 1109, 2030]


def test_scores_of_other_data_are_refused(scored: tuple[Dataset, list[ClassificationScore]]) -> None:
    dataset, scores = scored
    with pytest.raises(InvalidValue, match="trend"):
        fit(dataset, [replace(scores[0], first_wrong=np.zeros(3, np.int32))])
    with pytest.raises(InvalidValue, match="one k"):
        fit(dataset, [scores[0], replace(scores[1], k=1)])
    with pytest.raises(InvalidValue, match="at least one"):
        fit(dataset, [])
