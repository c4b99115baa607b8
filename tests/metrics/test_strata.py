import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from strobe.core.errors import InvalidValue
from strobe.metrics.intervals import ONE_VIDEO, mean_share, proportion
from strobe.metrics.strata import corrected_flicker, planned, post_stratified

row = st.tuples(
    st.booleans(), st.booleans(), st.integers(0, 2), st.integers(0, 5), st.booleans(), st.sampled_from([0.2, 0.5, 1.0])
)
rows = st.lists(row, min_size=1, max_size=40)


def columns(rows):
    outcome, named, stratum, cluster, certain, chance = (np.array(column) for column in zip(*rows, strict=True))
    return outcome, named, stratum, cluster, certain, chance


def plain_merge(groups: dict[int, list[tuple]]) -> dict[int, list[tuple]]:
    """Merge strata with fewer than two named videos: with each other, then with the one with most named sets."""

    def named_in(sets):
        return [one for one in sets if one[1]]

    def videos(sets):
        return {one[3] for one in named_in(sets)}

    thin = [code for code in sorted(groups) if len(videos(groups[code])) < 2]
    rest = [code for code in sorted(groups) if code not in thin]
    if not thin:
        return groups
    merged = [one for code in thin for one in groups[code]]
    if len(videos(merged)) < 2 and rest:
        largest = max(rest, key=lambda code: (len(named_in(groups[code])), -code))
        return {code: groups[code] + (merged if code == largest else []) for code in rest}
    return {**{code: groups[code] for code in rest}, thin[0]: merged}


def plain_effective(p, n, videos, effective, square, most):
    """The effective sample size as docs/methods.md writes it."""
    if p in (0, 1):
        return effective
    weight, part = max(1 - effective / videos, 0), 1 / max(effective, 20)
    q = (p + weight * part / 2) / (1 + weight * part)
    freedom = max(effective - 1, 0.1)
    v = effective / freedom * square
    w = effective / freedom * (square + weight * part**2 * (0.5 - p) ** 2)
    if w <= 0:
        return n
    ratio = (stats.t.ppf(0.975, max(n - 1, 1)) / stats.t.ppf(0.975, freedom)) ** 2
    return min([most, q * (1 - q) / w * ratio, *([p * (1 - p) / v * ratio] if v > 0 else [])])


