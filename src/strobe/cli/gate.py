"""`strobe gate`: pass or fail, for scripts and CI."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from strobe.cli.common import dataset_option, folder, json_option, print_json, progress, quiet_option, subset_option
from strobe.core.errors import printable

if TYPE_CHECKING:
    from strobe.analyses.gate import Limit

__all__ = ["command"]


def _limit(kind: Literal["max_loss", "min", "max"], flag: str, what: str) -> Callable[[Any], Any]:
    """One of the three options that say a rule: MEASURE=NUMBER, as often as needed."""

    def read(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple["Limit", ...]:
        from strobe.analyses.gate import Limit

        found = []
        for text in texts:
            measure, mark, number = text.partition("=")
            try:
                found.append(Limit(kind=kind, measure=measure.strip(), value=float(number)))
            except ValueError as error:
                raise click.BadParameter(
                    f"expected MEASURE=NUMBER, e.g. {flag} acc_pmk=1, got {printable(text, limit=60)!r}"
                ) from error
            if not mark or not measure.strip():
                raise click.BadParameter(f"expected MEASURE=NUMBER, e.g. {flag} acc_pmk=1, got {printable(text)!r}")
        return tuple(found)

    return click.option(flag, kind, multiple=True, callback=read, metavar="MEASURE=NUMBER", help=what)


@click.command(
    epilog="Example: strobe gate run/ --against main-run/ --max-loss acc_pmk=1 --min acc_pmk=50   ·   "
    "strobe gate run/ -m new --baseline old --max-loss map_pmk=2 --fail-on doubt   ·   "
    "strobe gate ladder-run/ -m new --max bg-gap=10 --max anchor-grey=5",
)
@click.argument("new", type=folder(), required=False)
@click.option(
    "--against",
    type=folder(),
    metavar="OLD",
    multiple=True,
    help="A run that holds a baseline, on the same dataset; repeatable: a loss is held against each.",
)
@click.option("-m", "--model", help="The model to judge, where the run holds several.")
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="MODEL",
    help="A model to judge it against; default: of the same name, or the only one of OLD; repeatable.",
)
@_limit("max_loss", "--max-loss", "At most so many points less than the baseline (of drop: more); paired interval.")
@_limit("min", "--min", "At least so many per cent (of a contrast: points), e.g. acc_pmk=50.")
@_limit("max", "--max", "At most so many per cent (of a contrast: points), e.g. drop=10.")
@click.option(
    "--fail-on",
    type=click.Choice(["shown", "figure", "doubt"]),
    default="figure",
    show_default=True,
    help="shown: a breach that the interval shows; figure: also a figure beyond the limit; doubt: all not ruled out.",
)
@click.option(
    "--unsure", type=click.Choice(["fail", "pass"]), default="fail", show_default=True,
    help="What becomes of a rule of which the data cannot tell: no interval, or too few videos to show anything.",
)  # fmt: skip
@click.option(
    "--plan", is_flag=True, help="Count the videos that --max-loss takes, and judge nothing; NEW is optional."
)
@click.option(
    "--churn",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="PERCENT",
    help="Plan without a run: per cent of the sets that change between two equally good models.  [default: 10]",
)
@click.option("-o", "--out", type=folder(exists=False), help="Where to write gate.md, .xml, .json; default: NEW/gate.")
@click.option("--k", type=click.IntRange(0), help="Largest distance scored; default: the dataset's k.")
@subset_option
@click.option("--allow-missing", is_flag=True, help="Judge on what is there.")
@dataset_option
@json_option
@quiet_option
def command(
    new: Path | None,
    against: tuple[Path, ...],
    model: str | None,
    baselines: tuple[str, ...],
    max_loss: tuple["Limit", ...],
    min: tuple["Limit", ...],
    max: tuple["Limit", ...],
    fail_on: Literal["shown", "figure", "doubt"],
    unsure: Literal["fail", "pass"],
    plan: bool,
    churn: float | None,
    out: Path | None,
    k: int | None,
    subset: Path | None,
    allow_missing: bool,
    dataset: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Let a model of run NEW pass or not: exit 0 or 1 (2 where nothing could be judged).

    Rules are held against 95 % intervals, losses against the paired one on the same sets. Holds: the whole interval is
    within the limit; it passes. Clearly worse: all of it is beyond; it fails. Not shown: the limit lies inside; it
    fails where the figure itself is beyond (see --fail-on). Cannot tell: there is no interval, or too little data to
    show anything; it fails (see --unsure). Every line ends with what such data detects in 80 % of cases.

    Measures are those of results.json: acc_orig, acc_pmk, drop, of detectors map_orig, map_pmk, drop; --min and --max
    take every other, too, and where the dataset has variants the model's contrasts between them, which --max-loss does
    not: by what they isolate (bg-gap, background, magnification) or by both sides (anchor-grey). Writes Markdown for a
    pull request, JUnit XML and JSON.
    """
    from strobe.analyses.plan import ScoreOptions
    from strobe.report.gate import gate_lines, plan_lines
    from strobe.workflows.gate import GateOptions, gate, plan_gate, write_gate

    request = GateOptions(
        limits=(*max_loss, *min, *max), model=model, against=against, baselines=baselines, fail_on=fail_on,
        unsure=unsure,
        options=ScoreOptions(k=k), subset=subset, dataset=dataset, allow_missing=allow_missing,
    )  # fmt: skip
    bar = progress(quiet=quiet or as_json)
    if plan:
        plans = plan_gate(new, request, bar, churn=None if churn is None else churn / 100)
        if as_json:
            print_json(plans)
        for line in () if as_json else plan_lines(plans):
            click.echo(line)
        return
    if churn is not None:
        raise click.UsageError("--churn goes with --plan")
    if new is None:
        raise click.UsageError("Missing argument 'NEW': the run to judge; without one only --plan can be asked for")
    found = gate(new, request, bar)
    place = out or new / "gate"
    write_gate(found, place)
    if as_json:
        print_json(found)
    else:
        for line in gate_lines(found):
            click.echo(line)
        if not quiet:
            click.echo(f"written: {printable(place)}/gate.md, gate.xml, gate.json", err=True)
    if not found.passed:
        raise click.exceptions.Exit(1)
