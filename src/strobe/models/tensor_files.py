"""Read the tensors of weight files into numpy, without PyTorch. Nothing in a file is executed.

`read_pth` reads what `torch.save(state_dict)` writes: the old layout (a stream of pickles, then the numbers) and the
new one (a zip of them). The pickle is interpreted here. It may build dicts, lists, tuples, numbers, texts and tensors.
A file that names anything else is refused.
"""

import io
import math
import pickletools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.readers import safetensors_header

Tensors = dict[str, NDArray[Any]]

_LARGEST = 1 << 30
"""The largest weights file in bytes. The file is in memory while it is read."""
_MOST_DIMENSIONS = 8

_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
"""The first two pickles of the old layout."""

_STORAGES = {
    "torch DoubleStorage": "<f8",
    "torch FloatStorage": "<f4",
    "torch HalfStorage": "<f2",
    "torch LongStorage": "<i8",
    "torch IntStorage": "<i4",
    "torch ShortStorage": "<i2",
    "torch CharStorage": "|i1",
    "torch ByteStorage": "|u1",
    "torch BoolStorage": "|b1",
}
_DICT, _TENSOR = "collections OrderedDict", "torch._utils _rebuild_tensor_v2"
_NAMES = {*_STORAGES, _DICT, _TENSOR}
"""Every name that a pickle may contain."""

_SAFE_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1"}


class _Name(NamedTuple):
    """A name in a pickle. It is compared, never imported."""

    text: str


class _Storage(NamedTuple):
    key: str
    dtype: str
    numel: int


class _Planned(NamedTuple):
    """A tensor whose numbers are elsewhere in the file."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, numbers: NDArray[Any]) -> NDArray[Any]:
        steps = [stride * numbers.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.shape, steps, writeable=False)


def read_pth(path: Path) -> Tensors:
    """Return the tensors of a file that `torch.save` wrote. Raises InvalidFile with one line for any other file."""
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST >> 30} GiB")
        content = path.read_bytes()
        planned, numbers = (_zipped if content[:2] == b"PK" else _streamed)(content)
        if not isinstance(planned, dict) or not all(type(name) is str for name in planned):
            raise ValueError("expected a dict of tensors")
        tensors = {name: one for name, one in planned.items() if isinstance(one, _Planned)}
        if not tensors:
            raise ValueError("it contains no tensors")
        return {name: tensor.of(numbers(tensor.storage)) for name, tensor in tensors.items()}
    except StrobeError:
        raise
    except Exception as error:  # pickletools and zipfile raise many classes for damaged files
        reason = printable(error, limit=120) or type(error).__name__
        raise InvalidFile(path, f"not a file of tensors ({reason})", hint="is it damaged?") from error


Numbers = Callable[[_Storage], NDArray[Any]]


def _streamed(content: bytes) -> tuple[Any, Numbers]:
    """Read the old layout: five pickles, then the numbers of each storage after their count."""
    file = io.BytesIO(content)
    magic, version, machine = (_built(file) for _ in range(3))
    if (
        magic != _MAGIC
        or version != _VERSION
        or not isinstance(machine, dict)
        or machine.get("little_endian") is not True
    ):
        raise ValueError("not PyTorch's layout")
    used: dict[str, _Storage] = {}
    planned, keys = _built(file, used), _built(file)
    place, begins = file.tell(), {}
    for key in keys:
        storage = used[key]
        if int.from_bytes(content[place : place + 8], "little") != storage.numel:
            raise ValueError(f"the count of numbers at byte {place} is not that of its tensor")
        begins[key] = place + 8
        place += 8 + storage.numel * np.dtype(storage.dtype).itemsize
    return planned, lambda one: np.frombuffer(content, one.dtype, one.numel, begins[one.key])


def _zipped(content: bytes) -> tuple[Any, Numbers]:
    """Read the new layout: an uncompressed zip with one pickle, and a file of numbers for each storage."""
    archive = zipfile.ZipFile(io.BytesIO(content))
    entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > len(content) or any(entry.compress_type for entry in entries):
        raise ValueError("its parts are compressed or overlap")
    (folder,) = (entry.filename[: -len("data.pkl")] for entry in entries if entry.filename.endswith("/data.pkl"))
    if f"{folder}byteorder" in archive.namelist() and archive.read(f"{folder}byteorder") != b"little":
        raise ValueError("its numbers are big-endian")
    planned = _built(io.BytesIO(archive.read(f"{folder}data.pkl")), {})
    read: dict[str, bytes] = {}

    def numbers(one: _Storage) -> NDArray[Any]:
        if one.key not in read:
            read[one.key] = archive.read(f"{folder}data/{one.key}")
        if len(read[one.key]) != one.numel * np.dtype(one.dtype).itemsize:
            raise ValueError(f"the file of the numbers {one.key} has another size than its tensor")
        return np.frombuffer(read[one.key], one.dtype)

    return planned, numbers


def _built(file: io.BytesIO, storages: dict[str, _Storage] | None = None) -> Any:
    """Interpret one pickle of protocol 2. `storages` is filled with the storages that it refers to."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}

    def since_mark() -> list[Any]:
        begin = marks.pop()
        items = stack[begin:]
        del stack[begin:]
        return items

    def last(n: int) -> list[Any]:
        marks.append(len(stack) - n)
        if marks[-1] < 0:
            raise ValueError("an operation lacks its values")
        return since_mark()

    for code, argument, _ in pickletools.genops(file):
        match code.name:
            case "PROTO" if argument == 2:
                pass
            case "STOP":
                (result,) = stack
                return result
            case "MARK":
                marks.append(len(stack))
            case "BINUNICODE" | "BININT" | "BININT1" | "BININT2" | "LONG1":
                stack.append(argument)
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[code.name])
            case "EMPTY_DICT" | "EMPTY_LIST" | "EMPTY_TUPLE":
                stack.append({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}[code.name]())
            case "TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(since_mark() if code.name == "TUPLE" else last(int(code.name[-1]))))
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "APPEND" | "APPENDS":
                items = last(1) if code.name == "APPEND" else since_mark()
                _container(stack, list).extend(items)
            case "SETITEM" | "SETITEMS":
                items = last(2) if code.name == "SETITEM" else since_mark()
                _container(stack, dict).update(zip(items[::2], items[1::2], strict=True))
            case "GLOBAL":
                if argument not in _NAMES:
                    raise ValueError(f"it names {printable(argument, limit=60)}, which no file of tensors needs")
                stack.append(_Name(argument))
            case "BINPERSID" if storages is not None:
                stack.append(_storage(stack.pop(), storages))
            case "REDUCE":
                stack.append(_called(*last(2)))
            case "BUILD":  # the versions of a module's layers, which are not needed
                last(1)
                _container(stack, dict)
            case _:
                raise ValueError(f"it has the operation {code.name}, which no file of tensors needs")
    raise ValueError("it ends early")


