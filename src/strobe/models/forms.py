"""What a model declares about itself as a form of another model: `form_of` and `form`.

A row of a model list, the JSON file next to an ONNX file and the head of a prediction file have the same two keys. What
strobe knows by itself, such as the runtime or the precision, need not be declared.
"""

import json
from collections.abc import Mapping
from typing import Any

from strobe.core.errors import InvalidFile, printable


def declared_form(form: object, where: str) -> dict[str, str]:
    """Return a checked `form`: a table of texts, such as {"runtime": "Core ML"}.

    >>> declared_form({"runtime": "Core ML"}, "phone.json")
    {'runtime': 'Core ML'}
    """
    if not isinstance(form, Mapping) or not all(isinstance(one, str) for pair in form.items() for one in pair):
        raise InvalidFile(where, 'form: expected a table of texts, e.g. {"runtime": "Core ML", "precision": "float16"}')
    return {printable(name): printable(value) for name, value in form.items()}


def form_facts(form_of: object, form: Mapping[str, str]) -> dict[str, Any]:
    """Return both as facts of a model: texts, because a Parquet file holds only texts. Nothing if none is declared.

    >>> form_facts("", {})
    {}
    """
    said = {"form_of": str(form_of), "form": json.dumps(dict(form), sort_keys=True)}
    return {name: value for name, value in said.items() if value not in ("", "{}")}
