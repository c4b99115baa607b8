"""Whatever goes wrong inside a command ends in one line and an exit code; the traceback only where it is asked for."""

import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from strobe.cli import main as cli_main
from strobe.cli.common import PlainProgress
from strobe.core.errors import StrobeError


@pytest.fixture
def raising(monkeypatch):
    """raising(error) makes `strobe doctor` raise it."""

    def make(error):
        @click.command()
        def command():
            raise error

        monkeypatch.setattr(cli_main, "load", lambda reference: command)

    monkeypatch.delenv("STROBE_DEBUG", raising=False)
    return make


def ended(words, capsys):
    with pytest.raises(SystemExit) as end:
        cli_main.main(words)
    return end.value.code, capsys.readouterr().err


def test_the_unexpected_is_one_line_and_70(raising, capsys):
    raising(RuntimeError("the\nwheel came off"))
    code, said = ended(["doctor"], capsys)
    assert code == 70
    assert said.startswith("strobe: RuntimeError: the wheel came off. This is a bug in strobe")
    assert said.count("\n") == 1
    assert "--debug" in said


@pytest.mark.parametrize("words", [["--debug", "doctor"], ["doctor", "--debug"]])
def test_debug_shows_where(words, raising, capsys):
    raising(RuntimeError("the wheel came off"))
    code, said = ended(words, capsys)
    assert code == 70
    assert said.startswith("Traceback (most recent call last):")
    assert said.splitlines()[-1].startswith("strobe: RuntimeError: the wheel came off")


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False), ("", False)])
def test_debug_by_environment(value, shown, raising, capsys, monkeypatch):
    monkeypatch.setenv("STROBE_DEBUG", value)
    raising(RuntimeError("the wheel came off"))
    code, said = ended(["doctor"], capsys)
    assert code == 70
    assert ("Traceback" in said) == shown


def test_what_the_user_can_mend_stays_2(raising, capsys):
    raising(StrobeError("no such folder"))
    assert ended(["doctor"], capsys) == (2, "strobe: no such folder\n")
    code, said = ended(["doctor", "--debug"], capsys)
    assert code == 2
    assert "Traceback" in said


def test_no_memory_is_no_bug(raising, capsys):
    raising(MemoryError())
    code, said = ended(["doctor"], capsys)
    assert code == 2
    assert "not enough memory" in said


def test_what_the_system_refuses_is_no_bug(raising, capsys):
    """Found by the fuzzer and by a look as another user than root: folders of others were called a bug in strobe."""
    raising(PermissionError(errno.EACCES, "Permission denied", "/data/in/run.json"))
    line = "strobe: /data/in/run.json: no permission; ask its owner, or choose another location\n"
    assert ended(["doctor"], capsys) == (2, line)
    raising(OSError(errno.ENOSPC, "No space left on device"))
    assert ended(["doctor"], capsys)[1].startswith("strobe: the disk is full; ")
    raising(FileNotFoundError(errno.ENOENT, "No such file or directory", "x"))
    assert ended(["doctor"], capsys)[0] == 70, "that we could have looked for"


def test_packages_that_do_not_fit_are_no_bug(raising, capsys):
    """An old NumPy, kept for an old torch, beside a new pyarrow."""
    raising(ImportError("pyarrow requires NumPy 2.0 or newer, found 1.26.4"))
    code, said = ended(["doctor"], capsys)
    assert code == 2
    assert said.startswith("strobe: pyarrow requires NumPy 2.0 or newer, found 1.26.4: a package is missing or ")
    raising(ImportError("cannot import name 'x' from 'strobe.core'", name="strobe.core"))
    assert ended(["doctor"], capsys)[0] == 70


@pytest.mark.parametrize(
    "words", ["inspect {}", "score {}", "report {}", "compare {}", "export {} coco out", "synthesize {}"]
)
def test_a_name_the_system_does_not_take(words, capsys):
    code, said = ended(words.format("x" * 300).split(), capsys)
    assert code == 2
    assert said.startswith("strobe: xxxx")
    assert said.endswith(": the name is too long; choose a shorter one\n")


@pytest.fixture
def leaving(monkeypatch):
    """What Ctrl-C does while the command ends for one: it ends by SystemExit here, and the signal is heard again."""
    while_leaving, usual = [], signal.getsignal(signal.SIGINT)

    def leave(code):
        while_leaving.append(signal.getsignal(signal.SIGINT))
        raise SystemExit(code)

    monkeypatch.setattr(cli_main.os, "_exit", leave)
    yield while_leaving
    signal.signal(signal.SIGINT, usual)


def test_interrupt_stays_130_however_often_it_comes_and_whatever_becomes_of_it(monkeypatch, capsys, leaving):
    @click.command()
    def raised():
        signal.raise_signal(signal.SIGINT)

    @click.command()
    def lost():  # as by matplotlib, where it comes while a box is made an array
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise ValueError("Invalid bounding box")

    for command in (raised, lost):
        monkeypatch.setattr(cli_main, "load", lambda _, command=command: command)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code, said = ended(["doctor"], capsys)
        assert code == 130
        assert said.strip() == "strobe: interrupted; finished work is kept, run the same command again to resume"
    assert leaving == [signal.SIG_IGN] * 2


def test_an_interrupt_of_an_earlier_command_is_not_this_ones(monkeypatch, raising, capsys, leaving):
    @click.command()
    def raised():
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(cli_main, "load", lambda _: raised)
    assert ended(["doctor"], capsys)[0] == 130
    raising(RuntimeError("the wheel came off"))
    assert ended(["doctor"], capsys)[0] == 70, "in a program that ignores Ctrl-C by now"


def test_version_without_an_installation(monkeypatch, capsys):
    monkeypatch.setattr(cli_main, "installed_version", lambda: None)
    with pytest.raises(SystemExit) as end:
        cli_main.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == "strobe (not installed)\n"


def test_plain_progress_does_not_say_its_last_line_twice(capsys):
    for first_s in (0.0, 1e9):  # said as it was done, or only at the end
        with PlainProgress(first_s=first_s).task("frames", 7) as tick:
            tick(7)
        assert capsys.readouterr().err.count("frames: 7/7") == 1


LOADED_AFTER = """
import ctypes, sys
from strobe.cli.main import main
try:
    main(["--version"])
finally:
    ctypes.CDLL(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("set_by_user", "spins"), [({}, "3000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "passive"}, "0")]
)
def test_threads_of_torch_that_wait_sleep_soon_unless_the_user_has_said_how(set_by_user, spins):
    torch = find_spec("torch")
    libraries = sorted((Path(torch.origin).parent / "lib").glob("libgomp*.so*")) if torch and torch.origin else []
    if not libraries:
        pytest.skip("no torch here with GNU's OpenMP")
    env = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    command = [sys.executable, "-c", LOADED_AFTER, str(libraries[0])]
    told = env | {"OMP_DISPLAY_ENV": "verbose"} | set_by_user
    done = subprocess.run(command, capture_output=True, text=True, env=told, check=True)
    assert f"GOMP_SPINCOUNT = '{spins}'" in done.stderr
