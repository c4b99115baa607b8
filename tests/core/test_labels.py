"""Label spaces, the shipped maps, and projection against a plain reference."""

import hashlib
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.core.labels import MERGES, LabelSpace, Projection, confidence_of, projection, space
from strobe.core.projections import projection_between

REFERENCE = Path(__file__).parents[2] / "../shared/reference"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference folder is not at hand")


@pytest.mark.parametrize(
    ("name", "n"),
    [("ilsvrc-2012", 1000), ("imagenet-vid", 30), ("youtube-bb", 24), ("imagenet-a", 200), ("imagenet-9", 9)],
)
def test_shipped_spaces(name: str, n: int) -> None:
    found = space(name)
    assert len(found) == n
    assert found.name == name
    assert LabelSpace.from_json(json.loads(json.dumps(found.to_json()))) == found


NOT_IN_ILSVRC = {"fire hydrant", "stop sign", "giraffe", "suitcase", "frisbee", "snowboard", "kite", "baseball bat"}
NOT_IN_ILSVRC |= {"baseball glove", "skateboard", "surfboard", "tennis racket", "fork", "carrot", "donut", "cake"}
NOT_IN_ILSVRC |= {"toilet", "book", "scissors", "toothbrush"}


@pytest.mark.parametrize(
    ("target", "n_children", "childless"),
    [
        ("imagenet-vid", 288, set()),
        ("youtube-bb", 231, {"cow", "giraffe", "skateboard", "toilet", "none"}),
        ("imagenet-9", 370, set()),
        ("coco-80", 298, NOT_IN_ILSVRC),
    ],
)
def test_shipped_maps(target: str, n_children: int, childless: set[str]) -> None:
    found = projection("ilsvrc-2012", target)
    children = [child for group in found.children for child in group]
    assert len(children) == n_children
    assert max(Counter(children).values()) == 1, "a source class maps to one target class"
    assert {found.target.names[place] for place in found.childless} == childless


def test_minivan_is_a_car_and_no_truck() -> None:
    found = projection("ilsvrc-2012", "youtube-bb")
    minivan = found.source.index("n03770679")
    assert minivan in found.children[found.target.index("car")]
    assert minivan not in found.children[found.target.index("truck")]


def test_the_map_to_coco_reads_pictures_and_not_homonyms() -> None:
    found = projection("ilsvrc-2012", "coco-80")
    by_name = {
        name: {found.source.names[child] for child in group}
        for name, group in zip(found.target.names, found.children, strict=True)
    }
    assert "kite" in by_name["bird"], "ILSVRC's kite is a bird"
    assert not by_name["kite"]
    assert (by_name["hot dog"], by_name["sandwich"]) == ({"hotdog"}, {"cheeseburger"})
    assert "minivan" in by_name["car"] - by_name["truck"]
    assert not {"punching bag", "Dutch oven"} & (by_name["sports ball"] | by_name["oven"])
    assert by_name["cat"] == {"tabby", "tiger cat", "Persian cat", "Siamese cat", "Egyptian cat"}
    assert len(by_name["dog"]) == 118


def test_both_numberings_of_coco_have_the_same_map() -> None:
    eighty, by_id = projection("ilsvrc-2012", "coco-80"), projection("ilsvrc-2012", "coco-91")
    assert {
        label: eighty.children[place] for place, label in enumerate(eighty.target.ids) if eighty.children[place]
    } == {label: by_id.children[place] for place, label in enumerate(by_id.target.ids) if by_id.children[place]}


def test_a_class_is_found_by_another_word_for_it() -> None:
    coco = space("coco-80")
    words = ("motorbike", "Aeroplane", "sofa", "pottedplant", "TV monitor", "cellphone")
    assert [coco.names[coco.index(word)] for word in words] == [
        "motorcycle",
        "airplane",
        "couch",
        "potted plant",
        "tv",
        "cell phone",
    ]
    with pytest.raises(InvalidValue, match=r"'sofa' names 2 classes of two: Couch \(class 0\) and couch! \(class 1\)"):
        LabelSpace.of_names("two", ["Couch", "couch!"]).index("sofa")


