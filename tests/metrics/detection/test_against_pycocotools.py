"""Every aggregate against pycocotools, to 1e-9, where boxes, scores and crowds are drawn to collide."""

import contextlib
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.answers import BoxAnswers
from strobe.metrics.detection.average import frame_ap, frame_class_ap, mean_over_classes
from strobe.metrics.detection.match import COCO_IOUS, match
from strobe.metrics.detection.tables import TruthTable
from strobe.metrics.detection.worst import class_ap, class_ap_without, worst_frames

AREAS = (None, (0.0, 9.0), (9.0, 25.0), (25.0, 1e10), (16.0, 16.0))


@st.composite
def scenes(draw):
    """A few frames with small boxes on a coarse grid, so that overlaps, scores and areas tie often."""
    n_frames, n_classes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    # Quarters of a pixel: exact in binary, so xyxy and xywh hold the same boxes.
    corner, side = st.integers(0, 24).map(lambda v: v / 4), st.integers(1, 24).map(lambda v: v / 4)
    box = st.tuples(corner, corner, side, side).map(lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3]))
    objects = draw(
        st.lists(
            st.tuples(st.integers(0, n_frames - 1), st.integers(0, n_classes - 1), box, st.booleans()), max_size=10
        )
    )
    crowds = draw(st.booleans())
    boxes = st.one_of(box, st.sampled_from([o[2] for o in objects])) if objects else box
    found = draw(
        st.lists(
            st.tuples(st.integers(0, n_frames - 1), st.integers(0, n_classes - 1), boxes, st.integers(0, 5)),
            max_size=25,
        )
    )
    truth = TruthTable.of(
        np.array([o[0] for o in objects], dtype=int),
        np.array([o[1] for o in objects], dtype=int),
        np.array([o[2] for o in objects]).reshape(-1, 4),
        crowd=np.array([o[3] and crowds for o in objects], dtype=bool),
        n_frames=n_frames,
        n_classes=n_classes,
    )
    detections = BoxAnswers.of(
        np.array([d[0] for d in found], dtype=int),
        np.array([d[1] for d in found], dtype=int),
        np.array([d[2] for d in found]).reshape(-1, 4),
        np.array([d[3] / 5 for d in found]),
        n_frames=n_frames,
        n_classes=n_classes,
    )
    return truth, detections


@settings(deadline=None, max_examples=150)
@given(
    scene=scenes(),
    iou=st.sampled_from([(0.5,), (0.25,), (0.75,), COCO_IOUS, (0.5, 1.0)]),
    max_dets=st.sampled_from([1, 2, 5, 100]),
    area_range=st.sampled_from(AREAS),
    use_cats=st.booleans(),
)
def test_class_ap_and_frame_ap(coco, scene, iou, max_dets, area_range, use_cats):
    truth, found = scene
    gt, dt = coco.objects(truth, found)
    asked = {"iou": iou, "max_dets": max_dets, "area_range": area_range or (0, 1e10), "use_cats": use_cats}
    if not use_cats:
        truth, found = truth.merged(), found.merged()
    matches = match(truth, found, iou=iou, max_dets=max_dets, area_range=area_range)
    every = np.arange(truth.n_frames)
    np.testing.assert_allclose(
        class_ap(truth, found, matches, every[:, None])[:, 0], coco.ap(gt, dt, **asked), atol=1e-9, rtol=0
    )
    alone = np.array([_mean(coco.ap(gt, dt, frames=[frame], **asked)) for frame in every])
    np.testing.assert_allclose(frame_class_ap(truth, found, matches), alone, atol=1e-9, rtol=0)
    if not use_cats:
        np.testing.assert_allclose(frame_ap(truth, found, matches), alone, atol=1e-9, rtol=0)


@settings(deadline=None, max_examples=60)
@given(scene=scenes(), max_dets=st.sampled_from([1, 3, 100]))
def test_pooled_frame_ap(coco, scene, max_dets):
    """Moving every class to its own far-off place and merging the classes makes pycocotools draw one pooled curve."""
    truth, found = scene
    matches = match(truth, found, max_dets=max_dets)
    kept = np.ones(len(found), dtype=bool)
    for frame in range(found.n_frames):
        for label in range(found.n_classes):
            kept[np.flatnonzero((found.frame == frame) & (found.label == label))[max_dets:]] = False

    def moved(xyxy, label):
        return xyxy + 1024.0 * label[:, None]

    far_truth = TruthTable.of(
        truth.frame, truth.label, moved(truth.xyxy, truth.label), crowd=truth.crowd,
        n_frames=truth.n_frames, n_classes=truth.n_classes,
    )  # fmt: skip
    far_found = BoxAnswers.of(
        found.frame[kept], found.label[kept], moved(found.xyxy, found.label)[kept], found.score[kept],
        n_frames=found.n_frames, n_classes=found.n_classes,
    )  # fmt: skip
    gt, dt = coco.objects(far_truth, far_found)
    expected = [_mean(coco.ap(gt, dt, use_cats=False, frames=[frame])) for frame in range(truth.n_frames)]
    np.testing.assert_allclose(frame_ap(truth, found, matches), expected, atol=1e-9, rtol=0)


