"""Write constraints.txt: the exact version of everything `.[dev]` stands on, as installed in this environment.

    python scripts/make_constraints.py            write it (`make constraints`)
    pip install -c constraints.txt -e ".[dev]"    the same versions again

A build tag (`+cpu`) is left away: the package index has the plain version.
"""

import platform
import re
from importlib import metadata

from matrix import ROOT, requirements
from packaging.requirements import Requirement

TARGET = ROOT / "constraints.txt"


def plain(name: str) -> str:
    """A package's name as the index has it.

    >>> plain("Open_CLIP.torch")
    'open-clip-torch'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def versions(lines: list[str]) -> dict[str, str]:
    """Everything the requirements lead to, by name; raises PackageNotFoundError for what is not installed here."""
    found: dict[str, str] = {}
    left: list[tuple[Requirement, bool]] = [(Requirement(line), True) for line in lines]
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        one, ours = left.pop()
        key = (plain(one.name), frozenset(one.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            about = metadata.distribution(one.name)
        except metadata.PackageNotFoundError:
            if ours:
                raise
            continue  # what others may do without
        found[key[0]] = about.version.partition("+")[0]
        for line in about.requires or ():
            next_one = Requirement(line)
            wanted = [{"extra": extra} for extra in (*one.extras, "")]
            if next_one.marker is None or any(next_one.marker.evaluate(extra) for extra in wanted):
                left.append((next_one, False))
    return found


def main() -> None:
    """Write the file."""
    here = [line for line in requirements(["dev"]) if _fits(line)]
    found = versions(here)
    system = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    head = (
        f"# The versions `make check` last passed with, {system}; written by scripts/make_constraints.py.\n"
        '# pip install -c constraints.txt -e ".[dev]"\n'
    )
    rows = "".join(f"{name}=={found[name]}\n" for name in sorted(found))
    TARGET.write_text(head + rows, encoding="utf-8")
    print(f"wrote {TARGET.name}: {len(found)} packages")


def _fits(line: str) -> bool:
    marker = Requirement(line).marker
    return marker is None or marker.evaluate()


if __name__ == "__main__":
    main()
