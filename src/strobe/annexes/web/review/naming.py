"""The question of what an image shows: a person sees one image and chooses a class.

Nobody sees two images of one group. A few groups are reserved: only their anchors are shown, either for practice or as
controls that everyone gets.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from strobe.analyses.naming import CONTROL, MEMBER, PRACTICE
from strobe.annexes.web.review.alone import SingleImageQuestion
from strobe.annexes.web.review.conduct import Conduct, ReviewOptions
from strobe.annexes.web.review.log import AnswerLog
from strobe.annexes.web.review.name_votes import read_names
from strobe.annexes.web.review.pictures import FrameImages
from strobe.annexes.web.review.places import TableLookup
from strobe.annexes.web.review.plan import Claimed, ReviewTask, task_name
from strobe.annexes.web.review.question import Deck
from strobe.annexes.web.review.requests import NameDecision
from strobe.annexes.web.review.store import Store
from strobe.annexes.web.review.votes import ImportedAnswers
from strobe.core.annotators import checked_note
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, expect
from strobe.core.labels import other_names
from strobe.core.people import LABEL, NameAnswer, questions_of
from strobe.core.variants import ANCHOR, NO_VARIANT

N_PRACTICE = 5
"""The default number of practice images per person. It is at most a quarter of the groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownImage:
    """An image that people may see, with its condition and its kin. Nobody sees two images of one kin."""

    frame_id: str
    kin: str
    condition: str


def shown(dataset: Dataset) -> list[ShownImage]:
    """Return the images of a dataset's sets, each once. Groups that share an image are one kin.

    Members that only repeat their anchor's image, for models with other preprocessing, are left out.
    """
    sets, ids = dataset.sets, dataset.frame_ids()
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    group: dict[int, str] = {}
    condition: dict[int, str] = {}
    passed = np.zeros(len(sets), dtype=bool) if dataset.variants is None else dataset.variants.is_shown[sets.variant]
    for number, row, is_anchor in zip(sets.set.tolist(), sets.frame.tolist(), sets.is_anchor.tolist(), strict=True):
        if passed[number]:  # shown only in reports
            continue
        own = str(sets.group[number])
        first, second = sorted((root(group.setdefault(row, own)), root(own)))
        parent[second] = first
        variant = NO_VARIANT if dataset.variants is None else str(dataset.variants.variant[sets.variant[number]])
        if is_anchor:
            condition[row] = ANCHOR
        else:
            condition.setdefault(row, variant if variant != NO_VARIANT else MEMBER)
    frames = dataset.frames
    pixels = {row: (frames.sha256[row], frames.media[row], frames.recipe[row]) for row in group}
    whole = {pixels[row] for row in group if condition[row] == ANCHOR and frames.sha256[row]}
    return [
        ShownImage(frame_id=ids[row], kin=root(group[row]), condition=condition[row])
        for row in sorted(group)
        if condition[row] == ANCHOR or pixels[row] not in whole
    ]


def sampled_anchors(dataset: Dataset, purpose: str) -> dict[str, str]:
    """Return the anchors of the sets that were drawn for a purpose and their sets, in the order of the questions."""
    drawn = questions_of(dataset.samples, purpose)
    anchors = dict(zip(dataset.sets.set_id.tolist(), dataset.frame_ids(dataset.sets.anchor_frame), strict=True))
    return {anchors[name]: name for name in drawn if name in anchors}


