"""Recipes: what is shipped can be read, changes are typed, and what is wrong is said in one line."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, UnknownName
from strobe.train.recipe import Recipe, find, shipped

SHIPPED = {
    "stills", "finetune", "noise", "linf", "l2", "pmk", "pmk-mixed", "consistency", "linear-probe", "detector",
    "agreement", "detector-ilsvrc", "photos",
}  # fmt: skip


def test_every_shipped_recipe_reads_and_says_what_it_does() -> None:
    found = shipped()
    assert set(found) >= SHIPPED
    for name, about in found.items():
        assert find(name).name == name
        assert 30 < len(about) < 120, name
        assert about.endswith("."), name


def test_the_papers_detectors_start_from_a_classifier() -> None:
    recipe = find("detector-ilsvrc", model="torchvision:rfcn_resnet101")
    assert (recipe.backbone, recipe.norms) == ("torchvision:resnet101/IMAGENET1K_V1", "frozen")
    assert {**find("detector-ilsvrc").settings()}.keys() >= {"backbone", "norms", "trainable_layers"}
    assert not find("detector").settings().keys() & {"backbone", "norms", "trainable_layers"}, "older trainings resume"
    with pytest.raises(InvalidValue, match="backbone: expected unset, unless a detector is trained"):
        find("finetune", changes=["backbone=timm:resnet50"])


def test_changes_are_typed_and_come_last() -> None:
    found = find(
        "finetune", changes=["learning_rate=3e-4", "loss=worst", "flip=false", "severities=[1, 3]"], model="vgg16"
    )
    assert (found.learning_rate, found.loss, found.flip, found.severities) == (3e-4, "worst", False, (1, 3))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("epoch=3", "did you mean epochs"),
        ("epochs", "expected key=value"),
        ("epochs=many", "a whole number"),
        ("epochs=0", "1 to 100000"),
        ("epochs=true", "a whole number"),
        ("loss=wurst", "average or worst or mixed or consistency or agreement"),
        ("learning_rate=nan", "a number"),
        ("learning_rate=-1", "above 0"),
        ("severities=[0]", "integers from 1 to 5"),
        ("accumulate=64", "at most the batch"),
        ("name=other", "unknown key"),
        ("optimiser=adam", "adam for a gan, and another optimiser"),
    ],
)
def test_a_wrong_change_is_one_line(change: str, said: str) -> None:
    with pytest.raises(StrobeError, match=said) as caught:
        find("finetune", changes=[change])
    assert "\n" not in str(caught.value)


def test_a_recipe_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(find("pmk", changes=["epochs=3"]).to_toml())
    mine = find(str(path))
    assert mine.name == "mine"
    assert mine.digest == find("pmk", changes=["epochs=3"]).digest != find("pmk").digest
    for text, error, said in (
        ("epochs = ", InvalidFile, "not TOML"),
        ("epoch = 3", InvalidFile, "unknown key"),
        ("epochs = 0", InvalidFile, "1 to 100000"),
        ('[for."x"]\nepoch = 1', InvalidFile, "unknown key"),
        ("for = 3", InvalidFile, "tables by model name"),
    ):
        path.write_text(text)
        with pytest.raises(error, match=said) as caught:
            find(str(path))
        assert str(path) in str(caught.value)
    with pytest.raises(StrobeError, match="cannot read the recipe"):
        find(str(tmp_path / "none.toml"))
    with pytest.raises(UnknownName, match="did you mean finetune"):
        find("fine-tune")


@settings(max_examples=40)
@given(st.sampled_from(sorted(SHIPPED)), st.data())
def test_a_damaged_recipe_is_a_recipe_or_one_line(name: str, data: st.DataObject) -> None:
    text = find(name).to_toml()
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 30)))
    with_junk = st.one_of(
        st.text(max_size=8), st.sampled_from(["9" * 400, "nan", "-1e999", "[[", "= =", '"""', "\0", "{}"])
    )
    damaged = text[:start] + data.draw(with_junk) + text[stop:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.toml"
        path.write_bytes(damaged.encode("utf-8", "surrogatepass"))
        said = ""
        try:
            assert isinstance(find(str(path)), Recipe)
        except StrobeError as error:
            said = str(error)
    assert "\n" not in said
    assert len(said) < 1500


def test_epochs_or_steps_decide_whichever_is_asked_for_last() -> None:
    for name, model in (("detector", ""), ("detector", "strobe-tiny"), ("pmk", "")):
        plain, changed = find(name, model=model), find(name, changes=["epochs=6"], model=model)
        assert (changed.steps, changed.epochs) == (0, 6)
        assert changed.batch == plain.batch
        assert find(name, changes=["epochs=6", "steps=9"], model=model).steps == 9
        assert find(name, changes=["steps=9", "epochs=6"], model=model).steps == 0
    assert find("detector").steps == 40_000
    assert find("detector", changes=["batch=4"]).steps == 40_000
