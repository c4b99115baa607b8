"""Encode records as JSON, decode them and derive their JSON Schema from the type hints of frozen dataclasses.

>>> from dataclasses import field
>>> @dataclass(frozen=True)
... class Point:
...     k: Count
...     note: str | None = field(default=None, metadata=LEFT_OUT)
>>> encode((Point(3), Point(4, "far")))
[{'k': 3}, {'k': 4, 'note': 'far'}]
>>> decode(tuple[Point, ...], [{"k": 3}, {"k": "4"}], where="curve")
Traceback (most recent call last):
...
strobe.core.errors.InvalidValue: curve[1].k: expected a whole number, got '4'
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from itertools import repeat
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from strobe.core.annex import added
from strobe.core.errors import InvalidValue, printable

T = TypeVar("T")
Reader = Callable[[object], Any]

LEFT_OUT: Mapping[str, object] = {"left_out": True}
"""Metadata of an optional field whose key is omitted if the value is None."""

UNWRITTEN: Mapping[str, object] = {"unwritten": True}
"""Metadata of a field that is never written, because only the program uses it."""


def added_records(list_name: str) -> Mapping[str, object]:
    """Return the metadata of a mapping whose entries are written among the keys of the record itself.

    Annexes name the class of each entry, by its key, in this list of their manifests (`strobe.core.annex`). An object
    or list of an annex that is missing is kept as it is, so that its name is known.
    """
    return {"added": list_name, **LEFT_OUT}


def written_as(key: str) -> Mapping[str, object]:
    """Return the metadata of a field that has another name in JSON."""
    return {"key": key}


@dataclass(frozen=True, slots=True)
class Rule:
    """JSON Schema keywords for a type, as in `Annotated[int, Rule(minimum=0)]`; records validate their own rules."""

    minimum: float | None = None
    maximum: float | None = None


Count = Annotated[int, Rule(minimum=0)]
Share = Annotated[float, Rule(minimum=0, maximum=1)]

_PLAIN: dict[object, tuple[str, str]] = {
    str: ("string", "text"),
    int: ("integer", "a whole number"),
    float: ("number", "a number"),
    bool: ("boolean", "true or false"),
    NoneType: ("null", "null"),
}


class _Field(NamedTuple):
    """One written field of a record."""

    name: str
    key: str
    hint: Any
    left_out: bool
    needed: bool
    added: Mapping[str, Any] | None
    """The classes of the entries that annexes add (`added_records`)."""


@cache
def _parts(cls: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        _Field(
            name=field.name,
            key=field.metadata.get("key", field.name),
            hint=hints[field.name],
            left_out="left_out" in field.metadata,
            needed=field.default is MISSING and field.default_factory is MISSING,
            added=_classes(field.metadata["added"]) if "added" in field.metadata else None,
        )
        for field in fields(cls)
        if "unwritten" not in field.metadata
    )


def _classes(list_name: str) -> dict[str, Any]:
    from strobe.core.late import load

    return {name: load(item.object) for name, item in added(list_name).items()}


def encode(value: object) -> Any:
    """Return the value as JSON data: records become objects with their keys in field order."""
    if type(value) in _PLAIN:  # by far the most frequent case
        return value
    if is_dataclass(value):
        cls: Any = type(value)
        found = [(part, getattr(value, part.name)) for part in _parts(cls)]
        written: dict[str, Any] = {}
        for part, one in found:
            if part.added is not None:
                written |= encode(one)
            elif not (part.left_out and one is None):
                written[part.key] = encode(one)
        return written
    if isinstance(value, Mapping):
        return {key: encode(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [encode(one) for one in value]
    if isinstance(value, Fraction):
        return [value.numerator, value.denominator]
    return value.value if isinstance(value, Enum) else value


# -- reading -----------------------------------------------------------------------------------------------------


class _Wrong(Exception):
    """A mismatch between the expected and the actual value.

    The path to the value is built while the error propagates, so that reading valid data is fast.
    """

    def __init__(self, rule: str, got: object, *, problem: str = "") -> None:
        super().__init__(problem or f"expected {rule}, got {printable(repr(got), limit=80)}")
        self.rule, self.path = rule, ""


def decode(cls: type[T], data: object, *, where: str = "") -> T:
    """Return the record that `encode` wrote. Unknown keys are ignored; missing keys take their defaults.

    A record that was never written is returned as it is.

    Raises InvalidValue with the path in the data, which begins with `where`.
    """
    kind: Any = cls
    try:
        record: T = _reader(kind)(data)
    except _Wrong as error:
        path = (where + error.path).removeprefix(".")
        raise InvalidValue(f"{printable(path)}: {error}" if path else str(error)) from None
    return record


@cache
def _reader(hint: Any) -> Reader:
    """Return the cached reader for one type."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _plain(hint)
    if hint is Any:  # a record of another package, which validates it
        return lambda data: data
    if is_dataclass(hint):
        return _record(hint)
    if origin is Annotated:
        return _reader(args[0])
    if origin is Literal:
        return _literal(args)
    if origin in (Union, UnionType):
        return _union(args)
    if origin is tuple:
        return _tuple(args)
    if hint is Fraction:
        return lambda data: Fraction(*_tuple((int, int))(data))
    if origin is Mapping:
        inside = _reader(args[1])
        return lambda data: {key: _at(f".{key}", inside, one) for key, one in _object(data).items()}
    raise TypeError(f"the codec has no rule for {hint!r}")


