"""Compare models on the same clips without labels: the verdict of each pair, and the places that differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from strobe.analyses.box_measures import followed
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
from strobe.analyses.measures import Family, Measure, column_of, measures_of
from strobe.analyses.model_results import NOISE
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.variants_view import overall
from strobe.analyses.video_measures import VideoAnswers
from strobe.analyses.video_plan import FlickerPlan, cut_frames, no_flicker, without_cuts
from strobe.core.answers import Answers, BoxAnswers, ClassAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.estimate import Missing
from strobe.core.tasks import Task
from strobe.metrics.columns import Column, Measured, without_each
from strobe.metrics.flicker import spots
from strobe.store.opening import Opened
from strobe.store.run_folder import Run, StoredModel
from strobe.studies.noise.score import noise_column, repeated_answers
from strobe.studies.unlabelled.records import FlickerOptions

MOST_PAIRS = 10
"""The most pairs of models whose places are listed."""
MOST_ANSWERS = 5
LEAST_SECONDS = 10
"""The shortest clip for which the interval of this recording was simulated."""


@dataclass(frozen=True)
class Clips:
    """The videos that models are compared on without labels. `cuts` counts the sets excluded because of a scene cut.

    `is_labelled` is set for the sets with a label, on which accuracy is compared too.
    """

    shared: FlickerPlan
    dataset: Dataset
    cuts: int
    options: ScoreOptions = field(default_factory=ScoreOptions)
    is_labelled: bool = False

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

    @property
    def short(self) -> str | None:
        """The name of a clip that is too short for an interval of this recording, or whose length is unknown."""
        video = self.shared.video[self.shared.neighbours()[0]]
        length = np.bincount(video, weights=self.shared.seconds, minlength=int(self.shared.video.max()) + 1)
        rows = np.unique(self.shared.video)
        return next((name for name, row in zip(self.names, rows, strict=True) if length[row] < LEAST_SECONDS), None)

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
    return Clips(shared, given, cuts, options), cuts


@dataclass(frozen=True, slots=True)
class Track:
    """The answers of one classifier along the timelines, (N,), and the frames with an answer.

    `names` are the names of the answers; the last one is for answers outside the classes.
    """

    along: Ints
    known: Bools
    stopped: bool
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """How the answers of a model were made: the CPU, the versions of packages, and the decoder of the frames.

    `may_vary` is set if the same model may answer differently when it is asked again.
    """

    name: str
    cpu: str
    versions: Mapping[str, str]
    decode: str
    may_vary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant(ModelColumns):
    """A model to compare on the clips: its columns, its answers, and how they were made.

    A detector has no `track`, and its `columns` are statistics, because the rows of two detectors differ in size.
    """

    track: Track | None
    origin: Origin

    @property
    def measures(self) -> tuple[Measure[Any], ...]:
        """The measures that need no label."""
        return (*measures_of("boxes" if self.track is None else "unlabelled"), NOISE[0])


def entrant_of(clips: Clips, model: StoredModel, *, name: str) -> Entrant | None:
    """Return a stored model as an entrant, with the figures of its repeats; None if nothing can be measured."""
    if model.task is not Task.CLASSIFICATION:
        return _detector(clips, model, name=name)
    own = _own_clips(clips, model)
    if own is not None:
        clips, model = own
    answers = model.load()
    if not isinstance(answers, ClassAnswers):
        return None
    again: list[dict[str, float]] = []

    def repeats() -> Iterator[Answers]:
        for repeat in model.repeats():
            again.append(_figures(clips, repeat))
            yield repeat

    asked = repeated_answers(answers, repeats())
    names = clips.dataset.info.label_space.names
    found = answers_entrant(clips, answers, name=name, names=names, origin=origin_of(model, name=name), again=again)
    if asked is None:
        return found
    columns = {**found.columns, "noise": noise_column(clips.shared.plan, asked)}
    return replace(found, columns=columns, own=columns)


def _detector(clips: Clips, model: StoredModel, *, name: str) -> Entrant | None:
    answers = model.load()
    along = followed(overall(clips.dataset), answers) if isinstance(answers, BoxAnswers) else None
    if along is None or isinstance(along, Missing):
        return None
    own = _columns("boxes", along)
    columns = {name: without_each(column) if isinstance(column, Column) else column for name, column in own.items()}
    plan = clips.shared.plan
    lacking = plan.set_row[~answers.scored[plan.frame]]
    scored = np.bincount(lacking, minlength=plan.n_sets) == 0
    origin = origin_of(model, name=name)
    return Entrant(name=name, columns=columns, own=own, scored=scored, track=None, origin=origin)


def _own_clips(clips: Clips, model: StoredModel) -> tuple[Clips, StoredModel] | None:
    """Return a model with the clips of its own run, if it answers in other classes than the dataset of these clips.

    A model is compared on its own stability, so two models may have different classes.
    """
    space = model.dataset.info.label_space
    if model.file is not None or model.facts["label_space"] == space.digest:
        return None
    run = Run(model.run)
    opened = Opened.of_run(run)
    own, _ = clips_of(opened.dataset, overall(opened.dataset), clips.options)
    if own is None or not np.array_equal(own.shared.frames, clips.shared.frames):
        return None
    return own, run.models(overall(opened.dataset), only=[model.name], allow_missing=model.allow_missing)[0]


def answers_entrant(
    clips: Clips,
    answers: ClassAnswers,
    *,
    name: str,
    names: Sequence[str],
    origin: Origin,
    again: Sequence[Mapping[str, float]] = (),
) -> Entrant:
    """Return a classifier's answers on the clips as an entrant. `names` are its classes, `again` its other figures."""
    video = VideoAnswers(clips.shared, answers)
    columns = _columns("unlabelled", video)
    repeats: dict[str, Floats] = {}
    if again:
        first = {key: np.nan if column.value is None else column.value for key, column in columns.items()}
        repeats = {key: np.array([first[key], *(one.get(key, np.nan) for one in again)]) for key in columns}
    track = Track(video.along, video.known, video.stopped, (*names, "none of the classes"))
    return Entrant(
        name=name, columns=columns, own=columns, repeats=repeats, scored=video.scored, track=track, origin=origin
    )


