"""The options of all scoring commands, passed as one ScoreRunOptions."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strobe.cli.common import options, seed_option, subset_option
from strobe.cli.predicting import merge_option

if TYPE_CHECKING:
    from strobe.studies.detection.records import DetectionOptions


_FILE = click.Path(path_type=Path)

LEAST_DRAWS = 100
"""The smallest number of bootstrap draws. With fewer draws, the 2.5 and 97.5 percentiles are not usable."""


def _overlaps(text: str) -> Any:
    """Parse the value of --iou."""
    if text == "ilsvrc-vid":
        return text
    if text == "0.5:0.95":
        from strobe.metrics.detection.match import (
            COCO_IOUS,
        )  # exactly as in pycocotools, whose 0.9 is 0.8999999999999999

        return COCO_IOUS
    try:
        overlaps = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise click.BadParameter(f"expected 0.5, 0.5,0.75, 0.5:0.95 or ilsvrc-vid, got {text!r}") from error
    if not all(0 < overlap <= 1 for overlap in overlaps):
        raise click.BadParameter(f"expected overlaps in (0, 1], got {text!r}")
    return overlaps


_GROUPS = (
    options(
        "scoring", "Scoring", dict,
        click.option("--k", type=click.IntRange(0), help="Largest distance from the anchor. Default: the dataset's k."),
        click.option(
            "--interval", type=click.Choice(["auto", "clopper-pearson"]), default="auto", show_default=True,
            help="auto: Korn-Graubard if videos have several sets. clopper-pearson: as in the papers.",
        ),
        merge_option,
        subset_option,
        click.option("--allow-missing", is_flag=True,
                     help="Score incomplete predictions. Unscored frames and sets are counted separately."),
        click.option("--types", type=_FILE,
                     help="CSV model,model_type,standard. The trend line is fitted to the standard models."),
        click.option("--judge", "judges", multiple=True, metavar="NAME",
                     help="Searches: a model of the run that decides whether a finding still shows its class. May be "
                     "repeated."),
        click.option("--baseline", metavar="NAME",
                     help="Searches: the target whose magnitudes are the denominator of all ratios. Default: the "
                          "generator's first target."),
        click.option("--compare-review", is_flag=True,
                     help="Also score without review, and report the effect of review."),
        click.option("--remedies", is_flag=True,
                     help="Also measure what would stop the flicker: a list of remedies over the stored answers, which "
                     "needs no forward pass. Name others as models: -m hold=0.5:MODEL."),
        click.option("--sure", type=click.FloatRange(0, 1), default=0.5, show_default=True,
                     help="Without labels: a flip is sure if the confidences of both frames reach this value."),
        click.option("--coarser", type=_FILE,
                     help="Without labels: CSV class,group. Flicker is also given for the groups. Default for "
                     "ImageNet's classes: three levels of WordNet."),
        click.option("--bootstrap", type=click.IntRange(0), default=2000, show_default=True,
                     help="Bootstrap draws of videos for means and differences, at least 100, or 0 for none. Not used "
                     "for mAP."),
        seed_option,
        common=("k", "subset", "allow_missing", "compare_review", "remedies"),
    ),
    options(
        "files", "Prediction files", dict,
        click.option(
            "--kind", type=click.Choice(["auto", "logits", "probabilities", "labels"]), default="auto",
            show_default=True, help="The kind of the scores, if the files do not record it.",
        ),
        click.option("--space",
                     help="The label space of class numbers, e.g. ilsvrc-2012. They are projected to the dataset's "
                     "classes."),
        click.option("--ignore-extra", is_flag=True,
                     help="Ignore predictions for frames that the dataset does not have."),
        click.option("--box-space", help="Boxes: the label space of class numbers, e.g. coco-91."),
        click.option("--box-images", type=_FILE, help="Boxes: COCO JSON that defines image and category ids."),
        click.option("--box-format", type=click.Choice(["auto", "xyxy", "xywh", "cxcywh"]), default="auto",
                     show_default=True, help="Boxes: two corners, a corner and the size, or the centre and the size."),
        click.option("--box-units", type=click.Choice(["auto", "pixels", "normalised"]), default="auto",
                     show_default=True, help="Boxes: pixels, or shares of the image's width and height."),
        click.option("--empty-frames", "absent", is_flag=True,
                     callback=lambda _context, _option, empty: "empty" if empty else "error",
                     help="Boxes: treat a frame that is missing from the file as answered without boxes."),
        common=("kind", "space"),
    ),
    options(
        "detection", "Detection", "strobe.studies.detection.records:DetectionOptions",
        click.option(
            "--iou", default="0.5", show_default=True, callback=lambda _context, _option, text: _overlaps(text),
            help="IoU thresholds, e.g. 0.5 or 0.5,0.75. 0.5:0.95 means COCO's ten thresholds; ilsvrc-vid means "
                 "the rule of that challenge.",
        ),
        click.option(
            "--interpolation", type=click.Choice(["coco-101", "voc-all-points"]), default="coco-101", show_default=True,
            help="How the precision-recall curve is summed.",
        ),
        click.option("--max-dets", type=click.IntRange(1), default=100, show_default=True,
                     help="Boxes counted per image and class."),
        click.option("--frame-ap", type=click.Choice(["pooled", "mean"]), default="pooled", show_default=True,
                     help="AP of a frame: over all its classes together, or the mean over the classes present."),
        common=("iou",),
    ),
)  # fmt: skip


def scoring_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the scoring options to a command, which receives them as `request`."""

    @functools.wraps(function)
    def wrapped(
        *args: Any, scoring: dict[str, Any], files: dict[str, Any], detection: "DetectionOptions", **rest: Any
    ) -> None:
        from strobe.analyses.plan import ScoreOptions
        from strobe.metrics.bootstrap import MOST_REPLICATES
        from strobe.workflows.score import ScoreRunOptions

        k, interval, seed, bootstrap = (scoring.pop(name) for name in ("k", "interval", "seed", "bootstrap"))
        judges, baseline = scoring.pop("judges"), scoring.pop("baseline")
        if bootstrap and not LEAST_DRAWS <= bootstrap <= MOST_REPLICATES:
            expected = f"0, or {LEAST_DRAWS} to {MOST_REPLICATES:,} draws"
            raise click.BadParameter(f"--bootstrap: expected {expected}, got {bootstrap}")
        replicates = max(bootstrap, 1)
        score = ScoreOptions(
            k=k,
            interval=interval,
            seed=seed,
            bootstrap=bootstrap > 0,
            replicates=replicates,
            judges=judges,
            baseline=baseline,
        )
        function(*args, request=ScoreRunOptions(options=score, detection=detection, **scoring, **files), **rest)

    for group in reversed(_GROUPS):
        wrapped = group(wrapped)
    return wrapped
