"""`strobe build`."""

import json
import os
from pathlib import Path
from typing import Any, cast

import click

from strobe.cli.common import folder, json_option, progress, quiet_option, seed_option
from strobe.cli.said import counted, not_said
from strobe.core.errors import printable

__all__ = ["command"]

_FILE = click.Path(path_type=Path)


@click.command(
    epilog="Example: strobe build videos/*.mp4 mine/ --labels labels.csv   ·   labels.csv: video,label[,start_s,end_s]"
)
@click.argument("videos", nargs=-1, required=True, type=_FILE)
@click.argument("dst", type=folder(exists=False))
@click.option("--labels", type=_FILE, help="CSV video,label and, for a part, frame or start_s,end_s; a|b for several.")
@click.option("--label", multiple=True, help="A class every video shows; may be given several times.")
@click.option("--boxes", type=_FILE, help="CSV video,frame,label,x0,y0,x1,y1[,track,crowd], or COCO JSON.")
@click.option("--label-space", help="A shipped label space, e.g. imagenet-vid; default: the classes named.")
@click.option("--label-source", type=click.Choice(["frame", "anchor"]), help="Whose labels score a member.")
@click.option("--unlabelled", is_flag=True, help="Allow videos without labels, to be labelled in review.")
@click.option("--k", type=int, default=10, show_default=True, help="Frames before and after the anchor.")
@click.option("--window", type=float, help="Milliseconds before and after the anchor, instead of --k.")
@click.option(
    "--anchors-per-video", type=int, default=1, show_default=True, help="Random anchors; sets share no frame."
)
@click.option("--every", type=int, help="An anchor every so many frames, instead of random ones.")
@click.option("--anchors", type=_FILE, help="CSV video,frame or video,time_s of given anchors.")
@click.option("--store", type=click.Choice(["png", "webp", "jpeg"]), default="png", show_default=True,
              help="png, webp: lossless; jpeg: smaller, changes pixels.")  # fmt: skip
@click.option("--reference", is_flag=True, help="Store no frames; decode them from the videos when predicting.")
@click.option("--no-hints", is_flag=True, help="Compute no hints for reviewers.")
@click.option("--drop-cuts", is_flag=True, help="Drop members beyond a scene cut.")
@click.option("--cut-threshold", type=float, default=0.35, show_default=True, help="What counts as a cut, 0 to 1.")
@click.option("--drop-blur", type=float, help="Drop members this much blurrier or sharper (log2 of sharpness).")
@click.option("--drop-motion", type=float, help="Drop members that moved this far (per cent of the diagonal).")
@click.option("--drop-exposure", type=float, help="Drop members this much darker or brighter (0 to 1).")
@click.option("--drop-duplicates", is_flag=True, help="Drop members whose pixels are all but the anchor's.")
@click.option("--max-side", type=int, default=16_384, show_default=True, help="Widest or highest frame, pixels.")
@click.option("--max-pixels", type=int, default=7680 * 4320, show_default=True, help="Largest frame, pixels.")
@click.option("--max-frames", type=int, default=1_000_000, show_default=True, help="Longest video, frames.")
@click.option("--max-duration", type=float, default=86_400.0, show_default=True, help="Longest video, seconds.")
@click.option("--name", default="", help="The dataset's name; default: the folder's.")
@click.option("--licence", default="", help="The videos' licence, kept in dataset.json.")
@click.option("--strict", is_flag=True, help="Write nothing if any video cannot be used.")
@click.option("--workers", type=int, default=os.cpu_count() or 1, help="Processes; default: one per core.")
@seed_option
@quiet_option
@json_option
def command(
    videos: tuple[Path, ...],
    dst: Path,
    labels: Path | None,
    label: tuple[str, ...],
    boxes: Path | None,
    label_space: str | None,
    label_source: str | None,
    unlabelled: bool,
    k: int,
    window: float | None,
    anchors_per_video: int,
    every: int | None,
    anchors: Path | None,
    store: str,
    reference: bool,
    no_hints: bool,
    drop_cuts: bool,
    cut_threshold: float,
    drop_blur: float | None,
    drop_motion: float | None,
    drop_exposure: float | None,
    drop_duplicates: bool,
    max_side: int,
    max_pixels: int,
    max_frames: int,
    max_duration: float,
    name: str,
    licence: str,
    strict: bool,
    workers: int,
    seed: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Make perturbation sets from VIDEOS: anchors and the frames around them; DST becomes a dataset folder.

    Frames are exact and stored without loss. A video that cannot be used is reported and the rest go on. The same
    command again does only what is missing.
    """
    from strobe.build.hints import DropRules
    from strobe.build.index import Limits
    from strobe.build.sample import Sampling
    from strobe.workflows.build import BuildOptions, build

    if window is not None:
        not_said("k", "--window and --k both say how far sets reach; give one of them")
    if not drop_cuts:
        not_said("cut_threshold", "--cut-threshold drops nothing by itself; give --drop-cuts too")
    if reference:
        not_said("store", "--reference stores no frames; leave --store away")
    options = BuildOptions(
        sampling=Sampling(k=k, window_ms=window, anchors_per_video=anchors_per_video, every=every, seed=seed),
        labels=labels, label=label, boxes=boxes, anchors=anchors, label_space=label_space,
        label_source=cast(Any, label_source), unlabelled=unlabelled, store=cast(Any, store), reference=reference,
        hints=not no_hints,
        drop=DropRules(
            cut=cut_threshold if drop_cuts else None, blur=drop_blur, motion=drop_motion, exposure=drop_exposure,
            duplicate=drop_duplicates,
        ),
        limits=Limits(
            max_side=max_side, max_pixels=max_pixels, max_frames=max_frames, max_duration_s=max_duration
        ),
        name=name, licence=licence, strict=strict, workers=workers,
    )  # fmt: skip
    done = build(videos, dst, options, progress=progress(quiet=quiet or as_json))
    dataset = done.dataset
    if as_json:
        summary = {
            "dataset": str(dst),
            "digest": dataset.digest(),
            "n_videos": len(dataset.videos),
            "n_sets": dataset.n_sets,
            "n_frames": len(dataset.frames),
            "n_classes": len(dataset.info.label_space),
            "label_source": dataset.info.label_source,
            "reused": done.reused,
            "decoded": done.decoded,
            "dropped": dict(done.dropped),
            "left_out": list(done.problems),
            "notes": list(done.notes),
        }
        click.echo(json.dumps(summary))
        return
    if quiet:  # otherwise said when it happened
        for problem in done.problems:
            click.echo(f"left out: {printable(problem)}", err=True)
    for note in done.notes:
        click.echo(f"note: {printable(note)}", err=True)
    if done.dropped:
        rules = ", ".join(f"{rule} {count}" for rule, count in done.dropped.items() if rule != "members")
        click.echo(f"dropped {counted(done.dropped['members'], 'member')} by hints: {rules}", err=True)
    left_out = f"; {len(done.problems)} of {len(videos)} videos left out" if done.problems else ""
    reused = f" ({counted(done.reused, 'video')} done before)" if done.reused else ""
    click.echo(
        f"{printable(dst)}: {counted(len(dataset.videos), 'video')}, {counted(dataset.n_sets, 'set')}, "
        f"{counted(len(dataset.frames), 'frame')}, {counted(len(dataset.info.label_space), 'class')}, "
        f"labels by {dataset.info.label_source}{reused}{left_out}"
    )
