"""Run networks on a CPU with ONNX Runtime or OpenVINO. A torch network is exported when it is loaded (`--backend`).

Use that only if measurements show the same answers in less time (docs/performance.md,
benchmarks/cpu_backends.py).
"""

import io
import warnings
from collections.abc import Callable
from typing import Any

from strobe.core.errors import ModelFailed, StrobeError, printable
from strobe.core.late import require
from strobe.models.openvino import OpenVinoSession

RUNTIMES = ("onnxruntime", "openvino")
"""The runtimes of ONNX networks."""

BACKENDS = ("auto", "torch", *RUNTIMES)
"""The available runtimes. auto is onnxruntime for bundled networks on a CPU, and torch for all other torch networks."""

OPTIMISATION = "all"
"""ONNX Runtime's level of optimisation. It changes the last bits of scores."""


def session_of(content: bytes, *, name: str, backend: str = "onnxruntime", precision: str = "auto") -> Any:
    """Return a session of an ONNX model on the CPU. Each call of ONNX Runtime uses one thread.

    As with torch, several single-threaded lanes are faster than one call on all cores.
    """
    if backend == "openvino":
        return OpenVinoSession(content, name=name, precision=precision)
    import onnxruntime as runtime

    settings = runtime.SessionOptions()
    settings.log_severity_level = 3
    settings.intra_op_num_threads = 1
    settings.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, f"ORT_ENABLE_{OPTIMISATION.upper()}")
    try:
        return runtime.InferenceSession(content, settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises a different exception class for each kind of error
        raise ModelFailed(f"{printable(name)}: ONNX Runtime cannot run it ({printable(error, limit=160)})") from error


def runtime_facts(backend: str = "onnxruntime") -> dict[str, str]:
    """Return what changes the last bits of scores: the runtime, its version and its level of optimisation."""
    if backend == "openvino":
        module = require("openvino", what="<<backend=openvino>>", extra="openvino")
        return {"backend": backend, "runtime": str(module.__version__).partition("-")[0]}
    return {
        "backend": "onnxruntime",
        "runtime": str(require("onnxruntime", what="ONNX Runtime", extra="onnx").__version__),
        "optimisation": OPTIMISATION,
    }


def in_runtime(module: Any, *, name: str, size_hw: tuple[int, int], device: str, backend: str) -> Callable[[Any], Any]:
    """Return the network as a function of normalised pixels (N, 3, H, W), run by another runtime in float32."""
    what = f"<<backend={backend}>>"
    require(backend, what=what, extra="onnx" if backend == "onnxruntime" else backend)
    require("onnx", what=what, extra="models")
    import torch

    if device != "cpu":
        raise StrobeError(f"{what} runs only on the CPU; add <<device=cpu>>")
    file = io.BytesIO()
    sample = torch.zeros((1, 3, *size_hw))
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # hide warnings about deprecation and about values traced as constants
            torch.onnx.export(
                module,
                (sample,),
                file,
                input_names=["pixels"],
                output_names=["scores"],
                dynamic_axes={"pixels": {0: "n"}, "scores": {0: "n"}},
                dynamo=False,
            )
    except Exception as error:  # exporters raise arbitrary exceptions
        raise ModelFailed(
            f"{printable(name)}: it cannot be exported ({printable(error, limit=160)}); remove <<backend>>"
        ) from error

    session = session_of(file.getvalue(), name=name, backend=backend)

    def call(pixels: Any) -> Any:
        (scores,) = session.run(["scores"], {"pixels": pixels.contiguous().numpy()})
        return torch.from_numpy(scores)

    return call
