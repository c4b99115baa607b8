"""One clear line when weights would have to be fetched and cannot be."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from strobe.core.errors import CannotDownload, printable

__all__ = ["cannot_download", "offline"]

_SIGNS = (
    "offline", "connection", "resolve", "timed out", "timeout", "urlopen error", "max retries", "proxy", "ssl",
    "couldn't connect", "could not connect", "network", "cached files", "locate the file on the hub", "name resolution",
    "failed to establish", "client error", "http error", "403 forbidden", "404", "401", "connecterror",
)  # fmt: skip


def cannot_download(model: str, error: BaseException) -> CannotDownload | None:
    """The line for an error that came from the network, or None if it did not."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    for part in chain:
        text = f"{type(part).__name__} {part}".lower()
        network = isinstance(part, ConnectionError | TimeoutError) or type(part).__module__.split(".")[0] in (
            "requests", "urllib", "httpx", "httpcore", "huggingface_hub", "urllib3",
        )  # fmt: skip
        if network or any(sign in text for sign in _SIGNS):
            return CannotDownload(
                f"{printable(model)}: its weights are not here and cannot be downloaded "
                f"({printable(part, limit=110)}); fetch them where there is a network and write {printable(model)}@FILE"
            )
    return None


@contextmanager
def offline(on: bool) -> Iterator[None]:
    """While open, libraries that know the hub look only at what is on disk."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    before = {name: os.environ.get(name) for name in names}
    constants: Any = None
    if on:
        os.environ.update(dict.fromkeys(names, "1"))
        # The hub's client reads its environment once, when it is imported.
        with suppress(ModuleNotFoundError):
            constants = import_module("huggingface_hub.constants")
    was = getattr(constants, "HF_HUB_OFFLINE", None)
    if constants is not None:
        constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        if constants is not None:
            constants.HF_HUB_OFFLINE = was
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
