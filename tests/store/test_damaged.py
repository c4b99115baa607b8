"""A run folder that was damaged: whatever of it, a line that names the file, or figures; never a traceback."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import strobe
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.ports import Silent
from strobe.core.tasks import Task
from strobe.store.frame_names import FrameNames
from strobe.store.run_folder import Run
from strobe.store.shards import KEY_FACTS, ModelShards
from strobe.workflows.score import ScoreRunOptions, score_dataset, score_run

QUICK = ScoreRunOptions(options=ScoreOptions(bootstrap=False, control_seeds=2))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset and a run with a classifier and a detector that were run here, and a file that was brought."""
    root = tmp_path_factory.mktemp("whole")
    dataset = strobe.example_dataset(n_videos=4, k=1)
    strobe.save_dataset(dataset, root / "data")
    labels = {str(key): int(label) for key, label in zip(dataset.frames.key, dataset.labels.label, strict=True)}
    (root / "m.json").write_text(json.dumps(labels))
    score_dataset(root / "data", [f"preds:{root}/m.json"], root / "run", QUICK, Silent())
    n, frames = len(dataset.frames), FrameNames(dataset)
    facts = dict.fromkeys(KEY_FACTS, "x") | {"kind": "logits", "preprocessing": {}}
    spec = {"kind": "logits", "label_space": dataset.info.label_space.to_json(), "name": "m", "provider": "test"}
    more = {"frames_digest": frames.digest, "label_space": dataset.info.label_space.digest, "spec": spec}
    scores = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32)
    answers = {
        Task.CLASSIFICATION: ClassAnswers.from_scores(
            "m",
            scores,
            kind="logits",
            own_label=np.zeros(n, dtype=np.int32),
            own_confidence=np.ones(n, dtype=np.float32),
        ),
        Task.DETECTION: BoxAnswers.of_frames([None] * n, n_classes=2, reasons=dict.fromkeys(range(n), "no")),
    }
    for task, one in answers.items():
        store = ModelShards(root / "run", task, facts=facts, frames=frames, task=task, n_classes=2)
        store.describe(facts | more)
        store.write(np.arange(n), one)
    return root


def tried(root: Path) -> None:
    """Any StrobeError is a line for the user, any other exception is a failure of ours."""
    for models in ((), ("m",), ("classification",), ("detection",)):
        with suppress(StrobeError):
            score_run(root / "run", ScoreRunOptions(options=QUICK.options, models=models), Silent())


VALUES = (None, 7, -1, "x", [], {}, [1], {"a": 1}, True, 1e300)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"more": [1E400]', "it contains a number that is infinite or NaN"),  # so it could not be written again
        ('"brought_for": {"m": ["0"]}', "brought_for.m: expected text, got ['0']"),
    ],
)
def test_a_run_json_that_is_refused(text: str, said: str, whole: Path, tmp_path: Path) -> None:
    """Cases 1307 and 1624 of seed 1611: `eval` into such a run called it a bug in strobe."""
    shutil.copytree(whole / "run", tmp_path / "run")
    path = tmp_path / "run/run.json"
    path.write_text(path.read_text().rstrip().removesuffix("}") + f", {text}}}")
    with pytest.raises(InvalidFile) as caught:
        Run(tmp_path / "run").about()
    assert str(caught.value) == f"{path}: {said}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.json", "predictions/classification/model.json"])
def test_any_value_of_a_json_file(name: str, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    path = tmp_path / "copy/run" / name
    content = json.loads(path.read_text())
    if name == "run.json":
        content["dataset"]["path"] = str(tmp_path / "copy/data")
    for key in content:
        for value in VALUES:
            path.write_text(json.dumps(content | {key: value}))
            tried(tmp_path / "copy")
    for value in VALUES:
        path.write_text(json.dumps(value))
        tried(tmp_path / "copy")


def _without(name: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.drop_columns([name])


def _as(name: str, value: object) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.column_names.index(name), name, pa.array([value] * len(table)))


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["predictions/classification/*.parquet", "predictions/detection/*.parquet",
                                     "external/*.parquet", "frames/*.parquet"])  # fmt: skip
