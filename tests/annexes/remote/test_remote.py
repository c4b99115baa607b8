"""A model behind an address, asked over real HTTP and by the commands: retries, failures, budgets, kills, noise."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_colours_service import Colours, Fault
from made_remote import COLOURS, ColourModel

import strobe
from strobe.annexes.remote.asker import RemoteAsker
from strobe.annexes.remote.asking import asking_of
from strobe.annexes.remote.pacing import Budget, Clock, Pacer, backoff
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace, Projection
from strobe.core.ports import RemoteModel, Silent
from strobe.core.remote import RequestFailed, RequestLimits, Usage
from strobe.core.tasks import Task
from strobe.engine.forward import Runner
from strobe.store import dataset_folder as folder
from strobe.store.frame_names import FrameNames
from strobe.store.media import MediaSource
from strobe.store.shards import KEY_FACTS, ModelShards

Make = Callable[..., Dataset]


class FakeTime:
    """A clock that jumps: every wait is recorded and takes no time."""

    def __init__(self) -> None:
        self.time, self.waits, self.guard = 0.0, [], threading.Lock()
        self.waits: list[float] = []
        self.clock = Clock(now=lambda: self.time, wait=self._wait)

    def _wait(self, stop: threading.Event, seconds: float) -> None:
        with self.guard:
            self.waits.append(seconds)
            self.time += seconds


class Notes(Silent):
    """A progress that keeps the lines and the units."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def service() -> Iterator[Colours]:
    made = Colours()
    yield made
    made.close()


def store_of(run: Path, dataset: Dataset, *, task: Task = Task.CLASSIFICATION, note: Any = None) -> ModelShards:
    facts, frames = dict.fromkeys(KEY_FACTS, ""), FrameNames(dataset)
    return ModelShards(run, "colours", facts=facts, frames=frames, task=task, n_classes=3, note=note)


def asker_of(
    dataset: Dataset,
    run: Path,
    service: Colours,
    *,
    budget: Budget | None = None,
    time: FakeTime | None = None,
    task: str = "classification",
    batch_size: int = 1,
    space: LabelSpace = COLOURS,
    attempt: int = 0,
    **limits: float,
) -> tuple[RemoteAsker, ModelShards]:
    known = RequestLimits.of({"concurrency": 4, "timeout": 5, **limits})
    model = ColourModel(service.address, known, batch_size=batch_size, task=task, space=space)
    assert isinstance(model, RemoteModel)
    runner = Runner(name="colours", model=model, projection=Projection.identity(space))
    store = store_of(run, dataset, task=Task(task))
    asking = replace(asking_of(dataset, MediaSource(dataset), 2, None), attempt=attempt)
    clock = Clock() if time is None else time.clock
    made = RemoteAsker(runner, store, asking, budget=budget, clock=clock, rng=np.random.default_rng(1))
    return made, store


def rows_of(dataset: Dataset) -> Any:
    return np.unique(dataset.sets.frame)


def names_in_order(service: Colours, dataset: Dataset) -> list[str]:
    """The digests of the images, in the order of the frames."""
    import hashlib
    import json

    source, model = MediaSource(dataset), ColourModel(service.address, RequestLimits())
    prepared = [model.prepare(source.read(row)) for row in range(len(dataset.frames))]
    return [hashlib.sha256(json.dumps(one).encode()).hexdigest()[:12] for one in prepared]


