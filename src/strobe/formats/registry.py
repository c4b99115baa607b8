"""The import and export formats: how a format declares itself, and two lists of text.

A new format needs its module and one line here. Packages add formats with entry points of the groups
`strobe.import_formats` and `strobe.export_formats` (docs/plugins.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strobe.core.errors import InvalidValue, expect, printable
from strobe.core.late import Registry
from strobe.core.options import Option

if TYPE_CHECKING:
    from strobe.formats.export_media import Outgoing
    from strobe.formats.sampled import ImportedDataset


FormatOption = Option
"""An option of an import format."""

LABEL_SPACE = FormatOption(name="label_space", help="A shipped label space that has the classes, e.g. imagenet-vid.")
K = FormatOption(name="k", kind=int, default=10, help="Frames before and after the anchor.")
SEED = FormatOption(name="seed", kind=int, default=0, least=0, help="Seed of all random choices.")
MAX_IMAGES = FormatOption(name="max_images", kind=int, help="Largest number of images, chosen by --seed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFormat:
    """A format that `strobe import` reads.

    `about` is the help text, `example` holds example arguments, and `what` is the line in the list of formats.

    The list of strobe's own formats contains that line, so that the help can show it without importing the format.

    `read(source, target, how=…, …)` returns the dataset. The options are passed as keywords, or as one `record` in the
    keyword `files`. With `draw`, the format chooses anchors and receives an ImportSampling. `media` means that the
    format copies or links images, so the media options apply. A `fetched` format has no source. `outside` describes the
    source's images in the error for a target inside the source. strobe checks the target and writes the tables, except
    for a `whole` format, which does both itself.
    """

    read: "Callable[..., ImportedDataset]"
    about: str
    example: str
    what: str = ""
    options: tuple[FormatOption, ...] = ()
    record: type[Any] | None = None
    draw: bool = False
    media: bool = True
    fetched: bool = False
    outside: str = ""
    whole: bool = False

    def __post_init__(self) -> None:
        expect(callable(self.read), "ImportFormat.read", "a function (source, target, how=…)", self.read)
        expect(bool(self.about and self.example), "ImportFormat", "about and example", (self.about, self.example))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFormat:
    """A format that `strobe export` writes.

    `what` is its line in the help. For strobe's own formats, the list of formats contains this line.

    `make(dataset, media=…)` returns the content of the files and the images to copy or link. `write_frames` writes the
    frames instead, for a format that stores frames in its own files. `no_media` is the reason why --media is refused.
    `into_its_own` means that the export is one file, which may be written into the dataset's own folder. `people`
    means that the files contain people's answers, so that pseudonyms can replace the annotators' names.
    """

    make: "Callable[..., Outgoing]"
    what: str = ""
    write_frames: Callable[..., Any] | None = None
    no_media: str = ""
    into_its_own: bool = False
    people: bool = False

    def __post_init__(self) -> None:
        expect(callable(self.make), "ExportFormat.make", "a function (dataset, media=…)", self.make)


def several_names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas.

    >>> several_names("cat, dog")
    ('cat', 'dog')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def severities(text: str) -> tuple[int, ...]:
    """Parse severities from 1 to 5.

    >>> severities("1-3"), severities("1,5")
    ((1, 2, 3), (1, 5))
    """
    try:
        parts = [part.partition("-") for part in text.split(",")]
        ends = [(int(low), int(high if dash else low)) for low, dash, high in parts]
    except ValueError as error:
        raise InvalidValue(f"expected 1-5 or 1,3,5, got {printable(text, limit=60)!r}") from error
    if not all(1 <= low <= high <= 5 for low, high in ends):
        raise InvalidValue(f"expected severities from 1 to 5, e.g. 1-5 or 1,3,5, got {printable(text, limit=60)!r}")
    return tuple(dict.fromkeys(severity for low, high in ends for severity in range(low, high + 1)))


IMPORT_FORMATS = Registry(
    "import_formats",
    ImportFormat,
    "format",
    {
        "coco-vid": (
            "strobe.formats.import_coco_vid:FORMAT",
            "COCO video JSON or YouTube-VIS JSON.",
        ),
        "photos": (
            "strobe.formats.import_photos:FORMAT",
            "Labelled photos: class folders, a CSV, or ILSVRC's validation images.",
        ),
        "frames": (
            "strobe.formats.import_frames:FORMAT",
            "A folder of frames per video and a CSV of labels.",
        ),
    },
)
"""Every format of `strobe import`, in display order."""

EXPORT_FORMATS = Registry(
    "export_formats",
    ExportFormat,
    "export format",
    {
        "coco": (
            "strobe.formats.export_coco:FORMAT",
            "COCO JSON with the fields of COCO video",
        ),
        "csv": (
            "strobe.formats.export_csv:FORMAT",
            "every table as CSV",
        ),
        "fiftyone": (
            "strobe.formats.export_fiftyone:FORMAT",
            "a FiftyOne dataset folder",
        ),
        "huggingface": (
            "strobe.formats.export_huggingface:FORMAT",
            "Parquet with the images inside, for Hugging Face datasets",
        ),
        "croissant": (
            "strobe.formats.export_croissant:FORMAT",
            "the tables with Croissant metadata (croissant.json)",
        ),
        "card": (
            "strobe.formats.export_card:FORMAT",
            "a dataset card (README.md)",
        ),
    },
    reserved=("leaderboard", "flickers", "latex", "figures"),
)
"""Every format of `strobe export` for a dataset, in display order."""
