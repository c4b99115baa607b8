"""The command line: a table of commands, which are imported when they are called, and the exit code of each error."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

import click

from strobe.core.annex import Item, members
from strobe.core.errors import StrobeError, printable, refused
from strobe.core.late import installed_version, load, spin_briefly

_HOUSE: dict[str, dict[str, tuple[str, str]]] = {
    "Measure": {
        "eval": ("strobe.cli.eval:command", "Run models over a dataset, score them and write the report. Start here."),
        "predict": ("strobe.cli.predict:command", "Run models over a dataset. Resumable."),
        "score": ("strobe.cli.score:command", "Score predictions on a dataset: pm-k accuracy with intervals."),
        "report": ("strobe.cli.report:command", "Write the report of a scored run."),
        "compare": (
            "strobe.cli.compare:command",
            "Compare models on the same frames: which is worse, by how much, and where.",
        ),
        "bless": ("strobe.cli.bless:command", "Make a run the baseline that later runs are compared with."),
        "gate": ("strobe.cli.gate:command", "Pass or fail for scripts and CI: limits on figures and on losses."),
        "history": ("strobe.cli.history:command", "Show checkpoints over time: a table and a figure of many runs."),
    },
    "Make data": {
        "build": ("strobe.cli.build:command", "Make a dataset from videos: anchors and the frames around them."),
        "simulate": ("strobe.cli.simulate:command", "Make a dataset from photos: a simulated hand-held camera."),
        "synthesize": (
            "strobe.cli.synthesize:command",
            "Make a dataset of rendered moving objects with exact labels.",
        ),
        "vary": (
            "strobe.cli.vary:command",
            "Make a dataset of changed images: corruptions, attacks, backgrounds, generators.",
        ),
        "import": ("strobe.cli.import_:command", "Make a dataset from a public release or another format."),
        "export": ("strobe.cli.export:command", "Write a dataset in another format."),
        "inspect": ("strobe.cli.inspect:command", "Describe a dataset, and draw contact sheets of its sets."),
    },
    "People": {},
    "Models": {
        "models": ("strobe.cli.models:command", "List the models that can be loaded by name."),
        "train": ("strobe.cli.train:command", "Train a classifier or detector by a recipe: fine-tune, pm-k, and more."),
    },
    "Help": {
        "demo": ("strobe.cli.demo:command", "Try strobe: three real classifiers, a real clip, a report."),
        "doctor": ("strobe.cli.doctor:command", "Show installed and missing packages, and how fast this machine is."),
    },
}
"""The house's commands by their heading in `strobe --help`, each with its location and a line of help."""

GROUPS = {
    title: members(f"commands: {title}", {name: Item(*found) for name, found in commands.items()})
    for title, commands in _HOUSE.items()
}
"""All commands, those of annexes too, by their heading."""

COMMANDS = {name: item for group in GROUPS.values() for name, item in group.items()}

_EPILOG = "Example: strobe eval DATASET -m preds:scores.json -o run/   ·   docs: docs/index.md"


