"""The text and tables of a generator's searches: the results by granularity and target, and the preserved findings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.readings import folded
from strobe.core.variants import ANCHOR
from strobe.report.view import Lines, View
from strobe.report.wording import (
    EstimateText,
    counted,
    is_known,
    is_sure,
    join,
    percent,
    plain_number,
    value_of,
    with_interval,
)
from strobe.studies.variants.records import Contrast, PreservedResults, Search, VariantFacts

PHOTO = "photo"
"""The kind of the variant that pairs reconstructions with their photos."""

_NAMED = 4
"""The largest number of models that the sentence names."""

NOTE = (
    "photos are shown at the size of the autoencoder's images; no activation is changed; searches start at "
    "reconstructions that all targets get right"
)


def _photo_variants(view: View) -> list[str]:
    return [name for name, variant in view.variants.items() if variant.fields.get("kind") == PHOTO]


def reconstruction_text(view: View) -> str:
    """Return one sentence: the change of accuracy by reconstruction, for each model.

    It also names models that the summary excludes, because reconstruction alone may be what makes them weak.
    """
    each = [
        f"{printable(contrast.held)} by " + f"{100 * value_of(contrast.value):+.1f}".replace("-", "−")
        for contrast in _changes(view, _photo_variants(view))
        if is_known(contrast.value)
    ]
    if len(each) > _NAMED:
        each = [*each[:_NAMED], f"{len(each) - _NAMED} more models by other amounts"]
    return f"Reconstruction alone changes the accuracy of {join(each)} points." if each else ""


def reconstruction_lines(view: View) -> list[Lines]:
    """Return every classifier on photos and on their reconstructions, or nothing if no photo was reconstructed."""
    names = _photo_variants(view)
    changes = {(row.b, row.held): row.value for row in _changes(view, names)}
    rows = [
        [
            printable(model, limit=40),
            with_interval(score.levels[0].at),
            with_interval(score.acc_orig),
            with_interval(changes.get((score.variant, model))),
        ]
        for model, result in view.classifiers.items()
        for score in result.variants or ()
        if score.variant in names and score.levels
    ]
    columns = ["model", "photos", "reconstructions", "change"]
    return [("What reconstruction alone does", columns, rows, [NOTE])] if rows else []


def _changes(view: View, names: list[str]) -> list[Contrast]:
    """Return the contrasts reconstructions − photos, paired by photo."""
    rows = view.results.contrasts or ()
    return [row for row in rows if (row.of, row.a) == ("variants", ANCHOR) and row.b in names and row.held]


ORDER = ("latent", "coarse", "middle", "fine", "pixel", "all")
"""Granularities from the largest features to the smallest, then all layers together, then single layers."""

Key = tuple[str, str]
"""A granularity and the name of a target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GranularityView:
    """The searches of a generator by granularity and target. The baseline is the first target.

    `ratios` are the other targets divided by the baseline. `preserved` has the same figures with preserved findings
    only.
    """

    granularities: tuple[str, ...]
    targets: tuple[str, ...]
    facts: Mapping[Key, VariantFacts]
    searches: Mapping[Key, Search]
    ratios: Mapping[Key, Contrast]
    random: Mapping[Key, str]
    preserved: tuple["PreservedFigures", ...] = ()

    @property
    def baseline(self) -> str:
        """The target in the denominator of ratios."""
        return self.targets[0]

    @property
    def others(self) -> tuple[str, ...]:
        """The targets in the numerator of ratios."""
        return self.targets[1:]

    def scale(self, key: Key) -> float:
        """Return the divisor that converts a magnitude to its RMS per neuron, or 1 if the number of neurons is
        unknown.
        """
        neurons = self.facts[key].fields.get("neurons")
        return math.sqrt(neurons) if isinstance(neurons, int | float) and neurons > 0 else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreservedFigures:
    """The figures with preserved findings only, and the judges of these findings."""

    by: str
    who: str
    searches: Mapping[Key, Search]
    ratios: Mapping[Key, Contrast]
    share: Mapping[Key, Estimate]
    before: Mapping[Key, Estimate] = field(default_factory=dict)
    control: Mapping[Key, Estimate] = field(default_factory=dict)


