"""Predictions brought from outside: every format says the same, and every kind of bad file gets its one line."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.labels import LabelSpace, projection, space
from strobe.formats.prediction_files import FileOptions
from strobe.formats.read_predictions import read_predictions

PETS = LabelSpace(name="pets", ids=("c", "d", "f"), names=("cat", "dog", "fox"))
FORMATS = ["json", "jsonl", "csv", "parquet"]


def dataset(label_space: LabelSpace = PETS, n: int = 5) -> Dataset:
    """One set of n frames, and a last frame that is in no set."""
    made = DatasetBuilder()
    video = made.video(video_id="v", name="v")
    rows = [made.frame(video=video, index=i, key=f"v/{i}.png", labels=[0]) for i in range(n + 1)]
    made.set(set_id="s", anchor=rows[0], members=[(row, row) for row in rows[1:n]])
    return made.build(DatasetInfo(name="tiny", label_space=label_space, k=n))


KEYS = [f"v/{i}.png" for i in range(5)]
SCORES = {key: [float(i), 2.0, -float(i)] for i, key in enumerate(KEYS)}
LABELS = {key: i % 3 for i, key in enumerate(KEYS)}


def save(path: Path, content: dict[str, object]) -> Path:
    """The content ({frame: scores} or {frame: label}) in the format of the path's ending."""
    rows = list(content.items())
    scores = isinstance(rows[0][1], list)
    if path.suffix == ".json":
        path.write_text(json.dumps(content))
    elif path.suffix == ".jsonl":
        name = "scores" if scores else "label"
        path.write_text("\n".join(json.dumps({"frame": key, name: value}) for key, value in rows) + "\n\n")
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["frame", *(range(len(rows[0][1])) if scores else ["label"])])
            out.writerows([key, *(value if scores else [value])] for key, value in rows)
    else:
        name = "scores" if scores else "label"
        pq.write_table(pa.table({"frame": [key for key, _ in rows], name: [value for _, value in rows]}), path)
    return path


