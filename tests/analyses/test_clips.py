"""Comparisons on the same clips: verdicts by table, measures and places beside plain loops."""

import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import groupby, pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from strobe.analyses.clips import (
    ClipComparison,
    ModelColumns,
    Scope,
    Tolerance,
    about,
    differences,
    lead_of,
    number,
    sentence,
)
from strobe.analyses.measures import column_of, measures_of
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.video_measures import VideoAnswers
from strobe.analyses.video_plan import FlickerPlan
from strobe.core.answers import ClassAnswers
from strobe.core.estimate import Missing
from strobe.metrics.columns import Column, Measured, mean, rate, share
from strobe.metrics.flicker import spots
from strobe.studies.unlabelled.records import FlickerOptions
from strobe.studies.unlabelled.score import flicker_score
from vid_shaped import PlainFrame, PlainSet, World, dataset_of

MEASURES = measures_of("unlabelled")
BY_NAME = {one.name: one for one in MEASURES}
SURE = FlickerOptions().sure
OTHER_CPU = "the runs are from different CPUs"


# -- measures beside plain loops -----------------------------------------------------------------------------------


@st.composite
def clips(draw: st.DrawFn) -> tuple[World, list[int], list[float], list[bool]]:
    """A few videos with sets, and a model's answer, confidence and whether there is an answer, by frame."""
    k, n_classes = draw(st.integers(0, 4)), draw(st.integers(2, 4))
    rates = draw(st.lists(st.sampled_from([None, Fraction(25), Fraction(30000, 1001)]), min_size=1, max_size=3))
    frames, sets = [], []
    for video, fps in enumerate(rates):
        indices = sorted(draw(st.sets(st.integers(0, 14), min_size=1, max_size=10)))
        start, has_times = len(frames), draw(st.booleans())
        for index in indices:
            time = Fraction(index, 10) if has_times else None if fps is None else index / fps
            frames.append(PlainFrame(video, index, {0}, time, "P"))
        for anchor in draw(st.sets(st.integers(0, len(indices) - 1), min_size=1, max_size=3)):
            near = [
                (start + place, float(index - indices[anchor]))
                for place, index in enumerate(indices)
                if place != anchor and abs(index - indices[anchor]) <= k
            ]
            sets.append(PlainSet(start + anchor, near))
    each = {"min_size": len(frames), "max_size": len(frames)}
    said = draw(st.lists(st.integers(0, n_classes - 1), **each))
    sure = draw(st.lists(st.sampled_from([0.6, 0.95]), **each))
    known = draw(st.lists(st.sampled_from([True] * 9 + [False]), **each))
    return World(k, n_classes, rates, frames, sets, "frame"), said, sure, known


def answers_of(said: list[int], sure: list[float], known: list[bool], n_classes: int) -> ClassAnswers:
    scores = np.array([[(1 - p) / (n_classes - 1)] * n_classes for p in sure])
    scores[np.arange(len(said)), said] = sure
    return ClassAnswers.from_scores("m", scores, kind="probabilities", scored=np.array(known))


def plain_figures(world: World, said: list[int], sure: list[float], known: list[bool]) -> dict[str, float | None]:
    """Every measure by loops over sets and frames."""
    every = [[one.anchor, *(row for row, _ in one.members)] for one in world.sets]
    scored = [sorted(rows) for rows in every if all(known[row] for row in rows)]
    anchors = [rows[0] for rows in every if all(known[row] for row in rows)]
    flickers, most, strays, flips, surely = [], [], [], [], []
    for anchor, rows in zip(anchors, scored, strict=True):
        labels = [said[row] for row in rows]
        count, winner = max((labels.count(label), -label) for label in set(labels))
        most.append(count / len(rows))
        flickers.append(any(label != said[anchor] for label in labels))
        runs = [len(list(run)) for is_stray, run in groupby(label != -winner for label in labels) if is_stray]
        strays.append(max(runs, default=0))
        pairs = [(a, b) for a, b in pairwise(rows) if world.frames[b].index - world.frames[a].index == 1]
        if pairs:
            changes = [(a, b) for a, b in pairs if said[a] != said[b]]
            flips.append(len(changes) / len(pairs))
            surely.append(sum(sure[a] >= SURE and sure[b] >= SURE for a, b in changes) / len(pairs))
    # neighbours in time, whatever their sets
    changes_, seconds_, between = 0, 0.0, []
    rows = sorted({row for some in scored for row in some})
    since: float | None = None
    for a, b in pairwise(rows):
        one, other = world.frames[a], world.frames[b]
        if one.video != other.video or other.index - one.index != 1:
            since = None
            continue
        fps = world.rates[one.video]
        step = (
            float(other.time - one.time)
            if one.time is not None and other.time is not None
            else float(1 / fps)
            if fps
            else 0
        )
        if step and said[a] != said[b]:
            changes_ += 1
        seconds_ += step
        since = None if since is None else since + step
        if said[a] != said[b]:
            between += [since] if since else []
            since = 0.0
    return {
        "changes_per_second": changes_ / seconds_ if seconds_ else None,
        "seconds_between_changes": median(between) if between else None,
        "stray_frames": 1 - fmean(most) if most else None,
        "flicker": fmean(flickers) if flickers else None,
        "consistency": 1 - fmean(flickers) if flickers else None,
        "flip_rate": fmean(flips) if flips else None,
        "sure_flip_rate": fmean(surely) if surely else None,
        "most_frequent": fmean(most) if most else None,
        "longest_stray": fmean(strays) if strays else None,
    }


