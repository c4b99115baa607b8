"""Helpers of the Python API: errors that name arguments instead of flags, and datasets given by path or in memory."""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.labels import LabelSpace
from strobe.core.ports import Progress, Silent

__all__ = ["in_python", "opened", "root_of", "space_given", "watching"]

P = ParamSpec("P")
R = TypeVar("R")

_FLAG = re.compile(r"--([a-z][a-z0-9-]*)(?: ([A-Za-z0-9][\w.:-]*))?")
_SWITCHES = {"allow-missing", "ignore-extra", "empty-frames", "trust", "offline", "deterministic", "reference",
             "unlabelled", "strict", "clean-anchor", "retry-errors"}  # fmt: skip
_VALUES = {
    "kind",
    "space",
    "box-space",
    "box-format",
    "box-units",
    "decode",
    "device",
    "precision",
    "merge",
    "label-space",
    "subset",
}
_OTHER = {"subset": "videos", "window": "window_ms", "box-space": "space", "empty-frames": "empty_frames"}


def in_python(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap the function so that its errors name Python arguments: `--allow-missing` becomes `allow_missing=True`."""

    known = _arguments(function)

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except StrobeError as error:
            error.args = (python_words(str(error), known),)
            raise

    return wrapped


def _arguments(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of a function's arguments and of the fields of its records, such as `Running.decode`."""
    parameters = inspect.signature(function).parameters
    kinds = [kind for one in parameters.values() for kind in (one.annotation, *get_args(one.annotation))]
    inside = {field.name for kind in kinds if isinstance(kind, type) and is_dataclass(kind) for field in fields(kind)}
    return frozenset(parameters) | inside


def python_words(text: str, known: Collection[str]) -> str:
    """Replace flags in a command-line message by the arguments in `known`. Other flags stay flags.

    >>> arguments = ("allow_missing", "kind", "k")
    >>> python_words("score it with --allow-missing; or declare --kind logits; --k: expected 0 to 9", arguments)
    'score it with allow_missing=True; or declare kind="logits"; k: expected 0 to 9'
    >>> python_words("pass --box-format xyxy", arguments)
    'pass --box-format xyxy on the command line'
    """

    def argument(match: re.Match[str]) -> str:
        flag, value = match[1], match[2]
        name = _OTHER.get(flag, flag.replace("-", "_"))
        if name not in known:
            return f"{match[0]} on the command line"
        if flag in _SWITCHES:
            return f"{name}=True" + (f" {value}" if value else "")
        if flag in _VALUES and value:
            return f'{name}="{value}"'
        return name + (f" {value}" if value else "")

    return _FLAG.sub(argument, text)


def opened(dataset: Dataset | str | Path) -> Dataset:
    """Return the dataset, read from its folder if a path is given.

    If there are votes, it has only the sets that review kept.
    """
    if isinstance(dataset, Dataset):
        return dataset
    from strobe.store.opening import Opened

    return Opened.of(Path(dataset)).dataset


def root_of(dataset: Dataset) -> Path:
    """Return the folder of a dataset. Raise StrobeError if the dataset is only in memory."""
    if dataset.root is None:
        raise StrobeError(
            f"{printable(dataset.name)} is only in memory; write it with strobe.save_dataset(dataset, FOLDER) and "
            "load it from there"
        )
    return dataset.root


def space_given(given: str | Path | Sequence[str] | LabelSpace | None) -> str | LabelSpace | None:
    """Return a label space as the workflows take it: a name or file stays text, and a list becomes a LabelSpace.

    >>> space_given(["cat", "dog"]).ids, space_given("coco-80")
    (('cat', 'dog'), 'coco-80')
    """
    if given is None or isinstance(given, LabelSpace):
        return given
    return str(given) if isinstance(given, str | Path) else LabelSpace.of_names("given classes", given)


def watching(progress: bool | Progress) -> Progress:
    """Return the Progress to report to: a silent one (False), bars (True), or the given Progress."""
    if isinstance(progress, bool):
        return Bars() if progress else Silent()
    return progress


class Bars:
    """Progress bars for a terminal or a notebook. Notes are printed as lines."""

    @contextmanager
    def task(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Show a bar. Call the returned function with the number of units just done."""
        from rich.progress import Progress as RichBars

        with RichBars() as bars:
            row = bars.add_task(printable(label).replace("[", r"\["), total=total)
            yield lambda units: bars.advance(row, units)

    def note(self, text: str) -> None:
        """Print one line."""
        from rich.console import Console

        Console(stderr=True, highlight=False).print(printable(text, limit=1000), markup=False)
