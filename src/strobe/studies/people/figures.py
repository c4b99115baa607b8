"""Figures of people who named images: accuracy, consistency, confusions, response times, and preservation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.core.variants import ANCHOR
from strobe.report.charts import (
    Bar,
    ChartRow,
    LegendKey,
    Mark,
    Scale,
    Span,
    dumbbell_keys,
    model_keys,
    row_chart,
    side_by_side,
)
from strobe.report.drawing import Answer, FigureContent, Paint, question
from strobe.report.style import GREY, GRID, INK, MUTED, RIGHT, WRONG, colour_of, marker_of
from strobe.report.view import View
from strobe.report.wording import counted, extreme, is_known, percent, points, short, value_of
from strobe.studies.people.records import PeopleScore, Times
from strobe.studies.people.words import ahead, asked, kappa, people_text

MOST_MODELS = 8
MOST_NAMES = 24
"""The largest number of names on a side of a matrix. More would be unreadable."""

MOST_KINDS = 8
"""The largest number of kinds of images with their own matrix. tables/ has all kinds."""

LEAST_SHARED = 5
"""The smallest number of images that two people must both have named to be compared. Fewer images are no evidence."""

_SHARES = Scale(label="accuracy", low=-0.02, high=1.02)
NOBODY = "no person named an image of this dataset."


def _models(view: View, score: PeopleScore) -> dict[str, Any]:
    """Return the models that are drawn next to people: the models in `show` first, then the others by rank."""
    mine = {model.model: model for model in score.models}
    ranked = [name for name in dict.fromkeys([*view.show, *view.ranked]) if name in mine]
    return {name: mine[name] for name in ranked[:MOST_MODELS]}


# -- accuracy ------------------------------------------------------------------------------------------------------


@question("people_accuracy", "How often are people right?")
def people_accuracy(view: View) -> Answer:
    """People, their majority, and every model on the same images."""
    rows = asked(view)
    if not rows:
        return Missing(NOBODY)
    name, score = next(iter(rows.items()))
    text = f"People get {percent(score.accuracy)} of the {name} right" if score.n_people > 1 else (
        f"One person gets {percent(score.accuracy)} of the {name} right"
    )  # fmt: skip
    if score.n_people > 1:
        each = sorted(value_of(one.accuracy) for one in score.people)
        text += f" (single people: {percent(each[0], digits=0)} to {percent(each[-1], digits=0)})"
        text += f". Their majority is right on {percent(score.majority)}"
    if best := [model for model in _models(view, score).values() if is_known(model.difference)]:
        least, names, tie = extreme(best, lambda one: value_of(one.difference), lambda one: one.model, pick=min)
        text += f". They are {ahead(least.difference)} {names}, the best model{'s' if tie else ''} on these images"
    how = "Lines are 95 % intervals over images; small ticks are single people. “None of these”, “cannot tell” and no \
answer in time count as wrong."
    if len(rows) == 1:
        paint, n_rows = _raters(view, score)
    else:
        paint, n_rows = _kinds(view, rows)
        how = f"{how} Each row is one kind of image."
    return FigureContent(sentence=f"{text}.", how=how, paint=paint, inches=(0.9 + 0.36 * n_rows, 1.0 + 0.36 * n_rows))


def _raters(view: View, score: PeopleScore) -> tuple[Paint, int]:
    """For one kind of image: a row for people, a row for their majority, and a row for each model."""
    rows = [(people_text(score.n_people), score.accuracy, INK, "o")]
    if score.n_people > 1:
        rows.append(("their majority", score.majority, MUTED, "D"))
    rows += [
        (name, one.accuracy, colour_of(index), marker_of(index))
        for index, (name, one) in enumerate(_models(view, score).items())
    ]
    chart = [
        ChartRow(label=name, marks=(*(() if y else _ticks(score)), Mark(value=found, colour=colour, marker=marker)))
        for y, (name, found, colour, marker) in enumerate(rows)
        if is_known(found)
    ]
    return row_chart(chart, Scale(label="accuracy"), limits=(34, 20)), len(chart)


def _kinds(view: View, rows: Mapping[str, PeopleScore]) -> tuple[Paint, int]:
    """For several kinds of images: a row for each kind, with people above models."""
    names = list(dict.fromkeys(name for score in rows.values() for name in _models(view, score)))[:MOST_MODELS]
    chart = []
    for kind, score in rows.items():
        mine = _models(view, score)
        models = [
            Mark(value=mine[name].accuracy if name in mine else None, colour=colour_of(index), marker=marker_of(index))
            for index, name in enumerate(names)
        ]
        people, *others = side_by_side([Mark(value=score.accuracy, colour=INK), *models])
        chart.append(ChartRow(label=kind, marks=(*_ticks(score, people.at), people, *others)))
    paint = row_chart(
        chart,
        _SHARES,
        limits=(34, 18),
        keys=[LegendKey(name="people", colour=INK), *model_keys(names)],
        rules=[y - 0.5 for y in range(1, len(rows))],
    )
    return paint, max(len(rows) * (1 + len(names)) // 2, (2 if names else 1) * len(rows))


def _ticks(score: PeopleScore, at: float = 0.0) -> list[Mark]:
    """Return every person as a small tick behind the mean."""
    each = score.people if score.n_people > 1 else ()
    return [Mark(value=one.accuracy.value, colour=GREY, marker="|", size=11, at=at) for one in each]


# -- error consistency ---------------------------------------------------------------------------------------------


@question("people_consistency", "Do people and models err on the same images?")
def people_consistency(view: View) -> Answer:
    """A matrix of error consistency: every person with every other person, and with every model."""
    matrices = []
    for name, score in asked(view).items():
        known = [pair for pair in score.pairs if is_known(pair.kappa) and pair.kappa.n >= LEAST_SHARED]
        cells = {(one.person, str(one.other_is), one.other): one.kappa for one in known}
        if cells:
            matrices.append((name, score, cells))
    if not matrices:
        return Missing(f"no pair shares {LEAST_SHARED} images and differs in at least one error.")
    return [
        FigureContent(
            sentence=_consistency_sentence(view, score),
            how="Cohen’s κ of being right: 0 is agreement by chance, 1 means the same errors. Blue is above 0, "
            f"orange is below 0. A dot marks pairs that share fewer than {LEAST_SHARED} images or never differ.",
            paint=_matrix(view, score, cells),
            inches=_matrix_inches(view, score),
            choice=name,
            number=number,
        )
        for number, (name, score, cells) in enumerate(matrices[:MOST_KINDS], start=1)
    ]


def _consistency_sentence(view: View, score: PeopleScore) -> str:
    parts = []
    if is_known(score.consistency):
        parts.append(f"the mean κ of two people is {kappa(score.consistency)}")
    models = [model for model in _models(view, score).values() if is_known(model.consistency)]
    if models:
        best, names, _ = extreme(models, lambda one: value_of(one.consistency), lambda one: one.model)
        parts.append(f"the mean κ of a person and {names} is {kappa(best.consistency)}"
                     + (", the highest of the models" if len(models) > 1 else ""))  # fmt: skip
    text = "; ".join(parts) or "there are too few errors to compare"
    more = f" The figure shows {MOST_NAMES} of {score.n_people} people; tables/ has all." if _many(score) else ""
    return f"{text[0].upper()}{text[1:]}.{more}"


def _many(score: PeopleScore) -> bool:
    return score.n_people > MOST_NAMES


def _matrix_inches(view: View, score: PeopleScore) -> tuple[float, float]:
    n_rows = min(score.n_people, MOST_NAMES)
    n_columns = n_rows + len(_models(view, score))
    return 1.3 + n_rows * min(0.42, 5.2 / n_columns), 1.4 + n_rows * max(0.2, min(0.34, 2.6 / n_columns))


def _matrix(view: View, score: PeopleScore, cells: Mapping[tuple[str, str, str], Estimate]) -> Any:
    people = [one.person for one in score.people][:MOST_NAMES]
    columns = [("person", name) for name in people] + [("model", name) for name in _models(view, score)]

    def value(row: str, column: tuple[str, str]) -> float | None:
        found = cells.get((row, *column)) or (cells.get((column[1], "person", row)) if column[0] == "person" else None)
        return None if found is None else value_of(found)

    grid = [[None if ("person", row) == column else value(row, column) for column in columns] for row in people]

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        _cells(axes, grid, text=lambda number: f"{number:z.2f}".replace("-", "−").replace("0.", "."),
               small=len(columns) > (7 if is_narrow else 18))  # fmt: skip
        cut = 11 if is_narrow else 18
        _names(axes, [short(printable(name), cut) for name in people],
               [short(printable(name), cut) for _, name in columns])  # fmt: skip
        if len(columns) > len(people):
            axes.axvline(len(people) - 0.5, color=INK, linewidth=1.2)

    return paint


def _cells(axes: Any, grid: Sequence[Sequence[float | None]], *, text: Callable[[float], str], small: bool) -> None:
    """Draw a matrix of numbers from −1 to 1.

    Stronger colours are farther from zero, and a dot marks a missing value.
    """
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    places = [(x, y, number) for y, row in enumerate(grid) for x, number in enumerate(row)]
    known = [(x, y, number) for x, y, number in places if number is not None]
    colours = [
        to_rgba(RIGHT if number >= 0 else WRONG, alpha=min(abs(number), 1.0) ** 0.8 * 0.62) for _, _, number in known
    ]
    squares = [Rectangle((x - 0.47, y - 0.47), 0.94, 0.94) for x, y, _ in known]
    axes.add_collection(PatchCollection(squares, facecolors=colours, edgecolors=GRID, linewidths=0.6))
    absent = [(x, y) for x, y, number in places if number is None]
    axes.plot([x for x, _ in absent], [y for _, y in absent], linestyle="none", marker=".", color=GREY, markersize=2)
    size = 7.5 if max(map(len, grid)) <= 14 else 6.5
    for x, y, number in () if small else known:
        axes.text(x, y, text(number), ha="center", va="center", fontsize=size, color=INK)
    axes.set_xlim(-0.5, max(len(row) for row in grid) - 0.5)
    axes.set_ylim(len(grid) - 0.5, -0.5)
    axes.grid(visible=False)


def _names(axes: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    size = 8 if max(len(rows), len(columns)) <= 16 else 6.5
    axes.set_yticks(range(len(rows)), rows, fontsize=size)
    axes.set_xticks(range(len(columns)), columns, rotation=55, ha="left", rotation_mode="anchor", fontsize=size)
    axes.tick_params(axis="both", labelcolor=INK, length=0)
    axes.xaxis.tick_top()
    for side in axes.spines.values():
        side.set_visible(False)


# -- confusions ----------------------------------------------------------------------------------------------------

_WORDS = {"none": "none of these", "unsure": "cannot tell", "late": "too late"}


@question("people_confusion", "Which classes do people confuse?")
def people_confusion(view: View) -> Answer:
    """The names given to images of each class, as a matrix.

    With many classes, the matrix shows only the most frequent errors.
    """
    figures = []
    for number, (name, score) in enumerate(list(asked(view).items())[:MOST_KINDS], start=1):
        counts = {(one.name, one.answer_name or _WORDS[one.said]): one.n for one in score.confusion}
        truths = list(dict.fromkeys(one.name for one in score.confusion))
        mistakes = sorted(
            ((n, pair) for pair, n in counts.items() if pair[0] != pair[1]), key=lambda one: (-one[0], one[1])
        )
        if not counts:
            continue
        wrong = sum(n for n, _ in mistakes)
        text = f"Of {counted(score.n_answers, 'answer')}, {wrong:,} {'is' if wrong == 1 else 'are'} wrong"
        if mistakes:
            _, most, tie = extreme(mistakes, lambda one: one[0], lambda one: _called(one[1], one[0]))
            text += f". The most frequent error{'s' if tie else ''}: {most}"
        large = len(truths) > MOST_NAMES
        figures.append(
            FigureContent(
                sentence=f"{text}.",
                how="Most frequent errors: true class → answer. All are in tables/people_confusion.csv." if large else
                "Rows are true classes, columns are answers. Numbers are the share of a row’s answers, in per cent.",
                paint=_mistakes(mistakes[:15]) if large else _confusion(truths, counts),
                inches=(1.0 + 0.3 * min(len(mistakes), 15),) * 2 if large else (
                    1.5 + 0.3 * len(truths), 1.5 + 0.21 * len(truths)),
                choice=name,
                number=number,
            )
        )  # fmt: skip
    return figures or Missing(NOBODY)


def _called(pair: tuple[str, str], n: int) -> str:
    truth, answer = (printable(name) for name in pair)
    mistake = f"called {answer}" if answer not in _WORDS.values() else f"answered “{answer}”"
    return f"{truth} {mistake} ({n:,} times)" if n > 1 else f"{truth} {mistake} (once)"


def _confusion(truths: Sequence[str], counts: Mapping[tuple[str, str], int]) -> Any:
    answers = {answer for _, answer in counts}
    columns = [
        *truths,
        *sorted(answers - {*truths, *_WORDS.values()}),
        *(word for word in _WORDS.values() if word in answers),
    ]
    totals = {truth: sum(n for (row, _), n in counts.items() if row == truth) for truth in truths}
    grid = [
        [counts[truth, answer] / totals[truth] * (1 if truth == answer else -1) if (truth, answer) in counts else None
         for answer in columns]
        for truth in truths
    ]  # fmt: skip

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        _cells(axes, grid, text=lambda share: f"{abs(100 * share):.0f}", small=len(columns) > (9 if is_narrow else 24))
        cut = 12 if is_narrow else 16
        _names(
            axes, [short(printable(name), cut) for name in truths], [short(printable(name), cut) for name in columns]
        )

    return paint


def _mistakes(rows: Sequence[tuple[int, tuple[str, str]]]) -> Paint:
    chart = []
    for n, pair in rows:
        wide, narrow = (" → ".join(short(printable(name), cut) for name in pair) for cut in (24, 14))
        chart.append(ChartRow(label=wide, narrow=narrow, bars=(Bar(value=n, colour=WRONG, alpha=0.85),)))
    return row_chart(chart, Scale(label="answers", unit=""), limits=(51, 31))


# -- response time -------------------------------------------------------------------------------------------------


@question("people_times", "How long do people take?")
def people_times(view: View) -> Answer:
    """Seconds per answer: the median with its interval, and the quartiles.

    With one kind of image, each person has a row.
    """
    scores = asked(view)
    rows: list[tuple[str, Times]] = [(name, one.seconds) for name, one in scores.items()]
    if len(scores) == 1:
        (score,) = scores.values()
        rows = [(people_text(score.n_people), score.seconds)]
        rows += [(one.person, one.seconds) for one in score.people[:MOST_NAMES] if score.n_people > 1]
    rows = [row for row in rows if is_known(row[1].median)]
    if not rows:
        return Missing("no answer has a time.")

    chart = [
        ChartRow(
            label=name,
            marks=(Mark(value=times.median, colour=INK if y == 0 or len(scores) > 1 else RIGHT),),
            span=Span(low=times.quartile_low, high=times.quartile_high, colour=RIGHT, width=7, alpha=0.22),
        )
        for y, (name, times) in enumerate(rows)
    ]
    name, times = rows[0]
    text = f"The median time is {value_of(times.median):.2f} s"
    if len(scores) > 1:
        text += f" on the {name}"
    if times.quartile_low is not None and times.quartile_high is not None:
        text += f"; the middle half of the answers took {times.quartile_low:.2f} to {times.quartile_high:.2f} s"
    height = 0.9 + 0.3 * len(rows)
    return FigureContent(
        sentence=f"{text}.",
        how="Dots are medians with 95 % intervals. Wide bars are the middle half of the answers.",
        paint=row_chart(chart, Scale(label="seconds per answer", unit="", low=0), limits=(34, 18)),
        inches=(height, height),
    )


# -- preservation --------------------------------------------------------------------------------------------------


@question("people_preservation", "Do people still see the original class?")
def people_preservation(view: View) -> Answer:
    """The share of changed images to which people still give the class of the original."""
    found = view.results.people
    rows = [] if found is None else [one for one in found.preservation if is_known(one.named)]
    if all(row.variant == ANCHOR for row in rows):
        return Missing("no person named a changed image.")
    names = ["original images" if row.role == "anchor" else printable(row.variant) for row in rows]
    marks = [f"{name} (control)" if one.role == "control" else name for name, one in zip(names, rows, strict=True)]

    chart = []
    for name, one in zip(marks, rows, strict=True):
        blue, orange = (RIGHT, WRONG) if one.role == "same" else (MUTED, GREY)
        both = Mark(value=one.named, colour=blue), Mark(value=one.kept, colour=orange, marker="D")
        chart.append(ChartRow(label=name, marks=side_by_side(both)))
    same = [row for row in rows if row.role == "same"] or [row for row in rows if row.role == "control"]
    worst, hardest, tie = extreme(same, lambda one: value_of(one.named), lambda one: one.variant, pick=min)
    text = f"Under {hardest}, {percent(worst.named)} of the answers give the class of the original"
    text += "" if tie else f", and {percent(worst.kept)} of the images keep it by majority"
    if not tie and worst.lost is not None and is_known(worst.lost):
        text += f". That is {_short_of(worst.lost)} than for the originals of the same images"
    height = 1.0 + 0.46 * len(rows)
    scale = replace(_SHARES, label="named as the original class")
    return FigureContent(
        sentence=f"{text}." + (" It is the lowest share of all variants." if len(same) > 1 else ""),
        how="Grey: original images and controls. For a search, only its findings count. Lines are 95 % intervals over "
        "images.",
        paint=row_chart(chart, scale, limits=(36, 20), keys=dumbbell_keys("answers", "images, by majority")),
        inches=(height, height),
    )


def _short_of(lost: Estimate) -> str:
    return f"{points(abs(value_of(lost)))} {'less' if value_of(lost) >= 0 else 'more'}"


# -- boxes ---------------------------------------------------------------------------------------------------------

MOST_PAIRS = 20
"""The largest number of pairs of people in the figure. tables/people_box_pairs.csv has all pairs."""


@question("people_boxes", "Do people draw the same box?")
def people_boxes(view: View) -> Answer:
    """The median overlap of two people's boxes on an image: for all boxes, for all boxes except a detector's, and for
    each pair of people.
    """
    boxes = view.results.drawn
    if boxes is None or not is_known(boxes.overlap):
        return Missing("no image has the boxes of two people.")
    found = [("all pairs of boxes", boxes.overlap, INK)]
    if boxes.suggested.count:
        found.append(("without detector boxes", boxes.overlap_own, MUTED))
    pairs = boxes.pairs[:MOST_PAIRS] if boxes.n_people > 2 else ()
    found += [(f"{pair.person} and {pair.other}", pair.overlap, RIGHT) for pair in pairs]
    rows = [
        ChartRow(label=name, marks=(Mark(value=overlap, colour=colour),))
        for name, overlap, colour in found
        if is_known(overlap)
    ]
    scale = Scale(label="overlap (IoU)", unit="", low=0, high=1.02, guides=((boxes.agree, MUTED),))
    text = f"The median overlap (IoU) of two people’s boxes on an image is {kappa(boxes.overlap)}"
    if boxes.suggested.count:
        text += f"; {percent(boxes.suggested)} of the boxes are unchanged suggestions of a detector"
    if is_known(boxes.disagreed):
        text += f". In the first round, people disagree on {percent(boxes.disagreed)} of the images"
    return FigureContent(
        sentence=f"{text}.",
        how="The figure uses boxes of the first round, which people draw without seeing the boxes of others. Lines "
        "are 95 % intervals over "
        f"images. Boxes that overlap by less than {boxes.agree:g} (dotted) count as different and get a second round.",
        paint=row_chart(rows, scale, limits=(34, 18)),
        inches=(1.0 + 0.34 * len(rows), 1.1 + 0.34 * len(rows)),
    )
