"""Groups of options: one record for the command, one heading in its help, nothing imported before it runs."""

import sys
from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from strobe.cli.common import Grouped, options
from strobe.core.errors import InvalidValue, expect


@dataclass(frozen=True, kw_only=True)
class Size:
    """What the flags become."""

    width: int
    high: int

    def __post_init__(self):
        expect(self.width > 0, "width", "more than 0", self.width)


def command(record):
    @click.command(cls=Grouped)
    @click.argument("name")
    @options(
        "size",
        "Size",
        record,
        click.option("--width", type=int, default=3, help="How wide."),
        click.option("--height", "high", type=int, default=4, help="How high."),
    )
    @options("colour", "Colour", dict, click.option("--hue", multiple=True, help="Which hue."))
    @click.option("--loud", is_flag=True, help="Say it loudly.")
    def made(name, size, colour, loud):
        """Paint."""
        click.echo(f"{name} {size} {colour} {loud}")

    return made


def test_a_command_gets_records_and_its_help_headings():
    said = CliRunner().invoke(command(Size), ["x", "--width", "7", "--hue", "red"], catch_exceptions=False).output
    assert said == "x Size(width=7, high=4) {'hue': ('red',)} False\n"
    shown = CliRunner().invoke(command(Size), ["--help"]).output.splitlines()
    titles = [line for line in shown if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options:", "Size:", "Colour:"]
    rest, size, colour = (shown[shown.index(title) :] for title in titles)
    assert [line.split()[0] for line in size[1:3]] == ["--width", "--height"]
    assert "--hue" in colour[1]
    assert "--loud" in rest[1]
    assert not any("NAME" in line for line in rest), "arguments stand in the usage"


def test_what_the_record_refuses_is_an_error_of_the_user():
    with pytest.raises(InvalidValue, match="width: expected more than 0"):
        CliRunner().invoke(command(Size), ["x", "--width", "0"], catch_exceptions=False)


def test_a_record_named_as_text_is_loaded_when_the_command_runs():
    sys.modules.pop("colorsys", None)
    made = command("colorsys:no_such_name")
    CliRunner().invoke(made, ["--help"])
    assert "colorsys" not in sys.modules
    CliRunner().invoke(made, ["x"])
    assert "colorsys" in sys.modules
