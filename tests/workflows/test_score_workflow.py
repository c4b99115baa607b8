"""Scoring through the workflow: what review changed, ceilings, missing frames, moved data, many models."""

import csv
import gc
import json
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

import strobe
from strobe.analyses.comparison import Comparison
from strobe.analyses.model_results import Unscored
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import results_schema
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.core.tables import texts
from strobe.report.headline import headline_lines
from strobe.store.bring_media import ImportOptions
from strobe.workflows.compare import compare_runs
from strobe.workflows.score import ScoreRunOptions, score_dataset, score_run

QUICK = ScoreRunOptions(options=ScoreOptions(replicates=100, control_seeds=3))
GOOD = ["good", "unsure", "bad", "person"]
SAID = ["correct", "similar", "dissimilar", "bad-anchor"]
OFFSETS = (-2, -1, 1, 2)


@pytest.fixture
def ytbb(tmp_path: Path) -> Path:
    """Twelve anchors, two in each of six videos: cats but for one cow; one bad anchor; one rejected neighbour each.

    The first cat's anchor also shows a person, added by the annotators.
    """
    source = tmp_path / "release"
    source.mkdir()
    anchors, pairs, listed = [], [], ["ytid,time_ms,label"]
    for place in range(12):
        ytid, ms, index = f"video-{place // 2:05d}", 10_000 * (1 + place % 2), 300 * (1 + place % 2)
        anchor = f"{ytid}_{ms}/frame-{index}.jpg"
        words = ["bad"] if place == 11 else ["good", "person"] if place == 0 else ["good"]
        anchors.append({"key": anchor, "notes": "", "labels": [GOOD.index(word) for word in words]})
        for offset in OFFSETS:
            said = ["dissimilar"] if offset == 2 else ["similar", "correct"]
            key = f"{anchor},{ytid}_{ms}/frame-{index + offset}.jpg"
            pairs.append({"key": key, "notes": "", "labels": [SAID.index(word) for word in said]})
        listed.append(f"{ytid},{ms},{6 if place == 1 else 7}")
    (source / "anchor_labels.json").write_text(json.dumps({"annotations": anchors, "labels": GOOD}))
    (source / "pair_labels.json").write_text(json.dumps({"annotations": pairs, "labels": SAID}))
    (source / "anchors_full.csv").write_text("\n".join(listed))
    releases = pytest.importorskip("strobe.annexes.releases.ytbb_robust")
    files = releases.YtbbFiles(listed=source / "anchors_full.csv", pairs=source / "pair_labels.json")
    made = releases.import_ytbb_robust(source, tmp_path / "ytbb", files=files, how=ImportOptions(media="none")).dataset
    strobe.save_dataset(made, tmp_path / "ytbb")
    return tmp_path / "ytbb"


def ytbb_predictions(data: Path, path: Path) -> Path:
    """ILSVRC class numbers: a cat everywhere, but at +2 a dog, and `person` has no place: the first anchor is a cat."""
    tabby, dog = 281, 207
    dataset = strobe.load_dataset(data, reviewed=False)
    distance = {int(f): float(d) for f, d in zip(dataset.sets.frame, dataset.sets.distance, strict=True)}
    lines = [f"{key},{dog if distance[row] == 2 else tabby}" for row, key in enumerate(dataset.frames.key)]
    path.write_text("\n".join(["frame,label", *lines]) + "\n")
    return path


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_review_impact_ceiling_and_space_end_to_end(ytbb: Path, tmp_path: Path) -> None:
    path = ytbb_predictions(ytbb, tmp_path / "tabby.csv")
    with pytest.raises(StrobeError, match=r"class 281 is outside youtube-bb.*--space ilsvrc-2012"):
        score_dataset(ytbb, [f"preds:{path}"], None, QUICK, Silent())
    request = replace(QUICK, space="ilsvrc-2012", compare_review=True)
    results = score_dataset(ytbb, [f"preds:{path}"], tmp_path / "run", request, Silent())
    Draft202012Validator(results_schema()).validate(json.loads(json.dumps(encode(results))))
    model = encode(results)["models"]["tabby"]
    # Reviewed: 11 anchors, the cow wrong; the dog at +2 was rejected, so nothing else fails.
    assert (model["acc_orig"]["count"], model["acc_pmk"]["count"], model["acc_orig"]["n"]) == (10, 10, 11)
    assert model["acc_orig"]["method"] == "korn-graubard"
    impact = model["review_impact"]
    assert [(impact[stage]["acc_orig"]["count"], impact[stage]["acc_pmk"]["count"]) for stage in "ABC"] == [
        (11, 0), (10, 0), (10, 10),
    ]  # fmt: skip
    assert [impact[stage]["acc_orig"]["n"] for stage in "ABC"] == [12, 11, 11]
    assert impact["drop_difference"]["value"] == pytest.approx(11 / 12)
    rows = table(tmp_path / "run/tables/review_impact.csv")
    assert [row["stage"] for row in rows] == ["A", "B", "C"]
    # The cow has no ILSVRC class: ten of eleven is the most such a model can reach, and this one does.
    top = model["ceiling"]
    assert top["childless"] == ["cow"]  # not those that no frame of these sets shows
    assert (top["anchors_out_of_reach"], top["n"], top["source"]) == (1, 11, "ilsvrc-2012")
    assert top["acc_orig"] == pytest.approx(model["acc_orig"]["value"])
    notes = headline_lines(results)[0][3]
    assert any(
        "has no class for cow: 1 of 11 anchors cannot be right" in note and "at most 90.9" in note for note in notes
    )


