"""The text of the page, from the results alone: the lead, the comparisons, the methods."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from strobe.analyses.comparison import Comparison
from strobe.analyses.model_results import ModelResult
from strobe.core.codec import encode
from strobe.core.errors import printable
from strobe.report.headline import SUSPECT
from strobe.report.studies import decided
from strobe.report.view import View
from strobe.report.wording import better_first, counted, is_known, is_sure

M = TypeVar("M", bound=ModelResult)

MOST_PAIRS = 60
"""The largest number of rows of the comparison on the page. With many models, tables/comparison.csv has the rest."""


def lead(view: View) -> tuple[str, str]:
    """Return the page's first sentence and the sentence below it."""
    scored = _scored(view.classifiers)
    if scored:
        if all(one.acc_orig.value == 0 for one in scored.values()):
            return _all_wrong(list(scored), view)
        if doubted := _doubted(scored):
            return _beside_doubted(scored, doubted, "one constant answer", view)
    detectors = _scored(view.detectors)
    if not scored and (doubted := _doubted(detectors)):
        return _beside_doubted(detectors, doubted, "boxes that ignore the image", view)
    every: dict[str, ModelResult] = {**scored, **detectors}
    found = decided(view, lambda study: study.lead(view, every))
    if found is not None:
        return found
    return "Nothing was scored.", "No model has a score in these results. The section “Method” lists the settings."


def _doubted(models: Mapping[str, ModelResult]) -> dict[str, str]:
    """Return the warning on each model whose figures are weak evidence on flicker."""
    known = {name: one.answers for name, one in models.items() if one.answers is not None and one.answers.is_idle}
    return {name: warning for name, answers in known.items() if (warning := answers.warning)}


def _beside_doubted(
    models: Mapping[str, ModelResult], doubted: Mapping[str, str], than: str, view: View
) -> tuple[str, str]:
    """Return the lead for the remaining models. A doubted model is left out, because one constant answer holds many
    sets by chance.
    """
    if len(doubted) == len(models):
        return _no_answers(doubted, than, view)
    head, lede = lead(replace(view, results=replace(view.results, models=_without(view, doubted))))
    which = "This model is" if len(doubted) == 1 else "These models are"
    warnings = " ".join(_warning_text(name, warning, view) for name, warning in doubted.items())
    return head, f"{lede} {warnings} {which} excluded from this summary."


def _without(view: View, names: Mapping[str, str]) -> dict[str, ModelResult]:
    return {name: one for name, one in view.results.models.items() if name not in names}


def _warning_text(name: str, warning: str, view: View) -> str:
    return view.words.say(f"{printable(name)}: {warning}.", names=[name])


def _no_answers(doubted: Mapping[str, str], than: str, view: View) -> tuple[str, str]:
    """Return the lead if no model is shown to be better than a constant answer, or than boxes that ignore the image."""
    who = f"{printable(next(iter(doubted)))} is not" if len(doubted) == 1 else f"None of the {len(doubted)} models is"
    head = f"{who} shown to be better than {than}, so these results are weak evidence about flicker."
    return head, " ".join(_warning_text(name, warning, view) for name, warning in doubted.items())


def _scored(models: Mapping[str, M]) -> dict[str, M]:
    return {name: one for name, one in models.items() if is_known(*one.headline[:2])}


def _all_wrong(names: list[str], view: View) -> tuple[str, str]:
    """Return the lead for a run in which no anchor is right, most likely because of a mistake in the setup."""
    who = f"{printable(names[0])} is" if len(names) == 1 else f"All {len(names)} models are"
    if view.variants or view.words.is_still:
        return f"{who} wrong on every image.", SUSPECT
    return f"{who} wrong on every anchor.", f"Flicker cannot be measured without right answers. {SUSPECT}"


def comparisons(view: View) -> tuple[list[Comparison], int]:
    """Return the rows of the comparison table and the number of omitted rows.

    Whole sets and significant differences come first.
    """
    order = {"acc_pmk": 0, "drop": 1, "acc_orig": 2, "map_pmk": 3, "map_drop": 4, "map_orig": 5}
    still = ("acc_orig", "map_orig")
    every = [row for row in view.results.comparison if not view.words.is_still or row.metric in still]
    rows = sorted(view.listed(every, MOST_PAIRS), key=lambda row: (order[row.metric], not is_sure(row)))[:MOST_PAIRS]
    shown = [replace(better_first(row), sentence=view.words.say(row.sentence, names=(row.a, row.b))) for row in rows]
    return shown, len(every) - len(shown)


def compared(view: View, left_out: int) -> str:
    """Return the start of the sentence that names the compared models."""
    drawn = len(view.drawn(view.classifiers)) + len(view.drawn(view.detectors))
    is_part = left_out and drawn < len(view.results.models)
    return f"Pairs of the {drawn} models in the figures," if is_part else "Every pair of models"


def failures(view: View, run: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the requested models that could not be run, with the reason, from run.json."""
    models = run.get("models")
    known = {view.whole.get(name, name) for name in view.results.models}
    return [
        (printable(name), printable(one.get("error") or "no reason is known", limit=500).removeprefix(f"{name}: "))
        for name, one in (models.items() if isinstance(models, Mapping) else ())
        if isinstance(one, Mapping) and one.get("status") == "failed" and name not in known
    ]


_LABELS = {"frame": "each frame has its own labels", "anchor": "each frame has the labels of its anchor"}
_REVIEW = {
    "none": "none; no person has confirmed that the frames look the same",
    "release": "by people, before the dataset was released",
    "votes": "by the votes in the dataset folder",
}


def _quality(view: View) -> str:
    """Return the number of voters, their agreement and their accuracy on controls, or an empty text without votes."""
    review = view.results.review
    return "" if review is None else f": {review.text()}"


def facts(view: View, run: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return how the numbers were computed, as pairs of name and text."""
    dataset, settings = view.results.dataset, view.results.settings
    plain = view.words.is_still and dataset.kinds is not None
    size = f"{counted(dataset.n_sets, 'set')}, {view.sources}, {counted(dataset.n_frames, view.words.picture)}"
    if view.variants:
        made = f"{counted(dataset.n_frames, 'image')} in total"
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
        out.append(("Class merging", f"{settings.merge} over the model’s classes that belong to one class of the data"))
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


def explained(view: View) -> tuple[str, list[str]] | None:
    """Return the title and the paragraphs that explain the measurement, or None if the page explains pm-k."""
    return decided(view, lambda study: study.explanation(view))


def glossary(view: View) -> list[tuple[str, str]]:
    """Return the terms of the page with their meaning, for this kind of data."""
    return decided(view, lambda study: study.terms(view)) or []


_INTERVAL = (
    "95 %: if the study were repeated on other {source}s, about 95 of 100 intervals would contain the true value. "
    "{how}Means use the bootstrap over {source}s, and differences between models use the corrected test."
)


def _how_of_pictures(source: str) -> str:
    """Return a sentence on the intervals of shares.

    A photo is its own source, while a video may have several images.
    """
    if source in ("video", "source"):
        return f"Shares use Clopper–Pearson if every {source} has one image, else Korn–Graubard. "
    return "Shares use Clopper–Pearson. "


def interval_term(view: View) -> tuple[str, str]:
    """Return the term “interval” for data in which single images are scored."""
    return "interval", _INTERVAL.format(source=view.words.source, how=_how_of_pictures(view.words.source))
