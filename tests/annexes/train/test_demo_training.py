"""The training demo at toy size: killed, run again, ends in a report with the table of recipes."""

import pytest

from strobe.annexes.train import series as ladder
from strobe.annexes.train.demo import demo_training
from strobe.annexes.train.series import RUNGS, SIZES, SeriesJob, jobs_of, train_series
from strobe.core.errors import UnknownName
from strobe.core.ports import Silent


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
