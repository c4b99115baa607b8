"""Options written once: a field of an option record also gives the flag, its help, its default and its range (ADR 18).

The help of a command imports its option records, so modules of option records import nothing heavy.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from strobe.core.errors import expect

_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of a command. `name` is the keyword in Python; the flag is `--name` unless `flag` is given.

    `kind` is str, int, float, bool (a switch), Path, a tuple of choices, or a function that parses the text. `several`
    means that the option may be repeated. `least` and `most` limit a number; `above` excludes `least` itself, and
    `rule` describes the limits in other words.
    """

    name: str
    help: str
    kind: type | tuple[str, ...] | Callable[[str], Any] = str
    default: Any = None
    required: bool = False
    several: bool = False
    flag: str = ""
    metavar: str | None = None
    envvar: str | None = None
    least: float | None = None
    most: float | None = None
    above: bool = False
    rule: str = ""

    @property
    def option(self) -> str:
        """The flag on the command line."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def value(self) -> Any:
        """The value if the option is not given."""
        if self.several:
            return ()
        if self.kind is bool:
            return bool(self.default)
        parses = not isinstance(self.kind, type | tuple) and self.default is not None
        return self.kind(self.default) if parses else self.default  # type: ignore[operator]  # it is a function

    def check(self, value: Any) -> None:
        """Raise InvalidValue if a number is outside the limits. None is not checked."""
        low, high = self.least, self.most
        if value is None or (low is None and high is None):
            return
        inside = (low is None or low < value or (value == low and not self.above)) and (high is None or value <= high)
        span = f">= {low:g}" if high is None else f"{low:g} to {high:g}"
        expect(inside, f"<<{self.option.strip('-').replace('-', '_')}>>", self.rule or span, value)


def option(
    default: Any,
    help: str,
    *,
    kind: type | None = None,
    flag: str = "",
    metavar: str | None = None,
    envvar: str | None = None,
    least: float | None = None,
    most: float | None = None,
    above: bool = False,
    rule: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """Return a field of an option record that is also an option of commands. See `Option` for the arguments.

    Without `kind`, the type of the field gives it. `metadata` is further metadata of the field.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Example:
    ...     fps: int = option(30, "Frames per second.", least=1, most=1000)
    ...     def __post_init__(self):
    ...         check_options(self)
    >>> Example().fps, options_of(Example)["fps"].option
    (30, '--fps')
    >>> Example(fps=0)
    Traceback (most recent call last):
    ...
    strobe.core.errors.InvalidValue: --fps: expected 1 to 1000, got 0
    """
    said = Option(
        name="",
        help=help,
        kind=kind or str,
        default=default,
        flag=flag,
        metavar=metavar,
        envvar=envvar,
        least=least,
        most=most,
        above=above,
        rule=rule,
    )
    return field(default=default, metadata={"option": said, "kind": kind, **(metadata or {})})


def options_of(record: Any) -> Mapping[str, Option]:
    """Return the options of a record or of its class, by field."""
    return {one.name: _option(one) for one in fields(record) if "option" in one.metadata}


def documented(record: type[_Record]) -> type[_Record]:
    """Decorate an option record: list its options in its docstring, for `help()` and notebooks."""
    listed = [f"    {one.name}: {one.help}" for one in options_of(record).values()]
    record.__doc__ = "\n".join([f"{inspect.cleandoc(record.__doc__ or '')}\n\nArgs:", *listed])
    return record


def check_options(record: Any) -> None:
    """Raise InvalidValue if a number of the record is outside its limits."""
    for name, one in options_of(record).items():
        one.check(getattr(record, name))


def _option(one: "Field[Any]") -> Option:
    """Return the option of a field, with the name of the field and the kind of its type."""
    parts = get_args(one.type) if get_origin(one.type) in (Union, UnionType) else (one.type,)
    kind: Any = one.metadata["kind"] or next(part for part in parts if part is not NoneType)
    several = get_origin(kind) is tuple
    if get_origin(kind) is Literal:
        kind = get_args(kind)
    said: Option = one.metadata["option"]
    return replace(said, name=one.name, kind=str if several else kind, several=several)
