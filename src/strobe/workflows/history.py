"""`strobe history`: compare the models of several runs on one dataset over time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from strobe.analyses.clips import Difference, differences
from strobe.analyses.comparison import Comparison, compare
from strobe.analyses.detection import has_boxes
from strobe.analyses.history import (
    ClipScore,
    Earlier,
    History,
    Score,
    earlier_of,
    lines_of,
    step_of,
    tests_of,
    with_earlier,
)
from strobe.analyses.measures import Measure
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Cohort
from strobe.analyses.variants_view import overall
from strobe.core.codec import encode
from strobe.core.errors import StrobeError, printable
from strobe.core.files import write_bytes, write_json, write_text
from strobe.core.locks import writes
from strobe.core.names import short_names, shown_models
from strobe.core.ports import Progress
from strobe.core.readings import reading_lines
from strobe.core.swaps import swapping
from strobe.core.tasks import Task
from strobe.metrics.columns import is_saturated
from strobe.report.history import history_drawing, history_table
from strobe.report.tables import as_csv
from strobe.store.run_folder import Run, StoredModel
from strobe.workflows.clips import Clips, Entrant, clips_of, entrant_of, other_machine
from strobe.workflows.compare import cut_lines, doubt_lines, noise_of, noise_plan, of_one_dataset, scores_of


def history(
    runs: Sequence[Path],
    *,
    models: Sequence[str] = (),
    order: Literal["time", "given"] = "time",
    options: ScoreOptions,
    subset: Path | None = None,
    dataset_path: Path | None = None,
    allow_missing: bool = False,
    progress: Progress,
) -> History:
    """Score every model of the runs.

    Compare each step with the step before it, the first step, and the best earlier step.

    Tests are exact and paired, with Holm's correction over all tests of a line of models. With order `time`, runs are
    sorted by their last prediction, and models of one run by the order in which they were requested. Without any label,
    models are compared on the clips themselves, in the first leading measure that is not at its end.
    """
    opened = of_one_dataset(runs, subset=subset, dataset_path=dataset_path)
    dataset = overall(opened.dataset)
    abouts = [Run(run).about() for run in runs]
    at = [str(about.get("at", "")) for about in abouts]
    rows = sorted(range(len(runs)), key=lambda row: (at[row], row)) if order == "time" else list(range(len(runs)))
    folders = short_names([str(run.resolve()) for run in runs])
    entries: list[tuple[str, str, StoredModel]] = []
    for row in rows:
        held = Run(runs[row]).models_as_asked(dataset, allow_missing=allow_missing, k=options.k)
        entries += [(folders[row], at[row], model) for model in held if not models or model.name in models]
    if not entries:
        wanted = f" of {', '.join(map(printable, models))}" if models else ""
        raise StrobeError(f"the runs have no predictions{wanted}")
    shown = shown_models(model.name for *_, model in entries)
    places = [(run, shown[model.name]) for run, _, model in entries]
    names, lines = _names(places), lines_of(places)
    clips, cuts = (None, 0) if dataset.labelled.any() else clips_of(opened.dataset, dataset, options)
    held_models = {name: model for name, (_, _, model) in zip(names, entries, strict=True)}
    on_clips = {} if clips is None else _entrants(clips, held_models)
    measure, flickers = (None, {}) if clips is None else _clip_scores(on_clips, options)
    rest = {name: model for name, model in held_models.items() if name not in flickers}
    rest_scores = scores_of(dataset, rest, options, progress) if rest else {}
    scores: dict[str, Score] = {**rest_scores, **flickers}
    earlier: dict[str, Earlier] = {}
    tested: dict[tuple[str, str], Comparison | Difference] = {}
    for line in dict.fromkeys(lines):
        mine = [scores[name] for name, here in zip(names, lines, strict=True) if here == line]
        for task in Task:
            earlier |= earlier_of([model for model in mine if model.task is task])
        others = [one for one in mine if not isinstance(one, ClipScore)]
        tested |= tests_of(compare(dataset, others, pairing=with_earlier))
        if clips is not None and measure is not None:
            pairs = with_earlier([one for one in mine if isinstance(one, ClipScore)])
            for later, other in ((one.model, before.model) for one, before in pairs):
                reason = other_machine(on_clips[other].origin, on_clips[later].origin)
                (tested[later, other],) = differences(
                    [measure],
                    on_clips[other],
                    on_clips[later],
                    scope="these-clips",
                    tolerance=clips.tolerance(reason),
                )
    plans = {
        task: noise_plan(opened.dataset, options, needs_labels=task is Task.CLASSIFICATION)[0]
        for task in {model.task for model in held_models.values() if model.is_repeated}
    }
    noisy = {name: noise_of(plans[model.task], model) for name, model in held_models.items() if model.task in plans}
    noise = {name: model.figures["noise"] for name, model in noisy.items() if model is not None}
    steps = [
        replace(
            step_of(name, line, (run, model.name, time), scores[name], earlier.get(name), tested),
            noise=noise.get(name),
        )
        for name, line, (run, time, model) in zip(names, lines, entries, strict=True)
    ]
    k = dataset.info.k if options.k is None else options.k
    part = None if opened.subset is None else opened.subset.name
    needs_labels = any(step.task is Task.CLASSIFICATION and step.figure is None for step in steps)
    cohort = Cohort.of(opened.dataset, needs_labels=needs_labels)
    judged = dataset.labelled_sets() if needs_labels else dataset if clips is None else clips.shared.plan
    if flickers:
        cohort = replace(cohort, unlabelled_sets=0)
    return History(
        dataset=dataset.name,
        n_sets=judged.n_sets,
        k=k,
        steps=tuple(steps),
        subset=part,
        unlabelled_sets=cohort.unlabelled_sets or None,
        sets_without_votes=cohort.sets_without_votes or None,
        cautions=(
            *cohort.cautions(),
            *cut_lines(cuts),
            *doubt_lines(rest_scores),
            *reading_lines({name: model.facts for name, model in held_models.items()}),
        )
        or None,
    )


def _entrants(clips: Clips, models: Mapping[str, StoredModel]) -> dict[str, Entrant]:
    """Return the classifiers with their columns; if there are none, the detectors, unless the dataset has boxes."""
    chosen = {name: model for name, model in models.items() if model.task is Task.CLASSIFICATION}
    if not chosen and not has_boxes(clips.dataset):
        chosen = dict(models)
    found = {name: entrant_of(clips, model, name=name) for name, model in chosen.items()}
    return {name: one for name, one in found.items() if one is not None}


def _clip_scores(
    entrants: Mapping[str, Entrant], options: ScoreOptions
) -> tuple[Measure[Any] | None, dict[str, Score]]:
    """Return the measure that the steps are compared on, and the figure of each step.

    It is the first measure that leads and is not at its end for every step.
    """
    leading = dict.fromkeys(one for entrant in entrants.values() for one in entrant.measures if one.lead)
    known = [one for one in leading if all(model.value(one.name) is not None for model in entrants.values())]
    ends = {one: is_saturated([model.columns[one.name] for model in entrants.values()]) for one in known}
    measure = min(known, key=lambda one: (ends[one], -one.lead), default=None)
    if measure is None:
        return None, {}
    return measure, {
        name: ClipScore(model=name, measure=measure, figure=options.estimate(model.own[measure.name]))
        for name, model in entrants.items()
    }


def _names(places: Sequence[tuple[str, str]]) -> list[str]:
    """Return the name of each step: its run or its model if that name is unique, otherwise both.

    >>> _names([("a", "net"), ("b", "net")]), _names([("a", "x"), ("a", "y")])
    (['a', 'b'], ['x', 'y'])
    >>> _names([("a", "x"), ("b", "x"), ("b", "y")])
    ['a/x', 'b/x', 'b/y']
    """
    for only in (0, 1):
        names = [place[only] for place in places]
        if len(set(names)) == len(names):
            return names
    return ["/".join(place) for place in places]


@writes("folder")
def write_history(timeline: History, folder: Path) -> None:
    """Write history.csv, .json, .svg and .png, or none of them if one fails."""
    drawing = history_drawing(timeline)
    with swapping(folder) as staged:
        write_text(staged.root / "history.csv", as_csv(history_table(timeline)))
        write_json(staged.root / "history.json", encode(timeline))
        write_text(staged.root / "history.svg", drawing.svg)
        write_bytes(staged.root / "history.png", drawing.png)
