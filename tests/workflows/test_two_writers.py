"""Every command that writes to a folder refuses one that another command is writing to."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from strobe.cli.main import main
from strobe.core.locks import locked


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos in class folders, frames of two videos, and a dataset of the photos."""
    root = tmp_path_factory.mktemp("writers")
    rng = np.random.default_rng(0)
    for name in ("photos/cat/0.png", "photos/dog/0.png", "frames/a/0.png", "frames/a/1.png", "frames/b/0.png"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (48, 64, 3), dtype=np.uint8)).save(path)
    with pytest.raises(SystemExit):
        main(["import", "photos", str(root / "photos"), str(root / "data"), "-q"])
    return root


@pytest.mark.parametrize(
    "words",
    [
        "simulate {photos} {out} --k 1 --size 32",
        "import photos {photos} {out}",
        "import frames {frames} {out} --label cat --k 1",
        "synthesize {out} --videos 2 --size 32 --k 1",
        "vary corruption {data} {out} --kind contrast --severity 1",
        "export {data} csv {out}",
    ],
    ids=lambda words: words.split(" {")[0],
)
def test_a_second_writer_is_refused(
    place: Path, tmp_path: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two at once both ended with exit 0, and some folders had frames of both."""
    out = tmp_path / "out"
    given = {name: str(place / name) for name in ("photos", "frames", "data")} | {"out": str(out)}
    command = [*(word.format(**given) for word in words.split()), "-q"]
    with locked(out / ".lock", busy="busy"):
        with pytest.raises(SystemExit) as left:
            main(command)
        said = capsys.readouterr().err
        assert (left.value.code, [path.name for path in out.iterdir()]) == (2, [".lock"]), said
        assert f"another strobe command is writing to {out}; wait for it to end" in said
    with pytest.raises(SystemExit) as left:
        main(command)
    assert left.value.code == 0, capsys.readouterr().err
