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

from strobe.api.words import as_path, in_python, opened, watching
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect
from strobe.core.labels import LabelSpace
from strobe.core.ports import Progress

if TYPE_CHECKING:
    from strobe.analyses.plan import ScoreOptions
    from strobe.api.faces import ClassifierScore, ClipVerdicts, Comparisons, DetectorScore
    from strobe.formats.prediction_files import FileOptions
    from strobe.studies.detection.records import DetectionOptions
    from strobe.workflows.score import ScoredRun


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
    """Score the predictions of one model on a dataset.

    Sets without a label, a vote or all predictions are excluded, with a warning and a line in `notes`.

    Args:
        dataset: A dataset, or its folder.
        predictions: The answers of `strobe.predict`; `{frame: scores}` or `{frame: class}`; an array (N, classes); a
            DataFrame; or a file. For a detector, `{frame: {"boxes", "labels", "scores"}}`, or a DataFrame with the
            columns x0, y0, x1, y1, label and score.
        keys: The frame of each row of an array. Default: every frame, in the order of `dataset.frames.key`.
        name: The model's name.
        kind: Whether the scores are logits, probabilities or labels.
        space: The label space of the predictions if it differs from the dataset's. The predictions are then projected,
            with classes matched by id or name. Without `space`, a thousand scores are taken as ilsvrc-2012, and any
            other wrong number of scores raises an error.
        merge: How several of the model's classes become one class of the dataset: the largest score, the mean score, or
            the log of the summed probabilities.
        allow_missing: Count frames without a prediction separately, instead of refusing them.
        ignore_extra: Ignore predictions for frames that the dataset does not have.
        empty_frames: Treat a frame that is missing from a detector's predictions as answered without boxes.
        box_format: "xyxy" (corners), "xywh" (corner and size) or "cxcywh" (centre and size). Default: corners. Boxes
            that match the true objects only in another format raise an error.
        box_units: "pixels", or "normalised" to the image's width and height. Default: pixels, checked in the same way.
        k: The largest distance from the anchor. Default: the dataset's k.
        interval: `clopper-pearson` gives the intervals of the papers. `auto` accounts for videos with several sets.
        seed: Seed of the bootstrap.
        detection: Overlaps and other options of mAP (`strobe.studies.detection.records.DetectionOptions`).

    Returns:
        The figures as Estimates. `to_frame()` and `plot()` show them.

    Raises:
        StrobeError: The predictions do not match the dataset.

    >>> import strobe
    >>> dataset = strobe.example_dataset()
    >>> strobe.score(dataset, {str(key): "cat" for key in dataset.frames.key}, name="always cat").acc_pmk.value
    0.625
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
    answers = answers_of(predictions, data, options, space=space, keys=keys, name=name)
    asked = ScoreOptions(k=k, interval=interval, seed=seed)
    if data.boxes is None:
        data.labelled_sets()  # raises an error if no set has a label, because a score is about accuracy
    scored = _scored(data, [answers], asked, merge=merge, detection=detection)
    found: Any = scored.results.models[answers.name]
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
    """Return the content of results.json for several models: their scores, their comparison and the trend.

    Args:
        dataset: A dataset, or its folder.
        predictions: A list of answers, or a dict from a model's name to anything that `score` takes. Frames without a
            prediction are counted as unscored.
        k: The largest distance from the anchor. Default: the dataset's k.
        interval: As for `score`.
        seed: Seed of the bootstrap.
        standard: The models that the trend line is fitted to.
        space: The label space of the predictions, as for `score`.
        judges: For searches: models that decide whether a finding still shows its class.
        baseline: For searches: the target whose magnitudes are the denominator of all ratios.

    Returns:
        The content of results.json as a dict.

    Raises:
        StrobeError: The predictions do not match the dataset, or two models have the same name.

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
    named = predictions.items() if isinstance(predictions, Mapping) else [(None, model) for model in predictions]
    expect(len(predictions) > 0, "predictions", "at least one model", 0)
    options = _files("auto", "max", allow_missing=True)
    known = [answers_of(given, data, options, space=space, name=name) for name, given in named]
    expect(
        len({model.name for model in known}) == len(known), "predictions", "each model once", [m.name for m in known]
    )
    types = {model.name: (None, model.name in standard) for model in known}
    judging = ScoreOptions(k=k, interval=interval, seed=seed, judges=tuple(judges), baseline=baseline)
    found = _scored(data, known, judging, types=types).results
    missing = any(model.unscored.sets for model in found.models.values())
    written: dict[str, Any] = encode(replace(found, settings=replace(found.settings, allow_missing=missing)))
    return written


