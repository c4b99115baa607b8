"""`strobe vary corruption|attack|generator|background`."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import (
    Grouped,
    folder,
    json_option,
    name_option,
    options,
    progress,
    quiet_option,
    seed_option,
    severity_option,
    workers_option,
)
from strobe.cli.predicting import engine_options, loading_options, model_option
from strobe.cli.said import counted, left_out, made, made_json
from strobe.core.errors import InvalidValue, printable

if TYPE_CHECKING:
    from strobe.models.options import LoadOptions
    from strobe.workflows.engines import ExecutorOptions
    from strobe.workflows.searching import SearchOutcome
    from strobe.workflows.vary_attack import VaryAttackOptions
    from strobe.workflows.vary_background import VaryBackgroundOptions
    from strobe.workflows.vary_corruption import CorruptionOptions
    from strobe.workflows.vary_generator import VaryGeneratorOptions

__all__ = ["command"]


@click.group(name="vary", epilog="Example: strobe vary corruption data/photos data/corrupted --kind fog,snow")
def command() -> None:
    """Make a dataset of changed images: what should get the same answer, and may not."""


def _kinds(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG001 (click's signature)
    """Names, repeated or with commas between them."""
    return tuple(name.strip() for word in words for name in word.split(","))


def _say_kinds(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:  # noqa: ARG001 (click's signature)
    if not wanted or context.resilient_parsing:
        return
    from strobe.vary.corruptions import CORRUPTIONS, GROUPS

    width = max(map(len, (*CORRUPTIONS, *GROUPS)))
    for name, about in CORRUPTIONS.items():
        click.echo(f"{name.ljust(width)}  {about.what}")
    for name, kinds in GROUPS.items():
        click.echo(f"{name.ljust(width)}  {counted(len(kinds), 'corruption')}: {', '.join(kinds)}")
    context.exit()


_wanted = options(
    "wanted", "What is made", "strobe.workflows.vary_corruption:CorruptionOptions",
    click.option("--kind", multiple=True, default=("imagenet-c",), show_default=True, callback=_kinds, metavar="NAME",
                 help="A corruption, or a group: imagenet-c (its 15), papers (6), all (19). Several with commas."),
    severity_option,
    click.option("--store", is_flag=True,
                 help="Store every member as a PNG file. Default: rendered when it is read, to the same pixels."),
    name_option,
    workers_option,
)  # fmt: skip


@command.command(
    cls=Grouped,
    short_help="Corruptions of five severities: noise, blur, weather, JPEG and the like.",
    epilog="Example: strobe vary corruption data/photos data/corrupted --kind papers --severity 1-5   ·   then: "
    "strobe eval data/corrupted -m efficientnet-lite0 -o run/",
)
@click.argument("src", type=folder())
@click.argument("dst", type=folder(exists=False))
@_wanted
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_say_kinds,
              help="Show the corruptions and groups, and exit.")  # fmt: skip
@quiet_option
@json_option
def corruption(src: Path, dst: Path, wanted: "CorruptionOptions", quiet: bool, as_json: bool) -> None:
    """Corrupt the anchors of the dataset SRC: photos, or one frame of every set; DST becomes a dataset of its own.

    One set per image and corruption, severity the distance. The settings are ImageNet-C's, for images of 224
    pixels; lengths and noise follow a picture's size. The same image gives the same pixels, in whatever order. The
    same command again does only what is missing.
    """
    from strobe.workflows.vary_corruption import vary_corruption

    done = vary_corruption(src, dst, wanted, progress=progress(quiet=quiet or as_json))
    kinds = [str(name) for name in done.dataset.variants.variant] if done.dataset.variants else []
    if as_json:
        made_json(dst, done.dataset, {"kinds": kinds, "stored": wanted.store, "problems": list(done.problems)})
        return
    left_out(done.problems)
    stored = "stored as files" if wanted.store else "rendered when read"
    was = " (it was there)" if done.was_there else ""
    line = made(dst, done.dataset, "video", "set", "frame", "class")
    click.echo(f"{line}; {counted(len(kinds), 'corruption')} {stored}{was}")


def _number(text: str, flag: str) -> float:
    """An ε: 0.5, or 4/255 as everybody writes it."""
    try:
        return float(Fraction(text.strip()))
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise InvalidValue(f"{flag}: expected numbers such as 4/255 or 0.5, got {printable(text.strip())!r}") from error


def _grids(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(_number(part, "--eps") for part in word.split(",")) for word in words)


def _ends(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(_number(word, "--most") for word in words)


_attacks = options(
    "wanted", "The attack", "strobe.workflows.vary_attack:VaryAttackOptions",
    click.option("--norm", multiple=True, type=click.Choice(["linf", "l2"]), default=("linf",), show_default=True,
                 help="What ε bounds: the largest change of a channel, or all together. May be repeated."),
    click.option("--eps", multiple=True, callback=_grids, metavar="LIST",
                 help="The ε tried, ascending, as shares of the pixel range; one list for each --norm. Default: "
                 "1/255,2/255,4/255,8/255 for linf, 0.25,0.5,1,2 for l2."),
    click.option("--minimal", is_flag=True,
                 help="Instead: the smallest ε of a fine grid, each image on its own, by growing and halving."),
    click.option("--most", multiple=True, callback=_ends, metavar="EPS",
                 help="Where --minimal gives up, one for each --norm. Default: 16/255 for linf, 4 for l2."),
    click.option("--method", type=click.Choice(["pgd", "apgd"]), default="pgd", show_default=True,
                 help="Steps of one size (pgd), or Auto-PGD: cross-entropy, then DLR towards wrong classes (apgd)."),
    click.option("--steps", type=int, default=40, show_default=True, help="Gradient steps of one try."),
    click.option("--step", type=float, help="A step's size as a share of ε, for pgd. Default: 2.5 / steps."),
    click.option("--targets", type=int, help="Likeliest wrong classes that apgd climbs towards. Default: 9."),
    click.option("--restarts", type=int, default=1, show_default=True,
                 help="Tries from random starts, after the one from the image itself."),
    click.option("--loss", type=click.Choice(["margin", "cross-entropy"]),
                 help="What pgd climbs: the lead of the best wrong class (default), or the cross-entropy."),
    click.option("--margin", type=float, default=0.01, show_default=True,
                 help="The lead a finding must have, in nats, so that it survives being read back."),
    name_option,
    seed_option,
)  # fmt: skip


@command.command(
    cls=Grouped,
    short_help="Adversarial images: the smallest change a model falls for, by PGD or APGD.",
    epilog="Example: strobe vary attack data/photos data/attacked -m efficientnet-lite0 --eps 1/255,2/255   ·   "
    "then: strobe eval data/attacked -m efficientnet-lite0 -m efficientnet-lite1 -o run/",
)
@click.argument("src", type=folder())
@click.argument("dst", type=folder(exists=False))
@model_option
@_attacks
@loading_options
@engine_options
@quiet_option
@json_option
def attack(
    src: Path,
    dst: Path,
    models: tuple[str, ...],
    wanted: "VaryAttackOptions",
    load: "LoadOptions",
    engine: "ExecutorOptions",
    quiet: bool,
    as_json: bool,
) -> None:
    """Attack models on the anchors of the dataset SRC, in their own input; DST becomes a dataset of what was found.

    One set per image, norm and model. A change is rounded to 8 bits while it is searched for, and counts once the
    model gets the stored image wrong. What is not found is kept as such. The same command again does only what is
    missing.
    """
    from strobe.workflows.vary_attack import vary_attack

    say = progress(quiet=quiet or as_json)
    done = vary_attack(src, dst, models, wanted, load=load, progress=say, engine=engine)
    _say_searched(dst, done, "attacks", "ε", as_json=as_json)
    if not as_json and any(many["censored"] for many in done.tally().values()):
        more = "--restarts 5 --steps 100" if wanted.method == "apgd" else "--method apgd"
        click.echo(f"What held is an upper bound on robust accuracy: a stronger search ({more}) may find more.")


def _say_searched(dst: Path, done: "SearchOutcome", key: str, axis: str, *, as_json: bool) -> None:
    """What became of the searches, variant by variant."""
    tally = done.tally()
    if as_json:
        made_json(dst, done.dataset, {key: tally, "problems": list(done.problems)})
        return
    left_out(done.problems)
    was = " (it was there)" if done.was_there else ""
    click.echo(made(dst, done.dataset, "video", "set", "frame", "class") + was)
    for name, many in tally.items():
        said = ", ".join(f"{many[status]} {words.format(axis)}" for status, words in _STATUSES.items() if many[status])
        click.echo(f"{printable(name)}: {said}")
    if key == "searches" and any(many["censored"] for many in tally.values()):
        click.echo(
            "A search that found nothing is no proof that nothing is there: --restarts 3 --steps 240 finds more."
        )


_STATUSES = {
    "found": "found", "censored": "held to the last {}", "anchor_wrong": "wrong before anything was changed",
    "failed": "failed (scores that are no numbers, or not reproduced when read back)",
}  # fmt: skip


def _numbers(_: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, ...]:
    return tuple(_number(part, f"--{parameter.name}") for part in text.split(",")) if text else ()


_changes = options(
    "wanted", "The search", "strobe.workflows.vary_generator:VaryGeneratorOptions",
    click.option("--granularity", multiple=True, callback=_kinds, metavar="LIST",
                 help="What may change: latent, coarse, middle, fine, pixel (all layers of it together), all, layer:N, "
                 "each (every layer alone). Default: all granularities the generator has."),
    click.option("--search", type=click.Choice(["minimal", "reference", "budget"]), default="minimal",
                 show_default=True, help="minimal measures; reference is as published (Adam, a growing ball, the first "
                 "success); budget tries fixed magnitudes."),
    click.option("--images", type=click.IntRange(1), default=100, show_default=True,
                 help="Pictures searched, of all classes in turn; each is right for every model."),
    click.option("--classes", multiple=True, callback=_kinds, metavar="LIST",
                 help="Classes to draw. Default: all of the generator's."),
    click.option("--aim", default="untargeted", show_default=True, metavar="AIM",
                 help="untargeted: any wrong answer; runner-up: the second best; or the name of a class."),
    click.option("--most", type=float, help="Where a search gives up, in standard deviations a neuron (RMS). "
                 "Default: 2."),
    click.option("--budget", callback=_numbers, metavar="LIST",
                 help="The magnitudes of --search budget, ascending, in standard deviations a neuron (RMS)."),
    click.option("--steps", type=click.IntRange(1), help="Gradient steps of one try. Default: 120 for minimal, 500 for "
                 "reference, 40 a magnitude for budget."),
    click.option("--restarts", type=click.IntRange(0), default=0, show_default=True,
                 help="Further tries from random directions."),
    click.option("--margin", type=float, default=0.01, show_default=True,
                 help="The lead a finding must have, in nats, so that it survives being read back."),
    click.option("--strips", type=click.IntRange(0), default=8, show_default=True,
                 help="Of how many images the way from nothing to what was found is kept, to look at."),
    click.option("--scale-images", type=click.IntRange(2), default=500, show_default=True,
                 help="Images over which the standard deviation of every neuron is taken."),
    click.option("--changes/--no-changes", default=True, show_default=True,
                 help="Keep what was changed, two bytes a neuron, so that each image can be made again."),
    name_option,
    seed_option,
)  # fmt: skip


@command.command(
    cls=Grouped,
    short_help="Changes of what an image shows, coarse to fine: in the activations of a generator.",
    epilog="Example: strobe vary generator data/changed --generator strobe-gan-mnist -m strobe-mnist -m "
    "strobe-mnist-linf --images 24   ·   then: strobe eval data/changed -m strobe-mnist -m strobe-mnist-linf -o run/",
)
@click.argument("dst", type=folder(exists=False))
@click.option(
    "--generator",
    required=True,
    metavar="G",
    help="strobe-gan, strobe-gan-mnist (with @weights of your own), biggan:NAME, py:FILE.py:FACTORY.",
)
@model_option
@_changes
@loading_options
@engine_options
@quiet_option
@json_option
def generator(
    dst: Path, generator: str, models: tuple[str, ...], wanted: "VaryGeneratorOptions", load: "LoadOptions",
    engine: "ExecutorOptions", quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Search how far a generator's activations must change until models err; DST becomes a dataset of what was found.

    Images are drawn that every model gets right. In each granularity the search looks for the least change, in
    standard deviations of the neurons, that a model gets wrong once the image is stored. What is not found is kept as
    such. The same command again does only what is missing.
    """
    from strobe.workflows.vary_generator import vary_generator

    say = progress(quiet=quiet or as_json)
    done = vary_generator(dst, generator, models, wanted, load=load, progress=say, engine=engine)
    _say_searched(dst, done, "searches", "magnitude", as_json=as_json)


