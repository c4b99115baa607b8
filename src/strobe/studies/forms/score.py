"""What changes between the reference and every other form of a model. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from strobe.analyses.forms import differences
from strobe.analyses.plan import Plan
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.arrays import Ints
from strobe.core.names import short_names
from strobe.studies.forms.measures import FormPair
from strobe.studies.forms.records import ChangedFrame, FlipCounts, FormScore

MOST_ROWS, MOST_FRAMES = 20, 8
"""The most classes, sets and frames that are stored for one form; all flips follow from the stored answers."""

ModelForm = tuple[Mapping[str, Any], Answers]
"""The facts of a form, and its answers without scores."""


def forms_of(plan: Plan, family: Sequence[str], models: Mapping[str, ModelForm]) -> list[FormScore]:
    """Return the forms of one family that answer the same kind of question; none if there is only one."""
    reference, *names = family
    if reference not in models:
        return []
    first = models[reference]
    others = [name for name in names if name in models and isinstance(models[name][1], type(first[1]))]
    scores = [compared(plan, reference, first, name, models[name]) for name in others]
    return [FormScore(reference=reference, model=reference, **_costs(first[0])), *scores] if others else []


def _costs(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: facts.get(name) for name in ("frames_per_second", "size")}


def compared(plan: Plan, reference: str, old: ModelForm, name: str, new: ModelForm) -> FormScore:
    """Return what changes from the reference to another form."""
    pair = FormPair(plan, old[1], new[1])
    score = FormScore(
        reference=reference,
        model=name,
        differs=differences(old[0], new[0]),
        pair={measure: plan.options.estimate(column) for measure, column in pair.columns.items()},
        **_costs(new[0]),
    )
    if not isinstance(new[1], ClassAnswers):
        return score
    plan, rows = pair.plan, pair.rows
    names = (*plan.view.info.label_space.names, "(outside)")
    sets = short_names(plan.view.sets.set_id.tolist())
    labelled = rows[pair.has_label[rows]]
    owner = plan.view.right_labels[0, labelled] if len(labelled) else pair.labels[0][rows]
    all_rows = np.flatnonzero(pair.scored)
    flips = [
        *_counted(pair, "class", labelled if len(labelled) else rows, owner, names),
        *_counted(pair, "set", all_rows, plan.set_row[all_rows], sets),
    ]
    return replace(score, flips=tuple(flips), frames=_examples(pair, names, sets))


def _counted(
    pair: FormPair, by: Literal["class", "set"], rows: Ints, owner: Ints, names: "list[str] | tuple[str, ...]"
) -> list[FlipCounts]:
    """Return the groups with a change: those with most negative flips first, then those with most changes."""
    kinds, group = np.unique(owner.astype(np.int64), return_inverse=True)
    was, now = (right[rows] for right in pair.right)
    marks = (was | True, was & ~now, now & ~was, pair.labels[0][rows] != pair.labels[1][rows])
    counts = np.stack([np.bincount(group[some], minlength=len(kinds)) for some in marks])
    order = np.lexsort((kinds, -counts[3], -counts[1]))[:MOST_ROWS]
    return [
        FlipCounts(by=by, name=names[kinds[at]], frames=frames, negative=negative, positive=positive, changed=changed)
        for at, (frames, negative, positive, changed) in zip(order.tolist(), counts[:, order].T.tolist(), strict=True)
        if changed
    ]


def _examples(pair: FormPair, names: tuple[str, ...], sets: list[str]) -> tuple[ChangedFrame, ...]:
    """Return changed frames, negative flips first, the first of every set before the second of any."""
    plan, (old, new), (was, now) = pair.plan, pair.labels, pair.right
    rows = pair.rows[old[pair.rows] != new[pair.rows]]
    rows = rows[np.lexsort((plan.frame[rows], plan.set_row[rows], ~(was & ~now)[rows]))]
    _, group = np.unique(2 * plan.set_row[rows] + (was & ~now)[rows], return_inverse=True)
    seen = np.array([np.count_nonzero(group[:at] == one) for at, one in enumerate(group.tolist())], dtype=np.int64)
    chosen = rows[np.lexsort((plan.frame[rows], seen, ~(was & ~now)[rows]))][:MOST_FRAMES]
    return tuple(
        ChangedFrame(
            frame=str(plan.view.frames.key[plan.frame[row]]),
            set=sets[int(plan.set_row[row])],
            old=names[int(old[row])],
            new=names[int(new[row])],
            right=" / ".join(names[label] for label in plan.view.labels_of(int(plan.frame[row]))),
        )
        for row in chosen.tolist()
    )
