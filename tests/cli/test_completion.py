"""Shell completion as docs/environment.md sets it up, asked by a real bash."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
source <(_STROBE_COMPLETE=bash_source strobe)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_strobe_completion strobe
printf '%s\\n' "${COMPREPLY[@]}"
complete -p strobe
"""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("ev",), ["eval"]),
        (("export", "data", "csv", "out", "--media", ""), ["none", "copy", "link"]),
        (("export", "data", "hug"), ["huggingface"]),
    ],
)
def test_bash_completes_commands_options_and_choices(words: tuple[str, ...], found: list[str], tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    command = tmp_path / "strobe"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m strobe "$@"\n')
    command.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        [bash, "-c", ASK, "bash", "strobe", *words], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    *replies, registered = done.stdout.splitlines()
    assert replies == found
    assert "-F _strobe_completion strobe" in registered


@pytest.mark.parametrize(
    ("shell", "mark"), [("zsh", "#compdef strobe"), ("fish", "complete --no-files --command strobe")]
)
def test_the_scripts_of_other_shells_are_written(shell: str, mark: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from strobe.cli.main import main; main([])"],
        capture_output=True, text=True, env={**os.environ, "_STROBE_COMPLETE": f"{shell}_source"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert mark in done.stdout
    if other := shutil.which(shell):
        subprocess.run([other, "-n"], input=done.stdout, text=True, check=True)
