"""True boxes from outside are held against the images: shares, another size than declared, corners beyond the edge."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_imports import coco, numbered

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.formats.import_frames import FrameFiles
from strobe.formats.sampled import ImportSampling
from strobe.store import dataset_folder as folder
from strobe.store.bring_media import ImportOptions
from strobe.workflows.import_dataset import import_dataset

HEADER = "video,frame,label,x0,y0,x1,y1\n"


def frames(root: Path, rows: list[str], n: int = 6) -> tuple[Path, FrameFiles]:
    """One video of frames of 64×48 and a CSV of its boxes."""
    for index in range(n):
        numbered(root / f"src/a/{index:03d}.png", index)
    (root / "boxes.csv").write_text(HEADER + "".join(f"{row}\n" for row in rows))
    return root / "src", FrameFiles(boxes=root / "boxes.csv")


def boxes_of(dataset: Dataset) -> list[list[float]]:
    assert dataset.boxes is not None
    found: list[list[float]] = dataset.boxes.xyxy.tolist()
    return found


def test_shares_of_the_image_are_refused_and_nothing_stays(tmp_path: Path) -> None:
    source, files = frames(tmp_path, [f"a,{index},dog,0.1,0.2,0.6,0.9" for index in range(6)])
    with pytest.raises(StrobeError, match=r"a/000.png: the box \(0.1, 0.2, 0.6, 0.9\) .* fractions of the image"):
        import_dataset("frames", source, tmp_path / "dst", files=files)
    assert not (tmp_path / "dst").exists()
    with pytest.raises(StrobeError, match="fractions of the image"):
        import_dataset("frames", source, tmp_path / "dst", files=files, how=ImportOptions(media="none"))


def test_boxes_beyond_the_image_are_cut_and_counted(tmp_path: Path) -> None:
    rows = [f"a,{index},dog,-5,2,30,40" if index < 2 else f"a,{index},dog,1,2,30,40" for index in range(6)]
    source, files = frames(tmp_path, rows)
    done = import_dataset("frames", source, tmp_path / "dst", files=files)
    assert "2 box(es) extended beyond their image and were clipped" in done.notes
    assert boxes_of(done.dataset)[0] == [0, 2, 30, 40]
    assert folder.read(tmp_path / "dst").info.provenance["notes"] == list(done.notes)


def test_boxes_outside_the_image_are_refused(tmp_path: Path) -> None:
    source, files = frames(tmp_path, ["a,0,dog,70,2,90,40", *(f"a,{index},dog,1,2,30,40" for index in range(1, 6))])
    with pytest.raises(StrobeError, match=r"the box \(70, 2, 90, 40\) is outside the image \(64×48\), as 1 of 6 are"):
        import_dataset("frames", source, tmp_path / "dst", files=files)


def declared(path: Path, scale: float, size: tuple[int, int]) -> Path:
    """The annotation with every box times `scale`, made for images of `size`."""
    data: dict[str, Any] = json.loads(path.read_text())
    for image in data["images"]:
        image["width"], image["height"] = size
    for entry in data["annotations"]:
        entry["bbox"] = [scale * value for value in entry["bbox"]]
    path.write_text(json.dumps(data))
    return path


def test_an_annotation_for_another_size_is_scaled_and_printed(tmp_path: Path) -> None:
    """COCO says 640×480 and the files are a tenth of it, as they are after a dataset was made smaller."""
    plain = import_dataset(
        "coco-vid",
        coco(tmp_path / "a"),
        tmp_path / "plain",
        draw=ImportSampling(k=3),
        options={"images": tmp_path / "a/images"},
    )
    source = declared(coco(tmp_path / "b"), 10, (640, 480))
    done = import_dataset(
        "coco-vid", source, tmp_path / "dst", draw=ImportSampling(k=3), options={"images": tmp_path / "b/images"}
    )
    np.testing.assert_allclose(boxes_of(done.dataset), boxes_of(plain.dataset))
    (note,) = [note for note in done.notes if "another size" in note]
    assert "were scaled (the first: from 640×480 to 64×48)" in note


@pytest.mark.parametrize(
    ("scale", "size", "problem"),
    [
        (10, (640, 640), "made for an image of 640×640, but the image is 64×48, another shape"),
        (1, (48, 64), "the image is 64×48, rotated"),
        (1, (640, 480), "fit it without scaling; correct the size in the annotation, or the boxes"),
    ],
)
def test_an_annotation_nobody_can_scale_is_refused(
    scale: float, size: tuple[int, int], problem: str, tmp_path: Path
) -> None:
    source = declared(coco(tmp_path / "b"), scale, size)
    with pytest.raises(StrobeError, match=problem):
        import_dataset("coco-vid", source, tmp_path / "dst", options={"images": tmp_path / "b/images"})
    assert not (tmp_path / "dst").exists()
