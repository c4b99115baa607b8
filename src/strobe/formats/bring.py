"""Import prediction files into a run. The run then treats them like any other model."""

from collections.abc import Sequence
from pathlib import Path

from strobe.core.answers import Answers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Progress
from strobe.core.readings import folded, read_as
from strobe.core.tasks import Task
from strobe.formats.prediction_files import FileOptions, PredictionFile
from strobe.models.requested import RequestedModel
from strobe.store.brought import keep_brought
from strobe.store.frame_names import FrameNames
from strobe.store.run_folder import Run
from strobe.store.shards import shard_models


def bring(
    dataset: Dataset,
    run: Run,
    files: Sequence[RequestedModel],
    options: FileOptions,
    progress: Progress,
    *,
    stage: Path,
) -> None:
    """Read prediction files into the staging folder of a run, one at a time. If a file is invalid, nothing is stored.

    Answers that a program passes are imported in the same way.
    """
    here, frames = shard_models(run.path), FrameNames(dataset)
    notes: list[tuple[str, str]] = []
    for file in files:
        if file.name in here:
            raise StrobeError(
                f"{printable(run.path)} already has predictions of a model called {file.name}; "
                "choose another name for the file with -m NAME=preds:FILE"
            )
        if file.answers is not None:
            kind = {"kind": file.answers.kind} if isinstance(file.answers, ClassAnswers) else {}
            found: PredictionFile[Answers] = PredictionFile(answers=file.answers, facts=kind, notes=())
        else:
            found = read_file(file.file or Path(), dataset, options, name=file.name)
        notes += [(file.name, line) for line in found.notes]
        source = file.file if file.answers is None else None
        keep_brought(stage, found.answers, frames=frames, source=source, facts={**found.facts, **file.form})
    for line in folded(notes):
        progress.note(line)


def read_file(path: Path, dataset: Dataset, options: FileOptions, *, name: str | None) -> PredictionFile[Answers]:
    """Read a file of predictions or boxes. The file's structure decides which of them it has."""
    from strobe.formats.read_detections import read_detections, task_of_file
    from strobe.formats.read_predictions import read_predictions

    if task_of_file(path) is Task.DETECTION:
        return read_detections(path, dataset, options, name=name)
    return read_predictions(path, dataset, options, name=name)


def label_space_of(path: Path, options: FileOptions) -> tuple[LabelSpace, str]:
    """Return the classes of a file of predictions, and where they are from, for frames without classes of their own."""
    from strobe.formats.box_files import is_box_source, read_boxes_of_tool
    from strobe.formats.prediction_files import read_raw, read_raw_detections
    from strobe.formats.read_detections import listed_space, task_of_file

    if not path.exists():
        raise StrobeError(f"no such file: {printable(path)}")
    if task_of_file(path) is Task.DETECTION:
        boxes = read_boxes_of_tool(path) if is_box_source(path) else read_raw_detections(path)
        declared = options.box_space or boxes.space
        if boxes.categories is not None and (listed := listed_space(path, boxes)) is not None:
            return listed, "its categories"
        words, usual = boxes.words, "coco-80" if boxes.unit == "box" else None
    else:
        raw = read_raw(path)
        declared, usual, words = options.space or raw.space, None, list(raw.values)
        if words and not isinstance(words[0], int | str):
            words = list(raw.columns or range(len(words[0])))
            usual = "ilsvrc-2012" if len(words) == 1000 else None
    if declared is not None:
        return (declared if isinstance(declared, LabelSpace) else space(declared)), "as declared"
    if words and all(isinstance(word, str) and not word.isdecimal() for word in words):
        return LabelSpace.of_names(path.stem, sorted(set(words))), "the names in it"
    numbers = [int(word) for word in words if str(word).isdecimal()]
    if usual is not None and max(numbers, default=0) < len(space(usual)):
        return space(usual), read_as("space", usual, "it has class numbers only")
    names = [f"class {number}" for number in range(max(numbers, default=0) + 1)]
    return LabelSpace.of_names(path.stem, names), "its numbers"
