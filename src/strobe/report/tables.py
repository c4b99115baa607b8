"""Results as rows for spreadsheets: pure functions, one table each, and the writing of all of them."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from strobe.core.errors import printable
from strobe.core.files import write_text
from strobe.report.wording import listed, models_of

__all__ = ["TABLES", "Table", "as_csv", "write_tables"]

Json = Mapping[str, Any]
Row = dict[str, Any]
Table = list[Row]


def _spread(prefix: str, found: Any) -> Row:
    """An estimate as columns; every number keeps its interval, n, count and method."""
    data = found if isinstance(found, Mapping) else {}
    return {
        prefix: data.get("value"),
        f"{prefix}_low": data.get("low"),
        f"{prefix}_high": data.get("high"),
        f"{prefix}_n": data.get("n"),
        f"{prefix}_count": data.get("count"),
        f"{prefix}_method": data.get("method"),
    }


def _triple(data: Json) -> Row:
    return {
        **_spread("acc_orig", data.get("acc_orig")),
        **_spread("acc_pmk", data.get("acc_pmk")),
        **_spread("drop", data.get("drop")),
    }


def _each(results: Json, task: str = "classification") -> Iterator[tuple[str, Json]]:
    yield from models_of(results, task).items()


def headline(results: Json) -> Table:
    """One row per classifier."""
    return [
        {
            "model": name,
            "model_type": data.get("model_type"),
            **_triple(data),
            **_spread("mean_frame", data.get("mean_frame")),
            **_spread("flip_rate", data.get("flip_rate")),
            **_spread("right_wrong_flip_rate", data.get("right_wrong_flip_rate")),
            **_spread("confidence_swing", data.get("confidence_swing")),
            "unscored_frames": (data.get("unscored") or {}).get("frames"),
            "unscored_sets": (data.get("unscored") or {}).get("sets"),
        }
        for name, data in _each(results)
    ]


def curve(results: Json) -> Table:
    """Accuracy for every k."""
    return [
        {"model": name, "k": row.get("k"), **_spread("acc", row.get("acc")), **_spread("drop", row.get("drop"))}
        for name, data in _each(results)
        for row in listed(data, "curve")
    ]


def time_curve(results: Json) -> Table:
    """Accuracy against milliseconds."""
    return [
        {"model": name, "ms": row.get("ms"), **_spread("acc", row.get("acc"))}
        for name, data in _each(results)
        for row in listed(data, "time_curve", "points")
    ]


def per_class(results: Json) -> Table:
    """One row per model and class."""
    return [
        {
            "model": name,
            "label": row.get("label"),
            "name": row.get("name"),
            **_triple(row),
            "small": row.get("small"),
        }
        for name, data in _each(results)
        for row in listed(data, "per_class")
    ]


def per_offset(results: Json) -> Table:
    """Error at every offset; the model `all models` is the mean on common members."""
    rows = [
        {"model": name, "offset": row.get("offset"), **_spread("error", row.get("error"))}
        for name, data in _each(results)
        for row in listed(data, "per_offset")
    ]
    return rows + [
        {"model": "all models", "offset": row.get("offset"), **_spread("error", row.get("error"))}
        for row in listed(results, "offset_error_all_models")
    ]


def smoothing(results: Json) -> Table:
    """Smoothing against its delay."""
    return [
        {
            "model": name,
            "method": row.get("method"),
            "parameter": row.get("parameter"),
            "delay_frames": row.get("delay_frames"),
            "incomplete": row.get("incomplete"),
            **_triple(row),
        }
        for name, data in _each(results)
        for row in listed(data, "smoothing")
    ]


def first_failure(results: Json) -> Table:
    """Kaplan–Meier survival of right answers with distance from the anchor."""
    return [
        {
            "model": name,
            "distance": row.get("distance"),
            "at_risk": row.get("at_risk"),
            "events": row.get("events"),
            **_spread("alive", row.get("alive")),
        }
        for name, data in _each(results)
        for row in listed(data, "first_failure", "survival")
    ]


def frame_types(results: Json) -> Table:
    """The score without frames of each type, and the control that deletes as many at random."""
    return [
        {
            "model": name,
            "without": row.get("without"),
            "n_sets": row.get("n_sets"),
            "members_dropped": row.get("members_dropped"),
            **_triple(row),
            **{f"control_{key}": value for key, value in (row.get("control") or {}).items() if _is_plain(value)},
        }
        for name, data in _each(results)
        for row in listed(data, "frame_types")
    ]


def by_fps(results: Json) -> Table:
    """The score by frame rate of the video."""
    return [
        {"model": name, "range": row.get("range"), "n_sets": row.get("n_sets"), **_triple(row)}
        for name, data in _each(results)
        for row in listed(data, "by_fps")
    ]


def by_hint(results: Json) -> Table:
    """Member error by what the pixels suggest (blur, motion, exposure, cut)."""
    return [
        {"model": name, "hint": hint, "range": row.get("range"), **_spread("error", row.get("error"))}
        for name, data in _each(results)
        for hint, rows in _hints(data)
        for row in rows
    ]


def _hints(data: Json) -> Iterator[tuple[str, list[Json]]]:
    hints = data.get("by_hint")
    if isinstance(hints, Mapping):
        for hint in hints:
            yield str(hint), listed(hints, hint)


def comparison(results: Json) -> Table:
    """One row per pair of models and metric."""
    return [
        {
            **{
                key: row.get(key)
                for key in ("a", "b", "metric", "n_sets", "only_a", "only_b", "test", "p", "p_mcnemar", "p_holm")
                if key in row
            },
            **_spread("difference", row.get("difference")),
            "sentence": row.get("sentence"),
        }
        for row in listed(results, "comparison")
    ]


def trend(results: Json) -> Table:
    """Every model's place off the line: effective robustness on linear and logit axes."""
    rows: Table = []
    for row in listed(results, "trend", "models"):
        off = row.get("effective_robustness") or {}
        rows.append(
            {
                "model": row.get("model"),
                "model_type": row.get("model_type"),
                "standard": row.get("standard"),
                "in_fit": row.get("in_fit"),
                **_spread("linear", off.get("linear")),
                "linear_verdict": (off.get("linear") or {}).get("verdict"),
                **_spread("logit", off.get("logit")),
                "logit_verdict": (off.get("logit") or {}).get("verdict"),
            }
        )
    return rows


