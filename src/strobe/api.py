"""The small Python API: the same estimates as the command line, from data in memory.

>>> import numpy as np, strobe
>>> dataset = strobe.example_dataset()
>>> scores = np.zeros((len(dataset.frames), len(dataset.info.label_space)))
>>> scores[dataset.labels.frame, dataset.labels.label] = 1.0     # a model that is always right
>>> found = strobe.score(dataset, strobe.Predictions.from_scores("perfect", scores, kind="logits"))
>>> found.acc_orig.value, found.acc_pmk.value, found.drop.count
(1.0, 1.0, 0)
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, expect, printable
from strobe.core.labels import LabelSpace

if TYPE_CHECKING:
    from strobe.analyses.classification import ClassificationScore

__all__ = ["example_dataset", "load_dataset", "load_predictions", "results", "save_dataset", "score"]


def load_dataset(path: str | Path, *, reviewed: bool = True, videos: str | Path | None = None) -> Dataset:
    """The dataset in a folder. `reviewed` keeps only what its votes keep; `videos` names a file of video names."""
    from strobe.workflows.opening import Opened

    return Opened.of(Path(path), subset=None if videos is None else Path(videos), reviewed_only=reviewed).dataset


def save_dataset(dataset: Dataset, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a dataset's tables to a folder; media are yours to put beside them."""
    from strobe.datasets.folder import write

    return write(dataset, Path(path), overwrite=overwrite)


def load_predictions(
    path: str | Path,
    dataset: Dataset,
    *,
    name: str | None = None,
    kind: Literal["auto", "logits", "probabilities", "labels"] = "auto",
    space: str | None = None,
    merge: str = "max",
    allow_missing: bool = False,
) -> ClassAnswers:
    """Predictions from a JSON, JSONL, CSV or Parquet file, aligned with the dataset's frames.

    The model is called `name`, or as the file is. `space` is the label space of class numbers, e.g. ilsvrc-2012.
    """
    from strobe.datasets.read_predictions import read_predictions

    found = read_predictions(
        Path(path), dataset, name=name, kind=kind, source_space=space, merge=merge, allow_missing=allow_missing
    )
    return found.answers


def score(
    dataset: Dataset,
    predictions: ClassAnswers,
    *,
    k: int | None = None,
    interval: Literal["auto", "clopper-pearson"] = "auto",
    seed: int = 0,
    space: str | LabelSpace | None = None,
) -> "ClassificationScore":
    """Every figure of one model: attributes are Estimates, `to_json()` is its object in results.json.

    `space` says whose classes the scores or labels are, where they are not the dataset's: they are then projected. A
    thousand scores are ilsvrc-2012's. `notes` says what to know beside the figures: intervals known to be too narrow,
    and pairs that nobody has reviewed (which results.json says of the dataset).
    """
    from strobe.analyses.classification import ScoreOptions
    from strobe.analyses.classification import score as score_one
    from strobe.analyses.results import dataset_facts
    from strobe.analyses.variants_contrasts import ByVariant
    from strobe.analyses.variants_view import overall

    options, predictions = ScoreOptions(k=k, interval=interval, seed=seed), _in_classes(dataset, predictions, space)
    found = ByVariant(dataset, options).add(score_one(overall(dataset), predictions, options=options), predictions)
    unseen = dataset_facts(dataset).unreviewed() if dataset.unseen else None
    return replace(found, notes=(unseen, *(found.notes or ()))) if unseen else found


