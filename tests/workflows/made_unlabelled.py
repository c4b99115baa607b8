"""Clips without labels, and models that answer their colours."""

from pathlib import Path

import numpy as np
import pytest

av = pytest.importorskip("av")

COLOURS = {"r": (30, 0, 0), "g": (0, 30, 0), "b": (0, 0, 30)}
TEXTURE = np.random.default_rng(0).integers(60, 160, (24, 32, 1), dtype=np.uint8)
"""The same in every frame, so that a change of the colour is no scene cut."""
MODELS = """
from pathlib import Path
import numpy as np

HERE = Path(__file__).parent

def mean_colour(images):
    return np.array([image.reshape(-1, 3).mean(axis=0) / 10 for image in images], dtype=np.float32)

def make():
    with (HERE / "loads.txt").open("a") as file:
        file.write("x")
    return mean_colour, ["red", "green", "blue"]

def turned():
    return lambda images: mean_colour(images)[:, [2, 0, 1]], ["blue", "red", "green"]

def other():
    return mean_colour, ["cat", "dog", "fish"]

def wider():
    return lambda images: np.pad(mean_colour(images), ((0, 0), (0, 1))), ["red", "green", "blue", "grey"]

def broken():
    raise RuntimeError("it does not load")

def blobs():
    from strobe.models.detectors.py import detector
    def forward(images):
        return [(np.array([[1.0, 1, 9, 9]]), np.array([0]), np.array([0.9])) for _ in images]
    return detector(forward, ["red", "green"], name="blobs")
"""


def clip(path: Path, colours: str, *, rate: int = 25) -> Path:
    """Write a clip with a frame of each colour, without loss."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264rgb", rate=rate, options={"crf": "0"})
        stream.width, stream.height, stream.pix_fmt = 32, 24, "rgb24"
        for index, colour in enumerate(colours):
            image = TEXTURE + np.array(COLOURS[colour], dtype=np.uint8)
            image[0, index % 32] += 20  # every frame differs
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    return path


CALM = """
def calm():
    return lambda images: np.array([[1.0, 0, 0]] * len(images), dtype=np.float32), ["red", "green", "blue"]

def animals():
    return lambda images: mean_colour(images)[:, ::-1], ["cat", "dog", "fish"]
"""
