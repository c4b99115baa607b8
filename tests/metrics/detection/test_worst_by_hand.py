"""pm-k mAP, localization, ties, VOC and the ILSVRC-VID rule, worked by hand; and slow plain references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.answers import BoxAnswers
from strobe.core.errors import InvalidValue
from strobe.metrics.detection.average import frame_ap, frame_class_ap, mean_over_classes
from strobe.metrics.detection.match import box_iou, ilsvrc_vid_iou, match
from strobe.metrics.detection.tables import TruthTable
from strobe.metrics.detection.worst import (
    class_ap,
    class_ap_without,
    effective_of_class,
    videos_of_class,
    worst_frames,
)

A, B = (0.0, 0.0, 10.0, 10.0), (100.0, 0.0, 110.0, 10.0)
FAR = (500.0, 500.0, 510.0, 510.0)


def truth_of(rows, *, n_frames, n_classes=2, crowd=None):
    frame, label, box = zip(*rows, strict=True)
    crowd = None if crowd is None else np.array(crowd)
    return TruthTable.of(
        np.array(frame), np.array(label), np.array(box), n_frames=n_frames, n_classes=n_classes, crowd=crowd
    )


def found_of(rows, *, n_frames, n_classes=2):
    if not rows:
        none = np.zeros(0, dtype=int)
        return BoxAnswers.of(none, none, np.zeros((0, 4)), np.zeros(0), n_frames=n_frames, n_classes=n_classes)
    frame, label, box, score = zip(*rows, strict=True)
    return BoxAnswers.of(
        np.array(frame), np.array(label), np.array(box), np.array(score), n_frames=n_frames, n_classes=n_classes
    )


def test_pm_k_map_by_hand():
    """One set of three frames, one object of class 0 each; the last frame calls it class 1 (fox called sheep)."""
    truth = truth_of([(0, 0, A), (1, 0, A), (2, 0, A)], n_frames=3)
    found = found_of(
        [(0, 0, A, 0.9), (1, 0, FAR, 0.9), (1, 0, A, 0.8), (2, 1, A, 0.9)],
        n_frames=3,
    )
    matches = match(truth, found)
    ap = frame_ap(truth, found, matches)
    assert ap.tolist() == [1.0, pytest.approx(0.5), 0.0]
    sets, frames, distance = np.zeros(3, int), np.arange(3), np.array([0.0, 1.0, 2.0])
    worst = worst_frames(ap, sets, frames, distance, ks=(0, 1, 2))
    assert worst.frame.tolist() == [[0, 1, 2]]
    np.testing.assert_allclose(mean_over_classes(class_ap(truth, found, matches, worst.frame)), [1.0, 0.5, 0.0])
    # Localization: the box is right on the last frame, so the worst one is the middle frame.
    merged = truth.merged(), found.merged()
    localized = match(*merged)
    ap = frame_ap(*merged, localized)
    assert ap.tolist() == [1.0, pytest.approx(0.5), 1.0]
    worst = worst_frames(ap, sets, frames, distance, ks=(0, 1, 2))
    assert worst.frame.tolist() == [[0, 1, 1]]


def test_a_frame_whose_class_is_mistaken_scores_zero_pooled():
    """The reason for the pooled curve: a mean over present classes never sees the sheep that is not there."""
    truth = truth_of([(0, 0, A), (0, 1, B)], n_frames=1)
    found = found_of([(0, 0, FAR, 0.99), (0, 0, A, 0.9), (0, 1, B, 0.8)], n_frames=1)
    matches = match(truth, found)
    # Pooled: hits at ranks 2 and 3, precision 1/2 and 2/3, the envelope is 2/3 throughout.
    assert frame_ap(truth, found, matches)[0] == pytest.approx(2 / 3)
    assert frame_class_ap(truth, found, matches)[0] == pytest.approx((1 / 2 + 1) / 2)


def test_ties_go_to_the_nearest_then_the_earlier_frame():
    ap = np.array([0.5, 0.2, 0.2, 0.2 + 4e-10, 0.1, np.nan])
    distance = np.array([0.0, 2.0, -2.0, 1.0, 3.0, -3.0])
    worst = worst_frames(ap, np.zeros(6, int), np.arange(6), distance, ks=(0, 1, 2, 3))
    # At 1 the tie is not yet one; at 2 all three tie after rounding and the nearest stays; at 3 a lower one comes.
    assert worst.frame.tolist() == [[0, 3, 3, 4]]
    ap[3] = 0.3
    worst = worst_frames(ap, np.zeros(6, int), np.arange(6), distance, ks=(2,))
    assert worst.frame.tolist() == [[2]]


def test_undefined_frames_are_never_chosen_and_all_undefined_keeps_the_anchor():
    ap = np.array([np.nan, 0.9, np.nan, np.nan])
    worst = worst_frames(ap, np.array([0, 0, 1, 1]), np.arange(4), np.array([0.0, 1.0, 0.0, -1.0]), ks=(0, 1))
    assert worst.frame.tolist() == [[0, 1], [2, 2]]
    assert worst.undefined.tolist() == [2, 1]


def test_crowd_only_frame_is_undefined_and_objects_without_detections_are_zero():
    truth = truth_of([(0, 0, A), (1, 0, A)], n_frames=3, crowd=[True, False])
    ap = frame_ap(truth, found_of([], n_frames=3), match(truth, found_of([], n_frames=3)))
    assert np.isnan(ap[[0, 2]]).all()
    assert ap[1] == 0


def test_pm_k_map_may_rise_above_map():
    """Replacing frames changes how scores rank between sets: pm-k mAP is not bounded by mAP, and is not clipped."""
    truth = truth_of([(0, 0, A), (1, 0, A), (1, 0, B), (2, 0, A)], n_frames=3, n_classes=1)
    found = found_of(
        [
            (0, 0, A, 0.2),  # set 0, anchor: AP 1, but scored below every false positive of the other set
            (1, 0, FAR, 0.995), (1, 0, A, 0.99), (1, 0, B, 0.98),  # its member: AP 2/3, with high scores
            (2, 0, A, 0.5), *((2, 0, FAR, 0.3 + i / 100) for i in range(8)),
        ],
        n_frames=3,
        n_classes=1,
    )  # fmt: skip
    matches = match(truth, found)
    ap = frame_ap(truth, found, matches)
    assert ap.tolist() == [1.0, pytest.approx(2 / 3), 1.0]
    worst = worst_frames(ap, np.array([0, 0, 1]), np.array([0, 1, 2]), np.array([0.0, 1.0, 0.0]), ks=(0, 1))
    before, after = class_ap(truth, found, matches, worst.frame)[0]
    assert before == pytest.approx((51 + 50 * 2 / 10) / 101)
    assert after == pytest.approx(3 / 4)
    assert after > before


def test_voc_all_points_is_the_area_under_the_envelope():
    truth = truth_of([(0, 0, A), (0, 0, B), (1, 0, A)], n_frames=2, n_classes=1)
    found = found_of([(0, 0, A, 0.9), (0, 0, FAR, 0.8), (0, 0, B, 0.7)], n_frames=2, n_classes=1)
    matches = match(truth, found)
    every = np.array([[0], [1]])
    # Recall 1/3 at precision 1, 2/3 at 2/3, and the third object is never found.
    expected = 1 / 3 * 1 + 1 / 3 * 2 / 3
    assert class_ap(truth, found, matches, every, interpolation="voc-all-points")[0, 0] == pytest.approx(expected)
    assert frame_ap(truth, found, matches, interpolation="voc-all-points").tolist() == [pytest.approx(5 / 6), 0.0]


def test_ilsvrc_vid_rule_is_kinder_to_small_objects():
    small, loose = (0.0, 0.0, 10.0, 10.0), (0.0, 0.0, 10.0, 30.0)  # IoU 1/3; the rule asks 100/400 = 0.25
    truth, found = truth_of([(0, 0, small)], n_frames=1), found_of([(0, 0, loose, 0.9)], n_frames=1)
    assert len(match(truth, found)[0].found) == 0
    assert len(match(truth, found, iou="ilsvrc-vid")[0].found) == 1
    assert ilsvrc_vid_iou(np.array([small, (0.0, 0.0, 300.0, 300.0)])).tolist() == [0.25, 0.5]


def test_a_frame_chosen_by_two_sets_counts_twice():
    truth = truth_of([(0, 0, A), (1, 0, A)], n_frames=2, n_classes=1)
    found = found_of([(0, 0, A, 0.9)], n_frames=2, n_classes=1)
    matches = match(truth, found)
    twice = class_ap(truth, found, matches, np.array([[0], [0], [1]]))[0, 0]
    assert twice == pytest.approx(67 / 101)  # two of three objects found, at precision 1


def test_without_a_video_classes_it_alone_shows_are_skipped():
    truth = truth_of([(0, 0, A), (1, 1, A)], n_frames=2)
    found = found_of([(0, 0, A, 0.9)], n_frames=2)
    matches = match(truth, found)
    out = class_ap_without(truth, found, matches, np.array([[0], [1]]), np.array([0, 1]))
    assert mean_over_classes(out).tolist() == [[0.0, 1.0]]
    assert videos_of_class(truth, matches[0], np.array([[0], [1]]), np.array([0, 0]))[:2, 0].tolist() == [1, 1]


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_worst_frames_against_a_plain_loop(data):
    n_sets = data.draw(st.integers(1, 4))
    rows = []
    for s in range(n_sets):
        offsets = data.draw(st.lists(st.integers(-4, 4).filter(bool), unique=True, max_size=6))
        rows += [(s, float(d)) for d in [0, *offsets]]
    rows = data.draw(st.permutations(rows))
    values = data.draw(
        st.lists(st.sampled_from([0.0, 0.25, 0.25 + 3e-10, 0.5, 1.0, np.nan]), min_size=len(rows), max_size=len(rows))
    )
    ap = np.array(values)
    set_of_row, distance = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    worst = worst_frames(ap, set_of_row, np.arange(len(rows)), distance, ks=range(5))
    for s in range(n_sets):
        for k in range(5):
            mine = [i for i in range(len(rows)) if rows[i][0] == s and abs(rows[i][1]) <= k]
            defined = [i for i in mine if not np.isnan(values[i])]
            anchor = next(i for i in mine if rows[i][1] == 0)
            best = min(defined, key=lambda i: (round(values[i], 9), abs(rows[i][1]), rows[i][1]), default=anchor)
            assert worst.frame[s, k] == best
    chosen = np.where(np.isnan(worst.ap), np.inf, np.round(worst.ap, 9))
    assert (chosen[:, 1:] <= chosen[:, :-1]).all()  # the chosen frame's own AP never rises


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_order_of_rows_does_not_matter_without_ties(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    frame, label = rng.integers(0, 4, n), rng.integers(0, 3, n)
    corner = rng.uniform(0, 20, (n, 2))
    xyxy = np.concatenate([corner, corner + rng.uniform(1, 20, (n, 2))], axis=1)
    score = rng.permutation(n) / n
    truth = TruthTable.of(frame[:10], label[:10], xyxy[:10] + 0.5, n_frames=4, n_classes=3)
    tables = [
        BoxAnswers.of(frame[order], label[order], xyxy[order], score[order], n_frames=4, n_classes=3)
        for order in (np.arange(n), rng.permutation(n))
    ]
    assert (tables[0].xyxy == tables[1].xyxy).all()
    first, second = (frame_ap(truth, table, match(truth, table)) for table in tables)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("n_rows", [5, 300])
def test_table_order_breaks_ties_by_label_then_input(n_rows):
    """Both ways of sorting (short rows of a matrix, long frames alone) agree with np.lexsort."""
    rng = np.random.default_rng(n_rows)
    frame = np.sort(rng.integers(0, 3, n_rows))
    label, score = rng.integers(0, 3, n_rows), rng.integers(0, 3, n_rows) / 2
    xyxy = np.tile(np.arange(n_rows, dtype=float)[:, None], (1, 4)) + np.array([0, 0, 1, 1])
    table = BoxAnswers.of(frame, label, xyxy, score, n_frames=3, n_classes=3)
    assert table.xyxy[:, 0].tolist() == np.lexsort((label, -score, frame)).tolist()


def test_boxes_that_do_not_overlap_or_are_inside_out_have_no_overlap():
    a = np.array([[0.0, 0.0, 1.0, 1.0], [5.0, 5.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    b = np.array([[2.0, 2.0, 3.0, 3.0], [0.0, 0.0, 9.0, 9.0], [0.0, 0.0, 0.0, 0.0]])
    assert box_iou(a, b).tolist() == [0.0, 0.0, 0.0]


def test_bad_tables_are_refused():
    one, box = np.zeros(1, dtype=int), np.array([A])
    with pytest.raises(InvalidValue, match="label"):
        TruthTable.of(one, one + 5, box, n_frames=1, n_classes=2)
    with pytest.raises(InvalidValue, match="finite"):
        BoxAnswers.of(one, one, box, np.array([np.nan]), n_frames=1, n_classes=2)
    with pytest.raises(InvalidValue, match="answered"):
        BoxAnswers.of(one, one, box, np.ones(1), n_frames=1, n_classes=2, scored=np.zeros(1, dtype=bool))
    truth = TruthTable.of(one, one, box, n_frames=1, n_classes=2)
    with pytest.raises(InvalidValue, match="same frames"):
        match(truth, found_of([], n_frames=2))
    with pytest.raises(InvalidValue, match="iou"):
        match(truth, found_of([], n_frames=1), iou=(1.5,))
    with pytest.raises(InvalidValue, match="iou"):
        match(truth, found_of([], n_frames=1), iou=())


def test_few_boxes_in_many_frames_have_the_ap_of_the_same_boxes_in_few():
    """Where a table of all frames and classes would be large, groups are looked up instead."""
    rows = [(0, 0, A), (0, 1, B), (1, 0, A), (2, 1, B), (2, 1, A)]
    boxes = [(0, 0, A, 0.9), (0, 0, FAR, 0.95), (0, 1, B, 0.3), (1, 1, A, 0.9), (2, 1, FAR, 0.9), (2, 1, B, 0.8)]
    spread = np.array([7, 900, 2999])
    few = truth_of(rows, n_frames=3), found_of(boxes, n_frames=3)
    many = (
        truth_of([(spread[f], *rest) for f, *rest in rows], n_frames=3000),
        found_of([(spread[f], *rest) for f, *rest in boxes], n_frames=3000),
    )
    dense, sparse = (frame_class_ap(*both, match(*both)) for both in (few, many))
    assert sparse[spread].tolist() == dense.tolist()
    assert np.isnan(np.delete(sparse, spread)).all()
    nothing = many[0], found_of([], n_frames=3000)
    assert frame_class_ap(*nothing, match(*nothing))[spread].tolist() == [0.0, 0.0, 0.0]


def test_worst_frames_of_no_set_are_refused():
    none = np.zeros(0, dtype=int)
    with pytest.raises(InvalidValue, match="at least one row"):
        worst_frames(np.ones(3), none, none, np.zeros(0), ks=(0,))


def test_videos_of_a_class_and_the_curve_without_each_video():
    """Three videos: two sets of the first, one of each other; the second class is in the last video alone."""
    truth = truth_of([(0, 0, A), (1, 0, A), (2, 0, A), (3, 0, A), (3, 1, B), (4, 0, A)], n_frames=5)
    found = found_of([(0, 0, A, 0.9), (1, 0, FAR, 0.8), (2, 0, A, 0.7), (3, 0, A, 0.6), (4, 0, FAR, 0.5)], n_frames=5)
    matches = match(truth, found)
    chosen = np.array([[0, 0, 0], [1, 1, 1], [2, 2, 4], [3, 3, 3]])  # the second column repeats the first
    video = np.array([0, 0, 1, 2])
    assert videos_of_class(truth, matches[0], chosen, video).tolist() == [[3, 3, 3], [1, 1, 1]]
    effective = effective_of_class(truth, matches[0], chosen, video)
    assert effective == pytest.approx(np.array([[16 / 6] * 3, [1.0] * 3]))
    without = class_ap_without(truth, found, matches, chosen, video)
    for k in range(3):
        for left_out in range(3):
            kept = chosen[video != left_out][:, [k]]
            one = class_ap(truth, found, matches, kept, interpolation="voc-all-points")[:, 0]
            assert without[k, :, left_out] == pytest.approx(one, nan_ok=True)
    assert not np.allclose(without[1, 0], without[2, 0])


def test_many_detections_of_one_frame_keep_their_order():
    """Hits and misses of two classes alternate, so an unstable sort by class would change the ranks."""
    truth = truth_of([(0, place % 2, (20.0 * place, 0.0, 20.0 * place + 10, 10.0)) for place in range(40)], n_frames=1)
    rows = [
        (0, place % 2, (20.0 * place, 0.0 if place % 3 else 500.0, 20.0 * place + 10, 10.0 if place % 3 else 510.0))
        for place in range(40)
    ]
    found = found_of([(*row, 1 - place / 100) for place, row in enumerate(rows)], n_frames=1)
    expected = []
    for label in (0, 1):
        hits = [place % 3 > 0 for place in range(label, 40, 2)]
        ranks = [rank for rank, hit in enumerate(hits, start=1) if hit]
        precision = [n / rank for n, rank in enumerate(ranks, start=1)]
        expected.append(sum(max(precision[place:]) for place in range(len(precision))) / 20)
    ap = frame_class_ap(truth, found, match(truth, found, max_dets=100), interpolation="voc-all-points")
    assert ap.tolist() == [pytest.approx(np.mean(expected))]


def test_blocks_of_videos_give_the_same_values(monkeypatch):
    rows = [(frame, frame % 2, A) for frame in range(7)]
    truth = truth_of(rows, n_frames=7)
    found = found_of(
        [(frame, label, A if frame % 3 else FAR, 0.9 - frame / 20) for frame, label, _ in rows], n_frames=7
    )
    arguments = (truth, found, match(truth, found), np.arange(7)[:, None], np.arange(7))
    whole = class_ap_without(*arguments)
    monkeypatch.setattr("strobe.metrics.detection.worst._VIDEOS_AT_ONCE", 3)
    np.testing.assert_array_equal(class_ap_without(*arguments), whole)


def test_the_number_of_rows_is_reported_if_there_is_no_set():
    with pytest.raises(InvalidValue, match="at least one row, got 0"):
        worst_frames(np.zeros(1), np.zeros(0, int), np.zeros(0, int), np.zeros(0), ks=(0,))


def test_more_classes_than_16_bits_hold():
    n_classes, labels = 40_000, (5, 33_000, 39_999)
    truth = truth_of([(0, label, A) for label in labels], n_frames=1, n_classes=n_classes)
    found = found_of([(0, label, A, 0.9) for label in labels], n_frames=1, n_classes=n_classes)
    ap = class_ap(truth, found, match(truth, found), np.zeros((1, 1), int))
    assert ap[list(labels), 0].tolist() == [1.0, 1.0, 1.0]


def test_the_limit_of_detections_holds_for_each_frame_and_class():
    found = found_of([(0, 1, A, 0.9), (0, 1, B, 0.8), (2, 0, A, 0.9), (2, 0, B, 0.8)], n_frames=3)
    truth = truth_of([(0, 1, A), (2, 0, A)], n_frames=3)
    (one,) = match(truth, found, max_dets=1)
    assert one.found.tolist() == [0, 2]
    assert one.counts.tolist() == [True, False, True, False]


def test_overlaps_in_any_order_and_up_to_rounding():
    truth = truth_of([(0, 0, A)], n_frames=1)
    near = found_of([(0, 0, (0.0, 0.0, 10.0, 8.0), 0.9)], n_frames=1)
    assert [len(one.found) for one in match(truth, near, iou=(0.9, 0.5))] == [0, 1]
    almost = found_of([(0, 0, (0.0, 0.0, 10.0, 10.0 + 5e-10), 0.9)], n_frames=1)
    assert [len(one.found) for one in match(truth, almost, iou=(1.0,))] == [1]


def test_no_frame_has_no_match():
    none = np.zeros(0, dtype=int)
    truth = TruthTable.of(none, none, np.zeros((0, 4)), n_frames=0, n_classes=2)
    (one,) = match(truth, found_of([], n_frames=0))
    assert (len(one.found), len(one.object), len(one.wanted)) == (0, 0, 0)


def test_a_wrong_box_with_the_score_of_the_last_hit_comes_after_it_in_a_later_frame():
    chosen = np.arange(3)[:, None]
    for order, ap in (((0, 1, 2), 1.0), ((0, 2, 1), 51 / 101 + 50 / 101 * 2 / 3)):
        hit, tied, wrong = order
        truth = truth_of([(hit, 0, A), (tied, 0, A)], n_frames=3)
        found = found_of([(hit, 0, A, 0.9), (tied, 0, A, 0.5), (wrong, 0, FAR, 0.5)], n_frames=3)
        assert class_ap(truth, found, match(truth, found), chosen)[0, 0] == pytest.approx(ap)


def test_a_wrong_box_outside_the_area_range_does_not_count():
    truth = truth_of([(0, 0, A)], n_frames=1)
    large = (500.0, 500.0, 600.0, 600.0)
    found = found_of([(0, 0, large, 0.9), (0, 0, A, 0.8)], n_frames=1)
    assert frame_ap(truth, found, match(truth, found, area_range=(0.0, 100.0))).tolist() == [1.0]
    assert frame_ap(truth, found, match(truth, found, area_range=(0.0, 10_000.0))).tolist() == [0.5]


def test_the_area_of_an_object_is_that_of_its_box():
    truth = truth_of([(0, 0, A), (0, 1, (100.0, 50.0, 120.0, 53.0))], n_frames=1)
    assert truth.area.tolist() == [100.0, 60.0]


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_blocks_of_frames_change_nothing(monkeypatch, at_once):
    rng = np.random.default_rng(at_once)
    rows = [(frame, int(rng.integers(2)), A) for frame in (0, 0, 2, 3)]
    truth = truth_of(rows, n_frames=5)
    found = found_of([(*row, 0.9) for row in rows] + [(2, 0, FAR, 0.8), (2, 1, A, 0.7)], n_frames=5)
    (whole,) = match(truth, found)
    monkeypatch.setattr("strobe.metrics.detection.match._PAIRS_AT_ONCE", at_once)
    (parts,) = match(truth, found)
    assert (parts.found.tolist(), parts.object.tolist()) == (whole.found.tolist(), whole.object.tolist())


def test_without_a_hit_every_class_of_a_frame_has_an_ap_of_zero():
    truth = truth_of([(0, 0, A), (0, 1, B)], n_frames=4000)
    found = found_of([(0, 0, FAR, 0.9)], n_frames=4000)  # so many groups that they are searched
    ap = frame_class_ap(truth, found, match(truth, found))
    assert ap[0] == 0.0
    assert np.isnan(ap[1:]).all()
