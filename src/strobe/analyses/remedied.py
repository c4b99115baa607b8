"""A model's answers with a remedy, along the videos of a dataset. Pure functions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from strobe.core.answers import Answers, BoxAnswers, ClassAnswers, State
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, printable
from strobe.metrics.flicker import timelines
from strobe.metrics.remedies import Remedy, averages, kept_by_margin, majority, stood
from strobe.metrics.remedies_boxes import remedied_boxes


@dataclass(frozen=True)
class Stretches:
    """Answered frames (N,), also those that review rejected, in stretches: the stretch and the place of each in it.

    `seconds` are their times, or NaN. A stretch goes on across a scene cut, which no remedy knows.
    """

    frames: Ints
    timeline: Ints
    place: Ints
    seconds: Floats

    @classmethod
    def of(cls, dataset: Dataset, answered: Bools) -> "Stretches":
        """Return the stretches of consecutive frames that a model answered, (F,), along the videos."""
        if dataset.info.axis != "frame-offset" or dataset.variants is not None:
            raise ModelFailed(f"{printable(dataset.name)}: its sets are not stretches of video, so no remedy applies")
        used = np.flatnonzero(answered & np.isin(dataset.frames.video, dataset.video_of_set))
        order, line = timelines(dataset.frames.video[used], dataset.frames.index[used])
        rows = used[order]
        with np.errstate(divide="ignore", invalid="ignore"):
            by_rate = dataset.frames.index[rows] / dataset.videos.fps_float[dataset.frames.video[rows]]
        times = dataset.frames.time_s[rows].astype(np.float64)
        timed = np.isfinite(times)
        every = np.ones(int(line[-1]) + 1 if len(line) else 0, dtype=bool)
        every[line[~timed]] = False  # times of one stretch are of one kind
        seconds = np.where(every[line], times, np.where(np.isfinite(by_rate), by_rate, np.nan))
        return cls(rows, line, np.arange(len(rows)), seconds)

    @cached_property
    def pairs(self) -> Ints:
        """The places whose next frame is on the same stretch."""
        return np.flatnonzero(self.timeline[1:] == self.timeline[:-1])

    @cached_property
    def clock(self) -> Floats:
        """The times or, if some are unknown, the places of the frames: what comes first is known without times."""
        return self.seconds if np.isfinite(self.seconds).all() else np.arange(len(self.frames), dtype=np.float64)

    @cached_property
    def step_s(self) -> float:
        """The median time between neighbouring frames, or NaN."""
        steps = (self.seconds[self.pairs + 1] - self.seconds[self.pairs]) if len(self.pairs) else np.full(1, np.nan)
        return float(np.median(steps))

    def with_remedy(self, answers: Answers, remedy: Remedy, *, keep: bool = True) -> Answers:
        """Return the answers with a remedy, on these frames. Without `keep`, classes have labels and no scores."""
        if remedy.kind in ("hold", "fill") and not np.isfinite(self.seconds).all():
            raise ModelFailed(f"{remedy.text}: the times of some frames are unknown; use confirm=N, in frames")
        if isinstance(answers, BoxAnswers):
            if not remedy.rule.boxes:
                raise ModelFailed(f"{remedy.text}: it is for classifiers, and {printable(answers.model)} gives boxes")
            return remedied_boxes(answers, self.frames, self.timeline, self.seconds, remedy)
        if not remedy.rule.classes:
            raise ModelFailed(f"{remedy.text}: it is for boxes, and {printable(answers.model)} gives classes")
        if keep:
            return self._averaged(answers, remedy) if remedy.averages else self._chosen(answers, remedy)
        label, state, shown = answers.label.copy(), answers.state.copy(), self.labels_with(answers, remedy)
        label[self.frames], state[self.frames] = shown, np.where(shown < 0, State.OUTSIDE, State.ANSWERED)
        return replace(ClassAnswers.from_labels(answers.model, label), state=state, reasons=answers.reasons)

    def labels(self, answers: ClassAnswers) -> Ints:
        """Return the answer to each of these frames; −1 is outside the classes."""
        return np.where(answers.state[self.frames] == State.OUTSIDE, -1, answers.label[self.frames]).astype(np.int64)

    def labels_with(self, answers: ClassAnswers, remedy: Remedy) -> Ints:
        """Return the answer to each of these frames with a remedy; −1 is outside the classes."""
        label = self.labels(answers)
        if not remedy.averages:
            return label[self._source(answers, remedy)]
        return np.concatenate([label[:0], *(shown for _, shown, _ in self._averages(answers, remedy))])

    def _source(self, answers: ClassAnswers, remedy: Remedy) -> Ints:
        """Return, for each frame, the row whose whole answer is given."""
        label = self.labels(answers)
        if remedy.kind in ("hold", "confirm"):
            return stood(label, self.timeline, self.seconds, remedy)
        if remedy.kind == "hysteresis":
            _check_scores(answers, remedy)
            share = self._share(answers)
            return kept_by_margin(label, self.timeline, answers.confidence_at(self.frames), share, remedy.value)
        before, after = remedy.window
        return majority(label, self.timeline, self.place, before=before, after=after)

    def _share(self, answers: ClassAnswers) -> Callable[[int, int], float]:
        return lambda row, label: float(answers.share_of(self.frames[[row]], np.array([label]))[0])

    def _chosen(self, answers: ClassAnswers, remedy: Remedy) -> ClassAnswers:
        """Return the whole answer to another frame, scores and all, for each frame."""
        source = np.arange(len(answers))
        source[self.frames] = self.frames[self._source(answers, remedy)]
        columns = {name: getattr(answers, name) for name in ("scores", "own_label", "own_confidence")}
        columns = {name: None if values is None else values[source] for name, values in columns.items()}
        return replace(answers, label=answers.label[source], state=answers.state[source], said={}, **columns)

    def _averages(self, answers: ClassAnswers, remedy: Remedy) -> Iterator[tuple[slice, Ints, Floats]]:
        _check_scores(answers, remedy)
        own = self.labels(answers)

        def shares(part: slice) -> Floats:
            outside = own[part] < 0
            return np.concatenate([answers.shares_of(self.frames[part]), outside[:, None]], axis=1)

        return averages(shares, own, self.timeline, self.place, remedy)

    def _averaged(self, answers: ClassAnswers, remedy: Remedy) -> ClassAnswers:
        """Return the answers with the highest mean probability."""
        label, state = answers.label.copy(), answers.state.copy()
        scores = np.full((len(answers), 0 if answers.scores is None else answers.scores.shape[1]), np.nan, np.float32)
        for part, shown, means in self._averages(answers, remedy):
            rows, is_known = self.frames[part], shown >= 0
            label[rows], state[rows] = shown, np.where(is_known, State.ANSWERED, State.OUTSIDE)
            found = means[:, :-1].astype(np.float32)
            other = is_known & (found.argmax(axis=1) != shown)  # equal up to the precision of what is stored
            found[other, shown[other]] = np.nextafter(found[other].max(axis=1), np.float32(2))
            found[~is_known] = np.nan
            scores[rows] = found
        return ClassAnswers(
            model=answers.model,
            kind="probabilities",
            label=label,
            state=state,
            scores=scores,
            own_label=label.astype(np.int32),
            own_confidence=scores.max(axis=1, initial=-np.inf).astype(np.float32),
            reasons=answers.reasons,
        )


def _check_scores(answers: ClassAnswers, remedy: Remedy) -> None:
    if not answers.has_shares:
        raise ModelFailed(
            f"{remedy.text}: {printable(answers.model)} gave labels without scores; use hold, confirm or mode"
        )
