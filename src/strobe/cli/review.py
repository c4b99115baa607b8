"""`strobe review serve | status | export | import`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from strobe.cli.common import Grouped, folder, json_option, options, progress, quiet_option, seed_option
from strobe.cli.review_text import leaving, text_of, unfinished
from strobe.core.errors import printable
from strobe.review.conduct import ASK, AT_ONCE, HINTS

if TYPE_CHECKING:
    from strobe.review.conduct import ReviewOptions
    from strobe.workflows.review import ServeOptions

__all__ = ["command"]

_db = click.option(
    "--db",
    metavar="URL",
    envvar="STROBE_REVIEW_DB",
    help="Where answers are kept: postgresql://user@host/name. Default: DATASET/review.sqlite.",
)

_ask = click.option(
    "--ask",
    type=click.Choice(ASK),
    default="pairs",
    show_default=True,
    help="The question: do two frames look the same, what is this image called, or where in it is its object.",
)


@click.group(name="review", epilog="Example: strobe review serve data/clips")
def command() -> None:
    """People decide what is similar, what an image shows, and where: the review page, its progress and its outcome."""


_reach = options(
    "where", "Where and for whom", "strobe.workflows.review:ServeOptions",
    _db,
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True,
                 help="Port; 0 for any free one."),
    click.option("--public-url", metavar="URL", help="The address people type, where it differs from host and port."),
    click.option("--token", envvar="STROBE_REVIEW_TOKEN",
                 help="Shared secret people type to join (better by environment)."),
    click.option("--invite", multiple=True, metavar="NAME",
                 help="Print a personal link for this annotator (repeatable)."),
    click.option("--observer", "observers", multiple=True, metavar="NAME", help="Print a read-only link (repeatable)."),
)  # fmt: skip
_conduct = options(
    "settings", "How it is run", "strobe.review.conduct:ReviewOptions",
    click.option("--votes", type=click.IntRange(1), default=1, show_default=True,
                 help="Annotators per pair or image in round one."),
    click.option("--labels", is_flag=True,
                 help="Start with the label stage: each anchor alone, labels added or removed."),
    click.option("--verify/--no-verify", default=True, show_default=True,
                 help="Round two: doubtful pairs, or boxes that differ, to everyone."),
    click.option("--show-votes", is_flag=True, help="Show the earlier votes or boxes in round two."),
    click.option("--agree", type=click.FloatRange(0, 1, min_open=True), metavar="IOU",
                 help="Overlap below which two boxes differ. Default: 0.7."),
    click.option("--controls", type=click.FloatRange(0, 0.5), default=0.04, show_default=True,
                 help="Share of hidden controls."),
    click.option("--lease", "lease_s", type=click.FloatRange(0.1), default=10.0, show_default=True,
                 callback=lambda _context, _option, minutes: minutes * 60, help="Minutes a pair or image is held."),
    click.option("--limit", "limit_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
                 help="Seconds an image is seen and may be named."),
    click.option("--practice", type=click.IntRange(0), metavar="N",
                 help="Pictures or pairs to practise on, with the answer. Default: 5 images, a quarter of the groups "
                 "at most; the pairs of --examples."),
    click.option("--at-once", type=click.Choice(AT_ONCE), default="pair", show_default=True,
                 help="One pair at a time, or a whole set: all similar except those marked."),
    click.option("--hints", type=click.Choice(HINTS), default="after", show_default=True,
                 help="When people see what the pixels of a pair suggest, where the dataset has hints."),
    click.option("--goal", type=click.IntRange(1), metavar="N", help="Answers each person means to give a day."),
    seed_option,
)  # fmt: skip


@command.command(cls=Grouped, epilog="Example: strobe review serve data/clips --votes 2")
@click.argument("dataset", type=folder())
@_ask
@_reach
@_conduct
@click.option("--suggest", metavar="RUN", help="Suggest the boxes of a detector: a run, NAME=RUN, or preds:FILE.")
@click.option(
    "--guidelines",
    type=click.Path(path_type=Path),
    metavar="FILE.md",
    help="The project's own guidelines, shown on the page.",
)
@click.option(
    "--examples",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Pairs with the right answer to practise on: CSV with set, frame, decision, reason, note.",
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
        click.echo("Ctrl-C stops it; every decision is kept, the same command goes on from there", err=True)
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
    """How far the review of DATASET is: progress, agreement, controls, reasons, pace."""
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
    help="Also write what follows as a dataset of its own: the reviewed sets, or those kept with their boxes.",
)
@click.option("--crops", type=folder(exists=False), help="Also cut the kept images to their boxes: CLASS/NAME there.")
@click.option(
    "--unreviewed",
    type=click.Choice(["keep", "exclude"]),
    help="Sets without any vote: keep them as they were built, or exclude them. Default: as before, at first exclude.",
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
    """Write the answers and their figures into DATASET; sets follow from those on pairs, boxes and crops from boxes."""
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
        what = "votes these sets" if ask == "pairs" else "answers these boxes"
        click.echo(f"note: the {what} follow from are not all in: {lacks}", err=True)


@command.command(name="import", epilog="Example: strobe review import data/clips votes.csv")
@click.argument("dataset", type=folder())
@click.argument("file", type=click.Path(path_type=Path))
@_ask
@_db
@click.option(
    "--annotator", default="imported", show_default=True, help="Whose answers these are, where FILE is silent."
)
@json_option
def import_(dataset: Path, file: Path, ask: str, db: str | None, annotator: str, as_json: bool) -> None:
    """Take answers made elsewhere: the papers' annotation JSON, CSV (set, frame, decision, …), names (frame, label)."""
    from strobe.workflows import review

    found = review.import_votes(dataset, file, annotator=annotator, ask=ask, db=db)
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{found['read']} votes read, {found['added']} new; {found['elsewhere']} lines about other frames")
    click.echo(f"next: strobe review export {printable(dataset)}" + ("" if ask == "pairs" else f" --ask {ask}"))
