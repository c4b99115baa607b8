"""Tasks as the page shows them: pictures by opaque name, label names, and nothing that tells a control pair apart."""

from typing import Any

from strobe.core.dataset import Dataset
from strobe.core.protocol import latest_votes, majority_labels, relabelled
from strobe.core.records import Verdict
from strobe.review.pictures import Pictures
from strobe.review.plan import Task
from strobe.review.queue import Claimed
from strobe.review.store import Store

__all__ = ["Deck"]


class Deck:
    """Makes the cards of a dataset's tasks."""

    def __init__(self, dataset: Dataset, store: Store, pictures: Pictures) -> None:
        self._dataset, self._store, self._pictures = dataset, store, pictures
        ids = dataset.frame_ids()
        self._row = {frame: row for row, frame in enumerate(ids)}
        self._anchor = {
            str(name): ids[int(frame)]
            for name, frame in zip(dataset.sets.set_id, dataset.sets.anchor_frame, strict=True)
        }
        labels: dict[int, list[int]] = {}
        for row, label in zip(dataset.labels.frame.tolist(), dataset.labels.label.tolist(), strict=True):
            labels.setdefault(row, []).append(label)
        self._labels = {row: frozenset(found) for row, found in labels.items()}
        self._sets: dict[int, list[str]] = {}
        for number, row in zip(dataset.sets.set.tolist(), dataset.sets.frame.tolist(), strict=True):
            self._sets.setdefault(row, []).append(str(dataset.sets.set_id[number]))

    def card(self, claimed: Claimed, annotator: str | None) -> dict[str, Any]:
        """A task for one annotator, or for a group (None)."""
        task = claimed.task
        anchor = self._anchor[task.set_id]
        labels = self._labels_now(self._row[anchor])
        card: dict[str, Any] = {
            "task": task.task_id,
            "stage": claimed.stage,
            "anchor": self._pictures.name(anchor),
            "neighbour": None if task.kind == "anchor" else self._pictures.name(task.frame_id),
            "labels": self._named(labels),
            "neighbour_labels": self._named(labels),
            "votes": [],
        }
        if self._dataset.info.label_source == "frame" and task.kind == "pair":
            # Own labels are verified where members are scored by their own; a control shows its anchor's, as ever.
            card["neighbour_labels"] = self._named(self._labels_now(self._row[task.frame_id]))
        if claimed.stage == "verify" and self._store.settings.show_votes:
            votes = latest_votes(self._store.votes_on(task)).get((task.set_id, task.frame_id), {})
            card["votes"] = [
                {
                    "name": vote.annotator,
                    "decision": vote.decision,
                    "reason": vote.reason,
                    "label_right": vote.label_right,
                    "bad_anchor": vote.bad_anchor,
                    "note": vote.note,
                }
                for name, vote in sorted(votes.items())
                if name != annotator
            ]
        return card

    def past(self, seq: int, verdict: Verdict, task: Task) -> dict[str, Any]:
        """A decision already made, for undo: its card and what was said."""
        stage = verdict.stage if verdict.stage != "joint" else "verify"
        return {
            "seq": seq,
            "card": self.card(Claimed(task=task, stage=stage), verdict.annotator),
            "decision": {
                "decision": verdict.decision,
                "label_right": verdict.label_right,
                "reason": verdict.reason,
                "bad_anchor": verdict.bad_anchor,
                "labels": list(verdict.labels),
                "note": verdict.note,
            },
        }

    def _labels_now(self, row: int) -> list[int]:
        """A frame's labels as an export would leave them now: with what the votes on its sets' anchors add or remove.

        The vote on a label is about the label that is kept, so both follow the same rule (`core.protocol`).
        """
        labels = self._labels.get(row, frozenset())
        sets = self._sets.get(row, [])
        of_anchor = latest_votes(self._store.votes_on_anchors(sets), anchors=True)
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
