"""Every count of the viewer is a count of results.json and of the tables, for any filters."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_world import answers, make_dataset, make_run

import strobe
from strobe.annexes.web.view.filters import Selection, SetFilter
from strobe.annexes.web.view.index import DatasetIndex
from strobe.annexes.web.view.library import Library, _outcomes_of, scored_part
from strobe.annexes.web.view.outcomes import STATUS, computed_outcomes, stored_outcomes
from strobe.annexes.web.view.runs import columns, results_figures
from strobe.cli.main import main
from strobe.core.errors import InvalidValue
from strobe.core.ports import Silent
from strobe.core.tables import Labels
from strobe.store.dataset_folder import read
from strobe.store.run_folder import Run
from strobe.workflows.score import ScoreRunOptions, score_dataset

GOLDEN = Path(__file__).parents[3] / "golden"
RUNS = {
    "video": ("video-logits.json", "video-probabilities.csv", "video-labels.jsonl"),
    "votes": ("votes-logits.json",),
    "severity": ("severity-a.json", "severity-b.json"),
    "boxes": ("boxes-coco.json",),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> DatasetIndex:
    """An index of a scored run, and its folders."""
    root = tmp_path_factory.mktemp("counts")
    dataset = make_dataset(root / "data", images=False)
    make_run(root / "run", root / "data", answers(dataset))
    library = Library([root], secret=b"x" * 32)
    return library.index(next(iter(library.datasets)))


@pytest.mark.parametrize("name", RUNS)
def test_golden_datasets_count_as_their_results_do(name: str, tmp_path: Path) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    shutil.copytree(GOLDEN / "datasets" / name, data)
    models = [part for file in RUNS[name] for part in ("-m", f"preds:{GOLDEN / 'inputs' / file}")]
    more = ["--empty-frames"] if name == "boxes" else []
    with pytest.raises(SystemExit) as ended:
        main(["score", str(data), *models, *more, "-o", str(run), "--bootstrap", "100", "-q"])
    assert ended.value.code == 0
    index = DatasetIndex("x", data, read(data))
    stored = stored_outcomes(run, index.dataset, index.places)
    results = Run(run).results()
    assert set(stored) == set(results.models)
    with (run / "tables/sets.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    part = scored_part(Run(run), index.dataset)
    for model in Run(run).models(part, allow_missing=True):
        counts = stored[model.name].counts()
        own = [row for row in rows if row["model"] == model.name]
        assert counts["holds"] == sum(row["holds"] == "True" for row in own)
        assert counts["wrong"] == sum(row["anchor_right"] == "False" for row in own)
        assert sum(counts.values()) - counts["unscored"] == len(own)
        # The other way, from the predictions, which a run without results takes.
        again = computed_outcomes(model, index.dataset, part, index.places, k=None)
        np.testing.assert_array_equal(again.status, stored[model.name].status)
        np.testing.assert_array_equal(again.answer, stored[model.name].answer)
        np.testing.assert_allclose(again.distance, stored[model.name].distance)
        np.testing.assert_allclose(again.strength, stored[model.name].strength, rtol=1e-5)
        found = results.models[model.name]
        if name in ("video", "votes"):
            assert counts["holds"] == found.acc_pmk.count
            assert counts["holds"] + counts["breaks"] == found.acc_orig.count
            assert sum(counts.values()) - counts["unscored"] == found.acc_pmk.n


def _plain(index: DatasetIndex) -> list[dict[str, object]]:
    """The sets as plain rows, read from tables/sets.csv with the standard library."""
    out: dict[str, dict[str, object]] = {}
    with (index.path.parent / "run/tables/sets.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            one = out.setdefault(row["set"], {"set": row["set"], "video": row["source"], "label": row["label"]})
            status = "holds" if row["holds"] == "True" else "breaks" if row["anchor_right"] == "True" else "wrong"
            sure = float(row["worst_confidence"]) if status in ("breaks", "wrong") else -1.0
            bins = sum(sure >= edge for edge in (0.5, 0.7, 0.9, 0.99)) if sure >= 0 else None
            distance = row["first_wrong_distance"]
            one[row["model"]] = (status, row["worst_answer"], bins, int(float(distance)) if distance else None)
    return list(out.values())


MODELS = [f"net:{number}" for number in range(3)]
_choice = st.one_of(
    st.tuples(st.just("m"), st.sampled_from([f"{model}:{status}" for model in MODELS for status in STATUS])),
    st.tuples(st.just("c"), st.sampled_from(["cat", "dog", "<b>fox</b>"])),
    st.tuples(st.just("a"), st.sampled_from(["cat", "dog", "<b>fox</b>"])),
    st.tuples(st.just("v"), st.sampled_from([f"clip{number}" for number in range(8)])),
    st.tuples(st.just("d"), st.sampled_from(["0", "1", "2"])),
    st.tuples(st.just("p"), st.sampled_from(["0", "1", "2", "3", "4"])),
    st.tuples(st.just("h"), st.just("moves")),
    st.tuples(st.just("q"), st.sampled_from(["clip1", "@2", "CLIP", "nothing"])),
    st.tuples(st.just("f"), st.sampled_from(MODELS)),
    st.tuples(st.just("s"), st.sampled_from(["striking", "dataset", "disagreement", "confidence"])),
)


def _keeps(one: dict[str, object], items: list[tuple[str, str]], *, skip: str = "") -> bool:
    """Whether a plain row fulfils the filters, in the plainest way; `skip` is a filter, or `m:MODEL`."""
    wanted = {key: value for key, value in items if key in ("f", "q")}
    outcomes: dict[str, list[str]] = {}
    for key, value in items:
        if key == "m":
            outcomes.setdefault(value.rpartition(":")[0], []).append(value.rpartition(":")[2])
    near = [wanted["f"]] if "f" in wanted else list(outcomes) or MODELS
    kinds: dict[str, list[str]] = {}
    for key, value in items:
        if key in "cavdph":
            kinds.setdefault(key, []).append(value)
    for model, statuses in outcomes.items():
        if skip != f"m:{model}" and one[model][0] not in statuses:
            return False
    if wanted.get("q", "").casefold() not in f"{one['set']} {one['video']}".casefold():
        return False
    for key, values in kinds.items():
        if key == skip:
            continue
        if key == "c" and one["label"] not in values:
            return False
        if key == "v" and one["video"] not in values:
            return False
        if key == "h" and not (int(str(one["set"])[4]) * 3 + int(str(one["set"])[-1])) % 2:
            return False
        place = {"a": 1, "p": 2, "d": 3}.get(key)
        if place and not any(str(one[model][place]) in values for model in near):
            return False
    return True


@given(items=st.lists(_choice, max_size=6))
def test_drawn_filters_count_as_the_table_does(made: DatasetIndex, items: list[tuple[str, str]]) -> None:
    single = {key: value for key, value in items if key in ("f", "q", "s")}
    items = [(key, value) for key, value in items if key not in single] + list(single.items())
    selection, plain = Selection(made, SetFilter.of(items)), _plain(made)
    kept = {one["set"] for one in plain if _keeps(one, items)}
    rows = selection.rows()
    assert len(set(rows.tolist())) == len(rows)
    assert {str(made.names[row]) for row in rows} == kept
    facets = selection.facets()
    assert facets["total"] == len(kept)
    for model in MODELS:
        other = [one for one in plain if _keeps(one, items, skip=f"m:{model}")]
        want = {status: sum(one[model][0] == status for one in other) for status in STATUS}
        assert facets["m"][model] == want
    for key, field in (("c", "label"), ("v", "video")):
        other = [str(one[field]) for one in plain if _keeps(one, items, skip=key)]
        assert dict(facets[key]) == {value: other.count(value) for value in set(other)}
    near = [single["f"]] if "f" in single else list(dict.fromkeys(v.rpartition(":")[0] for k, v in items if k == "m"))
    for key, place in (("a", 1), ("p", 2), ("d", 3)):
        seen = [{one[model][place] for model in near or MODELS} for one in plain if _keeps(one, items, skip=key)]
        values = {str(value) for one in seen for value in one if value is not None and value != ""}
        want = {value: sum(value in {str(part) for part in one} for one in seen) for value in values}
        assert dict(facets[key]) == want


def test_the_most_striking_set_comes_first(made: DatasetIndex) -> None:
    rows = Selection(made, SetFilter.of([("f", "net:1"), ("m", "net:1:breaks")])).rows()
    strength = made.models["net:1"].strength[rows]
    assert len(rows) > 1
    assert (np.diff(strength) <= 0).all()
    assert strength[0] > 0


def test_newly_broken_and_newly_held_sets_are_those_of_compare(made: DatasetIndex) -> None:
    from strobe.annexes.web.view.workflow import compare_words

    run = made.path.parent / "run"
    found = compare_words([(run, "net:0"), (run, "net:2")])
    (change,) = found["changes"]
    for kind in ("held", "broken"):
        rows = Selection(made, SetFilter.of([("x", f"net:0\tnet:2\t{kind}")])).rows()
        assert len(rows) == change[kind]
    assert any("accuracy on whole sets" in one["text"] for one in found["sentences"])


@pytest.mark.parametrize(
    "item", [("m", "net:0:perhaps"), ("c", "cow"), ("d", "near"), ("s", "size"), ("x", "a\tb"), ("h", "?"), ("r", "?")]
)
def test_a_choice_that_does_not_exist_is_refused(made: DatasetIndex, item: tuple[str, str]) -> None:
    with pytest.raises(InvalidValue):
        Selection(made, SetFilter.of([item]))


def test_unlabelled_sets_count_as_flicker_does(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "labelled", images=False)
    none = np.zeros(0, dtype=np.int64)
    strobe.save_dataset(replace(dataset, labels=Labels(frame=none, label=none)), tmp_path / "data")
    bare = strobe.load_dataset(tmp_path / "data")
    make_run(tmp_path / "run", tmp_path / "data", answers(dataset))
    index = DatasetIndex("x", tmp_path / "data", bare)
    models, problems = _outcomes_of(tmp_path / "run", index)
    assert problems == ()
    flicker = Run(tmp_path / "run").results().flicker
    assert flicker is not None
    for name, one in models.items():
        assert one.counts()["breaks"] == flicker.models[name].flicker.count
        assert one.counts()["wrong"] == 0


def test_too_many_choices_are_refused() -> None:
    with pytest.raises(InvalidValue, match="at most"):
        SetFilter.of([("c", str(number)) for number in range(501)])


def test_votes_decide_what_is_kept(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(GOLDEN / "datasets/votes", data)
    index = DatasetIndex("x", data, read(data))
    facets = Selection(index, SetFilter()).facets()
    from strobe.core.derivation import derive

    counts = derive(index.dataset).counts(index.dataset)
    assert dict(facets["r"]).get("kept", 0) == int(derive(index.dataset).kept_set.sum())
    assert dict(facets["r"]).get("not voted on", 0) == counts["sets_without_votes"]


def test_a_detector_without_labels_has_its_measures(tmp_path: Path) -> None:
    dataset = strobe.example_dataset(n_videos=2, k=2)
    none = Labels(frame=np.zeros(0, dtype=np.int32), label=np.zeros(0, dtype=np.int32))
    strobe.save_dataset(replace(dataset, labels=none), tmp_path / "data")
    box = {"category_id": 0, "bbox": [8, 8, 10, 10], "score": 0.9}
    rows = [box | {"image_id": key} for key in dataset.frames.key.tolist()]
    (tmp_path / "net.json").write_text(json.dumps(rows))
    score_dataset(tmp_path / "data", [f"net=preds:{tmp_path}/net.json"], tmp_path / "run", ScoreRunOptions(), Silent())
    figures = results_figures(tmp_path / "run")["net"]
    assert figures["completeness"].value is not None
    assert {"completeness", "outages"} <= set(figures) & set(columns())
