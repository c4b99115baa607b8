"""The chart kit draws records where their numbers are: checked on the artists, wide and narrow."""

from itertools import pairwise

import pytest
from made_results import NONE, share
from matplotlib.figure import Figure

from strobe.report.charts import (
    Bar,
    ChartRow,
    LegendKey,
    Mark,
    Scale,
    Span,
    dumbbell,
    dumbbell_keys,
    model_keys,
    put_mark,
    row_chart,
    side_by_side,
    strip,
    sure_mark,
)
from strobe.report.charts_lines import (
    MOST_BANDS,
    Panel,
    line_chart,
    line_through,
    lines_of,
    panel_rows,
    put_lines,
    small_multiples,
)
from strobe.report.style import GREY, PAPER, RIGHT, SERIES, WRONG

SHARES = Scale(label="accuracy", narrow="acc.")


def drawn(paint, *, is_narrow=False):
    figure = Figure(figsize=(3.9 if is_narrow else 7.4, 4))
    paint(figure, is_narrow)
    return figure


def points(axes):
    """(x, y, colour, marker) of everything with a marker."""
    return [
        (x, y, line.get_color(), line.get_marker())
        for line in axes.lines
        if line.get_marker() not in ("None", "", None)
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]


def spans(axes):
    """The ends and the height of every horizontal line without a marker that is drawn in data coordinates."""
    return [
        (tuple(line.get_xdata()), line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() in ("None", "", None) and line.get_transform() == axes.transData
    ]


def test_a_point_is_at_its_value_and_its_line_at_its_interval():
    rows = [
        ChartRow(label="first", marks=(Mark(value=share(0.4, 0.3, 0.6), colour=WRONG, marker="D"),)),
        ChartRow(label="second", marks=(Mark(value=0.7), Mark(value=NONE), Mark(value=None))),
    ]
    (axes,) = drawn(row_chart(rows, SHARES)).axes
    assert points(axes) == [(0.4, 0, WRONG, "D"), (0.7, 1, RIGHT, "o")]
    assert spans(axes) == [((0.3, 0.6), 0)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first", "second"]
    assert axes.get_ylim() == (1.5, -0.5), "the first row is at the top"


def test_an_upright_point_swaps_the_axes():
    axes = Figure().subplots()
    put_mark(axes, 3, Mark(value=share(0.4, 0.3, 0.6)), is_upright=True)
    interval, point = axes.lines
    assert (list(interval.get_xdata()), list(interval.get_ydata())) == ([3, 3], [0.3, 0.6])
    assert (list(point.get_xdata()), list(point.get_ydata())) == ([3], [0.4])


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_points_side_by_side_stay_in_their_row_and_a_missing_one_keeps_its_place(n):
    marks = side_by_side([Mark(value=None)] + [Mark(value=0.5)] * (n - 1))
    places = [mark.at for mark in marks]
    assert all(abs(at) < 0.5 for at in places)
    assert sum(places) == pytest.approx(0, abs=1e-12)
    assert all(a < b for a, b in pairwise(places))


def test_hollow_grey_and_paired_points_look_as_they_are_described():
    axes = Figure().subplots()
    put_mark(axes, 0, Mark(value=0.5, hollow=True))
    assert axes.lines[0].get_markerfacecolor() == PAPER
    assert axes.lines[0].get_markeredgecolor() == RIGHT
    assert [(mark.colour, mark.marker) for mark in (sure_mark(NONE, True), sure_mark(NONE, False))] == [
        (RIGHT, "o"),
        (GREY, "d"),
    ]
    figure = drawn(row_chart([dumbbell("a", 0.9, 0.2)], SHARES, keys=dumbbell_keys("before", "after")))
    (axes,) = figure.axes
    assert points(axes) == [(0.9, 0, RIGHT, "o"), (0.2, 0, WRONG, "D")]
    assert spans(axes) == [((0.2, 0.9), 0)]
    handles = {one.get_label(): (one.get_color(), one.get_marker()) for one in figure.legends[0].legend_handles}
    assert handles == {"before": (RIGHT, "o"), "after": (WRONG, "D")}, "the legend has the marks of the rows"


def test_bars_share_a_row_without_overlap():
    bars = (
        Bar(value=share(0.4, 0.3, 0.6), colour=RIGHT),
        Bar(value=None, colour=GREY),
        Bar(value=3, colour=WRONG, note="3"),
    )
    (axes,) = drawn(row_chart([ChartRow(label="a", bars=bars)], Scale(unit=""))).axes
    first, last = axes.patches
    assert (first.get_width(), last.get_width()) == (0.4, 3)
    assert -0.5 < first.get_y() < first.get_y() + first.get_height() < last.get_y()
    assert last.get_y() + last.get_height() < 0.5
    (((low, high), y),) = spans(axes)
    assert (low, high) == (0.3, 0.6)
    assert y == pytest.approx(first.get_y() + first.get_height() / 2)
    assert [(text.get_text(), text.xy[0]) for text in axes.texts] == [("3", 3)]


def test_a_strip_adds_up_to_the_whole():
    parts = [
        Bar(value=3, colour=RIGHT, note="held"),
        Bar(value=0, colour=GREY, note="none"),
        Bar(value=1200, colour=WRONG, note="lost"),
    ]
    figure = drawn(strip(parts, "sets"))
    (axes,) = figure.axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0, 3), (3, 0), (3, 1200)]
    assert axes.get_xlim() == (0, 1203)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["held: 3", "none: 0", "lost: 1,200"]


