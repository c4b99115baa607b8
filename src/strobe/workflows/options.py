"""The options of builds, evals of videos, simulations and trainings.

Each field with a help text is an option of a command as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from strobe.build.options import AnchorOptions, CameraOptions, DropRules, Limits, Store
from strobe.core.errors import InvalidValue, expect
from strobe.core.options import check_options, option
from strobe.engine.running import ExecutorOptions

if TYPE_CHECKING:
    from strobe.build.labels import AnchorRow, LabelRow
    from strobe.core.labels import LabelSpace

_NAME = "The dataset's name. Default: the name of the folder."


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Options of a build. `labels`, `boxes` and `anchors` are files or rows.

    If `label_source` is None, the labels determine it. With `store` None, an existing folder keeps its format. A video
    with fewer than `least_frames` frames cannot be used. `facts` are added to the dataset's provenance. `engine` is
    where videos are decoded.
    """

    sampling: AnchorOptions = field(default_factory=AnchorOptions)
    labels: "Path | Sequence[LabelRow] | None" = option(
        None,
        "CSV video,label. Add frame or start_s,end_s to label a part of a video. a|b gives both labels.",
        kind=Path,
    )
    label: tuple[str, ...] = option((), "A class that every video shows. May be repeated.")
    boxes: Path | None = option(None, "CSV video,frame,label,x0,y0,x1,y1[,track,crowd] in pixels, or COCO JSON.")
    label_space: "str | LabelSpace | None" = option(
        None,
        "A shipped label space, e.g. imagenet-vid, or a file with one class per line or a JSON list. Default: the "
        "classes in the labels.",
        kind=str,
    )
    label_source: Literal["frame", "anchor"] | None = option(
        None, "Score a member with the labels of its own frame or of its anchor."
    )
    unlabelled: bool = option(False, "Allow videos without labels, to label them in review.")
    anchors: "Path | Sequence[AnchorRow] | None" = option(
        None, "CSV video,frame or video,time_s of the anchors to use.", kind=Path
    )
    store: Store | None = option(
        None,
        "zstd (default, fastest to read; view it with inspect --sheet), png and webp are lossless. jpeg is smaller "
        "and changes pixels.",
    )
    reference: bool = option(False, "Store no frames. Decode them from the videos when models run.")
    hints: bool = option(True, "Do not compute hints for reviewers.", flag="--no-hints")
    drop: DropRules = field(default_factory=DropRules)
    limits: Limits = field(default_factory=Limits)
    name: str = option("", _NAME)
    licence: str = option("", "The licence of the videos, stored in dataset.json.")
    least_frames: int = 1
    facts: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = option(False, "Write nothing if any video cannot be used.")
    workers: int = 1
    engine: ExecutorOptions = field(default_factory=ExecutorOptions)

    def __post_init__(self) -> None:
        expect(self.workers >= 1, "<<workers>>", ">= 1", self.workers)
        if self.labels and self.label:
            raise InvalidValue("<<labels>> and <<label>> both label the videos; use only one of them")
        if self.drop.any and not self.hints:
            raise InvalidValue("--drop-… options need the hints; remove <<no_hints>>")
        if self.anchors and (self.sampling.every is not None or self.sampling.anchors_per_video > 1):
            raise InvalidValue("<<anchors>> names every anchor; remove <<every>> and <<anchors_per_video>>")


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoOptions:
    """How videos become sets.

    There is an anchor every `every` frames. By default, this is 2k + 1, so sets cover the video and share no frame.
    `label_space` is a shipped name, a file of classes or a LabelSpace. By default, it has the first model's classes.
    """

    every: int | None = None
    label_space: "str | LabelSpace | None" = None

    def __post_init__(self) -> None:
        expect(self.every is None or self.every >= 1, "<<every>>", ">= 1", self.every)

    @property
    def any(self) -> bool:
        """Whether an option is set."""
        return self.every is not None or self.label_space is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """Options of a simulation: camera, sources of labels, boxes and masks, clips per photo, and seed."""

    camera: CameraOptions = field(default_factory=CameraOptions)
    labels: Path | None = option(None, "CSV file,label. Default: the class folder of each photo.")
    label: tuple[str, ...] = option((), "A class that every photo shows. May be repeated.")
    boxes: Path | None = option(None, "CSV file,label,x0,y0,x1,y1[,track] in pixels of the photo, or COCO JSON.")
    masks: Path | None = option(
        None, "Folder of PNG masks with the file names of the photos. Pixel values are object numbers."
    )
    label_space: str | None = option(
        None, "A shipped label space, e.g. ilsvrc-2012. Default: the classes in the labels."
    )
    sets_per_photo: int = option(1, "Clips per photo.", least=1, most=1000)
    name: str = option("", _NAME)
    licence: str = option("", "The licence of the photos, stored in dataset.json.")
    workers: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        check_options(self)
        expect(self.workers >= 1, "<<workers>>", ">= 1", self.workers)
        if self.labels and self.label:
            raise InvalidValue("<<labels>> and <<label>> both label the photos; use only one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """Options of a training. Only seed, image size, held share and precision change the weights.

    With `precision` auto, CUDA uses bfloat16. Other devices use float32, but choose the worst member of a set in
    bfloat16 if the processor supports it. With `precision` float32, everything is in float32.
    """

    seed: int = 0
    device: str = option("auto", "auto, cpu, cuda, cuda:1 or mps.")
    precision: Literal["auto", "float32", "bfloat16"] = option(
        "auto", "auto: bfloat16 on CUDA, float32 elsewhere. Some CPUs choose the worst frame in bfloat16."
    )
    image_size: int | None = option(None, "Input size in pixels. Default: the model's own.", least=8, most=8192)
    held_share: float = option(0.2, "Share of each class's sources to hold out if --held-out is not used.")
    from_scratch: bool = option(False, "Start from random weights.")
    evaluations: int = option(10, "Evaluations on the held-out data, spread over the training.")
    checkpoint_s: float = option(60.0, "Seconds between checkpoints.")
    minutes: float | None = option(None, "Stop after this many minutes and keep the weights.")
    cache_gb: float = option(1.0, "Largest scratch file, in GB. Frames that need more are read during the training.")
    threads: int | None = option(None, "Torch threads on a CPU. The last bits of results depend on their number.")
    deterministic: bool = option(False, "Give bit-identical results in every run on one machine. Slower on a GPU.")
    settings: Path | None = option(
        None, "Class names, for weights that do not include them.", flag="--model-settings", metavar="JSON"
    )
    trust: bool = option(False, "Load weights that may run code. Only for files you trust.")
    offline: bool = option(False, "Download nothing.")
    log: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        from strobe.report.loggers import check_logs

        expect(self.seed >= 0, "seed", ">= 0", self.seed)
        expect(0 < self.held_share < 1, "held-out share", "above 0 and below 1", self.held_share)
        expect(1 <= self.evaluations <= 100_000, "evaluations", "1 to 100,000", self.evaluations)
        expect(self.checkpoint_s >= 0, "checkpoint-s", ">= 0", self.checkpoint_s)
        expect(self.minutes is None or self.minutes > 0, "minutes", "above 0", self.minutes)
        expect(self.cache_gb > 0, "cache-gb", "above 0", self.cache_gb)
        expect(self.threads is None or self.threads >= 1, "threads", ">= 1", self.threads)
        expect(
            self.precision in ("auto", "float32", "bfloat16"), "precision", "auto, float32 or bfloat16", self.precision
        )
        check_logs(self.log)
