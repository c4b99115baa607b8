"""One contract for every detector: real library code, weights made and saved here."""

import json
import pickle
import warnings

import numpy as np
import pytest
from made_cases import of_annexes
from made_detectors import THREE, hf_folder, py_detector, run, timm_weights, torchvision_weights

from strobe.core.ports import Detector, RemoteModel
from strobe.core.records import ModelSpec
from strobe.models.detectors.boxes import detections
from strobe.models.options import LoadOptions, ModelName


def torchvision_detector(architecture, n_classes, size=None):
    def make(folder, real):
        from strobe.models.registry import load_model

        path = torchvision_weights(folder, architecture, n_classes)
        options = LoadOptions(device="cpu", label_space=THREE, image_size=size)
        return load_model(f"torchvision:{architecture}@{path}", options)

    return make


def timm_detector(name, head):
    def make(folder, real):
        from strobe.models.registry import load_model

        return load_model(f"timm:{name}@{timm_weights(folder, name, head)}", LoadOptions(device="cpu"))

    return make


def hf_detector(kind):
    def make(folder, real):
        from strobe.models.registry import load_model

        return load_model(f"hf:{hf_folder(folder, kind)}", LoadOptions(device="cpu", offline=True))

    return make


def onnx_detector(folder, real):
    from strobe.models.registry import load_model

    path = real.export(folder / "m.onnx", "yolov8", settings={"task": "detection", "labels": list(THREE.names)})
    return load_model(f"onnx:{path}", LoadOptions())


def tiny_detector(folder, real):
    from strobe.models.registry import load_model

    return load_model("strobe-tiny", LoadOptions(device="cpu"))


def ultralytics_detector(folder, real):
    pytest.importorskip("ultralytics", reason="an optional extra")
    from strobe.models.detectors.ultralytics import load

    made = load(ModelName("ultralytics", "yolov8n.yaml"), LoadOptions(device="cpu", image_size=64, offline=True))
    for branch in made._model.model.model[-1].cv3:  # random weights start at scores near zero
        branch[-1].bias.data.zero_()
    return made


DETECTORS = {
    "torchvision-fasterrcnn": torchvision_detector("fasterrcnn_mobilenet_v3_large_320_fpn", 4, 96),
    "torchvision-ssdlite": torchvision_detector("ssdlite320_mobilenet_v3_large", 4),
    "torchvision-retinanet": torchvision_detector("retinanet_resnet50_fpn", 3, 96),
    "torchvision-fcos": torchvision_detector("fcos_resnet50_fpn", 3, 96),
    "timm": timm_detector("test_resnet", "retinanet"),
    "timm-faster-rcnn": timm_detector("test_efficientnet", "faster-rcnn"),
    "hf-detr": hf_detector("detr"),
    "hf-rtdetr": hf_detector("rtdetr"),
    "onnx": onnx_detector,
    "py": py_detector,
    "strobe-tiny": tiny_detector,
    "ultralytics": ultralytics_detector,
    **of_annexes("DETECTORS"),
}
SLOW = ("torchvision-retinanet", "torchvision-fcos")


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in DETECTORS],
)
def detector(request, tmp_path_factory, real):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the libraries' own notes while models are built
        return DETECTORS[request.param](tmp_path_factory.mktemp(request.param), real)


def test_it_says_what_it_is(detector):
    assert isinstance(detector, Detector)
    spec = detector.spec
    assert isinstance(spec, ModelSpec)
    assert spec.task == "detection"
    assert len(spec.weights) >= 8
    assert len(spec.label_space) >= 3
    json.dumps(dict(spec.preprocessing), allow_nan=False)
    assert spec.preprocessing


def test_boxes_are_in_the_image_sorted_and_of_known_classes(detector, images):
    found = run(detector, images)
    assert len(found) == 3
    assert sum(len(one) for one in found) > 0  # a detector that finds nothing would pass everything
    for one, image in zip(found, images, strict=True):
        height, width = image.shape[:2]
        assert one.xyxy.dtype == np.float64
        assert (one.xyxy >= -1e-3).all()
        assert (one.xyxy <= np.array([width, height, width, height]) + 1e-3).all()
        assert (one.xyxy[:, 2:] > one.xyxy[:, :2]).all()
        assert (np.diff(one.score) <= 0).all()
        assert ((one.score >= 0) & (one.score <= 1)).all()
        assert ((one.label >= 0) & (one.label < len(detector.spec.label_space))).all()


