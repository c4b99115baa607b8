"""A model's answers with a remedy, along the videos of a dataset. Pure functions, for stores and for scores."""

from collections.abc import Callable
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
    """The answered frames of a dataset's videos (N,) by time, also those that review rejected, and their stretches.

    `timeline` is the stretch of consecutive frames of each, and `seconds` are their times, or NaN. A stretch goes on
    across a scene cut, which no remedy knows.
    """

    frames: Ints
    timeline: Ints
    seconds: Floats

    @classmethod
    def of(cls, dataset: Dataset, answered: Bools) -> "Stretches":
        """Return the stretches of the frames that a model answered, (F,)."""
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
        return cls(rows, line, seconds)

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
        return self._averaged(answers, remedy, keep) if remedy.averages else self._chosen(answers, remedy)

    def labels(self, answers: ClassAnswers) -> Ints:
        """Return the answer to each of these frames; −1 is outside the classes."""
        return np.where(answers.state[self.frames] == State.OUTSIDE, -1, answers.label[self.frames]).astype(np.int64)

    def _chosen(self, answers: ClassAnswers, remedy: Remedy) -> ClassAnswers:
        """Return the whole answer to an earlier frame, scores and all, for each frame."""
        label, line = self.labels(answers), self.timeline
        many = int(remedy.value)
        if remedy.kind in ("hold", "confirm"):
            seconds = self.seconds if remedy.kind == "hold" else np.zeros(len(label))
            chosen = stood(label, line, seconds, remedy)
        elif remedy.kind == "hysteresis":
            _check_scores(answers, remedy)
            sure = answers.confidence_at(self.frames)
            chosen = kept_by_margin(label, line, sure, self._share(answers), remedy.value)
        else:
            around = remedy.kind == "mode-around"
            chosen = majority(label, line, before=many if around else many - 1, after=many if around else 0)
        source = np.arange(len(answers))
        source[self.frames] = self.frames[chosen]
        return replace(
            answers,
            label=answers.label[source],
            state=answers.state[source],
            scores=None if answers.scores is None else answers.scores[source],
            own_label=None if answers.own_label is None else answers.own_label[source],
            own_confidence=None if answers.own_confidence is None else answers.own_confidence[source],
            said={},
        )

    def _share(self, answers: ClassAnswers) -> Callable[[int, int], float]:
        return lambda place, label: float(answers.share_of(self.frames[[place]], np.array([label]))[0])

    def _averaged(self, answers: ClassAnswers, remedy: Remedy, keep: bool) -> ClassAnswers:
        """Return the answers with the highest mean probability."""
        _check_scores(answers, remedy)
        own = self.labels(answers)

        def shares(part: slice) -> Floats:
            outside = own[part] < 0
            return np.concatenate([answers.shares_of(self.frames[part]), outside[:, None]], axis=1)

        label, width = answers.label.copy(), 0 if answers.scores is None or not keep else answers.scores.shape[1]
        state, scores = answers.state.copy(), np.full((len(answers), width), np.nan, dtype=np.float32)
        for place, answer, mean in averages(shares, own, self.timeline, remedy):
            row = self.frames[place]
            label[row], state[row] = answer, State.OUTSIDE if answer < 0 else State.ANSWERED
            if keep and answer >= 0:
                scores[row] = mean[:-1]
                highest = scores[row].max()
                if scores[row].argmax() != answer:  # equal up to the precision of what is stored
                    scores[row, answer] = np.nextafter(highest, np.float32(2))
        confidence = scores.max(axis=1, initial=-np.inf) if keep else np.full(len(answers), np.nan)
        return ClassAnswers(
            model=answers.model,
            kind="probabilities" if keep else "labels",
            label=label,
            state=state,
            scores=scores if keep else None,
            own_label=label.astype(np.int32),
            own_confidence=confidence.astype(np.float32),
            reasons=answers.reasons,
        )


def _check_scores(answers: ClassAnswers, remedy: Remedy) -> None:
    if not answers.has_shares:
        raise ModelFailed(
            f"{remedy.text}: {printable(answers.model)} gave labels without scores; use hold, confirm or mode"
        )
