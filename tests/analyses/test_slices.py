from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.analyses.classification import score
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.analyses.slices import SlicePlan
from strobe.core.answers import ClassAnswers
from vid_shaped import PlainFrame, PlainSet, World, dataset_of, predictions_of, random_scores, vid_world

QUICK = ScoreOptions(bootstrap=False, control_seeds=100, windows=(), alphas=())


@st.composite
def typed(draw: st.DrawFn) -> tuple[World, list[bool]]:
    frames, sets = [], []
    for video in range(draw(st.integers(1, 5))):
        start = len(frames)
        size = draw(st.integers(1, 6))
        kinds = draw(st.lists(st.sampled_from("IPBS"), min_size=size, max_size=size))  # S: no type of ours
        frames += [PlainFrame(video, index, {0}, None, kind) for index, kind in enumerate(kinds)]
        sets.append(PlainSet(start, [(start + i, float(i)) for i in range(1, size)]))
    world = World(6, 2, [None] * len(sets), frames, sets)
    return world, draw(st.lists(st.booleans(), min_size=len(frames), max_size=len(frames)))


@settings(max_examples=80)
@given(typed())
def test_without_a_type_equals_the_plain_rule(case: tuple[World, list[bool]]) -> None:
    world, wrong = case
    label = np.array([int(bad) for bad in wrong])
    found = score(dataset_of(world), ClassAnswers.from_labels("m", label), options=QUICK).frame_types
    names = [part.without for part in found]
    assert (names[0], found[0].members_dropped, found[0].control) == ("none", 0, None)
    for kind in "IPB":
        sets = [part for part in world.sets if world.frames[part.anchor].pict != kind]
        if kind not in {frame.pict for frame in world.frames} or not sets:
            assert kind not in names
            continue
        part = found[names.index(kind)]
        orig = [not wrong[s.anchor] for s in sets]
        kept = [[f for f, _ in s.members if world.frames[f].pict != kind] for s in sets]
        right = [ok and not any(wrong[f] for f in members) for ok, members in zip(orig, kept, strict=True)]
        assert (part.n_sets, part.acc_orig.count) == (len(sets), sum(orig))
        assert part.acc_pmk.count == sum(right)
        assert part.drop.count == sum(orig) - sum(right)
        dropped = sum(len(s.members) for s in sets) - sum(map(len, kept))
        assert part.members_dropped == dropped
        assert part.control is not None
        whole = sum(ok and any(wrong[f] for f, _ in s.members) for ok, s in zip(orig, sets, strict=True)) / len(sets)
        assert 0 <= part.control.drop_low <= part.control.drop_mean <= part.control.drop_high <= whole + 1e-12
        if dropped == 0:  # nothing to delete: the control is the drop itself
            assert part.control.drop_low == part.control.drop_high == pytest.approx(whole)


def test_the_control_deletes_as_many_members_from_the_same_sets() -> None:
    """Four members, one B and another wrong: a random deletion takes the wrong one a quarter of the time."""
    frames = [PlainFrame(0, index, {0}, None, "B" if index == 1 else "P") for index in range(5)]
    world = World(4, 2, [None], frames, [PlainSet(0, [(i, float(i)) for i in range(1, 5)])])
    label = np.array([0, 0, 0, 1, 0])
    options = replace(QUICK, control_seeds=2000)
    found = score(dataset_of(world), ClassAnswers.from_labels("m", label), options=options).frame_types
    without_b = next(part for part in found if part.without == "B")
    assert without_b.drop.count == 1
    assert without_b.control is not None
    assert without_b.control.drop_mean == pytest.approx(0.75, abs=0.03)
    assert without_b.control.seeds == 2000


def test_unknown_types_give_a_reason() -> None:
    world = World(1, 2, [None], [PlainFrame(0, 0, {0}), PlainFrame(0, 1, {0})], [PlainSet(0, [(1, 1.0)])])
    found = score(dataset_of(world), ClassAnswers.from_labels("m", np.zeros(2, int)), options=QUICK).to_json()
    assert found["frame_types"] == []
    assert found["by_fps"] == []
    assert found["by_hint"] == {}
    assert found["reasons"] == {
        "frame_types": "no set has frames whose types (I, P, B) are all known",
        "by_fps": "no video's frame rate is known",
        "by_hint": "the dataset has no hints (hints.parquet)",
    }


def test_frame_rates_part_the_sets() -> None:
    rng = np.random.default_rng(0)
    world = vid_world(rng, n_sets=30, k=2, n_classes=3, n_frames=None)
    world.rates[0] = Fraction(12)
    world.rates[1] = None
    found = score(dataset_of(world), predictions_of("m", random_scores(rng, world, 0.9)), options=QUICK)
    by_fps = {part.range: part.n_sets for part in found.by_fps}
    assert by_fps == {"< 20": 1, "20 to < 27": 9, "27 to < 40": 19}
    assert sum(part.acc_orig.count or 0 for part in found.by_fps) <= (found.acc_orig.count or 0)


