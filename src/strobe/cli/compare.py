"""`strobe compare`: show which model is better, and whether the difference is significant."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from strobe.cli.common import json_option, print_json, progress, quiet_option
from strobe.cli.signature import from_function
from strobe.core.errors import printable


@click.command(epilog="Example: strobe compare run/ -m resnet50 -m vit   ·   strobe compare run/ other-run/")
@from_function("strobe.api.scoring:compare", metavars={"models": "RUN [RUN...]"})
@json_option
@quiet_option
def command(
    models: tuple[Path, ...],
    only: tuple[str, ...],
    k: int | None,
    seed: int,
    videos: Path | None,
    dataset: Path | None,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Print the verdicts, what changed, and the cautions."""
    from strobe.analyses.comparison import change
    from strobe.analyses.plan import ScoreOptions
    from strobe.report.clips import clip_lines
    from strobe.report.headline import change_lines
    from strobe.report.view import shorter
    from strobe.studies.forms.words import sentence
    from strobe.workflows.compare import compare_runs

    options, bar = ScoreOptions(k=k, seed=seed), progress(quiet=quiet or as_json)
    compared = compare_runs(
        models, models=only, options=options, subset=videos, dataset_path=dataset, progress=bar, **asked
    )
    comparisons = compared.comparisons
    if as_json:
        print_json((*comparisons, *compared.clips, *compared.forms))
        return
    short = shorter(
        [name for part in comparisons for name in (part.a, part.b)]
        + [name for part in compared.clips for name in (part.old, part.new)]
    )
    for part in comparisons:
        click.echo(short(printable(part.sentence, limit=2000)))
    # Two detectors are compared by class and by box, so they have two lists of sets, which may differ.
    by_map = {(part.a, part.b) for part in comparisons if part.metric == "map_pmk"}
    changes = [one for part in comparisons if (one := change(part))]
    for line in change_lines(
        [replace(one, by_box=not one.detection and (one.before, one.after) in by_map) for one in changes]
    ):
        click.echo(short(line))
    for caution in dict.fromkeys(caution for part in comparisons for caution in part.cautions or ()):
        click.echo(caution)
    for pair in compared.clips:
        for line in clip_lines(pair):
            click.echo(short(line))
    for form in compared.forms:
        click.echo(sentence(form))
