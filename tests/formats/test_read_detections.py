"""Detections brought from outside: what is read, what is refused and what is said."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import strobe
from strobe.core.errors import StrobeError
from strobe.core.tasks import Task
from strobe.formats.prediction_files import FileOptions
from strobe.formats.read_detections import read_detections, task_of_file


@pytest.fixture
def dataset(zoo):
    return zoo.dataset()


def results(dataset, *, xywh=True, **changes):
    """The perfect answer as COCO results; `changes` are applied to the first."""
    rows = []
    for row in range(len(dataset.frames)):
        x0, y0, x1, y1 = dataset.boxes.xyxy[row].tolist()
        box = [x0, y0, x1 - x0, y1 - y0] if xywh else [x0, y0, x1, y1]
        rows.append(
            {
                "image_id": str(dataset.frames.key[row]),
                "category_id": int(dataset.boxes.label[row]),
                "bbox": box,
                "score": 0.5 + row / 100,
            }
        )
    rows[0] |= changes
    return rows


def write(tmp_path, data, name="r.json"):
    path = tmp_path / name
    path.write_text(json.dumps(data))
    return path


def test_coco_results_become_the_dataset_s_boxes(tmp_path, dataset):
    path = write(tmp_path, results(dataset)[::-1])
    found = read_detections(path, dataset)
    assert task_of_file(path) is Task.DETECTION
    assert found.answers.model == "r"
    np.testing.assert_array_equal(found.answers.xyxy, dataset.boxes.xyxy)
    assert found.answers.label.tolist() == dataset.boxes.label.tolist()
    assert found.answers.scored.all()
    assert found.notes[1:] == ()


def test_numbers_are_explained_by_images_and_categories(tmp_path, dataset):
    rows = results(dataset)
    for place, row in enumerate(rows):
        row["image_id"] = place + 1000
        row["category_id"] = {0: 7, 1: 3, 2: 9}[row["category_id"]]
    images = [{"id": i + 1000, "file_name": str(key)} for i, key in enumerate(dataset.frames.key)]
    categories = [{"id": 3, "name": "sheep"}, {"id": 7, "name": "fox"}, {"id": 9, "name": "bird"}]
    whole = {"images": images, "categories": categories, "annotations": rows}
    found = read_detections(write(tmp_path, whole), dataset)
    assert found.answers.label.tolist() == dataset.boxes.label.tolist()
    # The same explanation from another file, as ground truth usually is.
    other = write(tmp_path, {"images": images, "categories": categories, "annotations": []}, "truth.json")
    found = read_detections(write(tmp_path, rows), dataset, FileOptions(box_images=other))
    assert found.answers.label.tolist() == dataset.boxes.label.tolist()
    with pytest.raises(
        StrobeError,
        match=r"20 of 20 frames are not in zoo: 1000, 1001, 1002, …; its frames are .*other numbers need a list",
    ):
        read_detections(write(tmp_path, rows), dataset)


def test_an_image_listed_without_boxes_is_an_empty_answer(tmp_path, dataset):
    images = [{"id": str(key), "file_name": str(key)} for key in dataset.frames.key]
    data = {"images": images, "annotations": results(dataset)[1:]}
    found = read_detections(write(tmp_path, data), dataset)
    assert found.answers.scored.all()
    assert 0 not in found.answers.frame


@pytest.mark.parametrize(
    ("absent", "scored"),
    [("empty", True), ("unscored", False)],
)
def test_a_frame_without_rows_must_be_explained(tmp_path, dataset, absent, scored):
    path = write(tmp_path, results(dataset)[1:])
    with pytest.raises(
        StrobeError, match=r"1 of 20 frames have no box, first 'v0/0.png'; .*--empty-frames or --allow-missing"
    ):
        read_detections(path, dataset)
    assert read_detections(path, dataset, FileOptions(absent=absent)).answers.scored[0] == scored


def test_images_the_dataset_lacks(tmp_path, dataset):
    path = write(
        tmp_path, [*results(dataset), {"image_id": "x.png", "category_id": 0, "bbox": [0, 0, 1, 1], "score": 1}]
    )
    with pytest.raises(
        StrobeError, match=r"1 of 21 frames are not in zoo: x.png; its frames are v0/0.png, v0/1.png, v0/2.png"
    ):
        read_detections(path, dataset)
    found = read_detections(path, dataset, FileOptions(ignore_extra=True))
    assert "1 boxes left out: their images are not in the dataset" in found.notes
    assert len(found.answers) == 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bbox": [1, 2, float("nan"), 4]}, "NaN or infinity"),
        ({"bbox": [1, 2, float("inf"), 4]}, "NaN or infinity"),
        ({"bbox": [1, 2, 1e308, 4]}, "numbers above 1e9"),
        ({"bbox": [1, 2, -3, 4]}, "negative width or height"),
        ({"bbox": [1, 2, 3]}, "cannot be read as a result"),
        ({"bbox": None}, "cannot be read as a result"),
        ({"score": float("nan")}, "score is NaN"),
        ({"score": "high"}, "cannot be read as a result"),
        ({"category_id": 17}, r"category 17 is outside zoo \(0–2\)"),
        ({"category_id": "wolf"}, "unknown class of zoo 'wolf'"),
        ({"category_id": None}, "expected a class number"),
    ],
)
def test_bad_rows_are_named(tmp_path, dataset, change, message):
    with pytest.raises(StrobeError, match=message) as caught:
        read_detections(write(tmp_path, results(dataset, **change)), dataset)
    assert "\n" not in str(caught.value)
    assert "annotations[0]" in str(caught.value)


def test_flat_and_outside_boxes_are_kept_and_counted(tmp_path, dataset):
    rows = results(dataset)
    rows += [rows[3] | {"bbox": [5.0, 5.0, 0.0, 9.0], "score": 0.1}, rows[3] | {"bbox": [900, 5, 9, 9], "score": 0.1}]
    found = read_detections(write(tmp_path, rows), dataset)
    assert len(found.answers) == 22
    assert found.notes[1:] == (
        "1 boxes have no area; they are kept and count as false positives",
        "1 boxes are entirely outside their image; they are kept and count as false positives",
    )


def test_xyxy_given_as_xywh_is_said(tmp_path, dataset):
    """The fixture's boxes stay inside the image either way, so that only the dataset's own boxes can tell."""
    path = write(tmp_path, results(dataset, xywh=False))
    with pytest.raises(StrobeError, match=r"as xywh, but they look like xyxy: .*pass --box-format xyxy"):
        read_detections(path, dataset)
    found = read_detections(path, dataset, FileOptions(box_format="xyxy"))
    np.testing.assert_array_equal(found.answers.xyxy, dataset.boxes.xyxy)


def test_boxes_that_would_reach_beyond_the_image_are_said(tmp_path, zoo):
    dataset = zoo.dataset(boxes=False)
    rows = [
        {"image_id": str(key), "category_id": 0, "bbox": [110.0, 60.0, 190.0, 95.0], "score": 0.9}
        for key in dataset.frames.key
    ]
    with pytest.raises(StrobeError, match="100% of them would extend beyond the image"):
        read_detections(write(tmp_path, rows), dataset)


def test_xywh_given_as_xyxy_is_said(tmp_path, dataset):
    wh = dataset.boxes.xyxy.copy()
    wh[:, 2:] -= wh[:, :2]
    table = {"frame": [str(key) for key in dataset.frames.key], "label": dataset.boxes.label, "score": np.ones(20)}
    table |= {name: wh[:, place] for place, name in enumerate(("x0", "y0", "x1", "y1"))}
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table(table), path)
    with pytest.raises(StrobeError, match="look like xywh"):
        read_detections(path, dataset)
    np.testing.assert_array_equal(
        read_detections(path, dataset, FileOptions(box_format="xywh")).answers.xyxy, dataset.boxes.xyxy
    )


def test_class_numbers_from_one_are_said(tmp_path, zoo):
    dataset = zoo.dataset(n_videos=8)
    rows = [row | {"category_id": row["category_id"] + 1} for row in results(dataset) if row["category_id"] < 2]
    with pytest.raises(
        StrobeError,
        match=r"look like the dataset's classes counted from 1: .* 100% .* 0% as those of zoo; count classes from 0",
    ):
        read_detections(write(tmp_path, rows), dataset, FileOptions(absent="empty"))


def test_parquet_by_box_and_by_frame(tmp_path, dataset):
    keys = [str(key) for key in dataset.frames.key]
    by_box = tmp_path / "boxes.parquet"
    pq.write_table(
        pa.table(
            {"frame": keys, "label": [dataset.info.label_space.names[i] for i in dataset.boxes.label],
             "score": np.linspace(0.1, 0.9, 20),
             **{name: dataset.boxes.xyxy[:, place] for place, name in enumerate(("x0", "y0", "x1", "y1"))}}
        ),
        by_box,
    )  # fmt: skip
    first = read_detections(by_box, dataset).answers
    np.testing.assert_array_equal(first.xyxy, dataset.boxes.xyxy)
    by_frame = tmp_path / "frames.parquet"
    xyxy = [box.tolist() for box in dataset.boxes.xyxy]
    xyxy[4], labels, scores = [], [[int(one)] for one in dataset.boxes.label], [[0.5]] * 20
    labels[4], scores[4] = [], []
    pq.write_table(pa.table({"frame_id": keys, "xyxy": xyxy, "label": labels, "score": scores}), by_frame)
    second = read_detections(by_frame, dataset).answers
    assert len(second) == 19
    assert second.scored.all()  # an empty list is an answer
    assert task_of_file(by_box) is Task.DETECTION
    assert task_of_file(by_frame) is Task.DETECTION


def test_another_space_is_projected_and_what_maps_nowhere_is_counted(tmp_path, dataset):
    rows = [row | {"category_id": "sheep"} for row in results(dataset)]
    rows[0]["category_id"] = "toothbrush"
    found = read_detections(write(tmp_path, {"space": "coco-80", "annotations": rows}), dataset)
    assert (found.facts["space"], found.facts["dropped"]) == ("coco-80", "1")
    assert set(found.answers.label.tolist()) == {1}
    assert "1 of 20 boxes dropped" in found.notes[1]
    assert found.answers.scored[0]  # the frame was looked at, though nothing of it is left


def test_broken_files(tmp_path, dataset):
    broken = tmp_path / "broken.json"
    broken.write_text('[{"image_id": 1, ')
    with pytest.raises(StrobeError, match="not JSON"):
        read_detections(broken, dataset)
    with pytest.raises(StrobeError, match="expected a list of results"):
        read_detections(write(tmp_path, {"annotations": 3}), dataset)
    with pytest.raises(StrobeError, match="no such file"):
        read_detections(tmp_path / "none.json", dataset)
    with pytest.raises(StrobeError, match="unknown ending"):
        read_detections(write(tmp_path, [], "a.xml"), dataset)
    parquet = tmp_path / "b.parquet"
    parquet.write_bytes(b"PAR1")
    with pytest.raises(StrobeError, match="not a readable Parquet"):
        read_detections(parquet, dataset)
    assert task_of_file(parquet) is Task.CLASSIFICATION
    assert task_of_file(write(tmp_path, {"f": [0.1, 0.2]}, "scores.json")) is Task.CLASSIFICATION


def test_ten_thousand_detections_in_one_frame(tmp_path, dataset):
    rows = results(dataset)
    rows += [rows[0] | {"score": i / 20_000} for i in range(10_000)]
    found = read_detections(write(tmp_path, rows), dataset)
    assert (found.answers.frame == 0).sum() == 10_001


def test_brought_detections_are_kept_and_scored_again(tmp_path, dataset):
    from strobe.store.brought import brought_files, keep_brought, read_brought
    from strobe.store.frame_names import FrameNames

    rows = [row for row in results(dataset) if row["image_id"] != "v0/0.png"]
    path = write(tmp_path, rows)
    found = read_detections(path, dataset, FileOptions(absent="unscored"), name="a detector").answers
    frames = FrameNames(dataset)
    keep_brought(tmp_path / "run", found, frames=frames, source=path, facts={})
    file, facts = brought_files(tmp_path / "run")["a detector"]
    assert facts["task"] == "detection"
    again = read_brought(file, facts, frames=frames, n_classes=len(dataset.info.label_space))
    for column in ("frame", "label", "xyxy", "score", "scored"):
        np.testing.assert_array_equal(getattr(again, column), getattr(found, column))


def boxes_as(dataset, form):
    rows = results(dataset)
    for row in rows:
        x, y, w, h = row["bbox"]
        row["bbox"] = {
            "normalised": [x / 200, y / 100, w / 200, h / 100], "cxcywh": [x + w / 2, y + h / 2, w, h],
        }[form]  # fmt: skip
    return rows


@pytest.mark.parametrize(
    ("form", "cause", "flag"),
    [
        ("normalised", "look like fractions", {"box_units": "normalised"}),
        ("cxcywh", "look like cxcywh", {"box_format": "cxcywh"}),
    ],
)
def test_boxes_in_other_numbers_are_refused_with_the_flag_that_mends_it(tmp_path, dataset, form, cause, flag):
    path = write(tmp_path, boxes_as(dataset, form))
    (option, value) = next(iter(flag.items()))
    with pytest.raises(StrobeError, match=f"{cause}.*--{option.replace('_', '-')} {value}"):
        read_detections(path, dataset)
    found = read_detections(path, dataset, FileOptions(**flag))
    np.testing.assert_allclose(found.answers.xyxy, dataset.boxes.xyxy, atol=1e-9)


def test_centres_are_seen_without_boxes_in_the_dataset_where_they_reach_beyond(tmp_path, zoo):
    dataset = zoo.dataset()
    rows = boxes_as(dataset, "cxcywh")
    for row in rows:
        row["bbox"] = [150.0, 75.0, 90.0, 40.0]
    blind = replace(dataset, boxes=None)
    with pytest.raises(StrobeError, match=r"extend beyond the image.*--box-format cxcywh"):
        read_detections(write(tmp_path, rows), blind)


def test_coco_s_category_ids_are_seen_and_named(tmp_path, dataset):
    space = strobe.space("coco-80")
    ids = strobe.space("coco-91")
    label = np.arange(len(dataset.boxes.label)) % 40
    coco = replace(
        dataset, info=replace(dataset.info, label_space=space), labels=replace(dataset.labels, label=label),
        boxes=replace(dataset.boxes, label=label),
    )  # fmt: skip
    rows = results(coco)
    for row in rows:
        row["category_id"] = ids.names.index(space.names[row["category_id"]])
    with pytest.raises(StrobeError, match=r"COCO's category ids.*--box-space coco-91"):
        read_detections(write(tmp_path, rows), coco)
    found = read_detections(write(tmp_path, rows), coco, FileOptions(box_space="coco-91"))
    assert found.answers.label.tolist() == label.tolist()


def in_coco(dataset, names):
    """The dataset with COCO's classes, its objects in turn of these names."""
    space = strobe.space("coco-80")
    label = np.array([space.index(names[place % len(names)]) for place in range(len(dataset.boxes.label))])
    return replace(
        dataset,
        info=replace(dataset.info, label_space=space),
        labels=replace(dataset.labels, label=label),
        boxes=replace(dataset.boxes, label=label),
    )


