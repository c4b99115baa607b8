"""What a study declares that it needs: the frame asks it only if one of these attributes is not empty."""

from dataclasses import replace
from pathlib import Path

import pytest

import strobe
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Results
from strobe.analyses.scoring import Scoring
from strobe.core.codec import decode
from strobe.core.errors import StrobeError
from strobe.core.tasks import Task
from strobe.report import study as frame
from strobe.report.study import Study, applying, scoring_studies, studies
from strobe.report.view import View
from strobe.studies.detection.records import DetectionOptions


@pytest.fixture
def scoring() -> Scoring:
    dataset = strobe.example_dataset()
    return Scoring(
        path=Path(),
        candidates=dataset,
        dataset=dataset,
        videos=None,
        tasks=[Task.CLASSIFICATION],
        options=ScoreOptions(replicates=50),
        detection=DetectionOptions(),
    )


@pytest.fixture
def view(scoring: Scoring) -> View:
    answers = strobe.ClassAnswers.from_labels("always cat", [0] * len(scoring.dataset.frames))
    return View(results=decode(Results, strobe.results(scoring.dataset, [answers])))


def test_plain_labelled_data_asks_only_the_studies_that_can_apply(scoring: Scoring, view: View) -> None:
    assert [study.name for study, _ in scoring_studies(scoring)] == ["temporal"]
    assert [study.name for study in applying(view)] == ["temporal", "review"]


def test_a_task_without_models_is_not_scored(scoring: Scoring) -> None:
    boxes = replace(scoring, tasks=[Task.DETECTION])
    assert [study.name for study, _ in scoring_studies(boxes)] == ["detection"]
    both = replace(scoring, tasks=[Task.CLASSIFICATION, Task.DETECTION])
    assert [study.name for study, _ in scoring_studies(both)][:2] == ["temporal", "detection"]


@pytest.mark.parametrize("one", studies(), ids=lambda one: one.name)
def test_every_needed_attribute_exists(one: Study, scoring: Scoring, view: View) -> None:
    frame._has(one, scoring, (*one.needs_to_score, "path"))
    frame._has(one, view, (*one.needs_to_show, "results"))


def refuse(given: object) -> None:
    """Fail: a study is asked although what it needs is empty."""
    raise AssertionError(given)


ASKED = Study(
    name="asked",
    needs_to_score=("dataset.variants",),
    needs_to_show=("results.people",),
    applies=refuse,  # type: ignore[arg-type]
    collector=refuse,  # type: ignore[arg-type]
)
MISSPELLED = Study(name="misspelled", needs_to_show=("results.peple",))


def test_a_study_is_not_asked_without_its_needs(scoring: Scoring, view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "studies", lambda: (ASKED,))
    assert scoring_studies(scoring) == []
    assert applying(view) == []


def test_a_misspelled_need_is_one_line(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "studies", lambda: (MISSPELLED,))
    with pytest.raises(StrobeError, match=r"^study misspelled: it needs an attribute that does not exist; .*peple.*$"):
        applying(view)
