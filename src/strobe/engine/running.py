"""How models run: the options of `strobe predict` and `strobe eval`, which are also `strobe.Running` in Python."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from strobe.core.errors import StrobeError, expect, printable
from strobe.core.late import Registry
from strobe.core.options import check_options, documented, option

if TYPE_CHECKING:
    from strobe.build.extract import ExtractJob, ExtractOutcome
    from strobe.core.ports import FrameSource, Progress
    from strobe.engine.engine import RemoteWorkers
    from strobe.engine.worker_specs import DescribedModel, WorkerSpec
    from strobe.models.options import LoadOptions


_LONGEST_PROMPT = 100_000
_LOADING = (
    *("device", "batch_size", "precision", "image_size", "settings", "deterministic", "trust", "offline"),
    *("backend", "compile"),
)
"""The options that are also options for loading a model."""


class Workers(Protocol):
    """The processes of a cluster, each with `cores`."""

    cores: int

    def map(
        self,
        function: Callable[[Any], Any],
        shards: Iterable[Any],
        *,
        given_up: Callable[[Any, str], Any] | None = None,
    ) -> Iterator[Any]:
        """Yield the results as they arrive. If processes die repeatedly on an item, `given_up` makes its result."""


class Cluster(Protocol):
    """Other machines that run models on a kind of device, searches and builds."""

    @property
    def pool(self) -> Workers:
        """The processes."""

    @property
    def device(self) -> str:
        """The kind of device on which models run."""

    @property
    def cores(self) -> int:
        """Cores of each process."""

    def tell(self, recipes: "Sequence[WorkerSpec]") -> "dict[str, DescribedModel | str]":
        """Return a description of the model of each worker spec, or an error if the model cannot run."""

    def worker(self, recipe: "WorkerSpec", *, n_classes: int, source: "FrameSource") -> "RemoteWorkers":
        """Return the worker that runs shards on the cluster."""

    def extract(self, jobs: "Sequence[ExtractJob]") -> "Iterator[ExtractOutcome]":
        """Yield the outcome of every video of a build."""


EXECUTORS: Registry[Any] = Registry("executors", FunctionType, "engine", {}, reserved=("local",))
"""Every executor besides this machine, by its name in --engine: other machines of an annex or a package.

