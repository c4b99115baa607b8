"""The same server over gRPC, from the protocol buffers of NVIDIA's client library."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc
from v2_server import NUMPY, OnnxModels, _spoiled


class GrpcServer(service_pb2_grpc.GRPCInferenceServiceServicer):
    """The server. `typed`: outputs are lists of numbers, not raw bytes."""

    def __init__(
        self, files: Mapping[str, Path], *, token: str | None = None, typed: bool = False, max_batch: int | None = None
    ) -> None:
        self.models, self.token, self.typed, self.max_batch = OnnxModels(files), token, typed, max_batch
        self.faults, self.batches = set[str](), []
        self._server = grpc.server(ThreadPoolExecutor(4))
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self, self._server)
        self.url = f"grpc://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def __enter__(self) -> "GrpcServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.stop(None).wait()

    def _check(self, name: str, context: Any) -> None:
        if self.token is not None and ("authorization", f"Bearer {self.token}") not in context.invocation_metadata():
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no or wrong token")
        if name and name not in self.models.sessions:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{name}' is not found")

    def ServerMetadata(self, request: Any, context: Any) -> Any:
        self._check("", context)
        extensions = ["model_configuration"] if self.max_batch is not None else []
        return pb.ServerMetadataResponse(name="strobe-tests", version="1", extensions=extensions)

    def ModelMetadata(self, request: Any, context: Any) -> Any:
        self._check(request.name, context)
        said = self.models.metadata(request.name)
        tensors = {
            which: [pb.ModelMetadataResponse.TensorMetadata(**one) for one in said[which]]
            for which in ("inputs", "outputs")
        }
        return pb.ModelMetadataResponse(
            name=request.name, versions=said["versions"], platform=said["platform"], **tensors
        )

    def ModelReady(self, request: Any, context: Any) -> Any:
        return pb.ModelReadyResponse(ready="not ready" not in self.faults)

    def ModelConfig(self, request: Any, context: Any) -> Any:
        response = pb.ModelConfigResponse()
        response.config.max_batch_size = self.max_batch or 0
        return response

    def ModelInfer(self, request: Any, context: Any) -> Any:
        self._check(request.model_name, context)
        if "503" in self.faults:
            self.faults.discard("503")
            context.abort(grpc.StatusCode.UNAVAILABLE, "try later")
        inputs = {
            one.name: np.frombuffer(raw, dtype=NUMPY[one.datatype]).reshape(list(one.shape))
            for one, raw in zip(request.inputs, request.raw_input_contents, strict=True)
        }
        self.batches.append(request.inputs[0].shape[0])
        arrays = self.models.run(request.model_name, inputs, [one.name for one in request.outputs])
        response = pb.ModelInferResponse(model_name=request.model_name, model_version="1")
        for name, array in _spoiled(arrays, self.faults).items():
            kind = next(key for key, numpy in NUMPY.items() if np.dtype(numpy) == array.dtype)
            output = response.outputs.add(name=name, datatype=kind, shape=list(array.shape))
            if self.typed:
                output.contents.fp32_contents.extend(array.ravel().tolist())
            else:
                response.raw_output_contents.append(array.tobytes())
        return response
