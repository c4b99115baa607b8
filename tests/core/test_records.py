"""Records refuse at birth what they cannot mean; predictions and estimates keep missing apart from zero."""

from fractions import Fraction

import numpy as np
import pytest

from strobe.core.answers import ClassAnswers
from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidFile, InvalidValue, MissingExtra, UnknownName, expect, printable
from strobe.core.estimate import Estimate
from strobe.core.late import require
from strobe.core.records import Box, Detections, Frame, Member, PerturbationSet, Verdict


def frame(index: int, **changes) -> Frame:
    return Frame(**{"video_id": "v", "index": index, "key": f"v/{index}", **changes})


def test_a_frame_is_named_by_video_and_index() -> None:
    one = frame(3, time_s=Fraction(1001, 30000))
    assert one.id == "v:3"
    assert one.time_s * 30000 == 1001


@pytest.mark.parametrize("changes", [{"video_id": ""}, {"index": -1}, {"key": ""}, {"pict_type": "X"}])
def test_a_broken_frame_is_refused(changes) -> None:
    with pytest.raises(InvalidValue, match=f"Frame.{next(iter(changes))}"):
        frame(**{"index": 0, **changes})


def test_records_are_frozen() -> None:
    with pytest.raises(AttributeError):
        frame(0).index = 1


def test_a_set_holds_each_frame_once_and_its_anchor_apart() -> None:
    near = Member(frame=frame(1), distance=1)
    PerturbationSet(set_id="s", anchor=frame(0), members=(near,))
    with pytest.raises(InvalidValue, match="each frame once"):
        PerturbationSet(set_id="s", anchor=frame(0), members=(near, near))
    with pytest.raises(InvalidValue, match="without the anchor"):
        PerturbationSet(set_id="s", anchor=frame(1), members=(near,))
    with pytest.raises(InvalidValue, match="axis"):
        PerturbationSet(set_id="s", anchor=frame(0), members=(), axis="")


@pytest.mark.parametrize("xyxy", [(0, 0, 0, 1), (0, 2, 1, 1), (0, 0, np.nan, 1), (0, 0, np.inf, 1)])
def test_a_box_has_an_area(xyxy) -> None:
    with pytest.raises(InvalidValue, match=r"Box\.xyxy"):
        Box(xyxy=xyxy, label=0)


def test_detections_need_one_row_per_score() -> None:
    good = Detections(xyxy=np.zeros((2, 4)), label=np.zeros(2, dtype=np.int32), score=np.ones(2))
    assert len(good) == 2
    with pytest.raises(InvalidValue, match=r"Detections\.xyxy"):
        Detections(xyxy=np.zeros((1, 4)), label=np.zeros(2, dtype=np.int32), score=np.ones(2))
    with pytest.raises(InvalidValue, match=r"Detections\.score"):
        Detections(xyxy=np.zeros((1, 4)), label=np.zeros(1, dtype=np.int32), score=np.array([np.nan]))


@pytest.mark.parametrize(
    "changes", [{"annotator": ""}, {"decision": "maybe"}, {"stage": "third"}, {"reason": "did not like it"}]
)
def test_a_broken_vote_is_refused(changes) -> None:
    whole = {
        "verdict_id": "1", "annotator": "ann", "at": "2026-01-01T00:00:00Z", "stage": "pair", "set_id": "s",
        "frame_id": "v:1", "decision": "similar",
    }  # fmt: skip
    Verdict(**whole)
    with pytest.raises(InvalidValue, match=f"Verdict.{next(iter(changes))}"):
        Verdict(**{**whole, **changes})


# -- estimates and predictions -----------------------------------------------------------------------------------


def test_an_estimate_travels_with_its_interval_or_the_reason() -> None:
    whole = Estimate(value=0.5, low=0.4, high=0.6, n=100, count=50, method="clopper-pearson")
    assert decode(Estimate, encode(whole)) == whole
    empty = Estimate(value=None, low=None, high=None, n=0, reason="no sets")
    assert empty.text() == "—"
    assert decode(Estimate, encode(empty)) == empty
    for broken in (
        {"value": 0.5, "low": 0.4, "high": None, "n": 1},
        {"value": 0.5, "low": None, "high": None, "n": 1},
        {"value": float("nan"), "low": 0.0, "high": 1.0, "n": 1},
        {"value": 0.5, "low": 0.0, "high": 1.0, "n": -1},
    ):
        with pytest.raises(InvalidValue):
            Estimate(**broken)


def test_unscored_frames_are_not_looked_at_and_stay_unknown() -> None:
    scores = np.array([[0.0, 1.0], [np.nan, np.nan], [2.0, 2.0]])
    made = ClassAnswers.from_scores("m", scores, kind="logits", scored=np.array([True, False, True]))
    assert made.label.tolist() == [1, -1, 0]
    assert np.isnan(made.confidence).tolist() == [False, True, False]
    labels = ClassAnswers.from_labels("m", np.array([1, -1]))
    assert labels.scored.all(), "a prediction outside the classes is wrong, and scored"
    assert np.isnan(labels.confidence).all()


def test_scores_are_checked_by_name() -> None:
    with pytest.raises(InvalidValue, match="first is b"):
        ClassAnswers.from_scores("m", np.array([[0.0], [np.nan]]), kind="logits", names=["a", "b"])


# -- errors ------------------------------------------------------------------------------------------------------


def test_errors_are_one_clean_line() -> None:
    error = InvalidFile("a\nb.csv", "broken", where="row 3", hint="mend it")
    assert str(error) == "a b.csv: row 3: broken; mend it"
    assert printable("\x1b]0;evil\x07\u202etxt.exe", limit=8) == "]0;evil…"
    with pytest.raises(InvalidValue, match=r"^k: expected >= 0, got -1$"):
        expect(False, "k", ">= 0", -1)


def test_near_names_and_missing_extras() -> None:
    assert "did you mean dog" in str(UnknownName("class", "dogg", ["dog", "cat"]))
    assert "did you mean" not in str(UnknownName("class", "xyz", ["dog", "cat"]))
    with pytest.raises(
        MissingExtra, match=r"video needs the package no_such_thing: pip install 'strobe-vision\[video\]'"
    ):
        require("no_such_thing.inner", what="video", extra="video")
