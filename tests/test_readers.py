"""Strangers' bytes go through one checked reader: no other module calls a library's own, and no file is a bomb."""

import ast
import base64
import gzip
import hashlib
import io
import os
import re
import resource
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz.readers import _MADE, READERS, _reading, is_fine, run

from strobe.core.errors import InvalidFile
from strobe.core.files import json_of, read_json, toml_of
from strobe.core.parquet import read_bounded, read_footer
from strobe.core.readers import arrow_table, base64_of, gunzip, opened_zip, read_array, read_arrays
from strobe.core.remote import Usage
from strobe.store.journal import Journal, read_journal

SRC = Path(__file__).parents[1] / "src" / "strobe"

_RAW = re.compile(
    r"(json|tomllib|pickle|cPickle|marshal|dill|cloudpickle)\.(load|loads|Unpickler)|yaml\.\w*load\w*|shelve\.open"
    r"|base64\.(\w*decode\w*)|binascii\.a2b\w*|(zipfile\.(ZipFile|PyZipFile)|tarfile\.(open|TarFile))"
    r"|(gzip|bz2|lzma)\.(open|decompress|GzipFile|BZ2File|LZMAFile)|zlib\.decompress\w*"
    r"|numpy\.(load|memmap|fromfile|loadtxt|genfromtxt|lib\.format\.read_array)"
    r"|torch\.(load|jit\.load|export\.load|package\.\w+|hub\.load\w*|storage\.from_file)"
    r"|safetensors(\.\w+)?\.(safe_open|load|load_file|deserialize)"
    r"|pyarrow\.((ipc|feather|csv|json|orc|dataset)\.(\w*open\w*|read\w*|Record\w*Reader|Message\w*|dataset)"
    r"|parquet\.(read_\w+|Parquet(File|Dataset))|memory_map|decompress|Codec)"
    r"|(xml|defusedxml)\.\w+\.(parse|fromstring|iterparse|XML)"
)
"""A library's own reader, by its full name."""

_HOME = {
    "core/files.py": r"json\.loads|tomllib\.loads",
    "core/parquet.py": r"pyarrow\.parquet\.ParquetFile",
    "core/readers.py": r".*",
}
"""The checked readers."""

_ALONE = {
    ("core/packed.py", "pyarrow.Codec"): "unpacks to the size of the picture, which is checked before",
    (
        "annexes/releases/imagenet_vid.py",
        "defusedxml.ElementTree.fromstring",
    ): "refuses entities",
    ("models/pt2.py", "torch.export.load"): "after the same archive has passed opened_zip",
    (
        "models/tensor_files.py",
        "zipfile.ZipFile",
    ): "its records are stored, not compressed, and no larger than the file",
    ("annexes/web/view/access.py", "base64.urlsafe_b64decode"): "after the cookie's seal was checked",
}
"""Readers with a limit of their own, which is named here. A line without its call fails, too."""


def _names(tree: ast.AST) -> dict[str, str]:
    """What each name of a module stands for: imports anywhere, and the results of `require` and `import_module`."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                found[one.asname or one.name.partition(".")[0]] = one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign) and (value := _required(node.value)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                found |= {one.id: value for one in names[:1] if isinstance(one, ast.Name)}
    return found


def _required(value: ast.AST | None) -> str | None:
    """The module that a call such as `require("torch", …)` or `load("a:b")` returns, also as an element of a tuple."""
    if isinstance(value, ast.Tuple) and value.elts:
        return _required(value.elts[0])
    if isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.Constant):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        if name in ("require", "import_module", "load") and isinstance(value.args[0].value, str):
            return value.args[0].value.replace(":", ".")
    return None


def _dotted(node: ast.AST, names: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, names)}.{node.attr}"
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    return _required(node) or ""


def raw_readers(text: str) -> Iterator[str]:
    """Every mention of a library's own reader in a module, by its full name."""
    tree = ast.parse(text)
    names = _names(tree)
    own_copies = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Call)
        and _dotted(node.func, names) == "json.loads"
        and _dotted(node.args[0].func, names) == "json.dumps"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name | ast.Call) and id(node) not in own_copies:
            name = _dotted(node, names)
            if _RAW.fullmatch(name):
                yield name


