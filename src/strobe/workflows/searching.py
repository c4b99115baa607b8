"""The parts that all searches against models share: load models, resume, store findings and read them back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers
from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, StrobeError, out_of_memory, printable
from strobe.core.ports import FrameSource, Image, Progress
from strobe.core.variants import STATUSES
from strobe.engine.engine import run_models
from strobe.engine.worker import EngineOptions
from strobe.models.cores import sharing_cores
from strobe.store.media import MediaSource
from strobe.vary.search_work import SearchWork
from strobe.vary.searched_sets import Finding, Searched, SearchPlan
from strobe.workflows.search_bench import LoadedSearch, SearchBench, TargetFacts, TargetModel

_TOGETHER = 512
"""Images per call of a model. All processes split these images into batches in the same way."""

Key = tuple[int, int]
Found = dict[Key, Searched]
"""The outcome for each anchor, given by its row in the source, in each search, given by its index."""

One = TypeVar("One", bound=SearchPlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOutcome:
    """The dataset, the unusable inputs with the reason for each, and whether the dataset already existed."""

    dataset: Dataset
    problems: tuple[str, ...] = ()
    was_there: bool = False

    def tally(self) -> dict[str, dict[str, int]]:
        """Return the number of searches of each variant by outcome, without controls."""
        sets, statuses = self.dataset.sets, STATUSES[1:]
        rows = list(self.dataset.variants or ())
        return {
            one.variant: {name: int((sets.status[sets.variant == row] == name).sum()) for name in statuses}
            for row, one in enumerate(rows)
            if one.role == "same"
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Several anchors: their rows in the source, their images (N, H, W, 3), their labels, and the names that seed
    random draws.
    """

    anchors: list[int]
    images: NDArray[np.uint8]
    labels: Sequence[Sequence[int]]
    names: list[str]


How = Callable[[LoadedSearch, TargetModel, One, Batch], Sequence[Finding]]
"""A search of one batch. It must be a module-level function, so that it can be pickled."""


