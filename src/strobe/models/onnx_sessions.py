"""An ONNX file in onnxruntime, on the device asked for."""

from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, StrobeError, UnknownName, printable
from strobe.core.late import require
from strobe.models.options import LoadOptions

__all__ = ["open_session"]

_CUDA = "CUDAExecutionProvider"


def open_session(path: Path, options: LoadOptions) -> tuple[Any, str]:
    """An onnxruntime session on the device asked for, and where it really runs."""
    runtime, asked = require("onnxruntime", what=f"onnx:{path}", extra="onnx"), options.device
    device = "cuda" if asked == "auto" else asked if asked.startswith("cuda") else "cpu"
    wanted: list[Any] = ["CPUExecutionProvider"]
    if device != "cpu":
        number = device.partition(":")[2]
        if number and not number.isdecimal():
            raise UnknownName("device", asked, ("cuda", "cuda:0", "cuda:1"))
        if _CUDA in runtime.get_available_providers():
            wanted.insert(0, (_CUDA, {"device_id": int(number or 0)}))
        elif asked != "auto":
            raise StrobeError("this onnxruntime has no CUDA: pip install onnxruntime-gpu, or use --device cpu")
    settings = runtime.SessionOptions()
    settings.log_severity_level = 3
    try:
        session = runtime.InferenceSession(str(path), settings, providers=wanted)
    except Exception as error:  # onnxruntime raises its own classes, one per way a file can be wrong
        raise InvalidFile(path, f"not an ONNX file onnxruntime can run ({printable(error, limit=140)})") from error
    if _CUDA in session.get_providers():
        return session, device
    if asked.startswith("cuda"):  # it only warns, and goes on without
        raise StrobeError(f"onnxruntime could not start CUDA for {asked}; see strobe doctor, or use --device cpu")
    return session, "cpu"
