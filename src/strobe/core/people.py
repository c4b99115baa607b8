"""People's answers about one image: the class of its object (`NameAnswer`) and the object's location (`BoxAnswer`).

Answers are appended and never changed; each person's latest answer about an image counts.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from strobe.core.errors import expect
from strobe.core.records import Verdict

__all__ = ["DISCARDS", "PEOPLE", "SAID", "BoxAnswer", "NameAnswer", "latest_answers"]

SAID = ("class", "none", "unsure", "late")
"""The possible answers for an image: a class, none of these, cannot tell, or too late (after the time limit)."""

DISCARDS = ("absent", "several", "whole", "unclear", "other")
"""Reasons to discard an image: no object, several objects, it fills the image, unclear extent, another reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameAnswer:
    """The class that one person named for one image.

    `label` is the id of the class if `said` is `class`. If `said` is `late`, `label` is the class chosen after the time
    limit, or empty. `condition` is how the image was shown: its variant, `anchor`, or `control`.
    """

    answer_id: str
    annotator: str
    at: str
    frame_id: str
    said: Literal["class", "none", "unsure", "late"]
    label: str = ""
    condition: str = ""
    seconds: float | None = None
    note: str = ""
    page_version: str = ""

    def __post_init__(self) -> None:
        _check("NameAnswer", self.annotator, self.frame_id, self.seconds)
        expect(self.said in SAID, "NameAnswer.said", f"one of {', '.join(SAID)}", self.said)
        if self.said == "class":
            expect(bool(self.label), "NameAnswer.label", "a class", self.label)
        elif self.said != "late":
            expect(not self.label, "NameAnswer.label", f"empty if the answer is {self.said}", self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxAnswer:
    """One person's location of the object of class `label` in one image.

    `stage` is `draw` (round one) or `verify` (disagreements, shown again). `xyxy` are pixels of the stored image, far
    corner exclusive. An image to be discarded has a `reason` and may have no box. `suggested` means that a detector
    proposed the box and the person did not change it.
    """

    answer_id: str
    annotator: str
    at: str
    stage: Literal["draw", "verify"]
    frame_id: str
    label: str
    decision: Literal["keep", "discard"]
    xyxy: tuple[float, float, float, float] | None = None
    reason: str = ""
    suggested: bool = False
    seconds: float | None = None
    note: str = ""
    page_version: str = ""

    def __post_init__(self) -> None:
        _check("BoxAnswer", self.annotator, self.frame_id, self.seconds)
        expect(self.stage in ("draw", "verify"), "BoxAnswer.stage", "draw or verify", self.stage)
        expect(bool(self.label), "BoxAnswer.label", "a class", self.label)
        expect(self.decision in ("keep", "discard"), "BoxAnswer.decision", "keep or discard", self.decision)
        if self.decision == "keep":
            expect(self.xyxy is not None, "BoxAnswer.xyxy", "a box, because the image is kept", self.xyxy)
            expect(not self.reason, "BoxAnswer.reason", "empty, because the image is kept", self.reason)
        else:
            expect(bool(self.reason), "BoxAnswer.reason", "a reason, because the image is discarded", self.reason)
        if self.xyxy is not None:
            expect(len(self.xyxy) == 4, "BoxAnswer.xyxy", "four numbers", self.xyxy)
            x0, y0, x1, y1 = self.xyxy
            expect(all(_is_finite(value) for value in self.xyxy), "BoxAnswer.xyxy", "finite numbers", self.xyxy)
            expect(x0 >= 0 and y0 >= 0, "BoxAnswer.xyxy", "inside the image", self.xyxy)
            expect(x1 > x0 and y1 > y0, "BoxAnswer.xyxy", "x1 > x0 and y1 > y0", self.xyxy)


PEOPLE: dict[str, type[Any]] = {"verdicts": Verdict, "names": NameAnswer, "drawn": BoxAnswer}
"""The tables of people's answers, which grow separately, and the record type of each table's rows.

A table is a field of `Dataset`, a Parquet file in its folder and a table of the review store.
"""


def _check(record: str, annotator: str, frame_id: str, seconds: float | None) -> None:
    expect(bool(annotator), f"{record}.annotator", "not empty", annotator)
    expect(bool(frame_id), f"{record}.frame_id", "not empty", frame_id)
    expect(seconds is None or (_is_finite(seconds) and seconds >= 0), f"{record}.seconds", ">= 0", seconds)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


Answer = TypeVar("Answer", NameAnswer, BoxAnswer)


def latest_answers(answers: Iterable[Answer]) -> dict[str, dict[str, Answer]]:
    """Return each person's latest answer about each frame, the only answer that counts, regardless of file order."""
    latest: dict[str, dict[str, Answer]] = {}
    for answer in sorted(answers, key=lambda one: (one.at, one.answer_id)):
        latest.setdefault(answer.frame_id, {})[answer.annotator] = answer
    return latest
