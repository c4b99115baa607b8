"""action.yml, run step by step as a CI server would: one comment per pull request, pictures, and exit codes."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from made_unlabelled import CALM, MODELS, clip

pytest.importorskip("av")

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
GH = """\
#!/bin/sh
# Stands for GitHub: comments are files in $COMMENTS, and a request is a line in requests.
echo "$@" >> "$COMMENTS/requests"
for word in "$@"; do case $word in body=@*) body=${word#body=@};; esac; done
case "$*" in
  *PATCH*) cp "$body" "$COMMENTS/7.md";;
  *body=*) cp "$body" "$COMMENTS/7.md";;
  *) if [ -f "$COMMENTS/7.md" ]; then echo 7; fi;;
esac
"""


def _filled(text: str, known: dict[str, str]) -> str:
    """Return a text with its expressions replaced; what is unknown is empty, as on the server."""
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: known.get(found[1], ""), text)


class Server:
    """Runs the steps of the action in a repository with two clips, as a pull request that commits `sha`."""

    def __init__(self, root: Path) -> None:
        self.root, self.work = root, root / "work"
        (root / "bin").mkdir(parents=True)
        for name, text in (("gh", GH), ("strobe", f'#!/bin/sh\nexec "{sys.executable}" -m strobe "$@"\n')):
            (root / "bin" / name).write_text(text, encoding="utf-8")
            (root / "bin" / name).chmod(stat.S_IRWXU)
        (root / "comments").mkdir()
        subprocess.run(["git", "init", "-q", "--bare", str(root / "own/model.git")], check=True)
        self.work.mkdir()
        (self.work / "m.py").write_text(MODELS + CALM, encoding="utf-8")
        clip(self.work / "clips/a.mp4", "rrrgrrrrbrrrrrrrrrrr")
        clip(self.work / "clips/b.mp4", "ggggggggggrgggg")

    def run(self, sha: str = "abc", **inputs: str) -> tuple[int, str]:
        """Run every step but the installation; return the exit code of the last and the comment."""
        given = {name: one.get("default", "") for name, one in ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        outputs, code = self.root / "outputs", 0
        outputs.write_text("")
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "COMMENTS": str(self.root / "comments"),
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_STEP_SUMMARY": str(self.root / "summary.md"),
            "GITHUB_SERVER_URL": f"file://{self.root}",
            "GITHUB_REPOSITORY": "own/model.git",
            "GITHUB_SHA": sha,
        }
        for step in ACTION["runs"]["steps"][1:]:
            if step["name"] == "Pictures" and not given["pictures-branch"]:
                continue
            facts = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
            known = {f"inputs.{name}": value for name, value in given.items()}
            known |= {f"steps.compare.outputs.{name}": value for name, value in facts.items()}
            known |= {"github.token": "secret", "github.event.pull_request.number": "5"}
            env = {name: _filled(value, known) for name, value in step.get("env", {}).items()}
            words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(words, cwd=self.work, env={**variables, **env}, capture_output=True, text=True)
            code = done.returncode
            assert code == 0 or step["name"] == "Verdict", done.stdout + done.stderr
        return code, (self.root / "comments/7.md").read_text(encoding="utf-8")

    def requests(self) -> list[str]:
        """Return what was asked of GitHub so far."""
        return (self.root / "comments/requests").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def models(*names: str) -> str:
    return "\n".join(f"{name}=py:m.py:{name}" for name in names) + "\n"


def test_the_first_step_installs_what_it_lies_beside() -> None:
    install: Any = ACTION["runs"]["steps"][0]
    assert install["env"]["STROBE"].startswith("${{ github.action_path }}[")
    assert (ROOT / "pyproject.toml").is_file()


@pytest.mark.slow
def test_a_worse_model_fails_with_one_comment_that_later_runs_replace(server: Server) -> None:
    asked = {"clips": "clips", "models": models("calm", "make"), "against": "calm", "pictures_branch": "frames"}
    code, text = server.run(**asked)
    assert code == 1
    alert = "> [!CAUTION]\n> **make is worse than calm on these 2 clips: changes\\_per\\_second 0.00/s → 4.55/s.**\n"
    assert text.startswith(f"<!-- strobe -->\n### strobe: worse ❌\n\n{alert}")
    assert "| changes_per_second | 0.00/s | 4.55/s | +4.55/s | worse |" in text
    raw = f"file://{server.root}/own/model.git/raw/frames/abc"
    assert re.findall(r"\]\((.*?change.*?)\)", text) == [f"{raw}/change-{number}.jpg" for number in (1, 2)]
    shown = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "frames"], cwd=server.root / "own/model.git", capture_output=True,
        text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert shown == [f"abc/change-{number}.jpg" for number in (1, 2)]
    assert [line for line in server.requests() if "PATCH" in line] == []

    shutil.rmtree(server.work / "strobe-run")
    code, text = server.run(sha="def", **asked | {"models": models("calm"), "against": "same=py:m.py:calm"})
    assert code == 0
    assert text.startswith("<!-- strobe -->\n### strobe: not worse ✅\n\n> [!NOTE]\n")
    assert [line.split("comments/")[1].split()[0] for line in server.requests() if "PATCH" in line] == ["7"]


@pytest.mark.slow
def test_without_a_branch_the_comment_has_no_pictures_and_what_was_not_done_fails(server: Server) -> None:
    code, text = server.run(clips="clips", models=models("calm", "make"), against="calm")
    assert code == 1
    assert "](change-" not in text
    assert "  red → green\n" in text
    code, text = server.run(clips="clips", models=models("none"), against="calm", run="other")
    assert code == 2
    assert "### strobe: not done\n\n> [!CAUTION]\n> There is no verdict." in text


@pytest.mark.slow
def test_an_inconclusive_verdict_fails_unless_it_may_pass(server: Server) -> None:
    settings = 'models = ["calm=py:m.py:calm", "make=py:m.py:make"]\nagainst = "calm"\nfor = "other-videos"\n'
    (server.work / "clips/strobe.toml").write_text(settings, encoding="utf-8")
    code, text = server.run(clips="clips")
    assert code == 3
    assert "### strobe: inconclusive ⚠️\n\n> [!WARNING]\n" in text
    assert server.run(clips="clips", inconclusive="pass")[0] == 0
