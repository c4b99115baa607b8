"""kserve: against a server in this process that runs real ONNX files: answers, batches, keys, faults and whole runs."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from v2_server import V2Server

from strobe.annexes.remote.http import HttpReply
from strobe.annexes.remote.kserve_wire import _reply_of
from strobe.cli.main import main
from strobe.core.errors import StrobeError
from strobe.core.ports import RemoteModel
from strobe.core.remote import RequestFailed, Usage
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.store import dataset_folder
from strobe.store.run_folder import Run

REST = ["binary", "binary, not announced", "json"]


def images(n: int = 11, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, (60 + n % 7, 90, 3), dtype=np.uint8) for n in range(n)]


def server(served: Path, way: str = "binary", **more: Any) -> V2Server:
    files = {"world": served / "world.onnx", "tiny": served / "tiny.onnx"}
    return V2Server(files, binary=way != "json", announces=way == "binary", **more)


def load(url: str, served: Path, name: str = "world", **options: Any) -> Any:
    options.setdefault("settings", served / f"{name.partition('/')[0]}.json")
    return load_model(f"kserve:{name}@{url}", LoadOptions(**options))


class Notes:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


@pytest.mark.parametrize("way", REST)
def test_scores_equal_the_same_file_in_process(served: Path, way: str) -> None:
    here: Any = load_model(f"onnx:{served / 'world.onnx'}", LoadOptions(device="cpu"))
    with server(served, way) as running:
        notes: Any = Notes()
        there = load(running.url, served, progress=notes)
        assert isinstance(there, RemoteModel)
        prepared = [there.prepare(image) for image in images()]
        np.testing.assert_array_equal(there.forward(prepared), here.forward([here.prepare(one) for one in images()]))
        reply = there.ask(prepared[:3], sources=["a", "a", "b"])
        assert len(reply.answers) == 3
        assert reply.used.requests == 1
        assert reply.used.sent_bytes > 3 * 3 * 64 * 64 * 4, "every byte of the tensors is counted"
        protocol = "JSON" if way == "json" else "binary"
        assert there.spec.preprocessing["protocol"] == f"v2, REST, {protocol} tensors"
        (line,) = notes.lines
        assert f"{protocol} tensors, at most 8 images per request, version 1" in line


@pytest.mark.parametrize("way", REST)
def test_boxes_equal_the_same_file_in_process(served: Path, way: str) -> None:
    here: Any = load_model(f"onnx:{served / 'tiny.onnx'}", LoadOptions(device="cpu"))
    with server(served, way) as running:
        there = load(running.url, served, "tiny", batch_size=4)
        prepared = [there.prepare(image) for image in images()]
        want, got = here.forward([here.prepare(one) for one in images()]), there.forward(prepared)
        assert sum(len(one) for one in got) > 0
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a.xyxy, b.xyxy)
            np.testing.assert_array_equal(a.label, b.label)
        answers = there.ask(prepared[:2], sources=["a", "b"]).answers
        np.testing.assert_array_equal(answers[1].found.score, want[1].score)
        assert max(running.batches) == 4


def test_batches_are_as_the_service_allows(served: Path) -> None:
    with server(served, max_batch=5) as running:
        model = load(running.url, served)
        assert model.spec.batch_size == 5
        model.forward([model.prepare(image) for image in images(11)])
        assert running.batches == [4, 5, 5, 1], "test images at the start, then the batches"
        assert load(running.url, served, batch_size=3).spec.batch_size == 3
        with pytest.raises(StrobeError, match="at most 5 images at once; use --batch-size 5"):
            load(running.url, served, batch_size=6)


def test_a_fixed_batch_is_filled_up(served: Path, tmp_path: Path) -> None:
    import onnx

    graph = onnx.load(str(served / "world.onnx"))
    for tensor in (graph.graph.input[0], graph.graph.output[0]):
        tensor.type.tensor_type.shape.dim[0].dim_value = 4
    onnx.save(graph, str(tmp_path / "four.onnx"))
    here: Any = load_model(f"onnx:{served / 'world.onnx'}", LoadOptions(device="cpu"))
    with V2Server({"four": tmp_path / "four.onnx"}) as running:
        model = load(running.url, served, "four", settings=served / "world.json")
        assert model.spec.batch_size == 4
        got = model.forward([model.prepare(image) for image in images(6)])
        assert set(running.batches) == {4}
    np.testing.assert_allclose(got, here.forward([here.prepare(one) for one in images(6)]), atol=1e-5)


def test_an_input_of_bytes_gets_pixels(served: Path, tmp_path: Path) -> None:
    """An 8-bit input is not normalised; the network does it."""
    import onnx
    from onnx import TensorProto, helper

    graph = onnx.load(str(served / "world.onnx"))
    old = graph.graph.input[0].name
    graph.graph.input[0].name = "pixels"
    graph.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    constants = [helper.make_tensor(name, TensorProto.FLOAT, [], [value]) for name, value in (("c0", 63.75), ("c1", 2))]
    graph.graph.initializer.extend(constants)
    for node in reversed(
        [
            helper.make_node("Cast", ["pixels"], ["cast"], to=TensorProto.FLOAT),
            helper.make_node("Div", ["cast", "c0"], ["div"]),
            helper.make_node("Sub", ["div", "c1"], [old]),
        ]
    ):
        graph.graph.node.insert(0, node)
    onnx.save(graph, str(tmp_path / "bytes.onnx"))
    settings = json.loads((served / "world.json").read_text())
    for key in ("mean", "std", "divide"):
        settings.pop(key)
    (tmp_path / "bytes.json").write_text(json.dumps(settings))
    here: Any = load_model(f"onnx:{served / 'world.onnx'}", LoadOptions(device="cpu"))
    also: Any = load_model(f"onnx:{tmp_path / 'bytes.onnx'}", LoadOptions(device="cpu"))
    want = here.forward([here.prepare(one) for one in images()])
    np.testing.assert_allclose(also.forward([also.prepare(one) for one in images()]), want, atol=1e-4)
    with V2Server({"bytes": tmp_path / "bytes.onnx"}) as running:
        model = load(running.url, tmp_path, "bytes")
        np.testing.assert_allclose(model.forward([model.prepare(one) for one in images()]), want, atol=1e-4)
        with pytest.raises(StrobeError, match="8-bit pixels, so mean has no effect"):
            load(running.url, served, "bytes", settings=served / "world.json")


def test_the_key_has_address_version_tensors_and_protocol(served: Path) -> None:
    with server(served) as one, server(served) as other, server(served, platform="pytorch_libtorch") as third:
        plain = load(one.url, served).spec
        assert load(one.url, served).spec == plain
        digests = {plain.weights, load(other.url, served).spec.weights, load(third.url, served).spec.weights}
        pinned = load(one.url, served, "world/versions/1").spec
        assert len({*digests, pinned.weights}) == 4
        assert pinned.preprocessing["version"] == "1"
        assert any("/versions/1/infer" in path for path, _ in one.seen)
        one.binary = False
        one.announces = False
        assert load(one.url, served).spec.preprocessing != plain.preprocessing


def test_the_token_is_sent_and_shown_nowhere(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with server(served, token="s3cret-word") as running:
        with pytest.raises(StrobeError, match="it asks for a key; set STROBE_TOKEN"):
            load(running.url, served)
        monkeypatch.setenv("STROBE_TOKEN", "wr0ng-word")
        with pytest.raises(StrobeError, match="it refused the key in STROBE_TOKEN") as caught:
            load(running.url, served)
        assert "wr0ng-word" not in str(caught.value)
        monkeypatch.setenv("STROBE_TOKEN", "s3cret-word")
        model = load(running.url, served)
        model.forward([model.prepare(images(1)[0])])
        assert "s3cret-word" not in repr(model.spec)


REPLIES = {
    "width": r"output scores has shape \[\d, 11\], but it announced \[\?, 12\]",
    "rows": r"output scores has shape \[\d, 12\] for \d images",
    "dtype": r"output scores is int64, but it announced float32",
    "missing": r"lacks the output scores; it has another",
    "nan": r"output scores contains NaN",
    "more values": r"output scores does not contain \[\d, 12, 2\] values of float32",
}


@pytest.mark.parametrize("way", ["binary", "json"])
@pytest.mark.parametrize("fault", REPLIES)
def test_a_reply_of_another_shape_blames_the_model(served: Path, fault: str, way: str) -> None:
    with server(served, way) as running:
        model = load(running.url, served)
        prepared = [model.prepare(images(1)[0])]
        running.faults.add(fault)
        n_before = running.infers()
        with pytest.raises(RequestFailed, match=REPLIES[fault]) as caught:
            model.ask(prepared, sources=["a"])
        assert caught.value.blame == "model"
        assert "\n" not in str(caught.value)
        assert running.infers() == n_before + 1, "nothing is retried"
        with pytest.raises(StrobeError, match=REPLIES[fault]):
            load(running.url, served)  # found at the start, before a frame is asked


def test_more_faults_of_a_reply(served: Path) -> None:
    with server(served) as running:
        model = load(running.url, served)
        prepared = [model.prepare(image) for image in images(2)]
        running.faults = {"bad json"}
        with pytest.raises(RequestFailed, match="not JSON") as caught:
            model.ask(prepared, sources=["a", "a"])
        assert caught.value.blame == "frame"
        running.faults = {"503"}
        with pytest.raises(RequestFailed, match="status 503") as caught:
            model.ask(prepared, sources=["a", "a"])
        assert caught.value.blame == "again"
        assert caught.value.after == 0
        model.ask(prepared, sources=["a", "a"])
        running.faults = {"versions"}
        with pytest.raises(RequestFailed, match=r"version \d answered, and version 1 before.*/versions/") as caught:
            model.ask(prepared, sources=["a", "a"])
        assert caught.value.blame == "model"


@pytest.mark.parametrize("length", ["9" * 5000, "-1", "1e3", "999", ""])
def test_a_length_of_a_header_that_no_reply_has(length: str) -> None:
    reply = HttpReply(headers={"inference-header-content-length": length}, body=b"{}")
    with pytest.raises(RequestFailed, match=r"^far: its reply has the header length [^\n]*, but 2 bytes$"):
        _reply_of("far", reply, Usage(requests=1))


def test_an_unlabelled_width_is_refused(served: Path, tmp_path: Path) -> None:
    settings = json.loads((served / "world.json").read_text())
    (tmp_path / "few.json").write_text(json.dumps(settings | {"labels": settings["labels"][:-1]}))
    variable = [{"name": "scores", "datatype": "FP32", "shape": [-1, -1]}]
    with server(served) as running, server(served, outputs=variable) as vague:
        with pytest.raises(StrobeError, match="it has 12 outputs, but 11 labels"):
            load(running.url, served, settings=tmp_path / "few.json")
        with pytest.raises(RequestFailed, match="output scores has 12 classes, but 11 labels") as caught:
            load(vague.url, served, settings=tmp_path / "few.json")
        assert caught.value.blame == "model"
        boxes = json.loads((served / "tiny.json").read_text())
        (tmp_path / "boxes.json").write_text(json.dumps(boxes | {"labels": boxes["labels"][:-1]}))
        with pytest.raises(StrobeError, match="12 classes, but 11 labels"):
            load(running.url, served, "tiny", settings=tmp_path / "boxes.json")


def _tensor(name: str, datatype: str, *shape: int) -> list[dict[str, Any]]:
    return [{"name": name, "datatype": datatype, "shape": list(shape)}]


METADATA = {
    "no inputs": ({"inputs": []}, "does not describe its inputs"),
    "two inputs": ({"inputs": _tensor("a", "FP32", 1) + _tensor("b", "FP32", 1)}, r"it has 2 inputs \(a, b\)"),
    "text": ({"inputs": _tensor("prompt", "BYTES", -1, 1)}, "input prompt has the datatype BYTES, expected one of"),
    "whole numbers": ({"inputs": _tensor("images", "INT64", -1, 3, 64, 64)}, "datatype INT64, expected one of"),
    "a table": ({"inputs": _tensor("x", "FP32", -1, 13)}, r"shape \[\?, 13\], expected four dimensions"),
    "channels last": ({"inputs": _tensor("x", "FP32", -1, 64, 64, 3)}, "is the layout nhwc"),
    "other width": ({"outputs": _tensor("scores", "FP32", -1, 1000)}, "it has 1000 outputs, but 12 labels"),
    "classes": ({"outputs": _tensor("scores", "INT64", -1, 12)}, "datatype int64, expected FP32"),
    "very large": (
        {"inputs": _tensor("x", "FP32", -1, 3, 20000, 20000)},
        r"its input x of shape .* takes more than 1 GiB",
    ),
    "no end": ({"inputs": _tensor("x", "FP32", -1, 3, 10**30, 64)}, "takes more than 1 GiB"),
    "a large batch": (
        {"inputs": _tensor("x", "FP32", 10**9, 3, 64, 64)},
        r"shape \[1000000000, 3, 64, 64\] takes more",
    ),
    "no shape": ({"outputs": [{"name": "scores"}]}, "expected name, datatype and shape"),
    "no name": ({"name": None}, "not that of the Open Inference Protocol v2"),
}


@pytest.mark.parametrize("case", METADATA)
def test_a_model_of_another_shape_is_one_line(served: Path, case: str) -> None:
    changed, message = METADATA[case]
    with server(served, **changed) as running, pytest.raises(StrobeError, match=message) as caught:
        load(running.url, served)
    assert "\n" not in str(caught.value)
    assert running.infers() == 0


def test_a_place_that_is_no_such_service_is_one_line(served: Path, tmp_path: Path) -> None:
    with server(served) as running:
        cases = [
            (f"kserve:nope@{running.url}", "status 404.*check that the service has the model nope"),
            (f"kserve:world/versions/7@{running.url}", "status 404.*unknown version 7"),
            (f"kserve:world@{running.url}/v2", "status 404.*write the address without /v2"),
            ("kserve:world", "expected an address after @, e.g. kserve:world@http://localhost:8080"),
            ("kserve:world@world.onnx", "expected an address after @"),
            ("kserve:world@ftp://127.0.0.1", "expected an address such as https://HOST:PORT"),
            ("kserve:world@http://me:hunter2@127.0.0.1:1", "contains a password"),
        ]
        for text, message in cases:
            with pytest.raises(StrobeError, match=message) as caught:
                load_model(text, LoadOptions(settings=served / "world.json"))
            assert "\n" not in str(caught.value)
            assert "hunter2" not in str(caught.value)
        with pytest.raises(
            StrobeError, match=r"the service does not describe its input normalisation.*--model-settings"
        ):
            load(running.url, served, settings=None)
        (tmp_path / "typo.json").write_text(json.dumps({"labels": "dataset", "menn": [0, 0, 0]}))
        with pytest.raises(StrobeError, match="did you mean mean"):
            load(running.url, served, settings=tmp_path / "typo.json")
        for fault, message in (
            ("not ready", "the model world is not ready"),
            ("redirect", "it redirects to http://elsewhere.invalid/v2; use that address"),
            ("another service", "not JSON"),
        ):
            running.faults = {fault}
            with pytest.raises(StrobeError, match=message):
                load(running.url, served)
        running.faults = {"503"}
        load(running.url, served)  # the first request may be asked again
    with pytest.raises(StrobeError, match="nothing answers at this address; is the service running"):
        load(running.url, served)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve short videos of the synthetic world."""
    folder = tmp_path_factory.mktemp("run") / "data"
    assert _strobe("synthesize", folder, "--videos", 12, "--k", 2, "--size", 64) == 0
    return folder


