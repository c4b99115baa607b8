"""The detector's part of the report: the gallery agrees with the score, and the page shows boxes as the papers do."""

import json
import re

import numpy as np
import pytest

from strobe.analyses.gallery import choose
from strobe.analyses.gallery_detection import MOST_BOXES, Detected, truth_boxes
from strobe.core.answers import BoxAnswers
from strobe.core.errors import InvalidValue
from strobe.core.records import Detections
from strobe.report.page import write_report
from strobe.report.study import tables
from strobe.report.view import View


@pytest.fixture(scope="module")
def judges(boxed):
    dataset, detections, _, _ = boxed
    return {name: Detected(dataset, name, found) for name, found in detections.items()}


def test_worst_frames_and_counts_are_those_of_the_score(boxed, judges):
    dataset, _, results, _ = boxed
    for name, judge in judges.items():
        model = results.models[name]
        assert int((judge.status == "breaks").sum()) == model.errors.failing
        for row, chosen in enumerate(model.chosen_frames):
            view = judge.view(row)
            assert chosen.set == dataset.sets.set_id[row]
            place = dataset.sets.frame[dataset.sets.set == row]
            anchor = int(np.flatnonzero(dataset.sets.is_anchor[dataset.sets.set == row])[0])
            assert view.truth[anchor] == pytest.approx(chosen.ap_orig, abs=1e-8)
            if view.breaker is not None:
                assert place[view.breaker] == chosen.frame
                assert view.truth[view.breaker] == pytest.approx(chosen.ap_worst, abs=1e-8)
                assert not view.right[view.breaker]


def test_boxes_are_right_exactly_where_class_and_overlap_agree(boxed, judges):
    dataset, detections, _, _ = boxed

    def overlap(a, b):
        width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
        both = max(width, 0) * max(height, 0)
        area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
        return both / (area - both)

    checked = 0
    for name, judge in judges.items():
        for row in range(dataset.n_sets):
            view = judge.view(row)
            rows = dataset.sets.frame[dataset.sets.set == row]
            for frame, boxes in zip(rows, view.boxes, strict=True):
                (truth,) = truth_boxes(dataset.boxes, int(frame))
                assert len(boxes) <= int((detections[name].frame == frame).sum())
                hits = [bool(box[6]) for box in boxes]
                able = [box[4] == truth[4] and overlap(box, truth) >= 0.5 for box in boxes]
                # One object: the surest box that is able to find it does, the others are false.
                assert hits == [ok and not any(able[:i]) for i, ok in enumerate(able)]
                checked += len(boxes)
            for frame, boxes, missed in zip(rows, view.boxes, view.missed, strict=True):
                found = detections[name].frame == frame
                able = [box[4] == truth_boxes(dataset.boxes, int(frame))[0, 4] for box in boxes]
                assert len(missed) == (0 if any(box[6] for box in boxes) else 1) or (found.any() and not any(able))
    assert checked > 100


def test_statuses_by_hand(boxed):
    dataset, _, _, _ = boxed
    n = len(dataset.frames)

    def answer(row, *, shift=0.0):
        boxes = dataset.boxes.of_frame(row)
        return Detections(
            xyxy=np.array([box.xyxy for box in boxes]) + shift,
            label=np.array([box.label for box in boxes], dtype=np.int32),
            score=np.full(len(boxes), 0.9),
        )

    nothing = Detections(xyxy=np.zeros((0, 4)), label=np.zeros(0, dtype=np.int32), score=np.zeros(0))
    perfect = [answer(row) for row in range(n)]
    anchors = dataset.sets.anchor_frame
    found = list(perfect)
    found[int(anchors[0])] = nothing  # set 0: nothing right on the anchor
    member = int(dataset.sets.frame[(dataset.sets.set == 1) & (dataset.sets.distance == 2)][0])
    found[member] = answer(member, shift=40.0)  # set 1: a member with the box off
    unseen = int(dataset.sets.frame[(dataset.sets.set == 2)][0])
    found[unseen] = None  # set 2: a frame nobody looked at
    judge = Detected(dataset, "by hand", BoxAnswers.of_frames(found, n_classes=len(dataset.info.label_space)))
    assert judge.status[:4].tolist() == ["wrong", "breaks", "unscored", "holds"]
    view = judge.view(1)
    assert dataset.sets.frame[dataset.sets.set == 1][view.breaker] == member
    assert choose(dataset, [judge], limit=4).counts["by hand"] == {
        "holds": dataset.n_sets - 3, "breaks": 1, "wrong": 1, "unscored": 1,
    }  # fmt: skip


def test_thousands_of_boxes_do_not_reach_the_page(boxed):
    dataset, _, _, _ = boxed
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 200, size=(2000, 2))
    crowd = Detections(
        xyxy=np.hstack([corner, corner + 20]), label=rng.integers(0, 4, 2000, dtype=np.int32), score=rng.random(2000)
    )
    judge = Detected(dataset, "many", BoxAnswers.of_frames([crowd] * len(dataset.frames), n_classes=4))
    assert max(len(boxes) for boxes in judge.view(0).boxes) == MOST_BOXES


