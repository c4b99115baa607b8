"""Late imports: heavy packages are named as text and loaded where they are needed."""

import importlib
import os
import re
from types import ModuleType
from typing import Any

from strobe.core.errors import MissingExtra

__all__ = ["installed_version", "load", "require", "spin_briefly", "too_old"]

_SPINS = "3000"
"""Spins of GNU OpenMP before a thread sleeps (its own default: 300,000); measured in docs/performance-method.md."""


def require(module: str, *, what: str, extra: str) -> ModuleType:
    """The module, or a MissingExtra that names the extra to install.

    >>> require("json", what="this example", extra="none").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).split(".")[0]
        raise MissingExtra(what, missing, extra) from error


def installed_version(package: str = "strobe-vision") -> str | None:
    """The version of a package as pip knows it, ours by default; None where it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def too_old() -> dict[str, str]:
    """Installed packages older than we declare to need, by their name in lower case: the version needed."""
    from importlib import metadata

    try:
        declared = metadata.requires("strobe-vision") or []
    except metadata.PackageNotFoundError:
        return {}
    found = {}
    for line in declared:
        bound = re.match(r"([\w.-]+)[^>]*>=([\d.]+)", line)
        have = installed_version(bound[1]) if bound else None
        if bound and have and _release(have) < _release(bound[2]):
            found[bound[1].lower()] = bound[2]
    return found


def _release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, to compare by; three are enough for a lower bound."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in numbers[0].split(".")] if numbers else []
    return tuple([*parts, 0, 0, 0][:3])


def load(reference: str) -> Any:
    """The object behind "package.module:name", imported now."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def spin_briefly() -> None:
    """Have torch's threads on a CPU, if it is imported after this, sleep soon when they wait for one another.

    By themselves they spin for milliseconds first: on a busy machine they take the core from the one they wait for.
    For a process of our own; what the user set stands. Processes that it starts inherit it.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = _SPINS