@in_python
def compare(
    *models: "ClassifierScore | DetectorScore | str | Path",
    only: Sequence[str] = (),
    scope: Literal["these-clips", "this-recording", "other-videos"] = "these-clips",
    k: int | None = None,
    videos: str | Path | None = None,
    allow_missing: bool = False,
    dataset: str | Path | None = None,
    seed: int = 0,
) -> "Comparisons | ClipVerdicts":
    """Compare models on the same frames: which is worse, by how much, and where.

    With labels, differences have exact paired tests and intervals over videos, corrected by Holm's method, and the sets
    that the second model of a pair newly holds or newly breaks are listed. Without labels, the verdict is a fact about
    the clips of the run (`scope` chooses what it is about), followed by the places where only one model changes its
    answer. The first model of a pair is the old one: the one that is named first.

    Args:
        models: Two or more scores on one dataset, the earlier model first. Or run folders, whose models are compared;
            the other arguments are for run folders.
        only: Compare only this model and others that are named, the earlier one first.
        scope: What a verdict without labels is about. these-clips: a fact about the clips of the run. this-recording:
            more video of the same scenes. other-videos: videos that were not seen, from the interval over at least six
            videos.
        k: The largest distance from the anchor. Default: the dataset's k.
        videos: A text file with the names of the videos to compare on, one per line, or the word all. Default: the
            videos that the runs were scored on.
        allow_missing: Compare each pair on the sets that both predicted completely.
        dataset: Where the dataset is now, if it was moved.
        seed: Seed of all random choices.

    Returns:
        A comparison for each pair and measure, each with a sentence. Run folders without any label give a verdict for
        each pair, with the places where only one model changes its answer.

    Raises:
        StrobeError: There are fewer than two models, the datasets differ, or a classifier is compared with a detector.

    >>> import strobe
    >>> dataset = strobe.example_dataset()
    >>> keys = [str(key) for key in dataset.frames.key]
    >>> scores = [strobe.score(dataset, dict.fromkeys(keys, pet), name=pet) for pet in ("cat", "dog")]
    >>> strobe.compare(*scores).of("acc_pmk")[0].p_holm > 0.05
    True
    """
    from strobe.analyses.comparison import compare as compare_scores
    from strobe.analyses.model_results import ClassificationScore
    from strobe.analyses.plan import ScoreOptions
    from strobe.analyses.variants_view import overall
    from strobe.api.faces import ClipVerdicts, Comparisons
    from strobe.core.ports import Silent
    from strobe.workflows.compare import compare_runs, in_words

    runs = [Path(model) for model in models if isinstance(model, str | Path)]
    scores = [model for model in models if not isinstance(model, str | Path)]
    if runs and scores:
        raise StrobeError("compare: pass either scores or run folders, not both")
    if runs:
        compared = compare_runs(
            runs,
            models=only,
            options=ScoreOptions(k=k, seed=seed),
            subset=as_path(videos),
            dataset_path=as_path(dataset),
            allow_missing=allow_missing,
            scope=scope,
            progress=Silent(),
        )
        return Comparisons(compared.comparisons) if compared.comparisons else ClipVerdicts(compared.clips)
    expect(len(scores) >= 2, "compare", "at least two scores, or run folders", len(scores))
    data = scores[0].dataset
    for one in scores[1:]:
        if one.dataset.digest() != data.digest():
            raise StrobeError(
                f"compare: {one.model} and {scores[0].model} were scored on different data; score both on one dataset"
            )
    names = _apart([one.model for one in scores])
    scores = [replace(one, model=name) for one, name in zip(scores, names, strict=True)]
    classifiers = [one for one in scores if isinstance(one, ClassificationScore)]
    detectors = [one for one in scores if not isinstance(one, ClassificationScore)]
    if classifiers and detectors:
        raise StrobeError("compare: a classifier and a detector cannot be compared; pass models of one kind")
    return Comparisons(in_words(compare_scores(overall(data), scores), data, detectors=detectors))