def plain_stratified(rows):
    """Value and bounds in plain Python; None for bounds that do not exist. A row has its weight at the end."""
    by_code: dict[int, list[tuple]] = {}
    for one in rows:
        if not one[4]:
            by_code.setdefault(one[2], []).append(one)
    by_code = {code: sets for code, sets in by_code.items() if not all(one[1] for one in sets)}
    n_sets = len(rows)
    open_sets = [one for sets in by_code.values() for one in sets]
    if not open_sets:
        want = proportion(np.array([one[0] for one in rows]), np.array([one[3] for one in rows]))
        return want.value, want.low, want.high
    named = [one for one in open_sets if one[1]]
    if not named:
        return None, None, None
    groups = plain_merge(by_code)
    if len(groups) == 1 and len(open_sets) == n_sets and len({one[5] for one in named}) == 1:
        want = proportion(np.array([one[0] for one in named]), np.array([one[3] for one in named]))
        return want.value, want.low, want.high
    share, weight_of = {}, {}
    for code, sets in groups.items():
        weight_of[code] = sum(one[5] for one in sets if one[1])
        share[code] = sum(one[5] * one[0] for one in sets if one[1]) / weight_of[code]
    filled = [(one[3], float(one[0])) for one in rows if one[4] or one[2] not in by_code]
    filled += [(one[3], share[code]) for code, sets in groups.items() for one in sets]
    value = sum(x for _, x in filled) / n_sets
    videos = sorted({one[3] for one in rows})
    if (len({one[3] for one in named}) == 1 and len(named) > 1) or (len(videos) == 1 and n_sets > 1):
        return value, None, None

    total = {g: sum(x for video, x in filled if video == g) for g in videos}
    size = {g: sum(1 for video, _ in filled if video == g) for g in videos}
    a_low = a_high = 0.0
    mix = dict.fromkeys(videos, 0.0)
    if max(x for _, x in filled) - min(x for _, x in filled) > 1e-12:
        low, high = mean_share(np.array([total[g] for g in videos]), np.array([float(size[g]) for g in videos]))
        a_low, a_high = value - low, high - value
        mix = {g: (total[g] - value * size[g]) / n_sets for g in videos}

    reach = len(open_sets) / n_sets
    residual, held = dict.fromkeys(videos, 0.0), dict.fromkeys(videos, 0.0)
    mean = least = more = 0.0
    for code, sets in groups.items():
        mine = [one for one in sets if one[1]]
        part = [len(sets) / len(open_sets) * one[5] / weight_of[code] for one in mine]
        p = share[code]
        for one, x in zip(mine, part, strict=True):
            residual[one[3]] += x * (one[0] - p)
            held[one[3]] += x
            mean += x * one[0]
        q = (len(mine) * p + 0.5) / (len(mine) + 1)
        squares = sum(x * x for x in part)
        least += squares * p * (1 - p)
        more += squares * max(q * (1 - q) - p * (1 - p), 0) if len(groups) > 1 else 0
    mean = float(named[0][0]) if len({one[0] for one in named}) == 1 else mean
    n, g = len(named), sum(1 for x in held.values() if x > 0)
    effective = 1 / sum(x * x for x in held.values())
    most = mean * (1 - mean) / (least + more) if least + more > 0 else n
    square = sum(x * x for x in residual.values()) + more
    sample = plain_effective(mean, n, g, effective, square, most) if g < n else effective if mean in (0, 1) else most
    a, b = mean * sample + 0.5, sample - mean * sample + 0.5
    b_low = 0.0 if mean == 0 else max(mean - stats.beta.ppf(0.025, a, b), 0) * reach
    b_high = 0.0 if mean == 1 else max(stats.beta.ppf(0.975, a, b) - mean, 0) * reach
    far = reach * (1 - 0.05 ** (1 / n))  # all named outcomes are equal: at least the bound of mid-P
    b_low, b_high = (max(b_low, far) if mean == 1 else b_low), (max(b_high, far) if mean == 0 else b_high)
    length = math.sqrt(sum(x * x for x in mix.values()) * sum(x * x for x in residual.values()))
    r = sum(mix[v] * residual[v] for v in videos) / length if length > 0 else 0
    below = math.sqrt(max(a_low**2 + b_low**2 + 2 * r * a_low * b_low, 0))
    above = math.sqrt(max(a_high**2 + b_high**2 + 2 * r * a_high * b_high, 0))
    return value, max(value - below, 0), min(value + above, 1)


def agree(found, want) -> None:
    assert (found.value is None) == (want[0] is None)
    assert (found.low is None) == (want[1] is None)
    for x, y in zip((found.value, found.low, found.high), want, strict=True):
        assert y is None or x == pytest.approx(y, abs=1e-7)


@settings(max_examples=150)
@given(rows)
def test_post_stratified_is_the_plain_formula(rows) -> None:
    outcome, named, stratum, cluster, certain, _ = columns(rows)
    found = post_stratified(outcome, named, stratum, cluster, certain=certain)
    agree(found, plain_stratified([(*one[:5], 1.0) for one in rows]))
    assert found.low is None or 0 <= found.low <= found.value + 1e-12
    assert found.high is None or found.value - 1e-12 <= found.high <= 1


@settings(max_examples=150)
@given(rows)
def test_planned_is_the_plain_formula(rows) -> None:
    outcome, named, stratum, cluster, certain, chance = columns(rows)
    found = planned(outcome, named, stratum, cluster, chance, certain=certain)
    agree(found, plain_stratified([(*one[:5], 1 / one[5]) for one in rows]))


@given(rows, st.booleans())
def test_all_named_is_the_plain_estimate(rows, with_certain: bool) -> None:
    outcome, named, stratum, cluster, certain, chance = columns(rows)
    named[:] = True
    if with_certain:  # a certain set needs no name
        named = ~certain
    want = proportion(outcome, cluster)
    assert post_stratified(outcome, named, stratum, cluster, certain=certain) == want
    assert planned(outcome, named, stratum, cluster, chance, certain=certain) == want


@given(rows)
def test_one_stratum_is_the_plain_estimate_of_the_named(rows) -> None:
    outcome, named, _, cluster, _, _ = columns(rows)
    named[0] = True
    want = proportion(outcome[named], cluster[named])
    one = np.zeros(len(rows), dtype=int)
    for found in (
        post_stratified(outcome, named, one, cluster),
        planned(outcome, named, one, cluster, np.full(len(rows), 0.3)),
    ):
        assert (found.value, found.low, found.high, found.n) == (want.value, want.low, want.high, want.n)


