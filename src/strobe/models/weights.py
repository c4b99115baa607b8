"""Load weights from disk into a module: safetensors, or pickles that cannot run code. Other files need trust."""

import os
import pickle
import re
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from strobe.core.arrays import digest_of_tensors
from strobe.core.errors import InvalidFile, ModelFailed, printable
from strobe.core.readers import bounded, opened_safetensors, read_torch
from strobe.models.checkpoints import Checkpoint, network_alone, normalized_once, parallel_removed, unwrapped
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan


def state_of(model: ModelName, options: LoadOptions) -> dict[str, Any] | None:
    """Return the tensors of the file after @ in a model's name; None if there is no file."""
    found = _reported(model, options, read_checkpoint)
    return None if found is None else found.tensors


def classifier_state(model: ModelName, options: LoadOptions) -> Checkpoint | None:
    """Return the network in the file after @, and the normalizer that the file contains; None if there is no file."""
    return _reported(model, options, _read_network)


def plan_normalized_once(
    plan: ImagePlan, checkpoint: Checkpoint | None, model: ModelName, options: LoadOptions
) -> ImagePlan:
    """Return the preprocessing. If the weights file contains a normalizer, it replaces the plan's mean and std."""
    if checkpoint is None or checkpoint.normalizer is None:
        return plan
    found, words = normalized_once(plan, checkpoint.normalizer)
    if options.progress is not None:
        options.progress.note(f"{printable(model.text)}: {words}")
    return found


def _read_network(path: Path, *, trust: bool) -> Checkpoint:
    content = read_checkpoint(path, trust=trust)
    alone = network_alone(content.tensors)
    if not alone.removed:
        return content  # its tensors carry torch's version metadata
    alone.removed = [*content.removed, *alone.removed]
    return alone


def _reported(model: ModelName, options: LoadOptions, read: Callable[..., Checkpoint]) -> Checkpoint | None:
    """Read the file after @ and print what was removed from it."""
    if model.weights is None:
        return None
    found = read(model.weights, trust=options.trust)
    if found.removed and options.progress is not None:
        options.progress.note(f"{printable(model.text)}: removed from the weights file: {'; '.join(found.removed)}")
    return found


def read_state(path: Path, *, trust: bool = False) -> dict[str, Any]:
    """Return the tensors of a weights file by name, without the wrappers that torch adds."""
    return read_checkpoint(path, trust=trust).tensors


def read_checkpoint(path: Path, *, trust: bool = False) -> Checkpoint:
    """Return the tensors of a weights file by name, and what was removed around them.

    A safetensors file is read directly. Any other file is unpickled with `weights_only=True`, which runs no code. A
    file that would run code is refused unless `trust` is set.
    """
    if not path.is_file():
        problem = "it is a folder" if path.is_dir() else "not a regular file" if path.exists() else "no such file"
        raise InvalidFile(path, problem, hint="name a weights file")
    head = _head(path)
    if not head:
        raise InvalidFile(path, "not a weights file: it is empty", hint="download it again")
    if path.suffix == ".safetensors" or (len(head) >= 9 and head[8:9] == b"{" and not zipfile.is_zipfile(path)):
        return _tensors(path, _read_safetensors(path))
    if head.lstrip()[:1] == b"<" or head.startswith(b"version https://git-lfs"):
        raise InvalidFile(path, "this is a web page or a pointer file, not weights", hint="download the file itself")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about pickle protocols; unreadable files are reported below
            content = read_torch(path)
    except pickle.UnpicklingError as error:
        if not _wants_code(error, head):
            raise InvalidFile(path, "not a weights file torch can read", hint="is it truncated?") from error
        if not trust:
            raise would_run_code(path) from error
        try:
            content = read_torch(path, trust=True)
        except Exception as worse:
            raise InvalidFile(
                path, f"cannot be read even with <<trust=True>> ({printable(worse, limit=120)})"
            ) from worse
    return _tensors(path, content)


