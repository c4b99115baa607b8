"""What the reconstruction of a photo alone does to each model, before any search."""

from dataclasses import dataclass

from strobe.core.errors import printable
from strobe.core.estimate import Estimate
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstructed:
    """One model on photos and on their reconstructions. The contrast is reconstructions − photos, paired."""

    model: str
    photos: Estimate
    made: Estimate
    contrast: Contrast | None

    @property
    def change(self) -> Estimate | None:
        """The change of accuracy that reconstruction makes, as a share."""
        return None if self.contrast is None else self.contrast.value


def _photo_variants(view: View) -> list[str]:
    return [name for name, variant in view.variants.items() if variant.fields.get("kind") == PHOTO]


def reconstructed(view: View) -> list[Reconstructed]:
    """Return every classifier on photos and reconstructions, or nothing if no photo was reconstructed."""
    names, out = _photo_variants(view), []
    for model, result in view.classifiers.items():
        for score in result.variants or ():
            if score.variant in names and score.levels:
                contrast = next(
                    (
                        one
                        for one in view.results.contrasts or ()
                        if (one.of, one.a, one.b, one.held) == ("variants", ANCHOR, score.variant, model)
                    ),
                    None,
                )
                out.append(
                    Reconstructed(model=model, photos=score.levels[0].at, made=score.acc_orig, contrast=contrast)
                )
    return out


def reconstruction_text(view: View) -> str:
    """Return one sentence: the change of accuracy by reconstruction, for each model.

    It also names models that the summary excludes, because reconstruction alone may be what makes them weak.
    """
    names = _photo_variants(view)
    each = [
        f"{printable(contrast.held)} by " + f"{100 * value_of(contrast.value):+.1f}".replace("-", "−")
        for contrast in view.results.contrasts or ()
        if (contrast.of, contrast.a) == ("variants", ANCHOR)
        and contrast.b in names
        and contrast.held
        and is_known(contrast.value)
    ]
    if len(each) > _NAMED:
        each = [*each[:_NAMED], f"{len(each) - _NAMED} more models by other amounts"]
    return f"Reconstruction alone changes the accuracy of {join(each)} points." if each else ""


def reconstruction_lines(view: View) -> list[Lines]:
    """Return the table for the terminal."""
    rows = reconstructed(view)
    if not rows:
        return []
    cells = [
        [
            printable(row.model, limit=40),
            with_interval(row.photos),
            with_interval(row.made),
            "—" if row.change is None else with_interval(row.change),
        ]
        for row in rows
    ]
    title = f"{printable(view.results.dataset.name)}: what reconstruction alone does"
    return [(title, ["model", "photos", "reconstructions", "change"], cells, [NOTE])]
