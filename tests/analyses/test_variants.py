"""A made-up dataset of every kind of study, scored, equals the definitions worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import plain_variants as plain
from strobe.analyses.classification import score
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.variants_view import overall
from strobe.core.answers import ClassAnswers
from strobe.core.builder import DatasetBuilder
from strobe.core.codec import decode, encode
from strobe.core.dataset import DatasetInfo
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import proportion
from strobe.store import dataset_folder as folder
from strobe.studies.variants.score import VariantPlan
from strobe.studies.variants.score_contrasts import contrasts

KINDS = list(plain.KINDS)
OPTIONS = ScoreOptions(replicates=40)
TARGETS = {"standard": "aa", "robust": "bb", "other": ""}
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def studies(draw, kind: str):
    """A dataset and what three models say of it: mostly right, at times nothing."""
    data = draw(plain.datasets(kind))
    models = []
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    for name in TARGETS:
        n = len(data.frames)
        right = np.array([data.labels_of(row)[0] for row in range(n)])
        label = np.where(rng.random(n) < draw(st.sampled_from([0.5, 0.9])), right, rng.integers(0, 3, n))
        seen = rng.random(n) < draw(st.sampled_from([0.9, 1.0]))
        models.append(ClassAnswers.from_labels(name, np.where(seen, label, -1), scored=seen))
    return data, models


def by_hand(data, predictions) -> plain.Plain:
    ids = data.frame_ids()
    label = dict(zip(ids, predictions.label.tolist(), strict=True))
    return plain.Plain(data, label, {one for one, seen in zip(ids, predictions.scored, strict=True) if seen})


def is_share(found: Estimate, pairs: list[tuple[bool, str]]) -> None:
    """The estimate is the share of these, with the interval of their sources."""
    assert found.n == len(pairs)
    if not pairs:
        assert found.value is None
        assert found.reason
        return
    right = np.array([one for one, _ in pairs])
    assert found.value == pytest.approx(sum(right.tolist()) / len(pairs), abs=1e-12)
    _, source = np.unique([source for _, source in pairs], return_inverse=True)
    want = proportion(right, source)
    assert (found.count, found.method) == (want.count, want.method)
    assert found.low == pytest.approx(want.low, abs=1e-9)
    assert found.high == pytest.approx(want.high, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@quick
@given(st.data())
def test_every_variant_of_every_model(kind: str, draw) -> None:
    data, models = draw.draw(studies(kind))
    plan = VariantPlan(data, OPTIONS)
    for predictions in models:
        hand = by_hand(data, predictions)
        scores = plan.score(plan.mark(predictions, weights=TARGETS[predictions.model]))
        assert [one.variant for one in scores] == [name for name in hand.variants if hand.of(name, scored=False)]
        for one in scores:
            variant = hand.variants[one.variant]
            assert one.n_sets == len(hand.of(one.variant))
            assert one.unscored_sets == len(hand.of(one.variant, scored=False)) - one.n_sets
            is_share(one.acc_orig, hand.orig(one.variant))
            assert [row.level for row in one.levels] == list(variant.levels)
            for number, row in enumerate(one.levels, start=1):
                is_share(row.at, hand.at(one.variant, number))
                is_share(row.upto, hand.upto(one.variant, number))
                is_share(row.given, hand.given(one.variant, number))
            assert one.is_target == (variant.target is not None and variant.target.name == predictions.model)
            searched = any(s["status"] != "complete" for s in hand.of(one.variant, scored=False))
            assert (one.reproduced is not None) == (searched and one.is_target)
            assert (one.fooled is not None) == (searched and not one.is_target)
            if searched:
                is_share(one.reproduced or one.fooled, hand.findings(one.variant, given=not one.is_target))
            assert (one.first_failure is None) == (not variant.ordered)
            if variant.ordered:
                ends = hand.failures(one.variant, is_target=one.is_target)
                assert one.first_failure.n == len(ends)
                assert one.first_failure.events == sum(failed for _, failed in ends)
                assert one.first_failure.median == plain.half(ends)
                for row in one.first_failure.survival:
                    assert row.alive.value == pytest.approx(float(plain.alive(ends, row.distance)), abs=1e-12)


@pytest.mark.parametrize("kind", plain.SEARCHED)
@quick
@given(st.data())
def test_searches_speak_for_themselves(kind: str, draw) -> None:
    data = draw.draw(plain.datasets(kind))
    hand = plain.Plain(data, dict.fromkeys(data.frame_ids(), 0), set())
    for one in VariantPlan(data, OPTIONS).searches():
        sets = hand.of(one.variant, scored=False)
        counts = {
            status: sum(s["status"] == status for s in sets)
            for status in ("found", "censored", "anchor_wrong", "failed")
        }
        assert counts == {name: getattr(one, name) for name in counts}
        assert one.n == len(sets)
        assert one.target == hand.variants[one.variant].target.name
        ends = hand.searched(one.variant)
        assert one.median.value == plain.half(ends)
        assert one.median.low is None or one.median.low <= one.median.value <= one.median.high
        for row in one.levels:
            reached = row.level * (1 + 1e-6)
            assert row.found == sum(found and end <= reached for end, found in ends)
            assert row.searched == sum(
                (found and end <= reached) or end * (1 + 1e-6) >= row.level for end, found in ends
            )
            want = plain.alive(ends, row.level)
            assert row.alive.value == (None if want is None else pytest.approx(float(want), abs=1e-12))
            if want is not None and row.searched == len(ends):  # nobody stopped short: the plain share
                assert row.alive.value == pytest.approx(1 - row.found / row.searched, abs=1e-12)


@pytest.mark.parametrize("kind", ["corruption", "ladder"])
@quick
@given(st.data())
def test_means_over_variants(kind: str, draw) -> None:
    data, models = draw.draw(studies(kind))
    plan = VariantPlan(data, OPTIONS)
    for predictions in models:
        hand = by_hand(data, predictions)
        found = plan.means(plan.mark(predictions))
        if kind == "ladder":  # one variant alone is ordered and no control
            assert found == ()
            continue
        present = [name for name in hand.variants if hand.of(name, scored=False)]
        assert [one.level for one in found] == (list(plain.SEVERITY) if len(present) > 1 else [])
        for number, one in enumerate(found, start=1):
            for estimate, pairs in ((one.at, hand.at), (one.upto, hand.upto)):
                shares = [sum(r for r, _ in p) / len(p) for name in present if (p := pairs(name, number))]
                assert estimate.n == len(shares)
                assert estimate.value == (pytest.approx(sum(shares) / len(shares), abs=1e-12) if shares else None)


@pytest.mark.parametrize("kind", KINDS)
@quick
@given(st.data())
def test_contrasts(kind: str, draw) -> None:
    data, models = draw.draw(studies(kind))
    plan = VariantPlan(data, OPTIONS)
    found = contrasts(plan, [plan.mark(one) for one in models])
    hands = {one.model: by_hand(data, one) for one in models}
    want = plain.differences(hands, data.info.combine)
    plains = [one for one in found if one.form == "difference"]
    assert {(one.of, one.a, one.b, one.held) for one in plains} == want.keys()
    for one in plains:
        level, gaps, n, only_a, only_b = want[one.of, one.a, one.b, one.held]
        assert (one.level, one.n, one.only_a, one.only_b) == (level, n, only_a, only_b)
        assert one.value.value == (pytest.approx(sum(gaps.values()) / n, abs=1e-12) if n else None)
        assert one.p == (pytest.approx(plain.flipped(gaps), abs=1e-9) if n else None)
        assert one.value.low is None or one.value.low <= one.value.high
        if one.value.low is not None:  # the interval is that of the corrected test: they cannot disagree
            assert (one.value.low <= 0 <= one.value.high) == (one.p_holm >= 0.05)
    hand = next(iter(hands.values()))
    for one in (one for one in found if one.form == "ratio"):
        pairs = plain.ratios(hand, one.a, one.b)
        assert one.n == len(pairs)
        if not pairs:
            assert one.value.value is None
            continue
        low, high = (plain.middle([pair[side] for pair in pairs]) for side in (1, 2))
        assert one.value.value == (pytest.approx(low) if low == high != float("inf") else None)
        signs: dict[str, int] = {}
        for source, _, _, sign in pairs:
            signs[source] = signs.get(source, 0) + sign
        assert one.p == pytest.approx(plain.flipped(signs), abs=1e-9)
    for kind_of in ("variants", "models", "targets"):
        family = [one for one in found if one.of == kind_of and one.p is not None]
        assert [one.p_holm for one in family] == pytest.approx(plain.holm([one.p for one in family]))
    if kind in plain.SEARCHED:
        targets = {(one.a.split("/")[0], one.b.split("/")[0]) for one in found if one.of == "targets"}
        assert all(a == b for a, b in targets)


@quick
@given(st.data())
def test_the_worst_over_corruptions(draw) -> None:
    """The view scored as any dataset is: an image is right at s if its anchor and all corruptions up to s are."""
    data, models = draw.draw(studies("corruption"))
    view = overall(data)
    assert view.frame_ids() == data.frame_ids()
    for predictions in models:
        hand = by_hand(data, predictions)
        groups: dict[str, list] = {}
        for one in hand.sets:
            groups.setdefault(one["group"], []).append(one)
        whole = [sets for sets in groups.values() if all(one["scored"] for one in sets)]
        if not whole:
            continue
        found = score(view, predictions, options=ScoreOptions(replicates=1, control_seeds=1))
        assert found.k == 3
        for point in found.curve:
            k, acc = (point.k, point.acc) if hasattr(point, "k") else point[:2]
            is_share(acc, [(all(hand.holds(one, k) for one in sets), sets[0]["source"]) for sets in whole])


@pytest.mark.parametrize("kind", ["attack", "generator", "ladder"])
@quick
@given(st.data())
def test_where_each_variant_stands_for_itself_the_whole_is_the_anchors(kind: str, draw) -> None:
    data, models = draw.draw(studies(kind))
    view = overall(data)
    assert view.info.k == 0
    assert sorted(view.sets.frame.tolist()) == sorted(set(data.sets.anchor_frame.tolist()))
    ids = data.frame_ids()
    for predictions in models:
        anchors = {one.anchor.id: one.anchor.video_id for one in data}
        seen = {ids[row] for row in np.flatnonzero(predictions.scored)}
        if not anchors.keys() & seen:
            continue
        right = dict(zip(ids, (predictions.label[row] in data.labels_of(row) for row in range(len(ids))), strict=True))
        found = score(view, predictions, options=ScoreOptions(replicates=1, control_seeds=1))
        is_share(found.acc_orig, [(right[frame], anchors[frame]) for frame in anchors if frame in seen])
        assert found.acc_pmk == found.acc_orig


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_through_the_folder_and_the_codec(kind: str, tmp_path_factory: pytest.TempPathFactory, draw) -> None:
    data, models = draw.draw(studies(kind))
    place = tmp_path_factory.mktemp("made") / "set"
    folder.write(data, place)
    back = folder.read(place)
    assert (back.digest(), back.frames_digest()) == (data.digest(), data.frames_digest())
    assert list(back) == list(data)
    assert list(back.variants) == list(data.variants)
    one, two = VariantPlan(data, OPTIONS), VariantPlan(back, OPTIONS)
    marks = [one.mark(predictions) for predictions in models]
    again = [two.mark(predictions) for predictions in models]
    records = (one.facts(), one.score(marks[0]), one.means(marks[0]), one.searches(), contrasts(one, marks))
    assert records == (two.facts(), two.score(again[0]), two.means(again[0]), two.searches(), contrasts(two, again))
    for part in records:
        for record in part:
            assert decode(type(record), encode(record)) == record


def test_a_control_is_outside_every_worst() -> None:
    made = DatasetBuilder()
    fog = plain.CORRUPTION[0]
    for variant in (fog, replace(plain.CORRUPTION[1], role="control")):
        made.variant(variant)
    for number in range(12):
        video = made.video(video_id=f"v{number}", name=f"v{number}", kind="photo")
        rows = [made.frame(video=video, index=i, key=f"{number}/{i}", labels=[0]) for i in range(7)]
        for place, name in enumerate(("fog", "noise")):
            members = [(rows[1 + 3 * place + i], i + 1.0) for i in range(3)]
            made.set(set_id=f"{number}/{name}", anchor=rows[0], members=members, variant=name, group=f"{number}")
    data = made.build(DatasetInfo(name="c", label_space=plain.SPACE, k=3, axis="severity", combine="worst"))
    view = overall(data)
    assert sorted(set(view.frames.index[view.sets.frame].tolist())) == [0, 1, 2, 3]
    wrong = np.where(np.isin(data.frames.index, (4, 5, 6)), 1, 0)
    found = score(view, ClassAnswers.from_labels("m", wrong), options=ScoreOptions(control_seeds=1))
    assert found.acc_pmk.value == 1
    plan = VariantPlan(data, OPTIONS)
    marks = plan.mark(ClassAnswers.from_labels("m", wrong))
    assert [one.levels[-1].upto.value for one in plan.score(marks)] == [1, 0]
    assert plan.means(marks) == ()
