"""A model behind an address, asked over real HTTP: what is retried, what fails, what is stored and what is counted."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_remote import COLOURS, ColourModel, Colours, Fault

from strobe.annexes.remote.asker import RemoteAsker
from strobe.annexes.remote.asking import asking_of
from strobe.annexes.remote.pacing import Budget, Clock, Pacer, backoff
from strobe.core.answers import BoxAnswers, ClassAnswers, State
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, UnknownName
from strobe.core.labels import LabelSpace, Projection
from strobe.core.ports import RemoteModel, Silent
from strobe.core.remote import RequestFailed, RequestLimits, Usage
from strobe.core.tasks import Task
from strobe.engine.forward import Runner
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
    asking = asking_of(dataset, MediaSource(dataset), 2, None)
    asking = type(asking)(
        source=asking.source, frame_names=asking.frame_names, sources=asking.sources, decode=asking.decode,
        attempt=attempt,
    )  # fmt: skip
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


def test_detectors(colours: Make, tmp_path: Path, service: Colours) -> None:
    data = colours(n_sets=4, k=2)
    names = names_in_order(service, data)
    service.fault = lambda name, _: "what a lovely picture" if name == names[3] else None
    asker, store = asker_of(data, tmp_path / "run", service, task="detection")
    outcome = asker.run(rows_of(data), Silent())
    answers = store.read()
    assert isinstance(answers, BoxAnswers)
    assert answers.label.tolist() == [row // 5 % 3 for row in range(20) if row != 3]
    assert answers.reasons == {3: "the answer has no list of boxes"}
    assert outcome.n_unreadable == 1


def test_outside_the_classes_is_stored_with_the_words(colours: Make, tmp_path: Path, service: Colours) -> None:
    data = colours(n_sets=2, k=2)
    names = names_in_order(service, data)
    service.fault = lambda name, _: "a zebra, 50 % grey" if name in names[2:4] else None
    asker, store = asker_of(data, tmp_path / "run", service)
    assert asker.run(rows_of(data), Silent()).n_unreadable == 0
    answers = store.read()
    assert isinstance(answers, ClassAnswers)
    assert answers.said == {2: "a zebra, 50 % grey", 3: "a zebra, 50 % grey"}
    assert np.flatnonzero(answers.state == State.OUTSIDE).tolist() == [2, 3]


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


def test_a_wrong_key_ends_the_model_and_stores_nothing(
    colours: Make, tmp_path: Path, service: Colours, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, service.key = colours(n_sets=2, k=2), "right"
    for value, expected in ((None, "asks for a key; set COLOUR_KEY"), ("wrong", "refused the key in COLOUR_KEY")):
        monkeypatch.delenv("COLOUR_KEY", raising=False)
        if value is not None:
            monkeypatch.setenv("COLOUR_KEY", value)
        asker, store = asker_of(data, tmp_path / "run", service)
        outcome = asker.run(rows_of(data), Silent())
        assert outcome.error is not None
        assert expected in outcome.error
        assert "wrong" not in outcome.error, "the service's message repeats the key"
        assert not list(store.folder.glob("*"))
    monkeypatch.setenv("COLOUR_KEY", "right")
    asker, store = asker_of(data, tmp_path / "run", service)
    assert asker.run(rows_of(data), Silent()).error is None


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


def test_a_budget_of_requests(colours: Make, tmp_path: Path, service: Colours) -> None:
    data = colours(n_sets=4, k=2)
    asker, store = asker_of(data, tmp_path / "run", service, budget=Budget(max_requests=7))
    outcome = asker.run(rows_of(data), Silent())
    assert outcome.error == (
        "colours: the budget of 7 request(s) is used up (13 frame(s) are left; run the same command again, or with a "
        "larger budget)"
    )
    assert (sum(service.tries.values()), int(store.stored()[0].sum())) == (7, 7)
    again, store = asker_of(data, tmp_path / "run", service, budget=Budget(max_requests=13))
    outcome = again.run(rows_of(data), Silent())
    assert (outcome.error, outcome.n_kept, outcome.n_new) == (None, 7, 13)
    assert outcome.spent_before.requests == 7
    assert store.spent().requests == 20


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


def test_the_limit_of_requests_at_a_time(colours: Make, tmp_path: Path, service: Colours) -> None:
    data = colours(n_sets=4, k=2)
    service.fault = lambda *_: 0.02
    asker, _ = asker_of(data, tmp_path / "run", service, concurrency=3)
    asker.run(rows_of(data), Silent())
    assert service.most_flying == 3


def test_limits_are_checked() -> None:
    with pytest.raises(UnknownName, match="concurrent"):
        RequestLimits.of({"concurrent": 3})
    for wrong in ({"concurrency": 0}, {"concurrency": 1.5}, {"timeout": 0}, {"retries": -1}, {"price_input": -1}):
        with pytest.raises(InvalidValue, match=next(iter(wrong))):
            RequestLimits.of(wrong)
