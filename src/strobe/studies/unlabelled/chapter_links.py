"""Detectors in the chapter on flicker: when objects have no box, and the most striking events drawn on frames."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from strobe.analyses.box_measures import BoxAnswersAlong, box_plan
from strobe.core.answers import Answers, BoxAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.estimate import Missing
from strobe.core.ports import FrameSource
from strobe.report.gallery import picture
from strobe.report.view import Lines
from strobe.report.wording import counted, plain_number
from strobe.studies.unlabelled.records import FlickerResults
from strobe.studies.unlabelled.records_links import LinkCase
from strobe.studies.unlabelled.words import steadiest

MOST_CASES = 12
"""The most cases of one detector on the page."""

MOST_DETECTORS, MOST_STRIPS, MOST_LANES = 4, 12, 12
"""The most detectors, videos, and objects of one video on the page."""

SHOWN_OUTAGES = 10

EVENTS = {
    "outage": "The box vanishes and returns",
    "vanished": "The box vanishes for good",
    "class change": "The class changes",
}
LEAVES = "The box vanishes before the object leaves the picture"


def outage_tables(dataset: Dataset, found: FlickerResults) -> list[Lines]:
    """Return the longest outages of each detector."""
    videos = dict(zip(dataset.videos.video_id.tolist(), dataset.videos.name.tolist(), strict=True))
    out: list[Lines] = []
    for name, score in list(steadiest(found).items())[:MOST_DETECTORS]:
        rows = [
            [
                f"{printable(videos.get(one.video, one.video))}, {printable(one.label)}",
                f"{one.first}–{one.last}" if one.frames > 1 else str(one.first),
                "—" if one.at is None else f"{one.at:.2f} s",
                counted(one.frames, "frame") if one.seconds is None else f"{one.seconds:.2f} s",
                "yes" if one.returns else "no",
                plain_number(one.faint),
            ]
            for one in score.longest[:SHOWN_OUTAGES]
        ]
        if rows:
            columns = ["Object", "Frames", "From", "Length", "Returns", "Faint boxes"]
            total = counted(score.outages, "outage")
            note = f"The longest of {total}; tables/outages.csv has {'all' if score.outages <= 1000 else 'more'}."
            out.append((f"Frames without a box: {printable(name)}", columns, rows, [note]))
    return out


def life_strips(dataset: Dataset, found: FlickerResults, answers: Mapping[str, Answers]) -> list[dict[str, Any]]:
    """Return a strip for each video and detector: the lives of its objects, and the frames without a box."""
    plan = box_plan(dataset)
    names = [name for name in steadiest(found) if isinstance(answers.get(name), BoxAnswers)][:MOST_DETECTORS]
    if isinstance(plan, Missing) or not names:
        return []
    along = {}
    for name in names:
        boxes = answers[name]
        if isinstance(boxes, BoxAnswers):
            along[name] = BoxAnswersAlong(plan, boxes)
    n = len(dataset.videos)
    missing = sum(np.bincount(plan.video, weights=one.lives.absent(), minlength=n) for one in along.values())
    seen = np.unique(plan.video)
    order = seen[np.argsort(-np.asarray(missing)[seen], kind="stable")]
    strips = []
    for video in order[:MOST_STRIPS].tolist():
        places = np.flatnonzero(plan.video == video)
        strips.append(
            {
                "name": printable(str(dataset.videos.name[video])),
                "length": f"{counted(len(places), 'frame')}, {float(plan.footage.lasting[places].sum()):.1f} s"
                if plan.timed
                else counted(len(places), "frame"),
                "n": len(places),
                "rows": [_strip(name, one, int(places[0]), len(places)) for name, one in along.items()],
            }
        )
    return strips


def _strip(name: str, along: BoxAnswersAlong, first: int, n: int) -> dict[str, Any]:
    """Return the lanes of one detector on one video: the objects with most frames without a box, in order of time."""
    lives = along.lives
    own = np.flatnonzero((lives.start >= first) & (lives.start < first + n))
    lost = lives.within(np.ones(len(lives.known)), lives.first, lives.until)
    gone = np.bincount(lives.outage_life, weights=lost, minlength=len(lives))
    chosen = np.sort(own[np.argsort(-gone[own], kind="stable")][:MOST_LANES])
    lanes = [
        {
            "y": lane,
            "x": int(lives.start[life]) - first,
            "w": int(lives.end[life] - lives.start[life]),
            "outages": [
                {"x": int(a) - first, "w": int(b - a), "t": f"no box for {counted(int(b - a), 'frame')}"}
                for a, b in zip(
                    lives.first[lives.outage_life == life], lives.until[lives.outage_life == life], strict=True
                )
            ],
        }
        for lane, life in enumerate(chosen.tolist())
    ]
    hidden = len(own) - len(chosen)
    total = int(gone[own].sum())
    words = f"{counted(len(own), 'object')}, {counted(total, 'frame')} without a box"
    return {
        "model": printable(name),
        "words": words + (f"; {counted(hidden, 'object')} not drawn" if hidden else ""),
        "lanes": lanes,
        "height": max(len(lanes), 1),
    }


def link_cases(dataset: Dataset, found: FlickerResults, source: FrameSource | None) -> list[dict[str, Any]]:
    """Return the most striking cases of each detector, with the frames before, during and after."""
    images: dict[int, tuple[str, int, int]] = {}
    videos = dict(zip(dataset.videos.video_id.tolist(), dataset.videos.name.tolist(), strict=True))
    out = []
    for name, one in steadiest(found).items():
        for case in one.cases[:MOST_CASES]:
            frames = [
                _frame(dataset, source, images, row, box, text) for row, box, text in _shots(case) if row is not None
            ]
            on_the_way_out = case.kind == "outage" and case.box_after is None
            words = LEAVES if on_the_way_out else EVENTS[case.kind]
            words += f": {printable(case.label_before)}"
            if case.label_before != case.label_after:
                words += f" → {printable(case.label_after)}"
            about = f"{printable(name)} · {printable(videos.get(case.video, case.video))}"
            if case.kind != "class change":
                long = counted(case.frames, "frame") if case.seconds is None else f"{case.seconds:.2f} s"
                about += f", no box for {long}"
            out.append({"words": words, "about": about, "frames": frames})
    return out


Box = tuple[float, float, float, float]


def _shots(case: LinkCase) -> list[tuple[int | None, Box | None, str]]:
    """Return the frames of a case with the box and the text below: before, during and after the event."""
    during = "no box" if case.score_during is None else f"score {case.score_during:.2f}"
    after = "no box" if case.score_after is None else f"{printable(case.label_after)} {case.score_after:.2f}"
    return [
        (case.before, case.box_before, f"{printable(case.label_before)} {case.score_before:.2f}"),
        (case.during, None, during),
        (case.after, case.box_after, after),
    ]


def _frame(
    dataset: Dataset,
    source: FrameSource | None,
    images: dict[int, tuple[str, int, int]],
    row: int,
    box: Box | None,
    text: str,
) -> Mapping[str, Any]:
    if row not in images:
        images[row] = _image(dataset, source, row)
    image, width, height = images[row]
    place = None
    if box is not None and width and height:
        x0, y0, x1, y1 = box
        shares = 100 * x0 / width, 100 * y0 / height, 100 * (x1 - x0) / width, 100 * (y1 - y0) / height
        place = [round(value, 2) for value in shares]
    return {"image": image, "box": place, "text": text, "ratio": f"{width or 4} / {height or 3}"}


def _image(dataset: Dataset, source: FrameSource | None, row: int) -> tuple[str, int, int]:
    size = int(dataset.frames.width[row]), int(dataset.frames.height[row])
    if source is None:
        return "", *size
    try:
        pixels = source.read(row)
    except StrobeError:
        return "", *size
    return picture(pixels, longest=320, quality=70), pixels.shape[1], pixels.shape[0]
