"""The text of the page, from the results alone: the lead, the comparisons, the methods."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from strobe.analyses.comparison import Comparison
from strobe.analyses.model_results import ClassificationResult, DetectionResult, ModelResult
from strobe.analyses.trend import ModelTrend
from strobe.core.codec import encode
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.headline import SUSPECT
from strobe.report.story_background import background_lead, ladder
from strobe.report.story_generator import generator_lead, granular
from strobe.report.story_people import people_lead
from strobe.report.story_variants import variants_lead
from strobe.report.view import View
from strobe.report.wording import better_first, counted, is_known, is_sure, measured, plain_number, value_of

__all__ = ["MOST_PAIRS", "compared", "comparisons", "facts", "failures", "lead", "off_the_line", "run_details"]

M = TypeVar("M", bound=ModelResult)

MOST_PAIRS = 60
"""The most rows of the comparison on the page; with many models the rest is in tables/comparison.csv."""


def lead(view: View) -> tuple[str, str]:
    """Return the page's first sentence and the one below it."""
    words = view.words
    scored = _scored(view.classifiers)
    if scored:
        if all(one.acc_orig.value == 0 for one in scored.values()):
            return _all_wrong(list(scored), view)
        doubted = {name: warning for name, one in scored.items() if (warning := _warning(one))}
        if len(doubted) == len(scored):
            return _no_answers(doubted, view)
        if doubted:  # a model with one constant answer holds on many sets, which is not a finding
            head, lede = lead(replace(view, results=replace(view.results, models=_without(view, doubted))))
            left = "it is left out of" if len(doubted) == 1 else "they are left out of"
            also = " ".join(_told(name, warning, view) for name, warning in doubted.items())
            return head, f"{lede} {also} So {left} this sentence."
        first, best = next(iter(scored.items()))
        if (searched := granular(view)) is not None:
            return generator_lead(searched)
        if (rungs := ladder(view)) is not None:
            return background_lead(rungs, view)
        if view.variants:
            return variants_lead(view, first, best)
        if words.is_still:
            return _still_lead(view, {name: one.acc_orig for name, one in scored.items()})
        sets = f"the {counted(best.acc_pmk.n, 'set')} from {view.sources}"
        head = (
            f"{printable(first)} gets {measured(best.acc_orig)} of the anchors right. Ask it about {words.around}, and "
            f"it holds on {measured(best.acc_pmk)} of {sets}."
            if value_of(best.acc_orig) > value_of(best.acc_pmk)
            else f"{printable(first)} does not flicker here: it is right on {measured(best.acc_orig)} of the anchors, "
            f"and on all frames of as many of {sets}."
        )
        return head, _lede(scored, view)
    for name, one in _scored(view.detectors).items():
        if words.is_still:
            return (
                f"{printable(name)} reaches {measured(one.map_orig)} mAP on {view.sources}.",
                f"mAP at {_overlap(one)}.",
            )
        head = (
            f"{printable(name)} reaches {measured(one.map_orig)} mAP on the anchors of {view.sources}. On the worst of "
            f"{words.around}, it reaches {measured(one.map_pmk)}."
        )
        return head, f"mAP at {_overlap(one)}; the worst {words.frames} {words.within}."
    if (people := people_lead(view)) is not None:
        return people
    return "Nothing was scored.", "No model has a score in these results; see “How it was made” for what was asked."


def _warning(model: ClassificationResult) -> str | None:
    return model.answers.warning if model.answers is not None and model.answers.is_idle else None


def _without(view: View, names: Mapping[str, str]) -> dict[str, ModelResult]:
    return {name: one for name, one in view.results.models.items() if name not in names}


def _told(name: str, warning: str, view: View) -> str:
    return view.words.say(f"{printable(name)}: {warning}.", names=[name])


def _no_answers(doubted: Mapping[str, str], view: View) -> tuple[str, str]:
    """Return the lead of a run whose models are no evidence on flicker: a constant answer, or no better than that."""
    who = f"{printable(next(iter(doubted)))} is not" if len(doubted) == 1 else f"None of the {len(doubted)} models is"
    head = f"{who} shown to do better than one constant answer, so these figures say little."
    return head, " ".join(_told(name, warning, view) for name, warning in doubted.items())


def _scored(models: Mapping[str, M]) -> dict[str, M]:
    return {name: one for name, one in models.items() if is_known(*one.headline[:2])}


def _still_lead(view: View, found: Mapping[str, Estimate]) -> tuple[str, str]:
    """Return the lead for sets of a single image: accuracy and its interval, and nothing about change."""
    best = max(found, key=lambda name: value_of(found[name]))
    head = f"{printable(best)} gets {measured(found[best])} of {view.pictures(found[best].n)} right."
    if len(found) == 1:
        return head, "Every image is asked about once and stands alone."
    rest = [measured(one) for name, one in sorted(found.items(), key=lambda one: -value_of(one[1])) if name != best]
    others = f"the other gets {rest[0]}" if len(rest) == 1 else f"the others get {rest[-1]} to {rest[0]}"
    if len(rest) > 1 and rest[0] == rest[-1]:
        others = f"the others get {rest[0]} each"
    most = (
        "None of the {} models is right more often"
        if rest[0] == measured(found[best])
        else "Of {} models it is right most often"
    )
    return head, f"{most.format(len(found))}; {others}."


