"""What tests of several verbs share."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest


class Elsewhere:
    """An Executor to which everything is sent, as to another process: function, items and results; the last first."""

    def map(self, function: Callable[[Any], Any], shards: Iterable[Any]) -> Iterator[Any]:
        there = pickle.loads(pickle.dumps(function))
        done = [pickle.dumps(there(pickle.loads(pickle.dumps(shard)))) for shard in shards]
        yield from map(pickle.loads, reversed(done))


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()
