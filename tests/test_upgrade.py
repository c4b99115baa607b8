"""A file of a newer version is refused in one line."""

import json
import shutil
from pathlib import Path

import pytest

from strobe.cli.main import main

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("folder", "name", "verb"),
    [
        ("datasets/video", "dataset.json", "inspect"),
        ("runs/video-py", "run.json", "report"),
        ("runs/video-py", "results.json", "report"),
    ],
)
def test_a_format_of_the_future_is_refused_in_one_line(
    folder: str, name: str, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(GOLDEN / folder, copy)
    content = json.loads((copy / name).read_text(encoding="utf-8"))
    (copy / "digests.json").unlink(missing_ok=True)
    (copy / name).write_text(json.dumps({**content, "schema": 99}), encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        main([verb, str(copy)])
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "format 99 is newer than this version of strobe supports" in line
