"""The error classes. A message names the fault, its place, and the action to take."""

import errno
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from strobe.core.secrets import hidden

_REFUSED = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "no permission; ask its owner, or choose another location"),
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.EROFS: "the file system is read-only; choose another location",
    errno.ENOSPC: "the disk is full; free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
    errno.EIO: "the disk or the network failed; check it and run the same command again",
    errno.ESTALE: "the network folder is not available; run the same command again when it is",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine; close some programs",
}

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_HALF = re.compile(r"[\ud800-\udfff]")
"""Halves of characters, which no UTF-8 file can have."""

_MOST_SEARCHED = 2**17
"""How many characters of a text can be shown."""

_PASSWORD = re.compile(r"://[^/\s@]*@")


def printable(text: object, *, limit: int = 300) -> str:
    """Return the text on one line, without control characters, truncated to `limit` characters.

    A password in an address and every known secret (`core.secrets`) are replaced.

    >>> printable("a\\x1b[31mred\\nb"), printable("openai:m@http://me:secret@host")
    ('a[31mred b', 'openai:m@http://…@host')
    """
    flat = str(text)[:_MOST_SEARCHED].replace("\n", " ").replace("\t", " ")
    flat = hidden(_PASSWORD.sub("://…@", _HALF.sub("\ufffd", _CONTROL.sub("", flat))))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def without_name(name: str, text: str) -> str:
    """Return the message without the model's name at its start, for lines that already contain the name.

    >>> without_name("hf:a/b@w.bin", "hf:a/b: expected a folder")
    'expected a folder'
    """
    for said in (name, name.partition("@")[0]):
        text = text.removeprefix(f"{printable(said)}: ")
    return text


def install_line(extra: str = "") -> str:
    """Return the command that installs strobe with an extra; `strobe` on PyPI is another project.

    >>> install_line("video"), install_line()
    ("pip install 'strobe-vision[video]'", 'pip install strobe-vision')
    """
    return f"pip install 'strobe-vision[{extra}]'" if extra else "pip install strobe-vision"


_SHORT = {"out": "-o", "model": "-m"}


def flag(name: str, value: str | None = None) -> str:
    """Return an option as the command line writes it.

    >>> flag("allow_missing", "True"), flag("batch_size", "8"), flag("out")
    ('--allow-missing', '--batch-size 8', '-o')
    """
    written = _SHORT.get(name) or "--" + name.replace("_", "-")
    return written if value in (None, "True") else f"{written} {value}"


_writers: list[Callable[[str, str | None], str]] = [flag]
"""How options are written; the last one applies. A list, not a context variable, because worker threads share it."""


@contextmanager
def options_written(how: Callable[[str, str | None], str]) -> Iterator[None]:
    """Let the messages made in this block write options as `how` does."""
    _writers.append(how)
    try:
        yield
    finally:
        _writers.remove(how)


def spelled(text: str) -> str:
    """Return the text with each `<<option>>` or `<<option=value>>` as the user sets it (ADR 18).

    An option is named by its flag with underscores. The terminal gets flags. The Python API gets arguments.

    >>> spelled("score the rest with <<allow_missing=True>>, or try <<batch_size=8>>; remove <<stop_early>>")
    'score the rest with --allow-missing, or try --batch-size 8; remove --stop-early'
    """
    before, *parts = text.split("<<")
    for part in parts:
        inside, end, after = part.partition(">>")
        name, equals, value = inside.partition("=")
        is_option = end and name.isidentifier() and name.islower()
        before += (_writers[-1](name, value if equals else None) + after) if is_option else "<<" + part
    return before


class StrobeError(Exception):
    """An error that the user can fix. The command line prints it in one line and exits with code 2.

    Its message names options as `<<option>>` (see `spelled`).

    >>> str(StrobeError("no such run; choose another with <<against=RUN>>"))
    'no such run; choose another with --against RUN'
    """

    def __init__(self, *message: str) -> None:
        super().__init__(*(hidden(spelled(text)) for text in message))


class InvalidValue(StrobeError):
    """A value broke a rule; the message names the field, the rule and the value."""


class InvalidFile(StrobeError):
    """A file's content broke a rule; the message names the file, the position in it and the rule."""

    def __init__(self, path: Path | str, problem: str, *, where: str | None = None, hint: str | None = None) -> None:
        place = f"{printable(path)}: " + (f"{printable(where)}: " if where else "")
        super().__init__(place + problem + (f"; {hint}" if hint else ""))
        self.path = Path(path)


@contextmanager
def in_file(path: Path | str, *, where: str | None = None, hint: str | None = None) -> Iterator[None]:
    """Turn an error about a value into an error about the file that contains the value."""
    try:
        yield
    except StrobeError as error:
        if isinstance(error, InvalidFile):
            raise
        raise InvalidFile(path, str(error), where=where, hint=hint) from error


class CannotWrite(StrobeError):
    """A write failed, for example without permission or space; the previous content is untouched."""


class CannotDownload(StrobeError):
    """A required download failed; the message names the file and what to do instead."""


class ModelFailed(StrobeError):
    """A model or plugin raised an error, ran out of memory, or returned a value that its port does not allow."""


def out_of_memory(error: BaseException) -> bool:
    """Return whether a library raised this error because memory ran out."""
    text = str(error).lower()
    named = type(error).__name__ in ("OutOfMemoryError", "MemoryError")
    return named or "out of memory" in text or "can't allocate memory" in text or "bad_alloc" in text


def refused(error: OSError) -> str | None:
    """Return one line for an error of the operating system, or None for an error that strobe should have prevented.

    >>> refused(PermissionError(errno.EACCES, "Permission denied", "/data/in"))
    '/data/in: no permission; ask its owner, or choose another location'
    """
    reason = _REFUSED.get(error.errno or 0)
    return f"{printable(error.filename)}: {reason}" if reason and error.filename is not None else reason


@contextmanager
def fitting(name: str, n: int) -> Iterator[None]:
    """Return one line that suggests a batch size, for a batch of `n` images that did not fit into memory."""
    try:
        yield
    except Exception as error:
        if not out_of_memory(error):
            raise
        raise ModelFailed(
            f"{printable(name)}: out of memory with a batch of {n}; try <<batch_size={max(1, n // 2)}>>"
        ) from error


class UnknownName(StrobeError):
    """An unknown name, with the most similar known names."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, hint: str | None = None) -> None:
        import difflib  # late, so that the help is fast

        near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
        text = f"unknown {kind} {printable(name)!r}"
        if near:
            text += "; did you mean " + " or ".join(near) + "?"
        if hint:
            text += f" ({hint})" if near else f"; {hint}"
        super().__init__(text)
        self.near = near


class MissingExtra(StrobeError):
    """An optional package is not installed; the message is the command that installs it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs the package {package}: {install_line(extra)}")
        self.package, self.extra = package, extra


def expect(ok: bool, field: str, rule: str, got: object) -> None:
    """Raise InvalidValue unless `ok`. This replaces assert, which -O removes. If `got` is None, it is not printed.

    >>> expect(-1 >= 0, "Frame.index", ">= 0", -1)
    Traceback (most recent call last):
    ...
    strobe.core.errors.InvalidValue: Frame.index: expected >= 0, got -1
    """
    if not ok:
        raise invalid(field, rule, got)


def invalid(field: str, rule: str, got: object) -> InvalidValue:
    """Return the error that `expect` raises.

    >>> str(invalid("Frame.index", ">= 0", -1))
    'Frame.index: expected >= 0, got -1'
    """
    got_text = "" if got is None else f", got {printable(repr(got))}"
    return InvalidValue(f"{field}: expected {rule}{got_text}")
