"""How far smoothing over time reduces the drop, offline and online, and at what delay."""

import numpy as np

from strobe.analyses.model_results import Smoothed
from strobe.analyses.plan import Plan
from strobe.core.answers import ClassAnswers, State
from strobe.core.estimate import Estimate
from strobe.metrics.pmk import first_wrong
from strobe.metrics.smoothing import Method, delay, smooth_labels, smooth_votes

__all__ = ["smoothed"]

_BLOCK = 2**17
"""The number of probabilities or votes held at once: sets are smoothed in blocks, so memory does not grow."""


def smoothed(plan: Plan, predictions: ClassAnswers, unsmoothed: dict[str, Estimate]) -> tuple[Smoothed, ...]:
    """Return the score after each smoothing of the options, with the `unsmoothed` figures on the same sets first.

    Probabilities are averaged. If a model gave labels only, windows vote and there is no exponential average. Windows
    wider than the dataset's k are omitted. Empty if sets are not parts of a video.
    """
    strips = plan.strips if plan.is_video else None
    if strips is None:
        return ()
    variants = _variants(plan, votes=not predictions.has_shares)
    first = {variant: np.empty(plan.n_sets, dtype=np.int32) for variant in variants}
    short, n_classes = dict.fromkeys(variants, 0), len(plan.view.info.label_space)
    for sets, rows in plan.blocks(max(1, _BLOCK // (strips.frame.shape[1] * n_classes))):
        frame = strips.frame[sets]
        present = (frame >= 0) & (predictions.state[frame] <= State.OUTSIDE)
        label = np.where(present, predictions.label[frame], -1)
        probability = None
        if predictions.has_shares:
            probability = predictions.shares_of(frame)
            outside = present & (predictions.state[frame] == State.OUTSIDE)
            if outside.any():  # an answer outside the classes has the same weight in a window as any other
                probability = np.concatenate([probability, outside[..., None].astype(np.float64)], axis=2)
        owner, level = plan.set_row[rows] - sets.start, plan.level[rows]
        at = (owner, strips.place[rows])
        if probability is None:
            smooth = smooth_votes(label, present, variants=variants, n_classes=n_classes)
        else:
            smooth = smooth_labels(probability, present, label, variants=variants)
        for variant, windowed in zip(variants, smooth, strict=True):
            best = windowed.label[at]
            wrong = ~plan.view.right(np.where(best < n_classes, best, -1), rows)
            first[variant][sets] = first_wrong(wrong, owner, level, n_sets=len(frame), never=plan.k + 1)
            short[variant] += int((~windowed.complete[at]).sum())
    out = [Smoothed(method="none", parameter=0, delay_frames=0, incomplete=0.0, **unsmoothed)]
    for method, parameter in variants:
        found = first[method, parameter]
        out.append(
            Smoothed(
                method=method if predictions.has_shares else f"{method} vote",
                parameter=parameter,
                delay_frames=delay(method, parameter),
                incomplete=short[method, parameter] / len(plan.frame),
                **plan.headline.figures(found > 0, found > plan.k),
            )
        )
    return tuple(out)


def _variants(plan: Plan, *, votes: bool) -> list[tuple[Method, float]]:
    windows = [w for w in plan.options.windows if w <= plan.dataset.info.k]
    out: list[tuple[Method, float]] = [("centred", w) for w in windows]
    out += [("causal", w) for w in windows]
    return out if votes else out + [("ema", alpha) for alpha in plan.options.alphas]