@given(rows, st.randoms(use_true_random=False))
def test_order_and_numbers_of_strata_and_videos_do_not_matter(rows, random) -> None:
    outcome, named, stratum, cluster, certain, chance = columns(rows)
    order = np.array(random.sample(range(len(rows)), len(rows)))
    first = planned(outcome, named, stratum, cluster, chance, certain=certain)
    second = planned(*(x[order] for x in (outcome, named, stratum, 1000 - 7 * cluster, chance)), certain=certain[order])
    agree(second, (first.value, first.low, first.high))


@given(rows)
def test_what_is_neither_named_nor_certain_is_not_read(rows) -> None:
    outcome, named, stratum, cluster, certain, _ = columns(rows)
    first = post_stratified(outcome, named, stratum, cluster, certain=certain)
    other = np.where(named | certain, outcome, ~outcome)
    assert post_stratified(other, named, stratum, cluster, certain=certain) == first


def test_none_named() -> None:
    none, some = np.zeros(6, dtype=bool), np.arange(6) < 3
    found = post_stratified(none, none, some.astype(int), np.arange(6), certain=some)
    assert (found.value, found.n, found.reason) == (None, 0, "no set with an open outcome is named")
    assert found.method == "post-stratified, 0 of 6 sets"
    certain = post_stratified(some, none, some.astype(int), np.arange(6), certain=~none)
    assert certain == proportion(some, np.arange(6))
    empty = post_stratified(none[:0], none[:0], np.arange(0), np.arange(0))
    assert (empty.reason, empty.method) == ("no set", "post-stratified, 0 of 0 sets")


def test_one_video_has_no_interval() -> None:
    outcome, named, stratum = np.arange(8) % 2 == 0, np.arange(8) < 4, np.arange(8) // 4
    found = post_stratified(outcome, named, stratum * 0, np.zeros(8, dtype=int))
    assert (found.value, found.low, found.reason) == (0.5, None, ONE_VIDEO)
    mixed = post_stratified(outcome, named & (np.arange(8) < 1), stratum, np.zeros(8, dtype=int), certain=stratum == 1)
    assert (mixed.value, mixed.reason) == (0.75, ONE_VIDEO)


def test_a_stratum_with_one_named_set_is_merged() -> None:
    stratum, outcome = np.repeat([0, 1], [80, 20]), np.arange(100) % 3 > 0
    named = (np.arange(100) % 4 == 0) & (np.arange(100) < 81)
    assert named[stratum == 1].sum() == 1
    found = post_stratified(outcome, named, stratum, np.arange(100))
    want = proportion(outcome[named], np.arange(100)[named])
    assert (found.value, found.low, found.high) == (want.value, want.low, want.high)


def test_one_named_set_gives_a_wide_interval() -> None:
    found = post_stratified(np.ones(20, dtype=bool), np.arange(20) == 3, np.zeros(20, dtype=int), np.arange(20))
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(0.025)


def test_a_complete_stratum_adds_no_uncertainty_of_labels() -> None:
    flickers = np.arange(300) < 60
    breaks = flickers & (np.arange(300) % 2 == 0)
    video, none = np.arange(300), np.zeros(300, dtype=bool)
    complete = planned(breaks, flickers, flickers.astype(int), video, np.where(flickers, 1.0, 0.1), certain=~flickers)
    assert complete == proportion(breaks, video)
    half = flickers & (np.arange(300) % 4 < 2)
    found = planned(breaks, half, flickers.astype(int), video, np.where(flickers, 0.5, 0.1), certain=~flickers | none)
    assert found.high - found.low > complete.high - complete.low


def test_certain_outcomes_make_the_interval_narrower() -> None:
    rng = np.random.default_rng(3)
    flickers = rng.random(600) < 0.35
    holds, named = ~flickers & (rng.random(600) < 0.85), rng.permutation(600) < 90
    found = post_stratified(holds, named, flickers.astype(int), np.arange(600), certain=flickers)
    plain = proportion(holds[named], np.arange(600)[named])
    assert found.high - found.low < 0.7 * (plain.high - plain.low)


