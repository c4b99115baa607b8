"""Make the page's cards of pairs, and turn the page's input into votes. Cards do not reveal controls."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strobe.annexes.web.review.hints import hints_of
from strobe.annexes.web.review.pictures import FrameImages
from strobe.annexes.web.review.places import TableLookup
from strobe.annexes.web.review.plan import Claimed, ReviewTask, task_name
from strobe.annexes.web.review.question import Deck
from strobe.annexes.web.review.requests import Decision, JointVote
from strobe.annexes.web.review.store import Store
from strobe.core.annotators import checked_note
from strobe.core.dataset import Dataset
from strobe.core.derivation import latest_votes, majority_labels, relabelled
from strobe.core.errors import InvalidValue
from strobe.core.records import Verdict


class PairDeck(Deck):
    """Makes cards from a dataset's pairs or sets, and votes from the page's input."""

    def __init__(self, dataset: Dataset, store: Store, places: TableLookup, pictures: FrameImages) -> None:
        self._dataset, self._store, self._places, self._pictures = dataset, store, places, pictures
        self._secret = store.secret()

    def told(self) -> dict[str, Any]:
        """Return the classes for the label stage, what one page shows, and the practice pairs."""
        space, settings = self._dataset.info.label_space, self._store.settings
        classes = [{"id": i, "name": n} for i, n in zip(space.ids, space.names, strict=True)]
        return {
            "classes": classes,
            "labels_stage": settings.labels,
            "at_once": settings.at_once,
            "hints": settings.hints if self._dataset.hints is not None else "never",
            "examples": [self._example(place) for place in range(len(settings.examples))],
        }

    def _example(self, place: int) -> dict[str, Any]:
        """Return a practice pair with its answer. Nothing about it is stored."""
        one = self._store.settings.examples[place]
        anchor = self._places.anchor(one.set_id)
        labels = self._named(self._labels_now([anchor])[anchor])
        return {
            "task": f"example-{place}",
            "stage": "practice",
            "anchor": self._pictures.name(anchor),
            "neighbour": self._pictures.name(self._places.frame(one.frame_id)),
            "labels": labels,
            "neighbour_labels": labels,
            "votes": [],
            "hints": [],
            "right": {name: getattr(one, name) for name in ("decision", "reason", "note")},
        }

    def card(self, claimed: Claimed, annotator: str | None) -> dict[str, Any]:
        """Return a task for one annotator, or for a group (None)."""
        return self._card(claimed, annotator, self._labels_on([claimed]))

    def _labels_on(self, claimed: Iterable[Claimed]) -> dict[int, list[int]]:
        """Return the current labels of every labelled frame on these cards, read from the store in one query."""
        tasks = [one.task for one in claimed]
        anchors = {self._places.anchor(task.set_id) for task in tasks}
        return self._labels_now(anchors | {self._places.frame(task.frame_id) for task in tasks if self._by_own(task)})

    def _by_own(self, task: ReviewTask) -> bool:
        # Members that are scored with their own labels show them. A control shows its anchor's labels as usual.
        return self._dataset.info.label_source == "frame" and task.kind == "pair"

    def _card(self, claimed: Claimed, annotator: str | None, labels_of: Mapping[int, list[int]]) -> dict[str, Any]:
        task = claimed.task
        anchor = self._places.anchor(task.set_id)
        labels = labels_of[anchor]
        card: dict[str, Any] = {
            "task": task.task_id,
            "stage": claimed.stage,
            "anchor": self._pictures.name(anchor),
            # The address contains the task's name. A frame's name would reveal a control, because its anchor is on
            # other cards.
            "neighbour": None if task.kind == "anchor" else task.task_id,
            "labels": self._named(labels),
            "neighbour_labels": self._named(labels),
            "votes": [],
            "hints": self._hints(task),
        }
        if self._by_own(task):
            card["neighbour_labels"] = self._named(labels_of[self._places.frame(task.frame_id)])
        if claimed.stage == "verify" and self._store.settings.show_votes:
            cast = self._store.answers_on("task_id = :task", {"task": task.task_id})
            votes = latest_votes(cast).get((task.set_id, task.frame_id), {})
            card["votes"] = [{"name": name, **_said(vote)} for name, vote in sorted(votes.items()) if name != annotator]
        return card

    def cards(self, claimed: Sequence[Claimed], annotator: str | None) -> list[dict[str, Any]]:
        """Return a card for each task, or a card for each set with its pairs ordered by distance."""
        labels_of = self._labels_on(claimed)
        if self._store.settings.at_once == "pair":
            return [self._card(one, annotator, labels_of) for one in claimed]
        out: list[dict[str, Any]] = []
        seen: set[str] = set()
        for one in claimed:
            if one.stage != "pair":
                out.append(self._card(one, annotator, labels_of))
            elif one.task.set_id not in seen:
                seen.add(one.task.set_id)
                of_set = [other for other in claimed if other.stage == "pair" and other.task.set_id == one.task.set_id]
                out.append(self._set_card(of_set, annotator, labels_of))
        return out

    def _set_card(
        self, of_set: Sequence[Claimed], annotator: str | None, labels_of: Mapping[int, list[int]]
    ) -> dict[str, Any]:
        """Return the card of one set, with all its pairs.

        A control has no distance, so its opaque name decides its position.
        """
        set_id = of_set[0].task.set_id
        found = [(one, self._places.member(set_id, one.task.frame_id)) for one in of_set]
        at = [(float(self._dataset.sets.distance[row]), one) for one, row in found if row is not None]
        real = [one for _, one in sorted(at, key=lambda placed: placed[0])]
        for control in (one for one, row in found if row is None):
            real.insert(int(control.task.task_id[:8], 16) % (len(real) + 1), control)
        members = [self._card(one, annotator, labels_of) for one in real]
        return {**members[0], "task": task_name(self._secret, "set", set_id), "neighbour": None, "members": members}

    def pasts(self, answers: Sequence[tuple[Verdict, ReviewTask]]) -> list[dict[str, Any]]:
        """Return earlier decisions. All votes of round one on a set count as one step."""
        if self._store.settings.at_once == "pair":
            return super().pasts(answers)
        out, seen = [], set()
        for answer, task in answers:
            if answer.stage != "pair":
                out.append(self.past(answer, task))
            elif task.set_id not in seen:
                seen.add(task.set_id)
                out.append(self._past_set(task.set_id, answer.annotator))
        return out

    def _past_set(self, set_id: str, annotator: str) -> dict[str, Any]:
        said = self._store.answers_on(_OF_SET, {"set": set_id, "who": annotator})
        last = {frame: votes[annotator] for (_, frame), votes in latest_votes(said).items()}
        found = [(vote, self._store.task_of(vote)) for vote in last.values() if vote.stage == "pair"]
        of_set = [Claimed(task=task, stage="pair") for _, task in found if task is not None]
        votes = {task.task_id: _said(vote) for vote, task in found if task is not None}
        card = self._set_card(of_set, annotator, self._labels_on(of_set))
        return {"card": card, "decision": {"votes": votes}}

    def past(self, answer: Verdict, task: ReviewTask) -> dict[str, Any]:
        """Return an earlier decision for undo: its card and the vote."""
        stage = answer.stage if answer.stage != "joint" else "verify"
        return {
            "card": self.card(Claimed(task=task, stage=stage), answer.annotator),
            "decision": {**_said(answer), "labels": list(answer.labels)},
        }

    def body(self, content: bytes) -> Decision:
        """Check one decision."""
        return Decision.model_validate_json(content)

    def answer(self, body: Decision, task: ReviewTask, annotator: str) -> Verdict:
        """Turn a checked decision into a vote. A vote in a joint decision has the stage `joint`."""
        if (task.kind == "anchor") != (body.stage == "anchor"):
            raise InvalidValue("stage: expected 'anchor' for an anchor, 'pair' or 'verify' for a pair")
        if body.reason and body.decision != "dissimilar":
            raise InvalidValue("reason: only a dissimilar pair has a reason")
        space = self._dataset.info.label_space
        return Verdict(
            annotator=annotator,
            at="",
            stage="joint" if isinstance(body, JointVote) else body.stage,
            set_id=task.set_id,
            frame_id=task.frame_id,
            labels=tuple(space.ids[space.index(label)] for label in body.labels),
            note=checked_note(body.note),
            **body.model_dump(exclude={"who", "task", "member", "stage", "labels", "note"}),
        )

    def _hints(self, task: ReviewTask) -> list[str]:
        """Return the hints of a pair. Controls and most pairs have none."""
        hints = self._dataset.hints
        if hints is None or self._store.settings.hints == "never":
            return []
        row = self._places.member(task.set_id, task.frame_id)
        return [] if row is None else hints_of(hints, row)

    def _labels_now(self, rows: Iterable[int]) -> dict[int, list[int]]:
        """Return the labels of these frames as an export would write them now. Votes on anchors can change them.

        People vote on the label that is exported, so cards and exports follow the same rule (`core.derivation`).
        """
        places = self._places
        sets = {row: places.sets_of(row) for row in rows}
        named = {name: places.frame_id(places.anchor(name)) for names in sets.values() for name in names}
        tasks = [task_name(self._secret, "anchor", *pair) for pair in named.items()]
        of_anchor = latest_votes(self._store.answers_on("task_id IN :tasks", {"tasks": tasks}), anchors=True)
        out = {}
        for row, names in sets.items():
            labels = places.labels(row)
            for set_id in names:
                chosen = majority_labels(self._dataset, of_anchor.get((set_id, named[set_id]), {}))
                if chosen:
                    labels = relabelled(labels, before=places.labels(places.anchor(set_id)), after=chosen)
            out[row] = sorted(labels)
        return out

    def _named(self, labels: list[int]) -> list[dict[str, str]]:
        space = self._dataset.info.label_space
        return [{"id": space.ids[label], "name": space.names[label]} for label in labels]


_OF_SET = """annotator = :who AND task_id IN
    (SELECT task_id FROM tasks WHERE question = 'pairs' AND kind <> 'anchor' AND set_id = :set)"""
"""All votes of one annotator on the pairs of a set."""


def _said(vote: Verdict) -> dict[str, Any]:
    return {name: getattr(vote, name) for name in ("decision", "reason", "label_right", "bad_anchor", "note")}
