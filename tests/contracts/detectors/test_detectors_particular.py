"""What is particular to one kind of detector."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from made_detectors import THREE, run, torchvision_weights

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
