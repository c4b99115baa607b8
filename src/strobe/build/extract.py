"""One video's part of a build: choose anchors, decode, store frames, compute hints, and record the result.

The work on a video is one job. Its result is a folder of media and one small JSON file (the fragment). Both are moved
into place atomically, and the fragment is moved last. So the output of a killed job is never used, and a finished job
is not repeated.
"""

import hashlib
import json
import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path

from strobe.build.decode import DecodedFrame, Reader
from strobe.build.hints import FrameFeatures, PairHints, cut_score, features_of, set_hints
from strobe.build.labels import AnchorRow, LabelRow, eligible_frames, overlong_spans
from strobe.build.options import AnchorOptions, Limits, Store
from strobe.build.sample import choose_anchors, window_of
from strobe.build.store import FrameEncoder, pixel_digest
from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, printable
from strobe.core.files import cannot_write, make_folder, sha256_of_file, write_json
from strobe.core.late import require
from strobe.core.ports import Progress, Silent
from strobe.core.seals import read_sealed, with_digest
from strobe.core.tables import SCENE_CUT

_SCHEMA = 1
WORK_FOLDER = ".build"
"""Inside the dataset folder: fragments of finished videos, and incomplete media."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractJob:
    """The work on one video. `anchors` may be given. Otherwise anchors are sampled from the frames that `labels` cover.

    If `aside` is given, output is written to that folder, and another process moves it to the destination (`land`). In
    this case, `done` is an earlier result at the destination.
    """

    path: Path
    name: str
    media_folder: str
    destination: Path
    sampling: AnchorOptions
    labels: tuple[LabelRow, ...] = ()
    anchors: tuple[AnchorRow, ...] = ()
    store: Store = "zstd"
    reference: bool = False
    hints: bool = True
    limits: Limits = field(default_factory=Limits)
    threads: int = 1
    file_digest: bool = False
    """Whether a frame's digest is computed from its file, because a JPEG's pixels can differ between decoders."""
    least_frames: int = 1
    """A video with fewer frames than this cannot be used."""
    aside: Path | None = None
    done: "Fragment | None" = None

    @property
    def media(self) -> tuple[Path, Path]:
        """The folder in which the video's media are collected, and their final folder."""
        root = self.aside or self.destination
        return root / WORK_FOLDER / f"{self.media_folder}.half", root / "media" / self.media_folder

    def digest(self, video_sha256: str) -> str:
        """Return a digest of everything that can change the result, which excludes file paths and label names."""
        spans = sorted({str((row.frame, row.start_s, row.end_s)) for row in self.labels})
        given = sorted({str((row.frame, row.time_s)) for row in self.anchors})
        content = [
            _SCHEMA,
            video_sha256,
            self.name,
            self.media_folder,
            asdict(self.sampling),
            spans,
            given,
            self.store,
            self.reference,
            self.hints,
            asdict(self.limits),
            versions(),
            *(["file digest"] if self.file_digest else []),
            *([self.least_frames] if self.least_frames > 1 else []),
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRow:
    """The facts about a video."""

    video_id: str
    sha256: str
    name: str
    codec: str
    container: str
    n_frames: int
    fps: Fraction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRow:
    """The facts about a frame. `media` is empty if the frame stays in the video."""

    index: int
    pts: int | None
    time_s: Fraction | None
    pict_type: str
    size_wh: tuple[int, int]
    sha256: str
    media: str
    media_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRow:
    """An anchor, its members in order (including the anchor), and the members' hints in the same order, if any."""

    anchor: int
    members: tuple[int, ...]
    hints: tuple[PairHints, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """Everything one video adds to the dataset."""

    job: str
    video: VideoRow
    frames: tuple[FrameRow, ...]
    sets: tuple[SetRow, ...]
    notes: tuple[str, ...]
    cuts: tuple[int, ...] = ()
    """Frames that follow a scene cut which lies between two sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractOutcome:
    """A job's outcome: a fragment, or a one-line reason for failure. `reused` marks a job that was done before."""

    name: str
    fragment: Fragment | None = None
    problem: str = ""
    reused: bool = False
    decoded: int = 0


def versions() -> dict[str, str]:
    """Return the decoder's version, on which pixels may depend."""
    av = require("av", what="reading video", extra="video")
    return {"pyav": str(av.__version__), "libavcodec": ".".join(map(str, av.library_versions["libavcodec"]))}


def run_job(job: ExtractJob, progress: Progress | None = None) -> ExtractOutcome:
    """Process one video. An unusable video gives an outcome that describes the problem.

    Only write errors end the whole build. `progress` counts frames; it is for a caller that processes a single video in
    its own process.
    """
    from strobe.core.errors import CannotWrite

    try:
        return _run(job, progress or Silent())
    except (CannotWrite, KeyboardInterrupt):
        raise
    except InvalidFile as error:
        # A full path depends on the machine, so the dataset records only the file's name.
        return ExtractOutcome(name=job.name, problem=printable(str(error).replace(str(job.path), job.path.name)))
    except StrobeError as error:
        return ExtractOutcome(name=job.name, problem=printable(f"{job.path.name}: {error}"))
    except MemoryError:
        return ExtractOutcome(name=job.name, problem=f"{printable(job.path.name)}: out of memory; use fewer --workers")
    except Exception as error:  # a decoder can raise any error on a damaged file, and the other videos must continue
        problem = f"{job.path.name}: {type(error).__name__} while decoding ({error})"
        return ExtractOutcome(name=job.name, problem=printable(problem))


def _run(job: ExtractJob, say: Progress) -> ExtractOutcome:
    _refuse_missing(job.path)
    sha256 = sha256_of_file(job.path)
    digest = job.digest(sha256)
    old = done_before(job) if job.aside is None else job.done
    if old is not None and old.job == digest:
        return ExtractOutcome(name=job.name, fragment=old, reused=True)
    with Reader.open(job.path, job.limits) as reader:
        fragment = _extract(job, reader, sha256, digest, say)
        decoded = reader.decoded
    if reader.mistrusted:
        with Reader.open(job.path, job.limits, by_decoding=True) as reader:
            fragment = _extract(job, reader, sha256, digest, say)
            decoded += reader.decoded
    if job.aside is None:
        _note(job, fragment)
    return ExtractOutcome(name=job.name, fragment=fragment, decoded=decoded)


def done_before(job: ExtractJob) -> Fragment | None:
    """Return the earlier result for the video if its files are complete.

    The caller checks that this result matches `job`.
    """
    old = fragment_of(job.destination / WORK_FOLDER / f"{job.media_folder}.json")
    return old if old is not None and _media_whole(job, old) else None


def _note(job: ExtractJob, fragment: Fragment) -> None:
    """Record that the video is done, after its media are stored."""
    path = job.destination / WORK_FOLDER / f"{job.media_folder}.json"
    write_json(path, with_digest({"schema": _SCHEMA, **encode(fragment)}))


def land(job: ExtractJob, fragment: Fragment, files: Iterable[tuple[str, bytes]]) -> None:
    """Record another process's result for the job and store its media, as the job itself does."""
    aside, final = job.media
    if not job.reference:
        with _writing(final):
            shutil.rmtree(aside, ignore_errors=True)
            make_folder(aside)
            for name, content in files:
                (aside / name).write_bytes(content)
            _put_in_place(aside, final)
    _note(job, fragment)


def _refuse_missing(path: Path) -> None:
    if path.is_dir():
        hint = "give its files, for example FOLDER/*.mp4; for a folder of frames, use strobe import frames"
        raise InvalidFile(path, "is a folder, not a video", hint=hint)
    if not path.is_file():
        raise StrobeError("no such file" if not path.exists() else "not a regular file")


def fragment_of(path: Path) -> Fragment | None:
    """Return the fragment in a file, or None if the file is missing or damaged."""
    note = read_sealed(path)
    return decode(Fragment, note) if note is not None and note["schema"] == _SCHEMA else None


def _media_whole(job: ExtractJob, fragment: Fragment) -> bool:
    """Return whether every stored frame exists with its recorded size."""
    try:
        return all(
            (job.destination / row.media).stat().st_size == row.media_bytes for row in fragment.frames if row.media
        )
    except OSError:
        return False


def _extract(job: ExtractJob, reader: Reader, sha256: str, digest: str, say: Progress) -> Fragment:
    index = reader.index
    if len(index) < job.least_frames:
        raise InvalidValue(f"it has {len(index)} frame, but at least {job.least_frames} are needed to see a change")
    notes = [*index.notes, *overlong_spans(job.labels, index)]
    video_id = sha256[:16]
    eligible = eligible_frames(job.labels, index)
    if job.anchors:
        anchors = sorted({row.place(index) for row in job.anchors})
    else:
        anchors, fewer = choose_anchors(index, job.sampling, video_id=video_id, eligible=eligible)
        notes += fewer
    if job.sampling.window_ms is None and job.sampling.k >= len(index):
        notes.append(f"k = {job.sampling.k} exceeds its {len(index)} frames, so each set contains the whole video")
    windows = {anchor: window_of(index, anchor, job.sampling) for anchor in anchors}
    wanted = sorted({place for window in windows.values() for place in window})
    hinting = _HintMaker(windows) if job.hints else None
    with _FrameWriter(job) as storing, say.task("frames", len(wanted)) as advance:
        for decoded in reader.frames(wanted):
            storing.add(decoded)
            advance(1)
            if hinting:
                hinting.add(decoded)
        frames = storing.finish()
        notes += reader.readings
        if reader.missing:
            notes.append(f"{len(reader.missing)} damaged frame(s) left out, first {min(reader.missing)}")
    there = {row.index for row in frames}
    hints = hinting.finish() if hinting else {}
    kept = [
        SetRow(
            anchor=anchor,
            members=tuple(place for place in windows[anchor] if place in there),
            hints=tuple(hints.get(anchor, ())),
        )
        for anchor in anchors
        if anchor in there
    ]
    if not kept:
        raise InvalidValue("every chosen anchor is a damaged frame; repair the video or choose other anchors")
    if len(kept) < len(anchors):
        notes.append(f"{len(anchors) - len(kept)} set(s) left out: the anchor is damaged")
    video = VideoRow(
        video_id=video_id,
        sha256=sha256,
        name=job.name,
        codec=index.codec,
        container=index.container,
        n_frames=len(index),
        fps=index.fps,
    )
    cuts = tuple(hinting.cuts) if hinting else ()
    return Fragment(job=digest, video=video, frames=tuple(frames), sets=tuple(kept), notes=tuple(notes), cuts=cuts)


class _HintMaker:
    """Computes the hints of every set as soon as its last frame arrives, and frees frames that no later set needs.

    `cuts` are the frames that follow a scene cut which lies between two sets, so that no set has it in its hints.
    """

    def __init__(self, windows: Mapping[int, range]) -> None:
        self._open = deque(sorted(windows.items()))
        inside = {place for window in windows.values() for place in window[1:]}
        self._first = {window.start for window in windows.values()} - inside
        self._last: tuple[int, FrameFeatures] | None = None
        self.cuts: list[int] = []
        self._features: dict[int, FrameFeatures] = {}
        self._done: dict[int, list[PairHints]] = {}

    def add(self, frame: DecodedFrame) -> None:
        """Add one frame. Frames must come in order."""
        self._close(before=frame.index)
        features = self._features[frame.index] = features_of(frame.image)
        before, self._last = self._last, (frame.index, features)
        is_next = before is not None and frame.index in self._first and before[0] == frame.index - 1
        if before is not None and is_next and cut_score(before[1], features) >= SCENE_CUT:
            self.cuts.append(frame.index)

    def finish(self) -> dict[int, list[PairHints]]:
        """Return hints per anchor, in the order of its members."""
        self._close(before=None)
        return self._done

    def _close(self, *, before: int | None) -> None:
        while self._open and (before is None or self._open[0][1].stop <= before):
            anchor, window = self._open.popleft()
            members = [place for place in window if place in self._features]
            if anchor in self._features:
                self._done[anchor] = set_hints(self._features, anchor, members)
            keep_from = self._open[0][1].start if self._open else window.stop
            for place in [feature for feature in self._features if feature < keep_from]:
                del self._features[place]


class _FrameWriter:
    """Hashes, encodes and writes frames while other frames are decoded.

    The output folder is moved into place at the end.
    """

    def __init__(self, job: ExtractJob) -> None:
        self._job = job
        self._encoder = FrameEncoder(job.store)
        self._aside, self._final = job.media
        self._pending: deque[Future[FrameRow]] = deque()
        self._rows: list[FrameRow] = []
        self._pool = ThreadPoolExecutor(max(1, job.threads), thread_name_prefix="store")

    def __enter__(self) -> "_FrameWriter":
        with _writing(self._aside):
            shutil.rmtree(self._aside, ignore_errors=True)
            if not self._job.reference:
                make_folder(self._aside)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        shutil.rmtree(self._aside, ignore_errors=True)

    def add(self, frame: DecodedFrame) -> None:
        """Add one frame. The call blocks if too many frames are pending, so that memory stays bounded."""
        self._pending.append(self._pool.submit(self._store, frame))
        while len(self._pending) > self._job.threads + 2:
            self._rows.append(self._pending.popleft().result())

    def finish(self) -> list[FrameRow]:
        """Move the media into place, and return the rows of all frames in order."""
        while self._pending:
            self._rows.append(self._pending.popleft().result())
        if not self._job.reference:
            with _writing(self._final):
                _put_in_place(self._aside, self._final)
        return self._rows

    def _store(self, frame: DecodedFrame) -> FrameRow:
        image, size, media = frame.image, 0, ""
        digest = pixel_digest(image)
        if not self._job.reference:
            data = self._encoder.encode(image, digest)
            seen = self._encoder.stored(image, data)
            if seen is not image:
                image, digest = seen, pixel_digest(seen)
            if self._job.file_digest:
                digest = hashlib.sha256(data).hexdigest()
            name = f"{frame.index:06d}{self._encoder.suffix}"
            with _writing(self._final / name):
                (self._aside / name).write_bytes(data)
            size, media = len(data), f"media/{self._job.media_folder}/{name}"
        return FrameRow(
            index=frame.index,
            pts=frame.pts,
            time_s=frame.time_s,
            pict_type=frame.pict_type,
            size_wh=(image.shape[1], image.shape[0]),
            sha256=digest,
            media=media,
            media_bytes=size,
        )


def _put_in_place(aside: Path, final: Path) -> None:
    # All files are synced at the end, because the first sync makes the disk write most of the other files too.
    for path in aside.iterdir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    make_folder(final.parent)
    shutil.rmtree(final, ignore_errors=True)
    aside.replace(final)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error
