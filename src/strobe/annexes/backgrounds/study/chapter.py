"""Single images on every rung of the ladder, with the models' answers."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.backgrounds.study.words import (
    AT_SCALE,
    LadderView,
    class_lines,
    intro,
    number_lines,
)
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.arrays import Bools
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, Image
from strobe.report.gallery import data_uri
from strobe.report.wording import join

MOST_OF_A_KIND = 3
"""The most images of each kind on the page."""

MOST_MODELS = 4
"""The most models whose answers are shown under an image."""

LONGEST_PX = 168
"""The size of an image on the page."""

BIGGER = ("crop", "tight")
"""Rungs on which the object is larger."""

KINDS = {
    "ground": "Wrong when the background changes",
    "size": "Wrong when whole, right when cropped",
    "calm": "Right on every rung",
    "lost": "Wrong on every rung",
}
"""The reasons for showing an image, in the order of the page."""

ALL = {"calm": 1.0, "lost": 0.0}
"""The share of rungs on which every model is right, for the reasons that apply to all models."""


def background_chapter(
    dataset: Dataset, found: LadderView | None, source: FrameSource | None, answers: Mapping[str, Answers]
) -> dict[str, object] | None:
    """Return the content of the chapter on a ladder of backgrounds, except its figures.

    Return None without a ladder.
    """
    if found is None:
        return None
    return {
        "strips": ladder_strips(dataset, found, source, answers),
        "tables": [*number_lines(found), *class_lines(found)],
        "intro": intro(found),
        "estimated": found.has_estimates,
    }


def ladder_strips(
    dataset: Dataset, found: LadderView, source: FrameSource | None, answers: Mapping[str, Answers]
) -> list[dict[str, object]]:
    """Return images for three cases: the background matters most, magnification matters most, or neither matters."""
    models = {name: one for name in found.models if isinstance(one := answers.get(name), ClassAnswers)}
    models = dict(list(models.items())[:MOST_MODELS])
    if source is None or dataset.variants is None or not models:
        return []
    frames, truth = _frames(dataset, found)
    right = np.stack([_right(model, frames, truth) for model in models.values()])
    out = []
    try:
        for kind, rows in _chosen(found, truth, right).items():
            for row, places in rows.items():
                who = join([printable(name) for index, name in enumerate(models) if index in places])
                out.append(_strip(dataset, found, source, models, frames[row], kind, who))
    except StrobeError:  # an image is missing: the gallery reports which and why
        return []
    return out


def _frames(dataset: Dataset, found: LadderView) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every image's frame on every rung, (P, rungs), with −1 for a missing frame, and every image's labels,
    (largest number of labels, P).
    """
    sets, variants = dataset.sets, dataset.variants
    groups, first, picture = np.unique(sets.group.astype(str), return_index=True, return_inverse=True)
    out = np.full((len(groups), len(found.steps)), -1, dtype=np.int64)
    out[:, 0] = sets.anchor_frame[first]
    names = [] if variants is None else variants.variant.tolist()
    for index, step in enumerate(found.steps[1:], start=1):
        of = sets.variant[sets.set] == names.index(step.variant)
        at = np.flatnonzero(of & ~sets.is_anchor & (np.abs(sets.distance - (step.level or 0.0)) < 1e-6))
        out[picture[sets.set[at]], index] = sets.frame[at]
    return out, dataset.right_labels[:, np.flatnonzero(sets.is_anchor)[first]].astype(np.int64)


