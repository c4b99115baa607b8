"""Live models through the engine of the command line: modules, functions, detectors; answers are never another's."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from torchvision import transforms
from torchvision.models import detection

import strobe
from strobe.core.answers import Answers
from strobe.core.errors import StrobeError
from strobe.core.files import read_json
from strobe.core.records import Detections, ModelSpec
from strobe.store.shards import ModelShards

SIZE = transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor()])


def _linear(seed: int = 0, n: int = 12) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, n))


def _stored(run: Path) -> list[str]:
    return sorted(path.name for path in run.glob("predictions/*/*.parquet"))


def test_a_module_answers_as_it_would_by_hand(world: Path) -> None:
    from PIL import Image

    dataset, net = strobe.load_dataset(world), _linear()
    answers = strobe.predict(dataset, net, transform=SIZE, name="mine")
    assert answers.model == "mine"
    row = 7
    picture = Image.open(world / str(dataset.frames.media[row])).convert("RGB")
    with torch.inference_mode():
        by_hand = net.eval()(SIZE(picture)[None])[0].numpy()
    np.testing.assert_allclose(answers.scores[row], by_hand, rtol=1e-5)
    assert strobe.score(dataset, answers).acc_orig.n == 12


def test_the_module_stays_as_it_was(world: Path) -> None:
    net = _linear().train()
    strobe.predict(world, net, transform=SIZE)
    assert net.training
    assert all(part.requires_grad for part in net.parameters())


def test_a_timm_model_brings_its_own_preparation(world: Path) -> None:
    torch.manual_seed(0)
    net = timm.create_model("test_resnet", num_classes=12)
    mine = strobe.predict(world, net)
    assert mine.model == "test_resnet"
    torch.manual_seed(0)
    plan = strobe.ImagePlan(size_hw=(160, 160), resize=168, interpolation="bicubic", mean=(0.5,) * 3, std=(0.5,) * 3)
    again = strobe.predict(world, timm.create_model("test_resnet", num_classes=12), transform=plan)
    assert mine.scores.shape == again.scores.shape == (60, 12)


def test_functions_of_images_and_of_batches(world: Path) -> None:
    def mean_colour(images: list[np.ndarray]) -> np.ndarray:
        assert images[0].dtype == np.uint8
        return np.stack([np.r_[one.reshape(-1, 3).mean(axis=0) / 255, np.zeros(9)] for one in images])

    found = strobe.predict(world, mean_colour, kind="logits")
    assert (found.model, found.scores.shape) == ("mean_colour", (60, 12))
    net = _linear()
    once, twice = (
        strobe.predict(world, net, transform=SIZE),
        strobe.predict(world, lambda x: 2 * net(x), transform=SIZE),
    )
    np.testing.assert_allclose(twice.scores, 2 * once.scores, rtol=1e-5)


def test_other_classes_are_projected(world: Path) -> None:
    dataset, net = strobe.load_dataset(world), _linear(n=13)
    names = [*dataset.info.label_space.names, "none of them"]
    found = strobe.predict(dataset, net, transform=SIZE, labels=names)
    assert found.scores.shape == (60, 12)
    soft = torch.nn.Sequential(_linear(), torch.nn.Softmax(dim=1))
    assert strobe.predict(dataset, soft, transform=SIZE).kind == "probabilities"


def test_detectors_alive(world: Path) -> None:
    dataset = strobe.load_dataset(world)
    found = strobe.predict(
        dataset, lambda images: [{"boxes": [[4, 4, 30, 30]], "labels": [1], "scores": [0.5]}] * len(images)
    )
    assert isinstance(found, strobe.BoxAnswers)
    assert isinstance(strobe.score(dataset, found), strobe.DetectorScore)
    torch.manual_seed(0)
    net = detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=13)
    part = strobe.load_dataset(world).keep_rows(dataset.sets.set == 0)
    assert isinstance(strobe.predict(part, net), strobe.BoxAnswers)
    with pytest.raises(StrobeError, match="it has 13 classes, but labels names 2"):
        strobe.predict(part, net, labels=["a", "b"])


def test_an_object_that_speaks_the_port(world: Path) -> None:
    space = strobe.load_dataset(world).info.label_space

    class Mine:
        spec = ModelSpec(name="mine", provider="here", task="detection", label_space=space, weights="1")

        def prepare(self, image: np.ndarray) -> np.ndarray:
            return image

        def forward(self, prepared: Any) -> list[Detections]:
            none = np.zeros(0)
            return [Detections(xyxy=np.zeros((0, 4)), label=none.astype(np.int32), score=none) for _ in prepared]

    assert strobe.predict(world, Mine()).model == "mine"


def _cases() -> dict[str, tuple[Any, dict[str, Any], str]]:
    random = transforms.Compose([transforms.RandomCrop(32), transforms.ToTensor()])
    return {
        "no transform": (_linear(), {}, r"does not declare its preprocessing; pass transform=…"),
        "random": (_linear(), {"transform": random}, "a different tensor for the same image each time"),
        "no tensor": (
            _linear(),
            {"transform": transforms.Resize(32)},
            r"expected a tensor \(3, height, width\)|model match",
        ),
        "misfit": (_linear(), {"transform": transforms.ToTensor()}, "do transform and model match"),
        "width": (
            _linear(n=5),
            {"transform": SIZE},
            "its 5 outputs have no class names and the dataset has 12 classes",
        ),
        "labels": (_linear(), {"transform": SIZE, "labels": ["a"]}, "it has 12 outputs, but labels names 1 classes"),
        "no model": (7, {}, "expected a model's name, a torch module, a function"),
        "by name": ("efficientnet-lite0", {"transform": SIZE}, "has its own transform, labels and version"),
        "unknown": ("timn:resnet50", {}, "unknown provider 'timn'; did you mean timm"),
        "several": ("@testbed", {}, "expected one model"),
        "one row": (
            lambda images: np.zeros(12),
            {},
            r"returned an array of shape \(12,\) for one image, expected scores \(1, classes\)",
        ),
    }


@pytest.mark.parametrize("case", _cases())
def test_what_cannot_run_is_one_line(world: Path, case: str) -> None:
    model, options, message = _cases()[case]
    with pytest.raises(StrobeError, match=message) as caught:
        strobe.predict(world, model, **options)
    assert "\n" not in str(caught.value)
    assert "live:" not in str(caught.value)


# -- answers that are kept are this model's and no other's ---------------------------------------------------------


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames were answered, call by call of the store."""
    counts: list[int] = []
    plain = ModelShards.write

    def write(self: ModelShards, rows: np.ndarray, answers: Answers, *, device: str = "") -> Path:
        counts.append(len(rows))
        return plain(self, rows, answers, device=device)

    monkeypatch.setattr(ModelShards, "write", write)
    return counts


