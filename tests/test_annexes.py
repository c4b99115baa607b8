"""Annexes: the house names none of them, none names another, and each is whole in its folder."""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from project_files import files

from strobe.cli import build
from strobe.cli.common import OpenGroup
from strobe.core import annex as annexes
from strobe.core.annex import Annex, Item, added, own_annexes
from strobe.core.codec import LEFT_OUT, Count, added_records, decode, encode, json_schema
from strobe.core.errors import InvalidValue
from strobe.core.late import Registry

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src/strobe/annexes"
NAMES = sorted(path.name for path in FOLDER.iterdir() if (path / "annex.py").is_file())
DISCOVERY = ROOT / "src/strobe/core/annex.py"


def test_every_folder_has_a_manifest_that_is_text_only() -> None:
    folders = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__")
    assert sorted(own_annexes()) == NAMES == folders
    for name in NAMES:
        text = (FOLDER / name / "annex.py").read_text(encoding="utf-8")
        assert re.findall(r"^(?:from|import) .*", text, re.M) == ["from strobe.core.annex import Annex, Item"], name


def test_the_house_names_no_annex_even_as_text() -> None:
    for path in files("src/strobe/**/*.py"):
        if FOLDER not in path.parents and path != DISCOVERY:
            assert "strobe.annexes" not in path.read_text(encoding="utf-8"), path.relative_to(ROOT)


@pytest.mark.parametrize("name", NAMES)
def test_an_annex_names_no_other_and_has_its_tests_and_all_it_brings(name: str) -> None:
    for path in sorted((FOLDER / name).rglob("*.py")):
        others = set(re.findall(r"strobe\.annexes\.(\w+)", path.read_text(encoding="utf-8"))) - {name}
        assert not others, f"{path.relative_to(ROOT)} names {others}"
    assert files(f"tests/annexes/{name}/**/test_*.py")
    for members in own_annexes()[name].adds.values():
        for item in members.values():
            assert item.object.startswith(f"strobe.annexes.{name}."), item.object


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that plants annexes by name in place of strobe's own."""

    def plant(**manifests: Any) -> None:
        modules = {f"strobe.annexes.{name}.annex": SimpleNamespace(ANNEX=one) for name, one in manifests.items()}
        modules["strobe.annexes"] = SimpleNamespace(__path__=["nowhere"])
        found = [SimpleNamespace(name=name) for name in manifests]
        monkeypatch.setattr(annexes, "import_module", modules.__getitem__)
        monkeypatch.setattr(annexes.pkgutil, "iter_modules", lambda path: found if path == ["nowhere"] else [])
        own_annexes.cache_clear()

    yield plant
    monkeypatch.undo()
    own_annexes.cache_clear()


def test_members_stand_where_their_manifest_puts_them(planted: Any) -> None:
    planted(
        maths=Annex(what="numbers", adds={"numbers": {"pi": Item("math:pi", "3.14", at=15), "e": Item("math:e")}}),
        none=Annex(what="nothing"),
    )
    numbers = Registry("numbers", float, "number", {"inf": ("math:inf", "endless"), "nan": ("math:nan", "none")})
    assert list(numbers.own) == ["inf", "pi", "nan", "e"]
    assert numbers["pi"] == pytest.approx(3.14159, abs=1e-5)
    assert numbers.lines() == {"inf": "endless", "pi": "3.14", "nan": "none", "e": ""}
    assert added("words") == {}


def test_a_group_of_commands_takes_those_of_annexes(planted: Any) -> None:
    planted(one=Annex(what="vary", adds={"commands: vary": {"build": Item("strobe.cli.build:command")}}))
    group = OpenGroup(name="vary", commands={"attack": click.Command("attack")})
    context = click.Context(group)
    assert group.list_commands(context) == ["attack", "build"]
    assert group.get_command(context, "build") is build.command
    assert group.get_command(context, "nothing") is None


@dataclass(frozen=True, kw_only=True)
class Dream:
    """The record of an annex."""

    n: Count


def test_records_of_annexes_have_keys_of_their_own(planted: Any) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Night:
        first: int
        added: Mapping[str, Any] = field(default_factory=dict, metadata=added_records("records: night"))
        last: int | None = field(default=None, metadata=LEFT_OUT)

    planted(dreams=Annex(what="dreams", adds={"records: night": {"dream": Item(f"{__name__}:Dream")}}))
    night = Night(first=1, added={"dream": Dream(n=2), "other": {"x": [3]}}, last=4)
    data = encode(night)
    assert list(data.items()) == [("first", 1), ("dream", {"n": 2}), ("other", {"x": [3]}), ("last", 4)]
    assert decode(Night, data) == night, "an entry of an annex that is missing is kept"
    assert encode(Night(first=1)) == {"first": 1}
    with pytest.raises(InvalidValue, match=r"night\.dream\.n: expected a whole number, got 'x'"):
        decode(Night, {"first": 1, "dream": {"n": "x"}}, where="night")
    schema = json_schema(Night, title="night")
    assert list(schema["properties"]) == ["first", "dream", "last"]
    assert schema["required"] == ["first"]
    assert schema["$defs"]["Dream"]["required"] == ["n"]


def test_faults_of_our_own_annexes_are_loud(planted: Any) -> None:
    one = Annex(what="numbers", adds={"numbers": {"inf": Item("math:inf")}})
    planted(first=one, second=one)
    with pytest.raises(InvalidValue, match="numbers: inf of annex second: expected a name used once"):
        added("numbers")
    planted(first=one)
    with pytest.raises(InvalidValue, match="a name that the house does not use, got 'inf'"):
        list(Registry("numbers", float, "number", {"inf": "math:inf"}))
    planted(first="text")
    with pytest.raises(InvalidValue, match="ANNEX of first: expected an Annex, got 'text'"):
        own_annexes()
    with pytest.raises(InvalidValue, match='wrong: expected an Item of "module:object"'):
        Annex(what="wrong", adds={"numbers": {"wrong": Item("math")}})


def test_a_page_names_the_results_of_a_study_that_is_not_installed(tmp_path: Path, command: Any) -> None:
    golden = ROOT / "tests/golden"
    run = shutil.copytree(golden / "runs/video-py", tmp_path / "run")
    data = golden / "datasets/video"
    results = json.loads((run / "results.json").read_text())
    (run / "results.json").write_text(json.dumps({**results, "studies": {"dreams": {}}, "nightmare": {}}))
    code, _, noted = command("report", run, "--dataset", data, "--gallery", 1)
    assert code == 0, noted
    for name in ("dreams", "nightmare"):
        assert f"results of the study {name}, which is not installed; they are left out" in noted
