"""`strobe vary attack`: search around each anchor of a dataset for the nearest images that models get wrong."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.core.locks import writes
from strobe.core.ports import Differentiable, FrameSource, Image, Progress, Silent
from strobe.engine.running import ExecutorOptions
from strobe.models.options import LoadOptions
from strobe.store import dataset_folder as folder
from strobe.store.making import finish, made_before
from strobe.store.opening import Opened, frame_source
from strobe.vary.attack import AttackOptions, AttackPlan, Method, attack, checked_levels, fine_grid
from strobe.vary.pgd import Norm, Pgd
from strobe.vary.search_work import SearchWork
from strobe.vary.searched_sets import Finding, Searched, Stored, searched_dataset
from strobe.workflows.anchor_images import is_whole
from strobe.workflows.search_bench import LoadedSearch, SearchBench, TargetModel, bench_for
from strobe.workflows.searching import Batch, Found, SearchOutcome, read_back, search_all

_GRIDS: Mapping[Norm, tuple[float, ...]] = {
    "linf": (1 / 255, 2 / 255, 4 / 255, 8 / 255), "l2": (0.25, 0.5, 1.0, 2.0),
}  # fmt: skip
"""The default ε of each norm."""

_MOST: Mapping[Norm, float] = {"linf": 16 / 255, "l2": 4.0}
"""The default limit of a minimal search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VaryAttackOptions:
    """Options of an attack. For each norm, `eps` has a grid, or `most` has the limit of a minimal search.

    `method` is pgd or apgd. `step` and `loss` (None: margin) apply to pgd, and `targets` (None: 9) applies to apgd.
    """

    norm: tuple[Norm, ...] = ("linf",)
    eps: tuple[tuple[float, ...], ...] = ()
    minimal: bool = False
    most: tuple[float, ...] = ()
    steps: int = 40
    step: float | None = None
    restarts: int = 1
    loss: str | None = None
    margin: float = 0.01
    seed: int = 0
    name: str = ""
    method: Method = "pgd"
    targets: int | None = None

    def searches(self) -> list[tuple[tuple[float, ...], AttackOptions]]:
        """Check the options. Return the grid of each norm and how it is searched."""
        if len(set(self.norm)) != len(self.norm):
            raise InvalidValue(f"<<norm>>: expected each norm once, got {', '.join(self.norm)}")
        if self.minimal and self.eps:
            raise InvalidValue("<<minimal>> uses its own fine grid; use <<most>> instead of <<eps>>")
        if self.most and not self.minimal:
            raise InvalidValue("<<most>> is the limit of a minimal search; add <<minimal>>, or use <<eps>> instead")
        for flag, given in (("<<eps>>", self.eps), ("<<most>>", self.most)):
            if given and len(given) != len(self.norm):
                raise InvalidValue(f"{flag}: expected one value for each <<norm>> ({len(self.norm)}), got {len(given)}")
        self._refuse_unused()
        plans, targets = [], 9 if self.targets is None else self.targets
        for index, norm in enumerate(self.norm):
            loss = cast(Any, self.loss or "margin")
            pgd = Pgd(norm=norm, steps=self.steps, step=self.step, loss=loss, margin=self.margin)
            how = AttackOptions(
                pgd=pgd,
                restarts=self.restarts,
                seed=self.seed,
                minimal=self.minimal,
                method=self.method,
                targets=targets,
            )
            if self.minimal:
                levels = fine_grid(norm, most=self.most[index] if self.most else _MOST[norm])
            else:
                levels = checked_levels(self.eps[index] if self.eps else _GRIDS[norm], norm=norm)
            plans.append((levels, how))
        return plans

    def _refuse_unused(self) -> None:
        """Raise an error for options of the other method."""
        if self.method == "apgd" and self.step is not None:
            raise InvalidValue("<<step>>: apgd chooses its own steps; remove <<step>>, or use <<method=pgd>>")
        if self.method == "apgd" and self.loss is not None:
            raise InvalidValue(
                "<<loss>>: apgd always uses the cross-entropy and targeted DLR; remove <<loss>>, or use <<method=pgd>>"
            )
        if self.method == "pgd" and self.targets is not None:
            raise InvalidValue("<<targets>>: only apgd targets classes; add <<method=apgd>>")


@writes("destination")
def vary_attack(
    source: Path,
    destination: Path,
    models: Sequence[str],
    options: VaryAttackOptions,
    *,
    load: LoadOptions | None = None,
    progress: Progress | None = None,
    engine: ExecutorOptions | None = None,
) -> SearchOutcome:
    """Attack the models on every anchor of the dataset, and write all outcomes as a dataset.

    Its images have the pixels of the targets' own inputs. A finding counts only if the target gets it wrong when it is
    read back from its file. An interrupted command resumes and produces the same folder. `engine` is where models are
    loaded and searched.
    """
    say = progress or Silent()
    options.searches()  # raises an error for impossible options before anything is read
    opened = Opened.of(source).dataset
    if destination.resolve() == source.resolve():
        raise StrobeError(f"{printable(destination)} is the dataset itself; choose another folder to write to")
    frame_source(opened)  # raises an error if the dataset has no images, before a model is loaded
    with bench_for(models, load or LoadOptions(), opened.info.label_space, engine or ExecutorOptions(), say) as bench:
        return _attacked_on(bench, opened, source, destination, options, say)


