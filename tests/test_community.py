"""What others need to carry the project on: the files are there, well formed, and say what the project says."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from matrix import bounds, release, requirements
from project_files import files, project_files
from refuse_large_files import main as refuse

ROOT = Path(__file__).parents[1]
yaml = pytest.importorskip("yaml")
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_citation_says_what_the_package_says() -> None:
    cited = read("CITATION.cff")
    assert (cited["version"], cited["license"]) == (PROJECT["version"], PROJECT["license"])
    assert cited["cff-version"] == "1.2.0"
    assert cited["authors"] == PROJECT["authors"]
    assert cited["keywords"] == PROJECT["keywords"]
    for paper in cited["references"]:
        assert paper["title"]
        assert all({"family-names", "given-names"} == set(author) for author in paper["authors"])


def test_the_address_stands_in_one_place() -> None:
    address = SETTINGS["tool"]["strobe"]["repository"]
    assert re.fullmatch(r"(https://[\w.-]+/[\w./-]*[\w-])?", address), "an address, or none yet; never a placeholder"
    assert "OWNER" not in address
    assert "urls" in PROJECT["dynamic"], "and no second one"
    for path in project_files():
        if path.suffix in (".md", ".cff", ".yml", ".yaml", ".toml", ".txt", ".in"):
            said = bool(address) and address in path.read_text(encoding="utf-8")
            assert not said or path.name == "pyproject.toml", f"{path.relative_to(ROOT)} holds the repository's address"


def test_the_constraints_hold_what_is_declared() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)$", text, re.MULTILINE))
    for name, bound in bounds([line for line in requirements(["dev"]) if "Windows" not in line]).items():
        plain = re.sub(r"[-_.]+", "-", name).lower()
        assert plain in pinned, f"constraints.txt lacks {name}: make constraints"
        assert release(pinned[plain]) >= release(bound), f"constraints.txt: {name} {pinned[plain]}, below {bound}"


def test_the_workflow_runs_commands_that_are_there() -> None:
    flow = read(".github/workflows/tests.yml")
    assert set(flow) == {"name", True, "permissions", "concurrency", "jobs"}  # YAML reads `on` as true
    supported = {line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert set(flow["jobs"]["test"]["strategy"]["matrix"]["python"]) == supported
    commands = [step["run"] for job in flow["jobs"].values() for step in job["steps"] if "run" in step]
    for command in commands:
        verb, target, *_ = command.split()
        assert verb != "make" or target in TARGETS, command
        for path in re.findall(r"(?:scripts|tests)/[\w/]+\.py", command):
            assert (ROOT / path).is_file(), command
    assert {"make lint", "make test"} <= set(commands)
    assert all(job["timeout-minutes"] <= 90 for job in flow["jobs"].values())


def test_ci_runs_the_commands_of_the_readme_in_their_order() -> None:
    lines = [line for line in (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines() if line.startswith("make")]
    assert lines == ["make lint", "make demo", "make test"]


def test_make_installs_torch_for_the_demos_that_need_it() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    asks = re.compile(r'require\("torch", what="strobe demo (--\w+)"')
    need = {
        name
        for path in [*files("src/strobe/workflows/demo*.py"), *files("src/strobe/annexes/**/*.py")]
        for name in asks.findall(path.read_text())
    }
    listed = re.search(r"^TORCH_DEMOS := (.*)$", makefile, re.MULTILINE)
    assert listed is not None
    assert sorted(listed[1].split()) == sorted(need)
    shown = subprocess.run(["make", "-n", "demo", "DEMO=--training"], cwd=ROOT, capture_output=True, text=True).stdout
    assert "strobe demo --training" in shown


def test_the_readme_is_a_screen_and_a_half_and_the_changelog_a_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 45
    assert len(re.findall(r"^\$ pip install", readme, re.MULTILINE)) <= 4
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split()) <= 1500


def test_the_commit_hooks_call_what_make_lint_calls() -> None:
    hooks = [hook for one in read(".pre-commit-config.yaml")["repos"] for hook in one["hooks"]]
    called = {word.removeprefix(".venv/bin/") for hook in hooks for word in hook["entry"].split()}
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert lint is not None
    assert set(re.findall(r"\$\(BIN\)/([\w-]+)", lint[1])) <= called
    assert all(hook["language"] == "system" for hook in hooks)  # nothing is fetched


def test_large_files_videos_and_secrets_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fine.py").write_text("x = 1\n")
    (tmp_path / "big.bin").write_bytes(bytes(2_000_001))
    (tmp_path / "clip.mp4").write_bytes(b"x")
    (tmp_path / "key.txt").write_text("-----BEGIN " + "PRIVATE KEY-----")
    assert refuse([str(tmp_path / "fine.py"), str(tmp_path / "gone.py")]) == 0
    assert refuse([str(path) for path in sorted(tmp_path.iterdir())]) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.rpartition("/")[2].partition(":")[0] for line in said] == ["big.bin", "clip.mp4", "key.txt"]


def test_nothing_of_the_kind_is_in_the_repository() -> None:
    assert refuse([str(path) for path in project_files()]) == 0


def test_the_source_archive_takes_what_is_named() -> None:
    for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines():
        verb, *names = line.split()
        if verb in ("include", "graft"):
            for name in names:
                assert (ROOT / name).exists(), f"MANIFEST.in names {name}, which is not there"
