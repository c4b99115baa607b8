"""`kserve:` against a real MLServer. Runs where `make servers` installed it (`make test-servers`)."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.core.remote import RequestFailed
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

ROOT = Path(__file__).parents[4]
HOME = ROOT / ".servers" / "mlserver"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (HOME / ".installed").is_file(), reason="make servers installs MLServer"),
]


@dataclass
class Running:
    folder: Path
    http: int
    grpc: int

    def url(self, scheme: str) -> str:
        return f"{scheme}://127.0.0.1:{self.http if scheme == 'http' else self.grpc}"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """MLServer with strobe's bundled classifier and detector."""
    sys.path.insert(0, str(ROOT / "scripts"))
    from served_models import write_models, write_repository
    from servers import start

    folder = tmp_path_factory.mktemp("mlserver")
    write_repository(folder, write_models(folder / "files"))
    place = Running(folder / "files", _free_port(), _free_port())
    process = start(folder, http=place.http, grpc=place.grpc, quiet=True)
    try:
        for _ in range(600):
            assert process.poll() is None, "MLServer has ended"
            try:
                urllib.request.urlopen(f"{place.url('http')}/v2/models/tiny/ready", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield place
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """A few hundred frames of the synthetic world, as `strobe synthesize` writes them."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("frames") / "world"
    subprocess.run([sys.executable, "-m", "strobe", "synthesize", str(folder), "--videos", "24"], check=True)
    files = sorted((folder / "media").rglob("*.png")) or sorted((folder / "media").rglob("*.jpg"))
    assert len(files) >= 200
    return [np.asarray(Image.open(file).convert("RGB")) for file in files]


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_classes_equal_the_same_file_in_process(running: Running, frames: list[Any], scheme: str) -> None:
    if scheme == "grpc":
        pytest.importorskip("tritonclient.grpc", reason="the extra kserve-grpc")
    here: Any = load_model(f"onnx:{running.folder / 'world.onnx'}", LoadOptions(device="cpu"))
    options = LoadOptions(settings=running.folder / "world.json")
    there: Any = load_model(f"kserve:world@{running.url(scheme)}", options)
    ways = {"http": "v2, REST, JSON tensors", "grpc": "v2, gRPC, raw tensors"}
    assert there.spec.preprocessing["protocol"] == ways[scheme], "MLServer refuses binary tensors over REST"
    assert there.spec.preprocessing["version"] == "1"
    want = here.forward([here.prepare(one) for one in frames])
    got = there.forward([there.prepare(one) for one in frames])
    print(f"{scheme}: {len(frames)} frames, largest difference of scores {np.abs(got - want).max():.2g}")
    assert (got.argmax(axis=1) == want.argmax(axis=1)).all()
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_boxes_equal_the_same_file_in_process(running: Running, frames: list[Any], scheme: str) -> None:
    if scheme == "grpc":
        pytest.importorskip("tritonclient.grpc", reason="the extra kserve-grpc")
    here: Any = load_model(f"onnx:{running.folder / 'tiny.onnx'}", LoadOptions(device="cpu"))
    there: Any = load_model(f"kserve:tiny@{running.url(scheme)}", LoadOptions(settings=running.folder / "tiny.json"))
    want = here.forward([here.prepare(one) for one in frames])
    got = there.forward([there.prepare(one) for one in frames])
    n_boxes, most = 0, 0.0
    for a, b in zip(got, want, strict=True):
        assert a.label.tolist() == b.label.tolist()
        np.testing.assert_allclose(a.score, b.score, atol=1e-5)
        np.testing.assert_allclose(a.xyxy, b.xyxy, atol=1e-3)
        n_boxes, most = n_boxes + len(a), max(most, np.abs(a.xyxy - b.xyxy).max(initial=0.0))
    assert n_boxes > len(frames) / 2
    print(f"{scheme}: {len(frames)} frames, {n_boxes} boxes, largest difference of corners {most:.2g}")


def test_the_clients_of_nvidia_get_the_same_numbers(running: Running, frames: list[Any], tmp_path: Path) -> None:
    there: Any = load_model(f"kserve:world@{running.url('http')}", LoadOptions(settings=running.folder / "world.json"))
    prepared = [there.prepare(one) for one in frames]
    theirs = _nvidia(tmp_path, there.pixels_of(prepared), http=running.http, grpc=running.grpc, how="json")
    ours = there.forward(prepared)
    for way in ("http", "grpc"):
        print(f"NVIDIA's {way} client: largest difference {np.abs(theirs[way] - ours).max():.2g}")
        np.testing.assert_array_equal(theirs[way], ours)


def test_binary_requests_have_the_bytes_of_nvidias_client(running: Running, frames: list[Any], tmp_path: Path) -> None:
    """MLServer refuses binary tensors, so the server of the tests gets the requests of both clients."""
    from v2_server import V2Server

    with V2Server({"world": running.folder / "world.onnx"}) as server:
        there: Any = load_model(f"kserve:world@{server.url}", LoadOptions(settings=running.folder / "world.json"))
        assert there.spec.preprocessing["protocol"] == "v2, REST, binary tensors"
        prepared = [there.prepare(one) for one in frames[:64]]
        server.bodies.clear()
        ours = there.forward(prepared)
        n_ours = len(server.bodies)
        port = int(server.url.rpartition(":")[2])
        theirs = _nvidia(tmp_path, there.pixels_of(prepared), http=port, grpc=0, how="binary")
        np.testing.assert_array_equal(theirs["http"], ours)
        assert n_ours == 8
        assert len(server.bodies) == 16
        for (head, tail), (other_head, other_tail) in zip(server.bodies[:8], server.bodies[8:], strict=True):
            assert tail == other_tail, "the bytes of the tensor"
            assert len(tail) == 8 * 3 * 64 * 64 * 4
            assert json.loads(head)["inputs"] == json.loads(other_head)["inputs"]
            assert json.loads(head)["outputs"] == json.loads(other_head)["outputs"]


def _nvidia(folder: Path, pixels: Any, *, http: int, grpc: int, how: str) -> Any:
    """The outputs that NVIDIA's clients get for these tensors."""
    np.savez(folder / "in.npz", pixels=pixels)
    script = Path(__file__).with_name("ask_with_triton.py")
    given = ["world", "scores", http, grpc, how, folder / "in.npz", folder / "out.npz"]
    command = [str(one) for one in (HOME / "bin" / "python", script, *given)]
    subprocess.run(command, check=True, timeout=300)
    return np.load(folder / "out.npz")


def test_what_mlserver_refuses_is_one_line(running: Running) -> None:
    with pytest.raises(RequestFailed, match="status 404: Model nope not found; check that") as caught:
        load_model(f"kserve:nope@{running.url('http')}", LoadOptions(settings=running.folder / "world.json"))
    assert caught.value.blame == "model"
    settings = json.loads((running.folder / "world.json").read_text())
    few = running.folder / "few.json"
    few.write_text(json.dumps(settings | {"labels": settings["labels"][:5]}))
    with pytest.raises(Exception, match="it has 12 outputs, but 5 labels"):
        load_model(f"kserve:world@{running.url('http')}", LoadOptions(settings=few))
