"""The intervals hold the truth at least 95 % of the time: the simulation of benchmarks/coverage.py."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from strobe.metrics.intervals import proportion


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("strobe_benchmark_coverage", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path.parent))  # its neighbours
        spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("sets", [1, 3, 10])
def test_intervals_cover_at_least_95_percent(simulation: ModuleType, sets: int) -> None:
    rng = np.random.default_rng(sets)
    draws = 2000
    for videos, truth in simulation.ASKED:
        if videos > 100:
            continue  # the benchmark has time for them
        right = simulation.outcomes(rng, truth=truth, videos=videos, sets=sets, draws=draws)
        cluster = np.repeat(np.arange(videos), sets)
        ours = simulation.covered(right, cluster, truth, "auto")
        assert ours >= 0.95 - 1.5 * simulation.tolerance(draws), (videos, truth, ours)


def test_plain_clopper_pearson_would_not_do(simulation: ModuleType) -> None:
    """The simulation can tell: ignoring that sets share videos covers far too little."""
    rng = np.random.default_rng(0)
    right = simulation.outcomes(rng, truth=0.7, videos=30, sets=10, draws=500)
    assert simulation.covered(right, np.repeat(np.arange(30), 10), 0.7, "clopper-pearson") < 0.8


def test_the_alternatives_are_held_against_the_interval_in_use(simulation: ModuleType) -> None:
    rng = np.random.default_rng(0)
    right = rng.random((20, 12, 4)) < rng.random((20, 12, 1))
    sample = simulation.coverage_alternatives.Sample(right.sum(axis=2).astype(np.float64), 4)
    low, high = sample.bounds()
    for place in range(20):
        found = proportion(right[place].ravel(), np.repeat(np.arange(12), 4))
        assert (low[place], high[place]) == pytest.approx((found.low, found.high))
    wider = sample.half_video(1.0)
    assert (wider[0] <= low + 1e-12).all()
    assert (wider[1] >= high - 1e-12).all()


@pytest.mark.parametrize("sizes", ["equal", "lognormal", "fifth", "half", "dominant"])
def test_the_unequal_cells_use_the_intervals_of_the_score(simulation: ModuleType, sizes: str) -> None:
    unequal = simulation.coverage_unequal
    rng = np.random.default_rng(0)
    many = unequal.sizes_of(sizes, 20, 5, rng)
    right = rng.binomial(many, 0.8).astype(float)
    low, high = unequal.bounds(right, many)
    for place in range(5):
        marks = np.concatenate([np.arange(m) < r for m, r in zip(many[place], right[place], strict=True)])
        found = proportion(marks, np.repeat(np.arange(20), many[place]))
        assert (low[place], high[place]) == pytest.approx((found.low, found.high), abs=1e-9)


@pytest.mark.parametrize("cell", [("lognormal", 100, 0.9, 0.5), ("fifth", 75, 0.9, 0.5), ("half", 100, 0.6, 0.1)])
def test_videos_of_unequal_size_are_covered_where_g_less_one_is_not(
    simulation: ModuleType, cell: tuple[str, int, float, float]
) -> None:
    found = simulation.coverage_unequal.row(simulation.coverage_unequal.UnequalCell(*cell), draws=2000, seed=0)
    assert found.published < 0.91
    assert found.ours >= 0.92
    assert found.mean >= 0.92


def test_long_videos_that_are_harder_are_covered(simulation: ModuleType) -> None:
    for videos, truth, correlation in ((100, 0.6, 0.5), (100, 0.9, 0.5), (75, 0.6, 0.1)):
        cell = simulation.coverage_unequal.UnequalCell("lognormal", videos, truth, correlation, harder=True)
        row = simulation.coverage_unequal.row(cell, draws=4000, seed=0)
        assert row.ours >= 0.91
        assert row.mean >= 0.91
