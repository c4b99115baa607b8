"""What the reconstruction of a photo alone does to each model, before any search."""

from strobe.core.errors import printable
from strobe.core.variants import ANCHOR
from strobe.report.view import Lines, View
from strobe.report.wording import is_known, join, value_of, with_interval
from strobe.studies.variants.records import Contrast

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
