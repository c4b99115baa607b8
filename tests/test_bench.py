"""`make bench`: ratios beside the recorded ones, a line and exit code 1 if one fell by more than a tenth."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script with two benchmarks of its own, which print their figure, and an empty record."""
    spec = importlib.util.spec_from_file_location("bench_script", ROOT / "scripts" / "bench.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "bench_script", script)
    spec.loader.exec_module(script)
    (tmp_path / "one.py").write_text("import pathlib\nprint(pathlib.Path(__file__).with_suffix('.txt').read_text())\n")
    (tmp_path / "one.txt").write_text("ratio: 50×\nover: 4\n")
    words = (str(tmp_path / "one.py"),)
    script.BENCHES = {
        "fast": script.Bench(words, r"^ratio: ([\d.]+)×"),
        "slow": script.Bench(words, r"^over: ([\d.]+)", over=True),
    }
    script.RECORDED = tmp_path / "recorded.json"
    script.PAGE = tmp_path / "performance.md"
    script.PAGE.write_text("# Page\n\n| benchmark | ratio | machine |\n|---|---|---|\n| old | 1 | 2 cores |\n\nEnd\n")
    return script


def test_a_ratio_that_falls_by_more_than_a_tenth_fails(
    bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["--record"]) == 0
    recorded = json.loads(bench.RECORDED.read_text())
    assert {name: one["ratio"] for name, one in recorded.items()} == {"fast": 50.0, "slow": 0.25}
    assert all(one["machine"] and one["date"] for one in recorded.values())
    assert bench.PAGE.read_text() == f"# Page\n\n{bench.table(recorded)}\n\nEnd\n"
    (tmp_path / "one.txt").write_text("ratio: 45.5×\nover: 4.3\n")
    assert bench.main([]) == 0
    assert "fell" not in capsys.readouterr().out
    (tmp_path / "one.txt").write_text("ratio: 44×\nover: 4.6\n")
    assert bench.main(["--only", "fast"]) == 1
    assert bench.main([]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("fell")]
    assert lines[0] == "fell by more than a tenth: fast: 44 now, 50 recorded (12 % lower)"
    assert lines[2] == "fell by more than a tenth: slow: 0.217 now, 0.25 recorded (13 % lower)"
    assert json.loads(bench.RECORDED.read_text()) == recorded, "only --record writes"


def test_a_benchmark_without_a_figure_is_an_error(bench: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("nothing\n")
    with pytest.raises(SystemExit, match="printed no ratio"):
        bench.main([])


def test_every_recorded_ratio_belongs_to_a_benchmark() -> None:
    names = json.loads((ROOT / "benchmarks" / "recorded.json").read_text(encoding="utf-8"))
    text = (ROOT / "scripts" / "bench.py").read_text(encoding="utf-8")
    table = (ROOT / "benchmarks" / "gpu_table.py").read_text(encoding="utf-8")
    for name, recorded in names.items():
        if recorded["machine"].startswith("GPU"):
            work, _, rest = name.partition(": ")
            peer = rest.partition(", against ")[2]
            assert work.partition(" (")[0] in table, name
            assert f'"{peer}"' in table, name
        else:
            assert f'"{name}": Bench(' in text


def test_the_page_shows_every_recorded_ratio(bench: ModuleType) -> None:
    recorded = json.loads((ROOT / "benchmarks" / "recorded.json").read_text(encoding="utf-8"))
    assert bench.table(recorded) in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8"), "run make docs"
