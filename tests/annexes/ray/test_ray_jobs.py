"""What else --engine ray does: searches and builds, which Ray it takes, and what a worker has of it."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from made_ray import MARKS, NETS, PATIENCE_S, RAY, clips

from strobe.annexes.ray.build import extract_away
from strobe.annexes.ray.pool import RayPool
from strobe.build.extract import ExtractJob
from strobe.build.options import AnchorOptions
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.engine.engine import away
from strobe.engine.running import ExecutorOptions
from strobe.models.options import LoadOptions
from strobe.workflows.build import build
from strobe.workflows.options import BuildOptions

pytestmark = MARKS


def test_searches_end_in_the_same_folders(cluster: Any, tmp_path: Path, heard: Any) -> None:
    import torch

    generators = pytest.importorskip("strobe.annexes.generators.workflow")
    from strobe.workflows.vary_attack import VaryAttackOptions, vary_attack

    assert clips(tmp_path, 3).root == tmp_path / "data"
    (tmp_path / "nets.py").write_text(NETS)
    nets, load = [f"net=py:{tmp_path}/nets.py:net"], LoadOptions(device="cpu", batch_size=2)
    attacked = VaryAttackOptions(eps=((4 / 255, 16 / 255),), steps=3)
    drawn = generators.VaryGeneratorOptions(images=4, steps=10, strips=1, scale_images=20, most=4.0)
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as an actor of one core has
    try:
        for place, one, two in (("here", None, None), ("ray", replace(RAY, actors=1), RAY)):
            if place == "ray":
                (tmp_path / "kill-0").touch()  # the first worker that looks at images
            vary_attack(
                tmp_path / "data", tmp_path / place / "a", nets, attacked, load=load, engine=one, progress=heard
            )
            generators.vary_generator(
                tmp_path / place / "g", f"py:{tmp_path}/nets.py:paint", nets, drawn, load=load, engine=two
            )
    finally:
        torch.set_num_threads(before)
    here, there = (
        {str(path.relative_to(tmp_path / place)): path.read_bytes() for path in (tmp_path / place).rglob("*.*")}
        for place in ("here", "ray")
    )
    assert {"a/dataset.json", "g/dataset.json"} <= set(here)
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
    """A result whose pieces belong to the worker: they are fetched after the worker had 5 s to die."""

    def __init__(self, piece: Any) -> None:
        self.pid, self.piece = os.getpid(), piece

    def fetched(self, get: Any) -> int:
        end = time.monotonic() + 5
        while Path(f"/proc/{self.pid}/cmdline").exists() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(2)  # until the node removed what the worker owned
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
