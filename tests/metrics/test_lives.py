"""Lives of objects: as a person would count them, beside a plain count, and never better with more outages."""

from dataclasses import dataclass
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strobe.analyses.box_measures import BoxAnswersAlong, BoxPlan
from strobe.analyses.clips import ModelColumns, Tolerance, differences
from strobe.analyses.measures import column_of, measures_of
from strobe.core.answers import BoxAnswers
from strobe.core.errors import InvalidValue
from strobe.metrics.lives import Footage, LifeRules, Lives, best_pairs, follow, jitter

FPS = 30
WIDTH, HEIGHT = 640, 480

Box = tuple[int, int, float, tuple[float, ...]]
"""Frame, label, score, corners."""


def answers_of(boxes: list[Box], n_frames: int, *, scored: np.ndarray | None = None) -> BoxAnswers:
    frame, label, score = (np.array([box[at] for box in boxes]) for at in range(3))
    xyxy = np.array([box[3] for box in boxes]).reshape(-1, 4)
    return BoxAnswers.of(
        frame.astype(int), label.astype(int), xyxy, score, n_frames=n_frames, n_classes=9, scored=scored
    )


def footage_of(n: int, *, line: list[int] | None = None, fps: float = FPS) -> Footage:
    return Footage(
        frames=np.arange(n),
        timeline=np.zeros(n, dtype=int) if line is None else np.array(line),
        clock=np.arange(n) / fps,
        lasting=np.full(n, 1 / fps),
        size=np.tile([WIDTH, HEIGHT], (n, 1)),
    )


def lives_of(boxes: list[Box], n: int, *, line: list[int] | None = None, rules: LifeRules | None = None) -> Lives:
    return follow(answers_of(boxes, n), footage_of(n, line=line), rules=rules)


def walk(n: int, start: float, speed: float, *, y: float = 200, width: float = 40, first: int = 0) -> list[Box]:
    """A box that moves sideways at a steady speed in pixels per frame, clipped to the picture."""
    corners = ((f, start + speed * (f - first)) for f in range(first, n))
    clipped = ((f, max(x, 0.0), min(x + width, WIDTH)) for f, x in corners)
    return [(f, 0, 0.9, (x0, y, x1, y + 90)) for f, x0, x1 in clipped if x1 - x0 > 1]


def without(boxes: list[Box], frames: set[int]) -> list[Box]:
    return [box for box in boxes if box[0] not in frames]


def spans(lives: Lives) -> list[tuple[int, int]]:
    return sorted(zip(lives.start.tolist(), lives.end.tolist(), strict=True))


@dataclass(frozen=True)
class Told:
    """What the measures say of all objects."""

    rate: float
    completeness: float
    longest: float

    @classmethod
    def of(cls, lives: Lives, lasting: np.ndarray) -> "Told":
        lived, absent = (float((each * lasting).sum()) for each in (lives.alive(), lives.absent()))
        return cls(60 * absent / lived, 1 - absent / lived, float(lives.longest(lasting).max()))

    def is_no_better_than(self, other: "Told") -> bool:
        small = 1e-9
        return (
            self.rate >= other.rate - small
            and self.completeness <= other.completeness + small
            and self.longest >= other.longest - small
        )


# -- as a person would count them ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "frames"), [(1, 10), (5, 50), (6, 60), (15, 150)])
def test_ten_outages_are_counted_in_full(length: int, frames: int) -> None:
    gone = {30 * k + 10 + at for k in range(10) for at in range(length)}
    lives = lives_of(without(walk(320, 300, 0), gone), 320)
    assert (len(lives), len(lives.first), int(lives.absent().sum())) == (1, 10, frames)
    assert lives.longest(np.full(320, 1 / FPS)).max() == pytest.approx(length / FPS)
    assert not lives.vanished.any()


