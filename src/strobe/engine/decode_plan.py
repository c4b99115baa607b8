"""How the frames for the models of one command are decoded and sharded.

If possible, videos are decoded by the engines of the models' GPU. The frames are bit-identical to the CPU's.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import (
    Classifier,
    Detector,
    DeviceSource,
    EncodedClassifier,
    FrameSource,
    Model,
    Progress,
    SendableSource,
)
from strobe.core.tasks import Task
from strobe.engine.engine import EngineOptions
from strobe.engine.worker import DecodeOptions

if TYPE_CHECKING:
    from strobe.engine.prediction import PredictOptions


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
    from strobe.build.source import VideoSource

    if type(source) is not VideoSource:
        return source
    from strobe.engine.device_engine import NvidiaEngine
    from strobe.engine.device_frames import has_programs
    from strobe.engine.device_video import VideosOnDevice

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


def decode_processes(
    options: "PredictOptions", models: dict[str, Classifier | Detector], source: FrameSource, n_cores: int
) -> int:
    """Return the number of decoding processes, or 0 for threads.

    Processes pay off if the models leave many cores free.
    """
    wanted = options.workers or n_cores
    if isinstance(source, DeviceSource):
        return 0
    free = all(model.device != "cpu" and model.preparation is not None for model in models.values())
    if not (free and isinstance(source, SendableSource) and n_cores >= 4 and wanted > 1):
        return 0
    from strobe.engine.decode_pool import can_start_workers

    return wanted if can_start_workers() else 0


def engine_options(
    options: "PredictOptions", models: dict[str, Classifier | Detector], n_cores: int, *, processes: int,
    source: FrameSource,
) -> EngineOptions:  # fmt: skip
    """Return the engine's options for these models and this source of frames."""
    in_order = not isinstance(source, SendableSource)
    waiting = source.threads if isinstance(source, DeviceSource) else 0
    largest = max(model.spec.batch_size for model in models.values())
    on_gpu = any(model.device != "cpu" for model in models.values())
    fast = waiting and not any(Task(model.spec.task) is Task.DETECTION for model in models.values())
    # If each thread took several frames of a video, threads would be far apart in it, and the frames between them would
    # use memory. Otherwise a GPU's threads take at most half a batch: detector batches are small, and each frame is
    # sent and stored in full size.
    chunk = 1 if in_order else max(1, min(16, largest // 2)) if on_gpu else 4
    decode = DecodeOptions(
        threads=waiting or options.workers or max(2, n_cores),
        processes=processes,
        chunk=chunk,
        ahead=2 * waiting or max(8, 2 * processes, (2 if processes else 3) * largest // chunk),
        device_share=(1, 1) if options.decode == "device" and not waiting else (0, 1),
    )
    return EngineOptions(
        # Slow models get smaller shards, because an interruption loses one shard.
        shard_size=options.shard_size or (8192 if fast else 2048 if on_gpu else max(64, min(512, 128 * largest))),
        decode=decode,
        retry_errors=options.retry_errors,
        in_flight=2 if on_gpu else 1,
    )
