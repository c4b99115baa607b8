"""Two models together, with the bundled ones on the rendered world: equal to what is done by hand, and run once."""

import json
import pickle
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.core.answers import Answers, BoxAnswers, ClassAnswers, State
from strobe.core.crops import cut_of, fitted
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.ports import Classifier, SendableSource, Silent
from strobe.engine.decode_pool import DecodePool
from strobe.engine.engine import PredictOutcome
from strobe.engine.forward import Shard
from strobe.engine.running import Running
from strobe.engine.views import Crops
from strobe.engine.worker import EngineOptions
from strobe.engine.worker_specs import SpecWorker, worker_spec
from strobe.models.detectors.tiny import GraphDetector
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.store import dataset_folder as folder
from strobe.store.opening import frame_source
from strobe.store.run_folder import Run
from strobe.synthetic.sets import SyntheticOptions
from strobe.synthetic.world import WorldOptions
from strobe.workflows.evaluate import evaluate
from strobe.workflows.predict import predict
from strobe.workflows.score import ScoreRunOptions, score_run
from strobe.workflows.synthesize import synthesize

OPTIONS = Running(device="cpu", shard_size=5)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    path = tmp_path_factory.mktemp("views") / "world"
    return synthesize(path, SyntheticOptions(world=WorldOptions(size=64, frames=3), videos=4, seed=5)).dataset


def ran(dataset: Dataset, models: Sequence[str], run: Path, say: Any = None) -> list[PredictOutcome]:
    return predict(dataset, models, run, OPTIONS, say or Silent())


def held(dataset: Dataset, run: Path, name: str) -> Answers:
    return Run(run).models(dataset, only=[name])[0].load()


def classes(dataset: Dataset, run: Path, name: str) -> ClassAnswers:
    found = held(dataset, run, name)
    assert isinstance(found, ClassAnswers)
    return found