def _figures(clips: Clips, answers: Answers) -> dict[str, float]:
    columns = _columns("unlabelled", VideoAnswers(clips.shared, answers.as_classes()))
    return {name: value for name, column in columns.items() if (value := column.value) is not None}


def _columns(family: Family, answers: Any) -> dict[str, Measured]:
    """Return the columns of a model's answers by measure."""
    found = {measure.name: column_of(measure, answers) for measure in measures_of(family)}
    return {name: column for name, column in found.items() if not isinstance(column, Missing)}


def compare_on_clips(
    clips: Clips, models: Mapping[str, StoredModel], *, scope: Scope = "these-clips"
) -> tuple[ClipComparison, ...]:
    """Compare every pair of classifiers, and of detectors, on the same clips; the earlier model is the old one."""
    entrants = [one for name, model in models.items() if (one := entrant_of(clips, model, name=name)) is not None]
    pairs = [pair for pair in combinations(entrants, 2) if pair[0].measures == pair[1].measures]
    return tuple(pair_on_clips(clips, old, new, scope=scope, with_spots=len(pairs) <= MOST_PAIRS) for old, new in pairs)


def pair_on_clips(
    clips: Clips,
    old: Entrant,
    new: Entrant,
    *,
    scope: Scope,
    with_spots: bool = True,
) -> ClipComparison:
    """Compare two classifiers, or two detectors, on the same clips. Raise StrobeError for one of each."""
    if old.measures != new.measures:
        raise StrobeError(
            f"{printable(old.name)} and {printable(new.name)} cannot be compared, because one is a "
            "classifier and the other a detector"
        )
    measures, reason = old.measures, other_machine(old.origin, new.origin)
    found = differences(measures, old, new, scope=scope, tolerance=clips.tolerance(reason))
    lead = lead_of(measures, found)
    leading = next((one for one in found if one.measure == lead), None)
    effective = None
    if lead is not None and scope == "this-recording":
        effective = worth(old.columns[lead], new.columns[lead])
    cautions = []
    if reason is not None:
        cautions.append(f"{reason}; a change that 1 % of frames could make counts as the same")
    if scope == "this-recording" and (short := clips.short):
        cautions.append(f"{printable(short)} is shorter than {LEAST_SECONDS} s, so the interval may be too narrow")
    if clips.cuts:
        sets = "1 set was" if clips.cuts == 1 else f"{clips.cuts} sets were"
        cautions.append(f"{sets} excluded, because a scene cut lies inside")
    lacking = int((~(old.scored & new.scored)).sum())
    if lacking:
        then = "so each detector is measured on other frames" if old.track is None else "and are not compared"
        cautions.append(f"{lacking} of {clips.shared.plan.n_sets} sets lack answers of one model, {then}")
    return ClipComparison(
        old=old.name,
        new=new.name,
        dataset=clips.dataset.name,
        scope=scope,
        videos=clips.names,
        n_frames=len(clips.shared.frames),
        seconds=clips.seconds,
        lead=lead,
        verdict=None if leading is None else leading.verdict,
        differences=found,
        unsteady=_spots(clips, old.track, new.track) if with_spots else (),
        steady=_spots(clips, new.track, old.track) if with_spots else (),
        effective=effective,
        cautions=tuple(cautions) or None,
    )


