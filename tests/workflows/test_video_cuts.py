"""Scene cuts, unreadable videos that are repaired, and other videos that people bring to strobe eval."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.store import dataset_folder as folder

av = pytest.importorskip("av")

QUICK = ("--bootstrap", "100", "--workers", "1", "--no-report")
SCENES = [np.random.default_rng(seed).integers(0, 160, (24, 32, 3), dtype=np.uint8) for seed in range(4)]
COLOURS = np.array([(90, 0, 0), (0, 90, 0), (0, 0, 90)], dtype=np.uint8)
MODEL = """
import numpy as np

def make():
    return lambda images: np.array([i.reshape(-1, 3).mean(axis=0) for i in images]), ["red", "green", "blue"]
"""


def film(path: Path, scenes: list[tuple[int, int]]) -> Path:
    """Write a clip without loss; a scene is its colour and its number of frames."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264rgb", rate=25, options={"crf": "0"})
        stream.width, stream.height, stream.pix_fmt = 32, 24, "rgb24"
        for number, (colour, frames) in enumerate(scenes):
            for index in range(frames):
                image = SCENES[number % 4] // 2 + COLOURS[colour]
                image[0, index % 32] += 20  # every frame differs
                container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.fixture
def evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[int, str, str]]
) -> Callable[..., tuple[str, dict[str, Any]]]:
    """Evaluate videos; what was printed, and the flicker of the model."""
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(MODEL, encoding="utf-8")

    def call(*words: object, code: int = 0) -> tuple[str, dict[str, Any]]:
        ended, out, err = command("eval", *map(str, words), "-m", "m=py:m.py:make", "-o", "run", *QUICK)
        assert ended == code, out + err
        found = Path("run/results.json")
        return out + err, json.loads(found.read_text(encoding="utf-8"))["flicker"] if found.is_file() else {}

    return call


def test_a_cut_between_two_sets_ends_the_timeline(evaluated: Callable[..., tuple[str, dict[str, Any]]]) -> None:
    film(Path("a.mkv"), [(0, 5), (1, 10), (0, 5)])
    _, found = evaluated("a.mkv", "--k", 2)
    data = folder.read(Path("run/dataset"))
    assert data.info.provenance["cuts_between_sets"] == {str(data.videos.video_id[0]): [5, 15]}
    one = found["models"]["m"]
    assert (found["across_cuts"], one["flicker"]["value"]) == (0, 0)
    assert one["alternations"] == [], "red and green are two scenes, not two answers to one"
    assert "reason" in one["spells"]
    assert one["videos"][0]["flips"] == 0


def test_a_cut_inside_a_set_excludes_it_and_ends_the_timeline(
    evaluated: Callable[..., tuple[str, dict[str, Any]]],
) -> None:
    film(Path("a.mkv"), [(0, 8), (1, 7)])
    said, found = evaluated("a.mkv", "--k", 2)
    assert (found["across_cuts"], found["n_sets"]) == (1, 2)
    assert "1 set excluded because of a scene cut" in said
    assert found["models"]["m"]["alternations"] == []


def test_a_cut_every_few_frames_is_one_line(evaluated: Callable[..., tuple[str, dict[str, Any]]]) -> None:
    film(Path("a.mkv"), [(number % 3, 5) for number in range(8)])
    said, found = evaluated("a.mkv", "--k", 10, code=2)
    assert "sets contains a scene cut, so flicker cannot be measured; use shorter sets (a smaller --k)" in said
    assert not found


def test_a_repaired_video_joins_its_run(evaluated: Callable[..., tuple[str, dict[str, Any]]]) -> None:
    film(Path("a.mkv"), [(0, 10)])
    Path("b.mkv").write_bytes(b"damaged")
    said, found = evaluated("a.mkv", "b.mkv", "--k", 2, code=1)
    assert "b.mkv" in said
    assert found["n_videos"] == 1
    said, found = evaluated("a.mkv", "b.mkv", "--k", 2, code=1)
    assert "skipped: b" in said, "the same file is skipped again"
    film(Path("b.mkv"), [(1, 10)])
    said, found = evaluated("a.mkv", "b.mkv", "--k", 2)
    assert "skipped" not in said
    assert (found["n_videos"], found["n_sets"]) == (2, 4)