def _at(place: str, reader: Reader, data: object) -> Any:
    try:
        return reader(data)
    except _Wrong as error:
        error.path = place + error.path
        raise


def _object(data: object) -> dict[str, object]:
    if not isinstance(data, dict):
        raise _Wrong("an object", data)
    return data


def _plain(kind: type) -> Reader:
    # A float that counts frames is written as an int, so ints and floats are both accepted as numbers and kept
    # unchanged.
    kinds = (int, float) if kind is float else (kind,)

    def read(data: object) -> Any:
        if type(data) not in kinds or (type(data) is float and not math.isfinite(data)):
            raise _Wrong(_PLAIN[kind][1], data)
        return data

    return read


def _literal(values: Sequence[Any]) -> Reader:
    def read(data: object) -> Any:
        for value in values:
            if value == data and isinstance(data, bool) == isinstance(value, bool):
                return value
        raise _Wrong(" or ".join(map(str, values)), data)

    return read


def _tuple(args: Sequence[Any]) -> Reader:
    many = args[1:] == (...,)
    readers = [_reader(arg) for arg in args if arg is not ...]

    def read(data: object) -> Any:
        if not isinstance(data, list | tuple) or not (many or len(data) == len(readers)):
            raise _Wrong("a list" if many else f"a list of {len(readers)}", data)
        out: list[Any] = []
        try:
            for reader, one in zip(repeat(readers[0]) if many else readers, data, strict=False):
                out.append(reader(one))
        except _Wrong as error:
            error.path = f"[{len(out)}]" + error.path
            raise
        return tuple(out)

    return read


def _record(cls: Any) -> Reader:
    own = [part for part in _parts(cls) if part.added is None]
    readers = [(part.name, part.key, part.needed, _reader(part.hint)) for part in own]
    rest = next(((part.name, _rest(part.added, own)) for part in _parts(cls) if part.added is not None), None)

    def read(data: object) -> Any:
        if isinstance(data, cls):
            return data
        fields_found, values, at = _object(data), {}, ""
        try:
            for name, key, needed, reader in readers:
                if key in fields_found:
                    at = f".{key}"
                    values[name] = reader(fields_found[key])
                elif needed:
                    at = ""
                    raise _Wrong(f"the key {key}", list(fields_found))
            at = ""
            if rest is not None:
                values[rest[0]] = rest[1](fields_found)
        except _Wrong as error:
            error.path = at + error.path
            raise
        try:
            return cls(**values)
        except InvalidValue as error:
            raise _Wrong(cls.__name__, fields_found, problem=str(error)) from None

    return read


def _rest(classes: Mapping[str, Any], own: Sequence[_Field]) -> Callable[[dict[str, object]], dict[str, Any]]:
    """Return the reader of the entries that annexes add to a record."""
    keys = {part.key for part in own}
    readers = {name: _reader(cls) for name, cls in classes.items()}

    def read(data: dict[str, object]) -> dict[str, Any]:
        others = {key: one for key, one in data.items() if key not in keys and isinstance(one, dict | list)}
        return {key: _at(f".{key}", readers[key], one) if key in readers else one for key, one in others.items()}

    return read


