"""What people's boxes say of the people: figures against counts made by hand."""

from dataclasses import replace

import pytest

from strobe.core.codec import decode, encode
from strobe.core.people import BoxAnswer
from strobe.studies.people.records import DrawnResults
from strobe.studies.people.score_boxes import drawn_results


def word(
    annotator, frame, box=None, *, label="fox", stage="draw", at=0, reason="absent", suggested=False, seconds=None
):
    return BoxAnswer(
        answer_id=f"{annotator}-{frame}-{stage}-{at}", annotator=annotator, at=f"2026-01-01T00:{at:02}", stage=stage,
        frame_id=frame, label=label, decision="keep" if box else "discard", xyxy=box, reason="" if box else reason,
        suggested=suggested, seconds=seconds,
    )  # fmt: skip


BOX = (0, 0, 40, 50)
HALF = (0, 0, 40, 25)


@pytest.fixture
def said(zoo):
    """Four images: one boxed alike by a detector's grace, one apart, one split, one discarded by both."""
    return replace(
        zoo.dataset(),
        drawn=(
            word("ann", "v0:2", BOX, suggested=True, seconds=2.0),
            word("bo", "v0:2", BOX, suggested=True),
            word("ann", "v1:2", BOX, seconds=4.0),
            word("bo", "v1:2", HALF),
            word("bo", "v1:2", BOX, stage="verify", at=1),
            word("ann", "v2:2", BOX),
            word("bo", "v2:2", reason="several"),
            word("ann", "v3:2"),
            word("bo", "v3:2"),
            word("ann", "elsewhere:9", BOX),
        ),
    )


def test_figures(said):
    found = drawn_results(said)
    assert (found.n_people, found.n_pictures, found.n_answers) == (2, 4, 9)
    assert (found.kept.count, found.kept.n) == (2, 4)
    assert found.reasons == {"absent": 2, "several": 1}
    assert (found.overlap.value, found.overlap.n) == (0.75, 2), "round one: one pair alike, one of half the height"
    assert (found.overlap_own.value, found.overlap_own.n) == (0.5, 1)
    assert (found.disagreed.count, found.disagreed.n) == (2, 4)
    assert found.unsettled == 0, "round two brought them together"
    assert (found.suggested.count, found.suggested.n) == (2, 5)
    assert found.area == 2000 / (200 * 100)
    ann, bo = found.people
    assert (ann.person, ann.n_pictures, ann.kept, ann.discarded, ann.suggested, ann.seconds) == ("ann", 4, 3, 1, 1, 3.0)
    assert (bo.kept, bo.discarded, bo.seconds) == (2, 2, None)
    (pair,) = found.pairs
    assert (pair.person, pair.other, pair.overlap.value) == ("ann", "bo", 0.75)


def test_kappa_of_keep_and_discard(said):
    # Keep, keep, split, discard: observed 3/4, shares 5/8 and 3/8.
    chance = (5 / 8) ** 2 + (3 / 8) ** 2
    assert drawn_results(said).fleiss_kappa.value == pytest.approx((0.75 - chance) / (1 - chance))


def test_boxes_of_different_classes_do_not_meet(zoo):
    two = (word("ann", "v0:2", BOX), word("bo", "v0:2", BOX, label="sheep"))
    found = drawn_results(replace(zoo.dataset(), drawn=two))
    assert found.overlap.value is None
    assert found.pairs == ()
    assert (found.disagreed.count, found.kept.count) == (1, 0)


def test_an_overlap_asked_for_decides_what_is_unsettled(zoo):
    two = (word("ann", "v0:2", BOX), word("bo", "v0:2", HALF))
    dataset = replace(zoo.dataset(), drawn=two)
    assert drawn_results(dataset).unsettled == 1
    assert drawn_results(dataset, agree=0.5).unsettled == 0


def test_nobody_answered_yet(zoo):
    found = drawn_results(zoo.dataset())
    assert found.n_pictures == found.n_people == 0
    assert found.kept.value is None
    assert found.area is None


def test_the_record_is_written_and_read(said):
    found = drawn_results(said)
    assert decode(DrawnResults, encode(found)) == found
