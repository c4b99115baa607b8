"""The headline on a terminal: a rich table, plain when piped."""

from collections.abc import Iterator, Sequence
from typing import IO

from strobe.analyses.comparison import Change
from strobe.analyses.model_results import Bounds, Ceiling, ClassificationResult, Impact
from strobe.analyses.results import Results
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.tasks import Task
from strobe.core.variants import ANCHOR
from strobe.report.figures_boxes import boxes_quality
from strobe.report.headline import few_videos, measures, stopped
from strobe.report.naming import in_short_names
from strobe.report.story_background import covered_text, isolated_rows, ladder, rung_rows, verdict
from strobe.report.story_generator import granular, granular_rows
from strobe.report.story_people import asked, kappa, people_notes, people_text, quality
from strobe.report.story_variants import level_text, median_text, own_scale, plain_scores, robust, survives
from strobe.report.trainings import spread_text
from strobe.report.view import View
from strobe.report.wording import counted, some, with_interval

__all__ = ["change_lines", "headline_lines", "print_headline", "training_lines"]

MOST_NAMED_PAIRS, MOST_PAIRS, MOST_NAMES = 6, 30, 10
"""Pairs of models whose changed sets are named, pairs of which they are counted, and names in one line."""


def print_headline(results: Results, file: IO[str]) -> None:
    """Print the headline table of every task in the results to `file`."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = bool(getattr(file, "isatty", lambda: False)())
    # Piped output must not wrap at 80 columns: a script reads it line by line.
    console = Console(file=file, width=None if terminal else 240, highlight=False, soft_wrap=not terminal)
    for title, columns, rows, notes in headline_lines(results):
        if terminal:
            table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
            for place, column in enumerate(columns):
                table.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
            for row in rows:
                table.add_row(*(Text(cell) for cell in row))
            console.print(table)
        else:
            console.print(Text(title))
            widths = [max(len(line[place]) for line in [columns, *rows]) for place in range(len(columns))]
            for line in [columns, *rows]:
                cells = [
                    cell.ljust(width) if place == 0 else cell.rjust(width)
                    for place, (cell, width) in enumerate(zip(line, widths, strict=True))
                ]
                console.print(Text("  ".join(cells).rstrip()))
        for note in notes:
            console.print(Text(note, style="dim" if terminal else ""))


def change_lines(changes: Sequence[Change]) -> Iterator[str]:
    """What became of the sets between models, by name where there are few pairs; the rest is in tables/sets."""
    for one in changes[:MOST_PAIRS]:
        yield one.sentence()
        if len(changes) <= MOST_NAMED_PAIRS:
            for what, n, names in (
                ("newly held", one.newly_held, one.held), ("newly broken", one.newly_broken, one.broken)
            ):  # fmt: skip
                shown = [printable(name) for name in names[:MOST_NAMES]]
                rest = [f"{n - len(shown)} more"] if n > len(shown) else []
                if n:
                    yield f"  {what}: {', '.join([*shown, *rest])}"
    if len(changes) > MOST_PAIRS:
        yield f"{len(changes) - MOST_PAIRS} more pairs; tables/sets of a scored run has every model on every set."


def training_lines(results: Results) -> list[str]:
    """Recipes that were trained several times, a line each: mean, interval over clips, lowest and highest seed."""
    rows = [("recipe", "acc_orig", "acc_pmk", "drop")]
    for one in results.trainings or ():
        cells = [
            f"{with_interval(found)}; {spread_text(spread)}"
            for found, spread in (
                (one.acc_orig, one.acc_orig_spread), (one.acc_pmk, one.acc_pmk_spread), (one.drop, one.drop_spread)
            )
        ]  # fmt: skip
        rows.append((printable(one.name), cells[0], cells[1], cells[2]))
    if len(rows) == 1:
        return []
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return ["", *lines, "means over trainings [95 % interval over clips]; lowest – highest training"]


_BRIEF = 3
"""Measures with their interval on a terminal; `flip_rate` and `coverage` have theirs beside them, the page has all."""


def headline_lines(results: Results) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
    """Per task in the results: title, column names, rows of text, and notes below."""
    results, _ = in_short_names(results)
    data, view = results.dataset, View(results=results)
    about = f"{counted(data.n_sets, 'set')} of {view.sources}"
    if view.variants:
        about = f"{view.sources} under {counted(len(view.variants), 'variant')}, each counted once"
    elif view.words.is_still and data.kinds:
        about = view.sources
    out = []
    if not view.words.is_still and not view.variants:
        about += f", k = {data.k}"
    for task in Task:
        models = view.of(task)
        if not models:
            continue
        named = measures(view, task)
        full = named[:1] if view.words.is_still else named if view.variants else named[:_BRIEF]
        brief = [one for one in named if one.name in ("flip_rate", "coverage") and one not in full]
        columns = ["model", *(one.name for one in (*full, *brief)), "unscored" if view.variants else "unscored sets"]
        rows = [
            [
                printable(name, limit=60),
                *(with_interval(one.of(model)) for one in full),
                *(_value(one.of(model)) for one in brief),
                str(model.unscored.sets),
            ]
            for name, model in models.items()
        ]
        for place in range(len(columns) - 1, 1 if view.words.is_still else 3, -1):
            # a column nobody has anything to say in is left out
            if all(row[place] in ("—", "0") for row in rows):
                columns = [cell for i, cell in enumerate(columns) if i != place]
                rows = [[cell for i, cell in enumerate(row) if i != place] for row in rows]
        bounded = any("[" in cell for row in rows for cell in row[1:])
        notes = [f"% [95 % interval], {about}" if bounded else f"%, {about}: too few for intervals"]
        if bounded and (few := few_videos(view)):
            notes.append(few)
        said = (*view.doubts, data.unreviewed(), *(note for model in models.values() for note in model.notes or ()))
        notes += list(dict.fromkeys(view.words.say(note) for note in said if note))
        known = {name: model for name, model in models.items() if isinstance(model, ClassificationResult)}
        notes += [f"{printable(name)}: {stopped(model)}" for name, model in known.items() if model.stopped_early]
        notes += [_bounds(name, model, model.bounds, data.k) for name, model in known.items() if model.bounds]
        notes += list(dict.fromkeys(_ceiling(model.ceiling, data.k) for model in known.values() if model.ceiling))
        notes += [note for note in survives(view) if task is Task.CLASSIFICATION]
        notes += [_review(name, model.review_impact) for name, model in known.items() if model.review_impact]
        out.append((f"{printable(data.name)}: {task}", columns, rows, notes))
    return [
        *out,
        *_all_class_lines(view),
        *_variant_lines(view),
        *_search_lines(view),
        *_people_lines(view),
        *_box_lines(view),
    ]


def _all_class_lines(view: View) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
    """Accuracy among the dataset's classes and among all of a model's, where the former are some of the latter."""
    rows, own, every = [], 0, set[int]()
    for name, model in view.classifiers.items():
        for one in () if model.all_classes is None else model.all_classes.pictures:
            what = "" if one.variant == ANCHOR else f", {printable(one.variant)}"
            rows.append([f"{printable(name, limit=60)}{what}", with_interval(one.own), with_interval(one.all)])
        if model.all_classes is not None:
            own, every = model.all_classes.n_own, every | {model.all_classes.n_all}
    if not rows:
        return []
    among = " or ".join(f"{n:,}" for n in sorted(every))
    columns = ["model", f"among the {own:,} classes here", f"among all its {among}"]
    return [(f"{printable(view.results.dataset.name)}: accuracy by choice of classes", columns, rows, [])]


def _variant_lines(view: View) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
    """Accuracy by variant, a column for every model that is drawn; searches have lines of their own."""
    models = view.drawn(view.classifiers)
    if (found := ladder(view)) is not None:
        name, names = printable(view.results.dataset.name), [printable(one, limit=60) for one in models]
        notes = [
            "points [95 % interval]; * beyond chance after Holm's correction",
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


def _search_lines(view: View) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
    """What the searches found."""
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
    out: list[tuple[str, list[str], list[list[str]], list[str]]] = []
    if rows:
        out.append((f"{name}: searches", columns, rows, []))
    if (found := granular(view)) is not None:
        columns, rows, notes = granular_rows(found)
        out.append((f"{name}: from coarse to fine", columns, rows, notes))
    for table in robust(view):
        columns = ["search", "as it is", *table.levels]
        rows = [[variant, *map(with_interval, (orig, *cells))] for variant, _, orig, cells in table.rows]
        out.append((f"{name}: robust accuracy of the target, up to {table.scale}", columns, rows, []))
    return out


def _box_lines(view: View) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
    """Where people saw the objects: what each kept, and how far their boxes overlap those of others."""
    found, text = view.results.drawn, boxes_quality(view)
    if found is None or text is None:
        return []
    rows = [
        [printable(one.person, limit=60), str(one.n_pictures), str(one.kept), str(one.discarded), kappa(one.overlap),
         "—" if one.seconds is None else f"{one.seconds:.2f}"]
        for one in found.people
    ]  # fmt: skip
    columns = ["who", "pictures", "kept", "discarded", "overlap (IoU)", "seconds"]
    return [(f"{printable(view.results.dataset.name)}: boxes of people", columns, rows, [text])]


def _people_lines(view: View) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
    """What people called the pictures, the models beside them, and whether changed pictures are still named so."""
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
        head = ["variant", "pictures", "still named so", "by most", "less than as they are"]
        out.append((f"{name}: is it still what it was?", head, kept, []))
    return out


def _value(found: Estimate) -> str:
    """The value without its bounds: the table stays narrow; results.json has them."""
    return "—" if found.value is None else f"{100 * found.value:.1f}"


def _ceiling(top: Ceiling, k: int) -> str:
    """What classes the model's own space lacks cost at least."""
    if k == 0:
        return (
            f"{printable(top.source)} has no {printable(some(top.childless), limit=600)}: "
            f"{counted(top.anchors_out_of_reach, 'picture')} out of reach, so accuracy is at most "
            f"{100 * top.acc_orig:.1f}"
        )
    return (
        f"{printable(top.source)} has no {printable(some(top.childless), limit=600)}: "
        f"{counted(top.anchors_out_of_reach, 'anchor')} out of reach, so acc_orig is at most "
        f"{100 * top.acc_orig:.1f} and acc_pmk at most {100 * top.acc_pmk:.1f}"
    )


def _review(name: str, impact: Impact) -> str:
    """What review changed: the drop before and after, and the difference."""
    return (
        f"{printable(name)}: drop {with_interval(impact.a.drop)} on all candidates, {with_interval(impact.c.drop)} on "
        f"what review kept; difference {with_interval(impact.drop_difference)}"
    )


def _bounds(name: str, model: ClassificationResult, bounds: Bounds, k: int) -> str:
    low, high = bounds.acc_pmk
    if k == 0:
        return (
            f"{printable(name)}: {counted(model.unscored.sets, 'picture')} without a prediction; accuracy between "
            f"{100 * low:.1f} (all of them wrong) and {100 * high:.1f} (all right)"
        )
    return (
        f"{printable(name)}: {model.unscored.sets} sets unscored ({counted(model.unscored.frames, 'frame')} without a "
        f"prediction); acc_pmk between {100 * low:.1f} (all of them wrong) and {100 * high:.1f} (all right)"
    )
