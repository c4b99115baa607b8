"""The text and tables of variants: results by variant and level, findings of searches, and contrasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from strobe.analyses.model_results import ClassificationResult
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.ladders import CALLED
from strobe.core.variants import ANCHOR, Variant
from strobe.report import wording
from strobe.report.view import View
from strobe.report.wording import ESTIMATED, called, is_known, measured, p_text, percent, plain_number, points, value_of
from strobe.studies.background.score import KIND
from strobe.studies.variants.records import Contrast, MeanScore, Search, VariantFacts, VariantScore

MOST_CONTRASTS = 60
"""The largest number of contrasts in the page's table. tables/contrasts.csv has the rest."""

MOST_LEVELS = 8
"""The largest number of columns in the table of bounds on robust accuracy. tables/variants.csv has the full grid."""

_AXES = {"epsilon": "ε"}


def scale(one: VariantFacts | MeanScore) -> str:
    """Return the axis of a variant in words, with its unit: `severity`, `magnitude (std)`."""
    name = _AXES.get(one.axis, one.axis.replace("-", " "))
    return f"{name} ({one.unit})" if one.unit else name


def level_text(one: VariantFacts | Variant, level: float) -> str:
    """Return a level in words. A single unordered level is described by its axis only.

    >>> facts = {"variant": "fog", "fields": {}, "target": None, "unit": "", "ordered": True, "role": "same"}
    >>> fog = VariantFacts(**facts, axis="severity", levels=(1.0, 2.0), estimated=False, n_sets=3)
    >>> level_text(fog, 2.0)
    'severity 2'
    """
    name = _AXES.get(one.axis, one.axis.replace("-", " "))
    if not one.ordered:
        return name if len(one.levels) == 1 else f"{level:g} ×" if one.unit == "x" else f"no. {level:g}"
    number = level_number(one, level)
    return f"{name} {number}{f' {one.unit}' if one.unit and '/' not in number else ''}"


def level_number(one: VariantFacts | Variant, level: float) -> str:
    """Return a level as a number. Except for l2, an ε of the unit range is written in 255ths, as is usual.

    >>> level_number(Variant(variant="linf", axis="epsilon", levels=(8 / 255,)), 8 / 255)
    '8/255'
    """
    steps, is_l2 = level * 255, one.fields.get("norm") == "l2"
    if (
        one.axis == "epsilon"
        and not is_l2
        and max(one.levels) <= 1
        and abs(steps - round(steps)) < 1e-3
        and round(steps)
    ):
        return f"{round(steps)}/255"
    return f"{level:.3g}"


def searched_names(view: View) -> dict[str, Search]:
    """Return the results of the searches, by the name of their variant."""
    return {one.variant: one for one in view.results.searches or ()}


def plain_scores(view: View, model: ClassificationResult) -> dict[str, VariantScore]:
    """Return results on variants that are not searches and were not made against a model. This also excludes the
    controls of searches.
    """
    searched, facts = searched_names(view), view.variants
    return {
        one.variant: one
        for one in model.variants or ()
        if one.variant not in searched and facts[one.variant].target is None
    }


def top_mean(model: ClassificationResult) -> MeanScore | None:
    """Return the mean over variants at the highest level, if the variants share a scale."""
    means = [one for one in model.means or () if is_known(one.at)]
    return max(means, key=lambda one: one.level) if len({(one.axis, one.unit) for one in means}) == 1 else None


def variants_lead(view: View, name: str, model: ClassificationResult) -> tuple[str, str]:
    """Return the first sentence and the sentence below it, for data with variants."""
    head = f"{printable(name)} gets {measured(model.acc_orig)} of {view.pictures(model.acc_orig.n)} right."
    mean = top_mean(model)
    if view.results.dataset.combine == "worst" and is_known(model.acc_pmk):
        same = [one for one in view.variants.values() if one.role == "same"]
        last = (
            level_text(same[0], same[0].levels[view.results.dataset.k - 1]) if same and view.results.dataset.k else ""
        )
        worst_of = f"the worst of {len(same)} variants" if len(same) > 1 else f"{printable(same[0].variant)}"
        head += f" Under {worst_of} up to {last}, it is right on {measured(model.acc_pmk)}."
        if mean is None:
            return head, f"The difference is {measured(model.drop, 'points')}."
        return head, (
            f"At {last}, it is right on {measured(mean.at)} on average over {mean.at.n} variants. For the worst case, "
            "one failing variant is enough to count an image as wrong."
        )
    if view.results.searches:
        return head, searches_lead(view)
    scores = plain_scores(view, model)
    last_of = [(one, one.levels[-1].at) for one in scores.values() if one.levels and is_known(one.levels[-1].at)]
    same_of = [pair for pair in last_of if view.variants[pair[0].variant].role == "same"]
    if not same_of:
        return head, "No variant has a scored image."
    worst, at = min(same_of, key=lambda pair: value_of(pair[1]))
    facts = view.variants[worst.variant]
    where = called(facts) + (f" ({level_text(facts, worst.levels[-1].level)})" if facts.ordered else "")
    return head, f"The hardest variant is {where}: the model is right on {measured(at)}."


