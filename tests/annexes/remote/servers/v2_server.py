"""A server of the Open Inference Protocol v2 in this process. It runs ONNX files with onnxruntime.

It takes JSON tensors and, with `binary`, binary tensors. `faults` are what it does wrong, by name. `later` are faults
after the first answer.
"""

import json
import ssl
import subprocess
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

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


class V2Server:
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
        certificate: Path | None = None,
        **metadata: Any,
    ) -> None:
        self.models, self.binary, self.announces, self.max_batch = OnnxModels(files), binary, announces, max_batch
        self.token, self.metadata, self.faults, self.later = token, metadata, set[str](), set[str]()
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.batches: list[int] = []
        self.bodies: list[tuple[bytes, bytes]] = []
        self._http = _Http(("127.0.0.1", 0), type("Handler", (_Handler,), {"outer": self}))
        scheme = "http"
        if certificate is not None:
            context, scheme = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https"
            context.load_cert_chain(certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __enter__(self) -> "V2Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def infers(self) -> int:
        """The number of inference requests."""
        return sum(path.endswith("/infer") for path, _ in self.seen)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    outer: V2Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        server, parts = self.outer, self.path.strip("/").split("/")
        server.seen.append((self.path, dict(self.headers)))
        if "redirect" in server.faults:
            return self._send(307, b"", {"Location": "http://elsewhere.invalid/v2"})
        if server.token is not None and self.headers.get("Authorization") != f"Bearer {server.token}":
            return self._error(401, "no or wrong token")
        if "another service" in server.faults:
            return self._send(200, b"<html>welcome</html>")
        if parts == ["v2"]:
            extensions = ["binary_tensor_data"] if server.announces and server.binary else []
            extensions += ["model_configuration"] if server.max_batch is not None else []
            return self._json({"name": "strobe-tests", "version": "1", "extensions": extensions})
        if parts[:2] != ["v2", "models"]:
            return self._error(404, "Not Found")
        name, rest = parts[2], parts[3:]
        if rest[:1] == ["versions"]:
            if rest[1] != "1":
                return self._error(404, f"unknown version {rest[1]}")
            rest = rest[2:]
        if name not in server.models.sessions:
            return self._error(404, f"Request for unknown model: '{name}' is not found")
        if not rest:
            return self._json(server.models.metadata(name) | server.metadata)
        if rest == ["ready"]:
            if "not ready" in server.faults:
                return self._error(400, "Model is not ready")
            return self._send(200, b"")
        if rest == ["config"]:
            return self._json({"name": name, "max_batch_size": server.max_batch})
        if "503" in server.faults:
            server.faults.discard("503")
            return self._send(503, b"{}", {"Retry-After": "0"})
        return self._infer(name, body)

    def _infer(self, name: str, body: bytes) -> None:
        server, length = self.outer, self.headers.get("Inference-Header-Content-Length")
        if length is not None and not server.binary:
            return self._error(400, "failed to parse the request JSON buffer")
        head = len(body) if length is None else int(length)
        server.bodies.append((body[:head], body[head:]))
        try:
            said = json.loads(body[:head])
        except ValueError:
            return self._error(400, "failed to parse the request JSON buffer")
        inputs = {}
        for one in said["inputs"]:
            size = one.get("parameters", {}).get("binary_data_size")
            if size is None:
                values = np.array(one["data"], dtype=NUMPY[one["datatype"]])
            else:
                values, head = np.frombuffer(body[head : head + size], dtype=NUMPY[one["datatype"]]), head + size
            inputs[one["name"]] = values.reshape(one["shape"])
            server.batches.append(one["shape"][0])
        if "bad json" in server.faults:
            return self._send(200, b"{oops")
        arrays = server.models.run(name, inputs, [one["name"] for one in said["outputs"]])
        as_bytes = [bool(one.get("parameters", {}).get("binary_data")) for one in said["outputs"]]
        self._reply(_spoiled(arrays, server.faults), as_bytes)
        server.faults |= server.later
        return None

    def _reply(self, arrays: dict[str, Any], as_bytes: list[bool]) -> None:
        outputs, tail, server = [], b"", self.outer
        for (name, array), raw in zip(arrays.items(), [*as_bytes, False], strict=False):
            kind = next(key for key, numpy in NUMPY.items() if np.dtype(numpy) == array.dtype)
            entry: dict[str, Any] = {"name": name, "datatype": kind, "shape": list(array.shape)}
            if "more values" in server.faults:
                entry["shape"] = [*array.shape, 2]
            if raw and server.binary:
                entry["parameters"] = {"binary_data_size": array.nbytes}
                tail += array.tobytes()
            else:
                entry["data"] = array.ravel().tolist()
            outputs.append(entry)
        version = str(len(server.batches)) if "versions" in server.faults else "1"
        head = json.dumps({"model_name": "m", "model_version": version, "outputs": outputs}).encode()
        self._send(200, head + tail, {"Inference-Header-Content-Length": str(len(head))} if tail else {})

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode())

    def _error(self, status: int, text: str) -> None:
        self._send(status, json.dumps({"error": text}).encode())

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


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
