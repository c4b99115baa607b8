"""What scoring derives from a model's scores without computing every probability: confidence, lead and ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.answers import ClassAnswers, State
from strobe.core.labels import confidence_of, log_sum_and_lead

SCORES = st.sampled_from([-np.inf, -800.0, -1.0, 0.0, 0.25, 0.25 + 1e-12, 1.0, 40.0, 800.0])


@st.composite
def scored(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores (N, C) with at least one finite number in a row, and any class of each row."""
    n, width = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    scores = np.array(draw(st.lists(SCORES, min_size=n * width, max_size=n * width))).reshape(n, width)
    scores[np.isneginf(scores).all(axis=1), 0] = 0.5
    label = np.array(draw(st.lists(st.integers(0, width - 1), min_size=n, max_size=n)))
    return scores, np.where(draw(st.booleans()), scores.argmax(axis=1), label)


@given(scored(), st.sampled_from(["logits", "probabilities"]))
def test_the_sum_gives_the_same_probabilities_to_the_bit(case: tuple[np.ndarray, np.ndarray], kind: str) -> None:
    scores, label = case
    if kind == "probabilities":
        scores = np.exp(np.maximum(scores, -700.0) - 800.0 * (scores > 700))
    log_sum, lead = log_sum_and_lead(scores, label, kind=kind)
    every = confidence_of(scores, kind=kind)
    assert confidence_of(scores, kind=kind, log_sum=log_sum).tobytes() == every.tobytes()
    assert np.exp(0.0 - log_sum).tobytes() == every.max(axis=1).tobytes()
    rows = np.arange(len(scores))
    others = every.copy()
    others[rows, label] = 0.0
    assert lead == pytest.approx(every[rows, label] - others.max(axis=1), abs=1e-15)


@given(scored(), st.booleans(), st.integers(0, 31))
def test_confidence_lead_and_ties_equal_the_plain_way(
    case: tuple[np.ndarray, np.ndarray], shares: bool, odd: int
) -> None:
    scores, label = case
    state = np.array([odd >> row & 1 for row in range(len(scores))], dtype=np.uint8)  # answered, or outside
    label = np.where(state == State.OUTSIDE, -1, label)
    plain = ClassAnswers(model="m", kind="logits", label=label, state=state, scores=scores)
    every = plain.shares_of(np.arange(len(scores)))
    answers = plain
    if shares:
        answers = ClassAnswers(
            model="m", kind="probabilities", label=label, state=state, scores=every.copy(), shares=True
        )
    assert answers.confidence.tobytes() == every.max(axis=1).tobytes()
    assert answers.confidence_at(np.array([[0, 0]])).tolist() == [[answers.confidence[0]] * 2]
    assert answers.shares_of(np.arange(len(scores))).tobytes() == every.tobytes(), "also after the confidence is known"
    tied = blank = 0
    for row in np.flatnonzero(state == State.ANSWERED).tolist():
        own, others = every[row, label[row]], np.delete(every[row], label[row])
        lead = float(own - others.max(initial=0.0))
        assert lead - 2e-3 * abs(lead) - 1e-6 <= answers.lead[row] <= lead
        values = answers.scores[row]
        same = int((values == values[label[row]]).sum())
        tied += same > 1
        blank += same > 1 and same == int(np.isfinite(values).sum())
    assert answers.ties(np.flatnonzero(state == State.ANSWERED)) == (tied, blank)
