"""A sample of named sets: who is drawn, how the names become labels, and what is estimated from them."""

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import strobe
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.label_plan import QuestionPlan, QuestionsFrom, plan_questions
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.people import questions_of
from strobe.core.tables import Labels
from strobe.store import dataset_folder
from strobe.store.opening import Opened
from vid_shaped import PlainFrame, PlainSet, World, dataset_of

Called = Callable[..., tuple[int, str, str]]
N, K = 240, 2
CLASS = 1
"""The true class of every set."""


def truth(number: int) -> tuple[int, bool]:
    """Return the anchor's answer of the model on a set, and whether the model flickers on it."""
    return (CLASS if number % 4 else 0), number % 3 == 0


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A dataset of 240 sets in 120 videos without labels, and a run of two models; one never flickers."""
    frames, sets, answers, steady = [], [], [], []
    for number in range(N):
        first = len(frames)
        said, flickers = truth(number)
        for place in range(2 * K + 1):
            frames.append(PlainFrame(number // 2, (number % 2) * 20 + place, {CLASS}, None, "P"))
            answers.append(2 if flickers and place == 0 else said)
            steady.append(CLASS if number % 5 else 0)
        members = [(first + place, float(place - K)) for place in range(2 * K + 1) if place != K]
        sets.append(PlainSet(first + K, members))
    data = dataset_of(World(K, 3, [None] * (N // 2), frames, sets, "anchor"))
    none = np.zeros(0, dtype=np.int32)
    data = replace(data, labels=Labels(frame=none, label=none))
    folder = strobe.save_dataset(data, tmp_path / "data")
    names = data.info.label_space.names
    for model, said in (("a", answers), ("steady", steady)):
        rows = {str(key): names[label] for key, label in zip(data.frames.key, said, strict=True)}
        (tmp_path / f"{model}.json").write_text(json.dumps(rows), encoding="utf-8")
    files = [f"{model}=preds:{tmp_path / model}.json" for model in ("a", "steady")]
    strobe.evaluate(folder, models=files, out=tmp_path / "run", report=False)
    return tmp_path


def plan(world: Path, budget: int | None, source: str | None = None, ask: str = "name", seed: int = 0) -> QuestionPlan:
    request = QuestionsFrom(source=source or str(world / "run"), budget=budget)
    return plan_questions(world / "data", request, ask, seed=seed)  # type: ignore[arg-type]


def name_them(world: Path, how_many: int | None = None) -> None:
    """Let a person name the drawn sets, in order, by a file."""
    data = dataset_folder.read(world / "data")
    anchors = dict(zip(data.sets.set_id.tolist(), data.frame_ids(data.sets.anchor_frame), strict=True))
    asked = questions_of(data.samples, "name")[:how_many]
    with (world / "names.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["frame", "label"])
        rows.writerows([anchors[name], data.info.label_space.names[CLASS]] for name in asked)
    review.import_votes(world / "data", world / "names.csv", annotator="Ann", ask="name")
    review.export(world / "data", ask="name")


def test_strata_are_who_flickers_and_every_stratum_gets_two(world: Path) -> None:
    found = plan(world, 60)
    assert (found.asked, found.sets, found.is_new) == (60, N, True)
    assert {(one.name, one.sets) for one in found.strata} == {("flicker: a", N // 3), ("no flicker", N - N // 3)}
    assert all(one.asked >= 2 for one in found.strata)
    a, steady = found.promises
    assert a.planned[1] < 0.95 * a.random[1]
    assert steady.helps_little
    assert not a.helps_little


def test_a_plan_is_resumed_and_a_larger_one_extends_it(world: Path) -> None:
    first = plan(world, 40)
    before = questions_of(dataset_folder.read(world / "data").samples, "name")
    again = plan(world, 40)
    assert (again.is_new, again.asked, again.strata) == (False, 40, first.strata)
    assert plan(world, None).asked == 40
    name_them(world, 30)
    more = plan(world, 90, seed=9)
    after = questions_of(dataset_folder.read(world / "data").samples, "name")
    assert (more.asked, more.seed, len(set(after))) == (90, 0, 90)
    assert after[:40] == before


def test_names_become_labels_of_the_drawn_sets_alone(world: Path) -> None:
    plan(world, 40)
    name_them(world, 25)
    opened = Opened.of(world / "data")
    asked = questions_of(opened.dataset.samples, "name")[:25]
    assert set(opened.dataset.sets.set_id[opened.dataset.labelled].tolist()) == set(asked)
    assert not dataset_folder.read(world / "data").labelled.any()  # derived, not written
    status = review.status(world / "data", ask="name")
    assert status["labels"] == {"asked": 40, "labelled": 25}
    assert status["scores"] == []  # these names measure no person


def _figures(world: Path) -> tuple[dict[str, dict[str, float]], dict[str, object]]:
    found = json.loads((world / "run" / "results.json").read_text(encoding="utf-8"))
    return found["models"], found["dataset"]["labels"]


@pytest.mark.parametrize("source", ["random", None])
def test_accuracy_is_that_of_all_sets(world: Path, command: Called, source: str | None) -> None:
    plan(world, 120, source)
    name_them(world)
    code, out, err = command("score", str(world / "run"))
    assert code == 0, err
    assert "from 120 of 240 sets" in out + err
    models, labels = _figures(world)
    assert (labels["named"], labels["sets"]) == (120, N)
    assert labels["design"] == ("planned" if source is None else "random")
    numbers = range(N)
    orig = sum(truth(number)[0] == CLASS for number in numbers) / N
    holds = sum(truth(number) == (CLASS, False) for number in numbers) / N
    a = models["a"]
    for name, value in (("acc_orig", orig), ("acc_pmk", holds), ("drop", orig - holds)):
        assert a[name]["low"] <= value <= a[name]["high"], name
        assert abs(a[name]["value"] - value) < 0.06, name
        assert "120 of 240 sets" in a[name]["method"]
    assert a["curve"][-1]["acc"] == a["acc_pmk"]


def test_the_estimate_is_the_weighted_mean_of_the_strata(world: Path, command: Called) -> None:
    plan(world, 60)
    name_them(world)
    assert command("score", str(world / "run"))[0] == 0
    a = _figures(world)[0]["a"]
    data = Opened.of(world / "data").dataset
    number = {str(name): place for place, name in enumerate(data.sets.set_id.tolist())}
    named = [number[name] for name in questions_of(data.samples, "name")]
    steady = [place for place in named if not truth(place)[1]]
    flickering = [place for place in named if truth(place)[1]]
    holds = np.mean([truth(place)[0] == CLASS for place in steady]) * (2 / 3)
    breaks = np.mean([truth(place)[0] == CLASS for place in flickering]) / 3
    assert a["acc_pmk"]["value"] == pytest.approx(holds)
    assert a["drop"]["value"] == pytest.approx(breaks)
    assert a["acc_orig"]["value"] == pytest.approx(holds + breaks)


def test_models_are_not_compared_on_sets_that_a_plan_drew(world: Path, command: Called) -> None:
    plan(world, 60)
    name_them(world)
    assert command("score", str(world / "run"))[0] == 0
    found = json.loads((world / "run" / "results.json").read_text(encoding="utf-8"))
    assert found["comparison"] == []
    code, out, err = command("compare", str(world / "run"))
    assert code == 0
    assert "accuracy is not compared, because a plan drew the sets" in err
    assert "flicker" in out
    assert "acc_pmk" not in out
    code, out, err = command("gate", str(world / "run"), "-m", "a", "--min", "acc_pmk=10")
    assert code == 2
    assert "cannot judge acc_pmk; limit flicker" in err
    assert command("gate", str(world / "run"), "-m", "a", "--max", "flicker=60")[0] == 0


def test_a_check_corrects_the_bound(world: Path, command: Called) -> None:
    found = plan(world, 20, ask="check")
    assert (found.asked, found.sets) == (20, N // 3)
    data: Dataset = dataset_folder.read(world / "data")
    asked = questions_of(data.samples, "check")
    with (world / "checks.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["set", "said"])
        rows.writerows([name, "changed" if place < 5 else "one"] for place, name in enumerate(asked))
    review.import_votes(world / "data", world / "checks.csv", annotator="Ann", ask="check")
    status = review.export(world / "data", ask="check")
    assert status["said"] == {"one": 15, "changed": 5, "several": 0, "unsure": 0}
    code, out, err = command("score", str(world / "run"))
    assert code == 0, err
    assert "People checked 20 of 240 sets" in (out + err).replace("\N{NO-BREAK SPACE}", " ")
    results = json.loads((world / "run" / "results.json").read_text(encoding="utf-8"))
    checked = results["flicker"]["checked"]
    assert (checked["asked"], checked["changed"]) == (20, 5)
    a = checked["models"]["a"]
    assert a["flicker"]["value"] == pytest.approx(0.75 / 3)
    assert a["bound"]["value"] == pytest.approx(0.75)
    assert a["bound"]["low"] < 0.75 < a["bound"]["high"]
    assert checked["models"]["steady"]["bound"]["value"] == 1.0


@pytest.mark.parametrize(
    ("ask", "source", "text"), [("name", "nowhere", "is not a run"), ("check", "random", "is not a run")]
)
def test_a_plan_that_cannot_be_made_is_one_line(world: Path, ask: str, source: str, text: str) -> None:
    with pytest.raises(StrobeError, match=text):
        plan(world, 10, source, ask)
    assert not (world / "data" / "samples.parquet").exists()
