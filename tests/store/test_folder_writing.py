"""Writing a dataset folder: all of it or nothing, whatever goes wrong; votes and answers come to it and stay."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_folder import edit, example

from strobe.core.errors import CannotWrite, InvalidFile, StrobeError
from strobe.core.people import BoxAnswer, NameAnswer, latest_answers
from strobe.core.records import Verdict
from strobe.store import dataset_folder as folder


def test_write_refuses_to_overwrite_unless_told(tmp_path: Path) -> None:
    folder.write(example(), tmp_path / "set")
    with pytest.raises(StrobeError, match="already contains a dataset"):
        folder.write(example(), tmp_path / "set")
    folder.write(replace(example(), boxes=None), tmp_path / "set", overwrite=True)
    assert folder.read(tmp_path / "set").boxes is None
    (tmp_path / "file").write_text("")
    with pytest.raises(StrobeError, match="is a file; choose a folder"):
        folder.write(example(), tmp_path / "file")


def test_a_table_that_cannot_be_written_leaves_no_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    class Full(pq.ParquetWriter):
        def write_table(self, table: pa.Table, *given: object, **options: object) -> None:
            if len(written) == 3:
                raise OSError(28, "No space left on device")
            written.append(table)
            super().write_table(table, *given, **options)

    monkeypatch.setattr(pq, "ParquetWriter", Full)
    with pytest.raises(CannotWrite, match=r"labels\.parquet: the disk is full"):
        folder.write(example(), tmp_path / "set")
    assert not (tmp_path / "set").exists()


def vote(number: int, **changes) -> Verdict:
    whole = {
        "verdict_id": f"id{number}", "annotator": "ann", "at": f"2026-01-01T00:00:0{number}Z", "stage": "pair",
        "set_id": "clip0@1", "frame_id": "v0:0", "decision": "similar",
    }  # fmt: skip
    return Verdict(**{**whole, **changes})


def test_votes_are_appended_once_and_never_changed(tmp_path: Path) -> None:
    place = folder.write(example(), tmp_path / "set")
    assert folder.append_verdicts(place, []).info.reviewed == "none"
    folder.append_verdicts(place, [vote(1), vote(2)])
    folder.append_verdicts(place, [vote(2, decision="unsure"), vote(3, labels=("cat", "dog"))])
    back = folder.read(place)
    assert [one.verdict_id for one in back.verdicts] == ["id1", "id2", "id3"]
    assert back.verdicts[1].decision == "similar"
    assert back.verdicts[2].labels == ("cat", "dog")
    assert back.info.reviewed == "votes"


def named(number: int, **changes) -> NameAnswer:
    whole = {
        "annotator": "ann",
        "at": f"2026-01-01T00:00:0{number}Z",
        "frame_id": "v0:0",
        "said": "class",
        "label": "cat",
    }
    return NameAnswer(**{"answer_id": f"n{number}", **whole, **changes})


def drawn(number: int, **changes) -> BoxAnswer:
    whole = {
        "answer_id": f"b{number}", "annotator": "ann", "at": f"2026-01-01T00:00:0{number}Z", "stage": "draw",
        "frame_id": "v0:0", "label": "cat", "decision": "keep", "xyxy": (1.0, 2.0, 3.5, 4.0),
    }  # fmt: skip
    return BoxAnswer(**{**whole, **changes})


def test_answers_are_appended_once_and_are_no_part_of_the_digest(tmp_path: Path) -> None:
    place = folder.write(example(), tmp_path / "set")
    bare, description = folder.read(place).digest(), (place / "dataset.json").read_bytes()
    late = named(2, said="late", label="", seconds=9.5, condition="crop", note="ä\n", page_version="p")
    gone = drawn(2, decision="discard", reason="cut off", xyxy=None, suggested=True, seconds=0.5)
    folder.append_answers(place, "names", [named(1)])
    folder.append_answers(place, "drawn", [drawn(1)])
    folder.append_answers(place, "names", [named(1, said="none", label=""), late])
    folder.append_answers(place, "drawn", [gone, gone])
    folder.append_answers(place, "names", [])
    back = folder.read(place)
    assert back.names == (named(1), late)
    assert back.drawn == (drawn(1), gone)
    assert (back.verdicts, back.info.reviewed, back.digest()) == ((), "none", bare)
    assert (place / "dataset.json").read_bytes() == description
    assert latest_answers(reversed(back.names)) == {"v0:0": {"ann": late}}
    whole = folder.write(back, tmp_path / "again")
    assert (folder.read(whole).names, folder.read(whole).drawn) == (back.names, back.drawn)
    folder.append_answers(whole, "names", [named(3)])
    assert len(folder.read(whole).names) == 3


@pytest.mark.parametrize(
    ("table", "column", "value", "rule"),
    [
        ("names", "said", "perhaps", "NameAnswer.said"),
        ("names", "label", "", "NameAnswer.label"),
        ("names", "seconds", -1.0, "NameAnswer.seconds"),
        ("names", "annotator", "", "NameAnswer.annotator"),
        ("drawn", "xyxy", [1.0, 2.0, 1.0, 4.0], "BoxAnswer.xyxy"),
        ("drawn", "xyxy", [1.0, 2.0, 3.0], "BoxAnswer.xyxy: expected four"),
        ("drawn", "xyxy", [1.0, 2.0, None, 4.0], "BoxAnswer.xyxy: expected finite"),
        ("drawn", "xyxy", [-1.0, 2.0, 3.0, 4.0], "BoxAnswer.xyxy: expected inside"),
        ("drawn", "xyxy", [], "BoxAnswer.xyxy: expected a box"),
        ("drawn", "decision", "discard", "BoxAnswer.reason"),
        ("drawn", "stage", "pair", "BoxAnswer.stage"),
    ],
)
def test_a_broken_answer_on_disk_is_named(place: Path, table: str, column: str, value: object, rule: str) -> None:
    folder.append_answers(place, "names", [named(1), named(2)])
    folder.append_answers(place, "drawn", [drawn(1), drawn(2)])
    edit(place, table, column, 1, value)
    with pytest.raises(InvalidFile, match=rf"{table}\.parquet: row 1: {rule}"):
        folder.read(place)
