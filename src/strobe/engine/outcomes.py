"""The outcome of one model of a command, as the terminal and run.json show it."""

from dataclasses import dataclass
from typing import Any

from strobe.analyses.early import StoppedEarly
from strobe.core.codec import encode
from strobe.core.records import ModelSpec
from strobe.engine.engine import ModelOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOutcome:
    """The outcome of one model. `spec` is None if the model could not be loaded, and `ok` is False if it failed."""

    name: str
    ok: bool
    error: str | None = None
    spec: ModelSpec | None = None
    outcome: ModelOutcome | None = None
    stopped: StoppedEarly | None = None

    def summary(self) -> str:
        """Describe the outcome in one line."""
        if self.outcome is None:
            return self.error or "predictions are stored in the run folder"
        done = self.outcome
        rate = f", {done.n_new / done.wall_s:.1f} frames/s" if done.wall_s else ""
        bad = f", {done.n_unreadable} without an answer" if done.n_unreadable else ""
        if done.spent is not None:
            rate += f"; {done.spent.text()}"
        early = f"; stopped early: {self.stopped.text()}" if self.stopped else ""
        text = f"{done.n_new} new, {done.n_kept} cached{bad}{rate}{early}"
        if (more := done.again) is not None:
            text += f"; asked {more.times} times: {more.n_new} more answers new, {more.n_kept} cached"
        return f"FAILED after {text}: {self.error}" if self.error else text

    def to_json(self) -> dict[str, Any]:
        """Return the facts that run.json stores."""
        facts: dict[str, Any] = {"status": "done" if self.ok else "failed", "error": self.error}
        if self.spec is not None:
            facts |= {"weights": self.spec.weights, "preprocessing": dict(self.spec.preprocessing)}
            facts["batch_size"] = self.spec.batch_size
        if self.outcome is not None:
            facts["frames"] = {
                "new": self.outcome.n_new,
                "kept": self.outcome.n_kept,
                "unreadable": self.outcome.n_unreadable,
            }
            if (more := self.outcome.again) is not None:
                facts["repeated"] = {"times": more.times, "new": more.n_new, "kept": more.n_kept}
            if self.outcome.spent is not None:
                facts["spent"] = encode(self.outcome.spent + self.outcome.spent_before)
            facts["seconds"] = {"forward": round(self.outcome.forward_s, 3), "wall": round(self.outcome.wall_s, 3)}
        if self.stopped is not None:
            facts["stopped_early"] = encode(self.stopped)
        return facts
