"""Every remedy beside a slow plain loop, and what remedies cost beside their definition by hand."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.answers import BoxAnswers
from strobe.core.errors import ModelFailed
from strobe.metrics.lives import LifeRules
from strobe.metrics.remedies import (
    KINDS,
    Remedy,
    averages,
    follow,
    kept_by_margin,
    majority,
    on_front,
    stood,
)
from strobe.metrics.remedies_boxes import in_place, remedied_boxes

Line = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def lines(draw: st.DrawFn) -> Line:
    """Answers, timelines and times of some frames; steps of 10 or 20 ms."""
    n = draw(st.integers(0, 14))
    label = np.array(draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n)), dtype=np.int64)
    new = np.array(draw(st.lists(st.sampled_from([0, 0, 0, 1]), min_size=n, max_size=n)), dtype=np.int64)
    steps = np.array(draw(st.lists(st.integers(1, 2), min_size=n, max_size=n)), dtype=float) / 100
    return label, new.cumsum(), steps.cumsum()


def own_line(line: np.ndarray, place: int) -> list[int]:
    return [at for at in range(len(line)) if line[at] == line[place]]


def is_believed(case: Line, place: int, remedy: Remedy) -> bool:
    label, line, seconds = case
    first, start = own_line(line, place)[0], place
    while start > first and label[start - 1] == label[place]:
        start -= 1
    if start == first:
        return True
    stands = seconds[place] - seconds[start] if remedy.kind == "hold" else place - start + 1
    return bool(stands >= remedy.value - 1e-6)


@given(lines(), st.sampled_from(["hold=0", "hold=0.02", "hold=0.05", "confirm=1", "confirm=2", "confirm=3"]))
def test_hold_and_confirm_equal_a_plain_loop(case: Line, text: str) -> None:
    remedy = Remedy.of(text)
    found = stood(*case, remedy)
    for place in range(len(found)):
        wanted = max(at for at in own_line(case[1], place) if at <= place and is_believed(case, at, remedy))
        assert found[place] == wanted
    if text in ("hold=0", "confirm=1"):
        assert found.tolist() == list(range(len(found)))


def places(case: Line) -> np.ndarray:
    """The places of the frames: a step of 20 ms is a gap of one frame."""
    return np.rint(case[2] * 100).astype(int)


@given(lines(), st.integers(0, 4), st.integers(0, 3))
def test_the_majority_equals_a_plain_loop(case: Line, before: int, after: int) -> None:
    (label, line, _), at_place = case, places(case)
    found = majority(label, line, at_place, before=before, after=after)
    for place, at in enumerate(found.tolist()):
        here = at_place[place]
        window = [one for one in own_line(line, place) if here - before <= at_place[one] <= here + after]
        many = Counter(label[window].tolist()).most_common()
        alone = len(many) == 1 or many[0][1] > many[1][1]
        assert label[at] == (many[0][0] if alone else label[place])
        assert at in window
        assert at <= place or label[at] not in label[[one for one in window if one <= place]]


@given(lines(), st.sampled_from([0.0, 0.1, 0.3, 1.0]), st.integers(0, 99))
def test_hysteresis_equals_a_plain_loop(case: Line, margin: float, seed: int) -> None:
    label, line, _ = case
    shares = np.random.default_rng(seed).dirichlet(np.ones(3), len(label)) if len(label) else np.zeros((0, 3))
    label = np.where(label < 0, -1, shares.argmax(axis=1) if len(label) else label)
    sure = shares.max(axis=1, initial=0)
    found = kept_by_margin(label, line, sure, lambda place, one: shares[place, one], margin)
    kept: dict[int, int] = {}
    for place in range(len(label)):
        own, answer = line[place], label[place]
        held = kept.get(own)
        if held is None or answer == label[held]:
            kept[own] = place
        else:
            new = 1.0 if answer < 0 else shares[place, answer]
            old = 0.0 if label[held] < 0 else shares[place, label[held]]
            if new - old > margin:
                kept[own] = place
        assert found[place] == kept[own]


def averaged(
    shares: np.ndarray, label: np.ndarray, line: np.ndarray, text: str, place: np.ndarray | None = None
) -> tuple[list[int], np.ndarray]:
    own = np.arange(len(label)) if place is None else place
    found = list(averages(lambda part: shares[part], label, line, own, Remedy.of(text)))
    assert [at for part, _, _ in found for at in range(part.start, part.stop)] == list(range(len(label)))
    return [answer for _, some, _ in found for answer in some.tolist()], np.array(
        [row for *_, rows in found for row in rows]
    )


AVERAGES = ["mean=1", "mean=2", "mean=4", "ema=1", "ema=0.5", "ema=0.3", "mean-around=0", "mean-around=2"]


@settings(deadline=None)
@given(lines(), st.sampled_from(AVERAGES), st.integers(0, 99), st.booleans(), st.sampled_from([1, 3, 512]))
def test_averages_equal_plain_fractions(case: Line, text: str, seed: int, gaps: bool, block: int) -> None:
    label, line, _ = case
    shares = np.random.default_rng(seed).integers(0, 4, (len(label), 4)) / 4.0  # ties are frequent, and sums exact
    label = np.where(shares.argmax(axis=1) == 3, -1, shares.argmax(axis=1)) if len(label) else label
    at_place = places(case) if gaps else np.arange(len(label))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("strobe.metrics.remedies._BLOCK", block)
        answers, means = averaged(shares, label, line, text, at_place)
    kind, value = text.split("=")
    for place in range(len(label)):
        own, here = own_line(line, place), at_place[place]
        before = int(value) - 1 if kind == "mean" else int(value) if kind == "mean-around" else 0
        after = before if kind == "mean-around" else 0
        window = [at for at in own if here - before <= at_place[at] <= here + after]
        weight = Fraction(1)
        if kind == "ema":
            mean = [Fraction(shares[own[0], one]) for one in range(4)]
            for last, at in pairwise(own[: own.index(place) + 1]):
                weight = 1 - (1 - Fraction(value)) ** int(at_place[at] - at_place[last])
                mean = [old * (1 - weight) + Fraction(shares[at, one]) * weight for one, old in enumerate(mean)]
        else:
            mean = [sum(Fraction(shares[at, one]) for at in window) / len(window) for one in range(4)]
        assert means[place] == pytest.approx([float(one) for one in mean], abs=1e-12)
        if not (kind == "ema" and value == "0.3"):  # its sums are not exact, so that equal averages may differ
            best = max(range(4), key=lambda one: (mean[one], -one))
            alone = weight == 1 if kind == "ema" else len(window) == 1
            assert answers[place] == (label[place] if alone else -1 if best == 3 else best)


def test_averages_are_compared_in_multiples_of_2_to_the_minus_48() -> None:
    """Half a multiple is rounded down, and a tie goes to the lowest class."""
    for finer, best in ((0, 1), (1, 0)):
        shares = np.zeros((2, 3))
        shares[:, :2] = 0.25
        shares[:, 1] += 2.0 ** -(48 + finer)
        for text in ("mean=2", "ema=0.5"):
            assert averaged(shares, np.ones(2, dtype=int), np.zeros(2, dtype=int), text)[0] == [1, best]


def test_a_gap_weighs_as_its_length() -> None:
    """Across a gap of two the new frame weighs 1 − 0.7² = 0.51; without the gap it would weigh 0.3 and lose."""
    shares, label, line = np.array([[1.0, 0, 0], [0, 1.0, 0]]), np.array([0, 1]), np.zeros(2, dtype=int)
    assert averaged(shares, label, line, "ema=0.3", np.array([0, 2]))[0] == [0, 1]
    assert averaged(shares, label, line, "ema=0.3")[0] == [0, 0]


SURE = ["hold=0.25", "hold=0", "confirm=1", "confirm=3", "mode=1", "mode=5", "mode=11", "mean=3", "mean=7", "ema=0.5"]


@pytest.mark.parametrize(
    "text", [*SURE, "ema=0.2", "ema=0.9", "ema=1", "mode-around=3", "mean-around=2", "hysteresis=0.3"]
)
def test_the_delay_is_that_of_a_planted_change(text: str) -> None:
    """The answer changes from 0 to 1 at frame 20, with probability 1. Frames are 0.1 s apart."""
    remedy = Remedy.of(text)
    label, line, seconds = np.repeat([0, 1], 20), np.zeros(40, dtype=int), np.arange(40) / 10
    shares = np.eye(3)[label]
    if remedy.averages:
        shown = np.array(averaged(shares, label, line, text)[0])
    elif remedy.kind == "hysteresis":
        shown = label[kept_by_margin(label, line, np.ones(40), lambda place, one: shares[place, one], remedy.value)]
    elif remedy.kind.startswith("mode"):
        many = int(remedy.value)
        around = remedy.kind == "mode-around"
        shown = label[
            majority(label, line, np.arange(40), before=many if around else many - 1, after=many if around else 0)
        ]
    else:
        shown = label[stood(label, line, seconds, remedy)]
    wait = remedy.value if remedy.waits else 0
    assert remedy.delay(0.1) == pytest.approx((int(shown.argmax()) - 20 + wait) / 10)


def test_planted_changes_are_delayed_and_swallowed_as_by_hand() -> None:
    """Answer 0 becomes 1 at frame 10, 2 at frame 20 for 2 frames, and 3 at frame 22. Frames are 0.1 s apart."""
    truth = np.repeat([0, 1, 2, 3], [10, 10, 2, 8])
    line, seconds = np.zeros(30, dtype=int), np.arange(30) / 10
    held = truth[stood(truth, line, seconds, Remedy.of("hold=0.3"))]
    assert held.tolist() == [0] * 13 + [1] * 12 + [3] * 5
    change = np.repeat([-1, 0, 1, 2], [10, 10, 2, 8])
    use = change >= 0
    found = follow(change[use], seconds[use], np.ones(20, dtype=bool), (held == truth)[use], n=3)
    assert found.round(6).tolist() == [0.3, np.inf, 0.3]


def test_a_change_that_the_model_misses_is_not_lost_by_the_remedy() -> None:
    change, seconds = np.array([0, 0]), np.array([0.0, 0.1])
    found = follow(change, seconds, np.zeros(2, dtype=bool), np.ones(2, dtype=bool), n=1)
    assert found.tolist() == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8))
def test_the_front_equals_a_plain_loop(costs: list[tuple[float, float]]) -> None:
    for one, best in zip(costs, on_front(costs), strict=True):
        assert best == (not any(a <= one[0] and b <= one[1] and (a, b) != one for a, b in costs))


@pytest.mark.parametrize(
    "text", ["hold=-1", "hold=nan", "hold=99", "confirm=1.5", "mode=0", "ema=0", "crops=1", "hold="]
)
def test_a_value_out_of_range_is_one_line(text: str) -> None:
    with pytest.raises(ModelFailed, match=text.split("=", maxsplit=1)[0]):
        Remedy.of(text)


# -- boxes ---------------------------------------------------------------------------------------------------------

N = 12
PLACES = np.array([[0.0, 0, 20, 20], [60.0, 0, 80, 20]])
"""Two objects that do not move much, so that their links are known."""


@st.composite
def detections(draw: st.DrawFn) -> list[list[tuple[float, int, float] | None]]:
    """For each object and frame: the score, class and shift of its box, or None."""
    box = st.none() | st.tuples(st.sampled_from([0.3, 0.6, 0.9]), st.integers(0, 1), st.integers(0, 2))
    return [draw(st.lists(box, min_size=N, max_size=N)) for _ in PLACES]


def table(objects: list[list[tuple[float, int, float] | None]], n: int = N) -> BoxAnswers:
    rows = [
        (frame, box[1], PLACES[number] + np.array([box[2], 0, box[2], 0]), box[0])
        for number, boxes in enumerate(objects)
        for frame, box in enumerate(boxes[:n])
        if box is not None
    ]
    return BoxAnswers.of(
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows]).reshape(-1, 4),
        np.array([row[3] for row in rows]),
        n_frames=n,
        n_classes=2,
    )


def with_remedy(found: BoxAnswers, text: str) -> BoxAnswers:
    frames = np.arange(found.n_frames)
    rules = LifeRules(short=N)
    return remedied_boxes(found, frames, np.zeros(len(frames), dtype=int), frames / 10, Remedy.of(text), rules)


def sure_of(found: BoxAnswers, number: int) -> dict[int, tuple[float, int, float]]:
    """The sure boxes of one object by frame: left side, class and score."""
    own = np.flatnonzero((np.abs(found.xyxy[:, 0] - PLACES[number, 0]) < 10) & (found.score >= 0.5))
    assert len(np.unique(found.frame[own])) == len(own)
    return {
        int(found.frame[at]): (float(found.xyxy[at, 0]), int(found.label[at]), float(found.score[at])) for at in own
    }


def plain_boxes(own: dict[int, tuple[float, int, float]], text: str) -> dict[int, tuple[float, int, float]]:
    """One object's sure boxes with a remedy, frame by frame."""
    kind, value = text.split("=")[0], float(text.split("=")[1])
    seen, out = sorted(own), {}
    for frame in range(N):
        past = [at for at in seen if at <= frame]
        if kind == "confirm":
            many = int(value)
            runs = [at for at in past if all(at - back in own for back in range(many))]
            if frame in own and runs:
                out[frame] = own[frame]
        elif kind == "fill":
            later = [at for at in seen if at > frame]
            if frame in own:
                out[frame] = own[frame]
            elif past and later and (later[0] - past[-1]) / 10 <= value + 1e-6:
                a, b = past[-1], later[0]
                part = (frame - a) / (b - a)
                out[frame] = ((1 - part) * own[a][0] + part * own[b][0], *own[a][1:])
        elif not past or (kind != "hold" and frame not in own):
            continue
        elif kind == "hold":
            if (frame - past[-1]) / 10 <= value + 1e-6:
                believed = own[past[0]][1]
                for at in past:
                    run = [one for one in past if one <= at]
                    start = at
                    for one in reversed(run):
                        if own[one][1] != own[at][1]:
                            break
                        start = one
                    if (at - start) / 10 >= value - 1e-6:
                        believed = own[at][1]
                out[frame] = (own[past[-1]][0], believed, own[past[-1]][2])
        elif kind == "mode":
            window = [own[at][1] for at in past[-int(value) :]]
            many = Counter(window).most_common()
            tie = len(many) > 1 and many[0][1] == many[1][1]
            out[frame] = (own[frame][0], own[frame][1] if tie else many[0][0], own[frame][2])
        elif kind == "mean":
            window = [own[at][0] for at in past[-int(value) :]]
            out[frame] = (sum(window) / len(window), *own[frame][1:])
        else:
            mean = own[past[0]][0]
            for at in past[1:]:
                mean = value * own[at][0] + (1 - value) * mean
            out[frame] = (mean, *own[frame][1:])
    return out


