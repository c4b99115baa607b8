"""Figures say what the data says: sentences checked against the numbers, and every kind of finding drawn once."""

import re
from dataclasses import replace

import numpy as np
import pytest
from made_results import NONE, detected, figure, results_of, scored, share
from matplotlib.figure import Figure

from strobe.analyses.model_results import ClassAp, ClassScore
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.published import references_for
from strobe.core.answers import ClassAnswers
from strobe.core.tables import Hints
from strobe.core.tasks import Task
from strobe.report import figures_classes, figures_trend
from strobe.report.study import tables
from strobe.report.style import SERIES, draw
from strobe.report.view import MOST_SHOWN, View
from strobe.report.wording import points
from strobe.studies.review import figures as figures_review
from strobe.studies.review.score import ReviewStages, impact
from strobe.studies.temporal import figures as figures_accuracy
from strobe.studies.temporal import figures_slices
from strobe.studies.temporal.records import Control, OffsetError, TypeSlice


def test_the_curve_sentence_gives_both_ends(painted):
    found = figure(figures_accuracy.curve, painted[2])
    best = painted[2].models["steady-net"]
    for value in (best.acc_orig.value, best.acc_pmk.value):
        assert f"{100 * value:.1f}\N{NO-BREAK SPACE}%" in found.sentence
    assert found.sentence.startswith("steady-net")


def test_the_class_figure_names_the_class_that_loses_most(painted):
    figures = figures_classes.per_class.figures(View(results=painted[2]))
    assert [one.name for one in figures] == ["per_class_1", "per_class_2", "per_class_3"]
    assert [one.choice for one in figures] == ["steady-net", "jitter-net</script>", "quick-net"]
    for one in figures:
        rows = painted[2].models[one.choice].per_class
        most = max(row.acc_orig.value - row.acc_pmk.value for row in rows)
        assert any(row.acc_orig.value - row.acc_pmk.value == most for row in rows if row.name in one.sentence)


def test_a_class_too_small_to_rank_is_not_called_the_worst():
    def sentence(task, *rows):
        made = []
        for name, orig, pmk, n in rows:
            both = share(orig, n=n), share(pmk, n=n)
            keys = ("acc_orig", "acc_pmk") if task is Task.CLASSIFICATION else ("ap_orig", "ap_pmk")
            record = ClassScore if task is Task.CLASSIFICATION else ClassAp
            made.append(record(label=name, name=name, drop=NONE, small=n < 10, **dict(zip(keys, both, strict=True))))
        if task is Task.CLASSIFICATION:
            return figure(figures_classes.per_class, results_of({"m": scored(per_class=tuple(made))})).sentence
        return figure(figures_classes.detection_class, results_of({"m": detected(per_class=tuple(made))})).sentence

    few, many, steady = ("fox", 1.0, 0.0, 7), ("dog", 0.9, 0.4, 10), ("cat", 0.9, 0.9, 20)
    for task in Task:
        assert "loses most on dog among classes with ten sets or more" in sentence(task, few, many, steady)
        assert "% on fox, the only class" in sentence(task, few)
        assert sentence(task, few, ("owl", 1.0, 0.5, 2)).startswith(
            "Every class is too small to rank (n < 10). m loses most on fox: from"
        )
        assert "loses most on dog: from" in sentence(task, many, steady)
    assert sentence(Task.CLASSIFICATION, few, steady) == "m has no drop among classes with ten sets or more."


def test_classes_of_few_pictures_are_not_ranked_and_come_last():
    def found(*rows):
        made = [
            ClassScore(label=name, name=name, acc_orig=share(orig, n=n), acc_pmk=NONE, drop=NONE, small=n < 10)
            for name, orig, n in rows
        ]
        results = results_of({"m": scored(per_class=tuple(made))})
        return figures_classes.class_accuracy.answer(View(results=results))[0]

    few = [("owl", 1.0, 1), ("fox", 0.0, 1), ("eel", 0.5, 2)]
    said = found(*few).sentence
    assert (
        said
        == "Every class has fewer than ten images, too few to rank. m reaches 100 % on 1 of 3 classes and 0 % on 1."
    )
    assert found(*few[::2]).sentence.endswith("m reaches 100 % on 1 of 2 classes and 0 % on none.")
    mixed, canvas = found(*few, ("dog", 0.4, 10), ("cat", 0.9, 20)), Figure()
    assert "does best on cat" in mixed.sentence
    assert "worst on dog" in mixed.sentence
    mixed.paint(canvas, False)
    names = [label.get_text() for label in canvas.axes[0].get_yticklabels()]
    assert names == ["cat (20)", "dog (10)", "owl (1*)", "eel (2*)", "fox (1*)"]


