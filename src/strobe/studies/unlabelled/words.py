"""The sentences of the study of flicker without labels, for page and terminal."""

from typing import Any

from strobe.analyses.measures import Measure, measures_of
from strobe.analyses.model_results import flicker_measures
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.core.readings import folded
from strobe.report.view import Lines, View
from strobe.report.wording import EstimateText, both_ends, counted, join, measured, percent, plain_number
from strobe.studies.unlabelled.records import CONSTANT, FlickerResults, FlickerScore
from strobe.studies.unlabelled.records_links import LinkScore


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


def bound(found: FlickerResults, model: FlickerScore, who: str = "the model", name: str = "") -> str:
    """Return what flicker says about accuracy, in one sentence with its condition."""
    checked = None if found.checked is None else found.checked.models.get(name)
    if found.checked is not None and checked is not None and checked.bound.value is not None:
        return (
            f"People checked {plain_number(found.checked.asked)} of {_sets(found.n_sets)}. Of the "
            f"{plain_number(checked.asked)} on which {who} flickers, {measured(checked.changes)} show a real change or "
            f"have several right answers. With such sets counted as right, {who} is right on every frame in at most "
            f"{measured(checked.bound)} of the sets."
        )
    if model.consistency.value == 1 and any(CONSTANT in note for note in model.notes or ()):
        return f"{who.capitalize() if who == 'it' else who} gives one answer on all frames, so flicker bounds nothing."
    frames = f", and on at most {percent(model.most_frequent)} of all frames" if model.stopped_early is None else ""
    most = percent(model.consistency)
    return f"{condition(found)}, {who} is right on every frame in at most {most} of the sets{frames}."


def steadiest(found: FlickerResults) -> dict[str, LinkScore]:
    """Return the detectors, the one with the fewest outage seconds per object-minute first."""
    detectors = found.detectors or {}
    return dict(sorted(detectors.items(), key=lambda pair: (_missing(pair[1]), pair[0])))


def _missing(score: LinkScore) -> float:
    """Return the share of lives without a box; 2 without an object."""
    complete = score.measures.get("completeness")
    return 2.0 if complete is None or complete.value is None else 1 - complete.value


def _detector_lead(found: FlickerResults) -> tuple[str, str]:
    name, best = next(iter(steadiest(found).items()))
    if not best.objects:
        return f"{printable(name)} finds no object.", "No label is used."
    rate, longest = best.measures["outage_seconds"], best.measures["longest_outage"]
    head = f"{printable(name)} has a box in {measured(best.measures['completeness'])} of an object's life."
    if rate.value is not None and longest.value is not None:
        head = (
            f"Of every minute that an object lives, {printable(name)} has no box for {rate.value:.1f} seconds; the "
            f"longest outage lasts {longest.value:.1f} seconds."
        )
    return (
        head,
        f"{counted(best.objects, 'object')}, {counted(best.outages, 'outage')}; {counted(best.vanished, 'object')} "
        f"{'vanishes' if best.vanished == 1 else 'vanish'} in the middle of the picture and "
        f"{plain_number(best.appeared)} {'appears' if best.appeared == 1 else 'appear'} there. An object is followed "
        "from frame to frame by the overlap of its boxes; no label is used.",
    )


def flicker_lead(view: View, found: FlickerResults) -> tuple[str, str]:
    """Return the first sentences of a page without labels."""
    models = ranked(found)
    if not models:
        return _detector_lead(found)
    lead = lead_measure(found)
    if lead is None:
        name, best = next(iter(models.items()))
        return f"{printable(name)} has no figure without labels on {view.sources}.", bound(found, best, "it", name)
    (name, _, _), (last, least, tied) = both_ends(sorted(models), lambda one: _order(lead, models[one]), str)
    figure = lead.of(models[name])
    n = f"{_sets(models[name].flicker.n)} from {view.sources}"
    other = lead.of(models[last])
    if lead.unit == "per second":
        head = f"{printable(name)} changes its answer {_plain(figure)} times a second on {view.sources}"
        value = f"{_plain(other)} times"
    elif lead.name == "flicker":
        head, value = f"{printable(name)} changes its answer in {measured(figure)} of the {n}", percent(other)
    else:
        head, value = f"{printable(name)}: {lead.name} {measured(figure)} on {view.sources}", percent(other)
    if len(models) == 1:
        head += "."
    elif other.value == figure.value:
        head += f". So does each of the {len(models)} models."
    elif len(models) == 2:
        head += f", {printable(last)} {value}."
    else:
        head += f". Of {len(models)} models, {least} {'are' if tied else 'is'} the least steady ({value})."
    return head, bound(found, models[name], printable(name), name)


