"""Groups of options: one record for the command, one heading in its help, nothing imported before it runs."""

import sys
from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from strobe.cli import vary
from strobe.cli.common import Grouped, options
from strobe.cli.main import COMMANDS, cli
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


def test_rare_options_are_listed_by_help_all_alone_and_work_all_the_same():
    @click.command(cls=Grouped)
    @options(
        "size",
        "Size",
        dict,
        click.option("--width", type=int, default=3, help="How wide."),
        click.option("--depth", type=int, default=4, help="How deep."),
        common=("width",),
    )
    def made(size):
        """Paint."""
        click.echo(str(size))

    short = CliRunner().invoke(made, ["--help"]).output
    assert "--width" in short
    assert "--depth" not in short
    assert "1 more option: made --help-all" in short
    full = CliRunner().invoke(made, ["--help-all"])
    assert full.exit_code == 0
    assert "--width" in full.output
    assert "--depth" in full.output
    assert "more option" not in full.output
    assert CliRunner().invoke(made, ["--depth", "9"]).output == "{'width': 3, 'depth': 9}\n"


VARY = vary.command.list_commands(click.Context(vary.command))


@pytest.mark.parametrize(
    ("words", "common", "rare"),
    [
        ("build", "--labels", "--max-side"),
        ("eval", "--device", "--compile"),
        ("simulate", "--strength", "--roll"),
        ("train", "--image-size", "--cache-gb"),
        ("vary attack", "--eps", "--margin"),
        *([("vary generator", "--granularity", "--scale-images")] if "generator" in VARY else []),
        *([("vary background", "--rungs", "--fit")] if "background" in VARY else []),
        *([("review serve", "--votes", "--lease")] if "review" in COMMANDS else []),
    ],
)
def test_long_commands_list_common_options_first(words, common, rare):
    short = CliRunner().invoke(cli, [*words.split(), "--help"]).output
    full = CliRunner().invoke(cli, [*words.split(), "--help-all"]).output
    assert common in short
    assert rare not in short
    assert rare in full
    assert "more options" in short
