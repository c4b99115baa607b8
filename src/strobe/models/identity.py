"""Fingerprint a live object: compute a digest of everything that can affect its answers, or raise an error.

Answers are cached under such digests. Two models with different answers must never share a digest. If two equal models
have different digests, the only cost is that their answers are computed twice. Weights and arrays count by value.
Functions count by their compiled code, their closure and the globals that they use. Classes of installed packages count
by the package's version. Other objects count by their class and attributes. Anything else (an open file, a generator, a
C object) raises `CannotFingerprint`.
"""

import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Mapping, Set
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from strobe.core.late import installed_version

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
_MOST = 200_000
"""The maximum number of objects to visit. A model that refers to more cannot be fingerprinted."""
_OF_TRAINING = {"training", "grad", "_backward_hooks", "_non_persistent_buffers_set", "_is_full_backward_hook"}
"""Attributes of torch modules that change during training and do not affect answers."""


class CannotFingerprint(Exception):
    """Raised for an object that cannot be fingerprinted. The message names it."""


def digest_of(*things: object) -> str:
    """Return the digest of these objects together. Raises CannotFingerprint if one cannot be fingerprinted.

    >>> def double(x): return 2 * x
    >>> def triple(x): return 3 * x
    >>> digest_of(double) == digest_of(double), digest_of(double) == digest_of(triple)
    (True, False)
    """
    walk = _Walk()
    for thing in things:
        walk.see(thing)
    return walk.hasher.hexdigest()


