"""`strobe simulate`: make a dataset from photos with a simulated hand-held camera."""

from dataclasses import replace
from pathlib import Path

import click

from strobe.build.options import CameraOptions
from strobe.cli.common import (
    Grouped,
    counted,
    folder,
    json_option,
    left_out,
    made,
    made_json,
    progress,
    quiet_option,
    record_options,
    refuse_option,
    seed_option,
    workers_option,
)
from strobe.workflows.options import SimulateOptions

_FILE = click.Path(path_type=Path)


_camera = record_options(
    "camera", "The camera", CameraOptions, ranges=False, common=("k", "size", "strength", "h264_crf")
)
_photos = record_options(
    "simulate_options",
    "The dataset",
    SimulateOptions,
    ranges=False,
    own={"workers": workers_option, "seed": seed_option},
    common=("labels", "label", "boxes", "label_space", "sets_per_photo", "seed"),
)


@click.command(
    cls=Grouped,
    epilog="Example: strobe simulate photos/ shaky/ --k 10 --shift 0.05 --h264 28   ·   "
    "photos/CLASS/*.jpg gives labels",
)
@click.argument("photos", nargs=-1, required=True, type=_FILE)
@click.argument("dst", type=folder(exists=False))
@_photos
@_camera
@quiet_option
@json_option
def command(
    photos: tuple[Path, ...],
    dst: Path,
    simulate_options: SimulateOptions,
    camera: CameraOptions,
    quiet: bool,
    as_json: bool,
) -> None:
    """Make perturbation sets from PHOTOS: a simulated hand-held camera moves over each. DST becomes a dataset folder.

    PHOTOS are files, or folders with one subfolder per class. An effect set to 0 is off. Running the same command again
    does only the missing work.
    """
    from strobe.workflows.simulate import simulate

    if camera.h264_crf is None:
        refuse_option("gop", "--gop has no effect without --h264; add --h264 CRF")
    done = simulate(photos, dst, replace(simulate_options, camera=camera), progress=progress(quiet=quiet or as_json))
    if as_json:
        more = {"resumed": done.resumed, "mirrored": done.mirrored, "problems": list(done.problems)}
        made_json(dst, done.dataset, more)
        return
    left_out(done.problems)
    if done.mirrored:
        click.echo(
            f"in {counted(done.mirrored, 'clip')} the camera saw beyond the photo's edge; the photo is mirrored there",
            err=True,
        )
    resumed = f" ({counted(done.resumed, 'clip')} done before)" if done.resumed else ""
    click.echo(made(dst, done.dataset, "set", "frame", "class") + resumed)
