"""The text and tables of variants: results by variant and level, findings of searches, and contrasts."""

from collections.abc import Mapping, Sequence

from strobe.analyses.model_results import ClassificationResult
from strobe.analyses.variant_kinds import VARIANT_KINDS, VariantKind, own_kind
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.variants import ANCHOR
from strobe.report.headline import top_mean
from strobe.report.story import interval_term
from strobe.report.view import Lines, View
from strobe.report.wording import (
    ESTIMATED,
    EstimateText,
    called,
    counted,
    extreme,
    is_known,
    is_sure,
    join,
    level_number,
    level_text,
    measured,
    p_text,
    percent,
    plain_number,
    points,
    scale,
    value_of,
    with_interval,
)
from strobe.studies.variants.records import Contrast, Search, VariantScore

MOST_CONTRASTS = 60
"""The largest number of contrasts in the page's table. tables/contrasts.csv has the rest."""


def searched_names(view: View) -> dict[str, Search]:
    """Return the results of the searches, by the name of their variant."""
    return {search.variant: search for search in view.results.searches or ()}


def plain_scores(view: View, model: ClassificationResult) -> dict[str, VariantScore]:
    """Return results on variants that are not searches and were not made against a model. This also excludes the
    controls of searches.
    """
    searched, facts = searched_names(view), view.variants
    return {
        variant.variant: variant
        for variant in model.variants or ()
        if variant.variant not in searched and facts[variant.variant].target is None
    }


def variants_lead(view: View, name: str, model: ClassificationResult) -> tuple[str, str]:
    """Return the first sentence and the sentence below it, for data with variants."""
    head = f"{printable(name)} gets {measured(model.acc_orig)} of {view.pictures(model.acc_orig.n)} right."
    mean = top_mean(model)
    if view.results.dataset.combine == "worst" and is_known(model.acc_pmk):
        same = [variant for variant in view.variants.values() if variant.role == "same"]
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
    last_of = [
        (score, score.levels[-1].at) for score in scores.values() if score.levels and is_known(score.levels[-1].at)
    ]
    same_of = [pair for pair in last_of if view.variants[pair[0].variant].role == "same"]
    if not same_of:
        return head, "No variant has a scored image."

    def where(pair: tuple[VariantScore, Estimate]) -> str:
        facts = view.variants[pair[0].variant]
        return called(facts) + (f" ({level_text(facts, pair[0].levels[-1].level)})" if facts.ordered else "")

    (_, at), names, tie = extreme(same_of, lambda pair: value_of(pair[1]), where, pick=min)
    return head, f"The hardest variant{'s are' if tie else ' is'} {names}: the model is right on {measured(at)}."


def searches_lead(view: View) -> str:
    """Return the findings of the searches for the first few variants."""
    parts = []
    for search in list(view.results.searches or ())[:4]:
        ran = search.found + search.censored
        half = f", median {_at_level(view, search.variant, value_of(search.median))}" if is_known(search.median) else ""
        parts.append(f"{printable(search.variant)} {plain_number(search.found)} of {plain_number(ran)}{half}")
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


# -- searches ----------------------------------------------------------------------------------------------------


def own_scale(view: View) -> list[Search]:
    """Return all searches except the searches of a generator, which have their own chapter."""
    return [
        search for search in view.results.searches or () if "granularity" not in view.variants[search.variant].fields
    ]


def survives(view: View) -> list[str]:
    """Return a warning for every target that classifies some of its reloaded findings correctly."""
    out = []
    for name, model in view.classifiers.items():
        for variant in model.variants or ():
            back = variant.reproduced
            if back is not None and back.value is not None and back.value < 1:
                out.append(
                    f"{printable(name)} gets {percent(back)} of the {plain_number(back.n)} findings of "
                    f"{printable(variant.variant)} wrong after reloading them. Saving the images changed the other "
                    "answers."
                )
    return out


def median_text(view: View, one: Search) -> str:
    """Return the median distance of the findings, with its interval or the reason for a missing interval."""
    facts, median = view.variants.get(one.variant), one.median

    def number(value: float) -> str:
        return f"{value:.3g}" if facts is None else level_number(facts, value)

    value = "—" if median.value is None else number(median.value)
    if median.low is None or median.high is None:
        return f"{value} ({median.reason})" if median.reason else value
    return EstimateText(f"{value} [{number(median.low)}, {number(median.high)}]", median)


# -- contrasts ---------------------------------------------------------------------------------------------------

CONTRASTS: Mapping[str, str] = {
    "variants": "Differences between variants",
    "models": "Differences between models on the same images",
    "targets": "Differences between targets in search distance",
}


def contrasts(view: View) -> list[tuple[str, list[str], Lines]]:
    """Return every kind of contrast in the results: its name, its significant contrasts as sentences, and its table
    with significant contrasts first.
    """
    out = []
    for kind, title in CONTRASTS.items():
        rows = [row for row in view.results.contrasts or () if row.of == kind and row.isolates is None]
        rows.sort(key=lambda row: not is_sure(row))
        if rows:
            real = [contrast_text(view, row) for row in rows if is_sure(row)]
            out.append((kind, real, _contrast_table(view, kind, title, rows)))
    return out


