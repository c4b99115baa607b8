"""Which models are forms of one, and what differs, follows from facts and from nothing else."""

from strobe.analyses.forms import differences, form_families, form_of_facts
from strobe.models.forms import declared_form


def ran(name="timm:net", *, weights="1f" * 32, provider="timm", **settings):
    own = {"precision": "float32", "size_hw": [224, 224], "mean": [0.5], **settings}
    return {"weights": weights, "spec": {"name": name, "provider": provider}, "preprocessing": own, "decode": "cpu"}


def brought(form_of="", **form):
    return {"kind": "labels", **declared_form({"form_of": form_of, "form": form}, "a file")}


def names(models):
    return list(form_families(models))


def test_the_same_weights_are_one_model_and_equal_names_are_not():
    models = {"a": ran(), "b": ran(precision="bfloat16"), "a-int8": ran("timm:net", weights="2e" * 32)}
    assert names(models) == [("a", "b")]


def test_a_bundled_model_is_one_model_in_every_runtime_but_not_with_other_weights():
    models = {
        "torch": ran("lite", provider="bundled"),
        "onnx": ran("lite", weights="2e" * 32, provider="bundled", backend="onnxruntime", runtime="1.31"),
        "tuned": ran("lite@mine.pth", weights="3d" * 32, provider="bundled"),
    }
    assert names(models) == [("torch", "onnx")]


def test_a_file_is_a_form_only_if_it_says_so_by_the_name_in_the_run_or_by_the_model():
    assert names({"net": ran(), "phone": brought()}) == []
    assert names({"net": ran(), "phone": brought("net")}) == [("net", "phone")]
    assert names({"mine": ran("lite", provider="bundled"), "phone": brought("lite")}) == [("mine", "phone")]
    assert names({"phone": brought("lite"), "tablet": brought("lite")}) == [("phone", "tablet")]


def test_declarations_join_what_belongs_together():
    models = {"a": ran(), "b": ran(precision="bfloat16"), "c": brought("b"), "other": ran("x", weights="4c" * 32)}
    assert names(models) == [("b", "a", "c")]


def test_the_reference_is_the_declared_one_then_float32_then_the_first_requested():
    assert names({"half": ran(precision="float16"), "full": ran()}) == [("full", "half")]
    assert names({"a": ran() | {"place": 1}, "b": ran() | {"place": 0}}) == [("b", "a")]
    models = {"a": ran(), "half": ran(precision="float16"), "phone": brought("half")}
    assert names(models)[0][0] == "half"


def test_models_that_see_crops_or_use_boxes_are_no_forms():
    assert names({"a": ran(), "crop": ran() | {"view": "crop"}}) == []


def test_what_differs_is_what_the_facts_state():
    torch = ran() | {"batch_size": 4, "runtime": "PyTorch 2.15.0"}
    onnx = ran(backend="onnxruntime", runtime="1.31.1", optimisation="all") | {"batch_size": 8}
    assert differences(torch, onnx) == (
        "runtime: PyTorch 2.15.0 → ONNX Runtime 1.31.1",
        "batch size: 4 → 8",
    )
    assert differences(torch, ran(compiled=True) | {"runtime": "PyTorch 2.15.0"}) == ("compiled: no → yes",)
    assert differences(torch, ran(mean=[0.4]) | {"runtime": "PyTorch 2.15.0"}) == ("mean: [0.5] → [0.4]",)
    assert differences(torch, torch) == ()


def test_what_a_file_does_not_declare_is_unknown_and_not_different():
    phone = brought("net", runtime="Core ML", precision="float16")
    assert differences(ran(), phone) == (
        "answers: from a file",
        "runtime: Core ML (declared)",
        "precision: float32 → float16 (declared)",
    )
    assert form_of_facts(brought("net")) == {"answers": "from a file"}


def test_a_declared_precision_comes_before_as_exported():
    int8 = ran(precision="as exported") | {"form.precision": "int8"}
    assert differences(ran(), int8) == ("precision: float32 → int8 (declared)",)


def test_two_models_of_one_python_file_are_not_forms_unless_they_read_the_same_weights():
    code = {
        name: ran(f"py:m.py:{name}", provider="py", precision=None, size_hw=None) for name in ("animals", "thousand")
    }
    assert names(code) == []
    same = {name: ran(f"py:m.py:{name}@net.npz", provider="py") for name in ("fp32", "int8")}
    assert names(same) == [("fp32", "int8")]
