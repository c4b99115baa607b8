"""The words and tables of the page, from the results alone: the lead, the headline table, how it was made."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from strobe.analyses.comparison import Comparison
from strobe.analyses.model_results import Ceiling, ClassificationResult, DetectionResult, ModelResult
from strobe.analyses.trend import ModelTrend
from strobe.core.codec import encode
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.story_people import people_lead
from strobe.report.story_variants import level_text, top_mean, variants_lead
from strobe.report.view import View
from strobe.report.wording import (
    counted,
    is_known,
    is_sure,
    percent,
    plain_number,
    points,
    some,
    value_of,
)

__all__ = [
    "MOST_PAIRS", "HeadlineTable", "classification", "comparisons", "detection", "facts", "failures", "lead",
    "off_the_line", "run_details",
]  # fmt: skip

M = TypeVar("M", bound=ModelResult)

MOST_PAIRS = 60
"""Rows of the comparison on the page; with many models the rest is in tables/comparison.csv."""


def lead(view: View) -> tuple[str, str]:
    """The page's first sentence and the one below it."""
    words = view.words
    scored = _scored(view.classifiers)
    if scored:
        if all(one.acc_orig.value == 0 for one in scored.values()):
            return _all_wrong(list(scored), view)
        first, best = next(iter(scored.items()))
        if view.variants:
            return variants_lead(view, first, best)
        if words.is_still:
            return _still_lead(view, {name: one.acc_orig for name, one in scored.items()})
        orig, kept = value_of(best.acc_orig), value_of(best.acc_pmk)
        head = (
            f"{printable(first)} gets {percent(orig)} of the anchors right. Ask it about {words.around}, and it "
            f"holds on {percent(kept)} of the sets."
            if orig > kept
            else f"{printable(first)} does not flicker here: right on {percent(orig)} of the anchors and of the sets."
        )
        return head, _lede(scored, view)
    for name, one in _scored(view.detectors).items():
        if words.is_still:
            found = f"{printable(name)} reaches {percent(one.map_orig)} mAP on {view.sources}."
            return found, f"{_between(one.map_orig)}mAP at {_overlap(one)}."
        head = (
            f"{printable(name)} reaches {percent(one.map_orig)} mAP. On the worst of {words.around}, "
            f"{percent(one.map_pmk)} are left."
        )
        return head, f"mAP at {_overlap(one)}; the worst of the {words.frames} {words.within}."
    if (people := people_lead(view)) is not None:
        return people
    return "Nothing was scored.", "No model has a score in these results; see “How it was made” for what was asked."


def _scored(models: Mapping[str, M]) -> dict[str, M]:
    return {name: one for name, one in models.items() if is_known(*one.headline[:2])}


def _still_lead(view: View, found: Mapping[str, Estimate]) -> tuple[str, str]:
    """Pictures that stand alone: how often they are right, how sure that is, and nothing about what changes."""
    best = max(found, key=lambda name: value_of(found[name]))
    of = f"of {view.sources}" if found[best].n == view.results.dataset.n_videos else f"of {found[best].n} pictures"
    head = f"{printable(best)} gets {percent(found[best])} {of} right."
    if len(found) == 1:
        return head, f"{_between(found[best])}Every picture is asked about once and stands alone."
    rest = [percent(one) for name, one in sorted(found.items(), key=lambda one: -value_of(one[1])) if name != best]
    others = f"the other gets {rest[0]}" if len(rest) == 1 else f"the others get {rest[-1]} to {rest[0]}"
    return head, f"{_between(found[best])}Of {len(found)} models it is right most often; {others}."


def _between(found: Estimate) -> str:
    """The interval of a share as the beginning of a sentence, where there is one."""
    if found.low is None:
        return ""
    return f"With 95 % confidence between {percent(found.low)} and {percent(found.high)}. "


def _all_wrong(names: list[str], view: View) -> tuple[str, str]:
    """A run in which no anchor is right: no finding about flicker, and most likely a mistake."""
    who = f"{printable(names[0])} is" if len(names) == 1 else f"All {len(names)} models are"
    if view.variants or view.words.is_still:
        return f"{who} wrong on every picture.", _SUSPECT
    return f"{who} wrong on every anchor.", f"So nothing can flicker here. {_SUSPECT}"


_SUSPECT = (
    "A model that is never right usually has its classes in another order than the dataset, or is fed in another way "
    "than it was trained (size, normalisation, channel order): check labels and preprocessing before reading on."
)


