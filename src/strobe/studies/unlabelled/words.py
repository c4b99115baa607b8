"""The sentences of the study of flicker without labels, for page and terminal."""

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.view import Lines, View
from strobe.report.wording import counted, measured, percent, plain_number, with_interval
from strobe.studies.unlabelled.records import FlickerResults, FlickerScore


def ranked(found: FlickerResults) -> dict[str, FlickerScore]:
    """Return the models with the least flicker first, and equal models by name."""
    return dict(sorted(found.models.items(), key=lambda pair: (_value(pair[1].flicker), pair[0])))


def _value(found: Estimate) -> float:
    return 2.0 if found.value is None else found.value


def condition(found: FlickerResults) -> str:
    """Return the condition of every bound, with the number of sets that people checked."""
    asked = 0 if found.checked is None else found.checked.asked
    return f"If each set shows one thing throughout (people checked {plain_number(asked)} of {_sets(found.n_sets)})"


def _sets(n: int) -> str:
    return counted(n, "set")


def bound(found: FlickerResults, model: FlickerScore, who: str = "the model") -> str:
    """Return what flicker says about accuracy, in one sentence with its condition."""
    return (
        f"{condition(found)}, {who} is right on every frame in at most {percent(model.consistency)} of the sets, and "
        f"on at most {percent(model.most_frequent)} of all frames."
    )


def flicker_lead(view: View, found: FlickerResults) -> tuple[str, str]:
    """Return the first sentences of a page without labels."""
    models = ranked(found)
    name, best = next(iter(models.items()))
    videos = f"{_sets(best.flicker.n)} from {view.sources}"
    head = (
        f"{printable(name)} does not change its answer in any of the {videos}."
        if best.flicker.value == 0
        else f"{printable(name)} changes its answer in {measured(best.flicker)} of the {videos}."
    )
    lede = bound(found, best, "it")
    if len(models) > 1:
        last, worst = list(models.items())[-1]
        head += (
            f" Of {len(models)} models, it flickers least; {printable(last)} flickers most ({percent(worst.flicker)})."
            if worst.flicker.value != best.flicker.value
            else f" So does each of the {len(models)} models."
        )
    return head, lede


def explanation() -> tuple[str, list[str]]:
    """Return the title and the paragraphs that explain the measurement."""
    return "How flicker is measured without labels", [
        "A set is a frame, its anchor, and the frames around it. A person sees the same thing in all of them. If a "
        "model answers differently on one of these frames, the set flickers. No label is needed to see this.",
        "Flicker is not accuracy: a model that always gives the same wrong answer does not flicker. But if a "
        "set shows one thing throughout, a model that flickers on it is wrong somewhere. So flicker bounds accuracy.",
    ]


def terms(view: View, found: FlickerResults) -> list[tuple[str, str]]:
    """Return the terms of the page."""
    k = view.results.dataset.k
    sure = next(iter(found.models.values())).sure
    return [
        ("Set", f"An anchor and the frames up to {k} before and after it. Sets cover each video."),
        ("Flicker", "The share of sets in which some frame gets another answer than the anchor."),
        ("Consistency", "1 − flicker: the share of sets in which every frame gets the anchor's answer."),
        ("Flip", "Two neighbouring frames with different answers."),
        ("Sure flip", f"A flip with a confidence of at least {percent(sure, digits=0)} on both sides."),
        ("Spell", "A run of frames with the same answer, between two runs of one other answer."),
    ]


def flicker_lines(view: View) -> list[Lines]:
    """Return the terminal table: one row per model."""
    found = view.results.flicker
    if found is None or not found.models:
        return []
    columns = ["model", "flicker", "consistency", "flip_rate", "sure_flip_rate"]
    levels = next(iter(found.models.values())).coarser
    columns += [f"flicker, {one.level}" for one in levels]
    rows = [
        [
            printable(name, limit=60),
            with_interval(one.flicker),
            with_interval(one.consistency),
            _short(one.flip_rate),
            _short(one.sure_flip_rate),
            *(_short(level.flicker) for level in one.coarser),
        ]
        for name, one in ranked(found).items()
    ]
    data = view.results.dataset
    notes = [f"% [95 % interval], {_sets(found.n_sets)} of {view.sources}, k = {data.k}; no label is used"]
    notes += excluded(found)
    notes += [f"{printable(name)}: {bound(found, one, 'it')}" for name, one in ranked(found).items()]
    notes += [f"{printable(name)}: {text}" for name, one in found.models.items() for text in one.notes or ()]
    return [(f"{printable(data.name)}: flicker without labels", columns, rows, notes)]


def excluded(found: FlickerResults) -> list[str]:
    """Return a line for each kind of excluded sets."""
    out = []
    if found.across_cuts:
        out.append(f"{_sets(found.across_cuts)} excluded, because a scene cut lies inside")
    for name, one in found.models.items():
        if one.unscored:
            out.append(f"{printable(name)}: {_sets(one.unscored)} without all answers excluded")
    return out


def _short(found: Estimate) -> str:
    return "—" if found.value is None else f"{100 * found.value:.1f}"


def spell_text(model: FlickerScore) -> str:
    """Return how long another answer lasts, in one sentence."""
    if isinstance(model.spells, Missing):
        return "The model never leaves an answer and returns to it."
    found = model.spells
    ms = "" if found.median_ms is None else f" ({plain_number(round(found.median_ms))} ms)"
    frames = found.median_frames.value or 0
    return (
        f"The model leaves an answer and returns to it {plain_number(found.n)} times. The other answer lasts "
        f"{frames:g} frame{'' if frames == 1 else 's'}{ms} in the median, and a single frame in "
        f"{percent(found.one_frame)} of these cases."
    )
