"""`strobe vary generator`: find coarse to fine changes in the activations of a generator."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import Grouped, folder, json_option, name_option, options, progress, quiet_option, seed_option
from strobe.cli.predicting import engine_options, loading_options, model_option
from strobe.cli.vary import print_searches, split_names, split_numbers

if TYPE_CHECKING:
    from strobe.annexes.generators.workflow import VaryGeneratorOptions
    from strobe.engine.running import ExecutorOptions
    from strobe.models.options import LoadOptions


_changes = options(
    "search_options", "The search", "strobe.annexes.generators.workflow:VaryGeneratorOptions",
    click.option("--granularity", multiple=True, callback=split_names, metavar="LIST",
                 help="The activations to change: latent, coarse, middle, fine, pixel (each with all its layers), all, "
                 "layer:N, or each (every layer separately). Default: all granularities of the generator."),
    click.option("--search", type=click.Choice(["minimal", "reference", "budget"]), default="minimal",
                 show_default=True,
                 help="minimal searches for the smallest change. reference is the published search (Adam in a growing "
                 "ball, until the first success). budget tries fixed magnitudes."),
    click.option("--images", type=click.IntRange(1), default=100, show_default=True,
                 help="Number of images. They show the classes in turn. Every model gets each of them right."),
    click.option("--classes", multiple=True, callback=split_names, metavar="LIST",
                 help="Classes to draw. Default: all classes of the generator."),
    click.option("--aim", default="untargeted", show_default=True, metavar="AIM",
                 help="untargeted: any wrong answer. runner-up: the second best answer. Or the name of a class."),
    click.option("--most", type=float, help="The largest change to try, in standard deviations per neuron (RMS). "
                 "Default: 2."),
    click.option("--budget", callback=split_numbers, metavar="LIST",
                 help="The magnitudes of --search budget, ascending, in standard deviations per neuron (RMS)."),
    click.option("--steps", type=click.IntRange(1),
                 help="Gradient steps per attempt. Default: 120 for minimal, 500 for "
                 "reference, 40 per magnitude for budget."),
    click.option("--restarts", type=click.IntRange(0), default=3, show_default=True,
                 help="Further attempts from random directions. With 0, robust models look more robust than they are."),
    click.option("--margin", type=float, default=0.01, show_default=True,
                 help="How far the wrong class must lead, in nats, so that a stored finding stays wrong."),
    click.option("--strips", type=click.IntRange(0), default=8, show_default=True,
                 help="Number of images for which to store a strip from the unchanged image to the finding."),
    click.option("--scale-images", type=click.IntRange(2), default=500, show_default=True,
                 help="Number of images from which to estimate the standard deviation of every neuron."),
    click.option("--changes/--no-changes", default=True, show_default=True,
                 help="Store the changes, two bytes per neuron, so that each image can be rendered again."),
    name_option,
    seed_option,
    common=("granularity", "search", "images", "classes", "aim", "restarts", "seed"),
)  # fmt: skip


@click.command(
    name="generator",
    cls=Grouped,
    short_help="Coarse to fine changes of an image, made in the activations of a generator.",
    epilog="Example: strobe vary generator data/changed --generator strobe-gan-mnist -m strobe-mnist -m "
    "strobe-mnist-linf --images 24   ·   then: strobe eval data/changed -m strobe-mnist -m strobe-mnist-linf -o run/",
)
@click.argument("dst", type=folder(exists=False))
@click.option(
    "--generator",
    required=True,
    metavar="G",
    help="strobe-gan, strobe-gan-mnist (optionally with your own @weights), biggan:NAME, py:FILE.py:FACTORY. With "
    "--photos: diffusers:FOLDER.",
)
@click.option(
    "--photos",
    type=folder(),
    help="A dataset whose photos an autoencoder reconstructs and changes. They keep their labels.",
)
@model_option
@_changes
@loading_options
@engine_options
@quiet_option
@json_option
def command(
    dst: Path, generator: str, photos: Path | None, models: tuple[str, ...], search_options: "VaryGeneratorOptions",
    load: "LoadOptions", engine: "ExecutorOptions", quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Find the smallest changes of a generator's activations that make models err. DST becomes a dataset of findings.

    The generator draws images that every model gets right. An autoencoder reconstructs --photos instead, and the
    command first prints how often each model is right on photos and on reconstructions. For each granularity, the
    search minimises the change of the neurons, measured in their standard deviations. A finding counts only if the
    model gets the stored image wrong. Searches that find nothing are recorded, too. Running the same command again does
    only the missing work.
    """
    from strobe.annexes.generators.workflow import vary_generator

    say = progress(quiet=quiet or as_json)
    done = vary_generator(dst, generator, models, search_options, photos=photos, load=load, progress=say, engine=engine)
    print_searches(dst, done, "searches", "magnitude", as_json=as_json)
    if not as_json and any(counts["censored"] for counts in done.tally().values()):
        click.echo("A search that finds nothing proves nothing. A longer one (--restarts 3 --steps 240) may find more.")
