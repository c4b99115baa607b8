"""`strobe simulate`: make a dataset from photos with a simulated hand-held camera."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import (
    Grouped,
    folder,
    json_option,
    k_option,
    name_option,
    options,
    progress,
    quiet_option,
    seed_option,
    workers_option,
)
from strobe.cli.output import counted, left_out, made, made_json, refuse_option

if TYPE_CHECKING:
    from strobe.build.camera_path import CameraOptions
    from strobe.workflows.simulate import SimulateOptions

__all__ = ["command"]

_FILE = click.Path(path_type=Path)


_camera = options(
    "camera", "The camera", "strobe.build.camera_path:CameraOptions",
    k_option,
    click.option("--fps", type=int, default=30, show_default=True, help="Frames per second."),
    click.option("--size", type=int, default=256, show_default=True, help="Shorter side of a frame in pixels."),
    click.option("--margin", type=float, default=0.08, show_default=True,
                 help="Share of each side of the photo that is reserved for the camera's motion."),
    click.option("--shift", type=float, default=0.03, show_default=True,
                 help="Largest shift, as a share of the shorter side."),
    click.option("--zoom", type=float, default=0.05, show_default=True, help="Largest zoom, as a share of the scale."),
    click.option("--roll", type=float, default=1.5, show_default=True,
                 help="Largest rotation in the image plane, degrees."),
    click.option("--tilt", type=float, default=2.0, show_default=True,
                 help="Largest tilt out of the image plane, degrees."),
    click.option("--shake", type=float, default=0.004, show_default=True,
                 help="Tremor, as a share of the shorter side."),
    click.option("--blur", type=float, default=0.5, show_default=True,
                 help="Share of the frame time that the shutter is open."),
    click.option("--exposure", type=float, default=0.25, show_default=True, help="Largest exposure drift, stops."),
    click.option("--noise", type=float, default=1.5, show_default=True, help="Sensor noise at mid-grey, 8-bit levels."),
    click.option("--strength", type=float, default=1.0, show_default=True, help="Factor that scales every effect."),
    click.option("--clean-anchor", is_flag=True, help="Add no blur and no noise to the anchor."),
    click.option("--h264", "h264_crf", type=int, help="Encode the clip with H.264 at this CRF (0–51) and decode it."),
    click.option("--gop", type=int, default=12, show_default=True,
                 help="With --h264: a key frame every N frames."),
    common=("k", "size", "strength", "h264_crf"),
)  # fmt: skip
_photos = options(
    "simulate_options", "The dataset", "strobe.workflows.simulate:SimulateOptions",
    click.option("--labels", type=_FILE,
                 help="CSV file,label. Default: the class folder of each photo."),
    click.option("--label", multiple=True, help="A class that every photo shows. May be repeated."),
    click.option("--boxes", type=_FILE,
                 help="CSV file,label,x0,y0,x1,y1[,track] in pixels of the photo, or COCO JSON."),
    click.option("--masks", type=_FILE,
                 help="Folder of PNG masks with the file names of the photos. Pixel values are object numbers."),
    click.option("--label-space",
                 help="A shipped label space, e.g. ilsvrc-2012. Default: the classes in the labels."),
    click.option("--sets-per-photo", type=int, default=1, show_default=True, help="Clips per photo."),
    name_option,
    click.option("--licence", default="", help="The licence of the photos, stored in dataset.json."),
    workers_option,
    seed_option,
    common=("labels", "label", "boxes", "label_space", "sets_per_photo", "seed"),
)  # fmt: skip


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
    simulate_options: "SimulateOptions",
    camera: "CameraOptions",
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