def test_every_frame_is_asked_once_and_answered_as_in_process(colours: Make, tmp_path: Path, service: Colours) -> None:
    data, notes = colours(n_sets=6, k=5), Notes()
    asker, store = asker_of(data, tmp_path / "run", service, concurrency=8)
    outcome = asker.run(rows_of(data), notes)
    assert (outcome.error, outcome.n_new, outcome.n_unreadable) == (None, 66, 0)
    assert set(service.tries.values()) == {1}
    assert len(service.tries) == 66
    answers = store.read()
    assert isinstance(answers, ClassAnswers)
    model, source = ColourModel(service.address, RequestLimits()), MediaSource(data)
    means = [model.prepare(source.read(row)) for row in range(66)]
    np.testing.assert_array_equal(answers.scores, np.array(means, dtype=np.float32) / 10)
    assert outcome.spent == Usage(
        requests=66, sent_bytes=outcome.spent.sent_bytes, input_tokens=7 * 66, output_tokens=66
    )
    assert store.spent() == outcome.spent
    assert set(service.sources.values()) == set(data.videos.video_id.tolist()), "the video of each image is named"


def test_another_order_of_completion_gives_the_same_answers(colours: Make, tmp_path: Path, service: Colours) -> None:
    data = colours(n_sets=4, k=2)
    names = names_in_order(service, data)
    service.fault = lambda name, _: 0.3 if name in names[::4] else None
    asker, store = asker_of(data, tmp_path / "run", service, concurrency=4)
    assert asker.run(rows_of(data), Silent()).error is None
    assert service.order != names, "later frames were answered first"
    service.fault = lambda *_: None
    plain, other = asker_of(data, tmp_path / "other", service, concurrency=1)
    assert plain.run(rows_of(data), Silent()).error is None
    np.testing.assert_array_equal(store.read().scores, other.read().scores)  # type: ignore[union-attr]


# -- retries --------------------------------------------------------------------------------------------------------

AGAIN: dict[str, Fault] = {
    "429": lambda _, n: (429, {"Retry-After": "3"}) if n < 3 else None,
    "500": lambda _, n: (500, {}) if n < 3 else None,
    "503": lambda _, n: (503, {}) if n < 3 else None,
    "a lost connection": lambda _, n: "drop" if n < 3 else None,
    "a time-out": lambda _, n: 0.4 if n < 3 else None,
}


@pytest.mark.parametrize("fault", AGAIN.values(), ids=AGAIN)
def test_what_may_pass_is_tried_again(colours: Make, tmp_path: Path, service: Colours, fault: Fault) -> None:
    """Every other image fails twice. The waits double, and `Retry-After` is the least."""
    data, time = colours(n_sets=2, k=2), FakeTime()
    names = names_in_order(service, data)
    service.fault = lambda name, n: fault(name, n) if name in names[::2] else None
    asker, store = asker_of(data, tmp_path / "run", service, time=time, retries=2, timeout=0.2)
    outcome = asker.run(rows_of(data), Silent())
    assert (outcome.error, outcome.n_unreadable) == (None, 0)
    assert sorted(service.tries[name] for name in names) == [1] * 5 + [3] * 5
    assert outcome.spent is not None
    assert (outcome.spent.requests, outcome.spent.retries) == (20, 10)
    assert store.read().scored.all()
    if fault is AGAIN["429"]:
        assert sum(wait >= 3 for wait in time.waits) >= 10, time.waits
    else:
        assert sum(0.25 <= wait <= 0.5 for wait in time.waits) == 5
        assert sum(0.5 < wait <= 1.0 or wait == 0.5 for wait in time.waits) == 5


def test_waits_are_bounded_and_differ() -> None:
    rng = np.random.default_rng(3)
    busy = RequestFailed("busy", blame="again")
    waits = [[backoff(n, busy, rng) for _ in range(100)] for n in (1, 2, 3, 20)]
    for values, most in zip(waits, (0.5, 1.0, 2.0, 60.0), strict=True):
        assert most / 2 <= min(values) < max(values) <= most
        assert len(set(values)) > 90
    for_an_hour = RequestFailed("busy", blame="again", after=3600)
    assert 300 <= backoff(1, for_an_hour, rng) <= 330


