"""Format 2 of the dataset folder: variants, what became of each set, and a line for whatever is broken there."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from made_folder import edit_info, example, refused_for_a_cell, same, searched

from strobe.core.errors import InvalidFile
from strobe.formats.export_coco import export_coco
from strobe.formats.export_csv import export_csv
from strobe.store import dataset_folder as folder


def test_format_2_comes_back_as_it_was(tmp_path: Path) -> None:
    data = searched()
    folder.write(data, tmp_path / "set")
    back = folder.read(tmp_path / "set")
    same(data, back)
    assert list(back.variants) == list(data.variants)
    assert back.digest() == data.digest()
    assert back.frames_digest() == data.frames_digest()
    assert json.loads((tmp_path / "set/dataset.json").read_text())["schema"] == 2
    folder.write(back, tmp_path / "again")
    for path in (tmp_path / "set").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def test_format_1_is_written_where_it_suffices(tmp_path: Path) -> None:
    folder.write(searched(), tmp_path / "set")
    folder.write(example(), tmp_path / "set", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == [
        "boxes.parquet", "dataset.json", "frames.parquet", "labels.parquet", "sets.parquet", "videos.parquet"
    ]  # fmt: skip
    description = json.loads((tmp_path / "set/dataset.json").read_text())
    assert description["schema"] == 1
    assert "combine" not in description
    assert pq.read_schema(tmp_path / "set/videos.parquet").names[-1] == "codec"
    assert pq.read_schema(tmp_path / "set/frames.parquet").names[-1] == "media"


@pytest.mark.parametrize(
    ("table", "column", "row", "value", "problem"),
    [
        (
            "videos",
            "kind",
            1,
            "film",
            r"videos\.parquet: row 1: kind 'film' is not one of video, photo, image, generated",
        ),
        ("videos", "kind", 1, None, r"videos\.parquet: row 1: the column kind is null"),
        ("frames", "recipe", 4, "fog", r"frames\.parquet: row 4: frames\.recipe: expected JSON, got fog"),
        ("frames", "as_input", 4, None, r"frames\.parquet: row 4: the column as_input is null"),
        ("variants", "variant", 1, "linf/net", r"variants\.parquet: row 1: variant 'linf/net' appears twice"),
        ("variants", "role", 1, "sham", r"variants\.parquet: row 1: variants\.role: expected same, control, shown"),
        ("variants", "levels", 0, [2.0, 1.0], r"variants\.parquet: row 0: variants\.levels: expected ascending"),
        ("variants", "levels", 0, [1.0, None], r"variants\.parquet: row 0: "),
        ("variants", "fields", 0, "[1]", r"variants\.parquet: row 0: expected a JSON object, got \[1\]"),
        ("variants", "axis", 0, "", r"variants\.parquet: row 0: variants\.axis"),
        ("set_info", "set_id", 1, "clip9@1", r"set_info\.parquet: row 1: set_id 'clip9@1' is not in sets\.parquet"),
        ("set_info", "set_id", 1, "clip0@1", r"set_info\.parquet: row 1: set_id 'clip0@1' appears twice"),
        ("set_info", "variant", 1, "l2", r"set_info\.parquet: row 1: variant 'l2' is not in variants\.parquet"),
        ("set_info", "variant", 1, "linf/net", "sets.group: expected each variant at most once per group"),
        ("set_info", "status", 0, "lost", r"set_info\.parquet: row 0: status 'lost' is not one of complete, found"),
        ("set_info", "reach", 1, None, r"set_info\.parquet: row 1: status is found or censored, but reach is missing"),
        ("set_info", "reach", 1, -2.0, r"set_info\.parquet: row 1: reach is negative"),
        ("sets", "distance", 2, 5.0, "set clip0@1 has a member at 5, beyond every level of variant linf/net"),
    ],
)
def test_a_broken_cell_of_format_2(searched_place: Path, table, column, row, value, problem) -> None:
    refused_for_a_cell(searched_place, table, column, row, value, problem)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"combine": "best"}, "each or worst"),
        ({"axis": "frame-offset"}, "the axis of the variants"),
        ({"k": 1}, "largest number of levels"),
    ],
)
def test_a_broken_description_of_format_2(searched_place: Path, changes, problem: str) -> None:
    edit_info(searched_place, **changes)
    with pytest.raises(InvalidFile, match=problem):
        folder.read(searched_place)


def test_a_missing_table_of_format_2(searched_place: Path) -> None:
    path = searched_place / "set_info.parquet"
    pq.write_table(pq.read_table(path).slice(0, 1), path)
    with pytest.raises(InvalidFile, match=r"set_info\.parquet: set 'clip1@1' of sets\.parquet has no row"):
        folder.read(searched_place)
    path.unlink()
    with pytest.raises(InvalidFile, match=r"set_info\.parquet: the file is missing; it gives the variant"):
        folder.read(searched_place)


def test_exports_carry_what_format_2_says() -> None:
    data = searched()
    tables = export_csv(data, media="none").files
    assert str(tables["set_info.csv"]).splitlines()[1:] == [
        "clip0@1,linf/net,p,found,1.0,0.5", "clip1@1,linf/other,p,censored,2.0,"
    ]  # fmt: skip
    assert "1.0|2.0" in str(tables["variants.csv"])
    document = json.loads(export_coco(data, media="none").files["annotations.json"])
    assert [(one["variant"], one["status"], one["reach"]) for one in document["sets"]] == [
        ("linf/net", "found", 1.0), ("linf/other", "censored", 2.0)
    ]  # fmt: skip
    assert [one["levels"] for one in document["variants"]] == [[1.0, 2.0]] * 2