def test_any_column_of_a_table(pattern: str, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    about = tmp_path / "copy/run/run.json"
    about.write_text(about.read_text().replace(str(whole), str(tmp_path / "copy")))
    path = _undigested(tmp_path / "copy/run", pattern)
    table = pq.read_table(path)
    for name in table.column_names:
        for change in (_without(name), *(_as(name, value) for value in (None, 7, "x", 0.5, [1.0], [[1]], ["x"], -5))):
            pq.write_table(change(table), path)
            tried(tmp_path / "copy")
    pq.write_table(table.slice(0, 0), path)
    tried(tmp_path / "copy")
    path.write_bytes(path.read_bytes()[:-9])
    tried(tmp_path / "copy")


def _copy(whole: Path, place: Path) -> Path:
    shutil.copytree(whole, place)
    about = place / "run/run.json"
    about.write_text(about.read_text().replace(str(whole), str(place)))
    return place / "run"


def _undigested(run: Path, pattern: str) -> Path:
    """The file as versions wrote it that stored no digests."""
    (path,) = run.glob(pattern)
    about = json.loads((run / "run.json").read_text())
    older = {key: value for key, value in about.items() if key not in ("brought_sha256", "sha256")}
    (run / "run.json").write_text(json.dumps(older))
    return path.rename(path.with_name(f"{path.name.partition('.')[0]}.parquet"))


SHARES, NONE = pa.array([[float("nan"), 1.0]], pa.list_(pa.float64(), 2)), pa.array([None], pa.int32())


@pytest.mark.parametrize(
    ("pattern", "column", "values", "says"),
    [
        ("external/*.parquet", "label", pa.array([None], pa.int64()), "label has rows without a value"),
        ("external/*.parquet", "label", pa.array([2], pa.int64()), "has a class number above 1"),
        ("external/*.parquet", "probability", SHARES, "between 0 and 1"),
        ("predictions/classification/*.parquet", "raw_label", NONE, "raw_label has rows without"),
    ],
)  # fmt: skip
def test_numbers_nobody_wrote_are_refused(pattern, column, values, says, whole: Path, tmp_path: Path) -> None:
    """Before, an empty label was read as −2^63 with a warning, and a probability that is none went into the figures."""
    run = _copy(whole, tmp_path / "copy")
    path = _undigested(run, pattern)
    table = pq.read_table(path)
    everywhere = values.take(pa.array([0] * len(table)))
    table = table.drop_columns([column]) if column in table.column_names else table
    pq.write_table(table.append_column(column, everywhere), path)
    name = "m" if "external" in pattern else "classification"
    with pytest.raises(StrobeError, match=says) as caught:
        score_run(run, ScoreRunOptions(options=QUICK.options, models=(name,)), Silent())
    assert path.name in str(caught.value)


def test_a_table_of_millions_of_rows_is_not_read(whole: Path, tmp_path: Path) -> None:
    run = _copy(whole, tmp_path / "copy")
    path = _undigested(run, "external/*.parquet")
    schema = pq.read_schema(path)
    same = pa.array(np.zeros(2_000_000, dtype=np.int8))
    ids = pa.DictionaryArray.from_arrays(same, pa.array(["x" * 5000]))  # 10 GB of text in a few hundred bytes
    table = pa.table({"frame_id": ids, "label": same.cast(pa.int64())}).replace_schema_metadata(schema.metadata)
    pq.write_table(table, path, compression="zstd")
    assert path.stat().st_size < 100_000
    with pytest.raises(StrobeError, match=r"would unpack to 9\.4 GiB, far more than its size"):
        score_run(run, ScoreRunOptions(options=QUICK.options, models=("m",)), Silent())


@pytest.mark.parametrize("name", ["run.json", "predictions/classification/model.json", "external/m.parquet"])
def test_a_pipe_in_a_run_is_not_waited_for(name: str, whole: Path, tmp_path: Path) -> None:
    run = _copy(whole, tmp_path / "copy")
    (run / name).unlink()
    os.mkfifo(run / name)
    with pytest.raises(StrobeError):
        score_run(run, QUICK, Silent())