def test_numbers_and_colours_people_read_are_left_as_they_are():
    def paint(canvas, is_narrow):
        axes = canvas.subplots()
        axes.plot([0.123456, 0.9], [0.1, 0.2])
        axes.set_yticks([0.1, 0.2], ["0.00886 to < 0.0131", "net-1.23456 #0b62b5 url(#a)"])

    drawing = draw("t", paint, wide=(4, 3), narrow=(3, 3))
    for svg in (drawing.svg, drawing.wide, drawing.narrow):
        assert "0.00886 to &lt; 0.0131" in svg
        assert "net-1.23456 #0b62b5 url(#a)" in svg
        places = re.findall(r'<path d="([^"]+)"', svg)
        assert places
        assert not any(re.search(r"\.\d{3}", place) for place in places)


def test_the_offset_sentence_counts_the_outermost_alike(painted):
    rows = {row.offset: row.error for row in painted[2].models["steady-net"].per_offset}
    text = figure(figures_slices.per_offset, painted[2]).sentence
    wrong, n = rows[-5].count + rows[5].count, rows[-5].n + rows[5].n
    assert f"{100 * wrong / n:.1f}\N{NO-BREAK SPACE}%" in text

    def offsets(*rows):
        errors = tuple(OffsetError(offset, share(wrong / n, n=n)) for offset, wrong, n in rows)
        return figure(figures_slices.per_offset, results_of({"m": scored(0.9, 0.5, per_offset=errors)}))

    short = offsets((-2, 1, 4), (0, 0, 4), (2, 0, 3))
    assert short.sentence.startswith("m is wrong on 14.3\N{NO-BREAK SPACE}% of the outermost frames")  # 1 of 7
    assert "n is 3 to 4." in short.how
    ahead = offsets((0, 0, 4), (2, 1, 4))  # an anchor is not the outermost of its set
    assert ahead.sentence.startswith("m is wrong on 25.0\N{NO-BREAK SPACE}%")
    assert "n is" not in ahead.how


def test_the_codec_sentence_tells_a_tie_and_one_set_has_no_interval():
    def codec(*rows, name="d"):
        control = Control(drop_mean=0.2, drop_low=0.1, drop_high=0.3, seeds=3)
        made = tuple(
            TypeSlice(without=kind, n_sets=n, acc_orig=NONE, acc_pmk=NONE, drop=share(drop, 0.0, 0.975, n=n),
                      members_dropped=1, control=None if kind == "none" else control)
            for kind, drop, n in rows
        )  # fmt: skip
        found = figure(figures_slices.frame_types, results_of({"m": scored(0.9, 0.5, frame_types=made)}, name=name))
        return found.sentence.replace("\N{NO-BREAK SPACE}", " "), found

    tie, drawn = codec(("none", 0.5, 4), ("P", 0.0, 4), ("B", 0.0, 1))
    assert tie == "For m, the drop is smallest without P frames and without B frames: 0.0 points."
    assert "A single set has no interval." in drawn.how
    more = codec(("none", 0.5, 4), ("P", 0.0, 4), ("B", 0.0, 4))[1]
    assert "A single set" not in more.how
    assert more.drawing.wide.count("<path") > drawn.drawing.wide.count("<path")  # its line is not drawn
    beside = codec(("none", 0.5, 4), ("P", 0.0, 4), name="imagenet-vid-robust")[1]
    assert "published: without B frames (n = 699)" in beside.drawing.wide
    assert "Hollow points: the papers' fine-tuned ResNet-152" in beside.how
    assert "published" not in more.drawing.wide
    assert codec(("none", 0.5, 4), ("P", 0.5, 4))[0] == "For m, the drop is the same in all cases: 50.0 points."
    assert codec(("none", 0.5, 4), ("P", 0.05, 4))[0].endswith(". Smaller sets do not explain the difference.")
    # a drop that shrank less than by chance is no finding
    assert codec(("none", 0.5, 4), ("P", 0.4, 4))[0].endswith(". Smaller sets explain the difference.")