def set_aside(pictures: Sequence[ShownImage], settings: ReviewOptions) -> dict[str, str]:
    """Return the images that are reserved, and so not part of the study: the use (practice or control) by `kin`."""
    kins = sorted({picture.kin for picture in pictures})
    order = np.random.Generator(np.random.PCG64(settings.seed)).permutation(len(kins)).tolist()
    n_practice = min(N_PRACTICE if settings.practice is None else settings.practice, len(kins) // 4)
    n_controls = int(settings.controls * len(kins))
    kinds = [PRACTICE] * n_practice + [CONTROL] * n_controls
    return {kins[place]: kind for place, kind in zip(order, kinds, strict=False)}


class NameQuestion(SingleImageQuestion):
    """The question of what an image shows."""

    name = "name"
    log = AnswerLog(
        table="names",
        record=NameAnswer,
        key="answer_id",
        own_task="question = 'name' AND frame_id = :frame_id",
        shown="t.kind <> 'practice'",
    )
    controls = (CONTROL,)
    first = (PRACTICE,)

    def plan(self, dataset: Dataset, settings: ReviewOptions, *, secret: bytes) -> list[ReviewTask]:
        """Return a task for every image. From reserved groups, only the anchor gets a task.

        If a sample of sets was drawn to be named, only the anchors of these sets get a task, in the sample's order.
        """
        if sampled := sampled_anchors(dataset, "name"):
            return [
                ReviewTask(
                    task_id=task_name(secret, "name", frame),
                    kind=self.real,
                    position=position,
                    set_id="",
                    frame_id=frame,
                    question="name",
                    condition=LABEL,
                )
                for position, frame in enumerate(sampled)
            ]
        pictures = sorted(shown(dataset), key=lambda one: one.frame_id)
        aside = set_aside(pictures, settings)
        rng = np.random.Generator(np.random.PCG64([settings.seed, 1]))
        out, used = [], set()
        order = rng.permutation(len(pictures)).tolist()
        for position, one in zip(order, pictures, strict=True):
            kind = aside.get(one.kin, "picture")
            if kind != "picture" and (one.condition != ANCHOR or one.kin in used):
                continue
            used.add(one.kin)
            task = ReviewTask(
                task_id=task_name(secret, "name", one.frame_id),
                kind=kind,
                position=position,
                set_id="",
                frame_id=one.frame_id,
                question="name",
                kin=one.kin,
                condition=one.condition if kind == "picture" else kind,
            )
            out.append(task)
        return out

    def stage(self, task: ReviewTask) -> str:
        """Return `practice` for practice images and `name` for all others, so that controls cannot be recognised."""
        return "practice" if task.kind == PRACTICE else "name"

    def counts(self, answer: NameAnswer) -> bool:
        """Whether an answer counts. A late answer does not: it is stored, and the image goes to another person."""
        return answer.said != "late"

    def deck(self, dataset: Dataset, store: Store, places: TableLookup, _pictures: FrameImages) -> "NameDeck":
        """Return the cards of a dataset."""
        return NameDeck(dataset, store, places)

    def read(self, path: Path, dataset: Dataset, *, annotator: str, known: Iterable[str]) -> ImportedAnswers:
        """Read answers given elsewhere."""
        sampled = dict.fromkeys(sampled_anchors(dataset, "name"), LABEL)
        asked = sampled or {one.frame_id: one.condition for one in shown(dataset)}
        return read_names(path, dataset, asked, annotator, known)

    def summarise(self, dataset: Dataset, answers: Sequence[NameAnswer], conduct: Conduct | None) -> dict[str, Any]:
        """Return progress, controls, people and pace."""
        from strobe.annexes.web.review.name_summary import summarise  # imported late: a server starts without SciPy

        if sampled := sampled_anchors(dataset, "name"):
            return summarise(dataset, answers, conduct, dict.fromkeys(sampled, LABEL))
        pictures = shown(dataset)
        aside = {} if conduct is None else set_aside(pictures, conduct.settings)
        study = {picture.frame_id: picture.condition for picture in pictures if picture.kin not in aside}
        return summarise(dataset, answers, conduct, study)


class NameDeck(Deck):
    """Makes cards from a dataset's images, and answers from the page's input."""

    def __init__(self, dataset: Dataset, store: Store, places: TableLookup) -> None:
        self._dataset, self._store, self._places = dataset, store, places

    def told(self) -> dict[str, Any]:
        """Return the classes with their other names, and the time limit."""
        return {"classes": classes(self._dataset), "limit_s": self._store.settings.limit_s}

    def card(self, claimed: Claimed, _annotator: str | None) -> dict[str, Any]:
        """Return the card of an image, which is named by its task. A practice card includes the answer."""
        card: dict[str, Any] = {"task": claimed.task.task_id, "stage": claimed.stage, "picture": claimed.task.task_id}
        if claimed.stage == "practice":
            space = self._dataset.info.label_space
            right = sorted(self._places.labels(self._places.frame(claimed.task.frame_id)))
            card["right"] = [{"id": space.ids[label], "name": space.names[label]} for label in right]
        return card

    def past(self, answer: NameAnswer, task: ReviewTask) -> dict[str, Any]:
        """Return an earlier answer for undo, with the seconds already used: the time limit does not start again."""
        decision = {name: getattr(answer, name) for name in ("said", "label", "note", "seconds")}
        return {"card": self.card(Claimed(task=task, stage="name"), answer.annotator), "decision": decision}

    def body(self, content: bytes) -> NameDecision:
        """Check one answer."""
        return NameDecision.model_validate_json(content)

    def answer(self, body: NameDecision, task: ReviewTask, annotator: str) -> NameAnswer:
        """Turn a checked body into an answer. An answer after the time limit becomes `late`, whatever its content."""
        limit, space = self._store.settings.limit_s, self._dataset.info.label_space
        label = space.ids[space.index(body.label)] if body.label else ""
        late = limit is not None and body.seconds is not None and body.seconds > limit
        if limit is not None:
            expect(body.seconds is not None, "seconds", "the time taken, because this review has a time limit", None)
        if body.said == "late" and not late:
            raise InvalidValue("said: only an answer after the time limit is late")
        return NameAnswer(
            answer_id=body.answer_id,
            annotator=annotator,
            at="",
            frame_id=task.frame_id,
            said="late" if late else body.said,
            label=label,
            condition=task.condition,
            seconds=body.seconds,
            note=checked_note(body.note),
            page_version=body.page_version,
        )


def classes(dataset: Dataset) -> list[dict[str, Any]]:
    """Return the classes for a searchable list, with their other names."""
    space = dataset.info.label_space
    found = zip(space.ids, space.names, other_names(space), strict=True)
    return [{"id": label, "name": name, "also": also} for label, name, also in found]
