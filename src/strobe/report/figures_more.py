"""The figures that ask why and what helps: offsets, smoothing, comparisons, slices, review."""

from collections.abc import Mapping, Sequence
from typing import Any

from strobe.core.errors import printable
from strobe.report.drawing import (
    Figure,
    Series,
    in_points,
    legend_below,
    missing,
    names_on_y,
    per_cent,
    series_lines,
    shares,
    whisker,
    whole_numbers,
    zero_line,
)
from strobe.report.ranges import bin_names, measure_of
from strobe.report.style import GREY, INK, MUTED, RIGHT, WRONG, colour_of, draw, marker_of
from strobe.report.subject import Subject, subject
from strobe.report.wording import estimate, is_sure, join, listed, models_of, percent, points, short, shown_of

__all__ = ["by_fps", "by_hint", "comparison", "frame_types", "per_offset", "smoothing"]

Json = Mapping[str, Any]

_MOST_PAIRS = 15

_METHODS = {
    "centred": ("centred window (looks ahead)", 0),
    "causal": ("causal window", 1),
    "ema": ("exponential average", 2),
    "centred vote": ("centred vote (looks ahead)", 0),
    "causal vote": ("causal vote", 1),
}


def _why(results: Json, key: str, otherwise: str) -> str:
    """Why a figure is left out: the reason in the results, or a plain one."""
    said = {str((data.get("reasons") or {}).get(key) or "") for data in models_of(results).values()} - {""}
    return printable(sorted(said)[0]) if said else otherwise


def per_offset(results: Json) -> Figure:
    """Error at every signed offset from the anchor."""
    name, title = "per_offset", "Where around the anchor do errors lie?"
    series, words = [], subject(results)
    for place, (model, data) in enumerate(shown_of(results).items()):
        rows = sorted((r for r in listed(data, "per_offset") if estimate(r, "error")), key=lambda r: float(r["offset"]))
        if rows:
            x = [float(row["offset"]) for row in rows]
            series.append(Series(name=model, place=place, x=x, y=[row["error"] for row in rows]))
    if not series:
        return missing(name, title, "no member was scored.")
    together = sorted(
        (r for r in listed(results, "offset_error_all_models") if estimate(r, "error")),
        key=lambda r: float(r["offset"]),
    )

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        axes.axvline(0, color=GREY, linewidth=1)
        if together and len(series) > 1:
            x, y = [r["offset"] for r in together], [r["error"]["value"] for r in together]
            axes.plot(x, y, color=MUTED, linewidth=3, alpha=0.5, label="mean of all models")
        series_lines(axes, series, is_narrow=is_narrow, bands=len(series) <= 2)
        axes.set_ylim(bottom=0)
        axes.set(xlabel=words.offset_label, ylabel="error")
        if words.is_video:
            whole_numbers(axes)
        per_cent(axes)

    first = series[0]
    values = {x: float(e["value"]) for x, e in zip(first.x, first.y, strict=True)}
    ends = [values[x] for x in (min(values), max(values))]
    text = f"{printable(first.name)} errs on {percent(sum(ends) / 2)} of the outermost {words.frames}"
    if 0.0 in values:
        more = sum(ends) / 2 - values[0.0]
        less = f"{points(abs(more))} {'more' if more > 0 else 'less'} than" if round(more, 3) else "as often as"
        text += f", {less} on the anchors ({percent(values[0.0])})"
    return Figure(
        name=name,
        title=title,
        sentence=text + ".",
        how=f"Each {words.picture} judged alone, whatever the others of its set do. A valley at 0 means anchors are "
        f"easier than the {words.frames} around them; a flat line that flicker strikes anywhere."
        + (" The broad grey line is the mean of all models." if together and len(series) > 1 else ""),
        drawing=draw(name, paint, wide=(7.4, 3.8), narrow=(3.9, 3.8)),
    )


