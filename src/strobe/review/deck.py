"""Pairs as the page shows them, and what it says of them: nothing tells a control pair apart."""

from typing import Any

from strobe.core.dataset import Dataset
from strobe.core.derivation import latest_votes, majority_labels, relabelled
from strobe.core.errors import InvalidValue
from strobe.core.records import Verdict
from strobe.review.names import checked_note
from strobe.review.pictures import Pictures
from strobe.review.plan import Claimed, Task
from strobe.review.requests import Decision, JointVote
from strobe.review.store import Store

__all__ = ["PairDeck"]


class PairDeck:
    """Makes the cards of a dataset's pairs, and votes of what comes back."""

    def __init__(self, dataset: Dataset, store: Store, pictures: Pictures) -> None:
        self._dataset, self._store, self._pictures = dataset, store, pictures
        ids = dataset.frame_ids()
        self._row = {frame: row for row, frame in enumerate(ids)}
        self._anchor = {
            str(name): ids[int(frame)]
            for name, frame in zip(dataset.sets.set_id, dataset.sets.anchor_frame, strict=True)
        }
        self._labels = {row: frozenset(labels) for row, labels in dataset.labels.by_frame().items()}
        self._sets: dict[int, list[str]] = {}
        for number, row in zip(dataset.sets.set.tolist(), dataset.sets.frame.tolist(), strict=True):
            self._sets.setdefault(row, []).append(str(dataset.sets.set_id[number]))

    def told(self) -> dict[str, Any]:
        """The classes, for the label stage."""
        space = self._dataset.info.label_space
        classes = [{"id": i, "name": n} for i, n in zip(space.ids, space.names, strict=True)]
        return {"classes": classes, "labels_stage": self._store.settings.labels}

    def card(self, claimed: Claimed, annotator: str | None) -> dict[str, Any]:
        """A task for one annotator, or for a group (None)."""
        task = claimed.task
        anchor = self._anchor[task.set_id]
        labels = self._labels_now(self._row[anchor])
        card: dict[str, Any] = {
            "task": task.task_id,
            "stage": claimed.stage,
            "anchor": self._pictures.name(anchor),
            # By the task's name, not the frame's: that of a control is an anchor, known from other cards.
            "neighbour": None if task.kind == "anchor" else task.task_id,
            "labels": self._named(labels),
            "neighbour_labels": self._named(labels),
            "votes": [],
        }
        if self._dataset.info.label_source == "frame" and task.kind == "pair":
            # Own labels are verified where members are scored by their own; a control shows its anchor's, as ever.
            card["neighbour_labels"] = self._named(self._labels_now(self._row[task.frame_id]))
        if claimed.stage == "verify" and self._store.settings.show_votes:
            cast = self._store.answers_on("task_id = :task", {"task": task.task_id})
            votes = latest_votes(cast).get((task.set_id, task.frame_id), {})
            card["votes"] = [{"name": name, **_said(vote)} for name, vote in sorted(votes.items()) if name != annotator]
        return card

    def past(self, answer: Verdict, task: Task) -> dict[str, Any]:
        """A decision already made, for undo: its card and what was said."""
        stage = answer.stage if answer.stage != "joint" else "verify"
        return {
            "card": self.card(Claimed(task=task, stage=stage), answer.annotator),
            "decision": {**_said(answer), "labels": list(answer.labels)},
        }

    def body(self, content: bytes) -> Decision:
        """One decision."""
        return Decision.model_validate_json(content)

    def answer(self, body: Decision, task: Task, annotator: str) -> Verdict:
        """A checked decision as a vote; a member's in a decision made together is of the stage `joint`."""
        if (task.kind == "anchor") != (body.stage == "anchor"):
            raise InvalidValue("stage: expected anchor for an anchor and pair or verify for a pair")
        if body.reason and body.decision != "dissimilar":
            raise InvalidValue("reason: only a dissimilar pair has one")
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

    def _labels_now(self, row: int) -> list[int]:
        """A frame's labels as an export would leave them now: with what the votes on its sets' anchors add or remove.

        The vote on a label is about the label that is kept, so both follow the same rule (`core.derivation`).
        """
        labels = self._labels.get(row, frozenset())
        sets = self._sets.get(row, [])
        of_anchor = latest_votes(self._store.answers_on(_ON_ANCHORS, {"sets": sets}), anchors=True)
        for set_id in sets:
            anchor = self._anchor[set_id]
            chosen = majority_labels(self._dataset, of_anchor.get((set_id, anchor), {}))
            if chosen:
                before = self._labels.get(self._row[anchor], frozenset())
                labels = relabelled(labels, before=before, after=chosen)
        return sorted(labels)

    def _named(self, labels: list[int]) -> list[dict[str, str]]:
        space = self._dataset.info.label_space
        return [{"id": space.ids[label], "name": space.names[label]} for label in labels]


_ON_ANCHORS = "task_id IN (SELECT task_id FROM tasks WHERE question = 'pairs' AND kind = 'anchor' AND set_id IN :sets)"
"""The votes of the label stage on these sets' anchors."""


def _said(vote: Verdict) -> dict[str, Any]:
    return {name: getattr(vote, name) for name in ("decision", "reason", "label_right", "bad_anchor", "note")}
