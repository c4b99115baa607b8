import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.metrics.fits import expit, fit_line, leave_one_out, logit_of_counts

points = st.lists(st.tuples(st.integers(0, 50), st.integers(-50, 50)), min_size=2, max_size=12)


@given(points)
def test_line_equals_polyfit(rows: list[tuple[int, int]]) -> None:
    x, y = np.array([float(a) for a, _ in rows]), np.array([float(b) for _, b in rows])
    line = fit_line(x, y)
    if len(set(x)) < 2:
        assert line is None
        return
    slope, intercept = np.polyfit(x, y, 1)
    assert line is not None
    assert line.slope == pytest.approx(slope, abs=1e-7)
    assert (line.x_min, line.x_max) == (min(x), max(x))
    assert line.intercept == pytest.approx(intercept, abs=1e-6)
    assert float((y - line.at(x)).sum()) == pytest.approx(0, abs=1e-7)  # residuals of the fitted models sum to 0
    if len(set(y)) > 1:
        assert line.r == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)


@given(points, st.data())
def test_leave_one_out_refits_without_the_target(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    x, y = np.array([float(a) for a, _ in rows]), np.array([float(b) for _, b in rows])
    used = np.array(data.draw(st.lists(st.booleans(), min_size=len(x), max_size=len(x))))
    if not used.any():
        used[0] = True
    out = np.eye(len(x), dtype=bool)
    found = leave_one_out(np.stack([x, 2 * x]), np.stack([y, y]), used=used, out=out)
    for m in range(len(x)):
        rest = used & ~out[m]
        line = fit_line(x[rest], y[rest]) if rest.any() else None
        if line is None:
            assert np.isnan(found[:, m]).all()
        else:  # scaling x changes the line and not its value at the scaled point
            assert found[:, m] == pytest.approx(float(line.at(x[m])), abs=1e-6)


def test_logit_is_finite_at_the_ends_and_inverts() -> None:
    logits = logit_of_counts(np.array([0, 5, 10]), 10)
    assert np.isfinite(logits).all()
    assert expit(logits) == pytest.approx([0.5 / 11, 0.5, 10.5 / 11])
