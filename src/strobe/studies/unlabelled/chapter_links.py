"""Detectors in the chapter on flicker: boxes that come and go, drawn on frames."""

from collections.abc import Mapping
from typing import Any

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource
from strobe.report.gallery import picture
from strobe.report.view import Lines
from strobe.report.wording import counted
from strobe.studies.unlabelled.records import FlickerResults
from strobe.studies.unlabelled.records_links import LinkCase
from strobe.studies.unlabelled.words import LINK_COLUMNS, link_rows, steadiest

MOST_CASES = 12
"""The most cases of one detector on the page."""

EVENTS = {"gap": "The box vanishes and returns", "class change": "The class changes", "crossing": "The score dips"}


def link_tables(found: FlickerResults) -> list[Lines]:
    """Return the table of detectors."""
    if not found.detectors:
        return []
    columns = ["Detector", *(name.replace("_", " ").capitalize() for name in LINK_COLUMNS), "Links"]
    note = "% of links with each event, with 95 % intervals over videos. Jitter is in % of the box's size."
    return [("How often do boxes come and go?", columns, link_rows(found), [note])]


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
            words = f"{EVENTS[case.kind]}: {printable(case.label_before)}"
            if case.label_before != case.label_after:
                words += f" → {printable(case.label_after)}"
            gone = f", gone for {counted(case.frames, 'frame')}" if case.kind == "gap" else ""
            about = f"{printable(name)} · {printable(videos.get(case.video, case.video))}{gone}"
            out.append({"words": words, "about": about, "frames": frames})
    return out


Box = tuple[float, float, float, float]


def _shots(case: LinkCase) -> list[tuple[int | None, Box | None, str]]:
    """Return the frames of a case with the box and the text below: before, during and after the event."""
    during = "no box" if case.score_during is None else f"score {case.score_during:.2f}"
    return [
        (case.before, case.box_before, f"{printable(case.label_before)} {case.score_before:.2f}"),
        (case.during, None, during),
        (case.after, case.box_after, f"{printable(case.label_after)} {case.score_after:.2f}"),
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
