"""`strobe view`: browse runs and datasets in a browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strobe.annexes.web.review.conduct import PROXY
from strobe.cli.common import Grouped, folder, json_option, options, print_json
from strobe.core.errors import printable

if TYPE_CHECKING:
    from strobe.annexes.web.view.workflow import ViewLinks, ViewOptions

_where = options(
    "where",
    "Address and people",
    "strobe.annexes.web.view.workflow:ViewOptions",
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option(
        "--port", type=click.IntRange(0, 65535), default=8322, show_default=True, help="Port. 0 chooses a free one."
    ),
    click.option("--public-url", metavar="URL", help="The address that people open, if it differs from host and port."),
    click.option("--proxy", multiple=True, metavar="ADDRESS", help=PROXY),
    click.option("--name", metavar="NAME", help="Your name, which tags and notes get. Default: your user name."),
    click.option(
        "--invite", multiple=True, metavar="NAME", help="Print a read-only link for this person. May be repeated."
    ),
    common=("host", "port", "name", "invite"),
)


@click.command(cls=Grouped, epilog="Example: strobe view runs/   ·   strobe view run/ other-run/ data/clips")
@click.argument("places", nargs=-1, type=folder(), metavar="[RUN|DATASET|FOLDER]...")
@_where
@click.option("--open/--no-open", "open_browser", default=True, show_default=True, help="Open the page in a browser.")
@click.option("--list", "only_list", is_flag=True, help="Print the runs with their states and counts, and exit.")
@json_option
def command(places: tuple[Path, ...], where: "ViewOptions", open_browser: bool, only_list: bool, as_json: bool) -> None:
    """Browse every set of every run: filter, compare, tag, and follow a run while it goes on.

    A FOLDER is searched for runs and datasets. Without an argument, the current folder is searched. The page is served
    on this machine until Ctrl-C. With --list or --json, print what was found and exit.
    """
    from strobe.annexes.web.view.workflow import list_view, serve_view

    if only_list or as_json:
        found = list_view(places or (Path(),))
        if as_json:
            print_json(found)
        else:
            _print(found)
        return

    def ready(links: "ViewLinks") -> None:
        click.echo(f"viewer       {links.owner}")
        for name, link in links.personal.items():
            click.echo(f"{printable(name):<12} {link}")
        click.echo("press Ctrl-C to stop; the same command prints the same links again", err=True)
        if open_browser:
            import webbrowser

            webbrowser.open(links.owner)

    serve_view(places or (Path(),), where, on_ready=ready)


_STATES = {"predicted": "not scored"}
_WORDS = {"holds": "hold", "breaks": "flicker", "wrong": "wrong on the anchor", "unscored": "not scored"}


def _print(found: dict[str, Any]) -> None:
    """Print a line for each model of each run."""
    for run in found["runs"]:
        state = _STATES.get(run["state"], run["state"])
        click.echo(f"{run['name']}: {state}, on {run['dataset_name'] or 'an unknown dataset'}")
        for row in run["models"]:
            sets = row["sets"]
            counts = "no sets" if sets is None else ", ".join(f"{n} {_WORDS[name]}" for name, n in sets.items() if n)
            click.echo(f"  {printable(row['model'])}: {counts}")
        for line in (run.get("note"), run["problem"]):
            if line:
                click.echo(f"  {line}")
    for one in found["datasets"]:
        if not one["runs"]:
            click.echo(f"{one['name']}: a dataset without a run")
