"""Import prediction files into a run. The run then treats them like any other model."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strobe.core.answers import ANSWERS, Answers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Progress
from strobe.core.readings import folded, read_as
from strobe.core.tasks import Task
from strobe.formats.prediction_files import BoxFormat, BoxUnits, Kind
from strobe.models.requested import RequestedModel
from strobe.store.brought import Absent, keep_brought
from strobe.store.frame_names import FrameNames
from strobe.store.run_folder import Run
from strobe.store.shards import shard_models


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Options that supply facts which prediction files may lack."""

    merge: str = "max"
    kind: Kind = "auto"
    space: str | None = None
    allow_missing: bool = False
    ignore_extra: bool = False
    box_space: str | None = None
    box_images: Path | None = None
    box_format: BoxFormat = "auto"
    box_units: BoxUnits = "auto"
    absent: Absent = "error"


@dataclass(frozen=True, slots=True)
class _File:
    """The content of a file: answers, the facts stored with them, and notes for the user."""

    answers: Answers
    facts: Mapping[str, str]
    notes: Sequence[str]


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
            task = next(task for task, record in ANSWERS.items() if isinstance(file.answers, record))
            facts = {"kind": file.answers.kind} if isinstance(file.answers, ClassAnswers) else {}
            keep_brought(stage, file.answers, task=task, frames=frames, source=None, facts={**facts, **file.form})
            continue
        from strobe.formats.read_detections import task_of_file

        path = file.file or Path()
        task = task_of_file(path)
        found = READERS[task](path, dataset, file.name, options)
        notes += [(file.name, line) for line in found.notes]
        keep_brought(
            stage,
            found.answers,
            task=task,
            frames=frames,
            source=path,
            facts={**found.facts, **file.form},
        )
    for line in folded(notes):
        progress.note(line)


def _classes(path: Path, dataset: Dataset, name: str, options: FileOptions) -> _File:
    from strobe.formats.read_predictions import read_predictions

    read = read_predictions(
        path,
        dataset,
        name=name,
        kind=options.kind,
        source_space=options.space,
        merge=options.merge,
        allow_missing=options.allow_missing,
        ignore_extra=options.ignore_extra,
    )
    extra = f", {read.n_extra} frames skipped" if read.n_extra else ""
    facts = {**read.facts(), **out_of_reach(dataset, read.childless)}
    return _File(read.answers, facts, [f"{read.kind} in {read.source_space}{extra}", *read.readings])


def _boxes(path: Path, dataset: Dataset, name: str, options: FileOptions) -> _File:
    from strobe.formats.read_detections import read_detections

    read = read_detections(
        path,
        dataset,
        name=name,
        source_space=options.box_space,
        images=options.box_images,
        box_format=options.box_format,
        box_units=options.box_units,
        absent="unscored" if options.allow_missing else options.absent,
        ignore_extra=options.ignore_extra,
    )
    facts = {
        "space": read.source_space,
        "dropped": str(read.n_dropped),
        **out_of_reach(dataset, read.childless),
    }
    return _File(read.answers, facts, [f"{len(read.answers)} boxes in {read.source_space}", *read.notes])


def out_of_reach(dataset: Dataset, childless: Sequence[int]) -> dict[str, str]:
    """Return the dataset's classes to which no class of a file maps, as a fact to store with the answers."""
    return {"childless": json.dumps([dataset.info.label_space.ids[place] for place in childless])} if childless else {}


READERS: Mapping[Task, Callable[[Path, Dataset, str, FileOptions], _File]] = {
    Task.CLASSIFICATION: _classes,
    Task.DETECTION: _boxes,
}
"""The reader of prediction files for each task."""


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
        return space(declared), "as declared"
    if words and all(isinstance(word, str) and not word.isdecimal() for word in words):
        return LabelSpace.of_names(path.stem, sorted(set(words))), "the names in it"
    numbers = [int(word) for word in words if str(word).isdecimal()]
    if usual is not None and max(numbers, default=0) < len(space(usual)):
        return space(usual), read_as("space", usual, "it has class numbers only")
    names = [f"class {number}" for number in range(max(numbers, default=0) + 1)]
    return LabelSpace.of_names(path.stem, names), "its numbers"
