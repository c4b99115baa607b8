"""What a model declares about itself as a form of another model: `form_of` and `form`.

A row of a model list, the JSON file next to an ONNX file and the head of a prediction file have the same two keys. What
strobe knows by itself, such as the runtime or the precision, need not be declared.
"""

from collections.abc import Mapping
from typing import Any

from strobe.core.errors import InvalidFile, printable


def declared_form(settings: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return what settings declare, as facts of the model.

    >>> declared_form({"form_of": "net", "form": {"runtime": "Core ML"}}, "phone.json")
    {'form_of': 'net', 'form.runtime': 'Core ML'}
    """
    form = settings.get("form", {})
    if not isinstance(form, Mapping) or not all(isinstance(one, str) for pair in form.items() for one in pair):
        raise InvalidFile(where, 'form: expected a table of texts, e.g. {"runtime": "Core ML", "precision": "float16"}')
    declared = {f"form.{printable(name)}": printable(value) for name, value in form.items()}
    return ({"form_of": str(settings["form_of"])} if settings.get("form_of") else {}) | declared