def _all_wrong(names: list[str], view: View) -> tuple[str, str]:
    """Return the lead of a run in which no anchor is right: no finding about flicker, and most likely a mistake."""
    who = f"{printable(names[0])} is" if len(names) == 1 else f"All {len(names)} models are"
    if view.variants or view.words.is_still:
        return f"{who} wrong on every image.", SUSPECT
    return f"{who} wrong on every anchor.", f"So nothing can flicker here. {SUSPECT}"


def _overlap(model: DetectionResult) -> str:
    """Return the overlap at which a box counts, in words."""
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
            return f"The difference, {measured(one.drop, 'points')}, is what flicker {words.within} costs it."
        gone = "none is" if not lost else "1 is" if lost == 1 else f"{plain_number(lost)} are"
        cost = f"a drop of {measured(one.drop, 'points')}"
        return f"Of {counted(right, 'right answer')}, {gone} lost {words.within}: {cost}."
    drops = {name: one.drop for name, one in models.items() if is_known(one.drop)}
    # Not "the most robust": the model that holds most sets may also be the one that loses most.
    text = f"None of the other {len(models) - 1} models holds on more sets. "
    if len(models) == 2:
        text = "The other model does not hold on more sets. "
    if not drops:
        return text.rstrip()
    worst, least = (pick(drops, key=lambda name: value_of(drops[name])) for pick in (max, min))
    if drops[worst].value == drops[least].value:
        same = (
            f"The drop of each is {measured(drops[worst], 'points')}"
            if drops[worst].value
            else "None of them loses an answer"
        )
        return text + f"{same} {words.within}."
    low, high = (f"{measured(drops[name], 'points')} ({printable(name)})" for name in (least, worst))
    return text + f"The drop runs from {low} to {high} {words.within}."


def comparisons(view: View) -> tuple[list[Comparison], int]:
    """Return the rows of the comparison table, whole sets and significant ones first, and the number omitted."""
    order = {"acc_pmk": 0, "drop": 1, "acc_orig": 2, "map_pmk": 3, "map_drop": 4, "map_orig": 5}
    still = ("acc_orig", "map_orig")
    every = [row for row in view.results.comparison if not view.words.is_still or row.metric in still]
    rows = sorted(view.listed(every, MOST_PAIRS), key=lambda row: (order[row.metric], not is_sure(row)))[:MOST_PAIRS]
    shown = [replace(better_first(row), sentence=view.words.say(row.sentence, names=(row.a, row.b))) for row in rows]
    return shown, len(every) - len(shown)


def compared(view: View, left_out: int) -> str:
    """Return whose comparisons are listed."""
    drawn = len(view.drawn(view.classifiers)) + len(view.drawn(view.detectors))
    is_part = left_out and drawn < len(view.results.models)
    return f"Pairs of the {drawn} models that are drawn," if is_part else "Every pair of models"


def failures(view: View, run: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the requested models that could not be run, with the reason, from run.json."""
    models = run.get("models")
    known = {view.whole.get(name, name) for name in view.results.models}
    return [
        (printable(name), printable(one.get("error") or "no reason is known", limit=500).removeprefix(f"{name}: "))
        for name, one in (models.items() if isinstance(models, Mapping) else ())
        if isinstance(one, Mapping) and one.get("status") == "failed" and name not in known
    ]


def off_the_line(view: View) -> list[ModelTrend]:
    """Return effective robustness of every model, if a line could be fitted, the highest above it first."""
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
    """Return who voted, their agreement and care, if people did."""
    review = view.results.review
    return "" if review is None else f": {review.text()}"


def facts(view: View, run: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return how the numbers were computed, as pairs of name and text."""
    dataset, settings = view.results.dataset, view.results.settings
    plain = view.words.is_still and dataset.kinds is not None
    size = f"{counted(dataset.n_sets, 'set')}, {view.sources}, {counted(dataset.n_frames, view.words.picture)}"
    if view.variants:
        made = f"{counted(dataset.n_frames, 'image')} in all"
        size = f"{view.pictures(view.n_pictures)}, {counted(dataset.n_sets, 'set')}, {made}"
    out = [
        ("Dataset", dataset.name if plain else f"{dataset.name}, k = {dataset.k}, axis {dataset.axis}"),
        ("Dataset digest", dataset.digest),
        ("Size", view.sources if plain and not view.variants else size),
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
    """Return each model's preprocessing as JSON, for a collapsed section."""
    models = run.get("models")
    known = models if isinstance(models, Mapping) else {}
    out = [
        (f"{printable(name)}: weights and preprocessing", _pretty(facts))
        for name in view.results.models
        if (facts := known.get(view.whole.get(name, name)))
    ]
    return [*out, ("Settings of the score", _pretty(encode(view.results.settings)))]


def _pretty(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)[:20_000]
