"""The shards of a model run here: whole, each frame once, nothing mixed; frames that come or change are made anew."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strobe
from strobe.core.answers import BoxAnswers, ClassAnswers, State
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.files import read_json
from strobe.core.records import Detections
from strobe.core.tables import texts
from strobe.core.tasks import Task
from strobe.store.frame_names import FrameNames, keep_frames
from strobe.store.run_folder import Run
from strobe.store.shards import (
    KEY_FACTS,
    ModelShards,
    plain_name,
    prediction_key,
    shard_models,
)

NAME = "timm:some/model"
DATASET = strobe.example_dataset(n_videos=2, k=2)  # ten frames


def _store(run: Path, weights: str = "a", task: Task = Task.CLASSIFICATION, dataset: Dataset = DATASET) -> ModelShards:
    facts = dict.fromkeys(KEY_FACTS, "") | {"weights": weights}
    return ModelShards(run, NAME, facts=facts, frames=FrameNames(dataset, run), task=task, n_classes=3)


def _part(rows: list[int], *, bad: tuple[int, ...] = ()) -> tuple[Any, ClassAnswers]:
    scores = np.array([[row, -np.inf, row / 7] for row in rows], dtype=np.float32)
    scores[[row in bad for row in rows]] = np.nan
    answers = ClassAnswers.from_scores(
        NAME, scores, kind="logits", own_label=np.array(rows, dtype=np.int32),
        own_confidence=np.full(len(rows), 0.5, dtype=np.float32),
        reasons={place: "broken" for place, row in enumerate(rows) if row in bad},
    )  # fmt: skip
    return np.array(rows), answers


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write(*_part([4, 5, 6], bad=(5,)))
    store.write(*_part([0, 1]))
    found = store.read()
    assert found.scored.tolist() == [True, True, False, False, True, False, True, False, False, False]
    assert found.reasons == {5: "broken"}
    assert found.scores[6].tolist() == [6.0, -np.inf, np.float32(6 / 7)]
    assert np.isnan(found.scores[[2, 5]]).all()
    assert found.own_label[[4, 5, 2]].tolist() == [4, -1, -1]
    done, n_errors = store.stored()
    assert done.tolist() == [True, True, False, False, True, True, True, False, False, False]
    assert n_errors == 1


def test_an_answer_outside_the_classes_is_kept_as_one(tmp_path: Path) -> None:
    store, blank = _store(tmp_path), np.full((3, 3), np.nan, dtype=np.float32)
    blank[1] = [0.5, 2.0, 1.0]
    answers = ClassAnswers.from_scores(
        NAME, blank, kind="logits", outside=np.array([True, False, True]), own_label=np.full(3, -1, dtype=np.int32),
        own_confidence=np.full(3, np.nan, dtype=np.float32), reasons={2: "broken"},
    )  # fmt: skip
    store.write(np.array([3, 4, 6]), answers)
    found = store.read()
    assert [State(found.state[row]).name for row in (3, 4, 6, 0)] == ["OUTSIDE", "ANSWERED", "UNREADABLE", "MISSING"]
    assert found.label[[3, 4, 6]].tolist() == [-1, 1, -1]
    assert found.probability is not None
    assert found.probability[3].tolist() == [0.0, 0.0, 0.0], "none of the classes has a share"
    assert np.isnan(found.probability[[0, 6]]).all()
    assert store.stored()[0][[3, 4, 6]].all(), "it is not asked again"
    (path,) = tmp_path.rglob("*.parquet")
    table = pq.read_table(path)
    scores = table.column("scores").combine_chunks()
    assert scores.null_count == 0, "pyarrow before 26 cannot read such lists back"
    if int(pa.__version__.partition(".")[0]) >= 26:
        nulls = pa.FixedSizeListArray.from_arrays(scores.values, 3, mask=pa.array([True, False, True]))
        pq.write_table(table.set_column(table.column_names.index("scores"), "scores", nulls), path)
        again = store.read()  # as earlier versions wrote them
        np.testing.assert_array_equal(again.state, found.state)
        np.testing.assert_array_equal(again.scores, found.scores)


def test_unreadable_frames_are_tried_again_only_on_request(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write(*_part([4, 5, 6], bad=(5,)))
    store.write(*_part([8], bad=(8,)))
    done, n_errors = store.stored(retry_errors=True)
    assert np.flatnonzero(done).tolist() == [4, 6]
    assert n_errors == 0
    store.write(*_part([5]))
    assert store.read().scored[[4, 5, 6]].all()


def test_a_frame_in_two_shards_is_an_error(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write(*_part([0, 1]))
    store.write(*_part([1, 2]))
    with pytest.raises(InvalidFile, match="stored twice"):
        store.read()
    with pytest.raises(InvalidFile, match="stored twice"):
        store.stored()


def test_a_truncated_shard_is_done_again(tmp_path: Path) -> None:
    store = _store(tmp_path)
    path = store.write(*_part([0, 1]))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InvalidFile, match="damaged: its content does not match the digest"):
        store.read()
    assert not store.stored()[0].any()
    assert not path.exists()


def test_a_folder_in_the_place_of_a_shard_is_refused_and_kept(tmp_path: Path) -> None:
    store = _store(tmp_path)
    path = store.write(*_part([0, 1]))
    path.unlink()
    path.mkdir()
    for read in (store.read, store.stored):
        with pytest.raises(InvalidFile, match="a folder, not a file"):
            read()
    assert path.is_dir()


def test_a_shard_with_names_that_are_no_text_is_done_again(tmp_path: Path) -> None:
    store = _store(tmp_path)
    path = store.write(*_part([0, 1]))
    path = path.rename(path.with_name(f"{path.name.partition('.')[0]}.parquet"))  # as before there were digests
    table = pq.read_table(path)
    names = table.column("frame_id").combine_chunks().cast(pa.binary()).to_pylist()
    damaged = pa.array([names[0][:-1] + b"\xff", names[1]]).view(pa.string())
    pq.write_table(table.set_column(table.column_names.index("frame_id"), "frame_id", damaged), path)
    with pytest.raises(InvalidFile, match="not a readable Parquet file"):
        store.read()
    assert not store.stored()[0].any()
    assert not path.exists()


def test_another_key_is_never_mixed_in(tmp_path: Path) -> None:
    first, second = _store(tmp_path, "a"), _store(tmp_path, "b")
    first.write(*_part([0, 1]))
    assert not second.stored()[0].any()
    second.write(*_part([0]))
    assert second.read().scored.sum() == 1
    assert first.read().scored.sum() == 2


def _changed(dataset: Dataset, pixels: dict[int, str]) -> Dataset:
    sha = [pixels.get(row, f"{row:064x}") for row in range(len(dataset.frames))]
    return replace(dataset, frames=replace(dataset.frames, sha256=texts(sha)))


def test_a_frame_that_was_replaced_or_came_is_missing_and_the_others_are_not(tmp_path: Path) -> None:
    before = _changed(DATASET, {})
    keep_frames(tmp_path, before, run=tmp_path)
    _store(tmp_path, dataset=before).write(*_part([*range(10)]))
    replaced = _changed(DATASET, {4: "f" * 64})
    keep_frames(tmp_path, replaced, run=tmp_path)
    after = _store(tmp_path, dataset=replaced)
    assert np.flatnonzero(~after.stored()[0]).tolist() == [4]
    after.write(*_part([4]))
    assert after.read().scored.all()
    assert _store(tmp_path, dataset=before).read().scored.all(), "and back again"
    larger = _changed(strobe.example_dataset(n_videos=3, k=2), {})
    assert np.flatnonzero(~_store(tmp_path, dataset=larger).stored()[0]).tolist() == [10, 11, 12, 13, 14]
    fewer = _changed(strobe.example_dataset(n_videos=1, k=2), {})
    assert _store(tmp_path, dataset=fewer).read().scored.all()


def test_a_second_shard_of_the_same_rows_replaces_nothing(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write(*_part([0, 1, 2, 3], bad=(0, 3)))
    assert store.stored(retry_errors=True)[0][:4].tolist() == [False, True, True, False]
    store.write(*_part([0, 3]))
    assert store.read().scored[:4].all()


def test_boxes_go_there_and_back(tmp_path: Path) -> None:
    store = _store(tmp_path, task=Task.DETECTION)
    boxes = Detections(
        xyxy=np.array([[0.1, 1, 2, 3], [4, 5, 6, 7.25]]), label=np.array([2, 0], dtype=np.int32),
        score=np.array([0.9, 1 / 3]),
    )  # fmt: skip
    nothing = Detections(xyxy=np.zeros((0, 4)), label=np.zeros(0, dtype=np.int32), score=np.zeros(0))
    answers = BoxAnswers.of_frames([boxes, nothing, None], n_classes=3, reasons={2: "broken"})
    store.write(np.array([2, 3, 7]), answers)
    found = store.read()
    assert isinstance(found, BoxAnswers)
    assert found.frame.tolist() == [2, 2]
    assert (found.xyxy == boxes.xyxy).all()
    assert (found.score == boxes.score).all()
    assert found.label.tolist() == [2, 0]
    assert np.flatnonzero(found.scored).tolist() == [2, 3]
    assert found.reasons == {7: "broken"}


def test_names_as_folders() -> None:
    assert plain_name("efficientnet-lite0") == "efficientnet-lite0"
    names = ["timm:a/b", "timm:a-b", "timm-a-b", "../../etc", "x" * 300, "é"]
    assert len({plain_name(name) for name in names}) == len(names)
    assert not any("/" in plain_name(name) or plain_name(name).startswith(".") for name in names)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    with run.predicting(), ThreadPoolExecutor(1) as pool:
        with run.predicting():  # whoever holds it may ask again
            pass
        with pytest.raises(StrobeError, match="another strobe command is writing"):
            pool.submit(run.predicting().__enter__).result()
    with run.predicting():
        pass
    assert not run.path.exists(), "nothing came of it"


def test_models_of_a_run(tmp_path: Path) -> None:
    spec = {"kind": "", "label_space": {}}
    _store(tmp_path).describe(dict.fromkeys(KEY_FACTS, "") | {"label_space": "", "spec": spec})
    assert shard_models(tmp_path) == [NAME]
    assert shard_models(tmp_path / "nothing") == []


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"childless": 2}, "childless"),
        ({"childless": "2"}, "childless"),
        ({"childless": [None]}, "childless"),
        ({"spec": 2}, "spec"),
        ({"spec": {"kind": "", "label_space": "coco-80"}}, "spec"),
        ({"spec": {"label_space": {}}}, "spec"),
    ],
)
def test_facts_of_another_type_are_refused(tmp_path: Path, changed: dict[str, Any], where: str) -> None:
    facts = dict.fromkeys(KEY_FACTS, "") | {"label_space": "", "spec": {"kind": "", "label_space": {}}}
    store = _store(tmp_path)
    store.describe(facts | {"childless": ["cat"]})
    assert shard_models(tmp_path) == [NAME]
    store.describe(facts | changed)
    with pytest.raises(InvalidFile, match=rf"model\.json: {where}.*expected .*; remove it and run predict again"):
        shard_models(tmp_path)


def test_an_earlier_checkpoint_is_kept_and_said(tmp_path: Path) -> None:
    first, second = _store(tmp_path, "a"), _store(tmp_path, "b")
    assert first.describe({"weights": "a"}) is None
    first.write(*_part([0, 1]))
    assert second.describe({"weights": "b"}) == (
        "its weights changed; the predictions of the earlier checkpoint (weights a) are kept"
    )
    kept = first.folder / f"model-{first.key}.json"
    assert read_json(kept)["weights"] == "a"
    line = first.describe({"weights": "a"})
    assert line is not None
    assert "(weights b)" in line
    assert not kept.exists(), "it is back"
    line = first.describe({"weights": "a", "preprocessing": {"plugin_files": "c"}})
    assert line is not None
    assert line.startswith("its preprocessing or a file it reads changed; ")
    assert first.stored()[0].sum() == 2


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2), min_size=1), st.data())
def test_the_key_changes_with_every_fact(facts: dict[str, int], data: st.DataObject) -> None:
    changed = dict(facts)
    name = data.draw(st.sampled_from(sorted(facts)))
    changed[name] += 1
    assert prediction_key(changed) != prediction_key(facts)
    assert prediction_key(dict(reversed(list(facts.items())))) == prediction_key(facts)
