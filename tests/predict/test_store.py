"""The prediction store: whole shards, each frame once, nothing mixed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.records import Detections
from strobe.predict.parts import Part
from strobe.predict.store import ModelStore, folder_of, lock, models_of, prediction_key

IDS = [f"v:{row}" for row in range(10)]


def _store(run: Path, key: str = "a" * 16, task: str = "classification") -> ModelStore:
    return ModelStore(run, "timm:some/model", key=key, frame_ids=IDS, task=task, n_classes=3)


def _part(rows: list[int], *, bad: tuple[int, ...] = ()) -> Part:
    scores = np.array([[row, -np.inf, row / 7] for row in rows], dtype=np.float32)
    scores[[row in bad for row in rows]] = np.nan
    return Part(
        row=np.array(rows), error=tuple("broken" if row in bad else None for row in rows), scores=scores,
        raw_label=np.array(rows, dtype=np.int32), raw_confidence=np.full(len(rows), 0.5, dtype=np.float32),
    )  # fmt: skip


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write(_part([4, 5, 6], bad=(5,)))
    store.write(_part([0, 1]))
    found = store.read()
    assert found.seen.tolist() == [True, True, False, False, True, False, True, False, False, False]
    assert found.error == {5: "broken"}
    assert found.scores is not None
    assert found.scores[6].tolist() == [6.0, -np.inf, np.float32(6 / 7)]
    assert np.isnan(found.scores[[2, 5]]).all()
    assert found.raw_label is not None
    assert found.raw_label[[4, 5, 2]].tolist() == [4, -1, -1]
    done, n_errors = store.stored()
    assert done.tolist() == [True, True, False, False, True, True, True, False, False, False]
    assert n_errors == 1


def test_unreadable_frames_are_tried_again_only_on_request(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write(_part([4, 5, 6], bad=(5,)))
    store.write(_part([8], bad=(8,)))
    done, n_errors = store.stored(retry_errors=True)
    assert np.flatnonzero(done).tolist() == [4, 6]
    assert n_errors == 0
    store.write(_part([5]))
    assert store.read().seen[[4, 5, 6]].all()


def test_a_frame_in_two_shards_is_an_error(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write(_part([0, 1]))
    store.write(_part([1, 2]))
    with pytest.raises(InvalidFile, match="stored twice"):
        store.read()
    with pytest.raises(InvalidFile, match="stored twice"):
        store.stored()


def test_a_truncated_shard_is_done_again(tmp_path: Path) -> None:
    store = _store(tmp_path)
    path = store.write(_part([0, 1]))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InvalidFile, match="not a readable shard"):
        store.read()
    assert not store.stored()[0].any()
    assert not path.exists()


def test_another_key_is_never_mixed_in(tmp_path: Path) -> None:
    first, second = _store(tmp_path, "a" * 16), _store(tmp_path, "b" * 16)
    first.write(_part([0, 1]))
    assert not second.stored()[0].any()
    second.write(_part([0]))
    assert second.read().seen.sum() == 1
    assert first.read().seen.sum() == 2


def test_frames_of_another_dataset_are_an_error(tmp_path: Path) -> None:
    _store(tmp_path).write(_part([9]))
    other = ModelStore(tmp_path, "timm:some/model", key="a" * 16, frame_ids=IDS[:5], task="classification", n_classes=3)
    with pytest.raises(InvalidFile, match="the dataset does not"):
        other.read()


def test_boxes_go_there_and_back(tmp_path: Path) -> None:
    store = _store(tmp_path, task="detection")
    boxes = Detections(
        xyxy=np.array([[0.1, 1, 2, 3], [4, 5, 6, 7.25]]), label=np.array([2, 0], dtype=np.int32),
        score=np.array([0.9, 1 / 3]),
    )  # fmt: skip
    nothing = Detections(xyxy=np.zeros((0, 4)), label=np.zeros(0, dtype=np.int32), score=np.zeros(0))
    store.write(Part(row=np.array([2, 3, 7]), error=(None, None, "broken"), detections=(boxes, nothing, None)))
    found = store.read()
    assert found.detections is not None
    assert found.detections[2] is not None
    assert (found.detections[2].xyxy == boxes.xyxy).all()
    assert (found.detections[2].score == boxes.score).all()
    assert found.detections[2].label.tolist() == [2, 0]
    assert found.detections[3] is not None
    assert len(found.detections[3]) == 0
    assert found.detections[7] is None
    assert found.error == {7: "broken"}


def test_folders_of_names() -> None:
    run = Path("run")
    assert folder_of(run, "efficientnet-lite0").name == "efficientnet-lite0"
    names = ["timm:a/b", "timm:a-b", "timm-a-b", "../../etc", "x" * 300, "é"]
    folders = {folder_of(run, name) for name in names}
    assert len(folders) == len(names)
    assert all(folder.parent == run / "predictions" for folder in folders)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with lock(tmp_path), pytest.raises(StrobeError, match="another strobe"), lock(tmp_path):
        pass
    with lock(tmp_path):
        pass


def test_models_of_a_run(tmp_path: Path) -> None:
    _store(tmp_path).describe({"weights": "x"})
    assert models_of(tmp_path) == ["timm:some/model"]
    assert models_of(tmp_path / "nothing") == []


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2), min_size=1), st.data())
def test_the_key_changes_with_every_fact(facts: dict[str, int], data: st.DataObject) -> None:
    changed = dict(facts)
    name = data.draw(st.sampled_from(sorted(facts)))
    changed[name] += 1
    assert prediction_key(changed) != prediction_key(facts)
    assert prediction_key(dict(reversed(list(facts.items())))) == prediction_key(facts)
