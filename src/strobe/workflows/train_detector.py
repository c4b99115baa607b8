"""`strobe train-detector`: the demo's detector, trained on the synthetic world and measured on clips it never saw."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from strobe.analyses.detection import DetectionOptions, score
from strobe.analyses.model_results import DetectionResult
from strobe.core.answers import BoxAnswers
from strobe.core.errors import expect
from strobe.core.late import require
from strobe.core.ports import Progress, Silent
from strobe.core.records import Detections
from strobe.models.detectors import tiny
from strobe.models.options import LoadOptions, ModelName
from strobe.synthetic.classes import KINDS, LABEL_SPACE
from strobe.synthetic.sets import SyntheticOptions, boxes_seen, synthetic_dataset
from strobe.synthetic.world import Clip, World, WorldOptions

__all__ = ["DETECTION_WORLD", "TrainDetectorOptions", "Trained", "train_detector"]

DETECTION_WORLD = WorldOptions(size=128, objects_min=1, objects_max=3, object_scale=(0.25, 0.5))
"""The world strobe-tiny is trained on and the detection demo plays in."""

_FRAMES = 2
"""Frames taken of a training clip: more would look alike."""
_TRAINING, _TESTING = 11, 12
"""Streams of seeds that never meet: no clip is both trained on and measured on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainDetectorOptions:
    """How much to train, on how many clips (two frames of each), and how many unseen ones to measure on."""

    clips: int = 3000
    steps: int = 1400
    batch: int = 32
    seed: int = 0
    threads: int = 1
    test_clips: int = 60
    world: WorldOptions = field(default_factory=lambda: DETECTION_WORLD)

    def __post_init__(self) -> None:
        expect(self.clips >= 1, "clips", ">= 1", self.clips)
        expect(self.test_clips >= 0, "test clips", ">= 0", self.test_clips)
        expect(self.seed >= 0, "seed", ">= 0", self.seed)
        expect(self.world.size == 128, "world.size", "128, the network's input", self.world.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Where the weights are, their digest, how long it took, and how good they are on unseen clips."""

    weights: Path
    digest: str
    size_bytes: int
    seconds: float
    score: DetectionResult | None


def train_detector(out: Path, options: TrainDetectorOptions, *, progress: Progress | None = None) -> Trained:
    """Render, train, write the weights, then measure what was written."""
    require("torch", what="training a detector", extra="models")
    from strobe.models.detectors.tiny_net import STRIDE, TinyNet, save
    from strobe.train.detector import Samples, TrainOptions, train

    say, begin = progress or Silent(), time.monotonic()
    side = options.world.size
    images = np.empty((options.clips, _FRAMES, side, side, 3), dtype=np.uint8)
    boxes = []
    with say.task("clips", options.clips) as advance:
        for place, clip in enumerate(_training_clips(options)):
            images[place] = clip.frames
            boxes += [boxes_seen(clip, one) for one in range(_FRAMES)]
            advance(1)
    how = TrainOptions(steps=options.steps, batch=options.batch, seed=options.seed, threads=options.threads)
    samples = Samples.of(images.reshape(-1, side, side, 3), boxes, stride=STRIDE)
    network = train(lambda: TinyNet(len(LABEL_SPACE)), samples, how, progress=say)
    told = {"clips": options.clips, "world": asdict(options.world), **asdict(how)}
    save(out, network.state_dict(), label_space=LABEL_SPACE, training=told)
    detector = tiny.load(ModelName("bundled", "strobe-tiny", out), LoadOptions(device="cpu"))
    return Trained(
        weights=out,
        digest=detector.spec.weights,
        size_bytes=out.stat().st_size,
        seconds=time.monotonic() - begin,
        score=_measure(detector, options, say) if options.test_clips else None,
    )


def _training_clips(options: TrainDetectorOptions) -> Iterator[Clip]:
    """Classes in turn, two frames of each clip from anywhere in it."""
    world, half = World(options.world), options.world.frames // 2
    for place in range(options.clips):
        draw = np.random.default_rng([_TRAINING, options.seed, place])
        seed = int(draw.integers(2**62))
        offsets = draw.integers(-half, half + 1, _FRAMES).tolist()
        yield world.clip(seed, label=place % len(KINDS), offsets=offsets)


def _measure(detector: tiny.TinyDetector, options: TrainDetectorOptions, say: Progress) -> DetectionResult:
    seed = int(np.random.SeedSequence([_TESTING, options.seed]).generate_state(1)[0])
    unseen = synthetic_dataset(SyntheticOptions(world=options.world, videos=options.test_clips, seed=seed))
    source, count, batch = unseen.source(), len(unseen.dataset.frames), detector.spec.batch_size
    found: list[Detections] = []
    with say.task("test frames", count) as advance:
        for first in range(0, count, batch):
            rows = range(first, min(count, first + batch))
            found += detector.forward([detector.prepare(source.read(row)) for row in rows])
            advance(len(rows))
    table = BoxAnswers.of_frames(found, n_classes=len(LABEL_SPACE))
    return score(unseen.dataset, table, model="strobe-tiny", options=DetectionOptions(seed=options.seed))