@in_python
def report(
    run: str | Path,
    *,
    gallery: int = 36,
    image_px: int = 400,
    max_mb: float | None = None,
    show: Sequence[str] = (),
    before: str | None = None,
    after: str | None = None,
    pdf: bool = False,
    paper: Literal["A4", "letter"] = "A4",
    videos: str | Path | None = None,
    dataset: str | Path | None = None,
    progress: bool | Progress = False,
) -> Path:
    """Write report.html for a scored run folder: one page with tables, figures and a gallery of flickers.

    The page is self-contained and needs no network. The run's figures/ and tables/ have the figures and tables as
    files.

    Args:
        run: The run folder.
        gallery: Largest number of sets in the gallery.
        image_px: Longest side of an image in pixels, 32 to 2000.
        max_mb: Total size of all images in MB. Default: 11, or 7 with more than 40 models.
        show: A model that the figures and the gallery show first (8 at most).
        before: The model before a change that the report shows: the report lists the lost and won sets. Requires
            `after`.
        after: The model after that change. A run with two models needs neither.
        pdf: Also write report.pdf: a brief of two pages, then the whole report.
        paper: With `pdf`: the size of the paper.
        videos: A text file with the names of the videos, one per line, or the word all. Default: the videos that the
            run was scored on.
        dataset: Where the dataset is now, if it was moved.
        progress: True shows a progress bar.

    Returns:
        The path of report.html.

    Raises:
        StrobeError: The folder has no results, a model is unknown, or only one of `before` and `after` is given.

    >>> import strobe
    >>> strobe.report("run/", gallery=12)  # doctest: +SKIP
    PosixPath('run/report.html')
    """
    from strobe.report.page import PageOptions
    from strobe.workflows.report import ReportOptions, report_run

    if (before is None) != (after is None):
        raise StrobeError("<<before>> and <<after>> must be used together; name both models")
    request = ReportOptions(
        options=PageOptions(
            gallery_sets=gallery, picture_px=image_px, max_megabytes=max_mb, paper=paper if pdf else None
        ),
        dataset=as_path(dataset),
        subset=as_path(videos),
        show=tuple(show),
        change=None if before is None or after is None else (before, after),
    )
    return report_run(Path(run), request, watching(progress))


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
    """Read predictions of a classifier or a detector from a JSON, JSONL, CSV or Parquet file.

    Args:
        path: The file.
        dataset: The dataset, or its folder. The answers are in its classes and in the order of its frames.
        name: The model's name. Default: the name of the file.
        kind: Whether the scores are logits, probabilities or labels.
        space: The label space of class numbers, e.g. ilsvrc-2012.
        merge: As for `score`.
        allow_missing: As for `score`.
        ignore_extra: As for `score`.
        empty_frames: As for `score`.
        box_format: As for `score`.
        box_units: As for `score`.

    Returns:
        The answers. Pass them to `strobe.score` or `strobe.results`.

    Raises:
        StrobeError: The file cannot be read, or it does not match the dataset.

    >>> import json, tempfile, strobe
    >>> from pathlib import Path
    >>> dataset = strobe.example_dataset()
    >>> with tempfile.TemporaryDirectory() as tmp:
    ...     file = Path(tmp, "mine.json")
    ...     _ = file.write_text(json.dumps({str(key): "dog" for key in dataset.frames.key}))
    ...     strobe.load_predictions(file, dataset).model
    'mine'
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
    from strobe.formats.prediction_files import FileOptions

    return FileOptions(
        kind=kind,
        merge=merge,
        allow_missing=allow_missing,
        ignore_extra=ignore_extra,
        absent="empty" if empty_frames else "error",
    )


def _scored(
    dataset: Dataset,
    models: Sequence[Any],
    options: "ScoreOptions",
    *,
    merge: str = "max",
    types: Mapping[str, tuple[str | None, bool]] | None = None,
    detection: "DetectionOptions | None" = None,
) -> "ScoredRun":
    """Score the models with the command line's workflow. The dataset in memory also serves as its own candidates."""
    from strobe.core.ports import Silent
    from strobe.store.opening import Opened
    from strobe.studies.detection.records import DetectionOptions
    from strobe.workflows.score import ScoreRunOptions, check_request, score_models

    place = Opened(path=dataset.root or Path(), candidates=dataset, dataset=dataset)
    request = ScoreRunOptions(options=options, detection=detection or DetectionOptions(), merge=merge)
    check_request(request, place)
    return score_models(models, place, request, Silent(), types=dict(types or {}))


def _apart(names: Sequence[str]) -> list[str]:
    """Return unique names: a number is added to each name that occurs several times.

    >>> _apart(["net", "other", "net"])
    ['net (1)', 'other', 'net (2)']
    """
    return [
        name if names.count(name) == 1 else f"{name} ({names[: index + 1].count(name)})"
        for index, name in enumerate(list(names))
    ]
