"""The ten MNIST decoders others made, through the plugin of benchmarks/foreign_mnist.py; where they are at hand."""

from pathlib import Path

import numpy as np
import pytest

from strobe.annexes.generators.record import read_record
from strobe.annexes.generators.workflow import VaryGeneratorOptions, vary_generator
from strobe.models.options import LoadOptions

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
