from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.analyses.plan import Plan, ScoreOptions
from strobe.analyses.times import _round_step, millisecond_levels, time_plan
from vid_shaped import PlainFrame, PlainSet, World, dataset_of


def level_of(anchor: Fraction, member: Fraction) -> int:
    frames = [PlainFrame(0, 0, {0}, anchor), PlainFrame(0, 1, {0}, member)]
    world = World(1, 1, [None], frames, [PlainSet(0, [(1, 1.0)])])
    return int(millisecond_levels(dataset_of(world)).max())


@given(
    st.fractions(min_value=-20, max_value=20, max_denominator=10**12),
    st.fractions(min_value=-20, max_value=20, max_denominator=10**12),
)
def test_level_is_the_first_ms_within_half_a_millisecond(a: Fraction, b: Fraction) -> None:
    level, gap = level_of(a, b), abs(a - b) * 1000
    assert gap <= level + Fraction(1, 2)
    assert level == 0 or gap > level - 1 + Fraction(1, 2)


@pytest.mark.parametrize(
    ("gap", "level"),
    [
        (Fraction(0), 0),
        (Fraction(1, 2000), 0),  # exactly half a millisecond still counts at 0
        (Fraction(1, 1999), 1),
        (Fraction(1001, 30000), 33),  # 33.37 ms
        (Fraction(201, 2000), 100),  # 100.5 ms counts at 100
        (Fraction(10, 9), 1111),
        (Fraction(10, 59), 169),
    ],
)
def test_published_reaches_and_edges(gap: Fraction, level: int) -> None:
    assert level_of(Fraction(0), gap) == level
    assert level_of(gap, Fraction(0)) == level
    late = Fraction(10**13) + Fraction(1, 7)  # products of such times do not fit into 64 bits
    assert level_of(late, late + gap) == level_of(late + gap, late) == level


def test_times_that_overflow_whole_numbers_are_still_exact() -> None:
    base = Fraction(10**18, 10**9)
    assert level_of(base, base + Fraction(1, 25)) == 40


def test_frame_rate_stands_in_for_missing_times() -> None:
    frames = [PlainFrame(0, index, {0}) for index in (4, 6)]
    world = World(2, 1, [Fraction(30000, 1001)], frames, [PlainSet(0, [(1, 2.0)])])
    assert millisecond_levels(dataset_of(world)).tolist() == [0, 67]


def test_one_cohort_reaches_the_fifth_percentile() -> None:
    """Forty sets, two of them (5 %) short: t_max is what the others reach, and the short ones are left out."""
    frames, sets = [], []
    for video in range(40):
        far = 1 if video < 2 else 4
        frames += [PlainFrame(video, index, {0}, Fraction(index, 25)) for index in range(far + 1)]
        start = len(frames) - far - 1
        sets.append(PlainSet(start, [(start + step, float(step)) for step in range(1, far + 1)]))
    world = World(4, 1, [None] * 40, frames, sets)
    plan = Plan(dataset_of(world), ScoreOptions())
    found = time_plan(plan)
    assert not isinstance(found, str)
    assert (found.t_max_ms, int(found.cohort.sum())) == (40, 40)  # sorted reach at place ⌊0.05·39⌋ = 1
    sets[1] = PlainSet(sets[1].anchor, [])
    wider = World(4, 1, [None] * 39, [f for f in frames if f.video != 0], [])
    shift = sum(f.video == 0 for f in frames)
    wider.frames = [PlainFrame(f.video - 1, f.index, f.labels, f.time) for f in wider.frames]
    wider.sets = [PlainSet(s.anchor - shift, [(m - shift, d) for m, d in s.members]) for s in sets[1:]]
    found = time_plan(Plan(dataset_of(wider), ScoreOptions()))
    assert not isinstance(found, str)
    assert (found.t_max_ms, int(found.cohort.sum())) == (160, 38)
    assert found.ms[0] == 0
    assert found.ms[-1] == 160
    assert (np.diff(found.ms) > 0).all()


def test_reasons_where_there_is_no_curve() -> None:
    frames = [PlainFrame(0, 0, {0}), PlainFrame(0, 1, {0})]
    world = World(1, 1, [None], frames, [PlainSet(0, [(1, 1.0)])])
    assert "neither" in str(time_plan(Plan(dataset_of(world), ScoreOptions())))
    alone = World(1, 1, [Fraction(25)], frames, [PlainSet(0, [])])
    assert "only an anchor" in str(time_plan(Plan(dataset_of(alone), ScoreOptions())))


def test_steps_are_1_2_or_5_times_a_power_of_ten() -> None:
    least = (0.3, 1, 1.5, 2, 2.5, 5, 5.5, 20, 21, 50, 51)
    assert [_round_step(one) for one in least] == [1, 1, 2, 2, 5, 5, 10, 20, 50, 50, 100]
