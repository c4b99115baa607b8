"""Who takes part: names, roles, personal keys and sessions. Only hashes of secrets are kept."""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import RowMapping

from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.review.database import execute
from strobe.review.moments import timestamp
from strobe.review.names import Spellings, checked_name
from strobe.review.store import Store

__all__ = ["People", "Person", "Role"]

Role = Literal["annotator", "observer", "admin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Someone who takes part."""

    name: str
    role: Role
    paused: bool = False


def _person(row: RowMapping) -> Person:
    return Person(name=row["name"], role=row["role"], paused=bool(row["paused"]))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class People:
    """The people of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._database = store.database
        self._sessions: dict[str, Person] = {}

    def all(self) -> list[Person]:
        """Everyone, by name."""
        with self._database.read() as connection:
            rows = execute(connection, "SELECT name, role, paused FROM annotators").mappings().all()
        return sorted(map(_person, rows), key=lambda person: person.name)

    def find(self, name: str) -> Person | None:
        """A person by name."""
        return next((person for person in self.all() if person.name == name), None)

    def known_name(self, name: str) -> str:
        """The name as it is in use here, by people or on votes (see `Spellings`), or as it is where it is new."""
        name = checked_name(name)
        return name if self.find(name) is not None else Spellings(self._store.names()).known(name)

    def add(self, name: str, role: Role = "annotator") -> Person:
        """The person of that name in whatever spelling, added where new; a known name keeps its role."""
        name = self.known_name(name)
        known = self.find(name)
        if known is not None:
            return known
        with self._database.write() as connection:
            execute(
                connection,
                "INSERT INTO annotators (name, role, created_at) VALUES (:name, :role, :at) "
                "ON CONFLICT (name) DO NOTHING",
                {"name": name, "role": role, "at": timestamp(self._store.clock())},
            )
        found = self.find(name)
        if found is None:  # pragma: no cover (the row was just written)
            raise StrobeError(f"{name} could not be added")
        return found

    def invite(self, name: str, role: Role) -> Person:
        """The person of that name and role, added where new; InvalidValue where the name is someone else's."""
        person = self.add(Spellings(self._store.names()).checked(name), role)
        if person.role != role:
            raise InvalidValue(
                f"{person.name} is already here as {person.role} and cannot be {role} too; choose another name"
            )
        return person

    def pause(self, name: str, *, paused: bool) -> None:
        """Stop giving someone new pairs, or go on; decisions already made are still taken."""
        with self._database.write() as connection:
            done = execute(
                connection,
                "UPDATE annotators SET paused = :paused WHERE name = :name",
                {"paused": int(paused), "name": name},
            ).rowcount
            if paused:
                execute(connection, "DELETE FROM leases WHERE annotator = :name", {"name": name})
        if not done:
            raise InvalidValue(f"nobody is called {printable(name)!r}")
        self._sessions.clear()

    def new_key(self, name: str) -> str:
        """A personal key for someone; earlier ones stay good. Shown once: only its hash is kept."""
        key = secrets.token_urlsafe(24)
        with self._database.write() as connection:
            execute(
                connection,
                "INSERT INTO access_keys (hash, name, created_at) VALUES (:hash, :name, :at)",
                {"hash": _hash(key), "name": name, "at": timestamp(self._store.clock())},
            )
        return key

    def revoke(self, name: str) -> None:
        """Make every key and session of someone worthless."""
        with self._database.write() as connection:
            execute(connection, "DELETE FROM access_keys WHERE name = :name", {"name": name})
            execute(connection, "DELETE FROM sessions WHERE name = :name", {"name": name})
        self._sessions.clear()

    def by_key(self, key: str) -> Person | None:
        """Whose key this is."""
        with self._database.read() as connection:
            name = execute(connection, "SELECT name FROM access_keys WHERE hash = :hash", {"hash": _hash(key)}).scalar()
        return None if name is None else self.find(name)

    def open_session(self, person: Person, *, role: Role | None = None) -> str:
        """A new session; the secret for the cookie comes back."""
        secret = secrets.token_urlsafe(32)
        with self._database.write(durable=False) as connection:
            execute(
                connection,
                "INSERT INTO sessions (hash, name, role, created_at) VALUES (:hash, :name, :role, :at)",
                {
                    "hash": _hash(secret),
                    "name": person.name,
                    "role": role or person.role,
                    "at": timestamp(self._store.clock()),
                },
            )
        return secret

    def remembered(self, secret: str) -> Person | None:
        """Whose session this is, if it was asked before."""
        return self._sessions.get(_hash(secret))

    def by_session(self, secret: str) -> Person | None:
        """Whose session this is. Remembered, because every request asks."""
        key = _hash(secret)
        if key not in self._sessions:
            with self._database.read() as connection:
                found = execute(
                    connection,
                    "SELECT s.name, s.role, a.paused FROM sessions s JOIN annotators a ON a.name = s.name "
                    "WHERE s.hash = :hash",
                    {"hash": key},
                )
                row = found.mappings().first()
            if row is None:
                return None
            if len(self._sessions) > 10_000:
                self._sessions.clear()
            self._sessions[key] = _person(row)
        return self._sessions[key]

    def close_session(self, secret: str) -> None:
        """End a session."""
        with self._database.write() as connection:
            execute(connection, "DELETE FROM sessions WHERE hash = :hash", {"hash": _hash(secret)})
        self._sessions.pop(_hash(secret), None)
