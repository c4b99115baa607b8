"""Give models short display names: a model from a file gets the name of the file without its path."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from strobe.analyses.results import Results
from strobe.core.codec import decode, encode
from strobe.core.names import shown_models


def in_short_names(results: Results) -> tuple[Results, dict[str, str]]:
    """Return the results with short names of models, and the short name of each renamed model.

    If the dataset has variants, every name stays unchanged, because the dataset names the target models of its
    searches.
    """
    names = _short(results.models)
    if not names or results.variants is not None:
        return results, {}
    short = shorter(results.models)

    def said(value: Any) -> Any:
        if isinstance(value, dict):
            return {short(key): said(one) for key, one in value.items()}
        if isinstance(value, list):
            return [said(one) for one in value]
        return short(value) if isinstance(value, str) else value

    return decode(Results, said(encode(results))), names


def shorter(models: Iterable[str]) -> Callable[[str], str]:
    """Return a function that puts the short names of these models into a text."""
    return in_names(_short(models))


def in_names(names: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces each key of `names` in a text by its value."""
    if not names:
        return str
    # Longer names come first, because a name may begin with another name.
    known = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    return lambda text: known.sub(lambda found: names[found[0]], text)


def _short(models: Iterable[str]) -> dict[str, str]:
    return {name: short for name, short in shown_models(models).items() if name != short}
