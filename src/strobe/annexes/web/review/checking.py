"""The question of whether a flickering set shows one thing throughout, with one right answer.

People see frames of the set in order, without any model's answer. The sets are a random sample of those that flicker.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from strobe.annexes.web.review.alone import SingleImageQuestion
from strobe.annexes.web.review.conduct import Conduct, ReviewOptions
from strobe.annexes.web.review.log import AnswerLog
from strobe.annexes.web.review.naming import sampled_anchors
from strobe.annexes.web.review.pictures import FrameImages
from strobe.annexes.web.review.places import TableLookup
from strobe.annexes.web.review.plan import Claimed, ReviewTask, task_name
from strobe.annexes.web.review.question import Deck
from strobe.annexes.web.review.requests import AnswerBody, Opaque
from strobe.annexes.web.review.store import Store
from strobe.annexes.web.review.votes import ImportedAnswers, NameLookup, Turns, csv_rows, moment_of, seconds_of
from strobe.core.annotators import Spellings, checked_note
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, in_file, printable
from strobe.core.people import CHECKED, CheckAnswer, latest_answers

MOST_FRAMES = 9
"""The number of frames of a set that people see, evenly spaced from its first to its last frame."""

_COLUMNS = ("annotator", "set", "said", "seconds", "note", "at")


class CheckDecision(AnswerBody):
    """Whether a set shows one thing throughout, with one right answer."""

    answer_id: Opaque
    stage: Literal["check"]
    said: Literal["one", "changed", "several", "unsure"]


class CheckQuestion(SingleImageQuestion):
    """The question of whether a set shows one thing throughout."""

    name = "check"
    log = AnswerLog(
        table="checks",
        record=CheckAnswer,
        key="answer_id",
        own_task="question = 'check' AND frame_id = :frame_id",
        shown="1 = 1",
    )
    mixed = False

    def plan(self, dataset: Dataset, settings: ReviewOptions, *, secret: bytes) -> list[ReviewTask]:
        """Return a task for each set of the sample, in its order."""
        del settings  # the sample has its own seed
        return [
            ReviewTask(
                task_id=task_name(secret, "check", frame),
                kind=self.real,
                position=position,
                set_id=set_id,
                frame_id=frame,
                question=self.name,
            )
            for position, (frame, set_id) in enumerate(_asked(dataset).items())
        ]

    def stage(self, _task: ReviewTask) -> str:
        """Return `check`, the only stage."""
        return "check"

    def deck(self, dataset: Dataset, store: Store, places: TableLookup, pictures: FrameImages) -> "CheckDeck":
        """Return the cards of a dataset."""
        del store
        return CheckDeck(dataset, places, pictures)

    def read(self, path: Path, dataset: Dataset, *, annotator: str, known: Iterable[str]) -> ImportedAnswers:
        """Read answers given elsewhere from CSV. A line has a `set` (its id or anchor) and `said`."""
        if path.suffix.lower() != ".csv":
            raise StrobeError(f"{printable(path)}: expected a .csv file with the columns {', '.join(_COLUMNS)}")
        asked = {name: frame for frame, name in _asked(dataset).items()}
        places, spellings, turns, elsewhere = NameLookup(dataset), Spellings(known), Turns("answer_id"), 0
        for place, row in csv_rows(path, _COLUMNS, wanted=("set", "said")):
            number = places.set(row["set"].strip())
            name = None if number is None else places.name_of_set[number]
            if name is None or name not in asked:
                elsewhere += 1
                continue
            with in_file(path, where=f"line {place}"):
                who = spellings.checked(row.get("annotator", "").strip() or annotator)
                answer = _imported(row, name, asked[name], who)
            turns.add(answer, answer.set_id)
        return ImportedAnswers(answers=tuple(turns.all), elsewhere=elsewhere).checked(path, dataset)

    def summarise(self, dataset: Dataset, answers: Sequence[CheckAnswer], conduct: Conduct | None) -> dict[str, Any]:
        """Return progress, what people said, people and pace."""
        asked, latest = sampled_anchors(dataset, "check"), latest_answers(answers)
        wanted = 1 if conduct is None else conduct.settings.votes
        own = [answer for frame in latest.values() for answer in frame.values()]
        seconds = [answer.seconds for answer in own if answer.seconds is not None]
        return {
            "answers": len(answers),
            "sets": {
                "asked": len(asked),
                "answered": sum(frame in latest for frame in asked),
                "waiting": sum(len(latest.get(frame, {})) < wanted for frame in asked),
            },
            "said": _counts(own),
            "people": [
                {"name": name, "answers": len(part), "said": _counts(part), "last_at": max(one.at for one in part)}
                for name in sorted({answer.annotator for answer in own})
                if (part := [answer for answer in own if answer.annotator == name])
            ],
            "seconds": {"n": len(seconds), "median": median(seconds) if seconds else None},
            "conduct": encode(conduct),
        }


def _asked(dataset: Dataset) -> dict[str, str]:
    """Return the sets of the sample by the id of their anchor."""
    found = sampled_anchors(dataset, "check")
    if not found:
        raise InvalidValue(f"{dataset.name}: no sample of flickering sets was drawn; add <<plan=RUN>>")
    return found


def _counts(answers: Iterable[CheckAnswer]) -> dict[str, int]:
    counter = Counter(str(answer.said) for answer in answers)
    return {word: counter[word] for word in CHECKED}


def _imported(row: dict[str, str], set_id: str, frame_id: str, who: str) -> CheckAnswer:
    fields: dict[str, Any] = {
        "annotator": who,
        "at": moment_of(row.get("at", "").strip()),
        "set_id": set_id,
        "frame_id": frame_id,
        "said": row["said"].strip().lower(),
        "seconds": seconds_of(row.get("seconds", "").strip()),
        "note": checked_note(row.get("note", "")),
    }
    # If the file has no id, the id is a digest of the content, so that reading the file again adds nothing.
    digest = hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()[:32]
    return CheckAnswer(answer_id=row.get("answer_id", "").strip() or digest, **fields)


class CheckDeck(Deck):
    """Makes cards from a dataset's sets, and answers from the page's input."""

    def __init__(self, dataset: Dataset, places: TableLookup, pictures: FrameImages) -> None:
        self._dataset, self._places, self._pictures = dataset, places, pictures

    def told(self) -> dict[str, Any]:
        """Return nothing: the page needs no settings."""
        return {}

    def card(self, claimed: Claimed, _annotator: str | None) -> dict[str, Any]:
        """Return the card of a set, with the names of its frames in order."""
        sets = self._dataset.sets
        anchor = self._places.anchor(claimed.task.set_id)
        number = int(np.flatnonzero(sets.anchor_frame == anchor)[0])
        begin, end = np.searchsorted(sets.set, np.array([number, number + 1], dtype=sets.set.dtype)).tolist()
        frames = sets.frame[begin:end][np.argsort(sets.distance[begin:end], kind="stable")]
        few = np.unique(np.linspace(0, len(frames) - 1, min(MOST_FRAMES, len(frames))).round().astype(int))
        names = [self._pictures.name(int(row)) for row in frames[few]]
        return {"task": claimed.task.task_id, "stage": "check", "frames": names}

    def past(self, answer: CheckAnswer, task: ReviewTask) -> dict[str, Any]:
        """Return an earlier answer for undo."""
        decision = {name: getattr(answer, name) for name in ("said", "note")}
        return {"card": self.card(Claimed(task=task, stage="check"), answer.annotator), "decision": decision}

    def body(self, content: bytes) -> CheckDecision:
        """Check one answer."""
        return CheckDecision.model_validate_json(content)

    def answer(self, body: CheckDecision, task: ReviewTask, annotator: str) -> CheckAnswer:
        """Turn a checked body into an answer."""
        return CheckAnswer(
            answer_id=body.answer_id,
            annotator=annotator,
            at="",
            set_id=task.set_id,
            frame_id=task.frame_id,
            said=body.said,
            seconds=body.seconds,
            note=checked_note(body.note),
            page_version=body.page_version,
        )
