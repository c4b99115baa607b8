"""`strobe gate`: pass or fail, for scripts and CI."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from strobe.cli.common import dataset_option, folder, json_option, print_json, progress, quiet_option, subset_option
from strobe.core.errors import printable
from strobe.core.files import below

if TYPE_CHECKING:
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
    "strobe gate run/ -m new --baseline old --max-loss map_pmk=2 --fail-on doubt   ·   "
    "strobe gate ladder-run/ -m new --max bg-gap=10 --max anchor-grey=5   ·   "
    "strobe gate clips-run/ --max flicker=20 --against old-run/ --max-loss flicker=2",
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
    "Largest allowed loss against the baseline, in points (for drop and flicker: largest increase). Judged by a paired "
    "interval.",
)
@_limit("min", "--min", "Smallest allowed value, in per cent (for a contrast: in points), e.g. acc_pmk=50.")
@_limit("max", "--max", "Largest allowed value, in per cent (for a contrast: in points), e.g. drop=10.")
@click.option(
    "--fail-on",
    type=click.Choice(["shown", "figure", "doubt"]),
    default="figure",
    show_default=True,
    help="When a rule fails. figure: the figure is beyond the limit. shown: the whole interval is beyond it. doubt: "
    "a part of the interval is beyond it.",
)
@click.option(
    "--unsure",
    type=click.Choice(["fail", "pass"]),
    default="fail",
    show_default=True,
    help="Whether a rule fails or passes if it is inconclusive (no interval, or too few videos to detect anything).",
)
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
    """Judge whether a model of run NEW stays within limits: exit code 0 or 1, or 2 if nothing could be judged.

    Each limit is compared with a 95 % interval. For a loss, it is the paired interval on the same sets. "Holds": the
    whole interval is within the limit, and the rule passes. "Clearly worse": the whole interval is beyond it, and the
    rule fails. "Not shown": the limit is inside the interval. The rule then fails if the figure itself is beyond the
    limit (see --fail-on). "Cannot tell": there is no interval, there is too little data to detect anything, or the
    verdict depends on sets without predictions. The rule then fails (see --unsure). Every line ends with the true loss
    or value at which the rule fails in 80 % of cases.

    Measures are named as in results.json. All rules accept acc_orig, acc_pmk and drop, or map_orig, map_pmk and drop
    for detectors. Only --min and --max accept the other measures and, if the dataset has variants, the model's
    contrasts between variants. If sets have no label, all rules accept flicker, and --min and --max accept consistency,
    flip_rate and sure_flip_rate. A contrast is named by what it isolates (bg-gap, background, magnification) or by both
    sides (anchor-grey). The command writes Markdown for a pull request, JUnit XML and JSON.
    """
    from strobe.analyses.plan import ScoreOptions
    from strobe.report.gate import gate_lines, plan_lines
    from strobe.workflows.gate import GateOptions, gate, plan_gate, write_gate

    request = GateOptions(
        limits=(*max_loss, *min, *max),
        model=model,
        against=against,
        baselines=baselines,
        fail_on=fail_on,
        unsure=unsure,
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
    if not outcome.passed:
        raise click.exceptions.Exit(1)