def _union(args: Sequence[Any]) -> Reader:
    """Records are distinguished by a shared tag (a literal field with a default) or by their required keys."""
    records = tuple(arg for arg in args if is_dataclass(arg))
    others = [_reader(arg) for arg in args if not is_dataclass(arg)]
    may_lack = NoneType in args

    def read(data: object) -> Any:
        if data is None and may_lack:
            return None
        if records and isinstance(data, dict):
            return _reader(_best(records, data))(data)
        rules = ["an object"] if records else []
        for reader in others:
            try:
                return reader(data)
            except _Wrong as error:
                rules.append(error.rule)
        raise _Wrong(" or ".join(rules), data)

    return read


def _best(records: tuple[Any, ...], data: Mapping[str, object]) -> Any:
    """Return the record whose tag is present, else the record with the most required keys present."""
    if len(records) == 1:
        return records[0]
    tags, needs = _told_apart(records)
    for key, by_tag in tags.items():
        if key in data:
            return _at(f".{key}", _literal(list(by_tag)), data[key]) and by_tag[data[key]]

    def fit(cls: Any) -> tuple[bool, int]:
        needed = [key in data for key in needs[cls]]
        return all(needed), sum(needed)

    return max(records, key=fit)


@cache
def _told_apart(records: tuple[Any, ...]) -> tuple[dict[str, dict[object, Any]], dict[Any, list[str]]]:
    """Return the records' tags by key, and the required keys of each record."""
    tags: dict[str, dict[object, Any]] = {}
    for cls in records:
        for part in _parts(cls):
            if get_origin(part.hint) is Literal and not part.needed:
                tags.setdefault(part.key, {}).update(dict.fromkeys(get_args(part.hint), cls))
    return tags, {cls: [part.key for part in _parts(cls) if part.needed] for cls in records}


# -- the schema --------------------------------------------------------------------------------------------------


def json_schema(cls: type, *, title: str) -> dict[str, Any]:
    """Return the JSON Schema of a record; nested records are under $defs by name."""
    known: dict[str, Any] = {}
    top = _properties(cls, known)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return {**head, **top, "$defs": dict(sorted(known.items()))}


def _properties(cls: Any, known: dict[str, Any]) -> dict[str, Any]:
    parts = _parts(cls)
    properties: dict[str, Any] = {}
    for part in parts:
        hints = {part.key: part.hint} if part.added is None else part.added
        properties |= {key: _schema(hint, known, part) for key, hint in hints.items()}
    return {
        "type": "object",
        "description": (cls.__doc__ or "").partition("\n")[0],
        "properties": properties,
        "required": [part.key for part in parts if not part.left_out],
        "additionalProperties": False,
        **getattr(cls, "JSON_RULE", {}),
    }


def _schema(hint: Any, known: dict[str, Any], part: _Field | None = None) -> dict[str, Any]:
    origin, args = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint][0]}
    if hint is Any:
        return {}
    if is_dataclass(hint):
        name = getattr(hint, "__name__", "")
        if name not in known:
            known[name] = {}  # reserve the name while the nested record is processed
            known[name] = _properties(hint, known)
        return {"$ref": f"#/$defs/{name}"}
    if origin is Annotated:
        rule = {key: value for key, value in encode(args[1]).items() if value is not None}
        return _schema(args[0], known) | rule
    if origin is Literal:
        return {"enum": encode(args)}
    if origin is tuple:
        if args[1:] == (...,):
            return {"type": "array", "items": _schema(args[0], known)}
        return {
            "type": "array",
            "prefixItems": [_schema(arg, known) for arg in args],
            "minItems": len(args),
            "items": False,
        }
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(args[1], known)}
    if origin in (Union, UnionType):
        # A key that is omitted if its value is null never has the value null.
        never_null = part is not None and part.left_out
        choices = [_schema(arg, known) for arg in args if not (never_null and arg is NoneType)]
        return choices[0] if len(choices) == 1 else {"anyOf": choices}
    raise TypeError(f"the codec has no rule for {hint!r}")
