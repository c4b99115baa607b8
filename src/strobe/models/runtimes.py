"""Run a torch network on a CPU with another runtime (`--backend`). The network is exported when it is loaded.

Use it only if measurements show the same answers in less time (docs/performance-method.md, benchmarks/cpu_backends.py).
"""

import io
import warnings
from collections.abc import Callable
from typing import Any

from strobe.core.errors import ModelFailed, StrobeError, printable
from strobe.core.late import require

BACKENDS = ("torch", "onnxruntime")
"""The available runtimes. torch is the default and runs everything."""


def in_onnxruntime(module: Any, *, name: str, size_hw: tuple[int, int], device: str) -> Callable[[Any], Any]:
    """Return the network as a function of normalised pixels (N, 3, H, W), run by ONNX Runtime in float32.

    Each call uses one thread. As with torch, several single-threaded lanes are faster than one call on all cores.
    """
    runtime = require("onnxruntime", what="<<backend=onnxruntime>>", extra="onnx")
    require("onnx", what="<<backend=onnxruntime>>", extra="onnx")
    import torch

    if device != "cpu":
        raise StrobeError("<<backend=onnxruntime>> runs only on the CPU; add <<device=cpu>>")
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
        settings = runtime.SessionOptions()
        settings.log_severity_level = 3
        settings.intra_op_num_threads = 1
        session = runtime.InferenceSession(file.getvalue(), settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # exporters and runtimes raise arbitrary exceptions
        raise ModelFailed(
            f"{printable(name)}: ONNX Runtime cannot run it ({printable(error, limit=160)}); remove <<backend>>"
        ) from error

    def call(pixels: Any) -> Any:
        (scores,) = session.run(["scores"], {"pixels": pixels.contiguous().numpy()})
        return torch.from_numpy(scores)

    return call