@pytest.fixture
def forwards(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames each forward of a detector got."""
    seen: list[int] = []
    whole = GraphDetector.forward

    def counted(self: GraphDetector, prepared: Sequence[Any]) -> Any:
        seen.append(len(prepared))
        return whole(self, prepared)

    monkeypatch.setattr(GraphDetector, "forward", counted)
    return seen


def test_classes_from_boxes_equal_what_is_worked_out_from_the_stored_ones(
    world: Dataset, tmp_path: Path, forwards: list[int]
) -> None:
    n = len(np.unique(world.sets.frame))
    views = ["boxes:strobe-tiny", "boxes-sum:strobe-tiny", "boxes-noisyor:strobe-tiny", "boxes-all:strobe-tiny"]
    found = ran(world, views, tmp_path / "run")
    assert [(one.ok, one.outcome.n_new) for one in found if one.outcome] == [(True, n)] * 4
    assert sum(forwards) == n, "the detector saw each frame once, for all of them"
    boxes = held(world, tmp_path / "run", "strobe-tiny")
    assert isinstance(boxes, BoxAnswers)
    merge = {
        "boxes:": max, "boxes-all:": max, "boxes-sum:": sum,
        "boxes-noisyor:": lambda scores: 1 - np.prod([1 - score for score in scores]),
    }  # fmt: skip
    for head, put_together in merge.items():
        answers = classes(world, tmp_path / "run", f"{head}strobe-tiny")
        for row in range(n):
            mine: dict[int, list[float]] = {}
            for label, score in zip(boxes.label[boxes.frame == row], boxes.score[boxes.frame == row], strict=True):
                mine.setdefault(int(label), []).append(float(score))
            best = {label: put_together(scores) for label, scores in mine.items()}
            assert answers.label[row] == (max(sorted(best), key=lambda one: best[one]) if best else -1)
    assert classes(world, tmp_path / "run", "boxes:strobe-tiny").label.tolist() == boxes.as_classes().label.tolist()

    again = ran(world, [*views, "strobe-tiny", "crop:strobe-tiny:strobe-world"], tmp_path / "run")
    assert sum(forwards) == n, "stored boxes are used: no second run"
    assert [one.outcome.n_new for one in again if one.outcome] == [0, 0, 0, 0, 0, n]


def test_a_detector_run_for_a_view_alone_is_no_model_of_the_results(world: Dataset, tmp_path: Path) -> None:
    assert world.root is not None
    request = ScoreRunOptions()
    done = evaluate(
        world.root, ["mine=boxes:strobe-tiny"], tmp_path / "run", prediction=OPTIONS, request=request,
        progress=Silent(), with_report=False,
    )  # fmt: skip
    assert list(done.results.models) == ["mine"]
    coverage = done.results.models["mine"].coverage  # type: ignore[union-attr]
    assert coverage is not None
    assert coverage.n == len(world.sets.frame)
    assert list(score_run(tmp_path / "run", request, Silent()).results.models) == ["mine"]
    ran(world, ["strobe-tiny"], tmp_path / "run")
    ran(world, ["boxes-sum:strobe-tiny"], tmp_path / "run")
    names = [one.name for one in Run(tmp_path / "run").models(world)]
    assert names == ["boxes-sum:strobe-tiny", "mine", "strobe-tiny"], "asked for itself, it stays one"


def test_a_detector_beside_its_view_needs_no_boxes_to_be_held_against(world: Dataset, tmp_path: Path) -> None:
    assert world.root is not None
    bare = replace(folder.read(world.root), boxes=None)
    shutil.copytree(world.root, tmp_path / "bare")
    folder.write(bare, tmp_path / "bare", overwrite=True)
    models, run = ["strobe-tiny", "boxes:strobe-tiny"], tmp_path / "run"
    done = evaluate(
        tmp_path / "bare",
        models,
        run,
        prediction=OPTIONS,
        request=ScoreRunOptions(),
        progress=Silent(),
        with_report=False,
    )
    again = score_run(run, ScoreRunOptions(), Silent())
    for one in (done, again):
        assert list(one.results.models) == ["boxes:strobe-tiny"]
        (line,) = one.left_out
        assert line.startswith("strobe-tiny: detection cannot be scored: ")
    with pytest.raises(StrobeError, match="detection cannot be scored: the dataset has no boxes"):
        score_run(run, ScoreRunOptions(models=("strobe-tiny",)), Silent())


@pytest.mark.parametrize(("context", "fit"), [(1.0, "squash"), (1.5, "pad")])
def test_crops_equal_cutting_by_hand(world: Dataset, tmp_path: Path, context: float, fit: str) -> None:
    spec = f"crop:truth,context={context},fit={fit}:strobe-world"
    assert all(one.ok for one in ran(world, [spec], tmp_path / "run"))
    answers, source = classes(world, tmp_path / "run", spec), frame_source(world)
    model = load_model("strobe-world", LoadOptions(device="cpu"))
    assert isinstance(model, Classifier)
    assert world.boxes is not None
    for row in range(len(world.frames)):
        image, right = source.read(row), world.labels_of(row)
        mine = [box for box in world.boxes.of_frame(row) if box.label in right]
        largest = max(mine, key=lambda box: (box.xyxy[2] - box.xyxy[0]) * (box.xyxy[3] - box.xyxy[1]))
        at = cut_of(largest.xyxy, (image.shape[1], image.shape[0]), context=context)
        assert at is not None
        crop = fitted(image[at[1] : at[3], at[0] : at[2]], fit)
        by_hand = model.forward([model.prepare_input(crop)])[0]
        assert answers.scores is not None
        np.testing.assert_allclose(answers.scores[row], by_hand, rtol=1e-4, atol=1e-4)


def test_answers_of_other_crops_are_never_taken_for_these(world: Dataset, tmp_path: Path) -> None:
    run, n = tmp_path / "run", len(world.frames)
    whole = ran(world, ["m=strobe-world"], run)[0].outcome
    tight = ran(world, ["m=crop:truth:strobe-world"], run)[0].outcome
    first = classes(world, run, "m").scores
    wide = ran(world, ["m=crop:truth,context=2:strobe-world"], run)[0].outcome
    other = classes(world, run, "m").scores
    back = ran(world, ["m=crop:truth,context=1:strobe-world"], run)[0].outcome
    assert [one.n_new for one in (whole, tight, wide, back) if one] == [n, n, n, 0]
    assert not np.array_equal(first, other)  # type: ignore[arg-type]
    np.testing.assert_array_equal(classes(world, run, "m").scores, first)  # type: ignore[arg-type]
    moved = replace(world, boxes=replace(world.boxes, xyxy=world.boxes.xyxy + 1.0))  # type: ignore[union-attr,type-var]
    assert ran(moved, ["m=crop:truth:strobe-world"], run)[0].outcome.n_new == n, "other boxes, other answers"  # type: ignore[union-attr]

    shards = sorted((run / "predictions" / "m").glob("*.parquet"))
    before = classes(moved, run, "m").scores
    key = json.loads((run / "predictions" / "m" / "model.json").read_text())["key"]
    next(path for path in shards if path.name.startswith(key)).unlink()  # what a kill would have left undone
    assert ran(moved, ["m=crop:truth:strobe-world"], run)[0].outcome.n_new == 5  # type: ignore[union-attr]
    np.testing.assert_array_equal(classes(moved, run, "m").scores, before)  # type: ignore[arg-type]


def brought(dataset: Dataset, path: Path, boxes: Mapping[int, tuple[list[float], float]]) -> Path:
    """A file of boxes by row: corners and score, each of the frame's own class."""
    rows = [
        {"frame": str(dataset.frames.key[row]), "label": dataset.labels_of(row)[0], "xyxy": xyxy, "score": score}
        for row, (xyxy, score) in boxes.items()
    ]
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"{axis}": [one["xyxy"][place] for one in rows] for place, axis in enumerate(("x0", "y0", "x1", "y1"))}
    plain = {key: [one[key] for one in rows] for key in ("frame", "label", "score")}
    pq.write_table(pa.table({**plain, **columns}), path)
    return path


