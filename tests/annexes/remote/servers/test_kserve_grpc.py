"""`kserve:NAME@grpc://…` against a gRPC server in this process that runs the same ONNX files."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.core.errors import StrobeError
from strobe.core.ports import RemoteModel
from strobe.core.remote import RequestFailed
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

pytest.importorskip("tritonclient.grpc", reason="the extra kserve-grpc")


def server(served: Path, **more: Any) -> Any:
    from v2_grpc import GrpcServer

    return GrpcServer({"world": served / "world.onnx", "tiny": served / "tiny.onnx"}, **more)


def load(url: str, served: Path, name: str = "world", **options: Any) -> Any:
    return load_model(f"kserve:{name}@{url}", LoadOptions(settings=served / f"{name}.json", **options))


def images(n: int = 11) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 256, (70, 90, 3), dtype=np.uint8) for _ in range(n)]


@pytest.mark.parametrize("typed", [False, True], ids=["raw", "typed"])
def test_answers_equal_the_same_file_in_process(served: Path, typed: bool) -> None:
    with server(served, typed=typed, max_batch=4) as running:
        here: Any = load_model(f"onnx:{served / 'world.onnx'}", LoadOptions(device="cpu"))
        there = load(running.url, served)
        assert isinstance(there, RemoteModel)
        assert there.spec.batch_size == 4
        assert there.spec.preprocessing["protocol"] == "v2, gRPC, raw tensors"
        got = there.forward([there.prepare(one) for one in images()])
        np.testing.assert_allclose(got, here.forward([here.prepare(one) for one in images()]), atol=1e-6)
        assert running.batches == [4, 4, 4, 3], "the test images first"
        boxes: Any = load_model(f"onnx:{served / 'tiny.onnx'}", LoadOptions(device="cpu"))
        tiny = load(running.url, served, "tiny")
        pairs = zip(
            tiny.forward([tiny.prepare(one) for one in images()]),
            boxes.forward([boxes.prepare(one) for one in images()]),
            strict=True,
        )
        for a, b in pairs:
            np.testing.assert_allclose(a.xyxy, b.xyxy, atol=1e-4)


def test_faults_are_one_line_with_the_right_blame(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with server(served, token="s3cret-word") as running:
        with pytest.raises(StrobeError, match="it asks for a key; set STROBE_TOKEN"):
            load(running.url, served)
        monkeypatch.setenv("STROBE_TOKEN", "wr0ng-word")
        with pytest.raises(StrobeError, match="it refused the key in STROBE_TOKEN") as caught:
            load(running.url, served)
        assert "wr0ng-word" not in str(caught.value)
        monkeypatch.setenv("STROBE_TOKEN", "s3cret-word")
        with pytest.raises(StrobeError, match=r"NOT_FOUND.*check that the service has the model nope"):
            load_model(f"kserve:nope@{running.url}", LoadOptions(settings=served / "world.json"))
        with pytest.raises(StrobeError, match="expected an address without a path"):
            load(f"{running.url}/v2", served)
        model = load(running.url, served)
        prepared = [model.prepare(images(1)[0])]
        for fault, message in (
            ("dtype", "is int64, but it announced float32"),
            ("missing", "lacks the output scores; it has another"),
            ("width", r"shape \[1, 11\], but it announced \[\?, 12\]"),
            ("nan", "contains NaN"),
        ):
            running.faults = {fault}
            with pytest.raises(RequestFailed, match=message) as wrong:
                model.ask(prepared, sources=["a"])
            assert wrong.value.blame == "model"
        running.faults = {"503"}
        with pytest.raises(RequestFailed) as later:
            model.ask(prepared, sources=["a"])
        assert later.value.blame == "again"
        running.faults = {"not ready"}
        with pytest.raises(StrobeError, match="the model world is not ready"):
            load(running.url, served)


def test_a_reply_that_is_too_large_fails_its_frame(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import v2_grpc
    from tritonclient.grpc import service_pb2 as pb

    huge = pb.ModelInferResponse(model_name="world", model_version="1", raw_output_contents=[b"0" * 70_000_000])
    monkeypatch.setattr(v2_grpc.GrpcServer, "ModelInfer", lambda self, request, context: huge)
    with server(served) as running, pytest.raises(StrobeError, match="larger than 67,108,864 bytes"):
        load(running.url, served)


def test_a_message_that_repeats_the_key_escaped(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import urllib.parse

    import grpc

    secret = "s3cret/word+1"
    monkeypatch.setenv("STROBE_TOKEN", secret)
    forms = [secret, urllib.parse.quote(secret, safe=""), "".join(f"\\u{ord(one):04x}" for one in secret)]
    with server(served) as running:
        model = load(running.url, served)
        prepared = [model.prepare(images(1)[0])]
        for form in forms:
            monkeypatch.setattr(
                type(running),
                "_check",
                lambda self, name, context, form=form: context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"bad {form}"),
            )
            with pytest.raises(RequestFailed) as failed:
                model.ask(prepared, sources=["a"])
            assert "INVALID_ARGUMENT: bad …" in str(failed.value), form


def test_what_grpc_logs_is_not_printed(
    served: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The library logs the bytes of a message that is not UTF-8, and a service had put the key there."""
    import grpc
    import v2_grpc

    monkeypatch.setenv("STROBE_TOKEN", "s3cret/word+1")
    with server(served) as running:
        model = load(running.url, served)
        prepared = [model.prepare(images(1)[0])]
        capfd.readouterr()

        def refuse(self: Any, name: str, context: Any) -> None:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, b"\xff s3cret/word+1")

        monkeypatch.setattr(v2_grpc.GrpcServer, "_check", refuse)
        with pytest.raises(RequestFailed) as failed:
            model.ask(prepared, sources=["a"])
    assert "s3cret" not in str(failed.value) + caplog.text + "".join(capfd.readouterr())


def test_a_certificate_that_fails_is_one_line(served: Path, tmp_path: Path) -> None:
    import grpc
    from v2_server import self_signed

    own = self_signed(tmp_path)
    pair = [(own.read_bytes(), (tmp_path / "own.crt").read_bytes())]
    secure = grpc.server(ThreadPoolExecutor(1))
    port = secure.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pair))
    secure.start()
    with pytest.raises(StrobeError) as failed:
        load(f"grpcs://127.0.0.1:{port}", served, limits={"timeout": 3})
    # In a process of its own, since the core of gRPC reads once what it may print.
    script = (
        "import sys\nfrom strobe.models.options import LoadOptions\nfrom strobe.models.registry import load_model\n"
        "try:\n    load_model(sys.argv[1], LoadOptions(limits={'timeout': 3}))\n"
        "except Exception as error:\n    print(error)\n"
    )
    words = [sys.executable, "-c", script, f"kserve:world@grpcs://127.0.0.1:{port}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    assert "certificate cannot be verified" in done.stdout
    secure.stop(None).wait()
    assert "certificate cannot be verified" in str(failed.value)
    assert "\n" not in str(failed.value)