def _container(stack: list[Any], kind: type) -> Any:
    """Return the list or dict on top of the stack."""
    if type(stack[-1]) is not kind:
        raise ValueError(f"it changes a {type(stack[-1]).__name__} as if it were a {kind.__name__}")
    return stack[-1]


def _called(function: Any, values: Any) -> Any:
    """Return what a name with its values stands for."""
    if function == _Name(_DICT) and values == ():
        return {}
    if function != _Name(_TENSOR) or type(values) is not tuple or len(values) not in (6, 7):
        raise ValueError("it calls something that no file of tensors needs")
    storage, offset, shape, strides = values[:4]
    if type(storage) is not _Storage or not _counts(shape) or not _counts(strides) or not _counts((offset,)):
        raise ValueError("a tensor is described in another way")
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    n = math.prod(shape)
    if len(shape) > _MOST_DIMENSIONS or offset + max(n, (last + 1) * (n > 0)) > storage.numel:
        raise ValueError("a tensor is larger than its numbers")
    return _Planned(storage, offset, shape, strides if n > 0 else (0,) * len(shape))


def _storage(identity: Any, storages: dict[str, _Storage]) -> _Storage:
    """Return the storage that a persistent id stands for."""
    word, name, key, _, numel, *views = identity
    if word != "storage" or type(name) is not _Name or type(key) is not str or any(view is not None for view in views):
        raise ValueError("its numbers are described in another way")
    if not _counts((numel,)) or numel > _LARGEST:
        raise ValueError("a tensor has too many numbers")
    storage = _Storage(key, _STORAGES[name.text], numel)
    if storages.setdefault(key, storage) != storage:
        raise ValueError("the same numbers are described twice")
    return storage


def _counts(values: Any) -> bool:
    return type(values) is tuple and all(type(one) is int and one >= 0 for one in values)


def read_safetensors(path: Path) -> Tensors:
    """Return the tensors of a safetensors file whose types numpy has."""
    try:
        header, begin = safetensors_header(path)
        header.pop("__metadata__", None)
        content = path.read_bytes()
        tensors = {}
        for name, entry in header.items():
            first, end = entry["data_offsets"]
            numbers = np.frombuffer(content[begin + first : begin + end], _SAFE_TYPES[entry["dtype"]])
            tensors[name] = numbers.reshape(entry["shape"])
        return tensors
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidFile(
            path, f"not a safetensors file ({printable(error, limit=120)})", hint="is it damaged?"
        ) from error
