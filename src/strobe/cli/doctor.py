"""`strobe doctor`: check the installation and the devices."""

import click

from strobe.cli.common import json_option

__all__ = ["command"]


@click.command(epilog="Example: strobe doctor --no-speed")
@click.option("--speed/--no-speed", default=True, help="Measure the speed of a small network on every device.")
@json_option
def command(speed: bool, as_json: bool) -> None:
    """List installed and missing packages, how to install them, and the devices with their speed."""
    import json

    from strobe.workflows.doctor import examine

    found = examine(speed=speed)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    click.echo(f"strobe {found['strobe']} · Python {found['python']} · {found['system']}")
    for row in found["packages"]:
        state = row["version"] or f"missing: {row['get']}"
        click.echo(f"  {'✓' if row['version'] else '✗'} {row['package']:<34} {state:<48} {row['for']}")
    for row in found["too_old"]:
        click.echo(f"  ! {row['package']} {row['version']} is older than {row['needs']}: {row['get']}")
    click.echo("Devices")
    for row in found["devices"]:
        rate = f"{row['images_per_s']:.0f} images/s ({row['network']})" if row.get("images_per_s") else row["note"]
        click.echo(f"  {row['device']:<10} {row['name']:<44} {rate}")
    for row in found["places"]:
        click.echo(f"{row['what']}: {row['state']}")