def test_comparison_counts_the_pairs_that_differ(painted):
    rows = [row for row in painted[2].comparison if row.metric == "acc_pmk"]
    sure = sum(row.p_holm < 0.05 for row in rows)
    assert figure(figures_accuracy.comparison, painted[2]).sentence.startswith(f"{sure} of {len(rows)} pairs differ")


@pytest.fixture(scope="module")
def many(painted, make_results):
    """Ten standard models of growing strength: enough for a line, more than are drawn in colour."""
    dataset, _, _, _ = painted
    truth = np.zeros(len(dataset.frames), dtype=int)
    truth[dataset.labels.frame] = dataset.labels.label
    predictions = {}
    for place in range(10):
        rng = np.random.default_rng(place)
        scores = rng.normal(size=(len(truth), 4))
        scores[np.arange(len(truth)), truth] += 0.8 + 0.35 * place
        predictions[f"m{place}"] = ClassAnswers.from_scores(f"m{place}", scores, kind="logits")
    return make_results(dataset, predictions)


def test_with_many_models_a_line_is_drawn_and_its_slope_said(many):
    found = figure(figures_trend.trend, many)
    assert f"goes with {many.trend.linear.slope:.2f} points" in found.sentence
    assert "2 other models of this run" in found.drawing.svg
    assert (
        f"The figure shows the {MOST_SHOWN} most robust of 10 models" in figure(figures_accuracy.curve, many).sentence
    )
    assert len(figures_classes.per_class.figures(View(results=many))) == MOST_SHOWN
    rows = tables()["trend"](View(results=many))
    assert [row["model"] for row in rows] == [row.model for row in many.trend.models]
    assert all(row["linear"] is not None and row["in_fit"] for row in rows)


def test_the_line_passes_where_the_fit_says(many):
    fit = many.trend.linear
    for row in many.trend.models:
        line = figures_trend._fit_at(fit, row.acc_orig.value)
        assert line * 100 == pytest.approx(fit.intercept + fit.slope * 100 * row.acc_orig.value)


def test_hints_and_review_are_drawn_from_real_analyses(painted, make_results):
    dataset, predictions, _, _ = painted
    rng = np.random.default_rng(0)
    n = len(dataset.sets.set)
    columns = {name: rng.random(n) for name in ("cut", "blur", "motion", "exposure")}
    hinted = replace(dataset, hints=Hints(**columns, duplicate=np.zeros(n, dtype=bool)))
    name, one = "quick-net", predictions["quick-net"]
    results = make_results(hinted, {name: one})
    found = figure(figures_slices.by_hint, results)
    assert found.drawing is not None
    assert re.search(r"by (blur|motion|exposure|cut), but the intervals overlap. The error", found.sentence)
    model = results.models[name]
    first, *rest, last = model.by_hint["blur"]
    apart = (replace(first, error=share(0.01, 0.0, 0.02)), *rest, replace(last, error=share(0.99, 0.98, 1.0)))
    clear = replace(results, models={name: replace(model, by_hint={**model.by_hint, "blur": apart})})
    assert "blur matters most. The error ranges from 1.0" in figure(figures_slices.by_hint, clear).sentence
    assert len(tables()["by_hint"](View(results=results))) == 16

    anchors = dataset.keep_rows(dataset.sets.set < 20)
    members = anchors.keep_rows((np.abs(anchors.sets.distance) <= 3) | anchors.sets.is_anchor)
    stages = ReviewStages.of(dataset, anchors, members, options=ScoreOptions(replicates=100))
    changed = impact(stages, one, replicates=100)
    view = View(results=replace(results, models={name: replace(model, review_impact=changed)}))
    drawn = figure(figures_review.review_impact, view)
    for stage in (changed.a, changed.b, changed.c):
        assert f"{100 * stage.drop.value:.1f}\N{NO-BREAK SPACE}points" in drawn.sentence
    low, high = changed.drop_difference.low, changed.drop_difference.high
    assert f"(95 %: {points(low)} to {points(high)})" in drawn.sentence
    assert drawn.drawing is not None
    assert figure(figures_review.review_offsets, view).drawing is not None
    assert "papers" not in drawn.how
    release = replace(view.results.dataset, name="ytbb-robust")
    beside = figure(figures_review.review_impact, View(results=replace(view.results, dataset=release)))
    assert "Grey: the papers' fine-tuned ResNet-152" in beside.how
    assert "published: without review" in beside.drawing.wide
    assert [row["stage"] for row in tables()["review_impact"](view)] == ["A", "B", "C"]
    assert {row["offset"] for row in tables()["review_impact_offsets"](view)} == set(range(-5, 6))


