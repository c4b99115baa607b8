"""Select the papers' printed tables that can be shown next to results on a dataset.

They are never pooled with the results.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from strobe.analyses.published import PublishedTable, rows_of, tables


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
