"""A real cluster of two nodes: predictions, searches and builds on it, and what a worker has of it."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
from made_ray import FAR, MARKS, NETS, PATIENCE_S, RAY, SIX, clips, each_once, run, shards

from strobe.annexes.ray.build import extract_away
from strobe.annexes.ray.pool import RayPool
from strobe.build.extract import ExtractJob
from strobe.build.options import AnchorOptions
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.engine.engine import away
from strobe.engine.prediction import REQUESTS
from strobe.engine.running import ExecutorOptions
from strobe.models.options import LoadOptions
from strobe.models.providers import PROVIDERS
from strobe.models.registry import load_model
from strobe.models.requested import RequestedModel
from strobe.workflows.build import build
from strobe.workflows.options import BuildOptions
from strobe.workflows.predict import predict

pytestmark = MARKS


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return clips(tmp_path, 6)


def test_killed_workers_are_replaced_and_the_bytes_are_those_of_this_machine(
    cluster: Any, dataset: Dataset, heard: Any
) -> None:
    place = Path(dataset.root or "").parent
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


def test_a_node_that_goes_takes_nothing_with_it(cluster: Any, dataset: Dataset, heard: Any) -> None:
    place = Path(dataset.root or "").parent
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
    with pytest.raises(
        StrobeError, match=r"^3 Ray workers died while processing frames 6 to 11 \(its process ended\); finished"
    ):
        run(dataset, "ray", "deadly", engine=ExecutorOptions(name="ray", actors=1))
    assert len(shards(dataset, "ray")) >= 1  # what came before
    (place / "kill-8").unlink()
    fared = run(dataset, "ray", "unloadable", "deadly", engine=RAY)
    assert [(one.ok, one.error) for one in fared] == [
        (False, "Ray workers died repeatedly while loading it (its process ended)"),
        (True, None),
    ]
    run(dataset, "here", "deadly")
    assert shards(dataset, "ray") == shards(dataset, "here")


def test_a_machine_that_does_not_see_a_file_leaves_no_hole(cluster: Any, dataset: Dataset) -> None:
    place = Path(dataset.root or "").parent
    (place / "good.png").write_bytes((place / "data/media/1-2.png").read_bytes())
    # The worker finds the file damaged, and it is whole before the driver hears of it.
    with pytest.raises(StrobeError, match=r"could not read a frame that this machine can read .*1-3\.png"):
        run(dataset, "ray", "mending", engine=ExecutorOptions(name="ray", actors=1))


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
    loads = (heard.path.parent / "loads").read_text().split()
    assert len(loads) == len(set(loads)) <= 2  # who told of the model goes on with it, and loads it once
    assert str(os.getpid()) not in loads


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
    assert f"Ray at {cluster.address} (--engine ray): 2 node(s); at most 2 worker(s) with 1 core(s) each" in said
    assert "Traceback" not in said
    assert len(shards(dataset, "ray")) == 1
    (tmp_path / "go").touch()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["blocked: 16 new"]  # no word of Ray's own
    assert "a Ray worker died (its process ended); others take over its work" in done.stderr.splitlines()
    one = replace(SIX, shard_size=None, batch_size=1)
    predict(dataset, [f"blocked=py:{tmp_path}/models.py:blocked"], tmp_path / "here", one, Silent())
    assert shards(dataset, "ray") == shards(dataset, "here")


def test_what_a_program_hands_over_and_files_of_predictions_stay_here(
    cluster: Any, dataset: Dataset, heard: Any
) -> None:
    place = Path(dataset.root or "").parent
    (place / "mine.json").write_text(json.dumps({str(key): [1.0, 2.0, 9.0] for key in dataset.frames.key}))
    mine: list[int] = []

    def live(options: LoadOptions) -> Any:
        mine.append(os.getpid())  # would be lost elsewhere, as all that a closure holds
        return load_model(f"py:{place}/models.py:colour", options)

    models = [
        "colour=py:models.py:colour",
        RequestedModel("live", "handed over", live=live),
        f"preds:{place}/mine.json",
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(place)  # the workers have another folder
        options = replace(SIX, engine=replace(RAY, actors=1))
        fared = predict(dataset, models, place / "ray", options, heard)
    assert [(one.name, one.ok) for one in fared] == [("colour", True), ("live", True), ("mine", True)]
    assert mine == [os.getpid()]
    assert any(
        line == "live was passed by a program and runs in this process, not on the cluster" for line in heard.lines
    )
    assert {name.partition("/")[0] for name in shards(dataset, "ray")} == {"colour", "live"}
    run(dataset, "here", "colour")
    found = {name: body for name, body in shards(dataset, "ray").items() if name.startswith("colour")}
    assert found == shards(dataset, "here")


def test_the_driver_asks_models_behind_an_address(
    cluster: Any, dataset: Dataset, heard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process keeps the limits, and the other model of the command runs on the cluster."""
    place = Path(dataset.root or "").parent
    (place / "far_away.py").write_text(FAR)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setitem(PROVIDERS.own, "far", "far_away:PROVIDER")
    monkeypatch.setattr(REQUESTS, "own", {"counted": "far_away:REQUESTS"})
    models = ["far=far:colours@http://localhost:1", "colour=py:models.py:colour", f"asks=py:{place}/far_away.py:make"]
    fared = {one.name: one for one in predict(dataset, models, place / "ray", replace(SIX, engine=RAY), heard)}
    assert "far is behind an address and is asked by this process, not on the cluster" in heard.lines
    assert (fared["far"].ok, fared["colour"].ok, fared["asks"].ok) == (True, True, False)
    assert "asks: it asks a service; run it with --engine local" in str(fared["asks"].error)
    assert [("far", os.getpid(), 24)] == sys.modules["far_away"].ASKED


