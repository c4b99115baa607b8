"""The frames around flips, for labelling or training: which frames, what the models answered, and majority answers."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from strobe.analyses.box_measures import BoxAnswersAlong, followed
from strobe.analyses.video_plan import answer_labels, cut_frames, frames_along
from strobe.core.answers import Answers, BoxAnswers, ClassAnswers
from strobe.core.arrays import Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.estimate import Missing
from strobe.core.files import json_text
from strobe.core.quoting import safe_markdown
from strobe.formats.export_media import Outgoing, picture_name
from strobe.report.tables import as_csv
from strobe.report.view import Row
from strobe.studies.unlabelled.score_links import class_name, link_events

Layout = Literal["coco", "yolo"]

AROUND = 2
"""The frames before a flip, and the frames from the flip on, that are exported by default."""

LEAST_BOXES = 3
"""The least number of boxes of an object that gets pseudo-labels."""

PSEUDO = (
    "The labels here are pseudo-labels: the majority answers of a model, which may be wrong. Nobody has checked them. "
    "Do not measure accuracy with them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A change of a model's answer between two frames, given as rows of the frame table."""

    event: str
    before: int
    after: int
    answers: tuple[str, str]
    confidences: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Boxed:
    """A box of an object with its majority class. `score` is None if the box is interpolated over an outage."""

    frame: int
    label: int
    xyxy: tuple[float, float, float, float]
    life: int
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """One model: its flips, the frames around them, its answers there, and its majority answers."""

    flips: Sequence[Flip]
    frames: set[int]
    answers: Sequence[Row]
    classes: Mapping[int, int]
    boxes: Sequence[_Boxed]


def flip_files(
    dataset: Dataset, answers: Mapping[str, Answers], *, around: int = AROUND, layout: Layout | None = None
) -> Outgoing:
    """Return the tables of all flips, the images of the frames around them and, with `layout`, pseudo-labels.

    The pseudo-label of a frame is the most frequent answer of a classifier within the dataset's k on both sides. For a
    detector, every box of an object with at least three boxes gets the object's most frequent class, and an outage is
    filled by interpolation. Pseudo-labels are made of one model.
    """
    if dataset.info.axis != "frame-offset":
        raise StrobeError(f"{printable(dataset.name)}: its sets are not stretches of video, so there are no flips")
    if layout is not None and len(answers) != 1:
        known = ", ".join(map(printable, answers))
        raise StrobeError(f"<<layout>> makes pseudo-labels of one model; choose one with -m: {known}")
    model_flips = {name: _of_model(dataset, answer, around) for name, answer in answers.items()}
    frames = sorted({row for model_flip in model_flips.values() for row in model_flip.frames})
    if not frames:
        raise StrobeError("no model changes its answer between neighbouring frames, so there is nothing to export")
    (only,) = model_flips.values() if layout is not None else (None,)
    is_classes = layout is not None and isinstance(next(iter(answers.values())), ClassAnswers)
    folder_of = dict.fromkeys(frames, "images")
    if only is not None and layout == "yolo" and is_classes:  # a folder for each class, as its classifiers expect
        folders = _class_folders(dataset)
        frames = [row for row in frames if row in only.classes]
        folder_of = {row: f"train/{folders[only.classes[row]]}" for row in frames}
    names = _file_names(dataset, frames, folder_of)
    files: dict[str, str | bytes] = {
        "flickers.csv": as_csv(_flip_rows(dataset, model_flips, names)),
        "answers.csv": as_csv(_answer_rows(dataset, model_flips, names)),
        "README.md": _readme(dataset, list(model_flips), layout),
    }
    if only is not None and layout == "coco":
        files["pseudo-labels.json"] = json_text(_coco(dataset, only, names, next(iter(model_flips))))
    elif only is not None and not is_classes:
        files |= _yolo(dataset, only, names)
    return Outgoing(files=files, images=names)


# -- what happened -------------------------------------------------------------------------------------------------