def test_no_module_calls_a_raw_reader() -> None:
    found = {
        (path.relative_to(SRC).as_posix(), name)
        for path in sorted(SRC.rglob("*.py"))
        for name in raw_readers(path.read_text(encoding="utf-8"))
    }
    homeless = {(file, name) for file, name in found if not re.fullmatch(_HOME.get(file, "(?!)"), name)}
    there = {one for one in _ALONE if (SRC / one[0]).is_file() or "annexes" not in one[0]}
    assert homeless == there, "read it with core.readers, core.parquet, or read_json and json_of of core.files"
    assert {file for file, _ in found if file in _HOME} == set(_HOME)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import json\njson.loads(x)", "json.loads"),
        ("def f():\n    from json import loads as read\n    read(x)", "json.loads"),
        ("import numpy as np\nnp.load(p)", "numpy.load"),
        ("import pyarrow as pa\nwith pa.ipc.open_stream(x) as s: pass", "pyarrow.ipc.open_stream"),
        ("import pyarrow.parquet as pq\nmap(pq.read_schema, x)", "pyarrow.parquet.read_schema"),
        ('load("pyarrow.parquet:ParquetFile")(x)', "pyarrow.parquet.ParquetFile"),
        ('torch, n = require("torch", what="x"), 3\ntorch.load(x)', "torch.load"),
        ('opener = require("safetensors", what="x").safe_open\nopener(x)', "safetensors.safe_open"),
        ('require("safetensors.torch").load_file(x)', "safetensors.torch.load_file"),
    ],
)
def test_a_raw_reader_is_seen_however_it_is_written(text: str, name: str) -> None:
    assert name in set(raw_readers(text))
    assert not set(raw_readers("import json\njson.loads(json.dumps(x))"))


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_mutated_files(name: str) -> None:
    """No signal, no more than 2 GB, no more than 10 s, and every refusal names the file."""
    found = run(name, each=int(os.environ.get("STROBE_MUTATED", "40")))
    assert is_fine(found), found
    assert found["counts"]["refused"] > 0