def _attacked_on(
    bench: SearchBench, opened: Dataset, source: Path, destination: Path, options: VaryAttackOptions, say: Progress
) -> SearchOutcome:
    victims, searches = bench.victims(), options.searches()
    attacks = [
        AttackPlan(target=victim.target, levels=levels, how=how) for victim in victims for levels, how in searches
    ]
    provenance = {
        "made_by": "strobe vary attack",
        "source": {"name": opened.name, "frames": opened.frames_digest()},
        "seed": options.seed,
        "attacks": [one.to_json() for one in attacks],
    }
    work = SearchWork(destination)
    folder.refuse_other_content(destination, leftovers=("media",) if work.begun else ())
    old = made_before(destination, lambda old: old.info.provenance == provenance)
    if old is not None and is_whole(old):
        work.done()
        return SearchOutcome(dataset=old, was_there=True)
    work.begin(provenance)

    def dataset_of(found: Found) -> Dataset:
        name = options.name or destination.resolve().name
        made = searched_dataset(opened, attacks, found, name=name, provenance=provenance)
        return replace(made, root=destination)

    per = len(searches)
    found, problems = _inputs(bench, opened, len(victims), per, work, say)
    if not found:
        raise StrobeError(f"{printable(source)}: none of its anchors can be attacked; {problems[0]}")
    found = search_all(bench, dataset_of(found), victims, attacks, found, work, _attacked, say, word="attack")
    found = read_back(bench, dataset_of(found), victims, per, found, work, say)
    made = finish(dataset_of(found), destination, old=old, own_classes=False, say=say)
    work.done()
    return SearchOutcome(dataset=made, problems=tuple(problems))


def _inputs(
    bench: SearchBench, opened: Dataset, n_targets: int, per: int, work: SearchWork, say: Progress
) -> tuple[Found, list[str]]:
    """Store every anchor as the input of each of the `n_targets` targets, for each of the `per` searches.

    Return an error for each anchor that cannot be used.
    """
    source, ids = frame_source(opened), opened.frame_ids()
    anchors = list(dict.fromkeys(opened.sets.anchor_frame.tolist()))
    shown: list[int] = []
    stored: dict[int, list[Stored]] = {}
    problems: dict[int, StrobeError] = {}
    with say.task("images", len(anchors)) as advance:
        for place, seen in bench.map(_seen, _pictures(opened, source, anchors, shown, problems)):
            row = shown[place]
            if isinstance(seen, str):
                problems[row] = StrobeError(seen)
            else:
                stored[row] = [work.store_input(ids[row], one) for one in seen]
            advance(1)
        advance(len(anchors) - len(shown))
    found = {
        (row, number): Searched(picture=stored[row][number // per])
        for row in anchors
        if row in stored
        for number in range(n_targets * per)
    }
    return found, [f"{printable(opened.frames.key[row])}: {problems[row]}" for row in anchors if row in problems]


def _pictures(
    opened: Dataset, source: FrameSource, anchors: Sequence[int], shown: list[int], problems: dict[int, StrobeError]
) -> Iterator[tuple[Image, bool]]:
    """Yield each usable anchor, and whether it is already a model's input. `shown` records the anchors."""
    for row in anchors:
        try:
            if not opened.labels_of(row):
                raise StrobeError("it has no label, so no answer is wrong")
            image = source.read(row)
        except StrobeError as error:
            problems[row] = error
            continue
        shown.append(row)
        yield image, bool(opened.frames.as_input[row])


def _seen(loaded: LoadedSearch, given: tuple[Image, bool]) -> list[Image] | str:
    """Return an image as the input of every target, or the error if this is not possible."""
    image, own = given
    try:
        return [_pixels(victim.model, image, own=own) for victim in loaded.victims]
    except StrobeError as error:
        return str(error)


def _pixels(model: Differentiable, image: Image, *, own: bool) -> Image:
    """Return the image as the model's input. If it is already some model's input, it must have the right size."""
    if not own:
        return model.input_pixels(image)
    if image.shape[:2] != model.input_hw:
        raise StrobeError("it is an input of another model, with another size; attack the original dataset instead")
    return image


def _attacked(loaded: LoadedSearch, victim: TargetModel, one: AttackPlan, batch: Batch) -> Sequence[Finding]:  # noqa: ARG001 (the signature of all searches)
    return attack(
        victim.scores,
        batch.images,
        victim.known.truth(batch.labels),
        batch.names,
        levels=one.levels,
        options=one.how,
        device=victim.runner.model.device,
    )
