"""Draw the latents of a generator, and find out which of its images every model gets right."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.generators.changing import drawn_latents, eight_bits
from strobe.annexes.generators.sets import Sampled
from strobe.annexes.generators.spec import LayeredGenerator
from strobe.core.errors import StrobeError, fitting, printable
from strobe.core.late import require
from strobe.core.ports import Image, Progress
from strobe.vary.pgd import wrong_by
from strobe.workflows.search_bench import LoadedSearch, TargetModel

PATIENCE = 20
"""Number of latents or photos to try for one image that every model gets right, before a class is skipped."""


def shares_of(images: int, classes: Sequence[int]) -> dict[int, int]:
    """Return the number of images of each class. The first classes have one more if the number is uneven.

    >>> shares_of(5, [3, 7])
    {3: 3, 7: 2}
    """
    many = len(classes)
    return {label: images // many + (index < images % many) for index, label in enumerate(classes)}


def draw_latents(
    generator: LayeredGenerator,
    victims: Sequence[TargetModel],
    classes: Sequence[int],
    *,
    images: int,
    seed: int,
    size: int,
    say: Progress,
) -> Sampled:
    """Draw latents of each class in turn, and keep those whose stored image every model gets right."""
    spec = generator.spec
    share = shares_of(images, classes)
    samples: dict[int, list[tuple[str, NDArray[np.float32]]]] = {label: [] for label in classes}
    n_drawn, right = dict.fromkeys(classes, 0), {victim.known.name: 0 for victim in victims}
    accepted = dict.fromkeys(classes, 0)
    with say.task("latents", images) as advance:
        while True:
            candidates = []
            for label in classes:
                first, room = n_drawn[label], PATIENCE * share[label] - n_drawn[label]
                n_drawn[label] += max(0, min(share[label] - len(samples[label]), room))
                key = spec.label_space.ids[label]
                candidates += [(label, f"{key}/{number:05d}") for number in range(first, n_drawn[label])]
            if not candidates:
                break
            for start in range(0, len(candidates), size):
                batch = candidates[start : start + size]
                latents = drawn_latents(spec, seed, [key for _, key in batch])
                seen = seen_right(generator, victims, latents, [label for label, _ in batch])
                for victim, is_right in zip(victims, seen, strict=True):
                    right[victim.known.name] += int(is_right.sum())
                for place in np.flatnonzero(np.all(seen, axis=0)).tolist():
                    label, key = batch[place]
                    accepted[label] += 1
                    samples[label].append((key, latents[place]))
                    advance(1)
    total = sum(n_drawn.values())
    if not any(samples.values()):
        raise none_right(spec.name, right, total)
    # Classes take turns, so that the first images cover all of them.
    rows = [(label, *samples[label][place]) for place in range(max(share.values())) for label in classes
            if place < len(samples[label])]  # fmt: skip
    rates = {
        "drawn": total, "accepted": sum(accepted.values()), "right": right,
        "by_class": {spec.label_space.ids[label]: [n_drawn[label], accepted[label]] for label in classes},
    }  # fmt: skip
    return Sampled(
        latents=np.stack([latent for _, _, latent in rows]), classes=tuple(label for label, _, _ in rows),
        names=tuple(key for _, key, _ in rows), rates=rates,
    )  # fmt: skip


def seen_right(
    generator: LayeredGenerator, victims: Sequence[TargetModel], latents: NDArray[np.float32], labels: Sequence[int]
) -> list[NDArray[np.bool_]]:
    """Return which images each model gets right."""
    return right_on(victims, plain_pixels(generator, latents, labels), [[label] for label in labels])


def right_on(victims: Sequence[TargetModel], image: Any, labels: Sequence[Sequence[int]]) -> list[NDArray[np.bool_]]:
    """Return which images (N, 3, H, W) in [0, 1] each model gets right, as stored in 8 bits."""
    torch = require("torch", what="a generator", extra="models")
    out = []
    for victim in victims:
        truth = torch.from_numpy(victim.known.truth(labels))
        with fitting(victim.known.name, len(labels)), torch.no_grad():
            scores = victim.scores((image * 255).round().to(victim.model.device) / 255)
        out.append((wrong_by(scores.cpu(), truth) < 0).numpy())
    return out


def plain_pixels(generator: LayeredGenerator, latents: NDArray[np.float32], labels: Sequence[int]) -> Any:
    """Return unchanged images, (N, 3, H, W) in [0, 1]."""
    torch = require("torch", what="a generator", extra="models")
    with fitting(generator.spec.name, len(labels)), torch.no_grad():
        activation = torch.from_numpy(np.ascontiguousarray(latents)).to(generator.device)
        classes = torch.tensor(list(labels), dtype=torch.long, device=generator.device)
        condition = generator.condition(activation, classes)
        for step in range(len(generator.spec.steps)):
            activation = generator.run(step, activation, condition)
        return activation.clamp(0, 1).expand(-1, 3, -1, -1)


def images_of(loaded: LoadedSearch, size: int) -> list[Image]:
    """Return the unchanged images of all sampled latents, made in batches of this size."""
    generator, sampled = loaded.subject, loaded.context.sampled
    out: list[Image] = []
    for start in range(0, len(sampled.names), size):
        rows = slice(start, start + size)
        out.extend(eight_bits(plain_pixels(generator, sampled.latents[rows], sampled.classes[rows])))
    return out


def none_right(name: str, right: Mapping[str, int], total: int) -> StrobeError:
    """Return the error for models of which no image is right under all."""
    each = ", ".join(f"{printable(model)} {many / total:.0%}" for model, many in right.items())
    return StrobeError(
        f"{printable(name)}: no image of {total} is classified correctly by every model ({each}); do these models "
        "match the generator?"
    )


def rates_text(sampled: Sampled) -> str:
    """Return one line with the share of images that each model got right.

    For photos, the line says first what the reconstruction alone does to each model.
    """
    rates = sampled.rates
    total, right = rates["drawn"], rates["right"]
    last = f"by all models {rates['accepted'] / total:.1%}; {len(sampled.names):,} kept"
    if not sampled.photos:
        each = [f"{printable(name)} {many / total:.1%}" for name, many in right.items()]
        return f"latents: {total:,} drawn; right by {', '.join(each)}, {last}"
    each = [
        f"{printable(name)} is right on {rates['photos'][name] / total:.1%} of the photos and on {many / total:.1%} of "
        "their reconstructions"
        for name, many in right.items()
    ]
    return f"reconstruction alone, {total:,} photos: {'; '.join(each)}; {last}"


def short_of(sampled: Sampled, images: int) -> Iterator[str]:
    """Yield a line for each class that has too few images."""
    by_class = sampled.rates["by_class"]
    for label, (drawn, accepted) in by_class.items():
        if accepted < images // len(by_class):
            yield (
                f"{label}: every model is right on only {accepted} of {drawn} drawn images, so this class has "
                f"fewer images"
            )
