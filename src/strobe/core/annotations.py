"""Read the papers' own annotation files as votes.

Schema: `{"annotations": [{"key", "notes", "labels": [int]}], "labels": [names]}`. The key of a pair is
`<anchor>,<frame>`; keys are normalised to their last two path parts.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, printable
from strobe.core.records import Verdict

_REASON_OF = {
    "deformation": "deformation",
    "background-change": "background",
    "occlusion-increased": "occlusion",
    "blur-increase": "blur",
    "problematic": "other",
    "dissimilar": "",
}
"""The papers' terms for a pair that is not similar, each with the corresponding reason."""

_PAIR_WORDS = {*_REASON_OF, "similar", "correct", "incorrect", "dont know", "bad-anchor"}
_ANCHOR_WORDS = {"good", "bad", "unsure"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One entry of an annotation file: its normalised keys (one for an anchor, two for a pair) and its terms."""

    keys: tuple[str, ...]
    words: frozenset[str]
    note: str


def normalise_key(key: str) -> str:
    """Return the last two path parts, independent of the machine that wrote the file.

    >>> normalise_key("/home/someone/frames/KxDh7a8_AmU_44666/frame-1117.jpg")
    'KxDh7a8_AmU_44666/frame-1117.jpg'
    """
    return "/".join(key.strip().split("/")[-2:])


def parse_annotations(data: Any, path: Path) -> list[Annotation]:
    """Return the annotations in a file's JSON. An invalid entry raises a one-line InvalidFile that names it."""
    if not isinstance(data, dict) or not isinstance(data.get("annotations"), list) or "labels" not in data:
        raise InvalidFile(path, 'expected {"annotations": […], "labels": […]}')
    names = data["labels"]
    out = []
    for index, entry in enumerate(data["annotations"]):
        where = f"annotations[{index}]"
        try:
            keys = tuple(normalise_key(part) for part in entry["key"].split(","))
            if any(label < 0 for label in entry["labels"]):
                raise IndexError  # Python would count a negative index from the end
            words = frozenset(str(names[label]) for label in entry["labels"])
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidFile(path, "expected an object with key and labels", where=where) from error
        except IndexError as error:
            raise InvalidFile(
                path, f"{printable(entry['labels'])} has a number outside the {len(names)} names", where=where
            ) from error
        if len(keys) not in (1, 2):
            raise InvalidFile(
                path, f"expected <anchor> or <anchor>,<frame>, got {printable(entry['key'])}", where=where
            )
        out.append(Annotation(keys=keys, words=words, note=str(entry.get("notes") or "")))
    return out


def _verdict_id(source: str, annotation: Annotation) -> str:
    text = "\n".join((source, *annotation.keys, *sorted(annotation.words), annotation.note))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def pair_verdict(annotation: Annotation, *, annotator: str, at: str, set_id: str, frame_id: str) -> Verdict:
    """Convert a pair's terms to one vote.

    The pair counts as similar only if it has none of these contrary terms: dissimilar, problematic, incorrect, dont
    know, deformation, background-change, occlusion-increased, blur-increase, bad-anchor.
    """
    words = annotation.words
    against = [word for word in _REASON_OF if word in words]
    reason = next((_REASON_OF[word] for word in against if _REASON_OF[word]), "other" if against else "")
    unsure = "dont know" in words or "similar" not in words
    return Verdict(
        verdict_id=_verdict_id(f"{annotator}\n{set_id}\n{frame_id}", annotation),
        annotator=annotator,
        at=at,
        stage="pair",
        set_id=set_id,
        frame_id=frame_id,
        decision="dissimilar" if against else "unsure" if unsure else "similar",
        label_right=False if "incorrect" in words else True if "correct" in words else None,
        reason=reason,
        bad_anchor="bad-anchor" in words,
        note=annotation.note,
    )


def anchor_verdict(
    annotation: Annotation, *, annotator: str, at: str, set_id: str, frame_id: str, given: tuple[str, ...]
) -> Verdict:
    """Convert an anchor's terms to one vote of the label stage; `given` holds its previous label names.

    A good anchor has the term `good`, and neither `bad` nor `unsure`. Terms that are class names are added to the
    labels.
    """
    words = annotation.words
    good = "good" in words and not words & {"bad", "unsure"}
    added = sorted(words - _ANCHOR_WORDS - _PAIR_WORDS - set(given))
    return Verdict(
        verdict_id=_verdict_id(f"{annotator}\n{set_id}\nanchor", annotation),
        annotator=annotator,
        at=at,
        stage="anchor",
        set_id=set_id,
        frame_id=frame_id,
        decision="similar" if good else "unsure" if "unsure" in words and "bad" not in words else "dissimilar",
        bad_anchor=not good,
        labels=(*given, *added),
        note=annotation.note,
    )
