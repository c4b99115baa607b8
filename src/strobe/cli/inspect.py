"""`strobe inspect`: describe a dataset and draw a contact sheet."""

import json
from pathlib import Path

import click

from strobe.cli.common import folder, json_option, progress, quiet_option, refuse_option
from strobe.core.errors import printable


@click.command(epilog="Example: strobe inspect data/vid --sheet sheet.png --sets 20")
@click.argument("dataset", type=folder())
@click.option("--sheet", "sheet_path", type=click.Path(path_type=Path), help="Write a contact sheet of sets (PNG).")
@click.option("--sets", "how_many", type=int, default=12, show_default=True, help="Sets on the sheet, spread evenly.")
@click.option("--columns", type=int, default=11, show_default=True, help="Distances on the sheet, spread evenly.")
@click.option("--set", "named", multiple=True, metavar="ID", help="Show this set on the sheet. May be repeated.")
@quiet_option
@json_option
def command(
    dataset: Path,
    sheet_path: Path | None,
    how_many: int,
    columns: int,
    named: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Describe DATASET: counts, classes, offsets, frame types, fps, hints, review, and classes that models lack."""
    from strobe.workflows.inspect import inspect, lines, sheet

    if sheet_path is None:
        for option in ("how_many", "columns", "named"):
            refuse_option(option, "--sets, --set and --columns need a sheet; add --sheet FILE.png")
    facts = inspect(dataset)
    if sheet_path is not None:
        unread = sheet(
            dataset,
            sheet_path,
            how_many=how_many,
            named=named,
            columns=columns,
            progress=progress(quiet=quiet or as_json),
        )
        problem = f"; {unread} frame(s) could not be read" if unread else ""
        click.echo(f"written: {printable(sheet_path)}{problem}", err=True)
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        for line in lines(facts):
            click.echo(printable(line))
