"""What every search against models does: loads them, goes on where it was, stores, and reads back what it found."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers
from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, StrobeError, out_of_memory, printable
from strobe.core.labels import LabelSpace
from strobe.core.ports import Differentiable, Progress
from strobe.core.variants import STATUSES, Target
from strobe.datasets.media import MediaSource
from strobe.models.asked import asked
from strobe.models.cores import sharing_cores
from strobe.models.gradients import with_gradients
from strobe.models.options import LoadOptions
from strobe.predict.engine import EngineOptions, run_models
from strobe.predict.forward import Runner
from strobe.vary.search_work import SearchWork
from strobe.vary.searched_sets import Finding, Search, Searched, Stored
from strobe.workflows.recipe import load_runner

__all__ = ["Attempted", "Batch", "Found", "Victim", "read_back", "search_all", "victims_of"]

Found = dict[tuple[int, int], Searched]
"""What became of each anchor (its row in the source) under each search (its place)."""

One = TypeVar("One", bound=Search)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """The dataset, what could not be used and why, and whether it was there already."""

    dataset: Dataset
    problems: tuple[str, ...] = ()
    was_there: bool = False

    def tally(self) -> dict[str, dict[str, int]]:
        """How many searches of each variant ended in which way; controls are none."""
        sets, statuses = self.dataset.sets, STATUSES[1:]
        rows = list(self.dataset.variants or ())
        return {
            one.variant: {name: int((sets.status[sets.variant == row] == name).sum()) for name in statuses}
            for row, one in enumerate(rows)
            if one.role == "same"
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A model that is searched against: as the engine runs it, and with its gradients."""

    runner: Runner
    model: Differentiable

    @property
    def target(self) -> Target:
        """What variants call it."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some anchors: their rows in the source, their pictures (N, H, W, 3), labels, and names to seed draws by."""

    anchors: list[int]
    images: NDArray[np.uint8]
    labels: Sequence[Sequence[int]]
    names: list[str]


def victims_of(
    models: Sequence[str], load: LoadOptions, classes: LabelSpace, say: Progress, *, any_classes: bool = False
) -> Iterator[Victim]:
    """The models, loaded; one that cannot be searched against ends it, before any work is done.

    With `any_classes` it may have none of these, and who asked says what to do.
    """
    for one in asked(models, trust=load.trust):
        if one.file is not None:
            raise ModelFailed(f"{printable(one.spec)}: a model without gradients: predictions in a file")
        loading = replace(load, progress=load.progress or say)
        runner = load_runner(one.name, one.spec, loading, classes, merge="max", any_classes=any_classes)
        yield Victim(runner=runner, model=with_gradients(runner.model))


def search_all(
    dataset: Dataset, victims: Sequence[Victim], searches: Sequence[One], found: Found, work: SearchWork,
    how: Callable[[Victim, One, Batch], Sequence[Finding]], say: Progress, *, word: str, size: int | None = None,
) -> Found:  # fmt: skip
    """The searches, batch by batch: what is done is kept, and found again after a kill. Sets stand as in `found`.

    The first searches are of the first victim, as many of the next. Anchors a model gets wrong are not searched.
    """
    sets, per = dataset.sets, len(searches) // len(victims)
    right = np.zeros(len(sets), dtype=bool)
    for number, victim in enumerate(victims):
        mine = sets.variant // per == number
        answers = _answers(dataset, victim, np.unique(sets.anchor_frame[mine]), say)
        right |= mine & dataset.right_rows(answers)[sets.is_anchor]
    frame_of = dict(zip(found, sets.anchor_frame.tolist(), strict=True))
    held = {key for key, is_right in zip(found, right.tolist(), strict=True) if is_right}
    out = {key: one if key in held else replace(one, status="anchor_wrong") for key, one in found.items()}
    for number, one in enumerate(searches):
        victim, keys = victims[number // per], [key for key in found if key[1] == number and key in held]
        many = size or victim.runner.batch_size
        with say.task(f"{word} {one.name}", len(keys)) as advance:
            for start in range(0, len(keys), many):
                some = keys[start : start + many]
                frames, pictures = [frame_of[key] for key in some], [found[key].picture for key in some]
                done = _batch(dataset, victim, one, [key[0] for key in some], frames, pictures, work, how)
                out |= dict(zip(some, done, strict=True))
                advance(len(some))
    return out


def _batch(
    dataset: Dataset, victim: Victim, one: One, anchors: list[int], frames: Sequence[int], pictures: Sequence[Stored],
    work: SearchWork, how: Callable[[Victim, One, Batch], Sequence[Finding]],
) -> Sequence[Searched]:  # fmt: skip
    """What becomes of one batch of anchors, searched now or before."""
    names = [f"{dataset.frames.key[frame]} {dataset.frames.sha256[frame]}" for frame in frames]
    kept = work.kept(one, names, pictures)
    if kept is not None:
        return kept
    source, labels = MediaSource(dataset), [dataset.labels_of(frame) for frame in frames]
    images = np.stack([source.read(frame) for frame in frames])
    name, n = printable(victim.runner.name), len(images)
    try:
        found = how(victim, one, Batch(anchors=anchors, images=images, labels=labels, names=names))
    except StrobeError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise ModelFailed(
                f"{name}: out of memory with a batch of {n}; try --batch-size {max(1, n // 2)} (finished work is kept)"
            ) from error
        raise ModelFailed(f"{name}: raised {type(error).__name__}: {printable(error, limit=200)}") from error
    return work.keep(one, names, pictures, found)


def read_back(
    dataset: Dataset, victims: Sequence[Victim], per: int, found: Found, work: SearchWork, say: Progress
) -> Found:
    """What was found, less what its target gets right once it is read from its file: those searches failed.

    So did one that aimed at a class (`aim` of its facts) where the target answers another.
    """
    sets, out, count = dataset.sets, dict(found), per * len(victims)
    of_set = [row for row in range(len(sets)) if sets.variant[row] < count]  # without the pictures beside findings
    key_of = dict(zip(of_set, found, strict=True))
    for number, victim in enumerate(victims):
        rows = np.flatnonzero((sets.variant[sets.set] // per == number) & ~sets.is_anchor)
        answers = _answers(dataset, victim, np.unique(sets.frame[rows]), say)
        right = dataset.right_rows(answers)
        for row in rows.tolist():
            key = key_of[int(sets.set[row])]
            if not right[row] and out[key].facts.get("aim") in (None, answers[sets.frame[row]]):
                continue
            work.forget(out[key])
            out[key] = Searched(picture=out[key].picture, status="failed", facts=out[key].facts)
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


def _answers(dataset: Dataset, victim: Victim, rows: NDArray[Any], say: Progress) -> NDArray[np.int64]:
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
