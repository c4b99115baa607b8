"""The words and tables of the page, from results.json alone: the lead, the headline table, how it was made."""

import json
from collections.abc import Mapping
from typing import Any

from strobe.core.errors import printable
from strobe.report.subject import Subject, sources, subject
from strobe.report.wording import (
    counted,
    estimate,
    is_sure,
    listed,
    models_of,
    percent,
    plain_number,
    points,
    shown_of,
    some,
    value_of,
)

__all__ = ["MOST_PAIRS", "comparisons", "facts", "failures", "headlines", "lead", "off_the_line", "run_details"]

Json = Mapping[str, Any]

MOST_PAIRS = 60
"""Rows of the comparison on the page; with many models the rest is in tables/comparison.csv."""


def lead(results: Json) -> tuple[str, str]:
    """The page's first sentence and the one below it."""
    models = models_of(results)
    detectors = models_of(results, "detection")
    words = subject(results)
    scored = {m: d for m, d in models.items() if estimate(d, "acc_orig") and estimate(d, "acc_pmk")}
    if scored:
        if all(data["acc_orig"]["value"] == 0 for data in scored.values()):
            return _all_wrong(list(scored))
        first, data = next(iter(scored.items()))
        orig, kept = data["acc_orig"]["value"], data["acc_pmk"]["value"]
        head = (
            f"{printable(first)} gets {percent(orig)} of the anchors right. Ask it about {words.around}, and it "
            f"holds on {percent(kept)} of the sets."
            if orig > kept
            else f"{printable(first)} does not flicker here: right on {percent(orig)} of the anchors and of the sets."
        )
        return head, _lede(scored, words)
    found = {m: d for m, d in detectors.items() if estimate(d, "map_orig") and estimate(d, "map_pmk")}
    if found:
        first, data = next(iter(found.items()))
        head = (
            f"{printable(first)} reaches {percent(data['map_orig'])} mAP. On the worst of {words.around}, "
            f"{percent(data['map_pmk'])} are left."
        )
        return head, f"mAP at {_overlap(data)}; the worst of the {words.frames} {words.within}."
    return "Nothing was scored.", "No model has a score in these results; see “How it was made” for what was asked."


def _all_wrong(names: list[str]) -> tuple[str, str]:
    """A run in which no anchor is right: no finding about flicker, and most likely a mistake."""
    who = f"{printable(names[0])} is" if len(names) == 1 else f"All {len(names)} models are"
    return f"{who} wrong on every anchor.", f"So nothing can flicker here. {_SUSPECT}"


_SUSPECT = (
    "A model that is never right usually has its classes in another order than the dataset, or is fed in another way "
    "than it was trained (size, normalisation, channel order): check labels and preprocessing before reading on."
)


def _overlap(data: Json) -> str:
    """At which overlap a box counts, in words."""
    iou = (data.get("settings") or {}).get("iou")
    if isinstance(iou, list) and len(iou) > 1:
        return f"an overlap (IoU) of {min(iou):g} to {max(iou):g}"
    if isinstance(iou, list) and iou:
        return f"an overlap (IoU) of {iou[0]:g}"
    return "the ILSVRC-VID overlap" if iou == "ilsvrc-vid" else "an overlap (IoU) of 0.5"


def _lede(models: Mapping[str, Json], words: Subject) -> str:
    if len(models) == 1:
        (data,) = models.values()
        right, lost = data["acc_orig"].get("count"), (data.get("drop") or {}).get("count")
        if not right or lost is None:
            return f"The difference, {points(value_of(data, 'drop'))}, is what flicker {words.within} costs it."
        gone = "none is" if not lost else "1 is" if lost == 1 else f"{plain_number(lost)} are"
        return f"Of {counted(right, 'right answer')}, {gone} lost by a look at the {words.frames} {words.within}."
    drops = {model: value_of(data, "drop") or 0.0 for model, data in models.items()}
    worst = max(drops, key=lambda model: drops[model])
    least = min(drops, key=lambda model: drops[model])
    # Not "the most robust": the model that holds most may well be the one that loses most.
    text = f"None of the {len(models)} models holds on more sets. "
    if drops[worst] == drops[least]:
        same = f"The drop of each is {points(drops[worst])}" if drops[worst] else "None of them loses an answer"
        return text + f"{same} {words.within}."
    low = f"{points(drops[least])} ({printable(least)})"
    return text + f"The drop runs from {low} to {points(drops[worst])} ({printable(worst)}) {words.within}."


def _column(name: str, title: str) -> dict[str, str]:
    return {"name": name, "title": title}


