"""A short run of the fuzzer (`make fuzz` is the long one): damaged inputs, links, flipped bits, two writers at once.

Kills, locks and full disks are in tests/contracts/test_verbs.py.

A red test names the case; `make fuzz CASE=…` repeats it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="the fuzzer forks")]


def fuzz(folder: Path, *words: str, code: int = 0) -> str:
    """Run it as `make fuzz` does; on a machine that many share, a hang is told from a wait by more patience."""
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--folder", str(folder), "--lanes", "1", *words], cwd=ROOT, text=True,
        capture_output=True, timeout=900, env={**os.environ, "FUZZ_PATIENCE": "4"},
    )  # fmt: skip
    assert done.returncode == code, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the fuzzer keeps its corpus, which takes longer to make than most sweeps."""
    return tmp_path_factory.mktemp("fuzz")


def test_damaged_inputs(folder: Path) -> None:
    """100 cases; stopped on the way, it goes on where it was; one case can be seen again."""
    first = fuzz(folder, "--cases", "20", "--kills", "0", "--sweeps", "0")
    assert "20 cases and 0 kills" in first
    said = fuzz(folder, "--cases", "100", "--kills", "0", "--sweeps", "0")
    assert "20 already done" in said
    assert "100 cases and 0 kills" in said
    assert "no findings" in said
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert len({line["verb"] for line in lines[1:]}) > 15
    assert not (folder / "findings").exists()
    assert not list((folder / "work").iterdir())
    said = fuzz(folder, "--case", "3")
    assert '"words"' in said
    assert "no finding" in said


