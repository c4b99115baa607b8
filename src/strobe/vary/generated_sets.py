"""Generated images as a dataset, one source per latent, and what a search in a generator's activations is called."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.generators import GeneratorSpec
from strobe.core.variants import Target, Variant
from strobe.vary.generator_search import GeneratorSearchOptions
from strobe.vary.searched_sets import Stored

__all__ = ["AXIS", "GeneratorSearchPlan", "Sampled", "generated_dataset"]

AXIS, UNIT = "magnitude", "std"


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSearchPlan:
    """One variant: the places of a generator that change together, against a model, the grid and how it is searched.

    `aim` is `untargeted`, `runner-up` or a class of the generator; `generator` the digest of its weights, `scale` that
    of the standard deviations that M counts in; `strips`: of how many images the way to what was found is kept.
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
        """What the variant is called."""
        return f"{self.granularity}/{self.target.name}"

    def to_json(self) -> dict[str, Any]:
        """Everything that decides what is found, as plain JSON."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self), default=dict))
        return found

    def _fields(self) -> dict[str, Any]:
        return {
            "kind": "generator", "granularity": self.granularity, "layers": list(self.layers),
            "neurons": self.neurons, "search": self.how.search, "aim": self.aim, "steps": self.how.n_steps,
            "restarts": self.how.restarts, "margin": self.how.margin, "seed": self.how.seed,
            "generator": self.generator, "generator_weights": self.weights, "scale": self.scale,
        }  # fmt: skip

    def variant(self) -> Variant:
        """The variant, with everything that makes its findings again."""
        return Variant(
            variant=self.name, axis=AXIS, unit=UNIT, levels=self.levels, target=self.target, fields=self._fields()
        )

    def beside(self) -> Mapping[str, Variant]:
        """A random direction of the magnitude found, to compare with; the way to what was found, to look at."""
        random = Variant(
            variant=f"{self.name}/random", axis=AXIS, unit=UNIT, levels=self.levels, target=self.target,
            role="control", fields={**self._fields(), "control": "random"},
        )  # fmt: skip
        between = Variant(
            variant=f"{self.name}/between", axis=AXIS, unit=UNIT, levels=self.levels, target=self.target, role="shown",
            fields=self._fields(),
        )  # fmt: skip
        return {"random": random, "between": between}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sampled:
    """Latents that every compared model gets right, (N, latent_size); the class and the name of each; how many of
    those drawn each model got right, and all of them.
    """

    latents: NDArray[np.float32]
    classes: tuple[int, ...]
    names: tuple[str, ...]
    rates: Mapping[str, Any]


def generated_dataset(spec: GeneratorSpec, sampled: Sampled, pictures: Sequence[Stored], *, name: str) -> Dataset:
    """Every latent a source of its own with one image, labelled by the class it was made for."""
    grown = DatasetBuilder()
    for row, (label, key) in enumerate(zip(sampled.classes, sampled.names, strict=True)):
        latent = sampled.latents[row].tobytes().hex()
        video = grown.video(
            video_id=frame_list_digest([spec.weights, str(label), latent]), name=key, kind="generated"
        )  # fmt: skip
        picture = pictures[row]
        frame = grown.frame(
            video=video, index=0, key=key, media=picture.media, sha256=picture.sha256, size_wh=picture.size_wh,
            as_input=True, labels=[label],
        )  # fmt: skip
        grown.set(set_id=key, anchor=frame, members=[])
    return grown.build(DatasetInfo(name=name, label_space=spec.label_space, k=0, axis=AXIS, label_source="anchor"))
