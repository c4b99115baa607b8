"""Run mutation testing of metrics/ and the scoring code: count how many of a seeded sample of mutants the tests find.

    python scripts/mutants.py [--sample 1000] [--seed 0] [--lanes 2]
    python scripts/mutants.py --survivors

mutmut makes the mutants in the folder mutants/. pyproject.toml lists the mutated files and the tests. For each mutant,
mutmut runs the tests that call the mutated function, fastest first. A stopped run resumes, and outcomes stay valid
until the code or the tests change. Text, the arguments of `expect` and array types are not mutated, because they cannot
change a figure. `--survivors` prints the diff of each mutant that no test found; docs/mutants.md explains them. Exits
with 1 if the tests found fewer than nine in ten.
"""

import argparse
import os
import random
import sys
from typing import Any

FOUND = 0.9


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
    parser.add_argument("--sample", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=2, help="number of mutants tested in parallel")
    parser.add_argument("--survivors", action="store_true", help="only print the mutants that no test found")
    arguments = parser.parse_args()
    os.environ["STROBE_HYPOTHESIS"] = "mutants"  # fewer examples per test, see tests/conftest.py
    os.environ["OMP_NUM_THREADS"] = "1"

    import pytest
    from mutmut import __main__ as mutmut
    from mutmut.mutation import mutators
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code

    if not hasattr(pytest.Item, "_nodeid"):  # mutmut 3.8 reads _nodeid, which pytest 9.2 renamed to nodeid
        pytest.Item._nodeid = property(lambda item: item.nodeid)  # type: ignore[attr-defined]
    changed = of_figures(mutators.mutation_operators, mutators.operator_string, mutators.operator_arg_removal)
    mutators.mutation_operators[:] = changed
    collect = sampled(mutmut.collect_source_file_mutation_data, arguments.sample, arguments.seed)
    if not arguments.survivors:
        mutmut.collect_source_file_mutation_data = collect
        mutmut._run((), arguments.lanes)
    outcomes: dict[str, list[str]] = {}
    for data, name, _ in collect(mutant_names=())[0]:
        outcomes.setdefault(status_by_exit_code[data.exit_code_by_key[name]], []).append(name)
    if arguments.survivors:
        for name in sorted(outcomes.get("survived", []) + outcomes.get("no tests", [])):
            print(f"# {name}\n{get_diff_for_mutant(name)}\n")
        return 0
    tried = {status: len(names) for status, names in outcomes.items() if status != "not checked"}
    found = sum(many for status, many in tried.items() if status not in ("survived", "no tests", "suspicious"))
    print(f"{found} of {sum(tried.values())} mutants found ({', '.join(f'{n} {s}' for s, n in sorted(tried.items()))})")
    return 0 if found >= FOUND * sum(tried.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
