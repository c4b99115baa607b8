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
    """The number of processes that decode, 0 for threads. They pay off with many cores that the models leave free."""
    wanted = options.workers or n_cores
    free = all(model.device != "cpu" and model.preparation is not None for model in models.values())
    able = free and isinstance(source, SendableSource) and can_start_workers()
    return wanted if able and n_cores >= 4 and wanted > 1 else 0


def engine_options(
    options: "PredictOptions", models: dict[str, Classifier | Detector], n_cores: int, *, processes: int,
    in_order: bool = False,
) -> EngineOptions:  # fmt: skip
    """The options of the engine for these models; `in_order` if frames are decoded from videos one after the other."""
    largest = max(model.spec.batch_size for model in models.values())
    on_gpu = any(model.device != "cpu" for model in models.values())
    # Threads that each took several frames of a video would be far apart in it, and what lies between has to be kept.
    # Half a batch at most: a detector's are small, and each frame of them is sent and kept whole.
    chunk = 1 if in_order else max(1, min(16, largest // 2)) if on_gpu else 4
    decode = DecodeOptions(
        threads=options.workers or max(2, n_cores),
        processes=processes,
        chunk=chunk,
        ahead=max(8, 2 * processes, (2 if processes else 3) * largest // chunk),
        device_share=(1, 1) if options.decode == "device" else (0, 1),
    )
    return EngineOptions(
        # Fewer frames to a shard of a slow model: a kill costs no more than a shard.
        shard_size=options.shard_size or (2048 if on_gpu else max(64, min(512, 128 * largest))),
        decode=decode,
        retry_errors=options.retry_errors,
        in_flight=2 if on_gpu else 1,
    )