BOXES = [
    "hold=0",
    "hold=0.2",
    "hold=0.5",
    "confirm=1",
    "confirm=2",
    "mode=3",
    "mean=3",
    "ema=0.5",
    "fill=0.3",
    "fill=0",
]


@settings(max_examples=60, deadline=None)
@given(detections(), st.sampled_from(BOXES))
def test_remedies_for_boxes_equal_a_plain_loop(objects: list[list[tuple[float, int, float] | None]], text: str) -> None:
    # A faint box before the first sure one starts no object.
    found = table(objects)
    after = with_remedy(found, text)
    for number in range(len(PLACES)):
        wanted, given_boxes = plain_boxes(sure_of(found, number), text), sure_of(after, number)
        assert given_boxes.keys() == wanted.keys()
        for frame, box in wanted.items():
            assert given_boxes[frame] == pytest.approx(box)


@settings(max_examples=30, deadline=None)
@given(detections())
def test_hysteresis_shows_faint_boxes_of_objects_that_were_shown(objects: list) -> None:
    after = with_remedy(table(objects), "hysteresis=0.3")
    for number, boxes in enumerate(objects):
        first = next((at for at, box in enumerate(boxes) if box is not None and box[0] >= 0.5), N)
        wanted = {at for at, box in enumerate(boxes) if box is not None and at >= first}
        assert sure_of(after, number).keys() == wanted