@contextmanager
def no_code(*, unless: bool = False) -> Iterator[None]:
    """While open, torch loads only weights and no code, even if a library's own loader requests more."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    if unless:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def would_run_code(path: Path, *, more_than: str = "tensors", instead: str = "save it as safetensors") -> InvalidFile:
    """Return the one-line refusal message, which is the same in every adapter."""
    return InvalidFile(
        path,
        f"contains more than {more_than} and would run code when read, so strobe refused it",
        hint=f"{instead}, or pass <<trust=True>> if you trust its author",
    )


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(64)
    except OSError as error:
        raise InvalidFile(path, f"cannot be read ({error.strerror})") from error


def _read_safetensors(path: Path) -> dict[str, Any]:
    with opened_safetensors(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)


def _wants_code(error: pickle.UnpicklingError, head: bytes) -> bool:
    # torch names the global or operation it refuses. A file that is not a pickle fails on its first byte.
    text = str(error)
    is_pickle = head[:1] == b"\x80" or head[:2] == b"PK"
    return is_pickle and any(word in text for word in ("GLOBAL", "global", "Unsupported class", "Unsupported operand"))


def _tensors(path: Path, content: Any) -> Checkpoint:
    mapping, keys = unwrapped(content)
    items = mapping.items() if isinstance(mapping, Mapping) else ()
    state = OrderedDict((str(k), v) for k, v in items if hasattr(v, "shape"))
    if not state:
        raise InvalidFile(path, "contains no tensors", hint="save model.state_dict()")
    bounded(path, sum(one.numel() * one.element_size() for one in state.values()))  # a view repeats stored numbers
    found = parallel_removed(state)
    if not found.removed and (versions := getattr(mapping, "_metadata", None)) is not None:
        found.tensors._metadata = versions  # type: ignore[attr-defined]  # torch uses it to convert old tensor names
    if keys:
        others = [str(key) for key in content if key not in keys] if isinstance(content, Mapping) else []
        beside = f" (not used: {printable(', '.join(others), limit=80)})" if others else ""
        found.removed.insert(0, f"all but {'.'.join(keys)}{beside}")
    return found


def load_into(module: Any, state: Mapping[str, Any], *, path: Path | str, model: str) -> None:
    """Load the tensors into the module. Names or shapes that do not match raise a one-line error."""
    own = module.state_dict()
    tensors = OrderedDict(state)
    # Modules rename tensors saved by their older versions. A file without version metadata counts as current.
    versions = getattr(state, "_metadata", None)
    tensors._metadata = own._metadata if versions is None else versions  # type: ignore[attr-defined]  # as above
    try:
        mismatch = module.load_state_dict(tensors, strict=False)
    except (RuntimeError, ValueError) as error:
        for name, tensor in state.items():
            if name in own and tuple(own[name].shape) != tuple(tensor.shape):
                raise ModelFailed(
                    f"{printable(path)}: weights do not fit {model}: {printable(name)} is {tuple(tensor.shape)}, "
                    f"expected {tuple(own[name].shape)}; is it another architecture or number of classes?"
                ) from error
        raise ModelFailed(f"{printable(path)}: weights do not fit {model} ({printable(error, limit=200)})") from error
    missing = [name for name in mismatch.missing_keys if not name.endswith("num_batches_tracked")]
    extra = list(mismatch.unexpected_keys)
    if missing or extra:
        what = f"{len(missing)} missing (first {printable(missing[0])})" if missing else ""
        what += (", " if missing and extra else "") + (
            f"{len(extra)} unknown (first {printable(extra[0])})" if extra else ""
        )
        raise ModelFailed(f"{printable(path)}: weights do not fit {model}: {what}; is it another architecture?")


def classes_of_state(state: Mapping[str, Any] | None) -> int | None:
    """Return the number of classes, from the shape of the last layer if it has a usual name."""
    usual = re.compile(
        r"(?:.*\.)?(?:fc|head|heads\.head|head\.fc|head\.l|classifier(?:\.\d+)?|last_linear|_fc)\.(?:bias|weight)"
    )
    found = [name for name in state or {} if usual.fullmatch(name) and "aux" not in name.lower()]
    if not found:
        return None
    last = max(found, key=lambda name: [(int(part), "") if part.isdigit() else (-1, part) for part in name.split(".")])
    return int((state or {})[last].shape[0])


def digest_of_state(state: Mapping[str, Any]) -> str:
    """Return the sha256 of names, shapes, types and values, so equal weights have equal digests in any file format."""
    counter = "num_batches_tracked"  # a training counter that does not affect predictions
    tensors = {name: one for name, one in state.items() if hasattr(one, "shape") and not name.endswith(counter)}
    return digest_of_tensors(tensors)
