"""One backbone as classifier and as detector: does localization help, and how much of it do crops give?"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from strobe.analyses.model_results import ModelResult
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.annexes.backgrounds.backbones.records import Role, SharedBackbone
from strobe.annexes.backgrounds.backbones.score import BackboneAnswers, ImageRows, rows_of, shared_backbones
from strobe.core.answers import Answers, ClassAnswers, State
from strobe.core.codec import decode
from strobe.core.errors import printable
from strobe.report.study import Chapter, PageInput, Study
from strobe.report.tables import as_row
from strobe.report.view import Lines, Table, View
from strobe.report.wording import with_interval

NAME = "backbones"

WORDS: dict[Role, str] = {
    "classifier": "classifier, whole image",
    "detector": "detector as classifier",
    "detected-crop": "classifier, crop to a detected box",
    "oracle-crop": "classifier, crop to the true box",
}
"""The names of the ways in which a backbone answers."""


def found(view: View) -> tuple[SharedBackbone, ...]:
    """Return the records of this study in the results."""
    records = (view.results.studies or {}).get(NAME, ())
    return tuple(decode(SharedBackbone, record, where=f"studies.{NAME}") for record in records)


def backbone_lines(view: View) -> list[Lines]:
    """Return a table for every classifier with a detector of the same backbone."""
    out: list[Lines] = []
    every = found(view)
    for one in every:
        named = any(row.below_people is not None for row in one.rows)
        rows = [
            [
                WORDS[row.role],
                printable(row.model, limit=60),
                with_interval(row.accuracy),
                with_interval(row.over_classifier),
                with_interval(row.below_detector),
                *([with_interval(row.below_people)] if named else []),
            ]
            for row in one.rows
        ]
        columns = ["how it answers", "model", "right", "minus classifier", "detector minus this"]
        notes = [f"% and points [95 % interval], {one.n} images; differences are paired by image and Holm-corrected"]
        if one.people is not None:
            notes.append(f"people are right in {with_interval(one.people)} % of their answers on whole images")
        several = sum(other.backbone == one.backbone for other in every) > 1  # for example one for each seed
        who = f"{one.backbone} ({one.rows[0].model})" if several else one.backbone
        title = f"As classifier and as detector: {printable(who, limit=80)}"
        out.append((title, [*columns, *(["people minus this"] if named else [])], rows, notes))
    return out


def _table(view: View) -> Table:
    return [{"backbone": one.backbone, "n": one.n, **as_row(row)} for one in found(view) for row in one.rows]


TABLES: Mapping[str, Callable[[View], Table]] = {NAME: _table}


def _chapter(page: PageInput) -> Chapter | None:
    """Return the chapter with the same tables."""
    intro = (
        "A detector and a classifier with the same backbone answer on the same images. Crops show how much of the "
        "difference comes from cutting the background away."
    )
    content = {"intro": intro, "tables": backbone_lines(page.view)}
    return Chapter(name=NAME, title="Does a detector do better?", nav="Backbones", content=content)


class BackboneScores(Collector):
    """Collects whether each model is right on each image, and compares models with the same backbone."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(scoring)
        self._images = ImageRows(scoring.dataset.labelled_sets())
        self._interval = scoring.options.interval
        self._rows: list[BackboneAnswers] = []

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Add the answers of a model, unless some were skipped. Boxes count through their own `boxes:` model."""
        if isinstance(answers, ClassAnswers) and not (answers.state == State.SKIPPED).any():
            self._rows += rows_of(model.name, model.facts, answers, self._images)
        return result

    def into(self, results: Results) -> Results:
        """Return the results with the backbones that a classifier and a detector share."""
        shared = shared_backbones(self._rows, self._images, results.people, interval=self._interval)
        return replace(results, studies={**(results.studies or {}), NAME: shared}) if shared else results


BACKBONES = Study(
    name=NAME,
    tables=TABLES,
    needs_to_score=("has_several_models",),
    needs_to_show=("results.studies",),
    applies=lambda view: bool((view.results.studies or {}).get(NAME)),
    collector=lambda scoring: BackboneScores(scoring) if scoring.dataset.labelled.any() else None,
    lines=backbone_lines,
    chapter=_chapter,
)
"""A classifier on whole images and on crops, and the detectors with the same backbone, on the same images."""