def test_the_rate_is_limited_and_a_pause_is_for_all_threads() -> None:
    time = FakeTime()
    pacer = Pacer(5.0, time.clock, threading.Event())
    starts = []
    for _ in range(4):
        pacer.wait()
        starts.append(round(time.time, 3))
    assert starts == [0.0, 0.2, 0.4, 0.6]
    pacer.pause(10)
    pacer.wait()
    assert round(time.time, 3) == 10.6


def test_a_frame_that_fails_is_stored_and_the_rest_goes_on(colours: Make, tmp_path: Path, service: Colours) -> None:
    data, time = colours(n_sets=4, k=2), FakeTime()
    names = names_in_order(service, data)
    bad: dict[str, Any] = {names[1]: (413, {}), names[5]: "refused", names[9]: (500, {}), names[12]: "drop"}
    service.fault = lambda name, _: bad.get(name)
    asker, store = asker_of(data, tmp_path / "run", service, time=time, retries=2)
    outcome = asker.run(rows_of(data), Silent())
    assert (outcome.error, outcome.n_new, outcome.n_unreadable) == (None, 20, 4)
    reasons = store.read().reasons
    assert sorted(reasons) == [1, 5, 9, 12]
    assert "status 413" in reasons[1]
    assert "refused the image" in reasons[5]
    assert "status 500" in reasons[9]
    assert "connection was lost" in reasons[12]
    assert [service.tries[names[row]] for row in (0, 1, 5, 9, 12)] == [1, 1, 1, 3, 3]
    assert outcome.spent is not None
    assert outcome.spent.failed == 4
    # The next command asks nothing, unless errors are retried.
    service.fault = lambda *_: None
    again, _ = asker_of(data, tmp_path / "run", service)
    assert again.run(rows_of(data), Silent()).n_new == 0
    notes = Notes()
    again.announce(rows_of(data), notes, retry_errors=True)
    assert "4 request(s) for 4 frame(s)" in notes.lines[0]
    assert again.run(rows_of(data), Silent()).n_new == 4
    assert store_of(tmp_path / "run", data).read().scored.all()


def test_a_batch_with_a_bad_image_is_sent_one_by_one(colours: Make, tmp_path: Path, service: Colours) -> None:
    data = colours(n_sets=4, k=2)
    names = names_in_order(service, data)
    service.fault = lambda name, _: (422, {}) if name == names[6] else None
    asker, store = asker_of(data, tmp_path / "run", service, batch_size=4)
    outcome = asker.run(rows_of(data), Silent())
    assert list(store.read().reasons) == [6]
    assert outcome.n_unreadable == 1
    assert [service.tries[name] for name in names] == [1] * 4 + [2] * 4 + [1] * 12


def test_an_unreadable_file_is_not_sent(colours: Make, tmp_path: Path, service: Colours) -> None:
    data = colours(n_sets=2, k=2)
    names = names_in_order(service, data)
    (tmp_path / "data/media/00004.jpg").write_bytes(b"no image")
    asker, store = asker_of(data, tmp_path / "run", service)
    outcome = asker.run(rows_of(data), Silent())
    assert list(store.read().reasons) == [4]
    assert (outcome.n_unreadable, service.tries[names[4]]) == (1, 0)


# -- the end of a model ---------------------------------------------------------------------------------------------


def test_an_answer_of_another_width_ends_the_model(colours: Make, tmp_path: Path, service: Colours) -> None:
    data = colours(n_sets=2, k=2)
    four = LabelSpace.of_names("four", ["red", "green", "blue", "grey"])
    asker, store = asker_of(data, tmp_path / "run", service, space=four)
    outcome = asker.run(rows_of(data), Silent())
    assert outcome.error == (
        "colours: returned scores of shape (3,), expected (4,): one per class of four (10 frame(s) are left; the same "
        "command goes on)"
    )
    assert not list(store.folder.glob("*"))


