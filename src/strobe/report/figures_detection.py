"""The figures of detection: mAP before and after, against k, per class, why it broke, and how tracks behave."""

from collections.abc import Mapping, Sequence
from typing import Any

from strobe.core.errors import printable
from strobe.report.drawing import (
    Figure,
    Series,
    missing,
    names_on_y,
    per_cent,
    series_lines,
    whisker,
    whole_numbers,
)
from strobe.report.published import detection_rows
from strobe.report.style import GREY, MUTED, RIGHT, WRONG, colour_of, draw
from strobe.report.subject import subject
from strobe.report.wording import (
    CAUSES,
    counted,
    estimate,
    listed,
    models_of,
    percent,
    points,
    short,
    shown_of,
    shown_text,
    value_of,
)

__all__ = ["curve", "errors", "overview", "per_class", "temporal"]

Json = Mapping[str, Any]


def _k(results: Json) -> str:
    return f"pm-{results.get('dataset', {}).get('k', 'k')}"


def overview(results: Json) -> Figure:
    """mAP and localization on anchors and worst frames, the papers' detectors below in grey."""
    name, title = "detection", "How much does detection lose?"
    rows: list[tuple[str, str, Json, Json, bool]] = []
    for model, data in shown_of(results, "detection").items():
        for what, part in (("detection", data), ("localization", data.get("localization") or {})):
            orig, worst = estimate(part, "map_orig"), estimate(part, "map_pmk")
            if orig and worst:
                rows.append((printable(model), what, orig, worst, True))
    if not rows:
        return missing(name, title, "no detector has an mAP on both anchors and worst frames")
    n_own = len(rows)
    rows.append(("papers (ImageNet-Vid-Robust, pm-10)", "", {}, {}, False))
    for row in detection_rows():
        orig, worst = {"value": row.map_orig / 100}, {"value": row.map_pm10 / 100}
        rows.append((row.model, row.task, orig, worst, False))

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        for y, (_, _, orig, worst, mine) in enumerate(rows):
            if not orig:
                continue
            blue, orange = (RIGHT, WRONG) if mine else (GREY, GREY)
            axes.plot([worst["value"], orig["value"]], [y, y], color=GREY, linewidth=2.6, alpha=0.5, zorder=1)
            for found, colour, marker in ((orig, blue, "o"), (worst, orange, "D")):
                if mine:
                    whisker(axes, y, found, colour, marker=marker)
                else:
                    axes.plot([found["value"]], [y], marker=marker, color=colour, markersize=5, zorder=3)
        names_on_y(axes, [_row_name(row[0], row[1], is_narrow) for row in rows], limit=44)
        axes.axhline(n_own - 0.5, color=GREY, linewidth=0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("mean average precision")
        axes.plot([], [], marker="o", color=RIGHT, linestyle="", label="anchors")
        axes.plot([], [], marker="D", color=WRONG, linestyle="", label=f"worst frames ({_k(results)})")
        per_cent(axes, which="x")
        figure.legend(loc="outside upper left", ncols=2, handletextpad=0.2, borderaxespad=0.2)

    model, data = next(iter(shown_of(results, "detection").items()))
    place = data.get("localization") or {}
    text = f"{printable(model)} loses {points(value_of(data, 'drop'))} of mAP"
    lost = value_of(place, "drop")
    if lost is not None:
        text += f", and {points(lost)} of localization, where only the place counts and not the class"
    height = 1.1 + 0.32 * len(rows)
    return Figure(
        name=name,
        title=title,
        sentence=text + ".",
        how="The worst frame of a set is the one with the lowest AP. Grey: the papers’ detectors, other data unless "
        "yours is ImageNet-Vid-Robust; never pooled.",
        drawing=draw(name, paint, wide=(7.4, height), narrow=(3.9, height)),
    )


def _row_name(model: str, what: str, is_narrow: bool) -> str:
    if is_narrow:  # a phone has no room for the whole name
        model = model.replace("Faster R-CNN ResNet-", "FRCNN-").replace("ResNet-", "")
        return f"{short(model, 14)}: {what[:3]}." if what else "papers (pm-10)"
    return f"{short(model, 30)}: {what}" if what else model


def curve(results: Json) -> Figure:
    """mAP against k."""
    name, title = "detection_curve", "How fast does mAP fall as the set grows?"
    series = []
    words = subject(results)
    for place, (model, data) in enumerate(shown_of(results, "detection").items()):
        rows = [row for row in listed(data, "curve") if estimate(row, "map")]
        if rows:
            x = [float(row["k"]) for row in rows]
            series.append(Series(name=model, place=place, x=x, y=[row["map"] for row in rows]))
    if not series:
        return missing(name, title, "no mAP for growing k was found in these results")

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        series_lines(axes, series, is_narrow=is_narrow)
        axes.set(xlabel=words.k_label, ylabel="mAP on the worst frames")
        whole_numbers(axes)
        per_cent(axes)

    first = series[0]
    near = next((e for x, e in zip(first.x, first.y, strict=True) if x == 1), None)
    text = f"{printable(first.name)} goes from {percent(first.y[0])} on the anchors to {percent(first.y[-1])} at "
    text += f"k = {first.x[-1]:.0f}"
    text += f"; {percent(near)} are left at k = 1" if near else ""
    return Figure(
        name=name,
        title=title,
        sentence=text + "." + shown_text(results, "detection"),
        how="Each frame’s own AP can only fall as k grows; mAP over the chosen frames usually does, but need not.",
        drawing=draw(name, paint, wide=(7.4, 3.8), narrow=(3.9, 3.8)),
    )


def per_class(results: Json) -> list[Figure]:
    """One dumbbell chart per detector: AP of every class on anchors and worst frames."""
    title = "Which classes does it lose?"
    figures = []
    for place, (model, data) in enumerate(shown_of(results, "detection").items()):
        rows = [row for row in listed(data, "per_class") if estimate(row, "ap_orig") and estimate(row, "ap_pmk")]
        if rows:
            figures.append(_dumbbell(f"detection_class_{place + 1}", title, model, rows, _k(results)))
    return figures or [missing("detection_class", title, "no class has an AP on both anchors and worst frames")]


def _dumbbell(name: str, title: str, model: str, rows: Sequence[Json], k: str) -> Figure:
    rows = sorted(rows, key=lambda row: (-row["ap_pmk"]["value"], str(row.get("name"))))

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        for y, row in enumerate(rows):
            faint = 0.55 if row.get("small") else 1.0
            orig, worst = row["ap_orig"]["value"], row["ap_pmk"]["value"]
            axes.plot([worst, orig], [y, y], color=GREY, linewidth=2.6, alpha=0.6 * faint, zorder=1)
            axes.plot([orig], [y], marker="o", color=RIGHT, alpha=faint, markersize=6.5, linestyle="", zorder=3,
                      label="anchors" if y == 0 else None)  # fmt: skip
            axes.plot([worst], [y], marker="D", color=WRONG, alpha=faint, markersize=5.5, linestyle="", zorder=3,
                      label=f"worst frames ({k})" if y == 0 else None)  # fmt: skip
        labels = [
            f"{row.get('name') or row.get('label')} ({row['ap_orig'].get('n', 0)}{'*' if row.get('small') else ''})"
            for row in rows
        ]
        names_on_y(axes, labels, limit=20 if is_narrow else 30)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("average precision")
        per_cent(axes, which="x")
        figure.legend(loc="outside upper left", ncols=2, handletextpad=0.2, borderaxespad=0.2)

    # "Loses most" is said of classes with enough sets to rank, as long as there are any.
    ranked = [row for row in rows if not row.get("small")] or rows
    worst = max(ranked, key=lambda row: row["ap_orig"]["value"] - row["ap_pmk"]["value"])
    among = " among classes with ten sets or more" if len(ranked) < len(rows) else ""
    height = 0.9 + 0.27 * len(rows)
    return Figure(
        name=name,
        title=title,
        sentence=f"{printable(model)} loses most on {printable(worst.get('name') or worst.get('label'))}{among}: from "
        f"{percent(worst['ap_orig'])} to {percent(worst['ap_pmk'])}.",
        how="In brackets the number of anchors with the class; * and paler: fewer than 10, too few to rank.",
        drawing=draw(name, paint, wide=(7.4, height), narrow=(3.9, height)),
        group="detection_class",
        choice=model,
    )


def errors(results: Json) -> Figure:
    """What changed on the worst frame of each failing set, counted."""
    name, title = "detection_errors", "Why did it break?"
    found = [
        (model, data["errors"])
        for model, data in shown_of(results, "detection", 6).items()
        if (data.get("errors") or {}).get("failing")
    ]
    if not found:
        return missing(name, title, "no set has a frame worse than its anchor, or none was diagnosed")
    kinds = [kind for kind in CAUSES if any(counts.get(kind) for _, counts in found)]

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        tall = 0.8 / len(found)
        for place, (model, counts) in enumerate(found):
            for y, kind in enumerate(kinds):
                share = (counts.get(kind) or 0) / counts["failing"]
                middle = y + (place - (len(found) - 1) / 2) * tall
                axes.barh(middle, share, height=tall * 0.86, color=colour_of(place), linewidth=0,
                          label=short(printable(model), 30) if y == 0 else None)  # fmt: skip
                axes.annotate(str(counts.get(kind) or 0), xy=(share, middle), xytext=(4, 0), va="center",
                              textcoords="offset points", color=MUTED, fontsize=8)  # fmt: skip
        labels = [kind if is_narrow else f"{kind} ({CAUSES[kind]})" for kind in kinds]
        names_on_y(axes, labels, limit=44)
        axes.set_xlabel("share of the sets that got worse")
        per_cent(axes, which="x")
        if len(found) > 1:
            figure.legend(loc="outside lower left", ncols=1 if is_narrow else 3, borderaxespad=0.2)

    model, counts = found[0]
    top = max(kinds, key=lambda kind: counts.get(kind) or 0) if kinds else None
    text = f"{counted(counts['failing'], 'set')} got worse for {printable(model)}"
    if top:
        share = (counts.get(top) or 0) / counts["failing"]
        text += f"; the main reason is {top} ({CAUSES[top]}) in {counts.get(top)} of them, {percent(share, digits=0)}"
    height = 1.1 + (0.2 + 0.2 * len(found)) * max(len(kinds), 1)
    return Figure(
        name=name,
        title=title,
        sentence=text + ".",
        how="On the worst frame of each such set: the kind of error whose mending would raise the frame’s AP most.",
        drawing=draw(name, paint, wide=(7.4, height), narrow=(3.9, height)) if kinds else None,
    )


_TRACKS = (
    ("flicker", "found, lost, found"),
    ("found_lost_rate", "found ↔ lost rate"),
    ("box_jitter", "box jitter (of size)"),
    ("score_swing", "score swing"),
)


def temporal(results: Json) -> Figure:
    """How tracked objects behave along their sets."""
    name, title = "detection_tracks", "Do tracked objects flicker?"
    found = [
        (model, {key: estimate(data, "temporal", key) for key, _ in _TRACKS})
        for model, data in shown_of(results, "detection").items()
    ]
    shown = [(key, words) for key, words in _TRACKS if any(values[key] for _, values in found)]
    if not shown:
        reasons = {str((d.get("temporal") or {}).get("reason") or "") for d in models_of(results, "detection").values()}
        return missing(name, title, next(iter(sorted(reasons - {""})), "no object is tracked in this data"))

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        tall = 0.7 / len(found)
        for place, (model, values) in enumerate(found):
            for y, (key, _) in enumerate(shown):
                value = values[key]
                if value:
                    whisker(axes, y + (place - (len(found) - 1) / 2) * tall, value, colour_of(place))
            axes.plot([], [], marker="o", linestyle="", color=colour_of(place), label=short(printable(model), 30))
        names_on_y(axes, [words for _, words in shown])
        axes.set_xlim(left=0)
        per_cent(axes, which="x")
        if len(found) > 1:
            figure.legend(loc="outside lower left", ncols=1 if is_narrow else 3, borderaxespad=0.2)

    model, values = found[0]
    flicker, swing = values["flicker"], values["score_swing"]
    parts = []
    if flicker:
        parts.append(f"{percent(flicker)} of the tracked objects are found, lost and found again inside one set")
    if swing:
        parts.append(f"the score of an object swings by {percent(swing)} on average")
    height = 1.0 + (0.22 + 0.18 * len(found)) * len(shown)
    return Figure(
        name=name,
        title=title,
        sentence=f"For {printable(model)} {', and '.join(parts)}."
        if parts
        else f"{printable(model)} could be followed.",
        how="Objects that keep their track id through a set. Found, lost, found: the share of tracks lost and found "
        "again. Rate: neighbouring frames where that changes. Jitter: how far the box wanders, as a share of its size.",
        drawing=draw(name, paint, wide=(7.4, height), narrow=(3.9, height)),
    )