Each is a context manager of a Cluster, with the arguments of `engine.engine.away`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """Where work runs: `local`, or on the machines of an executor, at an address if one is given.

    `actors` is the largest number of actors, None for as many as fit. Each actor has `cores` and `gpus`. The number of
    `gpus` may be a fraction.
    """

    name: str = "local"
    address: str | None = None
    actors: int | None = None
    cores: int | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        of_others = {"<<actors>>": self.actors, "<<actor_cores>>": self.cores, "<<actor_gpus>>": self.gpus}
        given = next((flag for flag, value in of_others.items() if value is not None), None)
        if self.name == "local" and given is not None:
            others = " or ".join(f"<<engine={name}>>" for name in EXECUTORS)
            raise StrobeError(f"{given} only works with {others or 'an engine on other machines; none is installed'}")
        expect(self.actors is None or 1 <= self.actors <= 10_000, "actors", "1–10,000", self.actors)
        expect(self.cores is None or 1 <= self.cores <= 10_000, "actor cores", "1–10,000", self.cores)
        part_or_whole = not self.gpus or 1e-4 <= self.gpus <= 1 or (self.gpus > 1 and float(self.gpus).is_integer())
        expect(part_or_whole, "actor gpus", "a fraction of one GPU (at least 0.0001), or an integer", self.gpus)

    @classmethod
    def of(
        cls, text: str, *, actors: int | None = None, cores: int | None = None, gpus: float | None = None
    ) -> "ExecutorOptions":
        """Parse local, NAME or NAME=ADDRESS, where NAME is an executor.

        >>> ExecutorOptions.of("local").address is None
        True
        """
        name, mark, address = text.partition("=")
        known = (name == "local" and not mark) or name in EXECUTORS
        others = ", ".join(f"{other} or {other}=ADDRESS" for other in EXECUTORS)
        forms = f"local, {others}" if others else "local, because no other engine is installed"
        expect(known and bool(mark) == bool(address), "engine", forms, text)
        return cls(name=name, address=address or None, actors=actors, cores=cores, gpus=gpus)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How models run. Each field is the command-line option of the same name (see `strobe predict --help-all`).

    `settings` is the file of `--model-settings`. `shard_size` is the number of frames that are stored at once, by
    default chosen by the speed of the models.

    >>> import strobe
    >>> running = strobe.Running(device="cpu", batch_size=8, offline=True)
    >>> running.device, running.precision
    ('cpu', 'auto')
    """

    device: str = option("auto", "auto, cpu, cuda, cuda:1 or mps.")
    batch_size: int | None = option(None, "Images per batch. Default: chosen by the model's size.", least=1)
    precision: Literal["auto", "float32", "bfloat16", "float16"] = option(
        "auto", "auto is float32. bfloat16 is faster on CUDA and changes some answers."
    )
    image_size: int | None = option(None, "Input size in pixels. Default: the model's own.", least=8, most=8192)
    settings: Path | None = option(
        None,
        "Normalisation, resizing and classes of an ONNX file; classes for timm, torchvision and hf.",
        flag="--model-settings",
        metavar="JSON",
    )
    workers: int | None = option(
        None, "Decoding threads, or processes if models run on a GPU. Default: one per core.", least=1, most=256
    )
    merge: Literal["max", "mean", "sum"] = option(
        "max", "How several model classes become one: largest score, mean score, or log of the summed probabilities."
    )
    decode: Literal["cpu", "device"] = option(
        "cpu", "device: also decode JPEGs on the CUDA GPU. Pixels may differ by one level. Cached separately."
    )
    models_at_once: int = option(8, "Models in memory at the same time. A frame is read once for all of them.", least=1)
    backend: Literal["auto", "torch", "onnxruntime", "openvino"] = option(
        "auto",
        "Runtime of models on a CPU. auto: onnxruntime for bundled models and ONNX files, torch for others. "
        "onnxruntime and openvino are faster. Cached separately.",
    )
    compile: bool = option(
        False,
        "Compile classifiers with torch first (ResNet-50 on an H200: 11 to 18 s). Pays off above about a million "
        "frames on CUDA; a note reports the measured number. Cached separately.",
    )
    stop_early: bool = option(
        False,
        "For classifiers: stop a set at its first wrong frame or, without labels, at its first other answer. acc_orig, "
        "acc_pmk, drop and flicker stay the same and need fewer frames. Figures that need every frame are omitted.",
    )
    repeat: int = option(
        1,
        "Ask every frame this many times. All figures use the first answers; the others show how often the model "
        "changes its answer on the same frame (noise).",
        least=1,
        most=100,
    )
    deterministic: bool = option(False, "Give bit-identical results in every run on one machine. Slower on a GPU.")
    trust: bool = option(False, "Load weights that may run code. Only for files you trust.")
    offline: bool = option(False, "Download nothing.")
    retry_errors: bool = option(False, "Retry frames that could not be read, or that a service did not answer, before.")
    limits: str | Mapping[str, float] | None = option(
        None,
        "How a model behind an address may be asked: concurrency=8,per_second=0,timeout=60,retries=5, and your prices: "
        "price_request, price_input, price_output (for a million tokens).",
        metavar="NAME=VALUE,…",
    )
    max_requests: int | None = option(
        None, "Most requests of this command to models behind an address, with retries.", least=1
    )
    max_cost: float | None = option(
        None, "Most money for models behind an address, at the prices in --limits.", least=0, above=True
    )
    prompt: Path | None = option(None, "The question to a vision-language model, as a text file.", metavar="FILE")
    engine: str | ExecutorOptions = option(
        "local",
        "Where the work runs: this machine, or a Ray cluster whose nodes share the folders. Without an address, ray "
        "uses RAY_ADDRESS, else this node's cluster, else a new local Ray. A note names it.",
        kind=str,
        metavar="local|ray[=ADDRESS]",
    )
    actors: int | None = option(None, "Largest number of Ray workers. Default: as many as fit.", least=1)
    actor_cores: int | None = option(None, "Cores per worker. Default: 4, or its GPU's share of the cores.", least=1)
    actor_gpus: float | None = option(None, "GPUs per worker. With 0.5, two workers share a GPU. Default: 1.", least=0)
    shard_size: int | None = None

    def __post_init__(self) -> None:
        check_options(self)
        self.loading()
        self.executor()
        expect(self.merge in ("max", "mean", "sum"), "merge", "one of max, mean, sum", self.merge)
        expect(self.decode in ("cpu", "device"), "decode", "cpu or device", self.decode)

    @property
    def limits_requests(self) -> bool:
        """Whether an option is given that only models behind an address take."""
        return any(given is not None for given in (self.limits, self.prompt, self.max_requests, self.max_cost))

    @classmethod
    def of(cls, load: "LoadOptions") -> "Running":
        """Return how models run that are loaded with these options."""
        return cls(**{name: getattr(load, name) for name in _LOADING})

    def loading(self, progress: "Progress | None" = None) -> "LoadOptions":
        """Return the options for loading models."""
        from strobe.models.options import LoadOptions

        more = {name: getattr(self, name) for name in _LOADING}
        prompt = None if self.prompt is None else _text_of(self.prompt)
        return LoadOptions(progress=progress, prompt=prompt, limits=_limits_of(self.limits), **more)

    def executor(self) -> ExecutorOptions:
        """Return where the work runs."""
        if isinstance(self.engine, ExecutorOptions):
            return self.engine
        return ExecutorOptions.of(self.engine, actors=self.actors, cores=self.actor_cores, gpus=self.actor_gpus)


def _limits_of(given: str | Mapping[str, float] | None) -> Mapping[str, float] | None:
    """Return the limits by name, checked.

    >>> _limits_of("concurrency=8, per_second=2.5")
    {'concurrency': 8.0, 'per_second': 2.5}
    """
    if given is None:
        return None
    from strobe.core.remote import RequestLimits

    limits: dict[str, float] = {}
    parts = [part.partition("=")[::2] for part in given.split(",")] if isinstance(given, str) else list(given.items())
    for name, value in parts:
        if name.strip() in limits:
            raise StrobeError(f"<<limits>>: {printable(name.strip())} was given twice; give it once")
        try:
            limits[name.strip()] = float(value)
        except (TypeError, ValueError):
            example = "concurrency=8,per_second=5,timeout=60"
            raise StrobeError(f"<<limits>>: expected {example}, got {printable(name)}={printable(value)}") from None
    RequestLimits.of(limits)
    return limits


def _text_of(path: Path) -> str:
    """Return the text of a prompt."""
    try:
        text = path.read_bytes()[: _LONGEST_PROMPT + 1].decode("utf-8")
    except OSError as error:
        raise StrobeError(f"<<prompt>>: cannot read {printable(path)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StrobeError(f"<<prompt>>: {printable(path)} is not a text file in UTF-8") from error
    if not text.strip() or len(text) > _LONGEST_PROMPT:
        what = "is empty" if not text.strip() else f"is longer than {_LONGEST_PROMPT:,} characters"
        raise StrobeError(f"<<prompt>>: {printable(path)} {what}")
    return text
