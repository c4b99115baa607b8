"""The chapter on people: its sentences, tables and lines on a terminal, beside models and without any."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import made_people as people
import made_studies as made
import pytest

from strobe.analyses.naming import NamingTable
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Results, dataset_facts
from strobe.core.dataset import Dataset
from strobe.core.estimate import Estimate, Missing
from strobe.core.ports import Silent
from strobe.report.drawing import FigureContent, FigureSpec
from strobe.report.headline import headline_lines
from strobe.report.page import PageOptions, write_report
from strobe.report.story import explained, glossary, lead
from strobe.report.tables import write_tables
from strobe.report.view import View
from strobe.report.wording import measured
from strobe.store import dataset_folder as folder
from strobe.studies.people import figures as figures_people
from strobe.studies.people import words as story_people
from strobe.studies.people.records import PeopleResults
from strobe.studies.people.score import people_results
from strobe.workflows.report import report_run
from strobe.workflows.score import ScoreRunOptions, score_dataset, score_run


@pytest.fixture(scope="module")
def study() -> tuple[Dataset, Results]:
    """What a generator's searches found, named by four people, with three models."""
    dataset = people.named(made.study("generator", n=24, variants=made.generator()[0][1:4]))
    return dataset, made.results(dataset, made.answers(dataset))


@pytest.fixture(scope="module")
def alone() -> tuple[Dataset, Results]:
    """Photos that people named, and no model."""
    dataset = people.named(made.photos(30))
    bare = Results(dataset=dataset_facts(dataset), models={})
    people_alone = people_results(NamingTable.of(dataset), {}, ScoreOptions(replicates=200))
    return dataset, replace(bare, people=people_alone)


def said(found: Results) -> PeopleResults:
    assert found.people is not None
    return found.people


def first(question: FigureSpec, view: View) -> FigureContent:
    """The first answer, not drawn."""
    found = question.answer(view)
    assert not isinstance(found, Missing)
    return found[0] if isinstance(found, list) else found


def only(question: FigureSpec, results: Results) -> str:
    return first(question, View(results=results)).sentence


def test_the_first_sentence_is_of_people_where_there_is_no_model(alone):
    _, results = alone
    score = said(results).scores[0]
    head, below = lead(View(results=results))
    assert head == f"People get {measured(score.accuracy)} of 27 images right."
    assert re.search(r"% \[[\d.]+,\xa0[\d.]+\] of", head)
    assert f"Their majority is right on {100 * score.majority.value:.1f}" in below
    title, (text,) = explained(View(results=results))
    assert (title, "mAP" in text, "the share of images that people get right" in text) == (
        "What is measured",
        False,
        True,
    )
    assert glossary(View(results=results))[0][0] == "accuracy"


def test_a_page_of_people_alone_asks_nothing_of_models(alone, tmp_path: Path):
    dataset, results = alone
    write_tables(tmp_path, results)
    page = write_report(tmp_path, results, dataset, {}, None, PageOptions(gallery_sets=4)).read_text()
    assert 'id="people"' in page
    assert 'href="#people">People</a>' in page
    for absent in ('id="headline"', 'id="flickers"', 'id="compare"', "Not shown, because the data", "0 models"):
        assert absent not in page
    assert "· 4 people</p>" in page
    drawn = {path.stem for path in (tmp_path / "figures").glob("*.svg")}
    assert drawn == {"people_accuracy", "people_consistency_1", "people_confusion_1", "people_times"}
    tables = {path.stem for path in (tmp_path / "tables").glob("*.csv")}
    assert tables == {"people", "people_each", "people_consistency", "people_confusion"}