def headlines(results: Json) -> list[dict[str, Any]]:
    """The headline table of every task in the results, ready for the template."""
    k = results.get("dataset", {}).get("k", "k")
    words = subject(results)
    tables = []
    for task, keys, columns, picture in (
        (
            "classification",
            ("acc_orig", "acc_pmk", "drop", "mean_frame", "flip_rate"),
            [
                _column("acc_orig", "Share of anchors that are right"),
                _column(f"acc_pm-{k}", f"Share of sets right on the anchor and all {words.frames} of the set"),
                _column("Drop", "acc_orig − acc_pm-k"),
                _column("Mean frame", "Share of all frames that are right"),
                _column("Flip rate", "Share of neighbouring pairs with different predictions"),
            ],
            "Round blue: anchors; orange diamond: whole sets, with its interval.",
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
            "Round blue: the anchors; orange diamond: the worst frames.",
        ),
    ):
        models = models_of(results, task)
        if not models:
            continue
        used = [i for i, key in enumerate(keys) if any(estimate(d, *key.split(".")) for d in models.values()) or i < 3]
        colours = {model: place + 1 for place, model in enumerate(shown_of(results, task))}
        rows = [_row(colours.get(model, 0), model, data, [keys[i] for i in used]) for model, data in models.items()]
        n = results.get("dataset", {})
        tables.append(
            {
                "title": task.capitalize(),
                "caption": f"{counted(n.get('n_sets'), 'set')} from {sources(n)}, "
                f"{counted(n.get('n_frames'), words.picture)}. Click a column to sort.",
                "columns": [columns[i] for i in used],
                "rows": rows,
                "how": "Per cent, with 95 % intervals below.",
                "picture": picture,
                "notes": _notes(models, k),
            }
        )
    return tables


def _row(colour: int, model: str, data: Json, keys: list[str]) -> dict[str, Any]:
    """A row of the table; `colour` is that of the model in the figures, 0 where it is drawn in none."""
    cells = [estimate(data, *key.split(".")) for key in keys]
    bar = None
    if cells[0] and cells[1]:
        ci = [100 * cells[1]["low"], 100 * cells[1]["high"]] if cells[1].get("low") is not None else None
        bar = {"orig": round(100 * cells[0]["value"], 2), "pmk": round(100 * cells[1]["value"], 2), "ci": ci}
    kind = data.get("model_type")
    note = printable(kind) if kind else ""
    return {"colour": colour, "model": printable(model), "note": note, "cells": cells, "bar": bar}


def _notes(models: Mapping[str, Json], k: object) -> list[str]:
    notes = []
    first: Json = next(
        (data[key] for data in models.values() for key in ("acc_pmk", "map_pmk") if estimate(data, key)), {}
    )
    if first and first.get("low") is None:
        notes.append(f"No intervals: {printable(first.get('reason') or 'none was asked for')}.")
    never = [model for model, data in models.items() if value_of(data, "acc_orig") == 0]
    if never and len(never) < len(models):
        is_are = "is" if len(never) == 1 else "are"
        notes.append(f"{some([printable(model) for model in never])} {is_are} wrong on every anchor. {_SUSPECT}")
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
    classes = printable(some([str(name) for name in top.get("childless", [])]), limit=600)
    lost, n = plain_number(top.get("anchors_out_of_reach")), plain_number(top.get("n"))
    return (
        f"{printable(top.get('source'))} has no class for {classes}: {lost} of {n} anchors are out of reach, so "
        f"acc_orig can be at most {percent(top['acc_orig'])} and acc_pm-{k} at most {percent(top['acc_pmk'])}."
    )


def comparisons(results: Json) -> tuple[list[Json], int]:
    """The rows of the comparison table, whole sets first, what is beyond chance before the rest; how many are not."""
    order = {"acc_pmk": 0, "drop": 1, "acc_orig": 2}
    rows = sorted(
        listed(results, "comparison"), key=lambda row: (order.get(str(row.get("metric")), 3), not is_sure(row))
    )
    return rows[:MOST_PAIRS], max(len(rows) - MOST_PAIRS, 0)


def failures(results: Json, run: Json) -> list[tuple[str, str]]:
    """The models that were asked for and could not be run, with the reason, by run.json."""
    models = run.get("models")
    return [
        (printable(name), printable(one.get("error") or "no reason is known", limit=500).removeprefix(f"{name}: "))
        for name, one in (models.items() if isinstance(models, Mapping) else ())
        if isinstance(one, Mapping) and one.get("status") == "failed" and name not in results.get("models", {})
    ]


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
        ("Size", f"{counted(dataset.get('n_sets'), 'set')}, {sources(dataset)}, "
                 f"{counted(dataset.get('n_frames'), subject(results).picture)}"),
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
