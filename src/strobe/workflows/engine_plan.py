"""How the engine decodes and shards the frames for the models of one command."""

from typing import TYPE_CHECKING

from strobe.core.ports import Classifier, Detector, FrameSource, SendableSource
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
    free = all(model.device != "cpu" and model.preparation is not None for model in models.values())
    able = free and isinstance(source, SendableSource) and can_start_workers()
    return wanted if able and n_cores >= 4 and wanted > 1 else 0


def engine_options(
    options: "PredictOptions", models: dict[str, Classifier | Detector], n_cores: int, *, processes: int,
    in_order: bool = False,
) -> EngineOptions:  # fmt: skip
    """Return the engine's options for these models. `in_order` is set if frames are decoded from videos in sequence."""
    largest = max(model.spec.batch_size for model in models.values())
    on_gpu = any(model.device != "cpu" for model in models.values())
    # Threads with several frames of a video each would be far apart in it, and the frames between would use memory.
    # At most half a batch: detector batches are small, and each frame is sent and kept at full size.
    chunk = 1 if in_order else max(1, min(16, largest // 2)) if on_gpu else 4
    decode = DecodeOptions(
        threads=options.workers or max(2, n_cores),
        processes=processes,
        chunk=chunk,
        ahead=max(8, 2 * processes, (2 if processes else 3) * largest // chunk),
        device_share=(1, 1) if options.decode == "device" else (0, 1),
    )
    return EngineOptions(
        # Slow models get smaller shards, because an interruption loses one shard.
        shard_size=options.shard_size or (2048 if on_gpu else max(64, min(512, 128 * largest))),
        decode=decode,
        retry_errors=options.retry_errors,
        in_flight=2 if on_gpu else 1,
    )
