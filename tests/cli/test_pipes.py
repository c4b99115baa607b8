"""Every file that a command reads whole must be a regular file: a pipe or a device gives one line and exit code 2."""

import contextlib
import io
import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

import strobe
from strobe.cli.main import COMMANDS as VERBS
from strobe.cli.main import main

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")

SCORE = ("score", "data", "-m", "preds:m.json", "-o", "run")
COMMANDS: dict[str, tuple[str, ...]] = {
    "models.toml": ("predict", "data", "-m", "@models.toml", "-o", "run"),
    "m.json": SCORE,
    "m.csv": (*SCORE[:3], "preds:m.csv", "-o", "run"),
    "m.parquet": (*SCORE[:3], "preds:m.parquet", "-o", "run"),
    "types.csv": (*SCORE, "--types", "types.csv"),
    "subset.txt": (*SCORE, "--subset", "subset.txt"),
    "coarser.csv": (*SCORE, "--coarser", "coarser.csv"),
    "net.py": ("predict", "data", "-m", "py:net.py:f", "-o", "run"),
    "net.onnx": ("predict", "data", "-m", "onnx:net.onnx", "-o", "run"),
    "classes.txt": ("build", "clip.mp4", "out", "--label", "cat", "--label-space", "classes.txt"),
    "classes.json": ("build", "clip.mp4", "out", "--label", "cat", "--label-space", "classes.json"),
    "labels.csv": ("build", "clip.mp4", "out", "--labels", "labels.csv"),
    "anchors.csv": ("build", "clip.mp4", "out", "--label", "cat", "--anchors", "anchors.csv"),
    "boxes.csv": ("simulate", "photos", "out", "--boxes", "boxes.csv"),
    "votes.csv": ("review", "import", "data", "votes.csv"),
    "rules.md": ("review", "serve", "data", "--guidelines", "rules.md", "--port", "0"),
    "examples.csv": ("review", "serve", "data", "--examples", "examples.csv", "--port", "0"),
    "recipe.toml": ("train", "recipe.toml", "data", "-m", "strobe-tiny", "-o", "out"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(["synthesize", str(folder / "data"), "--videos", "2", "--size", "32", "--k", "1", "-q"])
    dataset = strobe.load_dataset(folder / "data")
    scores = dict.fromkeys(map(str, dataset.frames.key), [1] + [0] * (len(dataset.info.label_space.ids) - 1))
    (folder / "m.json").write_text(json.dumps(scores))
    (folder / "clip.mp4").write_bytes(b"no video")
    (folder / "photos").mkdir()
    Image.new("RGB", (40, 40)).save(folder / "photos/a.png")
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextlib.contextmanager
def empty_pipe(path: Path) -> Iterator[None]:
    """Put a pipe at the path. A command that opens it reads an empty file, so that a failing test does not hang."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            path.open("wb").close()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    yield
    ended.set()
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opens the pipe for the writer, which then ends
    writer.join()
    os.close(handle)


@pytest.mark.parametrize("name", [name for name, words in COMMANDS.items() if words[0] in VERBS])
def test_a_pipe_on_the_command_line_is_refused(name: str, here: Path) -> None:
    """`-m @models.toml` waited for ever (cases 4439 and 8022 of the fuzzer)."""
    before = sorted(path.name for path in here.iterdir() if path.name != name)
    out, err = io.StringIO(), io.StringIO()
    with (
        empty_pipe(here / name),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main([*COMMANDS[name]])
    assert ended.value.code == 2
    lines = (out.getvalue() + err.getvalue()).splitlines()
    assert [line for line in lines if "not a regular file" in line] == lines[-1:], lines
    assert name in lines[-1]
    assert sorted(path.name for path in here.iterdir() if path.name != name) == before