def _of_model(dataset: Dataset, answers: Answers, around: int) -> _Told:
    return _classes(dataset, answers, around) if isinstance(answers, ClassAnswers) else _boxes(dataset, answers, around)


def _near(line: Ints, first: int, last: int, around: int) -> range:
    """Return the places from `around` frames before a flip to `around` frames from the flip on, in one timeline."""
    low, high = first, last
    while low > 0 and first - low < around - 1 and line[low - 1] == line[first]:
        low -= 1
    while high + 1 < len(line) and high - last < around - 1 and line[high + 1] == line[first]:
        high += 1
    return range(low, high + 1)


def _classes(dataset: Dataset, answers: ClassAnswers, around: int) -> _Told:
    frames, line = frames_along(dataset, np.unique(dataset.sets.frame), cut_frames(dataset))
    label, known = answer_labels(answers)[frames], answers.scored[frames]
    confidence = answers.confidence_at(frames) if answers.has_shares else np.full(len(frames), np.nan)
    sure = [float(value) if np.isfinite(value) else None for value in confidence]
    names = (*dataset.info.label_space.names, "none of the classes")
    pairs = (line[1:] == line[:-1]) & known[1:] & known[:-1] & (label[1:] != label[:-1])
    flips: list[Flip] = []
    places: set[int] = set()
    for at in (np.flatnonzero(pairs) + 1).tolist():
        places.update(_near(line, at - 1, at, around))
        flips.append(
            Flip(
                event="flip",
                before=int(frames[at - 1]),
                after=int(frames[at]),
                answers=(names[label[at - 1]], names[label[at]]),
                confidences=(sure[at - 1], sure[at]),
            )
        )
    rows: list[Row] = []
    classes: dict[int, int] = {}
    for at in sorted(places):
        row = int(frames[at])
        if known[at]:
            rows.append({"row": row, "answer": names[label[at]], "confidence": sure[at]})
        window = [one for one in _near(line, at, at, dataset.info.k + 1) if known[one]]
        found = _majority((int(label[one]) for one in window), own=int(label[at]) if known[at] else None)
        if found is not None and found >= 0:
            classes[row] = found
    return _Told(flips=flips, frames={int(frames[at]) for at in places}, answers=rows, classes=classes, boxes=())


def _majority(labels: Iterable[int], *, own: int | None) -> int | None:
    """Return the most frequent label. Of equally frequent labels, the frame's own one is taken, else the smallest.

    >>> _majority([3, 3, 5], own=5), _majority([3, 5], own=5), _majority([], own=None)
    (3, 5, None)
    """
    many = Counter(labels)
    if not many:
        return None
    most = max(many.values())
    tied = [label for label, count in many.items() if count == most]
    return own if own in tied else min(tied)


def _boxes(dataset: Dataset, answers: BoxAnswers, around: int) -> _Told:
    along = followed(dataset, answers)
    if isinstance(along, Missing):
        return _Told(flips=(), frames=set(), answers=(), classes={}, boxes=())
    ordered, line = along.shared.footage.frames, along.shared.footage.timeline
    place = {int(row): at for at, row in enumerate(ordered)}
    flips: list[Flip] = []
    frames: set[int] = set()
    for case in link_events(along):
        last = place[case.before] + 1 if case.kind == "vanished" else place[case.after]
        near = _near(line, place[case.before], last, around)
        frames.update(int(ordered[at]) for at in near)
        flips.append(
            Flip(
                event=case.kind,
                before=case.before,
                after=int(ordered[last]),
                answers=(case.label_before, case.label_after),
                confidences=(case.score_before, case.score_after),
            )
        )
    flips.sort(key=lambda one: (place[one.after], place[one.before], one.event))
    shown = np.flatnonzero((answers.score >= along.rules.faint) & np.isin(answers.frame, list(frames)))
    rows: list[Row] = [
        {
            "row": int(answers.frame[at]),
            "answer": class_name(dataset, int(answers.label[at])),
            "confidence": float(answers.score[at]),
            **dict(zip(("x0", "y0", "x1", "y1"), map(float, answers.xyxy[at]), strict=True)),
        }
        for at in shown.tolist()
    ]
    return _Told(flips=flips, frames=frames, answers=rows, classes={}, boxes=_majority_boxes(along, frames))


