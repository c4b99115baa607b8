"""Which classes a model's outputs are."""

from collections.abc import Sequence

from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace, space

__all__ = ["space_of"]


def space_of(
    model: str, n_classes: int, *, names: Sequence[str] = (), ids: Sequence[str] = (), dataset: LabelSpace | None = None
) -> LabelSpace:
    """The label space of a model with `n_classes` outputs.

    A thousand outputs are ILSVRC-2012 unless their names say otherwise. Names the model brings come next; without any,
    a model with as many outputs as the dataset has classes is taken to be trained on them.
    """
    if n_classes == 1000 and (not names or _are_ilsvrc(names)):
        return space("ilsvrc-2012")
    if ids and len(ids) == n_classes:
        return LabelSpace(name=f"classes of {model}", ids=tuple(ids), names=tuple(names or ids))
    if names and len(names) == n_classes and not all(_is_nameless(name) for name in names):
        taken: dict[str, int] = {}
        unique = []
        for name in names:
            taken[name] = taken.get(name, 0) + 1
            unique.append(name if taken[name] == 1 else f"{name} ({taken[name]})")
        return LabelSpace(name=f"classes of {model}", ids=tuple(unique), names=tuple(unique))
    if dataset is not None and len(dataset) == n_classes:
        return dataset
    have = f" and the dataset has {len(dataset)} classes" if dataset is not None else ""
    raise ModelFailed(
        f"{printable(model)}: its {n_classes} outputs have no class names{have}; is it a backbone without a classifier?"
    )


def _is_nameless(name: str) -> bool:
    return name.isdigit() or name.startswith("LABEL_")


def _are_ilsvrc(names: Sequence[str]) -> bool:
    """Whether these are ILSVRC-2012's names in its order, allowing for the spellings in use."""
    if all(_is_nameless(name) for name in names):
        return True
    known = space("ilsvrc-2012")
    words = [{part.strip().casefold() for part in name.replace("_", " ").split(",")} for name in names]
    shipped = [{part.strip().casefold() for part in name.replace("_", " ").split(",")} for name in known.names]
    ids = [label_id in name for label_id, name in zip(known.ids, names, strict=True)]
    same = sum(bool(a & b) or c for a, b, c in zip(words, shipped, ids, strict=True))
    return same > 900