@pytest.mark.parametrize("hidden", [0, 6, 12, 25])
@pytest.mark.parametrize("speeds", [(3.0, -3.0), (5.0, -2.0), (4.0, 1.0), (2.0, 0.0)])
def test_two_people_cross(hidden: int, speeds: tuple[float, float]) -> None:
    """One passes behind the other and has no box meanwhile: two lives, and the hidden frames are one outage."""
    n, meet = 100, 50
    one, other = (walk(n, 300 - speed * meet, speed) for speed in speeds)
    behind = {meet - hidden // 2 + at for at in range(hidden)}
    lives = lives_of([*without(one, behind), *other], n)
    assert (len(lives), lives.absent().sum(), len(lives.first)) == (2, hidden, int(hidden > 0))
    found = answers_of([*without(one, behind), *other], n)
    for life in range(2):  # nobody takes the other's place
        centre = found.xyxy[lives.row[lives.life == life]][:, ::2].mean(axis=1)
        steps = lives.step[lives.life == life]
        speed = (centre[-1] - centre[0]) / (steps[-1] - steps[0])
        assert speed == pytest.approx(speeds[0] if abs(speed - speeds[0]) < 0.5 else speeds[1])
        assert np.abs(centre - centre[0] - speed * (steps - steps[0])).max() < 1


def test_an_object_that_leaves_and_returns() -> None:
    """It walks out to the right and comes back three seconds later: two lives, and nobody misses it meanwhile."""
    out = walk(300, 500, 4)
    back = walk(240, WIDTH, -4, first=out[-1][0] + 90)
    lives = lives_of([*out, *back], 240)
    assert len(lives) == 2
    assert lives.absent().sum() == 0
    assert lives.left.tolist() == [True, False]
    assert not lives.appeared.any()
    assert not lives.vanished.any()
    assert 30 <= lives.end[0] <= 36, "its box is out of the picture from the 35th frame on"


def test_an_object_lost_on_its_way_out_is_missed_until_it_is_out() -> None:
    out = walk(300, 400, 4)  # its inner edge reaches the border on frame 57
    lives = lives_of(without(out, set(range(30, 300))), 300)
    assert (lives.left.tolist(), lives.vanished.tolist()) == ([True], [False])
    assert spans(lives) == [(0, 57)]
    assert lives.absent().sum() == 27
    far = lives_of(without(walk(300, 100, 2), set(range(30, 300))), 300)
    assert (spans(far), far.vanished.tolist(), int(far.absent().sum())) == ([(0, 300)], [True], 270)


def test_an_object_that_stands_at_the_border_has_not_left() -> None:
    lives = lives_of(without(walk(300, 610, 0, width=80), set(range(100, 160))), 300)
    assert (spans(lives), int(lives.absent().sum())) == ([(0, 300)], 60)
    lost = lives_of(without(walk(300, 610, 0, width=80), set(range(100, 300))), 300)
    assert (spans(lost), lost.vanished.tolist()) == ([(0, 300)], [True])


def test_lives_end_at_a_cut() -> None:
    lives = lives_of(walk(100, 300, 0), 100, line=[0] * 40 + [1] * 60)
    assert spans(lives) == [(0, 40), (40, 100)]
    assert not lives.vanished.any()
    assert not lives.appeared.any()
    assert lives.absent().sum() == 0
    gone = lives_of(without(walk(100, 300, 0), set(range(35, 45))), 100, line=[0] * 40 + [1] * 60)
    assert (spans(gone), gone.vanished.tolist(), gone.appeared.tolist()) == (
        [(0, 40), (45, 100)],
        [True, False],
        [False, True],
    )


def test_what_cannot_be_joined_vanishes_and_appears() -> None:
    """Lost while standing and found elsewhere: two objects, and the first is missed to the end."""
    boxes = [*walk(50, 100, 0), *walk(200, 400, 0, first=80)]
    lives = lives_of(boxes, 200)
    assert (lives.vanished.tolist(), lives.appeared.tolist()) == ([True, False], [False, True])
    assert spans(lives) == [(0, 200), (80, 200)]
    assert lives.absent().sum() == 150


def test_after_a_long_gap_no_other_box_may_stand_there() -> None:
    """Somebody takes the seat of a person who was lost; a second box on them is not the lost person."""
    seated = without(walk(200, 300, 0), set(range(40, 200)))
    taker = [box for box in walk(200, 100, 4) if box[0] < 50]
    taker += [(f, 0, 0.9, (300.0, 205.0, 340.0, 295.0)) for f in range(50, 200)]
    double = [(150, 0, 0.6, (308.0, 215.0, 348.0, 305.0))]
    lives = lives_of([*seated, *taker, *double], 200)
    assert len(lives) == 3
    assert (int(lives.vanished.sum()), int(lives.appeared.sum())) == (2, 1)
    assert spans(lives) == [(0, 200), (0, 200), (150, 200)]


def test_an_unanswered_frame_is_no_outage() -> None:
    boxes = without(walk(60, 300, 0), {20, 21})
    scored = np.ones(60, dtype=bool)
    scored[[20, 21]] = False
    lives = follow(answers_of(boxes, 60, scored=scored), footage_of(60))
    assert (len(lives), len(lives.first), lives.alive().sum(), lives.absent().sum()) == (1, 0, 58, 0)


def test_faint_boxes_help_to_follow_and_count_as_none() -> None:
    """An object runs while its score is low. Without the faint boxes it is found elsewhere, as another object."""
    n, faint = 80, range(30, 50)
    at = [100.0 if f < 30 else 100.0 + 8 * (f - 30) if f < 50 else 260.0 for f in range(n)]
    boxes: list[Box] = [(f, 0, 0.3 if f in faint else 0.9, (x, 200, x + 40, 290)) for f, x in enumerate(at)]
    lives = lives_of(boxes, n)
    assert (len(lives), len(lives.first), int(lives.absent().sum())) == (1, 1, 20)
    lives = lives_of(without(boxes, set(faint)), n)
    assert (len(lives), int(lives.vanished.sum())) == (2, 1)
    assert len(lives_of([(*box[:2], 0.3, box[3]) for box in boxes], n)) == 0


def test_duplicates_of_another_class_are_one_object() -> None:
    """Two classes for one object alternate in score: one object with class changes, not two with outages."""
    corners = (100.0, 100.0, 110.0, 110.0)
    scores = [(0.8, 0.6), (0.6, 0.8), (0.8, 0.6)]
    boxes = [(frame, label, pair[label], corners) for frame, pair in enumerate(scores) for label in (0, 1)]
    lives = lives_of(boxes, 3)
    assert (len(lives), len(lives.change), len(lives.first)) == (1, 2, 0)
    lives = lives_of([box for box in boxes if box[1] == 0], 3)
    assert (len(lives), len(lives.change)) == (1, 0)


# -- what must hold ------------------------------------------------------------------------------------------------


Film = list[tuple[float, int, int, int]]
"""The speed of each object, where it starts, its first frame, and the seed of its trembling (0: it does not)."""

FILMS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.37, -0.73, 2.3, -3.1]), st.integers(60, 500), st.integers(0, 30), st.integers(0, 5)
    ),
    min_size=1,
    max_size=3,
)
RUNS = st.lists(st.lists(st.tuples(st.integers(1, 119), st.integers(1, 60)), max_size=3), min_size=3, max_size=3)
"""For each object, runs of frames without a box: the first frame and the length."""


