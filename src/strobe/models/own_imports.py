"""Isolate a plugin's imports: each user file imports from its own folder first and shares no modules.

The file becomes a private package, `strobe_plugin_<digest>`. The modules it imports from its folder, or from folders it
adds to `sys.path`, become modules of that package. If two files each have a `net.py` next to them, each imports its
own, also in threads and in imports inside functions. All other imports are unchanged.
"""

import builtins
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

__all__ = ["MODULE", "OwnImports"]

MODULE = "strobe_plugin_"
"""The prefix of a file's module name, before a digest."""

_OWNERS: dict[str, "OwnImports"] = {}
"""The imports of each file by its module name. Loading a file again replaces its earlier entry."""


class OwnImports:
    """The imports of one Python file. `words` are names added to its builtins, such as a replacement for `print`."""

    def __init__(self, path: Path, words: Mapping[str, Any]) -> None:
        self.path, self.name = path, MODULE + hashlib.sha256(str(path).encode()).hexdigest()[:12]
        self.builtins = {**vars(builtins), **words, "__import__": self._import}
        self._places = [str(path.parent)]
        self._before: list[str] | None = None
        self._by_path: list[ModuleType] = []

    def run(self) -> ModuleType:
        """Run the file now and return its module."""
        for name in [name for name in sys.modules if name == self.name or name.startswith(f"{self.name}.")]:
            del sys.modules[name]  # modules of an earlier load
        importlib.invalidate_caches()
        _OWNERS[self.name] = self
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
        loader = _OwnLoader(self.name, str(self.path))
        spec = ModuleSpec(self.name, loader, origin=str(self.path), is_package=True)
        # This is the same list object, so it grows when the file adds folders.
        spec.submodule_search_locations = self._places
        spec.has_location = True
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.name] = module
        loader.exec_module(module)
        return module

    @contextmanager
    def on_path(self) -> Iterator[None]:
        """While open, `sys.path` begins with the file's folder, for imports that bypass `__import__`, such as pickle's.

        Modules imported that way, and the file's additions to `sys.path`, are removed afterwards so that no other file
        finds them.
        """
        before, known = list(sys.path), set(sys.modules)
        self._before = before
        sys.path.insert(0, self._places[0])
        try:
            yield
        finally:
            self._learn()
            self._before, sys.path[:] = None, before
            for name in [name for name in sys.modules if name not in known and not name.startswith(MODULE)]:
                if self._is_own(name.partition(".")[0]) and self._lies_here(sys.modules[name]):
                    self._by_path.append(sys.modules.pop(name))

    def files(self) -> list[Path]:
        """Return the files of the modules imported from its own folders so far, without the file itself."""
        private = [module for name, module in list(sys.modules.items()) if name.startswith(f"{self.name}.")]
        files = {getattr(module, "__file__", None) for module in (*private, *self._by_path)}
        return sorted(Path(file) for file in files if file)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        """The `__import__` of the file and its modules."""
        head = name.partition(".")[0]
        if level == 0 and head == self.path.stem:
            # In a file timm.py, `import timm` imports the package. In a module next to it, `import timm` imports the
            # file.
            if (globals or {}).get("__name__") != self.name:
                return sys.modules[self.name]
        elif level == 0 and self._is_own(head):
            if fromlist:
                return builtins.__import__(f"{self.name}.{name}", globals, locals, fromlist, 0)
            importlib.import_module(f"{self.name}.{name}")
            return sys.modules[f"{self.name}.{head}"]
        return builtins.__import__(name, globals, locals, fromlist, level)

    def _is_own(self, head: str) -> bool:
        """Return whether the module of that name is in the file's folders.

        Compiled modules are imported normally, because many can be initialised only once per process. A package is also
        imported normally if its name only matches a folder without __init__.py.
        """
        self._learn()
        spec = PathFinder.find_spec(head, self._places)
        if spec is None or isinstance(spec.loader, SourceFileLoader):
            return spec is not None
        others = [place for place in sys.path if place not in self._places]
        return spec.origin is None and head not in sys.modules and PathFinder.find_spec(head, others) is None

    def _lies_here(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        return file is None or any(Path(file).is_relative_to(place) for place in self._places)

    def _learn(self) -> None:
        """While the file is loaded, add the folders that it puts on `sys.path` to its own folders."""
        if self._before is not None:
            known = {*self._before, *self._places}
            self._places += [place for place in sys.path if place not in known and _is_private(place)]


def _is_private(place: str) -> bool:
    return not Path(place).resolve().is_relative_to(Path(sys.prefix).resolve())


class _OwnLoader(SourceFileLoader):
    """Runs a plugin's module with its own `__import__`.

    It always runs the source, because bytecode can be stale if the file changes twice within a second.
    """

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = _OWNERS[module.__name__.partition(".")[0]].builtins
        super().exec_module(module)

    def path_stats(self, path: Any) -> NoReturn:
        raise OSError(f"{path}: strobe neither reads nor writes bytecode for plugins")


class _OwnFinder:
    """Import finder for the modules inside a plugin's package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's spec with strobe's loader; None if the module belongs to no plugin."""
        if not fullname.startswith(MODULE) or fullname.partition(".")[0] not in _OWNERS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _OwnLoader(fullname, spec.loader.path)
            spec.cached = None
        return spec


_FINDER = _OwnFinder()
