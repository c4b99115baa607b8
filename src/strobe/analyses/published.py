"""The papers' own tables, as printed. They are reference points, each with its dataset and n, and are never pooled."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from strobe.core.codec import Count
from strobe.metrics.fits import Line, fit_line, logit_of_counts

__all__ = ["PublishedPoint", "PublishedTable", "rows_of", "tables"]

_NOT_STANDARD = {
    "_finetune": "Fine-tuned on ImageNet-Vid",
    "_detection": "Fine-tuned on ImageNet-Vid-Det",
    "_augment_": "Noise augmentation",
    "feature_denoise": "l_inf robustness",
}
STANDARD = "Trained on ILSVRC"

# Rows of the 2021 type table whose printed figures are inconsistent (methods §11).
_MISPRINTED = {
    ("imagenet-vid-robust", "l_inf robustness"): "printed drop and lower bound do not follow from the accuracies",
    ("imagenet-vid-robust", "CLIP zero-shot"): "printed intervals are not Clopper–Pearson",
    ("imagenet-vid-robust", "Fine-tuned on ImageNet-Vid-Det"): "printed upper bounds are off by 0.1",
    ("ytbb-robust", "CLIP zero-shot"): "printed interval of the original accuracy is off",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPoint:
    """One row: accuracies and drop in points, as printed, and a `note` if the row contradicts itself."""

    model: str
    model_type: str
    standard: bool
    acc_orig: float
    acc_pmk: float
    drop: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A printed table of one dataset with its n (anchors)."""

    name: str
    dataset: str
    n: Count
    k: Count
    points: tuple[PublishedPoint, ...]

    def fit(self, *, standard_only: bool = True) -> tuple[Line | None, Line | None]:
        """Return the fits of acc_pmk against acc_orig: in points, and on logit axes.

        Counts are computed from the rounded shares and not rounded again; rows are used as printed.

        >>> linear, _ = tables()[0].fit()
        >>> linear.n, round(linear.slope, 3), round(linear.intercept, 2)
        (35, 1.079, -22.29)
        """
        used = [point for point in self.points if point.standard or not standard_only]
        x, y = np.array([point.acc_orig for point in used]), np.array([point.acc_pmk for point in used])
        logit = fit_line(logit_of_counts(x / 100 * self.n, self.n), logit_of_counts(y / 100 * self.n, self.n))
        return fit_line(x, y), logit


def rows_of(name: str) -> Iterator[dict[str, str]]:
    """Return the rows of a shipped table, such as `detection_2021.csv`."""
    text = (resources.files("strobe.core") / "data" / "published" / name).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())


def _type_of(model: str) -> str:
    return next((kind for mark, kind in _NOT_STANDARD.items() if mark in model), STANDARD)


def _point(row: dict[str, str], model: str, kind: str, note: str = "") -> PublishedPoint:
    orig, pmk, drop = (float(row[name]) for name in ("acc_orig", "acc_pm10", "drop"))
    return PublishedPoint(
        model=model, model_type=kind, standard=kind == STANDARD, acc_orig=orig, acc_pmk=pmk, drop=drop, note=note
    )


@cache
def tables() -> tuple[PublishedTable, ...]:
    """Return the printed classification tables.

    >>> [(table.name, table.n, len(table.points)) for table in tables()]
    [('2019, 50 models', 1145, 50), ('2021, model types', 1109, 8), ('2021, model types', 2030, 6)]
    """
    models = tuple(
        _point(row, row["model"], _type_of(row["model"])) for row in rows_of("imagenet_vid_robust_2019_models.csv")
    )
    out = [PublishedTable(name="2019, 50 models", dataset="imagenet-vid-robust", n=1145, k=10, points=models)]
    for dataset, n in (("imagenet-vid-robust", 1109), ("ytbb-robust", 2030)):
        points = tuple(
            _point(row, row["architecture"], row["model_type"], _MISPRINTED.get((dataset, row["model_type"]), ""))
            for row in rows_of("table2_2021_model_types.csv")
            if row["dataset"] == dataset
        )
        out.append(PublishedTable(name="2021, model types", dataset=dataset, n=n, k=10, points=points))
    return tuple(out)
