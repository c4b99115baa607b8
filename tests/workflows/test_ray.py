"""--engine ray on a real Ray of two nodes: workers and a node killed, Ctrl-C, and the same bytes as here."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from strobe.build.sample import Sampling
from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.datasets import folder
from strobe.models.asked import Asked
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.workflows.build import BuildOptions, build
from strobe.workflows.engines import _QUIET, Engine
from strobe.workflows.predict import Fared, PredictOptions, predict
from strobe.workflows.ray_pool import RayPool

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray has no wheel for this Python"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # files that older versions of Ray leave open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PATIENCE_S = 120.0
"""For what comes in a few seconds on a quiet machine; who waits longer gets an error, not a guess."""

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
    return forward, ["red", "green", "blue"]

def deadly():
    def forward(images):
        if (HERE / f"kill-{int(images[0][0, 0, 0])}").exists():
            die()
        return scores(images)
    return forward, ["red", "green", "blue"]

def blocked():
    def forward(images):
        if images[0][0, 0, 0] >= 128:
            wait_for("go")
            if first_time("killed"):
                die()
        return scores(images)
    return forward, ["red", "green", "blue"]

def watched():
    def forward(images):
        if images[0][0, 0, 0] >= 12:
            wait_for("ticked")
        return scores(images)
    return forward, ["red", "green", "blue"]

def mending():
    def forward(images):
        if images[0][0, 0, 0] == 10:
            (HERE / "data/media/1-3.png").write_bytes((HERE / "good.png").read_bytes())
        return scores(images)
    return forward, ["red", "green", "blue"]

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
    return forward, ["red", "green", "blue"]
"""
SIX = PredictOptions(load=LoadOptions(device="cpu", batch_size=2), shard_size=6)


