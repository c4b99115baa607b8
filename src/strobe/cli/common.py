"""Options, progress on the terminal and printing that several commands share."""

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from strobe.core.annex import Item, members
from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.core.late import load
from strobe.core.options import Option, options_of

if TYPE_CHECKING:
    from strobe.core.dataset import Dataset
    from strobe.core.late import Registry
    from strobe.core.ports import Progress
    from strobe.workflows.evaluate import Evaluation

_Value = TypeVar("_Value")


def folder(*, exists: bool = True) -> click.Path:  # noqa: ARG001 (documents the call)
    """Return the click type of a folder argument. click does not check that the folder exists: the reader does."""
    return click.Path(path_type=Path)


def out_option(*, what: str, required: bool = True) -> Callable[[Any], Any]:
    """Return the option `-o/--out`, which all commands share. `what` names the output in the help."""
    return click.option("-o", "--out", type=folder(exists=False), required=required, help=f"Where to write {what}.")


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
scope_option = click.option(
    "--for",
    "scope",
    type=click.Choice(["these-clips", "this-recording", "other-videos"]),
    default="these-clips",
    show_default=True,
    help="What a verdict is about. these-clips: a fact about the clips of the run. this-recording: more video of the "
    "same scenes. other-videos: videos that were not seen, from the interval over at least six videos.",
)
k_option = click.option("--k", type=int, default=10, show_default=True, help="Frames before and after the anchor.")
workers_option = click.option(
    "--workers", type=int, default=os.cpu_count() or 1, help="Number of processes. Default: one per core."
)


def _severities(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, ...]:
    from strobe.formats.registry import severities

    return _parsed(severities, text)


severity_option = click.option(
    "--severity",
    default="1-5",
    show_default=True,
    callback=_severities,
    help="The severities to use, e.g. 1-5 or 1,3,5.",
)
show_option = click.option(
    "--show",
    multiple=True,
    metavar="MODEL",
    help="Show this model first in the figures and the gallery (8 models at most). May be repeated.",
)
log_option = click.option(
    "--log",
    multiple=True,
    metavar="WHERE",
    help="Also log the figures to tensorboard[=FOLDER] or wandb[=PROJECT]. May be repeated.",
)
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


def record_options(
    name: str,
    title: str,
    record: type,
    *,
    own: Mapping[str, Callable[[Any], Any]] | None = None,
    common: Collection[str] | None = None,
    ranges: bool = True,
) -> Callable[[Any], Any]:
    """Group the options of a record's fields (`core.options`), in their order, as `options` does.

    `own` has options of fields that the command declares itself. With `ranges`, click checks and shows the limits of
    numbers. Without, only the record does.
    """
    known = {name: click_option(option, ranges=ranges) for name, option in options_of(record).items()} | dict(own or {})
    flags = [known[field.name] for field in fields(record) if field.name in known]
    return options(name, title, record, *flags, common=common)


def click_option(option: Option, *, ranges: bool = True) -> Callable[[Any], Any]:
    """Return the click option that a record or a format declares."""
    kind, flag, default = option.kind, option.option, option.default
    settings: dict[str, Any] = {"help": option.help, "required": option.required}
    settings |= {"metavar": option.metavar, "envvar": option.envvar}
    if kind is bool and default and flag.startswith("--no-"):
        settings |= {"is_flag": True, "callback": lambda _context, _option, value: not value}
    elif kind is bool and default:
        flag, settings = f"{flag}/--no-{flag.strip('-')}", settings | {"default": True, "show_default": True}
    elif kind is bool:
        settings |= {"is_flag": True}
    elif option.several:
        settings |= {"multiple": True}
    elif default is not None:
        settings |= {"default": default, "show_default": bool(default) or isinstance(default, int | float)}
    if isinstance(kind, tuple):
        settings["type"] = click.Choice(kind, case_sensitive=False)
    elif kind is Path:
        settings["type"] = click.Path(path_type=Path)
    elif kind in (int, float):
        limits = (option.least, option.most) if ranges else (None, None)
        of: Any = click.IntRange if kind is int else click.FloatRange
        settings["type"] = kind if limits == (None, None) else of(*limits, min_open=option.above)
    elif not isinstance(kind, type):
        settings["callback"] = lambda _context, _option, text: None if text is None else _parsed(kind, text)
    return click.option(flag, option.name, **settings)