def _contrast_table(view: View, kind: str, title: str, rows: Sequence[Contrast]) -> Lines:
    is_ratio, on = rows[0].form == "ratio", {"variants": ["model"], "models": ["on"]}.get(kind, [])
    how = "A − B in points: above 0, A is right more often"
    if is_ratio:
        how = "A ÷ B: distance that the search against A needed, divided by the distance against B"
    elif kind == "variants":
        how = "A − B in points: above 0, the model is right more often on A"
    notes = [f"{how}. Both sides use the same images. {_SIMULTANEOUS}"]
    if len(rows) > MOST_CONTRASTS:
        notes.append(f"{len(rows) - MOST_CONTRASTS} more rows are in tables/contrasts.csv.")
    table = [
        [
            *(sided(view, row, name or "") for name in (row.a, row.b, *([row.held] if on else []))),
            _contrast_value(row, is_ratio=is_ratio),
            plain_number(row.n),
            p_text(row.p if row.p_holm is None else row.p_holm),
        ]
        for row in rows[:MOST_CONTRASTS]
    ]
    return f"{title} ({len(rows)})", ["A", "B", *on, "A ÷ B" if is_ratio else "A − B", "n", "p"], table, notes


def _contrast_value(row: Contrast, *, is_ratio: bool) -> str:
    if not is_ratio:
        return with_interval(row.value)
    text = row.value.text(scale=1.0, digits=2)
    return EstimateText(
        f"{text} ({row.value.reason})" if row.value.low is None and row.value.reason else text, row.value
    )


_SIMULTANEOUS = (
    "p is corrected for the number of rows (Holm). Where p is 1, the interval of a difference is simultaneous: it is "
    "at the level of all rows together."
)


def shown_kind(view: View) -> VariantKind | None:
    """Return the kind of the variants with sets if it has words and figures of its own."""
    name = own_kind(variant.fields for variant in view.variants.values() if variant.n_sets)
    return None if name is None else VARIANT_KINDS[name]


def side(view: View, name: str) -> str:
    """Return one side of a contrast in words."""
    if name == ANCHOR:
        kind = own_kind(variant.fields for variant in view.variants.values())
        return "the original images" if kind is None else VARIANT_KINDS[kind].anchor
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


def variant_explanation(view: View) -> tuple[str, list[str]]:
    """Return the explanation of variants, levels and searches."""
    facts = list(view.variants.values())
    searched = searched_names(view)
    out = []
    plain = [fact for fact in facts if fact.variant not in searched and fact.target is None]
    if (kind := shown_kind(view)) is not None:
        out.append(kind.explanation(view))
    elif any(one.role != "control" for one in plain):
        named = "variants" if len(plain) > 1 else "a variant"
        out.append(
            f"Every image was changed in {counted(len(plain), 'way')}, called {named}. Each variant has its own "
            "levels. Accuracy at a level is the share of changed images that are right at that level. Accuracy up to a "
            "level is the share of images that are right in the original and at every level so far."
        )
    if view.results.dataset.combine == "worst":
        same = [fact for fact in facts if fact.role == "same"]
        last = level_text(same[0], same[0].levels[-1])
        out.append(
            f"All {len(same)} variants share one scale ({scale(same[0])}), so a mean and a worst case over them are "
            f"meaningful. The worst case up to {last} is the share of images that are right under every variant."
        )
    elif len(facts) > 1 and kind is None:
        out.append(
            "These variants share no scale, so no overall worst case is given. The table counts the original images, "
            "and each variant is reported separately."
        )
    if searched:
        targets = list(dict.fromkeys(fact.target for fact in facts if fact.target))
        whom = f" against {join([str(name) for name in targets[:4]])}" if targets else ""
        out.append(
            f"A search{whom} tries to find the smallest change that its target gets wrong. A finding is part of the "
            "set. A result without a finding is valid only up to the distance that the search tried. For other "
            "models, the report gives the share of findings that also fool these models."
        )
    if any(fact.role == "control" for fact in facts):
        out.append("Controls are for comparison. They are excluded from every mean and every worst case.")
    return "What is measured", out


def variant_terms(view: View) -> list[tuple[str, str]]:
    """Return the terms for data with variants."""
    out = [
        ("accuracy", "Share of original images that the model gets right (acc_orig in the files)."),
        ("variant", "One way of changing the images, with its own levels."),
        ("set", "One image under one variant: the original and its changed versions."),
    ]
    searched = searched_names(view)
    if (kind := shown_kind(view)) is not None:
        out += kind.terms(view)
    elif any(name not in searched and one.target is None for name, one in view.variants.items()):
        out += [
            (
                "at a level",
                "Share of the images changed to that level that are right, whether or not the original is right.",
            ),
            ("up to a level", "Share of images that are right in the original and at every level so far."),
        ]
    if view.results.dataset.combine == "worst":
        out += [
            (
                "worst",
                "Share of images that are right in the original and under every variant except controls "
                "(acc_pmk in the files).",
            )
        ]
    if searched:
        out += [
            ("found", "The search ended with a change that its target gets wrong."),
            (
                "nothing found",
                "The search ended without a finding. It counts as right up to the distance it tried (censored).",
            ),
            ("original wrong", "The target is wrong on the original image, so there was no search."),
            ("reproduced", "Share of findings that the target still gets wrong after they are saved and reloaded."),
            (
                "fooled",
                "For another model: share of findings that it gets wrong, among those whose original it gets right.",
            ),
        ]
    if any(variant.estimated for variant in view.variants.values()):
        out += [("estimated", "Made with boxes or masks that a model estimated.")]
    return [*out, interval_term(view)]
