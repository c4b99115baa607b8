"""One set in full: its frames, what every model and every person answered on them, and its true boxes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from strobe.analyses.gallery import rows_of
from strobe.analyses.gallery_detection import Detected, truth_boxes
from strobe.annexes.web.review.hints import hints_of
from strobe.annexes.web.view.filters import NO_CLASS, votes_on
from strobe.annexes.web.view.frames import FrameAnswers
from strobe.annexes.web.view.index import REVIEW, DatasetIndex
from strobe.annexes.web.view.outcomes import STATUS
from strobe.annexes.web.view.tags import notes_of, tags_of
from strobe.annexes.web.view.thumbnails import Thumbnails
from strobe.core.answers import BoxAnswers, State
from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.core.tables import Boxes
from strobe.report.wording import level_text


def set_content(
    index: DatasetIndex, images: Thumbnails, row: int, answers: Mapping[str, FrameAnswers | None]
) -> dict[str, Any]:
    """Return everything about one set for the page. `answers` is None for a model that is still being loaded."""
    data, place = index.dataset, rows_of(index.dataset, row)
    set_id = str(data.sets.set_id[row])
    tag_rows = index.tags()[0]
    return {
        "row": row,
        "name": printable(index.names[row]),
        "set_id": printable(set_id, limit=400),
        "video": printable(data.videos.name[index.video[row]]),
        "video_row": int(index.video[row]),
        "labels": printable(index.labels_text[row]) or "no label",
        "review": REVIEW[int(index.review[row])],
        "variant": "" if data.variants is None else printable(data.variants.variant[data.sets.variant[row]]),
        "frames": _frames(index, images, place),
        "models": [_model(index, row, name, answer) for name, answer in answers.items()],
        "people": _people(data, set_id, place),
        "tags": list(tags_of(tag_rows).get(set_id, {})),
        "notes": [
            {"who": printable(note.who), "at": note.at, "text": note.text} for note in notes_of(tag_rows, set_id)
        ],
    }


def _frames(index: DatasetIndex, images: Thumbnails, place: slice) -> list[dict[str, Any]]:
    data = index.dataset
    found = index.derivation
    kept = np.ones(len(data.sets.frame), dtype=bool) if found is None else found.kept
    out = []
    for at in range(place.start, place.stop):
        frame = int(data.sets.frame[at])
        time = float(data.frames.time_s[frame])
        one: dict[str, Any] = {
            "i": "" if images.missing else images.name(frame),
            "d": float(data.sets.distance[at]),
            "l": _level(data, at),
            "anchor": bool(data.sets.is_anchor[at]),
            "kept": bool(kept[at]),
            "t": f"{time:.2f} s" if np.isfinite(time) else f"frame {int(data.frames.index[frame])}",
            "hints": [] if data.hints is None else hints_of(data.hints, at),
        }
        if data.boxes is not None:
            one["g"] = truth_boxes(data.boxes, frame).round(1).tolist()
            one["wh"] = [int(data.frames.width[frame]), int(data.frames.height[frame])]
        out.append(one)
    return out


def _level(data: Dataset, at: int) -> str:
    """Return the distance of a member in words."""
    if data.sets.is_anchor[at]:
        return "anchor"
    distance = float(data.sets.distance[at])
    if data.variants is not None:
        return printable(level_text(data.variants[int(data.sets.variant[data.sets.set[at]])], distance))
    return f"{distance:+g}".replace("-", "−")


def _model(index: DatasetIndex, row: int, name: str, found: FrameAnswers | None) -> dict[str, Any]:
    outcome = index.models[name]
    out: dict[str, Any] = {"model": name, "status": STATUS[int(outcome.status[row])], "pending": found is None}
    if found is None:
        return out
    data, place = index.dataset, rows_of(index.dataset, row)
    frame = data.sets.frame[place]
    names, state = data.info.label_space.names, found.state[frame]
    out |= {
        "answers": [
            None if code > State.OUTSIDE else printable(names[label]) if label >= 0 else NO_CLASS
            for label, code in zip(found.label[frame].tolist(), state.tolist(), strict=True)
        ],
        "right": [bool(one) for one in found.right[place].tolist()] if outcome.has_labels else None,
        "confidence": _rounded(found.confidence[frame]),
        "truth": _rounded(found.truth[place]),
    }
    if found.boxes is not None and data.boxes is not None:
        out |= _boxes(data, data.boxes, row, name, found.boxes)
    return out


def _rounded(values: Any) -> list[float | None]:
    return [round(float(one), 3) if np.isfinite(one) else None for one in values]


def _boxes(data: Dataset, truth: Boxes, row: int, name: str, boxes: BoxAnswers) -> dict[str, Any]:
    """Return a detector's boxes on each frame of a set, and its AP there, as the gallery of the report judges them."""
    part = data.keep_rows(data.sets.set == row)
    frames = np.unique(part.sets.frame)
    own, near = np.isin(truth.frame, frames), np.isin(boxes.frame, frames)
    part = replace(part, boxes=_some(truth, own))
    some = replace(boxes, **{one: getattr(boxes, one)[near] for one in ("frame", "label", "xyxy", "score")})
    view = Detected(part, name, some).view(0)
    return {
        "right": view.right.tolist(),
        "truth": _rounded(view.truth),
        "boxes": [box.round(3).tolist() for box in view.boxes or ()],
        "missed": [one.round(1).tolist() for one in view.missed or ()],
    }


def _some(truth: Boxes, own: Any) -> Boxes:
    columns = {one: getattr(truth, one) for one in Boxes.__slots__}
    return Boxes(**{one: column[own] if isinstance(column, np.ndarray) else column for one, column in columns.items()})


def _people(data: Dataset, set_id: str, place: slice) -> list[dict[str, Any]]:
    """Return what people answered about the set: votes on its pairs, names and boxes of its images."""
    frames = dict(zip(data.frame_ids(data.sets.frame[place]), range(place.stop - place.start), strict=True))
    out = [
        {
            "who": printable(vote.annotator),
            "at": vote.at,
            "frame": frames.get(vote.frame_id),
            "said": vote.decision + (", bad anchor" if vote.bad_anchor else ""),
            "why": printable(", ".join(filter(None, (vote.reason, vote.note))), limit=300),
        }
        for vote in votes_on(data.verdicts, set_id)
    ]
    space = data.info.label_space
    names = dict(zip(space.ids, space.names, strict=True))
    for name in data.names:
        if name.frame_id in frames:
            said = names.get(name.label, name.label) if name.said == "class" else name.said
            out.append(_answer(name.annotator, name.at, frames[name.frame_id], f"named it {said}", name.note))
    for box in data.drawn:
        if box.frame_id in frames:
            said = "drew a box" if box.decision == "keep" else f"discarded it: {box.reason}"
            out.append(_answer(box.annotator, box.at, frames[box.frame_id], said, ""))
    return out


def _answer(who: str, at: str, frame: int, said: str, why: str) -> dict[str, Any]:
    return {"who": printable(who), "at": at, "frame": frame, "said": printable(said), "why": printable(why, limit=300)}
