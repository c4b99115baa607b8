"""A figure that contradicts itself is refused, wherever it comes from; no method of ours makes such a figure."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidValue
from strobe.core.estimate import Estimate
from strobe.metrics.agreement import krippendorff_alpha
from strobe.metrics.bootstrap import Bootstrap
from strobe.metrics.contrasts import paired_ratio
from strobe.metrics.intervals import Grouping, clopper_pearson

GOLDEN = Path(__file__).parents[1] / "golden"
GOOD = encode(clopper_pearson(19, 40))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"value": 0.875}, "Estimate.value: expected 19/40, which is its count/n, got 0.875"),
        ({"value": None}, "Estimate.value: expected 19/40"),
        ({"count": 35}, "Estimate.value: expected 35/40"),
        ({"n": 41}, "Estimate.value: expected 19/41"),
        ({"count": None, "value": 0.875}, "Estimate: expected low <= value <= high"),
        ({"count": None, "value": None, "low": 0.7}, "Estimate: expected low <= value <= high"),
        ({"count": None, "high": 0.4}, "Estimate: expected low <= value <= high"),
    ],
)
def test_an_estimate_that_contradicts_itself_is_refused(change: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidValue, match=re.escape(problem)):
        decode(Estimate, GOOD | change)


def test_no_method_excludes_its_own_value() -> None:
    """Percentiles of draws can lie on one side of the value they are drawn around; the interval then reaches it."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 25))
        cluster = rng.integers(0, max(2, n // 2), n)
        draws = Bootstrap(cluster, replicates=100, seed=seed)
        right = rng.random(n) < 0.9
        Grouping(np.zeros(n, dtype=np.int64), cluster, n_groups=1).estimates(right)
        draws.mean(right.astype(float))
        least = rng.lognormal(size=n)
        paired_ratio(least, np.where(rng.random(n) < 0.2, least * 1.1, least), draws)
        krippendorff_alpha(rng.multinomial(3, [0.8, 0.15, 0.05], size=n), cluster=cluster, seed=seed, draws=40)


def test_every_estimate_of_the_golden_runs_obeys() -> None:
    n = 0
    for path in sorted(GOLDEN.glob("runs/*/results.json")):
        for one in _estimates(json.loads(path.read_text(encoding="utf-8"))):
            decode(Estimate, one)
            n += 1
    assert n > 1000


def _estimates(value: object) -> list[dict[str, object]]:
    if isinstance(value, dict):
        own = [value] if {"value", "low", "high", "n", "method"} <= value.keys() else []
        return own + [one for part in value.values() for one in _estimates(part)]
    return [one for part in value for one in _estimates(part)] if isinstance(value, list) else []
