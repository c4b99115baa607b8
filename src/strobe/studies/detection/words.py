"""The sentences and terms of the study of detectors."""

from collections.abc import Mapping

from strobe.analyses.model_results import DetectionResult
from strobe.core.errors import printable
from strobe.report.view import View
from strobe.report.wording import measured


def detection_lead(view: View, scored: Mapping[str, DetectionResult]) -> tuple[str, str]:
    """Return mAP of the most robust detector on anchors and on the worst frames."""
    words, (name, one) = view.words, next(iter(scored.items()))
    if words.is_still:
        return (
            f"{printable(name)} reaches {measured(one.map_orig)} mAP on {view.sources}.",
            f"mAP uses {_overlap(one)}.",
        )
    head = (
        f"{printable(name)} reaches {measured(one.map_orig)} mAP on the anchors of {view.sources}. On the worst of "
        f"the {words.around}, it reaches {measured(one.map_pmk)}."
    )
    return head, f"mAP uses {_overlap(one)}. The worst {words.frames} are chosen {words.within}."


def _overlap(model: DetectionResult) -> str:
    """Return in words the overlap that a box needs to count."""
    iou = model.settings.iou
    if isinstance(iou, str):
        return "the ILSVRC-VID overlap"
    ends = f"{min(iou):g} to {max(iou):g}" if len(iou) > 1 else f"{iou[0]:g}"
    return f"an overlap (IoU) of {ends}"