GAP = World(
    1, 2, [None], [PlainFrame(0, index, {0}, Fraction(index, 10), "P") for index in range(7)],
    [PlainSet(1, [(0, -1.0), (2, 1.0)]), PlainSet(3, []), PlainSet(5, [(4, -1.0), (6, 1.0)])], "frame",
)  # fmt: skip
"""Two sets with a change each, and between them a set without an answer."""


@settings(max_examples=150, deadline=None)
@given(clips())
@example((GAP, [0, 1, 1, 1, 1, 0, 0], [0.95] * 7, [True, True, True, False, True, True, True]))
def test_every_measure_is_that_of_a_plain_loop(made: tuple[World, list[int], list[float], list[bool]]) -> None:
    world, said, sure, known = made
    plan = FlickerPlan(dataset_of(world), ScoreOptions(bootstrap=False), FlickerOptions())
    answers = answers_of(said, sure, known, world.n_classes)
    expected = plain_figures(world, said, sure, known)
    assert set(expected) == set(BY_NAME), "a new measure needs its loop"
    record = flicker_score(plan, answers)
    for name, one in BY_NAME.items():
        column = column_of(one, VideoAnswers(plan, answers))
        assert not isinstance(column, Missing)
        figure = None if expected[name] is None else pytest.approx(expected[name], abs=1e-9)
        assert column.value == figure, name
        if record is not None:
            assert one.of(record).value == figure, f"{name} in results.json"
    assert (record is None) == (expected["flicker"] is None)


LINE = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=40)


@given(LINE)
def test_places_beside_a_plain_loop(rows: list[tuple[int, int, bool]]) -> None:
    steady, other = [one[0] for one in rows], [one[1] for one in rows]
    line = np.cumsum([one[2] for one in rows]).astype(np.int64)
    expected = []
    stretches = groupby(
        range(len(rows)),
        key=lambda at: (line[at], sum(a != b for a, b in pairwise(steady[: at + 1]))),
    )
    for _, stretch in stretches:
        places = list(stretch)
        changes = [b for a, b in pairwise(places) if other[a] != other[b]]
        if changes:
            expected.append((changes[0], changes[-1], len(changes)))
    found = spots(np.array(steady, dtype=np.int64), np.array(other, dtype=np.int64), line)
    assert list(zip(found.first.tolist(), found.last.tolist(), found.changes.tolist(), strict=True)) == expected


# -- verdicts ------------------------------------------------------------------------------------------------------


def models(name: str, old: Measured, new: Measured, **repeats: tuple[list[float], list[float]]) -> tuple[Any, Any]:
    """Two models with one measure."""
    again = [{key: np.array(both[at]) for key, both in repeats.items()} for at in (0, 1)]
    return tuple(
        ModelColumns(name=label, columns={name: column}, repeats=some)
        for label, column, some in zip(("old", "new"), (old, new), again, strict=True)
    )


def judged(name: str, old: Measured, new: Measured, scope: Scope = "these-clips", **settings: Any) -> Any:
    tolerance = settings.pop("tolerance", Tolerance())
    (one,) = differences(MEASURES, *models(name, old, new, **settings), scope=scope, tolerance=tolerance)
    return one