@pytest.mark.parametrize("retries", [0, 5])
def test_an_address_that_is_gone_ends_the_model(colours: Make, tmp_path: Path, service: Colours, retries: int) -> None:
    """Frames that were asked in vain are not stored as failed: the next command asks them."""
    data, time = colours(n_sets=6, k=5), FakeTime()
    asker, store = asker_of(data, tmp_path / "run", service, time=time, retries=retries)
    service.fault = lambda *_: (503, {}) if sum(service.answered.values()) >= 10 else None
    outcome = asker.run(rows_of(data), Silent())
    assert outcome.error is not None
    assert "no answer to the last 16 requests; the last error: colours: status 503" in outcome.error
    assert "the same command goes on" in outcome.error
    answered = sum(service.answered.values())
    stored, n_errors = store.stored()
    assert int(stored.sum()) - n_errors == answered
    assert n_errors <= 3, "only a frame that failed before the last answers came"
    assert sum(service.tries.values()) <= answered + 2 * 16, "late answers start the count again"
    service.fault = lambda *_: None
    again, store = asker_of(data, tmp_path / "run", service)
    assert again.run(rows_of(data), Silent()).n_new == 66 - answered - n_errors
    assert set(service.answered.values()) == {1}


def test_an_exception_of_the_provider_is_one_line(colours: Make, tmp_path: Path, service: Colours) -> None:
    data = colours(n_sets=2, k=2)
    asker, _ = asker_of(data, tmp_path / "run", service)
    service.fault = lambda *_: {"a": "mapping"}  # type: ignore[return-value,arg-type]
    outcome = asker.run(rows_of(data), Silent())
    assert outcome.error is not None
    assert "raised TypeError on 0000" in outcome.error
    assert "\n" not in outcome.error


def test_ctrl_c_keeps_the_answers_and_does_not_wait(colours: Make, tmp_path: Path, service: Colours) -> None:
    """After six answers every request hangs; Ctrl-C ends the command while they hang."""
    data, hang = colours(n_sets=4, k=2), threading.Event()

    def fault(_: str, __: int) -> None:
        if sum(service.tries.values()) > 6:
            if not hang.is_set():
                os.kill(os.getpid(), signal.SIGINT)
            hang.wait(20)

    service.fault = fault
    asker, store = asker_of(data, tmp_path / "run", service, concurrency=2, timeout=30)
    with pytest.raises(KeyboardInterrupt):
        asker.run(rows_of(data), Silent())
    kept = int(store_of(tmp_path / "run", data).stored()[0].sum())
    assert 5 <= kept <= sum(service.answered.values()) == 6, "at most one answer was on its way"
    hang.set()
    again, store = asker_of(data, tmp_path / "run", service)
    assert again.run(rows_of(data), Silent()).n_new == 20 - kept
    assert store.read().scored.all()


# -- money ----------------------------------------------------------------------------------------------------------


def test_a_budget_of_money_counts_what_is_in_flight(colours: Make, tmp_path: Path, service: Colours) -> None:
    """A request costs 1 + 7 + 2 × 1 = 10; with eight at a time, the budget is not exceeded after the first answers."""
    data = colours(n_sets=8, k=5)
    prices = {"price_request": 1.0, "price_input": 1e6, "price_output": 2e6}
    asker, _ = asker_of(data, tmp_path / "run", service, budget=Budget(max_cost=300), concurrency=2, **prices)
    outcome = asker.run(rows_of(data), Silent())
    assert outcome.error is not None
    assert "the budget of 300 is used up" in outcome.error
    assert outcome.spent is not None
    assert 290 <= outcome.spent.cost <= 300
    assert sum(service.tries.values()) == outcome.spent.requests == outcome.spent.cost / 10
    with pytest.raises(StrobeError, match="--max-cost needs prices"):
        asker_of(data, tmp_path / "run", service, budget=Budget(max_cost=1))


