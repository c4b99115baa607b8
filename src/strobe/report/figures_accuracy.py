"""The figures of accuracy itself: against the original, against k and time, per class, and how long answers last."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from strobe.core.errors import printable
from strobe.report.drawing import Figure, Series, missing, names_on_y, per_cent, series_lines, shares, whole_numbers
from strobe.report.published import Reference, references_for
from strobe.report.style import GREY, INK, MUTED, PAPER, RIGHT, WRONG, colour_of, draw, marker_of
from strobe.report.subject import subject
from strobe.report.wording import (
    counted,
    estimate,
    listed,
    models_of,
    percent,
    plain_number,
    points,
    short,
    shown_of,
    shown_text,
    value_of,
)

__all__ = ["curve", "first_failure", "per_class", "time_curve", "trend"]

Json = Mapping[str, Any]


def _k(results: Json) -> str:
    return f"pm-{results.get('dataset', {}).get('k', 'k')}"


def trend(results: Json) -> Figure:
    """Perturbed accuracy against original accuracy: y = x, the fit, and the papers' models in grey."""
    name, title = "trend", "Does a more accurate model flicker less?"
    models = {m: d for m, d in models_of(results).items() if estimate(d, "acc_orig") and estimate(d, "acc_pmk")}
    if not models:
        return missing(name, title, "No model has both accuracies, so there is nothing to set against each other.")
    data = results.get("dataset", {})
    references = references_for(str(data.get("name", "")), data.get("n_sets"))
    fit = (results.get("trend") or {}).get("linear") or {}
    fit = fit if fit.get("slope") is not None and fit.get("intercept") is not None else None

    named = len(models) <= 4 and not _crowded(models)
    shown = {m: models[m] for m in shown_of(results) if m in models}
    words = subject(results)

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        xs = [value_of(d, "acc_orig") or 0.0 for d in models.values()]
        ys = [value_of(d, "acc_pmk") or 0.0 for d in models.values()]
        every = xs + ys + [v for one in references for pair in one.points for v in pair]
        ends = [data[key][end] for data in shown.values() for key in ("acc_orig", "acc_pmk") for end in ("low", "high")
                if data[key].get(end) is not None]  # fmt: skip
        low = max(0.0, min([min(every) - 0.05, *(end - 0.01 for end in ends)]))
        low = low or -0.015  # a model at nought keeps its whole marker
        high = min(1.0, max([max(every) + 0.04, *(end + 0.01 for end in ends)])) + 0.015
        axes.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            "no drop (y = x)", xy=(low + 0.04 * (high - low),) * 2, xytext=(0, 7), textcoords="offset points",
            color=MUTED, rotation=45, rotation_mode="anchor", transform_rotates_text=True, ha="left", va="bottom",
        )  # fmt: skip
        markers = ["D" if one.same_data else "." for one in references]
        for one, marker in zip(references, markers, strict=True):
            gx, gy = zip(*one.points, strict=True)
            axes.scatter(gx, gy, s=26 if marker == "D" else 34, marker=marker, color=GREY, linewidths=0, zorder=2,
                         label=_caption(one, is_narrow))  # fmt: skip
        if fit is not None:
            line = [_fit_at(fit, x) for x in (low, high)]
            axes.plot([low, high], line, color=INK, linewidth=1.2, zorder=2, label="fit of the\nstandard models here")
        others = [data for model, data in models.items() if model not in shown]
        if others:
            axes.plot([d["acc_orig"]["value"] for d in others], [d["acc_pmk"]["value"] for d in others], ".", color=INK,
                      alpha=0.6, zorder=3, label=f"{len(others)} other models of this run")  # fmt: skip
        for place, (model, data) in enumerate(shown.items()):
            x, y = data["acc_orig"], data["acc_pmk"]
            colour = colour_of(place)
            axes.errorbar(
                [x["value"]], [y["value"]], xerr=_reach(x), yerr=_reach(y), fmt=marker_of(place), color=colour,
                markersize=7, elinewidth=1, ecolor=colour, alpha=0.95, markeredgecolor=PAPER, zorder=4,
                label=short(printable(model), 34) if is_narrow or not named else None,
            )  # fmt: skip
            if not is_narrow and named:
                right = x["value"] > (low + high) / 2  # names near the right edge go to the left of their point
                above = y["value"] < low + 0.08 * (high - low)  # and near the lower one above it
                axes.annotate(
                    short(printable(model), 22), xy=(x["value"], y["value"]), textcoords="offset points", color=colour,
                    xytext=(-8 if right else 8, 6 if above else -12), ha="right" if right else "left",
                    fontweight="bold", zorder=5,
                )  # fmt: skip
        axes.set(xlim=(low, high), ylim=(low, high), xlabel="acc_orig: right on the anchor")
        axes.set_ylabel(f"acc_{_k(results)}: right on the anchor and all {words.frames}")
        axes.set_aspect("equal", anchor="W")
        axes.grid(visible=True, axis="both")
        per_cent(axes, which="x")
        per_cent(axes)
        if axes.get_legend_handles_labels()[0]:
            where = "outside lower left" if is_narrow else "outside right upper"
            figure.legend(loc=where, handlelength=1.4, borderaxespad=0.2, labelspacing=0.9)

    return Figure(
        name=name,
        title=title,
        sentence=_trend_sentence(results, models, fit),
        how="Each coloured point is a model of this run with its 95 % intervals; the lower it lies under the dashed "
        "line, the more right answers it loses. Grey: the papers' models, printed for k = 10, for orientation; they "
        "are never pooled with yours.",
        # On a phone the legend lies below: the more it holds, the taller the figure, or the plot would shrink.
        drawing=draw(name, paint, wide=(7.4, 5.2), narrow=(3.9, 4.0 + 0.25 * (len(shown) + len(references)))),
    )


