"""One contract for every detector: real library code, weights made and saved here."""

import json
import pickle
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from strobe.core.errors import ModelFailed, StrobeError
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Detector
from strobe.core.records import ModelSpec
from strobe.models.detectors.boxes import detections
from strobe.models.options import LoadOptions, ModelName

THREE = LabelSpace.of_names("three", ["red", "green", "blue"])


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def torchvision_weights(folder, architecture, n_classes):
    """Random weights whose class scores differ enough for boxes to come out, as safetensors."""
    import torch
    from safetensors.torch import save_file
    from torchvision.models import get_model

    torch.manual_seed(1)
    state = get_model(architecture, weights=None, weights_backbone=None, num_classes=n_classes).state_dict()
    for key in state:
        if ("cls_score" in key or "cls_logits" in key) and key.endswith("weight"):
            state[key] = torch.randn_like(state[key])
        elif "cls_logits" in key:
            state[key] = torch.zeros_like(state[key])
    path = folder / f"{architecture}.safetensors"
    save_file({key: value.contiguous() for key, value in state.items()}, str(path))
    return path


def torchvision_detector(architecture, n_classes, size=None):
    def make(folder, real):
        from strobe.models.registry import load_model

        path = torchvision_weights(folder, architecture, n_classes)
        options = LoadOptions(device="cpu", label_space=THREE, image_size=size)
        return load_model(f"torchvision:{architecture}@{path}", options)

    return make


def hf_folder(folder, kind):
    """A small DETR or RT-DETR with random weights, saved as transformers saves them."""
    import torch
    import transformers as tf

    torch.manual_seed(2)
    names = {0: "red", 1: "green", 2: "blue"}
    common = {"id2label": names, "label2id": {name: place for place, name in names.items()}}
    if kind == "detr":
        config = tf.DetrConfig(
            use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
            backbone_config=tf.ResNetConfig(
                embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], layer_type="basic",
                out_features=["stage4"],
            ),
            d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16, decoder_ffn_dim=16,
            encoder_attention_heads=2, decoder_attention_heads=2, num_queries=9, **common,
        )  # fmt: skip
        model = tf.DetrForObjectDetection(config)
        processor = tf.DetrImageProcessor(size={"shortest_edge": 64, "longest_edge": 96})
    else:
        config = tf.RTDetrConfig(
            backbone_config=tf.RTDetrResNetConfig(
                embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
                out_features=["stage2", "stage3", "stage4"],
            ),
            use_pretrained_backbone=False, encoder_hidden_dim=16, encoder_in_channels=[16, 16, 16],
            feat_strides=[8, 16, 32],
            encoder_ffn_dim=16, encoder_attention_heads=2, d_model=16, num_queries=11, decoder_in_channels=[16, 16, 16],
            decoder_ffn_dim=16, decoder_layers=1, decoder_attention_heads=2, num_denoising=0, **common,
        )  # fmt: skip
        model = tf.RTDetrForObjectDetection(config)
        processor = tf.RTDetrImageProcessor(size={"height": 64, "width": 64})
    model.save_pretrained(folder / kind)
    processor.save_pretrained(folder / kind)
    return folder / kind


def hf_detector(kind):
    def make(folder, real):
        from strobe.models.registry import load_model

        return load_model(f"hf:{hf_folder(folder, kind)}", LoadOptions(device="cpu", offline=True))

    return make


def onnx_detector(folder, real):
    from strobe.models.registry import load_model

    path = real.export(folder / "m.onnx", "yolov8", settings={"task": "detection", "labels": list(THREE.names)})
    return load_model(f"onnx:{path}", LoadOptions())


PLUGIN = '''
import numpy as np
from strobe.models.detectors.py import detector

def find(images):
    """The bright rectangle."""
    out = []
    for image in images:
        rows, columns = np.nonzero(image.max(axis=2) > 200)
        if len(rows):
            box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            out.append(([box, [0, 0, 1, 1]], [0, 2], [0.7, 0.9]))
        else:
            out.append((np.zeros((0, 4)), [], []))
    return out

def make():
    return detector(find, ["red", "green", "blue"], name="bright")
'''


def py_detector(folder, real):
    from strobe.models.registry import load_model

    (folder / "mine.py").write_text(PLUGIN)
    return load_model(f"py:{folder / 'mine.py'}:make", LoadOptions(device="cpu"))


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
    "hf-detr": hf_detector("detr"),
    "hf-rtdetr": hf_detector("rtdetr"),
    "onnx": onnx_detector,
    "py": py_detector,
    "strobe-tiny": tiny_detector,
    "ultralytics": ultralytics_detector,
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


@pytest.fixture(scope="module")
def images(real):
    """Two of one size and one of another, with something to see."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (60, 90, 3), dtype=np.uint8)
    return [real.scene(90, 60, (20, 10, 70, 50)), noise, real.scene(50, 80, (5, 30, 45, 70), colour=(40, 255, 40))]


def run(detector, images):
    return detector.forward([detector.prepare(image) for image in images])


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
        np.testing.assert_allclose(a.score, b.score, atol=1e-4)
        clear = np.abs(np.diff(a.score, prepend=2, append=-1)).min(initial=1)
        if clear > 1e-3:  # with near-ties, batch rounding may swap neighbours
            np.testing.assert_allclose(a.xyxy, b.xyxy, atol=0.05)
            assert a.label.tolist() == b.label.tolist()


def test_twice_is_the_same(detector, images):
    for a, b in zip(run(detector, images[:1]), run(detector, images[:1]), strict=True):
        np.testing.assert_array_equal(a.xyxy, b.xyxy)
        np.testing.assert_array_equal(a.score, b.score)


def test_a_blank_image_is_no_error(detector):
    found = run(detector, [np.zeros((40, 40, 3), dtype=np.uint8)])
    assert len(found) == 1


def test_prepared_elsewhere_is_prepared_the_same(detector, images):
    assert detector.device == "cpu"
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


# -- what is particular to one -----------------------------------------------------------------------------------


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
            wanted = detector.module(list(torch.from_numpy(np.stack(one)).permute(0, 3, 1, 2).float() / 255))
        for a, b in zip(run(detector, one), wanted, strict=True):
            own = detections(*(b[key].numpy() for key in ("boxes", "labels", "scores")))
            np.testing.assert_array_equal(a.xyxy, own.xyxy)
            np.testing.assert_array_equal(a.label, own.label)
            np.testing.assert_array_equal(a.score, own.score)
            numbers.append(len(a))
    assert len(set(numbers)) > 1  # so that boxes given to the wrong image would be seen


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


def test_known_boxes_of_the_plugin(tmp_path, real):
    found = run(py_detector(tmp_path, real), [real.scene(90, 60, (20, 10, 70, 50))])[0]
    assert found.xyxy.tolist() == [[0, 0, 1, 1], [20, 10, 70, 50]]
    assert found.score.tolist() == [0.9, 0.7]


def test_a_plugin_that_answers_wrongly_is_named(images):
    from strobe.models.detectors.py import detector as wrap

    for answer, message in (
        ([], "0 answers for 1 images"),
        ([([[0, 0, 1, 1]], [5], [0.5])], "labels outside 0–1"),
        ([([[0, 0, 1, 1]], [0, 1], [0.5])], "expected xyxy"),
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
    with pytest.raises(StrobeError, match="leave --image-size out"):
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
    pixels = exported._input_of([exported.prepare(image)[0]])
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
