"""Predictions as programs have them: what fits is the same whatever it was given as, the rest is one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import strobe
from strobe.api.words import argument, arguments
from strobe.core.errors import StrobeError, spelled
from strobe.synthetic.sets import SyntheticOptions

DATA = strobe.example_dataset(n_videos=10, k=2, seed=3)
KEYS = [str(key) for key in DATA.frames.key]


def _scores(noise: float = 1.5) -> np.ndarray:
    rng = np.random.default_rng(0)
    scores = rng.normal(0, noise, (len(KEYS), 2))
    scores[DATA.labels.frame, DATA.labels.label] += 1.5
    return scores


SCORES = _scores()


def _same(found: strobe.ClassifierScore) -> None:
    """All figures are the same. Where the kind was declared or is known, no note says how it was guessed."""
    expected = strobe.score(DATA, SCORES, name="m").to_json()
    assert [note for note in expected.pop("notes") if "read as logits" not in note] == []
    assert {**found.to_json(), "notes": None} == {**expected, "notes": None}


def test_every_way_to_give_scores_is_the_same(tmp_path: Path) -> None:
    backwards = KEYS[::-1]
    by_key = dict(zip(KEYS, SCORES.tolist(), strict=True))
    _same(strobe.score(DATA, by_key, name="m"))
    _same(strobe.score(DATA, {key: np.array(row) for key, row in by_key.items()}, name="m"))
    _same(strobe.score(DATA, SCORES[::-1], keys=backwards, name="m"))
    _same(strobe.score(DATA, pd.DataFrame(SCORES[:, ::-1], columns=["dog", "cat"], index=KEYS), name="m"))
    _same(strobe.score(DATA, pd.DataFrame({"frame": KEYS, "0": SCORES[:, 0], "1": SCORES[:, 1]}), name="m"))
    (tmp_path / "m.json").write_text(json.dumps(by_key))
    _same(strobe.score(DATA, tmp_path / "m.json"))
    _same(strobe.score(DATA, strobe.load_predictions(tmp_path / "m.json", DATA)))
    ids = dict(zip(DATA.frame_ids(), SCORES.tolist(), strict=True))
    _same(strobe.score(DATA, ids, name="m"))


def test_torch_tensors_are_scores_too() -> None:
    import torch

    _same(strobe.score(DATA, torch.from_numpy(SCORES).double(), name="m", kind="logits"))


def test_labels_as_numbers_names_and_frames() -> None:
    label = SCORES.argmax(axis=1)
    found = strobe.score(DATA, label, name="m")
    assert found.kind == "labels"
    assert found.acc_pmk == strobe.score(DATA, SCORES, name="m").acc_pmk
    words = {key: ("cat", "dog")[place] for key, place in zip(KEYS, label.tolist(), strict=True)}
    assert strobe.score(DATA, words, name="m").acc_pmk == found.acc_pmk
    assert strobe.score(DATA, pd.DataFrame({"frame": KEYS, "label": label}), name="m").acc_pmk == found.acc_pmk


def test_other_classes_are_projected_or_refused() -> None:
    own = strobe.LabelSpace.of_names("mine", ["dog", "bird", "cat"])
    wide = np.stack([SCORES[:, 1], np.full(len(SCORES), -9.0), SCORES[:, 0]], axis=1)
    assert strobe.score(DATA, wide, space=own, name="m").acc_pmk == strobe.score(DATA, SCORES, name="m").acc_pmk
    answers = strobe.ClassAnswers.from_scores("m", wide, kind="logits")
    assert strobe.score(DATA, answers, space=own).acc_pmk == strobe.score(DATA, SCORES, name="m").acc_pmk
    with pytest.raises(StrobeError, match=r"^predictions: 3 scores per frame; expected 2 \(pets\) or 1000"):
        strobe.score(DATA, wide)
    with pytest.raises(StrobeError, match="space: expected the name of a label space"):
        strobe.score(DATA, SCORES, space=["cat", "dog"])  # type: ignore[arg-type]
    with pytest.raises(StrobeError, match="have no class in common"):
        strobe.score(DATA, np.zeros((len(KEYS), 1000)))


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (SCORES[:5], {}, r"got 5 rows, but example has 50 frames; pass the frame of each row with keys=\[…\]"),
        (SCORES[:5], {"keys": KEYS[:4]}, "keys: expected one key for each of 5 rows, got 4"),
        (SCORES[:5], {"keys": KEYS[:5]}, r"45 of 50 frames have no prediction, first .*allow_missing=True$"),
        ({"nowhere.jpg": [1, 2]}, {}, "1 of 1 frames are not in example.*ignore_extra=True skips other frames"),
        (dict.fromkeys(KEYS, "cow"), {}, "unknown class of pets 'cow'"),
        ({key: [1.0, float("nan")] for key in KEYS}, {}, "NaN"),
        ({key: [[1.0], [2.0]] for key in KEYS}, {}, "a score is not a number"),
        ({key: [-1.0, 2.0] for key in KEYS}, {"kind": "probabilities"}, 'declare kind="logits"'),
        (7, {}, r"expected \{frame: scores\}, an array .* got int"),
        (pd.DataFrame({"frame": KEYS, "what": ["x"] * 50}), {}, "expected numbers in the score columns"),
        (pd.DataFrame({"frame": KEYS}), {}, "a column label, or one column of scores for each class"),
        ({KEYS[0]: {"boxes": [[0, 0, 1, 1]], "labels": [0]}}, {}, r"expected boxes \(N, 4\), labels \(N,\) and scores"),
        ({KEYS[0]: {"boxes": [[0, 0, 1, 1]], "labels": [0, 1], "scores": [1.0]}}, {}, "1 boxes, 2 labels and 1 scores"),
        ("nowhere.json", {}, "no such file: nowhere.json"),
        ("nowhere.json", {"space": strobe.LabelSpace.of_names("a", ["b"])}, "the name of a shipped label space"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(given: object, options: dict, message: str) -> None:
    with pytest.raises(StrobeError, match=message) as caught:
        strobe.score(DATA, given, **options)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_part_of_the_frames_is_scored_apart() -> None:
    with pytest.warns(UserWarning, match="m: 5 sets without all predictions are excluded from all figures"):
        found = strobe.score(DATA, SCORES[:25], keys=KEYS[:25], allow_missing=True, name="m")
    assert (found.unscored.sets, found.acc_pmk.n) == (5, 5)


def test_boxes_as_dicts_and_frames(zoo) -> None:
    data = zoo.dataset()
    answers = strobe.score(data, zoo.table(data, zoo.perfect(data)), name="d")
    assert answers.map_pmk.value == 1.0
    keys = [str(key) for key in data.frames.key]
    boxes = {
        key: {"boxes": data.boxes.xyxy[row : row + 1], "labels": [int(data.boxes.label[row])], "scores": [0.9]}
        for row, key in enumerate(keys)
    }
    assert strobe.score(data, boxes, name="d").to_frame().equals(answers.to_frame())
    table = pd.DataFrame(data.boxes.xyxy, columns=["x0", "y0", "x1", "y1"])
    table = table.assign(frame=keys, score=0.9, label=[("fox", "sheep", "bird")[one] for one in data.boxes.label])
    assert strobe.score(data, table, name="d").to_frame().equals(answers.to_frame())
    empty = {**boxes, keys[0]: {"boxes": [], "labels": [], "scores": []}}
    assert strobe.score(data, empty, name="d").map_pmk.value < 1.0  # looked at, and nothing found
    with pytest.raises(StrobeError, match=r"1 of 20 frames have no box.*empty_frames=True or allow_missing=True"):
        strobe.score(data, {key: value for key, value in boxes.items() if key != keys[0]})


def test_hints_name_arguments_that_are_there(zoo) -> None:
    """`box_format=` was advised to callers of functions that had no such argument."""
    data = zoo.dataset(n_videos=12)
    keys = [str(key) for key in data.frames.key]
    size = data.boxes.xyxy[:, 2:] - data.boxes.xyxy[:, :2]
    xywh = np.concatenate([data.boxes.xyxy[:, :2], size], axis=1)
    answers = {
        key: {"boxes": xywh[row : row + 1], "labels": [int(data.boxes.label[row])], "scores": [0.9]}
        for row, key in enumerate(keys)
    }
    with pytest.raises(StrobeError, match=r'look like xywh: .*; pass box_format="xywh"$'):
        strobe.score(data, answers)
    assert strobe.score(data, answers, box_format="xywh").map_orig.value == 1.0
    with pytest.raises(StrobeError, match=r"; pass --box-format xywh on the command line$"):
        strobe.results(data, {"m": answers})


def test_a_transposed_array_of_boxes_is_named(zoo) -> None:
    data = zoo.dataset(n_videos=12)
    three = np.tile(data.boxes.xyxy[0], (3, 1))
    answers = {str(key): {"boxes": three.T, "labels": [0, 0, 0], "scores": [0.9, 0.8, 0.7]} for key in data.frames.key}
    with pytest.raises(
        StrobeError, match=r"boxes of shape \(4, 3\); expected \(N, 4\), a row per box; transpose it with"
    ):
        strobe.score(data, answers)


def test_options_are_arguments_in_python(tmp_path: Path) -> None:
    """Each surface writes an option as the user sets it there; a file's name is not rewritten."""
    with pytest.raises(StrobeError, match=r"^videos: expected 1 to 1,000,000, got 0$"):
        strobe.synthesize(tmp_path / "world", videos=0)
    with pytest.raises(StrobeError, match=r"^size: expected 32 to 1024, got 8$"):
        strobe.synthesize(tmp_path / "world", size=8)
    with pytest.raises(StrobeError, match=r"^--videos: expected 1 to 1,000,000, got 0$"):
        SyntheticOptions(videos=0)  # outside the API: the flag
    with pytest.raises(StrobeError, match=r"no such file: a--trust\.json"):
        strobe.score(DATA, "a--trust.json")
    assert spelled("<<k>>, a << b, <<K>> and <<k") == "--k, a << b, <<K>> and <<k"


@pytest.mark.parametrize(
    ("function", "option", "written"),
    [
        (strobe.build, ("max_side", None), "limits.max_side"),
        (strobe.build, ("no_hints", None), "hints=False"),
        (strobe.build, ("window", "40"), "window_ms=40"),
        (strobe.evaluate, ("subset", "all"), 'videos="all"'),
        (strobe.evaluate, ("trust", "True"), "running.trust=True"),
        (strobe.evaluate, ("model", None), "models"),
        (strobe.evaluate, ("reference", "True"), "reference=True of strobe.build"),
        (strobe.plan_gate, ("plan", None), "plan_gate"),
        (strobe.gate, ("max_loss", "acc_pmk=1"), 'max_loss={"acc_pmk": 1}'),
        (strobe.gate, ("cache_gb", "4"), "--cache-gb 4 on the command line"),
    ],
)
def test_how_python_writes_an_option(function: Any, option: tuple[str, str | None], written: str) -> None:
    assert argument(*option, arguments(function)) == written