def _majority_boxes(along: BoxAnswersAlong, frames: set[int]) -> list[_Boxed]:
    """Return the boxes of the objects with at least three boxes on these frames, with the object's majority class.

    The boxes go from an object's first to its last box, and fill the outages between them.
    """
    lives, answers, out = along.lives, along.answers, []
    starts = np.searchsorted(lives.life, np.arange(len(lives) + 1))
    for life in np.flatnonzero(np.diff(starts) >= LEAST_BOXES).tolist():
        rows = lives.row[starts[life] : starts[life + 1]]
        steps = lives.step[starts[life] : starts[life + 1]]
        sure = rows[answers.score[rows] >= along.rules.confidence]
        label = _majority((int(one) for one in answers.label[sure]), own=None)
        if label is None or label < 0:
            continue
        every = np.arange(steps[0], steps[-1] + 1)
        corners = np.stack([np.interp(every, steps, answers.xyxy[rows, side]) for side in range(4)], axis=1)
        score_at = dict(zip(steps.tolist(), answers.score[rows].tolist(), strict=True))
        for step, (x0, y0, x1, y1) in zip(every.tolist(), corners.tolist(), strict=True):
            frame = int(along.shared.footage.frames[step])
            if frame in frames:
                out.append(_Boxed(frame=frame, label=label, xyxy=(x0, y0, x1, y1), life=life, score=score_at.get(step)))
    return sorted(out, key=lambda one: (one.frame, one.life))


# -- what is written -----------------------------------------------------------------------------------------------


def _safe(text: str) -> str:
    """Return a text as a part of a file name.

    >>> _safe("clips/a b.mp4@12")
    'clips_a_b.mp4_12'
    """
    return re.sub(r"[^\w.-]+", "_", text).strip(".")[-100:] or "_"


def _class_folders(dataset: Dataset) -> list[str]:
    """Return a folder name for each class; classes with the same name also have their id."""
    space = dataset.info.label_space
    names = [_safe(name) for name in space.names]
    many = Counter(name.lower() for name in names)
    return [
        name if many[name.lower()] == 1 else f"{name}-{_safe(label)}"
        for name, label in zip(names, space.ids, strict=True)
    ]