def _crowded(models: Mapping[str, Json]) -> bool:
    """Whether two points lie so close that names beside them would cover each other."""
    places = [(value_of(d, "acc_orig") or 0.0, value_of(d, "acc_pmk") or 0.0) for d in models.values()]
    return any(abs(a[0] - b[0]) < 0.25 and abs(a[1] - b[1]) < 0.04 for a, b in combinations(places, 2))


def _caption(one: Reference, is_narrow: bool) -> str:
    text = f"papers’ models, {one.caption}"
    return textwrap.fill(text, 40 if is_narrow else 22)


def _fit_at(fit: Json, x: float) -> float:
    """The line at a share; results.json gives it in points on both axes."""
    return float(fit["intercept"]) / 100 + float(fit["slope"]) * x


def _reach(found: Json) -> list[list[float]] | None:
    if found.get("low") is None:
        return None
    return [[max(found["value"] - found["low"], 0.0)], [max(found["high"] - found["value"], 0.0)]]


def _trend_sentence(results: Json, models: Mapping[str, Json], fit: Json | None) -> str:
    best = max(models, key=lambda m: value_of(models[m], "acc_orig") or 0.0)
    drops = {m: value_of(d, "drop") for m, d in models.items() if value_of(d, "drop") is not None}
    accuracy = percent(estimate(models[best], "acc_orig"))
    text = f"{printable(best)} is the most accurate on the anchors ({accuracy})"
    if len(models) == 1:
        text = f"{printable(best)} is right on {accuracy} of the anchors"
    if len(drops) > 1 and len(set(drops.values())) == 1:
        text += f"; all lose the same under {_k(results)} ({points(next(iter(drops.values())))})"
    elif len(drops) > 1:
        least = min(drops, key=lambda m: drops[m] or 0.0)
        same = "and also loses least" if least == best else f"but {printable(least)} loses least"
        text += f", {same} under {_k(results)} ({points(drops[least])})"
    elif drops:
        text += f" and loses {points(drops[best])} under {_k(results)}" if best in drops else ""
    if fit is None:
        why = (results.get("trend") or {}).get("reason")
        return f"{text}. No fit is drawn: {why}." if why else f"{text}."
    return (
        f"{text}. Along the fit, one more point of original accuracy comes with {float(fit['slope']):.2f} points of "
        f"{_k(results)} accuracy."
    )


def _line_series(models: Mapping[str, Json], *keys: str, x: str, y: str) -> list[Series]:
    out = []
    for place, (model, data) in enumerate(models.items()):
        rows = [row for row in listed(data, *keys) if estimate(row, y)]
        if rows:
            out.append(Series(name=model, place=place, x=[float(row[x]) for row in rows], y=[row[y] for row in rows]))
    return out


