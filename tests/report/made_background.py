"""A made-up ladder of backgrounds: shapes on four grounds, every rung of the seam painted on the spot, and three models
whose accuracy on every rung is set here: one that looks at the ground, one at the object, and boxes with gaps."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import strobe
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Results
from strobe.core.answers import ClassAnswers
from strobe.core.builder import DatasetBuilder
from strobe.core.codec import decode
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.variants import Variant
from strobe.studies.variants.score_contrasts import ByVariant

CLASSES = ("ball", "crate", "kite", "ring")
GROUNDS = ((194, 168, 116), (74, 128, 62), (58, 96, 150), (150, 150, 158))
SIDE = 96
CONTEXTS = (1.0, 1.25, 1.5, 2.0)
MASKED = ("grey", "blur", "plain", "same", "other", "object", "tight", "removed", "ground")

RATES: Mapping[str, Mapping[str, float]] = {
    "ground-net": {
        "anchor": 0.92, "usual": 0.93, "zoom": 0.8, "random": 0.7, "crop": 0.6, "grey": 0.45, "blur": 0.8, "plain": 0.4,
        "same": 0.9, "other": 0.3, "object": 0.42, "tight": 0.45, "removed": 0.85, "ground": 0.85,
    },
    "object-net": {
        "anchor": 0.75, "usual": 0.72, "zoom": 0.74, "random": 0.4, "crop": 0.94, "grey": 0.74, "blur": 0.76,
        "plain": 0.72, "same": 0.75, "other": 0.74, "object": 0.7, "tight": 0.94, "removed": 0.25, "ground": 0.25,
    },
    "boxes:strobe-tiny": {
        "anchor": 0.8, "usual": 0.8, "zoom": 0.78, "random": 0.45, "crop": 0.85, "grey": 0.78, "blur": 0.79,
        "plain": 0.77, "same": 0.8, "other": 0.79, "object": 0.75, "tight": 0.85, "removed": 0.1, "ground": 0.05,
    },
}  # fmt: skip


def variants(*, masks: bool = True, estimated: bool = False, contexts: tuple[float, ...] = CONTEXTS) -> list[Variant]:
    said = {"kind": "background", "fit": "squash", "boxes": "true"}
    guess = {"masks": "estimated:u2netp" if estimated else "true"}

    def one(rung: str, role: Any = "same") -> Variant:
        by_mask = rung in MASKED
        return Variant(
            variant=rung, axis="rung", levels=(1.0,), ordered=False, role=role, estimated=estimated and by_mask,
            fields={**said, "rung": rung, **(guess if by_mask else {})},
        )  # fmt: skip

    crop = Variant(
        variant="crop", axis="context", unit="x", levels=contexts, ordered=False, fields={**said, "rung": "crop"}
    )
    out = [one("zoom"), one("random"), crop]
    out += [one(rung) for rung in MASKED[:7]] if masks else []
    out += [one(rung, "control") for rung in MASKED[7:]] if masks else []
    return [*out, one("usual", "control")]


def ladder(n: int = 80, *, absent: Mapping[str, int] | None = None, **how: Any) -> Dataset:
    """`n` images with every rung; of the rungs in `absent` only every so many-th image has none."""
    made = DatasetBuilder()
    every = variants(**how)
    for variant in every:
        made.variant(variant)
    for number in range(n):
        label, key = number % len(CLASSES), f"{CLASSES[number % len(CLASSES)]}/{number:03d}.png"
        source = made.video(video_id=f"{number:016x}", name=key, kind="photo")
        same = {"video": source, "labels": [label], "size_wh": (SIDE, SIDE), "as_input": True}
        anchor, index = made.frame(index=0, key=key, **same), 1
        for variant in every:
            members = []
            for level in variant.levels:
                name = f"crop-{level:g}" if variant.variant == "crop" else variant.variant
                members.append((made.frame(index=index, key=f"{name}/{key}", **same), level))
                index += 1
            if variant.variant in (absent or {}) and number % (absent or {})[variant.variant] == 0:
                continue
            made.set(
                set_id=f"{key}@{variant.variant}", anchor=anchor, members=members, variant=variant.variant, group=key
            )
    info = DatasetInfo(
        name="shapes-ladder", label_space=LabelSpace.of_names("shapes", CLASSES), axis="mixed",
        k=max(len(one.levels) for one in every),
        label_source="anchor", combine="each",
    )  # fmt: skip
    return made.build(info)


def areas(dataset: Dataset) -> dict[str, float]:
    """The share of an image that its object takes: the larger the later, in no order of the classes."""
    names = sorted(set(dataset.sets.group.tolist()))
    return {name: 0.02 + 0.5 * place / len(names) for place, name in enumerate(names)}


def answers(dataset: Dataset, models: tuple[str, ...] = tuple(RATES)) -> dict[str, ClassAnswers]:
    """Three models, right on a rung as often as RATES says; a wider crop is nearer the whole; boxes miss some."""
    truth = np.zeros(len(dataset.frames), dtype=int)
    truth[dataset.labels.frame] = dataset.labels.label
    rung = [key.split("/")[0] if key.count("/") > 1 else "anchor" for key in dataset.frames.key]
    out = {}
    for place, model in enumerate(models):
        rng = np.random.default_rng(place)
        hard = rng.random(len(dataset.videos))[dataset.frames.video]  # a hard image is hard on every rung
        rates = RATES[model]
        far = np.array([float(name[5:]) - 1 if name.startswith("crop-") else 0.0 for name in rung])
        rate = np.array([rates["crop" if name.startswith("crop-") else name] for name in rung])
        rate = rate + (rates["anchor"] - rate) * far
        right = 0.75 * hard + 0.25 * rng.random(len(truth)) < rate
        label = np.where(right, truth, (truth + 1 + rng.integers(0, 3, len(truth))) % len(CLASSES))
        scores = rng.random((len(truth), len(CLASSES)))
        scores[np.arange(len(truth)), label] += 1.2 + rng.random(len(truth))
        found = ClassAnswers.from_scores(model, scores, kind="logits")
        if model.startswith("boxes"):
            missed = ~right & (rng.random(len(truth)) < 0.5)
            found = ClassAnswers.from_labels(model, np.where(missed, -1, label))
        out[model] = found
    return out


def results(dataset: Dataset, predictions: Mapping[str, ClassAnswers], *, sized: bool = True) -> Results:
    """results.json by the project's own score, and the sizes of the objects beside it."""
    found = decode(Results, strobe.results(dataset, list(predictions.values())))
    by_size = ByVariant(dataset, ScoreOptions(), areas=areas(dataset) if sized else {})
    return replace(found, models={name: by_size.add(found.models[name], one) for name, one in predictions.items()})