@needs_reference
@pytest.mark.parametrize(("folder", "target"), [("imagenet-vid-robust", "imagenet-vid"), ("ytbb-robust", "youtube-bb")])
def test_maps_equal_the_reference(folder: str, target: str) -> None:
    forward = json.loads((REFERENCE / folder / "class_idx_map.json").read_text())
    backward = json.loads((REFERENCE / folder / "rev_class_idx_map.json").read_text())
    found = projection("ilsvrc-2012", target)
    labels = found.map_labels(np.arange(1000))
    assert {place: int(label) for place, label in enumerate(labels) if label >= 0} == {
        int(place): label for place, label in forward.items()
    }
    assert {place: sorted(group) for place, group in enumerate(found.children) if group} == {
        int(place): sorted(group) for place, group in backward.items() if group
    }


@needs_reference
def test_spaces_equal_the_reference() -> None:
    index = json.loads((REFERENCE / "imagenet_class_index.json").read_text())
    assert space("ilsvrc-2012").ids == tuple(index[str(place)][0] for place in range(1000))
    names = json.loads((REFERENCE / "ytbb-robust/ytbb_class_index.json").read_text())
    assert space("youtube-bb").names == tuple(names[str(place)] for place in range(24))


# -- ImageNet-A and ImageNet-9: the two traps of methods §10 ------------------------------------------------------


def test_the_200_classes_of_imagenet_a_are_not_the_first_200() -> None:
    """Folders are WordNet ids; taken as labels 0–199 in their sorted order, only the very first classes would fit."""
    ours, among = space("imagenet-a"), projection_between(space("ilsvrc-2012"), space("imagenet-a"))
    assert list(ours.ids) == sorted(ours.ids), "the order of the folders"
    places = [children[0] for children in among.children]
    assert [len(children) for children in among.children] == [1] * 200
    assert (places[0], places[38], places[199]) == (6, 207, 988)
    assert hashlib.sha256(json.dumps(places).encode()).hexdigest()[:16] == "a2d0b3a7d6a8360f"
    scores = np.full((200, 1000), -1.0)
    scores[np.arange(200), places] = 1.0  # a model that is right on every one of them
    assert (among.apply(scores).argmax(axis=1) == np.arange(200)).all()
    assert (scores.argmax(axis=1) == np.arange(200)).sum() == 0, "the classic bug: never right"
    assert (scores[:, :200].argmax(axis=1) == np.arange(200)).mean() < 0.1, "nor among the first 200 columns"


def test_imagenet_9_takes_the_best_of_all_classes_first() -> None:
    """The best of 1,000 is a golfcart, which is none of the nine: outside, and wrong; the best child would be right."""
    found = projection("ilsvrc-2012", "imagenet-9")
    assert [len(children) for children in found.children] == [116, 52, 42, 36, 35, 27, 26, 20, 16]
    assert hashlib.sha256(json.dumps(found.children).encode()).hexdigest()[:16] == "901099f8a32a9b8b"
    source, vehicle = found.source, found.target.index("wheeled vehicle")
    scores = np.full((2, 1000), -3.0, dtype=np.float32)
    scores[:, source.index("n03445924")] = [2.0, 0.5]  # golfcart
    scores[:, source.index("n03594945")] = [1.0, 1.0]  # jeep
    first = found.apply(scores)
    assert found.outside(first).tolist() == [True, False]
    assert first[1].argmax() == vehicle
    children = replace(found, rule="merge")
    assert children.apply(scores).argmax(axis=1).tolist() == [vehicle, vehicle], "max over children: another number"
    assert not children.outside(children.apply(scores)).any()
    assert children.digest != found.digest
    with pytest.raises(InvalidValue, match="uses the model's best class"):
        found.apply(scores, merge="mean")


def test_a_rule_changes_no_digest_of_before() -> None:
    assert projection("ilsvrc-2012", "imagenet-vid").digest == "76760cbc950f1a5c"
    assert projection("ilsvrc-2012", "youtube-bb").digest == "e48d4ccb2deb0619"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_argmax_first_is_argmax_then_map_ties_and_all(seed: int) -> None:
    found = projection("ilsvrc-2012", "imagenet-9")
    scores = np.random.default_rng(seed).integers(-40, 0, (20, 1000)).astype(np.float32)  # ties in every row
    projected = found.apply(scores)
    want = found.map_labels(scores.argmax(axis=1))
    outside = found.outside(projected)
    assert (outside == (want < 0)).all()
    assert (projected.argmax(axis=1)[~outside] == want[~outside]).all()