def _file_names(dataset: Dataset, frames: Sequence[int], folders: Mapping[int, str]) -> dict[int, str]:
    """Return the file of each frame: its key, with the suffix of its stored image, or PNG."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    for row in frames:
        media = "" if dataset.frames.recipe[row] else picture_name(str(dataset.frames.media[row]))
        suffix = media[media.rfind(".") :].lower() if media.lower().endswith((".jpg", ".jpeg", ".png")) else ".png"
        stem = _safe(re.sub(r"(?i)\.(jpe?g|png)$", "", str(dataset.frames.key[row])))
        stem = stem if stem.lower() not in taken else f"{stem}~{row}"
        taken.add(stem.lower())
        names[row] = f"{folders[row]}/{stem}{suffix}"
    return names


def _place(dataset: Dataset, row: int) -> Row:
    video, time = int(dataset.frames.video[row]), float(dataset.frames.time_s[row])
    name = str(dataset.videos.name[video]) or str(dataset.videos.video_id[video])
    return {"video": name, "frame": int(dataset.frames.index[row]), "time_s": time if np.isfinite(time) else None}


def _flip_rows(dataset: Dataset, told: Mapping[str, _Told], names: Mapping[int, str]) -> list[Row]:
    return [
        {
            **_place(dataset, flip.after),
            "model": name,
            "event": flip.event,
            "answer_before": flip.answers[0],
            "answer_after": flip.answers[1],
            "confidence_before": flip.confidences[0],
            "confidence_after": flip.confidences[1],
            "file_before": names.get(flip.before, ""),
            "file": names.get(flip.after, ""),
        }
        for name, one in told.items()
        for flip in one.flips
    ]


def _answer_rows(dataset: Dataset, told: Mapping[str, _Told], names: Mapping[int, str]) -> list[Row]:
    rows: list[Row] = []
    for name, one in told.items():
        for answer in one.answers:
            row: Any = answer["row"]
            if row in names:
                rest = {key: value for key, value in answer.items() if key != "row"}
                rows.append({"file": names[row], **_place(dataset, row), "model": name, **rest})
    return rows


def _readme(dataset: Dataset, models: Sequence[str], layout: Layout | None) -> str:
    text = (
        f"# Flips of {', '.join(map(safe_markdown, models))} on {safe_markdown(dataset.name)}\n\n"
        "Frames on which the answer of a model changes, and the frames around them. `flickers.csv` has a row for each "
        "change, and `answers.csv` has the answers on every frame.\n"
    )
    return text if layout is None else f"{text}\n{PSEUDO}\n"


def _coco(dataset: Dataset, told: _Told, names: Mapping[int, str], model: str) -> dict[str, Any]:
    """Return COCO JSON. Images list the category of a classifier (`category_ids`), and annotations have boxes."""
    frames, space = dataset.frames, dataset.info.label_space
    return {
        "info": {"description": f"pseudo-labels of {model} on {dataset.name}", "pseudo_labels": True, "note": PSEUDO},
        "licenses": [],
        "images": [
            {
                "id": row + 1,
                "file_name": name.removeprefix("images/"),
                "width": int(frames.width[row]),
                "height": int(frames.height[row]),
                "video_id": int(frames.video[row]) + 1,
                "frame_id": int(frames.index[row]),
                **({"category_ids": [told.classes[row] + 1]} if row in told.classes else {}),
            }
            for row, name in names.items()
        ],
        "categories": [{"id": index + 1, "name": name} for index, name in enumerate(space.names)],
        "annotations": [
            {
                "id": place + 1,
                "image_id": box.frame + 1,
                "category_id": box.label + 1,
                "bbox": [box.xyxy[0], box.xyxy[1], box.xyxy[2] - box.xyxy[0], box.xyxy[3] - box.xyxy[1]],
                "area": (box.xyxy[2] - box.xyxy[0]) * (box.xyxy[3] - box.xyxy[1]),
                "iscrowd": 0,
                "instance_id": box.life,
                "pseudo_label": True,
                **({"interpolated": True} if box.score is None else {"score": box.score}),
            }
            for place, box in enumerate(told.boxes)
        ],
    }


def _yolo(dataset: Dataset, told: _Told, names: Mapping[int, str]) -> dict[str, str | bytes]:
    """Return a text file for each image (class, centre and size as shares of the image), and pseudo-labels.yaml."""
    lines: dict[int, list[str]] = {row: [] for row in names}
    for box in told.boxes:
        width, height = int(dataset.frames.width[box.frame]), int(dataset.frames.height[box.frame])
        if not width or not height:
            raise StrobeError(f"{printable(dataset.name)} does not record the size of its frames; use <<layout=coco>>")
        x0, x1 = (min(max(box.xyxy[side] / width, 0.0), 1.0) for side in (0, 2))
        y0, y1 = (min(max(box.xyxy[side] / height, 0.0), 1.0) for side in (1, 3))
        numbers = ((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
        lines[box.frame].append(" ".join([str(box.label), *(f"{number:.6f}" for number in numbers)]))
    files: dict[str, str | bytes] = {
        f"labels/{name.removeprefix('images/').rpartition('.')[0]}.txt": "".join(f"{line}\n" for line in lines[row])
        for row, name in names.items()
    }
    classes = "".join(
        f"  {index}: {json_text(name).strip()}\n" for index, name in enumerate(dataset.info.label_space.names)
    )
    files["pseudo-labels.yaml"] = f"# {PSEUDO}\npath: .\ntrain: images\nval: images\nnames:\n{classes}"
    return files
