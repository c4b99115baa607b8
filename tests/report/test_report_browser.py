"""The report in a real browser: silent, offline, filters that filter, filmstrips that play, tables that sort."""

import pytest
from made_page import until

from strobe.report.page import write_report

pytestmark = pytest.mark.browser


def test_opens_silently_and_asks_for_nothing(opened):
    assert opened.title().startswith("painted-clips")
    assert opened.locator("#viewer").is_visible()
    assert opened.locator(".drawing.wide svg").count() > 8


def test_the_papers_points_say_their_name_on_pointing_and_on_a_tap(opened, chromium, address):
    dots = opened.locator("#fig-trend .drawing.wide .named")
    assert dots.count() == 50
    assert opened.locator(".named title").count() == 0, "one bubble is enough"
    dots.nth(7).hover(force=True)
    assert "acc_orig" in opened.locator(".tip").text_content()
    assert "published" in opened.locator(".tip").text_content()
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


UNFOLD = "for (const one of document.querySelectorAll('details')) one.open = true"


def test_a_figure_is_saved_out_of_the_page(opened):
    opened.evaluate(UNFOLD)
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
    opened.evaluate(UNFOLD)
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
    assert not page.get_by_text("Blue circle").first.is_visible()
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.get_by_text("Blue circle").first.is_visible()
    context.close()


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
    opened.evaluate("window.dispatchEvent(new Event('beforeprint'))")  # a browser that prints opens what is folded
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
