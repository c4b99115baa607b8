"""The shipped maps from detectors' classes to ImageNet-Vid and Youtube-BB."""

import itertools

import numpy as np
import pytest

from strobe.core.labels import projection, space

SOURCES, TARGETS = ("coco-80", "coco-91", "open-images", "voc"), ("imagenet-vid", "youtube-bb")


@pytest.mark.parametrize(("source", "target"), list(itertools.product(SOURCES, TARGETS)))
def test_each_source_class_has_one_target(source, target):
    children = [child for group in projection(source, target).children for child in group]
    assert len(children) == len(set(children))


def test_sizes_and_what_has_no_child():
    sizes = {name: len(space(name)) for name in SOURCES}
    assert sizes == {"coco-80": 80, "coco-91": 91, "open-images": 601, "voc": 20}
    found = {
        (source, target): len(space(target)) - len(projection(source, target).childless)
        for source, target in itertools.product(SOURCES, TARGETS)
    }
    assert found == {
        ("coco-80", "imagenet-vid"): 16, ("coco-80", "youtube-bb"): 23,
        ("coco-91", "imagenet-vid"): 16, ("coco-91", "youtube-bb"): 23,
        ("open-images", "imagenet-vid"): 30, ("open-images", "youtube-bb"): 23,
        ("voc", "imagenet-vid"): 13, ("voc", "youtube-bb"): 14,
    }  # fmt: skip
    for source in SOURCES:
        assert space("youtube-bb").index("none") in projection(source, "youtube-bb").childless


@pytest.mark.parametrize(
    ("source", "target", "name", "expected"),
    [
        ("coco-80", "imagenet-vid", "cow", "cattle"),
        ("coco-80", "imagenet-vid", "boat", "watercraft"),
        ("coco-80", "imagenet-vid", "truck", None),
        ("coco-80", "imagenet-vid", "person", None),
        ("coco-91", "imagenet-vid", "cat", "domestic cat"),
        ("coco-91", "youtube-bb", "background", None),
        ("open-images", "imagenet-vid", "Sea turtle", "turtle"),
        ("open-images", "imagenet-vid", "Polar bear", "bear"),
        ("open-images", "imagenet-vid", "Teddy bear", None),
        ("open-images", "imagenet-vid", "Animal", None),
        ("open-images", "youtube-bb", "Woman", "person"),
        ("open-images", "youtube-bb", "Human face", None),
        ("open-images", "youtube-bb", "Van", "car"),
        ("voc", "youtube-bb", "pottedplant", "potted plant"),
        ("voc", "imagenet-vid", "aeroplane", "airplane"),
    ],
)
def test_named_classes(source, target, name, expected):
    label = projection(source, target).map_labels(np.array([space(source).index(name)]))[0]
    assert (None if label < 0 else space(target).names[label]) == expected


def test_coco_91_is_coco_80_with_gaps():
    real = [name for name in space("coco-91").ids if name != "background" and not name.startswith("unused-")]
    assert tuple(real) == space("coco-80").ids
    assert space("coco-91").ids[1] == "person"
    assert space("coco-91").ids[90] == "toothbrush"


def test_coco_lists_are_torchvisions():
    meta = pytest.importorskip("torchvision.models.detection").FasterRCNN_ResNet50_FPN_Weights.COCO_V1.meta
    for place, name in enumerate(meta["categories"]):
        if name not in ("__background__", "N/A"):
            assert space("coco-91").names[place] == name