def test_before_it_asks_it_says_how_much(colours: Make, tmp_path: Path, service: Colours) -> None:
    data, notes = colours(n_sets=4, k=2), Notes()
    asker, _ = asker_of(data, tmp_path / "run", service, batch_size=2, retries=3, price_request=0.5)
    asker.announce(rows_of(data), notes)
    asker.announce(rows_of(data), notes, least=np.arange(2, 20, 5))
    assert notes.lines == [
        "colours: 10 request(s) for 20 frame(s), at most 40 with retries; about 0.0 MB; cost 5 without retries",
        "colours: 2 to 10 request(s) for 20 frame(s), at most 40 with retries; up to about 0.0 MB; cost 1 to 5 without "
        "retries",
    ]
    assert not service.tries


# -- limits ---------------------------------------------------------------------------------------------------------


ASKING = """
import os, sys

sys.path.insert(0, {folder!r})

from made_remote import ColourModel, LabelSpace, LoadOptions, RequestLimits


def make(options: LoadOptions) -> ColourModel:
    space = LabelSpace.of_names("world", {names!r})
    return ColourModel(os.environ["COLOUR_ADDRESS"], RequestLimits.of(options.limits), space=space)
"""


def test_an_endpoint_with_known_noise_and_flicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are recovered within their intervals, and the service counts each question."""
    guesses, others, n_classes = 0.15, 0.1, 4
    data = strobe.synthesize(tmp_path / "data", videos=40, k=3, size=32)
    space = data.info.label_space
    answer_to: dict[tuple[str, int], int] = {}

    def planted(name: str, number: int) -> list[float]:
        """The second class on a tenth of the images, else the first; some answers are another of four classes."""
        of_image, rng = np.random.default_rng(int(name, 16)), np.random.default_rng([int(name, 16), number])
        mode = int(of_image.random() < others)
        answer_to[name, number] = int(mode + (rng.random() < guesses) * rng.integers(1, n_classes)) % n_classes
        return np.eye(len(space))[answer_to[name, number]].tolist()

    service = Colours(planted)
    try:
        (tmp_path / "asking.py").write_text(ASKING.format(folder=str(Path(__file__).parent), names=list(space.names)))
        monkeypatch.setenv("COLOUR_ADDRESS", service.address)
        asked = f"py:{tmp_path / 'asking.py'}:make"
        found = strobe.evaluate(data, {"net": asked}, tmp_path / "run", running=strobe.Running(repeat=3))
    finally:
        service.close()
    n = len(data.frames)
    assert set(service.attempts.values()) == {1}
    assert {number for _, number in service.attempts} == {0, 1, 2}
    assert sum(service.tries.values()) == 3 * n
    about = json.loads((tmp_path / "run" / "run.json").read_text())["models"]["net"]
    assert about["repeated"] == {"times": 3, "new": 2 * n, "kept": 0}
    assert about["spent"]["requests"] == 3 * n
    score = found.results.models["net"].noise
    assert score is not None
    other = guesses / (n_classes - 1)
    noise = 1 - (1 - guesses) ** 2 - (n_classes - 1) * other**2
    apart = 1 - 2 * (1 - guesses) * other - (n_classes - 2) * other**2
    change = 2 * others * (1 - others)
    flips = (1 - change) * noise + change * apart
    for estimate, true in ((score.noise, noise), (score.flips, flips), (score.beyond_noise, flips - noise)):
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= true <= estimate.high
        assert estimate.high - estimate.low < 0.15
    assert score.p is not None
    assert score.p < 0.001


SECRET = "sk-0123456789abcdefSECRET"
PLUGIN = f"py:{Path(__file__).with_name('made_remote.py')}:make"
MODEL = f"far={PLUGIN}"


@pytest.fixture
def colour_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Colours]:
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
    data: Path, tmp_path: Path, colour_service: Colours, command: Any
) -> None:
    """The service kills the command at the 30th and at the 60th answer; then the same command completes the run."""
    run, most = tmp_path / "run", 4
    for last in (30, 60):
        process: list[subprocess.Popen[str]] = []

        def fault(_: str, n: int, last: int = last, process: Any = process) -> Any:
            if sum(colour_service.answered.values()) >= last:
                process[0].send_signal(signal.SIGKILL)
                return "drop"
            return (503, {"Retry-After": "0"}) if n == 1 and sum(colour_service.tries.values()) % 7 == 0 else None

        colour_service.fault = fault
        process.append(started(data, run, "--limits", f"concurrency={most},retries=3"))
        assert process[0].communicate(timeout=120) is not None
        assert process[0].returncode == -signal.SIGKILL
        answered = sum(count > 0 for count in colour_service.answered.values())
        kept = int(stored(data, run).scored.sum())
        assert answered - most - 2 <= kept <= answered, "every answer that was written before the kill is read"
        assert list((run / "predictions").glob("*/*.journal")), "strobe score and view read it, and change nothing"
    colour_service.fault = lambda *_: None
    code, said, _ = command("predict", data, "-m", MODEL, "-o", run, "--limits", "concurrency=4")
    assert code == 0
    assert f"{kept} cached" in said
    assert stored(data, run).scored.all()
    assert not list((run / "predictions").glob("*/*.journal"))
    assert len(colour_service.tries) == 100
    assert max(colour_service.answered.values()) <= 3, "only frames in flight at a kill are answered again"
    assert sum(count > 1 for count in colour_service.answered.values()) <= 2 * (most + 2)
    code, said, _ = command("predict", data, "-m", MODEL, "-o", run)
    assert "0 new, 100 cached" in said


def test_a_budget_ends_the_command_and_the_same_command_goes_on(
    data: Path, tmp_path: Path, colour_service: Colours, command: Any
) -> None:
    words = ("predict", data, "-m", MODEL, "-o", tmp_path / "run", "--limits", "price_request=0.5")
    code, said, _ = command(*words, "--max-requests", 40)
    assert (code, sum(colour_service.tries.values())) == (2, 40)
    assert "the budget of 40 request(s) is used up (60 frame(s) are left; run the same command again" in said
    code, said, noted = command(*words, "--max-cost", 10)
    assert (code, sum(colour_service.tries.values())) == (2, 60)
    assert "the budget of 10 is used up (40 frame(s) are left" in said
    assert "far: 60 request(s) for 60 frame(s), at most 360 with retries; about 0.0 MB; cost 30 without" in noted
    code, said, _ = command(*words)
    assert (code, sum(colour_service.tries.values())) == (0, 100)
    assert "40 new, 60 cached" in said
    assert "40 requests, 0.0 MB sent, 280 + 40 tokens, cost 20" in said
    spent = json.loads((tmp_path / "run/run.json").read_text())["models"]["far"]["spent"]
    assert (spent["requests"], spent["cost"], spent["input_tokens"]) == (100, 50.0, 700)


def test_words_outside_the_classes_are_listed(
    data: Path, tmp_path: Path, colour_service: Colours, command: Any
) -> None:
    said = {0: "a zebra", 1: "a zebra", 2: "=cmd()"}
    colour_service.fault = lambda name, _: said.get(int(name, 16) % 20)
    run = tmp_path / "run"
    code, printed, noted = command("eval", data, "-m", MODEL, "-o", run, "--bootstrap", 100)
    assert code == 0, noted
    many = [sum(int(name, 16) % 20 in at for name in colour_service.tries) for at in ((0, 1), (2,))]
    rows = (run / "tables/outside.csv").read_text().splitlines()
    assert rows == ["model,said,frames", f"far,a zebra,{many[0]}", f"far,'=cmd(),{many[1]}"]
    remote = json.loads((run / "results.json").read_text())["studies"]["remote"]["far"]
    assert remote["spent"]["requests"] == 100
    assert "a zebra" in printed
    assert "a zebra" in (run / "report.html").read_text()
    assert (run / "tables/spent.csv").read_text().splitlines()[1].startswith("far,100,")


def test_early_stopping_asks_less(data: Path, tmp_path: Path, colour_service: Colours, command: Any) -> None:
    """Sets that break are settled by fewer requests, and the figures are those of a full run."""
    colour_service.fault = lambda name, _: "none" if int(name, 16) % 3 == 0 else None
    words = ("eval", data, "-m", MODEL, "--bootstrap", 100, "--no-report")
    assert command(*words, "-o", tmp_path / "full")[0] == 0
    asked = sum(colour_service.tries.values())
    code, _, noted = command(*words, "-o", tmp_path / "early", "--stop-early")
    assert code == 0
    assert "far: 20 to 100 request(s) for 100 frame(s)" in noted
    assert sum(colour_service.tries.values()) - asked < 80
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
    data: Path, tmp_path: Path, colour_service: Colours, command: Any, words: tuple[str, ...], said: str
) -> None:
    code, printed, noted = command("predict", data, "-m", MODEL, "-o", tmp_path / "run", *words, "-q")
    assert code == 2
    assert said in printed + noted
    assert not colour_service.tries
    assert not list(tmp_path.glob("run/**/*.parquet"))


def test_a_failed_first_request_leaves_nothing(
    data: Path, tmp_path: Path, colour_service: Colours, command: Any
) -> None:
    colour_service.key = "right"
    for out, words in (("predict", ()), ("eval", ("--bootstrap", 100))):
        code, printed, noted = command(out, data, "-m", MODEL, "-o", tmp_path / out, *words, "-q")
        assert code == 2
        assert "it asks for a key; set COLOUR_KEY (status 401" in printed + noted
        assert not [path for path in (tmp_path / out).rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_a_list_gives_a_model_its_limits(data: Path, tmp_path: Path, colour_service: Colours, command: Any) -> None:
    colour_service.fault = lambda *_: 0.01
    (tmp_path / "models.toml").write_text(
        f'[[model]]\nname = "far"\nmodel = "{PLUGIN}"\nlimits = {{ concurrency = 2, retries = 0 }}\n'
    )
    code, _, noted = command("predict", data, "-m", f"@{tmp_path / 'models.toml'}", "-o", tmp_path / "run", "--trust")
    assert code == 0, noted
    assert colour_service.most_flying == 2
    assert "with retries" not in noted


def test_a_damaged_journal_is_reported_and_asked_again(
    data: Path, tmp_path: Path, colour_service: Colours, command: Any
) -> None:
    run = tmp_path / "run"
    process: list[subprocess.Popen[str]] = []

    def fault(_: str, __: int) -> Any:
        if sum(colour_service.answered.values()) >= 30:
            process[0].send_signal(signal.SIGKILL)
        return None

    colour_service.fault = fault
    process.append(started(data, run))
    process[0].communicate(timeout=120)
    colour_service.fault = lambda *_: None
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
    data: Path,
    tmp_path: Path,
    colour_service: Colours,
    command: Any,
    monkeypatch: pytest.MonkeyPatch,
    plugin: Path,
) -> None:
    from strobe.models.providers import PROVIDERS

    monkeypatch.setitem(PROVIDERS.own, "far", "made_remote:PROVIDER")
    host = colour_service.address.removeprefix("http://")
    for address in (f"http://me:{SECRET}@{host}", f"{colour_service.address}?key={SECRET}"):
        words = ("-m", f"far:colours@{address}", "-m", f"py:{plugin}:make", "-o", tmp_path / "run")
        code, said, noted = command("predict", data, *words, "-q")
        assert code == 2
        assert SECRET not in said + noted
        assert not (tmp_path / "run").exists()
    words = (
        "-m",
        f"far:colours@{colour_service.address}",
        "-m",
        f"py:{plugin}:make",
        "-o",
        tmp_path / "run",
    )
    code, said, noted = command("predict", data, *words, "--limits", "retries=0", "-q")
    assert (code, len(colour_service.tries)) == (0, 100), noted
