"""The viewer reads the tables of a run with the limits of every reader."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import strobe
from strobe.annexes.web.view.outcomes import SetRows, stored_outcomes
from strobe.core.errors import StrobeError
from strobe.core.parquet import read_footer


def test_the_viewer_refuses_a_table_of_60_million_rows(tmp_path: Path) -> None:
    dataset = strobe.example_dataset()
    path = tmp_path / "tables" / "sets.parquet"
    path.parent.mkdir()
    part = 6_000_000
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(part, np.int32)), pa.array(["x"]))
    one = pa.table({"set": text, "model": text, "anchor_right": np.ones(part, bool), "holds": np.ones(part, bool)})
    with pq.ParquetWriter(path, one.schema, compression="zstd") as writer:
        for _ in range(10):
            writer.write_table(one)
    assert read_footer(path).n_rows == 60_000_000
    assert path.stat().st_size < 10**6
    before = pa.total_allocated_bytes()
    with pytest.raises(StrobeError, match=r"sets\.parquet: would unpack to"):
        stored_outcomes(tmp_path, dataset, SetRows(dataset, dataset.sets.set_id))
    assert pa.total_allocated_bytes() - before < 2**20
