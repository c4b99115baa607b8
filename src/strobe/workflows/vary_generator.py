"""`strobe vary generator`: make images with a generator, and find the smallest changes of its activations that make
models err.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, ModelFailed, StrobeError, expect, fitting, printable
from strobe.core.generators import GeneratorSpec
from strobe.core.late import require
from strobe.core.locks import writes
from strobe.core.ports import Image, LayeredGenerator, Progress, Silent
from strobe.engine.running import ExecutorOptions
from strobe.models.options import LoadOptions
from strobe.store import dataset_folder as folder
from strobe.store.making import finish, made_before
from strobe.vary.changing import ChangeableGenerator, drawn_latents, eight_bits, granularities, places_of, scales
from strobe.vary.generated_sets import GeneratorSearchPlan, Sampled, generated_dataset
from strobe.vary.generator_search import GeneratorSearchOptions, levels_of, search_changes
from strobe.vary.pgd import wrong_by
from strobe.vary.search_work import SearchWork
from strobe.vary.searched_sets import Finding, Searched, searched_dataset
from strobe.workflows.anchor_images import is_whole
from strobe.workflows.generator_record import PLACE, store_begun, stored_samples, stored_scale, write_record
from strobe.workflows.search_bench import LoadedSearch, SearchBench, TargetFacts, TargetModel, bench_for
from strobe.workflows.search_restarts import ratios_by_restart
from strobe.workflows.searching import Batch, Found, SearchOutcome, read_back, search_all

_MOST = 2.0
"""The default limit of a search: two standard deviations per neuron."""

_LARGEST = 1e6
"""The largest accepted magnitude per neuron. Larger magnitudes are meaningless and soon overflow."""

_PATIENCE = 20
"""Number of latents to draw for one image that every model gets right, before a class is skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VaryGeneratorOptions:
    """Options of a search. Magnitudes are per neuron (RMS, in standard deviations).

    `most` is the limit of a search, and `budget` has the magnitudes of a budget search. An empty `granularity` means
    all granularities of the generator, and `each` means every layer separately. `aim` is untargeted, runner-up or a
    class. `scale_images` is the number of images from which the standard deviations are estimated.
    """

    granularity: tuple[str, ...] = ()
    search: str = "minimal"
    images: int = 100
    classes: tuple[str, ...] = ()
    aim: str = "untargeted"
    most: float | None = None
    budget: tuple[float, ...] = ()
    steps: int | None = None
    restarts: int = 3
    margin: float = 0.01
    seed: int = 0
    strips: int = 8
    scale_images: int = 500
    changes: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        expect(1 <= self.images <= 10_000_000, "<<images>>", "1–10,000,000", self.images)
        expect(self.strips >= 0, "<<strips>>", ">= 0", self.strips)
        expect(2 <= self.scale_images <= 1_000_000, "<<scale_images>>", "2–1,000,000", self.scale_images)
        last = () if self.most is None else (("<<most>>", self.most),)
        for flag, given in (*last, *(("<<budget>>", one) for one in self.budget)):
            expect(0 < given <= _LARGEST, flag, f"above 0, at most {_LARGEST:,.0f}", given)
        if list(self.budget) != sorted(set(self.budget)):
            raise InvalidValue(
                f"<<budget>>: expected ascending numbers without repeats, got {', '.join(map(str, self.budget))}"
            )
        if bool(self.budget) != (self.search == "budget"):
            raise InvalidValue("<<budget>> and <<search=budget>> must be used together; use both or neither")
        if self.budget and self.most is not None:
            raise InvalidValue("<<most>> limits a growing search, and <<budget>> has its own limit; remove <<most>>")
        self.how()

    def how(self) -> GeneratorSearchOptions:
        """Return the checked search of every granularity."""
        return GeneratorSearchOptions(
            search=cast(Any, self.search), steps=self.steps, restarts=self.restarts, margin=self.margin, seed=self.seed
        )

    def named(self, spec: GeneratorSpec) -> list[str]:
        """Return all requested granularities. Raise UnknownName for a granularity that the generator does not have."""
        names = [
            one for word in self.granularity or granularities(spec)
            for one in ([f"layer:{place}" for place in range(len(spec.places))] if word == "each" else [word])
        ]  # fmt: skip
        for word in names:
            places_of(spec, word)
        if len(set(names)) != len(names):
            raise InvalidValue(f"<<granularity>>: expected each granularity once, got {', '.join(names)}")
        return names

    def levels(self, neurons: int) -> tuple[float, ...]:
        """Return the grid of magnitudes M for this number of neurons."""
        root = math.sqrt(neurons)
        return tuple(one * root for one in self.budget) or levels_of((_MOST if self.most is None else self.most) * root)