class _Walk:
    """One traversal of all reachable objects. Each object is visited once."""

    def __init__(self) -> None:
        self.hasher = hashlib.sha256()
        self._known: dict[int, int] = {}
        self._kept: list[object] = []  # keeps objects alive so that no id is reused during the traversal

    def say(self, *words: object) -> None:
        self.hasher.update(("\0".join(str(word) for word in words) + "\n").encode("utf-8", "surrogatepass"))

    def see(self, thing: Any) -> None:
        if isinstance(thing, _PLAIN):
            self.say(type(thing).__name__, repr(thing))
            return
        if id(thing) in self._known:
            self.say("again", self._known[id(thing)])
            return
        if len(self._known) >= _MOST:
            raise CannotFingerprint(f"it refers to more than {_MOST:,} objects")
        self._known[id(thing)] = len(self._known)
        self._kept.append(thing)
        try:
            self._see(thing)
        except RecursionError as error:
            raise CannotFingerprint("it is nested too deeply") from error

    def _see(self, thing: Any) -> None:
        if isinstance(thing, np.ndarray | np.generic):
            self._array(np.asarray(thing))
        elif isinstance(thing, Mapping):
            self._mapping(thing)
        elif isinstance(thing, list | tuple):
            self.say(type(thing).__name__, len(thing))
            for one in thing:
                self.see(one)
        elif isinstance(thing, Set):
            self.say("set", *sorted(repr(one) for one in thing))
        elif isinstance(thing, PurePath):
            self.say("path", thing)
        elif isinstance(thing, types.ModuleType):
            self._module(thing.__name__)
        elif isinstance(thing, type):
            self._class(thing)
        elif isinstance(thing, types.CodeType):
            self._code(thing)
        elif isinstance(thing, types.FunctionType):
            self._function(thing)
        elif isinstance(thing, types.MethodType):
            self.say("method")
            self.see(thing.__func__)
            self.see(thing.__self__)
        elif isinstance(thing, functools.partial):
            self.say("partial")
            for one in (thing.func, thing.args, thing.keywords):
                self.see(one)
        elif isinstance(thing, staticmethod | classmethod):
            self.see(thing.__func__)
        elif isinstance(thing, property):
            self.see((thing.fget, thing.fset))
        elif isinstance(thing, Enum):
            self.see(type(thing))
            self.say(thing.name)
        else:
            self._object(thing)

    def _array(self, array: np.ndarray[Any, Any]) -> None:
        if array.dtype.hasobject:
            self.see(array.tolist())
            return
        self.say("array", array.shape, array.dtype.str)
        self.hasher.update(np.ascontiguousarray(array).tobytes())

    def _mapping(self, thing: Mapping[Any, Any]) -> None:
        self.say("mapping", len(thing))
        for key, value in thing.items():
            self.see(key)
            self.see(value)

    def _module(self, name: str) -> None:
        """Add a module: an installed package by its version, the user's own file by its content."""
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names:
            self.say("stdlib", name, sys.version_info[:3])
            return
        version = installed_version(top) or getattr(sys.modules.get(top), "__version__", None)
        file = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(version, str) and (file is None or "site-packages" in Path(file).parts):
            self.say("package", name, version)
        elif file is not None and Path(file).is_file():
            self.say("file", name, hashlib.sha256(Path(file).read_bytes()).hexdigest())
        elif isinstance(version, str):
            self.say("package", name, version)
        else:
            raise CannotFingerprint(f"the module {name}")

    def _is_own(self, name: str | None) -> bool:
        """Return whether the module's code is the user's own (a notebook, a script) and therefore must be read."""
        if name is None or name == "__main__":
            return True
        if name.partition(".")[0] == "strobe":
            return False
        file = getattr(sys.modules.get(name), "__file__", None)
        return name.partition(".")[0] not in sys.stdlib_module_names and (
            file is None or "site-packages" not in Path(file).parts
        )

    def _class(self, cls: type) -> None:
        self.say("class", cls.__module__, cls.__qualname__)
        if not self._is_own(cls.__module__):
            self._module(cls.__module__)
            return
        for base in cls.__mro__[1:-1]:
            self.see(base)
        for name, value in sorted(vars(cls).items()):
            if isinstance(value, types.FunctionType | staticmethod | classmethod | property) or (
                not name.startswith("__") and isinstance(value, (*_PLAIN, list, tuple, dict))
            ):
                self.say(name)
                self.see(value)

    def _function(self, thing: types.FunctionType) -> None:
        self.say("function", thing.__qualname__)
        if not self._is_own(thing.__module__):
            self.say(thing.__module__)
            self._module(thing.__module__)
            # The package's version covers the function's code, but not its closure.
            self.see([cell.cell_contents for cell in thing.__closure__ or ()])
            self.see((thing.__defaults__, thing.__kwdefaults__))
            return
        self.see(thing.__code__)
        self.see((thing.__defaults__, thing.__kwdefaults__))
        for cell in thing.__closure__ or ():
            try:
                self.see(cell.cell_contents)
            except ValueError:  # an empty closure cell
                self.say("empty cell")
        for name in sorted(_names(thing.__code__)):
            if name in thing.__globals__:
                self.say("global", name)
                self.see(thing.__globals__[name])

    def _code(self, code: types.CodeType) -> None:
        self.say("code", sys.version_info[:2], code.co_names, code.co_varnames, code.co_flags)
        self.hasher.update(code.co_code)
        self.see(code.co_consts)

    def _object(self, thing: Any) -> None:
        cls = type(thing)
        if _is_tensor(thing):
            tensor = thing.detach().cpu()
            self.say("tensor", tuple(tensor.shape), tensor.dtype)
            self._array(_bytes(tensor))
            return
        if inspect.isbuiltin(thing) or inspect.ismethoddescriptor(thing) or cls.__name__ == "ufunc":
            owner = getattr(thing, "__self__", None)
            self.say("built in", getattr(thing, "__module__", ""), getattr(thing, "__qualname__", repr(thing)))
            if owner is not None and not isinstance(owner, types.ModuleType):
                self.see(owner)
            return
        if hasattr(thing, "_orig_mod"):  # torch.compile wraps the original network
            self.see(thing._orig_mod)
            return
        self.see(cls)
        said = _attributes(thing)
        if said is not None:
            for name, value in said:
                self.say(name)
                self.see(value)
            return
        try:
            parts = thing.__reduce_ex__(4)
        except Exception as error:  # objects that cannot be reduced fail in many ways
            raise CannotFingerprint(f"{'an' if cls.__name__[:1] in 'AEIOU' else 'a'} {cls.__name__}") from error
        # The fourth and fifth part of a reduce value are iterators.
        self.see(
            parts
            if isinstance(parts, str)
            else [list(part) if inspect.isgenerator(part) or hasattr(part, "__next__") else part for part in parts]
        )


def _names(code: types.CodeType) -> set[str]:
    """Return the names that a function's code, including nested functions, may look up in the globals."""
    inside = [co_const for co_const in code.co_consts if isinstance(co_const, types.CodeType)]
    return set(code.co_names).union(*(_names(one) for one in inside))


def _is_tensor(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def _bytes(tensor: Any) -> np.ndarray[Any, Any]:
    import torch

    flat = tensor.contiguous().reshape(-1)
    found: np.ndarray[Any, Any] = flat.view(torch.uint8).numpy() if flat.numel() else np.zeros(0, dtype=np.uint8)
    return found


def _attributes(thing: Any) -> list[tuple[str, Any]] | None:
    """Return the value that defines a torch object; None for any other object."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(thing, torch.jit.ScriptModule):
        return [("code", str(thing.inlined_graph)), ("state", dict(thing.state_dict()))]
    if isinstance(thing, torch.device | torch.dtype | torch.Size):
        return [("text", str(thing))]
    if isinstance(thing, torch.nn.Module):
        return sorted((name, value) for name, value in vars(thing).items() if name not in _OF_TRAINING)
    return None
