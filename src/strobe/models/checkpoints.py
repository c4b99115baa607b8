"""Weights files as people publish them: the network inside wrappers, prefixes, copies and normalizers.

A training script saves more than a network. It saves the averaged weights (EMA) next to the last ones, and the name of
every tensor starts with the wrappers that the script used. Robust models also contain the normalizer of their input,
and MadryLab's `robustness` adds a second copy of the network for the attacker. Every function here removes only parts
that it recognises, and each removed part is described in a note.
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from strobe.core.late import require
from strobe.models.plan import ImagePlan, Triple

_AVERAGED = ("state_dict_ema", "model_ema", "ema_state_dict", "ema")
"""Keys of the averaged weights. They come first, as in timm's loader: published figures are of these weights."""

_LAST = ("state_dict", "model_state_dict", "model", "net", "module")

_PREFIXES = ("module.", "_orig_mod.")
"""Prefixes of torch's own wrappers: data parallel, averaged and compiled models."""

_OWN_PREFIXES = (*_PREFIXES, "model.", "net.", "1.")
"""Further prefixes of attributes that hold a network. `1.` is a `Sequential` of a normalizer and a network."""

_MEAN = re.compile(r"(?:(?:normali[sz]er?|normali[sz]ation|0)\.)?(?:new_mean|mean|mu)")
_STD = re.compile(r"(?:(?:normali[sz]er?|normali[sz]ation|0)\.)?(?:new_std|std|sigma)")


@dataclass(slots=True, eq=False)
class Checkpoint:
    """The tensors of a network by name, what was removed from the file, and the normalizer that was inside.

    `normalizer` is the mean and standard deviation of each channel, for pixels from 0 to 1.
    """

    tensors: OrderedDict[str, Any]
    removed: list[str] = field(default_factory=list)
    normalizer: tuple[Triple, Triple] | None = None


def unwrapped(content: Any) -> tuple[Any, list[str]]:
    """Return the mapping with the network's tensors, and the keys that lead to it.

    >>> unwrapped({"epoch": 3, "model": {"fc.bias": 1.0}})
    ({'fc.bias': 1.0}, ['model'])
    """
    torch = require("torch", what="reading weights", extra="models")
    held, path = (Mapping, torch.nn.Module), list[str]()
    for _ in range(8):  # a file may contain itself
        if isinstance(content, torch.nn.Module):
            content = content.state_dict()
        inner = content if isinstance(content, Mapping) else {}
        key = next((key for key in (*_AVERAGED, *_LAST) if isinstance(inner.get(key), held)), None)
        if key is None:
            break
        path.append(key)
        content = content[key]
    return content, path


def parallel_removed(tensors: OrderedDict[str, Any]) -> Checkpoint:
    """Remove the prefixes of torch's wrappers, and the counter of an averaged model."""
    checkpoint = Checkpoint(OrderedDict(tensors))
    if "n_averaged" in checkpoint.tensors:
        del checkpoint.tensors["n_averaged"]
        checkpoint.removed.append("the counter n_averaged")
    _remove_prefixes(checkpoint, _PREFIXES)
    return checkpoint


def network_alone(tensors: Mapping[str, Any]) -> Checkpoint:
    """Return only the network: without the normalizer, the attacker's copy and the names of wrappers.

    >>> import torch
    >>> mean, bias = torch.tensor([0.5, 0.5, 0.5]), torch.zeros(2)
    >>> found = network_alone({"normalize.mean": mean, "normalize.std": mean, "model.fc.bias": bias})
    >>> list(found.tensors), found.normalizer
    (['fc.bias'], ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)))
    """
    checkpoint = Checkpoint(OrderedDict(tensors))
    copies = [name for name in checkpoint.tensors if name.startswith("attacker.")]
    if copies and len(copies) < len(checkpoint.tensors):
        for name in copies:
            del checkpoint.tensors[name]
        checkpoint.removed.append(f"the attacker's copy of the network ({len(copies)} tensors under attacker.)")
    means, stds = (_triples(checkpoint.tensors, pattern) for pattern in (_MEAN, _STD))
    if means and stds:
        checkpoint.normalizer = next(iter(means.values())), next(iter(stds.values()))
        for name in (*means, *stds):
            del checkpoint.tensors[name]
        checkpoint.removed.append(f"the normalizer ({', '.join((*means, *stds))})")
    _remove_prefixes(checkpoint, _OWN_PREFIXES)
    return checkpoint


def normalized_once(plan: ImagePlan, normalizer: tuple[Triple, Triple]) -> tuple[ImagePlan, str]:
    """Return the preprocessing with the normalizer of a weights file in place of the plan's, and a note about it.

    >>> plan = ImagePlan(size_hw=(8, 8))
    >>> found, words = normalized_once(plan, (plan.mean, (0.5, 0.5, 0.5)))
    >>> found.std
    (0.5, 0.5, 0.5)
    """
    own = (plan.mean, plan.std)
    pairs = [(a, b) for mine, theirs in zip(own, normalizer, strict=True) for a, b in zip(mine, theirs, strict=True)]
    if plan.divide == 255 and all(abs(a - b) < 1e-5 for a, b in pairs):  # the file has single precision
        return plan, "pixels are normalised once: the file's normalizer equals the model's own preprocessing"
    mean, std = normalizer
    words = (
        f"pixels are normalised once, with the file's {_words(mean, std)} instead of the model's own "
        f"{_words(plan.mean, plan.std)}"
    )
    return replace(plan, mean=mean, std=std, divide=255.0), words


def _remove_prefixes(found: Checkpoint, prefixes: tuple[str, ...]) -> None:
    removed = ""
    while prefix := next((one for one in prefixes if all(name.startswith(one) for name in found.tensors)), ""):
        found.tensors = OrderedDict((name.removeprefix(prefix), tensor) for name, tensor in found.tensors.items())
        removed += prefix
    if removed:
        found.removed.append(f"the prefix {removed} of {len(found.tensors)} names")


def _triples(tensors: Mapping[str, Any], pattern: re.Pattern[str]) -> dict[str, Triple]:
    """Return the tensors of three numbers whose name matches."""
    found: dict[str, Triple] = {}
    for name, tensor in tensors.items():
        if pattern.fullmatch(name) and tensor.numel() == 3:
            red, green, blue = (round(float(value), 7) for value in tensor.reshape(-1))
            found[name] = (red, green, blue)
    return found


def _words(mean: Triple, std: Triple) -> str:
    return f"mean {' '.join(f'{one:g}' for one in mean)} and std {' '.join(f'{one:g}' for one in std)}"
