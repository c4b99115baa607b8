"""`strobe compare`: show which model is better, and whether the difference is significant."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import (
    dataset_option,
    folder,
    json_option,
    print_json,
    progress,
    quiet_option,
    scope_option,
    seed_option,
    subset_option,
)
from strobe.core.errors import printable

if TYPE_CHECKING:
    from strobe.analyses.clips import Scope


@click.command(epilog="Example: strobe compare run/ -m resnet50 -m vit   ·   strobe compare run/ other-run/")
@click.argument("runs", nargs=-1, required=True, type=folder(), metavar="RUN [RUN...]")
@click.option(
    "-m", "--model", "models", multiple=True, help="Compare only these models, the earlier one first. May be repeated."
)
@scope_option
@click.option("--k", type=click.IntRange(0), help="Largest distance from the anchor. Default: the dataset's k.")
@subset_option
@click.option("--allow-missing", is_flag=True, help="Compare each pair on the sets that both predicted completely.")
@dataset_option
@seed_option
@json_option
@quiet_option
def command(
    runs: tuple[Path, ...],
    models: tuple[str, ...],
    scope: "Scope",
    k: int | None,
    subset: Path | None,
    allow_missing: bool,
    dataset: Path | None,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare models on the same frames: which is worse, by how much, and where.

    With labels, differences have exact paired tests and intervals over videos, corrected by Holm's method, and the sets
    that the second model of a pair newly holds or newly breaks are listed. Without labels, the verdict is a fact about
    the clips of the run (--for chooses what it is about), followed by the places where only one model changes its
    answer. The first model of a pair is the old one: the one that -m names first.
    """
    from strobe.analyses.comparison import change
    from strobe.analyses.plan import ScoreOptions
    from strobe.report.clips import clip_lines
    from strobe.report.headline import change_lines
    from strobe.report.view import shorter
    from strobe.studies.forms.words import sentence
    from strobe.workflows.compare import compare_runs

    compared = compare_runs(
        runs,
        models=models,
        options=ScoreOptions(k=k, seed=seed),
        subset=subset,
        dataset_path=dataset,
        allow_missing=allow_missing,
        scope=scope,
        progress=progress(quiet=quiet or as_json),
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
