"""The series of training recipes on the synthetic world: the start of each training, its size, and its seeds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from strobe.build.pool import worker_pool
from strobe.core.errors import UnknownName, expect
from strobe.core.ports import Progress, Silent
from strobe.core.readers import read_array
from strobe.store.opening import Opened, frame_source
from strobe.synthetic.sets import ArraySource, SyntheticOptions
from strobe.synthetic.world import WorldOptions

if TYPE_CHECKING:
    from strobe.workflows.train_job import Material


HELD_SEED = 30_000
"""Seed of the held-out clips, far from those of the training clips."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTraining:
    """One training of the series: name, recipe, and the training it starts from (empty for random weights)."""

    name: str
    recipe: str
    start: str = ""
    about: str


RUNGS = (
    SeriesTraining(name="stills", recipe="stills", about="only anchors, from scratch; other trainings start from it"),
    SeriesTraining(name="finetune", recipe="finetune", start="stills", about="every frame of a set, from stills"),
    SeriesTraining(
        name="finetune-scratch",
        recipe="finetune",
        about="every frame, from scratch, for as many sets as stills and finetune together",
    ),
    SeriesTraining(
        name="noise", recipe="noise", start="stills", about="any frame, half of the frames with noise, from stills"
    ),
    SeriesTraining(name="linf", recipe="linf", start="stills", about="any frame, attacked within 4/255, from stills"),
    SeriesTraining(name="pmk", recipe="pmk", start="stills", about="the worst frame of a set (published), from stills"),
    SeriesTraining(name="pmk-scratch", recipe="pmk", about="the worst frame of a set (published), from scratch"),
    SeriesTraining(
        name="pmk-mixed", recipe="pmk-mixed", start="stills", about="average and worst frame (ours), from stills"
    ),
    SeriesTraining(
        name="consistency", recipe="consistency", start="stills", about="worst and random frame agree (ours)"
    ),
    SeriesTraining(
        name="agreement",
        recipe="agreement",
        start="stills",
        about="frames agree with the mean answer of stills; reads no labels (ours)",
    ),
)
"""The trainings of the series. All that start from `stills` use the same number of sets.

A training from scratch uses as many sets as `stills` and one such training together.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSize:
    """The size of a series: the world, the clips, the network, and the length of each kind of training.

    `epochs` has the epochs of `stills` and of every training that starts from it. Trainings from scratch run for the
    sum of both. `pmk` from scratch has its own number of epochs, because it is the most expensive training and shows
    its effect early. Trainings that start from trained weights have half the learning rate.
    """

    world: WorldOptions
    clips: int
    held_clips: int
    model: str
    epochs: tuple[int, int]
    scratch_pmk_epochs: int
    batch: int
    learning_rate: float = 2e-3

    def data(self, *, held: bool) -> SyntheticOptions:
        """Return the training clips, or the clips for evaluation."""
        name = "strobe-ladder-held-out" if held else "strobe-ladder"
        videos, seed = (self.held_clips, HELD_SEED) if held else (self.clips, 0)
        return SyntheticOptions(world=self.world, videos=videos, seed=seed, name=name)

    def settings(self, rung: SeriesTraining) -> tuple[str, ...]:
        """Return the changes to the recipe of a training."""
        first, then = self.epochs
        epochs = first if rung.name == "stills" else then
        if not rung.start and rung.name != "stills":
            epochs = self.scratch_pmk_epochs if rung.recipe == "pmk" else first + then
        own = () if rung.recipe == "stills" else ("frames=any", "schedule=cosine", "warm_up=0.05")
        rate = self.learning_rate / 2 if rung.start else self.learning_rate
        return (*own, f"batch={self.batch}", f"learning_rate={rate:g}", "weight_decay=0.05", f"epochs={epochs}")


SIZES: Mapping[str, SeriesSize] = {
    "toy": SeriesSize(
        world=WorldOptions(size=32, frames=5, distractors=0, occluders=0), clips=48, held_clips=24,
        model="strobe-net-small", epochs=(2, 1), scratch_pmk_epochs=1, batch=24,
    ),
    "small": SeriesSize(
        world=WorldOptions(size=32, object_scale=(0.5, 0.75), distractors=0, lighting=0.6, texture_faithful=1.0),
        clips=800, held_clips=200, model="strobe-net-small", epochs=(30, 10), scratch_pmk_epochs=10,
        batch=48,
    ),
    "full": SeriesSize(
        world=WorldOptions(size=64, object_scale=(0.3, 0.55)), clips=4000, held_clips=2000, model="strobe-net",
        epochs=(40, 25), scratch_pmk_epochs=30, batch=128,
    ),
}  # fmt: skip


def size_named(name: str) -> SeriesSize:
    """Return the size of that name."""
    if name not in SIZES:
        raise UnknownName("size", name, SIZES, hint=f"known: {', '.join(SIZES)}")
    return SIZES[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesJob:
    """One training as plain data, so that any process can run it. `start` has the weights to start from.

    `frames` has the pixels of all frames in one array if the dataset folders only have tables.
    """

    rung: SeriesTraining
    seed: int
    size: SeriesSize
    training: Path
    held: Path
    out: Path
    device: str = "auto"
    threads: int | None = 1
    evaluations: int = 1
    frames: bool = False

    @property
    def name(self) -> str:
        """The training's name: recipe and seed, as results.json groups them."""
        return f"{self.rung.name}~{self.seed}"

    @property
    def folder(self) -> Path:
        """The folder of the training."""
        return self.out / self.name

    @property
    def spec(self) -> str:
        """The trained model, as commands take it."""
        return f"{self.size.model}@{self.folder / 'model.safetensors'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesResult:
    """A finished training: its accuracies on the held-out clips, and its duration."""

    job: SeriesJob
    acc_orig: float
    acc_pmk: float
    seconds: float
    was_there: bool


