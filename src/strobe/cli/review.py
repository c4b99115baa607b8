"""`strobe review serve | status | export | import`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strobe.cli.common import Grouped, folder, json_option, options, seed_option
from strobe.cli.said import counted
from strobe.core.errors import printable

if TYPE_CHECKING:
    from strobe.review.conduct import ReviewSettings
    from strobe.workflows.review import ServeOptions

__all__ = ["command"]

_db = click.option(
    "--db",
    metavar="URL",
    envvar="STROBE_REVIEW_DB",
    help="Where votes are kept: postgresql://user@host/name. Default: DATASET/review.sqlite.",
)


@click.group(name="review", epilog="Example: strobe review serve data/clips")
def command() -> None:
    """People decide what is similar: the review page, its progress and its outcome."""


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
    "settings", "How it is run", "strobe.review.conduct:ReviewSettings",
    click.option("--votes", type=click.IntRange(1), default=1, show_default=True,
                 help="Annotators per pair in round one."),
    click.option("--labels", is_flag=True,
                 help="Start with the label stage: each anchor alone, labels added or removed."),
    click.option("--verify/--no-verify", default=True, show_default=True,
                 help="Round two: doubtful pairs to everyone."),
    click.option("--show-votes", is_flag=True, help="Show the earlier votes in round two."),
    click.option("--controls", type=click.FloatRange(0, 0.5), default=0.04, show_default=True,
                 help="Share of control pairs."),
    click.option("--lease", "lease_s", type=click.FloatRange(0.1), default=10.0, show_default=True,
                 callback=lambda _context, _option, minutes: minutes * 60, help="Minutes a pair is held."),
    seed_option,
)  # fmt: skip


@command.command(cls=Grouped, epilog="Example: strobe review serve data/clips --votes 2")
@click.argument("dataset", type=folder())
@_reach
@_conduct
@click.option("--open/--no-open", "open_browser", default=True, show_default=True, help="Open the page in a browser.")
def serve(dataset: Path, where: "ServeOptions", settings: "ReviewSettings", open_browser: bool) -> None:
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

    review.serve(dataset, where, settings, on_ready=ready)


@command.command(epilog="Example: strobe review status data/clips --json")
@click.argument("dataset", type=folder())
@_db
@json_option
def status(dataset: Path, db: str | None, as_json: bool) -> None:
    """How far the review of DATASET is: progress, agreement, control pairs, reasons, pace."""
    from strobe.workflows import review

    figures = review.status(dataset, db=db)
    click.echo(json.dumps(figures, ensure_ascii=False) if as_json else _text(figures))


@command.command(epilog="Example: strobe review export data/clips")
@click.argument("dataset", type=folder())
@_db
@click.option("-o", "--out", type=folder(exists=False), help="Also write the reviewed sets as a dataset of their own.")
@json_option
def export(dataset: Path, db: str | None, out: Path | None, as_json: bool) -> None:
    """Write the votes and their figures into DATASET; the reviewed sets follow from them."""
    from strobe.workflows import review

    figures = review.export(dataset, db=db, out=out)
    click.echo(json.dumps(figures, ensure_ascii=False) if as_json else _text(figures))
    if not as_json:
        click.echo(
            f"\nwritten: {printable(dataset)}/verdicts.parquet, review.json" + (f", {printable(out)}/" if out else "")
        )
    if unfinished := _unfinished(figures["waiting"]):
        click.echo(f"note: the votes these sets follow from are not all in: {unfinished}", err=True)


@command.command(name="import", epilog="Example: strobe review import data/clips votes.csv")
@click.argument("dataset", type=folder())
@click.argument("file", type=click.Path(path_type=Path))
@_db
@click.option("--annotator", default="imported", show_default=True, help="Whose votes these are, where FILE is silent.")
@json_option
def import_(dataset: Path, file: Path, db: str | None, annotator: str, as_json: bool) -> None:
    """Take votes made elsewhere: the papers' annotation JSON, or CSV (set, frame, decision, …)."""
    from strobe.workflows import review

    found = review.import_votes(dataset, file, annotator=annotator, db=db)
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{found['read']} votes read, {found['added']} new; {found['elsewhere']} lines about other frames")
    click.echo(f"next: strobe review export {printable(dataset)}")


