"""A worker from its recipe: in any process, by the pickled recipe alone, to the same bytes."""

import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.core.tasks import Task
from strobe.engine.engine import run_models
from strobe.engine.forward import Shard, ShardResult
from strobe.engine.loading import load_runner
from strobe.engine.worker import EngineOptions
from strobe.engine.worker_specs import SpecWorker, worker_spec
from strobe.models.options import LoadOptions
from strobe.store import dataset_folder as folder
from strobe.store.frame_names import FrameNames
from strobe.store.opening import frame_source
from strobe.store.shards import KEY_FACTS, ModelShards

MODELS = """
import numpy as np

def colour():
    def forward(images):
        return np.array([image.reshape(-1, 3).mean(axis=0) / 10 for image in images], dtype=np.float32)
    return forward, ["red", "green", "blue"]
"""
COLOURS = LabelSpace.of_names("colours", ("red", "green", "blue"))
ENGINE = EngineOptions(shard_size=6, threads=2)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    rng, root, grown = np.random.default_rng(3), tmp_path / "data", DatasetBuilder()
    (root / "media").mkdir(parents=True)
    for number in range(4):
        video = grown.video(video_id=frame_list_digest([str(number)]), name=f"clip{number}")
        rows = []
        for index in range(5):
            name = f"media/{number}-{index}.png"
            Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)).save(root / name)
            rows.append(grown.frame(video=video, index=index, key=name, media=name, labels=[number % 3]))
        grown.set(set_id=f"s{number}", anchor=rows[2], members=[(rows[i], i - 2) for i in (0, 1, 3, 4)])
    (root / "media/1-3.png").write_bytes(b"not an image")
    info = DatasetInfo(name="noise", label_space=COLOURS, k=2)
    folder.write(grown.build(info), root, overwrite=True)
    (tmp_path / "models.py").write_text(MODELS)
    return folder.read(root)


def recipe(dataset: Dataset) -> Any:
    models = {"mine": f"py:{dataset.root.parent}/models.py:colour"}  # type: ignore[union-attr]
    return worker_spec(dataset, models, LoadOptions(device="cpu", batch_size=4), merge="max", engine=ENGINE)


def store(run: Path, dataset: Dataset) -> ModelShards:
    return ModelShards(
        run,
        "mine",
        facts=dict.fromkeys(KEY_FACTS, ""),
        frames=FrameNames(dataset),
        task=Task.CLASSIFICATION,
        n_classes=3,
    )


def shards(dataset: Dataset) -> list[Shard]:
    rows = np.arange(len(dataset.frames))
    parts = [rows[start : start + 6] for start in range(0, len(rows), 6)]
    return [Shard(rows=part, needed={"mine": part}) for part in parts]


def held(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.rglob("*.parquet")}


def in_process(dataset: Dataset, run: Path, **how: Any) -> dict[str, bytes]:
    made = recipe(dataset)
    runner = load_runner("mine", made.models["mine"], made.load, dataset.info.label_space, merge=made.merge)
    outcomes = run_models(
        [runner], {"mine": store(run, dataset)}, frame_source(dataset),
        frame_names=[str(key) for key in dataset.frames.key], rows=np.arange(len(dataset.frames)), options=ENGINE,
        progress=Silent(), **how,
    )  # fmt: skip
    assert (outcomes["mine"].error, outcomes["mine"].n_new, outcomes["mine"].n_unreadable) == (None, 20, 1)
    return held(run)


CHILD = """
import pickle, sys
from strobe.engine.worker_specs import SpecWorker
recipe, shards = pickle.load(sys.stdin.buffer)
worker = SpecWorker(recipe)
found = [worker(shard) for shard in shards]
worker.close()
sys.stdout.buffer.write(pickle.dumps(found))
"""


def test_a_process_of_its_own_gives_the_same_bytes(dataset: Dataset, tmp_path: Path) -> None:
    sent = pickle.dumps((recipe(dataset), shards(dataset)))
    done = subprocess.run([sys.executable, "-c", CHILD], input=sent, capture_output=True, check=True, cwd=tmp_path)
    kept = store(tmp_path / "sent", dataset)
    for result in pickle.loads(done.stdout):
        assert not result.failures
        kept.write(*result.parts["mine"], device=result.made_on["mine"])
    assert held(tmp_path / "sent") == in_process(dataset, tmp_path / "here")


class Spawned:
    """Shards carried out by processes that were started afresh."""

    def __init__(self, worker: SpecWorker) -> None:
        self.worker = worker

    def results(self, shards: Iterable[Shard], tick: Callable[[int], None]) -> Iterator[ShardResult]:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            for result in pool.map(self.worker, list(shards)):
                tick(len(result.parts["mine"][0]))
                yield result


def test_spawned_processes_are_sent_the_recipe(dataset: Dataset, tmp_path: Path) -> None:
    away = in_process(dataset, tmp_path / "away", elsewhere=Spawned(SpecWorker(recipe(dataset))))
    assert away == in_process(dataset, tmp_path / "here")


def test_a_recipe_is_plain_data(dataset: Dataset) -> None:
    made = recipe(dataset)
    assert pickle.loads(pickle.dumps(made)) == made
    worker = SpecWorker(made)
    assert pickle.loads(pickle.dumps(worker)).recipe == made
    with pytest.raises(StrobeError, match="changed its frames after the command started"):
        SpecWorker(replace(made, frames_digest="f" * 64))(shards(dataset)[0])
    with pytest.raises(
        StrobeError, match="cannot access the dataset /nowhere, which every machine needs under this path"
    ):
        SpecWorker(replace(made, dataset=Path("/nowhere")))(shards(dataset)[0])
    with pytest.raises(StrobeError, match="is only in memory"):
        worker_spec(replace(dataset, root=None), made.models, LoadOptions(), merge="max", engine=ENGINE)


def test_another_model_under_the_same_name_is_refused(dataset: Dataset) -> None:
    made = recipe(dataset)
    spec = load_runner("mine", made.models["mine"], made.load, COLOURS, merge="max").model.spec
    first = shards(dataset)[0]
    assert not SpecWorker(replace(made, specs={"mine": spec}))(first).failures
    others = {"weights": {"weights": "f" * 64}, "preprocessing": {"preprocessing": {"compiled": True}}}
    for what, other in others.items():
        worker = SpecWorker(replace(made, specs={"mine": replace(spec, **other)}))
        with pytest.raises(
            StrobeError, match=f"^mine has different {what} on .* and on the machine that loaded it first; every"
        ):
            worker(first)


def test_what_is_no_network_of_torchs_says_that_it_is_not_compiled(dataset: Dataset, heard: Any) -> None:
    load = LoadOptions(device="cpu", batch_size=4, compile=True, progress=heard)
    load_runner("mine", recipe(dataset).models["mine"], load, COLOURS, merge="max")
    assert heard.lines == ["mine: it is not compiled, because --compile only works with torch classifiers"]
