"""`strobe train-detector`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import json_option, options, out_option, progress, quiet_option, seed_option
from strobe.core.codec import encode
from strobe.core.errors import printable
from strobe.core.estimate import Estimate

if TYPE_CHECKING:
    from strobe.workflows.train_detector import TrainDetectorOptions

__all__ = ["command"]


@click.command(name="train-detector", epilog="Example: strobe train-detector -o tiny.safetensors --seed 1")
@out_option(what="the weights (safetensors)")
@options(
    "wanted", "Training", "strobe.workflows.train_detector:TrainDetectorOptions",
    click.option("--clips", type=int, default=3000, show_default=True, help="Clips to train on, two frames of each."),
    click.option("--steps", type=int, default=1400, show_default=True, help="Steps of training."),
    click.option("--batch", type=int, default=32, show_default=True, help="Images in a step."),
    click.option("--threads", type=int, default=1, show_default=True, help="With 1 the weights repeat bit for bit."),
    click.option("--test-clips", type=int, default=60, show_default=True, help="Unseen clips to measure on; 0: none."),
    seed_option,
)  # fmt: skip
@quiet_option
@json_option
def command(out: Path, wanted: "TrainDetectorOptions", quiet: bool, as_json: bool) -> None:
    """Train strobe-tiny, the small detector of the demo, on the synthetic world; no download, no GPU.

    Use the result as `strobe-tiny@FILE`. Without `@FILE` the shipped weights are used, made by this very command.
    """
    from strobe.workflows.train_detector import train_detector

    done = train_detector(out, wanted, progress=progress(quiet=quiet or as_json))
    if as_json:
        told = {
            "weights": str(out),
            "digest": done.digest,
            "bytes": done.size_bytes,
            "seconds": round(done.seconds, 1),
            "score": encode(done.score),
        }
        click.echo(json.dumps(told))
        return
    click.echo(f"{printable(out)}: {done.size_bytes / 1e6:.2f} MB, digest {done.digest[:16]}, {done.seconds:.0f} s")
    if done.score is not None:
        orig, worst = _points(done.score.map_orig), _points(done.score.map_pmk)
        click.echo(f"on {wanted.test_clips} unseen clips: mAP@0.5 {orig}, pm-{done.score.settings.k} mAP {worst}")


def _points(estimate: Estimate) -> str:
    if estimate.value is None:
        return "unknown"
    bounds = "" if estimate.low is None or estimate.high is None else f" [{estimate.low:.1%}, {estimate.high:.1%}]"
    return f"{estimate.value:.1%}{bounds}"