def test_every_checked_reader_is_given_mutated_files(tmp_path: Path) -> None:
    """The functions of the two modules of readers, as their code lists them, and those that the sound files reach."""
    modules = ("core/readers.py", "core/parquet.py")
    reached, readings = set(), _reading()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            reached.add(("/".join(Path(frame.f_code.co_filename).parts[-2:]), frame.f_code.co_name))

    for name, (make, ending) in _MADE.items():
        path = tmp_path / name / "tables" / ("sets.parquet" if name == "sets" else f"given{ending}")
        path.parent.mkdir(parents=True)
        path.write_bytes(make(tmp_path))
        sys.setprofile(note)
        try:
            readings[name](path)
        finally:
            sys.setprofile(None)
    written = {
        (module, node.name)
        for module in modules
        for node in ast.parse((SRC / module).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    assert written - reached == {("core/parquet.py", "arrow_of")}, "which makes columns and reads nothing"


# -- bombs -------------------------------------------------------------------------------------------------------


def _limited(code: str, *words: object, extra: int = 2**30) -> subprocess.CompletedProcess[str]:
    """Run code in a process that may take `extra` bytes on top of its imports."""
    begin = (
        "import sys, resource\nimport numpy, pyarrow.parquet, strobe.store.journal, strobe.core.readers\n"
        "def limit():\n"
        "    size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        f"    resource.setrlimit(resource.RLIMIT_AS, (size + {extra}, size + {extra}))\n"
    )
    script = begin + code
    return subprocess.run([sys.executable, "-c", script, *map(str, words)], capture_output=True, text=True, timeout=600)


def test_an_npz_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "scale.npz"
    np.savez_compressed(path, place0=np.zeros(2**28, np.float32))
    assert path.stat().st_size < 2 * 2**20
    done = _limited(
        "from pathlib import Path\nfrom strobe.core.readers import read_arrays\nlimit()\n"
        "try:\n    read_arrays(Path(sys.argv[1]))\nexcept Exception as error:\n    print(error)\n", path, extra=2**27,
    )  # fmt: skip
    assert done.stdout == f"{path}: would unpack to 1.0 GiB, far more than its size allows; strobe did not read it\n"


def _npy(shape: str, dtype: str = "<f4", content: bytes = b"") -> bytes:
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + content


@pytest.mark.parametrize(
    "content",
    [
        _npy("(1000000000000,)"),
        _npy("(1000000000000,)", "|V0"),
        _npy("(-4,)", content=b"\0" * 16),
        _npy("(2,)", "|O", b"\0" * 16),
        _npy("(" * 3000),
        _npy("(2,)", content=b"\0" * 9),
        b"",
    ],
)
@pytest.mark.parametrize("form", ["npy", "mapped", "npz"])
def test_an_array_that_does_not_fill_its_file(content: bytes, form: str, tmp_path: Path) -> None:
    path = tmp_path / "a.np"
    path.write_bytes(content)
    if form == "npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", content)
    read: Callable[[Path], object] = read_arrays if form == "npz" else lambda p: read_array(p, mapped=form == "mapped")
    tracemalloc.start()
    with pytest.raises(InvalidFile, match=r"^[^\n]*a\.np: not a .npy file of numbers \([^\n]*\)$"):
        read(path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_arrays_come_back(tmp_path: Path) -> None:
    made = {"a": np.arange(6).reshape(2, 3), "b": np.asfortranarray(np.ones((3, 2), np.float16)), "c": np.float32(3)}
    np.savez(tmp_path / "all.npz", **made)
    for name, array in read_arrays(tmp_path / "all.npz").items():
        np.testing.assert_array_equal(array, made[name])
        np.save(tmp_path / "one.npy", array)
        np.testing.assert_array_equal(read_array(tmp_path / "one.npy"), array)
        np.testing.assert_array_equal(read_array(tmp_path / "one.npy", mapped=True), array)
    assert set(read_arrays(tmp_path / "all.npz")) == set(made)


def test_zip_bombs(tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("w/data/0", "w") as record:
        for _ in range(8):
            record.write(bytes(2**26))
    from strobe.models.weights import read_state

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidFile, match=r"w\.pth: would unpack to 0\.5 GiB, far more than its size allows"):
        read_state(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 800_000, "torch itself, no record"
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("w/data/0", bytes(100))
        with pytest.raises(InvalidFile, match="a record that is neither stored nor deflated"), opened_zip(path):
            pass
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = b"another directory"
    with pytest.raises(InvalidFile, match="a comment"), opened_zip(path):
        pass


def test_a_view_that_repeats_one_number(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from strobe.models.weights import read_state

    torch.save({"w": torch.zeros(1).expand(2**40)}, tmp_path / "w.pth")
    assert (tmp_path / "w.pth").stat().st_size < 4000
    with pytest.raises(InvalidFile, match=r"w\.pth: would unpack to 4096\.0 GiB"):
        read_state(tmp_path / "w.pth")
    torch.save({"w": torch.zeros(1).expand(2**10)}, tmp_path / "w.pth")
    assert read_state(tmp_path / "w.pth")["w"].shape == (2**10,)


def test_a_safetensors_header_larger_than_its_file(tmp_path: Path) -> None:
    from strobe.models.weights import read_state

    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", 90_000_000) + b"{}")
    with pytest.raises(InvalidFile, match=r"w\.safetensors: not a safetensors file \(a header of 90,000,000 bytes\)"):
        read_state(path)


def test_a_gzip_bomb(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(20):
            file.write(bytes(2**24))
    with pytest.raises(InvalidFile, match="far more than its size allows"):
        gunzip(path)
    path.write_bytes(gzip.compress(b"a,b\n"))
    assert gunzip(path) == b"a,b\n"
    path.write_bytes(gzip.compress(b"a,b\n")[:-3])
    with pytest.raises(InvalidFile, match=r"a\.csv\.gz: not a gzip file"):
        gunzip(path)


def test_pages_that_two_columns_share(tmp_path: Path) -> None:
    """A footer may name the same pages for thousands of columns; checking them again and again would take hours."""
    names = [f"c{n:03d}" for n in range(300)]
    columns = {name: np.zeros(20_000) for name in names} | {"c000": np.random.default_rng(0).random(20_000)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert read_bounded(tmp_path / "t.parquet")[1] == names
    from strobe.core import parquet

    leaves = list(parquet._leaves(tmp_path / "t.parquet"))
    assert len(leaves) == 300
    real = parquet._pages
    shared: list[Any] = []

    def first(content: Any, facts: dict[int, Any]) -> Any:
        shared.append(facts)
        return real(content, shared[0])

    parquet._pages = first
    try:
        with pytest.raises(InvalidFile, match="not a readable Parquet file"):
            read_bounded(tmp_path / "t.parquet")
    finally:
        parquet._pages = real


# -- journals ----------------------------------------------------------------------------------------------------


def _sealed(stream: bytes) -> bytes:
    text = base64.b64encode(stream)
    return hashlib.sha256(text).hexdigest()[:16].encode() + b" " + text + b"\n"


def _stream(table: pa.Table, **how: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**how)) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


_ANSWERS = pa.table({"frame_id": ["a" * 9, "b" * 9], "error": pa.array([None, None], pa.string())})


def _out_of_bounds() -> bytes:
    """The text offsets 0, 9, 18 become 0, 9, 2³⁰."""
    stream = _stream(_ANSWERS)
    offsets = struct.pack("<3i", 0, 9, 18)
    assert stream.count(offsets) == 1
    return stream.replace(offsets, struct.pack("<3i", 0, 9, 2**30))


def _compressed() -> bytes:
    table = pa.table({"frame_id": ["a"] * 20_000_000}).append_column("error", pa.nulls(20_000_000, pa.string()))
    return _stream(table, compression="zstd")


_BAD_LINES: dict[str, Callable[[], bytes]] = {
    "an offset out of bounds": lambda: _sealed(_out_of_bounds()),
    "compressed buffers": lambda: _sealed(_compressed()),
    "lz4": lambda: _sealed(_stream(_ANSWERS, compression="lz4")),
    "an old version": lambda: _sealed(_stream(_ANSWERS, metadata_version=pa.ipc.MetadataVersion.V4)),
    "rows without bytes": lambda: _sealed(_stream(_ANSWERS.append_column("said", pa.nulls(2)))),
    "lists of no numbers": lambda: _sealed(
        _stream(_ANSWERS.append_column("scores", pa.array([[], []], pa.list_(pa.float32(), 0))))
    ),
    "a dictionary": lambda: _sealed(_stream(_ANSWERS.append_column("said", pa.array(["x", "y"]).dictionary_encode()))),
    "not UTF-8": lambda: _sealed(_stream(_ANSWERS).replace(b"a" * 9, b"\xff" * 9)),
    "not Base64": lambda: hashlib.sha256(b"a!*b").hexdigest()[:16].encode() + b" a!*b\n",
    "not Arrow": lambda: _sealed(b"nothing"),
    "no frames": lambda: _sealed(_stream(pa.table({"error": ["x"]}))),
    "frames that are numbers": lambda: _sealed(_stream(pa.table({"frame_id": [1], "error": ["x"]}))),
    "no errors": lambda: _sealed(_stream(pa.table({"frame_id": ["x"]}))),
    "another type": lambda: _sealed(_stream(_ANSWERS.append_column("scores", pa.array([1, 2])))),
    "metadata nested too deep": lambda: b"",
}


@pytest.mark.parametrize("what", _BAD_LINES)
def test_a_bad_line_of_a_journal_is_named(what: str, tmp_path: Path) -> None:
    """Its checksum is right. The line is damaged, the others are read, and nothing is unpacked."""
    journal = Journal(tmp_path / "j.journal")
    columns = {name: _ANSWERS.column(name).combine_chunks() for name in _ANSWERS.column_names}
    columns["scores"] = pa.array([[0.5], [1.5]], pa.list_(pa.float32(), 1))
    journal.add(columns, {"key": "k"}, Usage(requests=1))
    journal.close()
    good = journal.path.read_bytes()
    line = _BAD_LINES[what]()
    if what == "metadata nested too deep":  # what its requests used is then unknown
        deep = _ANSWERS.replace_schema_metadata({"strobe.spent": "[" * 200_000})
        journal.path.write_bytes(good + _sealed(_stream(deep)))
        assert read_journal(journal.path).used == Usage(requests=1)
        return
    journal.path.write_bytes(good + line + good)
    before = pa.total_allocated_bytes()
    found = read_journal(journal.path)
    assert found.damaged == [2]
    assert found.table is not None
    assert found.table.column("frame_id").to_pylist() == ["a" * 9, "b" * 9] * 2
    assert found.used.requests == 2
    assert pa.total_allocated_bytes() - before < 2**20


# -- JSON and small texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "1" * 10_000, "{", ""])
def test_json_has_one_kind_of_fault(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        json_of(text)
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InvalidFile, match=r"^[^\n]*a\.json: [^\n]+$"):
        read_json(tmp_path / "a.json")


def test_toml_and_base64() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        toml_of("a = " + "[" * 200_000)
    for text in (b"a!*b", b"abc", b"YQ==YQ==!"):
        with pytest.raises(ValueError):
            base64_of(text)
    with pytest.raises(ValueError):
        arrow_table(b"")


def test_a_footer_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1" + io.BytesIO(os.urandom(100)).read() + b"PAR1")
    with pytest.raises(InvalidFile, match=r"t\.parquet: not a readable Parquet file; is it truncated\?"):
        read_footer(path)
    with pytest.raises(FileNotFoundError):
        read_footer(tmp_path / "none.parquet")
