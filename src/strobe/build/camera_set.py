"""From photos to perturbation sets: clips, each rendered on its own, and the dataset put together from them."""

import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from strobe.build.camera import render_path
from strobe.build.camera_path import CameraOptions
from strobe.build.camera_photos import Photo
from strobe.build.hints import features_of, set_hints
from strobe.core.dataset import Boxes, Dataset, DatasetInfo, Frames, Hints, Labels, Sets, Videos, texts
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, printable
from strobe.core.files import read_json, sha256_of_file, write_bytes, write_json
from strobe.core.labels import LabelSpace
from strobe.core.ports import Image

__all__ = ["ClipJob", "ClipResult", "png_bytes", "put_together", "simulate_clip"]

WORK = ".simulate"
"""The folder in the dataset's where finished clips are noted, so that the same command goes on after a stop."""

_NOTE_VERSION = 3
"""Raised when notes hold something new, so that older ones are made again."""

Decode = Callable[[bytes, Path], Image]
"""Bytes of a file and its name to an upright RGB image; supplied by the workflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipJob:
    """One clip to render: a photo, the how-manieth clip of it (from 0), the camera, the seed, and where it all goes."""

    photo: Photo
    number: int
    camera: CameraOptions
    seed: int
    folder: Path
    decode: Decode

    @property
    def first_index(self) -> int:
        """Where the clip begins in its photo's video.

        All clips of a photo are stretches of one video, so that intervals know that they are not independent; the
        stretches lie a clip's length apart, so that no window of time reaches from one into the next.
        """
        return self.number * 2 * (2 * self.camera.k + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipResult:
    """What came of a job: the note of a finished clip, or the reason there is none."""

    job: ClipJob
    note: dict[str, Any] | None = None
    problem: str = ""
    resumed: bool = False


def png_bytes(pixels: NDArray[np.uint8]) -> bytes:
    """The image as a PNG, lightly compressed: storing must not take longer than rendering."""
    buffer = io.BytesIO()
    PillowImage.fromarray(pixels).save(buffer, format="png", compress_level=3)
    return buffer.getvalue()


def simulate_clip(job: ClipJob) -> ClipResult:
    """Render one clip and store its frames, unless that was done before. Never raises for a photo that is bad."""
    try:
        data = job.photo.path.read_bytes()
        identity = _identity(job, hashlib.sha256(data).hexdigest())
        inputs = _inputs(job, identity)
        note_path = job.folder / WORK / f"{identity}-{job.number}.json"
        done = _finished(note_path, inputs, job.folder)
        if done is not None:
            return ClipResult(job=job, note=done, resumed=True)
        note = _render(job, data, identity) | {"inputs": inputs}
        write_json(note_path, note)
        return ClipResult(job=job, note=note)
    except OSError as error:
        return ClipResult(job=job, problem=f"{printable(job.photo.path)}: {error.strerror or error}")
    except InvalidFile as error:
        return ClipResult(job=job, problem=str(error))
    except InvalidValue as error:
        return ClipResult(job=job, problem=f"{printable(job.photo.path)}: {error}")


def _identity(job: ClipJob, photo_sha256: str) -> str:
    """The id of the photo's video: photo, camera and seed, and nothing of where they lie."""
    text = json.dumps([photo_sha256, asdict(job.camera), job.seed], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _inputs(job: ClipJob, identity: str) -> str:
    """Changes when anything does that the note depends on; labels are not in it, they are looked up afresh."""
    mask = sha256_of_file(job.photo.mask) if job.photo.mask else None
    text = json.dumps(
        [_NOTE_VERSION, identity, job.number, job.photo.name, [asdict(box) for box in job.photo.boxes], mask]
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _finished(note_path: Path, inputs: str, folder: Path) -> dict[str, Any] | None:
    if not note_path.is_file():
        return None
    try:
        note = read_json(note_path)
    except StrobeError:
        return None
    if not isinstance(note, dict) or note.get("inputs") != inputs:
        return None
    return note if all((folder / media).is_file() for media in note["media"]) else None


def _render(job: ClipJob, data: bytes, identity: str) -> dict[str, Any]:
    photo = job.decode(data, job.photo.path)
    _check_boxes(job, photo)
    mask = _read_mask(job, photo)
    # The camera's options stay out of the seed, so that switching one effect off leaves the others as they were.
    rng = np.random.default_rng([job.seed % 2**64, job.number, int(hashlib.sha256(data).hexdigest()[:16], 16)])
    seen = render_path(photo, job.camera, rng, boxes=job.photo.boxes, mask=mask)
    names = [f"{job.photo.name}/{job.first_index + place:06d}.png" for place in range(len(seen.frames))]
    media = [f"media/{name}" for name in names]
    for place, pixels in enumerate(seen.frames):
        write_bytes(job.folder / media[place], png_bytes(pixels))
        if seen.masks is not None:
            write_bytes(job.folder / f"masks/{names[place]}", png_bytes(seen.masks[place]))
    return {
        "video_id": identity,
        "size": [int(seen.frames.shape[2]), int(seen.frames.shape[1])],
        "sha256": [hashlib.sha256(pixels.tobytes()).hexdigest() for pixels in seen.frames],
        "media": media,
        "pict_types": list(seen.pict_types),
        "boxes": [[[*box.xyxy, box.label, box.track] for box in group] for group in seen.boxes],
        "mirrored": seen.mirrored,
        "hints": _hints(seen.frames),
    }


def _hints(frames: NDArray[np.uint8]) -> list[list[float]]:
    """What the pixels suggest of each frame against the anchor, zeros for the anchor itself."""
    anchor = len(frames) // 2
    features = {place: features_of(pixels) for place, pixels in enumerate(frames)}
    members = [place for place in features if place != anchor]
    rows = [[0.0] * len(Hints.__slots__) for _ in frames]
    for place, pair in zip(members, set_hints(features, anchor, members), strict=True):
        rows[place] = [float(getattr(pair, name)) for name in Hints.__slots__]
    return rows


def _check_boxes(job: ClipJob, photo: Image) -> None:
    height, width = photo.shape[:2]
    for box in job.photo.boxes:
        x0, y0, x1, y1 = box.xyxy
        # Half a pixel of slack: tools round corners differently.
        if x0 < -0.5 or y0 < -0.5 or x1 > width + 0.5 or y1 > height + 0.5:
            corners = ", ".join(f"{value:g}" for value in box.xyxy)
            raise InvalidFile(
                job.photo.path, f"box ({corners}) lies outside the photo of {width}×{height} pixels",
                hint="boxes are x0,y0,x1,y1 in pixels of the upright photo",
            )  # fmt: skip


def _read_mask(job: ClipJob, photo: Image) -> NDArray[np.uint8] | None:
    path = job.photo.mask
    if path is None:
        return None
    try:
        with PillowImage.open(path) as opened:
            mask = np.asarray(opened.convert("L") if opened.mode not in ("L", "P") else opened, dtype=np.uint8)
    except (OSError, ValueError, SyntaxError) as error:
        raise InvalidFile(path, f"not a readable mask ({printable(error, limit=80)})") from error
    if mask.shape != photo.shape[:2]:
        sizes = f"{mask.shape[1]}×{mask.shape[0]}, its photo {photo.shape[1]}×{photo.shape[0]}"
        raise InvalidFile(path, f"the mask has {sizes} pixels", hint="they must be the same")
    return mask


def put_together(
    clips: Sequence[ClipResult],
    *,
    name: str,
    label_space: LabelSpace,
    camera: CameraOptions,
    seed: int,
    licence: str = "",
) -> Dataset:
    """The dataset of all finished clips, in the order given."""
    pairs = [(clip.job, clip.note) for clip in clips if clip.note is not None]
    if not pairs:
        raise StrobeError("no photo could be used; nothing was written")
    notes = [note for _, note in pairs]
    length, count = 2 * camera.k + 1, len(notes)
    place_in_clip = np.tile(np.arange(length), count)
    index = np.repeat([job.first_index for job, _ in pairs], length) + place_in_clip
    video_ids = list(dict.fromkeys(note["video_id"] for note in notes))
    last = {note["video_id"]: job for job, note in pairs}  # a photo's clips come in order: its last one ends the video
    video = np.array([video_ids.index(note["video_id"]) for note in notes], dtype=np.int32)
    sizes = np.repeat(np.array([note["size"] for note in notes]), length, axis=0)
    labels = [
        (clip * length + place, label)
        for clip, (job, _) in enumerate(pairs)
        for place in range(length)
        for label in job.photo.labels
    ]
    boxes = [
        (clip * length + place, box)
        for clip, note in enumerate(notes)
        for place, group in enumerate(note["boxes"])
        for box in group
    ]
    return Dataset(
        info=DatasetInfo(
            name=name,
            label_space=label_space,
            k=camera.k,
            licence=licence,
            provenance={"made_by": "strobe simulate", "camera": asdict(camera), "seed": seed},
        ),
        videos=Videos(
            video_id=texts(video_ids),
            name=texts([last[one].photo.name for one in video_ids]),
            fps_num=np.full(len(video_ids), camera.fps, dtype=np.int64),
            fps_den=np.ones(len(video_ids), dtype=np.int64),
            n_frames=np.array([last[one].first_index + length for one in video_ids], dtype=np.int64),
            path=texts([""] * len(video_ids)),
            codec=texts(["h264" if camera.h264_crf is not None else ""] * len(video_ids)),
        ),
        frames=Frames(
            video=np.repeat(video, length),
            index=index,
            key=texts([media.removeprefix("media/") for note in notes for media in note["media"]]),
            pts=index.astype(np.int64),
            time_num=index.astype(np.int64),
            time_den=np.full(len(index), camera.fps, dtype=np.int64),
            pict_type=texts([kind for note in notes for kind in note["pict_types"]]),
            width=sizes[:, 0],
            height=sizes[:, 1],
            sha256=texts([digest for note in notes for digest in note["sha256"]]),
            media=texts([media for note in notes for media in note["media"]]),
        ),
        sets=Sets(
            set_id=texts([f"{job.photo.name}@{job.first_index + camera.k}" for job, _ in pairs]),
            set=np.repeat(np.arange(count, dtype=np.int32), length),
            frame=np.arange(count * length, dtype=np.int32),
            distance=(place_in_clip - camera.k).astype(np.float64),
            is_anchor=place_in_clip == camera.k,
        ),
        labels=Labels(
            frame=np.array([row for row, _ in labels], dtype=np.int32),
            label=np.array([label for _, label in labels], dtype=np.int32),
        ),
        boxes=_box_table(boxes) if any(job.photo.boxes for job, _ in pairs) else None,
        hints=_hint_table(np.array([row for note in notes for row in note["hints"]], dtype=np.float64)),
    )


def _hint_table(rows: NDArray[np.float64]) -> Hints:
    cut, blur, motion, exposure, duplicate = rows.T.copy()
    return Hints(cut=cut, blur=blur, motion=motion, exposure=exposure, duplicate=duplicate > 0)


def _box_table(rows: Sequence[tuple[int, Sequence[float]]]) -> Boxes:
    return Boxes(
        frame=np.array([row for row, _ in rows], dtype=np.int32),
        label=np.array([int(box[4]) for _, box in rows], dtype=np.int32),
        xyxy=np.array([box[:4] for _, box in rows], dtype=np.float64).reshape(-1, 4),
        track=np.array([int(box[5]) for _, box in rows], dtype=np.int32),
        crowd=np.zeros(len(rows), dtype=bool),
    )
