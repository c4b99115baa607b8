"""Exported ONNX files of every layout decode to boxes that are known."""

import json

import numpy as np
import pytest

from strobe.core.errors import StrobeError
from strobe.models.detectors import onnx as adapter
from strobe.models.detectors.onnx_layouts import decode, guess_layout
from strobe.models.options import LoadOptions, ModelName

CLASSES = ["red", "green", "blue"]
LAYOUTS = {
    "yolov5": {"labels": CLASSES},
    "yolov8": {"labels": CLASSES},
    "end2end": {"labels": CLASSES},
    "yolox": {"labels": CLASSES, "layout": "yolox"},
    "detr": {"labels": CLASSES},
    "rtdetr": {"labels": CLASSES, "layout": "rtdetr"},
    "ssd": {"labels": CLASSES},
    "tf-yolov5": {"labels": CLASSES, "layout": "yolov5", "box_units": "normalised"},
    "tf-ssd": {"labels": CLASSES, "layout": "ssd", "box_order": "yxyx", "label_offset": 1},
}


def load(path, weights, options):
    return adapter.load(ModelName("onnx", path, weights), options)


@pytest.fixture(scope="module")
def models(real, tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    return {
        layout: real.export(folder / f"{layout}.onnx", layout, settings={"task": "detection", **said})
        for layout, said in LAYOUTS.items()
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_known_boxes_come_back_to_the_pixel(models, real, layout):
    """The input is half the image's size, so edges on even pixels are exact; the class is the colour."""
    detector = load(str(models[layout]), None, LoadOptions())
    box = (40, 20, 120, 90)
    for label, colour in enumerate([(255, 40, 40), (40, 255, 40), (40, 40, 255)]):
        image = real.scene(192, 128, box, colour=colour)
        found = detector.forward([detector.prepare(image)])[0]
        np.testing.assert_allclose(found.xyxy[0], box, atol=1e-3)
        assert found.label[0] == label
        assert found.score[0] > 0.4
        assert detector.spec.label_space.names[found.label[0]] == CLASSES[label]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_odd_sizes_are_letterboxed_and_back(models, real, layout):
    """157 × 311 into 64 × 96: every layout's own way of fitting must be undone."""
    detector = load(str(models[layout]), None, LoadOptions())
    box = (31, 60, 130, 251)
    found = detector.forward([detector.prepare(real.scene(157, 311, box))])[0]
    # Half a pixel of the input at each edge, in pixels of the image; a letterboxed side shrinks by 311/64.
    tolerance = 311 / 64
    np.testing.assert_allclose(found.xyxy[0], box, atol=tolerance)
    assert (found.xyxy >= 0).all()
    assert (found.xyxy[:, [0, 2]] <= 157).all()
    assert (found.xyxy[:, [1, 3]] <= 311).all()


@pytest.mark.parametrize("layout", ["yolov5", "yolov8"])
def test_duplicates_are_suppressed_within_a_class_only(models, real, layout):
    detector = load(str(models[layout]), None, LoadOptions())
    found = detector.forward([detector.prepare(real.scene(96, 64, (20, 10, 70, 50)))])[0]
    # Of the best, its duplicate, another class on the same place and background below the threshold, two stay.
    assert found.label.tolist() == [0, 1]
    np.testing.assert_array_equal(found.xyxy[0], found.xyxy[1])


def test_layouts_are_guessed_from_outputs_alone():
    assert guess_layout([("output0", [1, 84, 8400])]) == "yolov8"
    assert guess_layout([("output0", ["batch", 84, "anchors"])]) == "yolov8"
    assert guess_layout([("output", [1, 25200, 85])]) == "yolov5"
    assert guess_layout([("output0", [1, 300, 6])]) == "end2end"
    assert guess_layout([("logits", [1, 100, 92]), ("pred_boxes", [1, 100, 4])]) == "detr"
    assert guess_layout([("bboxes", [1, 200, 4]), ("labels", [1, 200]), ("scores", [1, 200])]) == "ssd"
    assert guess_layout([("probabilities", [1, 1000])]) is None


def test_the_class_count_names_the_space(real, tmp_path):
    """No JSON at all: 80 classes in a YOLO layout are COCO's, another number must be named or be the dataset's."""
    from strobe.core.labels import LabelSpace

    path = real.export(tmp_path / "three.onnx", "yolov8")
    mine = LabelSpace.of_names("mine", CLASSES)
    assert load(str(path), None, LoadOptions(label_space=mine)).spec.label_space is mine
    with pytest.raises(StrobeError, match="3 classes have no names"):
        load(str(path), None, LoadOptions())


def test_what_is_wrong_is_said_in_one_line(real, tmp_path):
    path = real.export(tmp_path / "m.onnx", "yolov8", settings={"labels": CLASSES, "layuot": "yolov8"})
    settings = path.with_suffix(".json")
    cases = [
        ({"labels": CLASSES, "layuot": "yolov8"}, "unknown setting .* did you mean layout"),
        ({"labels": CLASSES, "layout": "yolov99"}, "cannot infer the layout"),
        ({"labels": 7}, "expected a shipped space or a list of names"),
        ({"labels": "coco-8"}, "unknown label space"),
        ({"labels": CLASSES, "fit": "crop"}, "fit: expected one of letterbox"),
        ({"labels": CLASSES, "mean": 0.5}, "mean: expected three numbers"),
        ({"labels": CLASSES, "layout": "detr"}, "expected outputs named like logits"),
        ({"labels": CLASSES, "layout": "yolox"}, "its output has 15 classes, but 3 labels"),
        ({"labels": [f"thing {n}" for n in range(15)], "layout": "yolox"}, "cells for an input"),
    ]
    for said, message in cases:
        settings.write_text(json.dumps(said))
        with pytest.raises(StrobeError, match=message) as caught:
            run(str(path))
        assert "\n" not in str(caught.value)
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(StrobeError, match="not an ONNX file onnxruntime can run"):
        load(str(tmp_path / "bad.onnx"), None, LoadOptions())
    with pytest.raises(StrobeError, match="no such file"):
        load(str(tmp_path / "none.onnx"), None, LoadOptions())
    with pytest.raises(StrobeError, match="weights are in the file itself"):
        load(str(path), path, LoadOptions())


def run(path):
    """Load and look at one image."""
    detector = load(path, None, LoadOptions())
    return detector.forward([detector.prepare(np.zeros((64, 96, 3), dtype=np.uint8))])


def test_an_export_that_describes_itself_needs_no_json(real, tmp_path):
    """Ultralytics writes the task and the names into the file's metadata."""
    import onnx

    from strobe.models.registry import load_model

    path = real.export(tmp_path / "m.onnx", "yolov8")
    model = onnx.load(path)
    for key, value in (("task", "detect"), ("names", "{0: 'red', 1: 'green', 2: 'blue'}")):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(model, path)
    detector = load_model(f"onnx:{path}", LoadOptions())
    assert detector.spec.task == "detection"
    assert detector.spec.label_space.names == ("red", "green", "blue")


def test_a_detector_of_no_known_layout_is_asked_for_its_layout(real, tmp_path):
    """Outputs `dets` and `labels`, as mmdetection exports them, were told to write a classifier's JSON."""
    import onnx

    from strobe.models.registry import load_model

    path = real.export(tmp_path / "m.onnx", "ssd")
    model = onnx.load(path)
    kept = [output for output in model.graph.output if "score" not in output.name]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    onnx.save(model, path)
    with pytest.raises(
        StrobeError, match=r'set the layout in m.json: \{"task": "detection", "layout": one of'
    ) as error:
        load_model(f"onnx:{path}", LoadOptions())
    assert "mean" not in str(error.value)


def test_boxes_that_all_lie_in_the_corner_are_refused_with_the_likely_cause(models, real, tmp_path):
    """A TensorFlow export of YOLOv5 says 0–1: taken for pixels, its mAP was 0.0 and nothing was said."""
    import shutil

    path = shutil.copy(models["tf-yolov5"], tmp_path / "m.onnx")
    settings = {"task": "detection", "layout": "yolov5", "labels": CLASSES}
    path.with_suffix(".json").write_text(json.dumps(settings))
    unsaid = load(str(path), None, LoadOptions())
    scenes = [real.scene(192, 128, box) for box in ((40, 20, 120, 90), (10, 10, 90, 100))]
    with pytest.raises(StrobeError, match='set "box_units" to "normalised" or "pixels" in its JSON file') as caught:
        unsaid.forward([unsaid.prepare(image) for image in scenes])
    assert "\n" not in str(caught.value)
    one_by_one = load(str(path), None, LoadOptions())
    one_by_one.forward([one_by_one.prepare(scenes[0])])
    with pytest.raises(StrobeError, match="box_units"):
        one_by_one.forward([one_by_one.prepare(scenes[1])])
    path.with_suffix(".json").write_text(json.dumps({**settings, "box_units": "pixels"}))
    sure = load(str(path), None, LoadOptions())
    assert len(sure.forward([sure.prepare(image) for image in scenes])) == 2, "somebody said so"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_units_are_honoured_by_every_layout(models, layout):
    """The same outputs read in both units: one is the other times the input's size."""
    detector = load(str(models[layout]), None, LoadOptions())
    image = np.zeros((64, 96, 3), dtype=np.uint8)
    image[10:40, 20:60, 0] = 255
    pixels, _ = detector.prepare(image)
    arrays = detector._arrays([pixels])
    facts = {"size_hw": (64, 96), "box_order": detector.spec.preprocessing["box_order"], "least": 0.1}
    kind = detector.spec.preprocessing["layout"]
    plain, scaled = (decode(kind, arrays, 0, box_units=unit, **facts) for unit in ("pixels", "normalised"))
    assert len(plain.xyxy)
    np.testing.assert_array_equal(scaled.xyxy, plain.xyxy * np.array([96, 64, 96, 64]))
    assert detector.spec.preprocessing["box_units"] == (
        "normalised" if layout in ("detr", "rtdetr", "ssd", "tf-ssd", "tf-yolov5") else "pixels"
    )