def curve(results: Json) -> Figure:
    """Accuracy against k."""
    name, title = "curve", "How fast does accuracy fall as the set grows?"
    models, words = shown_of(results), subject(results)
    series = _line_series(models, "curve", x="k", y="acc")
    if not series:
        return missing(name, title, "No accuracy for growing k was found in these results.")

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        series_lines(axes, series, is_narrow=is_narrow)
        axes.set(xlabel=words.k_label, ylabel="accuracy")
        shares(axes)
        whole_numbers(axes)
        per_cent(axes)

    first = series[0]
    start, end = float(first.y[0]["value"]), float(first.y[-1]["value"])
    half = next((x for x, e in zip(first.x, first.y, strict=True) if start - e["value"] >= (start - end) / 2), None)
    reach = words.up_to(f"{first.x[-1]:.0f}")
    text = (
        f"{printable(first.name)} starts at {percent(start)} on the anchors alone and is right on the whole set "
        f"{reach} in {percent(end)}"
        if start > end
        else f"{printable(first.name)} stays at {percent(start)}, from the anchors alone to the whole set {reach}"
    )
    if start > end and half:
        text += f"; half of the loss has happened {words.up_to(f'{half:.0f}')}"
    return Figure(
        name=name,
        title=title,
        sentence=text + "." + shown_text(results),
        how="The curve starts at acc_orig (k = 0) and can only fall: all that joins a set is one more chance to fail.",
        drawing=draw(name, paint, wide=(7.4, 4.0), narrow=(3.9, 3.9)),
    )


def time_curve(results: Json) -> Figure:
    """Accuracy against milliseconds."""
    name, title = "time_curve", "The same, in milliseconds"
    models = shown_of(results)
    series = _line_series(models, "time_curve", "points", x="ms", y="acc")
    if not series:
        reasons = {str((d.get("time_curve") or {}).get("reason") or "") for d in models.values()} - {""}
        why = f" ({printable(sorted(reasons)[0])})" if reasons else ""
        return missing(name, title, f"no accuracy against time is known for this data{why}.")

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        series_lines(axes, series, is_narrow=is_narrow, step=True, markers=False)
        axes.set(xlabel="milliseconds on either side of the anchor", ylabel="accuracy")
        shares(axes)
        per_cent(axes)

    first = series[0]
    data = models[first.name].get("time_curve") or {}
    start, end = float(first.y[0]["value"]), float(first.y[-1]["value"])
    moves = f"falls from {percent(start)} to {percent(end)}" if start > end else f"stays at {percent(start)}"
    text = (
        f"Within {first.x[-1]:.0f} ms of the anchor {printable(first.name)} {moves}, over the "
        f"{plain_number(data.get('n_sets'))} sets that reach that far."
    )
    return Figure(
        name=name,
        title=title,
        sentence=text + shown_text(results),
        how="Ten frames last a second at 9 fps and a sixth of one at 59; time makes such videos comparable.",
        drawing=draw(name, paint, wide=(7.4, 4.0), narrow=(3.9, 3.9)),
    )


def first_failure(results: Json) -> Figure:
    """How far from the anchor right answers last."""
    name, title = "first_failure", "How long does a right answer last?"
    models, words = shown_of(results), subject(results)
    series = _line_series(models, "first_failure", "survival", x="distance", y="alive")
    if not series:
        return missing(name, title, "no set has a right anchor and a member, so nothing can be followed.")

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        started = [_from_one(line) for line in series]
        series_lines(axes, started, is_narrow=is_narrow, step=True, markers=False)
        axes.set(xlabel=words.distance_label, ylabel="answers still right")
        shares(axes)
        if words.is_video:
            whole_numbers(axes)
        per_cent(axes)

    first = series[0]
    data = models[first.name].get("first_failure") or {}
    median = data.get("median")
    right, lost = counted(data.get("n"), "right anchor"), plain_number(data.get("events"))
    lasts = (
        f"half have failed {words.up_to(f'{median:.0f}')}" if median is not None else "more than half last to the end"
    )
    return Figure(
        name=name,
        title=title,
        sentence=(
            f"Of {right} {printable(first.name)} loses {lost} inside the set; {lasts}."
            if data.get("events")
            else f"Of {right} {printable(first.name)} loses none inside the set."
        )
        + shown_text(results),
        how="Kaplan–Meier: only sets whose anchor is right, counted until the first wrong frame on either side; a set "
        "that ends earlier counts as long as it was seen.",
        drawing=draw(name, paint, wide=(7.4, 3.8), narrow=(3.9, 3.8)),
    )