class Heard(Silent):
    """A Progress that keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    os.environ.update(_QUIET)
    import ray
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=small)
    try:
        made.add_node(num_cpus=1, object_store_memory=80 * 2**20)
        ray.init(address=made.address, log_to_driver=False, logging_level="error")
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return clips(tmp_path, 6)


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
    (root / "media/1-3.png").write_bytes(b"not a picture")
    info = DatasetInfo(name="noise", label_space=LabelSpace.of_names("colours", ("red", "green", "blue")), k=per_clip)
    folder.write(grown.build(info), root, overwrite=True)
    (tmp_path / "models.py").write_text(MODELS)
    return folder.read(root)


def run(dataset: Dataset, out: str, *models: str, heard: Silent | None = None, **how: Any) -> list[Fared]:
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


RAY = Engine(name="ray")


def test_killed_workers_are_replaced_and_the_bytes_are_those_of_this_machine(cluster: Any, dataset: Dataset) -> None:
    place, heard = Path(dataset.root or "").parent, Heard()
    run(dataset, "here", "mortal", "colour")
    for frame in (4, 14):
        (place / f"kill-{frame}").touch()
    fared = run(dataset, "ray", "mortal", "colour", heard=heard, engine=RAY)
    assert [(one.ok, one.outcome.n_new, one.outcome.n_unreadable) for one in fared if one.outcome] == [
        (True, 24, 1),
        (True, 24, 1),
    ]
    assert all((place / f"killed-{frame}").exists() for frame in (4, 14))
    assert sum("a Ray worker died (its process ended)" in line for line in heard.lines) >= 2
    assert shards(dataset, "ray") == shards(dataset, "here")
    each_once(dataset, "ray", "mortal")
    one = next((place / "ray/predictions/colour").glob("*.parquet"))
    assert pq.read_schema(one).metadata[b"strobe.device"] == b"cpu"
    again = run(dataset, "ray", "mortal", "colour", engine=RAY)
    assert [one.outcome.n_new for one in again if one.outcome] == [0, 0]
    early = {
        out: run(dataset, out, "colour", stop_early=True, **how)[0] for out, how in (("e", {}), ("er", {"engine": RAY}))
    }
    assert early["e"].stopped == early["er"].stopped != None  # noqa: E711
    assert shards(dataset, "e") == shards(dataset, "er")


def test_a_node_that_goes_takes_nothing_with_it(cluster: Any, dataset: Dataset) -> None:
    place, heard = Path(dataset.root or "").parent, Heard()
    run(dataset, "here", "doomed", shard_size=2)  # more than two workers hold at once
    node = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    (place / "doomed").write_text(node.node_id)

    def kill() -> None:
        end = time.monotonic() + PATIENCE_S
        while not (place / "reached").exists() and time.monotonic() < end:
            time.sleep(0.02)
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    fared = run(dataset, "ray", "doomed", heard=heard, engine=RAY, shard_size=2)
    killer.join()
    assert (place / "reached").exists()
    assert fared[0].ok
    assert any("a Ray worker died" in line for line in heard.lines)
    assert shards(dataset, "ray") == shards(dataset, "here")
    each_once(dataset, "ray", "doomed")


def test_the_third_death_over_the_same_frames_is_one_line(cluster: Any, dataset: Dataset) -> None:
    place = Path(dataset.root or "").parent
    (place / "kill-8").touch()
    with pytest.raises(StrobeError, match=r"^3 Ray workers died over frames 6 to 11 \(its process ended\); finished"):
        run(dataset, "ray", "deadly", engine=Engine(name="ray", actors=1))
    assert len(shards(dataset, "ray")) >= 1  # what came before
    (place / "kill-8").unlink()
    assert run(dataset, "ray", "deadly", engine=RAY)[0].ok
    run(dataset, "here", "deadly")
    assert shards(dataset, "ray") == shards(dataset, "here")


def test_a_machine_that_does_not_see_a_file_leaves_no_hole(cluster: Any, dataset: Dataset) -> None:
    place = Path(dataset.root or "").parent
    (place / "good.png").write_bytes((place / "data/media/1-2.png").read_bytes())
    # The worker finds the file damaged, and it is whole before the driver hears of it.
    with pytest.raises(StrobeError, match=r"could not read a frame that can be read here .*1-3\.png"):
        run(dataset, "ray", "mending", engine=Engine(name="ray", actors=1))


class Touching(Silent):
    """A Progress that leaves a file when it first hears of work done, and keeps count."""

    def __init__(self, path: Path) -> None:
        self.path, self.ticks = path, list[int]()

    def task(self, label: str, total: int | None) -> Any:
        return nullcontext(self.tick)

    def tick(self, n: int) -> None:
        self.ticks.append(n)
        self.path.touch()


def test_progress_is_heard_of_before_a_shard_is_done(cluster: Any, dataset: Dataset) -> None:
    heard = Touching(Path(dataset.root or "").parent / "ticked")
    assert run(dataset, "ray", "watched", heard=heard, engine=RAY, shard_size=24)[0].ok  # it waits in its shard for us
    assert sum(heard.ticks) == 24


def test_ctrl_c_keeps_finished_shards_and_the_same_command_goes_on(cluster: Any, tmp_path: Path) -> None:
    dataset = clips(tmp_path, 36)
    command = [
        sys.executable, "-m", "strobe", "predict", "data", "-m", "blocked=py:models.py:blocked", "-o", "ray",
        "--batch-size", "1", "--device", "cpu", "--engine", f"ray={cluster.address}",
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as driver:
        end = time.monotonic() + PATIENCE_S
        while not shards(dataset, "ray") and time.monotonic() < end and driver.poll() is None:
            time.sleep(0.02)
        driver.send_signal(signal.SIGINT)
        said = driver.communicate(timeout=PATIENCE_S)[1]
    assert driver.returncode == 130, said
    assert "Traceback" not in said
    assert len(shards(dataset, "ray")) == 1
    (tmp_path / "go").touch()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["blocked: 16 new"]  # no word of Ray's own
    assert "a Ray worker died (its process ended); its work is given to others" in done.stderr.splitlines()
    one = replace(SIX, shard_size=None, load=LoadOptions(device="cpu", batch_size=1))
    predict(dataset, [f"blocked=py:{tmp_path}/models.py:blocked"], tmp_path / "here", one, Silent())
    assert shards(dataset, "ray") == shards(dataset, "here")


def test_what_a_program_hands_over_and_files_of_predictions_stay_here(cluster: Any, dataset: Dataset) -> None:
    place, heard = Path(dataset.root or "").parent, Heard()
    (place / "mine.json").write_text(json.dumps({str(key): [0.1, 0.2, 0.9] for key in dataset.frames.key}))
    mine: list[int] = []

    def live(options: LoadOptions) -> Any:
        mine.append(os.getpid())  # would be lost elsewhere, as all that a closure holds
        return load_model(f"py:{place}/models.py:colour", options)

    models = ["colour=py:models.py:colour", Asked("live", "handed over", live=live), f"preds:{place}/mine.json"]
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(place)  # the workers have another folder
        options = replace(SIX, engine=replace(RAY, actors=1))
        fared = predict(dataset, models, place / "ray", options, heard)
    assert [(one.name, one.ok) for one in fared] == [("colour", True), ("live", True), ("mine", True)]
    assert mine == [os.getpid()]
    assert any(line == "live was handed over by a program and runs here, not on Ray" for line in heard.lines)
    assert {name.partition("/")[0] for name in shards(dataset, "ray")} == {"colour", "live"}
    run(dataset, "here", "colour")
    found = {name: body for name, body in shards(dataset, "ray").items() if name.startswith("colour")}
    assert found == shards(dataset, "here")


NETS = """
import torch
from torch import nn
from strobe.core.labels import LabelSpace
from strobe.generator.layered import layered
from strobe.models.options import ModelName
from strobe.models.plan import ImagePlan
from strobe.models.torch_classifier import classifier_of

