"""`strobe predict` on a `kserve:` model, end to end: the same answers as the file in process, and faults on the way."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from v2_server import V2Server

from strobe.cli.main import main
from strobe.store import dataset_folder
from strobe.store.run_folder import Run


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve short videos of the synthetic world."""
    folder = tmp_path_factory.mktemp("run") / "data"
    assert _strobe("synthesize", folder, "--videos", 12, "--k", 2, "--size", 64) == 0
    return folder


def _strobe(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def _answers(data: Path, run: Path) -> Any:
    (model,) = Run(run).models(dataset_folder.read(data))
    return model.load()


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_a_run_equals_the_run_of_the_file(
    served: Path, data: Path, tmp_path: Path, binary: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with V2Server({"world": served / "world.onnx"}, binary=binary, announces=False) as server:
        server.faults = {"503"}  # the first request of the load
        model = f"kserve:world@{server.url}"
        words = ("predict", data, "-m", model, "--model-settings", served / "world.json", "-o", tmp_path / "far")
        assert _strobe(*words, "--limits", "concurrency=4") == 0
        estimated, sent = (
            float(re.search(pattern, text)[1])  # type: ignore[index]
            for pattern, text in zip(
                (r"about ([\d.]+) MB", r"([\d.]+) MB sent"), reversed(capsys.readouterr()), strict=True
            )
        )
        assert estimated == pytest.approx(sent, rel=0.1)
        n_before = server.infers()
        assert sum(server.batches) - server.batches[0] >= 60, "every frame was sent"
        assert _strobe(*words) == 0
        assert server.infers() - n_before <= 2, "the second time, only a blank image is sent"
    assert _strobe("predict", data, "-m", f"onnx:{served / 'world.onnx'}", "-o", tmp_path / "near") == 0
    far, near = _answers(data, tmp_path / "far"), _answers(data, tmp_path / "near")
    assert far.scored.all()
    assert len(far.scored) == 60
    np.testing.assert_array_equal(far.label, near.label)
    np.testing.assert_array_equal(np.asarray(far.scores[:]), np.asarray(near.scores[:]))
    facts = json.loads((tmp_path / "far/run.json").read_text())["models"][model]
    assert f"{'binary' if binary else 'JSON'} tensors" in json.dumps(facts["preprocessing"])


def test_a_service_that_changes_its_shape_ends_the_model_in_one_line(
    served: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with V2Server({"world": served / "world.onnx"}) as server:
        server.faults = {"width"}
        words = ("predict", data, "-m", f"kserve:world@{server.url}", "--model-settings", served / "world.json")
        assert _strobe(*words, "-o", tmp_path / "bad") == 2
        said = "".join(capsys.readouterr())
        assert ", 11], but it announced [?, 12]" in said
        assert "Traceback" not in said
        assert not (tmp_path / "bad").exists()
        server.faults = set()
        server.later = {"nan"}  # after the load
        assert _strobe(*words, "-o", tmp_path / "bad") == 2
        said = "".join(capsys.readouterr())
        assert "its output scores contains NaN" in said
        assert server.infers() <= 12, "the model ends at once"
