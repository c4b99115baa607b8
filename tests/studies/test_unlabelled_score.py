"""Flicker without labels beside a plain reference, and its bounds on accuracy whatever the labels are."""

import sys
from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from strobe.analyses.classification import score
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.video_plan import FlickerPlan, without_cuts
from strobe.core.answers import ClassAnswers
from strobe.core.estimate import Missing
from strobe.core.tables import Hints
from strobe.studies.unlabelled.records import FlickerOptions
from strobe.studies.unlabelled.score import flicker_score
from vid_shaped import PlainFrame, PlainSet, World, dataset_of

QUICK = ScoreOptions(bootstrap=False)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, list[int]]:
    """Small worlds whose sets have one right answer each, and the answers of a model on their frames."""
    k, n_classes = draw(st.integers(0, 4)), draw(st.integers(1, 4))
    frames, sets = [], []
    n_videos = draw(st.integers(1, 4))
    for video in range(n_videos):
        label = {draw(st.integers(0, n_classes - 1))}
        indices = sorted(draw(st.sets(st.integers(0, 14), min_size=1, max_size=10)))
        start = len(frames)
        frames += [PlainFrame(video, index, label, None, "P") for index in indices]
        for anchor in draw(st.sets(st.integers(0, len(indices) - 1), min_size=1, max_size=3)):
            near = [
                (start + place, float(index - indices[anchor]))
                for place, index in enumerate(indices)
                if place != anchor and abs(index - indices[anchor]) <= k and draw(st.booleans())
            ]
            sets.append(PlainSet(start + anchor, near))
    answers = draw(st.lists(st.integers(0, n_classes - 1), min_size=len(frames), max_size=len(frames)))
    return World(k, n_classes, [None] * n_videos, frames, sets, "frame"), answers


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_every_figure_is_that_of_a_plain_loop(made: tuple[World, list[int]]) -> None:
    world, said = made
    data = dataset_of(world)
    coarse = {"halves": [str(place // 2) for place in range(world.n_classes)]}
    found = flicker_score(
        FlickerPlan(data, QUICK, FlickerOptions(coarser=coarse)), ClassAnswers.from_labels("m", np.array(said))
    )
    assert found is not None
    flickers, shares, merged = [], [], []
    for one in world.sets:
        rows = [one.anchor, *(row for row, _ in one.members)]
        flickers.append(any(said[row] != said[one.anchor] for row in rows))
        shares.append(max(Counter(said[row] for row in rows).values()) / len(rows))
        merged.append(any(said[row] // 2 != said[one.anchor] // 2 for row in rows))
    n = len(world.sets)
    assert (found.flicker.count, found.flicker.n, found.consistency.count) == (sum(flickers), n, n - sum(flickers))
    assert found.most_frequent.value == pytest.approx(sum(shares) / n)
    assert found.coarser[0].flicker.count == sum(merged)
    for point in found.curve:
        near = [
            any(said[row] != said[one.anchor] for row, distance in one.members if abs(distance) <= point.k)
            for one in world.sets
        ]
        assert point.flicker.count == sum(near)
    used = sorted({row for one in world.sets for row in (one.anchor, *(row for row, _ in one.members))})
    lines: list[list[int]] = []
    for row in used:
        frame, last = world.frames[row], world.frames[lines[-1][-1]] if lines else None
        if last is not None and (last.video, last.index) == (frame.video, frame.index - 1):
            lines[-1].append(row)
        else:
            lines.append([row])
    flips, back = Counter(), []
    for line in lines:
        runs = [(value, len(list(run))) for value, run in groupby(said[row] for row in line)]
        flips += Counter(tuple(sorted((a[0], b[0]))) for a, b in pairwise(runs))
        back += [runs[i][1] for i in range(1, len(runs) - 1) if runs[i - 1][0] == runs[i + 1][0]]
    names = data.info.label_space.names
    pairs = {(row.one, row.other): row.flips for row in found.alternations}
    assert pairs == {(names[a], names[b]): count for (a, b), count in flips.items()}
    assert sum(row.flips for row in found.videos) == sum(flips.values())
    if back:
        assert not isinstance(found.spells, Missing)
        assert (found.spells.n, found.spells.one_frame.count) == (len(back), back.count(1))
        assert found.spells.median_frames.value == np.median(back)
    else:
        assert isinstance(found.spells, Missing)


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_no_label_breaks_the_bounds(made: tuple[World, list[int]]) -> None:
    world, said = made
    data, answers = dataset_of(world), ClassAnswers.from_labels("m", np.array(said))
    found = flicker_score(FlickerPlan(data, QUICK, FlickerOptions()), answers)
    truth = score(data, answers, options=QUICK)
    assert found is not None
    assert truth.acc_pmk.count <= found.consistency.count
    assert truth.drop.count <= found.flicker.count
    right = [
        np.mean([said[row] in world.frames[row].labels for row in (one.anchor, *(row for row, _ in one.members))])
        for one in world.sets
    ]
    assert np.mean(right) <= (found.most_frequent.value or 0) + 1e-12


def _line(answers: list[int], *, k: int = 1) -> tuple[World, ClassAnswers]:
    frames = [PlainFrame(0, index, {0}, None, "P") for index in range(len(answers))]
    sets = [PlainSet(place, [(place - 1, -1.0), (place + 1, 1.0)]) for place in range(1, len(answers) - 1, 3)]
    return World(k, 3, [None], frames, sets, "anchor"), ClassAnswers.from_labels("m", np.array(answers))


def test_sets_across_a_cut_are_excluded_and_counted() -> None:
    world, answers = _line([0, 0, 0, 1, 1, 1])
    data = dataset_of(world)
    n = len(data.sets.set)
    none = np.zeros(n)
    cut = np.where(data.sets.set == 1, 0.9, 0.0)
    hints = Hints(cut=cut, blur=none, motion=none, exposure=none, duplicate=none.astype(bool))
    kept, cuts = without_cuts(replace(data, hints=hints))
    assert kept is not None
    assert (kept.n_sets, cuts) == (1, 1)
    everywhere = replace(hints, cut=np.full(n, 0.9))
    assert without_cuts(replace(data, hints=everywhere)) == (None, 2)
    assert without_cuts(data) == (data, 0)
    found = flicker_score(FlickerPlan(kept, QUICK, FlickerOptions()), answers)
    assert found is not None
    assert found.flicker.value == 0


def test_missing_and_outside_answers() -> None:
    world, _ = _line([0, 0, 0, 0, 0, 0])
    data = dataset_of(world)
    outside = ClassAnswers.from_labels("m", np.array([0, 0, -1, 0, 0, 0]))
    found = flicker_score(FlickerPlan(data, QUICK, FlickerOptions()), outside)
    assert found is not None
    assert found.flicker.count == 1  # an answer outside the classes is another answer
    names = {found.alternations[0].one, found.alternations[0].other}
    assert names == {"(outside)", data.info.label_space.names[0]}
    missing = ClassAnswers.from_labels("m", np.zeros(6, dtype=int), scored=np.array([True] * 5 + [False]))
    part = flicker_score(FlickerPlan(data, QUICK, FlickerOptions()), missing)
    assert part is not None
    assert (part.flicker.n, part.unscored) == (1, 1)
    nothing = ClassAnswers.from_labels("m", np.zeros(6, dtype=int), scored=np.zeros(6, dtype=bool))
    assert flicker_score(FlickerPlan(data, QUICK, FlickerOptions()), nothing) is None
