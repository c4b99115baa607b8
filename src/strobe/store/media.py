"""Decode stored frames to upright RGB in any supported format, with a one-line error for unreadable files.

FFmpeg decodes PNG frames in half the time that Pillow takes, if their pixels can be verified (ADR 10).
"""

import copy
import hashlib
import io
import os
import stat
import struct
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.arrays import Texts
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, InvalidValue, MissingExtra, StrobeError, printable
from strobe.core.files import inside
from strobe.core.late import require
from strobe.core.packed import PACKED_SUFFIX, is_packed, is_sealed, packed_size, unpacked
from strobe.core.ports import Image
from strobe.core.tables import Frames

_CHUNKS = frozenset(
    {b"IHDR", b"IDAT", b"IEND", b"pHYs", b"gAMA", b"cHRM", b"sRGB", b"tIME", b"tEXt", b"sBIT", b"eXIf", b"tRNS"}
)
"""The chunk types passed to FFmpeg. Compressed profiles and texts, which could expand to gigabytes, are excluded."""

_HEAD = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_LEAST = 1 << 16
"""Smaller files do not justify opening a decoder."""


def quick_png(data: bytes, *, max_pixels: int) -> Image | None:
    """Return the pixels of a plain PNG (8 bits, RGB, not interlaced), which the caller must verify.

    All other files give None.

    Pillow handles files that PyAV cannot decode, and all files if PyAV is not installed.
    """
    if len(data) < _LEAST or not data.startswith(_HEAD):
        return None
    width, height, *kind = struct.unpack_from(">IIBBBBB", data, len(_HEAD))
    if kind != [8, 2, 0, 0, 0] or not 0 < width * height <= max_pixels or not is_plain_png(data):
        return None
    try:
        av = require("av", what="reading PNG", extra="video")
    except MissingExtra:
        return None
    try:
        context: Any = av.CodecContext.create("png", "r")
        context.thread_count = 1
        frames: list[Any] = list(context.decode(av.Packet(data))) + list(context.decode(None))
    except (av.error.FFmpegError, ValueError):
        return None
    if len(frames) != 1:
        return None
    pixels: Image = np.ascontiguousarray(frames[0].to_ndarray(format="rgb24"))
    return pixels if pixels.shape == (height, width, 3) else None


def is_plain_png(data: bytes) -> bool:
    """Return whether all chunks are inside the file, and have types that cannot decompress to more than the image."""
    place = 8
    while place + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        if kind not in _CHUNKS:
            return False
        place += 12 + length
        if kind == b"IEND":
            return bool(place <= len(data))
    return False


_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_OPEN = os.O_RDONLY | _NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags for opening stored files: links are not followed, and a pipe in a file's place does not block."""

_LOSSLESS = (".png", ".bmp", ".tif", ".tiff", ".ppm", ".webp", PACKED_SUFFIX)
"""Formats whose pixels do not depend on the decoder. The pixels of a JPEG can differ by one level between decoders."""

FILE_DIGESTS = {"jpeg_digest": "file"}
"""The provenance entry of builds whose JPEG digests are digests of the files, not of the pixels."""

_JPEG = b"\xff\xd8\xff"

MAX_PIXELS = 100_000_000
"""Larger images are refused, because a small file can decompress to more memory than is available."""


def has_file_digests(dataset: Dataset) -> bool:
    """Return whether the digests of JPEG frames are file digests.

    This applies to imports, to `vary`, and to builds that record FILE_DIGESTS.
    """
    told = dataset.info.provenance
    copied = "format" in told or str(told.get("made_by", "")).startswith(("strobe vary", "strobe demo"))
    return copied or {**told, **FILE_DIGESTS} == told


class _Quiet:
    """Suppress warnings while any thread is inside.

    Warning filters apply to the whole process. The first thread to enter sets the filters, and the last thread to leave
    restores them. One `catch_warnings` per thread would restore them in the wrong order.
    """

    def __init__(self) -> None:
        self._guard, self._inside, self._filters = threading.Lock(), 0, warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._guard:
            if not self._inside:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._inside -= 1
            if not self._inside:
                self._filters.__exit__(None, None, None)


