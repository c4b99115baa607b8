"""Further terminal tables: data with variants, searches, and the names and boxes of people."""

from strobe.core.errors import printable
from strobe.report.figures_boxes import boxes_quality
from strobe.report.story_background import covered_text, isolated_rows, ladder, rung_rows, verdict
from strobe.report.story_generator import granular, granular_rows
from strobe.report.story_people import asked, kappa, people_notes, people_text, quality
from strobe.report.story_variants import level_text, median_text, own_scale, plain_scores, robust
from strobe.report.view import Lines, View
from strobe.report.wording import with_interval

__all__ = ["more_lines"]


def more_lines(view: View) -> list[Lines]:
    """Return title, column names, rows of text and notes of every table with content."""
    return [*_variant_lines(view), *_search_lines(view), *_people_lines(view), *_box_lines(view)]


def _variant_lines(view: View) -> list[Lines]:
    """Return accuracy by variant, a column for every drawn model; searches have lines of their own."""
    models = view.drawn(view.classifiers)
    if (found := ladder(view)) is not None:
        name, names = printable(view.results.dataset.name), [printable(one, limit=60) for one in models]
        notes = [
            "points [95 % interval]; * significant after Holm's correction",
            *(verdict(found, one) for one in models),
        ]
        notes += [text for text in [covered_text(found, *models)] if text]
        return [
            (f"{name}: accuracy by rung", ["rung", *names], list(rung_rows(found)), []),
            (f"{name}: what isolates", ["difference", *names], list(isolated_rows(found)), notes),
        ]
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


def _search_lines(view: View) -> list[Lines]:
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
    columns = ["search", "against", "found", "nothing found", "wrong from the start", "failed", "half by"]
    name = printable(view.results.dataset.name)
    out: list[Lines] = []
    if rows:
        out.append((f"{name}: searches", columns, rows, []))
    if (found := granular(view)) is not None:
        columns, rows, notes = granular_rows(found)
        out.append((f"{name}: from coarse to fine", columns, rows, notes))
    for table in robust(view):
        columns = ["search", "as it is", *table.levels]
        rows = [[variant, *map(with_interval, (orig, *cells))] for variant, _, orig, cells in table.rows]
        title = f"{name}: upper bound on the target's robust accuracy, up to {table.scale}"
        out.append((title, columns, rows, ["a stronger search can only lower it"]))
    return out


def _people_lines(view: View) -> list[Lines]:
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
    columns = ["who", "accuracy", "by most", "Fleiss κ", "error consistency", "seconds"]
    said = [quality(found), "error consistency: of two people, or of a person and the model, on average"]
    said += people_notes(view)
    out = [(f"{name}: people", columns, rows, said)]
    if found.preservation:
        kept = [
            [f"{printable(one.variant)}{' (control)' if one.role == 'control' else ''}", str(one.n_pictures),
             with_interval(one.named), with_interval(one.kept), "—" if one.lost is None else with_interval(one.lost)]
            for one in found.preservation
        ]  # fmt: skip
        head = ["variant", "images", "still named so", "by most", "less than as they are"]
        out.append((f"{name}: is it still what it was?", head, kept, []))
    return out


def _box_lines(view: View) -> list[Lines]:
    """Return the boxes that people drew: the images each kept, and the overlap with others' boxes."""
    found, text = view.results.drawn, boxes_quality(view)
    if found is None or text is None:
        return []
    rows = [
        [printable(one.person, limit=60), str(one.n_pictures), str(one.kept), str(one.discarded), kappa(one.overlap),
         "—" if one.seconds is None else f"{one.seconds:.2f}"]
        for one in found.people
    ]  # fmt: skip
    columns = ["who", "images", "kept", "discarded", "overlap (IoU)", "seconds"]
    return [(f"{printable(view.results.dataset.name)}: boxes of people", columns, rows, [text])]
