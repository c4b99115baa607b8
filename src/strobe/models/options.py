"""The inputs of every adapter: the parsed model name and the load options."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from strobe.core.errors import ModelFailed, StrobeError, UnknownName, expect, printable
from strobe.core.labels import LabelSpace
from strobe.core.late import Registry, require
from strobe.core.ports import Progress
from strobe.models.runtimes import BACKENDS, RUNTIMES
from strobe.models.travel import Parcel

if TYPE_CHECKING:
    from strobe.models.plan import ImagePlan

Precision = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True, slots=True)
class ModelName:
    """A parsed model name, `provider:name@FILE` or `provider:name@URL`. Bundled models have no provider prefix."""

    provider: str
    name: str
    weights: Path | None = None
    address: str | None = None

    @property
    def plain(self) -> str:
        """The name without the weights."""
        return self.name if self.provider == "bundled" else f"{self.provider}:{self.name}"

    @property
    def text(self) -> str:
        """The full name.

        >>> ModelName("timm", "resnet50", Path("w.pt")).text
        'timm:resnet50@w.pt'
        """
        at = self.weights or self.address
        return self.plain + (f"@{at}" if at else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options an adapter may need to load a model.

    `label_space` is the dataset's; zero-shot models take their class names from it. `settings` is a JSON file with
    facts that the model file lacks (ONNX; the classes of fine-tuned weights). `trust` allows weights that may run code.
    `image_size` overrides the model's own input size. `offline` forbids downloads. `pretrained=False` requests random
    weights for training. `weights` is the file after @, passed to your own factory. `progress` reports slow loading.
    `backend` is the runtime of a network: torch, onnxruntime or openvino on a CPU, or auto, which is onnxruntime for
    bundled networks on a CPU and for ONNX files. `compile` compiles a classifier with torch. `prompt` and `limits` come
    from a row of a model list, for providers that declare them. `code` maps paths to Python files that were sent from
    another machine.
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
    backend: str = "auto"
    compile: bool = False
    prompt: str | None = None
    limits: Mapping[str, float] | None = None
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
        expect(
            not self.compile or self.backend not in RUNTIMES,
            "<<compile>>",
            "no <<backend>> together with <<compile>>",
            self.backend,
        )
        expect(self.batch_size is None or self.batch_size >= 1, "batch size", ">= 1", self.batch_size)
        expect(self.image_size is None or 8 <= self.image_size <= 8192, "image size", "8–8192", self.image_size)

    def for_gradients(self) -> "LoadOptions":
        """Return the options for a model that must be a torch module: for gradients and for training."""
        return replace(self, backend="torch") if self.backend == "auto" else self


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The settings of one model in a run. If a setting is None, the run's setting applies.

    >>> ModelSettings(precision="bfloat16").given
    {'precision': 'bfloat16'}
    """

    precision: Precision | None = None
    backend: str | None = None
    compile: bool | None = None
    decode: str | None = None
    image_size: int | None = None
    batch_size: int | None = None
    prompt: str | None = None
    limits: Mapping[str, float] | None = None
    model_settings: str | None = None

    def __post_init__(self) -> None:
        expect(self.decode in (None, "cpu", "device"), "decode", "cpu or device", self.decode)
        numbers = all(type(limit) in (int, float) for limit in (self.limits or {}).values())
        expect(numbers, "limits", "a table of numbers", self.limits)
        self.applied(LoadOptions())

    @property
    def given(self) -> dict[str, Any]:
        """The settings that are not None, by name."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in found.items() if value is not None}

    def load_given(self) -> dict[str, Any]:
        """Return the given settings that are load options, by their names there. Paths are absolute.

        >>> ModelSettings(model_settings="m.json").load_given()["settings"].name
        'm.json'
        """
        own = {name: value for name, value in self.given.items() if name not in ("decode", "model_settings")}
        return own if self.model_settings is None else {**own, "settings": Path(self.model_settings).absolute()}

    def check_applied(self, name: str, preprocessing: Mapping[str, Any]) -> None:
        """Raise ModelFailed if the model ignored its precision, because the recorded precision would be wrong."""
        told = (preprocessing.get("precision"), preprocessing.get("options", {}).get("precision"))
        if self.precision not in (None, "auto", *told):
            raise ModelFailed(f"{printable(name)}: precision = {self.precision} has no effect on this model; remove it")

    def applied(self, load: LoadOptions) -> LoadOptions:
        """Return the load options of a run, with these settings replacing the run's."""
        own = self.load_given()
        return replace(load, **own) if own else load


