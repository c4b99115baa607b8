"""`strobe doctor`: check the installation and the devices."""

import click

from strobe.cli.common import json_option


@click.command(epilog="Example: strobe doctor --no-speed")
@click.option("--speed/--no-speed", default=True, help="Measure the speed of a small network on every device.")
@json_option
def command(speed: bool, as_json: bool) -> None:
    """List installed and missing packages, how to install them, and the devices with their speed."""
    import json

    from strobe.workflows.doctor import examine

    facts = examine(speed=speed)
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return
    click.echo(f"strobe {facts['strobe']} · Python {facts['python']} · {facts['system']}")
    for row in facts["packages"]:
        state = row["version"] or f"missing: {row['get']}"
        click.echo(f"  {'✓' if row['version'] else '✗'} {row['package']:<34} {state:<48} {row['for']}")
    for row in facts["too_old"]:
        click.echo(f"  ! {row['package']} {row['version']} is older than {row['needs']}: {row['get']}")
    for row in facts["plugins"]:
        click.echo(f"  ! {row['problem']}" if row["problem"] else "  + {name} of {package} ({group})".format(**row))
    click.echo("Devices")
    for row in facts["devices"]:
        rate = f"{row['images_per_s']:.0f} images/s ({row['network']})" if row.get("images_per_s") else row["note"]
        click.echo(f"  {row['device']:<10} {row['name']:<44} {rate}")
    for row in facts["places"]:
        click.echo(f"{row['what']}: {row['state']}")
