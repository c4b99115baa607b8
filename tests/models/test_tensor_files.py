"""The reader of PyTorch's files: the same tensors as torch.load, one line for anything else, and nothing is run."""

import io
import os
import pickle
import random
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from strobe.core.errors import InvalidFile
from strobe.models.lite import SIZES, weights_file
from strobe.models.strobe_net import SHIPPED, shipped_file
from strobe.models.tensor_files import read_pth, read_safetensors

DAMAGED = int(os.environ.get("STROBE_DAMAGED", "1500"))


def _same(ours: dict[str, Any], theirs: Any) -> None:
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        want = tensor.numpy()
        assert (ours[name].dtype, ours[name].shape) == (want.dtype, want.shape), name
        assert ours[name].tobytes() == want.tobytes(), name


@pytest.mark.parametrize("name", SIZES)
def test_the_shipped_weights_equal_torchs_bit_for_bit(name: str) -> None:
    path = weights_file(name)
    _same(read_pth(path), torch.load(path, weights_only=True))


@pytest.mark.parametrize("name", SHIPPED)
def test_safetensors_equal_their_librarys(name: str) -> None:
    from safetensors.torch import load_file

    ours, theirs = read_safetensors(shipped_file(name)), load_file(shipped_file(name))
    _same({key: ours[key] for key in theirs}, theirs)
    assert len(ours) == len(theirs)