def _text(figures: dict[str, Any]) -> str:
    """The figures for a terminal."""
    table, agreement = figures["table"], figures["agreement"]
    out = [
        f"{printable(figures['dataset'])}: {figures['votes']} votes",
        "",
        "            candidates   reviewed   accepted",
        f"  anchors   {table['anchors']:>10} {table['anchors_reviewed']:>10} {table['anchors_accepted']:>10}",
        f"  pairs     {table['pairs']:>10} {table['pairs_reviewed']:>10} {table['pairs_accepted']:>10}"
        + (f"   ({table['pairs_pending']} still to do)" if table["pairs_pending"] else ""),
        "",
        *_waiting(figures["waiting"]),
        "",
        f"agreement on {agreement['pairs_with_two_votes']} pairs with two votes or more",
    ]
    if agreement["votes_left_out"]:
        out[-1] += f" (left out, as not cast alone: {counted(agreement['votes_left_out'], 'vote')})"
    out += [
        f"  {name:<22}{_estimate(agreement[key], scale)}"
        for name, key, scale in (
            ("raw", "raw", 100.0),
            ("Fleiss' κ", "fleiss_kappa", 1.0),
            ("Krippendorff's α", "krippendorff_alpha", 1.0),
        )
    ]
    out += [
        f"  Cohen's κ {printable(one['a'])} / {printable(one['b'])}: {_estimate(one, 1.0)}"
        for one in agreement["cohen_kappa"]
    ]
    out += [
        "",
        f"control pairs right: {_estimate(figures['controls']['all'], 100.0)} (n = {figures['controls']['all']['n']})",
    ]
    if figures["reasons"]:
        out += ["reasons: " + ", ".join(f"{name} {count}" for name, count in figures["reasons"].items())]
    if figures["annotators"]:
        out += ["", "  annotator             votes  similar  dissimilar  unsure  controls  seconds"]
        out += [_annotator(one) for one in figures["annotators"]]
    if figures["classes"]:
        out += ["", "  class                 anchors  accepted   pairs  reviewed  accepted"]
        out += [
            f"  {printable(one['name'], limit=20):<20} {one['anchors']:>8} {one['anchors_accepted']:>9} "
            f"{one['pairs']:>7} {one['pairs_reviewed']:>9} {one['pairs_accepted']:>9}"
            for one in figures["classes"]
        ]
    return "\n".join(out)


def _waiting(waiting: dict[str, Any]) -> list[str]:
    """What is still waited for, a line per round."""
    one, two = waiting["round_one"], waiting["round_two"]
    if not one["pairs"]:
        first = "every pair has its votes" if one["votes"] is not None else "every pair has a vote"
    elif one["votes"] is None:
        first = f"{counted(one['pairs'], 'pair')} without a vote"
    else:
        first = f"{counted(one['votes'], 'vote')} on {counted(one['pairs'], 'pair')} still to come"
    if waiting["anchors"]:
        first += f"; {counted(waiting['anchors'], 'anchor')} without labels"
    if not two["pairs"]:
        second = "no doubtful pair waits"
    elif two["votes"] is None:
        second = f"{counted(two['pairs'], 'doubtful pair')} never verified"
    else:
        whom = ", ".join(f"{printable(name)} {count:,}" for name, count in two["people"].items())
        second = f"{counted(two['votes'], 'vote')} on {counted(two['pairs'], 'doubtful pair')} still to come: {whom}"
    if two["on"] is False:
        second += " (switched off: --no-verify)"
    out = [f"round one: {first}", f"round two: {second}"]
    if two["on"] is None:
        out.append("how many votes were asked for is not known here: the store of this review (--db) knows")
    return out


def _unfinished(waiting: dict[str, Any]) -> str:
    """What the reviewed sets lack, in a line; nothing where they lack nothing."""
    everyone = "" if waiting["round_two"]["votes"] is None else " by everyone"
    parts = [
        (waiting["round_one"]["pairs"], "pair", "not voted on as often as asked"),
        (waiting["anchors"], "anchor", "without labels"),
        (waiting["round_two"]["pairs"], "doubtful pair", f"not verified{everyone} in round two"),
    ]
    return ", ".join(f"{counted(count, noun)} {lacks}" for count, noun, lacks in parts if count)


def _annotator(one: dict[str, Any]) -> str:
    decisions, control = one["decisions"], one["controls"]
    right = "—" if control["value"] is None else f"{control['count']}/{control['n']}"
    seconds = "—" if one["seconds"]["median"] is None else f"{one['seconds']['median']:.1f}"
    return (
        f"  {printable(one['name'], limit=20):<20} {one['votes']:>6} {decisions['similar']:>8} "
        f"{decisions['dissimilar']:>11} {decisions['unsure']:>7} {right:>9} {seconds:>8}"
    )


def _estimate(data: dict[str, Any], scale: float) -> str:
    from strobe.core.codec import decode
    from strobe.core.estimate import Estimate

    estimate = decode(Estimate, data)
    if estimate.value is None:
        return f"— ({estimate.reason})"
    shown = estimate.text(scale=scale, digits=1 if scale == 100.0 else 2)
    return shown if estimate.reason is None else f"{shown} ({estimate.reason})"