@pytest.fixture
def example(tmp_path: Path) -> Dataset:
    made = strobe.example_dataset(n_videos=12, k=3)
    strobe.save_dataset(made, tmp_path / "data")
    return made


def save(dataset: Dataset, path: Path, *, seed: int = 0, without: int = 0) -> str:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(len(dataset.frames), 2))
    scores[dataset.labels.frame, dataset.labels.label] += 1.5
    content = {str(key): row.tolist() for key, row in zip(dataset.frames.key, scores, strict=True)}
    path.write_text(json.dumps(dict(list(content.items())[without:])))
    return f"preds:{path}"


def test_unscored_sets_stand_in_every_table(example: Dataset, tmp_path: Path) -> None:
    specs = [save(example, tmp_path / "whole.json"), save(example, tmp_path / "part.json", seed=1, without=9)]
    with pytest.raises(StrobeError, match=r"9 of 84 frames have no prediction, first 'clip-000/000000\.jpg'"):
        score_dataset(tmp_path / "data", specs, tmp_path / "run", QUICK, Silent())
    assert not (tmp_path / "run").exists()
    results = score_dataset(tmp_path / "data", specs, tmp_path / "run", replace(QUICK, allow_missing=True), Silent())
    assert results.models["part"].unscored == Unscored(frames=9, sets=2)
    (_, columns, rows, notes), *_ = headline_lines(results)
    assert [row[columns.index("unscored sets")] for row in sorted(rows)] == ["2", "0"]
    assert any("part: 2 sets unscored" in note for note in notes)
    for path in (tmp_path / "run/tables").glob("*.csv"):
        found = table(path)
        if path.stem == "sets":  # a set that was not scored has no row
            assert [sum(row["model"] == name for row in found) for name in ("part", "whole")] == [10, 12]
        elif "model" in found[0] and path.stem != "trend":
            said = {row["model"]: (row["unscored_frames"], row["unscored_sets"]) for row in found}
            assert said["part"] == ("9", "2"), path.name
            assert said["whole"] == ("0", "0"), path.name
    # Scored again without the flag, what is missing is an error, not a silently smaller n.
    with pytest.raises(StrobeError, match=r"part: 9 of 84 frames have no prediction yet.*--allow-missing"):
        score_run(tmp_path / "run", QUICK, Silent())
    again = score_run(tmp_path / "run", replace(QUICK, allow_missing=True), Silent())
    assert again.results == results


