"""The chapter of a generator's searches: its figures, its words, its strips, and what it says where there is less."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import made_generator as made
import numpy as np
import pytest

from strobe.analyses.results import Results
from strobe.annexes.generators.study import figures as figures_generator
from strobe.annexes.generators.study.chapter import build_strips
from strobe.annexes.generators.study.words import (
    accepted_text,
    class_lines,
    generator_lead,
    granular,
    granular_rows,
    kept_text,
    median_lines,
)
from strobe.report import story
from strobe.report.headline import headline_lines
from strobe.report.page import PageOptions, write_report
from strobe.report.tables import write_tables
from strobe.report.view import View
from strobe.studies.variants import figures as figures_variants

FEW = ("fine", "latent", "pixel", "all")


@pytest.fixture(scope="module")
def whole():
    dataset = made.study(n=9, strips=2, granularities=FEW)
    answers = made.answers(dataset)
    return dataset, answers, made.results(dataset, answers)


@pytest.fixture(scope="module")
def page(whole, tmp_path_factory) -> Path:
    dataset, answers, results = whole
    run = tmp_path_factory.mktemp("generator")
    write_tables(run, results)
    options = PageOptions(gallery_sets=4, picture_px=64)
    return write_report(run, results, dataset, answers, made.MadeSource(dataset), options)


def strips_of(page: Path) -> dict:
    return json.loads(re.search(r'id="strips-data">(.*?)</script>', page.read_text(encoding="utf-8"))[1])


def test_granularities_go_from_coarse_to_fine_and_the_baseline_is_first(whole) -> None:
    found = granular(View(results=whole[2]))
    assert found.granularities == ("latent", "fine", "pixel", "all")
    assert (found.baseline, found.others) == ("standard", ("linf", "l2"))
    settings = replace(whole[2].settings, baseline="l2")
    assert granular(View(results=replace(whole[2], settings=settings))).baseline == "l2"
    assert granular(View(results=replace(whole[2], searches=()))) is None


def test_what_is_drawn_and_said(page, whole) -> None:
    names = {path.stem for path in (page.parent / "figures").glob("*.svg")}
    assert {"granularity_ratio", "granularity_curves", "granularity_kept_1"} <= names
    assert "search_survival" not in names, "its curves say it"
    html = page.read_text(encoding="utf-8")
    assert 'id="granularity"' in html
    assert "Which classes need the smallest changes?" in html
    head, lede = story.lead(View(results=whole[2]))
    assert head.startswith("None of the 3 models is robust at any granularity")
    assert re.search(
        r"needs changes [\d.]+ \(latent(, not significant)?\) to [\d.]+ \(pixel(, not significant)?\)", lede
    )
    assert "times as large as standard." in lede
    assert "of the findings still show their class, depending on granularity and model; of the same images" in lede


def test_nothing_of_the_way_is_scored_and_controls_are_no_variant_of_a_level(page, whole) -> None:
    assert "/between" not in json.dumps([one.variant for one in whole[2].variants])
    with (page.parent / "tables" / "searches.csv").open(encoding="utf-8") as file:
        assert {row["variant"] for row in csv.DictReader(file)} == {
            f"{name}/{target}" for name in FEW for target in made.TARGETS
        }
    assert not list((page.parent / "figures").glob("variant_levels*"))


def test_strips_hold_the_way_and_every_answer(page, whole) -> None:
    found = strips_of(page)
    assert found["granularities"] == ["latent", "fine", "pixel", "all"]
    assert len(found["pictures"]) == 2, "only two have a way"
    for picture in found["pictures"]:
        for strip in picture["strips"]:
            if "film" in strip:
                assert strip["n"] == made.WAY + 2
                assert len(strip["says"]) == strip["n"]
                target = found["models"].index(found["targets"][strip["t"]])
                assert strip["says"][0][target][0] in picture["y"], "nothing: right"
                assert strip["says"][-1][target][0] not in picture["y"], "found: wrong"


@pytest.mark.browser
def test_a_card_without_a_film_says_why(page, whole, browser_page, tmp_path) -> None:
    dataset, answers, results = whole
    first, second = np.flatnonzero(dataset.sets.status == "found")[:2]
    status, reach = dataset.sets.status.astype(object), dataset.sets.reach.copy()
    status[first], status[second], reach[first] = "failed", "censored", np.nan
    broken = replace(dataset, sets=replace(dataset.sets, status=status.astype(str), reach=reach))
    found = build_strips(broken, granular(View(results=results)), made.MadeSource(dataset), answers)
    assert any(set(strip) == {"g", "t"} for picture in found["pictures"] for strip in picture["strips"])
    before, data, after = re.split(
        r'(?<=id="strips-data">)(.*?)(?=</script>)', page.read_text(encoding="utf-8"), maxsplit=1
    )
    assert json.loads(data) == strips_of(page)
    (tmp_path / "page.html").write_text(before + json.dumps(found) + after, encoding="utf-8")
    opened, log = browser_page
    opened.goto((tmp_path / "page.html").as_uri())
    said = set()
    for picture in range(len(found["pictures"])):
        opened.select_option("#strip-picture", index=picture)
        for target in range(len(found["targets"])):
            opened.select_option("#strip-target", index=target)
            said |= set(opened.locator("#strip-cards .none").all_text_contents())
    assert "nothing found: the search failed" in said
    assert any(one.startswith("nothing found up to ") for one in said)
    assert log.errors == []


def test_what_was_kept_of_what_was_drawn_is_said() -> None:
    assert accepted_text({}) == ""
    assert accepted_text({"accepted": {"drawn": 8, "accepted": 6, "right": {"a": 6, "b": 8}}}).startswith(
        "Of 8 generated images, 6 are used"
    )


def test_without_pictures_there_are_no_strips(whole) -> None:
    dataset, answers, results = whole
    found = granular(View(results=results))
    assert build_strips(dataset, found, None, answers) is None
    bare = made.study(n=3, strips=0, granularities=("coarse",))
    view = granular(View(results=made.results(bare, made.answers(bare))))
    made_of = build_strips(bare, view, made.MadeSource(bare), made.answers(bare))
    assert {one["n"] for picture in made_of["pictures"] for one in picture["strips"] if "film" in one} == {2}


def test_tables_say_the_figures(whole) -> None:
    view = View(results=whole[2])
    found = granular(view)
    _, columns, rows, _ = median_lines(view, found)
    assert [row[0] for row in rows[::3]] == list(found.granularities)
    first, search = dict(zip(columns, rows[0], strict=True)), found.searches["latent", "standard"]
    assert first["found"] == f"{search.found} of {search.found + search.censored}"
    assert first["median"].startswith(f"{search.median.value:.3g}")
    assert float(first["per neuron"]) == pytest.approx(search.median.value / np.sqrt(60), rel=0.01)
    assert first["reproduced"].estimate.value == 1
    assert first["random"].estimate.value < 0.5
    ((_, _, rows, _), *_) = class_lines(found)
    assert [row[0] for row in rows] == list(made.CLASSES)
    kept = found.preserved[0]
    assert {key: one.n for key, one in kept.before.items()} == {key: one.n for key, one in kept.share.items()}
    assert re.fullmatch(
        r"Judged by judge, .+ of the findings still show their class, depending on granularity and model; of the same "
        r"images unchanged, 100\s% do\.", kept_text(kept)
    )  # fmt: skip


def test_a_contrast_that_cannot_be_drawn_counts_where_it_is_beyond_chance(whole) -> None:
    results: Results = whole[2]
    rows = [one for one in results.contrasts if one.of == "targets"]
    real = sum(one.p_holm < 0.05 for one in rows)
    assert real > 0
    said = figures_variants.contrasts_targets.figures(View(results=results))[0].sentence
    assert said == f"{real} of {len(rows)} differences are significant after Holm’s correction (p < 0.05)."
    first = next(one for one in rows if one.p_holm < 0.05)
    lost = replace(first, value=replace(first.value, value=None, low=None, high=None, reason="no end"))
    fewer = replace(results, contrasts=tuple(lost if one is first else one for one in results.contrasts))
    assert figures_variants.contrasts_targets.figures(View(results=fewer))[0].sentence.startswith(
        f"{said} 1 have no value"
    )


def test_the_terminal_has_a_line_for_every_granularity(whole) -> None:
    tables = headline_lines(whole[2])
    title, columns, rows, notes = next(one for one in tables if "coarse to fine" in one[0])
    assert title == "generated: from coarse to fine"
    assert columns[0] == "granularity"
    assert columns[4:] == ["linf ÷ standard", "l2 ÷ standard", "preserved (judges)"]
    assert [row[0] for row in rows] == ["latent", "fine", "pixel", "all"]
    assert any("root mean square" in note for note in notes)
    assert not any("only known to be" in note for note in notes)
    results: Results = whole[2]
    first = next(one for one in results.contrasts if one.a == "pixel/linf")
    bare = replace(first, value=replace(first.value, low=None, high=None, reason="no end was found"))
    less = replace(results, contrasts=tuple(bare if one is first else one for one in results.contrasts))
    notes = next(one for one in headline_lines(less) if "coarse to fine" in one[0])[3]
    assert "pixel against linf: no end was found" in notes
    two = granular(View(results=replace(results, searches=tuple(s for s in results.searches if s.target != "l2"))))
    assert generator_lead(two)[0].startswith("Neither model is robust at any granularity")


def test_one_target_and_no_judge_are_said(whole) -> None:
    results: Results = whole[2]
    one = replace(
        results, preserved=None, contrasts=(), searches=tuple(s for s in results.searches if s.target == "standard")
    )
    view = View(results=one)
    found = granular(view)
    assert generator_lead(found)[0].startswith("standard is not robust at any granularity")
    held = granular(View(results=replace(one, searches=tuple(replace(s, found=1, censored=9) for s in one.searches))))
    assert "may have failed. More restarts may find more" in generator_lead(held)[0]
    assert not any(note.startswith("—: ") for note in granular_rows(found)[2])
    dashed = replace(one, searches=tuple(replace(s, median=replace(s.median, value=None)) for s in one.searches))
    assert any(note.startswith("—: fewer than half") for note in granular_rows(granular(View(results=dashed)))[2])
    assert "at least two targets" in figures_generator.granularity_ratio.figures(view)[0].sentence
    assert "--judge" in figures_generator.granularity_kept.figures(view)[0].sentence
    assert granular_rows(found)[0] == ["granularity", "median, standard"]
