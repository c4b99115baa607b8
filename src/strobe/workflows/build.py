"""`strobe build`: make a dataset folder of candidate sets from videos."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from strobe.build.extract import WORK_FOLDER, ExtractJob, ExtractOutcome, run_job, versions
from strobe.build.gather import drop_by_hints, gather, label_space_of
from strobe.build.labels import (
    AnchorRow,
    BoxRow,
    LabelRow,
    by_video,
    read_anchors,
    read_boxes,
    read_label_space,
    read_labels,
)
from strobe.build.options import Store
from strobe.build.pool import worker_pool
from strobe.build.store import STORES, FrameEncoder
from strobe.build.video_files import video_files
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, UnknownName, expect, in_file, printable
from strobe.core.labels import LabelSpace
from strobe.core.locks import LOCK, Lock, writes, writing
from strobe.core.names import short_names
from strobe.core.ports import Progress, Silent
from strobe.core.true_boxes import refuse_shares
from strobe.engine.engine import away
from strobe.store import dataset_folder as folder
from strobe.store.making import finish, made_before
from strobe.store.media import FILE_DIGESTS, has_file_digests
from strobe.workflows.options import BuildOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The result of a build: the dataset, an error for each skipped video, notes, and the number of dropped members.

    `reused` counts videos of an earlier build. `decoded` counts the frames decoded for the other videos.
    """

    dataset: Dataset
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    dropped: Mapping[str, int]
    reused: int
    decoded: int


@writes("destination")
def build(
    videos: Sequence[Path], destination: Path, options: BuildOptions, *, progress: Progress | None = None
) -> Built:
    """Make the dataset folder. Running the same command again does only the missing work.

    The bytes of the result do not depend on the number of workers or on interruptions.
    """
    say = progress or Silent()
    files, classes = video_files(videos)
    named = video_names(files)
    labels, boxes, anchors = _annotations(named, options, classes)
    label_space = _label_space(options, destination, labels, boxes)
    _refuse_other_content(destination)
    old = made_before(destination, lambda old: {**old.info.provenance, **_made(options, old)} == old.info.provenance)
    store, made = _store(options, old), _made(options, old)
    # Without labels, boxes serve as labels. Anchors are drawn from frames that have a box.
    spans = labels if any(labels.values()) else {name: _labelled(rows) for name, rows in boxes.items()}
    by_file = store == "jpeg" and not options.reference and (old is None or has_file_digests(old))
    jobs = [
        _job(name, path, destination, options, spans, anchors, len(named), store, by_file)
        for name, path in named.items()
    ]
    with writing(destination) as held:
        outcomes = _run_all(jobs, options, held, say)
        outcomes = _each_once(sorted(outcomes, key=lambda outcome: outcome.name), say)
        problems = tuple(outcome.problem for outcome in outcomes if outcome.problem)
        fragments = [outcome.fragment for outcome in outcomes if outcome.fragment is not None]
        if not fragments or (options.strict and problems):
            rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            what = "no video could be used" if not fragments else "<<strict=True>>: no dataset was written"
            if old is None:
                _remove_empty(destination)
            raise StrobeError(f"{what}: {problems[0]}{rest}")
        notes = [f"{fragment.video.name}: {note}" for fragment in fragments for note in fragment.notes]
        gathered = gather(
            fragments,
            name=_name(options, destination),
            label_space=label_space,
            labels=labels,
            boxes=boxes,
            k=options.sampling.k if options.sampling.window_ms is None else None,
            label_source=options.label_source,
            paths={name: path.resolve() for name, path in named.items()} if options.reference else None,
            suffix=FrameEncoder(store).key_suffix,
            licence=options.licence,
            provenance={
                **made,
                **options.facts,
                **(FILE_DIGESTS if by_file else {}),
                "decoder": versions(),
                "videos": {fragment.video.name: fragment.video.sha256 for fragment in fragments},
                "notes": notes,
                "left_out": list(problems),
            },
        )
        dataset = gathered.dataset
        dropped: dict[str, int] = {}
        if options.drop.any:
            dataset, dropped = drop_by_hints(dataset, options.drop)
            info = replace(dataset.info, provenance={**dataset.info.provenance, "dropped": dropped})
            dataset = replace(dataset, info=info)
        dataset = finish(dataset, destination, old=old, own_classes=options.label_space is None, say=say)
    return Built(
        dataset=dataset,
        problems=problems,
        notes=(*notes, *gathered.notes),
        dropped=dropped,
        reused=sum(outcome.reused for outcome in outcomes),
        decoded=sum(outcome.decoded for outcome in outcomes),
    )


