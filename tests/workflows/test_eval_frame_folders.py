"""strobe eval on folders of numbered frames: sets that cover them, resuming, and folders that are no video."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from strobe.store import dataset_folder as folder
from strobe.workflows.frame_folders import frame_folders

Called = Callable[..., str]
TEXTURE = np.random.default_rng(0).integers(60, 160, (24, 32, 1), dtype=np.uint8)
MODEL = """
import numpy as np

def make():
    mean = lambda images: np.array([image.reshape(-1, 3).mean(axis=0) / 10 for image in images])
    return mean, ["red", "green", "blue"]
"""


def frames(path: Path, colours: str, *, first: int = 0, size: tuple[int, int] = (32, 24)) -> Path:
    """Write a numbered image of each colour."""
    path.mkdir(parents=True, exist_ok=True)
    for place, colour in enumerate(colours):
        image = TEXTURE + np.array({"r": (30, 0, 0), "g": (0, 30, 0)}[colour], dtype=np.uint8)
        Image.fromarray(image).resize(size).save(path / f"{first + place:05d}.png")
    return path


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[int, str, str]]) -> Called:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(MODEL, encoding="utf-8")

    def call(*words: object, code: int = 0) -> str:
        more = ("-m", "py:m.py:make", "-o", "run", "--k", "2", "--bootstrap", "100", "--no-report")
        ended, out, err = command("eval", *map(str, words), *more)
        assert ended == code, out + err
        return out + err

    return call


def test_a_folder_of_frames_is_a_video(called: Called, tmp_path: Path) -> None:
    frames(tmp_path / "clips/dog/frames", "rrrrrrrgrr", first=7)
    frames(tmp_path / "clips/car/frames", "rrrrr")
    text = called("clips")
    assert "3 sets of 2 videos, k = 2; no label is used" in text
    dataset = folder.read(tmp_path / "run/dataset")
    assert sorted(dataset.videos.name.tolist()) == ["car/frames", "dog/frames"]
    assert not dataset.labelled.any()
    assert dataset.frames.key[0] == "car/frames/00000.png"
    assert "33.3" in text  # one of three sets has another answer
    assert "predict" not in called("clips")  # the same command predicts nothing again


def test_photos_and_masks_are_no_video(called: Called, tmp_path: Path) -> None:
    frames(tmp_path / "clips/dog/frames", "rrrrr")
    photos = frames(tmp_path / "clips/photos", "rg")
    (photos / "00001.png").rename(photos / "beach.png")
    frames(frames(tmp_path / "clips/sizes", "r").parent / "sizes", "r", first=1, size=(16, 16))
    (tmp_path / "clips/dog/masks").mkdir()
    for place in range(5):
        Image.fromarray(np.eye(24, 32, dtype=np.uint8) * 255).save(tmp_path / f"clips/dog/masks/{place:05d}.png")
    text = called("clips")
    assert "1 set of 1 video" in text
    assert "note: 3 folders of images are not used, first " in text
    assert "dog/masks: its images have at most 16 colours, so they are masks" in text
    reasons = [line.rpartition("/")[2] for line in frame_folders([tmp_path / "clips"]).left_out]
    assert reasons[1:] == [
        "photos: its images are not numbered frame by frame, so they are photos and not a video",
        "sizes: its images have different sizes, so they are photos and not a video",
    ]


def test_masks_are_no_video_for_import_either(command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    frames(tmp_path / "davis/dog/frames", "rrrrr")
    (tmp_path / "davis/dog/masks").mkdir()
    for number in range(5):
        Image.fromarray(np.eye(24, 32, dtype=np.uint8)).save(tmp_path / f"davis/dog/masks/{number:05d}.png")
    code, out, err = command("import", "frames", tmp_path / "davis", tmp_path / "data", "--label", "dog", "--k", 1)
    assert code == 0
    assert "1 video, " in out
    assert "folders of masks are not imported: 1, first dog/masks" in err


def test_a_folder_of_photos_alone_is_refused(called: Called, tmp_path: Path) -> None:
    photos = frames(tmp_path / "photos", "rg")
    (photos / "00001.png").rename(photos / "beach.png")
    text = called("photos", code=2)
    assert "it has no videos and no folders of numbered frames" in text
    assert "so they are photos and not a video" in text
    assert text.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_folders_of_frames_and_videos_are_one_dataset(called: Called, tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    frames(tmp_path / "clips/walk", "rrrrr")
    with av.open(str(tmp_path / "clips/a.mkv"), "w") as container:
        stream = container.add_stream("libx264rgb", rate=25, options={"crf": "0"})
        stream.width, stream.height, stream.pix_fmt = 32, 24, "rgb24"
        for _ in range(10):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(TEXTURE.repeat(3, axis=2), format="rgb24")))
        container.mux(stream.encode())
    assert "3 sets of 2 videos" in called("clips")
    dataset = folder.read(tmp_path / "run/dataset")
    assert dataset.videos.name.tolist() == ["a", "walk"]
    assert np.bincount(dataset.frames.video).tolist() == [10, 5]
    assert "predict" not in called("clips/walk", "clips/a.mkv")  # the same command predicts nothing again
    (tmp_path / "clips/a.mkv").rename(tmp_path / "clips/walk.mkv")
    assert "would both get the name walk; rename one of them" in called("clips", code=2)
    frames(tmp_path / "clips/walk", "g")
    (tmp_path / "clips/walk.mkv").rename(tmp_path / "clips/a.mkv")
    assert "00000.png is not the frame that run was made with" in called("clips", code=2)
