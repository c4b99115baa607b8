"""Options, progress on the terminal and printing that several commands share."""

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strobe.core.errors import StrobeError, printable
from strobe.core.late import load

if TYPE_CHECKING:
    from strobe.core.ports import Progress
    from strobe.core.registry import Registry

__all__ = [
    "Grouped",
    "PlainProgress",
    "dataset_option",
    "folder",
    "full_help",
    "json_option",
    "k_option",
    "log_option",
    "name_option",
    "options",
    "out_option",
    "print_json",
    "progress",
    "quiet_option",
    "renamed_option",
    "seed_option",
    "severity_option",
    "show_option",
    "subset_option",
    "warn_of",
    "workers_option",
]


def folder(*, exists: bool = True) -> click.Path:  # noqa: ARG001 (documents the call)
    """Return the click type of a folder argument. click does not check that the folder exists: the reader does."""
    return click.Path(path_type=Path)


def out_option(*, what: str, required: bool = True) -> Callable[[Any], Any]:
    """Return the option `-o/--out`, which all commands share. `what` names the output in the help."""
    return click.option("-o", "--out", type=folder(exists=False), required=required, help=f"Where to write {what}.")


def renamed_option(old: str, new: str, settings: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return the option `new` with these click settings. Its `old` name still works for one release, with a warning."""
    key = f"strobe.renamed.{new}"

    def remember(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            click.echo(f"warning: {old} is now called {new}; the old name will be removed", err=True)
            context.meta[key] = value

    def resolve(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        default = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.DEFAULT
        return context.meta.get(key, value) if default else value

    def add(function: Any) -> Any:
        name = f"{new.strip('-')}_before_renaming".replace("-", "_")
        kept: dict[str, Any] = {
            "type": settings.get("type"),
            "hidden": True,
            "expose_value": False,
            "callback": remember,
        }
        return click.option(new, callback=resolve, **settings)(click.option(old, name, **kept)(function))

    return add


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
name_option = click.option("--name", default="", help="The dataset's name. Default: the name of the folder.")
seed_option = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all random choices."
)
subset_option = click.option(
    "--subset",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use only the videos named in this text file, one per line. The word all selects every video. "
    "Default: the videos that the run was scored on.",
)
k_option = click.option("--k", type=int, default=10, show_default=True, help="Frames before and after the anchor.")
workers_option = click.option(
    "--workers", type=int, default=os.cpu_count() or 1, help="Number of processes. Default: one per core."
)


def _severities(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:  # noqa: ARG001 (click's signature)
    from strobe.formats.registry import severities

    try:
        return severities(text)
    except StrobeError as error:
        raise click.BadParameter(str(error)) from error


severity_option = click.option(
    "--severity",
    default="1-5",
    show_default=True,
    callback=_severities,
    help="The severities to use, e.g. 1-5 or 1,3,5.",
)
show_option = click.option(
    "--show", multiple=True, metavar="MODEL",
    help="Show this model first in figures and gallery, which show up to 8 models. May be repeated.",
)  # fmt: skip
log_option = click.option(
    "--log", multiple=True, metavar="WHERE",
    help="Also log the figures to tensorboard[=FOLDER] or wandb[=PROJECT]. May be repeated.",
)  # fmt: skip
dataset_option = click.option("--dataset", type=folder(), help="Where the run's dataset is now, if it was moved.")


def options(
    name: str,
    title: str,
    record: str | Callable[..., object],
    *flags: Callable[[Any], Any],
    common: Collection[str] | None = None,
) -> Callable[[Any], Any]:
    """Group options under a title in the help of a `Grouped` command, which receives them as one record, `name`.

    The record is made from the values of the flags when the command runs. A `record` given as text ("module:Class") is
    imported at that time. `--help` lists only the options in `common`, and `--help-all` lists all of them. By default
    all are common.
    """

    def add(function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **values: Any) -> Any:
            make: Any = load(record) if isinstance(record, str) else record
            return function(*args, **{name: make(**{flag: values.pop(flag) for flag in names})}, **values)

        made: Any = wrapped
        before = len(getattr(function, "__click_params__", ()))
        for flag in reversed(flags):
            flag(made)
        names = [param.name for param in reversed(made.__click_params__[before:])]
        made.option_groups = {title: names, **getattr(function, "option_groups", {})}
        rare = set() if common is None else {each for each in names if each not in common}
        made.rare_options = rare | getattr(function, "rare_options", set())
        return made

    return add


class Grouped(click.Command):
    """A command whose help groups its options under titles and lists rarely used ones only with `--help-all`."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's parameters, with `--help-all` if the command has rarely used options."""
        params = super().get_params(ctx)
        if not self._rare:
            return params
        help_all = click.Option(
            ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_print_full_help,
            help="Show this message with every option and exit.",
        )  # fmt: skip
        return [*params, help_all]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's ungrouped options first, then the groups in the order of their decorators."""
        groups: dict[str, list[str]] = getattr(self.callback, "option_groups", {})
        title_of = {name: title for title, names in groups.items() for name in names}
        lines: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *groups)}
        hidden = set() if ctx.meta.get(_ALL_OPTIONS) else self._rare
        for param in self.get_params(ctx):
            if param.name not in hidden and isinstance(param, click.Option) and (line := param.get_help_record(ctx)):
                lines[title_of.get(param.name or "", "Options")].append(line)
        for title, records in lines.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if hidden:
            formatter.write_paragraph()
            more = "1 more option" if len(hidden) == 1 else f"{len(hidden)} more options"
            formatter.write_text(f"{more}: {ctx.command_path} --help-all")

    @property
    def _rare(self) -> set[str]:
        return getattr(self.callback, "rare_options", set())


