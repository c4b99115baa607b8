"""What a person at a prompt sees of scores and comparisons."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

import strobe
from strobe.core.errors import StrobeError

matplotlib.use("agg")

DATA = strobe.example_dataset(n_videos=16, k=3)


def _score(name: str, shift: float) -> strobe.ClassifierScore:
    rng = np.random.default_rng(1)
    scores = rng.normal(0, 1, (len(DATA.frames), 2))
    scores[DATA.labels.frame, DATA.labels.label] += shift
    return strobe.score(DATA, scores, name=name)


OLD, NEW = _score("old", 1.0), _score("new", 3.0)


def test_repr_is_short_and_says_the_headline() -> None:
    text = repr(OLD)
    assert len(text) < 200
    assert text.startswith(f"<ClassifierScore old: acc_orig {OLD.acc_orig.text()}, acc_pmk {OLD.acc_pmk.text()}")
    assert "k = 3, 16 sets of example" in text
    assert repr(DATA) == "<Dataset example: 16 sets, 112 frames, 16 sources, 2 classes, k = 3>"
    answers = strobe.ClassAnswers.from_labels("m", np.zeros(3, dtype=int))
    assert repr(answers) == "<ClassAnswers m: labels, 3 of 3 frames answered>"
    assert repr(OLD.curve[1].acc).startswith(f"Estimate({OLD.curve[1].acc.value:.4g} [")


def test_html_is_escaped() -> None:
    spiteful = _score("<script>alert(1)</script>", 1.0)
    for shown in (spiteful, strobe.compare(spiteful, OLD)):
        assert "<script>" not in shown._repr_html_()
        assert "&lt;script&gt;" in shown._repr_html_()


def test_curve_has_named_fields() -> None:
    assert [point.k for point in OLD.curve] == [0, 1, 2, 3]
    assert OLD.curve[0].acc == OLD.acc_orig
    assert OLD.curve[-1].acc == OLD.acc_pmk
    assert OLD.curve[-1].drop == OLD.drop


def test_frames_hold_the_figures() -> None:
    head = OLD.to_frame().set_index("measure")
    assert head.loc["acc_pmk", "value"] == OLD.acc_pmk.value
    assert head.loc["drop", "low"] == OLD.drop.low
    both = pd.concat([OLD.to_frame("curve"), NEW.to_frame("curve")])
    assert both.groupby("model").size().to_dict() == {"new": 4, "old": 4}
    assert OLD.to_frame("class")["name"].tolist() == ["cat", "dog"]
    assert len(OLD.to_frame("offset")) == 7
    sets = OLD.to_frame("set")
    assert sets["holds"].mean() == OLD.acc_pmk.value
    assert sets["anchor_right"].mean() == OLD.acc_orig.value
    with pytest.raises(StrobeError, match="unknown part 'curv'; did you mean curve"):
        OLD.to_frame("curv")  # type: ignore[arg-type]


def test_pandas_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(StrobeError, match=r"to_frame\(\) needs the package pandas: pip install 'strobe-vision\[frames"):
        OLD.to_frame()


def test_plots_are_axes_with_the_figures_on_them() -> None:
    axes = OLD.plot()
    assert NEW.plot(ax=axes) is axes
    drawn = {line.get_label(): line.get_ydata().tolist() for line in axes.get_lines()}
    assert drawn["old"] == [point.acc.value for point in OLD.curve]
    assert drawn["new"] == [point.acc.value for point in NEW.curve]
    low, high = axes.get_ylim()
    assert low <= min(drawn["old"])  # the second line is not cut off by the limits of the first
    assert high >= max(drawn["new"])
    assert len({line.get_color() for line in axes.get_lines()}) == 2
    assert [text.get_text() for text in OLD.plot("class").get_yticklabels()] == ["cat", "dog"]
    assert len(OLD.plot("offset").get_lines()[0].get_xdata()) == 7
    with pytest.raises(StrobeError, match="unknown plot 'pie'; the plots are curve, offset, class"):
        OLD.plot("pie")  # type: ignore[arg-type]
    import matplotlib.pyplot as pyplot

    pyplot.close("all")


def test_a_single_point_is_drawn_with_its_interval() -> None:
    data = strobe.example_dataset(k=0)
    found = strobe.score(data, np.tile([1.0, 0.0], (len(data.frames), 1)), name="m")
    axes = found.plot()
    assert [list(line.get_ydata()) for line in axes.get_lines()][1] == [found.acc_orig.low, found.acc_orig.high]


def test_comparison_reads_as_sentences() -> None:
    found = strobe.compare(OLD, NEW)
    assert [one.metric for one in found] == ["acc_orig", "acc_pmk", "drop"]
    assert repr(found).count("\n") == 2
    assert "old is worse than new in accuracy on whole sets" in repr(found)
    (row,) = found.of("acc_pmk").to_frame().to_dict("records")
    assert row["difference"] == pytest.approx(OLD.acc_pmk.value - NEW.acc_pmk.value)
    assert next((one.a, one.b) for one in strobe.compare(OLD, OLD)) == ("old (1)", "old (2)")
    with pytest.raises(StrobeError, match="unknown measure 'map'"):
        found.of("map")
    with pytest.raises(StrobeError, match="at least two scores, or run folders"):
        strobe.compare(OLD)
    other = strobe.example_dataset(n_videos=5)
    with pytest.raises(StrobeError, match="were scored on different data"):
        strobe.compare(OLD, strobe.score(other, np.zeros((len(other.frames), 2)), name="x"))