def random_scene(rng, *, n_frames, n_classes, objects, detections):
    """A large scene without ties: floats anywhere, most detections near an object."""
    frame = rng.integers(0, n_frames, objects)
    label = rng.integers(0, n_classes, objects)
    corner = rng.uniform(0, 400, (objects, 2))
    truth_xyxy = np.concatenate([corner, corner + rng.uniform(8, 120, (objects, 2))], axis=1)
    target = rng.integers(0, objects, detections)
    near = truth_xyxy[target] + rng.normal(0, 8, (detections, 4))
    near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
    wrong = rng.random(detections) < 0.3
    truth = TruthTable.of(
        frame, label, truth_xyxy, crowd=rng.random(objects) < 0.05, n_frames=n_frames, n_classes=n_classes
    )
    found = BoxAnswers.of(
        np.where(rng.random(detections) < 0.9, frame[target], rng.integers(0, n_frames, detections)),
        np.where(wrong, rng.integers(0, n_classes, detections), label[target]),
        near,
        rng.random(detections),
        n_frames=n_frames,
        n_classes=n_classes,
    )
    return truth, found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("use_cats", [True, False])
def test_against_faster_coco_eval_on_a_large_scene(coco, use_cats):
    from faster_coco_eval import COCO as FastCOCO
    from faster_coco_eval import COCOeval_faster

    truth, found = random_scene(np.random.default_rng(7), n_frames=400, n_classes=12, objects=2500, detections=25_000)
    gt, dt = coco.objects(truth, found)
    with contextlib.redirect_stdout(io.StringIO()):
        fast_gt = FastCOCO(gt.dataset)
        fast_dt = fast_gt.loadRes(
            [{k: v for k, v in row.items() if k not in ("id", "iscrowd")} for row in dt.dataset["annotations"]]
        )
        run = COCOeval_faster(fast_gt, fast_dt, "bbox")
        run.params.maxDets = [1, 10, 100]
        run.params.useCats = int(use_cats)
        run.evaluate()
        run.accumulate()
    precision = run.eval["precision"][:, :, :, 0, -1]
    if not use_cats:
        truth, found = truth.merged(), found.merged()
    ours = class_ap(truth, found, match(truth, found, iou=COCO_IOUS), np.arange(400)[:, None])
    np.testing.assert_allclose(ours[:, 0], precision.mean(axis=(0, 1)), atol=1e-9, rtol=0)
    assert 0.1 < ours.mean() < 0.9


def test_without_a_video_equals_pycocotools_on_the_rest(coco):
    """Re-weighting is what pycocotools says of the data set without the video; a frame of two sets counts twice."""
    rng = np.random.default_rng(3)
    truth, found = random_scene(rng, n_frames=24, n_classes=4, objects=60, detections=400)
    owner, distance = np.repeat(np.arange(8), 3), np.tile([-1.0, 0.0, 1.0], 8)
    matches = match(truth, found)
    worst = worst_frames(frame_ap(truth, found, matches), owner, np.arange(24), distance, ks=(0, 1))
    chosen = worst.frame.copy()
    chosen[1] = chosen[0]
    video_of_set = np.arange(8) // 2
    ours = class_ap_without(truth, found, matches, chosen, video_of_set, interpolation="coco-101")
    for k in (0, 1):
        for video in range(4):
            rest = np.sort(chosen[video_of_set != video, k])
            copied = [_copy_frames(table, rest) for table in (truth, found)]
            np.testing.assert_allclose(ours[k, :, video], coco.ap(*coco.objects(*copied)), atol=1e-9, rtol=0)
    assert len(np.unique(np.round(mean_over_classes(ours), 12))) > 5


def test_ten_thousand_detections_in_one_frame(coco):
    truth, found = random_scene(np.random.default_rng(5), n_frames=1, n_classes=2, objects=40, detections=10_000)
    gt, dt = coco.objects(truth, found)
    for max_dets in (100, 10_000):
        ours = class_ap(truth, found, match(truth, found, max_dets=max_dets), np.zeros((1, 1), dtype=int))
        np.testing.assert_allclose(ours[:, 0], coco.ap(gt, dt, max_dets=max_dets), atol=1e-9, rtol=0)


def test_an_overlap_of_one_half_is_kept_in_float64_and_would_be_lost_in_float32():
    whole, half = np.array([[0.1, 0.0, 0.1 + 0.7, 1.0]]), np.array([[0.1, 0.0, 0.1 + 0.35, 1.0]])
    zero = np.zeros(1, dtype=int)

    def hits(a, b):
        truth = TruthTable.of(zero, zero, a, n_frames=1, n_classes=1)
        found = BoxAnswers.of(zero, zero, b, np.ones(1), n_frames=1, n_classes=1)
        assert found.xyxy.dtype == np.float64
        return len(match(truth, found)[0].found)

    assert hits(whole, half) == 1
    assert hits(whole.astype(np.float32), half.astype(np.float32)) == 0


def _copy_frames(table, frames):
    """The table with these frames, in order, some of them several times, under new numbers."""
    rows = [np.flatnonzero(table.frame == frame) for frame in frames]
    places = np.repeat(np.arange(len(frames)), [len(one) for one in rows])
    rows = np.concatenate(rows)
    shape = {"n_frames": len(frames), "n_classes": table.n_classes}
    if isinstance(table, TruthTable):
        return TruthTable.of(places, table.label[rows], table.xyxy[rows], crowd=table.crowd[rows], **shape)
    return BoxAnswers.of(places, table.label[rows], table.xyxy[rows], table.score[rows], **shape)


def _mean(ap):
    return ap[~np.isnan(ap)].mean() if (~np.isnan(ap)).any() else np.nan
