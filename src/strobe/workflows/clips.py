"""Compare models on the same clips without labels: the verdict of each pair, and the places that differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from strobe.analyses.clips import (
    ClipComparison,
    ModelColumns,
    Scope,
    Spot,
    Tolerance,
    differences,
    lead_of,
    worth,
)
from strobe.analyses.measures import Measure, column_of, measures_of
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.estimate import Missing
from strobe.metrics.flicker import spots
from strobe.store.run_folder import Run, StoredModel
from strobe.studies.unlabelled.measures import VideoAnswers
from strobe.studies.unlabelled.plan import FlickerPlan, cut_frames, no_flicker, without_cuts
from strobe.studies.unlabelled.records import FlickerOptions

MOST_PAIRS = 10
"""The most pairs of models whose places are listed."""
MOST_ANSWERS = 5


@dataclass(frozen=True)
class Clips:
    """The videos that models are compared on without labels. `cuts` counts the sets excluded because of a scene cut."""

    shared: FlickerPlan
    dataset: Dataset
    cuts: int

    @property
    def measures(self) -> tuple[Measure[Any], ...]:
        """The measures of classifiers that need no label."""
        return measures_of("unlabelled")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the clips."""
        videos = self.shared.plan.view.videos
        return tuple(str(videos.name[row]) or str(videos.video_id[row]) for row in np.unique(self.shared.video))

    @cached_property
    def seconds(self) -> float | None:
        """The length of all clips, or None if it is unknown."""
        seconds = self.shared.seconds
        return float(seconds.sum()) if len(seconds) and bool((seconds > 0).all()) else None

    def tolerance(self, reason: str | None) -> Tolerance:
        """Return the tolerance of figures on these clips, if there is a reason for one."""
        seconds, pairs = float(self.shared.seconds.sum()), int((self.shared.seconds > 0).sum())
        plan = self.shared.plan
        return Tolerance(
            reason=reason,
            fps=pairs / seconds if seconds > 0 else None,
            set_frames=len(plan.frame) / plan.n_sets if plan.n_sets else None,
        )


def clips_of(given: Dataset, merged: Dataset, options: ScoreOptions) -> tuple[Clips | None, int]:
    """Return the clips of a dataset, or None and the number of sets with a cut if flicker cannot be measured on it."""
    if no_flicker(given) is not None:
        return None, 0
    kept, cuts = without_cuts(merged, options.k)
    if kept is None:
        return None, cuts
    shared = FlickerPlan(kept, options, FlickerOptions(), cuts=cut_frames(merged))
    return Clips(shared, given, cuts), cuts


@dataclass(frozen=True, slots=True)
class Track:
    """The answers of one classifier along the timelines, (N,), the frames with an answer, and the sets with all."""

    along: Ints
    known: Bools
    scored: Bools
    stopped: bool


def columns_of(clips: Clips, model: StoredModel, *, name: str) -> tuple[ModelColumns, Track] | None:
    """Return the columns of a classifier, the figures of its repeats, and its answers; None for a detector."""
    answers = model.load()
    if not isinstance(answers, ClassAnswers):
        return None
    video = VideoAnswers(clips.shared, answers)
    columns = {}
    for measure in clips.measures:
        column = column_of(measure, video)
        if not isinstance(column, Missing):
            columns[measure.name] = column
    again = [_figures(clips, one) for one in model.repeats()]
    repeats: dict[str, Floats] = {}
    if again:
        first = {name: np.nan if column.value is None else column.value for name, column in columns.items()}
        repeats = {key: np.array([first[key], *(one.get(key, np.nan) for one in again)]) for key in columns}
    track = Track(video.along, video.known, video.scored, video.stopped)
    return ModelColumns(name=name, columns=columns, repeats=repeats), track


def _figures(clips: Clips, answers: Answers) -> dict[str, float]:
    if not isinstance(answers, ClassAnswers):
        return {}
    video = VideoAnswers(clips.shared, answers)
    found = {one.name: column_of(one, video) for one in clips.measures}
    return {
        name: column.value
        for name, column in found.items()
        if not isinstance(column, Missing) and column.value is not None
    }


def compare_on_clips(
    clips: Clips, models: Mapping[str, StoredModel], *, scope: Scope = "these-clips"
) -> tuple[ClipComparison, ...]:
    """Compare every pair of classifiers on the same clips; the earlier model of a pair is the old one."""
    held = {name: found for name, model in models.items() if (found := columns_of(clips, model, name=name))}
    pairs = list(combinations(held, 2))
    return tuple(
        pair_on_clips(
            clips,
            held[old],
            held[new],
            scope=scope,
            reason=other_machine(models[old], models[new]),
            with_spots=len(pairs) <= MOST_PAIRS,
        )
        for old, new in pairs
    )


