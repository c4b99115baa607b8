"""What every adapter is told: which model, and how it is to be loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from strobe.core.errors import ModelFailed, StrobeError, UnknownName, expect, printable
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.ports import Progress
from strobe.models.runtimes import BACKENDS
from strobe.models.travel import Parcel

__all__ = [
    "LoadOptions",
    "ModelName",
    "check_decoding",
    "default_batch",
    "file_of",
    "no_settings",
    "require_file",
    "torch_setup",
]

Precision = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model as it is written, taken apart: `provider:name@weights`; bundled models have no provider before them."""

    provider: str
    name: str
    weights: Path | None = None

    @property
    def plain(self) -> str:
        """Without the weights."""
        return self.name if self.provider == "bundled" else f"{self.provider}:{self.name}"

    @property
    def text(self) -> str:
        """All of it.

        >>> ModelName("timm", "resnet50", Path("w.pt")).text
        'timm:resnet50@w.pt'
        """
        return self.plain + (f"@{self.weights}" if self.weights else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """What an adapter may need to load a model.

    `label_space` is the dataset's: zero-shot models name their classes by it. `settings` is a JSON file for what a
    model cannot say itself (ONNX; the classes of fine-tuned weights). `trust` allows weights that may run code.
    `image_size` overrides the model's own input size. `offline` forbids downloads. `pretrained` False asks for random
    weights, to train. `weights` is the file after @, for a factory of one's own. `progress` watches long loading.
    `backend` is what runs a torch network: torch, or onnxruntime on a CPU. `compile` has torch compile a classifier.
    `code` are Python files that came from another machine, by the path they are named by.
    """

    label_space: LabelSpace | None = None
    device: str = "auto"
    precision: Precision = "auto"
    batch_size: int | None = None
    image_size: int | None = None
    deterministic: bool = False
    trust: bool = False
    offline: bool = False
    settings: Path | None = None
    pretrained: bool = True
    weights: Path | None = None
    backend: str = "torch"
    compile: bool = False
    code: Mapping[str, Parcel] = field(default_factory=dict, compare=False, repr=False)
    progress: Progress | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        known = ("auto", "float32", "bfloat16", "float16")
        kind, colon, number = self.device.partition(":")
        if kind not in ("auto", "cpu", "cuda", "mps") or (colon and not number.isdecimal()):
            some = ("auto", "cpu", "cuda", "cuda:0", "cuda:1", "mps")
            raise UnknownName("device", self.device, some, hint="auto, cpu, cuda, cuda:1 or mps")
        expect(self.precision in known, "precision", f"one of {', '.join(known)}", self.precision)
        expect(self.backend in BACKENDS, "backend", f"one of {', '.join(BACKENDS)}", self.backend)
        expect(not self.compile or self.backend == "torch", "--compile", "no --backend beside it", self.backend)
        expect(self.batch_size is None or self.batch_size >= 1, "batch size", ">= 1", self.batch_size)
        expect(self.image_size is None or 8 <= self.image_size <= 8192, "image size", "8–8192", self.image_size)


@dataclass(frozen=True, slots=True)
class TorchSetup:
    """The device and number type a torch model runs with, resolved from LoadOptions."""

    device: str
    dtype: str

    @property
    def autocast(self) -> bool:
        """Whether the forward runs in mixed precision."""
        return self.dtype != "float32"


def torch_setup(options: LoadOptions) -> TorchSetup:
    """Resolve `auto`: CUDA, then MPS, then CPU, in float32 everywhere. Sets determinism where asked."""
    torch = require("torch", what="running a model", extra="models")
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if (kind == "cuda" and not torch.cuda.is_available()) or (kind == "mps" and not torch.backends.mps.is_available()):
        raise StrobeError(f"no {kind} device here; use --device cpu, or see strobe doctor")
    if kind == "cuda" and number and int(number) >= torch.cuda.device_count():
        raise StrobeError(f"no device {device}: there are {torch.cuda.device_count()}; see strobe doctor")
    # Half precision is faster on a GPU and gave other answers on one hard frame in twenty: only on request.
    dtype = "float32" if options.precision == "auto" else options.precision
    if options.deterministic:
        make_deterministic(torch)
    return TorchSetup(device if kind == "cuda" else kind, dtype)  # only of CUDA's there are several


def check_decoding(device: str) -> None:
    """Refuse `--decode device` where no model can decode: answers would be kept as of a way that nobody went."""
    on_cuda = device not in ("cpu", "mps")
    if not (on_cuda and require("torch", what="--decode device", extra="models").cuda.is_available()):
        raise StrobeError(
            "--decode device is for models on CUDA, and here they run elsewhere; leave it out, and frames are decoded "
            "exactly, on the CPU (strobe doctor says what devices there are)"
        )


def make_deterministic(torch: Any) -> None:
    """Same input, same bits, run after run, on the same machine; slower on a GPU."""
    import os

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is only deterministic with a fixed workspace
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def default_batch(n_parameters: int, *, device: str, compiled: bool = False) -> int:
    """How many images at once, from the model's size alone, so that the same command makes the same batches.

    On a CPU small batches stay in the cache (two lanes of 8 cost efficientnet-lite0 8 % more than two of 4). What is
    compiled runs as fast with half as many, and leaves the device to who decodes there more often.

    >>> default_batch(5_000_000, device="cpu"), default_batch(300_000_000, device="cpu")
    (4, 1)
    """
    if device.startswith("cpu"):
        return 4 if n_parameters < 60_000_000 else 2 if n_parameters < 150_000_000 else 1
    most = 256 if n_parameters < 150_000_000 else 64 if n_parameters < 600_000_000 else 16
    return most // 2 if compiled else most


def no_settings(options: LoadOptions, model: str) -> None:
    """Raise ModelFailed where a settings file was given to a model that would not look at it."""
    if options.settings is not None:
        raise ModelFailed(f"{printable(model)}: it takes no --model-settings: it says everything itself; leave it out")


def file_of(model: ModelName) -> Path:
    """The file that a model's name is, and that holds its weights too."""
    if model.weights is not None:
        raise ModelFailed(
            f"{printable(model.plain)}: the weights are in the file itself; drop @{printable(model.weights)}"
        )
    return require_file(Path(model.name), what=model.plain)


def require_file(path: Path, *, what: str) -> Path:
    """The path, or one line that says it is not there."""
    if not path.is_file():
        problem = "it is a folder" if path.is_dir() else "no such file"
        raise ModelFailed(f"{what}: cannot read {path}: {problem}")
    return path