def _parsed(parse: Callable[[str], _Value], text: str) -> _Value:
    try:
        return parse(text)
    except StrobeError as error:
        raise click.BadParameter(str(error)) from error


class Grouped(click.Command):
    """A command whose help groups its options under titles and lists rarely used ones only with `--help-all`."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's parameters, with `--help-all` if the command has rarely used options."""
        params = super().get_params(ctx)
        if not self._rare:
            return params
        help_all = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_full_help,
            help="Show this message with every option and exit.",
        )
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


class OpenGroup(click.Group):
    """A group to which annexes add subcommands, by the list "commands: NAME" of their manifests."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands, in alphabetical order."""
        return sorted([*super().list_commands(ctx), *self._of_annexes()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand. One of an annex is imported now."""
        item = self._of_annexes().get(cmd_name)
        command: click.Command | None = load(item.object) if item else super().get_command(ctx, cmd_name)
        return command

    def _of_annexes(self) -> Mapping[str, Item]:
        every = members(f"commands: {self.name}", {name: Item("") for name in self.commands})
        return {name: item for name, item in every.items() if item.object}


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """One kind of demo, which `--NAME` selects.

    `run(out, progress, offline, …)` yields each evaluation to print. It takes the values of `options` by name, which
    only work with this demo.
    """

    run: "Callable[..., Iterable[Evaluation]]"
    options: tuple[click.Option, ...] = ()


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
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _RateColumn(),
            TimeRemainingColumn(),
        )
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


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> counted(1, "set"), counted(2, "class")
    ('1 set', '2 classes')
    """
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    return noun + ("es" if noun.endswith(("s", "x")) else "s")


def made(dst: Path, dataset: "Dataset", *nouns: str) -> str:
    """Return a summary of a new dataset folder: its numbers of videos, sets, frames and classes."""
    from strobe.core.tables import SOURCES

    sizes, nouns_shown = _sizes(dataset), {noun: noun for noun in ("video", *nouns)}
    kinds = list(dataset.kinds)
    if kinds != ["video"]:  # photos are not videos, and images made from them are not frames
        nouns_shown |= {"video": SOURCES[kinds[0]] if len(kinds) == 1 else "source", "frame": "image"}
        nouns = tuple(noun for noun in nouns if dataset.info.k or noun not in ("set", "frame")) or ("video",)
    counts = {noun: counted(sizes[f"n_{_plural(noun)}"], nouns_shown[noun]) for noun in nouns}
    if "frame" in counts and nouns_shown["frame"] == "image":
        counts["frame"] += " in total"
    return f"{printable(dst)}: {', '.join(counts.values())}"


def made_json(dst: Path, dataset: "Dataset", more: Mapping[str, Any]) -> None:
    """Print the facts about a new dataset folder as JSON."""
    click.echo(json.dumps({"dataset": str(dst), "digest": dataset.digest(), **_sizes(dataset), **more}))


def _sizes(dataset: "Dataset") -> dict[str, int]:
    return {
        "n_videos": len(dataset.videos),
        "n_sets": dataset.n_sets,
        "n_frames": len(dataset.frames),
        "n_classes": len(dataset.info.label_space),
    }


def left_out(problems: Iterable[str]) -> None:
    """Print a line for each input that could not be used."""
    for problem in problems:
        click.echo(f"skipped: {printable(problem)}", err=True)


def refuse_option(option: str, why: str) -> None:
    """Raise InvalidValue with this message if the user set the option, which is given by its Python name."""
    source = click.get_current_context().get_parameter_source(option)
    if source is not click.core.ParameterSource.DEFAULT:
        raise InvalidValue(why)
