"""--engine ray on a real Ray of two nodes: workers and a node killed, Ctrl-C, and the same bytes as here."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from made_ray import FAR, MARKS, PATIENCE_S, RAY, SIX, clips, each_once, run, shards

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.engine.prediction import REQUESTS
from strobe.engine.running import ExecutorOptions
from strobe.models.options import LoadOptions
from strobe.models.providers import PROVIDERS
from strobe.models.registry import load_model
from strobe.models.requested import RequestedModel
from strobe.synthetic.sets import SyntheticOptions
from strobe.synthetic.world import WorldOptions
from strobe.workflows.predict import predict
from strobe.workflows.synthesize import synthesize

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


def test_detectors_and_what_is_made_of_their_boxes(cluster: Any, tmp_path: Path) -> None:
    import torch

    options = SyntheticOptions(world=WorldOptions(size=64, frames=3), videos=4, seed=5)
    world, before = synthesize(tmp_path / "data", options).dataset, torch.get_num_threads()
    models = ["strobe-tiny", "boxes:strobe-tiny", "crop:strobe-tiny:strobe-world"]
    torch.set_num_threads(1)  # as an actor of one core has
    try:
        for out, engine in (("here", ExecutorOptions()), ("ray", RAY)):
            fared = predict(world, models, tmp_path / out, replace(SIX, engine=engine), Silent())
            assert [(one.name, one.ok) for one in fared] == [(name, True) for name in models]
    finally:
        torch.set_num_threads(before)
    found = shards(world, "ray")
    assert found == shards(world, "here")
    assert len({name.partition("/")[0] for name in found}) == len(models)
    boxes = [pq.read_table(path) for path in (tmp_path / "ray/predictions/strobe-tiny").glob("*.parquet")]
    assert sum(len(box) for one in boxes for box in one.column("score").to_pylist()) > 0
    assert {one.schema.metadata[b"strobe.device"] for one in boxes} == {b"cpu"}


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
