"""Run ONNX networks with OpenVINO on a CPU, behind the methods of an ONNX Runtime session that strobe uses.

OpenVINO by itself computes in bfloat16 on processors that can. strobe asks it for float32, unless bfloat16 is
requested. It reads networks without OpenVINO's converter, the only part that sends telemetry.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, StrobeError, printable
from strobe.core.late import require

_HINTS = {"auto": "f32", "float32": "f32", "bfloat16": "bf16"}
"""OpenVINO's name of each precision."""

_TYPES = {"f32": "float", "f64": "double", "f16": "float16", "u8": "uint8", "i8": "int8", "i64": "int64"}
"""The names of types in ONNX Runtime by OpenVINO's names."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or an output, as ONNX Runtime describes it. A size of None is variable."""

    name: str
    type: str
    shape: tuple[int | None, ...]


class OpenVinoSession:
    """A network compiled for the CPU. Threads may call `run` at the same time; each has its own request."""

    def __init__(self, content: Path | bytes, *, name: str, precision: str = "auto") -> None:
        openvino = require("openvino", what="<<backend=openvino>>", extra="openvino")
        if precision not in _HINTS:
            raise StrobeError(f"{printable(name)}: OpenVINO computes in float32 or bfloat16 here, not in {precision}")
        core = openvino.Core()
        settings = {"INFERENCE_PRECISION_HINT": _HINTS[precision], "PERFORMANCE_HINT": "LATENCY"}
        try:
            network = core.read_model(content)
            self._network = core.compile_model(network, "CPU", settings)
        except Exception as error:  # OpenVINO raises RuntimeError for everything, with pages of text
            why = printable(str(error).strip().splitlines()[-1] if str(error).strip() else "", limit=160)
            raise ModelFailed(f"{printable(name)}: OpenVINO cannot run it ({why})") from error
        self._own = threading.local()

    def get_inputs(self) -> list[Port]:
        """Return the inputs."""
        return [_port(one) for one in self._network.inputs]

    def get_outputs(self) -> list[Port]:
        """Return the outputs."""
        return [_port(output) for output in self._network.outputs]

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Return these outputs, or all outputs, for these inputs."""
        if not hasattr(self._own, "request"):
            self._own.request = self._network.create_infer_request()
        found = self._own.request.infer(dict(feeds))
        by_name = {name: values for port, values in found.items() for name in port.get_names()}
        return [np.array(by_name[name]) for name in names or [node.name for node in self.get_outputs()]]


def _port(port: Any) -> Port:
    kind, shape = port.get_element_type().get_type_name(), port.get_partial_shape()
    sizes = tuple(size.get_length() if size.is_static else None for size in shape)
    return Port(sorted(port.get_names())[0], f"tensor({_TYPES.get(kind, kind)})", sizes)
