"""Decode the videos of a dataset by the engines of the models' GPU. The frames are bit-identical to the CPU's."""

from importlib.util import find_spec

from strobe.annexes.gpu.engine import NvidiaEngine
from strobe.annexes.gpu.frames import has_programs
from strobe.annexes.gpu.video import VideosOnDevice
from strobe.build.source import VideoSource
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource
from strobe.engine.loading import FasterFrames

_SESSIONS = 8
"""Decoding sessions at the same time. An H200 has seven engines. More sessions than this would take long to open."""


def frames_on_gpu(source: FrameSource, dataset: Dataset, device: str, few: bool) -> tuple[FrameSource | None, str]:
    """Return the frames as the models' GPU makes them, or None if that is not possible, and a note.

    All frames must be in videos. A detector is slower than one session and takes frames in full size, so only a `few`
    may wait in the GPU's memory.
    """
    if not isinstance(source, VideoSource) or not device.startswith("cuda") or dataset.frames.as_input.any():
        return None, ""
    try:
        engine = NvidiaEngine(device)
        if not has_programs():
            raise StrobeError("this torch cannot compile programs for the GPU; try a newer one")
    except Exception as error:  # the library may raise any error when it checks the driver
        why = str(error) if isinstance(error, StrobeError) else printable(error, limit=120)
        return None, f"videos are decoded on the CPU: {why}"
    videos = VideosOnDevice(dataset, source, engine, path=source.path, device=device, sessions=1 if few else _SESSIONS)
    if not few:
        videos.open_ahead()
    return videos, "videos are decoded by the GPU's engines; every frame is checked against its digest from the build"


def might_help(source: FrameSource) -> bool:
    """Return whether all frames are in videos and the library of the engines is installed."""
    return isinstance(source, VideoSource) and find_spec("PyNvVideoCodec") is not None


FRAMES = FasterFrames(frames_on_gpu, might_help)