NAMES = ("motorcycle", "airplane", "couch", "dog", "clock", "tv", "zebra")
DARKNET = {"motorcycle": "motorbike", "airplane": "aeroplane", "couch": "sofa", "tv": "tvmonitor"}


def test_numbers_from_one_get_no_wrong_advice(tmp_path, zoo):
    """Read as COCO's category ids they would be right for some classes: that is not what is advised, nor accepted."""
    coco = in_coco(zoo.dataset(n_videos=12), NAMES)
    rows = [row | {"category_id": row["category_id"] + 1} for row in results(coco)]
    wanted = r"look like the dataset's classes counted from 1: .* (100|98)% of the boxes.*count classes from 0"
    with pytest.raises(StrobeError, match=wanted) as error:
        read_detections(write(tmp_path, rows), coco)
    assert "coco-91" not in str(error.value)
    with pytest.raises(StrobeError, match=wanted):
        read_detections(write(tmp_path, rows), coco, FileOptions(box_space="coco-91"))
    rows[0]["category_id"] = 80
    with pytest.raises(StrobeError, match=wanted):
        read_detections(write(tmp_path, rows), coco)
    few = [rows[0], *({**row, "category_id": row["category_id"] - 1} for row in rows[1:])]
    with pytest.raises(StrobeError, match=r"category 80 is outside coco-80 \(0–79\); declare the space"):
        read_detections(write(tmp_path, few), coco)


