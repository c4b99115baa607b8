"""People for the simulator. Each has a browser page like `review/page`: tabs, cards, and a persistent outbox."""

import random
from dataclasses import dataclass, field
from typing import Any

from fuzz.sim_server import ADMIN_KEY, Broken, Machine, Reply

__all__ = ["Crowd", "Person"]

_DROPS = ("request", "reply", "middle")


@dataclass(slots=True)
class Person:
    """A person and their browser: cards without a decision, and answers that the server has not confirmed."""

    name: str
    role: str = "annotator"
    key: str = ""
    cookie: str = ""
    tab: str = "tab-00000000"
    cards: list[dict[str, Any]] = field(default_factory=list)
    outbox: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    paused: bool = False


@dataclass(slots=True)
class Crowd:
    """All people, with the tasks they were given, the answers they sent, and the answers that were confirmed."""

    machine: Machine
    rng: random.Random
    trace: list[str]
    people: dict[str, Person] = field(default_factory=dict)
    given: set[tuple[str, str, int]] = field(default_factory=set)
    """(name, task, round) of every task that a server gave out, even if the reply was lost."""
    unsure: set[str] = field(default_factory=set)
    """People who may have more tasks than recorded, because one of their requests was interrupted."""
    sent: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """For each answer id: the sender, the task, and the unique note in the answer."""
    confirmed: set[str] = field(default_factory=set)
    """The ids of answers that a server has confirmed to their senders."""
    faults: bool = True
    n: int = 0

    # -- requests ----------------------------------------------------------------------------------------------------

    async def ask(self, person: Person, method: str, path: str, body: Any = None) -> Reply | None:
        """Send a request to any running server over an unreliable connection. Returns None if no reply arrives."""
        living = [server for server in self.machine.servers if server is not None]
        if not living:
            return None
        server = self.rng.choice(living)
        drop = self.rng.choice(_DROPS) if self.faults and self.rng.random() < 0.1 else ""
        if drop == "request":
            self._note(person, path, "request lost")
            return None
        cut = self.rng.randrange(1, 40) if drop == "middle" else None
        before = self._held(person, server.now()) if path == "/api/claim" else set()
        reply = await self.machine.request(server, method, path, body, cookie=person.cookie, cut=cut)
        if reply is None:
            self.unsure.add(person.name)
            self._note(person, path, "server died" if server.dead else "cut")
            return None
        self._learn(person, path, body, reply, server.now(), before)
        self._note(person, path, f"{reply.status}{', lost' if drop else ''}")
        return None if drop else reply

    def _note(self, person: Person, path: str, what: str) -> None:
        self.trace.append(f"{self.machine.now:.0f} {person.name} {path}: {what}")

    def _learn(self, person: Person, path: str, body: Any, reply: Reply, now: float, before: set[str]) -> None:
        """Record the tasks in a reply, even if the reply is lost, and check that the person may see them."""
        others = [f"{name}/" for name in self.people if name != person.name]
        if person.role == "annotator" and not self.machine.settings.show_votes:
            for other in others:
                if other in str(reply.body):
                    raise Broken(f"{person.name} sees an answer of {other}: {path}")
        if path == "/api/claim" and reply.status == 200:
            if person.role == "observer" or (reply.body["paused"] and reply.body["tasks"]):
                raise Broken(f"{person.name} ({person.role}) gets tasks")
            tasks = parts(reply.body["tasks"])
            self.given |= {(person.name, task, number) for task, number in tasks}
            self._expect_free(person, {task for task, number in tasks if number == 1} - before, now)
        if path == "/api/joint/claim" and reply.status == 200:
            for who in body["members"]:
                self.given |= {(who, task, 2) for task, _ in parts(reply.body["tasks"])}

    def _held(self, person: Person, now: float) -> set[str]:
        own = "SELECT task_id FROM leases WHERE annotator = ? AND expires > ?"
        return {row[0] for row in self._rows(own, person.name, now)}

    def _expect_free(self, person: Person, tasks: set[str], now: float) -> None:
        """Check that a person's new tasks are open, and that fewer other people than required hold or answered them."""
        for task in tasks:
            ((kind, votes, others),) = self._rows(
                "SELECT kind, votes, (SELECT count(*) FROM leases l WHERE l.task_id = t.task_id AND l.annotator <> ? "
                "AND l.expires > ?) FROM tasks t WHERE task_id = ?", person.name, now, task,
            )  # fmt: skip
            wanted = {"pair": self.machine.settings.votes, "picture": self.machine.settings.votes, "anchor": 1}
            if kind in wanted and votes + others >= wanted[kind]:
                raise Broken(f"{person.name} gets {task}, which {votes} people answered and {others} people hold")
        if len(self._held(person, now)) > 24 * (1 if self.machine.settings.at_once == "pair" else 40) + 12:
            raise Broken(f"{person.name} holds more than one person may")

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        server = next(server for server in self.machine.servers if server is not None)
        with server.store.database.read() as connection:
            return list(connection.exec_driver_sql(statement, values).all())

    # -- actions -----------------------------------------------------------------------------------------------------

    async def invite(self, boss: Person, name: str, role: str) -> None:
        """Invite a person. The reply contains their key in a link."""
        reply = await self.ask(boss, "POST", "/api/admin/invite", {"name": name, "role": role})
        if reply is None or reply.status != 200:
            raise Broken(f"{name} cannot be invited: {reply}")
        self.people[name] = Person(name, role, key=reply.body["link"].partition("#key=")[2])
        await self.login(self.people[name])

    async def login(self, person: Person) -> None:
        """Log in with the personal key."""
        key = person.key or ADMIN_KEY
        reply = await self.ask(person, "POST", "/api/login", {"key": key})
        if reply is not None and reply.status == 200:
            person.cookie = reply.cookie
        elif reply is not None and reply.status not in (503,):
            raise Broken(f"{person.name} cannot log in: {reply.status} {reply.body}")

    async def claim(self, person: Person) -> None:
        """Request cards. Cards already on the page stay."""
        want = self.rng.choice((1, 3, 6, 12))
        reply = await self.ask(person, "POST", "/api/claim", {"tab": person.tab, "want": want})
        if reply is None:
            return None
        if reply.status == 401:
            return await self.login(person)
        if person.role == "observer":
            if reply.status not in (403, 503):
                raise Broken(f"an observer claims: {reply.status}")
            return None
        if reply.status == 200:
            have = {part for card in person.cards for part in parts([card])}
            waiting = {body["task"] for _, sent in person.outbox for body in sent.get("votes", [sent])}
            for card in reply.body["tasks"]:
                if not any(part in have or part[0] in waiting for part in parts([card])):
                    person.cards.append(card)
        elif reply.status != 503:
            raise Broken(f"{person.name} claims: {reply.status} {reply.body}")
        return None

    def decide(self, person: Person) -> None:
        """Decide the first card and put the answer into the outbox."""
        if person.cards:
            self.put(person, person.cards.pop(0))

    def put(self, person: Person, card: dict[str, Any]) -> None:
        """Put a decision on a card, or on every pair of a set, into the outbox."""
        members = card.get("members")
        if members:
            votes = [self.body(person.name, one) for one in members]
            person.outbox.append(("/api/decisions/set", {"who": person.name, "votes": votes}))
        else:
            person.outbox.append(("/api/decisions", {"who": person.name, **self.body(person.name, card)}))

    def body(self, name: str, card: dict[str, Any]) -> dict[str, Any]:
        """Return a random answer to a card, in the form that the page sends."""
        self.n += 1
        answer_id = f"{name}-{self.n:08}"
        common = {"task": card["task"], "stage": card["stage"], "seconds": 1.0, "note": f"{name}/{self.n}"}
        self.sent[answer_id] = (name, card["task"], common["note"])
        if self.machine.ask == "name":
            choice = self.rng.choice(("class", "class", "none", "unsure"))
            return {**common, "answer_id": answer_id, "said": choice, "label": "fish" if choice == "class" else ""}
        if self.machine.ask == "box":
            keep = self.rng.random() < 0.7
            left = self.rng.randrange(16)
            kept: dict[str, Any] = {"decision": "keep", "xyxy": [left, 2, left + 14, 30]}
            word = kept if keep else {"decision": "discard", "reason": "absent"}
            return {**common, "answer_id": answer_id, "label": card["labels"][0]["id"], **word}
        decision = self.rng.choice(("similar", "similar", "dissimilar", "unsure"))
        more: dict[str, Any] = {"label_right": self.rng.random() < 0.8}
        if card["stage"] == "anchor":
            more = {"labels": [self.rng.choice(("fish", "bird"))]}
        elif self.rng.random() < 0.05:
            more["bad_anchor"] = True
        return {**common, "verdict_id": answer_id, "decision": decision, **more}

    async def flush(self, person: Person) -> None:
        """Send the waiting answers in order, until one fails."""
        while person.outbox:
            path, body = person.outbox[0]
            reply = await self.ask(person, "POST", path, body)
            if reply is None or reply.status == 503:
                return None
            if reply.status == 401:
                return await self.login(person)
            if reply.status != 200:
                raise Broken(
                    f"{person.name} was given this task, but the answer is refused: {reply.status} {reply.body} {body}"
                )
            saved = reply.body["saved"]
            self.confirmed |= set(saved if isinstance(saved, list) else [saved])
            person.outbox.pop(0)
        return None

    async def change(self, person: Person) -> None:
        """Go back through the decisions, and change one of them."""
        reply = await self.ask(person, "GET", "/api/history")
        if reply is None or reply.status != 200:
            return
        steps = reply.body["decisions"]
        for step in steps:
            for task, number in parts([step["card"]]):
                answered = any(who == person.name and of == task for who, of, _ in self.sent.values())
                if (person.name, task, number) not in self.given or not answered:
                    raise Broken(f"{person.name} sees another person's decision on {task}")
        if steps:
            self.put(person, self.rng.choice(steps)["card"])

    async def leave(self, person: Person) -> None:
        """Close the tab, which releases its tasks. Waiting answers stay in the browser."""
        await self.ask(person, "POST", "/api/release", {"tab": person.tab})
        person.cards = []
        person.tab = f"tab-{self.rng.randrange(10**8):08}"

    async def intrude(self, person: Person) -> None:
        """Answer a task that, in its round, only other people were given. The server must refuse the answer."""
        own = {(task, number) for who, task, number in self.given if who == person.name}
        others = sorted({(task, number) for who, task, number in self.given if who != person.name} - own)
        if not others or person.name in self.unsure:
            return
        task, number = self.rng.choice(others)
        card = next(
            (card for other in self.people.values() for card in flat(other.cards) if card["task"] == task), None
        )
        if card is None or (card["stage"] == "verify") != (number == 2):
            return
        body = self.body(person.name, card)
        made = body.get("verdict_id") or body["answer_id"]
        del self.sent[made]
        reply = await self.ask(person, "POST", "/api/decisions", body)
        if reply is not None and reply.status == 200:
            raise Broken(f"the server accepted {person.name}'s answer to {task}, which only others were given")

    async def together(self, boss: Person) -> None:
        """Decide a doubtful pair as a group. Each member's vote has the member's own name."""
        members = sorted(name for name, one in self.people.items() if one.role == "annotator" and one.key)[:2]
        reply = await self.ask(boss, "POST", "/api/joint/claim", {"members": members, "want": 1})
        if reply is None or reply.status != 200 or not reply.body["tasks"]:
            return
        card = reply.body["tasks"][0]
        votes = [{**self.body(name, card), "member": name} for name in members]
        boss.outbox.append(("/api/joint/decisions", {"votes": votes}))

    async def pause(self, boss: Person) -> None:
        """Pause or resume a person."""
        person = self.rng.choice([one for one in self.people.values() if one.role == "annotator" and one.key])
        action = "resume" if person.paused else "pause"
        reply = await self.ask(boss, "POST", "/api/admin/pause", {"name": person.name, "action": action})
        if reply is not None and reply.status == 200:
            person.paused = not person.paused


def flat(cards: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return cards of single tasks, with a set split into its pairs."""
    return [one for card in cards for one in card.get("members", [card])]


def parts(cards: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return the task and round of each card."""
    return [(one["task"], 2 if one["stage"] == "verify" else 1) for one in flat(cards)]
