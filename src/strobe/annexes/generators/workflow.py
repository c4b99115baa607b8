"""`strobe vary generator`: make images with a generator, and find the smallest changes of its activations that make
models err.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.generators.changing import ChangeableGenerator, granularities, places_of, scale_latents, scales
from strobe.annexes.generators.photos import PhotoSource, encode_photos
from strobe.annexes.generators.providers import GeneratorSubject, spec_of
from strobe.annexes.generators.record import PLACE, store_begun, stored_samples, stored_scale, write_record
from strobe.annexes.generators.restarts import ratios_by_restart
from strobe.annexes.generators.samples import draw_latents, images_of, rates_text, short_of
from strobe.annexes.generators.search import GeneratorSearchOptions, levels_of, search_changes
from strobe.annexes.generators.sets import (
    GeneratorSearchPlan,
    Sampled,
    generated_dataset,
    photo_dataset,
    photo_variant,
)
from strobe.annexes.generators.spec import GeneratorSpec
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, ModelFailed, StrobeError, expect, printable
from strobe.core.late import require
from strobe.core.locks import writes
from strobe.core.ports import Progress, Silent
from strobe.engine.running import ExecutorOptions
from strobe.models.options import LoadOptions
from strobe.store import dataset_folder as folder
from strobe.store.making import finish, made_before
from strobe.vary.search_work import SearchWork
from strobe.vary.searched_sets import Finding, Originals, Searched, searched_dataset
from strobe.workflows.anchor_images import is_whole
from strobe.workflows.search_bench import LoadedSearch, SearchBench, TargetFacts, TargetModel, bench_for
from strobe.workflows.searching import Batch, Found, SearchOutcome, read_back, search_all

_MOST = 2.0
"""The default limit of a search: two standard deviations per neuron."""

_LARGEST = 1e6
"""The largest accepted magnitude per neuron. Larger magnitudes are meaningless and soon overflow."""


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
    photos: Path | None = None,
    load: LoadOptions | None = None,
    progress: Progress | None = None,
    engine: ExecutorOptions | None = None,
) -> SearchOutcome:
    """Draw images that every model gets right, search each model in every granularity, and write a dataset.

    An autoencoder draws nothing. Its images are reconstructions of `photos`, a dataset whose labels they keep.

    A finding counts only if its target gets it wrong when it is read back from its file. An interrupted command resumes
    and produces the same folder. `engine` is where models and generator are loaded and searched.
    """
    say, load = progress or Silent(), load or LoadOptions()
    if photos is not None and destination.resolve() == photos.resolve():
        raise StrobeError(f"{printable(destination)} is the dataset of the photos; choose another folder to write to")
    opened = None if photos is None else PhotoSource.of(photos)
    classes = None if opened is None else opened.dataset.info.label_space
    about = GeneratorSubject(name=generator, photos=classes)
    with bench_for(models, load, about, engine or ExecutorOptions(), say) as bench:
        return _searched_on(bench, destination, options, load.batch_size, opened, say)


def _searched_on(
    bench: SearchBench,
    destination: Path,
    options: VaryGeneratorOptions,
    batch_size: int | None,
    photos: PhotoSource | None,
    say: Progress,
) -> SearchOutcome:
    spec = spec_of(bench)
    if photos is not None and not spec.encodes:
        raise StrobeError(
            f"{printable(spec.name)}: it draws its own images and cannot encode photos; remove <<photos>>"
        )
    granularity_names = options.named(spec)
    classes = [spec.label_space.index(one) for one in options.classes] or list(range(len(spec.label_space)))
    if len(set(classes)) != len(classes):
        raise InvalidValue(f"<<classes>>: expected each class once, got {printable(', '.join(options.classes))}")
    aim = _aimed(spec, options.aim)
    if classes == [aim]:
        raise _nothing_to_aim_at(options)
    victims = bench.victims()
    _refuse_others(victims, spec)
    for victim in victims:
        if victim.input_hw != spec.image_hw:
            drawn, seen = ("x".join(map(str, reversed(hw))) for hw in (spec.image_hw, victim.input_hw))
            say.note(f"{printable(victim.name)}: images of {drawn} are resized to its input, {seen}")
    provenance: dict[str, Any] = {
        "made_by": "strobe vary generator",
        "generator": _described(spec),
        "models": [asdict(victim.target) for victim in victims],
        "granularity": granularity_names,
        "wanted": {key: value for key, value in asdict(options).items() if key != "name"},
    }
    provenance = _plain(provenance | ({} if photos is None else {"photos": photos.facts()}))
    work = SearchWork(destination, "generator-search")
    folder.refuse_other_content(destination, leftovers=("media", PLACE) if work.begun else ())
    made = {"accepted": 0, "restarts": 0}  # these depend on the result
    old = made_before(destination, lambda old: {**old.info.provenance, **made} == {**provenance, **made})
    if old is not None and is_whole(old):
        work.done()
        return SearchOutcome(dataset=old, was_there=True)
    size = batch_size or spec.batch_size
    asked = _Asked(classes=classes, options=options, size=size)
    scale, sampled = _begun(destination / PLACE, bench, asked, photos, work, provenance, say)
    bench.know(_SearchContext(scale=scale, sampled=sampled, aim=aim))
    say.note(rates_text(sampled))
    searches = [_search(spec, victim, word, scale, options, aim) for victim in victims for word in granularity_names]
    name, originals = options.name or destination.resolve().name, None
    if photos is None:
        images = bench.once(images_of, size)
        pictures = [
            work.store_input(f"{spec.weights} {key}", image) for key, image in zip(sampled.names, images, strict=True)
        ]
        source = generated_dataset(spec, sampled, pictures, name=name)
    else:
        pictures = [photo.image for photo in sampled.photos[: len(sampled.names)]]
        source = photo_dataset(photos.dataset, sampled, name=name)
        pairs = {row: (one.photo, one.image) for row, one in enumerate(sampled.photos)}
        originals = Originals(variant=photo_variant(spec), pairs=pairs)
    provenance["accepted"] = _plain(sampled.rates)

    def dataset_of(found: Found, originals: Originals | None = None) -> Dataset:
        made = searched_dataset(source, searches, found, name=name, provenance=provenance, originals=originals)
        return replace(made, root=destination)

    found: Found = {
        (row, number): Searched(picture=picture)
        for row, picture in enumerate(pictures)
        for number in range(len(searches))
        if aim not in sampled.labels[row]
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
    provenance["restarts"] = [asdict(ratio) for ratio in ratios]
    for one in ratios:
        say.note(one.text())
    done = finish(dataset_of(found, originals), destination, old=old, own_classes=False, say=say)
    work.done()
    return SearchOutcome(dataset=done, problems=tuple(short_of(sampled, options.images)))


def _aimed(spec: GeneratorSpec, aim: str) -> int | None:
    """Return the target class, or None if no class is named."""
    return None if aim in ("untargeted", "runner-up") else spec.label_space.index(aim)


def _nothing_to_aim_at(wanted: VaryGeneratorOptions) -> StrobeError:
    return StrobeError(
        f"<<aim={wanted.aim}>>: every image is already of that class; choose other classes with <<classes>>"
    )


def _refuse_others(victims: Sequence[TargetFacts], spec: GeneratorSpec) -> None:
    """Raise an error for models that lack some of the classes."""
    whose, other = ("photos'", "other photos") if spec.encodes else ("generator's", "another generator")
    for victim in victims:
        name = printable(victim.name)
        lost = victim.projection.childless
        if lost:
            some = "none" if len(lost) == len(spec.label_space) else f"{len(spec.label_space) - len(lost)}"
            raise ModelFailed(
                f"{name}: it has {some} of the {whose} {len(spec.label_space)} classes "
                f"({printable(spec.label_space.name)}); {printable(spec.label_space.names[lost[0]])} is missing, for "
                f"example; use a model trained on these classes, or {other}"
            )


def _described(spec: GeneratorSpec) -> dict[str, Any]:
    found = asdict(spec)
    if not spec.encodes:  # folders of older versions do not have this key
        del found["encodes"]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The images that a search needs: their classes, the options, and the size of a batch."""

    classes: Sequence[int]
    options: VaryGeneratorOptions
    size: int


