import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema
import pytest

from strobe.core.codec import LEFT_OUT, UNWRITTEN, Count, decode, encode, json_schema, written_as
from strobe.core.errors import InvalidValue
from strobe.core.tasks import Task


@dataclass(frozen=True)
class Cat:
    task: Literal[Task.CLASSIFICATION] = Task.CLASSIFICATION
    lives: Count = 9


@dataclass(frozen=True)
class Dog:
    task: Literal[Task.DETECTION] = Task.DETECTION
    tricks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Why:
    reason: str


@dataclass(frozen=True, kw_only=True)
class House:
    number: int
    size: float
    pets: Mapping[str, Cat | Dog]
    corner: tuple[float, float] | None
    rule: Literal["open"] | tuple[float, ...]
    garden: Cat | Why
    note: str | None = field(default=None, metadata=LEFT_OUT)
    a: bool = field(metadata=written_as("A"))
    cache: Any = field(default=None, metadata=UNWRITTEN)


HOUSE = House(
    number=3, size=2, pets={"tom": Cat(), "rex": Dog(tricks=("sit",))}, corner=(0.5, 1), rule=(0.25,),
    garden=Why("paved"), a=True, cache=object(),
)  # fmt: skip
JSON: dict[str, Any] = {
    "number": 3,
    "size": 2,
    "pets": {"tom": {"task": "classification", "lives": 9}, "rex": {"task": "detection", "tricks": ["sit"]}},
    "corner": [0.5, 1],
    "rule": [0.25],
    "garden": {"reason": "paved"},
    "A": True,
}


def test_there_and_back() -> None:
    written = json.loads(json.dumps(encode(HOUSE)))
    assert written == JSON
    assert list(written) == list(JSON)
    again = decode(House, written)
    assert encode(again) == JSON
    assert again.pets == HOUSE.pets
    assert isinstance(again.size, int)  # a whole number stays as it was written
    assert decode(House, JSON | {"rule": "open", "garden": {"lives": 3}, "new": 1}).garden == Cat(lives=3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"number": True}, "number: expected a whole number, got True"),
        ({"number": 3.0}, "number: expected a whole number, got 3.0"),
        ({"size": float("nan")}, "size: expected a number, got nan"),
        ({"size": "2"}, "size: expected a number, got '2'"),
        ({"pets": {"tom": {"task": "x"}}}, "pets.tom.task: expected classification or detection, got 'x'"),
        ({"pets": {"rex": {"task": "detection", "tricks": ["sit", 1]}}}, "pets.rex.tricks[1]: expected text, got 1"),
        ({"corner": [1]}, "corner: expected a list of 2 or null, got [1]"),
        ({"rule": "shut"}, "rule: expected open or a list, got 'shut'"),
        ({"A": 1}, "A: expected true or false, got 1"),
        ({"garden": []}, "garden: expected an object, got []"),
        ({"note": 3}, "note: expected text or null, got 3"),
    ],
)
def test_errors_name_the_place_and_the_rule(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        decode(House, JSON | change)
    assert str(caught.value) == says


def test_the_schema_says_the_same() -> None:
    schema = json_schema(House, title="house")
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(JSON, schema)
    jsonschema.validate(JSON | {"note": "blue", "corner": None, "rule": "open"}, schema)
    for change in ({"note": None}, {"number": "3"}, {"rule": "shut"}, {"corner": [1]}, {"garden": {}}, {"new": 1},
                   {"pets": {"tom": {"task": "detection", "lives": 9}}}, {"garden": {"lives": -1}}):  # fmt: skip
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(JSON | change, schema)
