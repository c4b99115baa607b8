"""Run mutation testing: count how many of a seeded sample of mutants the tests find.

    python scripts/mutants.py [--part figures] [--sample 1000] [--seed 0] [--lanes 2] [--keep]
    python scripts/mutants.py [--part figures] --survivors
    python scripts/mutants.py [--part figures] --kept

A part is a list of files and the tests that should find their mutants, in pyproject.toml: `figures`, the default, is
metrics/ and the scoring code (tool.mutmut), `folders` is the code that reads and writes folders and predictions
(tool.strobe.mutants). mutmut makes the mutants in the folder mutants/. For each mutant, it runs the tests that call the
mutated function, fastest first. A stopped run resumes, and outcomes stay valid until the code, the tests or the part
change. Text, the arguments of `expect` and array types are not mutated, because they cannot change a figure.

`--survivors` prints the diff of each mutant that no test found; docs/testing.md describes them. `--keep` adds those
that were found to tests/golden/kills.tsv: function, digest of the change, first test that failed. `--kept` tests these
mutants again, also if their function has moved to another module or its mutants have other numbers. It exits with 1 if
one of them survives now. Otherwise the script exits with 1 if the tests found fewer than nine in ten.
"""

import argparse
import ast
import difflib
import hashlib
import os
import random
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOUND = 0.9
ROOT = Path(__file__).parents[1]
KILLS = ROOT / "tests/golden/kills.tsv"
KILLERS = "killers.tsv"
MADE = "__mutmut_"


class Kill(NamedTuple):
    """A mutant that a test found: its function, the digest of its change, and the first test that failed."""

    function: str
    change: str
    test: str

    @property
    def id(self) -> tuple[str, str]:
        """What identifies the mutant wherever its function is: the function's own name and the change."""
        return self.function.rpartition(":")[2], self.change


def kills(path: Path = KILLS) -> list[Kill]:
    """Return the kills in the file. Lines that start with # are comments."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Kill(*line.split("\t")) for line in lines if line and not line.startswith("#")]


def write_kills(found: Iterable[Kill], path: Path = KILLS) -> None:
    """Write the kills, sorted, and one per mutant: of two, the later."""
    kept = {(one.function, one.change): one for one in found}
    lines = ["# function, digest of the change, first test that failed; written by scripts/mutants.py --keep"]
    path.write_text("\n".join([*lines, *("\t".join(kept[key]) for key in sorted(kept))]) + "\n", encoding="utf-8")


def changes(source: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each mutant in a module that mutmut wrote, and the digest of its change.

    The digest is of the changed lines as Python writes them, so it does not depend on format, place or number.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and MADE in node.name:
            function, _, number = node.name.partition(MADE)
            name, node.name = node.name, function
            lines = [line.strip() for line in ast.unparse(node).splitlines()]
            found.setdefault(function, {})["orig" if number == "orig" else name] = lines
    for function, versions in found.items():
        before = versions.pop("orig")
        seen: dict[str, int] = {}
        for name, after in versions.items():
            changed = [line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line[:2] != "@@"][2:]
            digest = hashlib.sha256("\n".join([function, *changed]).encode()).hexdigest()[:10]
            seen[digest] = seen.get(digest, 0) + 1
            yield name, digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def mutants_of(every: Iterable[tuple[Any, str, Any]]) -> dict[str, tuple[str, str]]:
    """Return function and digest of the change of each of mutmut's mutants."""
    out, files = {}, {}
    for data, name, _ in every:
        if data.path not in files:
            files[data.path] = dict(changes((Path("mutants") / data.path).read_text(encoding="utf-8")))
        module, _, own = name.rpartition(".")
        plain = own.partition(MADE)[0].replace("\u01c1", ".").removeprefix("x.").removeprefix("x_")
        out[name] = (f"{module}:{plain}", files[data.path][own])
    return out


def part_of(name: str) -> dict[str, list[str]]:
    """Return the files and the tests of a part, from pyproject.toml."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    about = tools["mutmut"] if name == "figures" else tools["strobe"]["mutants"][name]
    return {key: about[key] for key in ("only_mutate", "pytest_add_cli_args_test_selection")}


def again(collect: Any, kept: Iterable[Kill]) -> Any:
    """Return mutmut's mutants, reduced to those that were found before, to be tested again."""
    wanted = {one.id for one in kept}

    def some(*, mutant_names: tuple[str, ...] | list[str]) -> tuple[list[Any], dict[str, Any]]:
        every, files = collect(mutant_names=mutant_names)
        ids = {name: Kill(*about, "").id for name, about in mutants_of(every).items()}
        return [(data, name, None) for data, name, _ in every if ids[name] in wanted], files

    return some


