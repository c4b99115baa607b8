"""Tables and the terminal: every number with its interval, safe to open, plain when piped."""

import csv
import io
import math

import pytest
from made_results import detected, results_of, scored, share, view_of

from strobe.analyses.model_results import Impact, Stage, Unscored
from strobe.report import study as study_list
from strobe.report.headline import headline_lines, print_headline
from strobe.report.study import Study, studies, tables
from strobe.report.tables import as_csv, write_tables
from strobe.report.view import View
from strobe.studies.temporal.records import Bounds


def test_headline_rows_carry_value_interval_n_and_count(painted):
    _, _, results, _ = painted
    rows = tables()["headline"](View(results=results))
    assert len(rows) == len(results.models)
    for row in rows:
        found = results.models[row["model"]].acc_pmk
        assert (row["acc_pmk"], row["acc_pmk_low"], row["acc_pmk_high"]) == (found.value, found.low, found.high)
        assert (row["acc_pmk_n"], row["acc_pmk_count"]) == (found.n, found.count)
    values = [row["acc_pmk"] for row in rows]
    assert values == sorted(values, reverse=True)


def test_every_written_table_reads_back_with_as_many_rows(painted, tmp_path):
    _, _, results, _ = painted
    paths = write_tables(tmp_path, results)
    names = {path.stem for path in paths}
    assert {"headline", "curve", "per_class", "per_offset", "smoothing", "comparison", "time_curve"} <= names
    assert not any(name.startswith("detection") for name in names)
    for path in paths:
        with path.open(newline="", encoding="utf-8") as file:
            back = list(csv.DictReader(file))
        rows = tables()[path.stem](View(results=results))
        assert len(back) == len(rows)
        for text, row in zip(back, rows, strict=True):
            for column, value in row.items():
                if isinstance(value, float):
                    assert math.isclose(float(text[column]), value, abs_tol=5e-7)


def test_a_name_that_is_a_formula_is_defused_and_missing_is_empty():
    text = as_csv([{"model": "=HYPERLINK(1)", "acc": None}, {"model": "+1+1", "acc": 0.25}])
    back = list(csv.reader(io.StringIO(text)))
    assert back == [["model", "acc"], ["'=HYPERLINK(1)", ""], ["'+1+1", "0.25"]]


@pytest.mark.parametrize("models", [{}, {"m": scored()}, {"m": detected()}])
def test_tables_of_nothing_are_empty_or_rows_of_blanks(models, tmp_path):
    for make in tables().values():
        for row in make(view_of(models)):
            assert row["model"] == "m"
    write_tables(tmp_path, results_of(models))


def test_piped_table_is_plain_aligned_and_unwrapped(painted):
    _, _, results, _ = painted
    out = io.StringIO()
    print_headline(results, out)
    text = out.getvalue()
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0] == "painted-clips: classification"
    assert lines[1].split() == ["model", "acc_orig", "acc_pmk", "drop", "flip_rate"]
    for name, model in results.models.items():
        line = next(line for line in lines if line.startswith(name))
        found = model.acc_pmk
        assert f"{100 * found.value:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]" in line


def test_terminal_table_strips_control_characters_and_shows_unscored():
    bounds = Bounds(acc_orig=(0.2, 0.8), acc_pmk=(0.25, 0.75))
    model = scored(0.5, 0.5, unscored=Unscored(frames=9, sets=3), bounds=bounds)
    results = results_of({"m\x1b[2J[bold]": model}, name="d\x1b[31m", k=10)
    out = io.StringIO()
    print_headline(results, out)
    assert "\x1b" not in out.getvalue()
    assert "[bold]" in out.getvalue()
    said = "3 sets unscored (9 frames without a prediction); acc_pmk between 25.0 (all of them wrong) and 75.0"
    assert said in out.getvalue()
    ((_, columns, _, _),) = headline_lines(results)
    assert columns[-1] == "unscored sets"


def test_what_review_changed_is_said_below_the_table():
    drop, less, gap = (share(value, value - 0.1, value + 0.1) for value in (0.5, 0.3, 0.2))
    a, c = (
        Stage(what="", acc_orig=drop, acc_pmk=drop, drop=one, per_offset=(), unscored=Unscored(frames=0, sets=0))
        for one in (drop, less)
    )
    changed = scored(review_impact=Impact(a=a, b=a, c=c, drop_difference=gap))
    ((*_, notes),) = headline_lines(results_of({"m": changed, "n": scored()}))
    assert notes[-1] == (
        "m: drop 50.0 [40.0, 60.0] before review, 30.0 [20.0, 40.0] after review; difference 20.0 [10.0, 30.0]"
    )
    assert not any(note.startswith("n:") for note in notes)


def test_on_a_terminal_the_table_is_drawn(painted):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    _, _, results, _ = painted
    out = Terminal()
    print_headline(results, out)
    assert "steady-net" in out.getvalue()
    assert "━" in out.getvalue()


def test_a_plugin_does_not_replace_a_table_of_strobe(monkeypatch):
    mine = Study(name="temporal", tables={"headline": lambda _: [{"mine": True}], "mine": lambda _: []})
    own = studies()
    monkeypatch.setattr(study_list, "studies", lambda: (*own, mine))
    tables.cache_clear()
    try:
        assert tables()["headline"] is own[0].tables["headline"]
        assert "mine" in tables()
    finally:
        monkeypatch.undo()
        tables.cache_clear()
