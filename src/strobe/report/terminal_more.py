"""Further terminal tables: data with variants, searches, names that people gave, and boxes that they drew."""

from strobe.core.errors import printable
from strobe.report.view import Lines, View
from strobe.report.wording import with_interval
from strobe.studies.background.words import covered_text, isolated_rows, ladder, rung_rows, verdict
from strobe.studies.generator.words import granular, granular_rows
from strobe.studies.people.figures_boxes import boxes_quality
from strobe.studies.people.words import asked, kappa, people_notes, people_text, quality
from strobe.studies.variants.words import level_text, median_text, own_scale, plain_scores, robust

__all__ = ["box_lines", "granular_lines", "ladder_lines", "people_lines", "search_lines", "variant_lines"]


def ladder_lines(view: View) -> list[Lines]:
    """Return accuracy by rung of a ladder of backgrounds, and the isolated effects, with a column for every drawn
    model.
    """
    models = view.drawn(view.classifiers)
    if (found := ladder(view)) is None:
        return []
    name, names = printable(view.results.dataset.name), [printable(one, limit=60) for one in models]
    notes = [
        "points [95 % interval]; * significant after Holm's correction",
        *(verdict(found, one) for one in models),
    ]
    notes += [text for text in [covered_text(found, *models)] if text]
    return [
        (f"{name}: accuracy by rung", ["rung", *names], list(rung_rows(found)), []),
        (f"{name}: isolated effects", ["difference", *names], list(isolated_rows(found)), notes),
    ]


def variant_lines(view: View) -> list[Lines]:
    """Return accuracy by variant, with a column for every drawn model. Ladders and searches have separate tables."""
    models = view.drawn(view.classifiers)
    if ladder(view) is not None:
        return []
    scores = {name: plain_scores(view, model) for name, model in models.items()}
    rows = []
    for variant, facts in view.variants.items():
        mine = [one.get(variant) for one in scores.values()]
        if facts.levels and any(one is not None for one in mine):
            mark = " (control)" if facts.role == "control" else ""
            cells = [with_interval(one.levels[-1].at) if one is not None else "—" for one in mine]
            where = level_text(facts, facts.levels[-1]) if facts.ordered or len(facts.levels) > 1 else "—"
            rows.append([f"{printable(variant)}{mark}", where, *cells])
    if not rows:
        return []
    columns = ["variant", "at", *(printable(name, limit=60) for name in models)]
    return [(f"{printable(view.results.dataset.name)}: accuracy by variant", columns, rows, [])]


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
            median_text(view, one)[0],
        ]
        for one in own_scale(view)
    ]
    columns = ["search", "target", "found", "nothing found", "original wrong", "failed", "median"]
    name = printable(view.results.dataset.name)
    out: list[Lines] = []
    if rows:
        out.append((f"{name}: searches", columns, rows, []))
    for table in robust(view):
        columns = ["search", "original", *table.levels]
        rows = [[variant, *map(with_interval, (orig, *cells))] for variant, _, orig, cells in table.rows]
        title = f"{name}: upper bound on the target's robust accuracy, up to {table.scale}"
        out.append((title, columns, rows, ["a stronger search can only lower these bounds"]))
    return out


def granular_lines(view: View) -> list[Lines]:
    """Return the magnitudes of a generator's searches, from coarse to fine."""
    if (found := granular(view)) is None:
        return []
    columns, rows, notes = granular_rows(found)
    return [(f"{printable(view.results.dataset.name)}: from coarse to fine", columns, rows, notes)]


def people_lines(view: View) -> list[Lines]:
    """Return the names that people gave the images, the models for comparison, and the preserved changed images."""
    found = view.results.people
    if found is None:
        return []
    name, rows, kinds = printable(view.results.dataset.name), [], asked(view)
    for what, one in kinds.items():
        of = "" if len(kinds) == 1 else f"{what}: "
        times = "—" if one.seconds.median.value is None else f"{one.seconds.median.value:.2f}"
        rows.append(
            [f"{of}{people_text(one.n_people)}", with_interval(one.accuracy), with_interval(one.majority),
             kappa(one.fleiss_kappa), kappa(one.consistency), times]
        )  # fmt: skip
        rows += [
            [f"{of}{printable(model.model, limit=60)}", with_interval(model.accuracy), "—", "—",
             kappa(model.consistency), "—"]
            for model in one.models
        ]  # fmt: skip
    columns = ["people or model", "accuracy", "majority", "Fleiss κ", "error consistency", "seconds"]
    notes = [quality(found), "error consistency: mean over pairs of people, or over people with the model"]
    notes += people_notes(view)
    out = [(f"{name}: people", columns, rows, notes)]
    if found.preservation:
        kept = [
            [f"{printable(one.variant)}{' (control)' if one.role == 'control' else ''}", str(one.n_pictures),
             with_interval(one.named), with_interval(one.kept), "—" if one.lost is None else with_interval(one.lost)]
            for one in found.preservation
        ]  # fmt: skip
        head = ["variant", "images", "named as the original", "by majority", "loss against originals"]
        out.append((f"{name}: do people still see the original class?", head, kept, []))
    return out


def box_lines(view: View) -> list[Lines]:
    """Return the results of drawing boxes: how many images each person kept, and the overlap with other people's
    boxes.
    """
    found, text = view.results.drawn, boxes_quality(view)
    if found is None or text is None:
        return []
    rows = [
        [printable(one.person, limit=60), str(one.n_pictures), str(one.kept), str(one.discarded), kappa(one.overlap),
         "—" if one.seconds is None else f"{one.seconds:.2f}"]
        for one in found.people
    ]  # fmt: skip
    columns = ["person", "images", "kept", "discarded", "overlap (IoU)", "seconds"]
    return [(f"{printable(view.results.dataset.name)}: boxes drawn by people", columns, rows, [text])]
