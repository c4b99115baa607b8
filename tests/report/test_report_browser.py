"""The report in a real browser: silent, offline, filters that filter, filmstrips that play, tables that sort."""

import json
from dataclasses import replace

import numpy as np
import pytest
from made_results import scored

from strobe.core.answers import ClassAnswers
from strobe.core.estimate import Missing
from strobe.report.page import ReportOptions, write_report

pytestmark = pytest.mark.browser


def until(page, expression):
    """Wait for it by asking again: the page's own policy forbids what `wait_for_function` does where it must wait."""
    for _ in range(3000):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"never came true: {expression}")


@pytest.fixture(scope="module")
def address(painted, tmp_path_factory):
    dataset, predictions, results, source = painted
    return write_report(tmp_path_factory.mktemp("browser"), results, dataset, predictions, source).as_uri()


@pytest.fixture
def opened(browser_page, address):
    page, log = browser_page
    page.goto(address)
    yield page
    assert log.errors == []
    assert {url.partition("#")[0] for url in log.requests if not url.startswith("data:")} == {address}


def gallery_of(page):
    return json.loads(page.locator("#gallery-data").text_content())


def cards(page):
    return page.locator("#cards .card")


def test_opens_silently_and_asks_for_nothing(opened):
    assert opened.title().startswith("painted-clips")
    assert opened.locator("#viewer").is_visible()
    assert opened.locator(".drawing.wide svg").count() > 8


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
    assert cards(opened).count() == len(expected)
    assert expected[0] in opened.locator("#v-where").text_content()
    opened.select_option("#f-while", "*")
    wider = [
        one
        for one in data["sets"]
        if one["m"][1]["s"] == "breaks" and any(m["s"] == "holds" for i, m in enumerate(one["m"]) if i != 1)
    ]
    assert cards(opened).count() == len(wider)
    opened.click("#f-reset")
    until(opened, "document.querySelector('#f-model').value === ''")
    any_break = sum(any(m["s"] == "breaks" for m in one["m"]) for one in data["sets"])
    assert cards(opened).count() == any_break


def test_what_changed_between_two_models_is_a_filter_with_pictures(painted, browser_page, tmp_path):
    dataset, predictions, results, source = painted
    before, after = "jitter-net</script>", "steady-net"
    page, log = browser_page
    page.goto(
        write_report(tmp_path, results, dataset, predictions, source, ReportOptions(change=(before, after))).as_uri()
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
    assert f"first those newly broken and newly held from {before} to {after}, then every model and class" in intro
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
    page.goto(write_report(tmp_path, results, dataset, predictions, source, ReportOptions(raw_names=own)).as_uri())
    first = gallery_of(page)["sets"][0]
    broken = next(one for one in first["m"] if one["s"] == "breaks")
    card = cards(page).first.text_content()
    assert "its own word" not in card
    assert gallery_of(page)["classes"][broken["l"][broken["b"]]] in card
    assert (
        "best of all its own classes, not only these 4: its own word"
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
    opened.evaluate("() => { const { set } = shown.list[1]; set.m[2].r[set.m[2].r.indexOf(true)] = null; }")
    cards(opened).nth(1).click()
    assert tab.text_content() == f"wrong at {where}"


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
    until(opened, "document.querySelector('#count').textContent.includes('nowhere is not in this gallery')")


def test_the_papers_points_say_their_name_on_pointing_and_on_a_tap(opened, chromium, address):
    dots = opened.locator("#fig-trend .drawing.wide .named")
    assert dots.count() == 50
    assert opened.locator(".named title").count() == 0, "one bubble is enough"
    dots.nth(7).hover(force=True)
    assert "acc_orig" in opened.locator(".tip").text_content()
    assert "papers" in opened.locator(".tip").text_content()
    opened.locator("h1").hover()
    assert not opened.locator(".tip").is_visible()
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.goto(address)
    page.locator("#fig-trend .drawing.narrow .named").nth(7).tap(force=True)
    tip = page.wait_for_selector(".tip").bounding_box()
    assert tip["x"] >= 0
    assert tip["x"] + tip["width"] <= 390
    context.close()


def test_a_figure_is_saved_out_of_the_page(opened):
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with opened.expect_download() as found:
            opened.locator(f"#fig-curve [data-save={kind}]").click()
        assert found.value.suggested_filename == f"curve.{kind}"
        content = found.value.path().read_bytes()
        assert content.startswith(start)
        assert b"var(--" not in content


def test_long_tables_are_folded_and_searched(opened):
    assert opened.locator(".long-bar").count() == 0, "three rows need none"
    opened.evaluate(
        """() => {
            const table = document.querySelector('table.headline'), body = table.tBodies[0];
            for (let i = 0; i < 60; i += 1) {
                const row = body.rows[0].cloneNode(true);
                row.cells[0].textContent = `net ${i}`;
                body.append(row);
            }
            shorten(table);
        }"""
    )
    rows = opened.locator("table.headline tbody tr:visible")
    assert rows.count() == 25
    opened.locator(".long-bar input").fill("net 59")
    assert rows.count() == 1
    opened.locator(".long-bar input").fill("")
    opened.locator(".long-bar button").click()
    assert rows.count() == 63
    opened.locator(".long-bar button").click()
    opened.emulate_media(media="print")
    assert rows.count() == 63, "paper has all"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(chromium, address, axe, boxed, tmp_path, scheme):
    dataset, detections, results, source = boxed
    detectors = write_report(tmp_path, results, dataset, detections, source).as_uri()
    for where in (address, detectors):
        for width in (1280, 390):
            context = chromium.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce"
            )
            page = context.new_page()
            page.goto(where)
            assert axe(page) == [], (where, width)
            context.close()


def test_tables_sort_both_ways_with_missing_last(opened, painted):
    def column(place):
        return opened.locator(f"table.headline tbody tr > *:nth-child({place})").evaluate_all(
            "cells => cells.map(cell => cell.dataset.value ?? cell.textContent.trim())"
        )

    head = opened.locator("table.headline thead th")
    assert head.nth(3).get_attribute("aria-sort") == "descending"
    for click, order in ((1, "descending"), (2, "ascending")):
        head.nth(2).locator("button").click()
        assert head.nth(2).get_attribute("aria-sort") == order, click
        values = [float(value) for value in column(3)]
        assert values == sorted(values, reverse=order == "descending")
    assert head.nth(3).get_attribute("aria-sort") is None
    head.nth(0).locator("button").click()
    names = column(1)
    assert names == sorted(names)
    # A missing number is last whichever way.
    opened.evaluate(
        "document.querySelector('table.headline tbody tr:nth-child(2) > *:nth-child(3)').dataset.value = ''"
    )
    for _ in range(2):
        head.nth(2).locator("button").click()
        assert column(3)[-1] == ""


def test_one_figure_per_model_is_shown_at_a_time(opened):
    pick = opened.locator("select[data-picks='per_class']")
    charts = opened.locator("[data-group='per_class'] > figure")
    for place in range(charts.count()):
        pick.select_option(index=place)
        assert [charts.nth(i).is_visible() for i in range(charts.count())] == [
            i == place for i in range(charts.count())
        ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone_in_light_and_dark(chromium, address, scheme):
    context = chromium.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True)
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".drawing.narrow svg").first.is_visible()
    assert not page.locator(".drawing.wide svg").first.is_visible()
    page.locator("#v-strip button").first.tap()
    until(page, "document.querySelector('#v-seek').value === '0'")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(int(part) for part in paper.removeprefix("rgb(").removesuffix(")").split(",")) > 380
    assert light == (scheme == "light")
    assert errors == []
    context.close()


