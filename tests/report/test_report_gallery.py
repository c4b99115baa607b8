"""The report's gallery in a real browser: filters that filter, filmstrips that play, keys, links that last."""

import json
from dataclasses import replace

import numpy as np
import pytest
from made_page import until
from made_results import scored

from strobe.core.answers import ClassAnswers
from strobe.core.estimate import Missing
from strobe.report.page import PageOptions, write_report

pytestmark = pytest.mark.browser


def gallery_of(page):
    return json.loads(page.locator("#gallery-data").text_content())


def cards(page):
    return page.locator("#cards .card")


@pytest.mark.parametrize("status", ["breaks", "wrong", "holds"])
def test_filters_by_model_and_what_it_does(opened, status):
    data = gallery_of(opened)
    for place, name in enumerate(data["models"]):
        opened.select_option("#f-model", str(place))
        opened.select_option("#f-status", status)
        expected = sum(one["m"][place]["s"] == status for one in data["sets"])
        assert cards(opened).count() == expected
        assert opened.locator("#viewer").is_visible() == (expected > 0)
        assert str(data["counts"][place][status]) in opened.locator("#count").text_content()
        assert name in opened.locator("#count").text_content()


def test_filters_by_class(opened):
    data = gallery_of(opened)
    opened.select_option("#f-status", "")
    for place, name in enumerate(data["classes"]):
        opened.select_option("#f-class", str(place))
        assert cards(opened).count() == sum(place in one["y"] for one in data["sets"])
        assert opened.locator("#v-title").text_content() == name


def test_which_model_is_right_where_another_is_wrong(opened):
    data = gallery_of(opened)
    opened.select_option("#f-model", "1")
    opened.select_option("#f-while", "0")
    expected = [one["id"] for one in data["sets"] if one["m"][1]["s"] == "breaks" and one["m"][0]["s"] == "holds"]
    assert 0 < len(expected) < len(data["sets"])
    until(opened, f"document.querySelectorAll('#cards .card').length === {len(expected)}")
    assert expected[0] in opened.locator("#v-where").text_content()
    opened.select_option("#f-while", "*")
    wider = [
        one
        for one in data["sets"]
        if one["m"][1]["s"] == "breaks" and any(m["s"] == "holds" for i, m in enumerate(one["m"]) if i != 1)
    ]
    until(opened, f"document.querySelectorAll('#cards .card').length === {len(wider)}")
    opened.click("#f-reset")
    until(opened, "document.querySelector('#f-model').value === ''")
    any_break = sum(any(m["s"] == "breaks" for m in one["m"]) for one in data["sets"])
    until(opened, f"document.querySelectorAll('#cards .card').length === {any_break}")


def test_what_changed_between_two_models_is_a_filter_with_pictures(painted, browser_page, tmp_path):
    dataset, predictions, results, source = painted
    before, after = "jitter-net</script>", "steady-net"
    page, log = browser_page
    page.goto(
        write_report(tmp_path, results, dataset, predictions, source, PageOptions(change=(before, after))).as_uri()
    )
    data = gallery_of(page)
    i, j = data["change"]
    assert [data["models"][i], data["models"][j]] == [before, after]
    # It opens with what changed in view, told by the model that fails there.
    assert cards(page).count() == len(data["sets"])
    first = data["sets"][0]["m"]
    assert [first[i]["s"], first[j]["s"]].count("holds") == 1
    assert data["models"][i if first[j]["s"] == "holds" else j] in cards(page).first.text_content()
    intro = page.locator("#flickers .intro").text_content()
    assert f"first those newly broken or newly held from {before} to {after}, then every model and class" in intro
    counts = {}
    for word, holds, fails in (("broken", i, j), ("held", j, i)):
        page.select_option("#f-change", word)
        expected = [
            one["id"] for one in data["sets"] if one["m"][holds]["s"] == "holds" != one["m"][fails]["s"]
            and one["m"][fails]["s"] != "unscored"
        ]  # fmt: skip
        assert cards(page).count() == len(expected)
        counts[word] = len(expected)
        assert page.locator("#f-status").input_value() == ""
    whole = next(one for one in results.comparison if {one.a, one.b} == {before, after} and one.metric == "acc_pmk")
    names = {"broken": whole.sets_only_b, "held": whole.sets_only_a}
    if whole.a == before:
        names = {"broken": whole.sets_only_a, "held": whole.sets_only_b}
    assert counts["held"] > 0
    link = page.locator("a[data-change=held]").first
    assert link.text_content() in (names["held"] or ())
    page.select_option("#f-change", "")
    link.click()
    assert page.locator("#f-change").input_value() == "held"
    assert link.text_content() in page.locator("#v-where").text_content()
    assert "newly held" in page.locator("#fig-before_after .finding").text_content()
    assert log.errors == []