@pytest.mark.parametrize("ending", FORMATS)
def test_scores_in_every_format(tmp_path: Path, ending: str) -> None:
    found = read_predictions(save(tmp_path / f"net.{ending}", SCORES), dataset())
    assert found.answers.model == "net"
    assert found.answers.label.tolist() == [1, 1, 0, 0, 0, -1], "ties go to the lowest class"
    assert found.answers.scored.tolist() == [True] * 5 + [False]
    assert (found.facts["kind"], found.facts["space"]) == ("logits", "pets")
    assert (found.notes[0], len(found.notes)) == ("logits in pets", 2)
    want = math.exp(2) / (math.exp(2) + 1 + 1)
    assert found.answers.confidence[0] == pytest.approx(want)


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("names", [None, PETS.ids, PETS.names])
def test_labels_in_every_format_by_number_id_or_name(tmp_path: Path, ending: str, names) -> None:
    content = {key: names[label] if names else label for key, label in LABELS.items()}
    found = read_predictions(save(tmp_path / f"net.{ending}", content), dataset())
    assert found.answers.label.tolist() == [0, 1, 2, 0, 1, -1]
    assert found.facts["kind"] == "labels"
    assert np.isnan(found.answers.confidence).all()


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(KEYS), ending=st.sampled_from(FORMATS))
def test_order_of_the_file_does_not_matter(order, ending, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("order") / f"net.{ending}"
    found = read_predictions(save(path, {key: SCORES[key] for key in order}), dataset())
    assert found.answers.label.tolist() == [1, 1, 0, 0, 0, -1]


def test_frames_may_be_named_by_id_too(tmp_path: Path) -> None:
    content = {f"v:{i}": SCORES[key] for i, key in enumerate(KEYS)}
    assert read_predictions(save(tmp_path / "net.json", content), dataset()).answers.scored.sum() == 5


def test_kind_declared_guessed_or_contradicted(tmp_path: Path) -> None:
    even = {key: [0.5, 0.25, 0.25] for key in KEYS}
    path = save(tmp_path / "p.json", even)
    assert read_predictions(path, dataset()).facts["kind"] == "probabilities"
    logits = read_predictions(path, dataset(), FileOptions(kind="logits"))
    assert (logits.facts["kind"], logits.notes[1:]) == ("logits", ())
    assert logits.answers.confidence[0] != pytest.approx(0.5)
    declared = tmp_path / "d.json"
    declared.write_text(json.dumps({"kind": "probabilities", "predictions": even}))
    assert read_predictions(declared, dataset()).notes[1:] == ()
    table = pa.table({"frame": KEYS, "scores": list(even.values())}).replace_schema_metadata({"kind": "probabilities"})
    pq.write_table(table, tmp_path / "d.parquet")
    assert read_predictions(tmp_path / "d.parquet", dataset()).notes[1:] == ()
    for kind, content, problem in (
        ("labels", even, "declared as labels, but it holds scores"),
        ("logits", LABELS, "declared as logits, but it holds one class per frame"),
        ("probabilities", SCORES, "a negative probability; declare --kind logits"),
    ):
        with pytest.raises(InvalidFile, match=problem):
            read_predictions(save(tmp_path / "x.json", content), dataset(), FileOptions(kind=kind))
    declared.write_text(json.dumps({"kind": "odds", "predictions": even}))
    with pytest.raises(InvalidFile, match=r"d\.json: kind: kind 'odds'"):
        read_predictions(declared, dataset())


# -- another label space -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("merge", ["max", "mean", "sum"])
def test_a_thousand_scores_are_projected(tmp_path: Path, ending: str, merge: str) -> None:
    scores = np.random.default_rng(3).normal(-3, 2, (5, 1000)).round(3)
    content = {key: row.tolist() for key, row in zip(KEYS, scores, strict=True)}
    found = read_predictions(
        save(tmp_path / f"n.{ending}", content), dataset(space("imagenet-vid")), FileOptions(merge=merge, kind="logits")
    )
    want = projection("ilsvrc-2012", "imagenet-vid").apply(scores, kind="logits", merge=merge)
    assert found.facts["space"] == "ilsvrc-2012"
    assert found.answers.label[:5].tolist() == want.argmax(axis=1).tolist()


def test_class_numbers_of_another_space_must_be_declared(tmp_path: Path) -> None:
    """Airliner (404) is an airplane (0) and tench (0) no class of the thirty; 0 alone would pass for an airplane."""
    content = dict(zip(KEYS, [404, 0, 404, 404, 404], strict=True))
    path = save(tmp_path / "n.json", content)
    data = dataset(space("imagenet-vid"))
    with pytest.raises(
        InvalidFile,
        match=r"v/0\.png: class 404 is outside imagenet-vid \(0–29\); if the numbers belong to another space",
    ):
        read_predictions(path, data)
    found = read_predictions(path, data, FileOptions(space="ilsvrc-2012"))
    assert found.answers.label.tolist() == [0, -1, 0, 0, 0, -1]
    assert found.answers.scored.tolist() == [True] * 5 + [False], "a class outside is wrong, not unscored"
    path.write_text(json.dumps({"space": "ilsvrc-2012", "predictions": content}))
    assert read_predictions(path, data).facts["space"] == "ilsvrc-2012"


def test_class_ids_of_another_space_speak_for_themselves(tmp_path: Path) -> None:
    content = dict.fromkeys(KEYS, "n02690373")
    found = read_predictions(save(tmp_path / "n.csv", content), dataset(space("imagenet-vid")))
    assert found.facts["space"] == "ilsvrc-2012"
    assert found.answers.label[:5].tolist() == [0] * 5


def test_csv_columns_may_be_named_but_not_shuffled(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    for header in ("frame,0,1,2", "frame,c,d,f", "frame,cat,dog,fox"):
        path.write_text(header + "\n" + "".join(f"{key},0,9,-inf\n" for key in KEYS))
        assert read_predictions(path, dataset()).answers.label[:5].tolist() == [1] * 5
    for header in ("frame,1,0,2", "frame,dog,cat,fox"):
        path.write_text(header + "\n" + "".join(f"{key},0,9,1\n" for key in KEYS))
        with pytest.raises(InvalidFile, match=r"line 1: the score columns .* are neither 0, 1, 2"):
            read_predictions(path, dataset())


# -- bad input, one line each ------------------------------------------------------------------------------------


def refused(path: Path, data: Dataset | None = None, **options) -> str:
    with pytest.raises(StrobeError) as caught:
        read_predictions(path, data or dataset(), FileOptions(**options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ([0.0, float("nan"), 1.0], "NaN in the scores of 1 frame(s); the first is v/2.png"),
        ([0.0, float("inf"), 1.0], "+inf in the scores of 1 frame(s); the first is v/2.png"),
        ([-float("inf")] * 3, "only −inf in the scores of 1 frame(s); the first is v/2.png"),
    ],
)
def test_scores_that_cannot_be_ranked(tmp_path: Path, ending: str, row: list[float], problem: str) -> None:
    assert problem in refused(save(tmp_path / f"n.{ending}", {**SCORES, "v/2.png": row}))


@pytest.mark.parametrize("ending", FORMATS)
def test_minus_infinity_alone_is_lawful(tmp_path: Path, ending: str) -> None:
    content = {**SCORES, "v/2.png": [-math.inf, -math.inf, -9.0]}
    found = read_predictions(save(tmp_path / f"n.{ending}", content), dataset())
    assert found.answers.label[2] == 2
    assert found.answers.confidence[2] == 1.0


def test_nan_in_a_class_that_maps_nowhere_still_counts(tmp_path: Path) -> None:
    content = {key: [0.0] * 1000 for key in KEYS}
    content["v/1.png"][0] = math.nan  # tench is none of the thirty classes
    assert "NaN" in refused(save(tmp_path / "n.json", content), dataset(space("imagenet-vid")))


def test_only_minus_infinity_among_the_mapped_classes(tmp_path: Path) -> None:
    row = [-math.inf] * 1000
    row[0] = 1.0
    content = {**{key: [0.0] * 1000 for key in KEYS}, "v/1.png": row}
    assert "only −inf" in refused(save(tmp_path / "n.json", content), dataset(space("imagenet-vid")))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({**SCORES, "v/3.png": [1.0]}, "v/3.png: 1 scores, but 3 in the first frame"),
        ({key: [1.0, 2.0] for key in KEYS}, "2 scores per frame; expected 3 (pets) or 1000 (ilsvrc-2012)"),
        ({key: [] for key in KEYS}, "0 scores per frame"),
        ({key: [0.0] * 1000 for key in KEYS}, "the model (ilsvrc-2012, 1000 classes, e.g. tench"),
        ({**SCORES, "v/3.png": 1}, "v/3.png: expected a list of scores, got 1"),
        ({**SCORES, "v/3.png": [1, "two", 3]}, "v/3.png: a score is not a number"),
        ({**SCORES, "v/3.png": [1, [2], 3]}, "v/3.png: a score is not a number"),
        ({**SCORES, "v/3.png": [1, 10**400, 3]}, "v/3.png: a score is not a number"),
        ({key: [[1], [2], [3]] for key in KEYS}, "a score is not a number"),
        ({**LABELS, "v/3.png": 3}, "v/3.png: class 3 is outside pets (0–2)"),
        ({**LABELS, "v/3.png": -1}, "v/3.png: class -1 is outside pets"),
        ({**LABELS, "v/3.png": "wolf"}, "v/3.png: unknown class of pets 'wolf'"),
        ({**LABELS, "v/3.png": [1, 2]}, "v/3.png: expected a class (number, id or name)"),
        ({**LABELS, "v/3.png": True}, "v/3.png: expected a class"),
        ({**LABELS, "v/3.png": None}, "v/3.png: expected a class"),
        (dict.fromkeys(KEYS), "expected a list of scores, got None"),
        ({}, "it contains no predictions"),
        ([1, 2], "expected a JSON object"),
    ],
)
def test_wrong_content(tmp_path: Path, content, problem: str) -> None:
    path = tmp_path / "n.json"
    path.write_text(json.dumps(content))
    assert problem in refused(path)