def _say_rungs(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:  # noqa: ARG001 (click's signature)
    if not wanted or context.resilient_parsing:
        return
    from strobe.core.ladders import CONTROLS, NEEDS_MASK, RUNGS

    for name, about in RUNGS.items():
        more = "; a control" if name in CONTROLS else ""
        more += "; needs masks" if name in NEEDS_MASK else ""
        more += "; at every --context" if name == "crop" else ""
        click.echo(f"{name.ljust(max(map(len, RUNGS)))}  {about}{more}")
    context.exit()


_ladders = options(
    "wanted", "The ladder", "strobe.workflows.vary_background:VaryBackgroundOptions",
    click.option("--boxes", default="", metavar="WHICH",
                 help="truth: the dataset's own; people: those drawn in a review; or a file: CSV with key,x0,y0,x1,y1, "
                 "manifest.json of a crop set. Default: the dataset's, else around the masks."),
    click.option("--masks", type=folder(), metavar="DIR",
                 help="Masks, a PNG an image, named as it; the object is above 127. Default: those that synthesize or "
                 "simulate wrote."),
    click.option("--detector", default="", metavar="MODEL", help="Boxes estimated by a detector: the best of each."),
    click.option("--segment", default="", metavar="NET",
                 help="Masks estimated by a saliency net: u2netp, or onnx:FILE.onnx."),
    click.option("--context", callback=_numbers, default="1,1.25,1.5,2", show_default=True, metavar="LIST",
                 help="How many times as wide and high as its box a crop is."),
    click.option("--fit", type=click.Choice(["squash", "pad"]), default="squash", show_default=True,
                 help="Rungs are resized whole by each model, or put into a grey square first."),
    click.option("--rungs", multiple=True, callback=_kinds, metavar="LIST",
                 help="Which rungs, with commas; see --list. Default: all that can be made."),
    click.option("--store", is_flag=True,
                 help="Store every rung as a PNG file. Default: rendered when it is read, to the same pixels."),
    name_option,
    workers_option,
    seed_option,
)  # fmt: skip


@command.command(
    cls=Grouped,
    short_help="How much the background decides: a ladder from the whole image to its object.",
    epilog="Example: strobe vary background data/world data/ladder --context 1,1.5,2   ·   then: "
    "strobe eval data/ladder -m strobe-world -o run/",
)
@click.argument("src", type=folder())
@click.argument("dst", type=folder(exists=False))
@_ladders
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_say_rungs,
              help="Show the rungs, and exit.")  # fmt: skip
