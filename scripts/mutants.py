"""Mutation testing of metrics/ and the scoring code: how many of a seeded sample of small faults do the tests find?

    python scripts/mutants.py [--sample 1000] [--seed 0] [--lanes 2]
    python scripts/mutants.py --survivors

mutmut makes the mutants (which files, and which tests, is in pyproject.toml) in the folder mutants/ and runs, for each,
the tests that call the mutated function, the fastest first. A stopped run resumes: what was decided stays, until the
code or the tests change. What cannot change a figure is not mutated: text, the words of `expect`, types of arrays.
`--survivors` prints the diff of each mutant that no test found; docs/mutants.md explains them. Exit code 1 where fewer
than nine in ten were found.
"""

import argparse
import os
import random
import sys
from typing import Any

FOUND = 0.9


def sampled(collect: Any, size: int, seed: int) -> Any:
    """mutmut's collection of mutants, cut to a seeded sample of `size`, the same whatever was run before."""

    def some(*, mutant_names: tuple[str, ...] | list[str]) -> tuple[list[Any], dict[str, Any]]:
        every, files = collect(mutant_names=mutant_names)
        names = random.Random(seed).sample(sorted(name for _, name, _ in every), min(size, len(every)))
        kept = set(names)
        return [one for one in every if one[1] in kept], files

    return some


def of_figures(operators: list[tuple[type, Any]], strings: Any, arguments: Any) -> list[tuple[type, Any]]:
    """mutmut's operators without those that cannot change a figure: text, what `expect` prints, and types of arrays."""

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
    parser.add_argument("--lanes", type=int, default=2, help="mutants tried at once")
    parser.add_argument(
        "--survivors", action="store_true", help="print the mutants that no test found, and nothing else"
    )
    arguments = parser.parse_args()
    os.environ["STROBE_HYPOTHESIS"] = "mutants"  # fewer examples a test: tests/conftest.py
    os.environ["OMP_NUM_THREADS"] = "1"

    import pytest
    from mutmut import __main__ as mutmut
    from mutmut.mutation import mutators
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code

    if not hasattr(pytest.Item, "_nodeid"):  # mutmut 3.8 reads what pytest 9.2 calls nodeid alone
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
