"""How the rungs of a ladder are compared and described, where the house asks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strobe.analyses.variant_kinds import VariantKind
from strobe.annexes.backgrounds.ladders import CALLED
from strobe.core.errors import printable
from strobe.core.variants import ANCHOR, Variant
from strobe.report.view import View
from strobe.studies.variants.records import VariantFacts
from strobe.studies.variants.score import VariantPlan


def _scorer(plan: VariantPlan, areas: Mapping[str, float]) -> Any:
    from strobe.annexes.backgrounds.study.score import LadderScorer

    return LadderScorer(plan, areas)


def _areas(path: Path) -> Mapping[str, float]:
    from strobe.annexes.backgrounds.ladder_table import read_ladder

    pictures = read_ladder(path) or ()
    return {picture.picture: picture.area_share for picture in pictures if picture.area_share is not None}


def called(one: VariantFacts | Variant, level: float | None = None) -> str:
    """Return the content of a rung. `level` is the width of a crop as a multiple of its box.

    >>> crop = Variant(variant="crop", axis="context", unit="x", fields={"kind": "background", "rung": "crop"})
    >>> called(crop), called(crop, 1.5)
    ('the box', 'the box, 1.5 × as wide')
    """
    name = CALLED.get(str(one.fields.get("rung", one.variant)), printable(one.variant))
    return name if level in (None, 1.0) else f"{name}, {level:g} × as wide"


def _explanation(view: View) -> str:
    from strobe.annexes.backgrounds.study.words import ladder

    n_rungs = len(found.steps) if (found := ladder(view)) is not None else 0
    return (
        f"Every image is shown on up to {n_rungs} rungs of a ladder: whole, and with its crop, its "
        "background or its object changed. Accuracy on a rung is the share of its images that are right. Two rungs "
        "that differ in one thing, compared on the same images, show the effect of that thing."
    )


def _terms(view: View) -> list[tuple[str, str]]:
    from strobe.annexes.backgrounds.study.words import ladder

    steps = () if (found := ladder(view)) is None else found.steps
    rungs = {step.variant: called(step.facts) for step in steps if step.facts}
    files = "; ".join(f"{name}: {printable(one)}" for one, name in rungs.items())
    return [*_RUNGS, ("rungs in the files", f"tables/ and results.json use short names. {files}.")]


_RUNGS = [
    ("rung", "One way an image is shown: whole, or a variant at one of its levels."),
    ("background", "Everything in the image except the object."),
    ("BG-Gap", "Accuracy on the background of another image of the same class, minus accuracy on the background of "
               "another class (Xiao et al. 2020: mixed-same − mixed-rand)."),
    ("names a class, coverage", "The answer is a class of the data. A detector that finds no box names no class and "
                               "counts as wrong."),
]  # fmt: skip

BACKGROUND = VariantKind(
    scorer=_scorer, areas=_areas, called=called, anchor=CALLED[ANCHOR], explanation=_explanation, terms=_terms
)
