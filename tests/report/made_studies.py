"""A small made-up study of every kind, with images and three made-up models: photos, corruptions, attacks, a
generator, a ladder of backgrounds."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import strobe
from strobe.analyses.results import Results
from strobe.core.answers import ClassAnswers
from strobe.core.builder import DatasetBuilder
from strobe.core.codec import decode
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.variants import Target, Variant

CLASSES = ("ball", "crate", "kite")
MODELS = ("robust", "standard", "other")
N = 24

CORRUPTIONS = (
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "snow",
    "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression",
)  # fmt: skip
EPSILON = (1 / 255, 2 / 255, 4 / 255, 8 / 255, 16 / 255)


def corruption(many: int = 15) -> tuple[list[Variant], str]:
    levels = (1.0, 2.0, 3.0, 4.0, 5.0)
    return [
        Variant(variant=name, axis="severity", levels=levels, fields={"kind": name}) for name in CORRUPTIONS[:many]
    ], "worst"


def attack() -> tuple[list[Variant], str]:
    return [
        Variant(variant=f"{norm}/{name}", axis="epsilon", unit="of 1", levels=EPSILON, fields={"norm": norm},
                target=Target(name=name))
        for norm in ("linf", "l2") for name in ("robust", "standard")
    ], "each"  # fmt: skip


def generator() -> tuple[list[Variant], str]:
    grids = {"latent": (0.25, 0.5, 1.0, 2.0), "layer-3": (1.0, 2.0, 4.0, 8.0), "pixel": (0.01, 0.03, 0.1)}
    return [
        Variant(variant=f"{name}/{target}", axis="magnitude", unit="std", levels=levels,
                fields={"granularity": name, "target": target}, target=Target(name=target))
        for name, levels in grids.items() for target in ("robust", "standard")
    ], "each"  # fmt: skip


def ladder() -> tuple[list[Variant], str]:
    rung = {"axis": "background", "ordered": False}
    return [
        Variant(variant="box", axis="context-factor", levels=(1.0, 1.25, 1.5, 2.0), fields={"rung": "box"}),
        Variant(variant="grey", levels=(1.0,), fields={"fill": "grey"}, estimated=True, **rung),
        Variant(variant="mixed-same", levels=(1.0,), fields={"fill": "same class"}, estimated=True, **rung),
        Variant(variant="mixed-rand", levels=(1.0,), fields={"fill": "random class"}, estimated=True, **rung),
        Variant(variant="zoom", levels=(1.0,), role="control", **rung),
        Variant(variant="only-background", levels=(1.0, 2.0), role="control", **rung),
    ], "each"


STUDIES = {"corruption": corruption, "attack": attack, "generator": generator, "ladder": ladder}


class StudySource:
    """Images painted on the spot: a shape on a ramp, the more disturbed the further from its anchor."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.strength = np.zeros(len(dataset.frames))
        top = max(float(np.abs(dataset.sets.distance).max()), 1e-9)
        np.maximum.at(self.strength, dataset.sets.frame, np.abs(dataset.sets.distance) / top)

    def read(self, row: int) -> np.ndarray:
        from PIL import Image, ImageDraw

        video, label = int(self.dataset.frames.video[row]), self.dataset.labels_of(row)[0]
        rng = np.random.default_rng(video)
        low, high = rng.integers(40, 215, size=(2, 3))
        ramp = np.linspace(0, 1, 200)[None, :, None]
        base = np.broadcast_to(low + (high - low) * ramp, (160, 200, 3)).astype(np.uint8)
        picture = Image.fromarray(np.ascontiguousarray(base))
        draw = ImageDraw.Draw(picture)
        x, y, fill = int(rng.integers(60, 140)), int(rng.integers(60, 100)), tuple(map(int, rng.integers(0, 255, 3)))
        shapes = {0: draw.ellipse, 1: draw.rectangle}
        if label in shapes:
            shapes[label]((x - 40, y - 40, x + 40, y + 40), fill=fill)
        else:
            draw.polygon([(x, y - 50), (x + 36, y), (x, y + 50), (x - 36, y)], fill=fill)
        noise = np.random.default_rng(row).normal(size=(160, 200, 3)) * 70 * self.strength[row]
        return np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8)

    def read_encoded(self, row: int) -> bytes | None:
        return None


def photos(n: int = 40, kind: str = "photo") -> Dataset:
    """Images that stand alone."""
    made = DatasetBuilder()
    for number in range(n):
        source = made.video(video_id=f"{number:016x}", name=f"shapes/{number:03d}.png", kind=kind)
        row = made.frame(video=source, index=0, key=f"{number:03d}.png", labels=[number % 3], size_wh=(200, 160))
        made.set(set_id=f"{number:03d}.png", anchor=row, members=[])
    space = LabelSpace.of_names("shapes", CLASSES)
    return made.build(DatasetInfo(name="my-photos", label_space=space, k=0, axis="none"))


