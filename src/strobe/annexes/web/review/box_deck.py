"""Make the page's cards for drawing boxes, and turn the page's input into answers."""

from collections.abc import Mapping
from typing import Any

from strobe.analyses.drawn import check_inside
from strobe.annexes.web.review.pictures import FrameImages
from strobe.annexes.web.review.places import TableLookup
from strobe.annexes.web.review.plan import Claimed, ReviewTask
from strobe.annexes.web.review.question import Deck
from strobe.annexes.web.review.requests import BoxDecision
from strobe.annexes.web.review.store import Store
from strobe.core.annotators import checked_note
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue
from strobe.core.people import DISCARDS, BoxAnswer, latest_answers


class BoxDeck(Deck):
    """Makes cards from a dataset's images, and answers from the page's input."""

    def __init__(
        self,
        dataset: Dataset,
        store: Store,
        places: TableLookup,
        pictures: FrameImages,
        suggestions: Mapping[str, tuple[int, int, int, int]],
    ) -> None:
        self._dataset, self._store, self._places, self._pictures = dataset, store, places, pictures
        self._suggestions = suggestions
        self._sizes: dict[int, tuple[int, int]] = {}

    def told(self) -> dict[str, Any]:
        """Return the reasons to discard an image, and whether a detector suggests boxes."""
        return {"reasons": list(DISCARDS), "suggests": bool(self._suggestions)}

    def card(self, claimed: Claimed, annotator: str | None) -> dict[str, Any]:
        """Return an image for one annotator: its classes, suggested boxes, and in round two the earlier answers."""
        task, space = claimed.task, self._dataset.info.label_space
        labels = self._places.labels(self._places.frame(task.frame_id))
        suggestion = self._suggestions.get(task.frame_id)
        card: dict[str, Any] = {
            "task": task.task_id,
            "stage": claimed.stage,
            "picture": task.task_id,
            "labels": [{"id": space.ids[label], "name": space.names[label]} for label in sorted(labels)],
            "suggestion": None if suggestion is None else list(suggestion),
            "mine": None,
            "votes": [],
        }
        if claimed.stage == "verify":
            latest = latest_answers(self._store.answers_on("task_id = :task", {"task": task.task_id}))
            answers = {name: _said(answer) for name, answer in sorted(latest.get(task.frame_id, {}).items())}
            card["mine"] = answers.pop(annotator or "", None)
            if self._store.settings.show_votes:
                card["votes"] = [{"name": name, **answer} for name, answer in answers.items()]
        return card

    def past(self, answer: BoxAnswer, task: ReviewTask) -> dict[str, Any]:
        """Return an earlier answer for undo: its card and the decision."""
        card = self.card(Claimed(task=task, stage=answer.stage), answer.annotator)
        return {"card": card, "decision": {**_said(answer), "note": answer.note}}

    def body(self, content: bytes) -> BoxDecision:
        """Check the page's input field by field."""
        return BoxDecision.model_validate_json(content)

    def answer(self, body: BoxDecision, task: ReviewTask, annotator: str) -> BoxAnswer:
        """Turn a checked body into an answer: a box of positive area inside the image, with one of the image's
        classes.
        """
        row, space = self._places.frame(task.frame_id), self._dataset.info.label_space
        label, labels = space.index(body.label), self._places.labels(row)
        if label not in labels:
            known = ", ".join(space.names[one] for one in sorted(labels))
            raise InvalidValue(f"label: expected a class of this image ({known})")
        if body.decision == "discard" and body.xyxy is not None:
            raise InvalidValue("xyxy: a discarded image has no box")
        if body.xyxy is not None:
            check_inside(body.xyxy, self._size(row), what="xyxy")
        return BoxAnswer(
            answer_id=body.answer_id,
            annotator=annotator,
            at="",
            stage=body.stage,
            frame_id=task.frame_id,
            label=space.ids[label],
            decision=body.decision,
            xyxy=body.xyxy,
            reason=body.reason,
            # The server, not the page, decides whether the box equals the suggestion.
            suggested=body.xyxy is not None and body.xyxy == self._suggestions.get(task.frame_id),
            seconds=body.seconds,
            note=checked_note(body.note),
            page_version=body.page_version,
        )

    def _size(self, row: int) -> tuple[int, int]:
        """Return width and height of an image. The image is read if the dataset does not record its size."""
        frames = self._dataset.frames
        known = int(frames.width[row]), int(frames.height[row])
        if all(known):
            return known
        if row not in self._sizes:
            self._sizes[row] = self._pictures.size_wh(row)
        return self._sizes[row]


def _said(word: BoxAnswer) -> dict[str, Any]:
    box = None if word.xyxy is None else list(word.xyxy)
    return {"decision": word.decision, "reason": word.reason, "label": word.label, "xyxy": box}
