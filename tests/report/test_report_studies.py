"""Reports of data that is no video: photos that stand alone, corruptions, attacks, a generator, a ladder."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import made_studies as made
import numpy as np
import pytest

import strobe
from strobe.analyses.gallery import Classified, choose
from strobe.analyses.model_results import ClassificationResult
from strobe.analyses.results import Results
from strobe.core.answers import ClassAnswers
from strobe.core.codec import decode
from strobe.core.dataset import Dataset
from strobe.core.estimate import Estimate
from strobe.core.ports import Silent
from strobe.core.tasks import Task
from strobe.report import story
from strobe.report.gallery import build, level_words
from strobe.report.headline import headline, headline_lines
from strobe.report.page import PageOptions, write_report
from strobe.report.story import explained, glossary
from strobe.report.tables import write_tables
from strobe.report.view import Subject, View, count_sources, sources
from strobe.store import dataset_folder as folder
from strobe.studies.variants import tables as variants_tables
from strobe.studies.variants import words as story_variants
from strobe.workflows.inspect import inspect, lines

KINDS = ("photos", "corruption", "attack", "generator", "ladder")

Whole = tuple[Dataset, dict[str, ClassAnswers], Results, made.StudySource]


@pytest.fixture(scope="module")
def studies() -> dict[str, Whole]:
    """Each study once: three corruptions will do here."""
    out = {}
    for kind in KINDS:
        few = made.corruption(3)[0] if kind == "corruption" else None
        dataset = made.photos(24) if kind == "photos" else made.study(kind, n=12 if few else made.N, variants=few)
        found = made.answers(dataset)
        out[kind] = (dataset, found, made.results(dataset, found), made.StudySource(dataset))
    return out


@pytest.fixture(scope="module")
def pages(studies, tmp_path_factory) -> dict[str, Path]:
    out = {}
    for kind, (dataset, answers, results, source) in studies.items():
        run = tmp_path_factory.mktemp(kind)
        write_tables(run, results)
        options = PageOptions(gallery_sets=12, picture_px=64)
        out[kind] = write_report(run, results, dataset, answers, source, options)
    return out


def text_of(page: Path) -> str:
    """What a reader can read, without script, style and drawings."""
    html = page.read_text(encoding="utf-8")
    html = re.sub(r"<(script|style|title)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


# -- words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_videos_frames_or_flicker(pages, kind) -> None:
    text = text_of(pages[kind])
    for word in (r"\bvideos?\b", r"\bflicker", "fps", "flip rate", r"before \(−\)"):
        assert not re.search(word, text, flags=re.IGNORECASE), word
    assert "photos" in text


@pytest.mark.parametrize("kind", ["photos", "attack", "generator", "ladder"])
def test_at_k_0_there_is_accuracy_and_no_drop(pages, studies, kind) -> None:
    text = text_of(pages[kind])
    assert "(acc_orig in the files)" in text, "the words say what results.json calls it"
    text = text.replace("(acc_orig in the files)", "")
    for word in ("pm-", "acc_orig", r"\bdrop\b", "Not shown", "does not flicker", "filmstrip"):
        assert not re.search(word, text), word
    assert "accuracy" in text
    assert not (pages[kind].parent / "figures" / "trend.svg").exists()
    best = View(results=studies[kind][2])
    head, lede = story.lead(best)
    assert ("found" if kind == "generator" else "right") in head
    assert head[0] != "N"
    if kind == "photos":
        assert head.endswith("of 24 photos right.")
        assert re.search(r" gets [\d.]+\xa0% \[[\d.]+,\xa0[\d.]+\] of ", head)
        assert re.fullmatch(r"Of the 3 models, it is right most often; the others get 95.8\xa0% \[.*\] each\.", lede)


def test_terminal_of_photos_shows_accuracy_alone(studies) -> None:
    ((title, columns, rows, notes),) = headline_lines(studies["photos"][2])
    assert title == "my-photos: classification"
    assert columns == ["model", "accuracy"]
    assert all(len(row) == 2 for row in rows)
    assert notes == ["% [95 % interval], 24 photos"]


def test_terminal_says_few_photos_and_pictures_without_an_answer() -> None:
    dataset = made.photos(4)
    answers = made.answers(dataset)
    ((_, _, _, notes),) = headline_lines(made.results(dataset, answers))
    assert "fewer than 10 photos: intervals of means and differences are too narrow" in notes


def test_terminal_of_corruptions_has_worst_and_mean(studies) -> None:
    whole, by_variant = headline_lines(studies["corruption"][2])
    assert whole[1] == ["model", "accuracy", "worst, to severity 5", "drop, to severity 5", "mean, at severity 5"]
    assert whole[3][0] == "% [95 % interval], 12 photos under 3 variants, each image counted once"
    assert [row[:2] for row in by_variant[2]] == [[name, "severity 5"] for name in made.CORRUPTIONS[:3]]


def test_terminal_of_searches_and_of_a_ladder(studies) -> None:
    _, searches, linf, l2 = headline_lines(studies["attack"][2])
    assert linf[1][:4] == ["search", "original", "1/255", "2/255"]
    assert l2[1][:4] == ["search", "original", "0.00392", "0.00784"], "255ths are linf's"
    assert [row[0] for row in linf[2]] == ["linf/robust", "linf/standard"], "each target on its own searches"
    assert searches[1][-1] == "median"
    first = studies["attack"][2].searches[0]
    assert searches[2][0][2] == f"{first.found} of {first.found + first.censored}"
    _, ladder = headline_lines(studies["ladder"][2])
    assert [row[0] for row in ladder[2]][-2:] == ["zoom (control)", "only-background (control)"]


def test_sources_are_counted_by_their_kind() -> None:
    assert count_sources(made.photos(3, kind="generated")) == {"generated": 3}
    assert sources(3, {"generated": 3}) == "3 generated images"
    assert sources(2, kinds=("image",)) == "2 images"
    assert Subject(kinds=("image", "photo")).say("only 3 videos") == "only 3 sources"
    assert Subject(kinds=("photo",)).say("video-cluster bootstrap") == "photo-cluster bootstrap"
    assert Subject().say("a flickers more than b in 2 videos") == "a flickers more than b in 2 videos"


def test_each_kind_is_explained_in_its_own_words(studies) -> None:
    views = {kind: View(results=found[2]) for kind, found in studies.items()}
    assert explained(views["photos"])[1][0].startswith("Every photo is its own set")
    assert "worst case up to severity 5" in " ".join(explained(views["corruption"])[1])
    assert "no overall worst case" in " ".join(explained(views["ladder"])[1])
    assert "against robust and standard" in " ".join(explained(views["attack"])[1])
    assert dict(glossary(views["photos"])).keys() == {"accuracy", "interval"}
    assert {"fooled", "reproduced"} <= dict(glossary(views["generator"])).keys()
    assert "estimated" in dict(glossary(views["ladder"]))


def test_sets_are_not_taken_for_pictures(studies) -> None:
    table = headline(View(results=studies["attack"][2]), Task.CLASSIFICATION)
    assert "96 sets (one image under one variant)" in table.caption
    assert "each original image once (n = 24)" in table.caption


# -- the chapter of variants -------------------------------------------------------------------------------------


def test_every_variant_and_its_marks_are_named(pages, studies) -> None:
    for kind in ("attack", "generator", "ladder"):
        text = text_of(pages[kind])
        for one in studies[kind][2].variants:
            assert one.variant in text
    rows = variants_tables.change_lines(View(results=studies["ladder"][2]))[2]
    assert [row[0].partition(" (")[0] for row in rows][-2:] == ["zoom", "only-background"]
    assert rows[-1][0].endswith(" (control)")
    assert rows[1][0].endswith(" (estimated)")


def test_the_heat_map_is_the_results(studies) -> None:
    results = studies["corruption"][2]
    ((first, *_),) = variants_tables.heat(View(results=results))
    model = results.models[first["model"]]
    assert isinstance(model, ClassificationResult)
    for (name, control, orig, cells), one in zip(first["rows"], model.variants, strict=True):
        assert (name, control, orig) == (one.variant, False, one.acc_orig)
        assert cells == tuple(level.at for level in one.levels)
    assert first["mean"] == [one.at for one in model.means]


def test_figures_of_each_kind_are_drawn(pages) -> None:
    drawn = {kind: {path.stem for path in (page.parent / "figures").glob("*.svg")} for kind, page in pages.items()}
    assert drawn["photos"] == {"class_accuracy_1", "class_accuracy_2", "class_accuracy_3", "comparison"}
    assert {"variant_means", "variant_levels_1", "contrasts_models"} <= drawn["corruption"]
    assert {"search_survival"} <= drawn["attack"]
    assert not any(name.startswith("variant_levels") for name in drawn["attack"])
    assert {"variant_levels_1", "variant_rungs", "contrasts_variants", "contrasts_models"} <= drawn["ladder"]


def test_a_finding_that_was_not_stored_is_warned_of(studies) -> None:
    dataset = studies["attack"][0]
    assert story_variants.survives(View(results=studies["attack"][2])) == []
    view = View(results=made.results(dataset, made.answers(dataset, reproduced=0.5)))
    warned = story_variants.survives(view)
    assert len(warned) == 4
    assert all("Saving the images changed the other answers" in one for one in warned)
    _, _, _, notes = headline_lines(view.results)[0]
    assert set(warned) <= set(notes)


def test_transfer_is_what_fooled_says_and_nothing_else(studies) -> None:
    view = View(results=studies["attack"][2])
    models, rows = variants_tables.fooled(view)
    for row, search in zip(rows, view.results.searches, strict=True):
        for name, (is_target, found) in zip(models, row["cells"], strict=True):
            score = next(one for one in view.classifiers[name].variants if one.variant == search.variant)
            assert is_target == (name == search.target)
            assert found == (score.reproduced if is_target else score.fooled)


def test_contrasts_read_the_way_their_figures_do(studies) -> None:
    view = View(results=studies["ladder"][2])
    row = next(one for one in view.results.contrasts if one.of == "variants" and one.a == "anchor")
    low = replace(row, a="anchor", b="grey", held="m", p=0.001, p_holm=0.01, n=9)
    less = replace(low, value=Estimate(value=-0.2, low=-0.3, high=-0.1, n=9))
    said = "m is right 20.0 points more often on grey than on the original images (95 % interval 10.0 to 30.0, "
    said += "p = 0.010, n = 9)."
    assert story_variants.contrast_text(view, less).replace("\N{NO-BREAK SPACE}", " ") == said
    more = replace(less, of="models", a="x", b="y", held="box", level=2.0, p_holm=0.0001)
    text = story_variants.contrast_text(view, more).replace("\N{NO-BREAK SPACE}", " ")
    assert text.startswith("On box at context factor 2, y is right 20.0 points more often than x (95 %")
    assert "p < 0.001" in text
    ratio = replace(
        less, of="targets", form="ratio", a="x", b="y", held=None, value=Estimate(value=2, low=1.5, high=3, n=9)
    )
    assert story_variants.contrast_text(view, ratio).startswith(
        "x needed 2 times the distance that y needed (95 % interval 1.5 to 3"
    )


def test_an_epsilon_is_so_many_255ths(studies) -> None:
    facts = View(results=studies["attack"][2]).variants["linf/robust"]
    assert story_variants.level_text(facts, 8 / 255) == "ε 8/255"
    assert story_variants.level_text(facts, 0.0213) == "ε 0.0213 of 1"


# -- tables ------------------------------------------------------------------------------------------------------


def read(page: Path, name: str) -> list[dict[str, str]]:
    with (page.parent / "tables" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_tables_hold_every_level_search_and_contrast(pages, studies) -> None:
    results = studies["attack"][2]
    rows = read(pages["attack"], "variants")
    assert len(rows) == 3 * sum(len(one.levels) for one in results.variants)
    assert {"model", "variant", "is_target", "level", "at", "at_low", "upto", "given", "fooled"} <= rows[0].keys()
    searches = read(pages["attack"], "searches")
    assert [row["variant"] for row in searches] == [one.variant for one in results.searches for _ in one.levels]
    assert {"found", "censored", "anchor_wrong", "failed", "median", "level_level", "level_alive"} <= searches[0].keys()
    contrasts = read(pages["ladder"], "contrasts")
    assert len(contrasts) == len(studies["ladder"][2].contrasts)
    assert {"of", "a", "b", "held", "form", "value", "value_low", "p_holm"} <= contrasts[0].keys()
    assert len(read(pages["corruption"], "variant_means")) == 3 * 5
    assert not (pages["photos"].parent / "tables" / "variants.csv").exists()


# -- the gallery -------------------------------------------------------------------------------------------------


def test_gallery_of_photos_has_wrong_ones_first_and_right_ones_too(studies) -> None:
    dataset, answers, _, _ = studies["photos"]
    judges = [Classified(dataset, one) for one in answers.values()]
    choice = choose(dataset, judges, limit=9)
    wrong = [any(view.status == "wrong" for view in one.models) for one in choice.sets]
    assert wrong == sorted(wrong, reverse=True)
    assert len(choice.sets) == 9
    assert not all(wrong)
    assert all(len(one.rows) == 1 for one in choice.sets)
    assert choose(dataset, judges, limit=0).sets == ()


def test_gallery_takes_every_variant_in_turn(studies) -> None:
    dataset, answers, _, _ = studies["ladder"]
    choice = choose(dataset, [Classified(dataset, one) for one in answers.values()], limit=12)
    assert len({int(dataset.sets.variant[one.set_row]) for one in choice.sets}) == len(dataset.variants)
    sets = build(
        dataset, choice, None, longest=8, quality=50, max_bytes=1, raw_names={}, progress=Silent()
    ).data["sets"]  # fmt: skip
    estimated = {f"{one.variant} ≈" for one in dataset.variants if one.estimated}
    assert {one["k"] for one in sets if "≈" in one["k"]} == estimated


def test_gallery_says_where_in_its_variant_a_member_lies(studies) -> None:
    for kind, said in (
        ("corruption", {"severity 1", "severity 5"}),
        ("ladder", {"context factor 2", "grey", "only-background, no. 2"}),
    ):
        dataset = studies[kind][0]
        rows = zip(dataset.sets.set.tolist(), dataset.sets.distance.tolist(), strict=True)
        assert said < {level_words(dataset, set_row, distance) for set_row, distance in rows}


def test_a_smaller_k_cuts_by_level_and_not_by_distance(tmp_path) -> None:
    """Levels of an ε grid are all below 1: cut by distance, nothing would ever be cut."""
    epsilon = replace(made.corruption(1)[0][0], axis="epsilon", levels=made.EPSILON)
    dataset = made.study("corruption", n=12, variants=[epsilon])
    answers = made.answers(dataset)
    results = decode(Results, strobe.results(dataset, list(answers.values()), k=2))
    page = write_report(tmp_path, results, dataset, answers, None, PageOptions(gallery_sets=4))
    found = re.search(r'id="gallery-data">(.*?)</script>', page.read_text(encoding="utf-8"), flags=re.DOTALL)[1]
    assert {len(one["f"]) for one in json.loads(found)["sets"]} == {3}


# -- in a browser ------------------------------------------------------------------------------------------------


BROKEN = """() => [...document.querySelectorAll(".contrast td:not(.right), .tabs .sign + span")].flatMap((cell) => {
  cell.closest("details")?.setAttribute("open", "");
  const texts = [], walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) texts.push(walk.currentNode);
  return texts.flatMap((text) => [...text.data.matchAll(/[^\\s/_-]+/g)].filter((word) => {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return new Set([...range.getClientRects()].map((one) => one.top)).size > 1;
  }).map((word) => word[0]));
})"""


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_opens_silently_and_fits_a_phone(browser_page, pages, kind) -> None:
    page, log = browser_page
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(pages[kind].as_uri())
    assert log.errors == []
    assert [url for url in log.requests if not url.startswith("data:")] == [pages[kind].as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.locator("#viewer").is_visible()
    assert page.evaluate(BROKEN) == [], "a name is broken after a sign, not inside a word"


@pytest.mark.browser
def test_a_photo_is_shown_once_and_without_a_filmstrip(browser_page, pages) -> None:
    page, _ = browser_page
    page.goto(pages["photos"].as_uri())
    for hidden in (".transport", ".reel", "#shot-now"):
        assert not page.locator(hidden).is_visible()
    assert page.locator("#shot-anchor").is_visible()
    assert page.locator("#f-status option").all_text_contents()[0] == "wrong"
    page.select_option("#f-status", "holds")
    assert "images in this gallery" in page.locator("#count").text_content()
    assert page.locator("#cards .card").first.locator("img").count() == 1


@pytest.mark.browser
def test_variants_can_be_picked(browser_page, pages) -> None:
    page, _ = browser_page
    page.goto(pages["corruption"].as_uri())
    page.select_option("#f-status", "")
    before = page.locator("#cards .card").count()
    page.select_option("#f-variant", "shot_noise")
    assert 0 < page.locator("#cards .card").count() < before
    assert "shot_noise" in page.locator("#v-where").text_content()
    assert page.locator("#v-strip button").count() == 6
    assert "severity 5" in page.locator("#v-strip").text_content()


# -- inspect -----------------------------------------------------------------------------------------------------


def test_inspect_says_what_the_sources_are(tmp_path) -> None:
    folder.write(made.photos(5), tmp_path / "photos")
    text = "\n".join(lines(inspect(tmp_path / "photos")))
    assert "  5 photos\n" in text
    assert "every image is its own set" in text
    assert "offsets" not in text
    folder.write(made.study("attack", n=6), tmp_path / "attack")
    facts = inspect(tmp_path / "attack")
    text = "\n".join(lines(facts))
    assert "6 photos, 24 sets" in text
    assert re.search(r"linf/robust: epsilon .* of 1, against robust; ", text)
    assert facts["kinds"] == {"photo": 6}
    assert np.sum([list(one["sets"].values()) for one in facts["variants"] if one["variant"] == "l2/robust"]) == 6