def test_the_page_of_a_study_has_people_beside_models_and_still_what_it_was(study, tmp_path: Path):
    dataset, results = study
    write_tables(tmp_path, results)
    options = PageOptions(gallery_sets=2, picture_px=64)
    page = write_report(
        tmp_path, results, dataset, made.answers(dataset), made.StudySource(dataset), options
    ).read_text()
    for part in (
        "How people answered",
        "Do people still see the original class?",
        "people ahead",
        "3 models · 4 people",
    ):
        assert part in page
    assert page.count('data-picks="people_confusion"') == 1
    assert "controls right" in page
    with (tmp_path / "tables/label_preservation.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["variant"] for row in rows] == [one.variant for one in said(results).preservation]
    assert rows[0]["variant"] == "anchor"
    assert all(float(row["named_low"]) <= float(row["named"]) <= float(row["named_high"]) for row in rows)
    with (tmp_path / "tables/people_models.csv").open() as file:
        assert {row["model"] for row in csv.DictReader(file)} == set(made.MODELS)


def test_what_was_done_to_pictures_is_said_without_a_model_too(tmp_path: Path):
    variants = made.generator()[0][1:3]
    folder.write(people.named(made.study("generator", n=12, variants=variants)), tmp_path / "set")
    request = ScoreRunOptions(options=ScoreOptions(replicates=100))
    results = score_dataset(tmp_path / "set", [], tmp_path / "run", request, Silent())
    assert [one.variant for one in results.variants or ()] == [one.variant for one in variants]
    assert (results.models, results.dataset.k) == ({}, 0)
    page = report_run(tmp_path / "run").read_text()
    for part in ("Variants and their effect", "From coarse to fine", "How people answered",
                 "Do people still see the original class?"):  # fmt: skip
        assert part in page
    assert "Which models do the findings fool?" not in page
    again = score_run(tmp_path / "run", request, Silent()).results
    assert again.people == results.people


def test_sentences_say_what_the_figures_hold(study):
    _, results = study
    found = said(results)
    score = found.scores[0]
    text = only(figures_people.people_accuracy, results)
    assert text.startswith(f"People get {100 * score.accuracy.value:.1f}\N{NO-BREAK SPACE}% of the original images")
    least = min(score.models, key=lambda one: one.difference.value)
    assert f"{abs(100 * least.difference.value):.1f}\N{NO-BREAK SPACE}points" in text
    assert f"{least.model}, the best model" in text
    lowest = min((one for one in found.preservation if one.role == "same"), key=lambda one: one.named.value)
    text = only(figures_people.people_preservation, results)
    assert f"Under {lowest.variant}, {100 * lowest.named.value:.1f}\N{NO-BREAK SPACE}%" in text
    assert f"{abs(100 * lowest.lost.value):.1f}\N{NO-BREAK SPACE}points" in text
    median = score.seconds.median.value
    assert only(figures_people.people_times, results).startswith(f"The median time is {median:.2f} s on")
    wrong = score.n_answers - score.accuracy.count
    assert only(figures_people.people_confusion, results).startswith(f"Of {score.n_answers} answers, {wrong} are wrong")
    text = only(figures_people.people_consistency, results)
    assert text.startswith(f"The mean κ of two people is {story_people.kappa(score.consistency)}")


def test_ahead_is_only_sure_where_the_interval_is():
    def gap(low: float, high: float) -> str:
        return story_people.ahead(Estimate(value=(low + high) / 2, low=low, high=high, n=9))

    assert gap(0.1, 0.3) == "20.0\N{NO-BREAK SPACE}points ahead of"
    assert gap(-0.3, -0.1) == "20.0\N{NO-BREAK SPACE}points behind"
    assert gap(-0.1, 0.3).endswith("ahead of (not significant)")


def test_quality_says_people_answers_agreement_and_controls(alone):
    _, results = alone
    found = said(results)
    text = story_people.quality(found)
    assert text.startswith("4 people, 108 answers to 27 images; agreement (Fleiss’ κ) ")
    assert text.endswith(f"{found.controls.count} of 12 controls right")
    bare = replace(found, controls=Estimate(value=None, low=None, high=None, n=0, reason="none"))
    assert story_people.quality(bare).endswith("no controls")


def test_the_terminal_has_people_models_and_what_is_preserved(study, alone):
    _, results = study
    titles = {title: (columns, rows, notes) for title, columns, rows, notes in headline_lines(results)}
    columns, rows, notes = titles["generator-study: people"]
    assert [row[0] for row in rows[:4]] == [
        "original images: 4 people", *(f"original images: {name}" for name in results.models)
    ]  # fmt: skip
    assert notes[0] == story_people.quality(said(results))
    kept = titles["generator-study: do people still see the original class?"][1]
    assert [row[0] for row in kept] == [one.variant for one in said(results).preservation]
    _, results = alone
    ((title, columns, rows, _),) = headline_lines(results)
    assert (title, len(rows), rows[0][0]) == ("my-photos: people", 1, "4 people")
    assert columns[1:3] == ["accuracy", "majority"]


def test_nothing_is_said_of_people_where_nobody_was_asked():
    dataset = made.photos(12)
    results = made.results(dataset, made.answers(dataset))
    assert results.people is None
    for question in (figures_people.people_accuracy, figures_people.people_preservation, figures_people.people_times):
        assert question.figures(View(results=results))[0].drawing is None
    assert not any("people" in title for title, *_ in headline_lines(results))


def test_many_people_and_classes_are_still_drawn(alone):
    _, results = alone
    found = said(results)
    score = found.scores[0]
    many = [
        replace(one, name=f"class {place}", label=f"c{place}") for place in range(40) for one in score.confusion[:1]
    ]
    crowd = tuple(replace(score.people[0], person=f"person {place:02d}") for place in range(40))
    pairs = tuple(
        replace(score.pairs[0], person=one.person, other=two.person)
        for place, one in enumerate(crowd) for two in crowd[place + 1 :]
    )  # fmt: skip
    wide = replace(score, confusion=tuple(many), people=crowd, pairs=pairs, n_people=40)
    view = View(results=replace(results, people=replace(found, scores=(wide,))))
    assert "The figure shows 24 of 40 people" in first(figures_people.people_consistency, view).sentence
    assert figures_people.people_consistency.figures(view)[0].drawing is not None
    assert "tables/people_confusion.csv" in first(figures_people.people_confusion, view).how
    assert figures_people.people_confusion.figures(view)[0].drawing is not None
