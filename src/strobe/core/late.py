"""Late imports: heavy packages are named as text and imported on first use."""

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
    """Import and return the module, or raise a MissingExtra that names the extra to install.

    >>> require("json", what="this example", extra="none").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).split(".")[0]
        raise MissingExtra(what, missing, extra) from error


def installed_version(package: str = "strobe-vision") -> str | None:
    """Return the version of an installed package, by default strobe's; None if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def too_old() -> dict[str, str]:
    """Return installed packages older than required, by lower-case name, with the required version."""
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
    """Return the leading numbers of a version for comparison; three are enough for a lower bound."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in numbers[0].split(".")] if numbers else []
    return tuple([*parts, 0, 0, 0][:3])


def load(reference: str) -> Any:
    """Import and return the object of "package.module:name"."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def spin_briefly() -> None:
    """Make torch's CPU threads, if torch is imported after this, sleep soon when they wait for each other.

    By default they spin for milliseconds first. On a busy machine they then take the core from the thread they wait
    for. Call it only in strobe's own processes; child processes inherit it. The user's setting takes precedence.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = _SPINS
