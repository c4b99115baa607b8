"""The dataset folder: a round trip of anything lawful, and a line naming file, row and rule for anything else."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_folder import SPACE, edit_info, refused_for_a_cell, same

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.records import DECISIONS, REASONS, Verdict
from strobe.core.tables import Hints
from strobe.store import dataset_folder as folder

ints = st.integers(-(2**62), 2**62)


@st.composite
def datasets(draw) -> Dataset:
    """Small datasets in which everything that may be unknown is so at times."""
    text = st.text(max_size=8)
    made = DatasetBuilder()
    with_boxes = draw(st.booleans())
    for number in range(draw(st.integers(1, 3))):
        fps = draw(st.none() | st.sampled_from([Fraction(30000, 1001), Fraction(25)]))
        video = made.video(
            video_id=f"v{number}", name=draw(text), fps=fps, n_frames=draw(st.none() | st.integers(0, 9)),
            path=draw(text), codec=draw(text),
        )  # fmt: skip
        rows = {}
        for index in sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=5))):
            rows[index] = made.frame(
                video=video,
                index=index,
                key=f"{number}/{index}{draw(text)}",
                pts=draw(st.none() | ints),
                time_s=draw(st.none() | st.fractions(max_denominator=10**6, min_value=-9, max_value=9)),
                pict_type=draw(st.sampled_from(["", "I", "P", "B"])),
                size_wh=draw(st.sampled_from([(0, 0), (64, 48)])),
                sha256=draw(text),
                media=draw(text),
                labels=draw(st.sets(st.integers(0, 2))),
            )
            if with_boxes and draw(st.booleans()):
                made.box(
                    frame=rows[index], label=draw(st.integers(0, 2)), track=draw(st.integers(-1, 3)),
                    xyxy=(draw(st.floats(-5, 5)), 0.0, 5.5, draw(st.floats(0.1, 5))), crowd=draw(st.booleans()),
                )  # fmt: skip
        indices = list(rows)
        anchor = draw(st.sampled_from(indices))
        members = [index for index in indices if index != anchor and draw(st.booleans())]
        made.set(
            set_id=f"s{number}{draw(text)}",
            anchor=rows[anchor],
            members=[(rows[index], index - anchor) for index in members],
        )
        if draw(st.booleans()):
            made.verdict(
                Verdict(
                    verdict_id=f"id{number}", annotator="ann", at=draw(text), set_id=f"s{number}",
                    stage=draw(st.sampled_from(["pair", "verify", "joint", "anchor"])), frame_id=f"v{number}:0",
                    decision=draw(st.sampled_from(DECISIONS)), label_right=draw(st.none() | st.booleans()),
                    reason=draw(st.sampled_from(["", *REASONS])), bad_anchor=draw(st.booleans()),
                    labels=tuple(draw(st.lists(text, max_size=2))), note=draw(text),
                    seconds=draw(st.none() | st.floats(0, 9)), page_version=draw(text),
                )
            )  # fmt: skip
    info = DatasetInfo(
        name="made", label_space=SPACE, k=40, version=draw(text),
        label_source=draw(st.sampled_from(["frame", "anchor"])), licence=draw(text),
        provenance=draw(st.dictionaries(text, st.integers() | text, max_size=2)),
    )  # fmt: skip
    data = made.build(info, with_boxes=with_boxes)
    if draw(st.booleans()):
        n = len(data.sets.set)
        floats = st.lists(st.floats(-1, 1), min_size=n, max_size=n)
        columns = {name: np.array(draw(floats)) for name in ("cut", "blur", "motion", "exposure")}
        data = replace(data, hints=Hints(**columns, duplicate=np.array(draw(floats)) > 0))
    return data


@settings(max_examples=25, deadline=None)
@given(data=datasets())
def test_round_trip(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("round") / "set"
    folder.write(data, place)
    back = folder.read(place)
    same(data, back)
    assert back.digest() == data.digest()
    assert back.root == place
    again = tmp_path_factory.mktemp("again") / "set"
    folder.write(back, again)
    for path in place.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name
    edit_info(again, checked=None)  # nobody vouches for it: everything is checked, and the same comes out
    same(data, folder.read(again))
    assert folder.read(again).digest() == data.digest()


def test_order_and_compression_do_not_matter(place: Path) -> None:
    before = folder.read(place)
    for path in place.glob("*.parquet"):
        table = pq.read_table(path)
        back = table.take(pc.sort_indices(pa.table({"i": range(len(table))}), sort_keys=[("i", "descending")]))
        pq.write_table(back, path, compression="gzip", row_group_size=2, version="1.0")
    after = folder.read(place)
    assert after.digest() == before.digest()
    assert after.frames_digest() == before.frames_digest()


@pytest.mark.parametrize(
    ("table", "column", "row", "value", "problem"),
    [
        ("frames", "frame_id", 4, "v1:7", r"frames\.parquet: row 4: frame_id is 'v1:7', expected video_id:index"),
        ("frames", "video_id", 2, "v9", r"frames\.parquet: row 2: video_id 'v9' is not in videos\.parquet"),
        ("frames", "key", 3, "clip0/0.png", r"frames\.parquet: row 3: key 'clip0/0\.png' appears twice"),
        ("frames", "key", 3, None, r"frames\.parquet: row 3: the column key is null"),
        ("frames", "pict_type", 5, "X", r"frames\.parquet: row 5: pict_type"),
        ("frames", "width", 5, -3, r"frames\.parquet: row 5: width"),
        ("sets", "frame_id", 1, "v0:9", r"sets\.parquet: row 1: frame_id 'v0:9' is not in frames\.parquet"),
        ("sets", "frame_id", 2, "v0:0", r"sets\.parquet: row 2: the frame of the set .* appears twice"),
        ("sets", "is_anchor", 4, False, r"sets\.parquet: row 3: set 'clip1@1' has 0 anchors; every set needs"),
        ("sets", "distance", 5, float("nan"), r"sets\.parquet: row 5: distance is not a finite number"),
        ("sets", "distance", 4, 2.0, r"sets\.parquet: row 4: the distance of the anchor is not 0"),
        ("labels", "label", 3, "wolf", r"labels\.parquet: row 3: label 'wolf' is not a class of pets \(3 classes\)"),
        ("labels", "frame_id", 3, "v7:0", r"labels\.parquet: row 3: frame_id 'v7:0' is not in"),
        ("labels", "frame_id", 1, "v0:0", r"labels\.parquet: row 1: the label .* appears twice"),
        ("boxes", "x1", 1, -1.0, r"boxes\.parquet: row 1: expected finite x0 < x1"),
        ("boxes", "x1", 1, 1e308, r"boxes\.parquet: row 1: expected finite x0 < x1 and y0 < y1 of at most 1e9"),
        ("boxes", "label", 0, "wolf", r"boxes\.parquet: row 0: label 'wolf'"),
        ("videos", "video_id", 1, "v0", r"videos\.parquet: row 1: video_id 'v0' appears twice"),
    ],
)
def test_a_broken_cell_is_named_by_file_row_and_rule(place: Path, table, column, row, value, problem) -> None:
    refused_for_a_cell(place, table, column, row, value, problem)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"schema": 3},
            r"dataset\.json: schema: format 3 is newer than this version of strobe supports \(2\); "
            r"upgrade strobe",
        ),
        ({"schema": None}, "no schema number"),
        ({"k": -1}, r"dataset\.json: dataset\.k: expected >= 0, got -1"),
        ({"k": "many"}, r"dataset\.json: "),
        ({"k": 2.5}, r"dataset\.json: (dataset\.)?k: expected a whole number"),
        ({"k": 10**30}, r"dataset\.json: (dataset\.)?k: expected a whole number"),
        ({"k": float("inf")}, r"dataset\.json: (dataset\.)?k: expected a whole number"),
        ({"label_space": {"name": 7, "ids": ["a"], "names": ["a"]}}, r"label_space\.name: expected text"),
        ({"label_space": {"name": "a", "ids": [[]], "names": ["a"]}}, r"label_space\.ids\[0\]: expected text"),
        ({"label_space": {"name": "a", "ids": ["a"], "names": "a"}}, r"label_space\.names: expected a list"),
        ({"label_source": "both"}, "frame or anchor"),
        ({"axis": ""}, "dataset.axis"),
        ({"axis": 3}, r"dataset\.json: axis: expected text, got 3"),
        ({"name": ""}, "dataset.name"),
        ({"reviewed": "yes"}, "expected none or release or votes"),
        ({"label_space": {"name": "x", "ids": [], "names": []}}, "at least one class"),
        ({"label_space": {"name": "x", "ids": ["cat"]}}, "label_space: expected the key names"),
        ({"label_space": None}, r"dataset\.json: "),
        ({"provenance": 3}, r"dataset\.json: provenance: expected an object"),
        ({"name": 7}, r"dataset\.json: name: expected text"),
        (
            {"files": {"boxes.parquet": "0" * 64}},
            r"boxes\.parquet: its content differs from the digest in dataset\.json",
        ),
        ({"files": {"hints.parquet": "0" * 64}}, r"hints\.parquet: the file is missing"),
    ],
)
def test_a_broken_description(place: Path, changes, problem: str) -> None:
    edit_info(place, **changes)
    with pytest.raises(InvalidFile, match=problem):
        folder.read(place)


def test_a_missing_column_and_a_wrong_type(place: Path) -> None:
    table = pq.read_table(place / "sets.parquet")
    pq.write_table(table.drop_columns(["distance"]), place / "sets.parquet")
    with pytest.raises(InvalidFile, match=r"the column distance is missing; it has set_id, frame_id, is_anchor"):
        folder.read(place)
    words = table.set_column(2, "distance", pa.array(["far"] * len(table)))
    pq.write_table(words, place / "sets.parquet")
    with pytest.raises(InvalidFile, match="the column distance is string, expected double"):
        folder.read(place)


@pytest.mark.parametrize(("table", "problem"), [("frames", "no frames"), ("sets", "no sets")])
def test_an_empty_dataset(place: Path, table: str, problem: str) -> None:
    path = place / f"{table}.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    with pytest.raises(InvalidFile, match=f"{problem}; an empty dataset cannot be scored"):
        folder.read(place)


def test_no_folder_a_file_and_a_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(StrobeError, match="no such dataset folder"):
        folder.read(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StrobeError, match="is a file, not a dataset folder"):
        folder.read(tmp_path / "file")
    with pytest.raises(StrobeError, match=r"has no dataset\.json; make one with strobe build"):
        folder.read(tmp_path)
    (tmp_path / "dataset.json").write_text("[]")
    with pytest.raises(InvalidFile, match="no schema number"):
        folder.read(tmp_path)
    (tmp_path / "dataset.json").write_text('{"schema": 1, ')
    with pytest.raises(InvalidFile, match="is it truncated"):
        folder.read(tmp_path)
