"""A made-up search of a generator: shapes whose activations were changed from coarse to fine against two models, random
directions of the same size, the way from an image to what was found, and a judge."""

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
TARGETS = ("standard", "linf", "l2")
GRANULARITIES = {"latent": 60, "coarse": 2560, "middle": 10240, "fine": 40960, "pixel": 12288, "all": 66108}
RATIO = {"latent": 1.0, "coarse": 1.05, "middle": 1.4, "fine": 1.6, "pixel": 2.0, "all": 1.2}
KEPT = {"latent": 0.55, "coarse": 0.6, "middle": 0.75, "fine": 0.85, "pixel": 0.97, "all": 0.6}
SIDE = 64
WAY = 5
"""Images on the way from nothing to found."""


def variants(granularities: tuple[str, ...]) -> list[Variant]:
    out = []
    for name in granularities:
        d = GRANULARITIES[name]
        top = float(np.sqrt(d)) * (1.5 if name == "latent" else 0.2)
        levels = tuple(top * 2 ** (-place / 2) for place in range(24, -1, -1))
        for target in TARGETS:
            fields = {"kind": "generator", "granularity": name, "search": "minimal", "neurons": d, "steps": 60}
            same = {"axis": "magnitude", "unit": "std", "levels": levels, "target": Target(name=target)}
            out.append(Variant(variant=f"{name}/{target}", fields=fields, **same))
            control = {"fields": fields | {"control": "random"}, "role": "control"}
            out.append(Variant(variant=f"{name}/{target}/random", **control, **same))
            way = {"fields": fields | {"control": "between"}, "role": "shown"}
            out.append(Variant(variant=f"{name}/{target}/between", **way, **same))
    return out


def study(*, n: int = 24, strips: int = 3, granularities: tuple[str, ...] = tuple(GRANULARITIES)) -> Dataset:
    """`n` images of a generator, each searched at every granularity against every target."""
    rng, made = np.random.default_rng(3), DatasetBuilder()
    every = {one.variant: one for one in variants(granularities)}
    for one in every.values():
        made.variant(one)
    for number in range(n):
        label = number % len(CLASSES)
        source = made.video(video_id=f"{number:016x}", name=f"{CLASSES[label]}/{number:03d}", kind="generated")
        index = iter(range(100_000))

        def frame(key: str, video: int = source, row: int = label, index: Any = index) -> int:
            return made.frame(
                video=video, index=next(index), key=key, labels=[row], size_wh=(SIDE, SIDE), as_input=True
            )

        group = f"{CLASSES[label]}/{number:03d}"
        anchor = frame(f"input/{group}")
        for name in granularities:
            hard = rng.lognormal(0, 0.5)
            for target in TARGETS:
                search = every[f"{name}/{target}"]
                reach = 0.06 * search.levels[-1] * hard * (RATIO[name] if target != "standard" else 1)
                reach *= rng.lognormal(0, 0.15)
                found = reach <= search.levels[-1] * 0.3
                members = [(frame(f"{search.variant}/{group}"), reach)] if found else []
                made.set(
                    set_id=f"{group}@{search.variant}", anchor=anchor, members=members, variant=search.variant,
                    group=group, status="found" if found else "censored",
                    reach=reach if found else search.levels[-1] * 0.3,
                )  # fmt: skip
                for kind in ("random", "between") if found else ():
                    if kind == "between" and number >= strips:
                        continue
                    at = [reach] if kind == "random" else [reach * (i + 1) / (WAY + 1) for i in range(WAY)]
                    way = [(frame(f"{search.variant}/{kind}{i}/{group}"), far) for i, far in enumerate(at)]
                    made.set(
                        set_id=f"{group}@{search.variant}/{kind}", anchor=anchor, members=way,
                        variant=f"{search.variant}/{kind}", group=group,
                    )  # fmt: skip
    info = DatasetInfo(
        name="generated", label_space=LabelSpace.of_names("shapes", CLASSES), k=25, axis="magnitude",
        label_source="anchor", provenance={"made_by": "strobe vary generator"},
    )  # fmt: skip
    return made.build(info)


