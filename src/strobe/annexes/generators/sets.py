"""Generated images as a dataset with one source per latent, and the variants of searches in a generator."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.generators.search import GeneratorSearchOptions
from strobe.annexes.generators.spec import GeneratorSpec
from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.variants import Target, Variant
from strobe.vary.searched_sets import Stored

AXIS, UNIT = "magnitude", "std"

PHOTO = "photo"
"""The name of the variant that compares reconstructions with their photos."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSearchPlan:
    """One variant: the generator layers that change together, the attacked model, the grid and the search settings.

    `aim` is `untargeted`, `runner-up` or a class of the generator. `generator` is the digest of its weights. `scale` is
    the digest of the standard deviations in which the magnitude M is measured. `strips` is the number of images for
    which the path to the finding is kept.
    """

    target: Target
    granularity: str
    places: tuple[int, ...]
    layers: tuple[str, ...]
    neurons: int
    levels: tuple[float, ...]
    how: GeneratorSearchOptions
    generator: str
    weights: str
    scale: str
    aim: str = "untargeted"
    strips: int = 8
    keep: bool = True

    @property
    def name(self) -> str:
        """The variant's name."""
        return f"{self.granularity}/{self.target.name}"

    def to_json(self) -> dict[str, Any]:
        """Return everything that determines the findings, as plain JSON."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self), default=dict))
        return found

    def _fields(self) -> dict[str, Any]:
        return {
            "kind": "generator",
            "granularity": self.granularity,
            "layers": list(self.layers),
            "neurons": self.neurons,
            "search": self.how.search,
            "aim": self.aim,
            "steps": self.how.n_steps,
            "restarts": self.how.restarts,
            "margin": self.how.margin,
            "seed": self.how.seed,
            "generator": self.generator,
            "generator_weights": self.weights,
            "scale": self.scale,
        }

    def variant(self) -> Variant:
        """Return the variant, with everything needed to reproduce its findings."""
        return Variant(
            variant=self.name, axis=AXIS, unit=UNIT, levels=self.levels, target=self.target, fields=self._fields()
        )

    def beside(self) -> Mapping[str, Variant]:
        """The companion variants: a random direction of the same magnitude, and the path to the finding."""
        random = Variant(
            variant=f"{self.name}/random",
            axis=AXIS,
            unit=UNIT,
            levels=self.levels,
            target=self.target,
            role="control",
            fields={**self._fields(), "control": "random"},
        )
        between = Variant(
            variant=f"{self.name}/between",
            axis=AXIS,
            unit=UNIT,
            levels=self.levels,
            target=self.target,
            role="shown",
            fields=self._fields(),
        )
        return {"random": random, "between": between}


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPhoto:
    """A photo at the size of an autoencoder's images, and its reconstruction.

    `row` is its frame in the dataset of the photos, with its key and labels.
    """

    row: int
    key: str
    labels: tuple[int, ...]
    photo: Stored
    image: Stored


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sampled:
    """Latents that every compared model classifies correctly, (N, latent_size), with the class and name of each.

    `rates` counts the sampled latents, and those that each model and all models classify correctly. If the latents are
    encoded photos, `photos` has these photos in order, and then the photos that some model gets wrong.
    """

    latents: NDArray[np.float32]
    classes: tuple[int, ...]
    names: tuple[str, ...]
    rates: Mapping[str, Any]
    photos: tuple[TriedPhoto, ...] = ()

    @property
    def labels(self) -> list[tuple[int, ...]]:
        """The labels of each latent: its class, or all labels of its photo."""
        return [photo.labels for photo in self.photos[: len(self.names)]] or [(label,) for label in self.classes]


def generated_dataset(spec: GeneratorSpec, sampled: Sampled, pictures: Sequence[Stored], *, name: str) -> Dataset:
    """Return the dataset. Every latent is its own source with one image, labelled by the class it was generated for."""
    grown = DatasetBuilder()
    for row, (label, key) in enumerate(zip(sampled.classes, sampled.names, strict=True)):
        latent = sampled.latents[row].tobytes().hex()
        video = grown.video(video_id=frame_list_digest([spec.weights, str(label), latent]), name=key, kind="generated")
        picture = pictures[row]
        frame = grown.frame(
            video=video,
            index=0,
            key=key,
            media=picture.media,
            sha256=picture.sha256,
            size_wh=picture.size_wh,
            as_input=True,
            labels=[label],
        )
        grown.set(set_id=key, anchor=frame, members=[])
    return grown.build(DatasetInfo(name=name, label_space=spec.label_space, k=0, axis=AXIS, label_source="anchor"))


def photo_dataset(photos: Dataset, sampled: Sampled, *, name: str) -> Dataset:
    """Return the dataset of the tried photos: the reconstructions, with the labels and sources of the photos."""
    grown, rows = DatasetBuilder(), {}
    for photo in sampled.photos:
        video = int(photos.frames.video[photo.row])
        if video not in rows:
            rows[video] = grown.video_of(photos.videos, video)
        frame = grown.frame(
            video=rows[video],
            index=int(photos.frames.index[photo.row]),
            key=photo.key,
            media=photo.image.media,
            sha256=photo.image.sha256,
            size_wh=photo.image.size_wh,
            as_input=True,
            labels=photo.labels,
        )
        grown.set(set_id=photo.key, anchor=frame, members=[])
    info = DatasetInfo(
        name=name,
        label_space=photos.info.label_space,
        k=0,
        axis=AXIS,
        label_source="anchor",
        licence=photos.info.licence,
    )
    return grown.build(info)


def photo_variant(spec: GeneratorSpec) -> Variant:
    """Return the variant of the photos themselves, a control: the anchors are their reconstructions."""
    fields = {"kind": PHOTO, "generator": spec.name, "generator_weights": spec.weights}
    return Variant(variant=PHOTO, axis=PHOTO, levels=(1.0,), role="control", ordered=False, fields=fields)
