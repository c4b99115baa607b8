"""What the tests of --engine ray share: a dataset, models that die on demand, and what a run wrote."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.engine.engine import PredictOutcome
from strobe.engine.running import ExecutorOptions, Running
from strobe.store import dataset_folder as folder
from strobe.workflows.predict import predict

MARKS = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray has no wheel for this Python"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # files that older versions of Ray leave open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PATIENCE_S = 120.0
"""For what comes in a few seconds on a quiet machine; who waits longer gets an error, not a guess."""

RAY = ExecutorOptions(name="ray")

MODELS = """
import os, signal, time
from pathlib import Path
import numpy as np

HERE = Path(__file__).parent

def wait_for(name):
    end = time.monotonic() + 120
    while not (HERE / name).exists():
        if time.monotonic() > end:
            raise TimeoutError(name)
        time.sleep(0.02)

def scores(images):
    return np.array([image.reshape(-1, 3).mean(axis=0) / 10 for image in images], dtype=np.float32)

def on_frames(forward):
    return lambda images: forward(images) if len(images[0]) == 24 else scores(images)  # it is tried on a larger image

def first_time(name):
    try:
        (HERE / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def colour():
    return scores, ["red", "green", "blue"]

def mortal():
    def forward(images):
        key = int(images[0][0, 0, 0])
        if (HERE / f"kill-{key}").exists() and first_time(f"killed-{key}"):
            die()
        return scores(images)
    return on_frames(forward), ["red", "green", "blue"]

def deadly():
    def forward(images):
        if (HERE / f"kill-{int(images[0][0, 0, 0])}").exists():
            die()
        return scores(images)
    return on_frames(forward), ["red", "green", "blue"]

def unloadable():
    die()

def blocked():
    def forward(images):
        if images[0][0, 0, 0] >= 128:
            wait_for("go")
            if first_time("killed"):
                die()
        return scores(images)
    return on_frames(forward), ["red", "green", "blue"]

def watched():
    with (HERE / "loads").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    def forward(images):
        if images[0][0, 0, 0] >= 12:
            wait_for("ticked")
        return scores(images)
    return on_frames(forward), ["red", "green", "blue"]

def mending():
    def forward(images):
        if images[0][0, 0, 0] == 10:
            (HERE / "data/media/1-3.png").write_bytes((HERE / "good.png").read_bytes())
        return scores(images)
    return on_frames(forward), ["red", "green", "blue"]

def doomed():
    def forward(images):
        import ray
        if not (HERE / "doomed").exists():
            return scores(images)
        if ray.get_runtime_context().get_node_id() == (HERE / "doomed").read_text():
            (HERE / "reached").touch()
            wait_for("never")
        wait_for("reached")
        return scores(images)
    return on_frames(forward), ["red", "green", "blue"]
"""

NETS = """
import os, signal
from pathlib import Path
import torch
from torch import nn
from strobe.core.labels import LabelSpace
from strobe.annexes.generators.layered import layered
from strobe.models.options import ModelName
from strobe.models.plan import ImagePlan
from strobe.models.torch_classifier import classifier_of

HERE = Path(__file__).parent
COLOURS = LabelSpace.of_names("colours", ["red", "green", "blue"])

class Net(nn.Module):
    def forward(self, pixels):
        try:
            (HERE / f"kill-{0}").unlink()  # a plain name would travel with this file
        except FileNotFoundError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
        return 60 * pixels.mean((2, 3))

def net(options):
    plan = ImagePlan(size_hw=(8, 8), resize=8, mean=(0.0,) * 3, std=(1.0,) * 3)
    return classifier_of(Net(), ModelName("py", "net"), plan=plan, options=options, label_space=COLOURS)

def paint(options):
    torch.manual_seed(5)
    first, last = nn.Linear(4, 32), nn.Conv2d(8, 3, 1)
    steps = [
        ("shape", "coarse", lambda z, y: first(z).view(-1, 8, 2, 2)),
        ("image", "pixel", lambda a, y: 0.45 + 0.15 * last(nn.functional.interpolate(torch.tanh(a), scale_factor=4))
                                        + 0.06 * torch.eye(3)[y][:, :, None, None]),
    ]
    parts = nn.ModuleList([first, last])
    return layered(parts, steps, classes=COLOURS, latent_size=4, image_hw=(8, 8), device=options.device, batch_size=2)
"""

FAR = """
import os

import numpy as np

from strobe.core.labels import LabelSpace
from strobe.core.records import ModelSpec
from strobe.core.remote import RemoteAnswer, Reply, RequestLimits, Usage
from strobe.engine.engine import ModelOutcome
from strobe.engine.prediction import Requests
from strobe.models.providers import Provider

ASKED = []


class Far:
    device, lanes, preparation, limits = "remote", 1, None, RequestLimits()
    spec = ModelSpec(name="far", provider="test", task="classification", weights="0" * 64, preprocessing={"far": 1},
                     label_space=LabelSpace.of_names("colours", ["red", "green", "blue"]))

    def prepare(self, image):
        return image.reshape(-1, 3).mean(axis=0)

    prepare_input = prepare

    def ask(self, prepared, *, sources, attempt=0):
        return Reply(answers=tuple(RemoteAnswer(scores=one) for one in prepared), used=Usage(requests=1))


class Work:
    def ask(self, runner, stores, rows, times, *, crops=None, outside=None):
        ASKED.append((runner.name, os.getpid(), len(rows)))
        return ModelOutcome(n_new=len(rows)), None


def make():
    return Far()


PROVIDER = Provider(load=lambda model, options: Far(), what="far", example="far:a@http://localhost:1", address=True)
REQUESTS = Requests(check=lambda models, options: None, start=lambda *_: Work())
"""
"""A provider of models behind an address, and a way to ask them that only counts."""

SIX = Running(device="cpu", batch_size=2, shard_size=6)


def clips(tmp_path: Path, per_clip: int) -> Dataset:
    """Four clips of some frames, one of them unreadable; the first pixel numbers the frame."""
    rng, root, grown = np.random.default_rng(3), tmp_path / "data", DatasetBuilder()
    (root / "media").mkdir(parents=True)
    for number in range(4):
        video = grown.video(video_id=frame_list_digest([str(number)]), name=f"clip{number}")
        rows = []
        for index in range(per_clip):
            pixels = rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)
            pixels[0, 0, 0] = per_clip * number + index
            name = f"media/{number}-{index}.png"
            Image.fromarray(pixels).save(root / name)
            rows.append(grown.frame(video=video, index=index, key=name, media=name, labels=[number % 3]))
        grown.set(set_id=f"s{number}", anchor=rows[2], members=[(row, i - 2) for i, row in enumerate(rows) if i != 2])
    (root / "media/1-3.png").write_bytes(b"not an image")
    info = DatasetInfo(name="noise", label_space=LabelSpace.of_names("colours", ("red", "green", "blue")), k=per_clip)
    folder.write(grown.build(info), root, overwrite=True)
    (tmp_path / "models.py").write_text(MODELS)
    return folder.read(root)


def run(dataset: Dataset, out: str, *models: str, heard: Silent | None = None, **how: Any) -> list[PredictOutcome]:
    assert dataset.root is not None
    place = dataset.root.parent
    specs = [f"{model}=py:{place}/models.py:{model}" for model in models]
    return predict(dataset, specs, place / out, replace(SIX, **how), heard or Silent())


def shards(dataset: Dataset, out: str) -> dict[str, bytes]:
    assert dataset.root is not None
    place = dataset.root.parent / out / "predictions"
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*.parquet"))}


def each_once(dataset: Dataset, out: str, model: str) -> None:
    assert dataset.root is not None
    place = dataset.root.parent / out / "predictions" / model
    ids = [name for path in place.glob("*.parquet") for name in pq.read_table(path).column("frame_id").to_pylist()]
    assert len(ids) == len(set(ids)) == 24