def test_a_card_names_the_class_that_was_judged_and_not_the_models_own(painted, browser_page, tmp_path):
    dataset, predictions, results, source = painted
    own = {name: ["its own word"] * len(dataset.frames) for name in predictions}
    page, _ = browser_page
    page.goto(write_report(tmp_path, results, dataset, predictions, source, PageOptions(raw_names=own)).as_uri())
    first = gallery_of(page)["sets"][0]
    broken = next(one for one in first["m"] if one["s"] == "breaks")
    card = cards(page).first.text_content()
    assert "its own word" not in card
    assert gallery_of(page)["classes"][broken["l"][broken["b"]]] in card
    assert (
        "best of all its classes, not only the 4 here: its own word"
        in page.locator("#shot-now figcaption").text_content()
    )


def test_a_card_opens_its_set_with_the_frame_that_broke_it(opened):
    data = gallery_of(opened)
    opened.select_option("#f-model", "2")
    matching = [one for one in data["sets"] if one["m"][2]["s"] == "breaks"]
    cards(opened).nth(1).click()
    one = matching[1]
    said = one["m"][2]
    now = opened.locator("#shot-now")
    assert one["id"] in opened.locator("#v-where").text_content()
    assert data["classes"][said["l"][said["b"]]] in now.locator("figcaption").text_content()
    assert "✕ wrong" in now.locator("figcaption").text_content()
    assert f"{round(100 * said['c'][said['b']])} %" in now.locator("figcaption").text_content()
    assert "✓ right" in opened.locator("#shot-anchor figcaption").text_content()
    assert now.locator("img").get_attribute("src") == data["pictures"][one["f"][said["b"]]["i"]]
    strip = opened.locator("#v-strip button")
    assert strip.count() == len(one["f"])
    marks = [strip.nth(i).locator("b").text_content() for i in range(strip.count())]
    assert marks == ["✓" if right else "✕" for right in said["r"]]
    assert opened.locator("#v-trace .ok").count() == sum(said["r"])
    assert opened.locator("#v-trace .no").count() == len(said["r"]) - sum(said["r"])
    tab = opened.locator("#v-models button").nth(2).locator(".state")
    where = tab.text_content().removeprefix("breaks at ")
    assert where == f"{one['f'][said['b']]['d']:+d}".replace("-", "−")
    # Of a model that was stopped early not every frame is known: it may have broken before.
    first, second = [place for place, right in enumerate(said["r"]) if right and place != one["a"]][:2]
    opened.evaluate(
        """([first, second]) => {
            const view = shown.list[1].set.m[2];
            view.r[first] = view.r[second] = null;
            view.q = [second];
        }""",
        [first, second],
    )
    cards(opened).nth(1).click()
    assert tab.text_content() == f"wrong at {where}"
    for place, sign, says in ((first, "?", "no answer"), (second, "–", "not asked")):
        strip.nth(place).click()
        assert strip.nth(place).locator("b").text_content() == sign
        assert now.locator(".verdict").text_content() == f"{sign} {says}"
    assert "× wrong, ? no answer, – not asked" in opened.locator("#v-says").text_content()


def test_the_filmstrip_plays_pauses_and_loops(opened):
    opened.select_option("#v-speed", "10")
    opened.click("#v-play")
    assert opened.locator("#v-play").get_attribute("aria-pressed") == "true"
    seen = opened.evaluate(
        """() => new Promise((done) => {
            const seen = new Set();
            const end = Date.now() + 60000;
            const look = () => {
                seen.add(document.querySelector('#v-seek').value);
                const all = Number(document.querySelector('#v-seek').max) + 1;
                if (seen.size === all || Date.now() > end) done(seen.size);
                else setTimeout(look, 20);
            };
            look();
        })"""
    )
    assert seen == opened.locator("#v-strip button").count()
    opened.click("#v-play")
    assert opened.locator("#v-play").get_attribute("aria-pressed") == "false"
    still = opened.locator("#v-seek").input_value()
    opened.wait_for_timeout(300)
    assert opened.locator("#v-seek").input_value() == still


