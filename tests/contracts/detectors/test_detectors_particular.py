"""What is particular to one kind of detector."""

import json
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from made_detectors import THREE, hf_folder, run, torchvision_weights

from strobe.core.errors import ModelFailed, StrobeError
from strobe.core.labels import LabelSpace, space
from strobe.models.options import LoadOptions, ModelName


def test_the_first_forward_runs_alone():
    from strobe.models.detectors.torch_detector import TorchDetector, detector_spec

    class Counting(TorchDetector):
        """How many forwards are under way, as the first one saw it."""

        cuda_lanes, under_way = 4, 0
        seen: list[int]

        def _same_size(self, prepared):
            self.under_way += 1
            if self.under_way == 1 and not self.seen:
                time.sleep(0.05)  # time enough for the others to come in
            self.seen.append(self.under_way)
            return [None] * len(prepared)

    import torch

    spec = detector_spec(
        ModelName("test", "m"), label_space=THREE, weights="0" * 64, preprocessing={"size": 1}, batch_size=1
    )
    made = Counting(torch.nn.Identity(), spec, device="cpu")
    made.seen, start, image = [], threading.Barrier(4), np.zeros((2, 2, 3), dtype=np.uint8)

    def lane(_):
        start.wait()
        return made.forward([image])

    with ThreadPoolExecutor(4) as lanes:
        list(lanes.map(lane, range(4)))
    assert made.seen[0] == 1
    assert len(made.seen) == 4
    assert made.lanes == 1  # on a CPU


def test_a_plugin_that_answers_wrongly_is_named(images):
    from strobe.models.detectors.py import detector as wrap

    for answer, message in (
        ([], "0 answers for 1 images"),
        ([([[0, 0, 1, 1]], [5], [0.5])], "labels outside 0–1"),
        ([([[0, 0, 1, 1]], [0, 1], [0.5])], "expected xyxy"),
        ([(np.zeros((4, 3)), [0, 1, 1], [0.5, 0.4, 0.3])], r"got \(4, 3\), \(3,\) and \(3,\)"),
    ):
        with pytest.raises(ModelFailed, match=message):
            run(wrap(lambda _, answer=answer: answer, ["a", "b"], name="m"), images[:1])


def test_torchvision_classes_come_from_the_weights(tmp_path):
    from strobe.models.detectors.torchvision import load

    path = torchvision_weights(tmp_path, "ssdlite320_mobilenet_v3_large", 4)
    model = ModelName("torchvision", "ssdlite320_mobilenet_v3_large", path)
    found = load(model, LoadOptions(device="cpu", label_space=THREE))
    assert found.spec.label_space.ids == ("background", *THREE.ids)
    with pytest.raises(StrobeError, match="4 classes have no names and the dataset has 1 classes"):
        load(model, LoadOptions(device="cpu", label_space=LabelSpace.of_names("one", ["a"])))
    with pytest.raises(StrobeError, match="remove --image-size"):
        load(model, LoadOptions(device="cpu", label_space=THREE, image_size=64))
    with pytest.raises(StrobeError, match="did you mean"):
        load(ModelName("torchvision", "ssdlite320_mobilenet_v2_large", path), LoadOptions(device="cpu"))
    random = load(ModelName("torchvision", model.name), LoadOptions(device="cpu", pretrained=False))
    assert random.spec.label_space is space("coco-91")
    assert random.spec.weights != found.spec.weights


def test_torchvision_weights_are_not_fetched_offline(tmp_path, monkeypatch):
    from strobe.models.detectors.torchvision import load

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(StrobeError, match="--offline forbids"):
        load(ModelName("torchvision", "ssd300_vgg16"), LoadOptions(device="cpu", offline=True))