@writes("destination")
def vary_generator(
    destination: Path,
    generator: str,
    models: Sequence[str],
    options: VaryGeneratorOptions,
    *,
    load: LoadOptions | None = None,
    progress: Progress | None = None,
    engine: ExecutorOptions | None = None,
) -> SearchOutcome:
    """Draw images that every model gets right, search each model in every granularity, and write a dataset.

    A finding counts only if its target gets it wrong when it is read back from its file. An interrupted command resumes
    and produces the same folder. `engine` is where models and generator are loaded and searched.
    """
    say, load = progress or Silent(), load or LoadOptions()
    with bench_for(models, load, generator, engine or ExecutorOptions(), say) as bench:
        return _searched_on(bench, destination, options, load.batch_size, say)


def _searched_on(
    bench: SearchBench, destination: Path, options: VaryGeneratorOptions, batch_size: int | None, say: Progress
) -> SearchOutcome:
    spec = bench.generator()
    granularity_names = options.named(spec)
    classes = [spec.label_space.index(one) for one in options.classes] or list(range(len(spec.label_space)))
    if len(set(classes)) != len(classes):
        raise InvalidValue(f"<<classes>>: expected each class once, got {printable(', '.join(options.classes))}")
    aim = _aimed(spec, options.aim)
    if classes == [aim]:
        raise _nothing_to_aim_at(options)
    victims = bench.victims()
    _refuse_others(victims, spec)
    provenance: dict[str, Any] = {
        "made_by": "strobe vary generator",
        "generator": _described(spec),
        "models": [asdict(victim.target) for victim in victims],
        "granularity": granularity_names,
        "wanted": {key: value for key, value in asdict(options).items() if key != "name"},
    }
    provenance = _plain(provenance)
    work = SearchWork(destination, "generator-search")
    folder.refuse_other_content(destination, leftovers=("media", PLACE) if work.begun else ())
    made = {"accepted": 0, "restarts": 0}  # these depend on the result
    old = made_before(destination, lambda old: {**old.info.provenance, **made} == {**provenance, **made})
    if old is not None and is_whole(old):
        work.done()
        return SearchOutcome(dataset=old, was_there=True)
    size = batch_size or spec.batch_size
    scale, sampled = _begun(destination / PLACE, bench, (classes, options, size), work, provenance)
    bench.know(_SearchContext(scale=scale, sampled=sampled, aim=aim))
    say.note(_rates(sampled))
    searches = [_search(spec, victim, word, scale, options, aim) for victim in victims for word in granularity_names]
    images = bench.once(_images, size)
    pictures = [
        work.store_input(f"{spec.weights} {key}", image) for key, image in zip(sampled.names, images, strict=True)
    ]
    name = options.name or destination.resolve().name
    source = generated_dataset(spec, sampled, pictures, name=name)
    provenance["accepted"] = _plain(sampled.rates)

    def dataset_of(found: Found) -> Dataset:
        return replace(searched_dataset(source, searches, found, name=name, provenance=provenance), root=destination)

    found: Found = {
        (row, number): Searched(picture=picture)
        for row, picture in enumerate(pictures)
        for number in range(len(searches))
        if sampled.classes[row] != aim
    }
    if not found:
        raise _nothing_to_aim_at(options)
    found = search_all(
        bench, dataset_of(found), victims, searches, found, work, _searched, say, word="search", size=size
    )
    broken = sum(one.facts.get("broken", False) for one in found.values())
    if broken:
        say.note(
            f"{broken} search(es) reached scores that are not numbers; each counts as having found nothing up to there"
        )
    found = read_back(bench, dataset_of(found), victims, len(granularity_names), found, work, say)
    write_record(destination / PLACE, sampled.names, searches, found)
    ratios = ratios_by_restart(searches, found)
    provenance["restarts"] = [asdict(one) for one in ratios]
    for one in ratios:
        say.note(one.text())
    done = finish(dataset_of(found), destination, old=old, own_classes=False, say=say)
    work.done()
    return SearchOutcome(dataset=done, problems=tuple(_short_of(sampled, options)))


