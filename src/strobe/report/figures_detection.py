"""mAP of detectors on anchors and on worst frames, on the pages of frames and of variants."""

from strobe.analyses.published import detection_rows
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.charts import ChartRow, Scale, dumbbell, dumbbell_keys, row_chart
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.view import View
from strobe.report.wording import is_known, points, short


@question("detection", "How much mAP do detectors lose?")
def overview(view: View) -> Answer:
    """mAP and localization on anchors and worst frames, with the papers' detectors below in grey."""
    models = view.drawn(view.detectors)
    rows = [
        _row(printable(model), what, one.map_orig, one.map_pmk)
        for model, result in models.items()
        for what, one in (("detection", result), ("localization", result.localization))
        if is_known(one.map_orig, one.map_pmk)
    ]
    if not rows:
        return Missing("no detector has an mAP on both anchors and worst frames.")
    n_own = len(rows)
    rows.append(ChartRow(label="published (ImageNet-Vid-Robust, k = 10)", narrow="published (k = 10)"))
    rows += [
        _row(row.model, row.task, row.map_orig / 100, row.map_pm10 / 100, is_own=False) for row in detection_rows()
    ]

    model, one = next(iter(models.items()))
    text = f"{printable(model)} loses {points(one.drop)} of mAP"
    if is_known(one.localization.drop):
        lost = points(one.localization.drop)
        text += f", and {lost} of localization, which ignores the class of a box"
    height = 1.1 + 0.32 * len(rows)
    return FigureContent(
        sentence=text + ".",
        how="The worst frame of a set is the one with the lowest AP. Grey: published detectors on ImageNet-Vid-Robust, "
        "for orientation. They are never pooled with yours.",
        paint=row_chart(
            rows,
            Scale(label="mean average precision", low=-0.02, high=1.02),
            limits=(44, 44),
            keys=dumbbell_keys("map_orig: anchors", f"map_pmk: worst frames (k = {view.results.dataset.k})"),
            rules=(n_own - 0.5,),
        ),
        inches=(height, height),
    )


def _row(model: str, what: str, orig: Estimate | float, worst: Estimate | float, *, is_own: bool = True) -> ChartRow:
    brief = model.replace("Faster R-CNN ResNet-", "FRCNN-").replace("ResNet-", "")
    # A phone is too narrow for the whole name.
    narrow = f"{short(brief, 14)}: {what[:3]}."
    return dumbbell(f"{short(model, 30)}: {what}", orig, worst, is_own=is_own, narrow=narrow)
