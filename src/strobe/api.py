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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import expect

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
) -> "ClassificationScore":
    """Every figure of one model: attributes are Estimates, `to_json()` is its object in results.json."""
    from strobe.analyses.classification import ScoreOptions
    from strobe.analyses.classification import score as score_one
    from strobe.analyses.variants_contrasts import ByVariant
    from strobe.analyses.variants_view import overall

    options = ScoreOptions(k=k, interval=interval, seed=seed)
    return ByVariant(dataset, options).add(score_one(overall(dataset), predictions, options=options), predictions)


def results(
    dataset: Dataset,
    predictions: Sequence[ClassAnswers],
    *,
    k: int | None = None,
    interval: Literal["auto", "clopper-pearson"] = "auto",
    seed: int = 0,
    standard: Collection[str] = (),
) -> dict[str, Any]:
    """The content of results.json for several models: their scores, their comparison, the trend.

    `standard` names the models that make the trend line. Frames without a prediction are unscored, as with the command
    line's --allow-missing.

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
    from strobe.analyses.results import Results, Settings, dataset_facts
    from strobe.analyses.trend import fit
    from strobe.analyses.variants_contrasts import ByVariant
    from strobe.analyses.variants_view import overall
    from strobe.core.codec import encode

    expect(len(predictions) > 0, "predictions", "at least one model", 0)
    options, whole = ScoreOptions(k=k, interval=interval, seed=seed), overall(dataset)
    prepared, variants = Prepared(whole, options), ByVariant(dataset, options)
    pool = OffsetPool(prepared.plan)
    scores = [
        variants.add(score_one(whole, one, prepared=prepared, pool=pool, standard=one.model in standard), one)
        for one in predictions
    ]
    missing = any(one.unscored.sets for one in scores)
    found = Results(
        dataset=dataset_facts(dataset, k=prepared.plan.k),
        settings=Settings(interval=interval, seed=seed, allow_missing=missing),
        models={one.model: one for one in scores},
        offset_error_all_models=pool.estimates(),
        comparison=compare(whole, scores, seed=seed),
        trend=fit(whole, scores, seed=seed),
    )
    written: dict[str, Any] = encode(variants.into(found))
    return written


def example_dataset(*, n_videos: int = 8, k: int = 3, seed: int = 0) -> Dataset:
    """A made-up dataset of two classes without images, to try things on."""
    import numpy as np

    from strobe.core.builder import DatasetBuilder, frame_list_digest
    from strobe.core.dataset import DatasetInfo
    from strobe.core.labels import LabelSpace

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