def test_captions_stay_on_a_phone_and_a_hidden_column_has_no_legend(chromium, address):
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(address)
    captions = page.locator("caption span")
    assert captions.count() >= 2
    for place in range(captions.count()):
        box = captions.nth(place).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    assert not page.locator("table.headline th.visual").first.is_visible()
    assert not page.get_by_text("Round blue").first.is_visible()
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.get_by_text("Round blue").first.is_visible()
    context.close()


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


def test_text_has_contrast_in_light_and_dark(chromium, address):
    """WCAG AA (4.5) for the page's text colours on its papers, computed from what the browser uses."""

    def luminance(colour):
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for scheme in ("light", "dark"):
        context = chromium.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(address)
        colour = {
            name: page.evaluate(
                """(name) => { const probe = document.createElement('i'); probe.style.color = `var(--${name})`;
                document.body.append(probe); return getComputedStyle(probe).color; }""",
                name,
            )
            for name in ("ink", "muted", "right", "wrong", "paper", "card", *(f"s{i}" for i in range(1, 9)))
        }
        for paper in ("paper", "card"):
            for name in ("ink", "muted", "right", "wrong", *(f"s{i}" for i in range(1, 9))):
                low, high = sorted((luminance(colour[name]), luminance(colour[paper])))
                least = 4.5 if name in ("ink", "muted", "right", "wrong") else 3.0
                assert (high + 0.05) / (low + 0.05) >= least, (scheme, name, paper)
        context.close()


def test_everything_that_can_be_used_has_a_name(opened):
    nameless = opened.evaluate(
        """() => [...document.querySelectorAll('button, select, input, a, [role=img], [role=region], [role=group]')]
            .filter((node) => !(node.textContent.trim() || node.getAttribute('aria-label') || node.labels?.length))
            .map((node) => node.outerHTML.slice(0, 80))"""
    )
    assert nameless == []
    assert opened.evaluate("[...document.images].every((image) => image.hasAttribute('alt'))")


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_prints_with_nothing_cut(opened, paper, tmp_path):
    """At the width of the paper nothing is wider than it, nothing scrolls and every figure is there."""
    opened.set_viewport_size({"width": 688 if paper == "A4" else 710, "height": 900})
    opened.emulate_media(media="print")
    charts = opened.locator("figure.chart")
    assert all(charts.nth(i).is_visible() for i in range(charts.count()))
    assert not opened.locator(".filters").is_visible()
    assert opened.locator(".drawing.wide").first.is_visible()
    wide = opened.evaluate(
        """() => [...document.querySelectorAll('main *')].filter((node) => {
            const box = node.getBoundingClientRect();
            return box.width && !node.closest('.visually-hidden') && (box.right > innerWidth + 1 || box.left < -1);
        }).map((node) => node.outerHTML.slice(0, 90))"""
    )
    assert wide == []
    scrolls = opened.evaluate(
        """() => [...document.querySelectorAll('.scroll, .reel, pre')].filter((node) => node.offsetParent &&
            ['auto', 'scroll'].includes(getComputedStyle(node).overflowX)).length"""
    )
    assert scrolls == 0
    opened.pdf(path=tmp_path / "page.pdf", format=paper)
    assert (tmp_path / "page.pdf").stat().st_size > 50_000
