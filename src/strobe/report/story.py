"""The text of the page: the lead, the comparisons, the methods, and the words of the gallery and its example."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from strobe.analyses.comparison import Comparison
from strobe.analyses.gallery import Choice, ModelView, SetView
from strobe.analyses.model_results import ModelResult
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.report.gallery import Gallery
from strobe.report.headline import SUSPECT
from strobe.report.study import decided
from strobe.report.view import Lines, View
from strobe.report.wording import (
    better_first,
    cause_text,
    counted,
    is_known,
    is_sure,
    join,
    p_text,
    percent,
    plain_number,
    with_interval,
)

M = TypeVar("M", bound=ModelResult)

_WARNINGS = 3  # the largest number of models whose warning is part of the lead

FEW_PAIRS = 2
"""The most comparisons without a significant difference in the open table. More are collapsed."""

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
    known = {
        name: model.answers for name, model in models.items() if model.answers is not None and model.answers.is_idle
    }
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
    return head, f"{lede} {_warning_texts(doubted, view)} {which} excluded from this summary."


def _without(view: View, names: Mapping[str, str]) -> dict[str, ModelResult]:
    return {name: model for name, model in view.results.models.items() if name not in names}


def _warning_texts(doubted: Mapping[str, str], view: View) -> str:
    """Return the first warnings, and how many more there are. The section “Results” has all of them."""
    some = list(doubted.items())[:_WARNINGS]
    shown = [view.words.say(f"{printable(name)}: {warning}.", names=[name]) for name, warning in some]
    if left := len(doubted) - len(shown):
        shown.append(
            f"{counted(left, 'more model')} {'has' if left == 1 else 'have'} such a warning below the results."
        )
    return " ".join(shown)


def _no_answers(doubted: Mapping[str, str], than: str, view: View) -> tuple[str, str]:
    """Return the lead if no model is shown to be better than a constant answer, or than boxes that ignore the image."""
    who = f"{printable(next(iter(doubted)))} is not" if len(doubted) == 1 else f"None of the {len(doubted)} models is"
    head = f"{who} shown to be better than {than}, so these results are weak evidence about flicker."
    return head, _warning_texts(doubted, view)


def _scored(models: Mapping[str, M]) -> dict[str, M]:
    return {name: model for name, model in models.items() if is_known(*model.headline[:2])}


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


def comparison_tables(view: View) -> tuple[Lines | None, Lines | None] | None:
    """Return the comparisons, and those without a significant difference in a table of their own if there are many.

    The first is None if no difference is significant. Return None without a comparison.
    """
    pairs, left_out = comparisons(view)
    if not pairs:
        return None
    rows = [
        [
            row.sentence or f"{row.a} vs. {row.b}",
            printable(view.words.metric(row.metric)),
            with_interval(row.difference),
            *("—" if only is None else str(only) for only in (row.only_a, row.only_b)),
            p_text(row.p if row.p_holm is None else row.p_holm),
        ]
        for row in pairs
    ]
    notes = [
        f"{compared(view, left_out)} on the same {'images' if view.words.is_still else 'sets'}. p is corrected for the "
        "number of pairs (Holm). A is the model that is named first. Where p is 1, the interval is simultaneous: it is "
        "at the level of all pairs together."
    ]
    if left_out:
        notes.append(f"{plain_number(left_out)} more rows are in tables/comparison.csv.")
    columns = ["Verdict", "Measure", "A − B, points", "Only A", "Only B", "p"]
    unclear = [cells for cells, row in zip(rows, pairs, strict=True) if not is_sure(row)]
    if len(unclear) <= FEW_PAIRS:
        return ("Paired comparisons", columns, rows, notes), None
    sure = [cells for cells, row in zip(rows, pairs, strict=True) if is_sure(row)]
    more = f"{counted(len(unclear), 'comparison')} without a significant difference"
    if not sure:
        return None, (more, columns, unclear, notes)
    return ("Paired comparisons", columns, sure, notes), (more, columns, unclear, [])


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
    ]
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


def gallery_words(choice: Choice, gallery: Gallery, dataset: Dataset, view: View, *, limit: int) -> dict[str, object]:
    """Return the texts of the gallery for the template. `limit` is the largest number of sets in the gallery."""
    shown = len(gallery.data["sets"])
    still = view.words.is_still and not view.variants
    intro = _stills_text(choice, gallery, view) if still else _flickers_text(choice, gallery, view)
    has_pictures = any(gallery.pictures.values())
    if not has_pictures:
        intro += " The gallery has no images, because this data has none."
    if gallery.left_out:
        intro += f" {gallery.left_out} more sets are omitted to keep the file small."
    if choice.thinned:
        intro += " If two sets overlap (the anchor of one is a frame of the other), only one is shown."
    if gallery.unreadable:
        intro += f" {gallery.unreadable} frames could not be read; the first: {gallery.first_problem}."
    names = dataset.info.label_space.names
    present = {label for one in gallery.data["sets"] for label in one["y"]}
    statuses = {model["s"] for one in gallery.data["sets"] for model in one["m"]}
    if not choice.counts:
        why = "The gallery is empty, because no predictions are available."
    elif limit == 0:
        why = "The gallery was switched off."
    else:
        why = "The gallery is empty, because no model has a prediction for every frame of any set."
    title = "Right and wrong" if still else "Where models break" if view.variants else "Flickers"
    return {
        "title": title,
        "still": still,
        "labels": _STATUS_WORDS[
            "still"
            if still
            else "detection"
            if all(gallery.data["detectors"])
            else "varied"
            if view.variants
            else "plain"
        ],
        "variants": sorted({one["k"] for one in gallery.data["sets"] if "k" in one}),
        "n_shown": shown,
        "intro": intro,
        "pictures": has_pictures,
        "why": why,
        "models": list(choice.counts),
        "change": choice.change,
        # Only filters with a match are offered, and the page opens with the first of them.
        "statuses": [status for status in ("breaks", "wrong", "holds") if status in statuses],
        "classes": [(place, names[place]) for place in sorted(present, key=lambda place: names[place])],
        "detection": any(gallery.data["detectors"]),
        "only_detection": all(gallery.data["detectors"]),
    }


_STATUS_WORDS = {
    "plain": {"breaks": "breaks: right, then wrong", "wrong": "wrong on the anchor", "holds": "holds on all frames"},
    "detection": {
        "breaks": "breaks: worse than on the anchor",
        "wrong": "finds nothing on the anchor",
        "holds": "holds: never worse than on the anchor",
    },
    "varied": {
        "breaks": "breaks: right, then wrong",
        "wrong": "wrong on the original",
        "holds": "holds on all images",
    },
    "still": {"wrong": "wrong", "holds": "right"},
}
"""The possible results on a set, as listed in the filter."""


def _stills_text(choice: Choice, gallery: Gallery, view: View) -> str:
    """Return how many images each model gets wrong, and how many of these the gallery shows."""
    parts = [
        f"{printable(model)} is wrong on {plain_number(count['wrong'])}"
        for model, count in list(choice.counts.items())[:6]
    ]
    shown = len(gallery.data["sets"])
    text = f"Of {counted(choice.n_sets, 'image')}, {join(parts)}. The gallery shows {shown}: wrong answers first, the"
    text += " most confident of every model and class in turn, then right answers."
    if len(choice.counts) < len(view.ranked):
        text += f" The gallery shows {len(choice.counts)} of {len(view.ranked)} models."
    return text


def _flickers_text(choice: Choice, gallery: Gallery, view: View) -> str:
    """Return the number of flickers in the data, and the number that the gallery shows."""
    words, n_models = view.words, len(choice.counts)
    detectors = bool(gallery.data["detectors"]) and all(gallery.data["detectors"])
    alike = f"one of the {words.frames} around it" if words.is_video else f"one of its {words.frames}"
    alike = "a changed version" if view.variants else alike
    what = f"is right on the anchor and wrong on {alike}"
    if detectors:
        what = f"finds less on {alike.replace('around it', 'around the anchor')} than on the anchor itself"
    every = len(view.ranked)
    # The count covers only the models on this page, so the text must not suggest a count over all models of the run.
    who = f"one of the {n_models} models shown here" if n_models < every else "one model"
    shown = len(gallery.data["sets"])
    n_sets = plain_number(choice.n_sets)
    if not choice.n_flickers:
        whom = f"any of the {n_models} models shown here" if n_models < every else "any model"
        if n_models == every == 1:
            whom = printable(next(iter(choice.counts)))
        kinds = {"wrong": "wrong on the anchor", "holds": "right on all frames"}
        statuses = {model["s"] for one in gallery.data["sets"] for model in one["m"]}
        seen = " or ".join(text for kind, text in kinds.items() if kind in statuses)
        text = f"None of the {n_sets} sets breaks for {whom}. The gallery shows {shown} sets: {seen or 'not scored'}."
    else:
        parts = [
            f"{printable(model)} breaks in {plain_number(count['breaks'])}"
            for model, count in list(choice.counts.items())[:6]
        ]
        each = " (one image under one variant)" if view.variants else ""
        turn = "every variant and model" if view.variants else "every model and class"
        if view.variants:
            what = what.replace("the anchor", "the original")
        then = (
            "Step through the levels to see where the answer changes."
            if view.variants
            else "Play a set to see how similar its frames are."
            if any(gallery.pictures.values())
            else "Step through a set to see where the answer changes."
        )
        order = f"{turn} in turn, the clearest first"
        if choice.change and _n_changed(gallery):
            before, after = map(printable, choice.change)
            order = f"first those newly broken or newly held from {before} to {after}, then {order}"
        text = (
            f"In {plain_number(choice.n_flickers)} of {n_sets} sets{each}, at least {who} {what} ({join(parts)}). The "
            f"gallery shows {shown} sets: {order}. Choose a model to see its answers. {then}"
        )
        if n_models == every == 1:
            name = printable(next(iter(choice.counts)))
            turn = "every variant" if view.variants else "every class"
            text = (
                f"In {plain_number(choice.n_flickers)} of {n_sets} sets{each}, {name} {what}. The gallery shows "
                f"{shown} sets: {turn} in turn, the clearest first. {then}"
            )
    if n_models < every:
        robust = list(choice.counts) == view.ranked[:n_models]
        how = "the most robust" if robust else "your own or chosen models first, then the most robust"
        text += f" The gallery shows {n_models} of {every} models: {how}."
    return text


def _n_changed(gallery: Gallery) -> int:
    """Return the number of sets in the gallery that only one of the two models holds."""
    places = gallery.data["change"]
    pairs = [[one["m"][place]["s"] for place in places] for one in gallery.data["sets"]]
    return sum(1 for pair in pairs if pair.count("holds") == 1 and "unscored" not in pair)


def examples(choice: Choice, gallery: Gallery, *, most: int) -> list[dict[str, object]]:
    """Return the clearest flickers, at most one per set, each with the frames around the first wrong one."""
    out: list[dict[str, object]] = []
    for index, one in enumerate(choice.sets[: len(gallery.data["sets"])]):
        view = next((view for view in one.models if view.breaker is not None), None)
        if view is not None and view.breaker is not None and len(out) < most:
            frames = [
                {
                    "right": bool(view.right[i]),
                    "anchor": i == one.anchor,
                    "offset": gallery.level_of(int(one.rows[i]), one.set_row) or _signed(one.distance[i]),
                    "image": gallery.pictures.get(int(one.rows[i]), ""),
                    **_boxes(gallery, index, view.model, i),
                }
                for i in _places(one, view.breaker, detection=view.boxes is not None)
                if view.seen is None or view.seen[i]
            ]
            where = gallery.level_of(int(one.rows[view.breaker]), one.set_row)
            text = printable(_example_text(one, view, view.breaker, gallery.data["classes"], where), limit=600)
            pictured = any(frame["image"] or "boxes" in frame for frame in frames)
            about = {"text": text, "alt": text, "detection": view.boxes is not None, "pictured": pictured}
            out.append({"frames": frames, **about})
    return out


def _places(one: SetView, breaker: int, *, detection: bool) -> list[int]:
    """Return the frames of the example: the frames around the first wrong one, or two large frames for boxes."""
    if detection:
        return sorted({one.anchor, breaker})
    low = max(0, min(one.anchor, breaker, one.anchor - 2))
    high = min(len(one.rows), max(one.anchor, breaker, one.anchor + 2) + 1)
    places = set(range(low, high))
    if len(places) > 9:
        places = {i for i in places if abs(i - one.anchor) <= 3} | {breaker}
    return sorted(places)


def _boxes(gallery: Gallery, place: int, model: str, i: int) -> dict[str, object]:
    """Return a detector's boxes on a frame of the example, each with a name: true, right, false and missed boxes."""
    shown = gallery.data["sets"][place]
    answers = shown["m"][gallery.data["models"].index(model)]
    frame = shown["f"][i]
    if "x" not in answers or "wh" not in frame:
        return {}
    names = gallery.data["classes"]
    false = [box for box in answers["x"][i] if not box[6]]
    seen = [box for box in answers["x"][i] if box[5] >= 0.5]
    if i == answers["b"] and false and not any(not box[6] for box in seen):
        seen.append(false[0])  # the most confident false box, because the text refers to it
    boxes = [("gt", box, "") for box in frame["g"]]
    boxes += [("miss", box, f"✕ not found: {names[box[4]]}") for box in answers["g"][i]]
    boxes += [("tp" if box[6] else "fp", box, f"{'✓' if box[6] else '✕'} {names[box[4]]} {box[5]:.2f}") for box in seen]
    return {"wh": frame["wh"], "boxes": boxes}


def _example_text(one: SetView, view: ModelView, breaker: int, names: Sequence[str], level: str) -> str:
    where = level or _signed(one.distance[breaker])
    if view.boxes is not None:
        why = f" (main cause: {cause_text(view.cause)})" if view.cause else ""
        return (
            f"Example from this data: {view.model} has an AP of {percent(_known(view.truth[one.anchor]))} on the "
            f"anchor and of {percent(_known(view.truth[breaker]))} at {where}{why}. map_pmk uses the second frame."
        )
    wrong = names[view.label[breaker]] if view.label[breaker] >= 0 else "none of the classes"
    answer = " / ".join(names[label] for label in one.labels) or "the anchor’s label"
    if level:
        return f"Example from this data: {view.model} answers {answer} on the original and {wrong} at {where}."
    return (
        f"Example from this data: {view.model} answers {answer} on the anchor and {wrong} at {where}. The set counts "
        "as right in acc_orig and as wrong in acc_pmk."
    )


def _signed(distance: float) -> str:
    return f"{distance:+g}".replace("-", "−")


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
