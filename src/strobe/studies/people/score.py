"""Results of people who named images, alone and compared with the models: accuracy, agreement and response time.

Intervals resample images, not people: the people are fixed, just as a model is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.naming import MEMBER, NamingTable
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.preserved import preservation
from strobe.core.arrays import Bools, Ints
from strobe.core.estimate import Estimate
from strobe.core.people import SAID
from strobe.core.variants import ANCHOR
from strobe.metrics.agreement import fleiss_kappa, rating_counts
from strobe.metrics.bootstrap import DIFFERENCES, Bootstrap, too_few
from strobe.metrics.consistency import FEW_PICTURES, error_consistency, majority, quartiles
from strobe.metrics.intervals import nothing, proportion
from strobe.studies.people.records import (
    BesideModel,
    Confused,
    PairConsistency,
    PeopleResults,
    PeopleScore,
    PersonScore,
    SaidCounts,
    Times,
)


def people_results(naming: NamingTable, models: dict[str, NDArray[np.int8]], options: ScoreOptions) -> PeopleResults:
    """Return all results of the answers; `models` were scored on the same images (`NamingTable.judge`)."""
    given = naming.counts
    return PeopleResults(
        n_people=int(given.any(axis=0).sum()),
        n_pictures=int(given.any(axis=1).sum()),
        n_answers=int(given.sum()),
        elsewhere=naming.elsewhere,
        controls=_share(naming.right, naming.is_control, naming.source, options, "no control was shown"),
        scores=tuple(_score(part, models, options) for part in _parts(naming, given)),
        preservation=preservation(naming, options),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PeopleSlice:
    """The images of one kind (`lines` of the naming), and which answers to them count, (lines, P)."""

    naming: NamingTable
    variant: str
    condition: str
    lines: Ints
    given: Bools

    @property
    def source(self) -> Ints:
        return self.naming.source[self.lines]

    def of(self, table: NDArray[np.generic]) -> Ints:
        """Return lines of an integer table, with −1 where the answer does not count."""
        return np.where(self.given, table[self.lines], -1).astype(np.int64)


def _parts(naming: NamingTable, given: Bools) -> Iterator[_PeopleSlice]:
    """Yield anchors, then variants in dataset order, then controls.

    Each kind is split by condition if that adds information.
    """
    sets, variants = naming.dataset.sets, naming.dataset.variants
    how_shown = np.where(
        np.isin(naming.shown, ["", ANCHOR, MEMBER]) | (naming.shown == naming.variant[:, None]), "", naming.shown
    )
    rank = np.where(sets.is_anchor[naming.row], -1, sets.variant[sets.set[naming.row]])
    if variants is not None:
        rank = rank + np.where((rank >= 0) & ~variants.is_same[rank], len(variants), 0)
    for place in np.unique(rank):
        mine = rank == place
        for condition in sorted(set(how_shown[mine[:, None] & given])):
            use = mine[:, None] & given & (how_shown == condition)
            lines = np.flatnonzero(use.any(axis=1))
            yield _PeopleSlice(
                naming=naming,
                variant=str(naming.variant[lines[0]]),
                condition=str(condition),
                lines=lines,
                given=use[lines],
            )


def _share(right: NDArray[np.int8], use: Bools, source: Ints, options: ScoreOptions, empty: str) -> Estimate:
    """Return the share of right answers (N, P) among `use`; images of one source form a cluster."""
    if not use.any():
        return nothing(empty)
    return proportion(right[use] == 1, np.broadcast_to(source[:, None], use.shape)[use], interval=options.interval)


def _score(part: _PeopleSlice, models: dict[str, NDArray[np.int8]], options: ScoreOptions) -> PeopleScore:
    naming, source = part.naming, part.source
    category, right, n_classes = part.of(naming.said), part.of(naming.right), naming.n_classes
    draws = Bootstrap(source, replicates=options.draws, seed=options.seed)
    answerers = np.flatnonzero(part.given.any(axis=0))
    most = majority(category, n_classes=n_classes + len(SAID) - 1)
    # The majority answer needs no scoring of its own, because it was scored for the people who gave it.
    agreed = ((category == most[:, None]) & (most >= 0)[:, None] & (right == 1)).any(axis=1)
    counts = np.bincount(np.maximum(category[part.given] - n_classes + 1, 0), minlength=len(SAID)).tolist()
    pairs, means = _consistency(part, right, answerers, models, draws)
    return PeopleScore(
        variant=part.variant,
        condition=part.condition,
        role="control" if _is_control(naming, part.variant) else "same",
        n_pictures=len(part.lines),
        n_people=len(answerers),
        n_answers=int(part.given.sum()),
        said=SaidCounts(named=counts[0], none=counts[1], unsure=counts[2], late=counts[3]),
        accuracy=_share(right.astype(np.int8), part.given, source, options, "nobody answered"),
        majority=proportion(agreed, source, interval=options.interval),
        no_majority=int(((most < 0) | (most >= n_classes)).sum()),
        fleiss_kappa=_fleiss(category, n_classes, source, options),
        consistency=means[""],
        seconds=_times(naming.seconds[part.lines], part.given, draws),
        people=tuple(
            PersonScore(
                person=naming.people[column],
                accuracy=_share(right[:, [column]].astype(np.int8), part.given[:, [column]], source, options, ""),
                seconds=_times(naming.seconds[part.lines][:, [column]], part.given[:, [column]], draws),
            )
            for column in answerers.tolist()
        ),
        models=tuple(
            _beside(part, right, name, judged[part.lines], means[name], draws, options)
            for name, judged in models.items()
        ),
        pairs=pairs,
        confusion=_confusion(part, category, right),
    )


def _fleiss(category: Ints, n_classes: int, source: Ints, options: ScoreOptions) -> Estimate:
    counts = rating_counts(category, n_classes=n_classes + len(SAID) - 1)
    found = fleiss_kappa(counts, cluster=source, seed=options.seed, draws=options.draws)
    sources = len(np.unique(source[counts.sum(axis=1) > 1]))
    marked = found.low is not None and found.reason is None
    return replace(found, reason=too_few(sources, few=FEW_PICTURES)) if marked else found


def _is_control(naming: NamingTable, variant: str) -> bool:
    variants = naming.dataset.variants
    return variants is not None and any(one.variant == variant and one.role == "control" for one in variants)


def _consistency(
    part: _PeopleSlice, right: Ints, answerers: Ints, models: dict[str, NDArray[np.int8]], draws: Bootstrap
) -> tuple[tuple[PairConsistency, ...], dict[str, Estimate]]:
    """Return the error consistency of every two people and of every person with every model, with both means."""
    names = part.naming.people
    raters = np.concatenate([right, *(judged[part.lines][:, None] for judged in models.values())], axis=1)
    first = [(a, b) for a, b in combinations(answerers.tolist(), 2)]
    with_models = [(a, len(names) + place) for place in range(len(models)) for a in answerers.tolist()]
    pairs_of = error_consistency(raters, [*first, *with_models], draws)
    other = [*names, *models]
    pairs = tuple(
        PairConsistency(person=names[a], other=other[b], other_is="person" if b < len(names) else "model", kappa=kappa)
        for (a, b), kappa in zip([*first, *with_models], pairs_of.estimates(), strict=True)
    )
    means = {"": pairs_of.mean(np.arange(len(first)))}
    for place, name in enumerate(models):
        start = len(first) + place * len(answerers)
        means[name] = pairs_of.mean(np.arange(start, start + len(answerers)))
    return pairs, means


def _beside(
    part: _PeopleSlice,
    right: Ints,
    name: str,
    judged: NDArray[np.int8],
    consistency: Estimate,
    draws: Bootstrap,
    options: ScoreOptions,
) -> BesideModel:
    """Compare a model with people on the images it answered.

    Each image counts once for the model, and once per answer for people.
    """
    there = judged >= 0
    if not there.any():
        none = nothing("it has no prediction for these images")
        return BesideModel(model=name, accuracy=none, difference=none, consistency=consistency)
    sums = [
        (((right == 1) & there[:, None]).sum(axis=1), (part.given & there[:, None]).sum(axis=1)),
        ((judged == 1).astype(np.int64), there.astype(np.int64)),
    ]
    people, model = (float(top.sum() / bottom.sum()) for top, bottom in sums)
    draws_of_share = [draws.ratio(top, bottom) for top, bottom in sums]
    return BesideModel(
        model=name,
        accuracy=proportion(judged[there] == 1, part.source[there], interval=options.interval),
        difference=draws.estimate(
            people - model, draws_of_share[0] - draws_of_share[1], n=int(there.sum()), limits=DIFFERENCES
        ),
        consistency=consistency,
    )


def _times(seconds: NDArray[np.float64], given: Bools, draws: Bootstrap) -> Times:
    median, low, high = quartiles(seconds, given & np.isfinite(seconds), draws)
    return Times(median=median, quartile_low=low, quartile_high=high)


def _confusion(part: _PeopleSlice, category: Ints, right: Ints) -> tuple[Confused, ...]:
    """Count the answers to images of each class.

    An image with several right classes counts for the class that was named or, if none was named, for the first class.
    """
    naming = part.naming
    space = naming.dataset.info.label_space
    judged = naming.dataset.judged_frame[naming.row[part.lines]].tolist()
    labels = naming.dataset.labels.by_frame()
    counts: dict[tuple[int, int], int] = {}
    for line, column in zip(*np.nonzero(part.given), strict=True):
        answer, own = int(category[line, column]), labels.get(judged[line])
        if own:
            truth = answer if right[line, column] == 1 else min(own)
            counts[truth, answer] = counts.get((truth, answer), 0) + 1
    return tuple(
        Confused(
            label=space.ids[truth],
            name=space.names[truth],
            said=naming.word(answer),
            answer=space.ids[answer] if answer < len(space) else "",
            answer_name=space.names[answer] if answer < len(space) else "",
            n=n,
        )
        for (truth, answer), n in sorted(counts.items())
    )