def video_names(videos: Sequence[Path]) -> dict[str, Path]:
    """Return videos by name. The name is the file name without suffix; equal names get the folder or suffix added."""
    expect(len(videos) > 0, "VIDEOS", "at least one video", "none")
    twice = next((path for path, times in Counter(path.absolute() for path in videos).items() if times > 1), None)
    if twice is not None:
        raise StrobeError(f"{printable(twice)} is given twice; pass each video once")
    stems = [printable(path.stem) or "video" for path in videos]
    many = Counter(stems)
    alike = [path for path, stem in zip(videos, stems, strict=True) if many[stem] > 1]
    longer = dict(zip(alike, _told_apart(alike), strict=True))
    named: dict[str, Path] = {}
    for path, stem in zip(videos, stems, strict=True):
        name = longer.get(path, stem)
        if name in named:
            raise StrobeError(
                f"{printable(path)} and {printable(named[name])} would both get the name {name}; rename one of them"
            )
        named[name] = path
    return dict(sorted(named.items()))


def _told_apart(paths: Sequence[Path]) -> list[str]:
    """Return short names for files with the same stem. The folder is added in front, or the suffix is added if it
    differs.
    """
    bare = [printable(path.absolute().with_suffix("").as_posix()) for path in paths]
    many = Counter(bare)
    return [
        short + (path.suffix if many[whole] > 1 else "")
        for short, whole, path in zip(short_names(bare), bare, paths, strict=True)
    ]


def _annotations(
    named: Mapping[str, Path], options: BuildOptions, classes: Mapping[Path, str]
) -> tuple[dict[str, list[LabelRow]], dict[str, list[BoxRow]], dict[str, list[AnchorRow]]]:
    """Return labels, boxes and anchors per video. They are checked against the videos before any work begins.

    If there are no other labels, the name of each video's folder is its class.
    """
    by_folder = not (options.labels or options.label or options.boxes or options.unlabelled)
    labels: dict[str, list[LabelRow]] = {
        name: [LabelRow(video=name, label=text) for text in (_class(classes, path) if by_folder else options.label)]
        for name, path in named.items()
    }
    boxes: dict[str, list[BoxRow]] = {name: [] for name in named}
    anchors: dict[str, list[AnchorRow]] = {name: [] for name in named}
    if options.labels is not None:
        labels = by_video(options.labels, named, read=read_labels)
    if options.boxes is not None:
        boxes = by_video(options.boxes, named, read=read_boxes)
        _in_pixels([row for rows in boxes.values() for row in rows], options.boxes)
    if options.anchors is not None:
        anchors = by_video(options.anchors, named, read=read_anchors)
        _each_has_some(anchors, named, what="anchor", source=options.anchors, hint="add one, or remove the video")
    if not options.unlabelled:
        if not any(labels.values()) and not any(boxes.values()):
            raise StrobeError(
                "the videos have no labels; use <<labels=FILE.csv>>, <<label=NAME>>, <<boxes=FILE>>, a folder with one "
                "folder per class, or <<unlabelled=True>> with <<label_space>> to let people label them in review"
            )
        source = options.labels or options.boxes
        both = {name: [*labels[name], *boxes[name]] for name in named}
        _each_has_some(both, named, what="label", source=source, hint="add a row, or use <<unlabelled=True>>")
    return labels, boxes, anchors


def _in_pixels(rows: Sequence[BoxRow], source: Path) -> None:
    """Raise an error for boxes that are shares of the image, before any video is decoded."""
    videos = {name: index for index, name in enumerate(dict.fromkeys(row.video for row in rows))}
    with in_file(source):
        refuse_shares(
            np.array([row.xyxy for row in rows], dtype=np.float64).reshape(-1, 4),
            np.zeros((len(rows), 2)),
            np.array([videos[row.video] for row in rows], dtype=np.int64),
            lambda place: printable(rows[place].where),
        )


def _class(classes: Mapping[Path, str], path: Path) -> list[str]:
    return [classes[path]] if path in classes else []


def _labelled(boxes: Sequence[BoxRow]) -> list[LabelRow]:
    return [LabelRow(video=box.video, label=box.label, frame=box.frame, where=f"boxes, {box.where}") for box in boxes]


def _each_has_some(
    rows: Mapping[str, Sequence[object]], named: Mapping[str, Path], *, what: str, source: object, hint: str
) -> None:
    bare = [named[name].name for name in named if not rows[name]]
    if bare:
        some = ", ".join(printable(name) for name in bare[:3]) + (", …" if len(bare) > 3 else "")
        place = f"{printable(source)}: " if isinstance(source, Path) else ""
        raise StrobeError(f"{place}no {what} for {len(bare)} of {len(named)} video(s): {some}; {hint}")


def _label_space(
    options: BuildOptions,
    destination: Path,
    labels: Mapping[str, Sequence[LabelRow]],
    boxes: Mapping[str, Sequence[BoxRow]],
) -> LabelSpace:
    if options.label_space is None:
        if not any(labels.values()) and not any(boxes.values()):
            raise StrobeError(
                "<<unlabelled=True>> needs <<label_space>>, the classes that people can choose from in review: a "
                "shipped name, or a file with one class per line"
            )
        return label_space_of(_name(options, destination), labels, boxes)
    chosen = read_label_space(options.label_space)
    for row in (*chain(*labels.values()), *chain(*map(_labelled, boxes.values()))):
        try:
            chosen.index(row.label)
        except (UnknownName, InvalidValue) as error:
            raise StrobeError(f"{printable(row.where)}: {error}" if row.where else str(error)) from error
    return chosen


