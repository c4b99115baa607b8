"""The text and tables of a ladder of backgrounds: the rungs by name, the isolated effects, and sentences on them."""

from collections.abc import Iterator
from dataclasses import dataclass

from strobe.analyses.model_results import ClassificationResult
from strobe.annexes.backgrounds.ladders import CALLED, KIND
from strobe.annexes.backgrounds.study.records import CROPS, BestOf, ClassRungs, ground_of
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.core.variants import ANCHOR
from strobe.report.view import Lines, View
from strobe.report.wording import (
    ESTIMATED,
    EstimateText,
    called,
    is_known,
    is_sure,
    measured,
    percent,
    turned,
    value_of,
    with_interval,
)
from strobe.studies.variants.records import Contrast, Isolates, VariantFacts

MOST_CLASSES = 60
"""The largest number of rows of the table by class. tables/background_classes.csv has the rest."""

AT_SCALE = ("grey", "blur", "plain", "same", "other", "next", "object")
"""Rungs at the original scale that differ only in the background."""

ISOLATED: dict[Isolates, tuple[str, str]] = {
    "bg-gap": ("Background class (BG-Gap)", "own class − another"),
    "background": ("Background", "whole − without it"),
    "background-cropped": ("Background inside the crop", "box − box with grey"),
    "magnification": ("Magnification alone", "box − whole, both on grey"),
    "magnification-with-ground": ("Cropping: both effects", "crop − whole"),
    "place": ("Position of the crop", "box − centre, same size"),
    "fit": ("The model’s own resizing", "usual − resized whole"),
}
"""The effect that a contrast isolates, and the two sides of the difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RungView:
    """One rung as the page shows it. The whole image has neither facts nor a level."""

    variant: str
    level: float | None
    name: str
    facts: VariantFacts | None

    @property
    def is_control(self) -> bool:
        """Whether the rung is excluded from every worst case."""
        return self.facts is not None and self.facts.role == "control"

    @property
    def is_estimated(self) -> bool:
        """Whether the rung uses boxes or masks that nobody drew."""
        return self.facts is not None and self.facts.estimated

    @property
    def label(self) -> str:
        """The rung's name, with a mark if it is an estimate."""
        return f"{self.name} {ESTIMATED}" if self.is_estimated else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderView:
    """A ladder in the results: its rungs, from the whole image to the controls, and the models that are drawn."""

    steps: tuple[RungView, ...]
    models: dict[str, ClassificationResult]
    contrasts: dict[tuple[str, Isolates], Contrast]

    def accuracy(self, model: str, step: RungView) -> Estimate | None:
        """Return a model's accuracy on a rung, or None if it was not measured."""
        one = self.models[model]
        if step.level is None:
            return one.acc_orig
        levels = [row for score in one.variants or () if score.variant == step.variant for row in score.levels]
        return next((row.at for row in levels if row.level == step.level), None)

    def fewer(self, step: RungView) -> str:
        """Return how many images have a rung, or an empty text if all images have it."""
        n, most = (
            max((one.n for model in self.models if (one := self.accuracy(model, of)) is not None), default=0)
            for of in (step, self.steps[0])
        )
        return f"n {n}" if n < most else ""

    @property
    def isolated(self) -> list[Isolates]:
        """The effects isolated on this ladder, in the order of the page."""
        known = {isolates for _, isolates in self.contrasts}
        return [one for one in ISOLATED if one in known]

    @property
    def has_estimates(self) -> bool:
        """Whether any rung uses boxes or masks that nobody drew."""
        return any(step.is_estimated for step in self.steps)

    def n(self, isolates: Isolates) -> int:
        """Return the largest number of images with both sides of a contrast."""
        return max((row.n for (_, one), row in self.contrasts.items() if one == isolates), default=0)

    def sides(self, isolates: Isolates) -> list[RungView]:
        """Return the rungs that a contrast compares."""
        names = {name for (_, one), row in self.contrasts.items() if one == isolates for name in (row.a, row.b)}
        return [step for step in self.steps if step.variant in names]

    def is_estimate(self, isolates: Isolates) -> bool:
        """Return whether a side of a contrast uses boxes or masks that nobody drew."""
        return any(step.is_estimated for step in self.sides(isolates))

    def called(self, isolates: Isolates) -> str:
        """Return the name of a contrast, marked if it is an estimate."""
        name = ISOLATED[isolates][0]
        return f"{name} {ESTIMATED}" if self.is_estimate(isolates) else name

    def mark(self, *rungs: str) -> str:
        """Return the mark for a figure of these rungs if one rung is an estimate, otherwise an empty text."""
        guessed = {str(step.facts.fields.get("rung")) for step in self.steps if step.facts and step.is_estimated}
        return f" {ESTIMATED}" if guessed & {*rungs} else ""

    def main(self) -> Isolates | None:
        """Return the most informative contrast on the background alone.

        It compares backgrounds of two classes or, if that is not possible, images with and without a background.

        The first contrast needs a background from another image of the same class. If few images have such a
        background, the second contrast is used.
        """
        if 2 * self.n("bg-gap") < self.n("background"):
            return "background"
        return next((one for one in ("bg-gap", "background", "background-cropped") if one in self.isolated), None)