class LadderSource:
    """The rungs painted on the spot: a shape on the ground of its class, and what each rung makes of it."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def _ground(self, label: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        waves = np.sin(np.add.outer(np.arange(SIDE) / (3 + label), np.arange(SIDE) * (label - 1) / 7))
        grain = rng.normal(size=(SIDE, SIDE, 1)) * 9 + waves[..., None] * 14
        return np.clip(np.array(GROUNDS[label]) + grain, 0, 255).astype(np.uint8)

    def _mask(self, label: int, box: tuple[int, int, int, int]) -> np.ndarray:
        mask = Image.new("L", (SIDE, SIDE))
        draw = ImageDraw.Draw(mask)
        x0, y0, x1, y1 = box
        middle = ((x0 + x1) / 2, (y0 + y1) / 2)
        if label == 1:
            draw.rectangle(box, fill=255)
        elif label == 2:
            draw.polygon([(middle[0], y0), (x1, middle[1]), (middle[0], y1), (x0, middle[1])], fill=255)
        else:
            draw.ellipse(box, fill=255)
        if label == 3:
            draw.ellipse((x0 + 8, y0 + 8, x1 - 8, y1 - 8), fill=0)
        return np.asarray(mask) > 127

    def read(self, row: int) -> np.ndarray:
        key = str(self.dataset.frames.key[row])
        rung = key.split("/")[0] if key.count("/") > 1 else "anchor"
        video, label = int(self.dataset.frames.video[row]), self.dataset.labels_of(row)[0]
        rng = np.random.default_rng(video)
        side, x, y = (int(one) for one in rng.integers((24, 6, 6), (44, 48, 48)))
        box = (x, y, x + side, y + side)
        mask, colour = self._mask(label, box)[..., None], np.array([220, 70 + video % 90, 60], dtype=np.uint8)
        ground = self._ground(label, video)
        if rung in ("same", "other"):
            ground = self._ground(label if rung == "same" else (label + 1 + video % 3) % 4, video + 999)
        picture = np.where(mask, colour, ground)
        fills = {"grey": 128, "plain": np.array([180, 140, 200]), "object": 0, "tight": 128}
        if rung in fills:
            picture = np.where(mask, picture, fills[rung])
        if rung == "blur":
            flat = Image.fromarray(ground).resize((6, 6)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
            picture = np.where(mask, picture, np.asarray(flat))
        if rung in ("removed", "ground"):
            picture = ground
        whole = Image.fromarray(picture.astype(np.uint8))
        if rung.startswith("crop") or rung == "tight":
            more = side * (float(rung[5:]) - 1) / 2 if rung != "tight" else 0
            cut = (max(x - more, 0), max(y - more, 0), min(x + side + more, SIDE), min(y + side + more, SIDE))
            whole = whole.resize((SIDE, SIDE), box=cut)
        if rung in ("zoom", "random"):
            left, top = ((SIDE - side) / 2,) * 2 if rung == "zoom" else rng.integers(0, SIDE - side, 2)
            whole = whole.resize((SIDE, SIDE), box=(left, top, left + side, top + side))
        return np.asarray(whole)

    def read_encoded(self, row: int) -> bytes | None:
        return None


def report(folder: Path, dataset: Dataset | None = None, *, models: tuple[str, ...] = tuple(RATES)) -> Path:
    """The page of the ladder, and the tables beside it."""
    from strobe.report.page import write_report
    from strobe.report.tables import write_tables

    dataset = ladder() if dataset is None else dataset
    predictions = answers(dataset, models)
    found = results(dataset, predictions)
    folder.mkdir(parents=True, exist_ok=True)
    write_tables(folder, found)
    return write_report(folder, found, dataset, predictions, LadderSource(dataset))