def _right(answers: ClassAnswers, frames: NDArray[np.int64], truth: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return 1 for a right answer, 0 for a wrong answer, and NaN for a missing answer.

    A rung is scored with the labels of its image.
    """
    right = (answers.label[frames][None] == truth[:, :, None]).any(axis=0)
    return np.where((frames >= 0) & answers.scored[frames], right, np.nan)


def _chosen(
    found: LadderView, truth: NDArray[np.int64], right: NDArray[np.float64]
) -> dict[str, dict[int, tuple[int, ...]]]:
    """Return the images of each kind, of different classes if possible, and the indices of the models to which the
    reason applies.

    `right` is (models, P, rungs).
    """
    rungs = [str(step.facts.fields.get("rung", step.variant)) if step.facts else "" for step in found.steps]
    same = np.array([not step.is_control for step in found.steps])
    whole = right[:, :, :1]
    ground = _mean(whole - right[:, :, np.isin(rungs, AT_SCALE)])
    bigger = _mean(right[:, :, np.isin(rungs, BIGGER)] - whole)
    every = _mean(right[:, :, same])
    ranked = {"ground": ground, "size": bigger, "calm": every, "lost": every}
    taken: set[int] = set()
    out: dict[str, dict[int, tuple[int, ...]]] = {}
    for kind, each in ranked.items():
        score = np.where(np.isfinite(each), each, 0).mean(axis=0)
        fits = score > 0 if kind in ("ground", "size") else (each == ALL[kind]).all(axis=0)
        most = MOST_OF_A_KIND if kind != "lost" else 1
        rows = _one_of_each(truth, score, fits, taken, most)
        out[kind] = {
            row: tuple(np.flatnonzero(each[:, row] > 0).tolist()) if kind in ("ground", "size") else () for row in rows
        }
        taken |= set(rows)
    return out


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the known values over the rungs, (models, P), or NaN if no value is known."""
    known = np.isfinite(values)
    n = known.sum(axis=2)
    return np.asarray(np.divide(np.where(known, values, 0).sum(axis=2), n, out=np.full(n.shape, np.nan), where=n > 0))


def _one_of_each(
    truth: NDArray[np.int64], score: NDArray[np.float64], fits: Bools, taken: set[int], most: int
) -> list[int]:
    order = [
        row
        for row in np.argsort(-np.nan_to_num(score, nan=-9), kind="stable").tolist()
        if fits[row] and row not in taken
    ]
    out: list[int] = []
    seen: set[tuple[int, ...]] = set()
    for again in (False, True):
        for row in order:
            if len(out) == most:
                break
            labels = tuple(truth[:, row].tolist())
            if row not in out and (again or labels not in seen):
                out.append(row)
                seen.add(labels)
    return out


def _strip(
    dataset: Dataset,
    found: LadderView,
    source: FrameSource,
    models: Mapping[str, ClassAnswers],
    frames: NDArray[np.int64],
    kind: str,
    who: str,
) -> dict[str, object]:
    anchor = int(frames[0])
    labels, names = dataset.labels_of(anchor), dataset.info.label_space.names
    cards = [
        {"step": step, "image": _data(source.read(frame)), "said": _answers(found, models, frame, labels, names)}
        for step, frame in zip(found.steps, frames.tolist(), strict=True)
        if frame >= 0
    ]
    return {
        "kind": KINDS[kind],
        "models": who,
        "name": printable(dataset.frames.key[anchor], limit=60),
        "truth": " / ".join(printable(names[label]) for label in labels),
        "cards": cards,
    }


def _answers(
    found: LadderView, models: Mapping[str, ClassAnswers], frame: int, labels: Sequence[int], names: Sequence[str]
) -> list[dict[str, object]]:
    """Return each model's answer: its colour, the class, its confidence (or an empty text), and whether it is right."""
    out: list[dict[str, object]] = []
    for index, name in enumerate(found.models):
        if name not in models or not models[name].scored[frame]:
            continue
        label, sure = int(models[name].label[frame]), float(models[name].confidence[frame])
        out.append(
            {
                "place": index + 1,
                "model": printable(name),
                "right": label in labels,
                "name": "no class" if label < 0 else printable(names[label], limit=40),
                "sure": f"{100 * sure:.0f}\N{NO-BREAK SPACE}%" if np.isfinite(sure) and label >= 0 else "",
            }
        )
    return out


def _data(image: Image) -> str:
    """Return a small image as a data URI."""
    from PIL import Image as Pictures

    picture = Pictures.fromarray(image)
    if max(picture.size) > LONGEST_PX:
        picture.thumbnail((LONGEST_PX, LONGEST_PX), Pictures.Resampling.LANCZOS)
    return data_uri(picture, quality=82)