def test_a_phone_has_its_own_labels_and_cuts_long_names():
    rows = [ChartRow(label="a very long name of a model", narrow=("short", "and its set")), ChartRow(label="x" * 40)]
    paint = row_chart(rows, SHARES, limits=(30, 12))
    for is_narrow, first, length, label in ((False, "a very long name of a model", 30, "accuracy"),
                                            (True, "short\nand its set", 12, "acc.")):  # fmt: skip
        (axes,) = drawn(paint, is_narrow=is_narrow).axes
        names = [one.get_text() for one in axes.get_yticklabels()]
        assert names[0] == first
        assert len(names[1]) == length
        assert axes.get_xlabel() == label


def test_names_with_control_characters_stay_on_one_line():
    (axes,) = drawn(row_chart([ChartRow(label="a\nb\x1b")], SHARES)).axes
    assert axes.get_yticklabels()[0].get_text() == "a b"


def test_the_scale_has_no_room_for_impossible_shares_and_differences_have():
    rows = [ChartRow(label="a", marks=(Mark(value=0.0),)), ChartRow(label="b", marks=(Mark(value=1.0),))]
    (axes,) = drawn(row_chart(rows, SHARES)).axes
    assert axes.get_xlim() == (-0.02, 1.02)
    (axes,) = drawn(row_chart(rows, Scale(unit="points", zero=0))).axes
    assert axes.get_xlim()[1] > 1.02
    assert list(axes.lines[0].get_xdata()) == [0, 0]
    (axes,) = drawn(row_chart(rows, Scale(low=0, guides=((0.3, GREY),)), rules=(0.5,))).axes
    assert axes.get_xlim()[0] == 0
    assert list(axes.lines[0].get_xdata()) == [0.3, 0.3]
    assert list(axes.lines[-1].get_ydata()) == [0.5, 0.5]


def test_a_span_without_ends_is_not_drawn_and_a_legend_of_one_model_neither():
    row = ChartRow(label="a", marks=(Mark(value=0.5),), span=Span(low=None, high=None))
    figure = drawn(row_chart([row], SHARES, keys=model_keys(["only"])))
    assert spans(figure.axes[0]) == []
    assert figure.legends == []
    assert model_keys(["a", "b"]) == [
        LegendKey(name="a", colour=SERIES[0], marker="o"),
        LegendKey(name="b", colour=SERIES[1], marker="s"),
    ]


# -- lines --------------------------------------------------------------------------------------------------------


def test_a_line_passes_through_the_known_points_and_its_band_through_their_intervals():
    points = [(0, share(0.9, 0.8, 1.0)), (1, NONE), (2, None), (3, share(0.5, 0.4, 0.7))]
    axes = Figure().subplots()
    put_lines(axes, [line_through("net", 1, points)])
    (band,) = axes.collections
    corners = {(float(x), float(y)) for x, y in band.get_paths()[0].vertices}
    assert {(0.0, 0.8), (0.0, 1.0), (3.0, 0.4), (3.0, 0.7)} <= corners
    line = axes.lines[-1]
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0, 3], [0.9, 0.5])
    assert (line.get_color(), line.get_marker(), line.get_label()) == (SERIES[1], "s", "net")


def test_many_lines_and_dashed_lines_have_no_band():
    points = [(0, share(0.9, 0.8, 1.0)), (3, share(0.5, 0.4, 0.7))]
    for n in (MOST_BANDS, MOST_BANDS + 1):
        axes = Figure().subplots()
        put_lines(axes, lines_of({str(i): points for i in range(n)}, lambda one: one))
        assert len(axes.collections) == (n if n == MOST_BANDS else 0)
    axes = Figure().subplots()
    put_lines(axes, [line_through("a", 0, points, dashed="D")])
    assert (len(axes.collections), axes.lines[0].get_marker()) == (0, "D")
    assert axes.lines[0].get_linestyle() == "--"


def test_names_are_at_the_ends_of_lines_and_below_on_a_phone():
    models = {"one": [(0, share(0.5)), (1, share(0.52))], "two": [(0, share(0.6)), (1, share(0.53))]}
    paint = line_chart(lines_of(models, lambda points: points), "k", "acc_pmk")
    wide, narrow = drawn(paint), drawn(paint, is_narrow=True)
    ends = {text.get_text(): text.xy[1] for text in wide.axes[0].texts}
    assert set(ends) == {"one", "two"}
    low, high = wide.axes[0].get_ylim()
    assert ends["two"] - ends["one"] > 0.05 * (high - low), "the names do not overlap"
    assert wide.legends == []
    assert not list(narrow.axes[0].texts)
    assert [text.get_text() for text in narrow.legends[0].get_texts()] == ["one", "two"]


def test_small_multiples_fill_a_grid_and_name_every_line_once():
    def panel(*names):
        lines = [line_through(name, place, [(0, share(0.5)), (1, share(0.4))]) for place, name in enumerate(names)]
        return Panel(title=names[0], paint=lambda axes: put_lines(axes, lines, is_small=True), xlabel="x")

    paint = small_multiples([panel("a"), panel("b", "c"), panel("a", "c")], (2, 1), ylabel="y")
    for is_narrow, rows in zip((False, True), panel_rows(3, (2, 1)), strict=True):
        figure = drawn(paint, is_narrow=is_narrow)
        seen = [axes for axes in figure.axes if axes.get_visible()]
        assert [axes.get_title(loc="left") or axes.get_title() for axes in seen] == ["a", "b", "a"]
        assert figure.axes[0].get_gridspec().nrows == rows
        assert sorted(text.get_text() for text in figure.legends[0].get_texts()) == ["a", "b", "c"]
        assert [axes.get_xlabel() for axes in seen] == (["x"] * 3 if is_narrow else ["", "x", "x"])
