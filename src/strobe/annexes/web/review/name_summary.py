"""Compute the figures of naming from the answers: progress, attention, people and pace."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from strobe.analyses.naming import CONTROL, PRACTICE, NamingTable
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.voting import LEAST_SECONDS, against
from strobe.annexes.web.review.conduct import Conduct
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.derivation import with_names
from strobe.core.estimate import Estimate
from strobe.core.people import LABEL, SAID, NameAnswer, latest_answers
from strobe.metrics.intervals import clopper_pearson
from strobe.studies.people.score import people_results

ASIDE = (PRACTICE, CONTROL)
"""The conditions of practice and control images. Results exclude these images."""


def summarise(
    dataset: Dataset, answers: Sequence[NameAnswer], conduct: Conduct | None, shown: Mapping[str, str]
) -> dict[str, Any]:
    """Return the figures of `strobe review status --ask name`, from each person's latest answer to an image.

    `shown` maps every image of the study to its condition. It has no practice or control images.
    """
    latest = [answer for of_frame in latest_answers(answers).values() for answer in of_frame.values()]
    real = [answer for answer in latest if answer.condition not in ASIDE]
    wanted = 1 if conduct is None else conduct.settings.votes
    in_time = Counter(answer.frame_id for answer in real if answer.said != "late")
    people = sorted({answer.annotator for answer in latest})
    return {
        "answers": len(answers),
        "pictures": {
            "asked": len(shown),
            "answered": sum(frame in in_time for frame in shown),
            "waiting": sum(in_time[frame] < wanted for frame in shown),
        },
        "said": _said(real),
        "controls": _controls(dataset, latest),
        "warnings": [
            text for name in people for text in _against(dataset, name, [a for a in latest if a.annotator == name])
        ],
        "people": [_person(dataset, name, [one for one in latest if one.annotator == name]) for name in people],
        "conditions": [
            {"name": name, "pictures": count, "answers": sum(one.condition == name for one in real)}
            for name, count in sorted(Counter(shown.values()).items())
        ],
        "scores": _scores(dataset, answers),
        "seconds": _seconds(answer.seconds for answer in real),
        **_labelled(dataset, answers, shown),
        "conduct": encode(conduct),
    }


def _labelled(dataset: Dataset, answers: Sequence[NameAnswer], shown: Mapping[str, str]) -> dict[str, Any]:
    """Return how many of the sampled sets have a label now, if a sample of sets is named."""
    if LABEL not in shown.values():
        return {}
    named = with_names(replace(dataset, names=tuple(answers)))
    anchors = zip(named.frame_ids(named.sets.anchor_frame), named.labelled.tolist(), strict=True)
    return {"labels": {"asked": len(shown), "labelled": sum(frame in shown and has for frame, has in anchors)}}


def _scores(dataset: Dataset, answers: Sequence[NameAnswer]) -> list[dict[str, Any]]:
    """Return how often people are right and how often they agree, by condition. Results have the overall figures."""
    answers = [answer for answer in answers if answer.condition != LABEL]
    if not answers:
        return []
    found = people_results(NamingTable.of(replace(dataset, names=tuple(answers))), {}, ScoreOptions())
    return [
        {
            "name": " ".join(filter(None, (score.variant, score.condition))),
            **{name: encode(getattr(score, name)) for name in ("accuracy", "majority", "fleiss_kappa", "consistency")},
        }
        for score in found.scores
    ]


def _person(dataset: Dataset, name: str, latest: Sequence[NameAnswer]) -> dict[str, Any]:
    real = [answer for answer in latest if answer.condition not in ASIDE]
    return {
        "name": name,
        "answers": len(real),
        "said": _said(real),
        "controls": _controls(dataset, latest),
        "seconds": _seconds(answer.seconds for answer in real),
        "last_at": max(answer.at for answer in latest),
    }


def _against(dataset: Dataset, name: str, latest: Sequence[NameAnswer]) -> list[str]:
    timed = [answer.seconds for answer in latest if answer.seconds is not None and answer.condition != PRACTICE]
    return against(
        name,
        _right(dataset, latest),
        quick=sum(seconds < LEAST_SECONDS for seconds in timed),
        timed=len(timed),
        what="images",
        limit_s=LEAST_SECONDS,
    )


def _said(answers: Iterable[NameAnswer]) -> dict[str, int]:
    counter = Counter(answer.said for answer in answers)
    return {word: counter[word] for word in SAID}  # type: ignore[index]  # the keys are the values that the record allows


def _controls(dataset: Dataset, latest: Sequence[NameAnswer]) -> Any:
    return encode(_right(dataset, latest))


def _right(dataset: Dataset, latest: Sequence[NameAnswer]) -> Estimate:
    """Return the share of control images that were named correctly."""
    space = dataset.info.label_space
    row = {frame: index for index, frame in enumerate(dataset.frame_ids())}
    asked = [answer for answer in latest if answer.condition == CONTROL and answer.frame_id in row]
    right = sum(
        answer.said == "class"
        and answer.label in {space.ids[label] for label in dataset.labels_of(row[answer.frame_id])}
        for answer in asked
    )
    return clopper_pearson(right, len(asked))


def _seconds(values: Iterable[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    return {"n": len(known), "median": median(known) if known else None}
