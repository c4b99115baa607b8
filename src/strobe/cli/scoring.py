"""The options every scoring command shares, handed over as one ScoreRequest."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

__all__ = ["scoring_options"]

_FILE = click.Path(path_type=Path)

_OPTIONS = (
    click.option("--k", type=click.IntRange(0), help="Largest distance scored; default: the dataset's k."),
    click.option(
        "--interval", type=click.Choice(["auto", "clopper-pearson"]), default="auto", show_default=True,
        help="auto: Korn-Graubard where videos hold several sets; clopper-pearson: as printed in the papers.",
    ),
    click.option(
        "--merge", type=click.Choice(["max", "mean", "sum"]), default="max", show_default=True,
        help="How several source classes become one: raw max, raw mean, log of summed probability.",
    ),
    click.option(
        "--kind", type=click.Choice(["auto", "logits", "probabilities", "labels"]), default="auto", show_default=True,
        help="What prediction files hold, where they do not say.",
    ),
    click.option("--subset", type=_FILE, help="Score only the videos named in this text file, one a line."),
    click.option("--allow-missing", is_flag=True, help="Score what is there; count unscored frames and sets apart."),
    click.option("--ignore-extra", is_flag=True, help="Leave out predictions for frames the dataset does not have."),
    click.option("--types", type=_FILE, help="CSV model,model_type,standard: which models make the trend line."),
    click.option("--compare-review", is_flag=True, help="Also score without review and say what review changed."),
    click.option("--bootstrap", type=click.IntRange(0), default=2000, show_default=True, help="Draws; 0 for none."),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of everything random."),
)  # fmt: skip


def scoring_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command; it receives them as `request`."""

    @functools.wraps(function)
    def wrapped(
        *args: Any, k: int | None, interval: Any, merge: str, kind: Any, subset: Path | None, allow_missing: bool,
        ignore_extra: bool, types: Path | None, compare_review: bool, bootstrap: int, seed: int, **rest: Any,
    ) -> None:  # fmt: skip
        from strobe.analyses.plan import ScoreOptions
        from strobe.workflows.score import ScoreRequest

        request = ScoreRequest(
            options=ScoreOptions(
                k=k, interval=interval, seed=seed, bootstrap=bootstrap > 0, replicates=max(bootstrap, 1)
            ),
            subset=subset, merge=merge, kind=kind, allow_missing=allow_missing, ignore_extra=ignore_extra,
            types=types, compare_review=compare_review,
        )  # fmt: skip
        function(*args, request=request, **rest)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
