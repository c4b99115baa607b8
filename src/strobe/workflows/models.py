"""What models can be named here."""

from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Any

from strobe.core.errors import UnknownName, install_line
from strobe.models.providers import PROVIDERS
from strobe.models.registry import available, parse
from strobe.models.testbed import entries

__all__ = ["listing", "papers_models", "providers"]


def listing(pattern: str) -> list[str]:
    """Every model the glob fits; a name without wildcards that fits none is looked up for near matches."""
    found = available(pattern)
    if found:
        return found
    everything = available()
    words = pattern.strip("*")
    around = [name for name in everything if fnmatchcase(name, f"*{words}*")]
    if around and words:
        return around
    if not any(sign in pattern for sign in "*?["):
        parse(pattern)  # an unknown provider is said as such
    able = ", ".join(["bundled", *(entry.scheme for entry in PROVIDERS if entry.lists)])
    raise UnknownName("model", pattern, everything, hint=f"providers that can list: {able}")


def providers() -> list[dict[str, Any]]:
    """One row per provider: an example, what it is, whether it is installed and how to get it."""
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
    """The shipped testbed's rows, those a glob over either name fits."""
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
