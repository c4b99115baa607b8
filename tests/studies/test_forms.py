"""A run with several forms of one model, from the command to the page: real runtimes on rendered videos."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import strobe
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.core.codec import decode
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.models.options import LoadOptions
from strobe.store.run_folder import Run
from strobe.studies.forms.measures import FormPair
from strobe.studies.forms.records import FormScore
from strobe.workflows.quantise import drawn_frames, quantise
from strobe.workflows.score import ScoreRunOptions, score_run

Command = Callable[..., tuple[int, str, str]]

pytest.importorskip("openvino", reason="the extra openvino")
pytest.importorskip("onnx", reason="the extra models")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with five forms: two runtimes, int8 in both of them, and the log of a phone."""
    folder = tmp_path_factory.mktemp("ships")
    dataset = strobe.synthesize(folder / "world", videos=12, k=2, size=64, seed=3)
    strobe.quantise("strobe-world", dataset, folder / "int8.onnx", frames=20, seed=1)
    keys, names = dataset.frames.key.tolist(), dataset.info.label_space.names
    file = {
        "kind": "labels",
        "form_of": "strobe-world",
        "form": {"runtime": "Core ML"},
        "predictions": {key: names[place % 2] for place, key in enumerate(keys)},
    }
    (folder / "phone.json").write_text(json.dumps(file))
    models = [
        "strobe-world",
        {"model": "strobe-world", "name": "openvino", "backend": "openvino"},
        {"model": f"onnx:{folder / 'int8.onnx'}", "name": "int8"},
        {"model": f"onnx:{folder / 'int8.onnx'}", "name": "int8 openvino", "backend": "openvino", "batch_size": 3},
        {"model": f"preds:{folder / 'phone.json'}", "name": "phone"},
    ]
    strobe.evaluate(dataset, models, folder / "run")
    return folder


@pytest.fixture(scope="module")
def forms(folder: Path) -> dict[str, FormScore]:
    studies = json.loads((folder / "run" / "results.json").read_text())["studies"]
    return {form["model"]: decode(FormScore, form, where="forms") for form in studies["forms"]}


def test_every_form_is_found_with_what_differs(forms: dict[str, FormScore]) -> None:
    by_name = forms
    assert {form.reference for form in forms.values()} == {"strobe-world"}
    assert list(by_name) == ["strobe-world", "openvino", "int8", "int8 openvino", "phone"]
    assert by_name["strobe-world"].differs == ()
    assert [text.partition(" ")[0] for text in by_name["openvino"].differs] == ["runtime:"]
    assert "precision: float32 → int8 (declared)" in by_name["int8"].differs
    assert "calibration: 20 frames of synthetic, seed 1 (declared)" in by_name["int8"].differs
    assert "batch size: 4 → 3" in by_name["int8 openvino"].differs
    assert by_name["phone"].differs[0] == "answers: from a file"
    assert by_name["phone"].differs[1].endswith("→ Core ML (declared)")
    assert (by_name["int8"].size or 0) < (by_name["strobe-world"].size or 0)
    assert (by_name["openvino"].frames_per_second or 0) > 0


def test_openvino_gives_the_answers_of_onnx_runtime(forms: dict[str, FormScore]) -> None:
    assert forms["openvino"].pair["changed"].count == 0


def test_the_figures_are_those_of_the_columns_and_of_the_accuracies(folder: Path, forms: dict[str, FormScore]) -> None:
    run, dataset = Run(folder / "run"), strobe.load_dataset(folder / "world")
    answers = {model.name: model.load() for model in run.models(dataset)}
    columns = FormPair(Plan(dataset, ScoreOptions()), answers["strobe-world"], answers["phone"]).columns
    phone = forms["phone"]
    assert {name: one.value for name, one in columns.items()} == {name: one.value for name, one in phone.pair.items()}
    rows = np.unique(dataset.sets.frame, return_index=True)[1]
    right = {name: dataset.right_rows(answers[name].label)[rows].mean() for name in ("strobe-world", "phone")}
    gap = (phone.pair["positive_flips"].value or 0) - (phone.pair["negative_flips"].value or 0)
    assert gap == pytest.approx(right["phone"] - right["strobe-world"])
    assert sum(one.negative for one in phone.flips if one.by == "class") == phone.pair["negative_flips"].count


def test_the_tables_and_the_page_show_them(folder: Path) -> None:
    rows = list(csv.DictReader((folder / "run" / "tables" / "forms.csv").read_text().splitlines()))
    assert [row["model"] for row in rows] == ["strobe-world", "openvino", "int8", "int8 openvino", "phone"]
    assert float(rows[1]["negative_flips"]) == 0
    assert (folder / "run" / "tables" / "form_flips.csv").is_file()
    page = (folder / "run" / "report.html").read_text()
    assert "What changes when it ships" in page
    assert "Which frames? phone against strobe-world" in page
    assert "openvino gives the same answer as strobe-world on all" in page