_QUIET = _Quiet()


def decode_image(data: bytes, *, name: Path | str, max_pixels: int = MAX_PIXELS) -> Image:
    """Decode the first frame to RGB.

    Greyscale and CMYK are converted to RGB, 16 bits are scaled to 8 bits, and the EXIF rotation is applied.

    Transparent pixels are composited over black, so that the result depends on the file alone.
    """
    from PIL import Image as Pillow

    try:
        if is_packed(data):
            _refuse_large(name, packed_size(data), max_pixels)
            return unpacked(data)
        with _QUIET, Pillow.open(io.BytesIO(data)) as opened:
            _refuse_large(name, opened.size, max_pixels)
            return _upright_rgb(opened)
    except InvalidValue as error:
        raise InvalidFile(name, f"damaged ({error})") from error
    except StrobeError:
        raise
    except Pillow.DecompressionBombError as error:
        raise InvalidFile(name, "a decompression bomb: far more pixels than the limit", hint="shrink it") from error
    except Exception as error:  # decoders raise arbitrary exceptions on damaged bytes, so the error blames the file
        # Pillow's message contains the buffer's address, which would differ from run to run.
        reason = "unknown image format" if "cannot identify" in str(error) else printable(error, limit=80)
        raise InvalidFile(name, f"not a readable image ({reason})") from error


def _refuse_large(name: Path | str, size_wh: tuple[int, int], max_pixels: int) -> None:
    width, height = size_wh
    if width * height > max_pixels:
        problem = f"{width}×{height} pixels, more than the limit of {max_pixels:,}"
        raise InvalidFile(name, problem, hint="shrink the image")


def _upright_rgb(opened: Any) -> Image:
    from PIL import Image as Pillow
    from PIL import ImageOps

    opened.load()
    # Images of these formats in mode I have 16 bits. The high byte is the 8-bit image.
    deep = opened.format in ("PNG", "PPM", "TIFF") and opened.mode == "I"
    # Rotate in place, and only if needed, because a copy costs a tenth of the decoding time.
    ImageOps.exif_transpose(opened, in_place=True)
    picture: Any = opened
    if picture.mode.startswith("I") or picture.mode == "F":
        pixels = np.asarray(picture)
        if deep or (pixels.dtype.kind == "u" and pixels.dtype.itemsize == 2):
            pixels = np.clip(pixels, 0, 65535) >> 8
        picture = Pillow.fromarray(np.clip(np.nan_to_num(pixels), 0, 255).astype(np.uint8))
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        rgba = picture.convert("RGBA")
        picture = Pillow.alpha_composite(Pillow.new("RGBA", rgba.size, (0, 0, 0, 255)), rgba)
    if picture.mode != "RGB":
        picture = picture.convert("RGB")
    return np.ascontiguousarray(np.asarray(picture, dtype=np.uint8))


