"""The commands on a model behind an address: killed and resumed, its budget, its secrets, its words, bad input."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_remote import Colours

from strobe.core.dataset import Dataset
from strobe.store import dataset_folder as folder

Make = Callable[..., Dataset]
SECRET = "sk-0123456789abcdefSECRET"
PLUGIN = f"py:{Path(__file__).with_name('made_remote.py')}:make"
MODEL = f"far={PLUGIN}"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Colours]:
    made = Colours()
    monkeypatch.setenv("COLOUR_ADDRESS", made.address)
    yield made
    made.close()


@pytest.fixture
def data(colours: Make, tmp_path: Path) -> Path:
    """A dataset folder of 20 sets with 5 frames each."""
    made = colours("data", n_sets=20, k=2)
    folder.write(made, tmp_path / "data")
    return tmp_path / "data"


def stored(data: Path, run: Path) -> Any:
    from strobe.store.run_folder import Run

    return Run(run).models(folder.read(data), only=["far"], allow_missing=True)[0].load()


def started(data: Path, run: Path, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "strobe", "predict", str(data), "-m", MODEL, "-o", str(run), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def test_a_killed_run_loses_at_most_what_was_in_flight(
    data: Path, tmp_path: Path, service: Colours, command: Any
) -> None:
    """The service kills the command at the 30th and at the 60th answer; then the same command completes the run."""
    run, most = tmp_path / "run", 4
    for last in (30, 60):
        process: list[subprocess.Popen[str]] = []

        def fault(_: str, n: int, last: int = last, process: Any = process) -> Any:
            if sum(service.answered.values()) >= last:
                process[0].send_signal(signal.SIGKILL)
                return "drop"
            return (503, {"Retry-After": "0"}) if n == 1 and sum(service.tries.values()) % 7 == 0 else None

        service.fault = fault
        process.append(started(data, run, "--limits", f"concurrency={most},retries=3"))
        assert process[0].communicate(timeout=120) is not None
        assert process[0].returncode == -signal.SIGKILL
        answered = sum(count > 0 for count in service.answered.values())
        kept = int(stored(data, run).scored.sum())
        assert answered - most - 2 <= kept <= answered, "every answer that was written before the kill is read"
        assert list((run / "predictions").glob("*/*.journal")), "strobe score and view read it, and change nothing"
    service.fault = lambda *_: None
    code, said, _ = command("predict", data, "-m", MODEL, "-o", run, "--limits", "concurrency=4")
    assert code == 0
    assert f"{kept} cached" in said
    assert stored(data, run).scored.all()
    assert not list((run / "predictions").glob("*/*.journal"))
    assert len(service.tries) == 100
    assert max(service.answered.values()) <= 3, "only frames in flight at a kill are answered again"
    assert sum(count > 1 for count in service.answered.values()) <= 2 * (most + 2)
    code, said, _ = command("predict", data, "-m", MODEL, "-o", run)
    assert "0 new, 100 cached" in said


def test_a_budget_ends_the_command_and_the_same_command_goes_on(
    data: Path, tmp_path: Path, service: Colours, command: Any
) -> None:
    words = ("predict", data, "-m", MODEL, "-o", tmp_path / "run", "--limits", "price_request=0.5")
    code, said, _ = command(*words, "--max-requests", 40)
    assert (code, sum(service.tries.values())) == (2, 40)
    assert "the budget of 40 request(s) is used up (60 frame(s) are left; run the same command again" in said
    code, said, noted = command(*words, "--max-cost", 10)
    assert (code, sum(service.tries.values())) == (2, 60)
    assert "the budget of 10 is used up (40 frame(s) are left" in said
    assert "far: 60 request(s) for 60 frame(s), at most 360 with retries; about 0.0 MB; cost 30 without" in noted
    code, said, _ = command(*words)
    assert (code, sum(service.tries.values())) == (0, 100)
    assert "40 new, 60 cached" in said
    assert "40 requests, 0.0 MB sent, 280 + 40 tokens, cost 20" in said
    spent = json.loads((tmp_path / "run/run.json").read_text())["models"]["far"]["spent"]
    assert (spent["requests"], spent["cost"], spent["input_tokens"]) == (100, 50.0, 700)


def test_words_outside_the_classes_are_listed(data: Path, tmp_path: Path, service: Colours, command: Any) -> None:
    said = {0: "a zebra", 1: "a zebra", 2: "=cmd()"}
    service.fault = lambda name, _: said.get(int(name, 16) % 20)
    run = tmp_path / "run"
    code, printed, noted = command("eval", data, "-m", MODEL, "-o", run, "--bootstrap", 100)
    assert code == 0, noted
    many = [sum(int(name, 16) % 20 in at for name in service.tries) for at in ((0, 1), (2,))]
    rows = (run / "tables/outside.csv").read_text().splitlines()
    assert rows == ["model,said,frames", f"far,a zebra,{many[0]}", f"far,'=cmd(),{many[1]}"]
    remote = json.loads((run / "results.json").read_text())["studies"]["remote"]["far"]
    assert remote["spent"]["requests"] == 100
    assert "Answers outside the classes" in printed
    assert "a zebra" in (run / "report.html").read_text()
    assert (run / "tables/spent.csv").read_text().splitlines()[1].startswith("far,100,")


def test_early_stopping_asks_less(data: Path, tmp_path: Path, service: Colours, command: Any) -> None:
    """Sets that break are settled by fewer requests, and the figures are those of a full run."""
    service.fault = lambda name, _: "none" if int(name, 16) % 3 == 0 else None
    words = ("eval", data, "-m", MODEL, "--bootstrap", 100, "--no-report")
    assert command(*words, "-o", tmp_path / "full")[0] == 0
    asked = sum(service.tries.values())
    code, _, noted = command(*words, "-o", tmp_path / "early", "--stop-early")
    assert code == 0
    assert "far: 20 to 100 request(s) for 100 frame(s)" in noted
    assert sum(service.tries.values()) - asked < 80
    full, early = (
        json.loads((tmp_path / run / "results.json").read_text())["models"]["far"] for run in ("full", "early")
    )
    for name in ("acc_orig", "acc_pmk", "drop"):
        assert full[name] == early[name]


BAD = {
    "an unknown limit": (("--limits", "concurrent=3"), "unknown limit 'concurrent'; did you mean concurrency"),
    "no number": (("--limits", "concurrency=many"), "--limits: expected concurrency=8,per_second=5"),
    "nothing": (("--limits", ""), "--limits: expected concurrency=8,per_second=5"),
    "a limit out of range": (("--limits", "concurrency=0"), "limits: concurrency: expected 1–1024, got 0"),
    "no requests": (("--max-requests", "0"), "--max-requests"),
    "a cost without prices": (("--max-cost", "3"), "--max-cost needs prices; add price_request"),
    "no prompt": (("--prompt", "nowhere.txt"), "--prompt"),
}


@pytest.mark.parametrize(("words", "said"), BAD.values(), ids=BAD)
def test_bad_options_are_one_line(
    data: Path, tmp_path: Path, service: Colours, command: Any, words: tuple[str, ...], said: str
) -> None:
    code, printed, noted = command("predict", data, "-m", MODEL, "-o", tmp_path / "run", *words, "-q")
    assert code == 2
    assert said in printed + noted
    assert not service.tries
    assert not list(tmp_path.glob("run/**/*.parquet"))


def test_a_failed_first_request_leaves_nothing(data: Path, tmp_path: Path, service: Colours, command: Any) -> None:
    service.key = "right"
    for out, words in (("predict", ()), ("eval", ("--bootstrap", 100))):
        code, printed, noted = command(out, data, "-m", MODEL, "-o", tmp_path / out, *words, "-q")
        assert code == 2
        assert "it asks for a key; set COLOUR_KEY (status 401" in printed + noted
        assert not [path for path in (tmp_path / out).rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_a_list_gives_a_model_its_limits(data: Path, tmp_path: Path, service: Colours, command: Any) -> None:
    service.fault = lambda *_: 0.01
    (tmp_path / "models.toml").write_text(
        f'[[model]]\nname = "far"\nmodel = "{PLUGIN}"\nlimits = {{ concurrency = 2, retries = 0 }}\n'
    )
    code, _, noted = command("predict", data, "-m", f"@{tmp_path / 'models.toml'}", "-o", tmp_path / "run", "--trust")
    assert code == 0, noted
    assert service.most_flying == 2
    assert "with retries" not in noted


def test_a_damaged_journal_is_reported_and_asked_again(
    data: Path, tmp_path: Path, service: Colours, command: Any
) -> None:
    run = tmp_path / "run"
    process: list[subprocess.Popen[str]] = []

    def fault(_: str, __: int) -> Any:
        if sum(service.answered.values()) >= 30:
            process[0].send_signal(signal.SIGKILL)
        return None

    service.fault = fault
    process.append(started(data, run))
    process[0].communicate(timeout=120)
    service.fault = lambda *_: None
    (journal,) = run.glob("predictions/*/*.journal")
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"A", b"B", 1)
    journal.write_bytes(b"".join(lines))
    code, _, noted = command("score", run, "--allow-missing", "--bootstrap", 100)
    assert code == 2
    assert "line 5 is damaged; run the same predict command again" in noted
    code, said, noted = command("predict", data, "-m", MODEL, "-o", run)
    assert code == 0
    assert ".journal: line 5 is damaged; the frames are asked again" in noted
    assert f"{len(lines) - 1} cached" in said
    assert stored(data, run).scored.all()
    np.testing.assert_array_equal(stored(data, run).label, np.arange(100) // 5 % 3)
    shutil.rmtree(run)


def test_an_address_with_a_secret_is_refused_before_anything_is_written(
    data: Path, tmp_path: Path, service: Colours, command: Any, monkeypatch: pytest.MonkeyPatch, plugin: Path
) -> None:
    from strobe.models.providers import PROVIDERS

    monkeypatch.setitem(PROVIDERS.own, "far", "made_remote:PROVIDER")
    host = service.address.removeprefix("http://")
    for address in (f"http://me:{SECRET}@{host}", f"{service.address}?key={SECRET}"):
        words = ("-m", f"far:colours@{address}", "-m", f"py:{plugin}:make", "-o", tmp_path / "run")
        code, said, noted = command("predict", data, *words, "-q")
        assert code == 2
        assert SECRET not in said + noted
        assert not (tmp_path / "run").exists()
    words = ("-m", f"far:colours@{service.address}", "-m", f"py:{plugin}:make", "-o", tmp_path / "run")
    code, said, noted = command("predict", data, *words, "--limits", "retries=0", "-q")
    assert (code, len(service.tries)) == (0, 100), noted