@needs_reference
def test_both_maps_of_the_background_study_equal_the_reference() -> None:
    places = json.loads((REFERENCE / "background/imagenet_a_200_of_1000.json").read_text())
    assert [space("ilsvrc-2012").ids[place] for place in places] == list(space("imagenet-a").ids)
    nine = json.loads((REFERENCE / "background/in_to_in9.json").read_text())
    mapped = projection("ilsvrc-2012", "imagenet-9").map_labels(np.arange(1000))
    assert {str(place): int(label) for place, label in enumerate(mapped)} == nine
    words = [line.split() for line in (REFERENCE / "background/in9_classes.txt").read_text().splitlines() if line]
    assert [one[1] for one in words] == list(space("imagenet-9").ids)


# -- projection against a plain reference -----------------------------------------------------------------------


def plain_projection(row: list[float], children: list[list[int]], *, kind: str, merge: str) -> list[float]:
    """One frame's scores merged class by class, with nothing but math."""
    if merge == "sum" and kind == "logits":
        top = max(row)
        total = sum(math.exp(score - top) for score in row)
        row = [math.exp(score - top) / total for score in row]
    out = []
    for group in children:
        values = [row[child] for child in group]
        if not values:
            out.append(-math.inf)
        elif merge == "max":
            out.append(max(values))
        elif merge == "mean":
            out.append(sum(values) / len(values))
        else:
            total = math.fsum(values)
            out.append(math.log(total) if total > 0 else -math.inf)
    return out


@st.composite
def cases(draw):
    n_source, n_target = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    owner = draw(st.lists(st.integers(-1, n_target - 1), min_size=n_source, max_size=n_source))
    children = [[child for child, target in enumerate(owner) if target == place] for place in range(n_target)]
    kind = draw(st.sampled_from(["logits", "probabilities"]))
    score = st.floats(-30, 30) if kind == "logits" else st.floats(0, 1)
    rows = draw(st.lists(st.lists(score, min_size=n_source, max_size=n_source), min_size=1, max_size=4))
    return children, n_source, rows, kind, draw(st.sampled_from(MERGES))


@settings(max_examples=200, deadline=None)
@given(cases())
def test_projection_equals_the_plain_reference(case) -> None:
    children, n_source, rows, kind, merge = case
    made = Projection(
        source=LabelSpace.of_names("s", [f"s{i}" for i in range(n_source)]),
        target=LabelSpace.of_names("t", [f"t{i}" for i in range(len(children))]),
        children=tuple(map(tuple, children)),
    )
    got = made.apply(np.array(rows), kind=kind, merge=merge)
    want = np.array([plain_projection(row, children, kind=kind, merge=merge) for row in rows])
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
    for childless in made.childless:
        assert np.isneginf(got[:, childless]).all(), "a class without children never wins"


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_max_equals_argmax_among_mapped_then_map(seed: int) -> None:
    found = projection("ilsvrc-2012", "youtube-bb")
    scores = np.random.default_rng(seed).normal(-5, 1, (20, 1000))  # negative: an unmapped class at 0 would win
    mapped = np.array([child for group in found.children for child in group])
    best = mapped[scores[:, mapped].argmax(axis=1)]
    assert (found.apply(scores).argmax(axis=1) == found.map_labels(best)).all()


def test_ties_go_to_the_lowest_target() -> None:
    made = Projection(
        source=LabelSpace.of_names("s", ["p", "q", "r"]),
        target=LabelSpace.of_names("t", ["none", "a", "b"]),
        children=((), (2,), (0, 1)),
    )
    assert made.apply(np.array([[5.0, 1.0, 5.0]])).argmax() == 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.floats(-20, 20), min_size=3, max_size=3), min_size=1, max_size=5), st.floats(-50, 50))
def test_confidence_is_a_distribution_and_ignores_a_constant(rows, constant) -> None:
    scores = np.array(rows)
    confidence = confidence_of(scores, kind="logits")
    np.testing.assert_allclose(confidence.sum(axis=1), 1)
    np.testing.assert_allclose(confidence_of(scores + constant, kind="logits"), confidence, atol=1e-9)
    np.testing.assert_allclose(confidence_of(confidence, kind="probabilities"), confidence, atol=1e-9)


def test_underscores_stand_for_spaces_where_only_one_class_is_meant() -> None:
    assert space("imagenet-vid").index("giant_panda") == space("imagenet-vid").index("giant panda")
    odd = LabelSpace.of_names("odd", ["a b_c", "a_b c", "x_y"])
    assert (odd.index("a b_c"), odd.index("a_b c"), odd.index("x y")) == (0, 1, 2)
    assert "x y" in odd
    with pytest.raises(InvalidValue, match="'a_b_c' names 2 classes of odd"):
        odd.index("a_b_c")