def _overlap(model: DetectionResult) -> str:
    """At which overlap a box counts, in words."""
    iou = model.settings.iou
    if isinstance(iou, str):
        return "the ILSVRC-VID overlap"
    ends = f"{min(iou):g} to {max(iou):g}" if len(iou) > 1 else f"{iou[0]:g}"
    return f"an overlap (IoU) of {ends}"


def _lede(models: Mapping[str, ClassificationResult], view: View) -> str:
    words = view.words
    if len(models) == 1:
        (one,) = models.values()
        right, lost = one.acc_orig.count, one.drop.count
        if not right or lost is None:
            return f"The difference, {points(one.drop)}, is what flicker {words.within} costs it."
        gone = "none is" if not lost else "1 is" if lost == 1 else f"{plain_number(lost)} are"
        return f"Of {counted(right, 'right answer')}, {gone} lost by a look at the {words.frames} {words.within}."
    drops = {name: one.drop.value or 0.0 for name, one in models.items()}
    worst = max(drops, key=lambda name: drops[name])
    least = min(drops, key=lambda name: drops[name])
    # Not "the most robust": the model that holds most may well be the one that loses most.
    text = f"None of the {len(models)} models holds on more sets. "
    if drops[worst] == drops[least]:
        same = f"The drop of each is {points(drops[worst])}" if drops[worst] else "None of them loses an answer"
        return text + f"{same} {words.within}."
    low = f"{points(drops[least])} ({printable(least)})"
    return text + f"The drop runs from {low} to {points(drops[worst])} ({printable(worst)}) {words.within}."


