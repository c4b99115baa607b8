"""Figures of the boxes that people drew: their overlap, and the kept images."""

from strobe.core.estimate import Missing
from strobe.report.charts import ChartRow, Mark, Scale, row_chart
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.style import INK, MUTED, RIGHT
from strobe.report.view import View
from strobe.report.wording import is_known, percent
from strobe.studies.people.words import kappa

MOST_PAIRS = 20
"""The largest number of pairs of people in the figure. tables/people_box_pairs.csv has all pairs."""


@question("people_boxes", "Do people draw the same box?")
def people_boxes(view: View) -> Answer:
    """The median overlap of two people's boxes on an image: for all boxes, for all boxes except a detector's, and for
    each pair of people.
    """
    boxes = view.results.drawn
    if boxes is None or not is_known(boxes.overlap):
        return Missing("no image has the boxes of two people.")
    found = [("all pairs of boxes", boxes.overlap, INK)]
    if boxes.suggested.count:
        found.append(("without detector boxes", boxes.overlap_own, MUTED))
    pairs = boxes.pairs[:MOST_PAIRS] if boxes.n_people > 2 else ()
    found += [(f"{pair.person} and {pair.other}", pair.overlap, RIGHT) for pair in pairs]
    rows = [
        ChartRow(label=name, marks=(Mark(value=overlap, colour=colour),))
        for name, overlap, colour in found
        if is_known(overlap)
    ]
    scale = Scale(label="overlap (IoU)", unit="", low=0, high=1.02, guides=((boxes.agree, MUTED),))
    text = f"The median overlap (IoU) of two people’s boxes on an image is {kappa(boxes.overlap)}"
    if boxes.suggested.count:
        text += f"; {percent(boxes.suggested)} of the boxes are unchanged suggestions of a detector"
    if is_known(boxes.disagreed):
        text += f". In the first round, people disagree on {percent(boxes.disagreed)} of the images"
    return FigureContent(
        sentence=f"{text}.",
        how="The figure uses boxes of the first round, which people draw without seeing the boxes of others. Lines "
        "are 95 % intervals over "
        f"images. Boxes that overlap by less than {boxes.agree:g} (dotted) count as different and get a second round.",
        paint=row_chart(rows, scale, limits=(34, 18)),
        inches=(1.0 + 0.34 * len(rows), 1.1 + 0.34 * len(rows)),
    )
