"""Nothing a user can measure moves: the golden files (tests/golden) read, written, scored and predicted again.

Through the command line, the public names and the files alone, so that what lies between may be moved freely.
"""

import hashlib
import importlib.util
import json
import platform
import re
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import strobe
from strobe.cli.main import main

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
MADE = json.loads((GOLDEN / "made.json").read_text(encoding="utf-8"))
RUNS = MADE["runs"]
MOVED = json.loads((GOLDEN / "moved.json").read_text(encoding="utf-8"))
"""Figures that moved on purpose since the golden files were made: why, in which runs, and their paths in full."""
RUN_HERE = [name for name, about in RUNS.items() if any(model.startswith("py:") for model in about["models"])]


def _script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, HERE.parent / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


comparer = _script("compare_results")


def _as_made() -> bool:
    """Whether the libraries are those the golden files were made with: then bytes and last digits must agree too."""
    here = {name: metadata.version(name) for name in ("numpy", "scipy", "pyarrow")}
    return bool(here | {"machine": platform.machine()} == MADE["versions"])


def _differences(before: Path, after: Path, *ignore: str) -> list[str]:
    # Other versions of numpy and scipy round the last digits of logarithms and quantiles differently.
    rules = comparer.Rules(ignore=ignore, digits=None if _as_made() else 9)
    found = comparer.compare(comparer.content(before), comparer.content(after), rules, comparer.Found())
    assert found.n_compared > 100
    _leave_out_moved(found, before.name)
    return [] if found.same() else list(comparer.report(found))


def _leave_out_moved(found: Any, run: str) -> None:
    """Take what moved on purpose out of the differences; everything else stays."""
    paths = [
        re.compile(path + r"(: .*)?", re.DOTALL) for part in MOVED if run in part["runs"] for path in part["paths"]
    ]
    for lines in (found.differ, found.only_before, found.only_after):
        lines[:] = [line for line in lines if not any(path.fullmatch(line) for path in paths)]


def _strobe(*words: str | Path) -> None:
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    assert left.value.code == 0