def results(
    dataset: Dataset,
    predictions: Sequence[ClassAnswers],
    *,
    k: int | None = None,
    interval: Literal["auto", "clopper-pearson"] = "auto",
    seed: int = 0,
    standard: Collection[str] = (),
    space: str | LabelSpace | None = None,
    judges: Sequence[str] = (),
    baseline: str | None = None,
) -> dict[str, Any]:
    """The content of results.json for several models: their scores, their comparison, the trend.

    `standard` names the models that make the trend line; `space` is as for `score`. Frames without a prediction are
    unscored, as with the command line's --allow-missing. Of searches, `judges` name models that say whether a finding
    is still what it was, `baseline` the target that others are divided by.

    >>> dataset = example_dataset()
    >>> labels = dataset.labels.label[dataset.labels.frame.argsort()]
    >>> found = results(dataset, [ClassAnswers.from_labels("perfect", labels)])
    >>> found["models"]["perfect"]["acc_pmk"]["value"]
    1.0
    """
    from strobe.analyses.classification import Prepared, ScoreOptions
    from strobe.analyses.classification import score as score_one
    from strobe.analyses.comparison import compare
    from strobe.analyses.offsets import OffsetPool
    from strobe.analyses.people import BesidePeople
    from strobe.analyses.results import Results, Settings, dataset_facts
    from strobe.analyses.trend import fit
    from strobe.analyses.variants_contrasts import ByVariant
    from strobe.analyses.variants_view import overall
    from strobe.core.codec import encode
    from strobe.core.late import installed_version

    expect(len(predictions) > 0, "predictions", "at least one model", 0)
    options = ScoreOptions(k=k, interval=interval, seed=seed, judges=tuple(judges), baseline=baseline)
    whole = overall(dataset)
    prepared, variants = Prepared(whole, options), ByVariant(dataset, options)
    pool = OffsetPool(prepared.plan)
    known = [_in_classes(dataset, given, space) for given in predictions]
    scores = [
        variants.add(score_one(whole, one, prepared=prepared, pool=pool, standard=one.model in standard), one)
        for one in known
    ]
    people = BesidePeople(dataset, options)
    for one in known:
        people.add(one.model, one)
    missing = any(one.unscored.sets for one in scores)
    found = Results(
        strobe=installed_version(),
        dataset=dataset_facts(dataset, k=prepared.plan.k),
        settings=Settings(
            interval=interval, seed=seed, allow_missing=missing, baseline=baseline, judges=tuple(judges) or None
        ),
        models={one.model: one for one in scores},
        offset_error_all_models=pool.estimates(),
        comparison=compare(whole, scores),
        trend=fit(whole, scores, seed=seed),
    )
    written: dict[str, Any] = encode(people.into(variants.into(found)))
    return written


def _in_classes(dataset: Dataset, answers: ClassAnswers, source: str | LabelSpace | None) -> ClassAnswers:
    """The answers in the dataset's classes: as they are, or projected from the space they are in."""
    from strobe.core.labels import space as shipped
    from strobe.core.projections import projection_between

    target, scores = dataset.info.label_space, answers.scores
    width = int(answers.label.max(initial=-1)) + 1 if scores is None else scores.shape[1]
    if source is None and (width == len(target) if scores is not None else width <= len(target)):
        return answers
    if source is None and (scores is None or width != 1000):
        what = f"class {width - 1}" if scores is None else f"{width} scores a frame"
        raise InvalidValue(
            f"{printable(answers.model)}: {what}, and {printable(dataset.name)} has {len(target)} classes; "
            'say whose they are: space="ilsvrc-2012", or a LabelSpace'
        )
    own = source if isinstance(source, LabelSpace) else shipped(source or "ilsvrc-2012")
    expect(width <= len(own), "space", f"at most {len(own)} classes ({own.name})", width)
    found = projection_between(own, target)
    if scores is None or answers.kind == "labels":
        label = answers.label.copy()
        label[answers.scored & (label >= 0)] = found.map_labels(label[answers.scored & (label >= 0)])
        return ClassAnswers.from_labels(answers.model, label, scored=answers.scored)
    expect(width == len(own), "space", f"{len(own)} scores a frame ({own.name})", width)
    merged = np.full((len(answers), len(target)), np.nan)
    merged[answers.scored] = found.apply(scores[answers.scored].astype(np.float64), kind=answers.kind)
    return ClassAnswers.from_scores(answers.model, merged, kind=answers.kind, scored=answers.scored)


def example_dataset(*, n_videos: int = 8, k: int = 3, seed: int = 0) -> Dataset:
    """A made-up dataset of two classes without images, to try things on."""
    from strobe.core.builder import DatasetBuilder, frame_list_digest
    from strobe.core.dataset import DatasetInfo

    rng = np.random.default_rng(seed)
    grown = DatasetBuilder()
    for number in range(n_videos):
        name = f"clip-{number:03d}"
        video = grown.video(video_id=frame_list_digest([name]), name=name)
        label = int(rng.integers(2))
        rows = [
            grown.frame(video=video, index=index, key=f"{name}/{index:06d}.jpg", labels=[label])
            for index in range(2 * k + 1)
        ]
        grown.set(
            set_id=name, anchor=rows[k], members=[(row, place - k) for place, row in enumerate(rows) if place != k]
        )
    info = DatasetInfo(name="example", label_space=LabelSpace.of_names("pets", ("cat", "dog")), k=k)
    return grown.build(info)
