"""List the models that strobe can load by name."""

from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Any

from strobe.core.errors import UnknownName, install_line
from strobe.models.providers import PROVIDERS
from strobe.models.registry import available, parse
from strobe.models.testbed import entries

__all__ = ["listing", "papers_models", "providers"]


def listing(pattern: str) -> list[str]:
    """Return every model that matches the glob.

    For a name without wildcards and without a match, suggest similar names.
    """
    found = available(pattern)
    if found:
        return found
    everything = available()
    words = pattern.strip("*")
    around = [name for name in everything if fnmatchcase(name, f"*{words}*")]
    if around and words:
        return around
    if not any(sign in pattern for sign in "*?["):
        parse(pattern)  # report an unknown provider as such
    able = ", ".join(["bundled", *(entry.scheme for entry in PROVIDERS if entry.lists)])
    raise UnknownName("model", pattern, everything, hint=f"providers that can list: {able}")


def providers() -> list[dict[str, Any]]:
    """Return a row per provider: an example, a description, whether it is installed and how to install it."""
    return [
        {
            "provider": entry.scheme,
            "example": example,
            "what": entry.what,
            "installed": find_spec(entry.package) is not None,
            "get": install_line(entry.extra) if entry.extra else "",
        }
        for entry in PROVIDERS
        for example in entry.bundled or (entry.example,)
    ]


def papers_models(pattern: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of the shipped testbed whose name in the papers or in strobe matches the glob."""
    return [
        {
            "paper_name": entry.paper_name,
            "model": entry.model,
            "model_type": entry.model_type,
            "standard": entry.standard,
            "note": entry.note,
        }
        for entry in entries("@testbed")
        if pattern is None or fnmatchcase(entry.paper_name, pattern) or fnmatchcase(entry.model, pattern)
    ]
