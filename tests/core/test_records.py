"""Records refuse at birth what they cannot mean; predictions and estimates keep missing apart from zero."""

import numpy as np
import pytest

from strobe.core.answers import ClassAnswers
from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidValue, MissingExtra, UnknownName
from strobe.core.estimate import Estimate
from strobe.core.late import require
from strobe.core.records import Detections, Frame, Member, PerturbationSet, Verdict


def frame(index: int, **changes) -> Frame:
    return Frame(**{"video_id": "v", "index": index, "key": f"v/{index}", **changes})


def test_a_set_holds_each_frame_once_and_its_anchor_apart() -> None:
    near = Member(frame=frame(1), distance=1)
    PerturbationSet(set_id="s", anchor=frame(0), members=(near,))
    with pytest.raises(InvalidValue, match="each frame once"):
        PerturbationSet(set_id="s", anchor=frame(0), members=(near, near))
    with pytest.raises(InvalidValue, match="without the anchor"):
        PerturbationSet(set_id="s", anchor=frame(1), members=(near,))
    with pytest.raises(InvalidValue, match="axis"):
        PerturbationSet(set_id="s", anchor=frame(0), members=(), axis="")


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


def test_scores_are_checked_by_name() -> None:
    with pytest.raises(InvalidValue, match="first is b"):
        ClassAnswers.from_scores("m", np.array([[0.0], [np.nan]]), kind="logits", names=["a", "b"])


# -- errors ------------------------------------------------------------------------------------------------------


def test_near_names_and_missing_extras() -> None:
    assert "did you mean dog" in str(UnknownName("class", "dogg", ["dog", "cat"]))
    assert "did you mean" not in str(UnknownName("class", "xyz", ["dog", "cat"]))
    with pytest.raises(
        MissingExtra, match=r"video needs the package no_such_thing: pip install 'strobe-vision\[video\]'"
    ):
        require("no_such_thing.inner", what="video", extra="video")
