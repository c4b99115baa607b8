import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as PillowImage
from safetensors.torch import save_file

from strobe.annexes.train.boxes import BoxTrainer, Truth
from strobe.annexes.train.detectors import train_detector
from strobe.annexes.train.grid import BACKGROUND, IGNORED, GridTrainer, Samples, _iou, targets
from strobe.cli.train import command
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.ports import Detector, Silent
from strobe.core.records import Box
from strobe.engine.running import Running
from strobe.models.detectors import tiny
from strobe.models.detectors.tiny_net import INPUT, STRIDE, TinyNet, cell_centres
from strobe.models.options import LoadOptions, ModelName
from strobe.models.registry import load_model
from strobe.synthetic.classes import LABEL_SPACE
from strobe.synthetic.sets import SyntheticOptions, boxes_seen
from strobe.synthetic.world import DETECTION_WORLD, World
from strobe.train.pixels import StoredFrames
from strobe.train.processes import Processes
from strobe.train.recipe import find
from strobe.train.sets import TrainingSets
from strobe.workflows.evaluate import evaluate
from strobe.workflows.options import TrainOptions
from strobe.workflows.score import ScoreRunOptions
from strobe.workflows.synthesize import synthesize
from strobe.workflows.train_job import Material

CPU = LoadOptions(device="cpu")


@pytest.fixture(scope="module", params=["auto", "torch"])
def shipped(request: pytest.FixtureRequest) -> Detector:
    """The detector in ONNX Runtime and in torch."""
    return tiny.load(ModelName("bundled", "strobe-tiny"), LoadOptions(device="cpu", backend=request.param))


@pytest.fixture(scope="module")
def frame() -> np.ndarray:
    return World(DETECTION_WORLD).clip(1234, offsets=(0,)).frames[0]


def test_it_is_small_and_says_what_it_is(shipped: Detector) -> None:
    path = Path(tiny.__file__).parent / "data" / "strobe-tiny.safetensors"
    assert path.stat().st_size < 1_000_000
    assert isinstance(shipped, Detector)
    assert shipped.spec.task == "detection"
    assert shipped.spec.label_space.name == "strobe-synthetic"
    assert len(shipped.spec.weights) == 64


def test_it_finds_what_is_there_alone_and_in_a_batch(shipped: Detector) -> None:
    clips = [World(DETECTION_WORLD).clip(seed, offsets=(0,)) for seed in range(500, 512)]
    prepared = [shipped.prepare(clip.frames[0]) for clip in clips]
    together = shipped.forward(prepared)
    assert shipped.forward([]) == []
    hits = truths = 0
    for clip, one, many in zip(clips, prepared, together, strict=True):
        (alone,) = shipped.forward([one])
        assert alone.label.tolist() == many.label.tolist()
        np.testing.assert_allclose(alone.score, many.score, atol=1e-5)
        np.testing.assert_allclose(alone.xyxy, many.xyxy, atol=1e-2)
        assert (np.diff(many.score) <= 0).all()
        for box in boxes_seen(clip, 0):
            if box.crowd:
                continue
            truths += 1
            same = many.xyxy[(many.label == box.label) & (many.score > 0.3)]
            overlap = torchvision.ops.box_iou(torch.tensor([box.xyxy]), torch.tensor(same, dtype=torch.float32))
            hits += bool(len(same)) and bool((overlap > 0.5).any())
    assert hits / truths > 0.8


@pytest.mark.parametrize(("size_wh", "shift"), [((256, 256), (0, 0)), ((256, 384), (0, 64)), ((300, 256), (22, 0))])
def test_boxes_come_back_in_pixels_of_the_image(
    shipped: Detector, frame: np.ndarray, size_wh: tuple[int, int], shift: tuple[int, int]
) -> None:
    """A frame twice the size in the middle of a grey canvas gives the same boxes, twice the size and moved."""
    (plain,) = shipped.forward([shipped.prepare(frame)])
    assert (plain.score > 0.4).any()
    canvas = np.full((size_wh[1], size_wh[0], 3), 114, np.uint8)
    large = PillowImage.fromarray(frame).resize((256, 256), PillowImage.Resampling.BICUBIC)
    canvas[shift[1] : shift[1] + 256, shift[0] : shift[0] + 256] = np.asarray(large)
    (found,) = shipped.forward([shipped.prepare(canvas)])
    assert len(found)
    best = int(plain.score.argmax())
    expected = torch.tensor(plain.xyxy[best] * 2 + np.array([*shift, *shift]))[None]
    overlap = torchvision.ops.box_iou(expected, torch.tensor(found.xyxy[found.label == plain.label[best]]))
    assert float(overlap.max()) > 0.6