def boxes_of(film: Film, runs: list[list[tuple[int, int]]]) -> list[Box]:
    """The boxes outside of the runs, each object in a lane of its own, which stands, trembles, walks in or walks out.

    An outage lies within a life, so an object's first two boxes are always there: from one, no speed is known.
    """
    out: list[Box] = []
    for lane, (speed, start, first, seed) in enumerate(film):
        gone = {at + step for at, length in runs[lane] for step in range(length)}
        rng, shake = np.random.default_rng(seed), float(seed > 0 and not speed)
        own = walk(120, start, speed, y=10 + 150 * lane, first=first)
        own = [(f, c, s, tuple(np.array(xyxy) + shake * rng.normal(size=4))) for f, c, s, xyxy in own]
        out += [box for box in own if box[0] < own[0][0] + 2 or box[0] not in gone]
    return out


@settings(deadline=None, max_examples=200)
@given(FILMS, RUNS, RUNS)
def test_more_outages_are_never_better(film: Film, some: list[list[tuple[int, int]]], more: Any) -> None:
    lasting = np.full(120, 1 / FPS)
    both = [one + other for one, other in zip(some, more, strict=True)]
    before, after = (Told.of(lives_of(boxes_of(film, runs), 120), lasting) for runs in (some, both))
    assert after.is_no_better_than(before)


