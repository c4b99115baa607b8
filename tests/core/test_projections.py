"""The one finder of projections."""

import pytest

from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace, projection, space
from strobe.core.projections import projection_between, shipped_between


def test_the_same_classes_are_left_alone() -> None:
    pets = LabelSpace.of_names("pets", ["cat", "dog"])
    assert projection_between(pets, LabelSpace.of_names("other name", ["cat", "dog"])).children == ((0,), (1,))


def test_shipped_spaces_use_the_shipped_map() -> None:
    assert projection_between(space("ilsvrc-2012"), space("imagenet-vid")) == projection("ilsvrc-2012", "imagenet-vid")


def test_a_borrowed_name_is_matched_by_its_classes() -> None:
    fake = LabelSpace.of_names("ilsvrc-2012", ["airplane", "zebra"])
    found = projection_between(fake, space("imagenet-vid"))
    names = [space("imagenet-vid").names[place] for place, group in enumerate(found.children) if group]
    assert names == ["airplane", "zebra"]


def test_ids_then_names_then_nothing() -> None:
    target = LabelSpace(name="t", ids=("n01", "n02", "n03", "n04"), names=("Tabby cat", "dog, hound", "fox", "owl"))
    source = LabelSpace(name="s", ids=("n02", "a", "b"), names=("whatever", "tabby_cat", "kit fox, fox"))
    assert projection_between(source, target).children == ((1,), (0,), (2,), ())


def test_no_class_in_common_is_one_line() -> None:
    with pytest.raises(StrobeError, match="no class of the model"):
        projection_between(LabelSpace.of_names("a", ["x", "y"]), LabelSpace.of_names("b", ["p"]))


def test_only_the_shipped_spaces_themselves_have_a_shipped_map() -> None:
    assert shipped_between(space("ilsvrc-2012"), space("imagenet-vid")) is not None
    assert shipped_between(space("ilsvrc-2012"), LabelSpace.of_names("imagenet-vid", ["zebra"])) is None
    assert shipped_between(space("ilsvrc-2012"), LabelSpace.of_names("pets", ["zebra"])) is None
