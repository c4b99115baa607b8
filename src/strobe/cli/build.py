"""`strobe build`: make a dataset from videos."""

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
from strobe.cli.predicting import engine_options
from strobe.core.errors import printable

if TYPE_CHECKING:
    from strobe.build.hints import DropRules
    from strobe.build.index import Limits
    from strobe.build.sample import AnchorOptions
    from strobe.engine.executors import ExecutorOptions
    from strobe.workflows.build import BuildOptions

__all__ = ["command"]

_FILE = click.Path(path_type=Path)


def _rules(
    *, drop_cuts: bool, cut_threshold: float, blur: float | None, motion: float | None, exposure: float | None,
    duplicate: bool,
) -> "DropRules":  # fmt: skip
    from strobe.build.hints import DropRules

    if not drop_cuts:
        refuse_option("cut_threshold", "--cut-threshold has no effect without --drop-cuts; add --drop-cuts")
    cut = cut_threshold if drop_cuts else None
    return DropRules(cut=cut, blur=blur, motion=motion, exposure=exposure, duplicate=duplicate)


_dataset = options(
    "build_options", "The dataset", "strobe.workflows.build:BuildOptions",
    click.option("--labels", type=_FILE,
                 help="CSV video,label. Add frame or start_s,end_s to label a part of a video. a|b gives both labels."),
    click.option("--label", multiple=True, help="A class that every video shows. May be repeated."),
    click.option("--boxes", type=_FILE,
                 help="CSV video,frame,label,x0,y0,x1,y1[,track,crowd] in pixels, or COCO JSON."),
    click.option("--label-space",
                 help="A shipped label space, e.g. imagenet-vid, or a file with one class per line or a JSON list. "
                 "Default: the classes in the labels."),
    click.option("--label-source", type=click.Choice(["frame", "anchor"]),
                 help="Score a member with the labels of its own frame or of its anchor."),
    click.option("--unlabelled", is_flag=True, help="Allow videos without labels, to label them in review."),
    click.option("--anchors", type=_FILE, help="CSV video,frame or video,time_s of the anchors to use."),
    click.option("--store", type=click.Choice(["zstd", "png", "webp", "jpeg"]),
                 help="zstd (default, fastest to read; view it with inspect --sheet), png and webp are lossless. "
                 "jpeg is smaller and changes pixels."),
    click.option("--reference", is_flag=True, help="Store no frames. Decode them from the videos when models run."),
    click.option("--no-hints", "hints", is_flag=True, callback=lambda _context, _option, value: not value,
                 help="Do not compute hints for reviewers."),
    name_option,
    click.option("--licence", default="", help="The licence of the videos, stored in dataset.json."),
    click.option("--strict", is_flag=True, help="Write nothing if any video cannot be used."),
    workers_option,
    common=("labels", "label", "boxes", "label_space", "unlabelled", "anchors", "store", "reference"),
)  # fmt: skip
_sampling = options(
    "sampling", "Anchors and their sets", "strobe.build.sample:AnchorOptions",
    k_option,
    click.option("--window", "window_ms", type=float,
                 help="Milliseconds before and after the anchor, instead of --k."),
    click.option("--anchors-per-video", type=int, default=1, show_default=True,
                 help="Random anchors per video. Their sets share no frame."),
    click.option("--every", type=int, help="Place an anchor every N frames, instead of at random."),
    seed_option,
)  # fmt: skip
_drop = options(
    "drop", "Members excluded by their hints", _rules,
    click.option("--drop-cuts", is_flag=True, help="Drop members beyond a scene cut."),
    click.option("--cut-threshold", type=float, default=0.35, show_default=True,
                 help="Frame difference that counts as a cut, 0 to 1."),
    click.option("--drop-blur", "blur", type=float,
                 help="Drop members this much blurrier or sharper (log2 of sharpness)."),
    click.option("--drop-motion", "motion", type=float,
                 help="Drop members that moved this far (per cent of the diagonal)."),
    click.option("--drop-exposure", "exposure", type=float,
                 help="Drop members this much darker or brighter (0 to 1)."),
    click.option("--drop-duplicates", "duplicate", is_flag=True,
                 help="Drop members with nearly the same pixels as the anchor."),
    common=("drop_cuts",),
)  # fmt: skip
_limits = options(
    "limits", "Limits on a video", "strobe.build.index:Limits",
    click.option("--max-side", type=int, default=16_384, show_default=True, help="Largest side of a frame, in pixels."),
    click.option("--max-pixels", type=int, default=7680 * 4320, show_default=True,
                 help="Largest number of pixels in a frame."),
    click.option("--max-frames", type=int, default=1_000_000, show_default=True,
                 help="Largest number of frames in a video."),
    click.option("--max-duration", "max_duration_s", type=float, default=86_400.0, show_default=True,
                 help="Longest duration of a video, in seconds."),
    common=(),
)  # fmt: skip


@click.command(
    cls=Grouped,
    epilog="Example: strobe build videos/*.mp4 mine/ --labels labels.csv   ·   labels.csv: video,label[,start_s,end_s]",
)
@click.argument("videos", nargs=-1, required=True, type=_FILE)
@click.argument("dst", type=folder(exists=False))
@_dataset
@_sampling
@_drop
@_limits
@engine_options
@quiet_option
@json_option
def command(
    videos: tuple[Path, ...], dst: Path, build_options: "BuildOptions", sampling: "AnchorOptions", drop: "DropRules",
    limits: "Limits", engine: "ExecutorOptions", quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Make perturbation sets from VIDEOS: anchors and the frames around them. DST becomes a dataset folder.

    VIDEOS are files, or folders with one subfolder per class. The subfolder's name is then the label. Frames are
    decoded exactly and stored without loss. If a video cannot be used, an error is printed and the others continue
    (exit code 1). Running the same command again does only the missing work.
    """
    from strobe.build.video_files import video_files
    from strobe.workflows.build import build

    if sampling.window_ms is not None:
        refuse_option("k", "--window and --k both set the length of a set; use only one of them")
    if build_options.reference:
        refuse_option("store", "--reference stores no frames; remove --store")
    if engine.name == "ray":
        refuse_option("workers", "--workers counts processes on this machine; with --engine ray, use --actors instead")
    build_options = replace(build_options, sampling=sampling, drop=drop, limits=limits, engine=engine)
    done = build(videos, dst, build_options, progress=progress(quiet=quiet or as_json))
    source = done.dataset.info.label_source
    if as_json:
        more = {"label_source": source, "reused": done.reused, "decoded": done.decoded, "dropped": dict(done.dropped)}
        made_json(dst, done.dataset, {**more, "left_out": list(done.problems), "notes": list(done.notes)})
        raise click.exceptions.Exit(1 if done.problems else 0)
    if quiet:  # without --quiet, each problem was already printed when it happened
        left_out(done.problems)
    for note in done.notes:
        click.echo(f"note: {printable(note)}", err=True)
    if done.dropped:
        rules = ", ".join(f"{rule} {count}" for rule, count in done.dropped.items() if rule != "members")
        click.echo(f"dropped {counted(done.dropped['members'], 'member')} by hints: {rules}", err=True)
    without = f"; {len(done.problems)} of {len(video_files(videos)[0])} videos skipped" if done.problems else ""
    reused = f" ({counted(done.reused, 'video')} done before)" if done.reused else ""
    click.echo(f"{made(dst, done.dataset, 'video', 'set', 'frame', 'class')}, labels by {source}{reused}{without}")
    if done.problems:
        raise click.exceptions.Exit(1)
