"""A strobe command for the fuzzer, and its input files."""

from dataclasses import dataclass

__all__ = ["Command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line, the input files it needs, the folder it writes (if any), and its weight in the random choice.

    `aside` names input files that are not damaged. If `aside` names all input files, the command line is damaged
    instead. `in_place` means that the command may change its inputs. `refused` means that the command fails even if
    nothing is damaged, because its options do not fit. All other commands succeed (`fuzz.sound`).
    """

    name: str
    words: tuple[str, ...]
    place: tuple[str, ...]
    dest: str | None = None
    weight: float = 1.0
    aside: tuple[str, ...] = ()
    in_place: bool = False
    refused: bool = False

    @property
    def verb(self) -> str:
        """The verb, with the format or the second word if it has one."""
        return " ".join(self.words[:2]) if self.words[0] in ("import", "review", "vary") else self.words[0]
