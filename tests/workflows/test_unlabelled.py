"""Sets without a label are not wrong: they are in no accuracy figure, and are counted wherever figures stand."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import strobe
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.tables import Labels

Called = Callable[..., str]
EXCLUDED = "1 set without a label is excluded from every accuracy figure"


def without_labels(dataset: Dataset, sets: list[int], *, anchors: bool = True) -> Dataset:
    """The dataset with no label on the frames of these sets, or on their members alone."""
    rows = np.isin(dataset.sets.set, sets) & (anchors | ~dataset.sets.is_anchor)
    kept = ~np.isin(dataset.labels.frame, dataset.sets.frame[rows])
    return replace(dataset, labels=Labels(frame=dataset.labels.frame[kept], label=dataset.labels.label[kept]))


@pytest.fixture
def six() -> Dataset:
    dataset = strobe.example_dataset()
    return dataset.keep_rows(dataset.sets.set < 6)


def perfect(dataset: Dataset, wrong: tuple[int, ...] = ()) -> dict[str, str]:
    """The right class of every frame; another one on all frames of the sets `wrong`."""
    names = dataset.info.label_space.names
    bad = set(dataset.sets.frame[np.isin(dataset.sets.set, wrong)].tolist())
    pairs = zip(dataset.labels.frame.tolist(), dataset.labels.label.tolist(), strict=True)
    return {str(dataset.frames.key[frame]): names[1 - label if frame in bad else label] for frame, label in pairs}


@pytest.fixture
def run(six: Dataset, tmp_path: Path, called: Called) -> Path:
    """A run of two models on six sets, the last without a label: `good` is right everywhere, `bad` wrong on one."""
    folder = strobe.save_dataset(without_labels(six, [5]), tmp_path / "data")
    for name, wrong in (("good", ()), ("bad", (0,))):
        (tmp_path / f"{name}.json").write_text(json.dumps(perfect(six, wrong)), encoding="utf-8")
    models = [f"preds:{tmp_path / name}.json" for name in ("good", "bad")]
    done = called("score", folder, "-m", models[0], "-m", models[1], "-o", tmp_path / "run")
    assert EXCLUDED in done
    assert "5 sets of 5 videos" in done
    return tmp_path / "run"


def test_they_are_not_wrong(run: Path) -> None:
    found = json.loads((run / "results.json").read_text(encoding="utf-8"))
    good, bad = found["models"]["good"], found["models"]["bad"]
    assert [good[name]["value"] for name in ("acc_orig", "acc_pmk", "mean_frame")] == [1, 1, 1]
    assert (bad["acc_orig"]["count"], bad["acc_orig"]["n"]) == (4, 5)
    assert (found["dataset"]["n_sets"], found["dataset"]["n_videos"], found["dataset"]["unlabelled_sets"]) == (5, 5, 1)
    assert {one["n_sets"] for one in found["comparison"]} == {5}
    table = (run / "tables" / "sets.csv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 1 + 2 * 5
    headline = (run / "tables" / "headline.csv").read_text(encoding="utf-8").splitlines()
    assert [line.rsplit(",", 1)[-1] for line in headline] == ["unlabelled_sets", "1", "1"]


def test_python_excludes_and_warns(six: Dataset) -> None:
    dataset = without_labels(six, [5])
    with pytest.warns(UserWarning, match=EXCLUDED):
        found = strobe.score(dataset, perfect(six))
    assert (found.acc_orig.value, found.acc_orig.n) == (1, 5)
    assert [note.startswith(EXCLUDED) for note in found.notes or ()] == [True]
    with pytest.warns(UserWarning, match=EXCLUDED):
        other = strobe.score(dataset, perfect(six, (0,)), name="other")
    assert {one.n_sets for one in strobe.compare(found, other)} == {5}


def test_no_label_at_all_gives_no_accuracy(six: Dataset, tmp_path: Path, called: Called) -> None:
    bare = without_labels(six, list(range(6)))
    with pytest.raises(StrobeError, match="none of the 6 sets has a label on every frame, so accuracy cannot be"):
        strobe.score(bare, perfect(six))
    folder = strobe.save_dataset(bare, tmp_path / "data")
    (tmp_path / "mine.json").write_text(json.dumps(perfect(six)), encoding="utf-8")
    called("score", folder, "-m", f"preds:{tmp_path / 'mine.json'}", "-o", tmp_path / "run")
    found = json.loads((tmp_path / "run/results.json").read_text(encoding="utf-8"))
    assert (found["models"], found["dataset"]["n_sets"], found["dataset"]["unlabelled_sets"]) == ({}, 6, 6)
    assert strobe.results(bare, {"mine": perfect(six)})["models"] == {}


def test_training_measures_on_labelled_sets_alone(six: Dataset) -> None:
    from strobe.train.sets import HeldOut

    label = np.zeros(len(six.frames), dtype=np.int64)
    label[six.labels.frame] = six.labels.label
    places = np.arange(len(six.frames))
    held = HeldOut.of(without_labels(six, [5]), np.array([3, 4, 5]), places)
    assert held.sets.tolist() == [3, 4]
    assert held.accuracy(label[held.frames]) == (1, 1)
    with pytest.raises(StrobeError, match="no held-out set has a label"):
        HeldOut.of(without_labels(six, [5]), np.array([5]), places)


def test_an_overview_gives_the_ceiling_of_what_is_scored(six: Dataset) -> None:
    from strobe.analyses.overview import overview
    from strobe.core.labels import space

    data = replace(six, info=replace(six.info, label_space=space("youtube-bb")))
    whole, part = overview(data)["ceiling"], overview(without_labels(data, [0]))["ceiling"]
    assert (whole["n"], part["n"]) == (6, 5)
    assert part["anchors_out_of_reach"] <= whole["anchors_out_of_reach"]
    assert overview(without_labels(data, list(range(6))))["ceiling"] is None