def granular(view: View) -> GranularityView | None:
    """Return the searches by granularity, or None if the data has no searches."""
    facts = {
        (str(variant.fields["granularity"]), variant.target): variant
        for variant in view.variants.values()
        if variant.target is not None and "granularity" in variant.fields and variant.role == "same"
    }
    places = {fact.variant: key for key, fact in facts.items()}
    searches = {places[search.variant]: search for search in view.results.searches or () if search.variant in places}
    if not searches:
        return None
    names = list(dict.fromkeys(name for name, _ in searches))
    names.sort(key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), _natural(name)))
    targets = list(dict.fromkeys(target for _, target in searches))
    baseline = view.results.settings.baseline or targets[0]
    targets.sort(key=lambda target: target != baseline)
    return GranularityView(
        granularities=tuple(names),
        targets=tuple(targets),
        facts=facts,
        searches=searches,
        ratios=_ratios(view.results.contrasts or (), places, targets[0]),
        random={
            (str(variant.fields["granularity"]), variant.target): variant.variant
            for variant in view.variants.values()
            if variant.target is not None
            and variant.fields.get("control") == "random"
            and "granularity" in variant.fields
        },
        preserved=tuple(_kept(view, one, places, targets[0]) for one in view.results.preserved or ()),
    )


def _natural(name: str) -> tuple[str, int]:
    """Sort `layer:10` after `layer:9`."""
    head, _, number = name.partition(":")
    return head, int(number) if number.isdigit() else -1


def _ratios(rows: Sequence[Contrast], places: Mapping[str, Key], baseline: str) -> dict[Key, Contrast]:
    return {
        places[row.a]: row
        for row in rows
        if row.of == "targets" and row.a in places and row.b in places and places[row.b][1] == baseline
    }


def _kept(view: View, found: PreservedResults, places: Mapping[str, Key], baseline: str) -> PreservedFigures:
    share = {places[one.variant]: one.kept for one in found.preservation if one.variant in places}
    controls = {
        (str(facts.fields.get("granularity")), str(one.target)): one.kept
        for one in found.preservation
        if one.role == "control" and (facts := view.variants.get(one.variant)) is not None
    }
    who = counted(len(found.who), "person").replace("persons", "people")
    return PreservedFigures(
        by=found.by,
        who=who if found.by == "people" else join([printable(name) for name in found.who]),
        searches={places[search.variant]: search for search in found.searches if search.variant in places},
        ratios=_ratios(found.contrasts, places, baseline),
        share=share,
        before={places[one.variant]: one.before for one in found.preservation if one.variant in places and one.before},
        control=controls,
    )


# -- words ---------------------------------------------------------------------------------------------------------


def size_text(value: float) -> str:
    """Return a magnitude with three digits and without an exponent.

    >>> size_text(0.01163), size_text(12.34)
    ('0.0116', '12.3')
    """
    return f"{value:.{max(2 - math.floor(math.log10(abs(value))), 0)}f}" if value else "0"


def accepted_text(provenance: Mapping[str, object]) -> str:
    """Return how many generated images were kept, and how many each model got right.

    Return an empty text if this is unknown.

    >>> accepted_text({"accepted": {"drawn": 50, "accepted": 40, "right": {"net": 45}}})
    'Of 50 generated images, 40 are used: those that every model gets right. Share right: net 90.0\\xa0%.'
    """
    counts = provenance.get("accepted")
    if not isinstance(counts, Mapping) or not isinstance(counts.get("right"), Mapping) or not counts.get("drawn"):
        return ""
    right = ", ".join(f"{printable(name)} {percent(n / counts['drawn'])}" for name, n in counts["right"].items())
    generated, kept = plain_number(counts["drawn"]), plain_number(counts.get("accepted"))
    kind = "reconstructed photos" if "photos" in counts else "generated images"
    return f"Of {generated} {kind}, {kept} are used: those that every model gets right. Share right: {right}."


def restarts_text(provenance: Mapping[str, object]) -> str:
    """Return whether the ratios settled over the restarts of the searches, or an empty text if there were none.

    >>> rows = [{"granularity": "fine", "of": "b", "over": "a", "values": [1.8, 1.5, 1.4]}]
    >>> restarts_text({"restarts": rows})
    'Over 2 restarts, the last one moved a ratio by up to 7\\xa0%, so the ratios have not settled: fine.'
    """
    rows = provenance.get("restarts")
    moved: dict[str, float] = {}
    n = 0
    for row in rows if isinstance(rows, list) else ():
        values = row.get("values") if isinstance(row, Mapping) else None
        if isinstance(values, list) and len(values) > 1 and all(isinstance(one, int | float) and one for one in values):
            n, name = len(values) - 1, printable(row.get("granularity"))
            moved[name] = max(moved.get(name, 0.0), abs(values[-1] / values[-2] - 1))
    if not moved:
        return ""
    most, late = max(moved.values()), [name for name, share in moved.items() if share > 0.05]
    line = f"Over {counted(n, 'restart')}, the last one moved a ratio by up to {most:.0%}".replace("%", "\xa0%")
    return f"{line}, so the ratios have not settled: {join(late)}." if late else f"{line}."


