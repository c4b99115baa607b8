"""Sessions and personal keys, which decide who may log in, how, and for how long.

Only hashes are stored, made with the secret of this server, so that a database from elsewhere gives no access.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import Connection

from strobe.annexes.web.review.database import execute, meta
from strobe.annexes.web.review.people import People, Person
from strobe.core.moments import timestamp

Mode = Literal["open", "token", "invite"]
"""The people who may log in: anyone by name, people with the token, or invited people."""

_MODES: tuple[Mode, ...] = ("open", "token", "invite")

IDLE, ABSOLUTE = timedelta(days=7), timedelta(days=30)
"""The time without a request after which a session ends, and the longest duration of a session."""

_TOUCH = timedelta(hours=1)
"""The precision of a session's recorded last use. With a coarse value, few requests cause a write."""


class Sessions:
    """The sessions and keys of one store, for one server.

    They are bound to the server's secret, the store's candidates and the log-in mode. A stricter mode does not accept
    sessions from a laxer mode.
    """

    def __init__(self, people: People, *, secret: bytes, mode: Mode) -> None:
        self._mode: Mode = mode
        self._database, self._clock = people.store.database, people.store.clock
        with self._database.read() as connection:
            self._secret = hmac.digest(secret, (meta(connection, "candidates") or "").encode(), "sha256")

    def new_key(self, person: Person) -> str:
        """Return a new personal key for someone. Earlier keys stay valid. Only its hash is stored."""
        key = secrets.token_urlsafe(24)
        with self._database.write() as connection:
            self._insert(connection, "access_keys", key, person, {})
        return key

    def by_key(self, key: str) -> Person | None:
        """Return the person of this key."""
        row = self._find("access_keys", key, role="a.role")
        return None if row is None else _person(row)

    def open(self, person: Person) -> str:
        """Open a session and return the secret for the cookie. Expired sessions are deleted."""
        secret = secrets.token_urlsafe(32)
        now = self._clock()
        with self._database.write(durable=False) as connection:
            ended = {"idle": self._ago(IDLE), "old": self._ago(ABSOLUTE)}
            execute(connection, "DELETE FROM sessions WHERE seen_at < :idle OR created_at < :old", ended)
            self._insert(connection, "sessions", secret, person, {"role": person.role, "seen_at": timestamp(now)})
        return secret

    def find(self, secret: str) -> tuple[Person | None, bool]:
        """Return the person of this session if it has not expired, and whether it is time to `touch` it.

        Each call reads the store, so that a session revoked by another server ends here at once.
        """
        row = self._find("sessions", secret, role="t.role")
        if row is None or row["seen_at"] < self._ago(IDLE) or row["created_at"] < self._ago(ABSOLUTE):
            return None, False
        return _person(row), row["seen_at"] < self._ago(_TOUCH)

    def touch(self, secret: str) -> None:
        """Record that a session is in use."""
        values = {"hashes": list(self._hashes(secret)), "now": timestamp(self._clock())}
        with self._database.write(durable=False) as connection:
            execute(connection, "UPDATE sessions SET seen_at = :now WHERE hash IN :hashes", values)

    def close(self, secret: str) -> None:
        """End a session."""
        with self._database.write() as connection:
            execute(connection, "DELETE FROM sessions WHERE hash IN :hashes", {"hashes": list(self._hashes(secret))})

    def revoke(self, name: str) -> None:
        """Invalidate every key and session of someone."""
        with self._database.write() as connection:
            execute(connection, "DELETE FROM access_keys WHERE name = :name", {"name": name})
            execute(connection, "DELETE FROM sessions WHERE name = :name", {"name": name})

    def _insert(self, connection: Connection, table: str, secret: str, person: Person, more: dict[str, Any]) -> None:
        at = timestamp(self._clock())
        row = {
            "hash": self._mac("find", self._mode, secret),
            "name": person.name,
            "created_at": at,
            "seal": self._mac("seal", self._mode, secret, person.name, person.role, at),
            **more,
        }
        columns = ", ".join(row)
        execute(connection, f"INSERT INTO {table} ({columns}) VALUES (:{', :'.join(row)})", row)

    def _find(self, table: str, secret: str, *, role: str) -> Mapping[str, Any] | None:
        """Return the row of a session or key and its person, if name, role and time match its seal.

        Anyone with the file can edit a row, but its seal requires the server's secret.
        """
        hashes = self._hashes(secret)
        names = {f"h{index}": one for index, one in enumerate(hashes)}
        joined = f"{table} t JOIN annotators a ON a.name = t.name"
        among = f"t.hash IN (:{', :'.join(names)})"
        row = self._database.row(f"SELECT t.*, {role} AS as_role, a.paused FROM {joined} WHERE {among}", names)
        if row is None:
            return None
        seal = self._mac("seal", hashes[row["hash"]], secret, row["name"], row["as_role"], row["created_at"])
        return row if hmac.compare_digest(seal, row["seal"]) else None

    def _hashes(self, secret: str) -> dict[str, Mode]:
        return {self._mac("find", mode, secret): mode for mode in _MODES[_MODES.index(self._mode) :]}

    def _mac(self, *parts: str) -> str:
        return hmac.new(self._secret, json.dumps(parts).encode(), hashlib.sha256).hexdigest()

    def _ago(self, span: timedelta) -> str:
        return timestamp(self._clock() - span.total_seconds())


def _person(row: Mapping[str, Any]) -> Person:
    return Person(name=row["name"], role=row["as_role"], paused=bool(row["paused"]))
