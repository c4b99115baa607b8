"""Read a detector's boxes, which people accept or move, from a run's stored answers or from a file of boxes."""

from pathlib import Path

from strobe.annexes.web.review.suggestions import suggested_boxes
from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.tasks import Task
from strobe.formats.prediction_files import FileOptions
from strobe.formats.read_detections import read_detections
from strobe.models.grammar import split_name
from strobe.store.run_folder import Run


def suggestions(dataset: Dataset, source: str) -> dict[str, tuple[int, int, int, int]]:
    """Return the boxes to suggest, by frame.

    `source` is RUN, MODEL=RUN (if the run has several detectors) or preds:FILE.
    """
    name, place = split_name(source)
    answers = _of_file(dataset, Path(place[6:])) if place.startswith("preds:") else _of_run(dataset, name, Path(place))
    found = suggested_boxes(dataset, answers)
    if not found:
        raise StrobeError(f"<<suggest={printable(source)}>>: it has no box on any anchor of {printable(dataset.name)}")
    return found


def _of_file(dataset: Dataset, path: Path) -> BoxAnswers:
    return read_detections(path, dataset, FileOptions(absent="unscored", ignore_extra=True), name="suggested").answers


def _of_run(dataset: Dataset, name: str | None, path: Path) -> BoxAnswers:
    run = Run(path)
    if not run.is_on(dataset):
        raise StrobeError(
            f"<<suggest>>: {printable(path)} has predictions, but not for the frames of {printable(dataset.name)}"
        )
    models = run.models(dataset, only=[name] if name else (), allow_missing=True)
    boxing = [model for model in models if model.task is Task.DETECTION]
    if not boxing:
        raise StrobeError(f"<<suggest>>: {printable(path)} has no detector; run one with strobe predict")
    if len(boxing) > 1:
        names = ", ".join(printable(model.name) for model in boxing)
        raise StrobeError(f"<<suggest>>: {printable(path)} has several detectors ({names}); choose one with NAME=RUN")
    answers = boxing[0].load()
    if not isinstance(answers, BoxAnswers):
        raise StrobeError(f"<<suggest>>: {printable(path)} has no boxes")
    return answers