@dataclass(frozen=True, slots=True)
class Column(Generic[M]):
    """A column of a headline table: its name, what it means, and its figure of a model."""

    name: str
    title: str
    of: Callable[[M], Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineTable(Generic[M]):
    """The headline of one task, ready for the template; `colours` are those of the models that figures show."""

    title: str
    caption: str
    columns: Sequence[Column[M]]
    models: Mapping[str, M]
    colours: Mapping[str, int]
    picture: str
    notes: Sequence[str]
    how: str = "Per cent, with 95 % intervals below."


def classification(view: View) -> HeadlineTable[ClassificationResult]:
    """The headline table of the classifiers."""
    columns: list[Column[ClassificationResult]] = [
        Column("acc_orig", "Share of anchors that are right", lambda one: one.acc_orig),
        Column(
            f"acc_{view.k}",
            f"Share of sets right on the anchor and all {view.words.frames} of the set",
            lambda one: one.acc_pmk,
        ),
        Column("Drop", "acc_orig − acc_pm-k", lambda one: one.drop),
        Column("Mean frame", "Share of all frames that are right", lambda one: one.mean_frame),
        Column("Flip rate", "Share of neighbouring pairs with different predictions", lambda one: one.flip_rate),
    ]
    picture = "Round blue: anchors; orange diamond: whole sets, with its interval."
    if view.words.is_still:
        columns = [Column("Accuracy", "Share of pictures that are right", lambda one: one.acc_orig)]
        picture = "The dot is the accuracy, the bar its interval."
    elif view.variants:
        last = _last_level(view)
        columns = [
            Column("Accuracy", "Share of pictures that are right, as they are", lambda one: one.acc_orig),
            Column(f"Worst, to {last}", "Share right under every variant up to there", lambda one: one.acc_pmk),
            Column("Drop", "Accuracy − worst", lambda one: one.drop),
            Column(f"Mean, at {last}", "Mean over variants of the share right at that level", _mean_at),
        ]
        picture = (
            "Round blue: the pictures as they are; orange diamond: the worst of their variants, with its interval."
        )
    return _table(view, "Classification", view.classifiers, columns, picture)


def _mean_at(model: ClassificationResult) -> Estimate:
    mean = top_mean(model)
    return Estimate(value=None, low=None, high=None, n=0, reason="no mean") if mean is None else mean.at


def _last_level(view: View) -> str:
    """The level scored up to, in words."""
    one = next((one for one in view.variants.values() if one.role == "same" and one.levels), None)
    return "—" if one is None else level_text(one, one.levels[min(view.results.dataset.k, len(one.levels)) - 1])


def detection(view: View) -> HeadlineTable[DetectionResult]:
    """The headline table of the detectors."""
    columns: list[Column[DetectionResult]] = [
        Column("mAP", "Mean average precision on the anchors", lambda one: one.map_orig),
        Column(f"mAP {view.k}", "On the member of each set with the lowest per-frame AP", lambda one: one.map_pmk),
        Column("Drop", "mAP − mAP pm-k", lambda one: one.drop),
        Column("Localization", "Classes merged, on the anchors", lambda one: one.localization.map_orig),
        Column(
            f"Localization {view.k}",
            "Classes merged, worst frame by localization AP",
            lambda one: one.localization.map_pmk,
        ),
        Column("Coverage", "Share of frames with at least one box", lambda one: one.as_classifier.coverage),
    ]
    picture = "Round blue: the anchors; orange diamond: the worst frames."
    if view.words.is_still:
        columns = [columns[0], columns[3], columns[5]]
        picture = "The dot is the mAP, the bar its interval."
    return _table(view, "Detection", view.detectors, columns, picture)


def _table(
    view: View, title: str, models: Mapping[str, M], columns: Sequence[Column[M]], picture: str
) -> HeadlineTable[M]:
    used = [one for i, one in enumerate(columns) if i < 3 or any(is_known(one.of(model)) for model in models.values())]
    return HeadlineTable(
        title=title,
        caption=f"{_size(view)}. Click a column to sort.",
        columns=used,
        models=models,
        colours={name: place for place, name in enumerate(view.drawn(models), start=1)},
        picture=picture,
        notes=_notes(models, view),
    )


def _size(view: View) -> str:
    """How much was scored, and what is counted: sets of a video, or pictures."""
    data, words = view.results.dataset, view.words
    if view.variants:
        n = max((one.headline.orig.n for one in view.results.models.values()), default=0)
        made = f"{counted(data.n_sets, 'set')} (one picture under one variant), {counted(data.n_frames, 'picture')}"
        return f"{view.sources} under {counted(len(view.variants), 'variant')}: {made} in all. The table counts " \
               f"each picture once (n = {plain_number(n)}), whatever was done to it"  # fmt: skip
    if words.is_still and data.kinds:
        return f"{view.sources}, each asked about once"
    return f"{counted(data.n_sets, 'set')} from {view.sources}, {counted(data.n_frames, words.picture)}"


def _notes(models: Mapping[str, ModelResult], view: View) -> list[str]:
    notes = []
    first = next((one.headline.pmk for one in models.values() if is_known(one.headline.pmk)), None)
    if first and first.low is None:
        notes.append(f"No intervals: {view.words.say(printable(first.reason or 'none was asked for'))}.")
    marks = [
        figure.reason
        for one in models.values()
        for figure in one.headline
        if is_known(figure) and figure.low is not None
    ]
    said = [note for one in models.values() for note in one.notes or ()]
    texts = dict.fromkeys([*view.doubts, view.results.dataset.unreviewed(), *marks, *said])
    notes += [view.words.say(f"{text[0].upper()}{text[1:]}.") for text in texts if text]
    judged = {name: one for name, one in models.items() if isinstance(one, ClassificationResult)}
    never = [name for name, one in judged.items() if one.acc_orig.value == 0]
    if never and len(never) < len(models):
        is_are = "is" if len(never) == 1 else "are"
        thing = "picture" if view.variants or view.words.is_still else "anchor"
        notes.append(f"{some([printable(name) for name in never])} {is_are} wrong on every {thing}. {_SUSPECT}")
    for name, one in models.items():
        if one.unscored.sets:
            text = (
                f"{printable(name)}: {plain_number(one.unscored.sets)} sets, {plain_number(one.unscored.frames)} "
                "frames, have no prediction and are left out, not counted as wrong"
            )
            if name in judged and (bounds := judged[name].bounds):
                low, high = bounds.acc_pmk
                name = "accuracy" if view.words.is_still else f"acc_{view.k}"
                text += f"; with them {name} would lie between {percent(low)} and {percent(high)}"
            notes.append(text + ".")
    return notes + list(dict.fromkeys(_ceiling(one.ceiling, view) for one in judged.values() if one.ceiling))


def _ceiling(top: Ceiling, view: View) -> str:
    """What it costs that a model's own space lacks some of the dataset's classes."""
    classes = printable(some(top.childless), limit=600)
    lost, n = plain_number(top.anchors_out_of_reach), plain_number(top.n)
    if view.words.is_still:
        most = f"pictures are out of reach, so accuracy can be at most {percent(top.acc_orig)}."
    else:
        most = (
            f"anchors are out of reach, so acc_orig can be at most {percent(top.acc_orig)} and acc_{view.k} at most "
            f"{percent(top.acc_pmk)}."
        )
    return f"{printable(top.source)} has no class for {classes}: {lost} of {n} {most}"


def comparisons(view: View) -> tuple[list[Comparison], int]:
    """The rows of the comparison table, whole sets first, what is beyond chance before the rest; how many are not."""
    order = {"acc_pmk": 0, "drop": 1, "acc_orig": 2, "map_pmk": 3, "map_drop": 4, "map_orig": 5}
    rows = sorted(view.results.comparison, key=lambda row: (order[row.metric], not is_sure(row)))
    if view.words.is_still:
        rows = [row for row in rows if row.metric in ("acc_orig", "map_orig")]
    rows = [replace(row, sentence=view.words.say(row.sentence)) for row in rows]
    return rows[:MOST_PAIRS], max(len(rows) - MOST_PAIRS, 0)


def failures(view: View, run: Mapping[str, object]) -> list[tuple[str, str]]:
    """The models that were asked for and could not be run, with the reason, by run.json."""
    models = run.get("models")
    return [
        (printable(name), printable(one.get("error") or "no reason is known", limit=500).removeprefix(f"{name}: "))
        for name, one in (models.items() if isinstance(models, Mapping) else ())
        if isinstance(one, Mapping) and one.get("status") == "failed" and name not in view.results.models
    ]


def off_the_line(view: View) -> list[ModelTrend]:
    """Effective robustness of every model, where a line could be fitted, the highest above it first."""
    found = view.results.trend
    models = () if isinstance(found, Missing) or view.words.is_still else found.models
    rows = [one for one in models if is_known(one.effective_robustness.linear, one.effective_robustness.logit)]
    return sorted(rows, key=lambda one: -value_of(one.effective_robustness.linear))


_LABELS = {"frame": "each frame with its own labels", "anchor": "each frame with its anchor’s labels"}
_REVIEW = {
    "none": "nobody has confirmed that the frames look the same",
    "release": "reviewed by people before release",
    "votes": "decided by the votes in the dataset folder",
}


def _quality(view: View) -> str:
    """Who voted, how alike and with what care, where people did."""
    review = view.results.review
    return "" if review is None else f": {review.text()}"


def facts(view: View, run: Mapping[str, object]) -> list[tuple[str, str]]:
    """How the numbers were made, as pairs of name and text."""
    dataset, settings = view.results.dataset, view.results.settings
    plain = view.words.is_still and dataset.kinds is not None
    out = [
        ("Dataset", dataset.name if plain else f"{dataset.name}, k = {dataset.k}, axis {dataset.axis}"),
        ("Dataset digest", dataset.digest),
        ("Size", view.sources if plain and not view.variants else f"{counted(dataset.n_sets, 'set')}, "
                 f"{view.sources}, {counted(dataset.n_frames, view.words.picture)}"),
        ("Review", view.words.say(_REVIEW[dataset.reviewed]) + _quality(view)),
        ("Labels", view.words.say(_LABELS[dataset.label_source])),
        ("Intervals", f"{settings.interval}, 95 %; seed of the bootstrap {settings.seed}"),
    ]  # fmt: skip
    if plain:
        out = [one for one in out if one[0] not in ("Review", "Labels")]
    if settings.merge and view.results.models:
        out.append(("Class merging", f"{settings.merge} over the model’s classes that make up one class here"))
    if settings.subset:
        out.append(("Subset", printable(settings.subset)))
    command, versions = run.get("command"), run.get("versions")
    if command:
        out.append(("Command", " ".join(map(str, command)) if isinstance(command, list) else str(command)))
    if isinstance(versions, Mapping):
        out.append(("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())))
    return [(name, printable(text, limit=1000)) for name, text in out]


def run_details(view: View, run: Mapping[str, object]) -> list[tuple[str, str]]:
    """What each model did with its input, folded away, as JSON."""
    models = run.get("models")
    known = models if isinstance(models, Mapping) else {}
    out = [
        (f"{printable(name)}: weights and preprocessing", _pretty(known[name]))
        for name in view.results.models
        if known.get(name)
    ]
    return [*out, ("Settings of the score", _pretty(encode(view.results.settings)))]


def _pretty(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)[:20_000]
