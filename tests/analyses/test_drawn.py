"""What people's boxes make of an image, against the rules written out as slow plain Python."""

from dataclasses import replace
from itertools import combinations, permutations
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.analyses.drawn import AGREE, Drawn, check_inside, disagree, drawn_pictures, with_drawn_boxes
from strobe.core.errors import InvalidValue
from strobe.core.people import BoxAnswer


@pytest.fixture
def animals(zoo):
    """Four videos with boxes, images of 200×100."""
    return zoo.dataset()


def word(annotator, box=None, *, label="fox", number=0, frame="v0:2", stage="draw", suggested=False):
    """An answer: kept with this box, or discarded without one."""
    return BoxAnswer(
        answer_id=f"{annotator}-{frame}-{number}", annotator=annotator, at=f"2026-01-01T00:00:{number:02}Z",
        stage=stage, frame_id=frame, label=label, decision="discard" if box is None else "keep", xyxy=box,
        reason="absent" if box is None else "", suggested=suggested,
    )  # fmt: skip


@st.composite
def words(draw, most=5):
    """One word of each of some people on one image."""
    side = st.integers(0, 6)
    found = []
    for number in range(draw(st.integers(1, most))):
        x0, y0 = draw(side), draw(side)
        box = (x0, y0, x0 + 1 + draw(side), y0 + 1 + draw(side))
        keeps = draw(st.sampled_from([True, True, True, False]))
        found.append(word(f"p{number}", box if keeps else None, label=draw(st.sampled_from(["fox", "fox", "sheep"]))))
    return found


def iou(a, b):
    pixels = [{(x, y) for x in range(int(x0), int(x1)) for y in range(int(y0), int(y1))} for x0, y0, x1, y1 in (a, b)]
    return len(pixels[0] & pixels[1]) / len(pixels[0] | pixels[1])


@given(words())
def test_kept_by_a_strict_majority_of_one_class(said):
    found = Drawn.of("v0:2", said)
    for label in ("fox", "sheep"):
        keepers = [one for one in said if one.decision == "keep" and one.label == label]
        if 2 * len(keepers) > len(said):
            assert found.is_kept
            assert found.label == label
            assert found.keepers == tuple(one.annotator for one in keepers)
            assert list(found.xyxy) == [median(one.xyxy[side] for one in keepers) for side in range(4)]
            overlaps = [iou(a.xyxy, b.xyxy) for a, b in combinations(keepers, 2)]
            assert found.overlap == (pytest.approx(min(overlaps)) if overlaps else None)
            break
    else:
        assert not found.is_kept
        assert (found.label, found.keepers, found.overlap) == ("", (), None)
    assert len(found.reasons) == sum(one.decision == "discard" for one in said)
    assert found.people == tuple(one.annotator for one in said)


@given(words(), st.sampled_from([0.3, 0.5, AGREE]))
def test_disagreement_is_that_of_any_two(said, agree):
    def differ(a, b):
        if a.decision != b.decision:
            return True
        return a.decision == "keep" and (a.label != b.label or iou(a.xyxy, b.xyxy) < agree - 1e-12)

    assert disagree(said, agree=agree) == any(differ(a, b) for a, b in combinations(said, 2))


def test_no_order_of_people_changes_anything():
    said = [word("ann", (0, 0, 4, 4)), word("bo", (1, 0, 5, 4), label="sheep"), word("cy"), word("di", (0, 1, 4, 5))]
    assert len({Drawn.of("v0:2", some) for some in permutations(said)}) == 1


def test_a_tie_is_not_kept_and_one_person_twice_is_refused():
    assert not Drawn.of("f", [word("ann", (0, 0, 4, 4)), word("bo")]).is_kept
    assert not Drawn.of("f", [word("ann", (0, 0, 4, 4)), word("bo", (0, 0, 4, 4), label="sheep")]).is_kept
    assert disagree([word("ann", (0, 0, 4, 4)), word("bo")])
    assert not disagree([word("ann"), word("bo")]), "both discard it"
    assert not disagree([word("ann", (0, 0, 4, 4))])
    with pytest.raises(InvalidValue, match="one per person"):
        Drawn.of("f", [word("ann"), word("ann", number=1)])
    with pytest.raises(InvalidValue, match="at least one"):
        Drawn.of("f", [])


def test_the_latest_word_counts_whatever_the_round(animals):
    said = (
        word("ann", (5, 5, 9, 9), number=3, stage="verify"),
        word("ann", (0, 0, 4, 4), number=1),
        word("bo", (5, 6, 9, 10), number=2),
        word("cy", (0, 0, 4, 4), frame="elsewhere:0"),
    )
    (found,) = drawn_pictures(replace(animals, drawn=said))
    assert found.frame_id == "v0:2"
    assert found.xyxy == (5, 5.5, 9, 9.5)
    assert found.keepers == ("ann", "bo")


def test_a_box_that_leaves_its_picture_is_named(animals):
    with pytest.raises(InvalidValue, match=r"v0/2\.png: the box 0, 0, 201, 4 is not inside the image of 200×100"):
        drawn_pictures(replace(animals, drawn=(word("ann", (0, 0, 201, 4)),)))
    with pytest.raises(InvalidValue, match="has no area"):
        check_inside((3, 3, 3, 9), (10, 10), what="a.png")
    check_inside((0, 0, 10, 10), (10, 10), what="a.png")
    check_inside((0, 0, 4000, 10), (0, 0), what="size unknown")


def test_the_dataset_takes_the_boxes_of_people_where_they_keep_the_anchor(animals):
    said = (
        word("ann", (1, 2, 30, 40)),
        word("bo", (1, 4, 30, 44)),
        word("ann", frame="v1:2"),
        word("bo", frame="v1:2"),
    )
    dataset = replace(animals, drawn=said)
    made = with_drawn_boxes(dataset, drawn_pictures(dataset))
    assert made.sets.set_id.tolist() == ["s0"]
    row = made.frame_ids().index("v0:2")
    (box,) = made.boxes.of_frame(row)
    assert box.xyxy == (1, 3, 30, 42)
    assert made.info.label_space.ids[box.label] == "fox"
    other = made.frame_ids().index("v0:1")
    assert made.boxes.of_frame(other) == animals.boxes.of_frame(other), "boxes nobody drew stay"
    assert len(animals.boxes.frame) == len(made.boxes.frame), "the dataset itself is not touched"
    bare = with_drawn_boxes(replace(dataset, boxes=None), drawn_pictures(dataset))
    assert bare.boxes.frame.tolist() == [row]


def test_nothing_kept_is_said(animals):
    dataset = replace(animals, drawn=(word("ann"),))
    with pytest.raises(InvalidValue, match="kept no image"):
        with_drawn_boxes(dataset, drawn_pictures(dataset))
    member = replace(animals, drawn=(word("ann", (0, 0, 4, 4), frame="v0:0"),))
    with pytest.raises(InvalidValue, match="no anchor"):
        with_drawn_boxes(member, drawn_pictures(member))
