"""Import prediction files into a run, where they are models like any other."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strobe.core.answers import ANSWERS, Answers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import Progress
from strobe.core.tasks import Task
from strobe.datasets.read_detections import Absent, BoxFormat, BoxUnits, read_detections, task_of_file
from strobe.datasets.read_predictions import Kind, read_predictions
from strobe.models.requested import RequestedModel
from strobe.runs.brought import keep_brought
from strobe.runs.folder import Run
from strobe.runs.frames import FrameNames
from strobe.runs.shards import shard_models

__all__ = ["READERS", "FileOptions", "bring", "out_of_reach"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Facts that prediction files may lack."""

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
    """The content of a file: answers, the facts stored with them, and lines for the user."""

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
    """Read prediction files into the stage of a run, one at a time. A refused file leaves nothing behind.

    Answers that a program passes are imported in the same way.
    """
    here, frames = shard_models(run.path), FrameNames(dataset)
    for one in files:
        if one.name in here:
            raise StrobeError(
                f"{printable(run.path)} holds predictions of a model called {one.name} that was run there; "
                "name the file's with -m NAME=preds:FILE"
            )
        if one.answers is not None:
            task = next(task for task, record in ANSWERS.items() if isinstance(one.answers, record))
            facts = {"kind": one.answers.kind} if isinstance(one.answers, ClassAnswers) else {}
            keep_brought(stage, one.answers, task=task, frames=frames, source=None, facts=facts)
            continue
        path = one.file or Path()
        task = task_of_file(path)
        found = READERS[task](path, dataset, one.name, options)
        for line in found.notes:
            progress.note(f"{one.name}: {line}")
        keep_brought(stage, found.answers, task=task, frames=frames, source=path, facts=found.facts)


def _classes(path: Path, dataset: Dataset, name: str, options: FileOptions) -> _File:
    one = read_predictions(
        path, dataset, name=name, kind=options.kind, source_space=options.space, merge=options.merge,
        allow_missing=options.allow_missing, ignore_extra=options.ignore_extra,
    )  # fmt: skip
    assumed = "" if one.kind_declared or one.kind == "labels" else " (by their look; --kind says otherwise)"
    extra = f", {one.n_extra} frames left out" if one.n_extra else ""
    facts = {
        "kind": one.kind,
        "space": one.source_space,
        "declared": str(one.kind_declared),
        **out_of_reach(dataset, one.childless),
    }
    return _File(one.answers, facts, [f"{one.kind}{assumed} in {one.source_space}{extra}"])


def _boxes(path: Path, dataset: Dataset, name: str, options: FileOptions) -> _File:
    one = read_detections(
        path, dataset, name=name, source_space=options.box_space, images=options.box_images,
        box_format=options.box_format, box_units=options.box_units,
        absent="unscored" if options.allow_missing else options.absent, ignore_extra=options.ignore_extra,
    )  # fmt: skip
    facts = {
        "space": one.source_space,
        "dropped": str(one.n_dropped),
        **out_of_reach(dataset, one.childless),
    }
    return _File(one.answers, facts, [f"{len(one.answers)} boxes in {one.source_space}", *one.notes])


def out_of_reach(dataset: Dataset, childless: Sequence[int]) -> dict[str, str]:
    """Return the fact that no class of a file maps to some classes of the dataset, as it is stored with the answers."""
    return {"childless": json.dumps([dataset.info.label_space.ids[place] for place in childless])} if childless else {}


READERS: Mapping[Task, Callable[[Path, Dataset, str, FileOptions], _File]] = {
    Task.CLASSIFICATION: _classes,
    Task.DETECTION: _boxes,
}
"""The reader of prediction files of each task."""