def recording(harness: Any) -> Any:
    """Return mutmut's way to run the tests of a mutant, which also notes the first test that failed."""

    def run_tests(self: Any, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        failed: list[str] = []

        class Failures:
            def pytest_runtest_logreport(self, report: Any) -> None:
                if report.failed:
                    failed.append(report.nodeid.partition("[")[0])

        with harness.change_cwd("mutants"):
            code = int(self.execute_pytest(self._pytest_args_regular_run(tests), plugins=[Failures()]))
            if mutant_name and failed:
                with Path(KILLERS).open("a", encoding="utf-8") as file:
                    file.write(f"{mutant_name}\t{failed[0]}\n")
        return code

    return run_tests


def sampled(collect: Any, size: int, seed: int) -> Any:
    """Return mutmut's mutants, reduced to a seeded sample of `size`. Earlier runs do not affect the sample."""

    def some(*, mutant_names: tuple[str, ...] | list[str]) -> tuple[list[Any], dict[str, Any]]:
        every, files = collect(mutant_names=mutant_names)
        names = random.Random(seed).sample(sorted(name for _, name, _ in every), min(size, len(every)))
        kept = set(names)
        return [one for one in every if one[1] in kept], files

    return some


def of_figures(operators: list[tuple[type, Any]], strings: Any, arguments: Any) -> list[tuple[type, Any]]:
    """Return mutmut's operators without those that cannot change a figure: text, arguments of `expect`, array types."""

    def some(node: Any) -> Any:
        if getattr(node.func, "value", None) == "expect":
            return
        typed = [place for place, one in enumerate(node.args) if one.keyword and one.keyword.value == "dtype"]
        for mutant in arguments(node):
            same = [one for one in mutant.args if one.keyword and one.keyword.value == "dtype"]
            if not typed or (same and same[0].value is node.args[typed[0]].value):
                yield mutant

    changed = {strings: lambda _: (), arguments: some}
    return [(kind, changed.get(operator, operator)) for kind, operator in operators]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="figures", choices=("figures", "folders"), help="what to mutate")
    parser.add_argument("--sample", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=2, help="number of mutants tested in parallel")
    parser.add_argument("--survivors", action="store_true", help="test nothing; print the mutants that no test found")
    parser.add_argument("--keep", action="store_true", help="add the mutants that were found to the kept kills")
    parser.add_argument("--kept", action="store_true", help="test the kept kills again instead of a sample")
    arguments = parser.parse_args()
    os.environ["STROBE_HYPOTHESIS"] = "mutants"  # fewer examples per test, see tests/conftest.py
    os.environ["OMP_NUM_THREADS"] = "1"

    import pytest
    from mutmut import __main__ as mutmut
    from mutmut.configuration import config
    from mutmut.mutation import mutators
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.runners import harness
    from mutmut.stats import status_by_exit_code

    for key, value in part_of(arguments.part).items():
        setattr(config(), key, value)
    harness.PytestRunner.run_tests = recording(harness)
    if not hasattr(pytest.Item, "_nodeid"):  # mutmut 3.8 reads _nodeid, which pytest 9.2 renamed to nodeid
        pytest.Item._nodeid = property(lambda item: item.nodeid)  # type: ignore[attr-defined]
    changed = of_figures(mutators.mutation_operators, mutators.operator_string, mutators.operator_arg_removal)
    mutators.mutation_operators[:] = changed
    every = mutmut.collect_source_file_mutation_data
    if arguments.kept:
        collect = again(every, kills())
    else:
        collect = sampled(every, arguments.sample, arguments.seed)
    if not arguments.survivors:
        mutmut.collect_source_file_mutation_data = collect
        mutmut._run((), arguments.lanes)
    outcomes: dict[str, list[str]] = {}
    mutants = collect(mutant_names=())[0]
    for data, name, _ in mutants:
        outcomes.setdefault(status_by_exit_code[data.exit_code_by_key[name]], []).append(name)
    if arguments.keep:
        write_kills([*kills(), *_found(mutants, outcomes)])
    missed = sorted(outcomes.get("survived", []) + outcomes.get("no tests", []))
    if arguments.survivors or arguments.kept:
        for name in missed:
            print(f"# {name}\n{get_diff_for_mutant(name)}\n")
    if arguments.survivors:
        return 0
    tried = {status: len(names) for status, names in outcomes.items() if status != "not checked"}
    found = sum(many for status, many in tried.items() if status not in ("survived", "no tests", "suspicious"))
    print(f"{found} of {sum(tried.values())} mutants found ({', '.join(f'{n} {s}' for s, n in sorted(tried.items()))})")
    if arguments.kept:
        here = {Kill(*about, "").id for about in mutants_of(mutants).values()}
        print(f"{sum(one.id not in here for one in kills())} kept kills are of code that changed or of another part")
        return 1 if missed else 0
    return 0 if found >= FOUND * sum(tried.values()) else 1


def _found(mutants: list[Any], outcomes: dict[str, list[str]]) -> Iterator[Kill]:
    """Yield the kills of a run, each with the test that mutmut noted, or `timeout`."""
    noted = Path("mutants", KILLERS)
    lines = noted.read_text(encoding="utf-8").splitlines() if noted.is_file() else []
    killer = dict(line.split("\t") for line in lines)
    about = mutants_of(mutants)
    for name in [*outcomes.get("killed", []), *outcomes.get("timeout", [])]:
        yield Kill(*about[name], killer.get(name, "timeout"))


if __name__ == "__main__":
    sys.exit(main())