def lead_measure(found: FlickerResults) -> Measure[Any] | None:
    """Return the measure that leads: the first that was measured for every model and is not at its end for all."""
    models = found.models.values()
    order = sorted(
        (flicker_measure for flicker_measure in flicker_measures() if flicker_measure.lead), key=lambda one: -one.lead
    )
    known = [one for one in order if models and all(one.of(model).value is not None for model in models)]
    free = [one for one in known if not is_at_end(one, found)]
    return next(iter(free or known), None)


def is_at_end(measure: Measure[Any], found: FlickerResults) -> bool:
    """Return whether a share is 0 for every model or 1 for every model, so that it cannot tell them apart."""
    values = {measure.of(model).value for model in found.models.values()}
    return measure.unit == "share" and (values == {0.0} or values == {1.0})


def saturated(found: FlickerResults) -> str:
    """Return a sentence that names the measures that are at their end for every model; empty if there are none."""
    names = [
        shown_measure.name
        for shown_measure in shown_measures(found)
        if shown_measure.lead and is_at_end(shown_measure, found)
    ]
    if not names:
        return ""
    are = "is" if len(names) == 1 else "are"
    return f"{join(names)} {are} saturated: at the end of the scale for every model, so no difference can be seen"


def shown_measures(found: FlickerResults) -> list[Measure[Any]]:
    """Return the measures of the first table that some model has."""
    models = found.models.values()
    return [
        flicker_measure
        for flicker_measure in flicker_measures()
        if flicker_measure.headline and any(flicker_measure.of(model).value is not None for model in models)
    ]


def _order(measure: Measure[Any], model: FlickerScore) -> float:
    value = measure.of(model).value
    return float("inf") if value is None else value if measure.more_is_worse else -value


def _plain(found: Estimate) -> str:
    return "—" if found.value is None else f"{found.value:.1f}"


def explanation(found: FlickerResults) -> tuple[str, list[str]]:
    """Return the title and the paragraphs that explain the measurement."""
    sets = [
        "A set is one frame (its anchor) and the frames around it. A person sees the same thing in all of them. If a "
        "model answers differently on one of these frames, the set flickers. No label is needed to see this.",
        "Flicker is not accuracy: a model that always gives the same wrong answer does not flicker. But if a set shows "
        "one thing throughout, a model that flickers on it is wrong somewhere. So flicker bounds accuracy.",
    ]
    boxes = [
        "A detector's boxes are joined to objects by their overlap from frame to frame, whatever their class. An "
        "object lives from its first box to a scene cut, to the picture's border if its track leads out, or to the end "
        "of the recording. On every frame in between it should have a box, and its class should not change.",
    ]
    text = [*(sets if found.models else ()), *(boxes if found.detectors else ())]
    return "How flicker is measured without labels", text


def terms(view: View, found: FlickerResults) -> list[tuple[str, str]]:
    """Return the terms of the page."""
    k, out = view.results.dataset.k, []
    if found.detectors:
        rules = next(iter(found.detectors.values())).rules
        out = [
            ("Outage", f"Frames of an object's life without a box with a score of at least {rules.confidence:g}."),
            ("Outage seconds", "The seconds without a box per minute that an object lives."),
            ("Completeness", "The share of an object's life in which it has a box."),
            ("Vanished", "An object in the middle of the picture has no box from some frame to the end."),
            ("Appeared", "The first box of an object is in the middle of the picture, after the first frame."),
            ("Jitter", "How far a box is from the smooth path of its object, in % of the box's size or in pixels."),
        ]
    if not found.models:
        return out
    sure = next(iter(found.models.values())).sure
    return [
        *out,
        ("Set", f"An anchor and the frames up to {k} before and after it. Sets cover each video."),
        ("Flicker", "The share of sets in which the answer on some frame differs from the answer on the anchor."),
        ("Consistency", "1 − flicker: the share of sets in which every frame gets the anchor's answer."),
        *(
            (shown_measure.name, shown_measure.meaning)
            for shown_measure in shown_measures(found)
            if shown_measure.name not in ("flicker", "consistency")
        ),
        ("Flip", "Two neighbouring frames with different answers."),
        ("Sure flip", f"A flip with a confidence of at least {percent(sure, digits=0)} on both sides."),
        ("Spell", "In answers of the pattern A B A, the run of frames with answer B."),
    ]


IN_TERMINAL = 5
"""The number of measures of detectors in the terminal."""


