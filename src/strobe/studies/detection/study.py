"""Detectors on sets of frames: mAP on anchors and on the worst frames, and why mAP falls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from strobe.analyses.answer_patterns import with_twins
from strobe.analyses.ceilings import Ceilings
from strobe.analyses.comparison import compare
from strobe.analyses.detection import has_boxes, score
from strobe.analyses.model_results import DetectionResult, DetectionScore, ModelResult, figures_of
from strobe.analyses.published import detection_rows
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring, SetFacts, box_sets, set_facts
from strobe.core.answers import Answers, BoxAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.core.tasks import Task
from strobe.report.figures_classes import detection_class
from strobe.report.figures_detection import overview
from strobe.report.study import SectionFigures, Study
from strobe.report.tables import as_row, each, spread
from strobe.report.view import Lines, Row, Table, View
from strobe.report.wording import measured
from strobe.studies.detection.figures import curve, errors, temporal


def _detection(model: DetectionResult) -> Row:
    out: Row = {}
    for name, figure in figures_of(model).items():
        out |= spread(name, figure)
    return out


TABLES: Mapping[str, Callable[[View], Table]] = {
    "detection": lambda view: each(view.detectors, lambda model: [_detection(model)]),
    "detection_curve": lambda view: each(view.detectors, lambda model: map(as_row, model.curve)),
    "detection_per_class": lambda view: each(
        view.detectors, lambda model: (as_row(one, "label", "name", "small") for one in model.per_class)
    ),
    "detection_errors": lambda view: each(view.detectors, lambda model: [as_row(model.errors)]),
}


MAIN = (
    overview,
    curve,
    detection_class,
    errors,
    temporal,
)


def _collector(scoring: Scoring) -> Collector | None:
    """Return the scores of detectors."""
    dataset = scoring.merged
    return DetectorScores(scoring) if dataset.labelled.any() or has_boxes(dataset) else None


def _lead(view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
    """Return mAP of the most robust detector on anchors and on the worst frames."""
    scored = ((name, model) for name, model in models.items() if isinstance(model, DetectionResult))
    name, one = next(scored, ("", None))
    if one is None:
        return None
    words = view.words
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


def _figures(view: View) -> Sequence[SectionFigures]:
    """Return the figures of detectors on sets of frames."""
    if not view.is_temporal or not view.detectors:
        return ()
    return [SectionFigures(section="main", figures=MAIN, lists_missing=True)]


def _published() -> Lines:
    rows = [
        [row.task, f"{row.model} ({row.note})" if row.note else row.model]
        + [str(number) for number in (row.map_orig, row.map_pm10, row.drop)]
        for row in detection_rows()
    ]
    note = (
        "These results were published in 2021 for ImageNet-Vid-Robust with k = 10. They are directly comparable only "
        "if your data is that dataset."
    )
    return "Published detection figures", ["Task", "Model", "map_orig", "map_pmk", "drop"], rows, [note]


class DetectorScores(Collector):
    """Scores detectors one at a time."""

    doing = "scoring detectors"

    @cached_property
    def _dataset(self) -> Dataset:
        return self.scoring.merged

    @cached_property
    def _facts(self) -> SetFacts:
        return set_facts(self._dataset)

    @cached_property
    def _ceilings(self) -> Ceilings:
        return Ceilings(self._dataset)

    def excludes(self, model: ScorableModel) -> str | None:
        """Return why detection cannot be scored; a run may have boxes only because of boxes: or crop: models."""
        if has_boxes(self._dataset):
            return None
        name = printable(self._dataset.name)
        why = f"detection cannot be scored: {name} has no boxes; boxes:NAME scores it by its classes"
        return f"{printable(model.name)}: {why}"

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Score one detector."""
        if not isinstance(answers, BoxAnswers) or result is not None:
            return result
        one = score(self._dataset, answers, model=model.name, options=self.scoring.detection, how=self.scoring.options)
        one = replace(one, ceiling=self._ceilings.of_detector(model.facts))
        self.sets.append(box_sets(self._dataset, self._facts, answers, one))
        return one

    def into(self, results: Results) -> Results:
        """Return the results with agreement and comparison of the detectors."""
        scores = [model for model in results.models.values() if isinstance(model, DetectionScore)]
        if not scores:
            return results
        models = {**results.models, **{score.model: score for score in with_twins(scores)}}
        comparison = (*results.comparison, *compare(self._dataset, scores))
        return replace(results, models=models, comparison=comparison)


DETECTION = Study(
    name="detection",
    task=Task.DETECTION,
    decides=-1,
    tables=TABLES,
    drawings=MAIN,
    needs_to_show=("detectors",),
    collector=_collector,
    lead=_lead,
    figures=_figures,
    content=lambda view: {"published": _published() if view.detectors else None},
)
"""Detection and localization pm-k mAP, causes of errors, and tracks."""