@pytest.fixture
def golden_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of models and files are as they were typed: relative to the golden folder."""
    monkeypatch.chdir(GOLDEN)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def _copies(name: str, tmp_path: Path) -> tuple[Path, Path]:
    """The run and its dataset, where they can be written to."""
    dataset = shutil.copytree(GOLDEN / "datasets" / RUNS[name]["dataset"], tmp_path / "dataset")
    return shutil.copytree(GOLDEN / "runs" / name, tmp_path / "run"), dataset


# -- datasets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MADE["datasets"])
def test_dataset_reads_and_its_digests_stay(name):
    dataset = strobe.load_dataset(GOLDEN / "datasets" / name, reviewed=False)
    assert {"digest": dataset.digest(), "frames_digest": dataset.frames_digest()} == MADE["datasets"][name]


def _take_checked(path: Path) -> dict[str, str]:
    """Take out what older versions did not write: the digests of what was checked."""
    content = json.loads(path.read_text(encoding="utf-8"))
    checked = content.pop("checked")
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return {name: checked[name] for name in ("digest", "frames_digest")}


@pytest.mark.parametrize("name", MADE["datasets"])
def test_dataset_written_again_is_the_same(name, tmp_path):
    before = GOLDEN / "datasets" / name
    after = strobe.save_dataset(strobe.load_dataset(before, reviewed=False), tmp_path / "again")
    voted = {"digest": ""} if (before / "verdicts.parquet").is_file() else {}  # the whole grows with votes
    assert _take_checked(after / "dataset.json") == MADE["datasets"][name] | voted
    assert _differences(before, after) == []
    assert json.loads((after / "dataset.json").read_text(encoding="utf-8"))["schema"] == 1
    tables = sorted(path.name for path in before.glob("*.parquet"))
    sealed = ["digests.json"] if voted else []  # newer than the golden files
    assert sorted(path.name for path in after.iterdir()) == sorted([*tables, "dataset.json", *sealed])
    for table in tables:
        assert pq.read_schema(after / table).equals(pq.read_schema(before / table))
        assert pq.read_table(after / table).to_pylist() == pq.read_table(before / table).to_pylist()
    if _as_made():
        for file in (*tables, "dataset.json"):
            assert (after / file).read_bytes() == (before / file).read_bytes(), file


# -- runs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.usefixtures("golden_folder")
def test_run_scored_again_gives_every_figure(name, tmp_path):
    run, dataset = _copies(name, tmp_path)
    (run / "results.json").unlink()
    shutil.rmtree(run / "tables")
    _strobe("score", run, "--dataset", dataset, *RUNS[name]["score"], *MADE["always"])
    assert _differences(GOLDEN / "runs" / name, run) == []


def _stamps(run: Path) -> dict[str, int]:
    """When each shard was written, by its name without the digest that shards have got since."""
    files = run.glob("predictions/*/*.parquet")
    return {f"{path.parent.name}/{path.name.partition('.')[0]}": path.stat().st_mtime_ns for path in files}


@pytest.mark.parametrize("name", RUN_HERE)
@pytest.mark.usefixtures("golden_folder")
def test_stored_predictions_are_used_and_not_made_again(name, tmp_path, capsys):
    run, dataset = _copies(name, tmp_path)
    shards = _stamps(run)
    kept = {len(comparer.rows_of([path])) for path in run.glob("predictions/*/*.parquet")}
    models = [model for model in RUNS[name]["models"] if model.startswith("py:")]
    _strobe("predict", dataset, *(word for model in models for word in ("-m", model)), "-o", run, "--json")
    said = json.loads(capsys.readouterr().out)
    assert list(said) == models
    for one in said.values():
        assert one["frames"]["new"] == 0
        assert {one["frames"]["kept"]} == kept
    assert _stamps(run) == shards
    assert _differences(GOLDEN / "runs" / name, run) == []


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.usefixtures("golden_folder")
def test_run_made_anew_is_the_same(name, tmp_path):
    about = RUNS[name]
    dataset = shutil.copytree(GOLDEN / "datasets" / about["dataset"], tmp_path / "dataset")
    models = [word for model in about["models"] for word in ("-m", model)]
    more = ["--no-report"] if about["verb"] == "eval" else []
    run = tmp_path / "run"
    _strobe(about["verb"], dataset, *models, "-o", run, *about["bring"], *about["score"], *MADE["always"], *more)
    # Why a frame could not be read names the file with its whole path.
    assert _differences(GOLDEN / "runs" / name, run, "error") == []
    for path in run.glob("predictions/*/*.parquet"):
        of_old = path.relative_to(run).with_name(f"{path.name.partition('.')[0]}.parquet")  # without its digest
        before = GOLDEN / "runs" / name / of_old
        schema = pq.read_schema(path)
        said = dict(schema.metadata)
        assert said.pop(b"strobe.device") == b"cpu", "what a shard was made on is said, and was not then"
        assert schema.with_metadata(said).equals(pq.read_schema(before), check_metadata=True)
        failed = [[row["error"] is None for row in comparer.rows_of([one])] for one in (before, path)]
        assert failed[0] == failed[1]


def test_the_models_file_is_as_it_was():
    weights = json.loads(next(GOLDEN.glob("runs/video-py/predictions/*logits*/model.json")).read_text())["weights"]
    of_file = hashlib.sha256((GOLDEN / "models.py").read_bytes()).hexdigest()
    assert hashlib.sha256(of_file.encode()).hexdigest() == weights


# -- the comparer --------------------------------------------------------------------------------------------------


def _mutated(tmp_path: Path, name: str, change: Any) -> Path:
    run = shutil.copytree(GOLDEN / "runs" / name, tmp_path / "mutated")
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    change(results["models"]["third"])
    (run / "results.json").write_text(json.dumps(results), encoding="utf-8")
    return run


def test_comparer_names_a_figure_that_moved_in_its_twelfth_digit(tmp_path, capsys):
    def change(model):
        model["curve"][3]["acc"]["low"] += 1e-12

    before, after = GOLDEN / "runs" / "video-py", _mutated(tmp_path, "video-py", change)
    assert comparer.main([str(before), str(before)]) == 0
    assert " 0 differ, 0 only before, 0 only after" in capsys.readouterr().out
    assert comparer.main([str(before), str(after)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("results.models.third.curve[3].acc.low: 0.")
    assert " → 0." in lines[0]
    assert len(lines) == 2
    assert " 1 differ, " in lines[1]
    assert comparer.main([str(before), str(after), "--ignore", "low"]) == 0
    files = [str(folder / "results.json") for folder in (before, after)]
    assert comparer.main(files) == 1
    assert comparer.main([*files, "--ignore", "models.third.curve[3].acc.low"]) == 0


def test_comparer_tells_missing_keys_from_figures_that_differ(tmp_path, capsys):
    def change(model):
        model["news"] = {"a": 1}
        del model["flip_rate"]
        model["curve"].pop()

    before, after = GOLDEN / "runs" / "video-py", _mutated(tmp_path, "video-py", change)
    assert comparer.main([str(before), str(after)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "only before: results.models.third.curve[4]",
        "only before: results.models.third.flip_rate",
        "only after: results.models.third.news",
    ]
    assert " 0 differ, 2 only before, 1 only after" in lines[3]
    assert comparer.main([str(before), str(after), "--allow-new", "--ignore", "flip_rate", "curve"]) == 0


def test_comparer_reads_tables_and_shards(tmp_path, capsys):
    before = GOLDEN / "runs" / "boxes-py"
    after = shutil.copytree(before, tmp_path / "run")
    shard = next(after.glob("predictions/*/*.parquet"))
    table = pq.read_table(shard)
    pq.write_table(table.slice(0, 10), shard)
    pq.write_table(table.slice(10), shard.with_name(shard.name.replace("00000000-", "00000010-")))
    assert comparer.main([str(before), str(after)]) == 0  # the same rows, spread over two shards
    rows = table.to_pylist()
    rows[0]["score"][0] += 1e-15
    pq.write_table(table.from_pylist(rows[:10], schema=table.schema), shard)
    curve = after / "tables" / "detection_curve.csv"
    curve.write_text(curve.read_text(encoding="utf-8").replace("py:models.py:blobs,0,", "py:models.py:blobs,00,", 1))
    capsys.readouterr()
    assert comparer.main([str(before), str(after)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("tables.detection_curve[0].k: ")
    assert lines[1].startswith("predictions.py-models.py-blobs-")
    assert ".frames.box0:0.score[0]: 0." in lines[1]
    assert len(lines) == 3


def test_comparer_reads_dataset_folders(tmp_path, capsys):
    before = GOLDEN / "datasets" / "votes"
    after = shutil.copytree(before, tmp_path / "votes")  # without digests.json
    rows = pq.read_table(after / "verdicts.parquet")
    pq.write_table(rows.take(list(range(len(rows)))[::-1]), after / "verdicts.parquet")
    assert comparer.main([str(before), str(after)]) == 0  # in another order
    changed = rows.to_pylist()
    changed[5]["decision"] = "unsure"
    pq.write_table(rows.from_pylist(changed, schema=rows.schema), after / "verdicts.parquet")
    capsys.readouterr()
    assert comparer.main([str(before), str(after)]) == 1
    assert capsys.readouterr().out.startswith("tables.verdicts.vote-0005.decision: ")


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [(1, 1.0, True), (True, 1, False), (None, 0, False), (0.1 + 0.2, 0.3, False), (float("nan"), float("nan"), True),
     (float("nan"), 1.0, False), ([], {}, False), ("1", 1, False)],
)  # fmt: skip
def test_comparer_on_single_values(before, after, same):
    assert comparer.compare(before, after, comparer.Rules(), comparer.Found()).same() is same
