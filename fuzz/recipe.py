"""One command line that is tried, and what is laid out for it."""

from dataclasses import dataclass

__all__ = ["Recipe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One command line: what is laid out for it, the folder it writes (if any), and how often it is drawn.

    `aside` names laid-out files that are not damaged; where that is all of them, the words are. `in_place` says that
    the command may change its inputs.
    """

    name: str
    words: tuple[str, ...]
    place: tuple[str, ...]
    dest: str | None = None
    weight: float = 1.0
    aside: tuple[str, ...] = ()
    in_place: bool = False

    @property
    def verb(self) -> str:
        """The verb, with the format or the second word where it has one."""
        return " ".join(self.words[:2]) if self.words[0] in ("import", "review", "vary") else self.words[0]