def searches_lead(view: View) -> str:
    """Return the findings of the searches for the first few variants."""
    parts = []
    for one in list(view.results.searches or ())[:4]:
        ran = one.found + one.censored
        half = f", median {_at_level(view, one.variant, value_of(one.median))}" if is_known(one.median) else ""
        parts.append(f"{printable(one.variant)} {plain_number(one.found)} of {plain_number(ran)}{half}")
    more = len(view.results.searches or ()) - len(parts)
    return (
        "Searches that found a change their target gets wrong: "
        + "; ".join(parts)
        + (f"; {more} more below." if more else ".")
    )


def _at_level(view: View, variant: str, value: float) -> str:
    facts = view.variants.get(variant)
    return level_text(facts, value) if facts is not None else f"{value:.3g}"


# -- the changes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRow:
    """One row of the table of variants, in words."""

    name: str
    what: str
    target: str
    scale: str
    levels: str
    n_sets: int
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantTable:
    """The table of variants: its rows, the text above them, and the columns with content."""

    rows: list[VariantRow]
    say: str

    @property
    def what(self) -> bool:
        """Whether any variant has details in addition to its name."""
        return len({row.what for row in self.rows}) > 1

    @property
    def target(self) -> bool:
        """Whether any variant was made against a model."""
        return any(row.target for row in self.rows)

    @property
    def scale(self) -> bool:
        """Whether the variants' scales differ. A shared scale is given above the table."""
        return len({(row.scale, row.levels) for row in self.rows}) > 1


def study(view: View) -> VariantTable:
    """Return the changes made to the images, variant by variant, with controls last."""
    fields = [wording.fields_of(one) for one in view.variants.values()]
    alike = [text for text in fields[0] if len(fields) > 1 and all(text in one for one in fields)]
    rows = _done(view, alike)
    found = VariantTable(rows=rows, say="")
    shared = "" if found.scale else f" All variants have the same levels: {rows[0].scale} {rows[0].levels}."
    shared += f" All variants share these settings: {', '.join(alike)}." if alike else ""
    say = f"Each variant is one way of changing the images.{shared} n is the number of images with the variant."
    return replace(found, say=say)


def _done(view: View, alike: Sequence[str]) -> list[VariantRow]:
    rows = sorted(view.variants.values(), key=lambda one: one.role == "control")
    return [
        VariantRow(
            name=called(one),
            what=", ".join(text for text in wording.fields_of(one) if text not in alike),
            target=printable(one.target or ""),
            scale=scale(one),
            levels=_levels(one),
            n_sets=one.n_sets,
            marks=(("control",) if one.role == "control" else ()) + (("estimated",) if one.estimated else ()),
        )
        for one in rows
    ]


def _levels(one: VariantFacts) -> str:
    if len(one.levels) <= 1 and not one.ordered:
        return "one"
    shown = [level_number(one, level) for level in one.levels]
    return ", ".join(shown) if len(shown) <= 6 else f"{shown[0]} … {shown[-1]} ({len(shown)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatTable:
    """A table of one model's accuracy by variant and level, for variants that share a scale."""

    model: str
    scale: str
    levels: tuple[str, ...]
    rows: tuple[tuple[str, bool, Estimate, tuple[Estimate, ...]], ...]
    mean: tuple[Estimate, ...] | None