def _name(options: BuildOptions, destination: Path) -> str:
    return options.name or printable(destination.resolve().name) or "dataset"


def _store(options: BuildOptions, old: Dataset | None) -> Store:
    """Return the storage format: the requested format, otherwise the format of existing frames, otherwise zstd."""
    settings = old.info.provenance.get("settings") if old is not None else None
    there = settings.get("store") if isinstance(settings, dict) else None
    return options.store or (there if there in STORES else "zstd")


def _made(options: BuildOptions, old: Dataset | None) -> dict[str, Any]:
    """Return the settings that a resumed build must share with the first build."""
    settings = {
        "sampling": asdict(options.sampling),
        "anchors": "given" if options.anchors else "drawn",
        "store": "none" if options.reference else _store(options, old),
        "hints": options.hints,
        "drop": {name: value for name, value in asdict(options.drop).items() if value},
    }
    return {"made_by": "strobe build", "settings": settings}


def _refuse_other_content(destination: Path) -> None:
    ours = folder.is_dataset(destination) or (destination / WORK_FOLDER).is_dir()
    if destination.is_dir() and not ours and any(path.name != LOCK for path in destination.iterdir()):
        raise StrobeError(f"{printable(destination)} is not empty and is not a dataset folder; choose another folder")


def _job(
    name: str,
    path: Path,
    destination: Path,
    options: BuildOptions,
    labels: Mapping[str, Sequence[LabelRow]],
    anchors: Mapping[str, Sequence[AnchorRow]],
    n_jobs: int,
    store: Store,
    file_digest: bool,
) -> ExtractJob:
    plain = re.fullmatch(r"[\w][\w .+@=,-]{0,99}", name) is not None and not name.endswith((".", " "))
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return ExtractJob(
        path=path,
        name=name,
        # A folder is named by the digest of a name that is not valid for a folder. The frames' keys keep the name.
        media_folder=name if plain else f"video-{digest}",
        destination=destination,
        sampling=options.sampling,
        labels=tuple(labels[name]),
        anchors=tuple(anchors[name]),
        store=store,
        reference=options.reference,
        hints=options.hints,
        limits=options.limits,
        threads=max(1, options.workers // n_jobs),
        least_frames=options.least_frames,
        file_digest=file_digest,
    )


def _each_once(outcomes: Sequence[ExtractOutcome], say: Progress) -> list[ExtractOutcome]:
    """Return the outcomes without copies of a file, because copies would give the same frames under two names."""
    seen: dict[str, str] = {}
    distinct = []
    for outcome in outcomes:
        video_id = outcome.fragment.video.video_id if outcome.fragment else ""
        if video_id and video_id in seen:
            problem = f"{printable(outcome.name)}: it has the same content as {printable(seen[video_id])}"
            say.note(f"skipped: {problem}")
            distinct.append(ExtractOutcome(name=outcome.name, problem=problem))
            continue
        if video_id:
            seen[video_id] = outcome.name
        distinct.append(outcome)
    return distinct


# -- processes -----------------------------------------------------------------------------------------------------


def _run_all(jobs: Sequence[ExtractJob], options: BuildOptions, held: Lock, say: Progress) -> list[ExtractOutcome]:
    """Run every job. Progress is in frames if there is one video, otherwise in videos."""
    if len(jobs) == 1 and options.engine.name == "local":
        return [run_job(jobs[0], say)]
    outcomes = []
    with away(options.engine, "cpu", say, held=held) as cluster, say.task("videos", len(jobs)) as advance:
        for outcome in cluster.extract(jobs) if cluster else _outcomes(jobs, options.workers):
            outcomes.append(outcome)
            advance(1)
            if outcome.problem:
                say.note(f"skipped: {outcome.problem}")
    return outcomes


def _remove_empty(destination: Path) -> None:
    """Remove the notes folder of a build without results. A folder that is not empty stays."""
    with suppress(OSError):  # the folder is not empty
        (destination / WORK_FOLDER).rmdir()


def _outcomes(jobs: Sequence[ExtractJob], workers: int) -> Iterator[ExtractOutcome]:
    """Yield the outcome of every job.

    If a job's process dies, the job is retried in a process of its own. If that process also dies, the outcome is an
    error.
    """
    if workers == 1:
        yield from map(run_job, jobs)
        return
    done: set[str] = set()
    broken = False
    with worker_pool(min(workers, len(jobs))) as pool:
        futures: list[Future[ExtractOutcome]] = [pool.submit(run_job, job) for job in jobs]
        for future in as_completed(futures):
            try:
                outcome = future.result()
            except BrokenProcessPool:
                broken = True
                continue
            done.add(outcome.name)
            yield outcome
    if broken:
        for job in jobs:
            if job.name not in done:
                yield _alone(job)


def _alone(job: ExtractJob) -> ExtractOutcome:
    with worker_pool(1) as pool:
        try:
            return pool.submit(run_job, job).result()
        except BrokenProcessPool:
            return ExtractOutcome(
                name=job.name, problem=f"{printable(job.path.name)}: the decoder crashed on this video"
            )
