"""The dataset folder: a round trip of anything lawful, and a line naming file, row and rule for anything else."""

import json
import subprocess
import sys
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

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import CannotWrite, InvalidFile, StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.people import BoxAnswer, NameAnswer, latest_answers
from strobe.core.records import DECISIONS, REASONS, Verdict
from strobe.core.tables import Hints, texts
from strobe.core.variants import Target, Variant, Variants
from strobe.datasets import folder
from strobe.datasets.export_coco import export_coco
from strobe.datasets.export_csv import export_csv

SPACE = LabelSpace.of_names("pets", ["cat", "dog", "fox"])
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


def same(one: Dataset, two: Dataset) -> None:
    assert one.info == two.info
    assert one.verdicts == two.verdicts
    for table in ("videos", "frames", "sets", "labels", "boxes", "hints"):
        a, b = getattr(one, table), getattr(two, table)
        assert (a is None) == (b is None), table
        for name in type(a).__slots__ if a is not None else ():
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=f"{table}.{name}")


@settings(max_examples=40, deadline=None)
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


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A lawful folder whose tables may be edited: the recorded hashes are taken out."""
    folder.write(example(), tmp_path / "set")
    edit_info(tmp_path / "set", files={})
    return tmp_path / "set"


def edit_info(place: Path, **changes: object) -> None:
    path = place / "dataset.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit(place: Path, table: str, column: str, row: int, value: object) -> None:
    path = place / f"{table}.parquet"
    found = pq.read_table(path)
    values = found.column(column).to_pylist()
    values[row] = value
    at = found.column_names.index(column)
    kind = found.schema.field(column).type
    pq.write_table(found.set_column(at, column, pa.array(values, type=kind)), path)


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
        ("frames", "key", 3, "clip0/0.png", r"frames\.parquet: row 3: key 'clip0/0\.png' stands twice"),
        ("frames", "key", 3, None, r"frames\.parquet: row 3: the column key is null"),
        ("frames", "pict_type", 5, "X", r"frames\.parquet: row 5: pict_type"),
        ("frames", "width", 5, -3, r"frames\.parquet: row 5: width"),
        ("sets", "frame_id", 1, "v0:9", r"sets\.parquet: row 1: frame_id 'v0:9' is not in frames\.parquet"),
        ("sets", "frame_id", 2, "v0:0", r"sets\.parquet: row 2: the frame of the set .* stands twice"),
        ("sets", "is_anchor", 4, False, r"sets\.parquet: row 3: set 'clip1@1' has 0 anchors; every set needs"),
        ("sets", "distance", 5, float("nan"), r"sets\.parquet: row 5: distance is not a finite number"),
        ("sets", "distance", 4, 2.0, r"sets\.parquet: row 4: an anchor at a distance other than 0"),
        ("labels", "label", 3, "wolf", r"labels\.parquet: row 3: label 'wolf' is no class of pets \(3 classes\)"),
        ("labels", "frame_id", 3, "v7:0", r"labels\.parquet: row 3: frame_id 'v7:0' is not in"),
        ("labels", "frame_id", 1, "v0:0", r"labels\.parquet: row 1: the label .* stands twice"),
        ("boxes", "x1", 1, -1.0, r"boxes\.parquet: row 1: expected finite x0 < x1"),
        ("boxes", "label", 0, "wolf", r"boxes\.parquet: row 0: label 'wolf'"),
        ("videos", "video_id", 1, "v0", r"videos\.parquet: row 1: video_id 'v0' stands twice"),
    ],
)
def test_a_broken_cell_is_named_by_file_row_and_rule(place: Path, table, column, row, value, problem) -> None:
    edit(place, table, column, row, value)
    with pytest.raises(InvalidFile, match=problem) as caught:
        folder.read(place)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"schema": 3}, r"dataset\.json: schema: format 3 is newer than this strobe reads \(2\); upgrade strobe"),
        ({"schema": None}, "no schema number"),
        ({"k": -1}, r"dataset\.json: dataset\.k: expected a whole number >= 0, got -1"),
        ({"k": "many"}, r"dataset\.json: "),
        ({"label_source": "both"}, "frame or anchor"),
        ({"axis": ""}, "dataset.axis"),
        ({"axis": 3}, "dataset.axis"),
        ({"name": ""}, "dataset.name"),
        ({"reviewed": "yes"}, "none, release or votes"),
        ({"label_space": {"name": "x", "ids": [], "names": []}}, "at least one class"),
        ({"label_space": {"name": "x", "ids": ["cat"]}}, "label_space: expected the key names"),
        ({"label_space": None}, r"dataset\.json: "),
        ({"provenance": 3}, r"dataset\.json: provenance: expected an object"),
        ({"name": 7}, r"dataset\.json: name: expected text"),
        ({"files": {"boxes.parquet": "0" * 64}}, r"boxes\.parquet: its content is not what dataset\.json recorded"),
        ({"files": {"hints.parquet": "0" * 64}}, r"hints\.parquet: the file is missing"),
    ],
)
def test_a_broken_description(place: Path, changes, problem: str) -> None:
    edit_info(place, **changes)
    with pytest.raises(InvalidFile, match=problem):
        folder.read(place)


def test_truncated_missing_and_foreign_files(place: Path) -> None:
    path = place / "sets.parquet"
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"hello"):
        path.write_bytes(content)
        with pytest.raises(InvalidFile, match=r"sets\.parquet: not a readable Parquet file; is it truncated"):
            folder.read(place)
    path.unlink()
    with pytest.raises(InvalidFile, match=r"sets\.parquet: the file is missing"):
        folder.read(place)
    path.mkdir()
    with pytest.raises(InvalidFile, match=r"sets\.parquet: the file is missing"):
        folder.read(place)


def test_a_flipped_byte_is_noticed(tmp_path: Path) -> None:
    folder.write(example(), tmp_path / "set")
    path = tmp_path / "set/labels.parquet"
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match=r"labels\.parquet: its content is not what dataset\.json recorded"):
        folder.read(tmp_path / "set")


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
    with pytest.raises(InvalidFile, match="expected a JSON object"):
        folder.read(tmp_path)
    (tmp_path / "dataset.json").write_text('{"schema": 1, ')
    with pytest.raises(InvalidFile, match="is it truncated"):
        folder.read(tmp_path)


# -- writing -----------------------------------------------------------------------------------------------------


def test_write_refuses_to_overwrite_unless_told(tmp_path: Path) -> None:
    folder.write(example(), tmp_path / "set")
    with pytest.raises(StrobeError, match="already holds a dataset"):
        folder.write(example(), tmp_path / "set")
    folder.write(replace(example(), boxes=None), tmp_path / "set", overwrite=True)
    assert folder.read(tmp_path / "set").boxes is None
    (tmp_path / "file").write_text("")
    with pytest.raises(StrobeError, match="is a file; choose a folder"):
        folder.write(example(), tmp_path / "file")


def test_a_full_disk_half_way_changes_nothing(tmp_path: Path) -> None:
    """The process may write 3 kB to a file: the first tables fit, a later one does not."""
    data = example()
    folder.write(data, tmp_path / "set")
    before = {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()}
    code = (
        "import resource, sys; from pathlib import Path; from dataclasses import replace\n"
        "from strobe.datasets import folder; from strobe.core.errors import CannotWrite\n"
        "place = Path(sys.argv[1]); data = folder.read(place)\n"
        "data = replace(data, info=replace(data.info, version='2', licence='x' * 5000))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        "try: folder.write(data, place, overwrite=True)\n"
        "except CannotWrite as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "set"], capture_output=True, text=True)
    assert done.stdout.startswith("cannot write "), done.stdout + done.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()} == before


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
    assert not list((tmp_path / "set").iterdir())


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


def test_dying_between_the_two_files_of_a_vote_leaves_a_readable_dataset(tmp_path: Path) -> None:
    place = folder.write(example(), tmp_path / "set")
    description = (place / "dataset.json").read_bytes()
    folder.append_verdicts(place, [vote(1)])
    (place / "dataset.json").write_bytes(description)
    assert len(folder.read(place).verdicts) == 1


def test_a_broken_vote_on_disk_is_named(place: Path) -> None:
    folder.append_verdicts(place, [vote(1), vote(2)])
    edit(place, "verdicts", "decision", 1, "perhaps")
    with pytest.raises(InvalidFile, match=r"verdicts\.parquet: row 1: Verdict\.decision"):
        folder.read(place)


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
    folder.append_answers(place, names=[named(1)], drawn=[drawn(1)])
    folder.append_answers(place, names=[named(1, said="none", label=""), late], drawn=[gone, gone])
    folder.append_answers(place)
    back = folder.read(place)
    assert back.names == (named(1), late)
    assert back.drawn == (drawn(1), gone)
    assert (back.verdicts, back.info.reviewed, back.digest()) == ((), "none", bare)
    assert (place / "dataset.json").read_bytes() == description
    assert latest_answers(reversed(back.names)) == {"v0:0": {"ann": late}}
    whole = folder.write(back, tmp_path / "again")
    assert (folder.read(whole).names, folder.read(whole).drawn) == (back.names, back.drawn)
    folder.append_answers(whole, names=[named(3)])
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
    folder.append_answers(place, names=[named(1), named(2)], drawn=[drawn(1), drawn(2)])
    edit(place, table, column, 1, value)
    with pytest.raises(InvalidFile, match=rf"{table}\.parquet: row 1: {rule}"):
        folder.read(place)


# -- format 2 ----------------------------------------------------------------------------------------------------


def searched() -> Dataset:
    """A picture under one norm against two targets: a finding, and a search that found nothing."""
    data = example()
    target = Target(name="net", weights="3f", preprocessing={"resize": 8})
    variants = [
        Variant(variant="linf/net", axis="epsilon", unit="of 255", levels=(1.0, 2.0), fields={"norm": "linf"}, target=t)
        for t in (target,)
    ] + [Variant(variant="linf/other", axis="epsilon", unit="of 255", levels=(1.0, 2.0), target=Target(name="other"))]
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


def test_a_photo_needs_format_2_but_no_variants(tmp_path: Path) -> None:
    data = replace(example(), videos=replace(example().videos, kind=texts(["photo"] * 2)))
    folder.write(data, tmp_path / "set")
    assert not (tmp_path / "set/variants.parquet").exists()
    same(data, folder.read(tmp_path / "set"))
    lone = replace(example(), sets=replace(example().sets, reach=np.array([np.nan, 3.0])))
    folder.write(lone, tmp_path / "reach")
    same(lone, folder.read(tmp_path / "reach"))


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


def test_what_format_1_does_not_know_is_not_read_there(tmp_path: Path) -> None:
    folder.write(searched(), tmp_path / "new")
    folder.write(example(), tmp_path / "set")
    (tmp_path / "set/variants.parquet").write_bytes((tmp_path / "new/variants.parquet").read_bytes())
    same(example(), folder.read(tmp_path / "set"))


@pytest.mark.parametrize(
    ("table", "column", "row", "value", "problem"),
    [
        ("videos", "kind", 1, "film", r"videos\.parquet: row 1: kind 'film' is none of video, photo, image, generated"),
        ("videos", "kind", 1, None, r"videos\.parquet: row 1: the column kind is null"),
        ("frames", "recipe", 4, "fog", r"frames\.parquet: row 4: frames\.recipe: expected JSON, got fog"),
        ("frames", "as_input", 4, None, r"frames\.parquet: row 4: the column as_input is null"),
        ("variants", "variant", 1, "linf/net", r"variants\.parquet: row 1: variant 'linf/net' stands twice"),
        ("variants", "role", 1, "sham", r"variants\.parquet: row 1: variants\.role: expected same, control, shown"),
        ("variants", "levels", 0, [2.0, 1.0], r"variants\.parquet: row 0: variants\.levels: expected ascending"),
        ("variants", "levels", 0, [1.0, None], r"variants\.parquet: row 0: "),
        ("variants", "fields", 0, "[1]", r"variants\.parquet: row 0: expected a JSON object, got \[1\]"),
        ("variants", "axis", 0, "", r"variants\.parquet: row 0: variants\.axis"),
        ("set_info", "set_id", 1, "clip9@1", r"set_info\.parquet: row 1: set_id 'clip9@1' is not in sets\.parquet"),
        ("set_info", "set_id", 1, "clip0@1", r"set_info\.parquet: row 1: set_id 'clip0@1' stands twice"),
        ("set_info", "variant", 1, "l2", r"set_info\.parquet: row 1: variant 'l2' is not in variants\.parquet"),
        ("set_info", "variant", 1, "linf/net", "sets.group: expected each variant once per group"),
        ("set_info", "status", 0, "lost", r"set_info\.parquet: row 0: status 'lost' is none of complete, found"),
        ("set_info", "reach", 1, None, r"set_info\.parquet: row 1: found or censored, and no reach"),
        ("set_info", "reach", 1, -2.0, r"set_info\.parquet: row 1: reach is negative"),
        ("sets", "distance", 2, 5.0, "set clip0@1 has a member at 5, beyond every level of variant linf/net"),
    ],
)
def test_a_broken_cell_of_format_2(tmp_path: Path, table, column, row, value, problem) -> None:
    place = tmp_path / "set"
    folder.write(searched(), place)
    edit_info(place, files={})
    edit(place, table, column, row, value)
    with pytest.raises(InvalidFile, match=problem) as caught:
        folder.read(place)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"combine": "best"}, "each or worst"),
        ({"axis": "frame-offset"}, "that of the variants"),
        ({"k": 1}, "most levels"),
    ],
)
def test_a_broken_description_of_format_2(tmp_path: Path, changes, problem: str) -> None:
    folder.write(searched(), tmp_path / "set")
    edit_info(tmp_path / "set", **changes)
    with pytest.raises(InvalidFile, match=problem):
        folder.read(tmp_path / "set")


def test_a_missing_table_of_format_2(tmp_path: Path) -> None:
    folder.write(searched(), tmp_path / "set")
    edit_info(tmp_path / "set", files={})
    rows = pq.read_table(tmp_path / "set/set_info.parquet")
    pq.write_table(rows.slice(0, 1), tmp_path / "set/set_info.parquet")
    with pytest.raises(InvalidFile, match=r"set_info\.parquet: set 'clip1@1' of sets\.parquet has no row"):
        folder.read(tmp_path / "set")
    (tmp_path / "set/set_info.parquet").unlink()
    with pytest.raises(InvalidFile, match=r"set_info\.parquet: the file is missing; it says which variant"):
        folder.read(tmp_path / "set")


# -- killed while it is written ----------------------------------------------------------------------------------

KILLED = """
import os, sys
from dataclasses import replace
from pathlib import Path
from strobe.datasets import folder

