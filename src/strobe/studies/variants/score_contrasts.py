"""Contrasts of two variants under one model, of two models on one variant, or of one search against two targets.

All contrasts are paired by image (the group of a set), and the anchors' sources are resampled.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.naming import NamingTable
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.preserved import preservation, preserved_sets
from strobe.analyses.results import Results
from strobe.analyses.variant_kinds import VARIANT_KINDS, ColumnPair, VariantColumn, own_kind
from strobe.core.answers import ClassAnswers
from strobe.core.arrays import Bools, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, printable
from strobe.core.variants import ANCHOR, Variant
from strobe.metrics.bootstrap import Bootstrap
from strobe.metrics.contrasts import paired_ratio, paired_test, ratio_bounds
from strobe.metrics.intervals import nothing, proportion
from strobe.metrics.paired import holm, paired_difference
from strobe.studies.variants.records import Contrast, PreservedResults, StillFound
from strobe.studies.variants.score import Marks, VariantPlan

Kind = Literal["variants", "models", "targets"]

_NO_PAIR = "no image has both"

SLACK = 0.05
"""The largest distance between the bounds of a generator's median ratio.

Its magnitudes all differ, so a single pair of searches without a finding would otherwise leave the median unknown.
"""


class ByVariant:
    """Adds the results by variant to the models' results. These results are collected while the models are scored.

    Without variants, nothing is added. `areas` maps a group to the share of the image that the object covers, if known.
    """

    def __init__(self, dataset: Dataset, options: ScoreOptions, *, areas: Mapping[str, float] | None = None) -> None:
        self._plan = None if dataset.variants is None else VariantPlan(dataset, options)
        self._kind = None if dataset.variants is None else own_kind(dataset.variants.fields)
        self._scorer: Any = None if self._kind is None else VARIANT_KINDS[self._kind].scorer(self._plan, areas or {})
        self._marks: list[Marks] = []
        self._judges: dict[str, ClassAnswers] = {}

    def add(
        self, score: ClassificationScore, predictions: ClassAnswers, *, weights: str | None = None
    ) -> ClassificationScore:
        """Return the score with the model's figures for every variant; `weights` is its weights' digest, if known."""
        if self._plan is None:
            return score
        marks = self._plan.mark(predictions, weights=weights or "")
        self._marks.append(marks)
        if marks.model in self._plan.options.judges:
            _expect_independent(self._plan, marks)
            self._judges[marks.model] = predictions
        added = dict(score.added)
        if self._kind is not None:
            added[self._kind] = self._scorer.score(marks, predictions, with_coverage=score.coverage is not None)
        return replace(score, variants=self._plan.score(marks), means=self._plan.means(marks), added=added)

    def into(self, results: Results) -> Results:
        """Return the results with the variants, their searches and contrasts, and the preserved findings."""
        if self._plan is None:
            return results
        return replace(
            results,
            variants=self._plan.facts(),
            searches=self._plan.searches(),
            contrasts=contrasts(self._plan, self._marks, self._scorer),
            preserved=self._preserved() or None,
        )

    def _preserved(self) -> tuple[PreservedResults, ...]:
        if self._plan is None or not self._plan.searches():
            return ()
        dataset = self._plan.dataset
        tables: list[tuple[Literal["people", "judges"], NamingTable]] = []
        if dataset.names:
            tables.append(("people", NamingTable.of(dataset)))
        if self._judges:
            tables.append(("judges", NamingTable.by_models(dataset, list(self._judges.values()))))
        found = [preserved_results(self._plan, naming, by=by) for by, naming in tables]
        return tuple(one for one in found if one is not None)


def _expect_independent(plan: VariantPlan, judge: Marks) -> None:
    for variant in plan.variants:
        if variant.target is not None and variant.target.is_model(judge.model, judge.weights):
            raise InvalidValue(
                f"judge: {printable(variant.variant)} was made against {printable(judge.model)}, so this model cannot "
                "decide whether a finding still shows its class; name a model that no search targeted"
            )


def preserved_results(
    plan: VariantPlan, naming: NamingTable, *, by: Literal["people", "judges"]
) -> PreservedResults | None:
    """Return the searches with only the findings that people or judges still name as before.

    Only images with a named finding and images without any finding are used. Otherwise, findings that nobody was asked
    about would look like searches that found nothing. The result is None if nobody named a finding.
    """
    sets, preserved = plan.dataset.sets, preserved_sets(naming)
    is_finding = sets.status == "found"
    judged = preserved.asked & is_finding
    if not judged.any():
        return None
    group = sets.group.astype(str)
    named = group[sets.set[naming.row]]
    seen = np.isin(group, group[judged]) | (np.isin(group, named) & ~np.isin(group, group[is_finding]))
    use = seen & (~is_finding | (preserved.kept & is_finding))
    still = []
    for row, variant in plan.present():
        mine = (sets.variant == row) & seen & sets.is_searched
        if plan.is_searched(row):
            kept, cluster = (preserved.kept & is_finding)[mine], plan.cluster[mine]
            share = (
                proportion(kept, cluster, interval=plan.options.interval)
                if kept.size
                else nothing("no image was searched")
            )
            still.append(
                StillFound(
                    variant=variant.variant, target=variant.target.name if variant.target else None,
                    searched=int(mine.sum()), found=int((mine & is_finding).sum()), asked=int((mine & judged).sum()),
                    kept=int(kept.sum()), still=share,
                )
            )  # fmt: skip
    return PreservedResults(
        by=by,
        who=naming.people,
        preservation=preservation(naming, plan.options),
        still=tuple(still),
        searches=plan.searches(use),
        contrasts=_corrected(_of_targets(plan, use)),
    )


Gap = tuple[Ints, Ints]
"""Return paired differences of −1, 0 and 1, and the source of each."""


def contrasts(plan: VariantPlan, models: Sequence[Marks], scorer: Any = None) -> tuple[Contrast, ...]:
    """Return all contrasts of the dataset, with p-values corrected by Holm's method over the contrasts of one kind.

    If variants are reported separately, every plain variant is compared with the anchors and with every other variant,
    at the highest level that both have. Every pair of models is compared on every plain variant, at its highest level.
    Every pair of searches that differ only in their target is compared by the ratio of the distances they needed. The
    baseline is always in the denominator.

    Variants with a scorer of their own have three kinds of contrasts, at every level. The first are the pairs that
    differ in one respect, corrected among themselves. The other two are the whole image against every variant, and
    every pair of models on every variant.
    """
    scorer = scorer or _PlainVariants(plan)
    families = (
        _of_variants(plan, models, scorer.isolating),
        _of_variants(plan, models, scorer.against_whole),
        _of_models(plan, models, scorer),
        _of_targets(plan),
    )
    return _marked(plan, _corrected(*families))


def own_contrasts(dataset: Dataset, answers: ClassAnswers, options: ScoreOptions) -> dict[str, Contrast]:
    """Return one model's losses between variants, by the names that rules use.

    A name is an isolated effect (`bg-gap`) or both sides (`anchor-grey`), with the level if there are several
    (`anchor-crop@1.5`). Each loss has the interval of its own test, without correction for the other losses.
    """
    plan = VariantPlan(dataset, options)
    marks = [plan.mark(answers)]
    kind = own_kind(plan.dataset.variants.fields if plan.dataset.variants else ())
    scorer: Any = _PlainVariants(plan) if kind is None else VARIANT_KINDS[kind].scorer(plan, {})
    pairs = [*_of_variants(plan, marks, scorer.isolating), *_of_variants(plan, marks, scorer.against_whole)]
    results = [contrast for pair in pairs for contrast in _corrected(iter([pair]))]
    met = Counter((contrast.a, contrast.b) for contrast in results if contrast.isolates is None)
    return {
        contrast.isolates
        or f"{contrast.a}-{contrast.b}{f'@{contrast.level:g}' if met[contrast.a, contrast.b] > 1 else ''}": contrast
        for contrast in _marked(plan, results)
    }


def _marked(plan: VariantPlan, results: Sequence[Contrast]) -> tuple[Contrast, ...]:
    """Return the contrasts, and mark those that depend on boxes or masks that a model made."""
    guessed = {variant.variant for variant in plan.variants if variant.estimated}
    return tuple(
        replace(result, estimated=True) if guessed & {result.a, result.b, result.held} else result for result in results
    )


def _corrected(*families: Iterator[tuple[Contrast, Gap | None]]) -> tuple[Contrast, ...]:
    out: list[Contrast] = []
    for found in families:
        family = list(found)
        tested = [contrast.p for contrast, _ in family if contrast.p is not None]
        corrected = iter(holm(tested))
        for contrast, gap in family:
            p_holm = None if contrast.p is None else next(corrected)
            if gap is not None and contrast.p is not None and p_holm is not None:
                value = paired_difference(*gap, p=contrast.p, p_holm=p_holm, pairs=len(tested))
                contrast = replace(contrast, value=value)
            out.append(replace(contrast, p_holm=p_holm))
    return tuple(out)


class _PlainVariants:
    """The pairs of variants that were not made against a model; other variants are reported with their search.

    Every variant is at its highest level, and two variants at the highest level that both have.
    """

    def __init__(self, plan: VariantPlan) -> None:
        self._plan = plan
        self._rows = [
            (row, variant)
            for row, variant in plan.present()
            if variant.levels and variant.target is None and not plan.is_searched(row)
        ]

    def isolating(self, marks: Marks) -> Iterator[ColumnPair]:
        """Return nothing: no two plain variants are known to differ in one respect."""
        return iter(())

    def against_whole(self, marks: Marks) -> Iterator[ColumnPair]:
        """Yield the originals against every variant, and every two variants, unless all share one scale."""
        plan = self._plan
        if plan.dataset.info.combine == "worst" or len(plan.variants) == 1:
            return
        whole = VariantColumn(rung=ANCHOR, variant=ANCHOR, level=None)
        for row, variant in self._rows:
            sets, right = _at(plan, marks, row, len(variant.levels))
            column = _column(variant, variant.levels[-1])
            yield ColumnPair(a=whole, b=column, a_right=~marks.wrong_at[sets, 0], b_right=right, sets=sets)
        for (row_a, first), (row_b, second) in combinations(self._rows, 2):
            for level in sorted(set(first.levels) & set(second.levels))[-1:]:
                a_set, a = _at(plan, marks, row_a, first.levels.index(level) + 1)
                b_set, b = _at(plan, marks, row_b, second.levels.index(level) + 1)
                in_a, in_b = _pairs(plan, a_set, b_set)
                yield ColumnPair(
                    a=_column(first, level),
                    b=_column(second, level),
                    a_right=a[in_a],
                    b_right=b[in_b],
                    sets=a_set[in_a],
                )

    def between(self, models: Sequence[Marks]) -> Iterator[tuple[Marks, Marks, ColumnPair]]:
        """Yield every two models on every variant."""
        for row, variant in self._rows:
            column = _column(variant, variant.levels[-1])
            for first, second in combinations(models, 2):
                a_set, a = _at(self._plan, first, row, len(variant.levels))
                b_set, b = _at(self._plan, second, row, len(variant.levels))
                both, in_a, in_b = np.intersect1d(a_set, b_set, return_indices=True)
                yield first, second, ColumnPair(a=column, b=column, a_right=a[in_a], b_right=b[in_b], sets=both)


def _column(variant: Variant, level: float) -> VariantColumn:
    return VariantColumn(rung=variant.variant, variant=variant.variant, level=level)


def _of_variants(
    plan: VariantPlan, models: Sequence[Marks], pairs: Callable[[Marks], Iterator[ColumnPair]]
) -> Iterator[tuple[Contrast, Gap | None]]:
    for marks in models:
        for pair in pairs(marks):
            yield _difference(plan, pair, of="variants", a=pair.a.variant, b=pair.b.variant, held=marks.model)


def _of_models(plan: VariantPlan, models: Sequence[Marks], scorer: Any) -> Iterator[tuple[Contrast, Gap | None]]:
    for first, second, pair in scorer.between(models):
        yield _difference(plan, pair, of="models", a=first.model, b=second.model, held=pair.a.variant)


def _of_targets(plan: VariantPlan, among: Bools | None = None) -> Iterator[tuple[Contrast, Gap | None]]:
    sets = plan.dataset.sets
    use = sets.is_searched if among is None else sets.is_searched & among
    rows = [(row, one) for row, one in plan.present() if one.target is not None and plan.is_searched(row)]
    for (row_a, one), (row_b, two) in combinations(rows, 2):
        if _but_target(one) != _but_target(two):
            continue
        if one.target is not None and one.target.name == plan.baseline:
            row_a, one, row_b, two = row_b, two, row_a, one
        a_set = np.flatnonzero((sets.variant == row_a) & use)
        b_set = np.flatnonzero((sets.variant == row_b) & use)
        in_a, in_b = _pairs(plan, a_set, b_set)
        slack = SLACK if "granularity" in one.fields else 0.0
        yield _ratio(plan, a_set[in_a], b_set[in_b], a=one.variant, b=two.variant, slack=slack), None


def _but_target(variant: Variant) -> tuple[object, ...]:
    own = {name: value for name, value in variant.fields.items() if name != "target"}
    return (sorted(map(repr, own.items())), variant.axis, variant.unit, variant.role)


def _at(plan: VariantPlan, marks: Marks, row: int, number: int) -> tuple[Ints, Bools]:
    """Return the scored sets of a variant that have a member at a level, and whether all these members are right."""
    there = np.flatnonzero((plan.dataset.sets.variant == row) & marks.scored & (plan.members[:, number] > 0))
    return there, ~marks.wrong_at[there, number]


def _pairs(plan: VariantPlan, a_set: Ints, b_set: Ints) -> tuple[Ints, Ints]:
    """Return the indices of each image's sets in the two lists; a variant has one set per image."""
    group = plan.dataset.sets.group.astype(str)
    _, in_a, in_b = np.intersect1d(group[a_set], group[b_set], return_indices=True)
    order = np.argsort(in_a)
    return in_a[order], in_b[order]


