"""Which mutants `make mutants` tries: a seeded sample of those that can change a figure."""

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parents[1] / "scripts" / "mutants.py"
    spec = importlib.util.spec_from_file_location("strobe_mutants", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sample_hangs_on_the_seed_and_not_on_what_was_run(script: ModuleType) -> None:
    names = [f"strobe.metrics.m{number}" for number in range(500)]
    fresh = [(None, name, None) for name in names]
    resumed = [(None, name, 1) for name in reversed(names)]

    def drawn(every: list[tuple[None, str, int | None]], seed: int) -> set[str]:
        kept, _ = script.sampled(lambda *, mutant_names: (every, {}), 100, seed)(mutant_names=())
        return {name for _, name, _ in kept}

    assert len(drawn(fresh, 0)) == 100
    assert drawn(fresh, 0) == drawn(resumed, 0)
    assert drawn(fresh, 0) != drawn(fresh, 1)


def test_what_mutation_testing_runs_exists() -> None:
    root = Path(__file__).parents[1]
    tools = tomllib.loads((root / "pyproject.toml").read_text())["tool"]
    arguments = tools["mutmut"]["pytest_add_cli_args"]
    markers = {marker.split(":")[0] for marker in tools["pytest"]["ini_options"]["markers"]}
    assert set(arguments[arguments.index("-m") + 1].split()) <= markers | {"not", "and"}
    for part in (tools["mutmut"], *tools["strobe"]["mutants"].values()):
        for path in [*part["only_mutate"], *part["pytest_add_cli_args_test_selection"]]:
            assert list(root.glob(path)), path


MUTATED = """
def x_half__mutmut_orig(a):
    b = a / 2
    return b
def x_half__mutmut_1(a):
    b = a * 2
    return b
def x_half__mutmut_2(a):
    b = a / 3
    return b
class Sum:
    def xǁSumǁadd__mutmut_orig(self):
        self.n += 1
        self.n += 1
    def xǁSumǁadd__mutmut_7(self):
        self.n -= 1
        self.n += 1
    def xǁSumǁadd__mutmut_8(self):
        self.n += 1
        self.n -= 1
"""


def test_a_mutant_is_known_by_its_change_and_not_by_number_place_or_format(script: ModuleType) -> None:
    names = dict(script.changes(MUTATED))
    assert list(names) == ["x_half__mutmut_1", "x_half__mutmut_2", "xǁSumǁadd__mutmut_7", "xǁSumǁadd__mutmut_8"]
    assert len(set(names.values())) == 4
    moved = MUTATED.replace("half__mutmut_2", "half__mutmut_9").replace("a / 3", "( a /3 )  # a third")
    later = dict(script.changes("import os\n" + moved.replace("def x_half__mutmut_1(a)", "def x_half__mutmut_3(a)")))
    assert later["x_half__mutmut_9"] == names["x_half__mutmut_2"]
    assert later["x_half__mutmut_3"] == names["x_half__mutmut_1"]
    assert dict(script.changes(MUTATED.replace("a / 3", "a / 4")))["x_half__mutmut_2"] != names["x_half__mutmut_2"]


def test_kept_kills_are_sorted_and_the_later_wins(script: ModuleType, tmp_path: Path) -> None:
    old, new = script.Kill("strobe.b:f", "00", "tests/a.py::t"), script.Kill("strobe.b:f", "00", "timeout")
    other = script.Kill("strobe.a:C.g", "11", "tests/b.py::t")
    script.write_kills([old, other, new], tmp_path / "kills.tsv")
    assert script.kills(tmp_path / "kills.tsv") == [other, new]
    assert script.kills(tmp_path / "none.tsv") == []
    assert other.id == script.Kill("strobe.elsewhere:C.g", "11", "").id


def test_the_kept_kills_are_tested_again_wherever_their_function_is(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mutants").mkdir()
    (tmp_path / "mutants/new.py").write_text(MUTATED)
    digests = dict(script.changes(MUTATED))

    class Data:
        path = "new.py"

    every = [(Data, f"strobe.new.{name}", 1) for name in digests]
    kept = [
        script.Kill("strobe.old:Sum.add", digests["xǁSumǁadd__mutmut_8"], "t"),
        script.Kill("strobe.old:half", "0", "t"),
    ]
    some, _ = script.again(lambda *, mutant_names: (every, {}), kept)(mutant_names=())
    assert some == [(Data, "strobe.new.xǁSumǁadd__mutmut_8", None)]


def test_kills_are_kept(script: ModuleType) -> None:
    root = Path(__file__).parents[1]
    kept = script.kills()
    assert len(kept) > 50
    tests = {one.test.partition("::")[0] for one in kept if one.test != "timeout"}
    assert [test for test in sorted(tests) if not (root / test).is_file()] == []


def test_text_the_words_of_expect_and_types_of_arrays_are_not_mutated(script: ModuleType) -> None:
    cst = pytest.importorskip("libcst")
    mutators = pytest.importorskip("mutmut.mutation.mutators")
    operators = script.of_figures(mutators.mutation_operators, mutators.operator_string, mutators.operator_arg_removal)

    def mutants(source: str) -> list[str]:
        node = cst.parse_expression(source)
        found = [made for kind, operator in operators if isinstance(node, kind) for made in operator(node)]
        return sorted(cst.Module([]).code_for_node(one) for one in found)

    assert mutants('"clopper-pearson"') == []
    assert mutants('expect(n >= 0, "n", ">= 0", n)') == []
    assert mutants("a and b") == ["a or b"]
    assert mutants("f(a, dtype=int)") == ["f(None, dtype=int)", "f(dtype=int)"]
