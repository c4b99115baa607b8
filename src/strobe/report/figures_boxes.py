"""Figures of people's boxes: their overlap, and the images they keep."""

from typing import Any

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.drawing import Answer, FigureContent, names_on_y, question, whisker
from strobe.report.story_people import kappa, people_text
from strobe.report.style import INK, MUTED, RIGHT
from strobe.report.view import View
from strobe.report.wording import counted, is_known, percent

__all__ = ["boxes_quality", "people_boxes"]

MOST_PAIRS = 20
"""The most pairs of people drawn; all are in tables/people_box_pairs.csv."""


def boxes_quality(view: View) -> str | None:
    """Return how many people drew how many boxes, what is kept and why the rest is not; None if nobody drew a box."""
    found = view.results.drawn
    if found is None or not found.n_pictures:
        return None
    text = f"{people_text(found.n_people)} said where the object is in {counted(found.n_pictures, 'image')}: "
    text += f"{found.kept.count} are kept ({percent(found.kept)})"
    if found.reasons:
        said = ", ".join(f"{printable(name)} {count}" for name, count in found.reasons.items())
        text += f"; words that discard one: {said}"
    if found.unsettled:
        text += f"; {found.unsettled} are kept though two boxes overlap by less than {found.agree:g}"
    return f"{text}."


@question("people_boxes", "Do people see it in the same place?")
def people_boxes(view: View) -> Answer:
    """The median overlap of two people's boxes on an image: all, without a detector's own boxes, and pair by pair."""
    found = view.results.drawn
    if found is None or not is_known(found.overlap):
        return Missing("no image has the boxes of two people.")
    rows: list[tuple[str, Estimate, str]] = [("every two boxes", found.overlap, INK)]
    if found.suggested.count and is_known(found.overlap_own):
        rows.append(("a detector’s own aside", found.overlap_own, MUTED))
    rows += [
        (f"{one.person} and {one.other}", one.overlap, RIGHT)
        for one in (found.pairs[:MOST_PAIRS] if found.n_people > 2 else ())
        if is_known(one.overlap)
    ]

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        axes.axvline(found.agree, color=MUTED, linewidth=1.0, linestyle=":")
        for y, (_, overlap, colour) in enumerate(rows):
            whisker(axes, y, overlap, colour)
        names_on_y(axes, [row[0] for row in rows], limit=18 if is_narrow else 34)
        axes.set_xlim(0, 1.02)
        axes.set_xlabel("overlap (IoU)")

    text = f"Two people’s boxes on an image overlap by {kappa(found.overlap)} (IoU) at the median"
    if found.suggested.count:
        text += f"; {percent(found.suggested)} of the boxes are a detector’s, taken as they were"
    if is_known(found.disagreed):
        text += f". They see {percent(found.disagreed)} of the images differently at first"
    return FigureContent(
        sentence=f"{text}.",
        how="Boxes of round one, before anybody saw others’. The line is the 95 % interval over images. Two boxes "
        f"that overlap by less than the dotted {found.agree:g} count as different and call for a second look.",
        paint=paint,
        inches=(1.0 + 0.34 * len(rows), 1.1 + 0.34 * len(rows)),
    )