def ladder(view: View) -> LadderView | None:
    """Return the ladder of backgrounds in these results, or None if they have none."""
    rungs = [variant for variant in view.variants.values() if variant.fields.get("kind") == KIND and variant.n_sets]
    if not rungs:
        return None
    rungs.sort(key=lambda one: one.role == "control")
    steps = [RungView(variant=ANCHOR, level=None, name=CALLED[ANCHOR], facts=None)]
    for one in rungs:
        steps += [
            RungView(variant=one.variant, level=level, name=called(one, level), facts=one) for level in one.levels
        ]
    contrasts = {
        (contrast.held or "", contrast.isolates): contrast
        for contrast in view.results.contrasts or ()
        if contrast.isolates is not None and is_known(contrast.value)
    }
    return LadderView(steps=tuple(steps), models=view.drawn(view.classifiers), contrasts=contrasts)


MOST_TOLD = 3
"""The largest number of models in a sentence. Figures and tables have the others."""


def some_models(found: LadderView) -> list[str]:
    """Return the first few models, because sentences mention only these."""
    return list(found.models)[:MOST_TOLD]


# -- sentences ---------------------------------------------------------------------------------------------------

_WHEN: dict[Isolates, str] = {
    "bg-gap": "when only the background is replaced by one of another class",
    "background": "when only the background is removed",
    "background-cropped": "when only the background inside the box turns grey",
}


def verdict(found: LadderView, model: str) -> str:
    """Return the effect of background and magnification on a model, in a sentence that respects its intervals."""
    return " ".join(
        f"{part[0].upper() if index else part[0]}{part[1:]}." for index, part in enumerate(_parts(found, model))
    )


def _parts(found: LadderView, model: str) -> list[str]:
    main = found.main()
    parts = []
    who = printable(model)
    if main is not None and (model, main) in found.contrasts:
        row, when = found.contrasts[model, main], _WHEN[main] + _guessed(found, main)
        shown = [one for one in _WHEN if (model, one) in found.contrasts and is_sure(found.contrasts[model, one])]
        if is_sure(row) or not shown:
            parts.append(_ground(who, row, when))
        else:  # another contrast is significant, and the text must agree with the star in the table
            other = shown[0]
            parts.append(_ground(who, found.contrasts[model, other], _WHEN[other] + _guessed(found, other)))
            parts.append(_chance(row, when))
    bigger: Isolates = "magnification"
    what = "magnifying only the object"
    if (model, bigger) not in found.contrasts:
        bigger, what = "magnification-with-ground", "cropping to the object, which also magnifies it,"
    if (model, bigger) in found.contrasts:
        effect = _bigger(found.contrasts[model, bigger], what)
        parts.append(effect if parts else f"For {who}, {effect}")
    return parts or [f"This ladder cannot separate background from magnification for {who}"]


def _guessed(found: LadderView, isolates: Isolates) -> str:
    """Return which inputs of a contrast are estimated (boxes, masks), as the end of its clause.

    Return an empty text if none are.
    """
    what = [
        kind
        for kind in ("boxes", "masks")
        if any(
            str(step.facts.fields.get(kind)).startswith("estimated:") for step in found.sides(isolates) if step.facts
        )
    ]
    return f" (with estimated {' and '.join(what)})" if what else ""


def _ground(who: str, row: Contrast, when: str) -> str:
    value = value_of(row.value)
    if not is_sure(row):
        change = (
            f"gains {measured(turned(row.value), 'points')}" if value < 0 else f"loses {measured(row.value, 'points')}"
        )
        return f"{who} does not depend significantly on the background: it {change} {when}"
    if value > 0:
        return f"{who} depends on the background: it loses {measured(row.value, 'points')} {when}"
    return f"{who} gains {measured(turned(row.value), 'points')} {when}"


def _chance(row: Contrast, when: str) -> str:
    change = f"loss of {measured(row.value, 'points')}"
    if value_of(row.value) < 0:
        change = f"gain of {measured(turned(row.value), 'points')}"
    return f"its {change} {when}{',' if ',' in when else ''} is not significant"


