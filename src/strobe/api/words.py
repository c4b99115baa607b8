"""Helpers of the Python API: errors that name arguments instead of flags, and datasets given by path or in memory."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, flag, options_written, printable
from strobe.core.labels import LabelSpace
from strobe.core.late import load
from strobe.core.options import options_of
from strobe.core.ports import Progress, Silent

P = ParamSpec("P")
R = TypeVar("R")

_RECORDS = {
    "CameraOptions": "strobe.build.options:CameraOptions",
    "DropRules": "strobe.build.options:DropRules",
    "Limits": "strobe.build.options:Limits",
    "WorldOptions": "strobe.synthetic.world:WorldOptions",
}
"""The option records that functions take and that are imported late."""

_OTHER = {
    "box_space": "space",
    "model": "models",
    "no_hints": "hints=False",
    "plan": "plan_gate",
    "subset": "videos",
    "window": "window_ms",
}
"""The arguments that have another name than their flag."""


def in_python(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap the function so that its messages name Python arguments, such as `allow_missing=True`."""
    known = functools.cache(lambda: arguments(function))

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with options_written(lambda name, value: argument(name, value, known())):
            return function(*args, **kwargs)

    return wrapped


def arguments(function: Callable[..., Any]) -> dict[str, str]:
    """Return where the arguments of a function are: by name, and the fields of its records, as `running.decode`."""
    found = {function.__name__: function.__name__}
    for name, parameter in inspect.signature(function).parameters.items():
        said = parameter.annotation
        late = _RECORDS.get(said.partition(" ")[0]) if isinstance(said, str) else None
        kinds = [load(late)] if late else [kind for kind in (said, *get_args(said)) if is_dataclass(kind)]
        for kind in kinds:
            flags = {field: option.option.strip("-").replace("-", "_") for field, option in options_of(kind).items()}
            found |= {flags.get(field.name, field.name): f"{name}.{field.name}" for field in fields(kind)}
    return found | {name: name for name in inspect.signature(function).parameters}


def argument(name: str, value: str | None, known: Mapping[str, str]) -> str:
    """Return how Python sets an option. `known` has the function's arguments. Other options stay flags.

    >>> known = {"kind": "kind", "max_loss": "max_loss", "trust": "running.trust"}
    >>> argument("kind", "logits", known), argument("trust", "True", known), argument("max_loss", "acc_pmk=1", known)
    ('kind="logits"', 'running.trust=True', 'max_loss={"acc_pmk": 1}')
    >>> argument("box_format", "xyxy", known)
    '--box-format xyxy on the command line'
    """
    other, equals, off = _OTHER.get(name, name).partition("=")
    place = known.get(name) or known.get(other)
    if place is None:
        if name in ("label_space", "reference"):  # these made the dataset that the function reads
            return f"{argument(name, value, {name: name})} of strobe.build"
        return f"{flag(name, value)} on the command line"
    if equals:
        return f"{place}={off}"
    if value is None:
        return place
    if name in ("max_loss", "max", "min"):
        measure, _, number = value.partition("=")
        return f'{place}={{"{measure}": {number or "…"}}}'
    plain = value.isupper() or value == "True" or value.replace(".", "", 1).isdecimal()
    return f"{place}={value}" if plain else f'{place}="{value}"'


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


def several(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return a text, or several, as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def as_path(given: str | Path | None) -> Path | None:
    """Return a path, or None."""
    return None if given is None else Path(given)


def as_paths(given: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    """Return a path, or several, as a tuple."""
    return (Path(given),) if isinstance(given, str | Path) else tuple(map(Path, given))


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
