"""Small datasets to write, read and break, and how one cell of a folder is broken."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidFile
from strobe.core.labels import LabelSpace
from strobe.core.seals import DIGESTS
from strobe.core.tables import texts
from strobe.core.variants import Target, Variant, Variants
from strobe.store import dataset_folder as folder

SPACE = LabelSpace.of_names("pets", ["cat", "dog", "fox"])


def same(one: Dataset, two: Dataset) -> None:
    assert one.info == two.info
    assert one.verdicts == two.verdicts
    for table in ("videos", "frames", "sets", "labels", "boxes", "hints"):
        a, b = getattr(one, table), getattr(two, table)
        assert (a is None) == (b is None), table
        for name in type(a).__slots__ if a is not None else ():
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=f"{table}.{name}")


# -- a fixed folder to break -------------------------------------------------------------------------------------


def example() -> Dataset:
    made = DatasetBuilder()
    for number in range(2):
        video = made.video(video_id=f"v{number}", name=f"clip{number}", fps=Fraction(25), n_frames=3)
        rows = [
            made.frame(video=video, index=i, key=f"clip{number}/{i}.png", labels=[number], size_wh=(8, 8))
            for i in range(3)
        ]
        made.box(frame=rows[1], label=number, xyxy=(0, 0, 4, 4))
        made.set(set_id=f"clip{number}@1", anchor=rows[1], members=[(rows[0], -1), (rows[2], 1)])
    return made.build(DatasetInfo(name="example", label_space=SPACE, k=1))


def edit_info(place: Path, **changes: object) -> None:
    """Change dataset.json as its error message says: without the digest of its content."""
    path = place / "dataset.json"
    content = json.loads(path.read_text())
    content.pop("checked", None)
    path.write_text(json.dumps({**content, **changes}))


def edit(place: Path, table: str, column: str, row: int, value: object) -> None:
    path = place / f"{table}.parquet"
    found = pq.read_table(path)
    values = found.column(column).to_pylist()
    values[row] = value
    at = found.column_names.index(column)
    kind = found.schema.field(column).type
    pq.write_table(found.set_column(at, column, pa.array(values, type=kind)), path)
    (place / DIGESTS).unlink(missing_ok=True)  # so that the damage gets past the digests


# -- format 2 ----------------------------------------------------------------------------------------------------


def refused_for_a_cell(place: Path, table: str, column: str, row: int, value: object, problem: str) -> None:
    """Break a cell: the folder is refused, in one line that says so."""
    edit(place, table, column, row, value)
    with pytest.raises(InvalidFile, match=problem) as caught:
        folder.read(place)
    assert "\n" not in str(caught.value)


def searched() -> Dataset:
    """An image under one norm against two targets: a finding, and a search that found nothing."""
    data = example()
    net = Target(name="net", weights="3f", preprocessing={"resize": 8})
    axis = {"axis": "epsilon", "unit": "of 255", "levels": (1.0, 2.0)}
    variants = [
        Variant(variant="linf/net", fields={"norm": "linf"}, target=net, **axis),
        Variant(variant="linf/other", target=Target(name="other"), **axis),
    ]
    sets = data.sets
    return replace(
        data,
        info=replace(data.info, k=2, axis="epsilon", combine="each"),
        videos=replace(data.videos, kind=texts(["photo", "generated"])),
        frames=replace(
            data.frames, as_input=np.arange(6) % 2 == 0, recipe=texts(["", '{"kind": "fog", "seed": 3}', *[""] * 4])
        ),
        sets=replace(
            sets, variant=np.array([0, 1]), group=texts(["p", "p"]), status=texts(["found", "censored"]),
            reach=np.array([1.0, 2.0]), margin=np.array([0.5, np.nan]),
        ),
        variants=Variants.of(variants),
    )  # fmt: skip