def _bigger(row: Contrast, what: str) -> str:
    if not is_sure(row):
        return f"{what} has no significant effect ({measured(row.value, 'points')})"
    if value_of(row.value) > 0:
        return f"{what} adds {measured(row.value, 'points')}"
    return f"{what} costs {measured(turned(row.value), 'points')}"


def intro(found: LadderView) -> str:
    """Return the explanation of this ladder and its limits."""
    rungs = {str(step.facts.fields.get("rung", step.variant)) for step in found.steps if step.facts}
    text = "Cropping an image to its object removes the background and also magnifies the object."
    if not rungs & {*AT_SCALE}:
        return f"{text} These images were only cropped, so the two effects cannot be separated. That needs masks."
    cropped = ", cropped to its object," if rungs & {"crop", "tight"} else ""
    return (
        f"{text} The ladder separates the two effects. It shows every image whole{cropped} and at its original scale "
        "with the background changed or removed."
    )


def zoom_text(found: LadderView) -> str:
    """Return how the best of many crops compares with chance, for every drawn model."""
    parts = []
    for name in some_models(found):
        one = found.models[name]
        best = ground.zoom if (ground := ground_of(one)) is not None else None
        if isinstance(best, BestOf):
            text = f"{printable(name)} is right on {percent(one.acc_orig)} of the whole images. On"
            text += f" {percent(best.best)} of the images, it is right on at least one of {best.tries} crops"
            parts.append(f"{text}; chance alone would give {percent(best.chance)}.")
    return " ".join(parts)


def background_lead(found: LadderView, view: View) -> tuple[str, str]:
    """Return the page's first sentence, about the model that depends most on the background, and the sentences below
    it.
    """
    main = found.main()
    if main is None:
        names = list(found.models)
    else:
        known = [name for name in found.models if (name, main) in found.contrasts]
        names = sorted(known, key=lambda name: -value_of(found.contrasts[name, main].value))
    if not names:
        return "No model has an answer on two rungs of this ladder.", ""
    head, *rest = _parts(found, names[0])
    one = found.models[names[0]]
    lede = [f"For {printable(names[0])}, {'; '.join(rest)}."] if rest else []
    lede += [verdict(found, name) for name in names[1:MOST_TOLD]]
    if len(names) == 1:
        lede.append(f"It gets {measured(one.acc_orig)} of {view.pictures(one.acc_orig.n)} right without any change.")
    more = [f"{len(names) - MOST_TOLD} more models are below."] if len(names) > MOST_TOLD else []
    return f"{head}.", " ".join([*lede, *more])


# -- tables ------------------------------------------------------------------------------------------------------


def rung_rows(found: LadderView) -> Iterator[list[str]]:
    """Return the rungs by name with every model's accuracy, for a terminal."""
    for step in found.steps:
        marks = [mark for mark, has in (("control", step.is_control), ("estimated", step.is_estimated)) if has]
        marks += [few] if (few := found.fewer(step)) else []
        cells = [found.accuracy(model, step) for model in found.models]
        if any(cell is not None and is_known(cell) for cell in cells):
            name = f"{step.name} ({', '.join(marks)})" if marks else step.name
            yield [name, *map(with_interval, cells)]


def isolated_rows(found: LadderView) -> Iterator[list[str]]:
    """Return every model's isolated effects in points. A star marks the significant effects."""
    for isolates in found.isolated:
        name, of = ISOLATED[isolates]
        rows = [found.contrasts.get((model, isolates)) for model in found.models]
        cells = ["—" if row is None else with_interval(row.value, " *" if is_sure(row) else "  ") for row in rows]
        mark = ", estimated" if found.is_estimate(isolates) else ""
        yield [f"{name}: {of} (n {found.n(isolates)}{mark})", *cells]