def test_transformers_folder_that_is_no_detector(tmp_path):
    import transformers as tf

    from strobe.models.detectors.hf import load

    small = {"embedding_size": 8, "hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1]}
    tf.ResNetForImageClassification(tf.ResNetConfig(**small)).save_pretrained(tmp_path / "c")
    with pytest.raises(StrobeError, match="not an object detection model"):
        load(ModelName("hf", str(tmp_path / "c")), LoadOptions(device="cpu", offline=True))


def test_names_of_coco_are_known_in_their_spellings():
    from strobe.models.detectors.spaces import detector_space

    names = list(space("coco-80").names)
    names[4], names[57] = "aeroplane", "sofa"
    assert detector_space("m", 80, names=names) is space("coco-80")
    wide = ["N/A" if name.startswith(("unused", "background")) else name for name in space("coco-91").ids]
    assert detector_space("m", 91, names=wide) is space("coco-91")
    assert detector_space("m", 2, names=["a", "a"]).ids == ("a", "a (1)")
    assert detector_space("m", 20, names=list(space("voc").names)) is space("voc")
    assert detector_space("m", 21, background=True).ids[1] == "aeroplane"


def test_ultralytics_pickles_need_trust(tmp_path):
    from strobe.models.detectors.ultralytics import load

    file = tmp_path / "m.pt"
    file.write_bytes(b"x")
    with pytest.raises(StrobeError, match="pass --trust"):
        load(ModelName("ultralytics", str(file)), LoadOptions(device="cpu"))
    with pytest.raises(StrobeError, match="--offline forbids"):
        load(ModelName("ultralytics", "yolo11n.pt"), LoadOptions(device="cpu", offline=True))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "size"), [("detr", (64, 96)), ("rtdetr", (64, 64))])
def test_a_real_detr_and_its_onnx_export_agree(tmp_path, kind, size):
    """The same weights through transformers and through torch's export and our decoder give the same boxes."""
    import torch

    from strobe.models.registry import load_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = load_model(f"hf:{hf_folder(tmp_path, kind)}", LoadOptions(device="cpu", offline=True))

        class Outputs(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = real._module

            def forward(self, pixel_values):
                found = self.inner(pixel_values=pixel_values)
                return found.logits, found.pred_boxes

        path = tmp_path / f"{kind}.onnx"
        torch.onnx.export(
            Outputs().eval(), (torch.zeros(1, 3, *size),), str(path), input_names=["pixel_values"],
            output_names=["logits", "pred_boxes"], dynamo=False, opset_version=17,
        )  # fmt: skip
    path.with_suffix(".json").write_text(
        json.dumps({"task": "detection", "layout": kind, "labels": list(THREE.names), "score_threshold": 0})
    )
    exported = load_model(f"onnx:{path}", LoadOptions())
    image = np.random.default_rng(5).integers(0, 256, (*size, 3), dtype=np.uint8)
    ours = run(exported, [image])[0]
    # transformers' own reading of the exported file's outputs: the reference for our decoder.
    pixels = exported.pixels_of([exported.prepare(image)[0]])
    logits, boxes = (torch.from_numpy(one) for one in exported._session.run(None, {"pixel_values": pixels}))
    outputs = SimpleNamespace(logits=logits, pred_boxes=boxes)
    theirs = real._processor.post_process_object_detection(outputs, threshold=0.0, target_sizes=[size])[0]
    n = len(theirs["scores"])
    assert n >= 9
    order = np.argsort(-theirs["scores"].numpy(), kind="stable")
    np.testing.assert_allclose(ours.score[:n], theirs["scores"].numpy()[order], atol=1e-6)
    for place in order[:6]:
        box = theirs["boxes"][place].numpy().clip(0, [size[1], size[0]] * 2)
        off = np.abs(ours.xyxy - box).max(axis=1) + (ours.label != int(theirs["labels"][place])) * 1e6
        assert off.min() < 1e-3
    if kind == "detr":  # torch's exporter changes RT-DETR's own arithmetic a little; DETR agrees all the way
        np.testing.assert_allclose(run(real, [image])[0].score, ours.score[:n], atol=1e-5)
