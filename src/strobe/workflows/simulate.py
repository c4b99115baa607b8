"""`strobe simulate`: make a dataset of simulated hand-held clips from photos."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from strobe.build.camera_photos import Photo, find_photos, fitted_photos
from strobe.build.camera_set import ClipJob, ClipResult, put_together, simulate_clip
from strobe.build.pool import worker_pool
from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.core.locks import writes
from strobe.core.ports import Image, Progress, Silent
from strobe.store import dataset_folder as folder
from strobe.store.making import finish, made_before
from strobe.store.media import decode_image
from strobe.workflows.options import SimulateOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The outcome of a simulation: the dataset, unusable photos with the reason, and the number of reused clips."""

    dataset: Dataset
    problems: tuple[str, ...]
    resumed: int
    mirrored: int
    """Number of clips in which the camera saw beyond the photo, where the image is mirrored at its edge."""


@writes("destination")
def simulate(
    photos: Sequence[Path], destination: Path, options: SimulateOptions, *, progress: Progress | None = None
) -> Simulated:
    """Render the clips and write the dataset folder. Running the same command again does only the missing work.

    The bytes of the result do not depend on the number of workers or on interruptions.
    """
    say = progress or Silent()
    usable, label_space = find_photos(
        photos,
        labels=options.labels,
        label=options.label,
        boxes=options.boxes,
        masks=options.masks,
        label_space=options.label_space,
    )
    folder.refuse_other_content(destination, leftovers=("media", "masks"))
    if options.boxes is not None:
        usable, notes = fitted_photos(usable, options.boxes)
        for note in notes:
            say.note(note)
    made = {"made_by": "strobe simulate", "seed": options.seed, "camera": asdict(options.camera)}
    old = made_before(destination, lambda old: made == old.info.provenance)
    jobs = [
        ClipJob(
            photo=photo, number=number, camera=options.camera, seed=options.seed, folder=destination, decode=_decode
        )
        for photo in usable
        for number in range(options.sets_per_photo)
    ]
    clips: list[ClipResult] = []
    with say.task("clips", len(jobs)) as advance, _mapped(jobs, options.workers) as results:
        for clip in results:
            clips.append(clip)
            advance(1)
    clips = _each_once(clips)
    dataset = put_together(
        clips,
        name=options.name or destination.resolve().name,
        label_space=label_space,
        camera=options.camera,
        seed=options.seed,
        licence=options.licence,
    )
    return Simulated(
        dataset=finish(dataset, destination, old=old, own_classes=options.label_space is None, say=say),
        problems=tuple(clip.problem for clip in clips if clip.problem),
        resumed=sum(clip.resumed for clip in clips),
        mirrored=sum(clip.note is not None and clip.note["mirrored"] > 0 for clip in clips),
    )


def _decode(data: bytes, path: Path) -> Image:
    return decode_image(data, name=path)


@contextmanager
def _mapped(jobs: Sequence[ClipJob], workers: int) -> Iterator[Iterator[ClipResult]]:
    if workers == 1 or len(jobs) == 1:
        yield map(simulate_clip, jobs)
        return
    with worker_pool(min(workers, len(jobs))) as pool:
        yield pool.map(simulate_clip, jobs)


def _each_once(clips: Sequence[ClipResult]) -> list[ClipResult]:
    """Return the clips without copies of the same photo, because they would give the same clip under two names."""
    seen: dict[str, Photo] = {}
    distinct = []
    for clip in clips:
        key = f"{clip.note['video_id']}-{clip.job.number}" if clip.note else ""
        if key and key in seen:
            problem = f"{printable(clip.job.photo.path)}: it has the same content as {printable(seen[key].path)}"
            distinct.append(ClipResult(job=clip.job, problem=problem))
            continue
        if key:
            seen[key] = clip.job.photo
        distinct.append(clip)
    return distinct