_ALL_OPTIONS = "strobe.all_options"


def full_help(command: click.Command, context: click.Context) -> str:
    """Return the help text of a command with every option."""
    context.meta[_ALL_OPTIONS] = True
    return command.get_help(context)


def _print_full_help(context: click.Context, option: click.Parameter, requested: bool) -> None:  # noqa: ARG001 (click's signature)
    if requested:
        click.echo(full_help(context.command, context), color=context.color)
        context.exit()


def warn_of(registry: "Registry[Any]") -> None:
    """Print a warning for each plugin in the registry that cannot be used."""
    for line in registry.problems():
        click.echo(f"warning: {line}", err=True)


def print_json(content: Any) -> None:
    """Print plain values or records as JSON on stdout. NaN raises an error, because JSON cannot represent it."""
    from strobe.core.codec import encode

    json.dump(encode(content), sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")


class PlainProgress:
    """Progress as plain lines on stderr: the first after a few seconds, later lines less often, and one at the end."""

    def __init__(self, *, first_s: float = 5.0) -> None:
        self._first_s = first_s

    @contextmanager
    def task(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Start a task. Call the returned function with the number of units just done."""
        begin = last = time.monotonic()
        done, wait_s, printed = 0, self._first_s, -1

        def advance(units: int) -> None:
            nonlocal done, last, wait_s, printed
            done += units
            now = time.monotonic()
            if now - last >= wait_s:
                last, wait_s, printed = now, min(wait_s * 1.5, 60.0), done
                self._print(label, done, total, now - begin)

        yield advance
        if printed != done:
            self._print(label, done, total, time.monotonic() - begin)

    def note(self, text: str) -> None:
        """Print one line."""
        click.echo(printable(text, limit=1000), err=True)

    def _print(self, label: str, done: int, total: int | None, seconds: float) -> None:
        rate = done / seconds if seconds > 0 else 0.0
        left = f", {(total - done) / rate:.0f} s left" if total and rate and done < total else ""
        of = f"/{total}" if total else ""
        # A rate measured over less than half a second is not meaningful.
        speed = f" ({rate:.1f}/s{left})" if seconds >= 0.5 else ""
        click.echo(f"{printable(label)}: {done}{of}{speed}", err=True)


class _RichProgress:
    """Progress as bars on a terminal."""

    @contextmanager
    def task(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            ProgressColumn,
            SpinnerColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        class _RateColumn(ProgressColumn):
            def render(self, task: Any) -> Text:
                return Text(f"{task.speed:.1f}/s" if task.speed else "", style="cyan")

        from rich.progress import Progress as Bars

        columns = (
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _RateColumn(),
            TimeRemainingColumn(),
        )  # fmt: skip
        with Bars(*columns, console=Console(stderr=True)) as bars:
            row = bars.add_task(printable(label).replace("[", r"\["), total=total)
            yield lambda units: bars.advance(row, units)

    def note(self, text: str) -> None:
        click.echo(printable(text, limit=1000), err=True)


def progress(*, quiet: bool = False) -> "Progress":
    """Return progress as bars on a terminal, as plain lines elsewhere, or none if quiet."""
    if quiet:
        from strobe.core.ports import Silent

        return Silent()
    return _RichProgress() if sys.stderr.isatty() else PlainProgress()
