"""--repeat: ask models several times about the same frames. The further answers are stored next to the first."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from strobe.core.remote import Usage
from strobe.engine.engine import ModelOutcome
from strobe.engine.forward import Runner
from strobe.engine.views import write_outside
from strobe.store.shards import ModelShards

AskAll = Callable[..., Mapping[str, ModelOutcome]]
"""A function (runners, stores, *, number) that asks models about all frames once and stores their answers in `stores`.

`number` is 1 for the first answers, 2 for the second, and so on. It returns the statistics of each model.
"""


def ask_again(
    over: AskAll,
    outcomes: Mapping[str, ModelOutcome],
    runners: Sequence[Runner],
    stores: Mapping[str, ModelShards],
    times: Mapping[str, int],
    outside: NDArray[np.int64] | None = None,
) -> None:
    """Ask each model until every frame has as many answers as `times` has for it, and add to the first `outcomes`.

    `stores` are for the first answers. Each further answer has a store of its own, so an interrupted command resumes. A
    model that failed is not asked again. `outside` has the frames that no model sees: they get the same answer again.
    """
    for number in range(2, max(times.values(), default=1) + 1):
        still = [runner for runner in runners if times[runner.name] >= number and outcomes[runner.name].error is None]
        if not still:
            break
        again = {one.name: stores[one.name].again(number) for one in still}
        if outside is not None:
            for one in still:
                write_outside(again[one.name], outside, model=one.name, n_classes=len(one.projection.target))
        for name, done in over(still, again, number=number).items():
            _add(outcomes[name], done, times=times[name])


def _add(outcome: ModelOutcome, done: ModelOutcome, *, times: int) -> None:
    """Add the statistics of one more answer to each frame. If the model fails now, its outcome is a failure."""
    more = outcome.again = outcome.again or ModelOutcome(times=times)
    more.n_new += done.n_new
    more.n_kept += done.n_kept
    more.n_unreadable += done.n_unreadable
    more.forward_s += done.forward_s
    more.wall_s += done.wall_s
    more.first_problem = more.first_problem or done.first_problem
    if done.spent is not None:
        outcome.spent = (outcome.spent or Usage()) + done.spent
        outcome.spent_before += done.spent_before
    outcome.error = done.error
