"""`strobe gate`: pass or fail, for scripts and CI."""

from pathlib import Path
from typing import Any

import click

from strobe.cli.common import folder, json_option, print_json, progress, quiet_option
from strobe.cli.signature import from_function, plain
from strobe.core.errors import printable
from strobe.core.files import below


@click.command(
    epilog="Example: strobe gate run/ --against main-run/ --max-loss acc_pmk=1 --min acc_pmk=50   ·   "
    "strobe gate run/ -m new --baseline old --max-loss map_pmk=2 --for other-videos   ·   "
    "strobe gate ladder-run/ -m new --max bg-gap=10 --max anchor-grey=5   ·   "
    "strobe gate clips-run/ --max flip_rate=40 --against old-run/ --max-loss changes_per_second=0.5",
)
@from_function(
    "strobe.api.gates:gate",
    metavars={"run": "RUN", "against": "OLD", "baseline": "MODEL"},
    optional="run",
    more="Exit code 0: all rules pass. 1: a rule fails. 2: nothing could be judged. 3: no rule fails, but one is "
    "inconclusive. The command writes Markdown for a pull request, JUnit XML and JSON.",
)
@click.option("--plan", is_flag=True, help="Only compute how many videos --max-loss needs. RUN is optional.")
@click.option(
    "--churn",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="PERCENT",
    help="With --plan and without a run: per cent of sets that change between two equally good models.  [default: 10]",
)
@click.option("-o", "--out", type=folder(exists=False), help="Where to write gate.md, .xml, .json. Default: RUN/gate.")
@json_option
@quiet_option
def command(
    run: Path | None, plan: bool, churn: float | None, out: Path | None, as_json: bool, quiet: bool, **asked: Any
) -> None:
    """Judge a run, write the outcome and exit with its code."""
    from strobe.api.gates import gate, plan_gate
    from strobe.report.gate import gate_lines, plan_lines
    from strobe.workflows.gate import write_gate

    bar = progress(quiet=quiet or as_json)
    if plan:
        if asked.pop("min") or asked.pop("max"):
            raise click.UsageError("--plan supports only --max-loss; remove --min and --max")
        known = {name: asked[name] for name in ("against", "model", "baseline", "k", "videos", "dataset")}
        plans = plain(plan_gate)(asked["max_loss"], churn=churn, run=run, **known, progress=bar)
        if as_json:
            print_json(plans)
        for line in () if as_json else plan_lines(plans):
            click.echo(line)
        return
    if churn is not None:
        raise click.UsageError("--churn only works with --plan")
    if run is None:
        raise click.UsageError("Missing argument 'RUN': the run to judge. Only --plan works without a run")
    outcome = plain(gate)(run, **asked, progress=bar)
    place = out or below(run, "gate")
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
