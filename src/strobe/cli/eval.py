"""`strobe eval`: predict, score and report in one command."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import (
    Grouped,
    folder,
    json_option,
    left_out,
    log_option,
    options,
    out_option,
    print_json,
    progress,
    quiet_option,
    scope_option,
    show_option,
)
from strobe.cli.predicting import engine_options, model_or_people_option, predicting_options
from strobe.cli.scoring import scoring_options
from strobe.core.errors import printable, without_name

if TYPE_CHECKING:
    from strobe.analyses.clips import Scope
    from strobe.engine.running import ExecutorOptions, Running
    from strobe.workflows.options import VideoOptions
    from strobe.workflows.score import ScoreRunOptions


_videos = options(
    "videos",
    "Videos without labels",
    "strobe.workflows.options:VideoOptions",
    click.option(
        "--every",
        type=click.IntRange(1),
        help="Place an anchor every N frames. Default: 2k + 1, so that sets cover the video and share no "
        "frame. --k sets the frames before and after an anchor (default 10).",
    ),
    click.option(
        "--label-space",
        help="A shipped label space, or a file with one class per line or a JSON list. "
        "Default: the classes of the first model.",
    ),
)


@click.command(
    cls=Grouped,
    epilog="Examples: strobe eval clips/ -m efficientnet-lite0 -m timm:resnet50.a1_in1k -m preds:mine.json -o run/   "
    "·   any video, no labels: strobe eval clip.mp4 -m efficientnet-lite0 -o run/   ·   is it worse? strobe eval clips/"
    " -m new --against last-month/ -o run/",
)
@click.argument("sources", nargs=-1, required=True, type=folder(), metavar="DATASET | VIDEOS...")
@model_or_people_option
@out_option(what="predictions, results and report")
@click.option(
    "--against",
    metavar="RUN|FILE|MODEL",
    help="Is it worse than this? An older run, a file of strobe bless, or another model. Exit code 1: worse, 3: "
    "inconclusive, 2: not done.",
)
@scope_option
@click.option("--no-report", is_flag=True, help="Write no report.")
@show_option
@log_option
@predicting_options
@engine_options
@_videos
@scoring_options
@json_option
@quiet_option
def command(
    sources: tuple[Path, ...],
    models: tuple[str, ...],
    out: Path,
    against: str | None,
    scope: "Scope",
    no_report: bool,
    show: tuple[str, ...],
    log: tuple[str, ...],
    prediction: "Running",
    engine: "ExecutorOptions",
    videos: "VideoOptions",
    request: "ScoreRunOptions",
    as_json: bool,
    quiet: bool,
) -> None:
    """Run models over a DATASET or over VIDEOS, score them and write the report.

    VIDEOS are files, or folders that are searched for videos. They need no labels: sets that cover each video are made
    in the run, in the first model's own classes, and the answers are compared with each other. The frames stay in the
    videos. If a video cannot be used, an error is printed and the others continue (exit code 1).

    With --against, the verdict follows: is the new model worse, by how much, and where (also in verdict/ of the run).
    A folder of clips with a strobe.toml (models, against, for) is a regression test that needs no options but -o.

    Running the same command again does only the missing work. Another -m adds a model. If a model fails, an error is
    printed and the others continue (exit code 1). If the report fails, an error is printed and the results are kept
    (exit code 2).
    """
    from strobe.report.headline import print_headline
    from strobe.workflows.against import check_against, judge, settings_of, stored, write_verdict
    from strobe.workflows.compare import model_name
    from strobe.workflows.evaluate import evaluate

    settings = settings_of(sources)
    if settings is not None:
        models, against = models or settings.models, against or settings.against
        chosen = click.get_current_context().get_parameter_source("scope")
        scope = settings.scope if chosen is click.core.ParameterSource.DEFAULT else scope
    older = None if against is None else stored(against)
    if older is not None:
        check_against(older, out)
    elif against is not None and against not in (*models, *map(model_name, models)):
        models = (against, *models)
    if show and no_report:
        raise click.UsageError("--show needs the report; remove --show or --no-report")
    evaluation = evaluate(
        sources,
        models,
        out,
        prediction=replace(prediction, merge=request.merge, engine=engine),  # type: ignore[arg-type]  # click checked it
        request=request,
        progress=progress(quiet=quiet or as_json),
        with_report=not no_report,
        show=show,
        log=log,
        videos=videos,
    )
    if as_json:
        print_json(evaluation.results)
    else:
        print_headline(evaluation.results, sys.stdout)
        if evaluation.report is not None:
            click.echo(f"\nreport: {evaluation.report}")
    judged = None
    if against is not None and not evaluation.failed:
        judged = judge(
            out,
            older or model_name(against),
            evaluation.asked,
            scope=scope,
            options=request.options,
            progress=progress(quiet=True),
        )
        write_verdict(judged, out)
        for line in () if as_json else ("", *judged.lines()):
            click.echo(line)
    for line in evaluation.left_out:
        click.echo(f"skipped: {printable(line, limit=500)}", err=True)
    for failure in evaluation.failed:
        reason = without_name(failure.name, failure.error or "")
        click.echo(f"failed: {printable(failure.name)}: {printable(reason, limit=500)}", err=True)
    if quiet or as_json:  # otherwise each problem was already printed when it happened
        left_out(evaluation.skipped)
    if evaluation.skipped:
        n_videos = len(evaluation.skipped) + len(evaluation.dataset.videos)
        click.echo(f"{len(evaluation.skipped)} of {n_videos} videos skipped", err=True)
    if evaluation.no_report is not None:
        click.echo(f"no report: {evaluation.no_report}; the results are kept in {printable(out)}", err=True)
        raise click.exceptions.Exit(2)
    if judged is not None and judged.worse:
        raise click.exceptions.Exit(1)
    if against is not None and (evaluation.failed or evaluation.skipped):
        raise click.exceptions.Exit(2)
    if judged is not None and judged.exit_code:
        raise click.exceptions.Exit(judged.exit_code)
    if evaluation.failed or evaluation.skipped:
        raise click.exceptions.Exit(1)