def heat(view: View) -> list[list[HeatTable]]:
    """Return one table per drawn model for every scale that at least two plain variants share."""
    searched = searched_names(view)
    scales: dict[tuple[str, tuple[float, ...]], list[VariantFacts]] = {}
    for one in view.variants.values():
        if one.ordered and one.variant not in searched and one.target is None and one.levels:
            scales.setdefault((scale(one), one.levels), []).append(one)
    out = []
    for (name, levels), variants in scales.items():
        if len(variants) < 2:
            continue
        tables = []
        for model, result in view.drawn(view.classifiers).items():
            scores = plain_scores(view, result)
            means = {one.level: one.at for one in result.means or () if scale(one) == name}
            tables.append(
                HeatTable(
                    model=printable(model),
                    scale=name,
                    levels=tuple(level_number(variants[0], level) for level in levels),
                    rows=tuple(
                        (printable(one.variant), one.role == "control", scores[one.variant].acc_orig,
                         tuple(level.at for level in scores[one.variant].levels))
                        for one in variants if one.variant in scores
                    ),
                    mean=tuple(means[level] for level in levels) if all(level in means for level in levels) else None,
                )
            )  # fmt: skip
        out.append(tables)
    return out


# -- searches ----------------------------------------------------------------------------------------------------


def own_scale(view: View) -> list[Search]:
    """Return all searches except the searches of a generator, which have their own chapter."""
    return [one for one in view.results.searches or () if "granularity" not in view.variants[one.variant].fields]


def survives(view: View) -> list[str]:
    """Return a warning for every target that classifies some of its reloaded findings correctly."""
    out = []
    for name, model in view.classifiers.items():
        for one in model.variants or ():
            back = one.reproduced
            if back is not None and back.value is not None and back.value < 1:
                out.append(
                    f"{printable(name)} gets {percent(back)} of the {plain_number(back.n)} findings of "
                    f"{printable(one.variant)} wrong after reloading them. Saving the images changed the other answers."
                )
    return out


def median_text(view: View, one: Search) -> tuple[str, str]:
    """Return the median distance of the findings, and its interval or the reason for a missing interval."""
    facts, found = view.variants.get(one.variant), one.median

    def number(value: float) -> str:
        return f"{value:.3g}" if facts is None else level_number(facts, value)

    if found.value is None:
        return "—", found.reason or ""
    ends = "" if found.low is None or found.high is None else f"{number(found.low)} to {number(found.high)}"
    return number(found.value), ends or found.reason or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustTable:
    """Upper bounds on robust accuracy, from searches on one scale: on the unchanged images, then up to each level
    shown.
    """

    scale: str
    levels: tuple[str, ...]
    rows: tuple[tuple[str, str, Estimate, tuple[Estimate, ...]], ...]


