"""Two models together, as they are written."""

import pytest

from strobe.core.errors import StrobeError
from strobe.models.grammar import BoxesView, CropView, view_of
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.models.requested import requested_models


def test_specs_of_models_with_colons_are_taken_apart() -> None:
    assert view_of("boxes:torchvision:ssd300_vgg16@w.pth") == BoxesView(detector="torchvision:ssd300_vgg16@w.pth")
    every = BoxesView(detector="py:F.py:make", merge="noisyor", every_class=True)
    assert view_of("boxes-noisyor-all:py:F.py:make") == every
    found = view_of("crop:py:a,b.py:make@w.npy,context=1.5,fit=pad,without=outside,score=0.3:hf:some/model")
    assert isinstance(found, CropView)
    assert (found.source, found.classifier) == ("py:a,b.py:make@w.npy", "hf:some/model")
    assert (found.picking.context, found.picking.pick, found.picking.score) == (1.5, "best", 0.3)
    assert (found.fit, found.without) == ("pad", "outside")
    plain = view_of("crop:truth:py:mine.py:make")
    assert isinstance(plain, CropView)
    assert (plain.is_truth, plain.picking.pick, plain.classifier) == (True, "label", "py:mine.py:make")
    assert [view_of(text) for text in ("timm:resnet50", "preds:boxes:x", "boxer:x", "cropped:x")] == [None] * 4


def test_names_globs_and_the_models_at_the_end() -> None:
    found = requested_models(
        ["tight=crop:truth,context=1:strobe-world", "crop:truth:efficientnet-lite[01]", "boxes-sum:strobe-t*"]
    )
    assert [one.name for one in found] == [
        "tight", "crop:truth:efficientnet-lite0", "crop:truth:efficientnet-lite1", "boxes-sum:strobe-tiny"
    ]  # fmt: skip
    assert found[0].spec == "crop:truth,context=1:strobe-world"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("boxes:", "a model is missing: expected a detector, e.g. boxes:strobe-tiny"),
        ("boxes-mean:strobe-tiny", "unknown method for turning boxes into classes 'mean'"),
        ("boxes:preds:boxes.json", "pass the file as a separate model: -m NAME=preds:FILE"),
        ("boxes:crop:truth:strobe-world", "a view combines two models, not three"),
        ("crop:truth", "a model is missing: expected a classifier at the end"),
        ("crop:truth,context=1.5", "a model is missing: expected a classifier at the end"),
        ("crop::strobe-world", "a model is missing: expected truth or a detector"),
        ("crop:truth,1.5:strobe-world", "expected options as NAME=VALUE after truth"),
        (
            "crop:truth,contxt=1.5:strobe-world",
            r"'contxt'; did you mean context\? \(the options are context, pick, fit",
        ),
        ("crop:truth,context=wide:strobe-world", "crop: context: expected a number, got wide"),
        ("crop:truth,context=0.5:strobe-world", "context: expected 1–100, got 0.5"),
        ("crop:truth,context=nan:strobe-world", "context: expected 1–100, got nan"),
        ("crop:truth,fit=crop:strobe-world", "crop: fit: expected squash or pad, got 'crop'"),
        ("crop:truth,without=guess:strobe-world", "crop: without: expected whole or outside, got 'guess'"),
        (
            "crop:truth,pick=best:strobe-world",
            "true boxes have no scores for pick=best; use pick=label, largest or centre",
        ),
        ("crop:truth,fit=pad,fit=pad:strobe-world", "expected fit=VALUE once"),
        ("crop:torchvision:ssd300_vgg16:strobe-world", "add an option after the detector to mark where its name ends"),
        ("crop:truth:preds:scores.json", "predictions from a file cannot be computed again on crops"),
    ],
)
def test_what_cannot_be_read_is_one_line(text: str, said: str) -> None:
    with pytest.raises(StrobeError, match=said):
        requested_models([text])


def test_a_view_is_no_model_by_itself() -> None:
    with pytest.raises(StrobeError, match="crop: works only in strobe eval and strobe predict"):
        load_model("crop:truth:strobe-world", LoadOptions())