LINKS = (
    "inspect ladder", "sheet changed", "export croissant boxes", "score run new-video", "report run new-boxes",
    "compare run boxes-coco", "ladder", "generator again", "eval into new-boxes", "status reviewing", "crops",
    "build again reference", "simulate again",
)  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone reports what is opened")
def test_links_flipped_bits_and_two_writers(folder: Path) -> None:
    """A link at drawn places, one by one: nothing outside the folder is opened, moved or written. One bit in every file
    that a score reads, two in files of any kind. Two makers at once."""
    links = [f"links/{name}+8" for name in LINKS]
    others = ["bits/everything+2", "bits/score run new-video+1", "bits/score run new-boxes+1"]
    others += [f"twice/{name}" for name in ("synthesize", "report")]
    said = fuzz(folder, *(word for name in [*links, *others] for word in ("--sweep", name)))
    assert "no findings" in said
    tries = {line.split()[-1]: int(line.split()[0]) for line in said.splitlines() if " tries of " in line}
    assert tries["links"] > 80
    assert tries["bits"] > 40
    assert tries["twice"] >= 2 * 4


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("print(open('datasets/video/sets.parquet', 'rb').read()[:9])", "opened sets.parquet outside the folder"),
        ("import os; os.rename('datasets/video/sets.parquet', 'mine')", ""),  # the link itself
        ("import pathlib; pathlib.Path('datasets/video/media/x').write_text('')", "outside the folder"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone reports what is opened")
def test_a_link_that_is_followed_is_seen(body: str, found: str, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from fuzz import links; from fuzz.command import Command\n"
        "import strobe.cli.main as real\n"
        f"def main(words):\n    {body}\n"
        "real.main = main\n"
        "links.commands = lambda: (Command(name='it', words=('inspect', 'x'), place=('datasets/video',)),)\n"
        f"root = Path({str(ROOT / 'tests/golden')!r})\n"
        f"print(links.run_links('links/it', corpus=root, work=Path({str(tmp_path / 'work')!r})).finding)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (found in done.stdout) if found else not done.stdout.strip(), done.stdout


def test_a_table_of_wide_rows_is_swollen_within_bounds(tmp_path: Path) -> None:
    """The harness itself is held to the same 2 GB: rows of a thousand numbers are not taken 100,000 times."""
    import random

    import pyarrow as pa
    import pyarrow.parquet as pq
    from fuzz.damage_data import swell_table

    path = tmp_path / "scores.parquet"
    pq.write_table(pa.table({"frame": ["a"], "scores": [[0.5] * 1000]}), path)
    swell_table(path, random.Random(0))
    table = pq.read_table(path)
    assert len(table) > 1000
    assert table.nbytes < 100 << 20


def test_a_folder_that_other_words_do_not_name_is_not_judged(tmp_path: Path) -> None:
    """Case 1575: with a word more, the damaged folder was taken for a video and the dataset went elsewhere."""
    from fuzz.cases import _judge_files, tree
    from fuzz.command import Command
    from fuzz.process import Done

    (tmp_path / "data").mkdir()
    (tmp_path / "data/dataset.json").write_text("{}")
    command = Command(name="it", words=("build", "x", "data"), place=("data",), dest="data")
    done = Done(code=0, ended="exit 0", stdout="", stderr="", seconds=0.0, grown=0)
    before = tree(tmp_path)
    assert not _judge_files(command, done, before, tmp_path, other_words=True)
    assert "no schema number" in _judge_files(command, done, before, tmp_path, other_words=False)


def test_results_that_the_command_did_not_write_are_not_judged(tmp_path: Path) -> None:
    """Case 350 of seed 1611: `report` went by a key nobody knows, and its value, put there by us, is no JSON."""
    from fuzz.cases import _judge_files, tree
    from fuzz.command import Command
    from fuzz.process import Done

    results = tmp_path / "run" / "results.json"
    results.parent.mkdir()
    results.write_text('{"1": -Infinity}')
    command = Command(name="it", words=("report", "run"), place=("run",), dest="run")
    done = Done(code=0, ended="exit 0", stdout="", stderr="", seconds=0.0, grown=0)
    before = tree(tmp_path)
    (tmp_path / "run/report.html").write_text("<html></html>")
    assert not _judge_files(command, done, before, tmp_path, other_words=False)
    results.write_text('{"22": -Infinity}')
    assert "-Infinity is not JSON" in _judge_files(command, done, before, tmp_path, other_words=False)


@pytest.mark.skipif(sys.platform != "linux" and os.geteuid() == 0, reason="root may read everything")
def test_what_is_shut_is_shut_to_root_too(tmp_path: Path) -> None:
    """A file without permission was never one while root ran the fuzzer, and a table was called truncated."""
    from fuzz.process import call

    made = call(["synthesize", "data", "--videos", "1", "--size", "32", "--k", "1", "-q"], cwd=tmp_path)
    assert made.code == 0, made.stderr
    (tmp_path / "data/sets.parquet").chmod(0)
    done = call(["inspect", "data"], cwd=tmp_path)
    assert (done.code, done.stderr) == (2, "strobe: data/sets.parquet: no permission to read it; ask its owner\n")
    (tmp_path / "data/sets.parquet").chmod(0o600)
    (tmp_path / "data/media").chmod(0)
    done = call(["export", "data", "huggingface", "out"], cwd=tmp_path)
    assert done.code == 2
    assert "cannot be read (Permission denied)" in done.stderr
    (tmp_path / "data/media").chmod(0o700)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("raise RuntimeError('x')", "exit 70"),
        ("import time; time.sleep(60)", "hung"),
        ("import numpy; kept = numpy.ones(40_000_000); import time; time.sleep(60)", "grew past 2 GB"),
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("import sys; sys.stderr.write('Traceback (most recent call last):'); sys.exit(0)", "Traceback"),
        ("import sys; sys.stderr.write('strobe: a\\nstrobe: b\\n'); sys.exit(2)", "2 error lines"),
        (
            "import pathlib, sys; pathlib.Path('.x.strobe.tmp').touch(); sys.exit(0)",
            "left the temporary file .x.strobe.tmp",
        ),
        ("import pathlib, sys; pathlib.Path('new').touch(); sys.exit(0)", "changed new, which it only reads"),
    ],
)
def test_what_must_not_happen_is_seen(body: str, found: str, tmp_path: Path) -> None:
    """Every rule of the oracle, on a verb that breaks it: a fuzzer that cannot fail proves nothing."""
    program = (
        "import sys; from pathlib import Path; from fuzz import cases, process; from fuzz.command import Command\n"
        "import strobe.cli.main as real\n"
        f"def main(words):\n    {body}\n"
        "def guarded(words):\n"
        "    try: main(words)\n"
        "    except RuntimeError: sys.exit(70)\n"
        "real.main = guarded; process.GROWTH = 1 << 28\n"  # an eighth: the machine is shared
        "command = Command(name='it', words=('inspect', 'x'), place=())\n"
        "cases.commands = lambda: (command,)\n"
        f"out = cases.run_case(0, seed=0, corpus=Path({str(tmp_path)!r}), work=Path({str(tmp_path / 'work')!r}))\n"
        "print(out.finding)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True, timeout=120,
        env={**os.environ, "FUZZ_PATIENCE": "0.2"},
    )  # fmt: skip
    assert found in done.stdout, done.stdout + done.stderr[-3000:]
