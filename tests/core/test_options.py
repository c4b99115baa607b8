"""A field of an option record is the option of commands, the argument in Python, its help and its limits."""

import math
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import click
import pytest
from click.testing import CliRunner

from strobe.build.options import AnchorOptions, CameraOptions, DropRules, Limits
from strobe.cli.common import Grouped, record_options
from strobe.cli.main import COMMANDS, cli
from strobe.core.errors import InvalidValue
from strobe.core.late import load
from strobe.core.options import check_options, documented, option, options_of
from strobe.engine.running import Running
from strobe.workflows.options import BuildOptions, SimulateOptions, TrainOptions


@documented
@dataclass(frozen=True, kw_only=True)
class Sample:
    """An option record."""

    frames: int = option(3, "A number.", least=1, most=9)
    share: float | None = option(None, "A share.", flag="--part", least=0, above=True, rule="above 0")
    kind: Literal["a", "b"] | None = option(None, "A choice.")
    file: Path | None = option(None, "A file.", metavar="FILE")
    names: tuple[str, ...] = option((), "Names.", flag="--name")
    on: bool = option(True, "Usually on.")
    hints: bool = option(True, "No hints.", flag="--no-hints")
    inner: int = 7

    def __post_init__(self) -> None:
        check_options(self)


def _parsed(*words: str) -> tuple[int, Any]:
    @click.command(cls=Grouped)
    @record_options("sample", "Sample", Sample)
    def command(sample: Sample) -> None:
        click.echo(repr(sample))

    done = CliRunner().invoke(command, words)
    return done.exit_code, done.output.strip()


def test_a_record_is_parsed() -> None:
    assert _parsed() == (0, repr(Sample()))
    words = ["--frames", "2", "--part", "0.5", "--kind", "b", "--file", "x", "--name", "p", "--name", "q", "--no-on"]
    made = Sample(frames=2, share=0.5, kind="b", file=Path("x"), names=("p", "q"), on=False, hints=False)
    assert _parsed(*words, "--no-hints") == (0, repr(made))
    assert _parsed("--kind", "c")[0] == _parsed("--frames", "10")[0] == _parsed("--part", "0")[0] == 2
    shown = _parsed("--help")[1]
    assert "--frames INTEGER RANGE" in shown
    assert "1<=x<=9" in shown
    assert "inner" not in shown


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"frames": 0}, "--frames: expected 1 to 9, got 0"),
        ({"frames": 10}, "--frames: expected 1 to 9, got 10"),
        ({"share": 0.0}, "--part: expected above 0, got 0.0"),
        ({"share": math.nan}, "--part: expected above 0, got nan"),
    ],
)
def test_a_record_checks_its_limits(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Sample(**values)
    assert str(caught.value) == message


def test_help_is_the_documentation() -> None:
    assert (Sample.__doc__ or "").startswith("An option record.\n\nArgs:\n    frames: A number.\n    share: A share.\n")
    assert "offline: Download nothing." in (Running.__doc__ or "")


RECORDS: dict[type, list[str]] = {
    Running: ["predict"],
    BuildOptions: ["build"],
    AnchorOptions: ["build"],
    DropRules: ["build"],
    Limits: ["build"],
    CameraOptions: ["simulate"],
    SimulateOptions: ["simulate"],
    TrainOptions: ["train"],
}
if "review" in COMMANDS:
    RECORDS |= {
        load(f"strobe.annexes.web.review.conduct:{name}"): ["review", "serve"]
        for name in ("ServeOptions", "ReviewOptions")
    }


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_commands_and_records_agree(record: type) -> None:
    """Each option of a record is an option of its command, with the same default."""
    command: Any = cli
    for word in RECORDS[record]:
        command = command.get_command(click.Context(command), word)
    params = {param.name: param for param in command.params}
    defaults = {one.name: one.default for one in fields(record) if one.default is not MISSING}
    for name, declared in options_of(record).items():
        param = params[name]
        assert declared.option in param.opts
        assert param.help == declared.help
        if param.callback is None and not param.multiple:
            given = param.get_default(click.Context(command))  # newer versions of click have a sentinel for none
            assert (given if isinstance(given, str | int | float) and given else None) == (defaults[name] or None)