def test_letterboxing_is_exact_to_the_pixel(shipped: Detector) -> None:
    image = np.zeros((40, 100, 3), np.uint8)
    pixels, placement = shipped.prepare(image)
    assert pixels.shape == (INPUT, INPUT, 3)
    rows = np.flatnonzero((pixels == 0).all(axis=(1, 2)))
    assert (placement.scale_xy, placement.pad_xy) == ((1.28, 1.28), (0, 38))
    assert (rows[0], rows[-1]) == (38, 38 + 51 - 1)
    square = np.arange(INPUT * INPUT * 3, dtype=np.uint32).reshape(INPUT, INPUT, 3).astype(np.uint8)
    np.testing.assert_array_equal(shipped.prepare(square)[0], square)


def test_an_image_of_nothing_is_an_answer_too(shipped: Detector) -> None:
    (found,) = shipped.forward([shipped.prepare(np.full((1, 1, 3), 114, np.uint8))])
    assert found.xyxy.shape == (len(found), 4)
    assert (found.score < 0.5).all()


@pytest.mark.slow
def test_the_shipped_weights_are_good_and_flicker(tmp_path: Path) -> None:
    synthesize(tmp_path / "world", SyntheticOptions(world=DETECTION_WORLD, videos=16, seed=99))
    measured = evaluate(
        tmp_path / "world", ["strobe-tiny"], tmp_path / "run", prediction=Running.of(CPU),
        request=ScoreRunOptions(), progress=Silent(), with_report=False,
    ).results.models["strobe-tiny"]  # fmt: skip
    orig, worst = measured.headline.orig.value, measured.headline.pmk.value
    assert orig > 0.8
    assert worst < orig - 0.05


def test_targets_by_hand() -> None:
    big = Box(xyxy=(0.0, 0.0, 64.0, 64.0), label=3)
    small = Box(xyxy=(28.0, 28.0, 44.0, 44.0), label=5)
    hidden = Box(xyxy=(96.0, 96.0, 128.0, 128.0), label=1, crowd=True)
    classes, corners = targets([big, small, hidden], side=16, stride=STRIDE)
    # Centres at 4, 12, 20, 28, 36, 44 …: within 12 of 32 are 20, 28, 36 and 44; inside the small box 36 alone, and
    # 28 and 44 lie on its edge.
    assert classes[2, 2] == 3
    assert classes[4, 4] == 5
    assert classes[3, 4] == 3
    assert corners[4, 4].tolist() == [28, 28, 44, 44]
    assert corners[2, 2].tolist() == [0, 0, 64, 64]
    assert (classes == 3).sum() == 16 - 1
    assert (classes == 5).sum() == 1
    assert (classes[12:, 12:] == IGNORED).all()
    assert (classes == BACKGROUND).sum() == 256 - 16 - 16
    empty, _ = targets([], side=16, stride=STRIDE)
    assert (empty == BACKGROUND).all()


def test_decoding_turns_distances_into_corners() -> None:
    distances = torch.zeros(1, 4, 16, 16)
    distances[0, :, 2, 5] = torch.tensor([1.0, 2.0, 0.5, 0.25])
    centre = cell_centres(16)[2 * 16 + 5]
    assert centre.tolist() == [44.0, 20.0]
    expected = [44 - STRIDE, 20 - 2 * STRIDE, 44 + 0.5 * STRIDE, 20 + 0.25 * STRIDE]
    assert TinyNet.decode(distances)[0, 2 * 16 + 5].tolist() == expected


