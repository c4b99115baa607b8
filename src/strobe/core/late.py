"""Late imports: heavy packages and members of lists are named as text and imported on first use.

A `Registry` is a list to which other packages can add members: model providers, formats, questions, generators and
studies. It maps each name to "module:object" and, if importing the member is slow, to a line of help. Installed
packages add members through Python entry points. strobe reads their metadata only if a name is not in its own list, or
if all names are listed.
"""

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cached_property
from types import ModuleType
from typing import Any, Generic, NoReturn, TypeVar

from strobe.core.annex import ENTRY_POINTS, Annex, Item, members
from strobe.core.errors import MissingExtra, StrobeError, UnknownName, printable

_SPINS = "3000"
"""How often a GNU OpenMP thread spins before it sleeps (by default 300,000 times); see docs/performance.md."""


def require(module: str, *, what: str, extra: str) -> ModuleType:
    """Import and return the module, or raise a MissingExtra that names the extra to install.

    >>> require("json", what="this example", extra="none").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).split(".")[0]
        raise MissingExtra(what, missing, extra) from error
    except Exception as error:  # torch, for one, reads the metadata of every installed package
        why = printable(f"{type(error).__name__}: {error}", limit=160)
        raise StrobeError(f"{what} needs {module}, which cannot be imported ({why}); see strobe doctor") from error


def installed_version(package: str = "strobe-vision") -> str | None:
    """Return the version of an installed package, by default strobe's; None if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def too_old() -> dict[str, str]:
    """Return the installed packages that are older than required: their lower-case names with the required versions."""
    from importlib import metadata

    try:
        declared = metadata.requires("strobe-vision") or []
    except metadata.PackageNotFoundError:
        return {}
    outdated = {}
    for line in declared:
        bound = re.match(r"([\w.-]+)[^>]*>=([\d.]+)", line)
        have = installed_version(bound[1]) if bound else None
        if bound and have and _release(have) < _release(bound[2]):
            outdated[bound[1].lower()] = bound[2]
    return outdated


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version for comparison; three numbers are enough to check a lower bound."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in numbers[0].split(".")] if numbers else []
    return tuple([*parts, 0, 0, 0][:3])


def load(reference: str) -> Any:
    """Import and return the object that "package.module:name" refers to."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def spin_briefly() -> None:
    """Make torch's CPU threads sleep early when they wait for each other. Call it before torch is imported.

    By default a waiting thread spins for milliseconds before it sleeps. On a busy machine, it takes the core from the
    thread that it waits for. Call it only in strobe's own processes; child processes inherit the setting. The user's
    setting takes precedence.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = _SPINS


Member = TypeVar("Member")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Plugin:
    """A member that an installed package adds: its name, its "module:object" and its package with the version."""

    def __init__(self, group: str, name: str, reference: str, package: str) -> None:
        self.name, self.reference, self.package = name, reference, package
        self.where = f"{printable(package)}: entry point {printable(f'{name} = {reference}')} of {group}"

    def failed(self, why: str) -> StrobeError:
        """Return the error of a plugin that cannot be used, in one line that names its package and entry point."""
        return StrobeError(f"{self.where}: {why}; update or uninstall {printable(self.package.split()[0])}")

    @contextmanager
    def running(self, failure: str) -> Iterator[None]:
        """While open, code of the package runs. Its output goes to stderr, and any error or exit becomes one line.

        The line names the package, its entry point and the `failure`. Ctrl-C prints such a line and is raised again.
        """
        process, leave = os.getpid(), os._exit

        def refuse(status: int) -> NoReturn:
            if os.getpid() != process:  # a forked process ends as usual
                leave(status)
            raise SystemExit(f"os._exit({status})")

        try:
            os._exit = refuse
            with redirect_stdout(sys.stderr):
                yield
        except KeyboardInterrupt:
            sys.stderr.write(f"strobe: {self.where}: interrupted\n")
            raise
        except (Exception, SystemExit) as error:  # a package may raise any exception
            why = str(error) if isinstance(error, StrobeError | TypeError) else f"{type(error).__name__}: {error}"
            raise self.failed(f"{failure} ({printable(why, limit=160)})") from error
        finally:
            os._exit = leave


