"""Check the names and notes that people write, and recognise different spellings of one person's name."""

import re
import unicodedata
from collections.abc import Iterable

from strobe.core.errors import InvalidValue, printable

MAX_NOTE = 1000
_NAME = re.compile(r"[\w][\w .'’\-]{0,39}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def checked_name(name: str) -> str:
    """Return a person's name. Raise InvalidValue unless it has at most 40 letters, digits, spaces and . ' - signs.

    >>> checked_name("  Ann-Marie O'Neil ")
    "Ann-Marie O'Neil"
    """
    name = unicodedata.normalize("NFC", name).strip()
    if not _NAME.fullmatch(name):
        raise InvalidValue(
            "name: expected 1–40 letters, digits, spaces or . ' - with a letter or digit first, "
            f"got {printable(name, limit=60)!r}"
        )
    return name


def checked_note(note: str) -> str:
    """Return a note unchanged. Raise InvalidValue for control characters (except line breaks) or excessive length.

    The limit is MAX_NOTE characters. HTML is allowed: notes are only ever shown as text.
    """
    if len(note) > MAX_NOTE or _CONTROL.search(note):
        raise InvalidValue(f"note: expected at most {MAX_NOTE} characters without control characters")
    return note


class Spellings:
    """Names in use. Names that differ only in letter case, spaces or Unicode form belong to the same person.

    >>> Spellings(["Ann Lee"]).known("ann  LEE"), Spellings(["Ann Lee"]).known("Bo")
    ('Ann Lee', 'Bo')
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._exact: set[str] = set()
        self._folded: dict[str, str] = {}
        for name in names:
            self._add(name)

    def known(self, name: str) -> str:
        """Return the name in the spelling that is in use, or unchanged if it is new."""
        return name if name in self._exact else self._folded.get(_fold(name), name)

    def checked(self, name: str) -> str:
        """Add a valid name. Raise InvalidValue if it is in use in another spelling."""
        name = checked_name(name)
        known = self.known(name)
        if known != name:
            raise InvalidValue(
                f"the name {printable(name)!r} differs from {printable(known)!r}, which is in use, only in letter "
                f"case, spaces or Unicode form; write {printable(known)!r} if it is the same person, or choose another "
                "name"
            )
        self._add(name)
        return name

    def _add(self, name: str) -> None:
        self._exact.add(name)
        self._folded.setdefault(_fold(name), name)


def _fold(name: str) -> str:
    # Normalised again, because case folding can decompose a letter (ΐ).
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())
