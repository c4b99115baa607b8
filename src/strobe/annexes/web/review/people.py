"""The people of a review: names and roles."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from strobe.annexes.web.review.database import execute
from strobe.annexes.web.review.store import Store
from strobe.core.annotators import Spellings, checked_name
from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.core.moments import timestamp

Role = Literal["annotator", "observer", "admin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person in the review."""

    name: str
    role: Role
    paused: bool = False


def _person(row: Mapping[str, Any]) -> Person:
    return Person(name=row["name"], role=row["role"], paused=bool(row["paused"]))


class People:
    """The people of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._database = store.database

    def all(self) -> list[Person]:
        """Return everyone, by name."""
        with self._database.read() as connection:
            rows = list(execute(connection, "SELECT name, role, paused FROM annotators"))
        return sorted(map(_person, rows), key=lambda person: person.name)

    def find(self, name: str) -> Person | None:
        """Return a person by name."""
        with self._database.read() as connection:
            rows = execute(connection, "SELECT * FROM annotators WHERE name = :name", {"name": name})
            row = rows.first()
        return None if row is None else _person(row)

    def known_name(self, name: str) -> str:
        """Return the name in the spelling that is in use (see `Spellings`), or unchanged if it is new."""
        return Spellings(self.store.names()).known(checked_name(name))

    def add(self, name: str, role: Role = "annotator") -> Person:
        """Return the person of that name in any spelling. A new person is added. A known name keeps its role."""
        known = self.find(checked_name(name))
        if known is not None:
            return known
        name = self.known_name(name)
        with self._database.write() as connection:
            added = execute(
                connection,
                "INSERT INTO annotators (name, role, created_at) VALUES (:name, :role, :at) "
                "ON CONFLICT (name) DO NOTHING",
                {"name": name, "role": role, "at": timestamp(self.store.clock())},
            ).n_changed
        if added:
            return Person(name=name, role=role)
        found = self.find(name)
        if found is None:  # pragma: no cover (the row was there)
            raise StrobeError(f"{name} could not be added")
        return found

    def invite(self, name: str, role: Role) -> Person:
        """Return the person of that name and role. A new person is added.

        Raise InvalidValue if the name belongs to someone else.
        """
        person = self.add(Spellings(self.store.names()).checked(name), role)
        if person.role != role:
            raise InvalidValue(
                f"{person.name} already takes part as {person.role} and cannot be {role} too; choose another name"
            )
        return person

    def pause(self, name: str, *, paused: bool) -> None:
        """Stop or resume giving someone new tasks. Decisions already made are still accepted."""
        with self._database.write() as connection:
            done = execute(
                connection,
                "UPDATE annotators SET paused = :paused WHERE name = :name",
                {"paused": int(paused), "name": name},
            ).n_changed
            if paused:
                execute(connection, "DELETE FROM leases WHERE annotator = :name", {"name": name})
        if not done:
            raise InvalidValue(f"no person is called {printable(name)!r}")