def generator_lead(found: GranularityView) -> tuple[str, str]:
    """Return the page's first sentences: whether any model is robust, and the ratio of search distances."""
    shares = {
        key: search.found / (search.found + search.censored)
        for key, search in found.searches.items()
        if search.found + search.censored
    }
    low = min(shares.values(), default=0.0)
    held = [key for key, share in shares.items() if share < 0.5]
    if held:
        parts = [f"{printable(target)} ({printable(name)})" for name, target in held[:3]]
        more = f" and {len(held) - 3} more" if len(held) > 3 else ""
        head = (
            f"Most searches against {join(parts)}{more} found nothing. These searches may have failed. More "
            f"restarts may find more."
        )
        rest = [share for key, share in shares.items() if key not in held]
        head += f" The other searches fool their target on {_least(min(rest))} of the images." if rest else ""
    elif len(found.targets) > 1:
        head = "Neither model is" if len(found.targets) == 2 else f"None of the {len(found.targets)} models is"
        head += f" robust at any granularity: searches fool each model on {_least(low)} of the images."
    else:
        head = f"{printable(found.baseline)} is not robust at any granularity: searches fool it on "
        head += f"{_least(low)} of the images."
    return head, " ".join(filter(None, (ratio_text(found), *(kept_text(one) for one in found.preserved))))


def _least(share: float) -> str:
    return "all" if share == 1 else f"at least {percent(share)}"


def ratio_text(found: GranularityView) -> str:
    """Return the ratio of search distances for each other target, at the coarse and at the fine end."""
    parts = []
    for target in found.others:
        known = [
            name
            for name in found.granularities
            if name in ORDER[:5] and (name, target) in found.ratios and is_known(found.ratios[name, target].value)
        ]
        if known:
            ends = list(dict.fromkeys((known[0], known[-1])))
            rows = [found.ratios[name, target] for name in ends]
            ratios = [
                f"{value_of(row.value):.2f} ({name}{'' if is_sure(row) else ', not significant'})"
                for name, row in zip(ends, rows, strict=True)
            ]
            parts.append(f"{printable(target)} needs changes {' to '.join(ratios)} times as large")
    text = f"To be fooled, {join(parts)} as {printable(found.baseline)}." if parts else ""
    return f"{text} No ratio is significant." if parts and not any(map(is_sure, found.ratios.values())) else text


def kept_text(kept: PreservedFigures) -> str:
    """Return how the headline changes with preserved findings only."""
    known = [key for key, one in kept.share.items() if is_known(one)]
    if not known:
        return ""
    text = f"Judged by {kept.who}, {_span([kept.share[key] for key in known])} of the findings still show their class"
    text += ", depending on granularity and model"
    before = [one for key in known if (one := kept.before.get(key)) is not None and is_known(one)]
    if not before:
        return f"{text}. Nobody judged the unchanged images, so the changes may not be the reason."
    return f"{text}; of the same images unchanged, {_span(before)} do."


def _span(found: Sequence[Estimate]) -> str:
    """Return the smallest and the largest of these shares."""
    shares = [value_of(one) for one in found]
    return " to ".join(dict.fromkeys(percent(end, digits=0) for end in (min(shares), max(shares))))


def granular_rows(found: GranularityView) -> tuple[list[str], list[list[str]], list[str]]:
    """Return the terminal's output: columns, a row for every granularity, and notes."""
    columns = ["granularity", *(f"median, {printable(target, limit=40)}" for target in found.targets)]
    columns += [f"{printable(target, limit=40)} ÷ {printable(found.baseline, limit=40)}" for target in found.others]
    columns += [f"preserved ({one.by})" for one in found.preserved]
    rows = []
    for name in found.granularities:
        keys = [(name, target) for target in found.targets]
        cells = [_half(found, key) for key in keys]
        cells += [_ratio_cell(found.ratios.get(key)) for key in keys[1:]]
        for kept in found.preserved:
            known = [value_of(one) for key in keys if (one := kept.share.get(key)) is not None and is_known(one)]
            ends = list(dict.fromkeys(f"{100 * end:.0f}" for end in (min(known), max(known)))) if known else ["—"]
            cells.append("–".join(ends) + (" %" if known else ""))
        rows.append([printable(name), *cells])
    notes = ["median: standard deviations per neuron (root mean square); ratios: total magnitudes, paired by image"]
    if any("—" in row[1 : 1 + len(found.targets)] for row in rows):
        notes.append("—: fewer than half of the searches found anything; --restarts 3 finds more")
    open_ended = [
        (key, row.value) for key, row in found.ratios.items() if is_known(row.value) and row.value.low is None
    ]
    notes += [f"{printable(' against '.join(key))}: {value.reason}" for key, value in open_ended if value.reason]
    failed = sum(search.failed for search in found.searches.values())
    wrong = sum(search.anchor_wrong for search in found.searches.values())
    notes += [f"{counted(failed, 'search').replace('searchs', 'searches')} failed"] if failed else []
    notes += [f"{counted(wrong, 'image')} not searched: the target is wrong on the original"] if wrong else []
    return columns, rows, [*notes, *(kept_text(one) for one in found.preserved)]