def _aimed(spec: GeneratorSpec, aim: str) -> int | None:
    """Return the target class, or None if no class is named."""
    return None if aim in ("untargeted", "runner-up") else spec.label_space.index(aim)


def _nothing_to_aim_at(wanted: VaryGeneratorOptions) -> StrobeError:
    return StrobeError(
        f"<<aim={wanted.aim}>>: every image is already of that class; choose other classes with <<classes>>"
    )


def _refuse_others(victims: Sequence[TargetFacts], spec: GeneratorSpec) -> None:
    """Raise an error for models that cannot take the generator's images unchanged, or lack some of its classes."""
    for victim in victims:
        name, sides = printable(victim.name), victim.input_hw
        if sides != spec.image_hw:
            seen = "x".join(map(str, reversed(sides)))
            made = "x".join(map(str, reversed(spec.image_hw)))
            raise ModelFailed(
                f"{name}: its input is {seen}, the generator's images are {made}; use a model with that input size, or "
                f"<<image_size={spec.image_hw[0]}>> if the model supports it"
            )
        lost = victim.projection.childless
        if lost:
            some = "none" if len(lost) == len(spec.label_space) else f"{len(spec.label_space) - len(lost)}"
            raise ModelFailed(
                f"{name}: it has {some} of the generator's {len(spec.label_space)} classes "
                f"({printable(spec.label_space.name)}); {printable(spec.label_space.names[lost[0]])} is missing, for "
                "example; use a model trained on these classes, or another generator"
            )


def _described(spec: GeneratorSpec) -> dict[str, Any]:
    found = asdict(spec)
    return {**found, "label_space": spec.label_space.to_json(), "settings": dict(spec.settings)}


def _plain(told: Any) -> Any:
    """Return the value after a round trip through JSON."""
    return json.loads(json.dumps(told))


@dataclass(frozen=True, slots=True, kw_only=True)
class _SearchContext:
    """The data that all searches of one command share."""

    scale: list[NDArray[np.float32]]
    sampled: Sampled
    aim: int | None


def _begun(
    place: Path,
    bench: SearchBench,
    asked: tuple[Sequence[int], VaryGeneratorOptions, int],
    work: SearchWork,
    provenance: Mapping[str, Any],
) -> tuple[list[NDArray[np.float32]], Sampled]:
    """Return the scale and the latents of the search in this folder. For a new search, draw and store them.

    If the folder has the search of another command, an error is raised before anything is drawn. A new search is
    recorded only once there are images that every model gets right. Otherwise another command can still use the folder.
    """
    is_drawn, is_begun = (place / "sources.json").is_file(), work.begun
    if is_drawn or is_begun:
        work.begin(provenance)
    if is_drawn:
        return stored_scale(place), stored_samples(place)
    scale, sampled = bench.once(_begin, asked)
    if not is_begun:
        work.begin(provenance)
    store_begun(place, scale, sampled)
    return scale, sampled


