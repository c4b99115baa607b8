"""How a model is written: the parser's round trip, globs of files, lists whose rows have settings, and errors."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strobe
from strobe.core.errors import ModelFailed, StrobeError
from strobe.models.grammar import ModelText, is_address, split_name, split_text
from strobe.models.options import LoadOptions, ModelSettings
from strobe.models.registry import load_model, parse
from strobe.models.requested import requested_models
from strobe.store.shards import KEY_FACTS, facts_of, prediction_key

WORD = st.text("abz019._-", min_size=1, max_size=8)
NAME = st.text("abz019._- ", min_size=1, max_size=8)
MODEL = st.text("abz019._-/:+=", min_size=1, max_size=12)
FILE = st.text("abz019._-/@:=*", min_size=1, max_size=12)
URL = st.builds("{}://{}".format, st.sampled_from(["https", "http", "s3", "ws"]), FILE)


@given(st.none() | NAME, WORD, MODEL, st.none() | FILE | URL)
def test_every_model_reads_back_as_it_was_written(name: str | None, provider: str, model: str, at: str | None) -> None:
    parts = ModelText(name, provider, model, at)
    if name is None:
        assert split_name(parts.text)[0] is None, "a provider ends the name"
    assert split_text(parts.text) == parts
    assert split_text(parts.text).text == parts.text


@given(st.text(max_size=30))
def test_any_text_reads_back(text: str) -> None:
    assert split_text(text).text == text


@given(st.sampled_from(["timm", "onnx", "py"]), st.text("abz/._-", min_size=1, max_size=9), st.none() | FILE | URL)
def test_a_parsed_model_reads_back(provider: str, model: str, at: str | None) -> None:
    text = f"{provider}:{model}" + (f"@{at}" if at else "")
    found = parse(text)
    assert (found.provider, found.name) == (provider, model)
    assert (found.address is not None) == (at is not None and is_address(at))
    if at is None or found.address or str(Path(at)) == at:
        assert found.text == text


def test_an_address_is_read_and_refused_by_providers_that_take_none() -> None:
    url = "https://example.org/w.safetensors"
    assert parse(f"timm:resnet18@{url}").address == url
    for text in (f"timm:resnet18@{url}", f"strobe-world@{url}", f"py:mine.py:make@{url}"):
        with pytest.raises(ModelFailed, match=r"takes no address after @; download https://example.org/w.safetensors"):
            load_model(text, LoadOptions(device="cpu"))


def test_files_of_predictions_by_glob(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "c.csv"):
        (tmp_path / name).touch()
    found = requested_models([f"preds:{tmp_path}/*.json"])
    assert [(one.name, one.file) for one in found] == [(name, tmp_path / f"{name}.json") for name in "ab"]
    assert [one.name for one in requested_models([f"mine=preds:{tmp_path}/a*.json"])] == ["mine"]
    (tmp_path / "x[1].json").touch()
    assert [one.name for one in requested_models([f"preds:{tmp_path}/x[1].json"])] == ["x[1]"], "a file of that name"
    assert [one.name for one in requested_models(["preds:no[1].json"])] == ["no[1]"], "as before: reading reports it"
    (tmp_path / "a.csv").touch()
    for text, says in (
        (f"preds:{tmp_path}/*.parquet", "no file matches"),
        (f"mine=preds:{tmp_path}/*.json", "a name must refer to one model, but this pattern matches 3"),
        (f"preds:{tmp_path}/a.*", "two files are called a; name them with -m NAME=preds:FILE"),
    ):
        with pytest.raises(StrobeError, match=says) as caught:
            requested_models([text])
        assert "\n" not in str(caught.value)


def listed(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return f"@{path}"


def test_rows_have_names_and_settings(tmp_path: Path) -> None:
    text = listed(
        tmp_path / "mine.toml",
        """
        [[model]]
        model = "efficientnet-lite0"
        [[model]]
        model = "efficientnet-lite0"
        name = "half"
        precision = "bfloat16"
        batch = 3
        [[model]]
        model = "ort=efficientnet-lite0"
        backend = "onnxruntime"
        image_size = 128
        decode = "cpu"
        [[model]]
        model = "crop:truth:efficientnet-lite0"
        compile = true
        """,
    )
    found = {one.name: one for one in requested_models([text])}
    assert list(found) == ["efficientnet-lite0", "half", "ort", "crop:truth:efficientnet-lite0"]
    assert found["half"].settings == ModelSettings(precision="bfloat16", batch_size=3)
    assert found["ort"].settings.given == {"backend": "onnxruntime", "image_size": 128, "decode": "cpu"}
    load = found["ort"].settings.applied(LoadOptions(device="cpu", precision="float32"))
    assert (load.backend, load.image_size, load.precision, load.device) == ("onnxruntime", 128, "float32", "cpu")
    assert found["efficientnet-lite0"].settings.given == {}
    row = {"model": "strobe-world", "name": "a", "precision": "float16"}
    assert [one.name for one in requested_models([row])] == ["a"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('model = "onnx:a.onnx"\ncompile = true', "onnx:a.onnx does not take compile; it takes precision"),
        ('model = "timm:resnet18"\nprompt = "a photo"', "timm:resnet18 does not take prompt; it takes precision"),
        ('model = "strobe-tiny"\nlimits = {usd = 5}', "strobe-tiny does not take limits; it takes batch_size"),
        ('model = "preds:a.json"\nbatch = 3', "preds:a.json does not take batch_size; it takes no settings"),
        ('model = "boxes:strobe-tiny"\nbatch = 3', "does not take batch_size; it takes no settings"),
        ('model = "nobody:x"\nbatch = 3', "unknown provider"),
        ('model = "timm:resnet18"\nprecision = "int3"', "precision: expected one of auto"),
        ('model = "timm:resnet18"\nimage_size = 3', "image size: expected 8"),
        ('model = "timm:resnet18"\nimage_size = "3"', "image_size: expected a whole number"),
        ('model = "timm:resnet18"\nbatch = true', "batch_size: expected a whole number"),
        ('model = "timm:resnet18"\ncompile = 1', "compile: expected true or false"),
        ('model = "timm:resnet18"\ndecode = "gpu"', "decode: expected cpu or device"),
        ('model = "timm:resnet18"\nlimits = {usd = "much"}', "limits: expected a table of numbers"),
        ('model = "timm:resnet18"\ncompile = true\nbackend = "onnxruntime"', "compile"),
        ('model = "timm:resnet18"\nprecison = "float16"', "did you mean precision"),
        ('model = "a=timm:resnet18"\nname = "b"', "expected one name, but the row also has the name b"),
        ('model = "efficientnet-lite*"\nname = "b"', "a name must refer to one model, but this pattern matches 3"),
    ],
)
def test_a_row_that_cannot_be_used_is_one_line(tmp_path: Path, row: str, says: str) -> None:
    with pytest.raises(StrobeError) as caught:
        requested_models([listed(tmp_path / "mine.toml", f"[[model]]\n{row}\n")])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_forms_of_one_model_need_two_names(tmp_path: Path) -> None:
    rows = '[[model]]\nmodel = "strobe-world"\n[[model]]\nmodel = "strobe-world"\nprecision = "bfloat16"\n'
    with pytest.raises(StrobeError, match=r'two models are called strobe-world; .* name = "…" in a list'):
        requested_models([listed(tmp_path / "mine.toml", rows)])


def test_forms_of_one_model_stand_side_by_side(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    strobe.synthesize(tmp_path / "world", videos=2, k=1, size=32)
    rows = (
        '[[model]]\nmodel = "strobe-world"\n'
        '[[model]]\nmodel = "strobe-world"\nname = "half"\nprecision = "bfloat16"\n'
        '[[model]]\nmodel = "strobe-world"\nname = "small"\nimage_size = 32\nbatch = 2\n'
    )
    text = listed(tmp_path / "mine.toml", rows)
    row = {"model": "strobe-world", "name": "torch", "backend": "torch"}
    done = strobe.evaluate(tmp_path / "world", [text, row], tmp_path / "run", device="cpu", report=False)
    assert sorted(done.scores) == ["half", "small", "strobe-world", "torch"]
    facts = {name: facts_of(tmp_path / "run", name) for name in done.scores}
    keys = {prediction_key({fact: one[fact] for fact in KEY_FACTS}) for one in facts.values()}
    assert len(keys) == 4, "each form has its own answers"
    weights = {name: one["weights"] for name, one in facts.items()}
    assert weights["half"] == weights["torch"], "the same tensors"
    assert weights["small"] == weights["strobe-world"], "the same graph and the same file"
    assert facts["half"]["preprocessing"]["precision"] == "bfloat16"
    assert facts["strobe-world"]["preprocessing"]["backend"] == "onnxruntime"
    assert facts["small"]["preprocessing"]["size_hw"] == [32, 32]


def test_a_precision_that_a_model_ignores_is_refused(tmp_path: Path) -> None:
    strobe.synthesize(tmp_path / "world", videos=2, k=1, size=32)
    (tmp_path / "mine.py").write_text(
        "import numpy as np\ndef make(): return (lambda images: np.eye(1000)[[0] * len(images)]), 'ilsvrc-2012'\n"
    )
    row = {"model": f"py:{tmp_path}/mine.py:make", "name": "mine", "precision": "bfloat16"}
    with pytest.raises(StrobeError, match="precision = bfloat16 has no effect on this model"):
        strobe.predict(tmp_path / "world", row, device="cpu")
