"""What all tests share: hypothesis without clocks or luck, and a real Chromium for those marked `browser`."""

import os
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# Machines are shared and noisy: no deadlines; and the same examples every time, so that a red test is red again.
settings.register_profile("strobe", deadline=None, derandomize=True)
settings.load_profile("strobe")

# A shell that starts us in the background has SIGINT ignored, and children inherit that: Ctrl-C tests need it back.
signal.signal(signal.SIGINT, signal.default_int_handler)

LAUNCH_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A Playwright `Browser`: $STROBE_CHROMIUM, else the system's chromium, else Playwright's own."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = os.environ.get("STROBE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=LAUNCH_ARGS, headless=True)
        yield browser
        browser.close()


class PageLog:
    """What a page did that a quiet page does not do: console errors, exceptions, requests."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []


@pytest.fixture
def browser_page(chromium: Any) -> Iterator[tuple[Any, PageLog]]:
    """A fresh page of its own context (1280×900) and the log of its console errors and requests."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    log = PageLog()
    page.on(
        "console", lambda message: log.errors.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: log.errors.append(str(error)))
    page.on("request", lambda request: log.requests.append(request.url))
    yield page, log
    context.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests against the clock get another try: on a busy machine they stumble now and then. No other test does."""
    for item in items:
        if item.get_closest_marker("timing"):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=1))
