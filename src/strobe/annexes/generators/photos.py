"""Photos of a dataset as the images of an autoencoder: encode them, and compare each model on photo and reconstruction.

A search starts at the reconstruction of a photo, so what the reconstruction alone changes is measured first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.generators.changing import eight_bits, scales, seed_of
from strobe.annexes.generators.providers import spec_of
from strobe.annexes.generators.samples import PATIENCE, none_right, plain_pixels, right_on, shares_of
from strobe.annexes.generators.sets import Sampled, TriedPhoto
from strobe.annexes.generators.spec import Autoencoder, GeneratorSpec
from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, StrobeError, fitting, printable
from strobe.core.late import require
from strobe.core.ports import FrameSource, Image, Progress
from strobe.models.plan import ImagePlan
from strobe.store.opening import Opened, frame_source
from strobe.vary.search_work import SearchWork
from strobe.workflows.search_bench import LoadedSearch, SearchBench


@dataclass(frozen=True, slots=True, kw_only=True)
class PhotoSource:
    """The dataset of the photos and its images. A photo is the anchor of a set."""

    dataset: Dataset
    source: FrameSource

    @classmethod
    def of(cls, path: Path) -> "PhotoSource":
        """Open the dataset in a folder. Raise an error if it has no images or no labels."""
        dataset = Opened.of(path).dataset
        if not dataset.labelled.any():
            raise StrobeError(f"{printable(path)}: its photos have no labels, so no answer is wrong")
        return cls(dataset=dataset, source=frame_source(dataset))

    def facts(self) -> dict[str, str]:
        """Return which photos these are, for the record."""
        return {"name": self.dataset.name, "frames": self.dataset.frames_digest()}

    def by_class(self, classes: Sequence[int], seed: int) -> dict[int, list[int]]:
        """Return the frames of the photos of each class, in an order that the seed decides.

        A photo with several of these classes is listed under the first. A class without a photo is left out.
        """
        found: dict[int, list[int]] = {label: [] for label in classes}
        for row in np.unique(self.dataset.sets.anchor_frame).tolist():
            mine = [label for label in self.dataset.labels_of(row) if label in found]
            if mine:
                found[mine[0]].append(row)
        keys = self.dataset.frames.key
        for rows in found.values():
            rows.sort(key=lambda row: seed_of(seed, "photo", keys[row]))
        return {label: rows for label, rows in found.items() if rows}

    def read(self, row: int, size_hw: tuple[int, int]) -> Image:
        """Return a photo at the size of the autoencoder's images: its short side resized, its centre cropped."""
        plan = ImagePlan(size_hw=size_hw, resize=min(size_hw))
        image = self.source.read(row)
        return plan.prepare_input(image) if self.dataset.frames.as_input[row] else plan.prepare(image)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reconstructed:
    """A batch of photos: their latents, their reconstructions, and which of both each model gets right, (models, N)."""

    latents: NDArray[np.float32]
    images: NDArray[np.uint8]
    right_photo: NDArray[np.bool_]
    right: NDArray[np.bool_]


def encode_photos(
    bench: SearchBench,
    photos: PhotoSource,
    classes: Sequence[int],
    work: SearchWork,
    *,
    images: int,
    scale_images: int,
    seed: int,
    size: int,
    say: Progress,
) -> tuple[list[NDArray[np.float32]], Sampled]:
    """Return the scale of every neuron over photos, and photos whose reconstruction every model gets right.

    Photos of each class are tried in turn. All tried photos and their reconstructions are stored, so that models can be
    compared on both.
    """
    spec, names = spec_of(bench), [victim.name for victim in bench.victims()]
    queues = photos.by_class(classes, seed)
    if not queues:
        raise StrobeError(f"{printable(photos.dataset.name)}: it has no photo of the requested classes")
    share = shares_of(images, list(queues))
    tried, latents = _Tried(photos, spec, work, names, queues, share), []
    with say.task("photos", images) as advance:
        while rows := tried.next_rows():
            parts = [rows[start : start + size] for start in range(0, len(rows), size)]
            jobs = (_batch(photos, spec, [row for _, row in part]) for part in parts)
            outcomes = dict(bench.map(_reconstruct, jobs))
            for place, part in enumerate(parts):
                latents += list(outcomes[place].latents)
                advance(tried.add(part, outcomes[place]))
    sampled = tried.sampled()
    rest = _more_rows(queues, tried.rows, scale_images - len(latents))
    jobs = (_batch(photos, spec, rest[start : start + size]) for start in range(0, len(rest), size))
    with say.task("scale", min(scale_images, len(latents) + len(rest))) as advance:
        more = dict(bench.map(_encode, jobs))
        latents += [latent for place in sorted(more) for latent in more[place]]
        scale = bench.once(_scale, (np.stack(latents[:scale_images]), size))
        advance(min(scale_images, len(latents)))
    return scale, sampled


