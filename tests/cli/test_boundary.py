"""Whatever goes wrong inside a command ends in one line and an exit code; the traceback only where it is asked for."""

import errno

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
    line = "strobe: /data/in/run.json: no permission; ask its owner, or name another place\n"
    assert ended(["doctor"], capsys) == (2, line)
    raising(OSError(errno.ENOSPC, "No space left on device"))
    assert ended(["doctor"], capsys)[1].startswith("strobe: the disk is full; ")
    raising(FileNotFoundError(errno.ENOENT, "No such file or directory", "x"))
    assert ended(["doctor"], capsys)[0] == 70, "that we could have looked for"


@pytest.mark.parametrize(
    "words", ["inspect {}", "score {}", "report {}", "compare {}", "export {} coco out", "synthesize {}"]
)
def test_a_name_the_system_does_not_take(words, capsys):
    code, said = ended(words.format("x" * 300).split(), capsys)
    assert code == 2
    assert said.startswith("strobe: xxxx")
    assert said.endswith(": the name is too long; name another place\n")


def test_interrupt_stays_130(raising, capsys, monkeypatch):
    def leave(code):
        raise SystemExit(code)

    monkeypatch.setattr(cli_main.os, "_exit", leave)
    raising(KeyboardInterrupt())
    assert ended(["doctor"], capsys)[0] == 130


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
