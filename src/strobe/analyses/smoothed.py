"""How far smoothing over time cures the drop, offline and online, and at what delay."""

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.model_results import Smoothed
from strobe.analyses.plan import Plan, Strips
from strobe.core.answers import ClassAnswers, State
from strobe.core.estimate import Estimate
from strobe.metrics.pmk import first_wrong
from strobe.metrics.smoothing import Method, Windowed, delay, smooth_labels, smooth_votes

__all__ = ["smoothed"]

Labels = NDArray[np.int64]

_BLOCK = 2**17
"""Probabilities held at once: sets are smoothed in blocks, so memory does not grow with the dataset."""


def smoothed(plan: Plan, predictions: ClassAnswers, unsmoothed: dict[str, Estimate]) -> tuple[Smoothed, ...]:
    """The score after each smoothing of the options, `unsmoothed` figures on the same sets first.

    Probabilities are averaged; where a model gave labels only, windows vote and there is no exponential average.
    Windows wider than the dataset's k are left out. Empty where sets are not stretches of video.
    """
    strips = plan.strips if plan.is_video else None
    if strips is None:
        return ()
    variants = _variants(plan, votes=not predictions.has_shares)
    labels = {variant: np.empty(len(plan.frame), dtype=np.int64) for variant in variants}
    short, n_classes = dict.fromkeys(variants, 0), len(plan.view.info.label_space)
    for rows, sets in _blocks(plan, strips, predictions):
        frame = strips.frame[sets]
        present = (frame >= 0) & predictions.scored[frame]
        label = np.where(present, predictions.label[frame], -1)
        probability = None
        if predictions.has_shares:
            probability = predictions.shares_of(frame)
            outside = present & (predictions.state[frame] == State.OUTSIDE)
            if outside.any():  # an answer outside the classes weighs in a window like any other
                probability = np.concatenate([probability, outside[..., None].astype(np.float64)], axis=2)
        at = (plan.set_row[rows] - sets.start, strips.place[rows])
        found: list[Windowed]
        if probability is None:
            found = smooth_votes(label, present, variants=variants, n_classes=n_classes)
        else:
            found = smooth_labels(probability, present, label, variants=variants)
        for variant, windowed in zip(variants, found, strict=True):
            labels[variant][rows] = np.where(windowed.label[at] < n_classes, windowed.label[at], -1)
            short[variant] += int((~windowed.complete[at]).sum())
    out = [Smoothed(method="none", parameter=0, delay_frames=0, incomplete=0.0, **unsmoothed)]
    for method, parameter in variants:
        wrong = ~plan.right(labels[method, parameter])
        first = first_wrong(wrong, plan.set_row, plan.level, n_sets=plan.n_sets, never=plan.k + 1)
        out.append(
            Smoothed(
                method=method if predictions.has_shares else f"{method} vote",
                parameter=parameter,
                delay_frames=delay(method, parameter),
                incomplete=short[method, parameter] / len(plan.frame),
                **plan.headline.figures(first > 0, first > plan.k),
            )
        )
    return tuple(out)


def _variants(plan: Plan, *, votes: bool) -> list[tuple[Method, float]]:
    windows = [w for w in plan.options.windows if w <= plan.dataset.info.k]
    out: list[tuple[Method, float]] = [("centred", w) for w in windows]
    out += [("causal", w) for w in windows]
    return out if votes else out + [("ema", alpha) for alpha in plan.options.alphas]


def _blocks(plan: Plan, strips: Strips, predictions: ClassAnswers) -> list[tuple[slice, slice]]:
    """Slices of set rows and of sets that hold about _BLOCK probabilities each."""
    width = 1 if predictions.scores is None else predictions.scores.shape[1]
    many = max(1, _BLOCK // (strips.frame.shape[1] * width))
    bounds = np.append(plan.start, len(plan.frame)).tolist()
    return [
        (slice(bounds[low], bounds[min(low + many, plan.n_sets)]), slice(low, min(low + many, plan.n_sets)))
        for low in range(0, plan.n_sets, many)
    ]
