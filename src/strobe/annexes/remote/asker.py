"""Ask a model behind an address: many requests at a time, each answer stored when it comes (ADR 9).

Frames are decoded ahead in the calling thread. Other threads send one request each, wait, try again and store the
answer. A frame without an answer is stored with its reason as soon as another request succeeds. If none succeeds, the
service is gone: the model ends, and these frames are asked by the next command.
"""

import queue
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.remote.pacing import Breaker, Budget, BudgetUsedUp, Clock, Pacer, backoff
from strobe.annexes.remote.replies import answers_of_reply, without_answer
from strobe.core.answers import Answers
from strobe.core.errors import ModelFailed, StrobeError, printable, spelled
from strobe.core.ports import FrameSource, Progress, RemoteModel
from strobe.core.remote import Reply, RequestFailed, RequestLimits, Usage
from strobe.engine.engine import ModelOutcome
from strobe.engine.forward import Runner, Work
from strobe.engine.worker import Decoder, EngineOptions, PreparationFailed
from strobe.store.shards import ModelShards

_NOTES_S = (15.0, 300.0)
"""The seconds before the first line about the progress, and the longest time between two lines."""
_STORING_S = 10.0
"""The longest time that the end of a model waits for answers that have come but are not stored yet."""
_SAMPLE = 3
"""The number of frames that are prepared before the first request, to estimate how much is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What a remote model is asked about: frames by row, their names, and the video or photo of each frame."""

    source: FrameSource
    frame_names: Sequence[str]
    sources: Sequence[str]
    as_input: Collection[int] = ()
    engine: EngineOptions = field(default_factory=EngineOptions)
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class _Batch:
    """The images of one request, and how often they were sent before."""

    rows: list[int]
    prepared: list[Any]
    tried: int = 0
    used: Usage = field(default_factory=Usage)


