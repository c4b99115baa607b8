"""`strobe train detector`: train torchvision's detectors, classifiers of timm with a head, and strobe-tiny, on a
dataset with boxes.

Without a dataset, strobe-tiny is trained on rendered clips, as the shipped weights were.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.detection import score
from strobe.analyses.model_results import DetectionScore
from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import Progress
from strobe.core.records import Box, Detections
from strobe.core.tables import Boxes
from strobe.models.options import LoadOptions
from strobe.synthetic.classes import KINDS, LABEL_SPACE
from strobe.synthetic.sets import SyntheticOptions, boxes_seen, synthetic_dataset
from strobe.synthetic.world import DETECTION_WORLD, Clip, World
from strobe.train.recipe import Training
from strobe.workflows.train_card import About, began, finish, noted, trained_on
from strobe.workflows.train_job import Material, Trained, TrainingJob, load_options, places_of

if TYPE_CHECKING:
    from strobe.annexes.train.grid import Samples, StreamedSamples
    from strobe.engine.reading import FrameStream
    from strobe.models.detectors.boxes import Placement
    from strobe.models.detectors.trainable import DetectorStart
    from strobe.train.optimising import Optimisation
    from strobe.train.pixels import StoredFrames
    from strobe.train.split import Split


_FRAMES = 2
"""Frames per training clip. More frames would look alike."""
_TRAINING, _TESTING = 11, 12
"""Disjoint ranges of seeds, so that no clip is used for both training and evaluation."""


@dataclass(frozen=True, slots=True)
class _DetectorMeasure:
    """The held-out sets, the source of their frames, and the detector in training as a model for commands."""

    dataset: Dataset
    material: Material
    start: "DetectorStart"
    device: str
    say: Progress

    @property
    def names(self) -> tuple[str, str]:
        """The names of the figures: mean average precisions."""
        return "map_orig", "map_pmk"

    def measure(self, trainer: "Optimisation") -> tuple[float, float]:
        """Return mAP on the anchors and on the worst frames, or 0 if there are no objects."""
        found = self.scored(trainer)
        return found.map_orig.value or 0.0, found.map_pmk.value or 0.0

    def scored(self, trainer: "Optimisation") -> DetectionScore:
        """Return the full score of the detector in its current state."""
        detector, source = self.start.behind_port(trainer.result, self.device), self.material.source
        rows, batch = np.unique(self.dataset.sets.frame), detector.spec.batch_size
        detections: list[Detections | None] = [None] * len(self.dataset.frames)
        with self.say.task("held-out frames", len(rows)) as advance:
            for first in range(0, len(rows), batch):
                batch_rows = rows[first : first + batch]
                seen = detector.forward([detector.prepare(source.read(row)) for row in batch_rows])
                for row, one in zip(batch_rows, seen, strict=True):
                    detections[row] = self._in_classes(one)
                advance(len(batch_rows))
        table = BoxAnswers.of_frames(detections, n_classes=len(self.dataset.info.label_space))
        return score(self.dataset, table, model=self.start.name)

    def _in_classes(self, found: Detections) -> Detections:
        label = found.label - self.start.first_label
        kept = (label >= 0) & (label < len(self.dataset.info.label_space))
        return Detections(xyxy=found.xyxy[kept], label=label[kept].astype(np.int32), score=found.score[kept])


@dataclass(frozen=True, slots=True)
class _DetectorTraining(TrainingJob):
    """One training of a detector. Without material, it renders its own clips."""

    def run(self) -> Trained:
        """Run the training: load the data and the start weights, run the steps, write the files."""
        from strobe.models.detectors.trainable import StartOptions, detector_start

        space = LABEL_SPACE if self.material is None else self.material.dataset.info.label_space
        loading, seed = load_options(self.options, self.say), self.options.seed
        if self.material is None:
            loading = LoadOptions(device="cpu", pretrained=False)  # it starts from scratch, as the shipped weights did
        split = self._split()
        recipe = self.recipe
        how = StartOptions(
            backbone=recipe.backbone,
            norms=recipe.norms,
            trainable_layers=recipe.trainable_layers,
            head=recipe.head,
            pyramid=recipe.pyramid,
        )
        start = self.processes.first_then_all(lambda: detector_start(self.model, space, loading, seed=seed, how=how))
        if start.is_grid and self.processes.count > 1:
            raise StrobeError(
                f"{printable(self.model)}: it is too small for several processes; train it in one process"
            )
        if self.material is None and start.name != "strobe-tiny":
            raise StrobeError(
                f"{printable(self.model)}: needs a DATASET to train on; only strobe-tiny trains without one"
            )
        with self.opened(self._facts(split, start)) as (folder, was_there):
            if was_there:
                history = folder.history()
            else:
                measured, trainer = self._measured(split, start), self._trainer(split, start)
                files = {} if split is None or self.material is None else split.files(self.material.dataset)
                history = self.steps(folder, files, trainer, measured)
                if self.processes.is_first:
                    about = self._about(start, split, measured, measured.scored(trainer))
                    finish(folder, history, about, lambda path, told: start.write(path, trainer.result, told))
        shown = self.held_out or self.material
        k = DETECTION_WORLD.frames // 2 if shown is None else shown.dataset.info.k
        return self.trained(start.written(self.weights), k, history, was_there=was_there)

    def _split(self) -> "Split | None":
        if self.material is None:
            return None
        if self.material.dataset.boxes is None:
            raise StrobeError(
                f"{printable(self.material.dataset.name)}: it has no boxes, which a detector needs for training"
            )
        return self.sides(self.material.dataset, multi_label=True)

    def _facts(self, split: "Split | None", start: "DetectorStart") -> dict[str, Any]:
        data: dict[str, Any] = {"clips": asdict(DETECTION_WORLD)}
        if self.material is not None and split is not None:
            data = self.data_facts(self.material.dataset, split)
        return {
            "model": start.name,
            "recipe": self.recipe.settings(),
            "seed": self.options.seed,
            "start": start.weights,
            "new_head": start.new_head,
            "image_size": self.options.image_size,
            "precision": "float32",
            **data,
        }

    def _measured(self, split: "Split | None", start: "DetectorStart") -> _DetectorMeasure:
        if self.material is None or split is None:
            seed = int(np.random.SeedSequence([_TESTING, self.options.seed]).generate_state(1)[0])
            wanted = SyntheticOptions(world=DETECTION_WORLD, videos=self.recipe.test_clips or 1, seed=seed)
            unseen = synthetic_dataset(wanted, progress=self.say)
            material = Material(dataset=unseen.dataset, source=unseen.source())
            return _DetectorMeasure(unseen.dataset, material, start, self.device, self.say)
        material = self.held_out or self.material
        part = material.dataset.keep_rows(np.isin(material.dataset.sets.set, split.held_out))
        return _DetectorMeasure(part, material, start, self.device, self.say)

    def _trainer(self, split: "Split | None", start: "DetectorStart") -> "Optimisation":
        from strobe.annexes.train.boxes import BoxTrainer, Truth
        from strobe.annexes.train.grid import GridTrainer
        from strobe.train.sets import TrainingSets

        if start.is_grid:
            samples = self._rendered() if split is None else self._placed(split, start.module.side)
            return GridTrainer(start.module, self.recipe, samples, seed=self.options.seed, device=self.device)
        if self.material is None or split is None:
            raise StrobeError("a detector needs a dataset")
        dataset, rows = self.material.dataset, np.unique(self.material.dataset.sets.frame)
        sizes = _sizes(self.material, rows)
        return BoxTrainer(
            start.module,
            self.recipe,
            TrainingSets.of(dataset, split.training, places_of(dataset, rows), which="unread"),
            self._frames(self.material, rows, sizes[rows]),
            Truth(dataset, sizes),
            first_label=start.first_label,
            device=self.device,
            seed=self.options.seed,
            processes=self.processes,
        )

    def _frames(self, material: Material, rows: Ints, sizes_hw: Ints) -> "StoredFrames | FrameStream":
        """Return these frames at their own sizes, stored once if they fit in the scratch file."""
        from strobe.engine.reading import FrameMaking
        from strobe.train.pixels import StoredFrames, frame_starts
        from strobe.train.streaming import parts_ahead

        starts = frame_starts(sizes_hw)
        stored = self.stores(len(rows), int(starts[-1]))
        stream = self.stream(material, rows, FrameMaking(), np.diff(starts), few=True, once=stored)
        if not stored:
            return stream

        def fill(table: NDArray[np.uint8]) -> None:
            with self.say.task("frames prepared", len(rows)) as advance:
                for _, places in parts_ahead(stream, np.arange(len(rows)), stream.at_once):
                    for place, image in zip(places.tolist(), stream.images(places), strict=True):
                        table[starts[place] : starts[place + 1]] = image.cpu().numpy().reshape(-1)
                    advance(len(places))

        return self.processes.first_then_all(
            lambda: StoredFrames.of(
                material.dataset,
                rows,
                fill,
                sizes_hw,
                device=self.device,
                folder=self.scratch,
                most_bytes=self.most_bytes,
            )
        )

    def _placed(self, split: "Split", side: int) -> "Samples | StreamedSamples":
        """Return the training frames of the dataset at the network's input size, with their boxes."""
        from strobe.annexes.train.grid import Samples, StreamedSamples
        from strobe.engine.reading import FrameMaking
        from strobe.models.detectors.boxes import PlacementPreparation
        from strobe.models.detectors.tiny_net import STRIDE
        from strobe.train.streaming import StreamedPixels

        if self.material is None or self.material.dataset.boxes is None:
            raise StrobeError("a detector needs a dataset with boxes")
        dataset, boxes = self.material.dataset, self.material.dataset.boxes
        chosen = np.isin(dataset.sets.set, split.training)
        if self.recipe.frames == "anchor":
            chosen &= dataset.sets.is_anchor
        rows, canvas = np.unique(dataset.sets.frame[chosen]), (side, side)
        placing, sizes = PlacementPreparation(size_hw=canvas, one_scale=True), _sizes(self.material, rows)
        pixels = self.prepared(
            self.material, rows, FrameMaking(placing), size_hw=canvas, facts={"canvas": canvas, "way": "middle"}
        )
        order = np.argsort(boxes.frame, kind="stable")
        first = np.searchsorted(boxes.frame[order], np.arange(len(dataset.frames) + 1))

        @cache  # few sizes, many frames
        def placement_of(height: int, width: int) -> "Placement":
            return placing.prepare(np.zeros((height, width, 3), dtype=np.uint8))[1]

        def boxes_of(number: int) -> list[Box]:
            row = int(rows[number])
            placement = placement_of(*sizes[row].tolist())
            return [_moved(boxes, int(order[one]), placement) for one in range(int(first[row]), int(first[row + 1]))]

        if isinstance(pixels, StreamedPixels):
            return StreamedSamples(pixels, boxes_of, stride=STRIDE)
        images = pixels.take(np.arange(len(rows))).permute(0, 2, 3, 1).cpu().numpy()
        return Samples.of(images, [boxes_of(number) for number in range(len(rows))], stride=STRIDE)

    def _rendered(self) -> "Samples":
        from strobe.annexes.train.grid import Samples
        from strobe.models.detectors.tiny_net import INPUT, STRIDE

        clips = max(1, self.recipe.clips)
        images = np.empty((clips, _FRAMES, INPUT, INPUT, 3), dtype=np.uint8)
        boxes: list[Sequence[Box]] = []
        with self.say.task("clips", clips) as advance:
            for index, clip in enumerate(_training_clips(clips, self.options.seed)):
                images[index] = clip.frames
                boxes += [boxes_seen(clip, one) for one in range(_FRAMES)]
                advance(1)
        return Samples.of(images.reshape(-1, INPUT, INPUT, 3), boxes, stride=STRIDE)

    def _about(
        self, start: "DetectorStart", split: "Split | None", measured: _DetectorMeasure, scored: DetectionScore
    ) -> About:
        on = f"{self.recipe.clips} rendered clips, two frames of each, seed {self.options.seed}"
        if self.material is not None and split is not None:
            on = trained_on(self.material.dataset, len(split.training))
        return About(
            recipe=self.recipe,
            name=start.name,
            written=start.written(self.weights),
            start=began(self.model, start.weights, is_random=start.is_random, new_head=start.new_head),
            knew=not (start.is_random or start.new_head),
            classes=measured.dataset.info.label_space,
            trained_on=on,
            held_out=measured.dataset,
            is_part=split is not None and split.is_part,
            names=measured.names,
            scored=dict(zip((*measured.names, "drop"), (scored.map_orig, scored.map_pmk, scored.drop), strict=True)),
            notes=noted(scored.answers, self.say),
            device=self.device,
            processes=self.processes.count,
        )


