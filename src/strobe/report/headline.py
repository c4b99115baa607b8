"""The headline table on the page and on a terminal: its measures for each kind of data, and the notes below it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from strobe.analyses.answer_patterns import note_lines
from strobe.analyses.ceilings import Ceiling
from strobe.analyses.comparison import Change
from strobe.analyses.measures import Measure
from strobe.analyses.model_results import (
    CLASSIFICATION,
    DETECTION,
    ClassificationResult,
    DetectionResult,
    ModelResult,
)
from strobe.analyses.published import printed_on
from strobe.analyses.results import Results
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.tasks import Task
from strobe.metrics.bootstrap import FEW_VIDEOS
from strobe.report.study import applying
from strobe.report.view import Lines, View, in_short_names
from strobe.report.wording import (
    aligned,
    counted,
    in_subset,
    is_known,
    level_text,
    percent,
    plain_number,
    some,
    with_interval,
)
from strobe.studies.variants.records import MeanScore

SUSPECT = (
    "If a model is never right, its classes are usually in a different order from the dataset's, or its preprocessing "
    "differs from training (size, normalisation, channel order). Check labels and preprocessing first."
)


_OF: dict[Task, Sequence[Measure[Any]]] = {Task.CLASSIFICATION: CLASSIFICATION, Task.DETECTION: DETECTION}
_ALONE = {Task.CLASSIFICATION: ("accuracy", "acc_orig"), Task.DETECTION: ("mAP", "map_orig")}
"""The label of the first measure if no image is changed, and the name of this measure in the files."""


def measures(view: View, task: Task) -> list[Measure[Any]]:
    """Return the measures of a task's headline table, as the page and the terminal name them for this data."""
    known = [one for one in _OF[task] if one.headline]
    name, key = _ALONE[task]
    if view.words.is_still:
        meaning = "Share of images that are right" if task is Task.CLASSIFICATION else "Mean average precision"
        alone = Measure(name, f"{meaning} ({key} in the files).", known[0].of)
        return [alone, *(one for one in known if one.name in ("localization_orig", "coverage"))]
    if view.variants and task is Task.CLASSIFICATION:
        last = last_level(view) or "—"
        return [
            Measure(name, f"Share of original images that are right ({key} in the files).", known[0].of),
            Measure(
                f"worst, to {last}",
                "Share of images that are right under every variant up to this level (acc_pmk in the files).",
                known[1].of,
            ),
            Measure(f"drop, to {last}", "Accuracy − worst.", known[2].of, more_is_worse=True),
            Measure(f"mean, at {last}", "Mean over variants of the share that is right at this level.", _mean_at),
            *(one for one in known if one.name == "coverage"),
        ]
    return known


def _mean_at(model: ClassificationResult) -> Estimate:
    mean = top_mean(model)
    return Estimate(value=None, low=None, high=None, n=0, reason="no mean") if mean is None else mean.at