def _then(layer: torch.nn.Module) -> torch.nn.Module:
    return torch.nn.Sequential(_linear(), layer)


def _closure(factor: float) -> Callable[[list[np.ndarray]], np.ndarray]:
    return lambda images: np.full((len(images), 12), factor)


class _Warm(torch.nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.inner, self.temperature = _linear(), temperature

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.inner(pixels) / self.temperature


@pytest.mark.parametrize(
    ("first", "second", "options"),
    [
        (_linear(0), _linear(1), {"transform": SIZE}),  # other weights
        (_Warm(1.0), _Warm(2.0), {"transform": SIZE}),  # the same weights, another attribute
        # the same weights, another layer
        (_then(torch.nn.ReLU()), _then(torch.nn.SiLU()), {"transform": SIZE, "kind": "logits"}),
        (_closure(1.0), _closure(2.0), {"kind": "logits"}),  # the same code, another value closed over
        (lambda images: np.zeros((len(images), 12)), lambda images: np.ones((len(images), 12)), {"kind": "logits"}),
    ],
)  # fmt: skip
def test_another_model_is_asked_itself(
    world: Path, tmp_path: Path, written: list[int], first: Any, second: Any, options: dict[str, Any]
) -> None:
    run = tmp_path / "run"
    one = strobe.predict(world, first, out=run, name="m", **options)
    assert sum(written) == 60
    assert np.array_equal(strobe.predict(world, first, out=run, name="m", **options).scores, one.scores)
    assert sum(written) == 60  # from the folder
    two = strobe.predict(world, second, out=run, name="m", **options)
    assert sum(written) == 120
    assert not np.array_equal(one.scores, two.scores)
    assert np.array_equal(strobe.predict(world, first, out=run, name="m", **options).scores, one.scores)
    assert sum(written) == 120  # the earlier one's were kept


def test_another_transform_is_another_model(world: Path, tmp_path: Path, written: list[int]) -> None:
    for mean in (0.0, 0.5):
        norm = transforms.Normalize((mean,) * 3, (1.0,) * 3)
        strobe.predict(world, _linear(), out=tmp_path / "run", name="m", transform=transforms.Compose([SIZE, norm]))
    assert sum(written) == 120


def test_training_on_is_another_model(world: Path, tmp_path: Path, written: list[int]) -> None:
    net = _linear()
    strobe.predict(world, net, out=tmp_path / "run", transform=SIZE)
    net.train()(torch.zeros(2, 3, 32, 32)).sum().backward()  # gradients alone change no answer
    strobe.predict(world, net, out=tmp_path / "run", transform=SIZE)
    assert sum(written) == 60
    with torch.no_grad():
        net[1].weight.add_(1e-6)
    strobe.predict(world, net, out=tmp_path / "run", transform=SIZE)
    assert sum(written) == 120


def test_what_cannot_be_seen_is_asked_again_unless_somebody_vouches(
    world: Path, tmp_path: Path, written: list[int]
) -> None:
    lock = threading.Lock()

    def guarded(images: list[np.ndarray]) -> np.ndarray:
        with lock:
            return np.zeros((len(images), 12))

    for _ in range(2):
        strobe.predict(world, guarded, out=tmp_path / "run")
    assert sum(written) == 120
    assert read_json(next((tmp_path / "run").glob("predictions/*/model.json")))["weights"].startswith("once-")
    for version in ("1", "1", "2"):
        strobe.predict(world, guarded, out=tmp_path / "run", name="vouched", version=version)
    assert sum(written) == 240


# -- evaluate ------------------------------------------------------------------------------------------------------


def test_evaluate_is_the_command_line_s(world: Path, tmp_path: Path) -> None:
    dataset, net = strobe.load_dataset(world), _linear()
    answers = strobe.predict(dataset, net, transform=SIZE, name="kept")
    models = {"alive": net, "answers": answers, "broken": torch.nn.Linear(2, 2)}
    found = strobe.evaluate(dataset, models, tmp_path / "run", transform=SIZE, report=False)
    assert found.report is None
    assert list(found.failed) == ["broken"]
    assert found.failed["broken"].startswith("broken: it failed on a test image")
    assert found["alive"].acc_pmk == found["answers"].acc_pmk == strobe.score(dataset, answers).acc_pmk
    assert read_json(tmp_path / "run" / "results.json")["models"]["alive"] == found["alive"].to_json()
    assert found["alive"].to_frame("set")["holds"].sum() == found["alive"].acc_pmk.count
    assert {one.metric for one in found.comparisons} == {"acc_orig", "acc_pmk", "drop"}
    assert found.to_frame()["model"].unique().tolist() == ["alive", "answers"]
    assert "failed: broken: " in repr(found)
    assert "<table>" in found._repr_html_()
    with pytest.raises(StrobeError, match="before and after must be used together; name both models"):
        strobe.report(tmp_path / "run", before="alive")
    with pytest.raises(StrobeError, match="has no results of nobody; its models are"):
        strobe.report(tmp_path / "run", show=["nobody"])
    assert [one.only_a for one in strobe.compare(tmp_path / "run")] == [0, 0, 0]
    with pytest.raises(StrobeError, match="unknown model 'aliv'; did you mean alive"):
        found["aliv"]
    with pytest.raises(StrobeError, match="pass the folder, and videos=FILE for a part"):
        strobe.evaluate(dataset.keep_rows(dataset.sets.set == 0), net, tmp_path / "part", transform=SIZE)
    with pytest.raises(StrobeError, match=r"is only in memory; write it with strobe\.save_dataset"):
        strobe.evaluate(strobe.example_dataset(), net, tmp_path / "none")


def test_names_are_functions_whatever_was_imported() -> None:
    from strobe.build import sample
    from strobe.engine import engine
    from strobe.report import page

    assert all(hasattr(one, "__file__") for one in (sample, engine, page))
    for name in ("build", "predict", "report", "score", "compare", "evaluate", "simulate", "synthesize"):
        assert callable(getattr(strobe, name))
        assert getattr(strobe, name).__module__.startswith("strobe.api")
