"""How an input was read that does not say itself how to read it: one sentence per guess, which travels with the data.

A guess that changes a figure is stated next to the figure. Readings of a dataset are among the `notes` of its
provenance, and readings of predictions among the facts stored with them. Both reach results.json, terminal and page.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from strobe.core.errors import printable
from strobe.core.files import json_of

Guess = Literal["kind", "space", "frame rate", "pixel aspect", "rotation", "annotations", "corruptions"]

GUESSES: Mapping[Guess, str] = {
    "kind": "kind of the scores",
    "space": "classes of the file",
    "frame rate": "frame rate",
    "pixel aspect": "pixel aspect",
    "rotation": "display rotation",
    "annotations": "annotations",
    "corruptions": "corruptions",
}
"""Everything that strobe guesses, and its name in sentences."""

_READ_AS = " read as "


def read_as(guess: Guess, value: str, reason: str) -> str:
    """Return the sentence for a guess.

    >>> read_as("kind", "probabilities", "its rows sum to 1 in every row")
    'kind of the scores read as probabilities (its rows sum to 1 in every row)'
    """
    return f"{GUESSES[guess]}{_READ_AS}{value} ({reason})"


def is_reading(note: str) -> bool:
    """Return whether a note states a guess."""
    return any(f"{name}{_READ_AS}" in note for name in GUESSES.values())


def readings_of_videos(notes: Iterable[str]) -> tuple[str, ...]:
    """Return the guesses among the notes `VIDEO: text`. A guess about several videos names the first of them.

    >>> same = "frame rate read as 25 (its codec states it)"
    >>> readings_of_videos([f"a.h264: {same}", "b: 2 damaged frame(s) left out", f"c.h264: {same}"])
    ('a.h264 and 1 more: frame rate read as 25 (its codec states it)',)
    """
    lines = []
    for note in filter(is_reading, notes):
        video, _, text = note.rpartition(": ") if is_reading(note.rpartition(": ")[2]) else ("", "", note)
        lines.append((video, text))
    return tuple(folded(lines))


def folded(lines: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines `NAME: text`; a text that several names share is one line with their number.

    Guesses with one result are alike if their reasons differ in numbers only; the first one's are shown, with its name.

    >>> folded([("a", "x"), ("b", "y"), ("c", "x"), ("d", "x"), ("", "z")])
    ['a and 2 more: x', 'b: y', 'z']
    >>> folded([("a", read_as("kind", "logits", "its sum is 3")), ("b", read_as("kind", "logits", "its sum is 4"))])
    ['a and 1 more: kind of the scores read as logits (a: its sum is 3)']
    """
    names: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for name, text in lines:
        guess, bracket, reason = text.partition(" (") if is_reading(text) else (text, "", "")
        key = guess + bracket + re.sub(r"[-\d.,]+", "", reason)
        first = names.setdefault(key, [])
        if shown.setdefault(key, text) != text:
            shown[key] = f"{guess} ({first[0]}: {shown[key].partition(' (')[2].removeprefix(f'{first[0]}: ')}"
        first.append(name)
    out = []
    for key, own in names.items():
        more = f" and {len(own) - 1} more" if len(own) > 1 else ""
        out.append(f"{own[0]}{more}: {shown[key]}" if own[0] else shown[key])
    return out


def readings_of_model(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the guesses that were stored with predictions."""
    return tuple(json_of(str(facts.get("readings", "[]"))))


def reading_lines(models: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a line for each guess that was stored with the predictions of models, from their facts by name."""
    return tuple(f"{printable(name)}: {text}" for name, facts in models.items() for text in readings_of_model(facts))
