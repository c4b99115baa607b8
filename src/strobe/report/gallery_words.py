"""The texts of the gallery: its introduction, its filters, and the example at the top of the page."""

from collections.abc import Sequence

import numpy as np

from strobe.analyses.gallery import Choice, ModelView, SetView
from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.report.gallery import Gallery
from strobe.report.view import View
from strobe.report.wording import cause_text, counted, join, percent, plain_number


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


def example(choice: Choice, gallery: Gallery) -> dict[str, object] | None:
    """Return the clearest flicker as the page's first example, with the frames around the first wrong one."""
    for place, one in enumerate(choice.sets[: len(gallery.data["sets"])]):
        for view in one.models:
            if view.breaker is None:
                continue
            frames = [
                {
                    "right": bool(view.right[i]),
                    "anchor": i == one.anchor,
                    "offset": gallery.level_of(int(one.rows[i]), one.set_row) or _signed(one.distance[i]),
                    "image": gallery.pictures.get(int(one.rows[i]), ""),
                    **_boxes(gallery, place, view.model, i),
                }
                for i in _places(one, view.breaker, detection=view.boxes is not None)
                if view.seen is None or view.seen[i]
            ]
            where = gallery.level_of(int(one.rows[view.breaker]), one.set_row)
            text = printable(_example_text(one, view, view.breaker, gallery.data["classes"], where), limit=600)
            return {"frames": frames, "text": text, "alt": text, "detection": view.boxes is not None}
    return None


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
