"""ONNX files: the session that runs a file, all files of a model (with its external tensor data), and its metadata.

Finding the files does not need the `onnx` package. The code follows only the few protobuf fields that lead to tensors.
"""

import hashlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import sha256_of_file
from strobe.core.late import require
from strobe.core.parquet import read_varint
from strobe.models.exported import Tensor
from strobe.models.openvino import OpenVinoSession
from strobe.models.options import LoadOptions
from strobe.models.runtimes import runtime_facts

_CUDA = "CUDAExecutionProvider"
_METADATA = 14
"""The number of the field in onnx.proto with the metadata of a model."""

_INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
"""For each message of onnx.proto, the fields that lead to tensors and the message type of each."""

Content = bytes | mmap.mmap


def open_session(path: Path, options: LoadOptions) -> tuple[Any, str]:
    """Return a session on the requested device, and the device that it really runs on. OpenVINO runs on the CPU."""
    if options.backend == "openvino":
        if options.device not in ("auto", "cpu"):
            raise StrobeError("<<backend=openvino>> runs only on the CPU; add <<device=cpu>>")
        return OpenVinoSession(path, name=f"onnx:{path}", precision=options.precision), "cpu"
    if options.precision not in ("auto", "float32"):
        raise StrobeError(
            f"<<precision={options.precision}>>: ONNX Runtime computes in the precision of the file; export the model "
            "in this precision, or add <<backend=openvino>>"
        )
    runtime, requested = require("onnxruntime", what=f"onnx:{path}", extra="onnx"), options.device
    device = "cuda" if requested == "auto" else requested if requested.startswith("cuda") else "cpu"
    providers: list[Any] = ["CPUExecutionProvider"]
    if device != "cpu":
        number = device.partition(":")[2]
        if _CUDA in runtime.get_available_providers():
            providers.insert(0, (_CUDA, {"device_id": int(number or 0)}))
        elif requested != "auto":
            raise StrobeError("this onnxruntime has no CUDA: pip install onnxruntime-gpu, or use <<device=cpu>>")
    settings = runtime.SessionOptions()
    settings.log_severity_level = 3
    try:
        session = runtime.InferenceSession(str(path), settings, providers=providers)
    except Exception as error:  # onnxruntime raises a different exception class for each kind of error
        raise InvalidFile(path, f"not an ONNX file onnxruntime can run ({printable(error, limit=140)})") from error
    if _CUDA in session.get_providers():
        return session, device
    if requested.startswith("cuda"):  # onnxruntime only warns if CUDA fails, and continues without it
        raise StrobeError(f"onnxruntime could not start CUDA for {requested}; see strobe doctor, or use <<device=cpu>>")
    return session, "cpu"


def tensors_of(session: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs and the outputs of a session of ONNX Runtime or OpenVINO."""

    def described(one: Any) -> Tensor:
        kind = str(one.type).removeprefix("tensor(").removesuffix(")")
        shape = tuple(size if isinstance(size, int) else None for size in one.shape)
        return Tensor(one.name, {"float": "float32", "double": "float64"}.get(kind, kind), shape)

    return [described(node) for node in session.get_inputs()], [described(node) for node in session.get_outputs()]


def digest_of_onnx(path: Path) -> str:
    """Return the sha256 of the file and all its external data files."""
    files = [path, *external_files(path)]
    return hashlib.sha256("".join(sha256_of_file(file) for file in files).encode()).hexdigest()


def size_of_onnx(path: Path) -> int:
    """Return the number of bytes of the file and all its external data files."""
    return sum(file.stat().st_size for file in [path, *external_files(path)])


def facts_of_run(options: LoadOptions) -> dict[str, str]:
    """Return what the runtime adds to the key of an ONNX file's answers."""
    precision = {"precision": "bfloat16"} if (options.backend, options.precision) == ("openvino", "bfloat16") else {}
    return {**precision, **runtime_facts("openvino" if options.backend == "openvino" else "onnxruntime")}


def metadata_of(path: Path) -> dict[str, str]:
    """Return the metadata that the exporter wrote into the file, or nothing."""
    out: dict[str, str] = {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            for number, begin, end in _fields(content, 0, len(content)):
                if number == _METADATA:
                    entry = {key: content[first:last] for key, first, last in _fields(content, begin, end)}
                    key, value = (entry.get(place, b"").decode("utf-8", "replace") for place in (1, 2))
                    out[key] = value
        except (IndexError, ValueError):  # not protobuf: running the file reports the error
            return {}
    return out


def external_files(path: Path) -> list[Path]:
    """Return the existing data files that the model's tensors name, sorted."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            names = set(_locations(content, 0, len(content), "model"))
        except (IndexError, ValueError):  # not protobuf: running the file reports the error
            names = set()
    beside = sorted({path.parent / name for name in names if name})
    return [file for file in beside if file.is_file()]


def _locations(content: Content, start: int, end: int, kind: str) -> Iterator[str]:
    """Yield the locations of external data in the tensors inside one message."""
    for number, begin, finish in _fields(content, start, end):
        inner = _INSIDE[kind].get(number)
        if inner == "entry":
            entry = {key: content[first:last] for key, first, last in _fields(content, begin, finish)}
            if entry.get(1) == b"location":
                yield entry.get(2, b"").decode("utf-8", "surrogateescape")
        elif inner is not None:
            yield from _locations(content, begin, finish, inner)


def _fields(content: Content, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, begin and end of every length-delimited field. Other fields are skipped."""
    while place < end:
        tag, place = read_varint(content, place)
        wire = tag & 7
        if wire == 0:
            _, place = read_varint(content, place)
        elif wire == 1:
            place += 8
        elif wire == 5:
            place += 4
        elif wire == 2:
            length, place = read_varint(content, place)
            if place + length > end:
                raise ValueError("a field extends beyond the end of its message")
            yield tag >> 3, place, place + length
            place += length
        else:
            raise ValueError("no protobuf")