def _from_one(series: Series) -> Series:
    """The line from the anchor on, where every answer that counts is right."""
    if series.x[0] == 0:
        return series
    one = {"value": 1.0, "low": 1.0, "high": 1.0}
    return Series(name=series.name, place=series.place, x=[0.0, *series.x], y=[one, *series.y])


def per_class(results: Json) -> list[Figure]:
    """One dumbbell chart per model: original and perturbed accuracy of every class."""
    title = "Which classes flicker?"
    figures = []
    for place, (model, data) in enumerate(shown_of(results).items()):
        rows = [row for row in listed(data, "per_class") if estimate(row, "acc_orig") and estimate(row, "acc_pmk")]
        if rows:
            figures.append(_dumbbell(f"per_class_{place + 1}", title, model, rows, _k(results)))
    return figures or [missing("per_class", title, "no class has a scored set.")]


def _dumbbell(name: str, title: str, model: str, rows: Sequence[Json], k: str) -> Figure:
    rows = sorted(rows, key=lambda row: (-row["acc_pmk"]["value"], -row["acc_orig"]["value"], str(row.get("name"))))

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        for y, row in enumerate(rows):
            orig, worst = row["acc_orig"], row["acc_pmk"]
            faint = 0.4 if row.get("small") else 1.0
            axes.plot([worst["value"], orig["value"]], [y, y], color=GREY, linewidth=2.6, alpha=0.6 * faint, zorder=1)
            axes.plot([orig["value"]], [y], marker="o", color=RIGHT, alpha=max(faint, 0.55), markersize=6.5, zorder=3,
                      linestyle="", label="anchor" if y == 0 else None)  # fmt: skip
            axes.plot([worst["value"]], [y], marker="D", color=WRONG, alpha=max(faint, 0.55), markersize=5.5, zorder=3,
                      linestyle="", label=f"whole set ({k})" if y == 0 else None)  # fmt: skip
        labels = [
            f"{row.get('name') or row.get('label')} ({row['acc_orig'].get('n', 0)}{'*' if row.get('small') else ''})"
            for row in rows
        ]
        names_on_y(axes, labels, limit=20 if is_narrow else 30)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("accuracy")
        per_cent(axes, which="x")
        figure.legend(loc="outside upper left", ncols=2, handletextpad=0.2, borderaxespad=0.2)

    # "Loses most" is said of classes with enough sets to rank, as long as there are any.
    ranked = [row for row in rows if not row.get("small")] or rows
    worst = max(ranked, key=lambda row: row["acc_orig"]["value"] - row["acc_pmk"]["value"])
    among = " among classes with ten sets or more" if len(ranked) < len(rows) else ""
    drop = worst["acc_orig"]["value"] - worst["acc_pmk"]["value"]
    steady = sum(1 for row in rows if row["acc_orig"]["value"] == row["acc_pmk"]["value"])
    text = (
        f"{printable(model)} loses most on {printable(worst.get('name') or worst.get('label'))}{among}: from "
        f"{percent(worst['acc_orig'])} to {percent(worst['acc_pmk'])} ({points(drop)}, n = {worst['acc_orig']['n']})"
        if drop > 0
        else f"{printable(model)} loses nothing{among or ' in any class'}"
    )
    text += f"; {steady} of {len(rows)} classes lose nothing." if steady and drop > 0 else "."
    height = 0.9 + 0.27 * len(rows)
    return Figure(
        name=name,
        title=title,
        sentence=text,
        how="In brackets the number of sets; * and paler: fewer than 10, too few to rank. A set counts in every class "
        "of its anchor.",
        drawing=draw(name, paint, wide=(7.4, height), narrow=(3.9, height)),
        group="per_class",
        choice=model,
    )
