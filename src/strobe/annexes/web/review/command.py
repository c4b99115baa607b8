"""`strobe review`: serve the review page, show its progress, and export or import the answers."""

import json
from pathlib import Path
from typing import Literal

import click

from strobe.annexes.web.review.command_text import leaving, plan_text, text_of, unfinished
from strobe.annexes.web.review.conduct import ReviewOptions, ServeOptions
from strobe.annexes.web.review.questions import QUESTIONS
from strobe.cli.common import (
    Grouped,
    click_option,
    folder,
    json_option,
    progress,
    quiet_option,
    record_options,
    seed_option,
)
from strobe.core.errors import printable
from strobe.core.options import options_of

_db = click_option(options_of(ServeOptions)["db"])
_ask = click.option(
    "--ask",
    type=click.Choice(list(QUESTIONS)),
    default="pairs",
    show_default=True,
    help=f"The question. {' '.join(f'{name}: {one.asks}' for name, one in QUESTIONS.working().items())}",
)


@click.group(name="review", epilog="Example: strobe review serve data/clips")
def command() -> None:
    """Let people decide which frames look the same, what an image shows, and where its object is."""


_reach = record_options("where", "Address and people", ServeOptions, common=("host", "port", "invite"))
_lease = click.option(
    "--lease",
    "lease_s",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
    callback=lambda _context, _option, minutes: minutes * 60,
    help="Minutes that a pair or image is reserved for a person.",
)
_conduct = record_options(
    "settings",
    "How the review runs",
    ReviewOptions,
    own={"lease_s": _lease, "seed": seed_option},
    common=("votes", "labels", "controls", "practice", "at_once", "hints"),
)


@command.command(cls=Grouped, epilog="Example: strobe review serve data/clips --votes 2")
@click.argument("dataset", type=folder())
@_ask
@_reach
@_conduct
@click.option("--suggest", metavar="RUN", help="Suggest the boxes of a detector: RUN, NAME=RUN, or preds:FILE.")
@click.option(
    "--plan",
    metavar="RUN",
    help="Ask about a sample of sets, drawn by the flicker of RUN's models: for --ask name the sets that matter most "
    "for their accuracy, for --ask check random sets that flicker. random: any set, with the same chance.",
)
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="N",
    help="Number of sets in the sample of --plan. A larger N extends the sample. Default: 60 to name, 20 to check.",
)
@click.option(
    "--guidelines",
    type=click.Path(path_type=Path),
    metavar="FILE.md",
    help="Your guidelines in Markdown. The page shows them.",
)
@click.option(
    "--examples",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Pairs to practise on, with their correct answers: CSV with set, frame, decision, reason, note.",
)
@click.option("--open/--no-open", "open_browser", default=True, show_default=True, help="Open the page in a browser.")
def serve(
    dataset: Path,
    ask: str,
    where: ServeOptions,
    settings: ReviewOptions,
    suggest: str | None,
    plan: str | None,
    budget: int | None,
    guidelines: Path | None,
    examples: Path | None,
    open_browser: bool,
) -> None:
    """Serve the review page of DATASET until Ctrl-C."""
    from strobe.annexes.web.review import workflow as review

    if budget is not None and plan is None:
        raise click.UsageError("--budget needs --plan RUN")
    sample = None
    if plan is not None:
        from strobe.annexes.web.review.label_plan import QuestionsFrom

        sample = QuestionsFrom(source=plan, budget=budget)

    def ready(links: review.Links) -> None:
        click.echo(f"review page  {links.url}")
        click.echo(f"admin page   {links.admin}")
        for name, link in links.personal.items():
            click.echo(f"{printable(name):<12} {link}")
        click.echo("press Ctrl-C to stop; every decision is kept, run the same command again to resume", err=True)
        if open_browser:
            import webbrowser

            webbrowser.open(links.url)

    review.serve(
        dataset,
        where,
        settings,
        ask=ask,
        suggest=suggest,
        plan=sample,
        guidelines=guidelines,
        examples=examples,
        on_plan=lambda found: click.echo(plan_text(found)),
        on_ready=ready,
    )


@command.command(epilog="Example: strobe review status data/clips --json")
@click.argument("dataset", type=folder())
@_ask
@_db
@json_option
def status(dataset: Path, ask: str, db: str | None, as_json: bool) -> None:
    """Show the state of the review of DATASET: progress, agreement, controls, reasons, pace."""
    from strobe.annexes.web.review import workflow as review

    figures = review.status(dataset, ask=ask, db=db)
    click.echo(json.dumps(figures, ensure_ascii=False) if as_json else text_of(ask, figures))


@command.command(epilog="Example: strobe review export data/clips")
@click.argument("dataset", type=folder())
@_ask
@_db
@click.option(
    "-o",
    "--out",
    type=folder(exists=False),
    help="Also write the result as a new dataset: the reviewed sets, or the kept sets with their boxes.",
)
@click.option(
    "--crops",
    type=folder(exists=False),
    help="Also crop the kept images to their boxes and write them to CLASS/NAME in this folder.",
)
@click.option(
    "--unreviewed",
    type=click.Choice(["keep", "exclude"]),
    help="Sets without any vote: keep them as built, or exclude them. Default: exclude, or as in the last export.",
)
@quiet_option
@json_option
def export(
    dataset: Path,
    ask: str,
    db: str | None,
    out: Path | None,
    crops: Path | None,
    unreviewed: Literal["keep", "exclude"] | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the answers and figures about them into DATASET.

    Votes decide which sets and members are kept. Drawn boxes become the boxes of --out and the crops of --crops.
    """
    from strobe.annexes.web.review import workflow as review

    say = progress(quiet=quiet or as_json)
    figures = review.export(dataset, ask=ask, db=db, out=out, crops=crops, unreviewed=unreviewed, progress=say)
    click.echo(json.dumps(figures, ensure_ascii=False) if as_json else text_of(ask, figures))
    if not as_json:
        click.echo(
            f"\nwritten: {printable(dataset)}/{', '.join(review.written(ask))}"
            + "".join(f", {printable(one)}/" for one in (out, crops) if one)
        )
    if leaves := leaving(ask, figures):
        click.echo(f"note: {leaves}", err=True)
    if lacks := unfinished(ask, figures):
        result = "sets" if ask == "pairs" else "boxes"
        click.echo(f"note: the {result} are based on an incomplete review: {lacks}", err=True)


@command.command(name="import", epilog="Example: strobe review import data/clips votes.csv")
@click.argument("dataset", type=folder())
@click.argument("file", type=click.Path(path_type=Path))
@_ask
@_db
@click.option(
    "--annotator",
    default="imported",
    show_default=True,
    help="The annotator to record for answers in FILE that do not name one.",
)
@json_option
def import_(dataset: Path, file: Path, ask: str, db: str | None, annotator: str, as_json: bool) -> None:
    """Import answers given elsewhere: the papers' JSON, CSV (set, frame, decision, …), or names (frame, label)."""
    from strobe.annexes.web.review import workflow as review

    counts = review.import_votes(dataset, file, annotator=annotator, ask=ask, db=db)
    if as_json:
        click.echo(json.dumps(counts))
        return
    skipped = f"{counts['elsewhere']} skipped because they are about frames outside the dataset"
    click.echo(f"{counts['read']} votes read, {counts['added']} new; {skipped}")
    click.echo(f"next: strobe review export {printable(dataset)}" + ("" if ask == "pairs" else f" --ask {ask}"))
