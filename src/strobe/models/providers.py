"""The providers of models, as two lists of text. A new provider needs its module, one line here and a contract test.

Packages add providers with an entry point of the group `strobe.providers` (docs/plugins.md).
"""

from functools import cache

from strobe.core.registry import Registry
from strobe.models.grammar import FORMS
from strobe.models.provider import Provider

__all__ = ["PROVIDERS", "bundled", "declared"]

PROVIDERS = Registry(
    "strobe.providers",
    Provider,
    "provider",
    {
        "timm": "strobe.models.timm:PROVIDER",
        "torchvision": "strobe.models.torchvision:PROVIDER",
        "openclip": "strobe.models.openclip:PROVIDER",
        "hf": "strobe.models.hf:PROVIDER",
        "onnx": "strobe.models.onnx:PROVIDER",
        "pt2": "strobe.models.pt2:PROVIDER",
        "py": "strobe.models.plugin:PROVIDER",
        "ultralytics": "strobe.models.detectors.ultralytics:PROVIDER",
    },
    reserved=("bundled", "live", "truth", *(form.scheme for form in FORMS)),
)
"""Every provider by the prefix before the colon, in display order."""

_BUNDLE = Registry(
    None,
    Provider,
    "bundled model",
    {
        "lite": "strobe.models.lite:PROVIDER",
        "tiny": "strobe.models.detectors.tiny:PROVIDER",
        "untrained": "strobe.models.strobe_net:UNTRAINED",
        "generators": "strobe.models.strobe_net:OF_GENERATORS",
        "background": "strobe.models.strobe_net:OF_BACKGROUND",
    },
)
"""Models without a provider prefix. They need only Python packages, no further downloads."""


@cache
def bundled() -> dict[str, Provider]:
    """Return the provider of each bundled model by the model's name, in display order."""
    return {name: provider for provider in _BUNDLE.working().values() for name in provider.bundled}


def declared() -> list[tuple[str, Provider]]:
    """Return every importable provider by its prefix, or by "bundled" if it has no prefix."""
    return [*(("bundled", one) for one in _BUNDLE.working().values()), *PROVIDERS.working().items()]