def test_everything_by_keyboard(opened):
    cards(opened).first.focus()
    opened.keyboard.press("Enter")
    data = gallery_of(opened)
    first = opened.locator("#v-where").text_content()
    opened.keyboard.press("a")
    assert "anchor" in opened.locator("#shot-now .badge").text_content()
    before = int(opened.locator("#v-seek").input_value())
    opened.keyboard.press("ArrowRight")
    assert int(opened.locator("#v-seek").input_value()) == before + 1
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.press("ArrowLeft")
    assert int(opened.locator("#v-seek").input_value()) == before - 1
    opened.keyboard.press("f")
    assert "✕ wrong" in opened.locator("#shot-now figcaption").text_content()
    opened.keyboard.press("n")
    assert opened.locator("#v-where").text_content() != first
    opened.keyboard.press("p")
    assert opened.locator("#v-where").text_content() == first
    opened.keyboard.press("Space")
    assert opened.locator("#v-play").get_attribute("aria-pressed") == "true"
    opened.keyboard.press("Space")
    assert opened.locator("#v-play").get_attribute("aria-pressed") == "false"
    # Another model's word on the same set, from its tab; keys go on working from there.
    opened.locator("#v-models button").nth(1).focus()
    opened.keyboard.press("Enter")
    assert opened.locator("#v-models button").nth(1).get_attribute("aria-pressed") == "true"
    opened.keyboard.press("n")
    opened.keyboard.press("p")
    assert opened.locator("#v-where").text_content() == first
    assert len(data["models"]) == opened.locator("#v-models button").count()


def test_keys_work_without_a_click_and_leave_fields_alone(opened):
    first = opened.locator("#v-where").text_content()
    opened.keyboard.press("ArrowRight")  # the viewer is not on the screen yet: nothing to see, nothing done
    place = opened.locator("#v-seek").input_value()
    opened.keyboard.press("n")
    assert opened.locator("#v-where").text_content() != first
    until(opened, "document.querySelector('#viewer').getBoundingClientRect().top < innerHeight - 80")
    opened.keyboard.press("p")
    assert opened.locator("#v-seek").input_value() == place
    opened.keyboard.press("a")
    assert "anchor" in opened.locator("#shot-now .badge").text_content()
    opened.keyboard.press("Space")
    assert opened.locator("#v-play").get_attribute("aria-pressed") == "true"
    opened.keyboard.press("Space")
    for field in ("#f-model", "#v-seek"):
        opened.locator(field).focus()
        opened.keyboard.press("n")
    assert opened.locator("#v-where").text_content() == first


def test_every_set_has_a_link_that_lasts_while_filtering(opened, address):
    data = gallery_of(opened)
    held = next(one for one in data["sets"] if all(m["s"] == "holds" for m in one["m"]))
    assert opened.url == address, "nobody asked for a set yet"
    opened.evaluate("(id) => { location.hash = `#set=${encodeURIComponent(id)}`; }", held["id"])
    until(opened, f"document.querySelector('#v-where').textContent.includes({json.dumps(held['id'])})")
    assert opened.locator("#f-status").input_value() == "", "a filter that hides what was asked for is cleared"
    opened.select_option("#f-status", "holds")
    opened.select_option("#f-class", str(held["y"][0]))
    assert held["id"] in opened.locator("#v-where").text_content()
    assert opened.locator("#v-link").get_attribute("href") == opened.evaluate("location.hash")
    opened.reload()
    assert held["id"] in opened.locator("#v-where").text_content()
    opened.select_option("#f-status", "breaks")
    now = opened.evaluate("decodeURIComponent(location.hash)")
    assert now != f"#set={held['id']}"
    assert now.removeprefix("#set=") in opened.locator("#v-where").text_content()
    opened.evaluate("location.hash = '#set=nowhere'")
    until(opened, "document.querySelector('#count').textContent.includes('nowhere is not among the')")


def test_a_gallery_without_flickers_opens_with_sets(browser_page, painted, tmp_path):
    dataset, _, results, source = painted
    truth = np.zeros(len(dataset.frames), dtype=int)
    truth[dataset.labels.frame] = dataset.labels.label
    models = {"m": ClassAnswers.from_labels("m", np.where(truth < 2, truth, 0))}
    found = replace(results, models={"m": scored()}, comparison=(), trend=Missing("none"))
    page, log = browser_page
    page.goto(write_report(tmp_path, found, dataset, models, source).as_uri())
    assert page.locator("#viewer").is_visible()
    assert page.locator("#f-status").input_value() == "wrong"
    assert cards(page).count() == 6
    page.select_option("#f-status", "holds")
    assert cards(page).count() == 6
    assert not page.locator("#f-while").is_visible()  # there is no other model
    assert log.errors == []
