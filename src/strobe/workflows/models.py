"""List the models that strobe can load by name."""

from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Any

from strobe.core.errors import UnknownName, install_line
from strobe.models.providers import FORMS, PROVIDERS, Provider, declared
from strobe.models.registry import available, parse
from strobe.models.testbed import entries


def listing(pattern: str) -> list[str]:
    """Return every model that matches the glob.

    If a name without wildcards does not match, the error suggests similar names.
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
        parse(pattern)  # raises an error for an unknown provider
    able = ", ".join(
        ["bundled", *(scheme for scheme, own_member in PROVIDERS.own_members().items() if own_member.names)]
    )
    raise UnknownName("model", pattern, everything, hint=f"these providers can list their models: {able}")


def providers() -> list[dict[str, Any]]:
    """Return a row per provider with an example, a description, whether its package is installed, and the install
    command.
    """
    rows = [
        {
            "provider": scheme,
            "example": example,
            "what": entry.what,
            "installed": find_spec(entry.package) is not None,
            "get": _get(scheme, entry),
            "lists": entry.names is not None,
            "downloads": entry.downloads,
            "runs_code": entry.runs_code,
            "settings": list(entry.settings),
        }
        for scheme, entry in declared()
        for example in entry.bundled or (entry.example,)
    ]
    forms = [
        {"provider": form.scheme, "example": form.example, "what": form.what, "installed": True, "get": ""}
        for form in FORMS
    ]
    return rows + forms


def _get(scheme: str, entry: Provider) -> str:
    """Return the command that installs a provider's package."""
    if scheme in PROVIDERS.plugins:
        return f"pip install {entry.pip or entry.package}"
    return install_line(entry.extra) if entry.extra else ""


def papers_models(pattern: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of the shipped testbed whose name in the papers or in strobe matches the glob."""
    return [
        {
            "paper_name": entry.paper_name,
            "model": entry.model,
            "model_type": entry.model_type,
            "standard": entry.standard,
            "note": entry.note,
            "get": entry.get,
        }
        for entry in entries("@testbed")
        if pattern is None or fnmatchcase(entry.paper_name, pattern) or fnmatchcase(entry.model, pattern)
    ]
