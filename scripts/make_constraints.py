"""Write constraints.txt: the exact installed version of every dependency of `.[dev]`.

    python scripts/make_constraints.py            write it (`make constraints`)
    pip install -c constraints.txt -e ".[dev]"    the same versions again

Build tags (`+cpu`) are removed, because the package index has the plain version.
"""

import platform
import re
from importlib import metadata

from matrix import ROOT, requirements
from packaging.requirements import Requirement

TARGET = ROOT / "constraints.txt"


def plain(name: str) -> str:
    """Return a package's name as the index normalises it.

    >>> plain("Open_CLIP.torch")
    'open-clip-torch'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def versions(lines: list[str]) -> dict[str, str]:
    """Return the version of every direct and indirect requirement. Raise PackageNotFoundError if one is missing."""
    version_of: dict[str, str] = {}
    todo: list[tuple[Requirement, bool]] = [(Requirement(line), True) for line in lines]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        one, ours = todo.pop()
        key = (plain(one.name), frozenset(one.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            about = metadata.distribution(one.name)
        except metadata.PackageNotFoundError:
            if ours:
                raise
            continue  # an optional dependency
        version_of[key[0]] = about.version.partition("+")[0]
        for line in about.requires or ():
            next_one = Requirement(line)
            wanted = [{"extra": extra} for extra in (*one.extras, "")]
            if next_one.marker is None or any(next_one.marker.evaluate(extra) for extra in wanted):
                todo.append((next_one, False))
    return version_of


def main() -> None:
    """Write the file."""
    here = [line for line in requirements(["dev"]) if _fits(line)]
    pinned = versions(here)
    system = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    head = (
        f"# The versions with which `make check` last passed, {system}; written by scripts/make_constraints.py.\n"
        '# pip install -c constraints.txt -e ".[dev]"\n'
    )
    rows = "".join(f"{name}=={pinned[name]}\n" for name in sorted(pinned))
    TARGET.write_text(head + rows, encoding="utf-8")
    print(f"wrote {TARGET.name}: {len(pinned)} packages")


def _fits(line: str) -> bool:
    marker = Requirement(line).marker
    return marker is None or marker.evaluate()


if __name__ == "__main__":
    main()