def last_level(view: View) -> str:
    """Return the highest scored level in words, or an empty text if no worst case is computed."""
    one = next((variant for variant in view.variants.values() if variant.role == "same" and variant.levels), None)
    k = view.results.dataset.k
    return "" if one is None or not k else level_text(one, one.levels[min(k, len(one.levels)) - 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineTable:
    """The headline of one task, ready for the template. `colours` are the colours of the models in the figures."""

    title: str
    caption: str
    columns: Sequence[Measure[Any]]
    models: Mapping[str, ModelResult]
    colours: Mapping[str, int]
    picture: str
    notes: Sequence[str]
    how: str


_PICTURES = {
    Task.CLASSIFICATION: "Blue circle: acc_orig. Orange diamond: acc_pmk",
    Task.DETECTION: "Blue circle: map_orig. Orange diamond: map_pmk",
}


def headline(view: View, task: Task) -> HeadlineTable:
    """Return the headline table of one task's models."""
    models, columns = view.of(task), measures(view, task)
    drawn = [one.headline.orig if view.words.is_still else one.headline.pmk for one in models.values()]
    bars = any(one.low is not None for one in drawn)
    if view.words.is_still:
        picture = f"The dot is the {columns[0].name}{', and the bar is its interval' if bars else ''}."
    else:
        varied = "Blue circle: original images. Orange diamond: worst of their variants"
        picture = f"{varied if view.variants else _PICTURES[task]}{', with its interval' if bars else ''}."
    known = {column.name for column in columns if any(is_known(column.of(model)) for model in models.values())}
    used = [one for i, one in enumerate(columns) if (i < 3 and not one.seldom) or one.name in known]
    bounded = any(one.of(model).low is not None for one in used for model in models.values())
    return HeadlineTable(
        title=str(task).capitalize(),
        caption=f"{_size(view)}.",
        columns=used,
        models=models,
        colours={name: index for index, name in enumerate(view.drawn(models), start=1)},
        picture=picture,
        how="Values are in per cent, with 95 % intervals below." if bounded else "Values are in per cent.",
        notes=_page_notes(models, view),
    )


def _size(view: View) -> str:
    """Return the number of scored sets or images, and the noun for this unit."""
    data, words = view.results.dataset, view.words
    if view.variants:
        n = view.n_pictures
        made = f"{counted(data.n_sets, 'set')} (one image under one variant), {counted(data.n_frames, 'image')}"
        return (
            f"{view.pictures(n)} under {counted(len(view.variants), 'variant')}: {made} in total. The table "
            f"counts each original image once (n = {plain_number(n)})"
        )
    if words.is_still and data.kinds:
        return f"{view.sources}, each scored once"
    return f"{counted(data.n_sets, 'set')} from {view.sources}, {counted(data.n_frames, words.picture)}"


def few_videos(view: View) -> str:
    """Return a note if some intervals have too few videos.

    Return an empty text if all have enough, or if there are no intervals.
    """
    known = [figure for model in view.results.models.values() for figure in model.headline if figure.low is not None]
    if not known or view.results.dataset.n_videos >= FEW_VIDEOS:
        return ""
    return view.words.say(f"fewer than {FEW_VIDEOS} videos: intervals of means and differences are too narrow")


def notes(models: Mapping[str, ModelResult], view: View) -> list[str]:
    """Return the notes below the table of a task's models, as lines without a full stop."""
    cautions = [text for text in (*view.doubts, *view.results.dataset.cautions(), *note_lines(models)) if text]
    lines = [few_videos(view), *(view.words.say(text, names=models) for text in cautions)]
    judged = {name: model for name, model in models.items() if isinstance(model, ClassificationResult)}
    never = [printable(name) for name, model in judged.items() if model.acc_orig.value == 0]
    if never and len(never) < len(models):
        noun = "image" if view.variants or view.words.is_still else "anchor"
        lines.append(f"{some(never)} {'is' if len(never) == 1 else 'are'} wrong on every {noun}. {SUSPECT}")
    lines += [f"{printable(name)}: {stopped(model)}" for name, model in judged.items() if model.stopped_early]
    lines += [_unscored(name, model, view) for name, model in models.items() if model.unscored.sets]
    lines += [*out_of_reach(models), *published_means(models)]
    lines += [_ceiling(model.ceiling, view) for model in judged.values() if model.ceiling]
    return list(dict.fromkeys(filter(None, lines)))


def _page_notes(models: Mapping[str, ModelResult], view: View) -> list[str]:
    """Return the notes on the page as sentences, with the accuracy among all classes and published figures."""
    figures = [figure for model in models.values() for figure in model.headline if is_known(figure)]
    reason = next((figure.reason or "they are switched off" for figure in figures if figure.low is None), None)
    lines = [] if reason is None else [f"no intervals: {view.words.say(printable(reason))}"]
    lines += [view.words.say(figure.reason) for figure in figures if figure.reason and figure.low is not None]
    lines += notes(models, view)
    for name, model in view.drawn(models).items():
        if isinstance(model, ClassificationResult) and (of := model.all_classes) is not None:
            originals = of.pictures[0]
            lines.append(
                f"{printable(name)} is right on {with_interval(originals.own)} % if it chooses among the {of.n_own:,} "
                f"classes of the data, and on {with_interval(originals.all)} % if it chooses among all its "
                f"{of.n_all:,} classes"
            )
    if any(isinstance(model, ClassificationResult) for model in models.values()):
        lines.append(printed_on(view.results.dataset.name))
    names = tuple(map(printable, models))
    texts = [line if line.startswith(names) else f"{line[:1].upper()}{line[1:]}" for line in lines]
    return [text if text.endswith((".", "?")) else f"{text}." for text in dict.fromkeys(filter(None, texts))]


def _unscored(name: str, model: ModelResult, view: View) -> str:
    """Return how many sets have no prediction, and between which bounds their results could move the accuracy."""
    text = f"{printable(name)}: {counted(model.unscored.sets, 'image' if view.words.is_still else 'set')} unscored "
    text += f"({counted(model.unscored.frames, 'frame')} without a prediction)"
    if not isinstance(model, ClassificationResult) or not model.bounds:
        return text
    low, high = model.bounds.acc_pmk
    figure = "accuracy" if view.words.is_still else "acc_pmk"
    return f"{text}; {figure} between {100 * low:.1f} (all of them wrong) and {100 * high:.1f} (all right)"


def _ceiling(top: Ceiling, view: View) -> str:
    """Return how much accuracy a model loses because its label space lacks some classes of the dataset."""
    text = f"{printable(top.source)} has no class for {printable(some(top.childless), limit=600)}: "
    text += f"{plain_number(top.anchors_out_of_reach)} of {plain_number(top.n)} "
    if view.words.is_still:
        return f"{text}images cannot be right, so accuracy is at most {100 * top.acc_orig:.1f}"
    return (
        f"{text}anchors cannot be right, so acc_orig is at most {100 * top.acc_orig:.1f} and acc_pmk at most "
        f"{100 * top.acc_pmk:.1f}"
    )


def published_means(models: Mapping[str, ModelResult]) -> list[str]:
    """Return a line for each model whose mean over corruptions has others than the published ones of ImageNet-C."""
    tops = {name: top_mean(model) for name, model in models.items() if isinstance(model, ClassificationResult)}
    return [
        f"{printable(name)}: at level {top.level:g}, the mean is {percent(top.published)} over ImageNet-C's published "
        f"corruptions ({top.published.n}) and {percent(top.at)} over all {top.at.n}"
        for name, top in tops.items()
        if top is not None and top.published is not None
    ]


def out_of_reach(models: Mapping[str, ModelResult]) -> list[str]:
    """Return a line for each detector that cannot find some classes, with these classes and its highest possible
    mAP.
    """
    tops = [
        model.ceiling for model in models.values() if isinstance(model, DetectionResult) and model.ceiling is not None
    ]
    return list(
        dict.fromkeys(
            f"{printable(top.source)} has no class for {printable(some(top.childless), limit=600)}: "
            f"{plain_number(top.objects_out_of_reach)} of {plain_number(top.n_objects)} objects cannot be found, so "
            f"map_orig is at most {percent(top.map_orig)}"
            for top in tops
        )
    )


def stopped(model: ClassificationResult) -> str:
    """Return the note on a model that was stopped early, or an empty text for other models."""
    early = model.stopped_early
    if early is None:
        return ""
    return f"stopped early, {early.text()}; figures that need every frame are missing (run without --stop-early)"


def top_mean(model: ClassificationResult) -> MeanScore | None:
    """Return the mean over variants at the highest level, if the variants share a scale."""
    means = [mean for mean in model.means or () if is_known(mean.at)]
    return max(means, key=lambda one: one.level) if len({(mean.axis, mean.unit) for mean in means}) == 1 else None


MOST_NAMED_PAIRS, MOST_PAIRS, MOST_NAMES = 6, 30, 10
"""The largest numbers of model pairs with named sets, of pairs with counts, and of names in one line."""


def print_headline(results: Results, file: IO[str]) -> None:
    """Print the headline table of every task in the results to `file`."""
    if not getattr(file, "isatty", lambda: False)():  # a script may read the output line by line
        for title, columns, rows, notes in headline_lines(results):
            file.writelines(f"{line}\n" for line in [title, *aligned([columns, *rows]), *notes])
        return

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=file, highlight=False)
    for title, columns, rows, notes in headline_lines(results):
        table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
        for index, column in enumerate(columns):
            table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
        for note in notes:
            console.print(Text(note, style="dim"))


def change_lines(changes: Sequence[Change]) -> Iterator[str]:
    """Return which sets changed between models, by name if there are few pairs. tables/sets has the rest."""
    for change in changes[:MOST_PAIRS]:
        yield change.sentence()
        if len(changes) <= MOST_NAMED_PAIRS:
            kinds = (change.newly_held, change.held), (change.newly_broken, change.broken)
            for what, (n, names) in zip(change.words, kinds, strict=True):
                shown = [printable(name) for name in names[:MOST_NAMES]]
                rest = [f"{n - len(shown)} more"] if n > len(shown) else []
                if n:
                    yield f"  {what}: {', '.join([*shown, *rest])}"
    if len(changes) > MOST_PAIRS:
        yield f"{len(changes) - MOST_PAIRS} more pairs; tables/sets of a scored run lists every model on every set."


_BRIEF = 3
"""The number of measures shown with their interval. `flip_rate` and `coverage` follow without intervals."""


def headline_lines(results: Results) -> list[Lines]:
    """Return the title, the column names, the text rows and the notes for each task in the results."""
    results, _ = in_short_names(results)
    data, view = results.dataset, View(results=results)
    about = f"{counted(data.n_sets, 'set')} of {view.sources}"
    if view.variants:
        about = (
            f"{view.pictures(view.n_pictures)} under {counted(len(view.variants), 'variant')}, each image counted once"
        )
    elif view.words.is_still and data.kinds:
        about = view.sources
    about += in_subset(results.settings.subset)
    out: list[Lines] = []
    if not view.words.is_still and not view.variants:
        about += f", k = {data.k}"
    for task in Task:
        models = view.of(task)
        if not models:
            continue
        named = measures(view, task)
        full = named[:1] if view.words.is_still else named if view.variants else named[:_BRIEF]
        brief = [one for one in named if one.brief and one not in full]
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
            # Omit a column in which every cell is empty or zero.
            if all(row[place] in ("—", "0") for row in rows):
                columns = [cell for i, cell in enumerate(columns) if i != place]
                rows = [[cell for i, cell in enumerate(row) if i != place] for row in rows]
        bounded = any("[" in cell for row in rows for cell in row[1:])
        lines = [f"% [95 % interval], {about}" if bounded else f"%, {about}: {_no_intervals(view, models, full)}"]
        lines += notes(models, view)
        lines += [note for study in applying(view) for note in study.notes(view, task)]
        out.append((f"{printable(data.name)}: {task}", columns, rows, lines))
    for study in applying(view):
        for title, columns, rows, lines in study.lines(view):
            out.append((f"{printable(data.name)}: {title[:1].lower()}{title[1:]}", columns, rows, lines))
    return [view.cautioned(table) for table in out]


def _no_intervals(view: View, models: Mapping[str, ModelResult], columns: Sequence[Measure[Any]]) -> str:
    """Return the first recorded reason why no figure of the table has an interval."""
    figures = (column.of(model) for model in models.values() for column in columns)
    reason = next((figure.reason for figure in figures if figure.value is not None and figure.reason), None)
    return f"no intervals ({view.words.say(printable(reason, limit=200))})" if reason else "no intervals"


def _value(found: Estimate) -> str:
    """Return the value without its bounds, which are in results.json, so that the table stays narrow."""
    return "—" if found.value is None else f"{100 * found.value:.1f}"