def number_lines(found: LadderView) -> list[Lines]:
    """Return the weight of each part of the image, and the best of many crops, with a row for every drawn model."""
    scores = {name: ground for name in found.models if (ground := ground_of(found.models[name])) is not None}
    without_ground, without_object = found.mark("grey", "plain", "object"), found.mark("removed", "ground")
    columns = ["model", "right, whole image", "names a class", f"lost without background{without_ground}"]
    columns += [f"lost without object{without_object}", f"object vs. background{without_ground or without_object}"]
    rows = [
        [
            printable(name),
            with_interval(found.models[name].acc_orig),
            with_interval(score.covered[0].share) if score.covered else "always",
            *map(with_interval, (score.sensitivity.background, score.sensitivity.foreground)),
            EstimateText(
                score.sensitivity.relative.text(scale=1.0, digits=2).replace("-", "−"), score.sensitivity.relative
            ),
        ]
        for name, score in scores.items()
    ]
    out: list[Lines] = []
    if rows:
        notes = [_LOST, covered_text(found, *found.models)]
        out.append(("How much do background and object matter?", columns, rows, [note for note in notes if note]))
    if text := zoom_text(found):
        columns = ["model", "best crop", "chance", "above chance, points"]
        columns = [*columns, *(f"{column}, wrong when whole" for column in columns[1:])]
        rows = [
            [printable(name), *(cell for best in (score.zoom, score.zoom_wrong) for cell in _best_cells(best))]
            for name, score in scores.items()
        ]
        out.append((f"Would the right crop be enough?{found.mark(*CROPS)}", columns, rows, [text, _BEST]))
    return out


def _best_cells(best: BestOf | Missing) -> tuple[str, str, str]:
    if isinstance(best, Missing):
        return "—", "—", "—"
    return with_interval(best.best, f" (n {best.n})"), f"{100 * best.chance:.1f}", with_interval(best.beyond)


_LOST = (
    "lost: share of the images that are right when whole and turn wrong when the background becomes grey (or one "
    "colour, or black, if there is no grey rung), or when only the object is removed; object vs. background: from −1 "
    "(only the background matters) to 1 (only the object matters), the relative foreground sensitivity of Moayeri et "
    "al. 2022, with removal in place of noise"
)
_BEST = (
    "best crop: share of images that are right on at least one crop (centre, random place, the box, or wider), some of "
    "them by chance; chance: the share that remains when the same answers are shuffled across images, crop by crop"
)


def class_lines(found: LadderView) -> list[Lines]:
    """Return a table for every drawn model.

    The classes that depend most on the background come first, and small classes last.
    """
    out: list[Lines] = []
    main = found.main()
    shown: list[Isolates] = [one for one in found.isolated if one in ("bg-gap", "background", "magnification")]
    for name, one in found.models.items():
        classes = ground.per_class if (ground := ground_of(one)) else ()
        if len(classes) < 2 or not shown:
            continue
        by = shown.index(main) if main in shown else 0
        rows = []
        for row in classes:
            cells = {cell.isolates: cell.value for cell in row.isolated}
            rows.append((row, tuple(cells[isolates] for isolates in shown)))
        rows.sort(key=lambda row: (row[0].small, -value_of(row[1][by]) if is_known(row[1][by]) else 9.0))
        columns = ["class", "right, whole image", *map(found.called, shown), "n"]
        table = [
            [
                f"{printable(row.name)}{' (few)' if row.small else ''}",
                *map(with_interval, (row.whole, *cells)),
                str(row.n),
            ]
            for row, cells in rows[:MOST_CLASSES]
        ]
        notes = [_class_sentence(printable(name), rows, by, ISOLATED[shown[by]][0])]
        if len(rows) > MOST_CLASSES:
            notes.append(f"{len(rows) - MOST_CLASSES} more classes are in tables/background_classes.csv")
        out.append((f"Which classes depend on the background? {printable(name)}", columns, table, notes))
    return out


def _class_sentence(who: str, rows: list[tuple[ClassRungs, tuple[Estimate, ...]]], by: int, what: str) -> str:
    """Return for how many classes the effect of the background exceeds its interval.

    Single classes are not ranked.
    """
    sure = [row for row, cells in rows if (cells[by].low or 0) > 0 and not row.small]
    small = sum(row.small for row, _ in rows)
    if small == len(rows):
        return f"{who}: every class has fewer than ten images, too few to tell which classes depend on the background."
    text = f"{who}: the interval of “{what}” is above zero in {len(sure)} of {len(rows)} classes"
    if sure:
        text += f" ({', '.join(printable(row.name) for row in sure[:4])}{' …' if len(sure) > 4 else ''})"
    text += f"; {small} classes have fewer than ten images and are not counted" if small else ""
    return f"{text}. These intervals are not corrected for the number of classes."


def covered_text(found: LadderView, *models: str) -> str:
    """Return which models do not always name a class on the whole images, or an empty text if all models do."""
    parts = []
    for name in models:
        ground = ground_of(found.models[name])
        if ground is not None and ground.covered:
            share = ground.covered[0].share
            whole = "every whole image" if share.value == 1 else f"{percent(share)} of the whole images"
            parts.append(f"{printable(name)} names a class for {whole}")
    return f"{'; '.join(parts)}. An answer without a class counts as wrong." if parts else ""
