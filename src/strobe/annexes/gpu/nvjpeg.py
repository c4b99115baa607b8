"""The JPEG engines of a CUDA device, through nvJPEG's C interface.

torchvision makes the same calls to the same library, but decodes one batch at a time and waits for it. Here each thread
has its own decoder, so one batch's files are copied while the engines decode another. This gives twice the images per
second and the same pixels.
"""

import ctypes
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.late import require

_HARDWARE, _RGB = 3, 3  # nvjpegBackend_t and nvjpegOutputFormat_t (planes)
_PLANES = 4  # an nvjpegImage_t has four addresses, then four numbers of bytes per row


class JpegDecoder:
    """One decoder, for one thread at a time. A batch must finish before the next starts."""

    def __init__(self, library: Path) -> None:
        self._torch = require("torch", what="decoding on the device", extra="models")
        self._library = ctypes.CDLL(str(library))
        self._handle, self._state, self._header = (ctypes.c_void_p() for _ in range(3))
        _check(self._library.nvjpegCreateEx(_HARDWARE, None, None, 0, ctypes.byref(self._handle)))
        _check(self._library.nvjpegJpegStateCreate(self._handle, ctypes.byref(self._state)))
        _check(self._library.nvjpegJpegStreamCreate(self._handle, ctypes.byref(self._header)))
        # A batch has hundreds of headers, so these calls keep the interpreter's lock instead of reacquiring it each
        # time.
        quick = ctypes.PyDLL(str(library))
        self._parse, self._support, self._dimensions = (
            quick.nvjpegJpegStreamParseHeader,
            quick.nvjpegDecodeBatchedSupported,
            quick.nvjpegJpegStreamGetFrameDimensions,
        )
        self._parse.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]

    def __call__(self, files: Sequence[NDArray[np.uint8]], device: str) -> dict[tuple[int, int], tuple[list[int], Any]]:
        """Start decoding in the current stream.

        Returns the files by height and width, with their pixels (N, 3, H, W).

        Raises OSError if the engines cannot decode these files.
        """
        torch = self._torch
        addresses = np.array([file.__array_interface__["data"][0] for file in files], dtype=np.uint64)
        lengths = np.array([file.size for file in files], dtype=np.uint64)
        by_size: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, size in enumerate(self._sizes(addresses.tolist(), lengths.tolist())):
            by_size[size].append(index)
        decoded, targets = {}, np.zeros((len(files), 2, _PLANES), dtype=np.uint64)
        for (height, width), places in by_size.items():
            batch = torch.empty((len(places), 3, height, width), dtype=torch.uint8, device=device)
            planes = np.arange(3 * len(places), dtype=np.uint64) * np.uint64(height * width)
            targets[places, 0, :3] = (planes + np.uint64(batch.data_ptr())).reshape(-1, 3)
            targets[places, 1, :3] = width
            decoded[height, width] = places, batch
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        _check(self._library.nvjpegDecodeBatchedInitialize(self._handle, self._state, len(files), 1, _RGB))
        _check(
            self._library.nvjpegDecodeBatched(
                self._handle, self._state, *map(_pointer, (addresses, lengths, targets)), stream
            )
        )
        return decoded

    def _sizes(self, addresses: list[int], lengths: list[int]) -> Iterator[tuple[int, int]]:
        """Return each file's height and width."""
        handle, header = self._handle.value, self._header
        unable, width, height = ctypes.c_int(), ctypes.c_uint(), ctypes.c_uint()
        at_unable, at_width, at_height = map(ctypes.byref, (unable, width, height))
        for address, length in zip(addresses, lengths, strict=True):
            _check(
                self._parse(handle, address, length, header)
                or self._support(self._handle, header, at_unable)
                or self._dimensions(header, at_width, at_height)
            )
            if unable.value:  # for example a progressive JPEG
                raise OSError("nvJPEG: the engines cannot decode some of these files")
            yield height.value, width.value


class JpegDecoders:
    """The decoders of one device, one per concurrently decoding thread. They exist until the process ends."""

    def __init__(self, library: Path) -> None:
        self._torch = require("torch", what="decoding on the device", extra="models")
        self._library = library
        self._idle: SimpleQueue[JpegDecoder] = SimpleQueue()
        self._idle.put(JpegDecoder(library))

    @contextmanager
    def lent(self) -> Iterator[JpegDecoder]:
        """Lend out a decoder for exclusive use. Its work must be finished when the context ends."""
        try:
            engine = self._idle.get_nowait()
        except Empty:
            engine = JpegDecoder(self._library)
        try:
            yield engine
        except BaseException:
            self._torch.cuda.current_stream().synchronize()  # the batch may still be running
            raise
        finally:
            self._idle.put(engine)


@cache
def engines(device: str) -> JpegDecoders | None:
    """Return the device's decoders, from the library torchvision has loaded. None if the GPU is older than the A100."""
    torch = require("torch", what="decoding on the device", extra="models")
    library = _loaded()
    if library is None:
        return None
    try:
        with torch.cuda.device(device):
            return JpegDecoders(library)
    except (OSError, AttributeError):  # no engines, or a library without this call
        return None


def _loaded() -> Path | None:
    """Return the path of the nvJPEG library that this process has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return None
    paths = (line.split(maxsplit=5)[-1] for line in lines if "libnvjpeg" in line)
    return next(map(Path, paths), None)


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _check(status: int) -> None:
    if status:
        raise OSError(f"nvJPEG: status {status}")
