"""`strobe train`: train a classifier, detector, generator or autoencoder by a recipe."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strobe.cli.common import (
    Grouped,
    folder,
    json_option,
    log_option,
    out_option,
    print_json,
    progress,
    quiet_option,
    record_options,
    seed_option,
)
from strobe.core.errors import printable
from strobe.workflows.options import TrainOptions

if TYPE_CHECKING:
    from strobe.workflows.train_job import Trained


def _list(ctx: click.Context, _: click.Parameter, requested: bool) -> None:
    if not requested or ctx.resilient_parsing:
        return
    from strobe.train.recipe import shipped

    found = shipped()
    width = max(map(len, found), default=0)
    for name, about in found.items():
        click.echo(f"{name.ljust(width)}  {about}")
    ctx.exit()


_running = record_options(
    "train_options",
    "Running",
    TrainOptions,
    own={"seed": seed_option, "log": log_option},
    common=("seed", "device", "image_size", "from_scratch", "minutes", "log"),
)


@click.command(
    cls=Grouped,
    epilog="Example: strobe train finetune clips/ -m timm:resnet18 -o tuned/   ·   strobe train pmk clips/ "
    "-m timm:resnet18@tuned/model.safetensors -o steady/ --set epochs=5   ·   "
    "torchrun --nproc-per-node 4 -m strobe train …",
)
@click.argument("recipe")
@click.argument("dataset", type=folder(), required=False)
@click.option(
    "-m", "--model", required=True, metavar="MODEL", help="The model to start from: [provider:]name[@weights]."
)
@out_option(what="the weights, checkpoint, curves and card")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Set a key of the recipe. May be repeated.")
@click.option(
    "--head",
    type=click.Choice(["retinanet", "faster-rcnn"]),
    help="detector: the head that makes a detector of a timm model. The same as --set head=.",
)
@click.option("--held-out", type=folder(), help="A dataset to evaluate on, instead of a part of DATASET.")
@click.option("--anchors", type=folder(), help="agreement: a dataset whose labelled anchors join the training.")
@click.option("--multi-label", is_flag=True, help="Train every label of a frame independently (binary loss).")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the recipes and exit."
)
@_running
@quiet_option
@json_option
def command(
    recipe: str,
    dataset: Path | None,
    model: str,
    out: Path,
    changes: tuple[str, ...],
    head: str | None,
    held_out: Path | None,
    anchors: Path | None,
    multi_label: bool,
    train_options: TrainOptions,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train a model on a dataset's sets by a RECIPE, which is a name (see --list) or the path of your own TOML file.

    Run the same command again to resume a training. Use the result as MODEL@OUT/model.safetensors. Only
    `strobe train detector -m strobe-tiny` needs no DATASET, because it renders its own clips. `agreement` reads no
    labels.
    """
    from strobe.train.recipe import TRAININGS, find
    from strobe.workflows.train_job import Material

    flags = [*(["multi_label=true"] if multi_label else []), *([] if head is None else [f"head={head}"])]
    settings = [*changes, *flags]
    chosen, bar = find(recipe, changes=settings, model=model), progress(quiet=quiet or as_json)
    held = None if held_out is None else Material.of(held_out)
    labelled = None if anchors is None else Material.of(anchors)
    if labelled is not None and chosen.trains not in ("all", "head"):
        raise click.UsageError("--anchors is for the recipe agreement")
    if dataset is None and chosen.trains != "detector":
        raise click.UsageError("Missing argument 'DATASET': the dataset to train on")
    material = None if dataset is None else Material.of(dataset)
    training, more = TRAININGS[chosen.trains], {} if labelled is None else {"anchors": labelled}
    done = training.run(chosen, material, model, out, train_options, bar, held_out=held, **more)
    if as_json:
        print_json(_json(done))
        return
    before = " (done before)" if done.was_there else f", {done.seconds:.0f} s"
    click.echo(f"{printable(done.weights)}: {training.summary(done)}{before}")
    click.echo(f"use it as {printable(done.model)}; model card: {printable(done.card)}")


def _json(done: "Trained") -> dict[str, Any]:
    return {
        "model": done.model,
        "weights": str(done.weights),
        "card": str(done.card),
        "seconds": round(done.seconds, 1),
        "was_there": done.was_there,
        "k": done.k,
        "history": done.history,
    }