class _Tried:
    """The photos tried so far, and the outcome of each."""

    def __init__(
        self,
        photos: PhotoSource,
        spec: GeneratorSpec,
        work: SearchWork,
        names: Sequence[str],
        queues: dict[int, list[int]],
        share: dict[int, int],
    ) -> None:
        self._photos, self._spec, self._work = photos, spec, work
        self._queues, self._share = queues, share
        self._n_tried = dict.fromkeys(queues, 0)
        self._right, self._right_photo = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
        self._kept: dict[int, list[tuple[TriedPhoto, NDArray[np.float32]]]] = {label: [] for label in queues}
        self._others: list[TriedPhoto] = []
        self.rows: set[int] = set()

    def next_rows(self) -> list[tuple[int, int]]:
        """Return the class and frame of the photos to try next, or nothing if no class needs or has another photo."""
        out = []
        for label, queue in self._queues.items():
            first, wanted = self._n_tried[label], self._share[label]
            end = min(first + wanted - len(self._kept[label]), PATIENCE * wanted, len(queue))
            out += [(label, row) for row in queue[first:end]]
            self._n_tried[label] = max(first, end)
        return out

    def add(self, part: Sequence[tuple[int, int]], outcome: _Reconstructed) -> int:
        """Store the photos and reconstructions of a batch. Return how many reconstructions every model gets right."""
        dataset = self._photos.dataset
        for counts, right in ((self._right, outcome.right), (self._right_photo, outcome.right_photo)):
            for name, row in zip(counts, right, strict=True):
                counts[name] += int(row.sum())
        ids = dataset.frame_ids(np.array([row for _, row in part]))
        all_right = np.asarray(outcome.right.all(axis=0), dtype=bool)
        for index, (label, row) in enumerate(part):
            shown = self._photos.read(row, self._spec.image_hw)
            photo = TriedPhoto(
                row=row,
                key=str(dataset.frames.key[row]),
                labels=tuple(dataset.labels_of(row)),
                photo=self._work.store_input(f"{ids[index]} photo", shown),
                image=self._work.store_input(f"{self._spec.weights} {ids[index]}", outcome.images[index]),
            )
            self.rows.add(row)
            if all_right[index]:
                self._kept[label].append((photo, outcome.latents[index]))
            else:
                self._others.append(photo)
        return int(all_right.sum())

    def sampled(self) -> Sampled:
        """Return the photos to search, classes in turn, then the photos that were tried too."""
        total = sum(self._n_tried.values())
        if not any(self._kept.values()):
            raise none_right(self._spec.name, self._right, total)
        # Classes take turns, so that the first images cover all of them.
        kept = [
            (label, *self._kept[label][place])
            for place in range(max(map(len, self._kept.values())))
            for label in self._kept
            if place < len(self._kept[label])
        ]
        ids = self._spec.label_space.ids
        rates = {
            "drawn": total,
            "accepted": len(kept),
            "right": self._right,
            "by_class": {ids[label]: [self._n_tried[label], len(some)] for label, some in self._kept.items()},
            "photos": self._right_photo,
        }
        return Sampled(
            latents=np.stack([latent for _, _, latent in kept]),
            classes=tuple(label for label, _, _ in kept),
            names=tuple(photo.key for _, photo, _ in kept),
            rates=rates,
            photos=(*(photo for _, photo, _ in kept), *self._others),
        )


def _more_rows(queues: dict[int, list[int]], tried: set[int], count: int) -> list[int]:
    """Return up to `count` further photos for the scale, classes in turn."""
    longest = max(map(len, queues.values()))
    every = [queue[place] for place in range(longest) for queue in queues.values() if place < len(queue)]
    return [row for row in every if row not in tried][: max(0, count)]


Pixels = tuple[NDArray[np.uint8], list[tuple[int, ...]]]
"""Photos (N, H, W, 3), and the labels of each."""


def _batch(photos: PhotoSource, spec: GeneratorSpec, rows: Sequence[int]) -> Pixels:
    images = np.stack([photos.read(row, spec.image_hw) for row in rows])
    return images, [tuple(photos.dataset.labels_of(row)) for row in rows]


def _pixels(loaded: LoadedSearch, images: NDArray[np.uint8]) -> Any:
    torch = require("torch", what="a generator", extra="models")
    return torch.from_numpy(images).to(loaded.subject.device).permute(0, 3, 1, 2).float() / 255


def _encode(loaded: LoadedSearch, given: Pixels) -> NDArray[np.float32]:
    """Return the latents of photos."""
    torch, generator = require("torch", what="a generator", extra="models"), loaded.subject
    if not isinstance(generator, Autoencoder):
        raise ModelFailed(f"{printable(generator.spec.name)}: it cannot encode photos")
    with fitting(generator.spec.name, len(given[0])), torch.no_grad():
        latents = generator.encode(_pixels(loaded, given[0])).cpu().numpy()
    if not np.isfinite(latents).all():
        raise ModelFailed(f"{printable(generator.spec.name)}: a photo has a latent that is not finite")
    return np.asarray(latents, dtype=np.float32)


def _reconstruct(loaded: LoadedSearch, given: Pixels) -> _Reconstructed:
    """Encode and decode photos, and ask every model about both."""
    images, labels = given
    latents = _encode(loaded, given)
    made = plain_pixels(loaded.subject, latents, [some[0] for some in labels])
    return _Reconstructed(
        latents=latents,
        images=eight_bits(made),
        right_photo=np.array(right_on(loaded.victims, _pixels(loaded, images), labels)),
        right=np.array(right_on(loaded.victims, made, labels)),
    )


def _scale(loaded: LoadedSearch, given: tuple[NDArray[np.float32], int]) -> list[NDArray[np.float32]]:
    """Return each neuron's standard deviation over the reconstructions of these latents."""
    latents, size = given
    return scales(loaded.subject, latents, batch=size)