def _spots(clips: Clips, steady: Track | None, other: Track | None) -> tuple[Spot, ...]:
    """Return the places where `steady` keeps its answer and `other` changes its own, those with most changes first."""
    shared = clips.shared
    if steady is None or other is None or steady.stopped or other.stopped:
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
                answers=_answers(other.names, other.along[first - 1 : last + 1]),
                changes=changes,
            )
        )
    return tuple(sorted(out, key=lambda spot: (-spot.changes, spot.video, spot.frame)))


def _answers(names: Sequence[str], labels: Ints) -> tuple[str, ...]:
    """Return the answers in a row of frames, each run once, at most five."""
    starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    return tuple(printable(names[label]) for label in labels[starts][:MOST_ANSWERS].tolist())


def origin_of(model: StoredModel, *, name: str) -> Origin:
    """Return how the answers of a stored model were made."""
    about = Run(model.run).about()
    return Origin(
        name=name,
        cpu=str(about.get("cpu", "an unknown CPU")),
        versions=about.get("versions", {}),
        decode=str(model.facts.get("decode", "")),
        may_vary=bool(model.facts.get("remote")) and not model.is_repeated,
    )


def other_machine(old: Origin, new: Origin) -> str | None:
    """Return why the answers of two models may differ without a difference of the models; None on one machine.

    Raise StrobeError if the frames of the two were decoded in different ways, so that they are not the same frames.
    """
    if old.decode and new.decode and old.decode != new.decode:
        raise StrobeError(
            f"{printable(old.name)} saw frames decoded by {printable(old.decode)}, {printable(new.name)} by "
            f"{printable(new.decode)}: these are different frames; make the baseline again with the same decoder"
        )
    for one in (old, new):
        if one.may_vary:
            return f"{printable(one.name)} is behind an address and was asked once, so it may answer differently again"
    if old.cpu != new.cpu:
        return f"the runs are from different CPUs ({printable(old.cpu)}, {printable(new.cpu)})"
    known = {*old.versions, *new.versions} - {"strobe"}
    changed = sorted(key for key in known if old.versions.get(key) != new.versions.get(key))
    return f"the runs were made with different versions of {', '.join(map(printable, changed))}" if changed else None
