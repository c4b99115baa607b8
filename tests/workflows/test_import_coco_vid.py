"""Videos in COCO's JSON and in YouTube-VIS's, and a line for what is missing or broken of them."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from made_imports import coco

from strobe.core.errors import StrobeError
from strobe.formats.sampled import ImportSampling
from strobe.store import dataset_folder as folder
from strobe.workflows.import_dataset import ImportOptions, import_dataset


def test_coco_vid(tmp_path: Path) -> None:
    source = coco(tmp_path / "src")
    import_dataset(
        "coco-vid",
        source,
        tmp_path / "dst",
        draw=ImportSampling(k=3, seed=1),
        options={"images": tmp_path / "src/images"},
    )
    data = folder.read(tmp_path / "dst")
    assert data.n_sets == 2
    assert data.info.label_space.names == ("dog", "person")
    assert data.videos.fps(0) == 25
    assert data.videos.fps(1) is None
    row = int(np.flatnonzero((data.frames.video == 0) & (data.frames.index % 2 == 0))[0])
    index = int(data.frames.index[row])
    assert data.frame(row).time_s == Fraction(index, 25)
    dog, crowd = data.boxes.of_frame(row)
    assert dog.xyxy == (index, 1.0, index + 10.5, 21.0)
    assert (dog.track, dog.crowd, crowd.crowd) == (5, False, True)
    assert data.labels_of(row) == (0, 1)
    assert (tmp_path / "dst" / data.frames.media[row]).is_file()


def test_youtube_vis_json_says_the_same(tmp_path: Path) -> None:
    plain = json.loads(coco(tmp_path / "src", images=False).read_text())
    names = {v["id"]: [i["file_name"] for i in plain["images"] if i["video_id"] == v["id"]] for v in plain["videos"]}
    vis = {
        "videos": [{**v, "file_names": names[v["id"]], "width": 64, "height": 48} for v in plain["videos"]],
        "categories": plain["categories"],
        "annotations": [
            {"id": 5, "video_id": v, "category_id": 18, "bboxes": [[i, 1, 10.5, 20] for i in range(12)]} for v in (1, 7)
        ]
        + [
            {"id": 6 + v, "video_id": v, "category_id": 1, "iscrowd": 1,
             "bboxes": [[0, 0, 9, 9] if i % 2 == 0 else None for i in range(12)]}
            for v in (1, 7)
        ],
    }  # fmt: skip
    (tmp_path / "vis.json").write_text(json.dumps(vis))
    one = import_dataset("coco-vid", tmp_path / "src/ann.json", tmp_path / "a", how=ImportOptions(media="none")).dataset
    two = import_dataset("coco-vid", tmp_path / "vis.json", tmp_path / "b", how=ImportOptions(media="none")).dataset
    assert one.frame_ids() == two.frame_ids()
    assert one.labels.label.tolist() == two.labels.label.tolist()
    assert one.boxes.xyxy.tolist() == two.boxes.xyxy.tolist()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d.pop("videos"), "no list of videos"),
        (lambda d: d.pop("images"), "no list of images, and videos have no file_names"),
        (lambda d: d["categories"].clear(), "no categories"),
        (lambda d: d["categories"].append({"id": 9, "name": "dog"}), r"categories\[2\]: the category 'dog'"),
        (lambda d: d["videos"].append({"id": 1, "name": "x"}), r"videos\[2\]: the video 'x'"),
        (lambda d: d["videos"][0].update(fps="often"), r"videos\[0\]: expected"),
        (lambda d: d["images"][3].pop("frame_id"), r"images\[3\]: expected an image with"),
        (lambda d: d["images"][3].update(frame_id=2), r"images\[3\]: frame_id 2 .* appears twice"),
        (lambda d: d["images"][3].update(video_id=9), r"images\[3\]: video_id 9 is not in the list of videos"),
        (lambda d: d["annotations"][2].update(category_id=99), r"annotations\[2\]: expected a known image_id"),
        (lambda d: d["annotations"][2].update(image_id=99), r"annotations\[2\]: expected a known image_id"),
        (lambda d: d["annotations"][2].update(bbox=[1, 2, 3]), r"annotations\[2\]: expected"),
        (lambda d: d["annotations"][2].update(bbox=[1, 2, 3, float("nan")]), r"annotations\[2\]: bbox .* finite"),
        (lambda d: d["images"][3].update(category_ids=[[]]), r"images\[3\]: expected category_ids"),
        (lambda d: d["images"][3].update(category_ids=0.5), r"images\[3\]: expected category_ids"),
        (lambda d: d["annotations"][2].update(instance_id=10**30), r"annotations\[2\]"),
        (lambda d: d["annotations"][2].update(instance_id=float("inf")), r"ann\.json"),
        (lambda d: d["annotations"].clear(), "none of the 2 videos has a labelled frame"),
    ],
)
def test_broken_coco(tmp_path: Path, change, problem: str) -> None:
    source = coco(tmp_path / "src", images=False)
    data = json.loads(source.read_text())
    change(data)
    source.write_text(json.dumps(data))
    with pytest.raises(StrobeError, match=problem) as caught:
        import_dataset("coco-vid", source, tmp_path / "dst", how=ImportOptions(media="none"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "dst").exists()


def test_coco_wants_the_file_and_the_images(tmp_path: Path) -> None:
    source = coco(tmp_path / "src", images=False)
    with pytest.raises(StrobeError, match="is a folder; give the COCO video JSON"):
        import_dataset("coco-vid", tmp_path / "src", tmp_path / "dst")
    with pytest.raises(StrobeError, match="no such file"):
        import_dataset("coco-vid", tmp_path / "no.json", tmp_path / "dst")
    with pytest.raises(StrobeError, match="name the folder of the images with --images"):
        import_dataset("coco-vid", source, tmp_path / "dst", options={"images": tmp_path / "nowhere"})
    with pytest.raises(StrobeError, match="images are missing under"):
        import_dataset("coco-vid", source, tmp_path / "dst")