def _strobe(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def _answers(data: Path, run: Path) -> Any:
    (model,) = Run(run).models(dataset_folder.read(data))
    return model.load()


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_a_run_equals_the_run_of_the_file(
    served: Path, data: Path, tmp_path: Path, binary: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with V2Server({"world": served / "world.onnx"}, binary=binary, announces=False) as server:
        server.faults = {"503"}  # the first request of the load
        model = f"kserve:world@{server.url}"
        words = ("predict", data, "-m", model, "--model-settings", served / "world.json", "-o", tmp_path / "far")
        assert _strobe(*words, "--limits", "concurrency=4") == 0
        estimated, sent = (
            float(re.search(pattern, text)[1])  # type: ignore[index]
            for pattern, text in zip(
                (r"about ([\d.]+) MB", r"([\d.]+) MB sent"), reversed(capsys.readouterr()), strict=True
            )
        )
        assert estimated == pytest.approx(sent, rel=0.1)
        n_before = server.infers()
        assert sum(server.batches) - server.batches[0] >= 60, "every frame was sent"
        assert _strobe(*words) == 0
        assert server.infers() - n_before <= 2, "the second time, only a blank image is sent"
    assert _strobe("predict", data, "-m", f"onnx:{served / 'world.onnx'}", "-o", tmp_path / "near") == 0
    far, near = _answers(data, tmp_path / "far"), _answers(data, tmp_path / "near")
    assert far.scored.all()
    assert len(far.scored) == 60
    np.testing.assert_array_equal(far.label, near.label)
    np.testing.assert_array_equal(np.asarray(far.scores[:]), np.asarray(near.scores[:]))
    facts = json.loads((tmp_path / "far/run.json").read_text())["models"][model]
    assert f"{'binary' if binary else 'JSON'} tensors" in json.dumps(facts["preprocessing"])


def test_a_service_that_changes_its_shape_ends_the_model_in_one_line(
    served: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with V2Server({"world": served / "world.onnx"}) as server:
        server.faults = {"width"}
        words = ("predict", data, "-m", f"kserve:world@{server.url}", "--model-settings", served / "world.json")
        assert _strobe(*words, "-o", tmp_path / "bad") == 2
        said = "".join(capsys.readouterr())
        assert ", 11], but it announced [?, 12]" in said
        assert "Traceback" not in said
        assert not (tmp_path / "bad").exists()
        server.faults = set()
        server.later = {"nan"}  # after the load
        assert _strobe(*words, "-o", tmp_path / "bad") == 2
        said = "".join(capsys.readouterr())
        assert "its output scores contains NaN" in said
        assert server.infers() <= 12, "the model ends at once"