def pair_on_clips(
    clips: Clips,
    old: tuple[ModelColumns, Track],
    new: tuple[ModelColumns, Track],
    *,
    scope: Scope,
    reason: str | None = None,
    with_spots: bool = True,
) -> ClipComparison:
    """Compare two classifiers on the same clips. `reason` is why their answers may differ a little."""
    (old_columns, old_track), (new_columns, new_track) = old, new
    found = differences(clips.measures, old_columns, new_columns, scope=scope, tolerance=clips.tolerance(reason))
    lead = lead_of(clips.measures, found)
    leading = next((one for one in found if one.measure == lead), None)
    effective = None
    if lead is not None and scope == "this-recording":
        effective = worth(old_columns.columns[lead], new_columns.columns[lead])
    cautions = []
    if reason is not None:
        cautions.append(f"{reason}; a change that 1 % of frames could make counts as the same")
    if clips.cuts:
        sets = "1 set was" if clips.cuts == 1 else f"{clips.cuts} sets were"
        cautions.append(f"{sets} excluded, because a scene cut lies inside")
    lacking = int((~(old_track.scored & new_track.scored)).sum())
    if lacking:
        cautions.append(f"{lacking} of {clips.shared.plan.n_sets} sets lack answers of one model and are not compared")
    return ClipComparison(
        old=old_columns.name,
        new=new_columns.name,
        dataset=clips.dataset.name,
        scope=scope,
        videos=clips.names,
        n_frames=len(clips.shared.frames),
        seconds=clips.seconds,
        lead=lead,
        verdict=None if leading is None else leading.verdict,
        differences=found,
        unsteady=_spots(clips, old_track, new_track) if with_spots else (),
        steady=_spots(clips, new_track, old_track) if with_spots else (),
        effective=effective,
        cautions=tuple(cautions) or None,
    )


def _spots(clips: Clips, steady: Track, other: Track) -> tuple[Spot, ...]:
    """Return the places where `steady` keeps its answer and `other` changes its own, those with most changes first."""
    shared = clips.shared
    if steady.stopped or other.stopped:
        return ()
    known = steady.known & other.known
    line = shared.timeline + np.cumsum(~known)
    found = spots(steady.along, other.along, np.where(known, line, -1 - np.arange(len(line))))
    view = shared.plan.view
    out = []
    for first, last, changes in zip(found.first.tolist(), found.last.tolist(), found.changes.tolist(), strict=True):
        row = int(shared.frames[first])
        time = float(view.frames.time_s[row])
        video = int(view.frames.video[row])
        out.append(
            Spot(
                video=str(view.videos.name[video]) or str(view.videos.video_id[video]),
                frame=int(view.frames.index[row]),
                time_s=time if np.isfinite(time) else None,
                answers=_answers(clips, other.along[first - 1 : last + 1]),
                changes=changes,
            )
        )
    return tuple(sorted(out, key=lambda spot: (-spot.changes, spot.video, spot.frame)))


def _answers(clips: Clips, labels: Ints) -> tuple[str, ...]:
    """Return the answers in a row of frames, each run once, at most five."""
    names = (*clips.dataset.info.label_space.names, "none of the classes")
    starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    return tuple(printable(names[label]) for label in labels[starts][:MOST_ANSWERS].tolist())


def other_machine(old: StoredModel, new: StoredModel) -> str | None:
    """Return why the answers of two models may differ without a difference of the models; None on one machine.

    Raise StrobeError if the frames of the two were decoded in different ways, so that they are not the same frames.
    """
    decoded = [str(model.facts.get("decode", "")) for model in (old, new)]
    if all(decoded) and decoded[0] != decoded[1]:
        raise StrobeError(
            f"{printable(old.name)} saw frames decoded by {printable(decoded[0])}, {printable(new.name)} by "
            f"{printable(decoded[1])}: these are different frames; make the baseline anew with the same decoder"
        )
    for name, model in ((old.name, old), (new.name, new)):
        if model.facts.get("remote") and not model.is_repeated:
            return f"{printable(name)} is behind an address and was asked once, so it may answer differently again"
    if old.run == new.run:
        return None
    before, after = (Run(model.run).about() for model in (old, new))
    cpus = [str(about.get("cpu", "an unknown CPU")) for about in (before, after)]
    if cpus[0] != cpus[1]:
        return f"the runs are from different CPUs ({printable(cpus[0])}, {printable(cpus[1])})"
    versions = [about.get("versions", {}) for about in (before, after)]
    changed = sorted(
        key for key in {*versions[0], *versions[1]} - {"strobe"} if versions[0].get(key) != versions[1].get(key)
    )
    return f"the runs were made with different versions of {', '.join(map(printable, changed))}" if changed else None