def test_all_files_come_in_or_none(example: Dataset, tmp_path: Path) -> None:
    good = save(example, tmp_path / "good.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(StrobeError, match="not JSON"):
        score_dataset(tmp_path / "data", [good, f"preds:{tmp_path}/bad.json"], tmp_path / "run", QUICK, Silent())
    assert not (tmp_path / "run").exists()
    score_dataset(tmp_path / "data", [good], tmp_path / "run", QUICK, Silent())
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    other = save(example, tmp_path / "other.json", seed=2)
    with pytest.raises(StrobeError, match="not JSON"):
        score_dataset(tmp_path / "data", [other, f"preds:{tmp_path}/bad.json"], tmp_path / "run", QUICK, Silent())
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def unrelated() -> Dataset:
    made = strobe.example_dataset(n_videos=5, k=3)
    return replace(made, videos=replace(made.videos, video_id=texts([f"other {i}" for i in range(5)])))


def test_a_file_added_to_a_run_joins_the_others(example: Dataset, tmp_path: Path) -> None:
    for name in ("a", "b"):
        spec = save(example, tmp_path / f"{name}.json", seed=ord(name))
        results = score_dataset(tmp_path / "data", [spec], tmp_path / "run", QUICK, Silent())
    assert set(results.models) == {"a", "b"}
    assert len(results.comparison) == 3
    with pytest.raises(StrobeError, match=r"to add a file, pass the dataset"):
        score_run(tmp_path / "run", replace(QUICK, models=("preds:c.json",)), Silent())


def test_a_dataset_that_was_moved_is_named(example: Dataset, tmp_path: Path) -> None:
    results = score_dataset(tmp_path / "data", [save(example, tmp_path / "a.json")], tmp_path / "run", QUICK, Silent())
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    with pytest.raises(StrobeError, match="pass its new path with --dataset"):
        score_run(tmp_path / "run", QUICK, Silent())
    moved = score_run(tmp_path / "run", QUICK, Silent(), dataset_path=tmp_path / "elsewhere")
    assert moved.results == results
    strobe.save_dataset(unrelated(), tmp_path / "other")
    with pytest.raises(StrobeError, match="predictions, but not for the frames in"):
        score_run(tmp_path / "run", QUICK, Silent(), dataset_path=tmp_path / "other")
    about = tmp_path / "run/run.json"
    about.write_text(about.read_text().replace(str(tmp_path / "data"), "x" * 300))  # the system will not even look
    with pytest.raises(StrobeError, match="pass its new path with --dataset"):
        score_run(tmp_path / "run", QUICK, Silent())


def test_control_characters_in_a_name_go_nowhere(example: Dataset, tmp_path: Path) -> None:
    spec = save(example, tmp_path / "a.json")
    results = score_dataset(tmp_path / "data", [f"\x1b[31mred\u202e={spec}"], tmp_path / "run", QUICK, Silent())
    assert list(results.models) == ["[31mred"]
    for path in (tmp_path / "run").rglob("*.csv"):
        assert "\x1b" not in path.read_text(encoding="utf-8")
        assert "\u202e" not in path.read_text(encoding="utf-8")


def test_a_run_remembers_the_types_it_was_told(example: Dataset, tmp_path: Path) -> None:
    specs = [save(example, tmp_path / f"{name}.json", seed=seed) for seed, name in enumerate("ab")]
    (tmp_path / "types.csv").write_text("model,model_type,standard\na,plain,yes\n", encoding="utf-8-sig")
    request = replace(QUICK, types=tmp_path / "types.csv")
    results = score_dataset(tmp_path / "data", specs, tmp_path / "run", request, Silent())
    (tmp_path / "types.csv").unlink()
    again = score_run(tmp_path / "run", QUICK, Silent()).results
    assert again == results
    assert (again.models["a"].model_type, again.models["a"].standard) == ("plain", True)
    assert [part.model_type for part in again.trend.median_drop] == ["plain", "untyped"]


def compared(*runs: Path, **options: Any) -> tuple[Comparison, ...]:
    settings: dict[str, Any] = {"models": (), "options": QUICK.options, "subset": None, "progress": Silent()}
    return compare_runs(runs, **settings | options).comparisons


def test_runs_are_compared_and_models_of_one_name_told_apart(example: Dataset, tmp_path: Path) -> None:
    runs = [tmp_path / "x/run", tmp_path / "y/run", tmp_path / "third"]
    for seed, run in enumerate(runs):
        spec = save(example, tmp_path / "m.json", seed=seed)
        score_dataset(tmp_path / "data", [spec], run, QUICK, Silent())
    pairs = [(part.a, part.b) for part in compared(*runs) if part.metric == "drop"]
    assert pairs == [("x·run/m", "y·run/m"), ("x·run/m", "third/m"), ("y·run/m", "third/m")]
    # The same figures as from one run that holds both.
    both = [f"a=preds:{save_again(tmp_path, example, 0)}", f"b=preds:{save_again(tmp_path, example, 1)}"]
    results = score_dataset(tmp_path / "data", both, tmp_path / "both", QUICK, Silent())
    apart = compared(*runs[:2])
    assert [part.difference for part in apart] == [part.difference for part in results.comparison]
    with pytest.raises(StrobeError, match="given twice"):
        compared(runs[0], runs[0])
    with pytest.raises(StrobeError, match="two models, got 1"):
        compared(runs[0])
    with pytest.raises(StrobeError, match="the runs have no predictions of nobody; their models are m"):
        compared(*runs, models=("nobody",))


def test_every_model_on_every_set_is_a_table(example: Dataset, tmp_path: Path) -> None:
    specs = [f"{name}=preds:{save_again(tmp_path, example, seed)}" for seed, name in enumerate("ab")]
    results = score_dataset(tmp_path / "data", specs, tmp_path / "run", QUICK, Silent())
    table = pq.read_table(tmp_path / "run/tables/sets.parquet").to_pylist()
    with (tmp_path / "run/tables/sets.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(table) == len(rows) == 2 * example.n_sets
    assert list(rows[0]) == [
        "set", "source", "label", "model", "anchor_right", "holds", "first_wrong_distance", "worst_member",
        "worst_right", "worst_answer", "worst_confidence", "worst_probability_of_right",
    ]  # fmt: skip
    for name in "ab":
        mine = [row for row in table if row["model"] == name]
        assert sum(row["anchor_right"] for row in mine) == results.models[name].acc_orig.count
        assert sum(row["holds"] for row in mine) == results.models[name].acc_pmk.count
        assert all((row["first_wrong_distance"] is None) == row["holds"] for row in mine)
    assert [row["holds"] for row in rows] == [str(row["holds"]) for row in table]
    # Scored again with a smaller k there are other figures, and no row of before is left.
    score_run(tmp_path / "run", replace(QUICK, options=replace(QUICK.options, k=0), models=("b",)), Silent())
    again = pq.read_table(tmp_path / "run/tables/sets.parquet").to_pylist()
    assert {row["model"] for row in again} == {"b"}
    assert all(row["holds"] == row["anchor_right"] for row in again)


def save_again(folder: Path, dataset: Dataset, seed: int) -> Path:
    save(dataset, folder / f"again{seed}.json", seed=seed)
    return folder / f"again{seed}.json"


class Measuring(Silent):
    """Keeps how much memory is in use after each model, without what Python has yet to collect."""

    def __init__(self) -> None:
        self.used: list[int] = []

    def task(self, label: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        def advance(_: int = 1) -> None:
            gc.collect()
            self.used.append(tracemalloc.get_traced_memory()[0])

        return nullcontext(advance)


def test_memory_does_not_grow_with_the_number_of_models(tmp_path: Path) -> None:
    made = strobe.example_dataset(n_videos=400, k=3)
    strobe.save_dataset(made, tmp_path / "data")
    save(made, tmp_path / "m.json")
    specs, measuring = [f"m{number}=preds:{tmp_path}/m.json" for number in range(9)], Measuring()
    tracemalloc.start()
    options = ScoreRunOptions(options=ScoreOptions(bootstrap=False))
    score_dataset(tmp_path / "data", specs, None, options, measuring)
    tracemalloc.stop()
    one_model = len(made.frames) * 2 * 8
    assert len(measuring.used) >= 9
    # Five more models: what stays of each is its figures, far less than its predictions and their Python objects.
    assert measuring.used[8] - measuring.used[3] < 5 * one_model, measuring.used


@pytest.mark.parametrize(("made_by", "noted"), [("strobe vary background", True), ("strobe vary attack", False)])
def test_variants_of_an_annex_that_is_not_there_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, heard: Any, made_by: str, noted: bool
) -> None:
    dataset = strobe.example_dataset()
    dataset = replace(dataset, info=replace(dataset.info, provenance={"made_by": made_by}))
    strobe.save_dataset(dataset, tmp_path / "data")
    answers = strobe.ClassAnswers.from_labels("cat", [0] * len(dataset.frames))
    strobe.evaluate(tmp_path / "data", answers, tmp_path / "run", report=False)
    monkeypatch.setattr("strobe.workflows.score.added", lambda _: {})
    score_run(tmp_path / "run", QUICK, heard)
    assert any(f"made by {made_by}, which is not installed" in note for note in heard.lines) == noted


def test_the_dataset_folder_is_no_place_for_a_run(example: Dataset, tmp_path: Path) -> None:
    spec = save(example, tmp_path / "a.json")
    before = sorted((tmp_path / "data").rglob("*"))
    with pytest.raises(StrobeError, match="is a dataset folder; choose another folder for the run with -o"):
        score_dataset(tmp_path / "data", [spec], tmp_path / "data", QUICK, Silent())
    assert sorted((tmp_path / "data").rglob("*")) == before


def test_a_run_of_another_dataset_is_refused_untouched(example: Dataset, tmp_path: Path) -> None:
    score_dataset(tmp_path / "data", [save(example, tmp_path / "a.json")], tmp_path / "run", QUICK, Silent())
    second = unrelated()
    strobe.save_dataset(second, tmp_path / "second")
    before = sorted(path for path in (tmp_path / "run").rglob("*"))
    with pytest.raises(StrobeError, match="contains a run on other frames"):
        score_dataset(tmp_path / "second", [save(second, tmp_path / "b.json")], tmp_path / "run", QUICK, Silent())
    assert sorted(path for path in (tmp_path / "run").rglob("*")) == before