def test_frames_without_a_box_are_outside_or_whole_and_said(world: Dataset, tmp_path: Path, heard: Any) -> None:
    assert world.root is not None
    n = len(world.frames)
    odd = {0: [-30.0, -30.0, -2.0, 20.0], 1: [5.0, 5.0, 6.0, 6.0]}  # beside the image, and a pixel
    boxes = {row: (odd.get(row, [4.0, 4.0, 60.0, 60.0]), 0.9) for row in range(n) if row != 2}  # and none at all
    file = brought(world, tmp_path / "boxes.parquet", boxes)
    run = tmp_path / "run"
    models = [
        f"det=preds:{file}", "boxes:det", "crop:det,without=outside:strobe-world", "crop:det:strobe-world",
        "plain=strobe-world",
    ]  # fmt: skip
    done = evaluate(
        world.root, models, run, prediction=OPTIONS, request=ScoreRunOptions(absent="empty"), progress=heard,
        with_report=False,
    )  # fmt: skip
    assert not done.failed
    derived = classes(world, run, "boxes:det")
    assert np.flatnonzero(derived.state == State.OUTSIDE).tolist() == [2], "a box is a box for the class it names"
    cut = classes(world, run, "crop:det,without=outside:strobe-world")
    assert np.flatnonzero(cut.state == State.OUTSIDE).tolist() == [0, 1, 2]
    whole, plain = classes(world, run, "crop:det:strobe-world"), classes(world, run, "plain")
    assert (whole.state == State.ANSWERED).all()
    np.testing.assert_allclose(whole.scores[:3], plain.scores[:3], atol=1e-4)  # type: ignore[index]
    assert f"boxes:det: from the boxes of det; {n - 1} of {n} frames have a box of the dataset's classes; each" in (
        " ".join(heard.lines)
    )
    some = f"without=whole: {n - 3} of {n} frames have a box of 8 pixels or more; each of the others is used uncropped"
    assert some in " ".join(heard.lines)


NOWHERE = """
import numpy as np
from strobe.models.detectors.py import detector

def none():
    def found(images):
        return [(np.zeros((0, 4)), np.zeros(0, int), np.zeros(0)) for image in images]
    return detector(found, ["gizmo", "gadget"], name="none")

def gizmo():
    def found(images):
        return [(np.array([[8.0, 8.0, 50.0, 50.0]]), np.array([1]), np.array([0.7])) for image in images]
    return detector(found, ["gizmo", "gadget"], name="gizmo")
"""


