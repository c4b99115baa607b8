"""Naming models: the grammar, near matches, globs, the testbed, downloads that cannot be."""

from pathlib import Path

import pytest

from strobe.core.errors import ModelFailed, StrobeError, UnknownName
from strobe.core.labels import LabelSpace, space
from strobe.models import downloads
from strobe.models.naming import space_of
from strobe.models.options import LoadOptions, default_batch, torch_setup
from strobe.models.providers import PROVIDERS, declared
from strobe.models.registry import available, expand, load_model, parse
from strobe.models.testbed import entries, tags_of

CPU = LoadOptions(device="cpu")


def test_the_grammar() -> None:
    assert (parse("timm:resnet50").provider, parse("timm:resnet50").name) == ("timm", "resnet50")
    assert parse("py:some/file.py:make").name == "some/file.py:make"
    assert parse("efficientnet-lite0@w.pth").weights == Path("w.pth")
    for text, says in (("timm:", "after timm:"), ("timm:resnet50@", "weights file after @"), ("", "expected")):
        with pytest.raises(StrobeError, match=says):
            parse(text)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("tim:resnet50", "timm"),
        ("torchvison:resnet50", "torchvision"),
        ("efficientnet-lite-0", "efficientnet-lite0"),
        ("timm:resnet5O", "resnet50"),
        ("torchvision:resnet5O", "resnet50"),
        ("torchvision:resnet50/IMAGENET1K_V3", "IMAGENET1K_V"),
        ("openclip:ViT-B-33/openai", "ViT-B-32"),
        ("openclip:ViT-B-32/openal", "openai"),
    ],
)
def test_unknown_names_come_with_near_ones(text: str, near: str) -> None:
    with pytest.raises(UnknownName) as caught:
        load_model(text, CPU)
    assert near in str(caught.value)
    assert "\n" not in str(caught.value)


def test_globs() -> None:
    pytest.importorskip("timm")
    assert available("efficientnet-lite?") == ["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"]
    assert "timm:resnet18.a1_in1k" in available("timm:resnet18.*")
    assert expand(["torchvision:vgg11*", "torchvision:vgg11"]) == ["torchvision:vgg11", "torchvision:vgg11_bn"]
    with pytest.raises(UnknownName):
        expand(["timm:no_such_thing_*"])
    assert expand(["py:a[1].py:make"]) == ["py:a[1].py:make"]


def test_a_glob_of_files(tmp_path: Path) -> None:
    for name in ("b.onnx", "a.onnx", "a[1].onnx", "mine.py", "w1.pt", "w2.pt"):
        (tmp_path / name).touch()
    assert expand([f"onnx:{tmp_path}/?.onnx"]) == [f"onnx:{tmp_path}/{name}.onnx" for name in "ab"]
    assert expand([f"onnx:{tmp_path}/a[1].onnx"]) == [f"onnx:{tmp_path}/a[1].onnx"], "a file of that name is meant"
    assert expand([f"py:{tmp_path}/m*.py:make"]) == [f"py:{tmp_path}/mine.py:make"]
    assert expand([f"timm:resnet18@{tmp_path}/w*.pt"]) == [f"timm:resnet18@{tmp_path}/w{n}.pt" for n in (1, 2)]
    for text in ("onnx:*.nothing", "timm:resnet18@*.nothing", "py:*.nothing:make"):
        with pytest.raises(StrobeError, match=r"no file matches \*\.nothing"):
            expand([f"{text}"])


def test_the_testbed_names_models_that_exist() -> None:
    pytest.importorskip("torchvision")
    rows = entries()
    known = set(available())
    named = [row for row in rows if row.model]
    assert len(named) >= 30
    for row in named:
        provider, _, name = row.model.partition(":")
        plain = f"{provider}:{name.split('/')[0]}" if provider == "torchvision" else row.model
        assert plain in known, row.model
    assert all(row.note and row.get for row in rows if not row.model), "a row without weights says how to get them"
    types = {row.model_type for row in rows}
    assert {kind for kind in types if any(row.model or row.get for row in rows if row.model_type == kind)} == types
    assert all(row.get.startswith(("strobe train ", "download https://", "a copy")) for row in rows if row.get)
    assert sum(row.standard for row in rows) >= 30
    assert not any(row.standard for row in rows if row.model_type != "Trained on ILSVRC")
    assert tags_of("openclip:ViT-L-14-336/openai") == ("CLIP zero-shot", False)


def test_a_testbed_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[model]]\npaper_name = "a"\nmodel = "efficientnet-lite0"\nmodel_type = "t"\nstandard = true\n')
    assert [row.model for row in entries(f"@{path}")] == ["efficientnet-lite0"]
    path.write_text('[[model]]\nmodel = "efficientnet-lite0"\n\n[[model]]\nmodel = "timm:resnet18"\n')
    assert [row.model for row in entries(f"@{path}")] == ["efficientnet-lite0", "timm:resnet18"], "model alone will do"
    for content, says in (
        ("[[model]]\nname = 3\n", "[[model]] 1: expected model"),
        ('[[model]]\nmodel = "a"\nmodle_type = "b"\n', "did you mean model_type"),
        ('[[model]]\nmodel = "a"\nstandard = "yes"\n', "standard: expected true or false"),
        ("[[model]]\nmodel = 3\n", "model: expected a text"),
        ('model = "a"\n', "expected [[model]] tables"),
        ("", "expected [[model]] tables"),
    ):
        path.write_text(content)
        with pytest.raises(StrobeError) as caught:
            entries(f"@{path}")
        assert says in str(caught.value)
    for content in ("not toml", "x = " + "[" * 5000, "x = " + "9" * 5000):
        path.write_text(content)
        with pytest.raises(StrobeError, match="not TOML"):
            entries(f"@{path}")
    with pytest.raises(StrobeError, match="there is no testbed"):
        entries("@nothing")
    for folder in ("@", "@.", f"@{tmp_path}"):
        with pytest.raises(StrobeError, match="write @testbed"):
            entries(folder)


