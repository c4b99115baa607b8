"""A server of the Open Inference Protocol v2 in this process. It runs ONNX files with onnxruntime.

It takes JSON tensors and, with `binary`, binary tensors. `faults` are what it does wrong, by name. `later` are faults
after the first answer.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from serving import HttpService, Request, send

DATATYPES = {
    "tensor(float)": "FP32", "tensor(float16)": "FP16", "tensor(uint8)": "UINT8", "tensor(int64)": "INT64",
}  # fmt: skip
NUMPY = {"FP32": "<f4", "FP16": "<f2", "UINT8": "u1", "INT64": "<i8", "FP64": "<f8"}


class OnnxModels:
    """ONNX files by name: their metadata, and their outputs."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.sessions = {
            name: onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            for name, path in files.items()
        }

    def metadata(self, name: str) -> dict[str, Any]:
        session = self.sessions[name]
        tensors = {
            which: [
                {
                    "name": one.name,
                    "datatype": DATATYPES[one.type],
                    "shape": [size if isinstance(size, int) else -1 for size in one.shape],
                }
                for one in some
            ]
            for which, some in (("inputs", session.get_inputs()), ("outputs", session.get_outputs()))
        }
        return {"name": name, "versions": ["1"], "platform": "onnxruntime_onnx", **tensors}

    def run(self, name: str, inputs: dict[str, Any], outputs: list[str]) -> dict[str, Any]:
        names = outputs or [one.name for one in self.sessions[name].get_outputs()]
        return dict(zip(names, self.sessions[name].run(names, inputs), strict=True))


class V2Server(HttpService):
    """The server, in threads of this process.

    `seen` has the path and headers of every request, `bodies` the JSON and the bytes of every inference.
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        *,
        binary: bool = True,
        announces: bool = True,
        max_batch: int | None = None,
        token: str | None = None,
        **metadata: Any,
    ) -> None:
        self.models, self.binary, self.announces, self.max_batch = OnnxModels(files), binary, announces, max_batch
        self.token, self.metadata, self.faults, self.later = token, metadata, set[str](), set[str]()
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.batches: list[int] = []
        self.bodies: list[tuple[bytes, bytes]] = []
        super().__init__(self._answer)
        self.url = self.root

    def infers(self) -> int:
        """The number of inference requests."""
        return sum(path.endswith("/infer") for path, _ in self.seen)

    def _answer(self, request: Request, body: bytes) -> None:
        status, content, *headers = self._of(request, body)
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        send(request, status, content, *headers)

    def _of(self, request: Request, body: bytes) -> tuple[Any, ...]:
        parts = request.path.strip("/").split("/")
        self.seen.append((request.path, dict(request.headers)))
        if "redirect" in self.faults:
            return 307, b"", {"Location": "http://elsewhere.invalid/v2"}
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {"error": "no or wrong token"}
        if "another service" in self.faults:
            return 200, b"<html>welcome</html>"
        if parts == ["v2"]:
            extensions = ["binary_tensor_data"] if self.announces and self.binary else []
            extensions += ["model_configuration"] if self.max_batch is not None else []
            return 200, {"name": "strobe-tests", "version": "1", "extensions": extensions}
        if parts[:2] != ["v2", "models"]:
            return 404, {"error": "Not Found"}
        name, rest = parts[2], parts[3:]
        if rest[:1] == ["versions"]:
            if rest[1] != "1":
                return 404, {"error": f"unknown version {rest[1]}"}
            rest = rest[2:]
        if name not in self.models.sessions:
            return 404, {"error": f"Request for unknown model: '{name}' is not found"}
        if not rest:
            return 200, self.models.metadata(name) | self.metadata
        if rest == ["ready"]:
            return (400, {"error": "Model is not ready"}) if "not ready" in self.faults else (200, b"")
        if rest == ["config"]:
            return 200, {"name": name, "max_batch_size": self.max_batch}
        if "503" in self.faults:
            self.faults.discard("503")
            return 503, b"{}", {"Retry-After": "0"}
        return self._infer(name, body, request.headers.get("Inference-Header-Content-Length"))

    def _infer(self, name: str, body: bytes, length: str | None) -> tuple[Any, ...]:
        head = len(body) if length is None else int(length)
        try:
            if length is not None and not self.binary:
                raise ValueError("binary tensors")
            self.bodies.append((body[:head], body[head:]))
            said = json.loads(body[:head])
        except ValueError:
            return 400, {"error": "failed to parse the request JSON buffer"}
        inputs = {}
        for one in said["inputs"]:
            size = one.get("parameters", {}).get("binary_data_size")
            if size is None:
                values = np.array(one["data"], dtype=NUMPY[one["datatype"]])
            else:
                values, head = np.frombuffer(body[head : head + size], dtype=NUMPY[one["datatype"]]), head + size
            inputs[one["name"]] = values.reshape(one["shape"])
            self.batches.append(one["shape"][0])
        if "bad json" in self.faults:
            return 200, b"{oops"
        arrays = self.models.run(name, inputs, [one["name"] for one in said["outputs"]])
        as_bytes = [bool(one.get("parameters", {}).get("binary_data")) for one in said["outputs"]]
        reply = self._outputs(_spoiled(arrays, self.faults), as_bytes)
        self.faults |= self.later
        return reply

    def _outputs(self, arrays: dict[str, Any], as_bytes: list[bool]) -> tuple[Any, ...]:
        outputs, tail = [], b""
        for (name, array), raw in zip(arrays.items(), [*as_bytes, False], strict=False):
            kind = next(key for key, numpy in NUMPY.items() if np.dtype(numpy) == array.dtype)
            entry: dict[str, Any] = {"name": name, "datatype": kind, "shape": list(array.shape)}
            if "more values" in self.faults:
                entry["shape"] = [*array.shape, 2]
            if raw and self.binary:
                entry["parameters"] = {"binary_data_size": array.nbytes}
                tail += array.tobytes()
            else:
                entry["data"] = array.ravel().tolist()
            outputs.append(entry)
        version = str(len(self.batches)) if "versions" in self.faults else "1"
        head = json.dumps({"model_name": "m", "model_version": version, "outputs": outputs}).encode()
        return 200, head + tail, {"Inference-Header-Content-Length": str(len(head))} if tail else {}


def _spoiled(arrays: dict[str, Any], faults: set[str]) -> dict[str, Any]:
    """The outputs with the faults that are about tensors."""
    out = {}
    for name, array in arrays.items():
        changed = np.array(array)
        if "width" in faults:
            changed = changed[:, :-1]
        if "rows" in faults:
            changed = np.concatenate([changed, changed])
        if "dtype" in faults:
            changed = changed.astype(np.int64)
        if "nan" in faults:
            changed[0] = np.nan
        out["another" if "missing" in faults else name] = np.ascontiguousarray(changed)
    return out


def self_signed(folder: Path) -> Path:
    """A certificate for 127.0.0.1 with its key, that nobody has signed."""
    path = folder / "own.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(path), "-out",
         str(folder / "own.crt")], check=True, capture_output=True,
    )  # fmt: skip
    path.write_text(path.read_text() + (folder / "own.crt").read_text())
    return path