def test_boxes_of_classes_the_dataset_lacks_are_kept_for_crops(world: Dataset, tmp_path: Path, heard: Any) -> None:
    (tmp_path / "found.py").write_text(NOWHERE)
    gadget, none, run = f"py:{tmp_path}/found.py:gizmo", f"py:{tmp_path}/found.py:none", tmp_path / "run"
    models = [f"crop:{gadget},context=1:strobe-world", f"boxes:{gadget}", f"boxes-all:{gadget}", f"boxes:{none}"]
    found = ran(world, [*models, f"crop:{none},without=outside:strobe-world"], run, heard)
    assert all(one.ok for one in found), [one.error for one in found]
    kept = Run(run).models(world, only=[gadget])[0]
    every = kept.load(every_box=True)
    assert isinstance(every, BoxAnswers)
    assert (len(every), set(every.label.tolist())) == (len(world.frames), {-2})
    assert len(kept.load()) == 0, "what is scored has the dataset's classes alone"  # type: ignore[arg-type]
    for name in models[1:]:
        assert (classes(world, run, name).state == State.OUTSIDE).all()
    crop, source = classes(world, run, models[0]), frame_source(world)
    model = load_model("strobe-world", LoadOptions(device="cpu"))
    by_hand = model.forward([model.prepare_input(source.read(0)[8:50, 8:50])])[0]  # type: ignore[union-attr]
    np.testing.assert_allclose(crop.scores[0], by_hand, rtol=1e-4, atol=1e-4)  # type: ignore[index]
    said = [line for line in heard.lines if "NONE of" in line]
    nothing = f"NONE of {len(world.frames)} frames has a box"
    assert (
        sum(f"{nothing} of 8 pixels or more; each counts as an answer outside the classes" in line for line in said)
        == 1
    )
    assert sum(f"{nothing} of the dataset's classes; each counts as an answer outside" in line for line in said) == 2


def test_what_cannot_be_done_is_one_line(world: Dataset, tmp_path: Path) -> None:
    without = replace(world, boxes=None)
    cases = [
        (without, "crop:truth:strobe-world", "has no boxes for crop:truth; use a detector"),
        (world, "boxes:strobe-world", "its detector strobe-world: it is not a detector, so it has no boxes to use"),
        (world, "crop:strobe-world:strobe-world", "its detector strobe-world: it is not a detector"),
        (world, "crop:truth:strobe-tiny", "crop: only works with classifiers, and strobe-tiny is a detector"),
        (
            world,
            "boxes:strobe-tinny",
            "its detector strobe-tinny: unknown model 'strobe-tinny'; did you mean strobe-tiny",
        ),
        (world, "crop:thruth:strobe-world", "did you mean truth, the dataset's own boxes?"),
    ]
    for dataset, spec, said in cases:
        one = ran(dataset, [spec], tmp_path / "run")[0]
        assert not one.ok
        assert said in (one.error or ""), spec
    assert not (tmp_path / "run").exists(), "nothing came of it, so nothing is left"


def test_crops_are_plain_data_that_other_processes_read(world: Dataset) -> None:
    source = frame_source(world)
    assert isinstance(source, SendableSource)
    boxes = np.full((len(world.frames), 4), np.nan)
    boxes[1] = [10, 12, 40, 30]
    crops = Crops(boxes=boxes, context=1.0, fit="pad")
    cut = crops.of(source)
    assert isinstance(cut, SendableSource)
    sent = pickle.loads(pickle.dumps(cut.only([1, 3])))
    assert sent.read(1).shape == (30, 30, 3)
    np.testing.assert_array_equal(sent.read(1), cut.read(1))
    np.testing.assert_array_equal(sent.read(3), source.read(3))
    assert (cut.read_encoded(1), cut.read_encoded(3)) == (None, None), "no device decodes what is no file"
    ids = world.frame_ids()
    other = [replace(crops, context=1.1), replace(crops, fit="squash"), replace(crops, boxes=boxes + 1)]
    assert len({one.digest(ids) for one in [crops, *other]}) == 4

    model = load_model("strobe-world", LoadOptions(device="cpu"))
    by_hand = [model.prepare_input(cut.read(row)) for row in (1, 3)]
    assert model.preparation is not None
    pool = DecodePool(cut, {"c": model.preparation}, processes=1, chunk=2)
    try:
        elsewhere = pool.read([1, 3], [["c"], ["c"]], frozenset([1, 3]))
    finally:
        pool.close()
    for (found,), mine in zip(elsewhere, by_hand, strict=True):  # type: ignore[misc]
        np.testing.assert_array_equal(found, mine)

    recipe = worker_spec(
        world, {"c": "strobe-world"}, LoadOptions(device="cpu"), merge="max", crops=crops,
        engine=EngineOptions(threads=1),
    )  # fmt: skip
    worker = SpecWorker(pickle.loads(pickle.dumps(recipe)))
    _, answers = worker(Shard(rows=np.array([1, 3]), needed={"c": np.array([1, 3])})).parts["c"]
    worker.close()
    np.testing.assert_allclose(answers.scores, model.forward(by_hand), rtol=1e-4, atol=1e-4)  # type: ignore[union-attr,arg-type]