def test_scoring_again_changes_nothing(folder: Path) -> None:
    before = (folder / "run" / "tables" / "forms.csv").read_bytes()
    score_run(folder / "run", ScoreRunOptions(), Silent())
    assert (folder / "run" / "tables" / "forms.csv").read_bytes() == before


def test_the_quantised_file_depends_on_the_seed_alone(folder: Path, tmp_path: Path) -> None:
    dataset = strobe.load_dataset(folder / "world")
    again = strobe.quantise("strobe-world", dataset, tmp_path / "again.onnx", frames=20, seed=1)
    assert again.read_bytes() == (folder / "int8.onnx").read_bytes()
    assert drawn_frames(dataset, frames=20, seed=1).tolist() != drawn_frames(dataset, frames=20, seed=2).tolist()
    assert len(drawn_frames(dataset, frames=10**6, seed=1)) == len(np.unique(dataset.sets.frame))


def test_what_cannot_be_quantised_is_one_line(folder: Path, tmp_path: Path) -> None:
    dataset = strobe.load_dataset(folder / "world")
    load = LoadOptions(label_space=dataset.info.label_space, backend="torch")
    with pytest.raises(StrobeError, match="only ONNX files and bundled classifiers"):
        quantise("strobe-world", dataset, tmp_path / "a.onnx", frames=2, seed=0, load=load, progress=Silent())
    with pytest.raises(StrobeError, match=r"ends in \.onnx"):
        strobe.quantise("strobe-world", dataset, tmp_path / "a.bin")


def test_a_form_that_is_no_table_of_texts_is_one_line(folder: Path, tmp_path: Path) -> None:
    row = {"model": f"preds:{folder / 'phone.json'}", "form": {"precision": 8}}
    with pytest.raises(StrobeError, match="expected a table of texts"):
        strobe.evaluate(folder / "world", [row], tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "match"), [({"precision": "float16"}, "float32 or bfloat16"), ({"device": "cuda"}, "only on the CPU")]
)
def test_openvino_refuses_what_it_cannot_do(folder: Path, settings: dict[str, str], match: str) -> None:
    with pytest.raises(StrobeError, match=match):
        strobe.load_model(f"onnx:{folder / 'int8.onnx'}", running=strobe.Running(backend="openvino", **settings))


def test_gate_and_compare_count_what_changes(folder: Path, forms: dict[str, FormScore], command: Command) -> None:
    phone = forms["phone"]
    run, share = folder / "run", 100 * (phone.pair["negative_flips"].value or 0)
    for limit, ends in ((share - 0.1, (1, "FAILED")), (share + 0.1, (0, "passed"))):
        code, out, _ = command("gate", run, "-m", "phone", "--max", f"negative_flips={limit:.3f}", "-q")
        assert (code, f"  {ends[1]}  negative_flips at most" in out, f"{share:.1f} [" in out) == (ends[0], True, True)
    for words in (
        ("strobe-world", "--max", "negative_flips=1"),
        ("phone", "--baseline", "int8", "--max-loss", "changed=1"),
    ):
        code, _, error = command("gate", run, "-m", *words, "-q")
        assert code == 2
        assert "is a change from one baseline; use --max" in error
    code, out, _ = command("compare", run, "-m", "strobe-world", "-m", "phone", "-q")
    assert code == 0
    assert "phone gives another answer than strobe-world on" in out
    assert " were right and are now wrong" in out


def test_frames_that_one_form_did_not_answer_decide_nothing(folder: Path, command: Command, tmp_path: Path) -> None:
    phone = json.loads((folder / "phone.json").read_text())
    phone["predictions"] = dict(list(phone["predictions"].items())[5:])
    (tmp_path / "half.json").write_text(json.dumps(phone))
    words = ("-m", "strobe-world", "-m", f"half=preds:{tmp_path / 'half.json'}", "--allow-missing", "--no-report", "-q")
    assert command("eval", folder / "world", *words, "-o", tmp_path / "run")[0] == 0
    limit = ("--max", "changed=99", "--allow-missing", "-q")
    code, out, _ = command("gate", tmp_path / "run", "-m", "half", *limit)
    assert (code, "inconclusive, 1 set lacks predictions" in out) == (3, True), out


def test_every_form_is_compared_with_the_reference_once(folder: Path, command: Command) -> None:
    _, out, _ = command("compare", folder / "run", "-q")
    lines = [line for line in out.splitlines() if " the same answer as " in line or " another answer than " in line]
    assert len(lines) == 4
    assert all(" strobe-world on " in line for line in lines)
