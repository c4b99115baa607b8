"""Late imports: heavy packages are named as text and imported on first use."""

import importlib
import os
import re
from types import ModuleType
from typing import Any

from strobe.core.errors import MissingExtra

__all__ = ["installed_version", "load", "require", "spin_briefly", "too_old"]

_SPINS = "3000"
"""How often a GNU OpenMP thread spins before it sleeps (by default 300,000 times); see docs/performance-method.md."""


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
    """Return the installed packages that are older than required: their lower-case names with the required versions."""
    from importlib import metadata

    try:
        declared = metadata.requires("strobe-vision") or []
    except metadata.PackageNotFoundError:
        return {}
    outdated = {}
    for line in declared:
        bound = re.match(r"([\w.-]+)[^>]*>=([\d.]+)", line)
        have = installed_version(bound[1]) if bound else None
        if bound and have and _release(have) < _release(bound[2]):
            outdated[bound[1].lower()] = bound[2]
    return outdated


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version for comparison; three numbers are enough to check a lower bound."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in numbers[0].split(".")] if numbers else []
    return tuple([*parts, 0, 0, 0][:3])


def load(reference: str) -> Any:
    """Import and return the object that "package.module:name" refers to."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def spin_briefly() -> None:
    """Make torch's CPU threads sleep early when they wait for each other. Call it before torch is imported.

    By default a waiting thread spins for milliseconds before it sleeps. On a busy machine, it takes the core from the
    thread that it waits for. Call it only in strobe's own processes; child processes inherit the setting. The user's
    setting takes precedence.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = _SPINS
