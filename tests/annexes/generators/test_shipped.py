"""What is shipped for the study of generators, its demo, and decoders that others made."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from strobe.annexes.generators.auto_net import AUTOENCODERS
from strobe.annexes.generators.demo import demo_autoencoder, demo_generator
from strobe.annexes.generators.networks import NETWORKS
from strobe.annexes.generators.record import read_record
from strobe.annexes.generators.weights import read_autoencoder, read_network, shipped_file
from strobe.annexes.generators.workflow import VaryGeneratorOptions, vary_generator
from strobe.core.labels import space
from strobe.core.ports import Silent
from strobe.models import strobe_net
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.models.torch_classifier import TorchClassifier
from strobe.synthetic.classes import LABEL_SPACE
from strobe.synthetic.sets import SyntheticOptions, synthetic_dataset
from strobe.synthetic.world import WorldOptions

CPU = LoadOptions(device="cpu", backend="torch")


def classifier(name: str) -> TorchClassifier:
    found = load_model(name, CPU)
    assert isinstance(found, TorchClassifier)
    return found


@cache
def samples(name: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images as they would be stored, and the classes asked for."""
    network = read_network(shipped_file(name)).network
    latents = torch.randn(count, network.about.latent, generator=torch.Generator().manual_seed(11))
    classes = torch.arange(count) % network.about.classes
    with torch.no_grad():
        images = torch.cat([network(latents[part], classes[part]) for part in torch.arange(count).split(64)])
    return (images.expand(-1, 3, -1, -1) * 255).round() / 255, classes


@pytest.mark.parametrize(("name", "most", "classes"), [("strobe-gan", 8e6, 12), ("strobe-gan-mnist", 2e6, 10)])
def test_a_generator_is_small_and_says_what_it_is(name: str, most: float, classes: int) -> None:
    assert shipped_file(name).stat().st_size <= most
    loaded = read_network(shipped_file(name))
    assert loaded.network.about == NETWORKS[name]
    assert loaded.label_space == (LABEL_SPACE if classes == 12 else space("mnist"))


def test_the_autoencoder_is_small_and_says_what_it_is() -> None:
    network, _ = read_autoencoder(shipped_file("strobe-ae"))
    assert network.about == AUTOENCODERS["strobe-ae"]
    assert shipped_file("strobe-ae").stat().st_size < 1_000_000


@pytest.mark.parametrize(
    ("generator", "judge", "count"),
    [("strobe-gan", "strobe-world-judge", 96), ("strobe-gan-mnist", "strobe-mnist-judge", 200)],
)
def test_an_independent_judge_names_the_class_asked_for(generator: str, judge: str, count: int) -> None:
    images, classes = samples(generator, count)
    model = classifier(judge)
    with torch.no_grad():
        right = torch.cat([model.input_scores(part).argmax(dim=1) for part in images.split(64)]) == classes
    assert float(right.float().mean()) >= 0.95
    spread = images.flatten(1).std(dim=0).mean()  # not one image for every latent
    assert float(spread) > 0.1


@pytest.mark.parametrize(
    "name", sorted(name for name in strobe_net.SHIPPED if name.split("-")[1] in ("world", "mnist"))
)
def test_a_classifier_is_small_and_knows_its_data(name: str) -> None:
    assert strobe_net.shipped_file(name).stat().st_size <= 1.2e6
    model = classifier(name)
    is_world = "world" in name
    assert model.spec.name == name
    assert model.spec.label_space == (LABEL_SPACE if is_world else space("mnist"))
    assert model.input_hw == ((64, 64) if is_world else (28, 28))
    images, truth = _renders() if is_world else (part[:60] for part in samples("strobe-gan-mnist", 200))
    with torch.no_grad():
        right = model.input_scores(images).argmax(dim=1) == truth
    assert float(right.float().mean()) >= 0.9


@cache
def _renders() -> tuple[torch.Tensor, torch.Tensor]:
    world = WorldOptions(
        size=64, frames=1, distractors=0, occluders=0, object_scale=(0.6, 0.85), motion=0.5, blur=0, noise=0
    )
    made = synthetic_dataset(SyntheticOptions(world=world, videos=48, seed=99))
    pixels = torch.from_numpy(made.source().all().copy()).permute(0, 3, 1, 2).float() / 255
    return pixels, torch.from_numpy(made.dataset.labels.label.astype("int64"))


