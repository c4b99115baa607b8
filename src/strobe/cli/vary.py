"""`strobe vary`: make a dataset of changed images by corruption or attack."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import (
    Grouped,
    OpenGroup,
    counted,
    folder,
    json_option,
    left_out,
    made,
    made_json,
    name_option,
    options,
    progress,
    quiet_option,
    seed_option,
    severity_option,
    workers_option,
)
from strobe.cli.predicting import engine_options, loading_options, model_option
from strobe.core.errors import InvalidValue, printable

if TYPE_CHECKING:
    from strobe.engine.running import ExecutorOptions
    from strobe.models.options import LoadOptions
    from strobe.workflows.searching import SearchOutcome
    from strobe.workflows.vary_attack import VaryAttackOptions
    from strobe.workflows.vary_corruption import CorruptionOptions


@click.group(
    cls=OpenGroup, name="vary", epilog="Example: strobe vary corruption data/photos data/corrupted --kind fog,snow"
)
def command() -> None:
    """Make a dataset of changed images whose correct answer stays the same."""


def split_names(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Split names at commas. The option may be repeated."""
    return tuple(name.strip() for word in words for name in word.split(","))


def _print_kinds(context: click.Context, parameter: click.Parameter, requested: bool) -> None:  # noqa: ARG001 (click's signature)
    if not requested or context.resilient_parsing:
        return
    from strobe.vary.corruptions import CORRUPTIONS, GROUPS

    width = max(map(len, (*CORRUPTIONS, *GROUPS)))
    for name, about in CORRUPTIONS.items():
        click.echo(f"{name.ljust(width)}  {about.what}")
    for name, kinds in GROUPS.items():
        click.echo(f"{name.ljust(width)}  {counted(len(kinds), 'corruption')}: {', '.join(kinds)}")
    context.exit()


_corruptions = options(
    "corruption_options", "The dataset", "strobe.workflows.vary_corruption:CorruptionOptions",
    click.option("--kind", multiple=True, default=("imagenet-c",), show_default=True, callback=split_names,
                 metavar="NAME",
                 help="A corruption, or a group of them: imagenet-c (15), papers (6), all (20). Separate several with "
                 "commas."),
    severity_option,
    click.option("--store", is_flag=True,
                 help="Store every member as a PNG file. Default: render it to the same pixels when it is read."),
    name_option,
    workers_option,
)  # fmt: skip


@command.command(
    cls=Grouped,
    short_help="Corruptions of five severities: noise, blur, weather, JPEG and others.",
    epilog="Example: strobe vary corruption data/photos data/corrupted --kind papers --severity 1-5   ·   then: "
    "strobe eval data/corrupted -m efficientnet-lite0 -o run/",
)
@click.argument("src", type=folder())
@click.argument("dst", type=folder(exists=False))
@_corruptions
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_print_kinds,
              help="List the corruptions and groups, and exit.")  # fmt: skip
@quiet_option
@json_option
def corruption(src: Path, dst: Path, corruption_options: "CorruptionOptions", quiet: bool, as_json: bool) -> None:
    """Corrupt the anchors of the dataset SRC: photos, or one frame of every set. DST becomes a new dataset.

    Each image and corruption gives one set. The severity is the distance from the anchor. The settings are ImageNet-C's
    for images of 224 pixels. Lengths and noise scale with the image size. The same image always gives the same pixels,
    in any order. Running the same command again does only the missing work.
    """
    from strobe.workflows.vary_corruption import vary_corruption

    done = vary_corruption(src, dst, corruption_options, progress=progress(quiet=quiet or as_json))
    kinds = [str(name) for name in done.dataset.variants.variant] if done.dataset.variants else []
    if as_json:
        made_json(
            dst, done.dataset, {"kinds": kinds, "stored": corruption_options.store, "problems": list(done.problems)}
        )
        return
    left_out(done.problems)
    stored = "stored as files" if corruption_options.store else "rendered when read"
    was = " (existed before)" if done.was_there else ""
    line = made(dst, done.dataset, "video", "set", "frame", "class")
    click.echo(f"{line}; {counted(len(kinds), 'corruption')} {stored}{was}")


def _number(text: str, flag: str) -> float:
    """Parse an ε: 0.5 or 4/255."""
    try:
        return float(Fraction(text.strip()))
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise InvalidValue(f"{flag}: expected numbers such as 4/255 or 0.5, got {printable(text.strip())!r}") from error


def _grids(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(_number(part, "--eps") for part in word.split(",")) for word in words)