@pytest.mark.parametrize("number", [-(10**28), -(2**63) - 1, 2**63, 10**28])
def test_a_number_beyond_64_bits_is_outside_the_classes(tmp_path, zoo, number):
    coco = in_coco(zoo.dataset(n_videos=12), NAMES)
    rows = results(coco)
    rows[0]["category_id"] = number
    with pytest.raises(StrobeError, match=rf"category {number} is outside coco-80 \(0–79\)"):
        read_detections(write(tmp_path, rows), coco)


def test_numbers_in_an_unknown_order_are_refused(tmp_path, zoo):
    coco = in_coco(zoo.dataset(n_videos=12), NAMES)
    order = np.random.default_rng(0).permutation(80)
    rows = [row | {"category_id": int(order[row["category_id"]])} for row in results(coco)]
    with pytest.raises(StrobeError, match=r"a different order from those of coco-80: .* 0% of 60 objects; .* mostly"):
        read_detections(write(tmp_path, rows), coco)
    names = [row | {"category_id": strobe.space("coco-80").names[row["category_id"]]} for row in rows]
    with pytest.raises(StrobeError, match="seem to be in a different order"):
        read_detections(write(tmp_path, names), coco)


def test_darknet_s_names_are_coco_s(tmp_path, zoo):
    coco = in_coco(zoo.dataset(n_videos=12), NAMES)
    names = strobe.space("coco-80").names
    listed = [{"id": place, "name": DARKNET.get(name, name)} for place, name in enumerate(names)]
    found = read_detections(write(tmp_path, {"categories": listed, "annotations": results(coco)}), coco)
    assert found.answers.label.tolist() == coco.boxes.label.tolist()
    assert found.facts == {"space": "coco-80", "dropped": "0"}
    some = [one for one in listed if one["name"] not in ("sofa", "clock")]
    rows = [row for row in results(coco) if names[row["category_id"]] not in ("couch", "clock")]
    whole = write(tmp_path, {"categories": some, "annotations": rows})
    found = read_detections(whole, coco, FileOptions(absent="empty"))
    assert json.loads(found.facts["childless"]) == ["couch", "clock"]


