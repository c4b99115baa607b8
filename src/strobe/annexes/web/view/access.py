"""Who may look: one owner, and invited guests who may only read.

Keys and cookies are derived from the server's secret, so nothing is stored, and a link stays valid after a restart.
"""

import base64
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from strobe.core.files import json_of

ViewRole = Literal["owner", "guest"]

COOKIE_S = 30 * 24 * 3600
"""The longest duration of a session in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPerson:
    """A person who opened the viewer."""

    name: str
    role: ViewRole


class ViewKeys:
    """The keys and sessions of one viewer. `scope` identifies what it shows; other places have other keys."""

    def __init__(
        self, people: Mapping[str, ViewRole], *, secret: bytes, scope: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._people = {name: ViewPerson(name=name, role=role) for name, role in people.items()}
        self._secret, self._clock = hmac.digest(secret, b"view\n" + scope.encode(), "sha256"), clock

    def key_of(self, name: str) -> str:
        """Return the personal key of someone who is invited."""
        person = self._people[name]
        return self._mac("key", person.name, person.role)[:32]

    def person_of_key(self, key: str) -> ViewPerson | None:
        """Return the person of this key."""
        found = None
        for person in self._people.values():  # every key is compared, so that the time reveals nothing
            if hmac.compare_digest(self.key_of(person.name).encode(), key.encode()):
                found = person
        return found

    def seal(self, person: ViewPerson) -> str:
        """Return the cookie of a new session."""
        content = json.dumps([person.name, person.role, int(self._clock())]).encode()
        text = base64.urlsafe_b64encode(content).decode()
        return f"{text}.{self._mac('cookie', text)}"

    def person_of_cookie(self, cookie: str) -> ViewPerson | None:
        """Return the person of this session, if it has not expired and the person is still invited."""
        text, _, seal = cookie.partition(".")
        if not hmac.compare_digest(self._mac("cookie", text).encode(), seal.encode()):
            return None
        name, role, begun = json_of(base64.urlsafe_b64decode(text))
        person = self._people.get(name)
        if person is None or person.role != role or not 0 <= self._clock() - begun <= COOKIE_S:
            return None
        return person

    def _mac(self, *parts: str) -> str:
        found = hmac.digest(self._secret, json.dumps(parts).encode(), "sha256")
        return base64.urlsafe_b64encode(found).decode().rstrip("=")
