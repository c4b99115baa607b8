"""Models as they are written after -m."""

from pathlib import Path

import pytest

from strobe.core.errors import StrobeError
from strobe.models.requested import requested_models


def test_a_list_that_would_run_code_needs_trust(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text('[[model]]\nmodel = "efficientnet-lite0"\n[[model]]\nmodel = "py:mine.py:make"\n', encoding="utf-8")
    with pytest.raises(StrobeError, match="would run the code in that file; pass --trust"):
        requested_models([f"@{path}"])
    assert [one.name for one in requested_models([f"@{path}"], trust=True)] == ["efficientnet-lite0", "py:mine.py:make"]
    assert [one.name for one in requested_models(["py:mine.py:make"])] == ["py:mine.py:make"], (
        "named by the user: no question"
    )
