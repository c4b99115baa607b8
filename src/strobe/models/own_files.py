"""The files that a plugin's answers depend on: those it imports, opens and names.

Imports are isolated (`OwnImports`). The file becomes a private package, `strobe_plugin_<digest>`. The modules it
imports from its folder, or from folders it adds to `sys.path`, become modules of that package. If two files each have
a `net.py` next to them, each imports its own, also in threads and in imports inside functions. All other imports are
unchanged.

Opened files are detected through Python's audit events (`watching`). Only files opened through Python's `open` are
detected. Files that a library opens directly (onnxruntime, safetensors, torch.jit) are not. Weights in such formats
count if the plugin's source names them (`named_beside`).
"""

import ast
import builtins
import hashlib
import importlib
import importlib.util
import os
import site
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

MODULE = "strobe_plugin_"
"""The prefix of a file's module name, before a digest."""

_OWNERS: dict[str, "OwnImports"] = {}
"""The imports of each file by its module name. Loading a file again replaces its earlier entry."""


class OwnImports:
    """The imports of one Python file. `words` are names added to its builtins, such as a replacement for `print`."""

    def __init__(self, path: Path, words: Mapping[str, Any]) -> None:
        self.path, self.name = path, MODULE + hashlib.sha256(str(path).encode()).hexdigest()[:12]
        self.builtins = {**vars(builtins), **words, "__import__": self._import}
        self._places, self._installed = [str(path.parent)], list[str]()
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
        finds them. Folders of installed packages stay, at the end of `sys.path`.
        """
        before, known = list(sys.path), set(sys.modules)
        self._before = before
        sys.path.insert(0, self._places[0])
        try:
            yield
        finally:
            self._learn()
            self._before, sys.path[:] = None, [*before, *self._installed]
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
        """While the file is loaded, add the folders that it puts on `sys.path` to its own folders.

        A folder of installed packages, such as that of `pip install --target`, is none of its own: its packages are
        imported normally, because they may import themselves by name, as cv2 does.
        """
        if self._before is not None:
            known = {*self._before, *self._places, *self._installed}
            for place in (place for place in sys.path if place not in known):
                if any(Path(place).glob("*.dist-info")):
                    self._installed.append(place)
                elif not Path(place).resolve().is_relative_to(Path(sys.prefix).resolve()):
                    self._places.append(place)


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


OPENED_BY_LIBRARIES = frozenset(
    (
        ".onnx",
        ".data",
        ".safetensors",
        ".pt",
        ".pth",
        ".pt2",
        ".ts",
        ".torchscript",
        ".bin",
        ".param",
        ".gguf",
        ".tflite",
        ".pb",
        ".caffemodel",
        ".prototxt",
        ".weights",
        ".cfg",
        ".xml",
        ".engine",
        ".plan",
        ".trt",
        ".h5",
        ".hdf5",
        ".keras",
    )
)
"""Suffixes of weight files that libraries open without Python's `open`."""

_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib64", "/bin", "/System", "/Library")


@dataclass(slots=True, eq=False)
class Watch:
    """The files opened while watching: files read, by absolute path and as written in the call, and files written."""

    _read: dict[str, str] = field(default_factory=dict)
    _written: set[str] = field(default_factory=set)

    def see(self, name: Any, mode: Any, flags: Any) -> None:
        """Record one `open` event."""
        if isinstance(name, bytes):
            name = os.fsdecode(name)
        if not isinstance(name, str) or name.endswith((".pyc", ".py")):  # `OwnImports` records modules
            return
        absolute = str(Path(name).resolve())
        if Path(absolute).parent.suffix in (".egg-info", ".dist-info"):  # libraries read these to find other packages
            return
        writes = any(sign in mode for sign in "wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
        if writes:
            self._written.add(absolute)
        else:
            self._read.setdefault(absolute, name)

    def files(self, home: Path) -> list[Path]:
        """Return files that were read and not written, sorted.

        System and package files count only if they are in `home`.
        """
        foreign = [place for place in _foreign() if not _within(str(home), place)]
        names = [name for name in self._read if name not in self._written and _is_file(name)]
        own = [name for name in names if not any(_within(name, place) for place in foreign)]
        inside = [name for name in own if _within(name, str(home)) or not any(_within(name, p) for p in _foreign())]
        return sorted(map(Path, inside))

    def strayed(self, home: Path) -> list[Path]:
        """Return files that were read relative to the working directory although `home` has a file of the same name."""
        misplaced = []
        for path in self.files(home):
            written = self._read[str(path)]
            twin = home / written
            if not Path(written).is_absolute() and _is_file(str(twin)) and not path.samefile(twin):
                misplaced.append(path)
        return misplaced


_WATCHES: list[Watch] = []


@contextmanager
def watching(watch: Watch | None = None) -> Iterator[Watch]:
    """Record every file opened in any thread until the context ends, in a new or an existing Watch."""
    _hooked()
    watch = watch or Watch()
    _WATCHES.append(watch)
    try:
        yield watch
    finally:
        _WATCHES.remove(watch)


@cache
def _hooked() -> None:
    """Install the audit hook. Hooks cannot be removed, so there is only one, installed when a plugin is loaded."""
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _WATCHES and event == "open":
        for watch in tuple(_WATCHES):
            watch.see(*arguments)


def _is_file(name: str) -> bool:
    try:
        return stat.S_ISREG(Path(name).stat().st_mode)
    except (OSError, ValueError):
        return False


def _within(name: str, folder: str) -> bool:
    return name.startswith(folder.rstrip(os.sep) + os.sep)


@cache
def _foreign() -> tuple[str, ...]:
    """Return the folders of the system, Python, packages and caches."""
    packages = [*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])]
    home = [str(Path(place).expanduser()) for place in ("~/.cache", "~/.config", "~/.local")]
    return (*_SYSTEM, sys.prefix, sys.base_prefix, sys.exec_prefix, *packages, *home)


def named_beside(path: Path) -> list[Path]:
    """Return the files in the file's folder that its code mentions, directly or through imported modules."""
    home, todo, files = path.parent, [path], dict.fromkeys([path])
    while todo:
        one = todo.pop()
        for named in _named(one.read_bytes(), one.parent, home) if one.suffix == ".py" else ():
            named = Path(os.path.normpath(named))
            if named.is_relative_to(home) and named not in files:
                files[named] = None
                todo.append(named)
    return list(files)[1:]


def _named(content: bytes, folder: Path, home: Path) -> Iterator[Path]:
    """Return the files under `home` that the code of a file in `folder` may refer to, by an import or a string."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # the error appears, with its line, when the file is run
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(home, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = folder.joinpath(*[".."] * (node.level - 1)) if node.level else home
            for alias in node.names:
                yield from _module(base, ".".join(filter(None, (node.module, alias.name))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _file(home, node.value)
            if node.value.replace(".", "").isidentifier():  # importlib.import_module("helper")
                yield from _module(home, node.value)


def _module(base: Path, dotted: str) -> Iterator[Path]:
    """Return the files under `base` that run when a dotted name is imported: the packages on its path, and the
    module.
    """
    place = base
    for part in dotted.split(".") if dotted else ():
        place = place / part
        for one in (place.with_name(f"{part}.py"), place / "__init__.py"):
            if one.is_file():
                yield one


def _file(home: Path, text: str) -> Iterator[Path]:
    """Return the file under `home` that a string names."""
    if not 0 < len(text) <= 255 or "\0" in text or "\n" in text:
        return
    try:
        if (home / text).is_file():
            yield home / text
    except OSError:  # not a valid file name
        return