@dataclass(frozen=True, slots=True)
class TorchSetup:
    """The device and dtype of a torch model, resolved from LoadOptions."""

    device: str
    dtype: str

    @property
    def autocast(self) -> bool:
        """Whether the forward runs in mixed precision."""
        return self.dtype != "float32"


def torch_setup(options: LoadOptions) -> TorchSetup:
    """Resolve `auto` to CUDA, then MPS, then CPU, with float32 everywhere. Enables determinism if requested."""
    torch = require("torch", what="running a model", extra="models")
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if (kind == "cuda" and not torch.cuda.is_available()) or (kind == "mps" and not torch.backends.mps.is_available()):
        raise StrobeError(f"this machine has no {kind} device; use <<device=cpu>>, or see strobe doctor")
    if kind == "cuda" and number and int(number) >= torch.cuda.device_count():
        raise StrobeError(f"no device {device}: this machine has {torch.cuda.device_count()}; see strobe doctor")
    # Half precision is faster on a GPU but changed the answer on one hard frame in twenty, so it is opt-in.
    dtype = "float32" if options.precision == "auto" else options.precision
    if options.deterministic:
        make_deterministic(torch)
    return TorchSetup(device if kind == "cuda" else kind, dtype)  # only CUDA has device numbers


@dataclass(frozen=True, slots=True)
class ImageDecoder:
    """A decoder of image files besides the exact one.

    `make(plan, device)` returns a function from the content of files to prepared images. `version` is part of the cache
    key. It changes whenever the pixels change.
    """

    version: str
    make: "Callable[[ImagePlan, str], Callable[[Sequence[bytes]], Any]]"


DECODERS = Registry("decoders", ImageDecoder, "decoder", {}, closed=True)
"""Every such decoder by its name in --decode; annexes bring them."""


def check_decoding(device: str) -> None:
    """Refuse `--decode device` if no model supports it, because answers would be cached under unused settings."""
    if "device" not in DECODERS:
        raise StrobeError("<<decode=device>>: this installation has no decoder for a GPU; remove it")
    on_cuda = device not in ("cpu", "mps")
    if not (on_cuda and require("torch", what="<<decode=device>>", extra="models").cuda.is_available()):
        raise StrobeError(
            "<<decode=device>> needs models on CUDA, and no model of this command runs on CUDA; remove it to decode "
            "frames exactly, on the CPU (strobe doctor lists the devices)"
        )


def make_deterministic(torch: Any) -> None:
    """Make repeated runs on the same machine bit-identical. This is slower on a GPU."""
    import os

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def default_batch(n_parameters: int, *, device: str, compiled: bool = False) -> int:
    """Return the batch size. It depends only on the model's size, so that the same command makes the same batches.

    On a CPU, small batches stay in the cache. With efficientnet-lite0, two lanes with batches of 8 take 8 % more time
    than two lanes with batches of 4. Compiled networks are as fast with half the batch size, which frees the device
    more often for decoding.

    >>> default_batch(5_000_000, device="cpu"), default_batch(300_000_000, device="cpu")
    (4, 1)
    """
    if device.startswith("cpu"):
        return 4 if n_parameters < 60_000_000 else 2 if n_parameters < 150_000_000 else 1
    most = 256 if n_parameters < 150_000_000 else 64 if n_parameters < 600_000_000 else 16
    return most // 2 if compiled else most


def no_settings(options: LoadOptions, model: str) -> None:
    """Raise ModelFailed if a settings file was given to a model that ignores it."""
    if options.settings is not None:
        raise ModelFailed(f"{printable(model)}: this model needs no <<model_settings>>; remove the option")


def file_of(model: ModelName) -> Path:
    """Return the file that the model's name refers to. It contains the weights, so @FILE is refused."""
    if model.weights is not None:
        raise ModelFailed(
            f"{printable(model.plain)}: the weights are in the file itself; remove @{printable(model.weights)}"
        )
    return require_file(Path(model.name), what=model.plain)


def require_file(path: Path, *, what: str) -> Path:
    """Return the path. Raises a one-line error if it is not a regular file."""
    if not path.is_file():
        problem = "it is a folder" if path.is_dir() else "not a regular file" if path.exists() else "no such file"
        raise ModelFailed(f"{what}: cannot read {path}: {problem}")
    return path