def test_a_search_ends_in_the_same_folder(cluster: Any, tmp_path: Path, heard: Any) -> None:
    import torch

    from strobe.workflows.vary_attack import VaryAttackOptions, vary_attack

    assert clips(tmp_path, 3).root == tmp_path / "data"
    (tmp_path / "nets.py").write_text(NETS)
    nets, load = [f"net=py:{tmp_path}/nets.py:net"], LoadOptions(device="cpu", batch_size=2)
    attacked = VaryAttackOptions(eps=((4 / 255, 16 / 255),), steps=2)
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as an actor of one core has
    try:
        for place, engine in (("here", None), ("ray", replace(RAY, actors=1))):
            if place == "ray":
                (tmp_path / "kill-0").touch()  # the first worker that looks at images
            vary_attack(
                tmp_path / "data", tmp_path / place / "a", nets, attacked, load=load, engine=engine, progress=heard
            )
    finally:
        torch.set_num_threads(before)
    here, there = (
        {str(path.relative_to(tmp_path / place)): path.read_bytes() for path in (tmp_path / place).rglob("*.*")}
        for place in ("here", "ray")
    )
    assert "a/dataset.json" in here
    assert here == there
    assert "a Ray worker died (its process ended); others take over its work" in heard.lines


def test_a_build_on_ray_is_the_same_folder(cluster: Any, tmp_path: Path, heard: Any) -> None:
    videos = [clip(tmp_path / "one.avi", 3), clip(tmp_path / "two.avi", 4), tmp_path / "gone.avi"]
    dog = BuildOptions(label=("dog",), sampling=AnchorOptions(k=3, anchors_per_video=2))
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


class Deadly(type(Path())):  # type: ignore[misc]
    """A video that kills whoever else looks at it, as one does that a decoder crashes on."""

    driver = os.getpid()

    def is_file(self) -> bool:
        if os.getpid() != self.driver:
            os.kill(os.getpid(), signal.SIGKILL)
        return bool(super().is_file())


def test_a_video_that_workers_die_over_is_left_out(cluster: Any, tmp_path: Path) -> None:
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    jobs = [
        ExtractJob(
            path=kind(clip(tmp_path / f"{name}.avi", seed)),
            name=name,
            media_folder=name,
            destination=tmp_path / "out",
            sampling=AnchorOptions(k=1, anchors_per_video=1),
        )
        for seed, (name, kind) in enumerate([("one", Path), ("bad", Deadly), ("two", Path)])
    ]
    pool = RayPool(ray, actors=1, cores=1, gpus=0, say=Silent())
    try:
        found = {one.name: one.problem for one in extract_away(jobs, pool)}
        assert found == {
            "one": "", "two": "", "bad": "bad.avi: the decoder crashed on this video (its process ended)",
        }  # fmt: skip
        assert {path.name for path in (tmp_path / "out/media").iterdir()} == {"one", "two"}
        with pytest.raises(StrobeError, match=r"^a worker raised ZeroDivisionError: division by zero$"):
            list(pool.map(lambda number: 1 / number, [0]))
        assert list(pool.map(bool, [])) == []  # nobody is hired, and nobody waited for
        taken: list[int] = []
        results = pool.map(lambda number: -number, (taken.append(number) or number for number in range(9)))
        assert (next(results), taken) == (0, [0, 1])  # two in flight, and no third before one is back
        assert sorted(results) == list(range(-8, 0))
    finally:
        pool.close()


