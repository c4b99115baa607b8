"""The papers' own tables as reference points, each with its dataset and n, never pooled."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

__all__ = ["DetectionRow", "Reference", "detection_rows", "references_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One printed group of models: points (acc_orig, acc_pm-10) as shares, on one dataset with one n."""

    caption: str
    dataset: str
    n: int
    same_data: bool
    points: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionRow:
    """One printed row of the 2021 detection table, in per cent."""

    task: str
    model: str
    map_orig: float
    map_pm10: float
    drop: float
    note: str


@cache
def _rows(name: str) -> tuple[dict[str, str], ...]:
    text = (resources.files("strobe.core") / "data" / "published" / name).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def _table2(dataset: str) -> tuple[tuple[str, float, float], ...]:
    return tuple(
        (f"{row['architecture']}, {row['model_type']}", float(row["acc_orig"]) / 100, float(row["acc_pm10"]) / 100)
        for row in _rows("table2_2021_model_types.csv")
        if row["dataset"] == dataset
    )


def references_for(dataset: str) -> tuple[Reference, ...]:
    """What the papers printed that may stand beside results on this dataset, the same data first.

    >>> [(one.n, one.same_data) for one in references_for("imagenet-vid-robust")]
    [(1109, True), (1145, False)]
    """
    found = []
    for name, n in (("imagenet-vid-robust", 1109), ("ytbb-robust", 2030)):
        if name == dataset:
            caption = f"printed in 2021 on this data (n = {n:,})"
            found.append(Reference(caption=caption, dataset=name, n=n, same_data=True, points=_table2(name)))
    if dataset != "ytbb-robust":
        points = tuple(
            (row["model"], float(row["acc_orig"]) / 100, float(row["acc_pm10"]) / 100)
            for row in _rows("imagenet_vid_robust_2019_models.csv")
        )
        which = "an earlier cut of this data" if found else "other data: ImageNet-Vid-Robust"
        caption = f"printed in 2019, {which} (n = 1,145)"
        found.append(Reference(caption=caption, dataset="imagenet-vid-robust", n=1145, same_data=False, points=points))
    return tuple(found)


def detection_rows() -> Iterator[DetectionRow]:
    """The printed detection and localization figures on ImageNet-Vid-Robust, k = 10."""
    for row in _rows("detection_2021.csv"):
        yield DetectionRow(
            task=row["task"],
            model=row["model"],
            map_orig=float(row["map_orig"]),
            map_pm10=float(row["map_pm10"]),
            drop=float(row["drop"]),
            note=row["note"] or "",
        )
