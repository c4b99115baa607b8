"""A generator's weights on disk: half-precision safetensors whose header holds its parameters and classes."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from strobe.annexes.generators.auto_net import AutoFacts, AutoNet
from strobe.annexes.generators.networks import LayeredNet, NetFacts
from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidFile, StrobeError, expect, printable
from strobe.core.files import json_of, write_bytes
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.readers import opened_safetensors

_KEY = "strobe"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedNet:
    """A network ready to run, in evaluation mode and float32, with its classes and the digest of its weights."""

    network: LayeredNet
    label_space: LabelSpace
    digest: str


def shipped_file(name: str) -> Path:
    """Return the path of a shipped generator's weights."""
    return Path(str(resources.files("strobe.annexes.generators") / "data" / f"{name}.safetensors"))


def write_network(path: Path, network: LayeredNet, label_space: LabelSpace, *, training: Mapping[str, Any]) -> None:
    """Write a network atomically."""
    expect(len(label_space) == network.about.classes, "classes", f"{network.about.classes}", len(label_space))
    facts = {"label_space": label_space.to_json(), "generator": encode(network.about), "training": dict(training)}
    _write(path, network, facts)


def read_network(path: Path) -> LoadedNet:
    """Load a network that `write_network` wrote. Raises InvalidFile, with the reason, for anything else."""
    text, state = _read(path)
    facts, label_space = _told(path, text)
    network = _loaded(path, LayeredNet(facts), state)
    return LoadedNet(network=network, label_space=label_space, digest=digest_of(network))


def write_autoencoder(path: Path, network: AutoNet, *, training: Mapping[str, Any]) -> None:
    """Write an autoencoder atomically."""
    _write(path, network, {"autoencoder": encode(network.about), "training": dict(training)})


def read_autoencoder(path: Path) -> tuple[AutoNet, str]:
    """Load what `write_autoencoder` wrote, with the digest of its weights. Raises InvalidFile for anything else."""
    text, state = _read(path)
    try:
        facts = decode(AutoFacts, json_of(text or "{}")["autoencoder"], where="autoencoder")
    except KeyError as error:
        raise InvalidFile(path, "not an autoencoder that strobe wrote: its header does not describe one") from error
    except (ValueError, TypeError, AttributeError, StrobeError) as error:
        raise InvalidFile(path, f"its header is damaged ({printable(error, limit=100)})") from error
    network = _loaded(path, AutoNet(facts), state)
    return network, digest_of(network)


def _write(path: Path, network: Any, facts: Mapping[str, Any]) -> None:
    library = require("safetensors.torch", what="writing safetensors", extra="models")
    # Written here, because the library's writer raises its own exception class on a full disk.
    write_bytes(path, library.save(_halved(network), metadata={_KEY: json.dumps(facts, sort_keys=True)}))


def _read(path: Path) -> tuple[str | None, dict[str, Any]]:
    """Return the header and the tensors of a file."""
    if not path.is_file():
        raise InvalidFile(path, "it is a folder" if path.is_dir() else "no such file", hint="name a weights file")
    with opened_safetensors(path) as file:
        text = (file.metadata() or {}).get(_KEY)
        return text, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)


def _loaded(path: Path, network: Any, state: Mapping[str, Any]) -> Any:
    """Return the network with these weights, ready to run."""
    try:
        mismatch = network.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise InvalidFile(path, f"its weights do not match its header ({printable(error, limit=160)})") from error
    missing = [name for name in mismatch.missing_keys if not name.endswith("num_batches_tracked")]
    if missing or mismatch.unexpected_keys:
        first = printable([*missing, *mismatch.unexpected_keys][0])
        raise InvalidFile(path, f"its weights do not match its header (first {first})")
    return network.eval().requires_grad_(False)


def digest_of(network: LayeredNet | AutoNet) -> str:
    """Return the sha256 of a network's parameters and of its weights as stored."""
    torch = require("torch", what="a generator", extra="models")
    hasher = hashlib.sha256(json.dumps(encode(network.about), sort_keys=True).encode())
    for name, tensor in sorted(_halved(network).items()):
        hasher.update(f"{name}\t{tuple(tensor.shape)}\n".encode())
        hasher.update(memoryview(tensor.reshape(-1).view(torch.uint8).numpy()))
    return hasher.hexdigest()


def _halved(network: LayeredNet | AutoNet) -> dict[str, Any]:
    state = network.state_dict()
    return {
        name: tensor.detach().half().cpu().contiguous()
        for name, tensor in state.items()
        if not name.endswith("num_batches_tracked")
    }


def _told(path: Path, text: str | None) -> tuple[NetFacts, LabelSpace]:
    if text is None:
        raise InvalidFile(path, "not a generator that strobe wrote: its header does not describe one")
    try:
        told = json_of(text)
        facts = decode(NetFacts, told["generator"], where="generator")
        label_space = LabelSpace.from_json(told["label_space"])
    except KeyError as error:
        raise InvalidFile(path, "not a generator that strobe wrote: its header does not describe one") from error
    except (ValueError, TypeError, AttributeError, StrobeError) as error:
        raise InvalidFile(path, f"its header is damaged ({printable(error, limit=100)})") from error
    if len(label_space) != facts.classes:
        raise InvalidFile(path, f"its header is damaged ({len(label_space)} classes, a network of {facts.classes})")
    return facts, label_space
