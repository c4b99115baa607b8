"""The chapter of a generator's searches: its figures, its words, its strips, and what it says where there is less."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import made_generator as made
import numpy as np
import pytest
from made_cautions import check_cautions

from strobe.analyses.results import Results
from strobe.annexes.generators.study import figures as figures_generator
from strobe.annexes.generators.study.chapter import build_strips
from strobe.annexes.generators.study.words import generator_lead, granular, granular_rows, ratio_text
from strobe.core.estimate import Estimate
from strobe.report.headline import headline_lines
from strobe.report.page import PageOptions, write_report
from strobe.report.tables import write_tables
from strobe.report.view import View
from strobe.studies.variants.records import Contrast

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


def share(value, **more):
    return Estimate(**{"value": value, "low": 0.0, "high": 1.0, "n": 8, **more})


def ratios(*p_values):
    blank = {
        "of": "targets",
        "held": None,
        "form": "ratio",
        "level": None,
        "n": 8,
        "only_a": 1,
        "only_b": 1,
        "test": "t",
    }
    rows = {
        (name, "robust"): Contrast(
            a=f"{name}/robust", b=f"{name}/plain", value=share(0.9 + n, high=4.0), p=p, p_holm=p, **blank
        )
        for n, (name, p) in enumerate(zip(("coarse", "pixel"), p_values, strict=True))
    }
    return SimpleNamespace(others=("robust",), granularities=("coarse", "pixel"), ratios=rows, baseline="plain")


def test_a_ratio_that_is_not_significant_says_so() -> None:
    assert ratio_text(ratios(0.086, 0.4)) == (
        "To be fooled, robust needs changes 0.90 (coarse, not significant) to 1.90 (pixel, not significant) times as "
        "large as plain. No ratio is significant."
    )
    assert ratio_text(ratios(0.5, 0.01)) == (
        "To be fooled, robust needs changes 0.90 (coarse, not significant) to 1.90 (pixel) times as large as plain."
    )


def test_the_cautions_of_eight_photos_are_in_the_terminal(whole) -> None:
    assert check_cautions(whole[2])
    ratio = next(iter(granular(View(results=whole[2])).ratios.values()))
    assert ratio.value.reason.startswith("only 9 videos")
    notes = next(notes for title, _, _, notes in headline_lines(whole[2]) if "coarse to fine" in title)
    assert any(note.startswith("only 9 ") for note in notes)


def test_a_loss_uses_the_same_images_before_and_after(whole) -> None:
    """The judge is wrong on unchanged images that have no finding; these must not count in what a search loses."""
    dataset, answers, results = whole
    (found,) = results.preserved
    judge = answers["judge"]
    right = judge.label == np.array([min(dataset.labels_of(row)) for row in range(len(dataset.frames))])
    sets = dataset.sets
    anchor_right = [bool(right[frame]) for frame in sets.anchor_frame.tolist()]
    names = [one.variant for one in dataset.variants]
    n_checked = 0
    for one in found.preservation:
        if one.variant == "anchor":
            continue
        before, after = [], []
        for row, number in enumerate(sets.set.tolist()):
            searched = one.variant == names[sets.variant[number]] and not sets.is_anchor[row]
            is_search = any(s != "complete" for s in sets.status[sets.variant == sets.variant[number]].tolist())
            if searched and (not is_search or sets.status[number] == "found"):
                own = set(dataset.labels_of(int(sets.anchor_frame[number])))
                before.append(anchor_right[number])
                after.append(int(judge.label[sets.frame[row]]) in own)
        assert one.lost.n == one.before.n == len(after)
        assert one.before.value == pytest.approx(np.mean(before))
        assert one.lost.value == pytest.approx(np.mean(before) - np.mean(after))
        n_checked += 1
    assert n_checked > 4
