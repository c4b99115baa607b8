"""Small files that mean gigabytes: how much memory they take is measured, in a process of their own."""

import io
import resource
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from strobe.core.errors import InvalidFile
from strobe.core.parquet import read_bounded
from strobe.store.media import is_plain_png

PROMISE = 2 << 30
"""What SECURITY.md promises; the files here would take more than that, or near it, if they were read."""

MEASURED = """
import resource, sys
from pathlib import Path
from strobe.core.errors import StrobeError
{imports}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    {call}
except StrobeError as error:
    print(error, file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def grown(imports: str, call: str) -> tuple[int, str]:
    """The bytes by which a new process grows while it makes the call, and the line of error it ends in.

    It may take no more than three times the promise: a machine with many tests on it must not go down.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (3 * PROMISE, 3 * PROMISE))

    done = subprocess.run(
        [sys.executable, "-c", MEASURED.format(imports=imports, call=call)],
        capture_output=True, text=True, timeout=600, preexec_fn=limit,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout), done.stderr.strip()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def zeros(n: int) -> bytes:
    packer, block = zlib.compressobj(9), b"\0" * (1 << 20)
    return b"".join(packer.compress(block) for _ in range(n >> 20)) + packer.flush()


def plain_png() -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()


BOMBS = {b"iCCP": b"x\0\0", b"zTXt": b"x\0\0", b"iTXt": b"x\0\1\0\0\0"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOMBS)
def test_a_png_with_a_compressed_profile_stays_small(kind: bytes, tmp_path: Path) -> None:
    """1.5 MB of PNG took 4.4 GB: FFmpeg unpacked the profile before Pillow's limits were asked."""
    plain = plain_png()
    data = plain[:33] + chunk(kind, BOMBS[kind] + zeros(600 << 20)) + plain[33:]
    assert len(data) < 2_000_000
    assert is_plain_png(plain)
    assert not is_plain_png(data)
    (tmp_path / "bomb.png").write_bytes(data)
    path = str(tmp_path / "bomb.png")
    for imports, call in (
        (
            "import av; from strobe.store.media import quick_png",
            f"quick_png(Path({path!r}).read_bytes(), max_pixels=10**8)",
        ),
        (
            "import PIL.Image; from strobe.store.media import decode_image",
            f"decode_image(Path({path!r}).read_bytes(), name='x')",
        ),
    ):
        size, _ = grown(imports, call)
        assert size < PROMISE / 8


# -- tables --------------------------------------------------------------------------------------------------------


def long_list(path: Path, n: int) -> Path:
    """One row whose list has n numbers, all the same: some hundred bytes."""
    lists = pa.ListArray.from_arrays(pa.array([0, n], pa.int32()), pa.array(np.zeros(n)))
    table = pa.table({"frame_id": ["a:0"], "error": pa.array([None], pa.string()), "score": lists})
    pq.write_table(table, path, compression="zstd", data_page_size=1 << 30)
    return path


READERS = {
    "tables": (
        "from strobe.core.parquet import read_bounded",
        "read_bounded(Path({path!r}), ['frame_id', 'score'])",
    ),
    "runs": ("from strobe.store.answer_tables import read_columns", "read_columns(Path({path!r}), hint='again')"),
}


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_a_list_of_a_hundred_million_stays_small(reader: str, tmp_path: Path) -> None:
    """A file of 1,173 bytes took 2.5 GB: rows were counted, and the numbers in their lists were not."""
    path = long_list(tmp_path / "bomb.parquet", 100_000_000)
    assert path.stat().st_size < 2000
    imports, call = READERS[reader]
    size, said = grown(imports, call.format(path=str(path)))
    assert size < PROMISE / 8
    assert "would unpack to 1.1 GiB, far more than its size allows; strobe did not read it" in said


def test_a_footer_that_says_less_than_its_pages_is_not_believed(tmp_path: Path) -> None:
    """The number of values stands in the footer and in every page; readers go by the page."""
    n = 2_000_000
    path = long_list(tmp_path / "bomb.parquet", n)
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - size : -8]
    many = _varint(2 * n)  # zigzag
    wrong = footer.replace(many, bytes([2 | 128, *[128] * (len(many) - 2), 0]))  # 1, in as many bytes
    assert wrong != footer
    path.write_bytes(content[: -8 - size] + wrong + content[-8:])
    import strobe.core.parquet as bounds

    found = {name: values for name, _, values, _ in bounds._leaves(path)}
    assert found["score.list.element"] == n


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("coded", [True, False])
def test_what_others_write_is_read(version: str, codec: str, coded: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 5000
    table = pa.table(
        {
            "name": [f"frame {place % 700}" for place in range(n)],
            "label": rng.integers(0, 9, n),
            "scores": [rng.random(3).tolist() if place % 5 else None for place in range(n)],
            "tags": [["a", "b"][: place % 3] for place in range(n)],
            "fine": pa.array([None if place % 4 else place / 2 for place in range(n)]),
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(
        table, path, compression=codec, use_dictionary=coded, row_group_size=700, data_page_size=2000,
        data_page_version=version, write_page_index=True,
    )  # fmt: skip
    found, names = read_bounded(path)
    assert found.equals(table)
    assert names == table.column_names
    some, _ = read_bounded(path, ["tags", "label", "gone"])
    assert some.column_names == ["label", "tags"]


def test_a_text_meant_a_million_times_is_not_written_out(tmp_path: Path) -> None:
    same = pa.array(np.zeros(1_000_000, dtype=np.int32))
    coded = pa.DictionaryArray.from_arrays(same, pa.array(["x" * 5000]))
    pq.write_table(pa.table({"frame_id": coded}), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(InvalidFile, match=r"would unpack to 4\.\d GiB, far more than its size"):
        read_bounded(tmp_path / "a.parquet")


def test_noise_is_no_table(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(1), tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": ["x", "y"], "b": [[1], [2, 3]]}), path)
    content = path.read_bytes()
    for _ in range(400):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), 3):
            damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with suppress(InvalidFile):  # anything else is a finding
            read_bounded(path)
    for short in (b"", b"PAR1", b"PAR1" * 3, content[:50], b"PAR1\xff\xff\xff\xffPAR1"):
        path.write_bytes(short)
        with pytest.raises(InvalidFile):
            read_bounded(path)