class Told(Silent):
    """Keeps the names of the tasks that were begun."""

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def task(self, name: str, total: int | None):
        self.tasks.append(name)
        return super().task(name, total)


def test_the_demo_ends_in_a_report_and_resumes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    made = {"images": 2, "steps": 4, "granularity": ("fine", "pixel"), "device": "cpu"}
    found = demo_generator(tmp_path, Silent(), **made)
    assert found.failed == ()
    html = found.report.read_text(encoding="utf-8")
    assert "From coarse to fine" in html
    assert 'id="strips-data"' in html
    assert {one.target for one in found.results.searches} == {"standard", "robust"}
    assert found.results.preserved[0].who == ("judge",)
    assert all(one.found + one.censored + one.failed == 2 for one in found.results.searches), "nothing is dropped"
    told = Told()
    again = demo_generator(tmp_path, told, **made)
    assert not [name for name in told.tasks if name.startswith(("search", "predict", "latents"))]
    assert again.results.searches == found.results.searches


def test_the_demo_of_photos_reports_reconstruction_first(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = demo_autoencoder(
        tmp_path, Silent(), images=2, photos=24, steps=8, granularity=("fine", "pixel"), device="cpu"
    )
    assert found.failed == ()
    assert set(found.results.models) == {"standard", "robust", "judge"}
    for model in found.results.models.values():
        first = model.variants[0]
        assert first.variant == "photo"
        assert first.acc_orig.n == first.levels[0].at.n >= 2
        assert first.levels[0].at.value > 0.9, "on photos"
    html = found.report.read_text(encoding="utf-8")
    assert "What reconstruction alone does" in html
    assert 'id="strips-data"' in html
    assert {one.target for one in found.results.searches} == {"standard", "robust"}


ROOT = Path(__file__).parents[3]
DECODERS = ROOT.parent / "shared" / "reference" / "abs-mnist" / "ABS_0.net"


@pytest.mark.skipif(not DECODERS.is_file(), reason="the decoders are not here")
def test_ten_foreign_decoders_are_searched_like_any_generator(tmp_path: Path) -> None:
    import torch

    torch.manual_seed(0)
    file = ROOT / "benchmarks" / "foreign_mnist.py"
    generator = f"py:{file}:decoders@{DECODERS}"
    # A classifier made of the decoders themselves: how near an image is to the mean one of each digit.
    (tmp_path / "nearest.py").write_text(
        "import sys, torch\n"
        f"sys.path.insert(0, {str(file.parent)!r})\n"
        "from foreign_mnist import DIGITS, decoders\n"
        "from pathlib import Path\n"
        "from dataclasses import replace\n"
        "from strobe.models.options import ModelName\n"
        "from strobe.models.plan import ImagePlan\n"
        "from strobe.models.torch_classifier import classifier_of\n\n"
        "class Nearest(torch.nn.Module):\n"
        "    def __init__(self, means):\n"
        "        super().__init__()\n"
        "        self.register_buffer('means', means)\n\n"
        "    def forward(self, pixels):\n"
        "        flat = pixels.mean(1).flatten(1)\n"
        "        return -(flat[:, None] - self.means).square().sum(2)\n\n"
        "def make(options):\n"
        f"    made = decoders(replace(options, weights=Path({str(DECODERS)!r})))\n"
        "    z, y = torch.zeros(10, 8), torch.arange(10)\n"
        "    for place in range(4):\n"
        "        z = made.run(place, z, y)\n"
        "    plan = ImagePlan(size_hw=(28, 28), fit='squash', mean=(0.0,) * 3, std=(1.0,) * 3)\n"
        "    return classifier_of(Nearest(z.flatten(1)), ModelName('py', 'nearest'), plan=plan, label_space=DIGITS,\n"
        "                         options=options)\n"
    )
    wanted = VaryGeneratorOptions(images=10, granularity=("coarse", "pixel"), steps=30, scale_images=40, strips=0)
    load = LoadOptions(device="cpu", batch_size=10)
    done = vary_generator(tmp_path / "out", generator, [f"near=py:{tmp_path / 'nearest.py'}:make"], wanted, load=load)
    assert {name: many["found"] > 5 for name, many in done.tally().items()} == {"coarse/near": True, "pixel/near": True}
    record = read_record(tmp_path / "out")
    assert {row["neurons"] for row in record} <= {32 * 16, *range(500, 785)}
    fine = [row for row in record if row["status"] == "found"]
    assert np.mean([row["random_fooled"] for row in fine]) < 0.5
