"""How the engine decodes and shards the frames for the models of one command."""

from typing import TYPE_CHECKING

from strobe.core.ports import Classifier, Detector, DeviceSource, FrameSource, SendableSource
from strobe.core.tasks import Task
from strobe.predict.decode_pool import can_start_workers
from strobe.predict.decoding import DecodeOptions
from strobe.predict.engine import EngineOptions

if TYPE_CHECKING:
    from strobe.workflows.predict import PredictOptions


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
    able = free and isinstance(source, SendableSource) and can_start_workers()
    return wanted if able and n_cores >= 4 and wanted > 1 else 0


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
