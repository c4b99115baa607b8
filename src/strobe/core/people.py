"""People's answers about one image or set: its class, the location of its object, or whether it shows one thing.

Answers are appended and never changed; each person's latest answer about an image counts.
"""

import hmac
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from strobe.core.errors import expect
from strobe.core.records import Verdict

SAID = ("class", "none", "unsure", "late")
"""The possible answers for an image: a class, none of these, cannot tell, or too late (after the time limit)."""

DISCARDS = ("absent", "several", "whole", "unclear", "other")
"""Reasons to discard an image: no object, several objects, it fills the image, unclear extent, another reason."""

LABEL = "label"
"""The condition of an image that is named to give its set a label, and not to measure people."""

CHECKED = ("one", "changed", "several", "unsure")
"""The possible answers about a set: one thing with one right answer, it changes, several right answers, cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameAnswer:
    """The class that one person named for one image.

    `label` is the id of the class if `said` is `class`. If `said` is `late`, `label` is the class chosen after the time
    limit, or empty. `condition` is how the image was shown: its variant, `anchor`, `control`, or `label`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnswer:
    """One person's answer to whether a set shows one thing throughout. `frame_id` is the set's anchor."""

    answer_id: str
    annotator: str
    at: str
    set_id: str
    frame_id: str
    said: Literal["one", "changed", "several", "unsure"]
    seconds: float | None = None
    note: str = ""
    page_version: str = ""

    def __post_init__(self) -> None:
        _check("CheckAnswer", self.annotator, self.frame_id, self.seconds)
        expect(bool(self.set_id), "CheckAnswer.set_id", "not empty", self.set_id)
        expect(self.said in CHECKED, "CheckAnswer.said", f"one of {', '.join(CHECKED)}", self.said)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSet:
    """A set of a sample that people are asked about, whether or not the set was drawn.

    `purpose` is `name` or `check`. A larger sample is a new `wave`, which contains all sets of the earlier waves.
    `place` is the set's position in the order of questions, or −1 if it was not drawn. `chance` is the set's chance of
    being drawn in this or an earlier wave. All sets of a `stratum` have the same chance.
    """

    sample_id: str
    purpose: Literal["name", "check"]
    wave: int
    set_id: str
    stratum: str
    place: int
    chance: float
    seed: int

    def __post_init__(self) -> None:
        expect(self.purpose in ("name", "check"), "SampledSet.purpose", "name or check", self.purpose)
        expect(bool(self.set_id), "SampledSet.set_id", "not empty", self.set_id)
        expect(self.wave >= 0, "SampledSet.wave", ">= 0", self.wave)
        expect(self.place >= -1, "SampledSet.place", ">= -1", self.place)
        expect(0 <= self.chance <= 1, "SampledSet.chance", "0–1", self.chance)


PEOPLE: dict[str, type[Any]] = {"verdicts": Verdict, "names": NameAnswer, "drawn": BoxAnswer, "checks": CheckAnswer}
"""The tables of people's answers, which grow separately, and the record type of each table's rows.

A table is a field of `Dataset`, a Parquet file in its folder and a table of the review store.
"""

GROWING: dict[str, type[Any]] = {**PEOPLE, "samples": SampledSet}
"""The tables of a dataset folder that grow after it was made: people's answers, and the sets they are asked about."""


def _check(record: str, annotator: str, frame_id: str, seconds: float | None) -> None:
    expect(bool(annotator), f"{record}.annotator", "not empty", annotator)
    expect(bool(frame_id), f"{record}.frame_id", "not empty", frame_id)
    expect(seconds is None or (_is_finite(seconds) and seconds >= 0), f"{record}.seconds", ">= 0", seconds)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


Answer = TypeVar("Answer", NameAnswer, BoxAnswer, CheckAnswer)


def latest_answers(answers: Iterable[Answer]) -> dict[str, dict[str, Answer]]:
    """Return each person's latest answer about each frame, the only answer that counts, regardless of file order."""
    latest: dict[str, dict[str, Answer]] = {}
    for answer in sorted(answers, key=lambda one: (one.at, one.answer_id)):
        latest.setdefault(answer.frame_id, {})[answer.annotator] = answer
    return latest


def sample_of(samples: Iterable[SampledSet], purpose: str) -> dict[str, SampledSet]:
    """Return the newest wave of a sample by set, in the order of the table; empty if there is no such sample."""
    own = [sample for sample in samples if sample.purpose == purpose]
    newest = max((one.wave for one in own), default=0)
    return {one.set_id: one for one in own if one.wave == newest}


def questions_of(samples: Iterable[SampledSet], purpose: str) -> list[str]:
    """Return the sets that people are asked about for a purpose, in the order of the questions."""
    drawn = [one for one in sample_of(samples, purpose).values() if one.place >= 0]
    return [one.set_id for one in sorted(drawn, key=lambda one: one.place)]


def pseudonyms(names: Iterable[str], secret: bytes) -> dict[str, str]:
    """Return a pseudonym for each annotator. The same name and secret give the same pseudonym in every export.

    Without the secret, nobody can check which pseudonym belongs to a name.

    >>> pseudonyms(["Ann"], b"secret")
    {'Ann': 'person-e8c374fb91da'}
    """
    return {name: "person-" + hmac.new(secret, name.encode("utf-8"), "sha256").hexdigest()[:12] for name in names}
