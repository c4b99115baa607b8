"""Figures on people's boxes: how many images people keep, how far they agree, and how often they accept a suggestion.

Agreement is measured on the answers of round one, in which nobody had seen the others' answers.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np

from strobe.analyses.drawn import AGREE, Drawn, disagree, drawn_pictures
from strobe.core.dataset import Dataset
from strobe.core.estimate import Estimate
from strobe.core.people import BoxAnswer, latest_answers
from strobe.metrics.agreement import fleiss_kappa, rating_counts
from strobe.metrics.box_agreement import median_overlap, pairwise_iou
from strobe.metrics.intervals import proportion
from strobe.studies.people.records import BoxPair, BoxPerson, DrawnResults


@dataclass(frozen=True, slots=True, kw_only=True)
class _BoxOverlap:
    """The boxes of two people on one image: their overlap, the image's source, and whether both are the suggestion."""

    person: str
    other: str
    iou: float
    source: int
    both_suggested: bool


def drawn_results(dataset: Dataset, *, agree: float = AGREE, seed: int = 0) -> DrawnResults:
    """Return the figures of the dataset's box answers; answers on images outside the dataset are ignored."""
    pictures = drawn_pictures(dataset)
    source = dict(zip(dataset.frame_ids(), dataset.frames.video.tolist(), strict=True))
    latest = {frame: words for frame, words in latest_answers(dataset.drawn).items() if frame in source}
    first = {
        frame: words
        for frame, words in latest_answers(one for one in dataset.drawn if one.stage == "draw").items()
        if frame in source
    }
    words = [word for of_picture in latest.values() for word in of_picture.values()]
    met = _met(first, source)
    several = {frame: list(answers.values()) for frame, answers in first.items() if len(answers) > 1}
    boxes = [word for word in words if word.decision == "keep"]
    names = sorted({word.annotator for word in words})
    return DrawnResults(
        agree=agree,
        n_people=len(names),
        n_pictures=len(pictures),
        n_answers=sum(answer.frame_id in source for answer in dataset.drawn),
        kept=_share([picture.is_kept for picture in pictures], [source[picture.frame_id] for picture in pictures]),
        reasons=dict(sorted(Counter(word.reason for word in words if word.decision == "discard").items())),
        overlap=_overlap(met, seed),
        overlap_own=_overlap([one for one in met if not one.both_suggested], seed),
        disagreed=_share(
            [disagree(answers, agree=agree) for answers in several.values()], [source[one] for one in several]
        ),
        fleiss_kappa=_kappa(several, source, seed),
        unsettled=sum(picture.overlap is not None and picture.overlap < agree for picture in pictures),
        suggested=_share([word.suggested for word in boxes], [source[word.frame_id] for word in boxes]),
        area=_area(dataset, pictures),
        people=tuple(_person(name, words, met, seed) for name in names),
        pairs=tuple(_pairs(met, seed)),
    )


def _share(right: Sequence[bool], source: Sequence[int]) -> Estimate:
    return proportion(np.array(right, dtype=bool), np.array(source, dtype=np.int64))


def _overlap(met: Sequence[_BoxOverlap], seed: int) -> Estimate:
    cluster = np.array([one.source for one in met], dtype=np.int64)
    return median_overlap(np.array([one.iou for one in met], dtype=np.float64), cluster=cluster, seed=seed)


def _met(first: Mapping[str, Mapping[str, BoxAnswer]], source: Mapping[str, int]) -> list[_BoxOverlap]:
    """Yield every pair of boxes of one class on one image, with people in alphabetical order."""
    out = []
    for frame in sorted(first):
        kept = sorted((word for word in first[frame].values() if word.decision == "keep"), key=lambda w: w.annotator)
        boxes = np.array([word.xyxy for word in kept], dtype=np.float64).reshape(-1, 4)
        for (a, b), iou in zip(combinations(kept, 2), pairwise_iou(boxes).tolist(), strict=True):
            if a.label == b.label:
                both = a.suggested and b.suggested
                out.append(
                    _BoxOverlap(
                        person=a.annotator, other=b.annotator, iou=iou, source=source[frame], both_suggested=both
                    )
                )
    return out


def _kappa(several: Mapping[str, Sequence[BoxAnswer]], source: Mapping[str, int], seed: int) -> Estimate:
    most = max((len(said) for said in several.values()), default=0)
    ratings = np.full((len(several), most), -1, dtype=np.int64)
    for row, said in enumerate(several.values()):
        ratings[row, : len(said)] = [word.decision == "keep" for word in said]
    cluster = np.array([source[frame] for frame in several], dtype=np.int64)
    return fleiss_kappa(rating_counts(ratings, n_classes=2), cluster=cluster, seed=seed)


def _area(dataset: Dataset, pictures: Sequence[Drawn]) -> float | None:
    frames, row = dataset.frames, {frame: row for row, frame in enumerate(dataset.frame_ids())}
    shares = []
    for picture in pictures:
        whole = int(frames.width[row[picture.frame_id]]) * int(frames.height[row[picture.frame_id]])
        if picture.xyxy is not None and whole:
            x0, y0, x1, y1 = picture.xyxy
            shares.append((x1 - x0) * (y1 - y0) / whole)
    return median(shares) if shares else None


def _person(name: str, words: Sequence[BoxAnswer], met: Sequence[_BoxOverlap], seed: int) -> BoxPerson:
    own = [word for word in words if word.annotator == name]
    seconds = [word.seconds for word in own if word.seconds is not None]
    return BoxPerson(
        person=name,
        n_pictures=len(own),
        kept=sum(word.decision == "keep" for word in own),
        discarded=sum(word.decision == "discard" for word in own),
        suggested=sum(word.suggested for word in own),
        overlap=_overlap([one for one in met if name in (one.person, one.other)], seed),
        seconds=median(seconds) if seconds else None,
    )


def _pairs(met: Sequence[_BoxOverlap], seed: int) -> list[BoxPair]:
    of_two: dict[tuple[str, str], list[_BoxOverlap]] = defaultdict(list)
    for one in met:
        of_two[one.person, one.other].append(one)
    return [BoxPair(person=a, other=b, overlap=_overlap(found, seed)) for (a, b), found in sorted(of_two.items())]
