"""Turn photos into perturbation sets: render clips independently, and assemble the dataset from them."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from strobe.build.camera import render_path
from strobe.build.camera_photos import Photo
from strobe.build.hints import features_of, set_hints
from strobe.build.options import CameraOptions
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, printable
from strobe.core.files import sha256_of_file, write_bytes, write_json
from strobe.core.labels import LabelSpace
from strobe.core.png import png_bytes
from strobe.core.ports import Image
from strobe.core.seals import read_sealed, with_digest
from strobe.core.tables import Hints

WORK = ".simulate"
"""The subfolder that records finished clips, so that the same command resumes after an interruption."""

_NOTE_VERSION = 4
"""Increased when the content of records changes, so that older records are made again."""

Decode = Callable[[bytes, Path], Image]
"""Decodes a file's bytes to an upright RGB image, given the file's name. The workflow supplies this function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipJob:
    """One clip to render: a photo, the clip's number within its photo (from 0), the camera, the seed and the target."""

    photo: Photo
    number: int
    camera: CameraOptions
    seed: int
    folder: Path
    decode: Decode

    @property
    def first_index(self) -> int:
        """The clip's first frame index in its photo's video.

        All clips of a photo are segments of one video, so that confidence intervals treat them as dependent. Segments
        are a clip's length apart, so that no time window spans two clips.
        """
        return self.number * 2 * (2 * self.camera.k + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipResult:
    """The result of a job: the record of a finished clip, or the reason why there is no clip."""

    job: ClipJob
    note: dict[str, Any] | None = None
    problem: str = ""
    resumed: bool = False


def simulate_clip(job: ClipJob) -> ClipResult:
    """Render one clip and store its frames, unless this was done before. A bad photo is reported in the result."""
    try:
        data = job.photo.path.read_bytes()
        identity = _identity(job, hashlib.sha256(data).hexdigest())
        inputs = _inputs(job, identity)
        note_path = job.folder / WORK / f"{identity}-{job.number}.json"
        done = _finished(note_path, inputs, job.folder)
        if done is not None:
            return ClipResult(job=job, note=done, resumed=True)
        note = _render(job, data, identity) | {"inputs": inputs}
        write_json(note_path, with_digest(note))
        return ClipResult(job=job, note=note)
    except OSError as error:
        return ClipResult(job=job, problem=f"{printable(job.photo.path)}: {error.strerror or error}")
    except InvalidFile as error:
        return ClipResult(job=job, problem=str(error))
    except InvalidValue as error:
        return ClipResult(job=job, problem=f"{printable(job.photo.path)}: {error}")


def _identity(job: ClipJob, photo_sha256: str) -> str:
    """Return the video id of the photo. It is derived from photo, camera and seed, and is independent of paths."""
    text = json.dumps([photo_sha256, asdict(job.camera), job.seed], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _inputs(job: ClipJob, identity: str) -> str:
    """Return a digest of everything that the record depends on. Labels are excluded, because they are read again."""
    mask = sha256_of_file(job.photo.mask) if job.photo.mask else None
    text = json.dumps(
        [_NOTE_VERSION, identity, job.number, job.photo.name, [asdict(box) for box in job.photo.boxes], mask]
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _finished(note_path: Path, inputs: str, folder: Path) -> dict[str, Any] | None:
    note = read_sealed(note_path)
    if note is None or note["inputs"] != inputs:
        return None
    return note if all((folder / media).is_file() for media in note["media"]) else None


def _render(job: ClipJob, data: bytes, identity: str) -> dict[str, Any]:
    photo = job.decode(data, job.photo.path)
    mask = _read_mask(job, photo)
    # The camera's options are not part of the seed, so that disabling one effect leaves the other effects unchanged.
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
        "pixels": [hashlib.sha256(pixels.tobytes()).hexdigest() for pixels in seen.frames],
        "media": media,
        "pict_types": list(seen.pict_types),
        "boxes": [[[*box.xyxy, box.label, box.track] for box in group] for group in seen.boxes],
        "mirrored": seen.mirrored,
        "hints": _hints(seen.frames),
    }


def _hints(frames: NDArray[np.uint8]) -> list[list[float]]:
    """Return the hints of each frame compared with the anchor, with zeros for the anchor itself."""
    anchor = len(frames) // 2
    features = {index: features_of(pixels) for index, pixels in enumerate(frames)}
    members = [feature for feature in features if feature != anchor]
    rows = [[0.0] * len(Hints.__slots__) for _ in frames]
    for place, pair in zip(members, set_hints(features, anchor, members), strict=True):
        rows[place] = [float(getattr(pair, name)) for name in Hints.__slots__]
    return rows


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
        sizes = f"{mask.shape[1]}×{mask.shape[0]} pixels, but its photo is {photo.shape[1]}×{photo.shape[0]}"
        raise InvalidFile(path, f"the mask is {sizes}", hint="both must have the same size")
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
    """Return the dataset of all finished clips, in the given order."""
    pairs = [(clip.job, clip.note) for clip in clips if clip.note is not None]
    if not pairs:
        raise StrobeError("no photo could be used; nothing was written")
    grown = DatasetBuilder()
    # a photo's clips come in order, so its last clip ends the video
    last = {note["video_id"]: job for job, note in pairs}
    codec = "h264" if camera.h264_crf is not None else ""
    videos = {
        video_id: grown.video(
            video_id=video_id,
            name=job.photo.name,
            fps=Fraction(camera.fps),
            codec=codec,
            n_frames=job.first_index + 2 * camera.k + 1,
        )
        for video_id, job in last.items()
    }
    for job, note in pairs:
        rows = []
        for place, media in enumerate(note["media"]):
            index = job.first_index + place
            row = grown.frame(
                video=videos[note["video_id"]],
                index=index,
                key=media.removeprefix("media/"),
                pts=index,
                time_s=(index, camera.fps),
                pict_type=note["pict_types"][place],
                size_wh=note["size"],
                sha256=note["pixels"][place],
                media=media,
                labels=job.photo.labels,
            )
            rows.append(row)
            for *xyxy, label, track in note["boxes"][place]:
                grown.box(frame=row, label=int(label), xyxy=xyxy, track=int(track))
        grown.set(
            set_id=f"{job.photo.name}@{job.first_index + camera.k}",
            anchor=rows[camera.k],
            members=[(row, place - camera.k) for place, row in enumerate(rows) if place != camera.k],
        )
    info = DatasetInfo(
        name=name,
        label_space=label_space,
        k=camera.k,
        licence=licence,
        provenance={"made_by": "strobe simulate", "camera": asdict(camera), "seed": seed},
    )
    hints = _hint_table(np.array([row for _, note in pairs for row in note["hints"]], dtype=np.float64))
    return grown.build(info, with_boxes=any(job.photo.boxes for job, _ in pairs), hints=hints)


def _hint_table(rows: NDArray[np.float64]) -> Hints:
    cut, blur, motion, exposure, duplicate = rows.T.copy()
    return Hints(cut=cut, blur=blur, motion=motion, exposure=exposure, duplicate=duplicate > 0)
