"""What review changed, drawn."""

from collections.abc import Mapping
from typing import Any

from strobe.core.errors import printable
from strobe.report.drawing import Figure, Series, missing, names_on_y, per_cent, series_lines, whole_numbers
from strobe.report.style import GREY, RIGHT, WRONG, draw
from strobe.report.subject import subject
from strobe.report.wording import estimate, listed, percent, points, short, shown_of, value_of

__all__ = ["review_impact", "review_offsets"]

Json = Mapping[str, Any]


def review_impact(results: Json) -> Figure:
    """What review changed: all candidates, kept anchors, kept anchors and members."""
    name, title = "review_impact", "What did review change?"
    found = []
    for model, data in shown_of(results).items():
        impact = data.get("review_impact") or {}
        rows = [(stage, impact[stage]) for stage in ("A", "B", "C") if estimate(impact, stage, "drop")]
        if rows:
            found.append((model, rows, impact))
    if not found:
        return missing(name, title, "score with --compare-review on a dataset with votes to see this.")
    meaning = {"A": "before review", "B": "kept anchors, all frames", "C": "after review"}
    flat = [(model, stage, row) for model, rows, _ in found[:4] for stage, row in rows]

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        for y, (_, _, row) in enumerate(flat):
            orig, worst = value_of(row, "acc_orig"), value_of(row, "acc_pmk")
            axes.plot([worst, orig], [y, y], color=GREY, linewidth=2.6, alpha=0.6, zorder=1)
            axes.plot([orig], [y], marker="o", color=RIGHT, markersize=6.5, linestyle="",
                      label="anchor" if y == 0 else None)  # fmt: skip
            axes.plot([worst], [y], marker="D", color=WRONG, markersize=5.5, linestyle="",
                      label="whole set" if y == 0 else None)  # fmt: skip
        cut = 12 if is_narrow else 20
        names = [(f"{short(printable(m), cut)}: " if len(found) > 1 else "") + meaning[s] for m, s, _ in flat]
        names_on_y(axes, names, limit=46)
        axes.set_xlabel("accuracy")
        per_cent(axes, which="x")
        figure.legend(loc="outside upper left", ncols=2, borderaxespad=0.2)

    model, rows, impact = found[0]
    stages = dict(rows)
    said = {**meaning, "B": "with the kept anchors and all their frames"}
    text = f"The drop of {printable(model)} is " + ", ".join(
        f"{points(estimate(stages[stage], 'drop'))} {said[stage]}" for stage in stages
    )
    gap = estimate(impact, "drop_difference")
    text += f"; review accounts for {points(gap)}" if gap else ""
    height = 1.0 + 0.34 * len(flat)
    return Figure(
        name=name, title=title, sentence=text + ".",
        how="People removed pairs that do not look the same and wrong labels; without that, some “errors” are not.",
        drawing=draw(name, paint, wide=(7.4, height), narrow=(3.9, height)),
    )  # fmt: skip


def review_offsets(results: Json) -> Figure:
    """Error by offset before and after review."""
    name, title = "review_offsets", "Where did review change the error?"
    model, impact = next(
        ((m, d["review_impact"]) for m, d in shown_of(results).items() if d.get("review_impact")), ("", {})
    )
    series = []
    for place, (stage, words) in enumerate((("A", "before review"), ("C", "after review"))):
        rows = [row for row in listed(impact, stage, "per_offset") if estimate(row, "error")]
        rows.sort(key=lambda row: float(row["offset"]))
        if rows:
            x = [float(row["offset"]) for row in rows]
            series.append(Series(name=words, place=1 - place, x=x, y=[row["error"] for row in rows]))
    if len(series) < 2:
        return missing(name, title, "score with --compare-review on a dataset with votes to see this")

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        axes.axvline(0, color=GREY, linewidth=1)
        series_lines(axes, series, is_narrow=is_narrow)
        axes.set_ylim(bottom=0)
        axes.set(xlabel=subject(results).offset_label, ylabel="error")
        if subject(results).is_video:
            whole_numbers(axes)
        per_cent(axes)

    before, after = ([float(e["value"]) for e in one.y] for one in series)
    mean = [sum(values) / len(values) for values in (before, after)]
    return Figure(
        name=name,
        title=title,
        sentence=f"Over all offsets the error of {printable(model)} is {percent(mean[0])} before review and "
        f"{percent(mean[1])} after it.",
        how="Unweighted mean over offsets. Review takes away frames that do not look the same and wrong labels.",
        drawing=draw(name, paint, wide=(7.4, 3.6), narrow=(3.9, 3.8)),
    )