def test_wrong_length_for_the_declared_space(tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    path.write_text(json.dumps({"space": "imagenet-vid", "predictions": SCORES}))
    assert "3 scores per frame, but imagenet-vid, as declared, has 30 classes" in refused(path)
    assert "unknown label space 'imagenet-21k'" in refused(path, space="imagenet-21k")


@pytest.mark.parametrize("ending", FORMATS)
def test_unknown_frames(tmp_path: Path, ending: str) -> None:
    path = save(tmp_path / f"n.{ending}", {**SCORES, "w/0.png": [1.0, 2.0, 3.0]})
    line = refused(path)
    assert "1 of 6 frames are not in tiny: w/0.png; its frames are v/0.png, v/1.png, v/2.png" in line
    assert "--ignore-extra" in line
    assert read_predictions(path, dataset(), FileOptions(ignore_extra=True)).notes[0].endswith(", 1 frames skipped")
    other = save(tmp_path / f"o.{ending}", {"w/0.png": [1.0, 2.0, 3.0]})
    assert "1 of 1 frames are not in tiny" in refused(other, ignore_extra=True)


@pytest.mark.parametrize("ending", FORMATS)
def test_missing_frames(tmp_path: Path, ending: str) -> None:
    path = save(tmp_path / f"n.{ending}", {key: SCORES[key] for key in KEYS if key not in KEYS[1:3]})
    assert "2 of 5 frames have no prediction, first 'v/1.png'" in refused(path)
    found = read_predictions(path, dataset(), FileOptions(allow_missing=True))
    assert found.answers.scored.tolist() == [True, False, False, True, True, False]
    assert found.answers.label.tolist() == [1, -1, -1, 0, 0, -1]


@pytest.mark.parametrize("ending", FORMATS)
def test_duplicates(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"n.{ending}"
    if ending == "json":
        path.write_text(json.dumps(SCORES)[:-1] + ', "v/3.png": [0, 0, 0]}')
    elif ending == "parquet":
        pq.write_table(pa.table({"frame": [*KEYS, "v/3.png"], "label": [0] * 6}), path)
    else:
        save(path, LABELS)
        line = "v/3.png,0" if ending == "csv" else '{"frame": "v/3.png", "label": 0}'
        path.write_text(path.read_text().strip() + f"\n{line}\n")
    assert "frame 'v/3.png' appears twice (1 duplicates); keep one of each" in refused(path)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("n.json", json.dumps(SCORES)[:60].encode(), "not JSON"),
        ("n.json", b"\xff\xfe{}", "not UTF-8 text"),
        ("n.jsonl", b'{"frame": "v/0.png", "scores": [1,', "line 1: not JSON"),
        ("n.jsonl", b'{"frame": "v/0.png"}\n', "line 1: expected {"),
        ("n.jsonl", b"[1]\n", "line 1: expected {"),
        ("n.jsonl", b"\xff\xfe", "not UTF-8 text"),
        ("n.csv", b"", "line 1: expected a header"),
        ("n.csv", b"name,label\nv/0.png,1\n", "line 1: expected a header"),
        ("n.csv", b"frame,0,1,2\nv/0.png,1,2\n", "line 2: 3 fields, expected 4"),
        ("n.csv", b"frame,0,1,2\nv/0.png,1,2,x\n", "line 2: not a number"),
        ("n.csv", b"frame,label\n", "it contains no predictions"),
        ("n.csv", b"\xff\xfe", "not UTF-8 text"),
        ("n.csv", b'frame,label\n"' + b"a" * 200_000, "not a CSV file"),
        ("n.parquet", b"PAR1 and no more", "not a readable Parquet file; is it truncated"),
        ("n.npy", b"x", "unknown ending '.npy'; expected .json, .jsonl, .csv, .parquet"),
    ],
)
def test_files_that_cannot_be_parsed(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    line = refused(path)
    assert problem in line
    assert name in line


def test_parquet_without_the_columns_and_with_nulls(tmp_path: Path) -> None:
    path = tmp_path / "n.parquet"
    pq.write_table(pa.table({"name": KEYS}), path)
    assert "expected the columns frame and scores, or frame and label, got name" in refused(path)
    pq.write_table(pa.table({"frame": KEYS, "scores": [None, *list(SCORES.values())[1:]]}), path)
    assert "v/0.png: expected a list of scores, got None" in refused(path)
    kinds = pa.list_(pa.float32(), 3)
    pq.write_table(pa.table({"frame": KEYS, "scores": pa.array(list(SCORES.values()), type=kinds)}), path)
    assert read_predictions(path, dataset()).answers.label[:5].tolist() == [1, 1, 0, 0, 0]


def test_no_such_file_and_a_folder(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "n.json")
    assert "is a folder; give one prediction file" in refused(tmp_path)
