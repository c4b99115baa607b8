"""Sources to import, small and in their real layouts, and the command line as a test calls it."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from strobe.cli.main import main


def numbered(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (64, 48), (number % 256, number // 256, 7)).save(path)


def coco(root: Path, *, images: bool = True) -> Path:
    """Two videos of 12 frames, a dog with a track on every frame, a crowd of people on the even ones."""
    data = {
        "videos": [{"id": 1, "name": "park", "fps": 25}, {"id": 7, "name": "road"}],
        "categories": [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}],
        "images": [],
        "annotations": [],
    }
    for video, name in ((1, "park"), (7, "road")):
        for index in range(12):
            number = video * 100 + index
            file = f"{name}/{index:05d}.png"
            data["images"].append(
                {"id": number, "video_id": video, "frame_id": index, "file_name": file, "width": 64, "height": 48}
            )
            data["annotations"].append(
                {"id": number, "image_id": number, "category_id": 18, "bbox": [index, 1, 10.5, 20], "instance_id": 5}
            )
            if index % 2 == 0:
                data["annotations"].append(
                    {"id": -number, "image_id": number, "category_id": 1, "bbox": [0, 0, 9, 9], "iscrowd": 1}
                )
            if images:
                numbered(root / "images" / file, number)
    root.mkdir(parents=True, exist_ok=True)
    (root / "ann.json").write_text(json.dumps(data))
    return root / "ann.json"


def frame_folders(root: Path) -> Path:
    """Two videos: numbered frames with a gap (3 is missing), and names that are no numbers."""
    for index in (0, 1, 2, 4, 5):
        numbered(root / f"dog1/frame-{index}.png", index)
    for place, name in enumerate("abc"):
        numbered(root / f"home/cat 2/{name}.jpg", 100 + place)
    (root / "labels.csv").write_text("video,label\ndog1,dog|pet\nhome/cat 2,cat\n")
    (root / "notes.txt").write_text("not a frame")
    return root


def picture(path: Path, level: int, size: tuple[int, int] = (12, 10)) -> Path:
    """An image of one colour, in a folder made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (level, 7, 9)).save(path)
    return path


def run(*words: object, code: int = 0) -> str:
    """What the command said, on either stream."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said), pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert (ended.value.code or 0) == code, said.getvalue()
    return said.getvalue()


def refused(*words: object) -> str:
    """The one line a command that is refused says."""
    said = run(*words, "-q", code=2)
    assert said.count("\n") == 1, said
    return said


def clip(path: Path, *, n: int = 75, rate: int = 25) -> Path:
    """A small H.264 clip whose brightness is its frame number."""
    av = pytest.importorskip("av")
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for index in range(n):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 2 * index + 20, dtype=np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path