class _LateGroup(click.Group):
    """A group that imports a command only to run it or to show the help of that command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click's signature)
        if cmd_name not in COMMANDS:
            return None
        command = load(COMMANDS[cmd_name].object)
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name].object} is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=2)
            hint = f"; did you mean {' or '.join(near)}?" if near else "; see strobe --help"
            raise click.UsageError(f"no such command {printable(args[0])!r}{hint}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            _refuse_repeated(click.Context(command, ctx, info_name=name), rest)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's signature)
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            if commands:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), item.help) for name, item in commands.items()])


def _refuse_repeated(ctx: click.Context, args: list[str]) -> None:
    """Refuse an option given twice to a command or below it, because click would silently drop the first."""
    _, rest, given = ctx.command.make_parser(ctx).parse_args(list(args))
    for option in given:
        is_single = isinstance(option, click.Option) and not option.multiple
        is_switch = isinstance(option, click.Option) and option.is_flag and not option.secondary_opts
        if is_single and not is_switch and given.count(option) > 1:
            raise click.UsageError(f"{option.opts[-1]} was given twice, and only one of them would count", ctx)
    if isinstance(ctx.command, click.Group) and rest:
        name, command, rest = ctx.command.resolve_command(ctx, rest)
        if command is not None:
            _refuse_repeated(click.Context(command, ctx, info_name=name), rest)


def _print_version(ctx: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested and not ctx.resilient_parsing:
        click.echo(f"strobe {installed_version() or '(not installed)'}")
        ctx.exit()


@click.command(cls=_LateGroup, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option(
    "--debug", is_flag=True, expose_value=False, help="Print the traceback of an error (or set STROBE_DEBUG=1)."
)
def cli() -> None:
    """Measure whether vision models flicker: right on one frame, wrong on the next one that looks the same."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Exit codes: 0 for success, 2 for an error that the user can fix (one line), 70 for a bug (one line), 130 after
    Ctrl-C. With `--debug` anywhere in the arguments, or STROBE_DEBUG=1, the traceback is printed first.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in own or os.environ.get("STROBE_DEBUG", "0") not in ("", "0")
    arguments = [word for word in own if word != "--debug"] + arguments[len(own) :]
    spin_briefly()
    try:
        with _hearing():
            code = cli.main(args=arguments, prog_name="strobe", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.UsageError as error:
        # click 8.2 and later raise for a bare `strobe` or `strobe review`, with the whole help as the message.
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            click.echo(error.format_message(), err=True)
            sys.exit(2)
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        _fail(error.format_message() + where)
    except click.ClickException as error:
        _fail(error.format_message())
    except StrobeError as error:
        _fail(str(error), trace=debug)
    except (KeyboardInterrupt, click.Abort):
        _leave()
    except BrokenPipeError:
        # The program that reads our output has ended (`| head`), which is not an error. Redirect stdout for a silent
        # exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except MemoryError:
        _fail("not enough memory; finished work is kept", trace=debug)
    except Exception as error:
        if _heard:
            _leave()
        if isinstance(error, OSError) and (reason := refused(error)) is not None:
            _fail(reason, trace=debug)
        if isinstance(error, ImportError) and not (error.name or "").startswith("strobe"):
            _fail(f"{error}: a package is missing or does not match the others; install or upgrade it", trace=debug)
        what = printable(f"{type(error).__name__}: {error}", limit=500)
        hint = "" if debug else "; run the same command with --debug and report its output"
        _fail(f"{what}. This is a bug in strobe{hint}", code=70, trace=debug)


_heard: list[int] = []
"""The signal numbers of all Ctrl-C presses during this command."""


@contextmanager
def _hearing() -> Iterator[None]:
    """Record Ctrl-C before Python raises it, because a library may swallow it and then fail with another error."""

    def note(number: int, frame: FrameType | None) -> None:
        _heard.append(number)
        signal.default_int_handler(number, frame)

    _heard.clear()
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:  # Ctrl-C is ignored, or another program handles it
        yield
        return
    _at_interrupt(note)
    try:
        yield
    finally:
        _at_interrupt(usual)


def _at_interrupt(do: Callable[[int, FrameType | None], Any] | signal.Handlers) -> None:
    with suppress(ValueError):  # only the main thread receives signals
        signal.signal(signal.SIGINT, do)


def _leave() -> NoReturn:
    """Print one line and exit with code 130 after Ctrl-C, even if Ctrl-C is pressed again."""
    _at_interrupt(signal.SIG_IGN)
    click.echo("strobe: interrupted; finished work is kept, run the same command again to resume", err=True)
    sys.stdout.flush()
    if (shared := sys.modules.get("multiprocessing.util")) is not None:
        shared._run_finalizers()  # releases memory shared with worker processes; otherwise Python warns
    os._exit(130)  # skips the shutdown of torch, which takes a second


def _fail(message: str, *, code: int = 2, trace: bool = False) -> None:
    """Print one line on stderr and exit. With `trace`, print the traceback of the current error first."""
    if trace:
        import traceback

        click.echo(traceback.format_exc(), err=True, nl=False)
    click.echo(f"strobe: {printable(message, limit=2000)}", err=True)
    sys.exit(code)