def test_alone_and_in_a_batch_are_the_same(detector, images):
    together, alone = run(detector, images), [run(detector, [image])[0] for image in images]
    for a, b in zip(together, alone, strict=True):
        assert len(a) == len(b)
        if hasattr(getattr(detector, "module", None), "rpn"):  # rounding would choose other proposals
            np.testing.assert_array_equal(a.score, b.score)
            np.testing.assert_array_equal(a.xyxy, b.xyxy)
        np.testing.assert_allclose(a.score, b.score, atol=1e-4)
        clear = np.abs(np.diff(a.score, prepend=2, append=-1)).min(initial=1)
        if clear > 1e-3:  # with near-ties, batch rounding may swap neighbours
            np.testing.assert_allclose(a.xyxy, b.xyxy, atol=0.05)
            assert a.label.tolist() == b.label.tolist()


def test_a_blank_image_is_no_error(detector):
    found = run(detector, [np.zeros((40, 40, 3), dtype=np.uint8)])
    assert len(found) == 1


def test_prepared_elsewhere_is_prepared_the_same(detector, images):
    assert detector.device == ("remote" if isinstance(detector, RemoteModel) else "cpu")
    assert detector.lanes >= 1
    if detector.preparation is None:
        assert detector.spec.provider == "hf", "only what is no data is not told as data"
        return
    sent = pickle.loads(pickle.dumps(detector.preparation))
    assert sent == detector.preparation
    assert hash(sent) == hash(detector.preparation)
    for image in images:
        theirs, ours = sent.prepare(image), detector.prepare(image)
        (theirs, *beside), (ours, *wanted) = (one if isinstance(one, tuple) else (one,) for one in (theirs, ours))
        np.testing.assert_array_equal(theirs, ours)
        assert theirs.dtype == np.uint8
        assert beside == wanted


def test_a_models_own_input_is_shown_whole(detector, images):
    size = getattr(detector.preparation, "size_hw", None)
    if size is not None:  # one that takes a single size leaves an image of it as it is
        image = np.random.default_rng(4).integers(0, 256, (*size, 3), dtype=np.uint8)
        pixels, placement = detector.prepare_input(image)
        np.testing.assert_array_equal(pixels, image)
        assert (placement.scale_xy, placement.pad_xy) == ((1.0, 1.0), (0, 0))
    found = detector.forward([detector.prepare_input(image) for image in images])
    for one, wanted in zip(found, run(detector, images), strict=True):
        np.testing.assert_array_equal(one.xyxy, wanted.xyxy)


def test_torchvision_boxes_are_the_modules_own(detector, images, monkeypatch):
    import torch

    if "fasterrcnn" not in detector.spec.name:  # random weights of the others find the same in every image
        return
    three, numbers = [images[0], np.zeros_like(images[0]), images[1]], []
    scores = np.concatenate([one.score for one in run(detector, three)])
    monkeypatch.setattr(
        detector.module.roi_heads, "score_thresh", float(np.quantile(scores, 0.8))
    )  # or all have as many
    for one in (three, images[2:]):  # by size: a mixed batch would be padded
        with torch.inference_mode():
            pixels = torch.from_numpy(np.stack(one)).permute(0, 3, 1, 2).float() / 255
            wanted = [detector.module([image])[0] for image in pixels]  # in a batch, rounding chooses other proposals
        for a, b in zip(run(detector, one), wanted, strict=True):
            own = detections(*(b[key].numpy() for key in ("boxes", "labels", "scores")))
            np.testing.assert_array_equal(a.xyxy, own.xyxy)
            np.testing.assert_array_equal(a.label, own.label)
            np.testing.assert_array_equal(a.score, own.score)
            numbers.append(len(a))
    assert len(set(numbers)) > 1  # so that boxes given to the wrong image would be seen