def test_classes_that_are_dropped_are_named(tmp_path, zoo):
    dataset = zoo.dataset(n_videos=12)
    listed = [{"id": place, "name": name} for place, name in enumerate(("fox", "sheep", "bird", "wolf"))]
    rows = [*results(dataset), results(dataset)[0] | {"category_id": 3, "bbox": [0, 0, 9, 9]}]
    found = read_detections(write(tmp_path, {"categories": listed, "annotations": rows}), dataset)
    assert found.notes[1:] == ("1 of 61 boxes dropped: their class is not in the dataset (wolf)",)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda x, y, w, h: [2 * x, 2 * y, 2 * w, 2 * h], "multiplied by 0.5"),
        (lambda x, y, w, h: [x / 2, y / 2, w / 2, h / 2], "multiplied by 2"),
        (lambda x, y, w, h: [y, x, h, w], "read as yxhw"),
    ],
)
def test_boxes_in_another_scale_or_order_are_refused(tmp_path, zoo, change, text):
    dataset = zoo.dataset(n_videos=12)
    rng = np.random.default_rng(0)
    low = np.stack([rng.uniform(0, 150, 60), rng.uniform(0, 60, 60)], axis=1)
    dataset = replace(
        dataset,
        boxes=replace(dataset.boxes, xyxy=np.concatenate([low, low + rng.uniform(20, 40, (60, 2))], axis=1)),
    )
    rows = [row | {"bbox": change(*row["bbox"])} for row in results(dataset)]
    path = write(tmp_path, rows)
    with pytest.raises(
        StrobeError, match=rf"reads the boxes as xywh .* only when {text}: then the median overlap is 1.00"
    ):
        read_detections(path, dataset)
    assert len(read_detections(path, dataset, FileOptions(box_format="xywh", box_units="pixels")).answers) == 60


