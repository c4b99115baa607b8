"""`strobe models`: the models that strobe can load by name."""

import click

from strobe.cli.common import json_option, warn_of


@click.command(epilog="Example: strobe models 'timm:*convnext*in1k'")
@click.argument("pattern", required=False)
@click.option("--testbed", "show_testbed", is_flag=True, help="List the papers' classifiers under their current names.")
@json_option
def command(pattern: str | None, show_testbed: bool, as_json: bool) -> None:
    """List the models that -m accepts: all providers, or the names that match a glob."""
    import json

    from strobe.models.providers import PROVIDERS
    from strobe.workflows.models import listing, papers_models, providers

    if show_testbed:
        rows = papers_models(pattern)
        if as_json:
            click.echo(json.dumps(rows, indent=1))
            return
        for row in rows:
            mark = "standard" if row["standard"] else row["model_type"]
            name = row["paper_name"] or "(not in the papers)"
            click.echo(f"{name:<44} {mark:<22} {row['model'] or 'to get it: ' + row['get']}")
        return
    if pattern:
        found = listing(pattern)
        click.echo(json.dumps(found, indent=1) if as_json else "\n".join(found))
        return
    warn_of(PROVIDERS)
    known = providers()
    if as_json:
        click.echo(json.dumps(known, indent=1))
        return
    for row in known:
        click.echo(f"{row['example']:<32} {row['what']}" + ("" if row["installed"] else f"  [{row['get']}]"))
    click.echo(
        "\nTo list names by a glob: strobe models 'timm:resnet*'. To list the papers' testbed: strobe models --testbed."
        " To run the whole testbed: -m @testbed."
    )