def flicker_lines(view: View, most: int | None = IN_TERMINAL) -> list[Lines]:
    """Return the tables with a row per model: of classifiers, and of detectors with at most this many measures."""
    flicker = view.results.flicker
    if flicker is None:
        return []
    links = _link_lines(view, flicker, most)
    if not flicker.models:
        return links
    shown = shown_measures(flicker)
    levels = max((model.coarser for model in flicker.models.values()), key=len)
    columns = ["model", *(one.name for one in shown), *(f"flicker, {one.level}" for one in levels)]
    rows = [
        [
            printable(name, limit=60),
            *(figure_text(measure, one) for measure in shown),
            *(_short(level.flicker) for level in one.coarser),
            *["—"] * (len(levels) - len(one.coarser)),
        ]
        for name, one in ranked(flicker).items()
    ]
    data = view.results.dataset
    interval = " [95 % interval]" if any("[" in cell for row in rows for cell in row[1:]) else ""
    about = f"{_sets(flicker.n_sets)} of {view.sources}, k = {data.k}; no label is used"
    notes = [f"%, or as the name says{interval}, {about}"]
    notes += [*excluded(flicker), *(data.readings or ())]
    notes += [line for line in (saturated(flicker),) if line]
    first = next(iter(ranked(flicker)))
    notes += [f"{printable(first)}: {bound(flicker, flicker.models[first], 'it', first)}"]
    notes += folded((printable(name), text) for name, one in flicker.models.items() for text in one.notes or ())
    notes += [f"{printable(name)}: {stopped(one)}" for name, one in flicker.models.items() if one.stopped_early]
    return [("Flicker without labels", columns, rows, notes), *links]


def _figure(declared: Measure[Any], found: Estimate | None) -> str:
    if found is None or found.value is None:
        return "—"
    return EstimateText(found.text(digits=declared.digits, scale=declared.scale), found)


def _box_notes(found: FlickerResults) -> list[str]:
    """Return the units of the figures, and the notes on every detector."""
    rules = next(iter(steadiest(found).values())).rules
    notes = [
        "outage seconds, outages and class changes are per minute that an object lives, completeness is in %; "
        f"boxes with a score of at least {rules.confidence:g}; no label is used"
    ]
    for name, one in steadiest(found).items():
        if one.faint_seconds > 0:
            notes.append(
                f"{printable(name)}: {one.faint_seconds:.1f} of {one.outage_seconds:.1f} outage seconds have a box "
                f"with a score from {rules.faint:g} to {rules.confidence:g}"
            )
    notes += folded((printable(name), text) for name, one in steadiest(found).items() for text in one.notes or ())
    return notes


def _link_lines(view: View, found: FlickerResults, most: int | None) -> list[Lines]:
    """Return the table of detectors, with at most this many measures."""
    if not found.detectors:
        return []
    shown = [measure for measure in measures_of("boxes") if measure.headline][:most]
    rows = [
        [
            printable(name, limit=60),
            *(_figure(one, score.measures.get(one.name)) for one in shown),
            plain_number(score.objects),
        ]
        for name, score in steadiest(found).items()
    ]
    about = () if found.models else (*excluded(found), *(view.results.dataset.readings or ()))
    notes = [f"[95 % interval] from {view.sources}", *about, *_box_notes(found)]
    return [("Boxes without labels", ["model", *(measure.name for measure in shown), "objects"], rows, notes)]


def stopped(model: FlickerScore) -> str:
    """Return the note on a model that was stopped early."""
    early = "" if model.stopped_early is None else model.stopped_early.text()
    return f"stopped early, {early}; figures that need every frame are missing (run without --stop-early)"


def excluded(found: FlickerResults) -> list[str]:
    """Return a line for each kind of excluded sets."""
    out = []
    if found.across_cuts:
        out.append(f"{_sets(found.across_cuts)} excluded because of a scene cut")
    for name, model in found.models.items():
        if model.unscored:
            out.append(f"{printable(name)}: {_sets(model.unscored)} without all answers excluded")
    return out


def figure_text(measure: Measure[Any], model: FlickerScore) -> str:
    """Return a model's figure with its interval, in the unit of the measure."""
    found = measure.of(model)
    return EstimateText(found.text(scale=measure.scale, digits=measure.digits).replace("-", "−"), found)


def _short(found: Estimate) -> str:
    return "—" if found.value is None else f"{100 * found.value:.1f}"


def spell_text(model: FlickerScore) -> str:
    """Return how long a different answer lasts, in one sentence."""
    if model.stopped_early is not None:
        return f"Unknown: {stopped(model)}."
    if isinstance(model.spells, Missing):
        return "The model never leaves an answer and returns to it."
    spells = model.spells
    ms = "" if spells.median_ms is None else f" ({plain_number(round(spells.median_ms))} ms)"
    frames = spells.median_frames.value or 0
    return (
        f"The model leaves an answer and returns to it {plain_number(spells.n)} times. The other answer lasts "
        f"{frames:g} frame{'' if frames == 1 else 's'}{ms} in the median, and a single frame in "
        f"{percent(spells.one_frame)} of these cases."
    )