def answers(dataset: Dataset) -> dict[str, ClassAnswers]:
    """The targets, wrong on what was found for them and now and then on the rest; a judge that goes by granularity."""
    truth = np.zeros(len(dataset.frames), dtype=int)
    truth[dataset.labels.frame] = dataset.labels.label
    sets, rng, out = dataset.sets, np.random.default_rng(5), {}
    names = np.full(len(truth), "", dtype=object)
    member = ~sets.is_anchor
    names[sets.frame[member]] = dataset.variants.variant[sets.variant[sets.set[member]]]
    for name in (*TARGETS, "judge"):
        wrong = np.zeros(len(truth), dtype=bool)
        for row, variant in enumerate(names):
            part = variant.split("/")
            if variant and name == "judge" and len(part) == 2:
                wrong[row] = rng.random() > KEPT[part[0]]
            elif len(part) == 2:
                wrong[row] = part[1] == name or rng.random() < 0.3
            elif len(part) == 3 and part[2] == "random":
                wrong[row] = rng.random() < 0.06
            elif len(part) == 3:
                wrong[row] = part[1] == name and "between4" in str(dataset.frames.key[row])
        scores = rng.normal(size=(len(truth), len(CLASSES))) * 0.3
        scores[np.arange(len(truth)), np.where(wrong, (truth + 1) % len(CLASSES), truth)] += 4
        out[name] = ClassAnswers.from_scores(name, scores, kind="logits")
    return out


class MadeSource:
    """Shapes painted on the spot; the coarser the granularity, the larger the spots by which they change."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.share, self.variant = dataset, {}, {}
        sets = dataset.sets
        reach = {}
        for row, (number, frame, far) in enumerate(zip(sets.set, sets.frame, sets.distance, strict=True)):
            if not sets.is_anchor[row]:
                name = str(dataset.variants.variant[sets.variant[number]])
                self.variant[int(frame)] = name
                key = (int(dataset.frames.video[frame]), name.removesuffix("/between").removesuffix("/random"))
                reach[key] = max(reach.get(key, 0.0), float(far))
                self.share[int(frame)] = (key, float(far))
        self.share = {frame: far / reach[key] for frame, (key, far) in self.share.items()}

    def read(self, row: int) -> np.ndarray:
        from PIL import Image, ImageDraw

        video, label = int(self.dataset.frames.video[row]), self.dataset.labels_of(row)[0]
        rng = np.random.default_rng(video)
        low, high = rng.integers(40, 215, size=(2, 3))
        ramp = np.linspace(0, 1, SIDE)[None, :, None]
        base = np.broadcast_to(low + (high - low) * ramp, (SIDE, SIDE, 3)).astype(np.uint8)
        picture = Image.fromarray(np.ascontiguousarray(base))
        draw = ImageDraw.Draw(picture)
        x, y, fill = int(rng.integers(26, 38)), int(rng.integers(26, 38)), tuple(map(int, rng.integers(0, 255, 3)))
        if label < 2:
            (draw.ellipse, draw.rectangle)[label]((x - 16, y - 16, x + 16, y + 16), fill=fill)
        else:
            draw.polygon([(x, y - 22), (x + 14, y), (x, y + 22), (x - 14, y)], fill=fill)
        spots = {"latent": 4, "coarse": 8, "middle": 16, "fine": 32, "pixel": 64, "all": 8}
        n = spots.get(self.variant.get(row, "pixel").split("/")[0], 8)
        target = self.variant.get(row, "")
        noise = np.random.default_rng([video, n, "random" in target]).normal(size=(n, n, 3)) * 45
        noise = noise.repeat(SIDE // n, axis=0).repeat(SIDE // n, axis=1) * self.share.get(row, 0.0)
        return np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8)

    def read_encoded(self, row: int) -> bytes | None:
        return None


def results(dataset: Dataset, predictions: dict[str, ClassAnswers]) -> Results:
    return decode(Results, strobe.results(dataset, list(predictions.values()), judges=["judge"]))


def report(folder: Path, **options: Any) -> Path:
    """The page of such a study, and the tables beside it."""
    from strobe.report.page import PageOptions, write_report
    from strobe.report.tables import write_tables

    dataset = study(**options)
    predictions = answers(dataset)
    found = results(dataset, predictions)
    folder.mkdir(parents=True, exist_ok=True)
    write_tables(folder, found)
    return write_report(folder, found, dataset, predictions, MadeSource(dataset), PageOptions())
