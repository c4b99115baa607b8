"""Check that a torch.export program contains only arithmetic. torch does not check, and may run code on loading.

A .pt2 file is an archive with a graph as JSON and tensors as bytes. It may also hold pickles, compiled libraries,
guards in Python and names of functions to call. A file with none of these that calls only aten operators is safe to
load.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile
from strobe.core.files import json_of
from strobe.core.readers import opened_zip
from strobe.models.weights import would_run_code

_ENTRIES = re.compile(
    r"[^/]+/(?:models/\w+\.json|data/weights/(?:weight_\d+|\w+\.json)|data/constants/(?:tensor_\d+|\w+\.json)"
    r"|data/sample_inputs/\w+\.pt|archive_format|archive_version|byteorder|\.data/\w+|\.format_version)"
)
_CALLS = re.compile(
    r"torch\.ops\.(?:aten\.(?!from_file)\w+\.\w+|higher_order\.wrap_with_set_grad_enabled)|torch\.sym_\w+"
    r"|math\.(?:ceil|floor|trunc)"
    r"|_operator\.(?:getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|eq|ne|lt|le|gt|ge|and_|or_)"
)
_WORDS = {
    "Symbol", "Integer", "Add", "Mul", "Pow", "Max", "Min", "Mod", "FloorDiv", "CeilDiv", "CleanDiv", "Eq", "Ne", "Lt",
    "Le", "Gt", "Ge", "positive", "nonnegative", "integer", "real", "finite", "evaluate", "True", "False", "L", "size",
    "dim", "stride", "and", "or", "not",
}  # fmt: skip


def only_arithmetic(path: Path) -> None:
    """Raise InvalidFile unless the file is such an archive and contains nothing that could run code."""
    try:
        with opened_zip(path) as archive:
            names = archive.namelist()
            # If two entries have the same name, torch may read the entry that was not checked.
            safe = all(map(_ENTRIES.fullmatch, names)) and len({name.lower() for name in names}) == len(names)
            tables = [json_of(archive.read(name)) for name in names if name.endswith(".json")]
    except InvalidFile as error:
        raise InvalidFile(path, "not a program saved by torch.export", hint="is it truncated?") from error
    if not safe or not tables or any(_might_run(key, value) for table in tables for key, value in _inside(table)):
        raise would_run_code(path, more_than="arithmetic", instead="export it without custom operators")


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key and value of every object in some JSON, with lists flattened."""
    for key, one in value.items() if isinstance(value, dict) else (("", one) for one in value):
        if isinstance(one, dict | list):
            if key == "guards_code":
                yield from (("expr_str", guard) for guard in one)
            yield from _inside(one)
        yield key, one


def _might_run(key: str, value: Any) -> bool:
    if key in ("target", "as_operator"):
        return not (isinstance(value, str) and _CALLS.fullmatch(value))
    if key == "expr_str":  # sympy evaluates the text as Python
        words = re.findall(r"[^\W\d]\w*", re.sub(r"'\w+'", "", str(value)))
        known = all(word in _WORDS or re.fullmatch(r"[su]\d+", word) for word in words)
        return not known or re.fullmatch(r"[\w\s()\[\],.+\-*/<>=!%']*", str(value)) is None
    if key == "guards_code":
        return not isinstance(value, list)
    return (key == "use_pickle" and value is not False) or (
        key in ("custom_obj_values", "as_custom_obj") and bool(value)
    )
