"""Commands made from public functions: the signature and the Args of a function give arguments, options and help.

The function's source is read as text, so that help imports nothing that the function needs.
"""

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from strobe.cli.common import click_option, folder
from strobe.core.errors import printable
from strobe.core.options import Option

FLAGS = {"scope": "--for", "videos": "--subset", "model": "-m/--model", "models": "-m/--model", "only": "-m/--model"}
"""The arguments whose flags have other names."""

_KINDS = {"Path": Path, "int": int, "float": float, "bool": bool}


def from_function(
    where: str, *, metavars: Mapping[str, str] | None = None, optional: str = "", more: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the parameters of the function at `where` ("module:name"), and its description as help.

    The command takes them by the names of the function, next to options of its own. `more` is text that follows the
    description. The argument `optional` is not required. `progress` becomes no option.
    """
    module, _, name = where.partition(":")
    signature, metavars = _definition(module, name).args, metavars or {}
    description, texts = _parts(ast.get_docstring(_definition(module, name)) or "")
    defaults = dict(zip((one.arg for one in signature.kwonlyargs), signature.kw_defaults, strict=True))
    flags = {name: FLAGS.get(name, f"--{name.replace('_', '-')}") for name in defaults}

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for one in reversed(signature.kwonlyargs):
            default = defaults[one.arg]
            if one.arg != "progress" and default is not None:
                flag, text = flags[one.arg], _written(texts[one.arg], flags)
                command = _option(one, ast.literal_eval(default), flag, text, metavars.get(one.arg))(command)
        for one in [*signature.args, *([signature.vararg] if signature.vararg else [])][::-1]:
            shown: dict[str, Any] = {"metavar": metavars.get(one.arg), "required": one.arg != optional}
            shown |= {"nargs": -1} if one is signature.vararg else {}
            command = click.argument(one.arg, type=folder(), **shown)(command)
        command.__doc__ = "\n\n".join(filter(None, [_written(description, flags), more]))
        return command

    return add


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a public function whose messages name flags instead of arguments."""
    unwrapped: Callable[..., Any] = inspect.unwrap(function)
    return unwrapped


def _option(argument: ast.arg, default: Any, flag: str, text: str, metavar: str | None) -> Callable[[Any], Any]:
    """Return the click option of one argument: its kind follows from its annotation."""
    names = {node.id for node in ast.walk(argument) if isinstance(node, ast.Name)}
    choices = [
        node.value for node in ast.walk(argument) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    several = "Sequence" in names
    if several or "Mapping" in names:
        text += " May be repeated."
    names_of_option = flag.split("/")
    if "Mapping" in names:
        return click.option(
            flag, argument.arg, multiple=True, callback=_by_measure, metavar="MEASURE=NUMBER", help=text
        )
    kind = tuple(choices) if choices else next((_KINDS[name] for name in _KINDS if name in names), str)
    if len(names_of_option) > 1:
        return click.option(*names_of_option, argument.arg, multiple=several, metavar=metavar, help=text)
    return click_option(
        Option(name=argument.arg, help=text, kind=kind, default=default, several=several, flag=flag, metavar=metavar)
    )


def _by_measure(_context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    """Read values of the form MEASURE=NUMBER."""
    limits: dict[str, float] = {}
    for text in texts:
        measure, _, number = (part.strip() for part in text.partition("="))
        try:
            value = float(number)
        except ValueError:
            value = None
        if value is None or not measure:
            example = f"expected MEASURE=NUMBER, e.g. {option.opts[0]} acc_pmk=1"
            raise click.BadParameter(f"{example}, got {printable(text, limit=60)!r}")
        if measure in limits:
            raise click.BadParameter(f"{printable(measure, limit=60)} was given twice")
        limits[measure] = value
    return limits


@cache
def _definition(module: str, name: str) -> ast.FunctionDef:
    """Return the text of a function. Its module is not imported."""
    spec = find_spec(module)
    source = spec.loader.get_source(module) if spec and spec.loader else None  # type: ignore[attr-defined]  # a file or a zip
    body = ast.parse(source or "").body
    return next(node for node in body if isinstance(node, ast.FunctionDef) and node.name == name)


def _parts(text: str) -> tuple[str, dict[str, str]]:
    """Return the description of a docstring, and the text of each of its Args.

    >>> _parts("Do it.\\n\\nArgs:\\n    a: One\\n        or two.\\n    b: Three.\\n\\nReturns:\\n    It.")
    ('Do it.', {'a': 'One or two.', 'b': 'Three.'})
    """
    description, _, rest = text.partition("\n\nArgs:\n")
    args = re.split(r"^    (?=\w+: )", rest.partition("\n\n")[0], flags=re.MULTILINE)
    pairs = (" ".join(one.split()).partition(": ") for one in args if one.strip())
    return description, {name: said for name, _, said in pairs}


def _written(text: str, flags: Mapping[str, str]) -> str:
    """Return a text with its code as the command line writes it.

    >>> _written('like `max_loss`, e.g. `{"acc_pmk": 1}` or `all`', {"max_loss": "--max-loss"})
    'like --max-loss, e.g. acc_pmk=1 or all'
    """
    code = re.compile(r"`([^`]*)`")
    rule = re.compile(r'\{"(\w+)": ([\d.]+)\}')
    return code.sub(lambda found: flags.get(found[1], rule.sub(r"\1=\2", found[1])).split("/")[0], text)
