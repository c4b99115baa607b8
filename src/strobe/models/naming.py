"""Determine the classes of a model's outputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, ModelFailed, UnknownName, printable
from strobe.core.files import read_json
from strobe.core.labels import LabelSpace, space


def space_of(
    model: str,
    n_classes: int,
    *,
    names: Sequence[str] = (),
    ids: Sequence[str] = (),
    given: Path | None = None,
    dataset: LabelSpace | None = None,
) -> LabelSpace:
    """Return the label space of a model with `n_classes` outputs.

    The user's settings file `given` takes precedence. A thousand outputs are ILSVRC-2012 unless their names differ.
    Otherwise the names stored in the model are used. A model without names that has as many outputs as the dataset has
    classes is assumed to be trained on these classes.
    """
    if given is not None:
        return _given(model, n_classes, given, dataset)
    if n_classes == 1000 and (not names or _are_ilsvrc(names)):
        return space("ilsvrc-2012")
    if ids and len(ids) == n_classes:
        return LabelSpace(name=f"classes of {model}", ids=tuple(ids), names=tuple(names or ids))
    if names and len(names) == n_classes and not all(_is_nameless(name) for name in names):
        n_seen: dict[str, int] = {}
        unique = []
        for name in names:
            n_seen[name] = n_seen.get(name, 0) + 1
            unique.append(name if n_seen[name] == 1 else f"{name} ({n_seen[name]})")
        return LabelSpace(name=f"classes of {model}", ids=tuple(unique), names=tuple(unique))
    if dataset is not None and len(dataset) == n_classes:
        return dataset
    have = f" and the dataset has {len(dataset)} classes" if dataset is not None else ""
    raise ModelFailed(
        f"{printable(model)}: its {n_classes} outputs have no class names{have}; write them to a JSON file as "
        '{"labels": ["cat", "dog", …]} and pass it as <<model_settings=FILE>>, or wrap the model in a py: file '
        "(docs/models.md)"
    )


def labels_of(model: str, labels: Any, dataset: LabelSpace | None) -> LabelSpace:
    """Return the space for `labels` in a settings file: a shipped space, a list of names or ids, or "dataset"."""
    if labels == "dataset" and dataset is not None:
        return dataset
    if isinstance(labels, str) and labels != "dataset":
        return space(labels)
    if isinstance(labels, list) and labels and all(isinstance(label, str) for label in labels):
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise ModelFailed(
                f"{printable(model)}: labels: {printable(twice)!r} appears twice, expected each class once"
            )
        return LabelSpace.of_names(f"classes of {printable(model)}", labels)
    raise ModelFailed(f"{printable(model)}: labels: expected the name of a label space, a list of names, or dataset")


def _given(model: str, n_classes: int, file: Path, dataset: LabelSpace | None) -> LabelSpace:
    settings = read_json(file)
    if not isinstance(settings, dict) or "labels" not in settings:
        raise InvalidFile(file, 'expected {"labels": [names of the classes, in the order of the outputs]}')
    unknown = [key for key in settings if key != "labels"]
    if unknown:
        hint = f"{printable(model)} defines its other settings itself and accepts only labels"
        raise UnknownName(f"setting in {printable(file)}", unknown[0], ["labels"], hint=hint)
    space = labels_of(model, settings["labels"], dataset)
    if len(space) != n_classes:
        raise ModelFailed(
            f"{printable(model)}: it has {n_classes} outputs, but {printable(file)} names {len(space)} classes"
        )
    return space


def _is_nameless(name: str) -> bool:
    return name.isdigit() or name.startswith("LABEL_")


def _are_ilsvrc(names: Sequence[str]) -> bool:
    """Return whether these are ILSVRC-2012's names in its order, allowing for common spellings."""
    if all(_is_nameless(name) for name in names):
        return True
    known = space("ilsvrc-2012")
    words = [{part.strip().casefold() for part in name.replace("_", " ").split(",")} for name in names]
    shipped = [{part.strip().casefold() for part in name.replace("_", " ").split(",")} for name in known.names]
    ids = [label_id in name for label_id, name in zip(known.ids, names, strict=True)]
    same = sum(bool(a & b) or c for a, b, c in zip(words, shipped, ids, strict=True))
    return same > 900
