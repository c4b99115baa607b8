"""Where work is carried out: what is asked of a cluster, and what cannot be."""

import math
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from typing import Any

import pytest

from strobe.annexes.ray import cluster as engines
from strobe.annexes.ray.cluster import _Room, _room
from strobe.annexes.ray.pool import _Actor, _Refused
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.engine.engine import away
from strobe.engine.running import ExecutorOptions

RAY = ExecutorOptions(name="ray")


def test_how_much_room_a_cluster_has() -> None:
    gpus, cpus = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 1.0}], [{"CPU": 16.0}, {"CPU": 2.0}, {"node:head": 1.0}]
    assert _room(ExecutorOptions(name="ray", gpus=0.5), "auto", gpus) == _Room(4, 2, 0.5)
    assert _room(ExecutorOptions(name="ray"), "cuda", gpus) == _Room(2, 4, 1.0)
    assert _room(ExecutorOptions(name="ray"), "cpu", gpus) == _Room(9, 1, 0.0)
    assert _room(ExecutorOptions(name="ray"), "auto", cpus) == _Room(9, 2, 0.0)
    assert _room(ExecutorOptions(name="ray", cores=8, actors=1), "auto", cpus) == _Room(1, 8, 0.0)
    assert _room(ExecutorOptions(name="ray", actors=3, gpus=1), "auto", []) == _Room(
        3, 1, 1.0
    )  # they come when they are asked for
    with pytest.raises(
        StrobeError, match=r"^no node of the Ray cluster has 1 core\(s\) and 4 GPU for a worker; request less"
    ):
        _room(ExecutorOptions(name="ray", gpus=4), "auto", gpus)
    assert _room(ExecutorOptions(name="ray", gpus=0), "auto", gpus) == _Room(9, 1, 0.0)
    for share, device in ((1.0, "cpu"), (0.0, "cuda")):  # before any Ray is started for it
        said = pytest.raises(
            StrobeError,
            match=rf"^--actor-gpus {share:g} and --device {device} contradict each other; remove one of them$",
        )
        with said, away(ExecutorOptions(name="ray", gpus=share), device, Silent()):
            pass


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray has no wheel for this Python")
@pytest.mark.parametrize(
    ("engine", "device", "line"),
    [
        ("slurm", "cpu", "engine: expected local, ray or ray=ADDRESS, got 'slurm'"),
        ("ray=ray://head:10001", "cpu", "strobe writes the answers and must run on a node of the cluster"),
        ("ray", "cuda:1", "--device cuda:1 is a device of one machine; with --engine ray, use cpu or cuda"),
        ("ray=127.0.0.1:1", "cpu", r"^--engine ray=127.0.0.1:1: no Ray cluster answers there \(.*refused"),
        ("ray=127.0.0.1:70000", "cpu", r"^--engine ray=127.0.0.1:70000: expected HOST:PORT, local or auto$"),
        ("ray=no such host:1", "cpu", r"^--engine ray=no such host:1: no Ray cluster answers there \("),
        ("ray=nowhere", "cpu", r"^--engine ray=nowhere: expected HOST:PORT, local or auto$"),
        ("ray=127.0.0.1:-5", "cpu", r"^--engine ray=127.0.0.1:-5: expected HOST:PORT, local or auto$"),
    ],
)
def test_engines_that_cannot_be(engine: str, device: str, line: str) -> None:
    with pytest.raises(StrobeError, match=line), away(ExecutorOptions.of(engine), device, Silent()):
        pass


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray has no wheel for this Python")
def test_who_listens_and_is_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(port: int, why: str) -> None:
        line = rf"^--engine ray=127.0.0.1:{port}: no Ray cluster answers there \({why}\)"
        with pytest.raises(StrobeError, match=line), away(ExecutorOptions.of(f"ray=127.0.0.1:{port}"), "cpu", Silent()):
            pass

    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as web:
        web.timeout = 60
        answering = threading.Thread(target=web.handle_request)
        answering.start()
        said(web.server_port, "the program that listens there is not Ray")
        answering.join()
    monkeypatch.setattr(engines, "_KNOCK_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said(silent.getsockname()[1], "timed out")


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray has no wheel for this Python")
def test_an_address_of_the_environment_is_one_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(StrobeError, match=r"^RAY_ADDRESS=127.0.0.1:1: no Ray.*refused"), away(RAY, "cpu", Silent()):
        pass


def test_another_version_is_refused() -> None:
    said = _Actor(None, "0.0.0", 1 << 20).take(bool)
    assert isinstance(said, _Refused)
    assert "the driver has 0.0.0; install the same version on every machine" in said.line
    with pytest.raises(StrobeError, match=r"^--actors only works with --engine ray$"):
        ExecutorOptions(actors=2)


def test_a_worker_on_another_machine_spins_as_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", given := dict[str, str]())
    _Actor(None, None, 1 << 20)
    assert given == {"GOMP_SPINCOUNT": "3000"}


@pytest.mark.parametrize("gpus", [-1.0, 1e-5, 1.5, math.nan, math.inf])
def test_shares_of_a_gpu_that_cannot_be(gpus: float) -> None:
    line = r"^actor gpus: expected a fraction of one GPU \(at least 0.0001\), or an integer, got "
    with pytest.raises(StrobeError, match=line):
        ExecutorOptions(name="ray", gpus=gpus)


@pytest.mark.parametrize("n", [0, -1, 10**9, math.nan])
def test_numbers_of_workers_and_cores_that_cannot_be(n: Any) -> None:
    with pytest.raises(StrobeError, match=r"^actors: expected 1–10,000, got "):
        ExecutorOptions(name="ray", actors=n)
    with pytest.raises(StrobeError, match=r"^actor cores: expected 1–10,000, got "):
        ExecutorOptions(name="ray", cores=n)
