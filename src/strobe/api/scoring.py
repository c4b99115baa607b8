"""From predictions to figures: `score`, `results`, `compare`, `report`.

>>> import numpy as np, strobe
>>> dataset = strobe.example_dataset()
>>> scores = np.zeros((len(dataset.frames), len(dataset.info.label_space)))
>>> scores[dataset.labels.frame, dataset.labels.label] = 1.0     # a model that is always right
>>> found = strobe.score(dataset, scores, name="perfect")
>>> found.acc_orig.value, found.acc_pmk.value, found.drop.count
(1.0, 1.0, 0)
>>> found
<ClassifierScore perfect: acc_orig 100.0 [63.1, 100.0], acc_pmk 100.0 [63.1, 100.0], drop 0.0 [0.0, 36.9] %; k = 3, \
8 sets of example>
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from strobe.api.words import in_python, opened
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect
from strobe.core.labels import LabelSpace

if TYPE_CHECKING:
    from strobe.analyses.detection import DetectionOptions
    from strobe.analyses.plan import ScoreOptions
    from strobe.api.faces import ClassifierScore, Comparisons, DetectorScore
    from strobe.workflows.bring import FileOptions
    from strobe.workflows.score import ScoredRun

__all__ = ["compare", "load_predictions", "report", "results", "score"]

Kind = Literal["auto", "logits", "probabilities", "labels"]
Interval = Literal["auto", "clopper-pearson"]
BoxFormat = Literal["auto", "xyxy", "xywh", "cxcywh"]
BoxUnits = Literal["auto", "pixels", "normalised"]


@in_python
def score(
    dataset: Dataset | str | Path,
    predictions: Any,
    *,
    keys: Sequence[str] | None = None,
    name: str | None = None,
    kind: Kind = "auto",
    space: str | LabelSpace | None = None,
    merge: Literal["max", "mean", "sum"] = "max",
    allow_missing: bool = False,
    ignore_extra: bool = False,
    empty_frames: bool = False,
    box_format: BoxFormat = "auto",
    box_units: BoxUnits = "auto",
    k: int | None = None,
    interval: Interval = "auto",
    seed: int = 0,
    detection: "DetectionOptions | None" = None,
) -> "ClassifierScore | DetectorScore":
    """Every figure of one model: attributes are Estimates, `to_frame()` and `plot()` show them.

    `predictions` are what `strobe.predict` returned, `{frame: scores}` or `{frame: class}`, an array (N, classes) with
    `keys` (without them a row for every frame, in the order of `dataset.frames.key`), a DataFrame, or a file. Of a
    detector: `{frame: {"boxes", "labels", "scores"}}`, or a DataFrame with x0, y0, x1, y1, label, score; `empty_frames`
    says that a frame without boxes is an empty answer. Boxes are corners in pixels, or what `box_format` ("xyxy",
    "xywh", "cxcywh") and `box_units` ("pixels", "normalised") say; boxes that fit the true objects otherwise are
    refused.

    `space` says whose classes they are where they are not the dataset's: they are then projected, classes in common by
    id or name. A thousand scores are ilsvrc-2012's; any other width is refused. Frames without a prediction are refused
    too, unless `allow_missing`: then they are counted apart. `notes` says what to know beside the figures. Sets that
    are in no figure (without a label, a vote, or all predictions) are a warning, too.
    """
    from strobe.analyses.plan import ScoreOptions
    from strobe.api.faces import shown, warn_of
    from strobe.api.given import answers_of

    data = opened(dataset)
    options = replace(
        _files(kind, merge, allow_missing=allow_missing, ignore_extra=ignore_extra, empty_frames=empty_frames),
        box_format=box_format,
        box_units=box_units,
    )
    one = answers_of(predictions, data, options, space=space, keys=keys, name=name)
    asked = ScoreOptions(k=k, interval=interval, seed=seed)
    scored = _scored(data, [one], asked, merge=merge, detection=detection)
    found: Any = scored.results.models[one.name]
    face: ClassifierScore | DetectorScore = shown(found, data, scored.sets[0], scored.results.dataset)
    warn_of(face, scored.results.dataset)
    return face


@in_python
def results(
    dataset: Dataset | str | Path,
    predictions: Sequence[Any] | Mapping[str, Any],
    *,
    k: int | None = None,
    interval: Interval = "auto",
    seed: int = 0,
    standard: Collection[str] = (),
    space: str | LabelSpace | None = None,
    judges: Sequence[str] = (),
    baseline: str | None = None,
) -> dict[str, Any]:
    """The content of results.json for several models: their scores, their comparison, the trend.

    `predictions` are a list of answers, or whatever `score` takes by the name of its model. `standard` names the models
    that make the trend line; `space` is as for `score`. Frames without a prediction are unscored. Of searches, `judges`
    name models that say whether a finding is still what it was, `baseline` the target that others are divided by.

    >>> from strobe import ClassAnswers, example_dataset
    >>> dataset = example_dataset()
    >>> labels = dataset.labels.label[dataset.labels.frame.argsort()]
    >>> found = results(dataset, [ClassAnswers.from_labels("perfect", labels)])
    >>> found["models"]["perfect"]["acc_pmk"]["value"]
    1.0
    """
    from strobe.analyses.plan import ScoreOptions
    from strobe.api.given import answers_of
    from strobe.core.codec import encode

    data = opened(dataset)
    named = predictions.items() if isinstance(predictions, Mapping) else [(None, one) for one in predictions]
    expect(len(predictions) > 0, "predictions", "at least one model", 0)
    options = _files("auto", "max", allow_missing=True)
    known = [answers_of(given, data, options, space=space, name=name) for name, given in named]
    expect(len({one.name for one in known}) == len(known), "predictions", "each model once", [m.name for m in known])
    types = {one.name: (None, one.name in standard) for one in known}
    judging = ScoreOptions(k=k, interval=interval, seed=seed, judges=tuple(judges), baseline=baseline)
    found = _scored(data, known, judging, types=types).results
    missing = any(one.unscored.sets for one in found.models.values())
    written: dict[str, Any] = encode(replace(found, settings=replace(found.settings, allow_missing=missing)))
    return written


@in_python
def compare(
    *models: "ClassifierScore | DetectorScore | str | Path",
    k: int | None = None,
    videos: str | Path | None = None,
    allow_missing: bool = False,
    dataset: str | Path | None = None,
) -> "Comparisons":
    """Compare models on the same sets: exact paired tests, corrected for their number, with a sentence for each.

    `models` are two or more scores on one dataset (what was before first), or run folders, which are compared model by
    model. The rest is for run folders: `dataset` says where that lies now, `videos` is a file of video names to compare
    on, or "all"; by default these are the videos that the runs were scored on.
    """
    from strobe.analyses.classification import ClassificationScore
    from strobe.analyses.comparison import compare as compare_classifiers
    from strobe.analyses.comparison_detection import compare_detectors
    from strobe.analyses.plan import ScoreOptions
    from strobe.analyses.variants_view import overall
    from strobe.api.faces import Comparisons
    from strobe.core.ports import Silent
    from strobe.workflows.compare import compare_runs, in_words

    runs = [Path(one) for one in models if isinstance(one, str | Path)]
    scores = [one for one in models if not isinstance(one, str | Path)]
    if runs and scores:
        raise StrobeError("compare: give scores, or run folders, not both")
    if runs:
        moved = None if dataset is None else Path(dataset)
        found = compare_runs(
            runs,
            models=(),
            options=ScoreOptions(k=k),
            subset=None if videos is None else Path(videos),
            dataset_path=moved,
            allow_missing=allow_missing,
            progress=Silent(),
        )
        return Comparisons(found)
    expect(len(scores) >= 2, "compare", "at least two scores, or run folders", len(scores))
    data = scores[0].dataset
    for one in scores[1:]:
        if one.dataset.digest() != data.digest():
            raise StrobeError(
                f"compare: {one.model} was scored on other data than {scores[0].model}; score both on one dataset"
            )
    names = _apart([one.model for one in scores])
    scores = [replace(one, model=name) for one, name in zip(scores, names, strict=True)]
    classifiers = [one for one in scores if isinstance(one, ClassificationScore)]
    detectors = [one for one in scores if not isinstance(one, ClassificationScore)]
    if classifiers and detectors:
        raise StrobeError("compare: a classifier and a detector cannot be set beside each other")
    if classifiers:
        found = compare_classifiers(overall(data).labelled_sets(), classifiers)
    else:
        found = compare_detectors(overall(data), detectors)
    return Comparisons(in_words(found, data))


@in_python
def report(
    run: str | Path,
    *,
    show: Sequence[str] = (),
    before: str | None = None,
    after: str | None = None,
    gallery: int = 36,
    videos: str | Path | None = None,
    dataset: str | Path | None = None,
) -> Path:
    """Write report.html of a run folder that was scored (`strobe.evaluate` does both), and return its path.

    `show` names models that figures and gallery show first, `before` and `after` two to tell the change between;
    `gallery` is how many sets it shows at most; `dataset` says where the dataset lies now, if it was moved. `videos` is
    the file of video names it was scored on, for runs of earlier versions: others remember them.
    """
    from strobe.report.page import PageOptions
    from strobe.workflows.report import ReportOptions, report_run

    expect((before is None) == (after is None), "before and after", "both, or neither", (before, after))
    change = None if before is None or after is None else (before, after)
    moved = None if dataset is None else Path(dataset)
    options = PageOptions(gallery_sets=gallery)
    part = None if videos is None else Path(videos)
    request = ReportOptions(options=options, dataset=moved, subset=part, show=tuple(show), change=change)
    return report_run(Path(run), request)


@in_python
def load_predictions(
    path: str | Path,
    dataset: Dataset | str | Path,
    *,
    name: str | None = None,
    kind: Kind = "auto",
    space: str | None = None,
    merge: Literal["max", "mean", "sum"] = "max",
    allow_missing: bool = False,
    ignore_extra: bool = False,
    empty_frames: bool = False,
    box_format: BoxFormat = "auto",
    box_units: BoxUnits = "auto",
) -> ClassAnswers | BoxAnswers:
    """Predictions from a JSON, JSONL, CSV or Parquet file, of a classifier or a detector, aligned with the frames.

    The model is called `name`, or as the file is. `space` is the label space of class numbers, e.g. ilsvrc-2012.
    `box_format` and `box_units` are as for `score`.
    """
    from strobe.api.given import answers_of

    options = replace(
        _files(kind, merge, allow_missing=allow_missing, ignore_extra=ignore_extra, empty_frames=empty_frames),
        box_format=box_format,
        box_units=box_units,
    )
    return answers_of(Path(path), opened(dataset), options, space=space, name=name).answers


def _files(
    kind: Kind, merge: str, *, allow_missing: bool = False, ignore_extra: bool = False, empty_frames: bool = False
) -> "FileOptions":
    from strobe.workflows.bring import FileOptions

    return FileOptions(
        kind=kind, merge=merge, allow_missing=allow_missing, ignore_extra=ignore_extra,
        absent="empty" if empty_frames else "error",
    )  # fmt: skip


def _scored(
    dataset: Dataset,
    models: Sequence[Any],
    options: "ScoreOptions",
    *,
    merge: str = "max",
    types: Mapping[str, tuple[str | None, bool]] | None = None,
    detection: "DetectionOptions | None" = None,
) -> "ScoredRun":
    """The models scored as the command line scores them; what lies in memory is dataset and candidates alike."""
    from strobe.analyses.detection import DetectionOptions
    from strobe.core.ports import Silent
    from strobe.workflows.opening import Opened
    from strobe.workflows.score import ScoreRunOptions, check_request, score_models

    place = Opened(path=dataset.root or Path(), candidates=dataset, dataset=dataset)
    request = ScoreRunOptions(options=options, detection=detection or DetectionOptions(), merge=merge)
    check_request(request, place)
    return score_models(models, place, request, Silent(), types=dict(types or {}))


def _apart(names: Sequence[str]) -> list[str]:
    """The names, those of several scores told apart by a number.

    >>> _apart(["net", "other", "net"])
    ['net (1)', 'other', 'net (2)']
    """
    return [
        name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(list(names))
    ]