@settings(deadline=None, max_examples=60)
@given(FILMS, RUNS, RUNS)
def test_no_verdict_is_better_with_more_outages(film: Film, some: list[list[tuple[int, int]]], more: Any) -> None:
    """Two detectors on these clips: the measures that lead never call the one with more outages better."""
    both = [one + other for one, other in zip(some, more, strict=True)]
    plan = BoxPlan(SimpleNamespace(frames=range(120)), footage_of(120), np.zeros(120, dtype=int), 0, True)  # type: ignore[arg-type]
    leading = [measure for measure in measures_of("boxes") if measure.lead]
    assert [measure.name for measure in leading] == ["outage_seconds", "completeness", "longest_outage"]
    old, new = (
        ModelColumns(name=name, columns={measure.name: column_of(measure, along) for measure in leading})
        for name, along in (
            (name, BoxAnswersAlong(plan, answers_of(boxes_of(film, runs), 120)))
            for name, runs in (("old", some), ("new", both))
        )
    )
    found = differences(leading, old, new, scope="these-clips", tolerance=Tolerance())
    assert {one.verdict for one in found} <= {"worse", "the same"}


@settings(deadline=None, max_examples=60)
@given(FILMS, RUNS, st.integers(0, 1))
def test_the_frame_rate_changes_at_most_a_frames_time(film: Film, runs: Any, odd: int) -> None:
    """Every second frame is dropped. A box that is seen for one frame alone may be lost, so runs have even ends."""
    even = [[(at // 2 * 2, length // 2 * 2) for at, length in own] for own in runs]
    every = boxes_of([(speed, start, first // 2 * 2, seed) for speed, start, first, seed in film], even)
    footage = footage_of(60, fps=FPS / 2)
    half = answers_of([(f // 2, *rest) for f, *rest in every if f % 2 == odd], 60)
    whole, slow = lives_of(every, 120), follow(half, footage)
    assume(len(slow) == len(whole) and slow.left.tolist() == whole.left.tolist())
    one, other = Told.of(whole, np.full(120, 1 / FPS)), Told.of(slow, footage.lasting)
    step = 2 / FPS
    assert abs(one.longest - other.longest) <= step + 1e-9
    ends, least = len(whole.first) + len(whole), float(slow.alive().sum()) * step
    assert abs(one.completeness - other.completeness) <= ends * step / least + 1e-9


# -- beside a plain reference --------------------------------------------------------------------------------------


@given(FILMS, RUNS)
@settings(deadline=None, max_examples=60)
def test_counts_beside_a_plain_count(film: Film, runs: Any) -> None:
    """Alive, absent, outages and the longest one, counted frame by frame from the boxes of each life."""
    found = answers_of(boxes_of(film, runs), 120)
    lives = follow(found, footage_of(120))
    alive, absent, outages, longest = [0] * 120, [0] * 120, 0, [0] * len(lives)
    for life in range(len(lives)):
        seen = {int(found.frame[row]) for row in lives.row[lives.life == life]}
        run = 0
        for frame in range(int(lives.start[life]), int(lives.end[life])):
            alive[frame] += 1
            absent[frame] += frame not in seen
            outages += frame not in seen and run == 0
            run = 0 if frame in seen else run + 1
            longest[life] = max(longest[life], run)
    assert (lives.alive().tolist(), lives.absent().tolist(), len(lives.first)) == (alive, absent, outages)
    assert lives.longest(np.full(120, 1.0)).tolist() == longest


def plain_pairs(weight: list[list[float]], allowed: list[list[bool]]) -> list[tuple[int, int]]:
    """The pairs of the largest total among all ways to pair rows with columns."""
    rows, columns = len(weight), len(weight[0]) if weight else 0
    best, chosen = -1.0, []
    for order in permutations([*range(columns), *[-1] * rows], rows):
        pairs = [(row, column) for row, column in enumerate(order) if column >= 0]
        if any(not allowed[row][column] for row, column in pairs):
            continue
        total = sum(weight[row][column] for row, column in pairs)
        if total > best + 1e-12:
            best, chosen = total, pairs
    return chosen


@given(st.integers(0, 4), st.integers(0, 4), st.data())
def test_pairs_have_the_largest_total(rows: int, columns: int, data: st.DataObject) -> None:
    share = st.sampled_from([0.0, 0.2, 0.3, 0.5, 0.9])
    weight = np.array(data.draw(st.lists(share, min_size=rows * columns, max_size=rows * columns)))
    weight = weight.reshape(rows, columns)
    one, other = best_pairs(weight, weight >= 0.3)
    assert len(set(one.tolist())) == len(set(other.tolist())) == len(one)
    assert (weight[one, other] >= 0.3).all()
    plain = plain_pairs(weight.tolist(), (weight >= 0.3).tolist())
    assert weight[one, other].sum() == pytest.approx(sum(weight[pair] for pair in plain))


@settings(deadline=None, max_examples=50)
@given(FILMS, RUNS, st.randoms())
def test_the_order_of_boxes_changes_nothing(film: Film, runs: Any, random: Any) -> None:
    boxes = boxes_of(film, runs)
    mixed = list(boxes)
    random.shuffle(mixed)
    one, other = lives_of(boxes, 120), lives_of(mixed, 120)
    for name in ("start", "end", "first", "until", "vanished"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name


# -- jitter --------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-20, 20), min_size=8, max_size=8), st.integers(5, 12))
def test_cubic_paths_have_no_jitter(factor: list[int], n: int) -> None:
    time = np.arange(n) / n
    path = np.stack([np.polyval(factor[4 * at : 4 * at + 4], time) for at in (0, 1)], axis=1)
    size = np.stack([50 + 30 * time**2, 80 - 40 * time], axis=1)
    xyxy = np.concatenate([path - size / 2, path + size / 2], axis=1)
    found = jitter(xyxy, np.zeros(n, dtype=int), np.arange(n))
    assert max(found.centre.max(), found.size.max()) < 1e-12


@pytest.mark.parametrize("length", [5, 6, 40])
def test_jitter_is_the_standard_deviation_of_independent_errors(length: int) -> None:
    rng = np.random.default_rng(1)
    n = 4000
    box = np.tile([[10.0, 20, 50, 120]], (n * length, 1))
    size = np.array([40.0, 100])
    centre, extent = 0.03 * size * rng.standard_normal((2, n * length, 2))
    box += np.concatenate([centre - extent / 2, centre + extent / 2], axis=1)
    found = jitter(box, np.repeat(np.arange(n), length), np.tile(np.arange(length), n))
    for share, pixels in ((found.centre, found.centre_pixels), (found.size, found.size_pixels)):
        assert share.mean() == pytest.approx(0.03, rel=0.03)
        assert pixels.mean() == pytest.approx(0.03 * size.mean(), rel=0.03)


def test_jitter_needs_five_consecutive_boxes() -> None:
    box = np.tile([[0.0, 0, 9, 9]], (9, 1))
    life = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    assert len(jitter(box, life, np.array([0, 1, 2, 3, 0, 1, 2, 3, 5])).place) == 0
    assert jitter(box, life, np.array([0, 1, 2, 3, 4, 5, 6, 7, 8])).place.tolist() == [6]


def test_nothing_to_follow() -> None:
    for boxes in ([], [(0, 0, 0.1, (0.0, 0.0, 5.0, 5.0))], [(0, 0, 0.9, (0.0, 0.0, 0.0, 5.0))]):
        lives = lives_of(boxes, 2)
        assert len(lives) == lives.alive().sum() == len(lives.first) == 0
    assert len(lives_of([], 0)) == 0


def test_bad_rules_are_named() -> None:
    wrong = {"iou": 0.0, "short": -1.0, "leaving": -1.0, "border": 0.5, "faint": 0.7, "duplicate": 1.5}
    for name, value in wrong.items():
        with pytest.raises(InvalidValue, match=name):
            LifeRules(**{name: value})
