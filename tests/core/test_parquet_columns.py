"""Arrow's columns by their bytes: what pyarrow itself says of them is the oracle."""

import numpy as np
import pyarrow as pa
import pytest

from strobe.core.parquet import arrow_of, numbers_of

WHOLE = {
    "double": pa.array([0.5, float("nan"), -3.0, 4.0]),
    "float": pa.array([0.5, 1.5, -3.0], pa.float32()),
    "int32": pa.array([1, -2, 3], pa.int32()),
    "uint8": pa.array([1, 2, 255], pa.uint8()),
    "bool": pa.array([True, False] * 9 + [True]),
    "empty": pa.array([], pa.int64()),
    "no truth": pa.array([], pa.bool_()),
}


@pytest.mark.parametrize("column", WHOLE.values(), ids=WHOLE)
def test_numbers_are_those_pyarrow_reads(column: pa.Array) -> None:
    cuts = [column, column[1:], column[2:-1], pa.chunked_array([column[:2], column[2:]]), pa.chunked_array([column])]
    for one in [*cuts, pa.chunked_array([], column.type)]:
        found, said = (
            numbers_of(one),
            one.to_numpy(zero_copy_only=False) if isinstance(one, pa.Array) else one.to_numpy(),
        )
        assert found.dtype == said.dtype
        np.testing.assert_array_equal(found, said)


def test_arrays_are_those_pyarrow_makes() -> None:
    floats, flags = np.array([0.5, np.nan, 2.0]), np.array([True, False, True])
    cases = [
        (arrow_of(pa, floats), pa.array(floats)),
        (arrow_of(pa, floats[::2]), pa.array(floats[::2])),
        (arrow_of(pa, floats, np.isnan(floats)), pa.array([0.5, None, 2.0])),
        (arrow_of(pa, np.arange(3, dtype=np.int32)), pa.array([0, 1, 2], pa.int32())),
        (arrow_of(pa, flags), pa.array(flags)),
        (arrow_of(pa, flags, ~flags), pa.array([True, None, True])),
        (arrow_of(pa, floats[:0]), pa.array([], pa.float64())),
        (arrow_of(pa, ["ab", "", "ü漢"]), pa.array(["ab", "", "ü漢"])),
        (arrow_of(pa, []), pa.array([], pa.string())),
    ]
    for made, expected in cases:
        made.validate(full=True)
        assert made.type == expected.type
        assert str(made.to_pylist()) == str(expected.to_pylist())  # as text: NaN is equal to nothing
