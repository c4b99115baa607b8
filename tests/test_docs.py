"""The documentation is checked as code is: the reference is current, links lead somewhere, every page is listed.

The commands in it are run by test_docs_commands.py; the site is built and looked at by test_site.py.
"""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from project_files import files

from strobe.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[1]
PAGES = [*files("*.md"), *files("docs/**/*.md")]


def test_cli_reference_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/make_cli_reference.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def _commands(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += _commands(child, f"{path} {name}")
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for path, found in _commands(command, f"strobe {name}"):
        text = found.get_help(click.Context(found, info_name=path))
        assert "Example" in text, f"{path} --help shows no example"
        for parameter in found.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.help, f"{path}: {parameter.name} has no help"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_every_page_is_listed() -> None:
    """The home page links to every page, and the page of the command line to the page of every command."""
    index, commands = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("index.md", "cli.md"))
    for page in files("docs/**/*.md"):
        if page.name != "index.md":
            listed = commands if page.parent.name == "cli" else index
            assert page.relative_to(ROOT / "docs").as_posix() in listed, f"docs/index.md does not list {page.name}"