def jobs_of(first: SeriesJob, *, seeds: int, only: Sequence[str] = ()) -> list[SeriesJob]:
    """Return all trainings of the series, each a copy of the template.

    `only` selects some trainings, and the trainings that they start from are added.
    """
    expect(seeds >= 1, "<<seeds>>", ">= 1", seeds)
    known = {rung.name: rung for rung in RUNGS}
    for name in only:
        if name not in known:
            raise UnknownName("rung", name, known)
    wanted = {*(only or known), *(known[name].start for name in (only or known))}
    rungs = [rung for rung in RUNGS if rung.name in wanted]
    return [replace(first, rung=rung, seed=seed) for seed in range(seeds) for rung in rungs]


def train_series(
    jobs: Sequence[SeriesJob],
    *,
    workers: int,
    progress: Progress,
    work: Callable[[SeriesJob], SeriesResult] | None = None,
) -> list[SeriesResult]:
    """Run all trainings, several at once.

    Each runs after the training that it starts from. Results keep the jobs' order.

    Calling it again resumes: finished trainings are kept, others continue from their last checkpoint. `work` replaces
    `train_one`.
    """
    done: dict[str, SeriesResult] = {}
    with progress.task("trainings", len(jobs)) as advance:
        for result in _done_in_turn(jobs, workers, work or train_one):
            done[result.job.name] = result
            spent = "done before" if result.was_there else f"{result.seconds:.0f} s"
            k = (result.job.size.world.frames - 1) // 2
            progress.note(
                f"{result.job.rung.name}, seed {result.job.seed}: "
                f"{result.acc_orig:.1%} → {result.acc_pmk:.1%} (pm-{k}), {spent}"
            )
            advance(1)
    return [done[job.name] for job in jobs]


def _done_in_turn(
    jobs: Sequence[SeriesJob], workers: int, work: Callable[[SeriesJob], SeriesResult]
) -> Iterator[SeriesResult]:
    if workers == 1:
        yield from map(work, jobs)  # each training comes after the training that it starts from
        return
    waiting, finished = list(jobs), set[str]()
    with worker_pool(workers) as pool:
        running: dict[Future[SeriesResult], SeriesJob] = {}
        while waiting or running:
            ready = [job for job in waiting if not job.rung.start or f"{job.rung.start}~{job.seed}" in finished]
            for job in ready:
                running[pool.submit(work, job)] = job
                waiting.remove(job)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                finished.add(running.pop(future).name)
                yield future.result()


def train_one(job: SeriesJob) -> SeriesResult:
    """Run one training in this process."""
    from strobe.annexes.train.classifiers import train
    from strobe.train.recipe import find
    from strobe.workflows.options import TrainOptions

    start = job.size.model
    if job.rung.start:
        start = replace(job, rung=next(rung for rung in RUNGS if rung.name == job.rung.start)).spec
    recipe = find(job.rung.recipe, changes=job.size.settings(job.rung), model=start)
    options = TrainOptions(
        seed=job.seed,
        device=job.device,
        image_size=job.size.world.size,
        evaluations=job.evaluations,
        threads=job.threads,
        checkpoint_s=30.0,
        cache_gb=16.0,
    )
    training, held = (material(path, with_frames=job.frames) for path in (job.training, job.held))
    found = train(recipe, training, start, job.folder, options, Silent(), held_out=held)
    last = found.history[-1].named
    return SeriesResult(
        job=job, acc_orig=last["acc_orig"], acc_pmk=last["acc_pmk"], seconds=found.seconds, was_there=found.was_there
    )


@lru_cache(maxsize=4)
def material(path: Path, *, with_frames: bool) -> "Material":
    """Open a dataset folder to train on, once per process. Without other images, pixels come from `frames.npy`."""
    from strobe.workflows.train_job import Material

    dataset = Opened.of(path).dataset
    if with_frames:
        return Material(dataset=dataset, source=ArraySource(read_array(path / "frames.npy", mapped=True)))
    return Material(dataset=dataset, source=frame_source(dataset))