def _ends(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(_number(word, "--most") for word in words)


def split_numbers(_: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, ...]:
    """Split numbers at commas, such as 4/255 or 0.5."""
    return tuple(_number(part, f"--{parameter.name}") for part in text.split(",")) if text else ()


_attacks = options(
    "attack_options", "The attack", "strobe.workflows.vary_attack:VaryAttackOptions",
    click.option("--norm", multiple=True, type=click.Choice(["linf", "l2"]), default=("linf",), show_default=True,
                 help="The norm that ε bounds: the largest change of a channel, or the Euclidean norm. May be "
                 "repeated."),
    click.option("--eps", multiple=True, callback=_grids, metavar="LIST",
                 help="The ε to try, ascending, as shares of the pixel range. One list for each --norm. Default: "
                 "1/255,2/255,4/255,8/255 for linf, 0.25,0.5,1,2 for l2."),
    click.option("--minimal", is_flag=True,
                 help="Instead, find the smallest ε of a fine grid for each image: raise ε, then bisect."),
    click.option("--most", multiple=True, callback=_ends, metavar="EPS",
                 help="The largest ε that --minimal tries, one for each --norm. Default: 16/255 for linf, 4 for l2."),
    click.option("--method", type=click.Choice(["pgd", "apgd"]), default="pgd", show_default=True,
                 help="pgd uses steps of one size. apgd is Auto-PGD: cross-entropy, then DLR towards wrong classes."),
    click.option("--steps", type=int, default=40, show_default=True, help="Gradient steps per attempt."),
    click.option("--step", type=float, help="Step size of pgd as a share of ε. Default: 2.5 / steps."),
    click.option("--targets", type=int, help="Number of likeliest wrong classes that apgd targets. Default: 9."),
    click.option("--restarts", type=int, default=1, show_default=True,
                 help="Attempts from random starts, after the first attempt from the image itself."),
    click.option("--loss", type=click.Choice(["margin", "cross-entropy"]),
                 help="The loss that pgd increases: the lead of the best wrong class (default), or the cross-entropy."),
    click.option("--margin", type=float, default=0.01, show_default=True,
                 help="How far the wrong class must lead, in nats, so that a stored finding stays wrong."),
    name_option,
    seed_option,
    common=("norm", "eps", "minimal", "method", "steps", "restarts", "seed"),
)  # fmt: skip


@command.command(
    cls=Grouped,
    short_help="Adversarial images: the smallest change that a model gets wrong, by PGD or APGD.",
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
    attack_options: "VaryAttackOptions",
    load: "LoadOptions",
    engine: "ExecutorOptions",
    quiet: bool,
    as_json: bool,
) -> None:
    """Attack models on the anchors of the dataset SRC, prepared as each model's own input. DST becomes a dataset of the
    findings.

    Each image, norm and model gives one set. The search rounds changes to 8 bits. A finding counts only if the model
    gets the stored image wrong. Searches that find nothing are recorded, too. Running the same command again does only
    the missing work.
    """
    from strobe.workflows.vary_attack import vary_attack

    say = progress(quiet=quiet or as_json)
    done = vary_attack(src, dst, models, attack_options, load=load, progress=say, engine=engine)
    print_searches(dst, done, "attacks", "ε", as_json=as_json)
    if not as_json and any(counts["censored"] for counts in done.tally().values()):
        more = "--restarts 5 --steps 100" if attack_options.method == "apgd" else "--method apgd"
        click.echo(
            f"The share that held is an upper bound on robust accuracy. A stronger search ({more}) may find more."
        )


def print_searches(dst: Path, done: "SearchOutcome", key: str, axis: str, *, as_json: bool) -> None:
    """Print the outcome of the searches by variant."""
    tally = done.tally()
    if as_json:
        made_json(dst, done.dataset, {key: tally, "problems": list(done.problems)})
        return
    left_out(done.problems)
    was = " (existed before)" if done.was_there else ""
    click.echo(made(dst, done.dataset, "video", "set", "frame", "class") + was)
    for name, counts in tally.items():
        summary = ", ".join(
            f"{counts[status]} {words.format(axis)}" for status, words in _STATUSES.items() if counts[status]
        )
        click.echo(f"{printable(name)}: {summary}")


_STATUSES = {
    "found": "found", "censored": "held up to the largest {}", "anchor_wrong": "wrong before any change",
    "failed": "failed (scores are not numbers, or differ when read back)",
}  # fmt: skip
