"""A small Parquet file that would unpack to more memory than there is, is refused before it does."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_folder import edit_info

import strobe
from strobe.core.errors import InvalidFile
from strobe.core.parquet import read_bounded


def said_often(path: Path, name: str, *, length: int, times: int, listed: bool = False) -> Path:
    """A file of one text of so many characters, said once and meant so many times."""
    column: pa.Array = pa.DictionaryArray.from_arrays(pa.array(np.zeros(times, np.int32)), pa.array(["x" * length]))
    if listed:
        column = pa.ListArray.from_arrays(pa.array(np.arange(times + 1, dtype=np.int32)), column)
    pq.write_table(pa.table({name: column}), path, compression="zstd", store_schema=False)
    return path


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    pq.write_table(pa.table([[1], [2], [3]], names=["a", "b", "a"]), tmp_path / "t.parquet")
    with pytest.raises(InvalidFile, match="the column a appears twice; remove one of them"):
        read_bounded(tmp_path / "t.parquet", ["a", "b"])
    assert read_bounded(tmp_path / "t.parquet", ["b"])[0].to_pydict() == {"b": [2]}


def test_text_read_as_a_dictionary_comes_back_as_text(tmp_path: Path) -> None:
    words = [None if n % 7 == 0 else f"{n:050d}" for n in range(30_000)]
    lists = [[str(n), None] for n in range(30_000)]
    table = pa.table({"a": pa.array(words), "b": pa.array(lists)}).replace_schema_metadata({"kind": "logits"})
    pq.write_table(table, tmp_path / "t.parquet")
    found, names = read_bounded(tmp_path / "t.parquet", ["a", "b"])
    assert names == ["a", "b"]
    assert found.schema.metadata[b"kind"] == b"logits"
    assert found.column("a").to_pylist() == words
    assert found.column("b").to_pylist() == lists


@pytest.mark.slow
@pytest.mark.parametrize("what", ["dataset", "predictions", "boxes"])
def test_no_verb_takes_it(what: str, tmp_path: Path) -> None:
    """In a process of its own that may take no more than 4 GiB."""
    data = strobe.save_dataset(strobe.example_dataset(), tmp_path / "data")
    words = ["score", str(data), "-m", f"preds:{tmp_path / 'p.parquet'}", "-o", str(tmp_path / "run")]
    often = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000, np.int32)), pa.array(["x" * 500_000]))
    table = pa.table({"frame": often, "label": np.zeros(20_000, np.int64)})
    if what == "boxes":
        for name in ("score", "x0", "y0", "x1", "y1"):
            table = table.append_column(name, pa.array(np.zeros(20_000)))
    pq.write_table(table, tmp_path / "p.parquet", compression="zstd", store_schema=False)
    if what == "dataset":
        edit_info(data, files={})
        said_often(data / "frames.parquet", "frame_id", length=500_000, times=20_000)
        words = ["inspect", str(data)]
    done = subprocess.run(
        [sys.executable, "-m", "strobe", *words], capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30)),
    )  # fmt: skip
    assert done.returncode == 2
    assert "would unpack to" in done.stderr
