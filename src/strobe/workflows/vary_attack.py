"""`strobe vary attack`: the anchors of a dataset as models see them, and the nearest pictures they get wrong."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, ModelFailed, StrobeError, out_of_memory, printable
from strobe.core.ports import Differentiable, Image, Progress, Silent
from strobe.core.variants import STATUSES, Target
from strobe.datasets import folder
from strobe.datasets.making import finish, made_before
from strobe.datasets.media import MediaSource
from strobe.models.asked import asked
from strobe.models.cores import sharing_cores
from strobe.models.gradients import with_gradients
from strobe.models.options import LoadOptions
from strobe.predict.engine import EngineOptions, run_models
from strobe.predict.forward import Runner
from strobe.vary.attack import AttackOptions, attack, checked_levels, fine_grid
from strobe.vary.attack_work import AttackWork
from strobe.vary.attacked_sets import Attacked, Attacking, Stored, attacked_dataset
from strobe.vary.pgd import Norm, Pgd
from strobe.workflows.opening import Opened
from strobe.workflows.recipe import load_runner
from strobe.workflows.sources import frame_source

__all__ = ["AttackWanted", "Attempted", "vary_attack"]

_GRIDS: Mapping[Norm, tuple[float, ...]] = {
    "linf": (1 / 255, 2 / 255, 4 / 255, 8 / 255), "l2": (0.25, 0.5, 1.0, 2.0),
}  # fmt: skip
"""The ε tried where none are given."""

_MOST: Mapping[Norm, float] = {"linf": 16 / 255, "l2": 4.0}
"""How far a minimal search goes where nothing is said."""

Found = dict[tuple[int, int], Attacked]
"""What became of each anchor (its row in the source) under each attack (its place)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackWanted:
    """What to search. `eps` holds a grid for each norm, or `most` the end of a minimal search for each."""

    norm: tuple[Norm, ...] = ("linf",)
    eps: tuple[tuple[float, ...], ...] = ()
    minimal: bool = False
    most: tuple[float, ...] = ()
    steps: int = 40
    step: float | None = None
    restarts: int = 1
    loss: str = "margin"
    margin: float = 0.01
    seed: int = 0
    name: str = ""

    def searches(self) -> list[tuple[tuple[float, ...], AttackOptions]]:
        """The grid of each norm and how it is searched, checked."""
        if len(set(self.norm)) != len(self.norm):
            raise InvalidValue(f"--norm: expected each once, got {', '.join(self.norm)}")
        if self.minimal and self.eps:
            raise InvalidValue("--minimal goes along a grid of its own: give --most instead of --eps")
        if self.most and not self.minimal:
            raise InvalidValue("--most is the end of a minimal search: give --minimal too, or --eps instead")
        for flag, given in (("--eps", self.eps), ("--most", self.most)):
            if given and len(given) != len(self.norm):
                raise InvalidValue(f"{flag}: expected one for each --norm ({len(self.norm)}), got {len(given)}")
        found = []
        for place, norm in enumerate(self.norm):
            pgd = Pgd(norm=norm, steps=self.steps, step=self.step, loss=cast(Any, self.loss), margin=self.margin)
            how = AttackOptions(pgd=pgd, restarts=self.restarts, seed=self.seed, minimal=self.minimal)
            if self.minimal:
                levels = fine_grid(norm, most=self.most[place] if self.most else _MOST[norm])
            else:
                levels = checked_levels(self.eps[place] if self.eps else _GRIDS[norm], norm=norm)
            found.append((levels, how))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """The dataset, what could not be used and why, and whether it was there already."""

    dataset: Dataset
    problems: tuple[str, ...] = ()
    was_there: bool = False

    def tally(self) -> dict[str, dict[str, int]]:
        """How many searches of each variant ended in which way."""
        sets, statuses = self.dataset.sets, STATUSES[1:]
        names = self.dataset.variants.variant.tolist() if self.dataset.variants is not None else []
        return {
            str(name): {one: int((sets.status[sets.variant == row] == one).sum()) for one in statuses}
            for row, name in enumerate(names)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Victim:
    """A model that is attacked: as the engine runs it, and with its gradients."""

    runner: Runner
    model: Differentiable

    @property
    def target(self) -> Target:
        spec = self.runner.model.spec
        return Target(name=self.runner.name, weights=spec.weights, preprocessing=dict(spec.preprocessing))

    @property
    def mapped(self) -> list[int]:
        """The model's classes that mean one of the dataset's; the others are never its answer."""
        return sorted({child for group in self.runner.projection.children for child in group})

    def scores(self, pixels: Any) -> Any:
        """Scores of the classes that count, in nats, with gradients."""
        found = self.model.input_scores(pixels)
        if self.runner.model.spec.kind == "probabilities":
            found = found.clamp_min(1e-30).log()
        return found if len(self.mapped) == found.shape[1] else found[:, self.mapped]

    def truth(self, labels: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
        """Which of those classes are right, (N, classes); the largest child of a class answers for it."""
        place = {child: column for column, child in enumerate(self.mapped)}
        out = np.zeros((len(labels), len(place)), dtype=bool)
        for row, some in enumerate(labels):
            out[row, [place[child] for label in some for child in self.runner.projection.children[label]]] = True
        return out


def vary_attack(
    source: Path,
    destination: Path,
    models: Sequence[str],
    wanted: AttackWanted,
    *,
    load: LoadOptions | None = None,
    progress: Progress | None = None,
) -> Attempted:
    """Attack the models on every anchor of the dataset; write what was found, and what was not, as a dataset.

    Its pictures are pixels of the targets' own inputs. A finding counts once it was read back from its file and the
    target got it wrong. Killed, the same command goes on where it was, and ends in the same folder.
    """
    say, searches = progress or Silent(), wanted.searches()
    opened = Opened.of(source).dataset
    if destination.resolve() == source.resolve():
        raise StrobeError(f"{printable(destination)} is the dataset itself; choose another folder to write to")
    frame_source(opened)  # before a model is loaded for pictures that are not there
    victims = list(_victims(models, load or LoadOptions(), opened, say))
    attacks = [
        Attacking(target=victim.target, levels=levels, how=how) for victim in victims for levels, how in searches
    ]
    provenance = {
        "made_by": "strobe vary attack",
        "source": {"name": opened.name, "frames": opened.frames_digest()},
        "seed": wanted.seed,
        "attacks": [one.to_json() for one in attacks],
    }
    work = AttackWork(destination)
    folder.refuse_other_content(destination, leftovers=("media",) if work.begun else ())
    old = made_before(destination, lambda old: old.info.provenance == provenance)
    if old is not None and _whole(old):
        work.done()
        return Attempted(dataset=old, was_there=True)
    work.begin(provenance)

    def dataset_of(found: Found) -> Dataset:
        name = wanted.name or destination.resolve().name
        made = attacked_dataset(opened, attacks, found, name=name, provenance=provenance)
        return replace(made, root=destination)

    per = len(searches)
    found, problems = _inputs(opened, victims, per, work, say)
    if not found:
        raise StrobeError(f"{printable(source)}: none of its anchors can be attacked; {problems[0]}")
    found = _search(dataset_of(found), victims, attacks, found, work, say)
    found = _read_back(dataset_of(found), victims, per, found, work, say)
    made = finish(dataset_of(found), destination, old=old, own_classes=False, say=say)
    work.done()
    return Attempted(dataset=made, problems=tuple(problems))


def _victims(models: Sequence[str], load: LoadOptions, opened: Dataset, say: Progress) -> Iterator[_Victim]:
    """The models, loaded; one that cannot be attacked ends it, before any work is done."""
    for one in asked(models, trust=load.trust):
        if one.file is not None:
            raise ModelFailed(f"{printable(one.spec)}: a model without gradients: predictions in a file")
        loading = replace(load, progress=load.progress or say)
        runner = load_runner(one.name, one.spec, loading, opened.info.label_space, merge="max")
        yield _Victim(runner=runner, model=with_gradients(runner.model))


def _whole(dataset: Dataset) -> bool:
    root = dataset.root or Path()
    return all((root / media).is_file() for media in set(dataset.frames.media.tolist()))


def _inputs(
    opened: Dataset, victims: Sequence[_Victim], per: int, work: AttackWork, say: Progress
) -> tuple[Found, list[str]]:
    """Every anchor as every target sees it, stored, for each of its `per` searches; a line for each that cannot be."""
    source, ids = frame_source(opened), opened.frame_ids()
    anchors = list(dict.fromkeys(opened.sets.anchor_frame.tolist()))
    found: Found = {}
    problems: list[str] = []
    with say.task("pictures", len(anchors)) as advance:
        for row in anchors:
            try:
                if not opened.labels_of(row):
                    raise StrobeError("it has no label, so no answer is wrong")
                image = source.read(row)
                pixels = [_pixels(victim.model, image, own=bool(opened.frames.as_input[row])) for victim in victims]
            except StrobeError as error:
                problems.append(f"{printable(opened.frames.key[row])}: {error}")
                continue
            finally:
                advance(1)
            stored = [work.store_input(ids[row], one) for one in pixels]
            for number in range(len(victims) * per):
                found[row, number] = Attacked(picture=stored[number // per])
    return found, problems


def _pixels(model: Differentiable, image: Image, *, own: bool) -> Image:
    """The image as the model's input; one that is some model's own input already must be of this size."""
    if not own:
        return model.input_pixels(image)
    if image.shape[:2] != model.input_hw:
        raise StrobeError("it is another model's own input, of another size; attack the dataset that was made from")
    return image


def _search(
    dataset: Dataset, victims: Sequence[_Victim], attacks: Sequence[Attacking], found: Found, work: AttackWork,
    say: Progress,
) -> Found:  # fmt: skip
    """The searches, batch by batch: what is done is kept, and found again after a kill. Sets stand as in `found`."""
    sets, per = dataset.sets, len(attacks) // len(victims)
    right = np.zeros(len(sets), dtype=bool)
    for number, victim in enumerate(victims):
        mine = sets.variant // per == number
        answers = _answers(dataset, victim, np.unique(sets.anchor_frame[mine]), say)
        right |= mine & dataset.right_rows(answers)[sets.is_anchor]
    frame_of = dict(zip(found, sets.anchor_frame.tolist(), strict=True))
    held = {key for key, is_right in zip(found, right.tolist(), strict=True) if is_right}
    out = {key: one if key in held else replace(one, status="anchor_wrong") for key, one in found.items()}
    for number, one in enumerate(attacks):
        victim, keys = victims[number // per], [key for key in found if key[1] == number and key in held]
        size = victim.runner.batch_size
        with say.task(f"attack {one.name}", len(keys)) as advance:
            for start in range(0, len(keys), size):
                batch = keys[start : start + size]
                pictures = [found[key].picture for key in batch]
                done = _batch(dataset, victim, one, [frame_of[key] for key in batch], pictures, work)
                out |= dict(zip(batch, done, strict=True))
                advance(len(batch))
    return out


def _batch(
    dataset: Dataset,
    victim: _Victim,
    one: Attacking,
    frames: Sequence[int],
    pictures: Sequence[Stored],
    work: AttackWork,
) -> Sequence[Attacked]:
    """What becomes of one batch of anchors, searched now or before."""
    names = [f"{dataset.frames.key[frame]} {dataset.frames.sha256[frame]}" for frame in frames]
    kept = work.kept(one, names, pictures)
    if kept is not None:
        return kept
    source = MediaSource(dataset)
    images = np.stack([source.read(frame) for frame in frames])
    truth = victim.truth([dataset.labels_of(frame) for frame in frames])
    return work.keep(one, names, pictures, _attacked(victim, one, images, truth, names))


def _attacked(
    victim: _Victim, one: Attacking, images: NDArray[np.uint8], truth: NDArray[np.bool_], names: Sequence[str]
) -> Any:
    try:
        return attack(
            victim.scores, images, truth, names, levels=one.levels, options=one.how, device=victim.runner.model.device
        )
    except StrobeError:
        raise
    except Exception as error:
        name, n = printable(victim.runner.name), len(images)
        if out_of_memory(error):
            raise ModelFailed(
                f"{name}: out of memory with a batch of {n}; try --batch-size {max(1, n // 2)} (finished work is kept)"
            ) from error
        raise ModelFailed(f"{name}: raised {type(error).__name__}: {printable(error, limit=200)}") from error


def _read_back(
    dataset: Dataset, victims: Sequence[_Victim], per: int, found: Found, work: AttackWork, say: Progress
) -> Found:
    """What was found, less what its target gets right once it is read from its file: those searches failed."""
    sets, keys, out = dataset.sets, list(found), dict(found)
    for number, victim in enumerate(victims):
        rows = np.flatnonzero((sets.variant[sets.set] // per == number) & ~sets.is_anchor)
        right = dataset.right_rows(_answers(dataset, victim, np.unique(sets.frame[rows]), say))
        for row in rows[right[rows]].tolist():
            key = keys[int(sets.set[row])]
            work.forget(out[key].found)
            out[key] = Attacked(picture=out[key].picture, status="failed")
    return out


class _Labels:
    """A store of answers in memory: the class of every frame, −1 where there is none."""

    def __init__(self, n_frames: int) -> None:
        self.label = np.full(n_frames, -1, dtype=np.int64)

    def stored(self, *, retry_errors: bool = False) -> tuple[NDArray[np.bool_], int]:  # noqa: ARG002
        """Nothing is there before."""
        return np.zeros(len(self.label), dtype=bool), 0

    def write(self, rows: NDArray[np.int64], answers: Answers) -> None:
        """Keep the classes."""
        self.label[rows] = cast(Any, answers).label


def _answers(dataset: Dataset, victim: _Victim, rows: NDArray[Any], say: Progress) -> NDArray[np.int64]:
    """What the target answers to stored pictures, by the ordinary engine: the class of each frame, (F,)."""
    store = _Labels(len(dataset.frames))
    if not len(rows):
        return store.label
    name = victim.runner.name
    with sharing_cores([victim.runner.model]):
        outcome = run_models(
            [victim.runner], {name: store}, MediaSource(dataset), frame_names=dataset.frames.key.tolist(), rows=rows,
            as_input=rows.tolist(), options=EngineOptions(), progress=say,
        )[name]  # fmt: skip
    if outcome.error is not None:
        raise ModelFailed(outcome.error)
    if outcome.n_unreadable:
        raise StrobeError(f"a picture just stored cannot be read back: {outcome.first_problem}")
    return store.label