def _begun(
    place: Path,
    bench: SearchBench,
    asked: _Asked,
    photos: PhotoSource | None,
    work: SearchWork,
    provenance: Mapping[str, Any],
    say: Progress,
) -> tuple[list[NDArray[np.float32]], Sampled]:
    """Return the scale and the latents of the search in this folder. For a new search, draw and store them.

    If the folder has the search of another command, an error is raised before anything is drawn. A new search is
    recorded only once there are images that every model gets right. Otherwise another command can still use the folder.
    """
    is_drawn, is_begun = (place / "sources.json").is_file(), work.begun
    if is_drawn or is_begun or photos is not None:
        work.begin(provenance)
    if is_drawn:
        return stored_scale(place), stored_samples(place)
    if photos is None:
        scale, sampled = bench.once(_begin, asked)
    else:
        scale, sampled = _encoded(bench, asked, photos, work, say)
    if not is_begun:
        work.begin(provenance)
    store_begun(place, scale, sampled)
    return scale, sampled


def _begin(loaded: LoadedSearch, asked: _Asked) -> tuple[list[NDArray[np.float32]], Sampled]:
    options, generator = asked.options, loaded.subject
    with loaded.say.task("scale", options.scale_images) as advance:
        latents = scale_latents(generator.spec, images=options.scale_images, seed=options.seed)
        scale = scales(generator, latents, batch=asked.size)
        advance(options.scale_images)
    return scale, draw_latents(
        generator, loaded.victims, asked.classes, images=options.images, seed=options.seed, size=asked.size,
        say=loaded.say,
    )  # fmt: skip


def _encoded(
    bench: SearchBench, asked: _Asked, photos: PhotoSource, work: SearchWork, say: Progress
) -> tuple[list[NDArray[np.float32]], Sampled]:
    """Encode photos. If no photo can be searched, the folder stays empty."""
    options = asked.options
    try:
        return encode_photos(
            bench, photos, asked.classes, work, images=options.images, scale_images=options.scale_images,
            seed=options.seed, size=asked.size, say=say,
        )  # fmt: skip
    except StrobeError:
        work.abandon()
        raise


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
    changing = ChangeableGenerator(loaded.subject, begun.scale, plan.places)
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
