"""`strobe build`: make a dataset from videos."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strobe.build.options import AnchorOptions, DropRules, Limits
from strobe.cli.common import (
    Grouped,
    click_option,
    counted,
    folder,
    json_option,
    left_out,
    made,
    made_json,
    options,
    progress,
    quiet_option,
    record_options,
    refuse_option,
    seed_option,
    workers_option,
)
from strobe.cli.predicting import engine_options
from strobe.core.errors import printable
from strobe.core.options import options_of
from strobe.workflows.options import BuildOptions

if TYPE_CHECKING:
    from strobe.engine.running import ExecutorOptions


_FILE = click.Path(path_type=Path)


def _rules(*, drop_cuts: bool, cut_threshold: float, **rules: Any) -> DropRules:
    if not drop_cuts:
        refuse_option("cut_threshold", "--cut-threshold has no effect without --drop-cuts; add --drop-cuts")
    return DropRules(cut=cut_threshold if drop_cuts else None, **rules)


_dataset = record_options(
    "build_options",
    "The dataset",
    BuildOptions,
    own={"workers": workers_option},
    common=("labels", "label", "boxes", "label_space", "unlabelled", "anchors", "store", "reference"),
)
_sampling = record_options("sampling", "Anchors and their sets", AnchorOptions, ranges=False, own={"seed": seed_option})
_drop = options(
    "drop",
    "Members excluded by their hints",
    _rules,
    click.option("--drop-cuts", is_flag=True, help="Drop members beyond a scene cut."),
    click.option(
        "--cut-threshold",
        type=float,
        default=0.35,
        show_default=True,
        help="Frame difference that counts as a cut, 0 to 1.",
    ),
    *map(click_option, options_of(DropRules).values()),
    common=("drop_cuts",),
)
_limits = record_options("limits", "Limits on a video", Limits, common=())


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
    videos: tuple[Path, ...],
    dst: Path,
    build_options: BuildOptions,
    sampling: AnchorOptions,
    drop: DropRules,
    limits: Limits,
    engine: "ExecutorOptions",
    quiet: bool,
    as_json: bool,
) -> None:
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
    if engine.name != "local":
        refuse_option(
            "workers", f"--workers counts processes on this machine; with --engine {engine.name}, use --actors instead"
        )
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
