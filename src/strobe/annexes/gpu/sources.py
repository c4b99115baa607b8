"""Decode the videos of a dataset by the engines of the models' GPU. The frames are bit-identical to the CPU's."""

from strobe.annexes.gpu.engine import NvidiaEngine
from strobe.annexes.gpu.frames import has_programs
from strobe.annexes.gpu.video import VideosOnDevice
from strobe.build.source import VideoSource
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, Progress

_SESSIONS = 8
"""Decoding sessions at the same time. An H200 has seven engines. More sessions than this would take long to open."""


def frames_on_gpu(source: FrameSource, dataset: Dataset, device: str, few: bool, say: Progress) -> FrameSource:
    """Return the source with its frames made on the models' GPU, or the source itself if that is not possible.

    All frames must be in videos. A detector is slower than one session and takes frames in full size, so only a `few`
    may wait in the GPU's memory.
    """
    if type(source) is not VideoSource or not device.startswith("cuda") or dataset.frames.as_input.any():
        return source
    try:
        engine = NvidiaEngine(device)
        if not has_programs():
            raise StrobeError("this torch cannot compile programs for the GPU; try a newer one")
    except Exception as error:  # the library may raise any error when it checks the driver
        why = str(error) if isinstance(error, StrobeError) else printable(error, limit=120)
        say.note(f"videos are decoded on the CPU: {why}")
        return source
    say.note("videos are decoded by the GPU's engines; every frame is checked against its digest from the build")
    return VideosOnDevice(dataset, source, engine, path=source.path, device=device, sessions=1 if few else _SESSIONS)