def test_a_few_boxes_of_negative_size_are_no_other_format(tmp_path, zoo):
    """One box in 200 turned inside out was called another format, with 0 % of them as the reason."""
    dataset = zoo.dataset(n_videos=40)
    rows = results(dataset)
    assert len(rows) == 200
    rows[7]["bbox"] = [50, 50, -5, 10]
    with pytest.raises(StrobeError, match="1 of 200 boxes have a negative width or height"):
        read_detections(write(tmp_path, rows), dataset)


def test_what_a_file_holds_is_seen_by_its_structure(tmp_path, dataset):
    images = [{"id": i, "file_name": str(key), "note": "x" * 60_000} for i, key in enumerate(dataset.frames.key)]
    late = {"images": images, "categories": [{"id": 0, "name": "fox"}], "annotations": results(dataset)}
    assert len(json.dumps(late)) > 1 << 20
    assert task_of_file(write(tmp_path, late, "late.json")) is Task.DETECTION
    assert task_of_file(write(tmp_path, late | {"annotations": []}, "none.json")) is Task.DETECTION
    assert task_of_file(write(tmp_path, [], "empty.json")) is Task.DETECTION
    scores = {"kind": "logits", "predictions": {str(key): [0.0] for key in dataset.frames.key}}
    assert task_of_file(write(tmp_path, scores, "scores.json")) is Task.CLASSIFICATION
    assert task_of_file(write(tmp_path, {"bbox": 1}, "labels.json")) is Task.CLASSIFICATION