def of_share(values: list[int], n: int = 100, videos: int = 1) -> Column:
    return mean((np.arange(n) < values[0]).astype(float), np.arange(n) // max(1, n // videos))


@pytest.mark.parametrize(
    ("measure", "old", "new", "reason", "verdict"),
    [
        ("stray_frames", 10, 11, None, "worse"),
        ("stray_frames", 11, 10, None, "better"),
        ("stray_frames", 10, 10, None, "the same"),
        ("consistency", 10, 11, None, "better"),
        ("stray_frames", 10, 11, OTHER_CPU, "the same"),  # 1 % of frames
        ("stray_frames", 10, 12, OTHER_CPU, "worse"),
        ("flip_rate", 10, 12, OTHER_CPU, "the same"),  # 2 % of pairs
        ("flip_rate", 10, 13, OTHER_CPU, "worse"),
        ("flicker", 10, 31, OTHER_CPU, "the same"),  # 21 frames a set
        ("flicker", 10, 32, OTHER_CPU, "worse"),
        ("changes_per_second", 10, 15, OTHER_CPU, "the same"),  # 10 s at 25 fps: 0.5/s
        ("changes_per_second", 10, 16, OTHER_CPU, "worse"),
        ("longest_stray", 10, 11, OTHER_CPU, None),
    ],
)
def test_these_clips_are_a_fact(measure: str, old: int, new: int, reason: str | None, verdict: str | None) -> None:
    kind = {"share": "share", "changes_per_second": "rate"}.get(measure, "share")
    video = np.zeros(100, dtype=np.int64)

    def column(n: int) -> Column:
        rows = np.arange(100) < n
        if measure == "flicker" or measure == "consistency":
            return share(rows, video)
        if kind == "rate" or measure == "longest_stray":
            return rate(rows, np.full(100, 0.1), video)
        return mean(rows.astype(float), video)

    found = judged(measure, column(old), column(new), tolerance=Tolerance(reason=reason, fps=25, set_frames=21))
    assert (found.verdict, found.saturated, found.p) == (verdict, False, None)
    assert found.n == 100
    assert found.change == pytest.approx((column(new).value or 0) - (column(old).value or 0))
    assert (found.reason is None) is (verdict is not None)


def test_a_tolerance_needs_what_bounds_it() -> None:
    bare = Tolerance(reason=OTHER_CPU)
    assert [bare.of(BY_NAME[name]) for name in ("stray_frames", "flip_rate")] == [0.01, 0.02]
    for name in ("changes_per_second", "flicker", "seconds_between_changes", "longest_stray"):
        assert bare.of(BY_NAME[name]) is None
        assert Tolerance().of(BY_NAME[name]) == 0


REPEATED = {"same": [0.10, 0.11, 0.12], "noise": [0.11, 0.10, 0.12], "more": [0.30, 0.31, 0.32]}


@pytest.mark.parametrize(("then", "verdict"), [("noise", "the same"), ("more", "worse"), ("same", "the same")])
def test_repeats_decide_instead_of_the_tolerance(then: str, verdict: str) -> None:
    columns = of_share([10]), of_share([12])
    found = judged("stray_frames", *columns, stray_frames=(REPEATED["same"], REPEATED[then]))
    expected = stats.ttest_ind(REPEATED[then], REPEATED["same"], equal_var=False).pvalue
    assert (found.verdict, found.p) == (verdict, pytest.approx(expected))
    means = (np.mean(REPEATED["same"]), np.mean(REPEATED[then]))
    assert (found.old, found.new) == pytest.approx(means), "not the figures of the first answers"
    few = judged("stray_frames", *columns, stray_frames=(REPEATED["same"][:2], REPEATED[then][:2]))
    assert (few.verdict, few.p) == ("worse", None), "two repeats are no test"


@pytest.mark.parametrize(("n", "verdict"), [(1, "worse"), (2, "worse"), (3, "the same")])
def test_holm_covers_the_repeated_measures(n: int, verdict: str) -> None:
    old, new = [0.10, 0.11, 0.12], [0.13, 0.14, 0.15]
    alone = stats.ttest_ind(new, old, equal_var=False).pvalue
    columns = dict.fromkeys(["stray_frames", "sure_flip_rate", "flip_rate"][:n], of_share([10]))
    pair = [
        ModelColumns(name=name, columns=columns, repeats=dict.fromkeys(columns, np.array(own)))
        for name, own in (("old", old), ("new", new))
    ]
    found = differences(MEASURES, *pair, scope="these-clips", tolerance=Tolerance())
    assert [(one.p, one.verdict) for one in found] == [(pytest.approx(n * alone), verdict)] * n


@pytest.mark.parametrize(
    ("scope", "videos", "change", "verdict"),
    [
        ("other-videos", 40, 20, "regression"),
        ("other-videos", 40, -10, "improvement"),
        ("other-videos", 40, 0, "inconclusive"),
        ("other-videos", 5, 60, "inconclusive"),  # five videos are too few
        ("this-recording", 1, 60, "worse"),
        ("this-recording", 1, -60, "better"),
        ("this-recording", 1, 0, "the same"),
    ],
)
def test_other_scopes_follow_the_interval(scope: Scope, videos: int, change: int, verdict: str) -> None:
    rng = np.random.default_rng(1)
    base, n = 120, 400
    order = rng.permutation(n)
    video = np.arange(n) * videos // n
    old, new = (mean((order < count).astype(float), video) for count in (base, base + change))
    found = judged("stray_frames", old, new, scope)
    assert found.verdict == verdict
    assert (found.recording is None) is (scope == "other-videos")
    assert (found.others is None) is (videos < 6), "an interval over videos needs six"


SHARES = st.sampled_from([0.0, 0.25, 1.0])


@given(st.lists(st.tuples(st.booleans(), SHARES, SHARES), min_size=3, max_size=3))
def test_a_saturated_measure_never_leads(given_: list[tuple[bool, float, float]]) -> None:
    leading = sorted((one for one in MEASURES if one.lead), key=lambda one: -one.lead)
    names = [one.name for one in leading]
    assert names == ["changes_per_second", "stray_frames", "flicker"]
    video = np.zeros(4, dtype=np.int64)

    def column(name: str, value: float) -> Column:
        rows = np.arange(4) < 4 * value
        if name == "changes_per_second":
            return rate(rows, np.ones(4), video)
        return share(rows, video) if name == "flicker" else mean(rows.astype(float), video)

    had = {name: both for name, (has, *both) in zip(names, given_, strict=True) if has}
    pair = [
        ModelColumns(name=str(at), columns={name: column(name, both[at]) for name, both in had.items()})
        for at in (0, 1)
    ]
    found = differences(MEASURES, *pair, scope="these-clips", tolerance=Tolerance())
    ends = {name for name, both in had.items() if name != "changes_per_second" and set(both) in ({0.0}, {1.0})}
    assert {one.measure for one in found if one.saturated} == ends
    expected = [name for name in names if name in had and name not in ends] or [name for name in names if name in had]
    assert lead_of(MEASURES, found) == (expected[0] if expected else None)


def compared(one: Any, **fields: Any) -> ClipComparison:
    given = {
        "old": "a", "new": "b", "dataset": "d", "scope": "these-clips", "videos": ("dog.mp4",), "n_frames": 288,
        "seconds": 9.6, "lead": one.measure, "verdict": one.verdict, "differences": (one,),
    }  # fmt: skip
    return ClipComparison(**given | fields)


def test_sentences() -> None:
    worse = judged("stray_frames", of_share([10]), of_share([12]))
    assert sentence(compared(worse)) == "b is worse than a on dog.mp4: stray_frames 10.0 % → 12.0 %."
    assert "on these 2 clips" in sentence(compared(worse, videos=("x", "y")))
    text = about(compared(worse))
    assert text.startswith("About these clips only (288 frames, 9.6 s): a fact, not an estimate.")
    assert text.endswith("1 video says nothing about other videos; 6 are needed.")
    close = judged("stray_frames", of_share([10]), of_share([11]), tolerance=Tolerance(reason=OTHER_CPU))
    same = "b is the same as a on dog.mp4: stray_frames 10.0 % → 11.0 %, within the tolerance of 1.0 %."
    assert sentence(compared(close)) == same
    ended = judged("stray_frames", of_share([0]), of_share([0]))
    assert "cannot be told apart from a on dog.mp4: every measure is at its end for both" in sentence(compared(ended))
    assert "no measure was taken for both" in sentence(compared(ended, lead=None, differences=()))
    unclear = replace(worse, verdict="inconclusive")
    assert sentence(compared(unclear, scope="other-videos", videos=("x", "y"))).startswith(
        "Inconclusive: whether b is worse than a on other videos (2 seen): "
    )
    assert number(-0.045, "share", sign=True) == "−4.5 points"
    assert Counter(one.unit for one in MEASURES) == {"share": 6, "per second": 1, "seconds": 1, "frames": 1}
