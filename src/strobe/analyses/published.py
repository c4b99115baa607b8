"""The papers' own tables, as printed. They are reference points, each with its dataset and n, and are never pooled."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from strobe.core.codec import Count
from strobe.metrics.fits import Line, fit_line, logit_of_counts

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One printed table and its relation to this data. `same_data` is True if its n sets are the sets of this data."""

    table: PublishedTable
    caption: str
    same_data: bool

    @property
    def points(self) -> list[tuple[float, float]]:
        """Return (acc_orig, acc_pmk at k = 10) of every row, as shares."""
        return [(point.acc_orig / 100, point.acc_pmk / 100) for point in self.table.points]


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionRow:
    """One printed row of the 2021 detection table, in per cent."""

    task: str
    model: str
    map_orig: float
    map_pm10: float
    drop: float
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PapersLine:
    """The line through the papers' standard models on one benchmark, in points.

    Other models are never part of the fit.
    """

    slope: float
    intercept: float
    span: tuple[float, float]
    about: str

    def at(self, acc_orig: float) -> float:
        """Return acc_pmk on the line, as a share."""
        return self.intercept / 100 + self.slope * acc_orig

    def beyond(self, acc_orig: float) -> str:
        """Return a warning if the accuracy is outside the range of the papers' models, otherwise an empty text."""
        low, high = self.span
        return "" if low <= acc_orig <= high else f"; published models only cover {100 * low:.1f} to {100 * high:.1f}"

    @property
    def caption(self) -> str:
        """The text for this line in a legend."""
        return f"published line ({self.about})"


def papers_line(dataset: str, k: int) -> PapersLine | None:
    """Return the papers' own line of a benchmark by its name and k.

    Return None if the papers printed too few models to fit a line.

    >>> papers_line("imagenet-vid-robust", 10).about
    '2019, 35 standard models, n = 1,145'
    >>> papers_line("ytbb-robust", 10) is papers_line("my clips", 10) is None
    True
    """
    for table in tables():
        if (table.dataset, table.k) == (dataset, k) and (line := table.fit()[0]) is not None:
            about = f"{table.name.split(',')[0]}, {line.n} standard models, n = {table.n:,}"
            span = line.x_min / 100, line.x_max / 100
            return PapersLine(slope=line.slope, intercept=line.intercept, span=span, about=about)
    return None


def references_for(dataset: str, n_sets: int | None = None) -> tuple[Reference, ...]:
    """Return the printed tables for a figure on this dataset: the tables of the same data, otherwise the largest table.

    >>> [(one.table.n, one.same_data) for one in references_for("imagenet-vid-robust", 1109)]
    [(1145, False), (1109, True)]
    >>> [(one.table.n, one.same_data) for one in references_for("my clips")]
    [(1145, False)]
    """
    own = [table for table in tables() if table.dataset == dataset] or [tables()[0]]
    out = []
    for table in own:
        same = table.dataset == dataset and table.n == n_sets
        what = "this data" if same else "another selection of this data" if table.dataset == dataset else table.dataset
        n = f"n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{table.n:,}" + ("" if table.dataset == dataset else ", other data")
        out.append(Reference(table=table, caption=f"{table.name.split(',')[0]}, {what} ({n})", same_data=same))
    return tuple(out)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionRow:
    """One printed row of the 2021 tables on review and on frame types, of a fine-tuned ResNet-152, in per cent.

    The printed drop contradicts the accuracies in one row, so the drop is their difference. `n` is the printed number
    of anchors, if any.
    """

    condition: str
    acc_orig: float
    acc_pm10: float
    n: Count | None

    @property
    def drop(self) -> float:
        """Return acc_orig − acc_pm10, in points."""
        return self.acc_orig - self.acc_pm10


def condition_rows(table: str, dataset: str) -> tuple[ConditionRow, ...]:
    """Return the printed rows of a table (`review`, `frame types`) on a release. Empty for other data.

    >>> [(row.condition, row.n) for row in condition_rows("frame types", "imagenet-vid-robust")][:2]
    [('all frames', 1109), ('without I frames', 1104)]
    >>> condition_rows("review", "my clips")
    ()
    """
    return tuple(
        ConditionRow(
            condition=row["condition"],
            acc_orig=float(row["acc_orig"]),
            acc_pm10=float(row["acc_pm10"]),
            n=int(row["anchors"]) if row["anchors"] else None,
        )
        for row in rows_of("review_and_frame_types_2021.csv")
        if (row["table"], row["dataset"]) == (table, dataset)
    )


def detection_rows() -> Iterator[DetectionRow]:
    """Return the printed detection and localization figures on ImageNet-Vid-Robust, k = 10."""
    for row in rows_of("detection_2021.csv"):
        orig, pm10, drop = (float(row[name]) for name in ("map_orig", "map_pm10", "drop"))
        yield DetectionRow(
            task=row["task"], model=row["model"], map_orig=orig, map_pm10=pm10, drop=drop, note=row["note"] or ""
        )


def printed_on(dataset: str) -> str:
    """Return the papers' figures for ImageNet-9 or ImageNet-A as a sentence, or an empty text for other data.

    >>> printed_on("imagenet-a")
    'Published on ImageNet-A: EfficientNet-B7 as a detector 53.95 %, EfficientNet-B7 as a classifier 37.79–45.27 %.'
    >>> printed_on("my photos")
    ''
    """
    if dataset == "imagenet-9":
        rows = [
            f"{row['model']} {row['original']} / {row['mixed_same']} / {row['mixed_rand']} / {row['bg_gap']}"
            for row in rows_of("imagenet_9_2020.csv")
        ]
        return (
            "Published on ImageNet-9 (Xiao et al. 2020), original / mixed-same / mixed-rand / BG-Gap: "
            f"{'; '.join(rows)}."
        )
    if dataset in ("imagenet-a", "imagenet-a-plus"):
        spans = [
            f"{row['model']} {'–'.join(dict.fromkeys((row['top1_low'], row['top1_high'])))} %"
            for row in rows_of("imagenet_a.csv")
        ]
        return f"Published on ImageNet-A: {', '.join(spans)}."
    return ""