def test_errors_from_the_network_are_known_by_their_chain() -> None:
    error = RuntimeError("outer")
    error.__cause__ = ConnectionRefusedError("nobody there")
    assert downloads.cannot_download("timm:x", error) is not None
    assert downloads.cannot_download("timm:x", ValueError("shapes differ")) is None


def test_spaces_of_outputs() -> None:
    pets = LabelSpace.of_names("pets", ["cat", "dog"])
    assert space_of("m", 1000) == space("ilsvrc-2012")
    assert space_of("m", 1000, names=list(space("ilsvrc-2012").names)) == space("ilsvrc-2012")
    assert space_of("m", 1000, names=[f"thing {n}" for n in range(1000)]).names[3] == "thing 3"
    assert space_of("m", 2, names=["LABEL_0", "LABEL_1"], dataset=pets) == pets
    assert space_of("m", 2, names=["crane", "crane"]).ids == ("crane", "crane (2)")
    with pytest.raises(ModelFailed, match="no class names"):
        space_of("m", 7, dataset=pets)


def test_devices_and_batches() -> None:
    with pytest.raises(UnknownName, match="cuda"):
        torch_setup(LoadOptions(device="cudaa"))
    assert torch_setup(CPU).dtype == "float32"
    assert default_batch(5_000_000, device="cuda") > default_batch(5_000_000, device="cpu")


def test_every_provider_has_an_example_that_parses() -> None:
    for scheme, entry in declared():
        assert parse(entry.example).provider == scheme
    with pytest.raises(UnknownName, match=r"known: .*preds"):
        parse("nobody:x")


def test_every_provider_has_its_case_in_the_contracts() -> None:
    tests = Path(__file__).parents[1]
    house = (tests / "contracts" / file for file in ("made_cases.py", "detectors/test_detector_contract.py"))
    annexes = (path for name in ("contract_cases.py", "test_*_contract.py") for path in tests.glob(f"annexes/*/{name}"))
    cases = "".join(path.read_text() for path in (*house, *annexes))
    for scheme in PROVIDERS:
        assert f'"{scheme}:' in cases or f'ModelName("{scheme}"' in cases, scheme


def test_a_transformers_folder_with_a_pickle_that_runs_code_is_refused(tmp_path: Path) -> None:
    import os

    import torch
    import transformers

    marker = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {marker}",)

    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=16, image_size=16, patch_size=8,
        num_labels=2, id2label={0: "cat", 1: "dog"}, architectures=["ViTForImageClassification"],
    )  # fmt: skip
    config.save_pretrained(tmp_path / "model")
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(tmp_path / "model")
    torch.save({"classifier.weight": Evil()}, tmp_path / "model" / "pytorch_model.bin")
    with pytest.raises(StrobeError) as caught:
        load_model(f"hf:{tmp_path / 'model'}", CPU)
    assert not marker.exists()
    assert "\n" not in str(caught.value)
    assert "pytorch_model.bin: contains more than tensors and would run code when read" in str(caught.value)
    assert "--trust" in str(caught.value)


def test_a_plugin_may_be_a_whole_classifier_or_nothing_of_the_kind(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from strobe.core.labels import LabelSpace\n"
        "from strobe.core.records import ModelSpec\n"
        "class Mine:\n"
        "    def __init__(self, options):\n"
        "        self.spec = ModelSpec(name='mine', provider='py', task='classification', weights='0' * 64,\n"
        "                              label_space=options.label_space, batch_size=options.batch_size)\n"
        "    def prepare(self, image): return image.mean()\n"
        "    def forward(self, prepared): return [[value, 0] for value in prepared]\n"
        "def number(): return 3\n"
        "def classes(): return (lambda images: images), 7\n"
    )
    pets = LabelSpace.of_names("pets", ["cat", "dog"])
    options = LoadOptions(device="cpu", label_space=pets, batch_size=5)
    model = load_model(f"py:{path}:Mine", options)
    assert model.spec.batch_size == 5
    for factory, says in (("number", "returned int"), ("classes", "its classes are 7"), ("Mone", "did you mean Mine")):
        with pytest.raises(StrobeError, match=says):
            load_model(f"py:{path}:{factory}", options)
    path.write_text("def broken(:\n")
    with pytest.raises(ModelFailed, match="SyntaxError in line 1"):
        load_model(f"py:{path}:broken", options)
    for name in ("py:nowhere.py:make", f"py:{path}", f"py:{tmp_path}:make"):
        with pytest.raises(ModelFailed):
            load_model(name, options)


def test_onnx_files_say_what_they_need(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"not onnx")
    with pytest.raises(StrobeError, match=r"not an ONNX file|does not contain its input"):
        load_model(f"onnx:{path}", CPU)
    path.with_suffix(".json").write_text(
        '{"mean": [0, 0, 0], "std": [1, 1, 1], "labels": "ilsvrc-2012", "fit": "short-side"}'
    )
    with pytest.raises(StrobeError, match="not an ONNX file"):
        load_model(f"onnx:{path}", CPU)
    with pytest.raises(ModelFailed, match="the weights are in the file"):
        load_model(f"onnx:{path}@w.pth", CPU)
