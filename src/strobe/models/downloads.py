"""Raise a clear one-line error if weights cannot be downloaded."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from strobe.core.errors import CannotDownload, printable

_SIGNS = (
    "offline", "connection", "resolve", "timed out", "timeout", "urlopen error", "max retries", "proxy", "ssl",
    "couldn't connect", "could not connect", "network", "cached files", "locate the file on the hub", "name resolution",
    "failed to establish", "client error", "http error", "403 forbidden", "404", "401", "connecterror",
)  # fmt: skip


def cannot_download(model: str, error: BaseException) -> CannotDownload | None:
    """Return the error to raise if a download failed for lack of a network. None for other errors."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    for part in chain:
        text = f"{type(part).__name__} {part}".lower()
        network = isinstance(part, ConnectionError | TimeoutError) or type(part).__module__.split(".")[0] in (
            "requests",
            "urllib",
            "httpx",
            "httpcore",
            "huggingface_hub",
            "urllib3",
        )
        if network or any(sign in text for sign in _SIGNS):
            return CannotDownload(
                f"{printable(model)}: its weights are not on this machine and cannot be downloaded "
                f"({printable(part, limit=110)}); download them on a machine with a network and write "
                f"{printable(model)}@FILE"
            )
    return None


def hub_reachable(*, timeout_s: float = 3.0) -> bool:
    """Return whether the model hub is reachable.

    This is checked once, because the hub's client would retry for most of a minute.
    """
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True  # only the proxy knows whether the hub is reachable
    address = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=timeout_s).close()
    except OSError:
        return False
    return True


@contextmanager
def hub(*, offline: bool) -> Iterator[None]:
    """While open, libraries may download from the hub.

    If it is unreachable or `offline` is set, they use local files only.
    """
    if not offline and hub_reachable():
        yield
        return
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    constants: Any = None
    # The hub's client reads its environment variables once, at import.
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
