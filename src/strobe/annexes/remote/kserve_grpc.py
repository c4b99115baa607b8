"""Open Inference Protocol v2 over gRPC, with NVIDIA's client library (the extra `kserve-grpc`)."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from strobe.annexes.remote.http import MOST_BYTES, keep_quiet, key_of, patiently
from strobe.annexes.remote.kserve_wire import DATATYPES, TOKEN, Arrays, ServedModel, array_of, broken
from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require
from strobe.core.remote import Blame, RequestFailed, RequestLimits, Usage
from strobe.models.exported import Tensor

_AGAIN = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED", "CANCELLED", "INTERNAL", "UNKNOWN")
_FRAME = ("INVALID_ARGUMENT", "OUT_OF_RANGE")
_KEY = ("UNAUTHENTICATED", "PERMISSION_DENIED")

_CONTENTS = {
    "BOOL": "bool_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents",
}  # fmt: skip
"""The field of a typed tensor by its datatype, for services that send no raw bytes."""


class GrpcWire:
    """A model behind gRPC. Tensors travel as raw bytes."""

    protocol = "v2, gRPC, raw tensors"

    def __init__(self, address: str, *, what: str, name: str, version: str, limits: RequestLimits) -> None:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core prints what a service says, too
        self._library = require("tritonclient.grpc", what=what, extra="kserve-grpc")
        scheme, _, place = address.partition("://")
        if "/" in place:
            raise ModelFailed(f"{what}: expected an address without a path, e.g. grpc://HOST:8081")
        self._what, self._name, self._version, self._timeout = what, name, version, limits.timeout
        self._secret = key_of([TOKEN], what)
        keep_quiet("grpc")
        self._headers = {"authorization": f"Bearer {self._secret}"} if self._secret else None
        bounds = [("grpc.max_receive_message_length", MOST_BYTES), ("grpc.max_send_message_length", -1)]
        self._client = self._library.InferenceServerClient(place, ssl=scheme == "grpcs", channel_args=bounds)

    def n_sent(self, pixels: NDArray[Any]) -> int:
        """Return how many bytes these values have in a request."""
        return pixels.nbytes

    def fall_back(self, error: RequestFailed) -> bool:  # noqa: ARG002 (the port's signature)
        """Return False: tensors travel in one way."""
        return False

    def model(self) -> ServedModel:
        """Read what the service says about the model."""
        return patiently(self._model, within=self._timeout)

    def _model(self) -> ServedModel:
        service = self._call(self._client.get_server_metadata)
        said = self._call(
            self._client.get_model_metadata, self._name, self._version,
            way_out=f"check that the service has the model {printable(self._name)}",
        )  # fmt: skip
        tensors = {
            which: [{"name": one.name, "datatype": one.datatype, "shape": list(one.shape)} for one in some]
            for which, some in (("inputs", said.inputs), ("outputs", said.outputs))
        }
        metadata = {"name": said.name, "versions": list(said.versions), "platform": said.platform, **tensors}
        model = ServedModel.of(self._what, self._name, self._version, metadata)
        if not self._call(self._client.is_model_ready, self._name, self._version):
            raise ModelFailed(f"{self._what}: the model {printable(self._name)} is not ready; wait or load it")
        if "model_configuration" not in service.extensions:
            return model
        config = self._call(self._client.get_model_config, self._name, self._version)
        return replace(model, most=config.config.max_batch_size or None)

    def infer(self, image: Tensor, pixels: NDArray[Any], outputs: Sequence[str]) -> tuple[Arrays, str, Usage]:
        """Send one request and return the outputs."""
        library, used = self._library, Usage(requests=1, sent_bytes=pixels.nbytes)
        kind = next(name for name, numpy in DATATYPES.items() if numpy == image.dtype)
        tensor = library.InferInput(image.name, list(pixels.shape), kind)
        tensor.set_data_from_numpy(pixels)
        wanted = [library.InferRequestedOutput(name) for name in outputs]
        reply = self._call(
            self._client.infer, self._name, [tensor], self._version, wanted, used=used
        ).get_response()  # fmt: skip
        raw, arrays = list(reply.raw_output_contents), Arrays()
        if raw and len(raw) != len(reply.outputs):
            raise broken(self._what, f"its reply has {len(reply.outputs)} outputs, but {len(raw)} tensors", used)
        for index, output in enumerate(reply.outputs):
            described = {"name": output.name, "datatype": output.datatype, "shape": list(output.shape)}
            typed = _CONTENTS.get(output.datatype)
            content: Any = raw[index] if raw else list(getattr(output.contents, typed)) if typed else []
            arrays[output.name] = array_of(self._what, described, content, used)
        return arrays, reply.model_version, used

    def _call(self, method: Callable[..., Any], *args: Any, way_out: str = "", used: Usage | None = None) -> Any:
        try:
            return method(*args, headers=self._headers, client_timeout=self._timeout)
        except self._library.InferenceServerException as error:
            raise self._failed(error, way_out, used or Usage(requests=1)) from error

    def _failed(self, error: Any, way_out: str, used: Usage) -> RequestFailed:
        """Return the failure, with its blame from the status of gRPC."""
        status, text = str(error.status() or "").rpartition(".")[2], str(error.message() or "")
        blame: Blame = "again" if status in _AGAIN else "frame" if status in _FRAME else "model"
        if "CERTIFICATE_VERIFY_FAILED" in text or "SSL_ERROR" in text or "Ssl handshake" in text:
            blame, text = "model", "its certificate cannot be verified"
        elif status == "RESOURCE_EXHAUSTED" and "larger than max" in text:  # gRPC's own limit on what it receives
            blame, text = "frame", f"the reply is larger than {MOST_BYTES:,} bytes"
        elif status == "DEADLINE_EXCEEDED":
            text = f"no complete reply within {self._timeout:g} s"
        elif status == "UNAVAILABLE":
            text = f"nothing answers at this address; is the service running? ({printable(text, limit=120)})"
        elif status in _KEY:
            way = f"it refused the key in {TOKEN}" if self._secret else f"it asks for a key; set {TOKEN}"
            text = f"{way} ({status}: {text})"
        else:
            text = f"{status}: {text}" + (f"; {way_out}" if way_out else "")
        return RequestFailed(f"{self._what}: {printable(text, limit=240)}", blame=blame, used=used)