@settings(max_examples=40, deadline=None)
@given(detections(), st.sampled_from(["hold=0.2", "confirm=2", "mode=3", "mean=3", "ema=0.5", "hysteresis=0.3"]))
def test_no_box_depends_on_a_later_frame(objects: list, text: str) -> None:
    whole, part = with_remedy(table(objects), text), with_remedy(table(objects, 7), text)
    early = whole.frame < 7
    for column in ("frame", "label", "xyxy", "score"):
        assert getattr(whole, column)[early] == pytest.approx(getattr(part, column))


def test_only_sure_boxes_are_in_place() -> None:
    found = table([[(0.9, 0, 0), (0.3, 0, 0), None], [None, None, None]], 3)
    assert in_place(found, np.arange(3), np.repeat(PLACES[:1], 3, axis=0), confidence=0.5).tolist() == [
        True,
        False,
        False,
    ]


@given(lines(), st.sampled_from(["hold=0.02", "confirm=2"]), st.integers(1, 8))
def test_no_answer_depends_on_a_later_frame(case: Line, text: str, many: int) -> None:
    early: Line = (case[0][:many], case[1][:many], case[2][:many])
    assert stood(*case, Remedy.of(text))[:many].tolist() == stood(*early, Remedy.of(text)).tolist()
    shown = [majority(one[0], one[1], places(one), before=3)[:many].tolist() for one in (case, early)]
    assert shown[0] == shown[1]


def test_every_kind_is_tested_here() -> None:
    assert set(KINDS) == {
        "hold", "confirm", "hysteresis", "mode", "mean", "ema", "mode-around", "mean-around", "fill", "crops", "choice",
    }  # fmt: skip
