"""A dataset card: README.md with the front matter that hubs read, and a description generated from the dataset."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.core.people import PEOPLE
from strobe.core.quoting import safe_markdown
from strobe.formats.export_media import Outgoing
from strobe.formats.registry import ExportFormat
from strobe.store.bring_media import MediaMode

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_REVIEWED = {
    "none": "Nobody has checked that the members of a set show the same thing. Treat results as an upper bound on "
    "the loss of models.",
    "release": "The sets were reviewed before they were published.",
    "votes": "People voted on the sets. Only the sets and members that they kept are scored.",
}
_LABELS = {"frame": "A member is scored with its own labels.", "anchor": "A member is scored with its anchor's labels."}


def export_card(dataset: Dataset, *, media: MediaMode) -> Outgoing:  # noqa: ARG001 (every exporter's signature)
    """Return only README.md."""
    use = f"    strobe inspect {_word(dataset.name)}\n    strobe eval {_word(dataset.name)} -m MODEL -o run/\n"
    return Outgoing(files={"README.md": card(dataset, use=use)})


def card(dataset: Dataset, *, use: str, more: Mapping[str, Any] | None = None) -> str:
    """Return the card's text.

    `use` is the block of commands or code to show, and `more` is added to the front matter.
    """
    front = {**_front(dataset), **(more or {})}
    # JSON is valid YAML, so a name with any characters stays a single value.
    head = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in front.items())
    made = printable(dataset.info.provenance.get("made_by", "unknown"), limit=200).replace("`", "'")
    classes = ", ".join(safe_markdown(name, limit=60) for name in dataset.info.label_space.names[:40])
    rest = len(dataset.info.label_space) - 40
    classes += f" and {rest} more" if rest > 0 else ""
    rows = "".join(f"| {name} | {value} |\n" for name, value in _numbers(dataset).items())
    return (
        f"---\n{head}---\n"
        f"# {safe_markdown(dataset.name, limit=200)}\n\n{description(dataset)}\n\n"
        f"| | |\n|---|---|\n{rows}\n"
        f"## Use\n{use}\n"
        f"## Labels\n{_LABELS[dataset.info.label_source]} Classes: {classes}.\n\n"
        f"## Review\n{_REVIEWED[dataset.info.reviewed]}{_people(dataset)}\n\n"
        f"## Where it comes from\nMade by `{made}`. Licence: "
        f"{safe_markdown(dataset.info.licence, limit=500) or 'unknown; ask the author before you share the dataset'}.\n"
    )


def description(dataset: Dataset) -> str:
    """Describe the dataset in two sentences."""
    info = dataset.info
    what = "anchor images and images that should get the same answer"
    if info.axis == "frame-offset" and info.k:
        what = f"anchor frames of videos and the frames within ±{info.k} of them, which should get the same answer"
    elif not info.k:
        what = "single images"
    return (
        f"Perturbation sets for measuring whether vision models flicker: {what}. "
        f"{dataset.n_sets:,} sets, {len(np.unique(dataset.sets.frame)):,} images, {len(dataset.videos):,} sources, "
        f"{len(info.label_space):,} classes."
    )


def _front(dataset: Dataset) -> dict[str, Any]:
    info = dataset.info
    n_images = len(np.unique(dataset.sets.frame))
    tasks = ["image-classification", *(["object-detection"] if dataset.boxes is not None else [])]
    licence = {"license": "other", "license_name": printable(info.licence, limit=200)} if info.licence else {}
    return {
        "pretty_name": printable(info.name, limit=200),
        **licence,
        "task_categories": tasks,
        "tags": ["robustness", "video", "strobe"],
        "size_categories": [next((name for most, name in _SIZES if n_images < most), "n>1M")],
    }


def _numbers(dataset: Dataset) -> dict[str, object]:
    info = dataset.info
    out: dict[str, object] = {
        "sets": f"{dataset.n_sets:,}",
        "images in sets": f"{len(np.unique(dataset.sets.frame)):,}",
        "sources (videos, photos)": f"{len(dataset.videos):,}",
        "classes": f"{len(info.label_space):,} ({safe_markdown(info.label_space.name, limit=100)})",
        "distance": f"{safe_markdown(info.axis, limit=100)}, k = {info.k}",
    }
    if dataset.boxes is not None:
        out["boxes"] = f"{len(dataset.boxes.frame):,}"
    if dataset.variants is not None:
        out["variants"] = f"{len(dataset.variants.variant):,}"
    return out | {"version": safe_markdown(info.version, limit=100), "digest": f"`{dataset.digest()}`"}


def _people(dataset: Dataset) -> str:
    answers = [one for table in PEOPLE for one in getattr(dataset, table)]
    people = {answer.annotator for answer in answers}
    if not answers:
        return ""
    return f" It contains {len(answers):,} answers by {len(people):,} people, under the names that these people chose."


def _word(name: str) -> str:
    plain = printable(name, limit=100)
    return plain if plain.replace("-", "").replace("_", "").isalnum() else "DATASET"


FORMAT = ExportFormat(
    make=export_card,
    no_media="a card contains no images; remove <<media>>",
    into_its_own=True,
)