def test_a_sample_with_two_plans_is_unbiased() -> None:
    """Half of the sets have other chances, and other outcomes, within one stratum."""
    rng = np.random.default_rng(5)
    easy = np.arange(400) < 200
    outcome, chance = rng.random(400) < np.where(easy, 0.9, 0.3), np.where(easy, 0.1, 0.5)
    one = np.zeros(400, dtype=int)
    values = [planned(outcome, rng.random(400) < chance, one, np.arange(400), chance).value for _ in range(300)]
    assert np.mean(values) == pytest.approx(outcome.mean(), abs=0.012)


def test_bad_input_is_refused() -> None:
    yes, one = np.ones(4, dtype=bool), np.zeros(4, dtype=int)
    with pytest.raises(InvalidValue, match="named: expected shape"):
        post_stratified(yes, yes[:3], one, one)
    with pytest.raises(InvalidValue, match="outcome: expected true or false"):
        post_stratified(one, yes, one, one)
    with pytest.raises(InvalidValue, match="named: expected true or false"):
        post_stratified(yes, one, one, one)
    with pytest.raises(InvalidValue, match="certain: expected shape"):
        post_stratified(yes, yes, one, one, certain=yes[:2])
    with pytest.raises(InvalidValue, match="chance: expected above 0"):
        planned(yes, yes, one, one, np.array([0.5, 0.5, 0.0, 0.5]))
    with pytest.raises(InvalidValue, match="chance: expected shape"):
        planned(yes, yes, one, one, np.ones(3))
    with pytest.raises(InvalidValue, match="checked: expected shape"):
        corrected_flicker(yes, yes[:3], yes, one)
    allowed = planned(yes, yes, one, np.arange(4), np.array([0.5, 0.5, 0.0, 0.5]), certain=np.arange(4) == 2)
    assert allowed.value == 1.0


def test_nothing_checked_and_nothing_flickers() -> None:
    flickers, none = np.arange(10) < 4, np.zeros(10, dtype=bool)
    found = corrected_flicker(flickers, none, none, np.arange(10))
    assert found.flicker.value == 0.4
    assert {(x.reason, x.method) for x in (found.changes, found.corrected, found.bound)} == {
        ("no flickering set was checked", "corrected, 0 of 4 flickering sets checked")
    }
    checked = corrected_flicker(flickers, np.arange(10) < 2, none, np.arange(10))
    assert checked.corrected.method == checked.bound.method == "corrected, 2 of 4 flickering sets checked"
    steady = corrected_flicker(none, flickers, none, np.arange(10))
    assert steady.flicker.value == steady.corrected.value == 0.0
    assert steady.bound.value == 1.0


@given(rows)
def test_all_checked_is_the_plain_share_without_changes(rows) -> None:
    flickers, changed, _, cluster, _, _ = columns(rows)
    found = corrected_flicker(flickers, np.ones(len(rows), dtype=bool), changed, cluster)
    want = proportion(flickers & ~changed, cluster)
    if found.corrected.value is not None:
        assert (found.corrected.value, found.corrected.low) == (want.value, want.low)
        assert found.bound.value == pytest.approx(1 - want.value)


@pytest.mark.parametrize(("per_video", "share"), [(1, 0.2), (4, 0.1), (4, 0.5)])
def test_planted_changes_of_the_object_are_covered(per_video: int, share: float) -> None:
    """Sets that change their object flicker even if the model is right; checked sets correct for this."""
    rng = np.random.default_rng([per_video, int(10 * share)])
    videos, draws, n = 400 // per_video, 300, 400
    cluster = np.repeat(np.arange(videos), per_video)
    fails = 0.3
    truth = fails * (1 - share)  # a set flickers without a change if the model fails on it
    covered = held = uncorrected = 0
    for _ in range(draws):
        changes = rng.random(n) < rng.beta(4 * share, 4 * (1 - share), videos)[cluster]
        wrong = rng.random(n) < fails
        flickers, right = wrong | changes, ~wrong
        found = corrected_flicker(flickers, rng.random(n) < 0.3, changes, cluster)
        covered += found.corrected.low <= truth <= found.corrected.high
        held += found.bound.high >= 1 - fails and found.bound.high >= right.mean() - 1e-12
        uncorrected += proportion(~flickers, cluster).high >= 1 - fails
    assert covered / draws >= 0.93
    assert held / draws >= 0.97
    assert uncorrected / draws < 0.9