@loading_options
@quiet_option
@json_option
def background(
    src: Path, dst: Path, wanted: "VaryBackgroundOptions", load: "LoadOptions", quiet: bool, as_json: bool
) -> None:
    """Make the ladders of the anchors of the dataset SRC: photos, or one frame of every set; DST becomes a dataset.

    One set per image and rung: zoomed, cropped to its box, its background greyed, blurred or replaced, the object
    alone, the background alone. Models get every rung resized whole, so that rungs differ in nothing else. What cannot
    be made is counted with the reason (DST/ladder.parquet); DST/ladders.png shows a few. The same command again does
    only what is missing.
    """
    from strobe.core.ladders import LADDER
    from strobe.workflows.vary_background import vary_background

    done = vary_background(src, dst, wanted, load=load, progress=progress(quiet=quiet or as_json))
    rungs, absent = done.counts(), done.absent()
    if as_json:
        about = {key: done.dataset.info.provenance[key] for key in ("boxes", "masks")}
        made_json(dst, done.dataset, {**about, "rungs": rungs, "absent": absent, "problems": list(done.problems)})
        return
    left_out(done.problems)
    for rung, reasons in absent.items():
        what = "left out" if rung == LADDER else f"without {rung}"
        for reason, many in reasons.items():
            click.echo(f"{what}: {counted(many, 'image')}: {printable(reason)}", err=True)
    was = " (it was there)" if done.was_there else ""
    click.echo(made(dst, done.dataset, "video", "set", "frame", "class") + was)
    click.echo(f"rungs: {', '.join(f'{name} {many:,}' for name, many in rungs.items())}; {printable(done.sources())}")
