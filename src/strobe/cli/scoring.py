"""The options every scoring command shares, handed over as one ScoreRequest."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from strobe.cli.common import seed_option
from strobe.cli.predicting import merge_option

__all__ = ["scoring_options"]

_FILE = click.Path(path_type=Path)

LEAST_DRAWS = 100
"""Fewer draws have no 2.5 and 97.5 percentiles to speak of."""

_OPTIONS = (
    click.option("--k", type=click.IntRange(0), help="Largest distance scored; default: the dataset's k."),
    click.option(
        "--interval", type=click.Choice(["auto", "clopper-pearson"]), default="auto", show_default=True,
        help="auto: Korn-Graubard where videos hold several sets; clopper-pearson: as printed in the papers.",
    ),
    merge_option,
    click.option(
        "--kind", type=click.Choice(["auto", "logits", "probabilities", "labels"]), default="auto", show_default=True,
        help="What prediction files hold, where they do not say.",
    ),
    click.option("--space", help="Prediction files: the space of class numbers, e.g. ilsvrc-2012 (then projected)."),
    click.option("--subset", type=_FILE, help="Score only the videos named in this text file, one a line."),
    click.option("--allow-missing", is_flag=True, help="Score what is there; count unscored frames and sets apart."),
    click.option("--ignore-extra", is_flag=True, help="Leave out predictions for frames the dataset does not have."),
    click.option("--types", type=_FILE, help="CSV model,model_type,standard: which models make the trend line."),
    click.option("--compare-review", is_flag=True, help="Also score without review and say what review changed."),
    click.option("--bootstrap", type=click.IntRange(0), default=2000, show_default=True,
                 help="Draws of videos for means and differences, at least 100; 0 for no such intervals."),
    seed_option,
    click.option(
        "--iou", default="0.5", show_default=True,
        help="Detection: overlaps, e.g. 0.5 or 0.5,0.75; 0.5:0.95 for COCO's ten; ilsvrc-vid for its rule.",
    ),
    click.option(
        "--interpolation", type=click.Choice(["coco-101", "voc-all-points"]), default="coco-101", show_default=True,
        help="Detection: how the precision-recall curve is summed.",
    ),
    click.option("--max-dets", type=click.IntRange(1), default=100, show_default=True,
                 help="Detection: boxes counted per image and class."),
    click.option("--frame-ap", type=click.Choice(["pooled", "mean"]), default="pooled", show_default=True,
                 help="Detection: AP of a frame over all its classes at once, or the mean over those present."),
    click.option("--box-space", help="Detection files: the label space of class numbers, e.g. coco-91."),
    click.option("--box-images", type=_FILE, help="Detection files: COCO JSON that explains image and category ids."),
    click.option("--box-format", type=click.Choice(["auto", "xyxy", "xywh", "cxcywh"]), default="auto",
                 show_default=True, help="Detection files: corners, corner and size, or centre and size."),
    click.option("--box-units", type=click.Choice(["auto", "pixels", "normalised"]), default="auto", show_default=True,
                 help="Detection files: pixels, or shares of the image's width and height."),
    click.option("--empty-frames", is_flag=True, help="Detection files: a frame without boxes is an empty answer."),
)  # fmt: skip


def _overlaps(text: str) -> Any:
    """The --iou option as the metric wants it."""
    if text == "ilsvrc-vid":
        return text
    if text == "0.5:0.95":
        from strobe.metrics.detection.match import COCO_IOUS  # pycocotools' own ten: its 0.9 is 0.8999999999999999

        return COCO_IOUS
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise click.BadParameter(f"expected 0.5, 0.5,0.75, 0.5:0.95 or ilsvrc-vid, got {text!r}") from error
    if not all(0 < one <= 1 for one in found):
        raise click.BadParameter(f"--iou: expected overlaps in (0, 1], got {text!r}")
    return found


def scoring_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command; it receives them as `request`."""

    @functools.wraps(function)
    def wrapped(
        *args: Any, k: int | None, interval: Any, merge: str, kind: Any, space: str | None, subset: Path | None,
        allow_missing: bool, ignore_extra: bool, types: Path | None, compare_review: bool, bootstrap: int, seed: int,
        iou: str, interpolation: Any, max_dets: int, frame_ap: Any, box_space: str | None, box_images: Path | None,
        box_format: Any, box_units: Any, empty_frames: bool, **rest: Any,
    ) -> None:  # fmt: skip
        from strobe.analyses.detection import DetectionOptions
        from strobe.analyses.plan import ScoreOptions
        from strobe.workflows.score import ScoreRequest

        if 0 < bootstrap < LEAST_DRAWS:
            raise click.BadParameter(f"--bootstrap: expected 0 or at least {LEAST_DRAWS} draws, got {bootstrap}")
        request = ScoreRequest(
            options=ScoreOptions(
                k=k, interval=interval, seed=seed, bootstrap=bootstrap > 0, replicates=max(bootstrap, 1)
            ),
            subset=subset, merge=merge, kind=kind, space=space, allow_missing=allow_missing, ignore_extra=ignore_extra,
            types=types, compare_review=compare_review,
            detection=DetectionOptions(
                iou=_overlaps(iou), interpolation=interpolation, max_dets=max_dets, frame_ap=frame_ap
            ),
            box_space=box_space, box_images=box_images, box_format=box_format, box_units=box_units,
            absent="empty" if empty_frames else "error",
        )  # fmt: skip
        function(*args, request=request, **rest)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