def test_frame_rates_are_compared_among_videos_alone() -> None:
    """One clip beside twenty photos says nothing of the frame rate."""
    rng = np.random.default_rng(0)
    world = vid_world(rng, n_sets=30, k=2, n_classes=3, n_frames=None)
    world.rates[0] = Fraction(12)
    data, answers = dataset_of(world), predictions_of("m", random_scores(rng, world, 0.9))
    for videos, ranges in ((1, set()), (12, {"< 20", "20 to < 27", "27 to < 40"})):
        kind = np.array(["video" if place < videos else "photo" for place in range(30)], dtype=object)
        found = score(replace(data, videos=replace(data.videos, kind=kind)), answers, options=QUICK)
        assert {part.range for part in found.by_fps} == ranges
        assert sum(part.n_sets for part in found.by_fps) == (videos if ranges else 0)
        assert ("not other sources (photo)" in found.reasons.get("by_fps", "")) == (not ranges)


def test_hints_part_the_members_by_quartiles() -> None:
    rng = np.random.default_rng(0)
    world = vid_world(rng, n_sets=25, k=2, n_classes=2, n_frames=None)
    for number, part in enumerate(world.sets):
        for place, (frame, _) in enumerate(part.members):
            world.hints[number, frame] = (0.0, float(place), rng.random(), 0.0)
    label = np.array([min(frame.labels) for frame in world.frames])
    last = [part.members[-1][0] for part in world.sets]
    label[last] = 1 - label[last]
    for frame in last:
        world.frames[frame].labels -= {int(label[frame])}
    found = score(dataset_of(world), ClassAnswers.from_labels("m", label), options=QUICK)
    hints = found.by_hint
    assert sum(bin_.error.n for bin_ in hints["blur"]) == 100
    assert hints["blur"][-1].error.count == 25  # the blurriest members are the wrong ones
    assert hints["blur"][0].error.count == 0
    assert [bin_.error.n for bin_ in hints["motion"]] == pytest.approx([25] * 4, abs=1)  # edges have three digits
    assert len(hints["cut"]) == 1  # one value, one bin


def test_where_there_are_too_many_rows_to_draw_deletions_are_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    world = vid_world(rng, n_sets=400, k=4, n_classes=5, n_frames=None)
    for frame in world.frames:
        frame.pict = "IPPB"[int(rng.integers(4))]
    dataset, predictions = dataset_of(world), predictions_of("m", random_scores(rng, world, 0.9))
    drawn = score(dataset, predictions, options=replace(QUICK, control_seeds=400)).frame_types
    monkeypatch.setattr("strobe.analyses.slices.MOST_ROWS", 0)
    found = score(dataset, predictions, options=QUICK).frame_types
    assert len(found) == len(drawn) == 4
    for one, other in zip(found[1:], drawn[1:], strict=True):
        assert one.control.seeds == 0
        spread = other.control.drop_high - other.control.drop_low
        assert one.control.drop_mean == pytest.approx(other.control.drop_mean, abs=0.1 * spread)
        assert one.control.drop_high - one.control.drop_low == pytest.approx(spread, rel=0.25)
        assert replace(one, control=None) == replace(other, control=None)


@pytest.mark.parametrize("ties", [False, True])
def test_random_deletions_take_the_first_members_of_a_random_order(ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow reference: sort the members of every set by their keys; of two equal keys the first member comes first."""
    rng = np.random.default_rng(2)
    plan = Plan(dataset_of(vid_world(rng, n_sets=40, k=4, n_classes=3, n_frames=300)), replace(QUICK, control_seeds=70))
    per_set = np.array([int(rng.integers(0, size)) for size in np.bincount(plan.set_row)])
    real = np.random.Generator

    class Coarse:
        def __init__(self, bits: np.random.PCG64) -> None:
            self._rng = real(bits)

        def random(self, n: int) -> np.ndarray:
            return np.floor(self._rng.random(n) * (4 if ties else 2**53)) / (4 if ties else 2**53)

    monkeypatch.setattr("strobe.analyses.slices.np.random.Generator", Coarse)
    (found,) = SlicePlan(plan)._controls([per_set])
    bits = np.unpackbits(found.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    assert not bits[:, 70:].any()
    for seed in range(70):
        key = Coarse(np.random.PCG64([plan.options.seed, seed])).random(len(plan.frame))
        for number in range(plan.n_sets):
            rows = np.flatnonzero(plan.set_row == number).tolist()
            order = sorted(rows, key=lambda row: 1.0 if plan.is_anchor[row] else key[row])
            gone = set(order[: int(per_set[number])])
            assert [bool(bits[row, seed]) for row in rows] == [row not in gone for row in rows]


def test_the_last_set_may_have_no_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletions are also computed if the sets with the highest numbers consist of their anchor alone."""
    frames = [PlainFrame(video, index, {0}, None, "IB"[index % 2]) for video in range(2) for index in range(3)]
    world = World(1, 2, [None, None], frames, [PlainSet(1, [(0, -1.0), (2, 1.0)]), PlainSet(4, [])])
    monkeypatch.setattr(f"{SlicePlan.__module__}.MOST_ROWS", 0)
    found = score(dataset_of(world), ClassAnswers.from_labels("m", np.array([0, 0, 1, 0, 0, 0])), options=QUICK)
    without_i = next(part for part in found.frame_types if part.without == "I")
    assert without_i.control is not None
    assert (without_i.control.seeds, without_i.control.drop_mean) == (0, 0.0)
