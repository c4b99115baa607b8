"""Draw docs/images/flicker.png: one flicker of the shipped detector on the synthetic world, chosen from many clips.

    python scripts/make_flicker_picture.py [CLIPS]

Clips and detector are the project's own. A flicker is three consecutive frames with a fully visible object. The
detector finds its box on each frame. Its class is right, then wrong, then right again. The script draws the flicker
with the highest scores.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.synthetic.classes import LABEL_SPACE
from strobe.synthetic.world import Clip, World, WorldOptions

TARGET = Path(__file__).parents[1] / "docs/images/flicker.png"
OPTIONS = WorldOptions(size=256, frames=9, object_scale=(0.4, 0.6), distractors=1)
RIGHT, WRONG = "#0a58a8", "#b3361e"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The detector's box with the highest score on a frame."""

    name: str
    score: float
    box: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flicker:
    """Three frames of a clip with their answers. The middle answer is wrong."""

    clip: Clip
    middle: int
    answers: list[Answer]

    @property
    def sureness(self) -> float:
        """The lowest score of the three answers."""
        return min(answer.score for answer in self.answers)


def found_in(clip: Clip, detector: Any) -> Flicker | None:
    """Return the clip's flicker with the highest scores, or None if there is no flicker."""
    answers = []
    for one in detector.forward([detector.prepare(frame) for frame in clip.frames]):
        if len(one.score) == 0:
            return None
        best = int(np.argmax(one.score))
        answers.append(Answer(name=LABEL_SPACE.names[one.label[best]], score=one.score[best], box=one.xyxy[best]))
    truth = LABEL_SPACE.names[clip.label]
    clear = (clip.occlusion[:, 0] < 0.05) & (clip.in_view[:, 0] > 0.95)
    clear &= [overlap(answer.box, box) > 0.6 for answer, box in zip(answers, clip.boxes[:, 0], strict=True)]
    right = [answer.name == truth for answer in answers]
    flickers = [
        Flicker(clip=clip, middle=at, answers=answers[at - 1 : at + 2])
        for at in range(1, len(answers) - 1)
        if clear[at - 1 : at + 2].all() and right[at - 1] and not right[at] and right[at + 1]
    ]
    return max(flickers, key=lambda flicker: flicker.sureness, default=None)


def overlap(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the intersection over union of two boxes."""
    sides = np.clip(np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]), 0, None)
    both = float(sides.prod())
    return both / float(np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2]) - both)


def draw(flicker: Flicker) -> None:
    """Draw the three frames side by side, each with the detector's answer above it."""
    truth, apart = LABEL_SPACE.names[flicker.clip.label], 1000 / OPTIONS.fps
    figure = Figure(figsize=(9.6, 3.55), dpi=125, facecolor="white")
    for place, answer in enumerate(flicker.answers):
        colour, mark = (RIGHT, "✓") if answer.name == truth else (WRONG, "✗")
        axes = figure.add_axes((0.004 + place / 3, 0.004, 0.325, 0.88))
        axes.imshow(flicker.clip.frames[flicker.middle - 1 + place], interpolation="lanczos")
        (x0, y0), (width, height) = answer.box[:2], answer.box[2:] - answer.box[:2]
        for edge, thick in (("white", 3.2), (colour, 1.7)):
            axes.add_patch(Rectangle((x0, y0), width, height, fill=False, edgecolor=edge, linewidth=thick))
        axes.set(xticks=[], yticks=[])
        for side in axes.spines.values():
            side.set(color=colour, linewidth=2.5)
        when = "" if place == 0 else f"+{apart * place:.0f} ms: "
        axes.set_title(
            f"{when}{mark} {answer.name}, {100 * answer.score:.0f} %", color=colour, fontsize=13.5, loc="left"
        )
    figure.savefig(TARGET, pil_kwargs={"optimize": True})
    print(f"{TARGET.name}: clip {flicker.clip.seed}, around frame {flicker.middle}, a {truth}")


def main() -> None:
    world, detector = World(OPTIONS), load_model("strobe-tiny", LoadOptions(device="cpu"))
    clips = (world.clip(seed) for seed in range(int((sys.argv[1:] or ["400"])[0])))
    found = [flicker for clip in clips if (flicker := found_in(clip, detector)) is not None]
    if not found:
        sys.exit("these clips contain no flicker; pass a larger number of clips")
    draw(max(found, key=lambda flicker: flicker.sureness))


if __name__ == "__main__":
    main()
