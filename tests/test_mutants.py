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
    for path in [*tools["mutmut"]["only_mutate"], *tools["mutmut"]["pytest_add_cli_args_test_selection"]]:
        assert list(root.glob(path)), path


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