def swap(place, at):
    data = folder.read(place)
    wider = replace(data.frames, width=data.frames.width + 1)
    data = replace(data, info=replace(data.info, name="new"), boxes=None, frames=wider)
    calls = 0

    def deadly(real):
        def call(*args, **options):
            nonlocal calls
            calls += 1
            if calls > at:
                os._exit(9)
            return real(*args, **options)
        return call

    for name in ("rename", "replace", "unlink", "rmdir"):
        setattr(os, name, deadly(getattr(os, name)))
    folder.write(data, place, overwrite=True)
    os._exit(0)

old = folder.read(Path(sys.argv[1]) / "old")
for at in range(1000):
    place = Path(sys.argv[1]) / str(at)
    folder.write(old, place)
    child = os.fork()
    if not child:
        swap(place, at)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


def test_a_dataset_killed_inside_every_rename_is_the_old_or_the_new_and_goes_on(tmp_path: Path) -> None:
    old = example()
    folder.write(old, tmp_path / "old")
    subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=True)
    found = []
    places = sorted((path for path in tmp_path.iterdir() if path.name != "old"), key=lambda path: int(path.name))
    for place in places:
        assert folder.is_dataset(place)
        back = folder.read(place)
        found.append(back.name)
        assert back.digest() == old.digest() if back.name == "example" else back.boxes is None
        folder.write(replace(old, info=replace(old.info, name="resumed")), place, overwrite=True)
        assert folder.read(place).name == "resumed"
        assert not [path.name for path in place.iterdir() if path.name.startswith(".")]
    assert len(places) > 8
    assert found == sorted(found)  # "example" until one call decides, "new" from then on
    assert {*found} == {"example", "new"}


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
