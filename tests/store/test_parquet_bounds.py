"""A small Parquet file that would unpack to more memory than there is, is refused before it does."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strobe.core.errors import InvalidFile
from strobe.core.parquet import read_bounded


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
