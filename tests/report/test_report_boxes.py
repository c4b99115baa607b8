"""Where people saw the objects, on the page, in the tables and on a terminal; also where nobody named anything."""

import csv
from dataclasses import replace

import made_studies as made
import numpy as np
import pytest

from strobe.core.estimate import Missing
from strobe.core.people import BoxAnswer
from strobe.report.headline import headline_lines
from strobe.report.page import PageOptions, write_report
from strobe.report.tables import write_tables
from strobe.report.view import View
from strobe.studies.people.figures import people_boxes
from strobe.studies.people.score_boxes import drawn_results
from strobe.studies.people.words import boxes_quality

PEOPLE = ("Ann", "Bo", "Cy")


def boxed(dataset, *, people=PEOPLE, seed=3):
    """The photos with boxes: everyone near the same place, Cy less so, every fifth image discarded by Bo."""
    rng, ids, space = np.random.default_rng(seed), dataset.frame_ids(), dataset.info.label_space
    words = []
    for row in dataset.sets.anchor_frame.tolist():
        corner = rng.integers(0, 20, 2)
        for place, person in enumerate(people):
            x0, y0 = (corner + rng.integers(0, 2 + 3 * place, 2)).tolist()
            discards = person == "Bo" and row % 5 == 0
            words.append(
                BoxAnswer(
                    answer_id=f"{person}-{row}", annotator=person, at="2026-01-01", stage="draw", frame_id=ids[row],
                    label=space.ids[dataset.labels_of(row)[0]], decision="discard" if discards else "keep",
                    xyxy=None if discards else (x0, y0, x0 + 30, y0 + 24), reason="unclear" if discards else "",
                    seconds=2.0 + place,
                )
            )  # fmt: skip
    whole = replace(dataset.frames, width=dataset.frames.width * 0 + 96, height=dataset.frames.height * 0 + 96)
    return replace(dataset, frames=whole, drawn=tuple(words))


@pytest.fixture(scope="module")
def study():
    dataset = boxed(made.photos(20))
    return dataset, replace(made.results(dataset, made.answers(dataset)), drawn=drawn_results(dataset))


def test_sentences_follow_from_the_figures(study):
    _, results = study
    found, view = results.drawn, View(results=results)
    text = boxes_quality(view)
    assert text.startswith(f"3 people marked the object in 20 images; {found.kept.count} images are kept")
    assert "Reasons for discarding images: unclear 4" in text
    finding = people_boxes.answer(view)
    assert f"two people’s boxes on an image is {found.overlap.value:.2f}" in finding.sentence
    assert "detector" not in finding.sentence, "nothing was suggested"


def test_the_page_tables_and_terminal_know_boxes_where_nobody_named_anything(study, tmp_path):
    dataset, results = study
    assert results.people is None
    page = write_report(tmp_path, results, dataset, {}, None, PageOptions(gallery_sets=0)).read_text()
    assert '<section id="people"' in page
    assert '<a href="#people">' in page
    assert "Do people draw the same box?" in page
    assert "marked the object in 20 images" in page
    write_tables(tmp_path, results)
    with (tmp_path / "tables/people_boxes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["person"] for row in rows] == list(PEOPLE)
    assert [row["discarded"] for row in rows] == ["0", "4", "0"]
    with (tmp_path / "tables/people_box_pairs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3
    lines = [line for line in headline_lines(results) if "boxes drawn by people" in line[0]]
    assert [row[0] for row in lines[0][2]] == list(PEOPLE)


def test_one_person_alone_has_no_figure_and_nobody_has_no_chapter(study):
    dataset, results = study
    alone = drawn_results(boxed(dataset, people=("Ann",)))
    assert isinstance(people_boxes.answer(View(results=replace(results, drawn=alone))), Missing)
    nothing = View(results=replace(results, drawn=None))
    assert boxes_quality(nothing) is None
    assert isinstance(people_boxes.answer(nothing), Missing)