def test_refusals(boxed, painted):
    dataset, _, _, _ = boxed
    with pytest.raises(InvalidValue, match="one answer per frame"):
        Detected(dataset, "m", BoxAnswers.of_frames([None] * 3, n_classes=len(dataset.info.label_space)))
    with pytest.raises(InvalidValue, match="has no boxes"):
        Detected(painted[0], "m", BoxAnswers.of_frames([None] * len(painted[0].frames), n_classes=4))


def test_tables_of_detectors(boxed):
    _, _, results, _ = boxed
    view = View(results=results)
    rows = tables()["detection"](view)
    assert [row["model"] for row in rows] == ["sharp-eyed", "near-sighted"]
    for row in rows:
        model = results.models[row["model"]]
        assert row["map_pmk"] == model.map_pmk.value
        assert row["localization_pmk"] == model.localization.map_pmk.value
    assert len(tables()["detection_curve"](view)) == 2 * 6
    assert {row["failing"] for row in tables()["detection_errors"](view)} == {
        model.errors.failing for model in results.models.values()
    }
    assert tables()["headline"](view) == []
    assert {row["ap_orig_n"] for row in tables()["detection_per_class"](view)} == {3}


@pytest.fixture(scope="module")
def address(boxed, tmp_path_factory):
    dataset, detections, results, source = boxed
    run = tmp_path_factory.mktemp("detection")
    return write_report(run, results, dataset, detections, source)


def test_page_of_detectors_alone(address):
    text = address.read_text(encoding="utf-8")
    assert "sharp-eyed reaches" in text
    assert "Faster R-CNN ResNet-50" in text
    assert "acc_pmk</b> counts sets" not in text
    assert 'id="slices"' not in text
    names = {path.stem for path in (address.parent / "figures").glob("*.svg")}
    parts = ("curve", "class_1", "class_2", "errors", "tracks")
    assert names == {"detection", *(f"detection_{part}" for part in parts)}


@pytest.mark.browser
def test_boxes_in_the_browser(address, browser_page):
    page, log = browser_page
    page.goto(address.as_uri())
    data = json.loads(page.locator("#gallery-data").text_content())
    one = data["sets"][0]
    view = one["m"][0]
    anchor = page.locator("#shot-anchor .boxes")
    at_anchor = view["x"][one["a"]]

    def drawn(layer):
        return [layer.locator(f"rect.{kind}").count() for kind in ("gt", "tp", "fp")]

    def expected(boxes, least):
        shown = [box for box in boxes if box[5] >= least]
        return [1, sum(box[6] for box in shown), sum(1 - box[6] for box in shown)]

    # What is told of is to be seen: an object that was not found, and on the worst frame the surest false box.
    for layer, place in ((anchor, one["a"]), (page.locator("#shot-now .boxes"), view["b"])):
        assert layer.locator("rect.miss").count() == len(view["g"][place])
    example = page.locator(".example svg.boxes")
    assert example.count() == 2
    assert example.nth(1 if view["b"] > one["a"] else 0).locator("rect.miss, rect.fp").count() > 0
    assert drawn(anchor) == expected(at_anchor, 0.5)
    assert page.evaluate("getComputedStyle(document.querySelector('.boxes .gt')).stroke") == "rgb(255, 255, 255)"
    assert drawn(page.locator("#shot-now .boxes")) == expected(view["x"][view["b"]], 0.5)
    # Every frame of every set of the list, at three thresholds, stepping through with the keyboard.
    for least in ("0.05", "0.5", "0.95"):
        page.locator("#v-score").fill(least)
        assert page.locator("#v-score-text").text_content() == f"{float(least):.2f}"
        strip = page.locator("#v-strip .boxes")
        for place in range(len(one["f"])):
            wanted = expected(view["x"][place], float(least))
            if place == view["b"] and not wanted[2]:
                wanted[2] = min(1, sum(1 - box[6] for box in view["x"][place]))
            assert drawn(strip.nth(place)) == wanted
    # A box lies where it says: the truth's left edge over the picture's width.
    x0, width = one["f"][one["a"]]["g"][0][0], one["f"][one["a"]]["wh"][0]
    frame = page.locator("#shot-anchor img").bounding_box()
    box = anchor.locator("rect.gt").bounding_box()
    assert (box["x"] - frame["x"]) / frame["width"] == pytest.approx(x0 / width, abs=0.02)
    caption = page.locator("#shot-now figcaption").text_content()
    assert re.search(r"AP \d+ % ✕ worse than the anchor", caption)
    assert view["why"] in caption
    page.locator("#v-models button").nth(1).click()
    assert page.locator("#v-models button").nth(1).get_attribute("aria-pressed") == "true"
    assert log.errors == []
    assert [url for url in log.requests if not url.startswith("data:")] == [address.as_uri()]
