"""results.json: everything that was found, in one documented object."""

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from strobe.analyses.classification import ClassificationScore
from strobe.analyses.comparison import Comparison
from strobe.analyses.offsets import OffsetPool
from strobe.analyses.trend import Trend
from strobe.core.dataset import Dataset

__all__ = ["SCHEMA", "dataset_json", "results_json", "results_schema"]

SCHEMA = 1


def results_schema() -> dict[str, Any]:
    """The JSON Schema of results.json.

    >>> results_schema()["title"]
    'strobe results.json'
    """
    text = (resources.files("strobe.core") / "data" / "results.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def dataset_json(dataset: Dataset, *, k: int | None = None, digest: str | None = None) -> dict[str, Any]:
    """What results.json says of the dataset; `digest` where it is already known."""
    info = dataset.info
    return {
        "name": dataset.name,
        "digest": digest or dataset.digest(),
        "n_sets": dataset.n_sets,
        "n_frames": len(set(dataset.sets.frame.tolist())),
        "n_videos": len(set(dataset.video_of_set.tolist())),
        "k": info.k if k is None else k,
        "axis": info.axis,
        "label_source": info.label_source,
        "reviewed": info.reviewed,
    }


def results_json(
    dataset: Dataset,
    scores: Sequence[ClassificationScore],
    *,
    settings: Mapping[str, Any],
    digest: str | None = None,
    pool: OffsetPool | None = None,
    comparison: Sequence[Comparison] = (),
    trend: Trend | None = None,
    other_models: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The whole of results.json.

    `settings` says how it was made (interval, seed, merge, subset, allow_missing). `other_models` are objects of
    models of another task, by name.
    """
    k = scores[0].k if scores else None
    models: dict[str, Any] = {score.model: score.to_json() for score in scores}
    models |= {name: dict(model) for name, model in (other_models or {}).items()}
    return {
        "schema": SCHEMA,
        "dataset": dataset_json(dataset, k=k, digest=digest),
        "settings": dict(settings),
        "models": models,
        "offset_error_all_models": [] if pool is None else pool.to_json(),
        "comparison": [part.to_json() for part in comparison],
        "trend": {"reason": "no trend was asked for"} if trend is None else trend.to_json(),
    }