def test_papers_points_are_never_of_another_dataset_without_saying_so():
    for name, n, same in (("imagenet-vid-robust", 1109, [False, True]), ("ytbb-robust", 2030, [True])):
        found = references_for(name, n)
        assert [one.same_data for one in found] == same
        assert all(one.table.dataset == name for one in found)
    (other,) = references_for("my videos", 50)
    assert "other data" in other.caption
    assert "imagenet-vid-robust" in other.caption
    # A subset of the same data is not the same data.
    assert not any(one.same_data for one in references_for("imagenet-vid-robust", 300))


def test_a_drawing_carries_theme_colours_in_the_page_and_plain_ones_in_the_file():
    def paint(canvas, is_narrow):
        axes = canvas.subplots()
        axes.plot([0, 1], [0, 1], color=SERIES[0], label="$x_1$ <&>")
        axes.legend()

    one = draw("sample", paint, wide=(4, 3), narrow=(3, 3))
    assert "var(--s1)" in one.wide
    assert SERIES[0] not in one.wide
    assert SERIES[0] in one.svg
    assert "var(" not in one.svg
    assert "$x_1$ &lt;&amp;&gt;" in one.wide  # a name, not a formula and not markup
    assert draw("sample", paint, wide=(4, 3), narrow=(3, 3)) == one
    assert set(re.findall(r'id="([^"]+)"', one.wide)).isdisjoint(re.findall(r'id="([^"]+)"', one.narrow))


def test_of_many_classes_those_that_lose_most_are_drawn():
    rows = tuple(
        ClassScore(label=f"c{i}", name=f"class {i}", acc_orig=share(0.9, n=20), acc_pmk=share(0.9 - i / 500, n=20),
                   drop=NONE, small=False)
        for i in range(250)
    )  # fmt: skip
    found = figure(figures_classes.per_class, results_of({"m": scored(per_class=rows)}))
    assert (
        f"The figure shows the {figures_classes.MOST_CLASSES} of 250 classes that lose most; all are in tables/."
        in found.sentence
    )
    assert "class 249" in found.drawing.wide
    assert "class 209 " not in found.drawing.wide
    tall = float(re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)"', found.drawing.wide)[1])
    assert tall < 1000


def test_a_model_alone_has_its_place_beside_the_papers_line_of_its_benchmark():
    model = scored(acc_orig=share(0.70, 0.67, 0.73), acc_pmk=share(0.60, 0.57, 0.63), drop=share(0.1, 0.08, 0.12))
    vid = figure(figures_trend.trend, results_of({"m": model}, name="imagenet-vid-robust", n_sets=1109, k=10))
    there = -22.29 + 1.079 * 70  # the line of their 35 standard models, rounded
    said = re.search(
        r"The published line of this benchmark \(2019, 35 standard models, n = 1,145\) predicts acc_pmk ([\d.]+)",
        vid.sentence,
    )
    assert float(said[1]) == pytest.approx(there, abs=0.06)
    assert f"m is {60 - float(said[1]):.1f}\N{NO-BREAK SPACE}points above it" in vid.sentence
    assert "The grey line is fitted to the published models" in vid.how
    for name, k in (("my clips", 10), ("imagenet-vid-robust", 5)):
        other = figure(figures_trend.trend, results_of({"m": model}, name=name, n_sets=1109, k=k))
        assert "published line" not in other.sentence + other.how, "theirs is of their data at k = 10"
    assert vid.drawing.wide.count('class="named"') == 58
    assert "<title>" in vid.drawing.svg, "a figure that stands alone names its points too"
