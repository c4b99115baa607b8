"""From boxes that people drew to a dataset of crops."""

import json
from pathlib import Path

import pytest
from made_imports import picture, refused

from strobe.annexes.web.review import workflow as review
from strobe.core.people import BoxAnswer
from strobe.store import dataset_folder as folder
from strobe.workflows.import_dataset import import_dataset

read_ladder = pytest.importorskip("strobe.annexes.backgrounds.ladder_table").read_ladder
RAY, DOG = "n01498041", "n02106662"


@pytest.fixture
def imagenet_a(tmp_path: Path) -> Path:
    """Four images of two classes, named as ImageNet-A's are."""
    root = tmp_path / "imagenet-a"
    for place, (wnid, name) in enumerate(
        [(RAY, "0.000116_digital clock _ fox_0.865662.jpg"), (RAY, "0.2_b.jpg"), (DOG, "0.1_c.jpg"), (DOG, "0.3_d.jpg")]
    ):
        picture(root / wnid / name, 20 * place, (30, 20))
    (root / "README.txt").write_text("ImageNet-A")
    return root


def test_the_whole_way_from_boxes_people_drew_to_a_dataset_of_crops(imagenet_a: Path, tmp_path: Path) -> None:
    """review --ask box → review export --crops → import imagenet-a-plus; the boxes come along, and what is discarded
    does not."""
    data = import_dataset("imagenet-a", imagenet_a, tmp_path / "a").dataset
    space_a, ids = data.info.label_space, data.frame_ids()

    def said(row: int, box: tuple[int, int, int, int] | None) -> BoxAnswer:
        return BoxAnswer(
            answer_id=f"ann-{row}", annotator="Ann", at="2026-01-01T00:00:00.000000Z", stage="draw", frame_id=ids[row],
            label=space_a.ids[data.labels_of(row)[0]], decision="keep" if box else "discard", xyxy=box,
            reason="" if box else "several",
        )  # fmt: skip

    folder.append_answers(tmp_path / "a", "drawn", [said(0, (2, 3, 12, 13)), said(1, None), said(3, (0, 0, 30, 20))])
    review.export(tmp_path / "a", ask="box", crops=tmp_path / "crops")
    manifest = json.loads((tmp_path / "crops/manifest.json").read_text())
    assert [one["area_share"] for one in manifest["crops"]] == [100 / 600, 1.0]
    assert manifest["discarded"][0]["reasons"] == ["several"]
    plus = import_dataset(
        "imagenet-a-plus", tmp_path / "crops", tmp_path / "plus", options={"originals": tmp_path / "a"}
    ).dataset
    assert plus.boxes is not None
    assert plus.boxes.xyxy.tolist() == [[2, 3, 12, 13], [0, 0, 30, 20]]
    assert [str(plus.frames.key[row]) for row in plus.boxes.frame] == [
        f"whole/{one['key']}" for one in manifest["crops"]
    ]
    assert [folder.read(tmp_path / "plus").labels_of(int(row)) for row in plus.boxes.frame] == [(0,), (40,)]
    pictures = read_ladder(tmp_path / "plus")
    assert pictures is not None
    assert [(one.picture, one.area_share) for one in pictures] == [
        (f"whole/{one['key']}", one["area_share"]) for one in manifest["crops"]
    ]
    changed = tmp_path / "crops" / manifest["crops"][0]["file"]
    words = ("import", "imagenet-a-plus", tmp_path / "crops", tmp_path / "again", "--originals", tmp_path / "a")
    outside = {**manifest["crops"][0], "xyxy": [2, 3, 31, 13]}
    (tmp_path / "crops/manifest.json").write_text(json.dumps({"crops": [outside]}))
    assert "the box 2, 3, 31, 13 is not inside the image of 30×20 pixels" in refused(*words)
    (tmp_path / "crops/manifest.json").write_text(json.dumps(manifest))
    changed.write_bytes(changed.read_bytes() + b" ")
    assert "not the file listed in" in refused(*words)
