"""One recipe trained several times, and the training demo at toy size."""

import numpy as np
import pytest

from strobe.analyses.classification import score
from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.plan import ScoreOptions
from strobe.annexes.train import series as ladder
from strobe.annexes.train.demo import demo_training
from strobe.annexes.train.series import RUNGS, SIZES, SeriesJob, jobs_of, train_series
from strobe.annexes.train.study.score import trainings
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import UnknownName
from strobe.core.ports import Silent
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


@pytest.mark.slow
def test_it_ends_in_a_report_and_goes_on_where_it_was(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path / "cache"))
    done: list[str] = []
    real = ladder.train_one

    def killed(job: SeriesJob):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(job.name)
        return real(job)

    monkeypatch.setattr(ladder, "train_one", killed)
    wanted = {"size": "toy", "seeds": 2, "device": "cpu", "workers": 1, "only": ("pmk",)}
    with pytest.raises(KeyboardInterrupt):
        demo_training(tmp_path / "demo", Silent(), **wanted)
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "demo/models").glob("*/model.safetensors")}
    assert len(stamps) == 2
    monkeypatch.setattr(ladder, "train_one", real)
    found = demo_training(tmp_path / "demo", Silent(), **wanted)
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}, "what was trained is not trained again"
    assert sorted(found.results.models) == ["pmk~0", "pmk~1", "stills~0", "stills~1"]
    assert {one.name for one in found.results.added["trainings"]} == {"pmk", "stills"}
    assert found.report is not None
    page = found.report.read_text(encoding="utf-8")
    assert "Recipes with several trainings" in page
    assert "Before and after: stills~0 → pmk~0" in page
    assert (found.report.parent / "tables/trainings.csv").is_file()


def test_every_rung_comes_after_its_start_and_has_a_recipe():
    seen: set[str] = set()
    for rung in RUNGS:
        assert not rung.start or rung.start in seen
        seen.add(rung.name)
        for size in SIZES.values():
            from strobe.train.recipe import find

            assert find(rung.recipe, changes=size.settings(rung)).epochs > 0


def test_a_rung_waits_for_its_start(tmp_path):
    first = SeriesJob(rung=RUNGS[0], seed=0, size=SIZES["toy"], training=tmp_path, held=tmp_path, out=tmp_path)
    jobs = jobs_of(first, seeds=2, only=("pmk", "pmk-scratch"))
    assert [job.name for job in jobs] == ["stills~0", "pmk~0", "pmk-scratch~0", "stills~1", "pmk~1", "pmk-scratch~1"]
    found = train_series(jobs, workers=2, progress=Silent(), work=_stamped)
    assert [one.job.name for one in found] == [job.name for job in jobs]
    at = {one.job.name: one.acc_orig for one in found}
    for seed in range(2):
        assert at[f"stills~{seed}"] < at[f"pmk~{seed}"]
    with pytest.raises(UnknownName, match="rung"):
        jobs_of(first, seeds=1, only=("pm-k",))


def _stamped(job: SeriesJob):
    """In place of a training: when it ended."""
    import time

    time.sleep(0.05)
    return ladder.SeriesResult(job=job, acc_orig=time.time(), acc_pmk=0.0, seconds=0.0, was_there=False)
