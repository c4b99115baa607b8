"""Decode videos with the decoding engines of the models' GPU. The frames are bit-identical to the CPU's."""

from collections import defaultdict
from collections.abc import Iterable

from strobe.build.source import VideoSource
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import DeviceSource, EncodedClassifier, FrameSource, Model, Progress
from strobe.core.tasks import Task

__all__ = ["frames_on_gpu", "say_decoded"]

_SESSIONS = 8
"""Decoding sessions at the same time. An H200 has seven engines. More sessions than this would take long to open."""


def frames_on_gpu(source: FrameSource, dataset: Dataset, models: Iterable[Model], say: Progress) -> FrameSource:
    """Return the source with its frames made on the models' GPU, or the source itself if that is not possible.

    Models must share one CUDA device, and all frames must be in videos.
    """
    given = list(models)
    devices = {model.device for model in given}
    # A detector is slower than one session and takes frames in full size, so only a few may wait in the GPU's memory.
    whole = any(Task(model.spec.task) is Task.DETECTION for model in given)
    if len(devices) != 1 or not (device := devices.pop()).startswith("cuda") or dataset.frames.as_input.any():
        return source
    if type(source) is not VideoSource:
        return source
    from strobe.predict.device_engine import NvidiaEngine
    from strobe.predict.device_frames import has_programs
    from strobe.predict.device_video import VideosOnDevice

    try:
        engine = NvidiaEngine(device)
        if not has_programs():
            raise StrobeError("this torch cannot compile programs for the GPU; try a newer one")
    except Exception as error:  # the library may raise any error when it checks the driver
        why = str(error) if isinstance(error, StrobeError) else printable(error, limit=120)
        say.note(f"videos are decoded on the CPU: {why}")
        return source
    say.note("videos are decoded by the GPU's engines; every frame is checked against its digest from the build")
    return VideosOnDevice(dataset, source, engine, path=source.path, device=device, sessions=1 if whole else _SESSIONS)


def say_decoded(source: FrameSource, dataset: Dataset, exactly: Iterable[Model], say: Progress) -> None:
    """Print notes on how frames were decoded, if needed, and release the GPU's memory.

    One note names the videos that the CPU decoded instead of the GPU, and the reason. If the CPU decoded files
    `exactly` for some of these models, a note mentions the faster option.
    """
    if any(model.device.startswith("cuda") and isinstance(model, EncodedClassifier) for model in exactly):
        say.note("frames were decoded exactly on the CPU; --decode device is much faster for JPEG frames")
    if not isinstance(source, DeviceSource):
        return
    source.close()
    by_reason: dict[str, list[int]] = defaultdict(list)
    for video, reason in sorted(source.handed_over.items()):
        by_reason[reason].append(video)
    for reason, videos in by_reason.items():
        first = printable(dataset.videos.name[videos[0]])
        more = f" and {len(videos) - 1} more" if len(videos) > 1 else ""
        say.note(f"{first}{more}: decoded on the CPU, not by the GPU's engines: {reason}")