class MediaSource:
    """The stored frames of a dataset folder (a FrameSource). Paths that leave the folder are refused."""

    def __init__(self, dataset: Dataset) -> None:
        if dataset.root is None:
            raise StrobeError(f"the dataset {dataset.name} has no folder, so no images can be read")
        self._root = dataset.root.resolve()
        self._media: Texts | dict[int, str] = dataset.frames.media
        self._frames: Frames | dict[str, dict[int, str]] = dataset.frames
        self._jpeg_by_file = has_file_digests(dataset)
        self._hashed = "pixels"  # what the last digest covered: pixels in builds, files in imports
        self._folders: dict[str, Path] = {}

    def only(self, rows: Sequence[int]) -> "MediaSource":
        """Return a source with only these rows, which is small enough to send to another process."""
        part = copy.copy(self)
        part._media = {row: self._media[row] for row in rows}
        part._frames = {name: {row: self._text(name, row) for row in rows} for name in ("key", "sha256")}
        part._folders = {}
        return part

    def _text(self, name: str, row: int) -> str:
        """Return a frame's key or digest. These columns are read only when frames are decoded."""
        column = self._frames[name] if isinstance(self._frames, dict) else getattr(self._frames, name)
        return str(column[row])

    def path(self, row: int) -> Path:
        """Return the frame's path, which must be inside the folder after resolving links."""
        relative = str(self._media[row])
        if not relative:
            raise StrobeError(
                f"frame {printable(self._text('key', row))} has no stored image; import the dataset with its media"
            )
        folder, _, name = relative.rpartition("/")
        # The file system is checked once for each folder on the path, then for the file itself.
        if folder not in self._folders:
            self._folders[folder] = inside(self._root, folder) if folder else self._root
        path = self._folders[folder] / name
        try:
            is_plain = name not in ("", ".", "..") and not path.is_symlink()
        except (OSError, ValueError):  # the name is too long or contains a NUL
            is_plain = False
        return path if is_plain else inside(self._root, relative).resolve()

    def read_encoded(self, row: int) -> bytes | None:
        """Return the stored file's bytes; None for a packed frame, which only strobe can open."""
        if str(self._media[row]).endswith(PACKED_SUFFIX):
            return None
        content = self.read_stored(row)
        if self._jpeg_by_file and content.startswith(_JPEG):
            self._refuse_other_file(row, content)
        return content

    def _refuse_other_file(self, row: int, content: bytes) -> None:
        """Raise InvalidFile if the file's bytes differ from the bytes that the dataset was made with."""
        digest = self._text("sha256", row)
        if digest and hashlib.sha256(content).hexdigest() != digest:
            raise self._other_image(row)

    def _other_image(self, row: int) -> InvalidFile:
        hint = "build or import the dataset again"
        return InvalidFile(self.path(row), "not the image the dataset was made with", hint=hint)

    def read_stored(self, row: int) -> bytes:
        """Return the stored file's bytes, in any format."""
        found = self._read_at_once(str(self._media[row]))
        if found is not None:
            return found
        path = self.path(row)
        try:
            handle = os.open(path, _OPEN)
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise InvalidFile(path, "not a regular file")
                return file.read()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "its name is not a valid path"
            raise InvalidFile(path, f"cannot be read ({reason})") from error

    def _read_at_once(self, relative: str) -> bytes | None:
        """Read a regular file in a folder that was checked before, with as little Python code as possible.

        None means that the slow path is needed. A GPU can decode ten thousand files per second. At this rate, Python
        code for each file delays every other thread.
        """
        folder, _, name = relative.rpartition("/")
        parent = self._folders.get(folder)
        if parent is None or name in ("", ".", "..") or not _NOFOLLOW:
            return None
        try:
            handle = os.open(f"{parent}/{name}", _OPEN)
        except (OSError, ValueError):
            return None  # the file is missing or a link; the slow path reports which
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return None
            size = found.st_size
            content = os.read(handle, size)
        except OSError:
            return None
        finally:
            os.close(handle)
        return content if len(content) == size else None

    def read(self, row: int) -> Image:
        """Return the frame as upright RGB. A frame that detectably differs from the dataset's original is refused."""
        content, digest = self.read_stored(row), self._text("sha256", row)
        if digest and self._hashed == "pixels":
            quick = quick_png(content, max_pixels=MAX_PIXELS)
            if quick is not None and hashlib.sha256(quick.data).hexdigest() == digest:
                return quick
        if self._jpeg_by_file and content.startswith(_JPEG):
            self._refuse_other_file(row, content)
        image = decode_image(content, name=self.path(row))
        if is_packed(content) and is_sealed(content, digest):
            # The file is unchanged since it was packed from pixels with this digest. Hashing the pixels takes three
            # times as long.
            return image
        if digest and str(self._media[row]).lower().endswith(_LOSSLESS) and not self._is(digest, content, image):
            raise self._other_image(row)
        return image

    def _is(self, digest: str, content: bytes, image: Image) -> bool:
        ways: dict[str, Any] = {"pixels": image.data, "file": content}
        first = self._hashed
        for way in (first, *(ways.keys() - {first})):
            if hashlib.sha256(ways[way]).hexdigest() == digest:
                self._hashed = way
                return True
        return False
