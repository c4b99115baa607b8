"""Open Inference Protocol v2 over HTTP: what a service says about a model, and one request with its reply.

Tensors are sent as bytes after the JSON (the extension `binary_tensor_data`) or as numbers inside it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.remote.http import HttpClient, HttpReply, patiently
from strobe.core.errors import ModelFailed, printable
from strobe.core.remote import RequestFailed, RequestLimits, Usage
from strobe.models.exported import Tensor

TOKEN = "STROBE_TOKEN"  # noqa: S105 (the name of a variable)
"""The environment variable with the bearer token."""

DATATYPES = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8",
    "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip
"""The datatypes of the protocol as numpy types. BYTES and BF16 have none."""

_NAMES = {kind: name for name, kind in DATATYPES.items()}

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """What a service says about a model. `version` is the requested one, or empty for the service's choice.

    `most` is the largest batch that it accepts; None if it does not say.
    """

    name: str
    version: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    most: int | None = None

    @classmethod
    def of(cls, what: str, name: str, version: str, said: Any) -> "ServedModel":
        """Return the model from its metadata, checked. `what` names the model in errors."""
        if not isinstance(said, dict) or not isinstance(said.get("name"), str):
            raise ModelFailed(f"{what}: its metadata is not that of the Open Inference Protocol v2: {printable(said)}")
        versions = said.get("versions") or []
        return cls(
            name=name,
            version=version,
            versions=tuple(str(one) for one in versions) if isinstance(versions, list) else (),
            platform=printable(said.get("platform", "")),
            inputs=_tensors(what, "inputs", said.get("inputs")),
            outputs=_tensors(what, "outputs", said.get("outputs")),
        )

    def digest(self, address: str) -> str:
        """Return the digest of the address and of everything that identifies the model there.

        The list of versions belongs to it, unless a version was requested.
        """
        facts = [address, self.name, self.version, [] if self.version else self.versions, self.platform]
        tensors = [[[one.name, one.dtype, one.shape] for one in some] for some in (self.inputs, self.outputs)]
        return hashlib.sha256(json.dumps([facts, tensors]).encode()).hexdigest()


class Wire(Protocol):
    """A connection to one model of a service."""

    @property
    def protocol(self) -> str:
        """How tensors travel, for the key of the answers."""

    def infer(self, image: Tensor, pixels: NDArray[Any], outputs: Sequence[str]) -> tuple[Arrays, str, Usage]:
        """Send one request. Return the outputs, the version that answered, and what the request used.

        Raises RequestFailed, and never retries.
        """

    def n_sent(self, pixels: NDArray[Any]) -> int:
        """Return how many bytes these values have in a request."""

    def fall_back(self, error: RequestFailed) -> bool:
        """Return whether the request can be sent in another way after this failure, and do so from now on."""


class RestWire:
    """A model behind HTTP. Tensors are sent as bytes, until the service refuses them without having announced them."""

    def __init__(self, address: str, *, what: str, name: str, version: str, limits: RequestLimits) -> None:
        self._what, self._name, self._version, self._timeout = what, name, version, limits.timeout
        self._path = f"/v2/models/{quote(name, safe='')}" + (f"/versions/{quote(version, safe='')}" if version else "")
        self._client = HttpClient(
            address, what=what, timeout=limits.timeout, connections=limits.concurrency, keys=(TOKEN,)
        )
        self._announced, self._binary = False, True

    @property
    def protocol(self) -> str:
        """How tensors travel."""
        return f"v2, REST, {'binary' if self._binary else 'JSON'} tensors"

    def model(self) -> ServedModel:
        """Read what the service says about itself and about the model."""
        service = self._said("/v2", "it is no service of the Open Inference Protocol v2; write the address without /v2")
        extensions = service.get("extensions") if isinstance(service, dict) else None
        if not isinstance(service, dict) or not isinstance(extensions or [], list):
            raise ModelFailed(f"{self._what}: /v2 is not that of the Open Inference Protocol: {printable(service)}")
        said = self._said(self._path, f"check that the service has the model {printable(self._name)}")
        model = ServedModel.of(self._what, self._name, self._version, said)
        self._send("GET", f"{self._path}/ready", f"the model {printable(self._name)} is not ready; wait or load it")
        self._announced = "binary_tensor_data" in (extensions or ())
        if "model_configuration" in (extensions or ()):
            config = self._said(f"{self._path}/config", "its configuration cannot be read")
            most = config.get("max_batch_size") if isinstance(config, dict) else None
            model = replace(model, most=most if isinstance(most, int) and most > 0 else None)
        return model

    def n_sent(self, pixels: NDArray[Any]) -> int:
        """Return how many bytes these values have in a request."""
        return pixels.nbytes if self._binary else len(json.dumps(pixels.ravel().tolist(), separators=(",", ":")))

    def fall_back(self, error: RequestFailed) -> bool:
        """Send tensors in another way from now on, if the service refused bytes that it had not announced."""
        refused = error.blame != "again" or ": status 500" in str(error)
        if self._announced or self._binary is False or not refused:
            return False
        self._binary = False
        return True

    def infer(self, image: Tensor, pixels: NDArray[Any], outputs: Sequence[str]) -> tuple[Arrays, str, Usage]:
        """Send one request and return the outputs."""
        tensor: dict[str, Any] = {
            "name": image.name, "shape": list(pixels.shape), "datatype": _NAMES[image.dtype],
        }  # fmt: skip
        wanted: list[dict[str, Any]] = [{"name": name} for name in outputs]
        if self._binary:
            content = _little(pixels).tobytes()
            tensor["parameters"] = {"binary_data_size": len(content)}
            wanted = [{**one, "parameters": {"binary_data": True}} for one in wanted]
        else:
            content, tensor["data"] = b"", pixels.ravel().tolist()
        head = json.dumps({"inputs": [tensor], "outputs": wanted}, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json"}
        if content:
            headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
        reply = self._client.send("POST", f"{self._path}/infer", body=head + content, headers=headers)
        used = Usage(requests=1, sent_bytes=len(head) + len(content))
        arrays, version = _reply_of(self._what, reply, used)
        return arrays, version, used

    def _send(self, method: str, path: str, way_out: str) -> HttpReply:
        try:
            return patiently(lambda: self._client.send(method, path), within=self._timeout)
        except RequestFailed as error:
            if ": status 4" not in str(error):
                raise
            raise RequestFailed(f"{error}; {way_out}", blame="model", used=error.used) from error

    def _said(self, path: str, way_out: str) -> Any:
        reply = self._send("GET", path, way_out)
        try:
            return reply.json(self._what)
        except RequestFailed as error:
            raise RequestFailed(f"{error}; {way_out}", blame="model") from error


def _tensors(what: str, which: str, said: Any) -> tuple[Tensor, ...]:
    """Return the inputs or outputs of the metadata."""
    if not isinstance(said, list) or not said:
        raise ModelFailed(f"{what}: the service does not describe its {which}; add them to the model's configuration")
    out = []
    for one in said:
        shape = one.get("shape") if isinstance(one, dict) else None
        if not isinstance(shape, list) or not all(isinstance(size, int) for size in shape) or "name" not in one:
            raise ModelFailed(f"{what}: {which}: expected name, datatype and shape, got {printable(one)}")
        kind = str(one.get("datatype", "")).removeprefix("TYPE_")
        sizes = tuple(size if size >= 0 else None for size in shape)
        out.append(Tensor(str(one["name"]), DATATYPES.get(kind, kind), sizes))
    return tuple(out)


def broken(what: str, problem: str, used: Usage) -> RequestFailed:
    """Return the failure of a request whose reply has another shape than the protocol or the metadata say."""
    return RequestFailed(f"{what}: {problem}", blame="model", used=used)


def array_of(what: str, output: Mapping[str, Any], content: Any, used: Usage) -> NDArray[Any]:
    """Return one output as an array, from its description and its bytes or numbers."""
    name, shape, kind = printable(output.get("name")), output.get("shape"), DATATYPES.get(str(output.get("datatype")))
    if kind is None:
        got = printable(output.get("datatype"))
        raise broken(what, f"its output {name} has the datatype {got}, expected one of {', '.join(DATATYPES)}", used)
    if not isinstance(shape, list) or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise broken(what, f"its output {name} has no valid shape: {printable(shape)}", used)
    try:
        if isinstance(content, bytes):
            values = np.frombuffer(content, dtype=np.dtype(kind).newbyteorder("<")).astype(kind, copy=False)
        else:
            values = np.asarray(content, dtype=kind).ravel()
        return values.reshape(shape)
    except (TypeError, ValueError, OverflowError):
        raise broken(what, f"its output {name} does not contain {printable(shape)} values of {kind}", used) from None


def _reply_of(what: str, reply: HttpReply, used: Usage) -> tuple[Arrays, str]:
    """Return the outputs of a reply and the version that answered."""
    length, body = reply.headers.get("inference-header-content-length"), reply.body
    if length is not None and not (length.isdecimal() and len(length) < 20 and int(length) <= len(body)):
        raise broken(
            what, f"its reply has the header length {printable(length, limit=40)}, but {len(body)} bytes", used
        )
    head = len(body) if length is None else int(length)
    said = replace(reply, body=body[:head]).json(what)
    outputs = said.get("outputs") if isinstance(said, dict) else None
    if not isinstance(outputs, list) or not all(isinstance(output, dict) for output in outputs):
        raise broken(what, "its reply has no outputs", used)
    arrays: Arrays = {}
    for one in outputs:
        parameters = one.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if isinstance(size, int):
            content: Any = body[head : head + size]
            head += size
        else:
            content = one.get("data")
        arrays[str(one.get("name"))] = array_of(what, one, content, used)
    return arrays, str(said.get("model_version") or "")


def _little(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return the array in little-endian order, as the protocol sends bytes."""
    return pixels.astype(pixels.dtype.newbyteorder("<"), copy=False)