def study(kind: str, *, n: int = N, variants: Sequence[Variant] | None = None) -> Dataset:
    """`n` photos under every variant of the kind, or under these; attacks and generators hold what searches found."""
    every, combine = STUDIES[kind]()
    variants = every if variants is None else variants
    made, rng = DatasetBuilder(), np.random.default_rng(4)
    for variant in variants:
        made.variant(variant)
    for number in range(n):
        source = made.video(video_id=f"{number:016x}", name=f"{number:03d}.png", kind="photo")
        label, size = number % 3, (200, 160)
        anchor = made.frame(video=source, index=0, key=f"{number}/0", labels=[label], size_wh=size)
        index = 1
        for variant in variants:
            levels, more = list(variant.levels), {}
            if variant.target is not None:
                far = 1 + variant.target.name.startswith("robust")
                place = int(rng.integers(0, len(levels) + far)) + far - 1
                status = "anchor_wrong" if rng.random() < 0.15 else "found" if place < len(levels) else "censored"
                status = "failed" if rng.random() < 0.03 else status
                levels = [levels[place]] if status == "found" else []
                reach = levels[0] if levels else variant.levels[-1] if status == "censored" else None
                more = {"status": status, "reach": reach}
            members = []
            for level in levels:
                row = made.frame(
                    video=source, index=index, key=f"{number}/{variant.variant}/{level:g}", labels=[label], size_wh=size
                )
                members.append((row, level))
                index += 1
            made.set(
                set_id=f"{number:03d}/{variant.variant}", anchor=anchor, members=members, variant=variant.variant,
                group=f"{number:03d}", **more,
            )  # fmt: skip
    axes = {variant.axis for variant in variants}
    info = DatasetInfo(
        name=f"{kind}-study", label_space=LabelSpace.of_names("shapes", CLASSES), combine=combine,
        k=max(len(variant.levels) for variant in variants), axis=axes.pop() if len(axes) == 1 else "mixed",
        label_source="anchor",
    )  # fmt: skip
    return made.build(info)


def answers(dataset: Dataset, *, seed: int = 1, reproduced: float = 1.0) -> dict[str, ClassAnswers]:
    """Three models, the worse the more is done to an image; what a search found, its target gets wrong."""
    truth = np.zeros(len(dataset.frames), dtype=int)
    truth[dataset.labels.frame] = dataset.labels.label
    done = StudySource(dataset).strength
    out = {}
    variant_of = np.full(len(dataset.frames), -1)
    members = ~dataset.sets.is_anchor
    variant_of[dataset.sets.frame[members]] = dataset.sets.variant[dataset.sets.set[members]]
    for place, name in enumerate(MODELS):
        rng = np.random.default_rng(seed + place)
        scores = rng.normal(size=(len(truth), len(CLASSES)))
        weight = 1 + 0.8 * np.sin(variant_of + place)
        scores[np.arange(len(truth)), truth] += (3.6, 3.0, 2.6)[place] - (1.6, 3.0, 3.2)[place] * done * weight
        if dataset.variants is not None:
            aimed = np.array([one.target is not None and one.target.name == name for one in dataset.variants] + [False])
            hit = aimed[variant_of] & (rng.random(len(truth)) < reproduced)
            scores[hit, truth[hit]] = -5
        out[name] = ClassAnswers.from_scores(name, scores, kind="logits")
    return out


def results(dataset: Dataset, predictions: dict[str, ClassAnswers]) -> Results:
    """results.json by the project's own score."""
    return decode(Results, strobe.results(dataset, list(predictions.values())))


def whole(kind: str, **options: Any) -> tuple[Dataset, dict[str, ClassAnswers], Results, StudySource]:
    """Everything a report needs of one kind of study; `photos` is one too."""
    dataset = photos() if kind == "photos" else study(kind, **options)
    predictions = answers(dataset)
    return dataset, predictions, results(dataset, predictions), StudySource(dataset)


def report(folder: Path, kind: str, **options: Any) -> Path:
    """The page of one kind of study, and the tables beside it."""
    from strobe.report.page import PageOptions, write_report
    from strobe.report.tables import write_tables

    dataset, predictions, found, source = whole(kind, **options)
    folder.mkdir(parents=True, exist_ok=True)
    write_tables(folder, found)
    return write_report(folder, found, dataset, predictions, source, replace(PageOptions(), picture_px=200))