class RemoteAsker:
    """Asks one model over the rows of a dataset. With `--stop-early`, there are several rounds of rows.

    All rounds share the limits, the breaker and the count of what was spent.
    """

    def __init__(
        self,
        runner: Runner,
        store: ModelShards,
        asking: Asking,
        *,
        budget: Budget | None = None,
        clock: Clock = Clock(),  # noqa: B008 (it is frozen)
        rng: np.random.Generator | None = None,
    ) -> None:
        self._runner, self._store, self._asking = runner, store, asking
        self._model = cast(RemoteModel, runner.model)
        self._limits, self._budget = self._model.limits, budget or Budget()
        self._clock, self._rng = clock, rng or np.random.default_rng()
        self._breaker = Breaker(self._limits.concurrency)
        self._stop = threading.Event()
        self._slots = threading.BoundedSemaphore(self._limits.concurrency)
        self._storing, self._n_storing = threading.Condition(), 0
        self._pacer = Pacer(self._limits.per_second, clock, self._stop)
        self._guard = threading.RLock()
        self._spent, self._before = Usage(), store.spent()
        self._stored = Usage()
        self._ending: BaseException | None = None
        self._budget.check(printable(runner.name), self._limits)

    # -- the calling thread --------------------------------------------------------------------------------------

    def run(self, rows: NDArray[Any], progress: Progress) -> ModelOutcome:
        """Ask about the rows that have no stored answer, and store every answer.

        If the model ends early, the outcome has an error of one line, and the next call goes on. On Ctrl-C, every
        received answer is kept.
        """
        missing, outcome = self._missing(rows)
        if not missing:
            return outcome
        begin = self._clock.now()
        self._outcome, self._abandoned = outcome, False
        self._held: list[tuple[_Batch, RequestFailed]] = []
        self._n_missing, self._begin, self._spent_before, self._stored = len(missing), begin, self._spent, self._spent
        self._next_note, self._gap_s = begin + _NOTES_S[0], _NOTES_S[0]
        self._ending = None
        self._stop.clear()
        self._note, work, decoder = progress.note, Work(self._runner, []), self._decoder()
        try:
            with progress.task(f"ask {printable(self._runner.name)}", len(missing)) as self._tick:
                self._ask_all(decoder.ahead(missing, {row: [work] for row in missing}))
        except StrobeError as error:
            self._end(error)
        finally:
            self._stop.set()
            decoder.close()
            with self._storing:  # answers that have come are stored, also after Ctrl-C
                self._storing.wait_for(lambda: self._n_storing == 0, timeout=_STORING_S)
            with self._guard:
                self._abandoned = True  # threads that still wait for an answer must not write any more
                if self._spent != self._stored:
                    self._store.append(np.zeros(0, dtype=np.int64), None, self._spent - self._stored)
                self._store.fold()
        outcome.wall_s = self._clock.now() - begin
        self._account(outcome)
        outcome.error = self._ended()
        return outcome

    def _missing(self, rows: NDArray[Any], *, retry_errors: bool = False) -> tuple[list[int], ModelOutcome]:
        done, n_errors = self._store.stored(retry_errors=retry_errors)
        asked = np.zeros(len(done), dtype=bool)
        asked[rows] = True
        outcome = ModelOutcome(n_kept=int((asked & done).sum()), n_unreadable=n_errors)
        self._account(outcome)
        return np.flatnonzero(asked & ~done).tolist(), outcome

    def _account(self, outcome: ModelOutcome) -> None:
        outcome.spent, outcome.spent_before = self._spent, self._before

    def _decoder(self) -> Decoder:
        asking = self._asking
        return Decoder([self._runner], asking.source, asking.engine, asking.frame_names, frozenset(asking.as_input))

    def _ask_all(self, frames: Iterator[tuple[int, list[Any]]]) -> None:
        """Pass the frames to the threads, and wait for the threads."""
        # More threads than slots: while a thread stores its answer, another one has already sent the next request.
        n = self._limits.concurrency + max(2, self._limits.concurrency // 4)
        self._batches: queue.Queue[_Batch | None] = queue.Queue(maxsize=n)
        self._exits: queue.SimpleQueue[bool] = queue.SimpleQueue()
        # Daemon threads: a request that hangs must not keep the process alive after Ctrl-C.
        threads = [threading.Thread(target=self._serve, daemon=True, name=f"ask-{place}") for place in range(n)]
        for thread in threads:
            thread.start()
        for batch in self._cut(frames):
            self._put(batch)
            if self._stop.is_set():
                break
        for _ in threads:
            self._put(None)
        for _ in threads:
            if not self._exits.get():  # the service is gone, so nobody waits for its answers
                return
        with self._guard:
            self._settle_failures()

    def _put(self, batch: _Batch | None) -> None:
        while not self._stop.is_set():
            try:
                self._batches.put(batch, timeout=0.2)
            except queue.Full:
                continue
            return

    def _cut(self, frames: Iterator[tuple[int, list[Any]]]) -> Iterator[_Batch]:
        """Yield the frames in batches. Frames that cannot be read are stored now."""
        rows: list[int] = []
        prepared: list[Any] = []
        for row, values in frames:
            value = values[0][1]
            if isinstance(value, PreparationFailed):
                name = printable(self._asking.frame_names[row])
                raise ModelFailed(f"{self._runner.name}: cannot prepare {name}: {printable(value.error, limit=200)}")
            if isinstance(value, StrobeError):
                with self._guard:
                    self._store_failed([row], printable(value), Usage())
                continue
            rows.append(row)
            prepared.append(value)
            if len(rows) == self._runner.batch_size:
                yield _Batch(rows, prepared)
                rows, prepared = [], []
        if rows:
            yield _Batch(rows, prepared)

    # -- the asking threads --------------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    batch = self._batches.get(timeout=0.2)
                except queue.Empty:
                    continue
                if batch is None:
                    return
                self._answer(batch)
        except BaseException as error:  # the calling thread reports it
            self._end(error)
        finally:
            self._exits.put(True)

    def _answer(self, batch: _Batch) -> None:
        """Send a batch until it is answered, has failed, or the model ends."""
        while not self._stop.is_set():
            self._pacer.wait()
            batch, error = self._tried(batch)
            if error is None:
                return
            left = self._limits.retries + 1 - batch.tried
            if error.blame == "frame" and len(batch.rows) > 1 and left > 0:
                self._answer_alone(batch)
                return
            if error.blame == "frame" or left <= 0:
                with self._guard:
                    self._held.append((batch, error))
                return
            if error.after:
                self._pacer.pause(error.after)
            with self._guard:
                wait_s = backoff(batch.tried, error, self._rng)
            self._clock.wait(self._stop, wait_s)

    def _tried(self, batch: _Batch) -> tuple[_Batch, RequestFailed | None]:
        """Send a request once. Store its answers, or return its failure."""
        with self._slots:
            if self._stop.is_set():
                return batch, None
            self._budget.take(self._runner.name, self._limits)
            reply = self._sent(batch)
            with self._storing:
                self._n_storing += 1
        try:
            used, found = self._read(batch, reply)
            used = replace(used, retries=int(batch.tried > 0), cost=self._limits.cost(used))
            self._budget.pay(self._runner.name, used)
            batch = replace(batch, tried=batch.tried + 1, used=batch.used + used)
            with self._guard:
                if self._abandoned:
                    return batch, None
                self._spent += used
                if not isinstance(found, StrobeError):
                    self._breaker.succeeded()
                    self._store_answers(batch, found)
                    return batch, None
                if not isinstance(found, RequestFailed) or found.blame == "model":
                    raise found
                self._count_failure(found)
                return batch, found
        finally:
            with self._storing:
                self._n_storing -= 1
                self._storing.notify_all()

    def _answer_alone(self, batch: _Batch) -> None:
        """Send each image alone, because the service refused the batch and one image may be the cause."""
        used = batch.used
        for row, value in zip(batch.rows, batch.prepared, strict=True):
            self._answer(_Batch([row], [value], tried=batch.tried, used=used))
            used = Usage()

    def _sent(self, batch: _Batch) -> Reply | StrobeError:
        """Send one request, and return its reply or its failure."""
        sources = [self._asking.sources[row] for row in batch.rows]
        try:
            return self._model.ask(batch.prepared, sources=sources, attempt=self._asking.attempt)
        except StrobeError as error:
            return error
        except RecursionError:
            return RequestFailed(f"{self._runner.name}: the reply is nested too deeply", blame="frame")
        except Exception as error:
            name = printable(self._asking.frame_names[batch.rows[0]])
            why = f"raised {type(error).__name__} on {name}: {printable(error, limit=200)}"
            return ModelFailed(f"{self._runner.name}: {why}")

    def _read(self, batch: _Batch, reply: Reply | StrobeError) -> tuple[Usage, Answers | StrobeError]:
        """Return what a request used, and its answers or its failure."""
        if isinstance(reply, StrobeError):
            return reply.used if isinstance(reply, RequestFailed) else Usage(requests=1), reply
        try:
            return reply.used, answers_of_reply(self._runner, batch.rows, reply)
        except StrobeError as error:
            return reply.used, error

    def _count_failure(self, error: RequestFailed) -> None:
        """Record a failed try. End the model if nothing succeeds any more."""
        if self._breaker.failed(error):
            self._held.clear()
            why = f"no answer to the last {self._breaker.most} requests; the last error: {error}"
            self._end(ModelFailed(f"{self._runner.name}: {why}"))
            self._exits.put(False)
        self._tell_progress()

    def _end(self, error: BaseException) -> None:
        """End the model: no request starts any more. The first error counts."""
        with self._guard:
            if self._ending is None and not self._stop.is_set():
                self._ending = error
            self._stop.set()

    # -- storing -------------------------------------------------------------------------------------------------

    def _store_answers(self, batch: _Batch, answers: Answers) -> None:
        self._store.append(np.array(batch.rows), answers, batch.used, device=self._runner.made_on)
        self._stored += batch.used
        self._outcome.n_new += len(batch.rows)
        self._tick(len(batch.rows))
        self._settle_failures()
        self._tell_progress()

    def _settle_failures(self) -> None:
        """Store the frames without an answer, because the service answers others, or because all frames were asked."""
        held, self._held = self._held, []
        if held and not self._breaker.any_success and not self._outcome.n_kept and held[-1][1].blame == "again":
            self._end(ModelFailed(f"{self._runner.name}: no request was answered; the last error: {held[-1][1]}"))
            return
        for batch, error in held:
            self._spent += (failed := Usage(failed=len(batch.rows)))
            self._store_failed(batch.rows, _reason(self._runner.name, error), batch.used + failed)

    def _store_failed(self, rows: list[int], reason: str, used: Usage) -> None:
        n = len(rows)
        self._store.append(np.array(rows), without_answer(self._runner, n, reason), used)
        self._stored += used
        self._outcome.n_new += n
        self._outcome.n_unreadable += n
        self._outcome.first_problem = self._outcome.first_problem or reason
        self._tick(n)

    # -- lines for the user --------------------------------------------------------------------------------------

    def announce(
        self,
        rows: NDArray[Any],
        progress: Progress,
        *,
        retry_errors: bool = False,
        least: NDArray[Any] | None = None,
    ) -> None:
        """Print how many requests these rows need, how much data that is, and what it costs.

        With `retry_errors`, frames that have failed are asked again. If sets stop early, `least` are the rows that are
        asked in any case.
        """
        missing, _ = self._missing(rows, retry_errors=retry_errors)
        if missing:
            sure = None if least is None else len(np.intersect1d(missing, least))
            progress.note(self._estimate(missing, sure))

    def _estimate(self, missing: list[int], at_least: int | None) -> str:
        limits, size = self._limits, self._runner.batch_size
        most = -(-len(missing) // size)
        least = most if at_least is None else min(most, -(-at_least // size))
        some = [missing[place] for place in np.linspace(0, len(missing) - 1, min(_SAMPLE, len(missing))).astype(int)]
        work, decoder = Work(self._runner, []), self._decoder()
        try:
            read = decoder.read(some, {row: [work] for row in some})
        finally:
            decoder.close()
        n_sent = getattr(self._model, "n_sent", _n_bytes)  # a model may send more than the prepared pixels
        megabytes = float(np.mean([n_sent(values[0][1]) for _, values in read])) * len(missing) / 1e6
        between = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        line = f"{printable(self._runner.name)}: {between} request(s) for {len(missing):,} frame(s)"
        line += f", at most {most * (1 + limits.retries):,} with retries" if limits.retries else ""
        line += f"; {'' if least == most else 'up to '}about {megabytes:,.1f} MB"
        if limits.price_request:
            costs = [f"{requests * limits.price_request:,.4g}" for requests in dict.fromkeys((least, most))]
            line += f"; cost {' to '.join(costs)} without retries" + (" and tokens" if _by_tokens(limits) else "")
        elif _by_tokens(limits):
            line += "; the cost is known after the first answers"
        return line

    def _tell_progress(self) -> None:
        """Print a line about the progress from time to time."""
        now = self._clock.now()
        if now < self._next_note:
            return
        self._gap_s = min(_NOTES_S[1], self._gap_s * 1.5)
        self._next_note = now + self._gap_s
        spent, done = self._spent, self._outcome.n_new
        rate = (spent.requests - self._spent_before.requests) / max(now - self._begin, 1e-9)
        left = self._n_missing - done
        failed = self._outcome.n_unreadable
        line = f"{rate:.1f} requests/s; {spent.retries:,} retries; {failed:,} frame(s) without an answer"
        cost = spent.cost
        if cost and done:
            line += f"; cost {cost:,.4g}, about {cost * left / done:,.4g} left"
        self._note(f"{printable(self._runner.name)}: {left:,} of {self._n_missing:,} frames left; {line}")

    def _ended(self) -> str | None:
        """Return why the model ended early, in one line."""
        if (error := self._ending) is None:
            return None
        if not isinstance(error, StrobeError):
            if not isinstance(error, Exception):
                raise error
            return f"{self._runner.name}: raised {type(error).__name__}: {printable(error, limit=200)}"
        left = self._n_missing - self._outcome.n_new
        again = f"{left:,} frame(s) are left; the same command goes on"
        if isinstance(error, BudgetUsedUp):
            again = f"{left:,} frame(s) are left; run the same command again, or with a larger budget"
        elif isinstance(error, RequestFailed) and not self._breaker.any_success and not self._outcome.n_kept:
            again = ""
        line = _reason(self._runner.name, error)
        return spelled(f"{self._runner.name}: {line}" + (f" ({again})" if again else ""))


def _reason(name: str, error: StrobeError) -> str:
    """Return the error without the model's name."""
    return printable(error).removeprefix(f"{printable(name)}: ")


def _by_tokens(limits: RequestLimits) -> bool:
    return bool(limits.price_input or limits.price_output)


def _n_bytes(value: Any) -> int:
    """Return the size of a prepared image, as far as it can be seen."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, bytes | bytearray | memoryview | str):
        return len(value)
    if isinstance(value, tuple | list):
        return sum(map(_n_bytes, value))
    return sum(map(_n_bytes, value.values())) if isinstance(value, dict) else 0