def _sizes(material: Material, rows: Ints) -> Ints:
    """Return the size (height, width) of these frames, (F, 2). Frames without a recorded size are read."""
    frames = material.dataset.frames
    sizes = np.column_stack([frames.height, frames.width]).astype(np.int64)
    for row in rows[(sizes[rows] == 0).any(axis=1)]:
        sizes[row] = material.source.read(int(row)).shape[:2]
    return sizes


def _moved(boxes: Boxes, place: int, placement: "Placement") -> Box:
    """Return one box in coordinates of the network's input."""
    x0, y0, x1, y1 = placement.to_input(boxes.xyxy[place : place + 1])[0].tolist()
    return Box(xyxy=(x0, y0, x1, y1), label=int(boxes.label[place]), crowd=bool(boxes.crowd[place]))


def _training_clips(clips: int, seed: int) -> Iterator[Clip]:
    """Render clips of all classes in turn, and use two random frames of each."""
    world, half = World(DETECTION_WORLD), DETECTION_WORLD.frames // 2
    for place in range(clips):
        draw = np.random.default_rng([_TRAINING, seed, place])
        of_clip = int(draw.integers(2**62))
        offsets = draw.integers(-half, half + 1, _FRAMES).tolist()
        yield world.clip(of_clip, label=place % len(KINDS), offsets=offsets)


def _summary(done: Trained) -> str:
    told = zip(("map_orig", "map_pmk"), done.history[-1].named.values(), strict=True)
    return f"held out {', '.join(f'{name} {value:.1%}' for name, value in told)}"


train_detector = _DetectorTraining.train
"""Train a detector by a recipe (`TrainingJob.train`)."""

DETECTORS = Training(run=train_detector, summary=_summary, package="strobe.annexes.train")
