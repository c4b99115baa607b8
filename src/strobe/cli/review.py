"""`strobe review`: serve the review page, show its progress, and export or import the answers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from strobe.cli.common import Grouped, folder, json_option, options, progress, quiet_option, seed_option
from strobe.cli.review_text import leaving, text_of, unfinished
from strobe.core.errors import printable
from strobe.review.conduct import AT_ONCE, HINTS
from strobe.review.questions import QUESTIONS

if TYPE_CHECKING:
    from strobe.review.conduct import ReviewOptions
    from strobe.workflows.review import ServeOptions

__all__ = ["command"]

_db = click.option(
    "--db",
    metavar="URL",
    envvar="STROBE_REVIEW_DB",
    help="Database of the answers: postgresql://user@host/name. Default: DATASET/review.sqlite.",
)

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


_reach = options(
    "where", "Address and people", "strobe.workflows.review:ServeOptions",
    _db,
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True,
                 help="Port. 0 chooses a free one."),
    click.option("--public-url", metavar="URL", help="The address that people open, if it differs from host and port."),
    click.option("--token", envvar="STROBE_REVIEW_TOKEN",
                 help="Shared secret that people enter to join. Prefer the environment variable."),
    click.option("--invite", multiple=True, metavar="NAME",
                 help="Print a personal link for this annotator. May be repeated."),
    click.option("--observer", "observers", multiple=True, metavar="NAME",
                 help="Print a read-only link for this person. May be repeated."),
    common=("host", "port", "invite"),
)  # fmt: skip
_conduct = options(
    "settings", "How the review runs", "strobe.review.conduct:ReviewOptions",
    click.option("--votes", type=click.IntRange(1), default=1, show_default=True,
                 help="Annotators per pair or image in the first round."),
    click.option("--labels", is_flag=True,
                 help="Start with a label stage, in which people add or remove labels of each anchor."),
    click.option("--verify/--no-verify", default=True, show_default=True,
                 help="Second round: everyone sees doubtful pairs, or boxes that differ."),
    click.option("--show-votes", is_flag=True, help="Show earlier votes or boxes in the second round."),
    click.option("--agree", type=click.FloatRange(0, 1, min_open=True), metavar="IOU",
                 help="IoU below which two boxes differ. Default: 0.7."),
    click.option("--controls", type=click.FloatRange(0, 0.5), default=0.04, show_default=True,
                 help="Share of hidden control questions."),
    click.option("--lease", "lease_s", type=click.FloatRange(0.1), default=10.0, show_default=True,
                 callback=lambda _context, _option, minutes: minutes * 60,
                 help="Minutes that a pair or image is reserved for a person."),
    click.option("--limit", "limit_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
                 help="Seconds that an image is shown and can be named."),
    click.option("--practice", type=click.IntRange(0), metavar="N",
                 help="Number of images or pairs to practise on, with the answers. Default: 5 images (at most a "
                 "quarter of the groups), or the pairs of --examples."),
    click.option("--at-once", type=click.Choice(AT_ONCE), default="pair", show_default=True,
                 help="pair: one pair at a time. set: a whole set, in which all frames are similar except those you "
                      "mark."),
    click.option("--hints", type=click.Choice(HINTS), default="after", show_default=True,
                 help="When people see the hints of a pair, if the dataset has hints."),
    click.option("--goal", type=click.IntRange(1), metavar="N", help="Daily goal of answers per person."),
    seed_option,
    common=("votes", "labels", "controls", "practice", "at_once", "hints"),
)  # fmt: skip


@command.command(cls=Grouped, epilog="Example: strobe review serve data/clips --votes 2")
@click.argument("dataset", type=folder())
@_ask
@_reach
@_conduct
@click.option("--suggest", metavar="RUN", help="Suggest the boxes of a detector: RUN, NAME=RUN, or preds:FILE.")
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
    where: "ServeOptions",
    settings: "ReviewOptions",
    suggest: str | None,
    guidelines: Path | None,
    examples: Path | None,
    open_browser: bool,
) -> None:
    """Serve the review page of DATASET until Ctrl-C."""
    from strobe.workflows import review

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
        dataset, where, settings, ask=ask, suggest=suggest, guidelines=guidelines, examples=examples, on_ready=ready
    )


@command.command(epilog="Example: strobe review status data/clips --json")
@click.argument("dataset", type=folder())
@_ask
@_db
@json_option
def status(dataset: Path, ask: str, db: str | None, as_json: bool) -> None:
    """Show the state of the review of DATASET: progress, agreement, controls, reasons, pace."""
    from strobe.workflows import review

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
    from strobe.workflows import review

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
    from strobe.workflows import review

    counts = review.import_votes(dataset, file, annotator=annotator, ask=ask, db=db)
    if as_json:
        click.echo(json.dumps(counts))
        return
    skipped = f"{counts['elsewhere']} skipped because they are about frames outside the dataset"
    click.echo(f"{counts['read']} votes read, {counts['added']} new; {skipped}")
    click.echo(f"next: strobe review export {printable(dataset)}" + ("" if ask == "pairs" else f" --ask {ask}"))
