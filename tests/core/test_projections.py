"""The one finder of projections."""

from strobe.core.labels import LabelSpace, projection, space
from strobe.core.projections import projection_between, shipped_between


def test_a_borrowed_name_is_matched_by_its_classes() -> None:
    fake = LabelSpace.of_names("ilsvrc-2012", ["airplane", "zebra"])
    found = projection_between(fake, space("imagenet-vid"))
    names = [space("imagenet-vid").names[place] for place, group in enumerate(found.children) if group]
    assert names == ["airplane", "zebra"]


def test_ids_then_names_then_nothing() -> None:
    target = LabelSpace(name="t", ids=("n01", "n02", "n03", "n04"), names=("Tabby cat", "dog, hound", "fox", "owl"))
    source = LabelSpace(name="s", ids=("n02", "a", "b"), names=("whatever", "tabby_cat", "kit fox, fox"))
    assert projection_between(source, target).children == ((1,), (0,), (2,), ())


def test_only_the_shipped_spaces_themselves_have_a_shipped_map() -> None:
    assert shipped_between(space("ilsvrc-2012"), space("imagenet-vid")) is not None
    assert shipped_between(space("ilsvrc-2012"), LabelSpace.of_names("imagenet-vid", ["zebra"])) is None
    assert shipped_between(space("ilsvrc-2012"), LabelSpace.of_names("pets", ["zebra"])) is None


DARKNET = ["person", "motorbike", "aeroplane", "sofa", "pottedplant", "diningtable", "tvmonitor", "cell phone"]


def test_other_words_for_a_class_match_name_by_name() -> None:
    source = LabelSpace.of_names("darknet's, some", DARKNET)
    found = projection_between(source, space("coco-80"))
    reached = {found.target.names[place]: source.names[group[0]] for place, group in enumerate(found.children) if group}
    assert reached == {
        "person": "person",
        "motorcycle": "motorbike",
        "airplane": "aeroplane",
        "couch": "sofa",
        "potted plant": "pottedplant",
        "dining table": "diningtable",
        "tv": "tvmonitor",
        "cell phone": "cell phone",
    }


def test_a_word_of_its_own_goes_before_another_word_for_it() -> None:
    rooms = LabelSpace.of_names("rooms", ["sofa", "couch"])
    assert projection_between(LabelSpace.of_names("model", ["couch", "sofa", "x"]), rooms).children == ((1,), (0,))
    assert projection_between(LabelSpace.of_names("model", ["couch", "x"]), rooms).children == ((), (0,))


def test_names_without_latin_letters_are_not_all_one() -> None:
    source = LabelSpace(name="s", ids=("a", "b"), names=("狗", "猫"))
    target = LabelSpace(name="t", ids=("p", "q", "r"), names=("猫", "鳥", "狗"))
    assert projection_between(source, target).children == ((1,), (), (0,))


def test_a_list_of_shipped_names_in_another_order_goes_by_the_shipped_map() -> None:
    names = list(reversed(space("coco-80").names))
    names[names.index("motorcycle")] = "motorbike"
    found = projection_between(LabelSpace.of_names("mine", names), space("imagenet-vid"))
    shipped = projection("coco-80", "imagenet-vid")
    assert [len(group) for group in found.children] == [len(group) for group in shipped.children]
    cattle = found.target.index("cattle")
    assert [names[place] for place in found.children[cattle]] == ["cow"]


def test_some_wordnet_ids_go_by_the_map_of_all() -> None:
    two = LabelSpace(name="two", ids=("n02085620", "n02391049"), names=("Chihuahua", "zebra"))
    found = projection_between(two, space("imagenet-vid"))
    assert found.children[found.target.index("dog")] == (0,)