def _difference(
    plan: VariantPlan, pair: ColumnPair, *, of: Kind, a: str, b: str, held: str
) -> tuple[Contrast, Gap | None]:
    """Return the contrast without its interval, and the paired differences.

    The interval belongs to the corrected test, which needs all contrasts of the same kind.
    """
    level = pair.b.level if pair.a.level is None else pair.a.level
    blank = Contrast(
        of=of, a=a, b=b, held=held, form="difference", level=level, n=len(pair.sets), only_a=0, only_b=0,
        value=nothing(_NO_PAIR), test="none", p=None, p_holm=None, isolates=pair.isolates,
    )  # fmt: skip
    if not len(pair.sets):
        return blank, None
    gap, cluster = pair.a_right.astype(np.int64) - pair.b_right.astype(np.int64), plan.cluster[pair.sets]
    tested = paired_test(gap, cluster)
    found = replace(blank, only_a=tested.only_a, only_b=tested.only_b, test=tested.test, p=tested.p)
    return found, (gap, cluster)


def _ratio(plan: VariantPlan, a_set: Ints, b_set: Ints, *, a: str, b: str, slack: float) -> Contrast:
    """Return the ratio of the distances that two searches of the same images needed, a / b, and test it."""
    sets = plan.dataset.sets
    blank = Contrast(
        of="targets", a=a, b=b, held=None, form="ratio", level=None, n=len(a_set), only_a=0, only_b=0,
        value=nothing(_NO_PAIR), test="none", p=None, p_holm=None,
    )  # fmt: skip
    if not len(a_set):
        return blank
    found = sets.status == "found"
    least, most = ratio_bounds(sets.reach[a_set], found[a_set], sets.reach[b_set], found[b_set])
    # If one search has a finding and the other went as far without one, the direction is certain, so one bound is 1.
    more = ((least >= 1) & (most > 1)).astype(np.int64) - ((most <= 1) & (least < 1)).astype(np.int64)
    cluster = plan.cluster[a_set]
    tested = paired_test(more, cluster)
    draws = Bootstrap(cluster, replicates=plan.options.draws, seed=plan.options.seed)
    return replace(
        blank, value=paired_ratio(least, most, draws, slack=slack), only_a=tested.only_a, only_b=tested.only_b,
        test=tested.test.replace("exact McNemar", "exact sign test"), p=tested.p,
    )  # fmt: skip