def robust(view: View) -> list[RobustTable]:
    """Return the bounds for every scale of the searches. Each target in this run is judged on its own findings, after
    they are read back.
    """
    scales: dict[tuple[str, tuple[str, ...]], list[tuple[str, str, VariantScore]]] = {}
    for search in own_scale(view):
        facts = view.variants[search.variant]
        texts = tuple(level_number(facts, level) for level in facts.levels)
        for name, model in view.classifiers.items():
            for score in model.variants or ():
                if score.variant == search.variant and score.is_target and facts.ordered and score.levels:
                    rows = scales.setdefault((scale(facts), texts), [])
                    rows.append((printable(search.variant), printable(name), score))
    out = []
    for (name, levels), found in scales.items():
        kept = range(len(levels) - 1, -1, -len(levels) // MOST_LEVELS)[::-1]
        rows_of = [
            (variant, model, score.acc_orig, tuple(score.levels[place].upto for place in kept))
            for variant, model, score in found
        ]
        out.append(RobustTable(scale=name, levels=tuple(levels[place] for place in kept), rows=tuple(rows_of)))
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRow:
    """The effect of one search's findings on every model: (whether the model is the target, the share), by model."""

    variant: str
    target: str
    cells: tuple[tuple[bool, Estimate | None], ...]


def fooled(view: View) -> tuple[list[str], list[TransferRow]]:
    """Return the models, and for every search the share of its findings that each model gets wrong.

    For the target, this is the share of all findings read back. For another model, it is the share of the findings
    whose original image that model gets right.
    """
    models = view.drawn(view.classifiers)
    by_model = {name: {one.variant: one for one in model.variants or ()} for name, model in models.items()}
    rows = []
    for one in view.results.searches or ():
        cells = []
        for scores in by_model.values():
            score = scores.get(one.variant)
            found = None if score is None else score.reproduced if score.is_target else score.fooled
            cells.append((score is not None and score.is_target, found))
        rows.append(TransferRow(variant=printable(one.variant), target=printable(one.target or ""), cells=tuple(cells)))
    return [printable(name) for name in models], rows


# -- contrasts ---------------------------------------------------------------------------------------------------

CONTRASTS: Mapping[str, str] = {
    "variants": "Differences between variants",
    "models": "Differences between models on the same images",
    "targets": "Differences between targets in search distance",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastTable:
    """The contrasts of one kind, significant contrasts first. `left_out` counts the rows that are only in the file."""

    kind: str
    title: str
    rows: Sequence[Contrast]
    real: Sequence[str]
    n: int
    left_out: int


def is_real(row: Contrast) -> bool:
    """Return whether a contrast is significant, by its corrected p-value."""
    p = row.p if row.p_holm is None else row.p_holm
    return p is not None and p < 0.05


def contrasts(view: View) -> list[ContrastTable]:
    """Return every kind of contrast in the results, with significant contrasts first."""
    out = []
    for kind, title in CONTRASTS.items():
        rows = [one for one in view.results.contrasts or () if one.of == kind and one.isolates is None]
        rows.sort(key=lambda one: not is_real(one))
        if rows:
            real = [contrast_text(view, one) for one in rows if is_real(one)]
            out.append(
                ContrastTable(
                    kind=kind, title=title, rows=rows[:MOST_CONTRASTS], real=real, n=len(rows),
                    left_out=max(len(rows) - MOST_CONTRASTS, 0),
                )
            )  # fmt: skip
    return out


def side(view: View, name: str) -> str:
    """Return one side of a contrast in words."""
    if name == ANCHOR:
        is_ladder = any(one.fields.get("kind") == KIND for one in view.variants.values())
        return CALLED[ANCHOR] if is_ladder else "the original images"
    return called(view.variants[name]) if name in view.variants else printable(name)


def sided(view: View, row: Contrast, name: str) -> str:
    """Return one side of a contrast in words, with a mark if it is estimated, and with its level if there are several
    levels.
    """
    facts = view.variants.get(name)
    mark = f" {ESTIMATED}" if facts is not None and facts.estimated else ""
    if facts is None or facts.ordered or len(facts.levels) == 1 or row.level is None:
        return f"{side(view, name)}{mark}"
    text = called(facts, row.level) if facts.unit == "x" else f"{side(view, name)}, {level_text(facts, row.level)}"
    return f"{text}{mark}"


def contrast_text(view: View, row: Contrast) -> str:
    """Return a contrast in a sentence that matches the direction of its figure."""
    a, b, held = (side(view, name) for name in (row.a, row.b, row.held or ""))
    value = value_of(row.value)
    p = p_text(row.p_holm if row.p_holm is not None else row.p)
    tail = f"({_interval(row)}p {p if p.startswith('<') else f'= {p}'}, n = {row.n})."
    if row.form == "ratio":
        facts = view.variants.get(row.a)
        what = scale(facts) if facts is not None else "distance"
        if not is_known(row.value):
            return f"{a} needed more {what} than {b} for {row.only_a} images and less for {row.only_b} {tail}"
        return f"{a} needed {value:.3g} times the {what} that {b} needed {tail}"
    more, less, sign = (a, b, 1) if value >= 0 else (b, a, -1)
    where, facts = "", view.variants.get(row.held or "")
    if row.of == "models" and row.level is not None and facts is not None:
        where = f" at {level_text(facts, row.level)}" if facts.ordered else ""
        where = f", {level_text(facts, row.level)}" if not facts.ordered and len(facts.levels) > 1 else where
    gap = points(sign * value)
    if row.of == "models":
        return f"On {held}{where}, {more} is right {gap} more often than {less} {tail}"
    return f"{held} is right {gap} more often on {more} than on {less} {tail}"


def _interval(row: Contrast) -> str:
    low, high = row.value.low, row.value.high
    if low is None or high is None:
        return ""
    if row.form == "ratio":
        return f"95 % interval {low:.3g} to {high:.3g}, "
    ends = sorted((abs(low), abs(high))) if low * high > 0 else sorted((low, high))
    if low * high <= 0 and (row.value.value or 0) < 0:
        ends = sorted((-low, -high))
    return f"95 % interval {100 * ends[0]:.1f} to {100 * ends[1]:.1f}, ".replace("-", "−")
