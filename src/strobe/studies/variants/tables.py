"""The tables of data with variants: levels, means, searches, contrasts and preserved findings."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from strobe.analyses.model_results import ClassificationResult
from strobe.core.errors import printable
from strobe.report import wording
from strobe.report.tables import as_row, each
from strobe.report.view import Lines, Row, Table, View
from strobe.report.wording import called, level_number, level_text, scale, with_interval
from strobe.studies.variants.records import PreservedResults, VariantFacts, VariantScore
from strobe.studies.variants.words import median_text, own_scale, plain_scores, searched_names, shown_kind


def _variants(model: ClassificationResult) -> Iterator[Row]:
    for variant in model.variants or ():
        first = as_row(variant, "variant", "is_target")
        yield from ({**first, **as_row(level)} for level in variant.levels)


def _searches(view: View) -> Iterator[Row]:
    for search in view.results.searches or ():
        first = as_row(search)
        yield from (
            {**first, **{f"level_{key}": cell for key, cell in as_row(level).items()}} for level in search.levels
        )


def _preserved(view: View, rows: Callable[[PreservedResults], Iterable[Row]]) -> Table:
    """Return rows of the figures with preserved findings only; the first column is the judge."""
    return [{"by": one.by, **row} for one in view.results.preserved or () for row in rows(one)]


def _contrasts(view: View) -> Iterator[Row]:
    for contrast in view.results.contrasts or ():
        yield as_row(contrast)


def marked(view: View, rows: Table) -> Table:
    """Return the rows. If the dataset has boxes or masks made by a model, a column marks the rows that use them.

    A row over several variants is marked if any variant of the dataset uses such boxes or masks.
    """
    guessed = {variant for variant, one in view.variants.items() if one.estimated}
    if not guessed:
        return rows
    out = []
    for row in rows:
        sides = [row[key] for key in ("variant", "rung", "a", "b", "held") if key in row]
        out.append(row | {"estimated": not sides or any(side in guessed for side in sides)})
    return out


TABLES: Mapping[str, Callable[[View], Table]] = {
    "variant_means": lambda view: each(view.classifiers, lambda model: map(as_row, model.means or ())),
    "searches": lambda view: list(_searches(view)),
    "searches_by_class": lambda view: [
        {"variant": one.variant, "target": one.target, **as_row(row)}
        for one in view.results.searches or ()
        for row in one.by_class or ()
    ],
    "preserved": lambda view: _preserved(view, lambda one: map(as_row, one.still)),
    "preserved_labels": lambda view: _preserved(view, lambda one: map(as_row, one.preservation)),
    "preserved_searches": lambda view: _preserved(view, lambda one: map(as_row, one.searches)),
    "preserved_contrasts": lambda view: _preserved(view, lambda one: map(as_row, one.contrasts)),
    # There is a row for every level, and every row repeats the figures of the whole variant.
    "variants": lambda view: marked(view, each(view.classifiers, _variants)),
    "contrasts": lambda view: marked(view, list(_contrasts(view))),
}


def variant_lines(view: View) -> list[Lines]:
    """Return accuracy by variant, with a column for every drawn model. Kinds with their own words and searches have
    separate tables."""
    models = view.drawn(view.classifiers)
    if shown_kind(view) is not None:
        return []
    scores = {name: plain_scores(view, model) for name, model in models.items()}
    rows = []
    for variant, facts in view.variants.items():
        mine = [score.get(variant) for score in scores.values()]
        if facts.levels and any(one is not None for one in mine):
            mark = " (control)" if facts.role == "control" else ""
            cells = [with_interval(one.levels[-1].at) if one is not None else "—" for one in mine]
            where = level_text(facts, facts.levels[-1]) if facts.ordered or len(facts.levels) > 1 else "—"
            rows.append([f"{printable(variant)}{mark}", where, *cells])
    if not rows:
        return []
    columns = ["variant", "at", *(printable(name, limit=60) for name in models)]
    return [("Accuracy by variant", columns, rows, [])]


def search_lines(view: View) -> list[Lines]:
    """Return the findings of the searches."""
    rows = [
        [
            printable(one.variant),
            printable(one.target or "—"),
            f"{one.found} of {one.found + one.censored}",
            str(one.censored),
            str(one.anchor_wrong),
            str(one.failed),
            median_text(view, one),
        ]
        for one in own_scale(view)
    ]
    columns = ["search", "target", "found", "nothing found", "original wrong", "failed", "median"]
    out: list[Lines] = []
    if rows:
        out.append(("Searches", columns, rows, [_CENSORED]))
    return [*out, *robust_lines(view)]


_CENSORED = (
    "found: share of the completed searches; nothing found: only up to the distance that the search tried; median: the "
    "distance at which half of the searches have found something"
)


MOST_LEVELS = 8
"""The largest number of columns in the table of bounds on robust accuracy. tables/variants.csv has the full grid."""


def change_lines(view: View) -> Lines:
    """Return the changes made to the images, variant by variant, with controls last."""
    variants = sorted(view.variants.values(), key=lambda variant: variant.role == "control")
    fields = [wording.fields_of(variant) for variant in variants]
    alike = [text for text in fields[0] if len(fields) > 1 and all(text in field for field in fields)]
    settings = [", ".join(text for text in field if text not in alike) for field in fields]
    scales = [(scale(variant), _levels(variant)) for variant in variants]
    names = [called(variant) + "".join(f" ({mark})" for mark in _marks(variant)) for variant in variants]
    columns = {"variant": names}
    if len(set(settings)) > 1:
        columns["settings"] = [text or "—" for text in settings]
    if any(variant.target for variant in variants):
        columns["target"] = [printable(variant.target or "—") for variant in variants]
    if len(set(scales)) > 1:
        columns |= {"scale": [name for name, _ in scales], "levels": [levels for _, levels in scales]}
    columns["n"] = [str(variant.n_sets) for variant in variants]
    shared = "" if len(set(scales)) > 1 else f" All variants have the same levels: {' '.join(scales[0])}."
    shared += f" All variants share these settings: {', '.join(alike)}." if alike else ""
    note = f"Each variant is one way of changing the images.{shared} n is the number of images with the variant."
    return "What was changed", list(columns), list(map(list, zip(*columns.values(), strict=True))), [note]


def _marks(one: VariantFacts) -> list[str]:
    return (["control"] if one.role == "control" else []) + (["estimated"] if one.estimated else [])


def _levels(one: VariantFacts) -> str:
    if len(one.levels) <= 1 and not one.ordered:
        return "one"
    shown = [level_number(one, level) for level in one.levels]
    return ", ".join(shown) if len(shown) <= 6 else f"{shown[0]} … {shown[-1]} ({len(shown)})"


def heat(view: View) -> list[list[dict[str, object]]]:
    """Return one table per drawn model for every scale that at least two plain variants share.

    A row is the variant, whether it is a control, accuracy on the original images, and accuracy at each level.
    """
    searched = searched_names(view)
    scales: dict[tuple[str, tuple[float, ...]], list[VariantFacts]] = {}
    for one in view.variants.values():
        if one.ordered and one.variant not in searched and one.target is None and one.levels:
            scales.setdefault((scale(one), one.levels), []).append(one)
    out = []
    for (name, levels), variants in scales.items():
        if len(variants) < 2:
            continue
        tables: list[dict[str, object]] = []
        for model, result in view.drawn(view.classifiers).items():
            scores = plain_scores(view, result)
            means = {mean.level: mean.at for mean in result.means or () if scale(mean) == name}
            tables.append(
                {
                    "model": printable(model),
                    "scale": name,
                    "levels": [level_number(variants[0], level) for level in levels],
                    "rows": [
                        (
                            printable(variant.variant),
                            variant.role == "control",
                            scores[variant.variant].acc_orig,
                            tuple(level.at for level in scores[variant.variant].levels),
                        )
                        for variant in variants
                        if variant.variant in scores
                    ],
                    "mean": [means[level] for level in levels] if all(level in means for level in levels) else None,
                }
            )
        out.append(tables)
    return out


def robust_lines(view: View) -> list[Lines]:
    """Return upper bounds on robust accuracy for every scale of the searches: on the unchanged images, then up to each
    level. Each target in this run is judged on its own findings, after they are read back.
    """
    scales: dict[tuple[str, tuple[str, ...]], list[tuple[str, VariantScore]]] = {}
    for search in own_scale(view):
        facts = view.variants[search.variant]
        texts = tuple(level_number(facts, level) for level in facts.levels)
        for model in view.classifiers.values():
            for score in model.variants or ():
                if score.variant == search.variant and score.is_target and facts.ordered and score.levels:
                    scales.setdefault((scale(facts), texts), []).append((printable(search.variant), score))
    out: list[Lines] = []
    for (name, levels), found in scales.items():
        kept = range(len(levels) - 1, -1, -len(levels) // MOST_LEVELS)[::-1]
        rows = [
            [variant, *map(with_interval, (score.acc_orig, *(score.levels[place].upto for place in kept)))]
            for variant, score in found
        ]
        title = f"Upper bound on the target's robust accuracy, up to {name}"
        columns = ["search", "original", *(levels[place] for place in kept)]
        out.append((title, columns, rows, ["a stronger search can only lower these bounds"]))
    return out


def fooled(view: View) -> tuple[list[str], list[dict[str, object]]]:
    """Return the models, and for every search the share of its findings that each model gets wrong.

    A cell is whether the model is the target, and the share. For the target, this is the share of all findings read
    back. For another model, it is the share of the findings whose original image that model gets right.
    """
    models = view.drawn(view.classifiers)
    by_model = {name: {variant.variant: variant for variant in model.variants or ()} for name, model in models.items()}
    rows: list[dict[str, object]] = []
    for one in view.results.searches or ():
        cells = []
        for scores in by_model.values():
            score = scores.get(one.variant)
            found = None if score is None else score.reproduced if score.is_target else score.fooled
            cells.append((score is not None and score.is_target, found))
        rows.append({"variant": printable(one.variant), "target": printable(one.target or ""), "cells": cells})
    return [printable(name) for name in models], rows
