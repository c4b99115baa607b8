"""Frames that are a model's own input: neither resized nor cropped, whichever way they come."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.core.dataset import Dataset
from strobe.core.labels import Projection
from strobe.core.ports import Silent
from strobe.core.records import ModelSpec
from strobe.core.tasks import Task
from strobe.engine.decode_pool import can_start_workers
from strobe.engine.engine import run_models
from strobe.engine.forward import Runner
from strobe.engine.running import Running
from strobe.engine.worker import EngineOptions
from strobe.engine.worker_specs import SpecWorker, worker_spec
from strobe.models.exact_resize import SentPlan
from strobe.models.plan import AsDecoded, ImagePlan
from strobe.store import dataset_folder as folder
from strobe.store.frame_names import FrameNames
from strobe.store.media import MediaSource, decode_image
from strobe.store.shards import KEY_FACTS, ModelShards
from strobe.workflows.predict import predict

Make = Callable[..., Dataset]
SAME = ImagePlan(size_hw=(32, 40), resize=48)  # the frames' own size: an ordinary frame is enlarged and cropped
SMALL = ImagePlan(size_hw=(16, 16), resize=20)


class Sums:
    """A classifier whose scores change with any one bit of its pixels; it decodes JPEG files by itself where asked."""

    device, lanes = "cpu", 1

    def __init__(self, dataset: Dataset, plan: ImagePlan, *, on_device: bool = False) -> None:
        self.preparation = SentPlan(plan, on_device=on_device)
        self.plan, self.encoded = plan, 0
        self.prepare, self.prepare_input = self.preparation.prepare, self.preparation.prepare_input
        self.spec = ModelSpec(
            name="sums", provider="test", task="classification", label_space=dataset.info.label_space,
            weights="0" * 64, batch_size=4,
        )  # fmt: skip

    def prepare_encoded(self, files: Any) -> Any:
        self.encoded += len(files)
        return [self.plan.prepare(decode_image(bytes(content), name="file")) for content in files]

    def forward(self, prepared: Any) -> Any:
        finished = [one if one.shape[:2] == self.plan.size_hw else self.plan.prepare(one) for one in prepared]
        return np.stack([checksums(one) for one in finished])


def checksums(pixels: Any) -> Any:
    weights = np.random.default_rng(1).integers(1, 1000, (pixels.size, 3))
    return (pixels.reshape(-1).astype(np.float64) @ weights / 1e6).astype(np.float32)


def wanted(dataset: Dataset, plan: ImagePlan) -> Any:
    """Scores by the rule itself: an input of the model's size as it is, of another squashed, other frames as always."""
    source, out = MediaSource(dataset), []
    for row in range(len(dataset.frames)):
        image = source.read(row)
        squashed = replace(plan, fit="squash", resize=None)
        is_input = bool(dataset.frames.as_input[row])
        same = is_input and image.shape[:2] == plan.size_hw
        out.append(checksums(image if same else (squashed if is_input else plan).prepare(image)))
    return np.stack(out)


@pytest.fixture
def inputs(colours: Make) -> Dataset:
    """Every third frame is a model's own input."""
    dataset = colours(n_sets=4, k=2)
    return replace(dataset, frames=replace(dataset.frames, as_input=np.arange(len(dataset.frames)) % 3 == 0))


WAYS = {
    "threads": EngineOptions(),
    "processes": EngineOptions(processes=2),
    "device": EngineOptions(on_device=True),
    "device, beside processes": EngineOptions(on_device=True, processes=2),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("plan", [SAME, SMALL], ids=["own size", "other size"])
def test_the_engine_leaves_them_as_they_are(way: str, plan: ImagePlan, inputs: Dataset, tmp_path: Path) -> None:
    if WAYS[way].processes and not can_start_workers():
        pytest.skip("needs Linux")
    space, keys = inputs.info.label_space, [str(key) for key in inputs.frames.key]
    models = {name: Sums(inputs, plan, on_device=name == "resizes later") for name in ("at once", "resizes later")}
    stores = {
        name: ModelShards(
            tmp_path, name, facts=dict.fromkeys(KEY_FACTS, ""), frames=FrameNames(inputs), task=Task.CLASSIFICATION,
            n_classes=len(space),
        )
        for name in models
    }  # fmt: skip
    outcomes = run_models(
        [Runner(name=name, model=model, projection=Projection.identity(space)) for name, model in models.items()],
        stores, MediaSource(inputs), frame_names=keys, rows=np.arange(len(keys)), progress=Silent(),
        options=replace(WAYS[way], shard_size=8),
        as_input=np.flatnonzero(inputs.frames.as_input).tolist(),
    )  # fmt: skip
    for name, model in models.items():
        assert outcomes[name].error is None
        np.testing.assert_array_equal(stores[name].read().scores, wanted(inputs, plan))
        n_files = int((~inputs.frames.as_input).sum())
        assert model.encoded == (n_files if way.startswith("device") else model.encoded)
    if way.startswith("device"):
        assert models["at once"].encoded


OBJECT = """
import numpy as np
from strobe.core.labels import LabelSpace
from strobe.core.records import ModelSpec
from strobe.models.plan import ImagePlan

class Model:
    plan = ImagePlan(size_hw=(16, 16), resize=24)
    spec = ModelSpec(name="mine", provider="py", task="classification", weights="0" * 64,
                     label_space=LabelSpace.of_names("colours", ["red", "green", "blue"]))

    def prepare(self, image):
        return self.plan.prepare(image)

    def forward(self, prepared):
        return np.stack(prepared).reshape(len(prepared), -1, 3).mean(axis=1).astype(np.float32)

class Whole(Model):
    def prepare_input(self, image):
        return self.plan.prepare_input(image)

def without():
    return Model()

def whole():
    return Whole()
"""


def test_a_workflow_and_a_worker_elsewhere_read_the_mark(inputs: Dataset, tmp_path: Path) -> None:
    folder.write(inputs, inputs.root or Path(), overwrite=False)
    path = tmp_path / "mine.py"
    path.write_text(OBJECT)
    options = Running(device="cpu", shard_size=8)
    good, bad = f"py:{path}:whole", f"py:{path}:without"
    fared = predict(inputs, [good, bad], tmp_path / "run", options, Silent())
    assert [one.ok for one in fared] == [True, False]
    assert fared[1].error is not None
    assert "the model has no prepare_input(image); add one" in fared[1].error
    assert "\n" not in fared[1].error
    engine = EngineOptions(shard_size=8)
    worker = SpecWorker(worker_spec(inputs, {"a": good}, options.loading(), merge="max", engine=engine))
    from strobe.engine.forward import Shard

    rows = np.arange(len(inputs.frames))
    _, answers = worker(Shard(rows=rows, needed={"a": rows})).parts["a"]
    worker.close()
    source, plan = MediaSource(inputs), ImagePlan(size_hw=(16, 16), resize=24)
    for row in rows.tolist():
        prepare = plan.prepare_input if inputs.frames.as_input[row] else plan.prepare
        mean = prepare(source.read(row)).reshape(-1, 3).mean(axis=0)
        np.testing.assert_allclose(answers.scores[row], mean, rtol=1e-6)


def test_what_takes_images_as_decoded_takes_inputs_so() -> None:
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    np.testing.assert_array_equal(AsDecoded().prepare_input(image), image)
    np.testing.assert_array_equal(AsDecoded(bgr=True).prepare_input(image), image[..., ::-1])
