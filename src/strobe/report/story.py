"""The words and tables of the page, from results.json alone: the lead, the headline table, how it was made."""

import json
from collections.abc import Mapping
from typing import Any

from strobe.core.errors import printable
from strobe.report.wording import counted, estimate, join, listed, models_of, percent, plain_number, points, value_of

__all__ = ["MOST_PAIRS", "comparisons", "facts", "headlines", "lead", "off_the_line", "run_details"]

Json = Mapping[str, Any]

MOST_PAIRS = 60
"""Rows of the comparison on the page; with many models the rest is in tables/comparison.csv."""


def lead(results: Json) -> tuple[str, str]:
    """The page's first sentence and the one below it."""
    models = models_of(results)
    detectors = models_of(results, "detection")
    k = results.get("dataset", {}).get("k", "k")
    scored = {m: d for m, d in models.items() if estimate(d, "acc_orig") and estimate(d, "acc_pmk")}
    if scored:
        first, data = next(iter(scored.items()))
        orig, kept = data["acc_orig"]["value"], data["acc_pmk"]["value"]
        head = (
            f"{printable(first)} gets {percent(orig)} of the frames right. Ask it about the frames around each, which "
            f"look the same, and {percent(kept)} still hold."
            if orig > kept
            else f"{printable(first)} does not flicker here: right on {percent(orig)} of the anchors and of the sets."
        )
        return head, _lede(scored, k)
    found = {m: d for m, d in detectors.items() if estimate(d, "map_orig") and estimate(d, "map_pmk")}
    if found:
        first, data = next(iter(found.items()))
        head = (
            f"{printable(first)} reaches {percent(data['map_orig'])} mAP. On the worst of the frames around each one, "
            f"which look the same, {percent(data['map_pmk'])} are left."
        )
        return head, f"mAP at {_overlap(data)}; the worst frame within ±{k} of each anchor."
    return "Nothing was scored.", "No model has a score in these results; see “How it was made” for what was asked."


def _overlap(data: Json) -> str:
    """At which overlap a box counts, in words."""
    iou = (data.get("settings") or {}).get("iou")
    if isinstance(iou, list) and len(iou) > 1:
        return f"an overlap (IoU) of {min(iou):g} to {max(iou):g}"
    if isinstance(iou, list) and iou:
        return f"an overlap (IoU) of {iou[0]:g}"
    return "the ILSVRC-VID overlap" if iou == "ilsvrc-vid" else "an overlap (IoU) of 0.5"


def _lede(models: Mapping[str, Json], k: object) -> str:
    if len(models) == 1:
        (data,) = models.values()
        right, lost = data["acc_orig"].get("count"), (data.get("drop") or {}).get("count")
        if not right or lost is None:
            return f"The difference, {points(value_of(data, 'drop'))}, is what flicker within ±{k} frames costs it."
        return (
            f"Of {plain_number(right)} right answers, {plain_number(lost)} do not survive a look at the neighbouring "
            f"±{k} frames."
        )
    drops = {model: value_of(data, "drop") or 0.0 for model, data in models.items()}
    worst = max(drops, key=lambda model: drops[model])
    least = min(drops, key=lambda model: drops[model])
    # Not "the most robust": the model that holds most may well be the one that loses most.
    text = f"None of the {len(models)} models holds on more sets. "
    low = f"{points(drops[least])} ({printable(least)})"
    return text + f"The drop runs from {low} to {points(drops[worst])} ({printable(worst)}) within ±{k} frames."


def _column(name: str, title: str) -> dict[str, str]:
    return {"name": name, "title": title}


def headlines(results: Json) -> list[dict[str, Any]]:
    """The headline table of every task in the results, ready for the template."""
    k = results.get("dataset", {}).get("k", "k")
    tables = []
    for task, keys, columns, how in (
        (
            "classification",
            ("acc_orig", "acc_pmk", "drop", "mean_frame", "flip_rate"),
            [
                _column("acc_orig", "Share of anchors that are right"),
                _column(f"acc_pm-{k}", "Share of sets right on the anchor and every similar frame"),
                _column("Drop", "acc_orig − acc_pm-k"),
                _column("Mean frame", "Share of all frames that are right"),
                _column("Flip rate", "Share of neighbouring pairs with different predictions"),
            ],
            "Per cent, with 95 % intervals below. Round blue: anchors; orange diamond: whole sets, with its interval.",
        ),
        (
            "detection",
            ("map_orig", "map_pmk", "drop", "localization.map_orig", "localization.map_pmk", "as_classifier.coverage"),
            [
                _column("mAP", "Mean average precision on the anchors"),
                _column(f"mAP pm-{k}", "On the member of each set with the lowest per-frame AP"),
                _column("Drop", "mAP − mAP pm-k"),
                _column("Localization", "Classes merged, on the anchors"),
                _column(f"Localization pm-{k}", "Classes merged, worst frame by localization AP"),
                _column("Coverage", "Share of frames with at least one box"),
            ],
            "Per cent, with 95 % intervals below. Round blue: the anchors; orange diamond: the worst frames.",
        ),
    ):
        models = models_of(results, task)
        if not models:
            continue
        used = [i for i, key in enumerate(keys) if any(estimate(d, *key.split(".")) for d in models.values()) or i < 3]
        rows = [_row(place, model, data, [keys[i] for i in used]) for place, (model, data) in enumerate(models.items())]
        n = results.get("dataset", {})
        tables.append(
            {
                "title": task.capitalize(),
                "caption": f"{counted(n.get('n_sets'), 'set')} from {counted(n.get('n_videos'), 'video')}, "
                f"{counted(n.get('n_frames'), 'frame')}. Click a column to sort.",
                "columns": [columns[i] for i in used],
                "rows": rows,
                "how": how,
                "notes": _notes(models, k),
            }
        )
    return tables


