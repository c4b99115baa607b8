"""Models keep what took long in the user's cache folder; in tests that is a folder of the test's own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