class Registry(Generic[Member]):
    """A list of members by name: those of the house, of strobe's annexes, and of installed packages.

    `list_name` is the list's name in the manifest of an annex (`strobe.core.annex`). `kind` is the class of every
    member, `what` is the noun for a member in messages. Unless it is `closed`, installed packages can add members, but
    they cannot use strobe's own names or the `reserved` names.

    >>> numbers = Registry("examples", int, "number", {"largest": "sys:maxsize"})
    >>> "largest" in numbers, list(numbers), numbers["largest"] > 0
    (True, ['largest'], True)
    """

    def __init__(
        self,
        list_name: str,
        kind: type[Member],
        what: str,
        house: Mapping[str, str | tuple[str, str]],
        *,
        closed: bool = False,
        reserved: tuple[str, ...] = (),
    ) -> None:
        self._list_name, self.group = list_name, None if closed else f"strobe.{list_name}"
        self._house = {name: Item(*((item,) if isinstance(item, str) else item)) for name, item in house.items()}
        self._kind, self._what, self._reserved = kind, what, reserved
        self._loaded: dict[str, Member | StrobeError] = {}
        self._reported: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.plugins

    def __iter__(self) -> Iterator[str]:
        """Iterate over all names: first strobe's own in their order, then the names from installed packages."""
        yield from self.own
        yield from self.plugins

    def __getitem__(self, name: str) -> Member:
        """Import and return a member. Raises a one-line StrobeError for an unknown name or a broken plugin."""
        if name in self.own:
            return self._checked(load(self.own[name]), self.own[name])
        plugin = self.plugins.get(name)
        if plugin is None:
            raise UnknownName(self._what, name, list(self), hint=f"known: {', '.join(self)}")
        if name not in self._loaded:
            try:
                with plugin.running("cannot be loaded"):
                    self._loaded[name] = self._added(self._checked(load(plugin.reference), plugin.reference), plugin)
            except StrobeError as error:
                self._loaded[name] = error
        found = self._loaded[name]
        if isinstance(found, StrobeError):
            raise found
        return found

    def _added(self, member: Member, plugin: Plugin) -> Member:  # noqa: ARG002 (for lists that limit their plugins)
        """Return a package's member as the list gives it out."""
        return member

    def own_members(self) -> dict[str, Member]:
        """Return strobe's own members by name. No package is imported."""
        return {name: self[name] for name in self.own}

    def working(self) -> dict[str, Member]:
        """Return every member that can be imported, by name, also those of installed packages.

        `problems` has a line for each member that cannot be imported.
        """
        members = self.own_members()
        for name in self.plugins:
            with suppress(StrobeError):
                members[name] = self[name]
        return members

    def line(self, name: str) -> str:
        """Return one line of help for a name, without an import: for a plugin, its package."""
        return self._items[name].help if name in self.own else f"added by {self.plugins[name].package}"

    def lines(self) -> dict[str, str]:
        """Return every usable name with one line of help.

        Strobe's own members that have such a line are not imported. Other members declare the line as `what`.
        """
        help_lines = {}
        for name in self:
            own = self._items.get(name)
            try:
                help_lines[name] = (own.help if own else "") or str(getattr(self[name], "what", ""))
            except StrobeError:
                if name in self.own:
                    raise
        return help_lines

    def problems(self) -> list[str]:
        """Return one line for each plugin that cannot be used; it names the package and the entry point."""
        lines = [str(error) for error in self._read[1]]
        for name in self.plugins:
            try:
                self[name]
            except StrobeError as error:
                lines.append(str(error))
        return lines

    @cached_property
    def own(self) -> dict[str, str]:
        """Where strobe's own members are, by name, in display order."""
        return {name: item.object for name, item in self._items.items()}

    @cached_property
    def _items(self) -> dict[str, Item]:
        """strobe's own members, of the house and of its annexes, in display order."""
        return members(self._list_name, self._house)

    def report(self, note: Callable[[str], None]) -> None:
        """Pass each line of `problems` to `note`, once in this process."""
        for line in self.problems():
            if line not in self._reported:
                self._reported.add(line)
                note(line)

    @property
    def plugins(self) -> dict[str, Plugin]:
        """The members of installed packages whose names are free, by name."""
        return self._read[0]

    @cached_property
    def _read(self) -> tuple[dict[str, Plugin], list[StrobeError]]:
        """Read the entry points once.

        Return the plugins with a free and valid name, and an error for each other plugin.
        """
        from importlib.metadata import distributions

        if self.group is None:
            return {}, []
        groups = (self.group, ENTRY_POINTS)
        points: dict[str, list[tuple[str, str, str]]] = {}
        refused = []
        for package in distributions():
            label = str(getattr(package, "_path", "an unnamed package")).rpartition(os.sep)[2]
            try:
                found = [
                    (entry_point.group, entry_point.name, entry_point.value)
                    for entry_point in package.entry_points
                    if entry_point.group in groups
                ]
                if found:  # of two installed copies of a package, Python imports the first
                    points.setdefault(f"{package.name or label} {package.version or ''}".strip(), found)
            except Exception as error:  # the metadata of any installed package may be damaged
                why = f"{type(error).__name__}: {printable(error, limit=120)}"
                refused.append(
                    StrobeError(f"{printable(label)}: its entry points cannot be read ({why}); reinstall it")
                )
        offered: list[Plugin] = []
        for package_name, group, name, value in sorted((label, *one) for label, some in points.items() for one in some):
            plugin = Plugin(group, name, value, package_name)
            try:
                offered += [plugin] if group == self.group else self._of_annex(plugin)
            except StrobeError as error:
                refused.append(error)
        plugins: dict[str, Plugin] = {}
        for plugin in sorted(offered, key=lambda one: (one.package, one.name)):
            name = plugin.name
            other = plugins.get(name)
            if _NAME.fullmatch(name) is None:
                refused.append(plugin.failed("expected a name of letters, digits, dots and dashes"))
            elif name in self.own or name in self._reserved or other is not None:
                taken = printable(other.package) if other else "strobe itself"
                refused.append(plugin.failed(f"the name {name} is taken by {taken}"))
            else:
                plugins[name] = plugin
        return plugins, refused

    def _of_annex(self, point: Plugin) -> list[Plugin]:
        """Return the members of this list that the annex of an installed package adds."""
        with point.running("its annex cannot be loaded"):
            annex = load(point.reference)
            if not isinstance(annex, Annex):
                raise TypeError(f"{point.reference} is a {type(annex).__name__}, expected a strobe.core.annex.Annex")
            items = annex.adds.get(self._list_name, {})
            return [Plugin(ENTRY_POINTS, name, item.object, point.package) for name, item in items.items()]

    def _checked(self, member: object, reference: str) -> Member:
        if not isinstance(member, self._kind):
            kind = f"{self._kind.__module__}.{self._kind.__qualname__}"
            raise TypeError(f"{reference} is a {type(member).__name__}, expected a {kind}")
        return member