def _row(place: int, model: str, data: Json, keys: list[str]) -> dict[str, Any]:
    cells = [estimate(data, *key.split(".")) for key in keys]
    bar = None
    if cells[0] and cells[1]:
        ci = [100 * cells[1]["low"], 100 * cells[1]["high"]] if cells[1].get("low") is not None else None
        bar = {"orig": round(100 * cells[0]["value"], 2), "pmk": round(100 * cells[1]["value"], 2), "ci": ci}
    kind = data.get("model_type")
    note = printable(kind) if kind else ""
    return {"place": place % 8 + 1, "model": printable(model), "note": note, "cells": cells, "bar": bar}


def _notes(models: Mapping[str, Json], k: object) -> list[str]:
    notes = []
    first: Json = next(
        (data[key] for data in models.values() for key in ("acc_pmk", "map_pmk") if estimate(data, key)), {}
    )
    if first and first.get("low") is None:
        notes.append(f"No intervals: {printable(first.get('reason') or 'none was asked for')}.")
    for model, data in models.items():
        unscored = data.get("unscored") or {}
        if unscored.get("sets"):
            text = (
                f"{printable(model)}: {plain_number(unscored['sets'])} sets, {plain_number(unscored.get('frames'))} "
                "frames, have no prediction and are left out, not counted as wrong"
            )
            low, high = (data.get("bounds") or {}).get("acc_pmk") or (None, None)
            if low is not None:
                text += f"; with them acc_pm-{k} would lie between {percent(low)} and {percent(high)}"
            notes.append(text + ".")
    return notes + list(dict.fromkeys(_ceiling(data["ceiling"], k) for data in models.values() if data.get("ceiling")))


def _ceiling(top: Json, k: object) -> str:
    """What it costs that a model's own space lacks some of the dataset's classes."""
    classes = printable(join([str(name) for name in top.get("childless", [])]))
    lost, n = plain_number(top.get("anchors_out_of_reach")), plain_number(top.get("n"))
    return (
        f"{printable(top.get('source'))} has no class for {classes}: {lost} of {n} anchors are out of reach, so "
        f"acc_orig can be at most {percent(top['acc_orig'])} and acc_pm-{k} at most {percent(top['acc_pmk'])}."
    )


def comparisons(results: Json) -> tuple[list[Json], int]:
    """The rows of the comparison table, whole sets first, and how many are left out."""
    order = {"acc_pmk": 0, "drop": 1, "acc_orig": 2}
    rows = sorted(listed(results, "comparison"), key=lambda row: order.get(str(row.get("metric")), 3))
    return rows[:MOST_PAIRS], max(len(rows) - MOST_PAIRS, 0)


def off_the_line(results: Json) -> list[Json]:
    """Effective robustness of every model, where a line could be fitted, the highest above it first."""
    rows = [
        row
        for row in listed(results, "trend", "models")
        if estimate(row, "effective_robustness", "linear") and estimate(row, "effective_robustness", "logit")
    ]
    return sorted(rows, key=lambda row: -float(row["effective_robustness"]["linear"]["value"]))


def facts(results: Json, run: Json) -> list[tuple[str, str]]:
    """How the numbers were made, as pairs of name and text."""
    dataset, settings = results.get("dataset", {}), results.get("settings") or {}
    labels = {"frame": "each frame with its own labels", "anchor": "each frame with its anchor’s labels"}
    review = {
        "none": "nobody has confirmed that the frames look the same",
        "release": "reviewed by people before release",
        "votes": "decided by the votes in the dataset folder",
    }
    out = [
        ("Dataset", f"{dataset.get('name')}, k = {dataset.get('k')}, axis {dataset.get('axis', 'frame-offset')}"),
        ("Dataset digest", str(dataset.get("digest", "—"))),
        ("Size", f"{counted(dataset.get('n_sets'), 'set')}, {counted(dataset.get('n_videos'), 'video')}, "
                 f"{counted(dataset.get('n_frames'), 'frame')}"),
        ("Review", review.get(str(dataset.get("reviewed")), "not known")),
        ("Labels", labels.get(str(dataset.get("label_source")), "not known")),
        ("Intervals", f"{settings.get('interval', 'auto')}, 95 %; seed of the bootstrap {settings.get('seed', '—')}"),
    ]  # fmt: skip
    if settings.get("merge"):
        out.append(("Class merging", f"{settings['merge']} over the model’s classes that make up one class here"))
    if settings.get("subset"):
        out.append(("Subset", printable(settings["subset"])))
    command = run.get("command")
    if command:
        out.append(("Command", " ".join(map(str, command)) if isinstance(command, list) else str(command)))
    versions = run.get("versions")
    if isinstance(versions, Mapping):
        out.append(("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())))
    return [(name, printable(text, limit=1000)) for name, text in out]


def run_details(results: Json, run: Json) -> list[tuple[str, str]]:
    """What each model did with its input, folded away, as JSON."""
    out = []
    models = run.get("models")
    for name in results.get("models", {}):
        found = models.get(name) if isinstance(models, Mapping) else None
        if found is None and isinstance(models, list):
            found = next((one for one in models if isinstance(one, Mapping) and one.get("name") == name), None)
        if found:
            out.append((f"{printable(name)}: weights and preprocessing", _pretty(found)))
    if results.get("settings"):
        out.append(("Settings of the score", _pretty(results["settings"])))
    return out


def _pretty(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)[:20_000]
