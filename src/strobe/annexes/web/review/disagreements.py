"""What the lead of a review looks at: tasks on which people disagree, and how many answers came when."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from strobe.analyses.drawn import AGREE, disagree
from strobe.annexes.web.review.pictures import FrameImages
from strobe.annexes.web.review.places import TableLookup
from strobe.annexes.web.review.rows import Answer
from strobe.core.people import BoxAnswer

MOST_LISTED = 100
MOST_BARS = 60
_STEPS = {"10 minutes": timedelta(minutes=10), "hour": timedelta(hours=1), "day": timedelta(days=1)}


def answers_over_time(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return how many answers each person gave in each step of time: ten minutes, an hour or a day.

    The step is the shortest for which at most 60 steps are needed; otherwise, the last 60 days are returned. Answers
    without a time, such as imported ones, are left out.
    """
    times = [(datetime.fromisoformat(answer.at), answer.annotator) for answer in answers if answer.at > "1970-01-02"]
    if not times:
        return {"step": "day", "bars": []}
    begin, end = min(times)[0], max(times)[0]
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)

    def fits(width: timedelta) -> bool:
        return (end - midnight) // width - (begin - midnight) // width < MOST_BARS

    step = next((name for name, width in _STEPS.items() if fits(width)), "day")
    width = _STEPS[step]
    first, last = (begin - midnight) // width, (end - midnight) // width
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for at, name in times:
        counts[(at - midnight) // width][name] += 1
    shown = range(max(first, last - MOST_BARS + 1), last + 1)
    bars = [(midnight + place * width, counts[place]) for place in shown]
    return {
        "step": step,
        "bars": [{"at": at.strftime("%Y-%m-%d %H:%M"), "people": dict(sorted(people.items()))} for at, people in bars],
    }


def disagreements(
    answers: Sequence[Answer], places: TableLookup, pictures: FrameImages, *, agree: float | None = None
) -> dict[str, Any]:
    """Return the tasks on which the latest answers of two people differ, the most recent first: images and answers.

    `agree` is the smallest overlap of two boxes that agree. Controls and labels of anchors are left out.
    """
    latest: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for answer in answers:
        if getattr(answer, "stage", "") != "anchor":
            latest[getattr(answer, "set_id", ""), answer.frame_id][answer.annotator] = answer
    rows = []
    for (set_id, frame), said in latest.items():
        names = [frame]
        if set_id and hasattr(next(iter(said.values())), "verdict_id"):
            if places.member(set_id, frame) is None:
                continue
            names = [places.frame_id(places.anchor(set_id)), frame]
        found = [places.find(name) for name in names]
        if None not in found and _differ(list(said.values()), agree):
            rows.append(
                {
                    "task": set_id or frame,
                    "frame": frame,
                    "images": [pictures.name(row) for row in found if row is not None],
                    "answers": [{"name": name, "said": _text(one)} for name, one in sorted(said.items())],
                    "at": max(one.at for one in said.values()),
                }
            )
    rows.sort(key=lambda row: str(row["at"]), reverse=True)
    return {"n": len(rows), "rows": rows[:MOST_LISTED]}


def _differ(said: Sequence[Any], agree: float | None) -> bool:
    if isinstance(said[0], BoxAnswer):
        return disagree(said, agree=AGREE if agree is None else agree)
    return len({_text(one).split(" (")[0] for one in said}) > 1


def _text(answer: Any) -> str:
    """Return an answer in a few words."""
    if getattr(answer, "bad_anchor", False):
        return "bad anchor"
    word = str(getattr(answer, "decision", "") or answer.said)
    label = getattr(answer, "label", "")
    text = label if word == "class" else f"{word} {label}" if word == "keep" else word
    reason = getattr(answer, "reason", "")
    text = f"{text} ({reason})" if reason else text
    return f"{text}, label wrong" if getattr(answer, "label_right", None) is False else text