def search_all(
    bench: SearchBench,
    dataset: Dataset,
    victims: Sequence[TargetFacts],
    searches: Sequence[One],
    found: Found,
    work: SearchWork,
    how: How[One],
    say: Progress,
    *,
    word: str,
    size: int | None = None,
) -> Found:
    """Run the searches batch by batch. Finished batches are stored and reused after an interruption.

    Sets are in the order of `found`. The searches are grouped by model, with the same number for each model. Anchors
    that a model gets wrong are not searched.
    """
    sets, per = dataset.sets, len(searches) // len(victims)
    right = np.zeros(len(sets), dtype=bool)
    for number in range(len(victims)):
        mine = sets.variant // per == number
        answers = _answers(bench, dataset, victims, number, np.unique(sets.anchor_frame[mine]), say)
        right |= mine & dataset.right_rows(answers)[sets.is_anchor]
    frame_of = dict(zip(found, sets.anchor_frame.tolist(), strict=True))
    held = {key for key, is_right in zip(found, right.tolist(), strict=True) if is_right}
    out = {key: plan if key in held else replace(plan, status="anchor_wrong") for key, plan in found.items()}
    for number, plan in enumerate(searches):
        keys = [key for key in found if key[1] == number and key in held]
        many = size or victims[number // per].spec.batch_size
        batches = [
            _SearchBatch(dataset, found, frame_of, keys[start : start + many]) for start in range(0, len(keys), many)
        ]
        with say.task(f"{word} {plan.name}", len(keys)) as advance:
            remaining = []
            for anchors in batches:
                stored = work.kept(plan, anchors.names, anchors.pictures)
                if stored is None:
                    remaining.append(anchors)
                    continue
                out |= dict(zip(anchors.keys, stored, strict=True))
                advance(len(stored))
            jobs = ((how, number // per, plan, anchors.batch()) for anchors in remaining)
            ahead = _Ahead(advance)
            bench.watch(ahead.tell)
            for place, findings in bench.map(_search, jobs):
                anchors = remaining[place]
                out |= dict(zip(anchors.keys, work.keep(plan, anchors.names, anchors.pictures, findings), strict=True))
                ahead.done(len(anchors.keys))
    return out


class _Ahead:
    """The progress within a batch as a share of the work, because the search of one batch may take minutes."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance, self._reported = advance, 0

    def tell(self, pictures: int) -> None:
        """Add the progress of the current batch, in images."""
        self._advance(pictures - self._reported)
        self._reported = pictures

    def done(self, pictures: int) -> None:
        """Mark the batch as stored."""
        self.tell(pictures)
        self._reported = 0


class _SearchBatch:
    """Anchors to be searched together."""

    def __init__(self, dataset: Dataset, found: Found, frame_of: Mapping[Key, int], keys: list[Key]) -> None:
        self._dataset, self.keys = dataset, keys
        self._frames = [frame_of[key] for key in keys]
        self.pictures = [found[key].picture for key in keys]
        self.names = [f"{dataset.frames.key[frame]} {dataset.frames.sha256[frame]}" for frame in self._frames]

    def batch(self) -> Batch:
        """Return the batch with its images."""
        source = MediaSource(self._dataset)
        return Batch(
            anchors=[key[0] for key in self.keys],
            images=np.stack([source.read(frame) for frame in self._frames]),
            labels=[self._dataset.labels_of(frame) for frame in self._frames],
            names=self.names,
        )


def _search(loaded: LoadedSearch, job: tuple[How[One], int, One, Batch]) -> Sequence[Finding]:
    """Return the outcome of one batch of anchors."""
    how, number, plan, batch = job
    victim, n = loaded.victims[number], len(batch.images)
    name = printable(victim.known.name)
    try:
        return how(loaded, victim, plan, batch)
    except StrobeError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise ModelFailed(
                f"{name}: out of memory with a batch of {n}; try <<batch_size={max(1, n // 2)}>> (finished work is "
                "kept)"
            ) from error
        raise ModelFailed(f"{name}: raised {type(error).__name__}: {printable(error, limit=200)}") from error


def read_back(
    bench: SearchBench,
    dataset: Dataset,
    victims: Sequence[TargetFacts],
    per: int,
    found: Found,
    work: SearchWork,
    say: Progress,
) -> Found:
    """Return the findings. If the target gets the stored image of a finding right, the search is marked as failed.

    A targeted search (`aim` in its facts) also fails if the target's answer is not the class that it aims at.
    """
    sets, out, count = dataset.sets, dict(found), per * len(victims)
    of_set = [row for row in range(len(sets)) if sets.variant[row] < count]  # without further images of findings
    key_of = dict(zip(of_set, found, strict=True))
    for number in range(len(victims)):
        rows = np.flatnonzero((sets.variant[sets.set] // per == number) & ~sets.is_anchor)
        answers = _answers(bench, dataset, victims, number, np.unique(sets.frame[rows]), say)
        right = dataset.right_rows(answers)
        for row in rows.tolist():
            key = key_of[int(sets.set[row])]
            if not right[row] and out[key].facts.get("aim") in (None, answers[sets.frame[row]]):
                continue
            work.forget(out[key])
            out[key] = Searched(picture=out[key].picture, status="failed", facts=out[key].facts)
    return out


class _Labels:
    """A store of answers in memory: the class of every frame, −1 if there is none."""

    def __init__(self, n_frames: int) -> None:
        self.label = np.full(n_frames, -1, dtype=np.int64)

    def stored(self, *, retry_errors: bool = False) -> tuple[NDArray[np.bool_], int]:  # noqa: ARG002 (part of the protocol)
        """Return that no frame has an answer, because a new store is empty."""
        return np.zeros(len(self.label), dtype=bool), 0

    def write(self, rows: NDArray[np.int64], answers: Answers, *, device: str = "") -> None:  # noqa: ARG002 (part of the protocol)
        """Store the classes."""
        self.label[rows] = cast(Any, answers).label


def _answers(
    bench: SearchBench, dataset: Dataset, victims: Sequence[TargetFacts], number: int, rows: NDArray[Any], say: Progress
) -> NDArray[np.int64]:
    """Return a target's answers to stored images from the engine: the class of each frame, (F,)."""
    out = np.full(len(dataset.frames), -1, dtype=np.int64)
    source, names = MediaSource(dataset), dataset.frames.key
    if bench.is_here:
        out[rows] = bench.once(_answered, _ShownImages(number, source, names.tolist(), rows))
        return out
    parts = [rows[start : start + _TOGETHER] for start in range(0, len(rows), _TOGETHER)]
    shown = (
        _ShownImages(
            number,
            _ImageSource([source.read(row) for row in part.tolist()]),
            names[part].tolist(),
            np.arange(len(part)),
        )
        for part in parts
    )
    with say.task(f"predict {victims[number].name}", len(rows)) as advance:
        for place, labels in bench.map(_answered, shown):
            out[parts[place]] = labels
            advance(len(labels))
    return out


@dataclass(frozen=True, slots=True)
class _ShownImages:
    """Images for one model, given by its number: their source, their names and their rows."""

    number: int
    source: FrameSource
    names: list[str]
    rows: NDArray[Any]


class _ImageSource:
    """Images in memory as a source of frames."""

    def __init__(self, images: Sequence[Image]) -> None:
        self._images = images

    def read(self, row: int) -> Image:
        """Return the image."""
        return self._images[row]

    def read_encoded(self, row: int) -> None:  # noqa: ARG002 (part of the protocol)
        """Return None, because these images are not files."""
        return


def _answered(loaded: LoadedSearch, shown: _ShownImages) -> NDArray[np.int64]:
    """Return the class that the model predicts for each of these rows."""
    runner, store = loaded.victims[shown.number].runner, _Labels(len(shown.names))
    if not len(shown.rows):
        return store.label[:0]
    with sharing_cores([runner.model]):
        outcome = run_models(
            [runner],
            {runner.name: store},
            shown.source,
            frame_names=shown.names,
            rows=shown.rows,
            as_input=shown.rows.tolist(),
            options=EngineOptions(shard_size=_TOGETHER),
            progress=loaded.say,
        )[runner.name]
    if outcome.error is not None:
        raise ModelFailed(outcome.error)
    if outcome.n_unreadable:
        raise StrobeError(f"a stored image cannot be read back: {outcome.first_problem}")
    return cast(NDArray[np.int64], store.label[shown.rows])