class InPieces:
    """A result whose pieces belong to the worker: they are fetched after the worker had 2 s to die."""

    def __init__(self, piece: Any) -> None:
        self.pid, self.piece = os.getpid(), piece

    def fetched(self, get: Any) -> int:
        end = time.monotonic() + 2
        while Path(f"/proc/{self.pid}/cmdline").exists() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(1)  # until the node removed what the worker owned
        return int(get(self.piece))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_a_result_that_dies_with_its_worker_is_not_blamed(cluster: Any) -> None:
    """The item after it kills the worker each time, before the pieces of the finished result are fetched."""
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    driver = os.getpid()

    def work(number: int) -> Any:
        if number == 1 and os.getpid() != driver:
            os.kill(os.getpid(), signal.SIGKILL)
        return InPieces(ray.put(10 + number))

    pool = RayPool(ray, actors=1, cores=1, gpus=0, say=Silent())
    try:
        assert sorted(pool.map(work, [0, 1, 2], given_up=lambda number, why: -number)) == [-1, 10, 12]
    finally:
        pool.close()


def test_two_workers_share_a_gpu(cluster: Any, tmp_path: Path, heard: Any) -> None:
    """Where they are put, and what they are given: Ray counts GPUs that its node only says it has."""

    def where(_: int) -> tuple[str, str, dict[str, float], int]:
        (tmp_path / str(os.getpid())).touch()
        end = time.monotonic() + PATIENCE_S
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < end:  # for the other one
            time.sleep(0.02)
        import ray
        import torch

        about = ray.get_runtime_context()
        return (
            about.get_node_id(),
            os.environ["CUDA_VISIBLE_DEVICES"],
            about.get_assigned_resources(),
            torch.get_num_threads(),
        )

    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    node = cluster.add_node(num_cpus=4, num_gpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    try:
        with away(ExecutorOptions(name="ray", gpus=0.5), "auto", heard) as there:
            assert there is not None
            assert there.device == "cuda"
            found = list(there.pool.map(where, range(8)))
    finally:
        cluster.remove_node(node)
    assert "3 node(s); at most 2 worker(s) with 2 core(s) and 0.5 GPU each" in heard.lines[0]
    assert found == [(node.node_id, "0", {"CPU": 2.0, "GPU": 0.5}, 2)] * 8
    assert len(list(tmp_path.iterdir())) == 2


DOORS = """
import os, sys
from pathlib import Path
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.annexes.ray.build import extract_away
from strobe.engine.engine import away
from strobe.engine.running import ExecutorOptions

class Said(Silent):
    def note(self, text):
        print(text)

def door(text="ray"):
    try:
        with away(ExecutorOptions.of(text), "cpu", Said()):
            pass
    except StrobeError as error:
        print(error)

last, real = Path(os.environ["RAY_TMPDIR"]) / "ray/ray_current_cluster", sys.argv[1]
last.parent.mkdir()
last.write_text(real)
door()
last.write_text("127.0.0.1:1")  # as a Ray that was killed leaves it
door()
os.environ["RAY_ADDRESS"] = real
door()
import ray
ray.__version__ = "2.0.0"
door()
"""


def test_which_ray_it_is_is_said(cluster: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="r") as short:  # names of sockets must be
        done = subprocess.run(
            [sys.executable, "-c", DOORS, cluster.address], env={**os.environ, "RAY_TMPDIR": short}, text=True,
            capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    two = r"2 node\(s\); at most 2 worker\(s\) with 1 core\(s\) each"
    lines = [
        rf"Ray at {cluster.address} \(of this machine; set RAY_ADDRESS=local to start .*: {two}",
        r"the Ray last started on this machine, at 127\.0\.0\.1:1, does not answer \(.*refused\)",
        r"a private Ray on this machine: 1 node\(s\); at most .*",
        rf"Ray at {cluster.address} \(RAY_ADDRESS\): {two}",
        rf"RAY_ADDRESS={cluster.address}: the cluster has Ray 2\.[1-9].*, this machine Ray 2\.0\.0 and .*; install .*",
    ]
    said = done.stdout.splitlines()
    assert len(said) == len(lines), said
    for line, pattern in zip(said, lines, strict=True):
        assert re.fullmatch(pattern, line), line