COLOURS = LabelSpace.of_names("colours", ["red", "green", "blue"])

class Net(nn.Module):
    def forward(self, pixels):
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


def test_searches_end_in_the_same_folders(cluster: Any, tmp_path: Path) -> None:
    import torch

    from strobe.workflows.vary_attack import AttackWanted, vary_attack
    from strobe.workflows.vary_generator import GeneratorWanted, vary_generator

    assert clips(tmp_path, 3).root == tmp_path / "data"
    (tmp_path / "nets.py").write_text(NETS)
    nets, load = [f"net=py:{tmp_path}/nets.py:net"], LoadOptions(device="cpu", batch_size=2)
    attacked = AttackWanted(eps=((4 / 255, 16 / 255),), steps=3)
    drawn = GeneratorWanted(images=4, steps=10, strips=1, scale_images=20, most=4.0)
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as an actor of one core has
    try:
        for place, one, two in (("here", None, None), ("ray", replace(RAY, actors=1), RAY)):
            vary_attack(tmp_path / "data", tmp_path / place / "a", nets, attacked, load=load, engine=one)
            vary_generator(tmp_path / place / "g", f"py:{tmp_path}/nets.py:paint", nets, drawn, load=load, engine=two)
    finally:
        torch.set_num_threads(before)
    here, there = (
        {str(path.relative_to(tmp_path / place)): path.read_bytes() for path in (tmp_path / place).rglob("*.*")}
        for place in ("here", "ray")
    )
    assert {"a/dataset.json", "g/dataset.json"} <= set(here)
    assert here == there


def test_a_build_on_ray_is_the_same_folder(cluster: Any, tmp_path: Path) -> None:
    videos = [clip(tmp_path / "one.avi", 3), clip(tmp_path / "two.avi", 4), tmp_path / "gone.avi"]
    dog, heard = BuildOptions(label=("dog",), sampling=Sampling(k=3, anchors_per_video=2)), Heard()
    here, ray = tmp_path / "here", tmp_path / "ray"
    built = [build(videos, here, dog), build(videos, ray, replace(dog, name="here", engine=RAY), progress=heard)]
    assert [one.problems for one in built] == [("gone.avi: no such file",)] * 2
    assert contents(here) == contents(ray)
    assert sum(name.startswith("media/") for name in contents(ray)) > 20
    again = build(videos, ray, replace(dog, name="here", engine=RAY))
    assert (again.reused, again.decoded) == (2, 0)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def clip(path: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=25, options={"strict": "-1"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
        for _ in range(24):
            pixels = rng.integers(0, 255, (48, 64, 3), dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return path


class Pieces:
    """A result that lies in the object store until it is fetched."""

    def __init__(self, piece: Any) -> None:
        self.piece = piece

    def fetched(self, get: Any) -> int:
        return int(get(self.piece))


def test_what_workers_die_over_is_given_up_and_the_rest_goes_on(cluster: Any) -> None:
    import ray

    def square(number: int) -> Pieces:
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return Pieces(ray.put(number * number))

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    pool = RayPool(ray, actors=1, cores=1, gpus=0, say=Silent())
    try:
        found = list(pool.map(square, range(5), given_up=lambda number, why: (number, why)))
        assert sorted(map(str, found)) == ["(2, 'its process ended')", "0", "1", "16", "9"]
        with pytest.raises(StrobeError, match=r"^a worker raised ZeroDivisionError: division by zero$"):
            list(pool.map(lambda number: 1 / number, [0]))
        assert list(pool.map(square, [])) == []  # nobody is hired, and nobody waited for
    finally:
        pool.close()
