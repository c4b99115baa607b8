"""Late imports: heavy packages are named as text and loaded where they are needed."""

import importlib
from types import ModuleType
from typing import Any

from strobe.core.errors import MissingExtra

__all__ = ["installed_version", "load", "require"]


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


def load(reference: str) -> Any:
    """The object behind "package.module:name", imported now."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