def review_impact(results: Json) -> Table:
    """What review changed: A all candidates, B kept anchors, C kept anchors and members."""
    return [
        {"model": name, "stage": stage, "what": found.get("what"), **_triple(found)}
        for name, data in _each(results)
        for stage, found in _stages(data)
    ]


def review_impact_offsets(results: Json) -> Table:
    """Error by offset at every stage of review."""
    return [
        {"model": name, "stage": stage, "offset": row.get("offset"), **_spread("error", row.get("error"))}
        for name, data in _each(results)
        for stage, found in _stages(data)
        for row in listed(found, "per_offset")
    ]


def _stages(data: Json) -> Iterator[tuple[str, Json]]:
    impact = data.get("review_impact") or {}
    for stage in ("A", "B", "C"):
        if isinstance(impact.get(stage), Mapping):
            yield stage, impact[stage]


def detection(results: Json) -> Table:
    """One row per detector: mAP, localization, and the detector as a classifier."""
    rows: Table = []
    for name, data in _each(results, "detection"):
        place = data.get("localization") or {}
        judge = data.get("as_classifier") or {}
        rows.append(
            {
                "model": name,
                **_spread("map_orig", data.get("map_orig")),
                **_spread("map_pmk", data.get("map_pmk")),
                **_spread("drop", data.get("drop")),
                **_spread("localization_orig", place.get("map_orig")),
                **_spread("localization_pmk", place.get("map_pmk")),
                **_spread("as_classifier_orig", judge.get("acc_orig")),
                **_spread("as_classifier_pmk", judge.get("acc_pmk")),
                **_spread("coverage", judge.get("coverage")),
            }
        )
    return rows


def detection_curve(results: Json) -> Table:
    """mAP for every k."""
    return [
        {"model": name, "k": row.get("k"), **_spread("map", row.get("map"))}
        for name, data in _each(results, "detection")
        for row in listed(data, "curve")
    ]


def detection_per_class(results: Json) -> Table:
    """AP per class, original and perturbed."""
    return [
        {
            "model": name,
            "label": row.get("label"),
            "name": row.get("name"),
            **{key: value for key, value in row.items() if _is_plain(value) and key not in ("label", "name")},
            **{
                column: cell
                for key, value in row.items()
                if isinstance(value, Mapping)
                for column, cell in _spread(key, value).items()
            },
        }
        for name, data in _each(results, "detection")
        for row in listed(data, "per_class")
    ]


def detection_errors(results: Json) -> Table:
    """Why anchors failed on their worst frame, counted."""
    return [
        {"model": name, **{key: value for key, value in (data.get("errors") or {}).items() if _is_plain(value)}}
        for name, data in _each(results, "detection")
        if data.get("errors")
    ]


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


TABLES: dict[str, Callable[[Json], Table]] = {
    "headline": headline,
    "curve": curve,
    "time_curve": time_curve,
    "per_class": per_class,
    "per_offset": per_offset,
    "smoothing": smoothing,
    "first_failure": first_failure,
    "frame_types": frame_types,
    "by_fps": by_fps,
    "by_hint": by_hint,
    "comparison": comparison,
    "trend": trend,
    "review_impact": review_impact,
    "review_impact_offsets": review_impact_offsets,
    "detection": detection,
    "detection_curve": detection_curve,
    "detection_per_class": detection_per_class,
    "detection_errors": detection_errors,
}
"""Every table by the name of its file under `tables/`."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(round(value, 6))
    if isinstance(value, str):
        value = printable(value, limit=2000)
        return "'" + value if value.startswith(_FORMULA) else value  # a spreadsheet would run it as a formula
    return value


def as_csv(rows: Sequence[Row]) -> str:
    """The rows as CSV that diffs well: six decimals, plain line ends, columns in the order they first appear.

    >>> as_csv([{"model": "a", "acc": 0.5}, {"model": "=cmd()", "acc": None}])
    "model,acc\\na,0.5\\n'=cmd(),\\n"
    """
    columns = list(dict.fromkeys(column for row in rows for column in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    return out.getvalue()


def _with_unscored(results: Json, rows: Table) -> Table:
    """The rows with their model's unscored frames and sets, in every table as soon as one model has any."""
    unscored = {name: data.get("unscored") or {} for name, data in (results.get("models") or {}).items()}
    if not any(found.get("sets") for found in unscored.values()):
        return rows
    return [
        row | {f"unscored_{what}": unscored[row["model"]].get(what) for what in ("frames", "sets")}
        if row.get("model") in unscored
        else row
        for row in rows
    ]


def write_tables(run: Path, results: Json) -> list[Path]:
    """Write every table that has rows to `run/tables/NAME.csv`; the paths written. One that has none any more goes."""
    written = []
    for name, make in TABLES.items():
        rows = _with_unscored(results, make(results))
        path = run / "tables" / f"{name}.csv"
        if rows:
            write_text(path, as_csv(rows))
            written.append(path)
        elif path.is_file():
            path.unlink()
    return written