def _state() -> "OrderedDict[str, torch.Tensor]":
    """Tensors of every type, with shared numbers, other orders, no dimensions and no numbers."""
    rng = torch.Generator().manual_seed(0)
    base = torch.randn(3, 4, 5, generator=rng)
    state = OrderedDict(base=base, turned=base.permute(2, 0, 1), part=base[1, 1:3], scalar=torch.tensor(3.5))
    for kind in (torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        state[str(kind)] = torch.arange(6).to(kind).reshape(2, 3)
    state |= {"bool": torch.tensor([True, False]), "none": torch.zeros(0, 3), "spread": torch.ones(1).expand(1)}
    return state


@pytest.mark.parametrize("is_zip", [False, True])
def test_both_layouts_equal_torchs(is_zip: bool, tmp_path: Path) -> None:
    torch.save(_state(), tmp_path / "w.pth", _use_new_zipfile_serialization=is_zip)
    _same(read_pth(tmp_path / "w.pth"), torch.load(tmp_path / "w.pth", weights_only=True))
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    torch.save(module.state_dict(), tmp_path / "m.pth", _use_new_zipfile_serialization=is_zip)
    _same(read_pth(tmp_path / "m.pth"), module.state_dict())


def _damage(content: bytes, chance: random.Random) -> bytes:
    """Return the content with some bytes changed, a part removed, repeated or cut off."""
    damaged = bytearray(content)
    match chance.randrange(5):
        case 0:
            del damaged[chance.randrange(len(damaged)) :]
        case 1:
            begin = chance.randrange(len(damaged))
            del damaged[begin : begin + chance.randrange(1, 64)]
        case 2:
            begin = chance.randrange(len(damaged))
            damaged[begin:begin] = damaged[begin : begin + chance.randrange(1, 64)]
        case _:
            for _ in range(chance.randrange(1, 5)):
                damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
    return bytes(damaged)


def _read(path: Path) -> tuple[dict[str, Any] | None, str]:
    """Return the tensors, or the line that refuses the file."""
    try:
        return read_pth(path), ""
    except InvalidFile as error:
        return None, str(error)


@pytest.mark.slow
def test_damaged_files_end_in_one_line_or_equal_torchs(tmp_path: Path) -> None:
    chance, path, outcomes, largest = (
        random.Random(41),
        tmp_path / "w.pth",
        {"refused": 0, "equal": 0, "alone": 0, "undamaged": 0},
        0,
    )
    contents = []
    for is_zip in (False, True):
        file = io.BytesIO()
        torch.save(_state(), file, _use_new_zipfile_serialization=is_zip)
        contents.append(file.getvalue())
    tracemalloc.start()
    try:
        for number in range(DAMAGED):
            path.write_bytes(_damage(contents[number % 2], chance))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            ours, line = _read(path)
            largest = max(largest, tracemalloc.get_traced_memory()[1] - before)
            if ours is None:
                assert line.startswith(str(path))
                assert "\n" not in line
                outcomes["refused"] += 1
                continue
            try:
                theirs = torch.load(path, weights_only=True)
            except Exception:  # torch checks parts that hold no tensors, too
                outcomes["alone"] += 1
                continue
            try:
                _same(ours, {name: one for name, one in theirs.items() if isinstance(one, torch.Tensor)})
                outcomes["equal"] += 1
            except AssertionError:  # torch follows a damaged directory of a zip to other bytes and checks no sum
                assert number % 2 == 1
                _same(ours, _state())
                outcomes["undamaged"] += 1
    finally:
        tracemalloc.stop()
    print(outcomes, f"largest memory {largest:,} bytes for files of {[len(one) for one in contents]} bytes")
    assert sum(outcomes.values()) == DAMAGED
    assert outcomes["refused"] > DAMAGED / 10
    assert outcomes["equal"] > DAMAGED / 50
    assert outcomes["undamaged"] < max(3, DAMAGED / 1000)
    assert largest < 1 << 20


class _Runs:
    """What runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.mark}",)


def _old_layout(pickled: bytes) -> bytes:
    head = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)
    return head + pickle.dumps({"little_endian": True}, 2) + pickled + pickle.dumps([], 2)


def _new_layout(pickled: bytes, compression: int = zipfile.ZIP_STORED, **parts: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("w/data.pkl", pickled)
        archive.writestr("w/version", b"3\n")
        for name, content in parts.items():
            archive.writestr(f"w/data/{name}", content)
    return file.getvalue()


def _tensor(offset: Any, shape: Any, strides: Any, numel: Any, *, name: bytes = b"torch\nFloatStorage\n") -> bytes:
    """A pickle of {"a": a tensor}."""

    def whole(value: int) -> bytes:
        return b"\x8a\x08" + struct.pack("<q", value)

    def row(values: Any) -> bytes:
        return b"(" + b"".join(whole(one) for one in values) + b"t"

    identity = b"(X\x07\0\0\0storagec" + name + b"X\x01\0\0\x000X\x03\0\0\0cpu" + whole(numel) + b"tQ"
    values = b"(" + identity + whole(offset) + row(shape) + row(strides) + b"\x89}t"
    return b"\x80\x02}X\x01\0\0\0actorch._utils\n_rebuild_tensor_v2\n" + values + b"Rs."


def hostile(mark: Path) -> dict[str, bytes]:
    """Files that would run something, or take memory without end, in a careless reader."""
    files = {}
    for protocol in range(6):
        pickled = pickle.dumps({"a": _Runs(mark)}, protocol)
        files |= {f"runs-{protocol}": _old_layout(pickled), f"runs-zip-{protocol}": _new_layout(pickled)}
    for name in (b"builtins\neval\n", b"torch\nload\n", b"torch._utils\n_rebuild_sparse_tensor\n", b"os\nsystem\n"):
        call = b"\x80\x02c" + name + b"X\x01\0\0\x001\x85R."
        files[f"calls {name.decode().split()}"] = _new_layout(call)
    data = struct.pack("<4f", 1, 2, 3, 4)
    files |= {
        "the table's name called otherwise": _new_layout(b"\x80\x02ccollections\nOrderedDict\nX\x01\0\0\x001\x85R."),
        "instance": _new_layout(b"\x80\x02(ios\nsystem\n."),
        "object": _new_layout(b"\x80\x02(cos\nsystem\no."),
        "memo": _new_layout(b"\x80\x02}r\xff\xff\xff\x7f."),
        "long text": _new_layout(b"\x80\x02X\xff\xff\xff\x7fabc."),
        "long number": _new_layout(b"\x80\x02\x8b\xff\xff\xff\x7f."),
        "a frame": _new_layout(b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f}."),
        "empty stack": _new_layout(b"\x80\x02R."),
        "no end": _new_layout(b"\x80\x02}"),
        "many numbers": _new_layout(_tensor(0, (1 << 40,), (1,), 1 << 40), **{"0": data}),
        "repeated numbers": _new_layout(_tensor(0, (1 << 30, 1 << 30), (0, 0), 4), **{"0": data}),
        "beyond the end": _new_layout(_tensor(3, (2,), (1,), 4), **{"0": data}),
        "wide steps": _new_layout(_tensor(0, (2,), (4,), 4), **{"0": data}),
        "backwards": _new_layout(_tensor(0, (2,), (-1,), 4), **{"0": data}),
        "before the start": _new_layout(_tensor(-1, (2,), (1,), 4), **{"0": data}),
        "no such part": _new_layout(_tensor(0, (2,), (1,), 4)),
        "short part": _new_layout(_tensor(0, (2,), (1,), 4), **{"0": data[:8]}),
        "other storage": _new_layout(_tensor(0, (2,), (1,), 4, name=b"collections\nOrderedDict\n"), **{"0": data}),
        "compressed": _new_layout(_tensor(0, (2,), (1,), 4), zipfile.ZIP_DEFLATED, **{"0": bytes(1 << 26)}),
        "a list": _new_layout(pickle.dumps([1], 2)),
        "a number as a name": _new_layout(pickle.dumps({1: 2}, 2)),
        "deep": _new_layout(b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b"."),
        "nothing": b"",
        "a web page": b"<html>",
        "an empty zip": b"PK\x05\x06" + bytes(18),
    }
    return files


@pytest.mark.parametrize("name", hostile(Path("mark")))
def test_hostile_files_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    path, mark = tmp_path / "w.pth", tmp_path / "mark"
    path.write_bytes(hostile(mark)[name])
    tracemalloc.start()
    try:
        with pytest.raises(InvalidFile) as caught:
            read_pth(path)
        largest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert not mark.exists()
    assert largest < (64 << 20)


def test_a_good_file_made_by_hand_is_read(tmp_path: Path) -> None:
    """The hostile files differ from this one only in what makes them hostile."""
    content = struct.pack("<4f", 1, 2, 3, 4)
    (tmp_path / "w.pth").write_bytes(_new_layout(_tensor(1, (2,), (2,), 4), **{"0": content}))
    np.testing.assert_array_equal(read_pth(tmp_path / "w.pth")["a"], [2, 4])
    _same(read_pth(tmp_path / "w.pth"), torch.load(tmp_path / "w.pth", weights_only=True))


@pytest.mark.parametrize(
    "content", [b"", b"abc", b"\xff" * 8, b"\2\0\0\0\0\0\0\0[]", b"\2\0\0\0\0\0\0\0{", b"\xff" * 64]
)
def test_a_damaged_safetensors_file_ends_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(InvalidFile, match="not a safetensors file"):
        read_safetensors(tmp_path / "w.safetensors")
