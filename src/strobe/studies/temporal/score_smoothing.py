"""How much smoothing over time reduces the drop, offline and online, and how much delay it causes."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.plan import Plan
from strobe.core.answers import ClassAnswers, State
from strobe.core.arrays import Ints, blocks
from strobe.core.estimate import Estimate
from strobe.metrics.pmk import first_wrong
from strobe.metrics.smoothing import Method, complete_windows, delay, settled_windows, smooth_labels, smooth_votes
from strobe.studies.temporal.records import Smoothed

_CELLS, _VALUES = 2**15, 3 * 2**16
"""The most frames and probabilities in one block; sets are smoothed in blocks, so that memory does not grow."""


def smoothed(plan: Plan, predictions: ClassAnswers, unsmoothed: dict[str, Estimate]) -> tuple[Smoothed, ...]:
    """Return the unsmoothed score, then the score of each smoothing in the options, all on the same sets.

    Probabilities are averaged. If a model gave labels only, windows vote and there is no exponential average. Windows
    wider than the dataset's k are omitted. The result is empty if sets are not parts of a video.
    """
    strips = plan.strips if plan.is_video else None
    if strips is None:
        return ()
    out = [Smoothed(method="none", parameter=0, delay_frames=0, incomplete=0.0, **unsmoothed)]
    variants = _variants(plan, votes=not predictions.has_shares)
    if not variants:
        return tuple(out)
    first, short = np.empty((len(variants), plan.n_sets), dtype=np.int32), np.zeros(len(variants), dtype=np.int64)
    n_classes = len(plan.view.info.label_space)
    for sets, rows in plan.blocks(max(1, _CELLS // strips.frame.shape[1])):
        block = _StripBlock(predictions, np.ascontiguousarray(strips.frame[sets].T), variants, n_classes)
        owner, level = plan.set_row[rows].astype(np.intp) - sets.start, plan.level[rows]
        wrong = np.repeat(~plan.view.right(block.main[owner], rows)[None], len(variants), axis=0)
        for number, places, labels in block.open_windows(owner, strips.place[rows]):
            wrong[number, places] = ~plan.view.right(labels, places + rows.start)
        cells = strips.place[rows] * np.intp(len(block.main)) + owner
        for place, complete in enumerate(complete_windows(block.present, variants=variants)):
            short[place] += len(cells) - np.count_nonzero(complete.take(cells))
            first[place, sets] = first_wrong(wrong[place], owner, level, n_sets=len(block.main), never=plan.k + 1)
    figures = plan.headline.several(first > 0, first > plan.k)
    for (method, parameter), incomplete, found in zip(variants, short.tolist(), figures, strict=True):
        out.append(
            Smoothed(
                method=method if predictions.has_shares else f"{method} vote",
                parameter=parameter,
                delay_frames=delay(method, parameter),
                incomplete=incomplete / len(plan.frame),
                **found,
            )
        )
    return tuple(out)


class _StripBlock:
    """Some strips of frames (L, S), whose windows are smoothed together; `main` (S,) is the class of most windows."""

    def __init__(
        self, predictions: ClassAnswers, frame: Ints, variants: list[tuple[Method, float]], n_classes: int
    ) -> None:
        self._answers, self._frame, self._variants, self._n_classes = predictions, frame, variants, n_classes
        state = predictions.state[frame]
        self.present = (frame >= 0) & (state <= State.OUTSIDE)
        self._label = np.where(self.present, predictions.label[frame], -1)
        self._outside = self.present & (state == State.OUTSIDE)
        top = lead = np.ones(frame.shape)
        if predictions.has_shares:
            top, lead = predictions.confidence_at(frame), predictions.lead[frame].astype(np.float64)
            # An answer outside the classes has the same weight in a window as any other answer.
            lead = np.where(self._outside, 1.0 - top, lead)
            top = np.where(self._outside, np.maximum(top, 1.0), top)
        self.main, self._settled = settled_windows(
            self._label, self.present, top, lead, n_classes=n_classes, variants=variants
        )

    def open_windows(self, owner: Ints, place: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield the smoothed classes of the needed windows that `main` does not certainly win.

        `owner` (R,) is the strip of each needed window, and `place` is the window's index in this strip. The windows
        that `main` might lose are processed in blocks. Each block yields their variants, rows and classes, with −1 for
        a class outside the dataset.
        """
        cell = place * np.intp(len(self.main)) + owner
        rows = [np.flatnonzero(~settled.take(cell)) for settled in self._settled]
        number, row = np.repeat(np.arange(len(rows)), [len(some) for some in rows]), np.concatenate(rows)
        after = np.array([int(width) if method == "centred" else 0 for method, width in self._variants])
        last = np.full(len(self.main), -1)  # the last frame of each strip that its open windows need
        np.maximum.at(last, owner[row], np.minimum(place[row] + after[number], len(self._frame) - 1))
        # Strips that need few frames come first, and their later frames are left out.
        order = np.argsort(last, kind="stable")
        strips = order[np.searchsorted(last[order], 0) :]
        renumbered = np.empty(len(order), dtype=np.intp)
        renumbered[strips] = np.arange(len(strips))
        strip, place = renumbered[owner[row]], place[row]
        for part in blocks(len(strips), max(1, _VALUES // (len(self._frame) * (self._n_classes + 1)))):
            some = np.flatnonzero((strip >= part.start) & (strip < part.stop))
            cells = place[some] * np.intp(part.stop - part.start) + strip[some] - part.start
            use = np.ix_(np.arange(last[strips[part.stop - 1]] + 1), strips[part])
            labels = self._smooth(use, number[some], cells)
            yield number[some], row[some], np.where(labels < self._n_classes, labels, -1)

    def _smooth(self, use: tuple[Ints, ...], number: Ints, cells: Ints) -> NDArray[np.int64]:
        """Return the smoothed classes of some windows of these frames."""
        present, label = self.present[use], self._label[use]
        if not self._answers.has_shares:
            return smooth_votes(
                label, present, variants=self._variants, n_classes=self._n_classes, number=number, cells=cells
            )
        probability = self._answers.shares_of(self._frame[use])
        probability[~present] = 0.0
        outside = self._outside[use]
        if outside.any():
            probability = np.concatenate([probability, outside[..., None].astype(np.float64)], axis=2)
        return smooth_labels(
            probability, present, label, variants=self._variants, number=number, cells=cells, length=len(self._frame)
        )


def _variants(plan: Plan, *, votes: bool) -> list[tuple[Method, float]]:
    windows = [w for w in plan.options.windows if w <= plan.dataset.info.k]
    out: list[tuple[Method, float]] = [("centred", w) for w in windows]
    out += [("causal", w) for w in windows]
    return out if votes else out + [("ema", alpha) for alpha in plan.options.alphas]