def _begin(
    loaded: LoadedSearch, asked: tuple[Sequence[int], VaryGeneratorOptions, int]
) -> tuple[list[NDArray[np.float32]], Sampled]:
    classes, options, size = asked
    with loaded.say.task("scale", options.scale_images) as advance:
        scale = scales(loaded.generator, images=options.scale_images, seed=options.seed, batch=size)
        advance(options.scale_images)
    return scale, _sampled(loaded.generator, loaded.victims, classes, options, size, loaded.say)


def _sampled(
    generator: LayeredGenerator,
    victims: Sequence[TargetModel],
    classes: Sequence[int],
    options: VaryGeneratorOptions,
    size: int,
    say: Progress,
) -> Sampled:
    """Draw latents of each class in turn, and keep those whose stored image every model gets right."""
    spec, many = generator.spec, len(classes)
    share = {label: options.images // many + (place < options.images % many) for place, label in enumerate(classes)}
    samples: dict[int, list[tuple[str, NDArray[np.float32]]]] = {label: [] for label in classes}
    n_drawn, right = dict.fromkeys(classes, 0), {victim.known.name: 0 for victim in victims}
    accepted = dict.fromkeys(classes, 0)
    with say.task("latents", options.images) as advance:
        while True:
            candidates = []
            for label in classes:
                first, room = n_drawn[label], _PATIENCE * share[label] - n_drawn[label]
                n_drawn[label] += max(0, min(share[label] - len(samples[label]), room))
                key = spec.label_space.ids[label]
                candidates += [(label, f"{key}/{number:05d}") for number in range(first, n_drawn[label])]
            if not candidates:
                break
            for start in range(0, len(candidates), size):
                batch = candidates[start : start + size]
                latents = drawn_latents(spec, options.seed, [key for _, key in batch])
                seen = _seen_right(generator, victims, latents, [label for label, _ in batch])
                for victim, is_right in zip(victims, seen, strict=True):
                    right[victim.known.name] += int(is_right.sum())
                for place in np.flatnonzero(np.all(seen, axis=0)).tolist():
                    label, key = batch[place]
                    accepted[label] += 1
                    samples[label].append((key, latents[place]))
                    advance(1)
    total = sum(n_drawn.values())
    if not any(samples.values()):
        raise StrobeError(
            f"{printable(spec.name)}: no image of {total} is classified correctly by every model "
            f"({', '.join(f'{printable(name)} {right[name] / total:.0%}' for name in right)}); do these "
            "models match the generator?"
        )
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


def _seen_right(
    generator: LayeredGenerator, victims: Sequence[TargetModel], latents: NDArray[np.float32], labels: Sequence[int]
) -> list[NDArray[np.bool_]]:
    """Return which images each model gets right."""
    torch = require("torch", what="a generator", extra="models")
    image = _plain_pixels(generator, latents, labels)
    out = []
    for victim in victims:
        truth = torch.from_numpy(victim.known.truth([[label] for label in labels]))
        with fitting(victim.known.name, len(labels)), torch.no_grad():
            scores = victim.scores((image * 255).round().to(victim.model.device) / 255)
        out.append((wrong_by(scores.cpu(), truth) < 0).numpy())
    return out


def _plain_pixels(generator: LayeredGenerator, latents: NDArray[np.float32], labels: Sequence[int]) -> Any:
    """Return unchanged images, (N, 3, H, W) in [0, 1]."""
    torch = require("torch", what="a generator", extra="models")
    with fitting(generator.spec.name, len(labels)), torch.no_grad():
        activation = torch.from_numpy(np.ascontiguousarray(latents)).to(generator.device)
        classes = torch.tensor(list(labels), dtype=torch.long, device=generator.device)
        condition = generator.condition(activation, classes)
        for step in range(len(generator.spec.steps)):
            activation = generator.run(step, activation, condition)
        return activation.clamp(0, 1).expand(-1, 3, -1, -1)


def _images(loaded: LoadedSearch, size: int) -> list[Image]:
    generator, sampled = loaded.generator, loaded.context.sampled
    out: list[Image] = []
    for start in range(0, len(sampled.names), size):
        rows = slice(start, start + size)
        out.extend(eight_bits(_plain_pixels(generator, sampled.latents[rows], sampled.classes[rows])))
    return out


def _rates(sampled: Sampled) -> str:
    """Return one line with the share of drawn images that each model got right."""
    rates = sampled.rates
    each = [f"{printable(name)} {many / rates['drawn']:.1%}" for name, many in rates["right"].items()]
    return (
        f"latents: {rates['drawn']:,} drawn; right by {', '.join(each)}, by all models "
        f"{rates['accepted'] / rates['drawn']:.1%}; {len(sampled.names):,} kept"
    )


def _short_of(sampled: Sampled, options: VaryGeneratorOptions) -> Iterator[str]:
    """Return a line for each class that has too few images."""
    by_class = sampled.rates["by_class"]
    for label, (drawn, accepted) in by_class.items():
        if accepted < options.images // len(by_class):
            yield (
                f"{label}: every model is right on only {accepted} of {drawn} drawn images, so this class has "
                f"fewer images"
            )


def _search(
    spec: GeneratorSpec, victim: TargetFacts, word: str, scale: list[NDArray[np.float32]],
    options: VaryGeneratorOptions, aim: int | None,
) -> GeneratorSearchPlan:  # fmt: skip
    places = places_of(spec, word)
    neurons = int(sum((scale[place] > 0).sum() for place in places))
    layers = tuple(spec.places[place][0] for place in places)
    if not neurons:
        raise ModelFailed(
            f"{printable(spec.name)}: the activations of {', '.join(layers)} never vary, so a search cannot change them"
        )
    digest = hashlib.sha256(b"".join(scale[place].tobytes() for place in places)).hexdigest()[:16]
    return GeneratorSearchPlan(
        target=victim.target, granularity=word, places=places, layers=layers, neurons=neurons,
        levels=options.levels(neurons), how=options.how(), generator=spec.name, weights=spec.weights, scale=digest,
        aim=options.aim if aim is None else spec.label_space.ids[aim], strips=options.strips, keep=options.changes,
    )  # fmt: skip


def _searched(loaded: LoadedSearch, victim: TargetModel, plan: GeneratorSearchPlan, batch: Batch) -> list[Finding]:
    """Search one batch of latents. The rows of its source are the rows of the latents."""
    begun: _SearchContext = loaded.context
    sampled, aim, known = begun.sampled, begun.aim, victim.known
    changing = ChangeableGenerator(loaded.generator, begun.scale, plan.places)
    base = changing.begin(sampled.latents[batch.anchors], [sampled.classes[row] for row in batch.anchors])
    aims = [aim] * len(batch.labels) if plan.aim != "runner-up" else _second(victim, batch)
    right = known.truth(batch.labels) if aims[0] is None else ~known.truth([[cast(int, label)] for label in aims])
    findings = search_changes(
        victim.scores, changing, base, right, batch.names, levels=plan.levels, options=plan.how,
        strips=[row < plan.strips for row in batch.anchors], keep=plan.keep,
        tell=lambda share: loaded.tell(int(share * len(batch.names))),
    )  # fmt: skip
    if aims[0] is None:
        return findings
    return [replace(made, facts={**made.facts, "aim": label}) for made, label in zip(findings, aims, strict=True)]


def _second(victim: TargetModel, batch: Batch) -> list[int | None]:
    """Return the second-best class of each image."""
    torch = require("torch", what="a generator", extra="models")
    pixels = torch.from_numpy(batch.images).to(victim.model.device).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        scores = victim.scores(pixels).cpu().numpy()
    known = victim.known
    second = np.where(known.truth(batch.labels), -np.inf, scores).argmax(axis=1)
    label_of = {child: label for label, group in enumerate(known.projection.children) for child in group}
    return [label_of[known.mapped[column]] for column in second.tolist()]
