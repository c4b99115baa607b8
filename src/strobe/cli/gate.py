"""`strobe gate`: pass or fail, for scripts and CI."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from strobe.cli.common import (
    dataset_option,
    folder,
    json_option,
    print_json,
    progress,
    quiet_option,
    scope_option,
    subset_option,
)
from strobe.core.errors import printable
from strobe.core.files import below

if TYPE_CHECKING:
    from strobe.analyses.clips import Scope
    from strobe.analyses.gate import Limit


def _limit(kind: Literal["max_loss", "min", "max"], flag: str, what: str) -> Callable[[Any], Any]:
    """Return the option for one kind of rule. Its values have the form MEASURE=NUMBER, and it may be repeated."""

    def read(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple["Limit", ...]:
        from strobe.analyses.gate import Limit

        limits = []
        for text in texts:
            measure, mark, number = text.partition("=")
            try:
                limits.append(Limit(kind=kind, measure=measure.strip(), value=float(number)))
            except ValueError as error:
                raise click.BadParameter(
                    f"expected MEASURE=NUMBER, e.g. {flag} acc_pmk=1, got {printable(text, limit=60)!r}"
                ) from error
            if not mark or not measure.strip():
                raise click.BadParameter(f"expected MEASURE=NUMBER, e.g. {flag} acc_pmk=1, got {printable(text)!r}")
        return tuple(limits)

    return click.option(flag, kind, multiple=True, callback=read, metavar="MEASURE=NUMBER", help=what)


@click.command(
    epilog="Example: strobe gate run/ --against main-run/ --max-loss acc_pmk=1 --min acc_pmk=50   ·   "
    "strobe gate run/ -m new --baseline old --max-loss map_pmk=2 --for other-videos   ·   "
    "strobe gate ladder-run/ -m new --max bg-gap=10 --max anchor-grey=5   ·   "
    "strobe gate clips-run/ --max flip_rate=40 --against old-run/ --max-loss changes_per_second=0.5",
)
@click.argument("new", type=folder(), required=False)
@click.option(
    "--against",
    type=folder(),
    metavar="OLD",
    multiple=True,
    help="A run with a baseline, on the same dataset. May be repeated. A loss is measured against every baseline.",
)
@click.option("-m", "--model", help="The model to judge, if the run has several.")
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="MODEL",
    help="A model to compare with. Default: OLD's model of the same name, or its only model. May be repeated.",
)
@_limit(
    "max_loss",
    "--max-loss",
    "Largest allowed loss against the baseline on the same sets, in points or in the unit of the measure. For drop, "
    "flicker and others of which more is worse, the largest increase.",
)
@_limit("min", "--min", "Smallest allowed value, in per cent or the unit of the measure, e.g. acc_pmk=50.")
@_limit("max", "--max", "Largest allowed value, in per cent or the unit of the measure, e.g. drop=10.")
@scope_option
@click.option("--plan", is_flag=True, help="Only compute how many videos --max-loss needs. NEW is optional.")
@click.option(
    "--churn",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="PERCENT",
    help="With --plan and without a run: per cent of sets that change between two equally good models.  [default: 10]",
)
@click.option("-o", "--out", type=folder(exists=False), help="Where to write gate.md, .xml, .json. Default: NEW/gate.")
@click.option("--k", type=click.IntRange(0), help="Largest distance from the anchor. Default: the dataset's k.")
@subset_option
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Accept sets without predictions. The rule must then hold for every possible result on these sets.",
)
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
    scope: "Scope",
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
    """Judge whether a model of run NEW stays within limits.

    Exit code 0: all rules pass. 1: a rule fails. 2: nothing could be judged. 3: no rule fails, but one is inconclusive.

    By default, the verdict is about these clips: the figure decides, which is a fact about the clips of the run. With
    --for other-videos, the 95 % interval over videos decides: "regression" if all of it is beyond the limit, "pass" if
    all of it is within the limit, else "inconclusive", with the number of videos that would decide. A rule is also
    inconclusive if its outcome depends on sets without predictions.

    Measures are named as in results.json. Shares are in per cent, and losses of shares in points. A detector has
    map_orig, map_pmk and drop, a classifier acc_orig, acc_pmk and drop. If sets have no label, a classifier has
    flicker, flip_rate, changes_per_second and more. Only --min and --max accept contrasts between variants, which are
    named by what they isolate (bg-gap, background, magnification) or by both sides (anchor-grey). The command writes
    Markdown for a pull request, JUnit XML and JSON.
    """
    from strobe.analyses.plan import ScoreOptions
    from strobe.report.gate import gate_lines, plan_lines
    from strobe.workflows.gate import GateOptions, gate, plan_gate, write_gate

    request = GateOptions(
        limits=(*max_loss, *min, *max),
        model=model,
        against=against,
        baselines=baselines,
        scope=scope,
        options=ScoreOptions(k=k),
        subset=subset,
        dataset=dataset,
        allow_missing=allow_missing,
    )
    bar = progress(quiet=quiet or as_json)
    if plan:
        plans = plan_gate(new, request, bar, churn=None if churn is None else churn / 100)
        if as_json:
            print_json(plans)
        for line in () if as_json else plan_lines(plans):
            click.echo(line)
        return
    if churn is not None:
        raise click.UsageError("--churn only works with --plan")
    if new is None:
        raise click.UsageError("Missing argument 'NEW': the run to judge. Only --plan works without a run")
    outcome = gate(new, request, bar)
    place = out or below(new, "gate")
    write_gate(outcome, place)
    if as_json:
        print_json(outcome)
    else:
        for line in gate_lines(outcome):
            click.echo(line)
        if not quiet:
            click.echo(f"written: {printable(place)}/gate.md, gate.xml, gate.json", err=True)
    if outcome.passed is not True:
        raise click.exceptions.Exit(3 if outcome.passed is None else 1)
