"""The question of where the object is: a person draws one box on an image, or discards the image.

Everyone sees images with disagreements again, in round two.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from strobe.analyses.drawn import AGREE, disagree
from strobe.annexes.web.review.alone import SingleImageQuestion
from strobe.annexes.web.review.box_deck import BoxDeck
from strobe.annexes.web.review.box_summary import asked_pictures, summarise_boxes
from strobe.annexes.web.review.box_votes import read_boxes
from strobe.annexes.web.review.conduct import Conduct, ReviewOptions
from strobe.annexes.web.review.log import AnswerLog
from strobe.annexes.web.review.pictures import FrameImages
from strobe.annexes.web.review.places import TableLookup
from strobe.annexes.web.review.plan import ReviewTask, task_name
from strobe.annexes.web.review.store import Store
from strobe.annexes.web.review.votes import ImportedAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue
from strobe.core.people import BoxAnswer


class BoxQuestion(SingleImageQuestion):
    """The question of where an image's object is.

    `suggestions` are a detector's boxes by frame, which people accept or move.
    """

    name = "box"
    log = AnswerLog(
        table="drawn",
        record=BoxAnswer,
        key="answer_id",
        own_task="question = 'box' AND frame_id = :frame_id",
        shown="1 = 1",
    )
    twice = True
    mixed = False

    def __init__(self) -> None:
        self.suggestions: Mapping[str, tuple[int, int, int, int]] = {}

    def plan(self, dataset: Dataset, settings: ReviewOptions, *, secret: bytes) -> list[ReviewTask]:
        """Return the labelled anchors of all sets, each image once, in an order that depends only on the seed."""
        anchors = asked_pictures(dataset)
        if not anchors:
            raise InvalidValue(f"{dataset.name}: no anchor has a label, so there is nothing to draw boxes around")
        order = np.random.Generator(np.random.PCG64(settings.seed)).permutation(len(anchors)).tolist()
        return [
            ReviewTask(
                task_id=task_name(secret, "box", frame),
                kind=self.real,
                position=position,
                set_id=set_id,
                frame_id=frame,
                question=self.name,
            )
            for position, (frame, set_id) in zip(order, sorted(anchors.items()), strict=True)
        ]

    def stage(self, _task: ReviewTask) -> str:
        """Return `draw`, the stage of round one."""
        return "draw"

    def is_doubtful(self, answers: Sequence[BoxAnswer], settings: ReviewOptions) -> bool:
        """Whether two answers disagree on keeping the image, on the class, or on the box (too little overlap)."""
        return disagree(answers, agree=AGREE if settings.agree is None else settings.agree)

    def deck(self, dataset: Dataset, store: Store, places: TableLookup, pictures: FrameImages) -> BoxDeck:
        """Return the cards of a dataset."""
        return BoxDeck(dataset, store, places, pictures, self.suggestions)

    def read(self, path: Path, dataset: Dataset, *, annotator: str, known: Iterable[str]) -> ImportedAnswers:
        """Read boxes drawn elsewhere from CSV."""
        return read_boxes(path, dataset, asked_pictures(dataset), annotator, known)

    def summarise(self, dataset: Dataset, answers: Sequence[BoxAnswer], conduct: Conduct | None) -> dict[str, Any]:
        """Return the kept images, the agreement between people, and the pending work."""
        return summarise_boxes(dataset, answers, conduct=conduct)