@given(st.lists(st.tuples(*[st.floats(0, 100)] * 4, *[st.floats(1, 60)] * 4), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_overlap_equals_torchvisions(rows: list[tuple[float, ...]]) -> None:
    values = torch.tensor(rows, dtype=torch.float64)
    a = torch.cat([values[:, :2], values[:, :2] + values[:, 4:6]], dim=1)
    b = torch.cat([values[:, 2:4], values[:, 2:4] + values[:, 6:8]], dim=1)
    plain, general = _iou(a, b)
    torch.testing.assert_close(plain, torchvision.ops.box_iou(a, b).diagonal())
    torch.testing.assert_close(general, torchvision.ops.generalized_box_iou(a, b).diagonal())


def _recipe(*changes: str) -> Any:
    return find("detector", changes=["clips=6", "steps=4", "batch=4", "test_clips=1", *changes], model="strobe-tiny")


def test_training_repeats_bit_for_bit_and_follows_its_seed(tmp_path: Path) -> None:
    digests = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        options = TrainOptions(seed=seed, threads=1, evaluations=1, device="cpu")
        done = train_detector(_recipe(), None, "strobe-tiny", tmp_path / name, options, Silent())
        digests.append(tiny.load(ModelName("bundled", "strobe-tiny", done.weights), CPU).spec.weights)
    assert digests[0] == digests[1] != digests[2]


def test_a_broken_off_training_makes_its_draws_again() -> None:
    clips = [World(DETECTION_WORLD).clip(seed, offsets=(0,)) for seed in range(5)]
    frames, boxes = np.concatenate([clip.frames for clip in clips]), [boxes_seen(clip, 0) for clip in clips]
    samples = Samples.of(frames, boxes, stride=STRIDE)

    def started() -> GridTrainer:
        torch.manual_seed(0)
        return GridTrainer(TinyNet(12), _recipe("steps=5"), samples, seed=0, device="cpu")

    whole, half, rest = started(), started(), started()
    for step in range(5):
        whole.step(step)
    for step in range(3):
        half.step(step)
    rest.load_state({**half.state(), "step": 3})
    for step in (3, 4):
        rest.step(step)
    for name, tensor in whole.module.state_dict().items():
        assert torch.equal(tensor, rest.module.state_dict()[name]), name


def test_training_learns_a_handful_of_frames() -> None:
    clips = [World(DETECTION_WORLD).clip(seed, offsets=(0,)) for seed in range(8)]
    frames, boxes = np.concatenate([clip.frames for clip in clips]), [boxes_seen(clip, 0) for clip in clips]
    samples = Samples.of(frames, boxes, stride=STRIDE)
    torch.manual_seed(0)
    trainer = GridTrainer(
        TinyNet(12), _recipe("steps=50", "batch=8", "learning_rate=5e-3"), samples, seed=0, device="cpu"
    )
    for step in range(50):
        trainer.step(step)
    network = trainer.module.eval()
    with torch.inference_mode():
        logits, _ = network(network.to_input(torch.from_numpy(samples.images)))
    owned = samples.classes >= 0
    right = logits.argmax(dim=1).numpy()[owned] == samples.classes[owned]
    assert right.mean() > 0.8


def test_the_command_trains_measures_and_the_result_loads(tmp_path: Path) -> None:
    out = tmp_path / "new" / "mine"
    changes = ["clips=4", "steps=1", "batch=2", "test_clips=2"]
    arguments = ["detector", "-m", "strobe-tiny", "-o", str(out), "--evaluations", "1", "--device", "cpu", "-q"]
    arguments += [word for change in changes for word in ("--set", change)]
    plain = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert "held out map_orig" in plain.output
    told = json.loads(CliRunner().invoke(command, [*arguments, "--json"], catch_exceptions=False).output)
    assert told["was_there"]
    mine = tiny.load(ModelName("bundled", "strobe-tiny", out / "model.safetensors"), CPU)
    assert mine.spec.label_space.name == "strobe-synthetic"
    assert "| map_orig | map_pmk |" in (out / "card.md").read_text()


def test_a_dataset_of_ones_own_trains_it_further(tmp_path: Path) -> None:
    world = SyntheticOptions(world=replace(DETECTION_WORLD, size=96, frames=3), videos=30, seed=5)
    synthesize(tmp_path / "world", world)
    material = Material.of(tmp_path / "world")
    options = TrainOptions(threads=1, evaluations=1, device="cpu", held_share=0.4)
    done = train_detector(_recipe("learning_rate=1e-6"), material, "strobe-tiny", tmp_path / "run", options, Silent())
    first, last = done.history[0], done.history[-1]
    assert first.map_orig > 0.5, "it begins as the shipped one"
    assert last.map_orig > 0.5
    assert "before training" in done.card.read_text()
    bare = replace(material, dataset=replace(material.dataset, boxes=None))
    with pytest.raises(StrobeError, match="it has no boxes"):
        train_detector(_recipe(), bare, "strobe-tiny", tmp_path / "bare", options, Silent())
    random = replace(options, from_scratch=True)
    with pytest.raises(StrobeError, match="choose one of strobe-tiny, timm:NAME, torchvision:NAME"):
        train_detector(_recipe(), material, "strobe-net", tmp_path / "net", random, Silent())
    with pytest.raises(StrobeError, match="needs a DATASET"):
        train_detector(_recipe(), None, "torchvision:ssdlite320_mobilenet_v3_large", tmp_path / "x", options, Silent())


@pytest.mark.slow
def test_a_detector_of_torchvision_trains_and_loads(tmp_path: Path) -> None:
    world = SyntheticOptions(world=replace(DETECTION_WORLD, size=64, frames=3), videos=12, seed=5)
    synthesize(tmp_path / "world", world)
    material, model = Material.of(tmp_path / "world"), "torchvision:fasterrcnn_mobilenet_v3_large_320_fpn"
    recipe = find("detector", changes=["steps=2", "batch=2", "learning_rate=1e-3"], model=model)
    assert (recipe.optimiser, recipe.schedule) == ("sgd", "steps")
    options = TrainOptions(threads=1, evaluations=1, device="cpu", from_scratch=True, image_size=96, held_share=0.3)
    done = train_detector(recipe, material, model, tmp_path / "run", options, Silent())
    loaded: Any = load_model(done.model, LoadOptions(device="cpu"))
    assert loaded.spec.label_space.ids[1:] == material.dataset.info.label_space.ids
    assert done.history[-1].loss > 0


def test_boxes_are_mirrored_with_their_frame() -> None:
    grown = DatasetBuilder()
    video = grown.video(video_id="v", name="clip")
    row = grown.frame(video=video, index=0, key="0", labels=[3], size_wh=(20, 10))
    grown.box(frame=row, label=3, xyxy=(2, 1, 30, 9), track=0, crowd=False)
    grown.box(frame=row, label=5, xyxy=(0, 0, 5, 5), track=1, crowd=True)
    grown.set(set_id="s", anchor=row, members=[])
    dataset = grown.build(DatasetInfo(name="one", label_space=LABEL_SPACE, k=0), with_boxes=True)
    sets = TrainingSets.of(dataset, np.arange(1), np.arange(1), which="all")
    picture = np.zeros((10, 20, 3), dtype=np.uint8)
    picture[1:9, 2:20] = 255
    sizes = np.array([[10, 20]])
    trainer = BoxTrainer(
        torch.nn.Linear(1, 1), _recipe(), sets, StoredFrames(picture.reshape(-1), sizes, device="cpu"),
        Truth(dataset, sizes),
        first_label=1, device="cpu", seed=0, processes=Processes(),
    )  # fmt: skip
    for mirrored in (False, True):
        (image,), (target,) = trainer._sample(np.array([0]), np.array([[0, 0, int(mirrored)]]))
        assert image.shape == (3, 10, 20)
        assert target["labels"].tolist() == [4], "a crowd is no object"
        x0, y0, x1, y1 = (int(one) for one in target["boxes"][0])
        assert (x0, x1) == ((0, 18) if mirrored else (2, 20)), "cut to the frame"
        assert bool((image[:, y0:y1, x0:x1] == 1).all())
        assert float(image.sum()) == 3 * (y1 - y0) * (x1 - x0)


def test_weights_of_something_else_are_refused_in_one_line(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(2)}, str(tmp_path / "other.safetensors"))
    (tmp_path / "broken.safetensors").write_bytes(b"\0" * 40)
    for name in ("other", "broken"):
        with pytest.raises(
            InvalidFile, match=r"not the weights of strobe-tiny|not weights that strobe wrote"
        ) as caught:
            tiny.load(ModelName("bundled", "strobe-tiny", tmp_path / f"{name}.safetensors"), CPU)
        assert "\n" not in str(caught.value)
    with pytest.raises(StrobeError, match="no weights at"):
        tiny.load(ModelName("bundled", "strobe-tiny", tmp_path / "none.safetensors"), CPU)
