"""What the page says in words is so: of every kind of data, with few and many models, with models that fail."""

import html
import io
import json
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from made_results import NONE, curve, figure, results_of, scored, share, survival, view_of

import strobe
from strobe.analyses.comparison import Comparison
from strobe.analyses.gallery import Classified, choose
from strobe.analyses.results import Results
from strobe.core.answers import ClassAnswers
from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.codec import decode
from strobe.core.estimate import Missing
from strobe.core.tables import texts
from strobe.core.tasks import Task
from strobe.report import figures_trend
from strobe.report.headline import headline, print_headline
from strobe.report.page import PageOptions, write_report
from strobe.report.story import compared, comparisons, lead
from strobe.report.view import MOST_SHOWN, sources
from strobe.studies.temporal import figures as figures_accuracy
from strobe.studies.temporal import figures_slices
from strobe.studies.temporal.figures_slices import bin_names, measure_of
from strobe.studies.temporal.records import CurvePoint, HintBin, OffsetError, RateSlice, TimeCurve, TimePoint, TypeSlice


def words_of(path):
    """What a reader sees: no scripts, styles or drawings."""
    text = re.sub(r"<(script|style|svg)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())


def gallery_of(path):
    return json.loads(re.search(r'id="gallery-data">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)[1])


@pytest.fixture(scope="module")
def truth(painted):
    labels = np.zeros(len(painted[0].frames), dtype=int)
    labels[painted[0].labels.frame] = painted[0].labels.label
    return labels


def lean(dataset, names, results):
    """Enough of the results for the gallery and the words around it."""
    models = {name: scored(None, 1 - place / 100) for place, name in enumerate(names)}
    return replace(results, models=models, comparison=(), trend=Missing("lean"))


# -- the first sentence -------------------------------------------------------------------------------------------


def test_the_first_sentence_counts_anchors_and_not_frames():
    model = scored(acc_orig=share(0.774, 0.7, 0.85), acc_pmk=share(0.604, 0.5, 0.7), drop=share(0.17))
    head, below = lead(view_of({"m": model}, reviewed="none"))
    assert head.replace("\N{NO-BREAK SPACE}", " ") == (
        "m gets 77.4 % [70.0, 85.0] of the anchors right. In 60.4 % [50.0, 70.0] of the 10 sets from 4 videos, it is "
        "also right on all frames around the anchor."
    )
    assert "17.0 points [no interval]" in below.replace("\N{NO-BREAK SPACE}", " ")


def test_who_says_that_frames_look_the_same():
    for reviewed, said in (("none", False), ("release", True), ("votes", True)):
        head, _ = lead(view_of({"m": scored(0.8, 0.6)}, reviewed=reviewed))
        assert ("which look the same" in head) == said


def test_a_model_that_is_never_right_is_not_praised():
    head, lede = lead(view_of({"m": scored(0.0, 0.0)}))
    assert head == "m is wrong on every anchor."
    assert "labels and preprocessing" in lede
    both = view_of({"good": scored(0.5, 0.5), "bad": scored(0.0, 0.0)})
    assert lead(both)[0].startswith("good does not flicker on this data")
    assert any(note.startswith("bad is wrong on every anchor.") for note in headline(both, Task.CLASSIFICATION).notes)
    assert lead(view_of({"a": scored(0.0, 0.0), "b": scored(0.0, 0.0)}))[0] == "All 2 models are wrong on every anchor."


def test_nothing_runs_from_a_number_to_the_same_number():
    _, lede = lead(view_of({"a": scored(0.25, 0.25), "b": scored(0.1, 0.1)}))
    assert "from" not in lede
    assert "No set breaks for any model within ±2 frames." in lede
    points = tuple(TimePoint(ms, share(0.5)) for ms in (0, 33))
    flat = scored(0.5, 0.5, curve=curve(0.5, 0.5, 0.5), time_curve=TimeCurve(t_max_ms=33, n_sets=8, points=points))
    for question in (figures_accuracy.curve, figures_accuracy.time_curve):
        assert "stays at 50.0\N{NO-BREAK SPACE}%" in figure(question, results_of({"m": flat})).sentence


def test_the_time_axis_names_no_rate_that_is_not_in_the_data():
    points = tuple(TimePoint(ms, share(0.5)) for ms in (0, 33))
    model = scored(0.5, 0.5, time_curve=TimeCurve(t_max_ms=33, n_sets=8, points=points))
    found = figure(figures_accuracy.time_curve, results_of({"m": model}))
    assert not re.search(r"\bfps\b|\b(9|59)\b", found.how + found.sentence)


def test_an_axis_that_is_no_time_has_no_frames():
    offsets = tuple(OffsetError(k, share(k / 10)) for k in range(3))
    model = scored(0.5, 0.3, curve=curve(0.5, 0.4, 0.3), per_offset=offsets)
    found = view_of({"m": model}, axis="severity", reviewed="none")
    table = headline(found, Task.CLASSIFICATION)
    said = [*lead(found), table.caption, *(column.meaning for column in table.columns[:3])]
    figures = [figure(question, found) for question in (figures_accuracy.curve, figures_slices.per_offset)]
    said += [one.sentence + one.how + one.drawing.svg for one in figures]
    for text in said:
        assert "frame" not in text.replace("Mean frame", "")
    assert "up to severity 2" in lead(found)[1]


def test_photos_are_not_called_videos(painted, tmp_path):
    assert sources(3, {"photo": 3}) == "3 photos"
    dataset, predictions, results, _ = painted
    names = [f"{name}.JPG" if place else name for place, name in enumerate(dataset.videos.name)]
    photos = replace(dataset, videos=replace(dataset.videos, name=texts(names)))
    path = write_report(tmp_path, lean(photos, predictions, results), photos, predictions, None)
    assert "24 sets from 1 video and 23 photos" in words_of(path)


def test_nobody_is_said_to_have_reviewed_where_nobody_did(painted, tmp_path):
    dataset, predictions, results, _ = painted
    found = replace(results, dataset=replace(results.dataset, reviewed="none"))
    found = lean(dataset, predictions, found)
    said = words_of(write_report(tmp_path, found, dataset, predictions, None))
    assert "people marked" not in said
    assert "No person has confirmed that they look the same" in said


# -- the gallery --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def twelve(painted, truth):
    """Twelve models, each of which flickers in two sets of its own: 8 of them break 16 sets, all of them 24."""
    dataset = painted[0]
    models = {}
    for place in range(12):
        label = truth.copy()
        for video in (2 * place, 2 * place + 1):
            member = (dataset.sets.set == video) & ~dataset.sets.is_anchor
            label[dataset.sets.frame[member][0]] = (truth[dataset.sets.frame[member][0]] + 1) % 4
        models[f"m{place:02d}"] = ClassAnswers.from_labels(f"m{place:02d}", label)
    return models


def test_a_count_over_the_models_shown_is_not_given_as_that_of_all(painted, twelve, tmp_path):
    dataset, _, results, _ = painted
    said = words_of(write_report(tmp_path, lean(dataset, twelve, results), dataset, twelve, None))
    assert "In 16 of 24 sets, at least one of the 8 models shown here is right on the anchor and wrong on" in said
    assert "The gallery shows 8 of 12 models: the most robust." in said
    few = dict(list(twelve.items())[:3])
    said = words_of(write_report(tmp_path, lean(dataset, few, results), dataset, few, None))
    assert "In 6 of 24 sets, at least one model is right" in said
    assert "models shown here" not in said


def test_models_asked_for_come_first_in_gallery_figures_and_colours(painted, twelve, tmp_path):
    dataset, _, results, _ = painted
    found = lean(dataset, twelve, results)
    path = write_report(tmp_path, found, dataset, twelve, None, PageOptions(show=["m11", "m09"]))
    assert gallery_of(path)["models"] == ["m11", "m09", "m00", "m01", "m02", "m03", "m04", "m05"]
    assert "8 of 12 models: your own or chosen models first, then the most robust." in words_of(path)
    shown = view_of({name: scored(0.5, 0.4, curve=curve(0.5, 0.4)) for name in twelve}, show=["m11"])
    drawn = figure(figures_accuracy.curve, shown)
    assert drawn.sentence.startswith("m11 falls from")
    assert "The figure shows 8 of 12 models: your own or chosen models first" in drawn.sentence
    assert "m07" not in drawn.drawing.svg
    colours = headline(shown, Task.CLASSIFICATION).colours
    assert (colours["m11"], colours["m00"], "m07" in colours, "m10" in colours) == (1, 2, False, False)


def test_sets_lost_at_the_anchor_have_a_place(painted, truth):
    dataset = painted[0]
    label = truth.copy()
    wrong = dataset.sets.anchor_frame[:9]
    label[wrong] = (truth[wrong] + 1) % 4
    member = (dataset.sets.set == 20) & ~dataset.sets.is_anchor
    label[dataset.sets.frame[member][0]] = (truth[dataset.sets.frame[member][0]] + 1) % 4
    found = choose(dataset, [Classified(dataset, ClassAnswers.from_labels("m", label))], limit=12)
    assert [one.models[0].status for one in found.sets] == ["breaks", "wrong", "wrong", "holds", "holds"]


@pytest.mark.parametrize(
    ("kind", "offered"), [("right", ["holds"]), ("wrong", ["wrong"]), ("half", ["wrong", "holds"])]
)
def test_the_page_opens_with_a_filter_that_shows_something(kind, offered, painted, truth, tmp_path):
    dataset, _, results, _ = painted
    change = {"right": truth >= 0, "wrong": truth < 0, "half": truth < 2}[kind]
    models = {"m": ClassAnswers.from_labels("m", np.where(change, truth, (truth + 1) % 4))}
    path = write_report(tmp_path, lean(dataset, models, results), dataset, models, None)
    statuses = re.findall(r'<option value="(breaks|wrong|holds)">', path.read_text("utf-8"))
    assert statuses == offered
    data = gallery_of(path)
    assert {one["m"][0]["s"] for one in data["sets"]} == set(offered)
    said = words_of(path)
    assert f"None of the 24 sets breaks for m. The gallery shows {len(data['sets'])} sets: " in said
    assert "switched off" not in said
    few = write_report(tmp_path, lean(dataset, models, results), dataset, models, None, PageOptions(gallery_sets=2))
    assert len(gallery_of(few)["sets"]) == 2


def test_no_prediction_anywhere_is_not_a_gallery_switched_off(painted, truth, tmp_path):
    dataset, _, results, _ = painted
    models = {"m": ClassAnswers.from_labels("m", truth, scored=np.zeros(len(truth), dtype=bool))}
    said = words_of(write_report(tmp_path, lean(dataset, models, results), dataset, models, None))
    assert "no model has a prediction for every frame of any set" in said
    assert "switched off" not in said


# -- failed models ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 9])
def test_failed_models_are_listed_with_their_reason(n, painted, tmp_path):
    dataset, predictions, results, _ = painted
    failed = {f"bad{i}": {"status": "failed", "error": f"bad{i}: no <weights> here"} for i in range(n)}
    (tmp_path / "run.json").write_text(json.dumps({"models": {"steady-net": {"status": "done"}, **failed}}))
    path = write_report(tmp_path, lean(dataset, predictions, results), dataset, predictions, None)
    said = words_of(path)
    assert f"bad{n - 1}: no <weights> here" in said
    assert "could not be run" in said
    assert "steady-net could" not in said
    assert (f"<summary>{n} requested models could" in path.read_text("utf-8")) == (n > 3)


# -- figures ------------------------------------------------------------------------------------------------------


def test_ticks_have_the_digits_their_steps_need():
    from strobe.report.charts import set_unit
    from strobe.report.style import draw

    def paint(figure, is_narrow):
        first, second = figure.subplots(1, 2)
        first.set_ylim(0.59, 0.715)
        set_unit(first)
        second.set_xlim(0, 0.31)
        set_unit(second, "points", which="x")

    svg = draw("t", paint, wide=(6, 3), narrow=(4, 3)).svg
    assert {"60.0 %", "62.5 %", "65.0 %", "67.5 %"} <= set(re.findall(r">([\d.]+ %)</text>", svg))
    assert {"0", "20"} <= set(re.findall(r">(\d+)</text>", svg))


def test_drops_are_points_and_not_per_cent():
    both = {"acc_orig": NONE, "acc_pmk": NONE}
    rows = tuple(
        TypeSlice(without=kind, n_sets=n, drop=share(drop), members_dropped=0, control=None, **both)
        for kind, n, drop in (("none", 53, 0.17), ("P", 33, 0.121))
    )
    why = "all observations come from one video; an interval needs at least two"
    fps = (
        RateSlice(range="20 to < 27", n_sets=13, drop=share(0.308, reason=why), **both),
        RateSlice(range=">= 27", n_sets=40, drop=share(0.125, 0.03, 0.31), **both),
    )
    found = results_of({"m": scored(0.5, 0.3, frame_types=rows, by_fps=fps)})
    types, rates = (figure(question, found) for question in (figures_slices.frame_types, figures_slices.by_fps))
    assert "without P frames: 12.1\N{NO-BREAK SPACE}points" in types.sentence
    assert "30.8\N{NO-BREAK SPACE}points at 20 to 27 fps (n = 13)" in rates.sentence
    assert f"No interval at 20 to 27 fps: {why}." in rates.sentence
    for one in (types, rates):
        assert "%" not in one.sentence
        assert not re.search(r"\d %</text>", one.drawing.svg)


def test_frame_axes_have_whole_numbers():
    data = scored(
        0.5, 0.3, curve=curve(0.5, 0.5, 0.5), first_failure=survival(1.0, 0.9, 0.8, n=4, events=1),
    )  # fmt: skip
    for question in (figures_accuracy.curve, figures_accuracy.first_failure):
        drawing = figure(question, results_of({"m": data})).drawing
        for svg in (drawing.wide, drawing.narrow):
            x = re.findall(r">([\d.]+)</text>", svg)
            assert {"0", "1", "2"} <= set(x)
            assert not [tick for tick in x if "." in tick]


def test_a_flat_line_has_no_impossible_shares():
    flat = scored(0.0, 0.0, curve=curve(0.0, 0.0, 0.0), first_failure=survival(1.0, 1.0, 1.0, n=2))
    for question in (figures_accuracy.curve, figures_accuracy.first_failure):
        svg = figure(question, results_of({"m": flat})).drawing.svg
        ticks = [float(tick.replace("−", "-")) for tick in re.findall(r">(−?[\d.]+) %</text>", svg)]
        assert ticks
        assert all(0 <= tick <= 100 for tick in ticks)


def test_intervals_of_the_trend_are_not_cut():
    from matplotlib.figure import Figure

    model = scored(0.7, 0.6, acc_orig=share(0.774, 0.463, 0.953), acc_pmk=share(0.604, 0.263, 0.882))
    found = figures_trend.trend.answer(view_of({"m": model}))
    for is_narrow, size in ((False, (7.4, found.inches[0])), (True, (3.9, found.inches[1]))):
        canvas = Figure(figsize=size)
        found.paint(canvas, is_narrow)
        (x_low, x_high), (y_low, y_high) = canvas.axes[0].get_xlim(), canvas.axes[0].get_ylim()
        assert x_low < 0.463 < 0.953 < x_high
        assert y_low < 0.263 < 0.882 < y_high


def test_hint_bins_are_numbers_people_read():
    exposure = ["< -0.0105", "-0.0105 to < -1.75e-05", "-1.75e-05 to < 0.00914", ">= 0.00914"]
    names = [name.replace("\N{NO-BREAK SPACE}", " ") for name in bin_names(exposure, measure_of("exposure"))]
    assert names == ["below −1.1 points", "−1.1 to 0.0 points", "0.0 to 0.9 points", "0.9 points or more"]
    motion = bin_names(["< 1.1", "1.1 to < 1.82", "1.82 to < 2.67", ">= 2.67"], measure_of("motion"))
    assert motion[1] == "1.1 to 1.8\N{NO-BREAK SPACE}%"
    assert bin_names(["< 0", ">= 0"], measure_of("blur"))[0] == "below 100\N{NO-BREAK SPACE}%"
    assert bin_names(["mine", "< x"]) == ["mine", "< x"]

    def by_exposure(*errors):
        rows = tuple(HintBin(name, share(error)) for name, error in zip(exposure, errors, strict=True))
        return figure(figures_slices.by_hint, results_of({"m": scored(0.5, 0.3, by_hint={"exposure": rows})}))

    drawn = by_exposure(0.0, 0.1, 0.2, 0.3)
    for svg in (drawn.drawing.wide, drawn.drawing.narrow):
        assert "error of the frames" in svg
        assert "Exposure: change of" in svg
        assert "e-05" not in svg
    assert "brightness 0.9" in drawn.sentence
    assert "Brightness ranges over 100 points" in drawn.how
    assert by_exposure(1.0, 1.0, 1.0, 1.0).sentence == "No: the error of m is 100.0\N{NO-BREAK SPACE}% in every group."


def test_a_pair_beyond_chance_is_drawn_and_listed_before_larger_ones_that_could_be_chance():
    def pair(place, p, difference):
        return Comparison(
            a=f"a{place}", b=f"b{place}", metric="acc_pmk", n_sets=8, only_a=1, only_b=1, test="exact McNemar", p=p,
            p_mcnemar=p, p_holm=p, difference=share(difference, difference - 0.1, difference + 0.1),
            sentence=f"pair {place}.",
        )  # fmt: skip

    rows = [pair(place, 0.5, 0.6 + place / 1000) for place in range(80)] + [pair(99, 0.0497, -0.3)]
    found = view_of({"a": scored(0.5, 0.3), "b": scored(0.5, 0.3)}, comparison=tuple(rows))
    drawn = figure(figures_accuracy.comparison, found)
    assert "b99 − a99" in drawn.drawing.svg  # the one with more first, as its sentence has it
    assert "1 of 81 pairs differ" in drawn.sentence
    assert "The figure shows 15, significant differences first" in drawn.sentence
    listed, left_out = comparisons(found)
    assert (listed[0].a, listed[0].difference.value, left_out) == ("b99", 0.3, 21)  # as its sentence has it


def test_of_too_many_pairs_those_of_models_that_are_drawn_are_listed():
    names = [f"m{place:02d}" for place in range(12)]
    rows = tuple(
        Comparison(a=a, b=b, metric="acc_pmk", n_sets=8, p_holm=0.01, difference=share(0.1, 0.05, 0.2))
        for a, b in combinations(names, 2)
    )
    found = view_of({name: scored(0.9, 0.8 - place / 50) for place, name in enumerate(names)}, comparison=rows)
    listed, left_out = comparisons(found)
    assert {(one.a, one.b) for one in listed} == set(combinations(names[:MOST_SHOWN], 2))
    assert left_out == len(rows) - len(listed)
    assert compared(found, left_out) == "Pairs of the 8 models in the figures,"
    drawn = figure(figures_accuracy.comparison, found)
    assert "66 of 66 pairs differ" in drawn.sentence
    assert "The figure shows 15 of the 28 pairs of models shown" in drawn.sentence
    assert "m11" not in drawn.drawing.svg
    few = view_of({name: scored(0.9, 0.8) for name in names[:3]}, comparison=rows[:3])
    assert compared(few, comparisons(few)[1]) == "Every pair of models"


def test_intervals_are_not_spoken_of_where_there_are_none():
    def said(low, high):
        def one(value):
            return share(value, low, high)

        rows = tuple(HintBin(name, one(error)) for name, error in (("< 1", 0.1), (">= 1", 0.6)))
        points = tuple(TimePoint(ms, one(0.5)) for ms in (0, 33))
        model = scored(
            acc_orig=one(0.8), acc_pmk=one(0.5), drop=one(0.3), by_hint={"cut": rows},
            curve=tuple(CurvePoint(k, one(0.5), NONE) for k in range(3)),
            time_curve=TimeCurve(t_max_ms=33, n_sets=8, points=points),
            per_offset=tuple(OffsetError(k, one(0.1)) for k in (-1, 0, 1)), first_failure=survival(1.0, 0.5, n=4),
        )  # fmt: skip
        found = view_of({"m": model})
        questions = (
            figures_accuracy.curve, figures_accuracy.time_curve, figures_slices.per_offset, figures_slices.by_hint,
            figures_trend.trend,
        )  # fmt: skip
        drawn = [figure(question, found) for question in questions]
        table = headline(found, Task.CLASSIFICATION)
        return [*(one.how for one in drawn), table.how, table.picture], drawn[3].sentence, drawn[1].sentence

    hows, hint, time = said(None, None)
    assert not [text for text in hows if "interval" in text]
    assert "The largest difference is by cut, but there are no intervals. The error ranges" in hint
    assert "that extend that far on at least one side" in time
    hows, hint, _ = said(0.0, 1.0)
    assert len([text for text in hows if "interval" in text]) == 6
    assert "The largest difference is by cut, but the intervals overlap. The error ranges" in hint


def test_few_videos_are_said_on_the_page_as_in_the_terminal():
    bounded = scored(acc_orig=share(0.8, 0.7, 0.9), acc_pmk=share(0.5, 0.4, 0.6))
    said = "Fewer than 10 videos: intervals of means and differences are too narrow."
    for n_videos, model, expected in ((4, bounded, True), (10, bounded, False), (4, scored(0.8, 0.5), False)):
        table = headline(view_of({"m": model}, n_videos=n_videos), Task.CLASSIFICATION)
        assert (said in table.notes) == expected


def test_sets_of_one_video_are_too_few_for_intervals() -> None:
    grown = DatasetBuilder()
    video = grown.video(video_id=frame_list_digest(["v"]), name="v")
    rows = [grown.frame(video=video, index=place, key=f"v/{place}.jpg", labels=[0]) for place in range(6)]
    for name, place in (("a", 1), ("b", 4)):
        grown.set(set_id=name, anchor=rows[place], members=[(rows[place - 1], -1), (rows[place + 1], 1)])
    dataset = grown.build(replace(strobe.example_dataset().info, k=1))
    page = io.StringIO()
    answers = ClassAnswers.from_labels("model", np.zeros(6, dtype=int))
    print_headline(decode(Results, strobe.results(dataset, [answers])), page)
    assert "%, 2 sets of 1 video, k = 1: no intervals (all observations come from one video" in page.getvalue()
    assert "too narrow" not in page.getvalue()