def _half(found: GranularityView, key: Key) -> str:
    search = found.searches.get(key)
    if search is None or search.median.value is None:
        return "—"
    return size_text(search.median.value / found.scale(key))


def _ratio_cell(row: Contrast | None) -> str:
    if row is None or row.value.value is None:
        return "—"
    low, high = row.value.low, row.value.high
    ends = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    return EstimateText(f"{row.value.value:.2f}{ends}", row.value)


# -- tables --------------------------------------------------------------------------------------------------------


def median_lines(view: View, found: GranularityView) -> Lines:
    """Return every search, from coarse to fine, with its median, its findings after they are read back, and its
    control.
    """
    scores = {
        name: {variant.variant: variant for variant in model.variants or ()} for name, model in view.classifiers.items()
    }
    columns = ["granularity", "target", "found", "median", "per neuron", "reproduced", "random"]
    notes = [_MEDIANS]
    for kept in found.preserved:
        columns += [f"preserved ({kept.by})", f"median, preserved ({kept.by})"]
        notes.append(f"preserved ({kept.by}): findings that still show their class, judged by {kept.who}")
    rows = []
    for key in ((name, target) for name in found.granularities for target in found.targets):
        if (search := found.searches.get(key)) is None:
            continue
        own = scores.get(key[1], {}).get(search.variant)
        control = scores.get(key[1], {}).get(found.random.get(key, ""))
        shares = None if own is None else own.reproduced, None if control is None else control.fooled
        row = [*map(printable, key), f"{plain_number(search.found)} of {plain_number(search.found + search.censored)}"]
        row[2] += f", {plain_number(search.failed)} failed" if search.failed else ""
        row += [_magnitude(search.median), _half(found, key) if found.scale(key) != 1 else "—"]
        row += map(with_interval, shares)
        for kept in found.preserved:
            row.append(with_interval(kept.share.get(key)))
            row.append(_magnitude(kept.searches[key].median) if key in kept.searches else "—")
        rows.append(row)
    medians = [(f"{' against '.join(map(printable, key))}", found.searches[key].median) for key in found.searches]
    notes += folded((name, median.reason) for name, median in medians if median.low is None and median.reason)
    return "Medians by granularity and target", columns, rows, notes


_MEDIANS = (
    "median: magnitude (L2 norm, in standard deviations of the activations) at which half of the searches have found "
    "something; per neuron: its root mean square; reproduced: share of findings that the target still gets wrong after "
    "they are saved and reloaded; random: share of random changes of the same size that fool the target"
)


def _magnitude(found: Estimate) -> str:
    """Return a median magnitude with its interval, if it has one."""
    value = _middle(found)
    if found.low is None or found.high is None:
        return value
    return EstimateText(f"{value} [{size_text(found.low)}, {size_text(found.high)}]", found)


def class_lines(found: GranularityView) -> list[Lines]:
    """Return which classes change at smaller magnitudes, with a table for each target.

    Return an empty result if searches are not split by class.
    """
    out: list[Lines] = []
    for target in found.targets:
        mine = {name: found.searches[name, target] for name in found.granularities if (name, target) in found.searches}
        classes = [{row.label: row for row in search.by_class or ()} for search in mine.values()]
        rows = [
            [
                printable(name),
                *(f"{_middle(of[label].median)} (n {of[label].searched})" if label in of else "—" for of in classes),
            ]
            for label, name in {label: row.name for of in classes for label, row in of.items()}.items()
        ]
        if rows:
            title = "Which classes need the smallest changes? " + printable(target)
            out.append((title, ["class", *map(printable, mine)], rows, ["median magnitude of the findings"]))
    return out


def _middle(found: Estimate) -> str:
    return "—" if found.value is None else size_text(found.value)


def granular_lines(view: View) -> list[Lines]:
    """Return the magnitudes of a generator's searches, from coarse to fine."""
    if (found := granular(view)) is None:
        return []
    columns, rows, notes = granular_rows(found)
    return [("From coarse to fine", columns, rows, notes)]
