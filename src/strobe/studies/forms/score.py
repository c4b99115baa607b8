"""What changes between the reference and every other form of a model. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.forms import FormFamily, differences
from strobe.analyses.measures import figure, measures_of
from strobe.analyses.plan import Plan
from strobe.analyses.video_plan import answer_labels
from strobe.core.answers import Answers, BoxAnswers, ClassAnswers, State
from strobe.core.arrays import Ints, narrow
from strobe.core.estimate import Estimate
from strobe.core.names import short_names
from strobe.metrics.flicker import changed as changed_rows
from strobe.studies.forms.measures import FormPair
from strobe.studies.forms.records import ChangedFrame, FlipCounts, Forms, FormScore

MOST_ROWS, MOST_FRAMES = 20, 8
"""The most classes, sets and frames that are stored for one form; all flips follow from the stored answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelForm:
    """A form of a model: its facts, its answers, and its own figures by the name of their field."""

    facts: Mapping[str, Any]
    answers: Answers
    own: Mapping[str, Estimate] = field(default_factory=dict)


def compact(answers: Answers) -> Answers:
    """Return answers without scores, small enough to keep those of several forms."""
    if isinstance(answers, BoxAnswers):
        return answers
    return ClassAnswers(model=answers.model, kind="labels", label=narrow_labels(answers), state=answers.state)


def narrow_labels(answers: ClassAnswers) -> NDArray[Any]:
    """Return the labels in the smallest type that holds them; −1 is an answer outside the classes."""
    return np.asarray(narrow(answer_labels(answers)))


def forms_of(plan: Plan, family: FormFamily, models: Mapping[str, ModelForm]) -> Forms | None:
    """Return the forms of one family; None if fewer than two of them answer the same kind of question."""
    first = models.get(family.reference)
    others = [name for name in family.names[1:] if name in models]
    others = [name for name in others if first and isinstance(models[name].answers, type(first.answers))]
    if first is None or not others:
        return None
    scores = [FormScore(model=family.reference, **_own(plan, first))]
    scores += [_score(plan, name, first, models[name]) for name in others]
    return Forms(reference=family.reference, forms=tuple(scores))


def _own(plan: Plan, form: ModelForm) -> dict[str, Any]:
    """Return what a form shows by itself: its figures, its speed and its size."""
    own: dict[str, Any] = {name: form.facts.get(name) for name in ("frames_per_second", "size")} | dict(form.own)
    if "flicker" not in own and (flicker := flicker_of(plan, form.answers)) is not None:
        own["flicker"] = flicker
    return own


def flicker_of(plan: Plan, answers: Answers) -> Estimate | None:
    """Return the share of sets with another answer than the anchor's; None if it is not defined or frames lack one."""
    if not (plan.is_video and plan.k and isinstance(answers, ClassAnswers)):
        return None
    if (answers.state[plan.frame] > State.OUTSIDE).any():
        return None
    rows = changed_rows(answer_labels(answers)[plan.frame], plan.set_row, plan.is_anchor, n_sets=plan.n_sets)
    differs = np.bincount(plan.set_row[rows], minlength=plan.n_sets) > 0
    return plan.all_sets.estimates(np.asarray(differs)[None])[0]


def _score(plan: Plan, name: str, old: ModelForm, new: ModelForm) -> FormScore:
    pair = FormPair(plan, old.answers, new.answers)
    options = plan.options
    figures = {
        measure.name: figure(measure, pair, replicates=options.draws, seed=options.seed, interval=options.interval)
        for measure in measures_of("forms")
    }
    parts: dict[str, Any] = {}
    if pair.is_classes:
        parts = {"classes": _by_class(pair), "sets": _by_set(pair), "frames": _examples(pair)}
    return FormScore(
        model=name,
        differs=differences(old.facts, new.facts),
        pair={name: one for name, one in figures.items() if one.value is not None},
        **_own(plan, new),
        **parts,
    )


def _by_class(pair: FormPair) -> tuple[FlipCounts, ...]:
    """Return the flips by the first right class of each frame, or by the answer of the reference without labels."""
    rows, names = _scored_rows(pair), (*pair.plan.view.info.label_space.names, "(outside)")
    if pair.has_label.any():
        rows = rows[pair.has_label[rows]]
        owner = pair.plan.view.right_labels[0, rows]
    else:
        owner = pair.labels[0][pair.plan.frame[rows]]
    return _counted(pair, rows, owner.astype(np.int64), lambda place: names[place])


def _by_set(pair: FormPair) -> tuple[FlipCounts, ...]:
    """Return the flips by set; every frame of a set counts."""
    names = short_names(pair.plan.view.sets.set_id.tolist())
    rows = np.flatnonzero(pair.scored[pair.plan.frame])
    return _counted(pair, rows, pair.plan.set_row[rows], lambda place: names[place])


def _scored_rows(pair: FormPair) -> Ints:
    """Return the set rows of the distinct frames that both forms answered."""
    return np.asarray(pair.rows[pair.scored[pair.plan.frame[pair.rows]]])


def _counted(pair: FormPair, rows: Ints, owner: Ints, name: Any) -> tuple[FlipCounts, ...]:
    """Return the groups with a change: those with most negative flips first, then those with most changes."""
    kinds, group = np.unique(owner, return_inverse=True)
    negative, positive, changed = (
        np.bincount(group[marks[rows] & (pair.has_label[rows] | every)], minlength=len(kinds))
        for marks, every in (
            (pair.by_row.negative, False),
            (pair.by_row.positive, False),
            (pair.by_row.changed, True),
        )
    )
    many = np.bincount(group, minlength=len(kinds))
    order = np.lexsort((kinds, -changed, -negative))
    return tuple(
        FlipCounts(
            name=name(int(kinds[at])),
            frames=int(many[at]),
            negative=int(negative[at]),
            positive=int(positive[at]),
            changed=int(changed[at]),
        )
        for at in order[:MOST_ROWS].tolist()
        if changed[at]
    )


def _examples(pair: FormPair) -> tuple[ChangedFrame, ...]:
    """Return changed frames, negative flips first, the first of every set before the second of any."""
    plan, rows = pair.plan, _scored_rows(pair)
    rows = rows[pair.by_row.changed[rows]]
    lost = pair.by_row.negative[rows] & pair.has_label[rows]
    owner = plan.set_row[rows]
    order = np.lexsort((plan.frame[rows], owner, ~lost))
    seen = np.zeros(len(rows), dtype=np.int64)
    for at in range(1, len(order)):
        a, b = order[at - 1], order[at]
        seen[b] = seen[a] + 1 if owner[a] == owner[b] and lost[a] == lost[b] else 0
    chosen = rows[np.lexsort((plan.frame[rows], seen, ~lost))][:MOST_FRAMES]
    names = (*plan.view.info.label_space.names, "(outside)")
    sets = short_names(plan.view.sets.set_id.tolist())
    old, new = pair.labels
    return tuple(
        ChangedFrame(
            frame=str(plan.view.frames.key[frame]),
            set=sets[int(plan.set_row[row])],
            old=names[int(old[frame])],
            new=names[int(new[frame])],
            right=" / ".join(names[label] for label in plan.view.labels_of(frame)),
        )
        for row, frame in zip(chosen.tolist(), plan.frame[chosen].tolist(), strict=True)
    )