def smoothing(results: Json) -> Figure:
    """Perturbed accuracy against the delay that smoothing costs."""
    name, title = "smoothing", "Does smoothing over time cure it, and at what delay?"
    panels = []
    for model, data in shown_of(results, most=6).items():
        rows = [r for r in listed(data, "smoothing") if estimate(r, "acc_pmk") and r.get("delay_frames") is not None]
        if rows:
            panels.append((model, rows))
    if not panels:
        return missing(name, title, _why(results, "smoothing", "nothing was smoothed in this score"))

    def paint(figure: Any, is_narrow: bool) -> None:
        columns = 1 if is_narrow else min(len(panels), 3)
        n_rows = -(-len(panels) // columns)
        grid = figure.subplots(n_rows, columns, squeeze=False, sharex=True, sharey=not is_narrow)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for (model, rows), axes in zip(panels, grid.flat, strict=False):
            for method in dict.fromkeys(str(r["method"]) for r in rows if r["method"] != "none"):
                label, place = _METHODS.get(method, (method, 4))
                used = [r for r in rows if r["method"] in (method, "none")]  # every line starts at no smoothing
                line = sorted((float(r["delay_frames"]), r["acc_pmk"]["value"]) for r in used)
                axes.plot(*zip(*line, strict=True), color=colour_of(place), marker=marker_of(place), markersize=4,
                          label=label if axes is grid.flat[0] else None)  # fmt: skip
            bare = next((r for r in rows if r["method"] == "none"), None)
            if bare:
                axes.axhline(bare["acc_pmk"]["value"], color=INK, linewidth=1, linestyle=(0, (2, 2)),
                             label="not smoothed" if axes is grid.flat[0] else None)  # fmt: skip
            axes.set_title(short(printable(model), 26))
        for axes in grid.flat[: len(panels)]:  # once every line is there: the panels share one axis
            shares(axes)
            per_cent(axes)
        for axes in grid[:, 0]:
            axes.set_ylabel("perturbed accuracy")
        for axes in grid[-1, :]:
            axes.set_xlabel("delay, frames")
            whole_numbers(axes)
        legend_below(grid.flat[0], is_narrow=is_narrow)

    rows_wide = -(-len(panels) // min(len(panels), 3))
    return Figure(
        name=name,
        title=title,
        sentence=_smoothing_sentence(*panels[0]),
        how=_smoothing_how([str(row["method"]) for _, rows in panels for row in rows], subject(results)),
        drawing=draw(name, paint, wide=(7.4, 0.9 + 2.7 * rows_wide), narrow=(3.9, 1.2 + 2.3 * len(panels))),
    )


def _smoothing_how(methods: Sequence[str], words: Subject) -> str:
    """What was smoothed: probabilities, or the votes of models that gave labels alone."""
    votes = any("vote" in method for method in methods)
    averages = any("vote" not in method and method != "none" for method in methods)
    what = "Probabilities are averaged" if averages else "Votes are counted"
    text = f"{what} over neighbouring frames"
    if words.reviewed != "none":
        text += ", also over those reviewers rejected"
    if votes and averages:
        text += "; where a model gave labels alone, votes are counted"
    return f"{text}. A window that looks ahead has to wait for the frames it looks at; the others only use the past."


def _smoothing_sentence(model: str, rows: Sequence[Json]) -> str:
    bare = next((r for r in rows if r["method"] == "none" or not r.get("delay_frames")), rows[0])
    start = float(bare["acc_pmk"]["value"])
    best: dict[str, Json] = {}
    for row in rows:
        kind = "ahead" if "centred" in str(row["method"]) else "past"
        if row["method"] != "none" and (kind not in best or row["acc_pmk"]["value"] > best[kind]["acc_pmk"]["value"]):
            best[kind] = row
    text = f"{printable(model)} goes from {percent(start)}"
    if best and all(row["acc_pmk"]["value"] <= start for row in best.values()):
        return f"{printable(model)} gains nothing: no smoothing tried here gets beyond the {percent(start)} without it."
    parts = []
    if "ahead" in best:
        row = best["ahead"]
        parts.append(f"to {percent(row['acc_pmk'])} at best with {_frames(float(row['delay_frames']))} of delay")
    if "past" in best:
        row = best["past"]
        parts.append(f"to {percent(row['acc_pmk'])} when only the past may be used")
    return f"{text} {', and '.join(parts)}." if parts else f"{text}; no smoothing was tried."


def _frames(n: float) -> str:
    return f"{n:g} frame" if n == 1 else f"{n:g} frames"


def comparison(results: Json) -> Figure:
    """Differences between models with their intervals."""
    name, title = "comparison", "Which differences between models are real?"
    rows = [row for row in listed(results, "comparison") if estimate(row, "difference")]
    if not rows:
        few = len(models_of(results)) < 2
        return missing(name, title, "one model alone cannot be compared." if few else "nothing was compared.")
    wanted = [row for row in rows if row.get("metric") == "acc_pmk"] or rows
    # What the sentence below counts is drawn first, however small beside differences that could be chance.
    shown = sorted(wanted, key=lambda row: (not is_sure(row), -abs(row["difference"]["value"])))[:_MOST_PAIRS]
    shown = [_better_first(row) for row in shown]

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        zero_line(axes)
        for y, row in enumerate(shown):
            sure = is_sure(row)
            whisker(axes, y, row["difference"], RIGHT if sure else GREY, marker="o" if sure else "d")
        limit = 15 if is_narrow else 26
        labels = [
            f"{short(printable(row['a']), limit)} − {short(printable(row['b']), limit)}"
            + (f" ({printable(row['metric'])})" if len({r.get("metric") for r in shown}) > 1 else "")
            for row in shown
        ]
        names_on_y(axes, labels, limit=34 if is_narrow else 66)
        metric = printable(shown[0].get("metric"))
        axes.set_xlabel("first − second, points" if is_narrow else f"{metric}: first − second, points")
        in_points(axes)

    real = [row for row in wanted if is_sure(row)]
    text = f"{len(real)} of {len(wanted)} pairs differ beyond chance after Holm's correction (p < 0.05)."
    if real:
        top = max(real, key=lambda row: abs(row["difference"]["value"]))
        text += f" {printable(top['sentence'], limit=400)}" if top.get("sentence") else ""
    if len(shown) < len(wanted):
        text += f" {len(shown)} are drawn, those beyond chance first; all are in tables/."
    height = 1.0 + 0.34 * len(shown)
    return Figure(
        name=name,
        title=title,
        sentence=text,
        how="Right of zero the first model is ahead. Paired: both models answer on the same sets; grey diamonds could "
        "be chance.",
        drawing=draw(name, paint, wide=(7.4, height), narrow=(3.9, height + 0.3)),
    )


def _better_first(row: Json) -> Json:
    """A pair beyond chance turned so that it reads as its sentence does: the model with more first."""
    found = row["difference"]
    if not is_sure(row) or found["value"] >= 0:
        return row
    low, high = (None if found.get(end) is None else -found[end] for end in ("high", "low"))
    turned = {**found, "value": -found["value"], "low": low, "high": high}
    return {**row, "a": row["b"], "b": row["a"], "difference": turned}


def frame_types(results: Json) -> Figure:
    """The drop without frames of each type, beside a control that deletes as many at random."""
    name, title = "frame_types", "Is it the video codec?"
    found = [(model, [r for r in listed(data, "frame_types") if estimate(r, "drop")])
             for model, data in shown_of(results, most=4).items()]  # fmt: skip
    found = [(model, rows) for model, rows in found if rows]
    if not found:
        return missing(name, title, _why(results, "frame_types", "the frame types (I, P, B) are not known"))
    flat = [(model, row) for model, rows in found for row in rows]

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        for y, (_, row) in enumerate(flat):
            control = row.get("control") or {}
            if control.get("drop_low") is not None:
                label = "as many deleted at random" if y == _first_control(flat) else None
                span = [control["drop_low"], control["drop_high"]]
                axes.plot(span, [y + 0.2] * 2, color=GREY, linewidth=3, alpha=0.7, solid_capstyle="butt", label=label)
                # A control without spread (every draw the same) has no length: its mean is marked all the same.
                axes.plot([control["drop_mean"]], [y + 0.2], "|", color=GREY, markersize=7, markeredgewidth=2)
            whisker(axes, y - 0.08, row["drop"], WRONG)
        labels = [
            (f"{short(printable(model), 12 if is_narrow else 24)}: " if len(found) > 1 else "")
            + f"{_without(row).replace('without', 'no') if is_narrow else _without(row)} (n = {row['n_sets']:,})"
            for model, row in flat
        ]
        names_on_y(axes, labels, limit=40 if is_narrow else 56)
        axes.set_xlabel("drop, points")
        in_points(axes)
        if any((row.get("control") or {}).get("drop_low") is not None for _, row in flat):
            figure.legend(loc="outside lower left", borderaxespad=0.2)

    model, rows = found[0]
    least = min(rows, key=lambda row: row["drop"]["value"])
    control = least.get("control") or {}
    text = f"For {printable(model)} the drop is smallest {_without(least)}: {points(least['drop'])}"
    if control.get("drop_mean") is not None:
        inside = control.get("drop_low", 0) <= least["drop"]["value"] <= control.get("drop_high", 1)
        text += f", against {points(control['drop_mean'])} when as many frames are deleted at random"
        text += "; that is no more than smaller sets explain" if inside else "; more than smaller sets explain"
    height = 1.2 + 0.32 * len(flat)
    return Figure(
        name=name,
        title=title,
        sentence=text + ".",
        how="Frames of one type are left out, and sets whose anchor is one; n counts the sets that stay. Smaller sets "
        "alone shrink the drop, hence the grey control.",
        drawing=draw(name, paint, wide=(7.4, height), narrow=(3.9, height)),
    )


def _first_control(flat: Sequence[tuple[str, Json]]) -> int:
    return next(y for y, (_, row) in enumerate(flat) if (row.get("control") or {}).get("drop_low") is not None)


def _without(row: Json) -> str:
    kind = str(row.get("without"))
    return "with all frames" if kind in ("none", "") else f"without {printable(kind)} frames"


def by_fps(results: Json) -> Figure:
    """The drop by frame rate."""
    name, title = "by_fps", "Does the frame rate matter?"
    found = [(model, [r for r in listed(data, "by_fps") if estimate(r, "drop")])
             for model, data in shown_of(results).items()]  # fmt: skip
    found = [(model, rows) for model, rows in found if rows]
    ranges = list(dict.fromkeys(str(row["range"]) for _, rows in found for row in rows))
    if len(ranges) < 2:
        why = "all videos of this data have about the same frame rate"
        return missing(name, title, _why(results, "by_fps", why))

    said = dict(zip(ranges, bin_names(ranges), strict=True))

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        wide = 0.7 / len(found)
        for place, (model, rows) in enumerate(found):
            for row in rows:
                y = ranges.index(str(row["range"])) + (place - (len(found) - 1) / 2) * wide
                whisker(axes, y, row["drop"], colour_of(place), marker=marker_of(place))
            axes.plot([], [], color=colour_of(place), marker=marker_of(place), linestyle="",
                      label=short(printable(model), 34))  # fmt: skip
        names_on_y(axes, [_range_name(found, text, said[text]) for text in ranges])
        axes.set_xlabel("drop, points")
        in_points(axes)
        if len(found) > 1:
            figure.legend(loc="outside lower left", ncols=1 if is_narrow else 3, borderaxespad=0.2)

    model, rows = found[0]
    text = "; ".join(
        f"{points(row['drop'])} at {said[str(row['range'])]} fps (n = {row.get('n_sets')})" for row in rows
    )
    bare = [row for row in rows if row["drop"].get("low") is None]
    whys = dict.fromkeys(printable(row["drop"].get("reason") or "none was asked for") for row in bare)
    if bare:
        where = join([f"{said[str(row['range'])]} fps" for row in bare])
        text += f". No interval at {where}: {join(list(whys))}"
    height = 1.0 + (0.2 + 0.16 * len(found)) * len(ranges) + 0.12 * len(found)
    return Figure(
        name=name, title=title, sentence=f"The drop of {printable(model)}: {text}.",
        how="Low rates leave more time between frames, so the same k reaches further.",
        drawing=draw(name, paint, wide=(7.4, height), narrow=(3.9, height + 0.15 * len(found))),
    )  # fmt: skip


def _range_name(found: Sequence[tuple[str, Sequence[Json]]], key: str, text: str) -> str:
    n = next((row.get("n_sets") for _, rows in found for row in rows if str(row["range"]) == key), None)
    return f"{text} fps (n = {n})" if n is not None else f"{text} fps"


def by_hint(results: Json) -> Figure:
    """Member error by what the pixels suggest."""
    name, title = "by_hint", "Do blur, motion or light explain it?"
    best = next(iter(shown_of(results).items()), None)
    hints = best[1].get("by_hint") if best else None
    panels = [(str(hint), [r for r in listed(hints, hint) if estimate(r, "error")]) for hint in hints or {}]
    panels = [(hint, rows) for hint, rows in panels if rows]
    if not panels or best is None:
        return missing(name, title, _why(results, "by_hint", "this data carries no hints (blur, motion, exposure)"))

    bins = {hint: bin_names([str(row.get("range")) for row in rows], measure_of(hint)) for hint, rows in panels}

    def paint(figure: Any, is_narrow: bool) -> None:
        columns = 1 if is_narrow else min(len(panels), 2)
        grid = figure.subplots(-(-len(panels) // columns), columns, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for (hint, rows), axes in zip(panels, grid.flat, strict=False):
            for y, row in enumerate(rows):
                whisker(axes, y, row["error"], WRONG)
            names_on_y(axes, bins[hint])
            axes.set_title(printable(measure_of(hint).title))
            axes.set_xlim(left=0)
            axes.set_xlabel(f"error of the {subject(results).frames}")
            per_cent(axes, which="x")

    spans = {hint: max(r["error"]["value"] for r in rows) - min(r["error"]["value"] for r in rows)
             for hint, rows in panels}  # fmt: skip
    top = max(spans, key=lambda hint: spans[hint])
    rows = dict(panels)[top]
    low = min(rows, key=lambda row: row["error"]["value"])
    high = max(rows, key=lambda row: row["error"]["value"])
    low_bin, high_bin = (bins[top][rows.index(row)] for row in (low, high))
    tall = max(len(rows) for _, rows in panels)
    # What differs less than its intervals is not said to matter.
    clear = (low["error"].get("high") or 1.0) < (high["error"].get("low") or 0.0)
    said = (
        f"For {printable(best[0])} {printable(top)} matters most:"
        if clear
        else f"Nothing stands out for {printable(best[0])}; by {printable(top)}, with overlapping intervals,"
    )
    noun = measure_of(top).noun
    runs = f"{said} the error runs from {percent(low['error'])} ({noun} {low_bin}) to {percent(high['error'])} "
    return Figure(
        name=name,
        title=title,
        sentence=f"{runs}({noun} {high_bin})."
        if spans[top]
        else f"No: the error of {printable(best[0])} is {percent(low['error'])} in every group.",
        how="Members of all sets in groups of about the same size, by what a measurement of their pixels says "
        "against the anchor's; edges are rounded.",
        drawing=draw(
            name, paint, wide=(7.4, (1.1 + 0.3 * tall) * -(-len(panels) // 2)),
            narrow=(3.9, (1.1 + 0.3 * tall) * len(panels)),
        ),
    )  # fmt: skip
