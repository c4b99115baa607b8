"""The score of a detector on data small enough to work by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest

from strobe.analyses.detection import score
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import State
from strobe.core.codec import encode
from strobe.core.errors import StrobeError
from strobe.metrics.detection.match import COCO_IOUS
from strobe.studies.detection.records import DetectionOptions

# With k = 2 and five frames a video, frame 5·v + 2 is the anchor of video v.


def right_by(box, pixels):
    """The box moved to the right."""
    return (box[0] + pixels, box[1], box[2] + pixels, box[3])


def test_a_perfect_detector_does_not_drop(zoo):
    dataset = zoo.dataset()
    found = score(dataset, zoo.table(dataset, zoo.perfect(dataset)), model="perfect")
    data = json.loads(json.dumps(encode(found), allow_nan=False))
    assert data["map_orig"]["value"] == data["map_pmk"]["value"] == 1.0
    assert data["drop"]["value"] == 0.0
    assert [point["k"] for point in data["curve"]] == [0, 1, 2]
    assert data["errors"]["failing"] == 0
    assert data["as_classifier"]["acc_pmk"]["count"] == data["as_classifier"]["acc_pmk"]["n"] == 4
    assert data["as_classifier"]["coverage"]["value"] == 1.0
    assert data["temporal"]["flicker"]["value"] == 0.0
    assert data["temporal"]["box_jitter"]["value"] == pytest.approx(0.0, abs=1e-12)
    assert data["unscored"] == {"frames": 0, "sets": 0, "undefined_sets": 0}
    assert data["settings"]["iou"] == [0.5]


def test_a_fox_called_sheep_is_a_classification_error_and_no_localization_drop(zoo):
    dataset = zoo.dataset()
    answers = zoo.perfect(dataset)
    answers[3] = [(1, answers[3][0][1], 0.9)]  # video 0 (fox), one frame after its anchor
    found = score(dataset, zoo.table(dataset, answers), model="m")
    data = encode(found)
    # Foxes are videos 0 and 3: one of two is found at precision 1. Sheep (video 1): its hit ties with the wrong one
    # at 0.9 and the earlier frame comes first, so precision is 1/2. Birds: 1.
    assert data["map_orig"]["value"] == 1.0
    assert data["map_pmk"]["value"] == pytest.approx((51 / 101 + 1 / 2 + 1) / 3)
    assert data["curve"][1]["map"]["value"] == data["map_pmk"]["value"]
    assert data["localization"]["map_pmk"]["value"] == 1.0
    assert data["errors"]["classification"] == data["errors"]["failing"] == 1
    assert data["as_classifier"]["acc_pmk"]["count"] == 3
    chosen = data["chosen_frames"][0]
    assert chosen == {
        "set": "s0",
        "frame": 3,
        "distance": 1.0,
        "ap_orig": 1.0,
        "ap_worst": 0.0,
        "cause": "classification",
    }
    per_class = {row["name"]: row for row in data["per_class"]}
    assert per_class["fox"]["drop"]["value"] == pytest.approx(1 - 51 / 101)
    assert per_class["bird"]["drop"]["value"] == 0.0
    assert per_class["fox"]["small"] is True


def test_every_kind_of_error_is_named(zoo):
    dataset = zoo.dataset(n_videos=6)
    answers = zoo.perfect(dataset)

    def spoil(video, change):
        frame = 5 * video + 3
        label, box, _ = answers[frame][0]
        answers[frame] = change(label, np.array(box))

    shifted = np.array([25.0, 0.0, 25.0, 0.0])  # IoU 15/65 with a box 40 wide
    far = np.array([120.0, 70.0, 160.0, 95.0])
    spoil(0, lambda label, box: [(label, box + shifted, 0.9)])
    spoil(1, lambda label, box: [((label + 1) % 3, box, 0.9)])
    spoil(2, lambda label, box: [((label + 1) % 3, box + shifted, 0.95), (label, box, 0.8)])
    spoil(3, lambda label, box: [])
    spoil(4, lambda label, box: [(label, far, 0.95), (label, box, 0.8)])
    found = score(dataset, zoo.table(dataset, answers), model="m")
    assert [row["cause"] for row in encode(found)["chosen_frames"]] == [
        "localization", "classification", "both", "missed", "background", None,
    ]  # fmt: skip
    assert {**encode(found.errors), "present": None} == {
        "failing": 5, "classification": 1, "localization": 1, "both": 1, "missed": 1, "duplicate": 0, "background": 1,
        "unexplained": 0, "present": None,
    }  # fmt: skip


def test_a_duplicate_before_the_second_object_is_named(zoo):
    """Two detections on one object, then the second object: only the duplicate is in the way."""
    dataset = zoo.dataset(n_videos=2)
    boxes = dataset.boxes
    answers = zoo.perfect(dataset)
    second = (120.0, 10.0, 160.0, 60.0)
    n = len(dataset.frames)
    both = type(boxes)(
        frame=np.tile(boxes.frame, 2),
        label=np.tile(boxes.label, 2),
        xyxy=np.concatenate([boxes.xyxy, np.tile(second, (n, 1))]),
        track=np.repeat([0, 1], n),
        crowd=np.zeros(2 * n, dtype=bool),
    )
    dataset = type(dataset)(**{**{f: getattr(dataset, f) for f in dataset.__dataclass_fields__}, "boxes": both})
    for frame, found in answers.items():
        found.append((found[0][0], second, 0.5))
        if frame == 3:
            found.append((found[0][0], right_by(found[0][1], 1.0), 0.7))
    result = score(dataset, zoo.table(dataset, answers), model="m")
    assert result.errors.duplicate == result.errors.failing == 1
    assert result.temporal.n_tracks == 4


def test_tracks_flicker_jitter_and_swing_by_hand(zoo):
    dataset = zoo.dataset(n_videos=2)
    answers = zoo.perfect(dataset)
    answers[1] = []  # video 0: found, lost, found, found, found
    label, box, _ = answers[8][0]  # video 1: one box of five is half a width off, and less sure
    answers[8] = [(label, right_by(box, 8.0), 0.6)]
    data = encode(score(dataset, zoo.table(dataset, answers), model="m"))["temporal"]
    assert data["n_tracks"] == 2
    assert (data["flicker"]["count"], data["flicker"]["n"]) == (1, 2)
    assert data["found_lost_rate"]["value"] == pytest.approx((2 / 4 + 0) / 2)
    # Two of video 1's four neighbouring pairs differ by 8 of 40 pixels: IoU 32/48. Video 0 has two still pairs.
    assert data["box_jitter"]["value"] == pytest.approx(((1 - 32 / 48) * 2 / 4 + 0) / 2)
    assert data["score_swing"]["value"] == pytest.approx((0 + 0.3) / 2)


def test_no_tracks_and_no_box_at_all(zoo):
    dataset = zoo.dataset(tracks=False)
    answers = zoo.perfect(dataset)
    answers[2] = []  # the anchor of video 0
    data = encode(score(dataset, zoo.table(dataset, answers), model="m"))
    assert "track" in data["temporal"]["reason"]
    assert data["as_classifier"]["acc_orig"]["count"] == 3
    assert (data["as_classifier"]["coverage"]["count"], data["as_classifier"]["coverage"]["n"]) == (19, 20)


def test_missing_frames_are_unscored_and_never_wrong(zoo):
    dataset = zoo.dataset()
    answers = zoo.perfect(dataset)
    del answers[0]  # two frames before the anchor of video 0
    found = score(dataset, zoo.table(dataset, answers), model="m")
    assert encode(found.unscored) == {"frames": 1, "sets": 1, "undefined_sets": 0}
    assert found.map_pmk.value == 1.0
    assert found.map_pmk.n == 3
    assert [row.set for row in found.chosen_frames] == ["s1", "s2", "s3"]
    near = score(dataset, zoo.table(dataset, answers), model="m", how=ScoreOptions(k=1))
    assert near.unscored.sets == 0  # the missing frame is beyond k = 1
    with pytest.raises(StrobeError, match="none of the 4 sets"):
        score(dataset, zoo.table(dataset, {0: []}), model="m")


def test_datasets_without_boxes_on_members_are_refused(zoo):
    with_boxes = zoo.dataset()
    found = zoo.table(with_boxes, zoo.perfect(with_boxes))
    with pytest.raises(StrobeError, match="no boxes"):
        score(zoo.dataset(boxes=False), found, model="m")
    with pytest.raises(StrobeError, match="anchor's labels"):
        score(zoo.dataset(label_source="anchor"), found, model="m")
    boxes = with_boxes.boxes
    only = boxes.frame % 5 == 2
    bare = type(boxes)(**{name: getattr(boxes, name)[only] for name in boxes.__slots__})
    fields = {name: getattr(with_boxes, name) for name in with_boxes.__dataclass_fields__}
    with pytest.raises(StrobeError, match="only the anchors"):
        score(type(with_boxes)(**{**fields, "boxes": bare}), found, model="m")


def test_options_change_what_they_say(zoo):
    dataset = zoo.dataset()
    answers = zoo.perfect(dataset)
    for frame, found in answers.items():
        label, box, sure = found[0]
        answers[frame] = [(label, right_by(box, 4.0), sure)]  # IoU 36/44 = 0.818
    detections = zoo.table(dataset, answers)

    def value(**options):
        return score(dataset, detections, model="m", options=DetectionOptions(**options)).map_orig.value

    assert value() == 1.0
    assert value(iou=(0.9,)) == 0.0
    assert value(iou=COCO_IOUS) == pytest.approx(0.7)  # 0.5 … 0.8 of ten
    assert value(interpolation="voc-all-points") == 1.0
    assert value(iou="ilsvrc-vid") == 1.0
    assert value(area_range=(0.0, 100.0)) is None  # every object is larger: nothing is to be found


def test_intervals_of_map_need_no_draws_and_hold_their_value(zoo):
    dataset = zoo.dataset(n_videos=60)
    answers = zoo.perfect(dataset)
    for video in range(60):
        for frame in range(0, 5 if video % 5 else 0, 1 + video % 5):
            answers[5 * video + frame] = [] if video % 4 == 0 else [(1, answers[5 * video + frame][0][1], 0.95)]
    detections = zoo.table(dataset, answers)
    first, other = (
        score(dataset, detections, model="m", how=how)
        for how in (ScoreOptions(seed=1), ScoreOptions(seed=2, bootstrap=False))
    )
    assert (first.map_orig, first.map_pmk, first.drop, first.curve) == (
        other.map_orig, other.map_pmk, other.drop, other.curve,
    )  # fmt: skip
    assert first.map_pmk.method == "video jackknife"
    assert first.map_pmk.reason is None
    classes = [part for row in first.per_class for part in (row.ap_orig, row.ap_pmk, row.drop)]
    for part in (first.map_orig, first.map_pmk, first.drop, *classes):
        assert part.low < part.value < part.high


@pytest.mark.parametrize(("n_videos", "says"), [(1, "only 1 video"), (9, "only 9 video"), (12, "no single video")])
def test_no_interval_of_map_without_a_reason(zoo, n_videos, says):
    dataset = zoo.dataset(n_videos=n_videos)
    found = score(dataset, zoo.table(dataset, zoo.perfect(dataset)), model="m")
    for part in (found.map_orig, found.drop, found.localization.map_pmk):
        assert part.low is None
        assert says in part.reason


def test_sets_without_an_object_are_said(zoo):
    dataset = zoo.dataset(n_videos=12)
    found = zoo.table(dataset, zoo.perfect(dataset))
    bare = dataset.frames.video[dataset.boxes.frame] == 0
    boxes = {name: getattr(dataset.boxes, name)[~bare] for name in dataset.boxes.__slots__}
    notes = score(replace(dataset, boxes=type(dataset.boxes)(**boxes)), found, model="m").notes
    assert notes[0] == "1 of 12 sets show no object in any frame: they can only add false positives"
    assert "no object" not in str(score(dataset, found, model="m").notes)


@pytest.mark.parametrize("box", [(10.0, 10.0, 10.0, 20.0), (30.0, 10.0, 20.0, 20.0), (0.0, 0.0, np.nan, 5.0)])
def test_a_dataset_s_own_bad_box_is_named(zoo, box):
    dataset = zoo.dataset()
    found = zoo.table(dataset, zoo.perfect(dataset))
    xyxy = dataset.boxes.xyxy.copy()
    xyxy[7] = box
    fields = {name: getattr(dataset, name) for name in dataset.__dataclass_fields__}
    boxes = {name: getattr(dataset.boxes, name) for name in dataset.boxes.__slots__} | {"xyxy": xyxy}
    with pytest.raises(StrobeError, match=r"1 box\(es\) have no positive width and height; the first is .* v1/2.png"):
        score(type(dataset)(**{**fields, "boxes": type(dataset.boxes)(**boxes)}), found, model="m")


def test_labels_of_sets_matter_to_the_detector_as_a_classifier_alone(zoo):
    dataset = zoo.dataset()
    found = zoo.table(dataset, zoo.perfect(dataset))
    whole = score(dataset, found, model="m")
    for bare, left in (({0}, whole.as_classifier.acc_orig.n - 1), (set(dataset.frames.video.tolist()), 0)):
        kept = ~np.isin(dataset.frames.video[dataset.labels.frame], list(bare))
        labels = type(dataset.labels)(frame=dataset.labels.frame[kept], label=dataset.labels.label[kept])
        part = score(replace(dataset, labels=labels), found, model="m")
        assert (part.map_orig, part.map_pmk, part.drop) == (whole.map_orig, whole.map_pmk, whole.drop)
        assert part.as_classifier.coverage == whole.as_classifier.coverage
        assert (part.as_classifier.acc_orig.n, part.as_classifier.acc_orig.value) == (left, 1 if left else None)
    assert part.as_classifier.acc_pmk.reason == "no set has a label"


def test_settings_record_every_option():
    options = DetectionOptions(frame_ap="mean", max_dets=7, confidence=0.3)
    found = options.settings(ScoreOptions(seed=5, bootstrap=False), k=2)
    assert (found.frame_ap, found.max_dets, found.confidence, found.seed, found.replicates) == ("mean", 7, 0.3, 5, 0)


def test_a_detector_without_a_complete_set_is_refused_by_its_name(zoo):
    dataset = zoo.dataset()
    table = zoo.table(dataset, {})
    with pytest.raises(StrobeError, match="my-net: none of the"):
        score(dataset, replace(table, state=np.full_like(table.state, State.MISSING)), model="my-net")


def relabelled(dataset, changes):
    """The dataset with other classes on some frames; a frame with class −1 has no object."""
    label = dataset.boxes.label.copy()
    for frame, one in changes.items():
        label[frame] = one
    columns = {name: getattr(dataset.boxes, name) for name in dataset.boxes.__slots__} | {"label": label}
    kept = label >= 0
    return replace(dataset, boxes=type(dataset.boxes)(**{name: part[kept] for name, part in columns.items()}))


def test_errors_are_found_under_the_rule_for_small_objects(zoo):
    dataset = zoo.dataset()
    answers = zoo.perfect(dataset)
    answers[3] = [(1, answers[3][0][1], 0.9)]
    found = score(dataset, zoo.table(dataset, answers), model="m", options=DetectionOptions(iou="ilsvrc-vid"))
    assert found.errors.classification == found.errors.failing == 1


def test_classes_of_only_the_anchors_or_only_the_worst_frames_have_a_row(zoo):
    dataset = zoo.dataset(n_videos=1)
    # Frame 2 is the anchor. A missed object of another class is one frame, or two frames, away.
    for changes, wanted in (
        ({1: 1, 3: 1, 0: 1, 4: 1}, {"fox", "sheep"}),
        ({0: 2, 4: 2}, {"fox", "bird"}),
    ):
        answers = zoo.perfect(dataset)
        for frame in changes:
            answers[frame] = []
        found = score(relabelled(dataset, changes), zoo.table(dataset, answers), model="m")
        assert {row.name for row in found.per_class} == wanted


def test_a_set_with_an_object_at_the_largest_distance_is_not_empty(zoo):
    dataset = zoo.dataset(n_videos=12)
    found = zoo.table(dataset, zoo.perfect(dataset))
    part = score(relabelled(dataset, {1: -1, 2: -1, 3: -1}), found, model="m")
    assert part.unscored.undefined_sets == 0
    assert "no object" not in str(part.notes)


def test_the_note_on_few_videos_counts_the_videos_of_the_anchors(zoo):
    dataset = zoo.dataset(n_videos=60)
    answers = zoo.perfect(dataset)
    # All anchors show 20 videos of each class. One frame later, all show a missed fox.
    members = {5 * video + 3: 0 for video in range(60)}
    answers |= {frame: [] for frame in members}
    changed = relabelled(dataset, members | {5 * video + 2: 0 for video in range(3, 60)})
    found = score(changed, zoo.table(dataset, answers), model="m")
    assert any(note.startswith("1 video per class (median)") for note in found.notes)


def test_means_along_tracks_count_tracks_and_not_sets(zoo):
    dataset = zoo.dataset(n_videos=2)
    boxes, n = dataset.boxes, len(dataset.frames)
    second = (120.0, 10.0, 160.0, 60.0)
    both = type(boxes)(
        frame=np.tile(boxes.frame, 2),
        label=np.tile(boxes.label, 2),
        xyxy=np.concatenate([boxes.xyxy, np.tile(second, (n, 1))]),
        track=np.repeat([0, 1], n),
        crowd=np.zeros(2 * n, dtype=bool),
    )
    answers = zoo.perfect(dataset)
    for frame, found in answers.items():
        found.append((found[0][0], second, 0.7 if frame == 3 else 0.9))
    swing = score(replace(dataset, boxes=both), zoo.table(dataset, answers), model="m").temporal.score_swing
    assert (swing.value, swing.n) == (pytest.approx(0.2 / 4), 4)


def test_only_detectors_with_boxes_have_a_digest(zoo):
    dataset = zoo.dataset()
    assert score(dataset, zoo.table(dataset, zoo.perfect(dataset)), model="m").exact
    assert score(dataset, zoo.table(dataset, {frame: [] for frame in range(20)}), model="m").exact == ""


def test_settings_record_the_interval():
    assert DetectionOptions().settings(ScoreOptions(interval="clopper-pearson"), k=2).interval == "clopper-pearson"


def test_localization_chooses_worst_frames_by_the_given_interpolation(zoo):
    dataset = zoo.dataset(n_videos=2, k=1)
    answers = zoo.perfect(dataset)
    for frame in (3, 4, 5):
        answers[frame] = [(1, answers[frame][0][1], 0.99)]
    # Before the anchor of video 0, one of two objects is missed. After it, a wrong box comes first. The area under both
    # curves is a half, and the earlier frame is chosen; over 101 recalls, the later frame has the lower AP.
    answers[2].append((0, (120.0, 70.0, 160.0, 95.0), 0.95))
    boxes = dataset.boxes
    more = {name: np.append(getattr(boxes, name), getattr(boxes, name)[:1], axis=0) for name in boxes.__slots__}
    more["xyxy"][-1], more["track"][-1] = (120.0, 10.0, 160.0, 60.0), 1
    found = score(
        replace(dataset, boxes=type(boxes)(**more)), zoo.table(dataset, answers), model="m",
        options=DetectionOptions(interpolation="voc-all-points"),
    )  # fmt: skip
    assert found.chosen_frames[0].frame == 0
    assert found.localization.map_pmk.value == pytest.approx(2 / 3)


def test_boxes_that_are_fractions_of_the_image_are_refused(zoo):
    dataset = zoo.dataset()
    found = zoo.table(dataset, zoo.perfect(dataset))
    boxes = replace(dataset.boxes, xyxy=dataset.boxes.xyxy / 200)
    with pytest.raises(StrobeError, match=r"zoo: .* all 20 true boxes .* look like fractions of the image; import or"):
        score(replace(dataset, boxes=boxes), found, model="m")


def test_a_set_that_fails_only_at_the_largest_distance_is_counted_with_its_cause(zoo):
    dataset = zoo.dataset()
    answers = zoo.perfect(dataset)
    answers[0] = []  # two frames before the anchor of video 0
    found = score(dataset, zoo.table(dataset, answers), model="m")
    assert (found.errors.failing, found.errors.missed) == (1, 1)
    chosen = found.chosen_frames[0]
    assert (chosen.frame, chosen.distance, chosen.ap_orig, chosen.ap_worst) == (0, -2.0, 1.0, 0.0)
    assert (chosen.cause, chosen.status) == ("missed", "breaks")


def test_a_fall_from_an_ap_of_a_half_is_a_failure(zoo):
    dataset = zoo.dataset()
    answers = zoo.perfect(dataset)
    answers[2].insert(0, (0, (120.0, 70.0, 160.0, 95.0), 0.95))  # AP of the anchor of video 0 is a half
    answers[3] = []
    found = score(dataset, zoo.table(dataset, answers), model="m")
    assert (found.chosen_frames[0].ap_orig, found.errors.failing) == (0.5, 1)


def test_rows_of_classes_have_ids_and_names(zoo):
    dataset = zoo.dataset()
    found = score(dataset, zoo.table(dataset, zoo.perfect(dataset)), model="m")
    space = dataset.info.label_space
    assert [(row.label, row.name) for row in found.per_class] == list(zip(space.ids, space.names, strict=True))


def test_a_crowd_region_need_not_be_found(zoo):
    dataset = zoo.dataset(n_videos=2)
    answers = zoo.perfect(dataset) | {3: []}
    boxes = dataset.boxes
    for crowd, failing in ((False, 1), (True, 0)):
        marked = replace(boxes, crowd=np.where(boxes.frame == 3, crowd, False))
        found = score(replace(dataset, boxes=marked), zoo.table(dataset, answers), model="m")
        assert found.errors.failing == failing
