"""The review page for everyone: it fits every screen, works by touch, and axe-core finds nothing serious."""

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}


@pytest.mark.parametrize(
    ("width", "height", "touch"),
    [
        (1280, 800, False),
        (1024, 600, False),
        (820, 700, False),
        (1920, 1080, False),
        (390, 780, True),
        (780, 390, True),
        (360, 640, True),
    ],
)
def test_the_pair_and_every_choice_fit_the_screen(small, run_server, visit, width, height, touch):
    server = run_server(small)
    context = {"viewport": {"width": width, "height": height}, "has_touch": touch, "is_mobile": touch}
    ann = visit(server.url, "Ann", **context)
    ann.shown()
    for in_place in (False, True):
        if in_place:
            ann.page.locator("[data-action=view]").tap() if touch else ann.page.keyboard.press("v")
            ann.await_page("#panes.flicker")
        for choice in ann.page.locator("#decide button:visible, #extra button:visible, #view-button").all():
            box = choice.bounding_box()
            assert box["x"] >= 0
            assert box["y"] >= 0
            assert box["x"] + box["width"] <= width + 0.5
            assert box["y"] + box["height"] <= height + 0.5
            assert not touch or box["height"] >= 36, "large enough for a finger"
        picture = ann.page.locator("#pane-b img").bounding_box()
        assert picture["width"] * picture["height"] > width * height * (0.08 if touch else 0.13), "the pair is large"
        assert picture["width"] / picture["height"] == pytest.approx(320 / 200, rel=0.02), "and not distorted"
        assert ann.page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_touch_flips_in_place_and_pinch_zooms_both(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann", **PHONE)
    ann.shown()
    page = ann.page
    page.tap("#view-button")
    page.wait_for_selector("#pane-a", state="hidden")
    assert page.is_visible("#pane-b")
    page.tap("#pane-b .frame")
    page.wait_for_selector("#pane-b", state="hidden")
    assert page.is_visible("#pane-a")
    page.tap("#pane-a .frame")
    page.wait_for_selector("#pane-a", state="hidden")
    page.tap("#view-button")
    page.wait_for_selector("#pane-a")
    box = page.locator("#pane-a .frame").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = ann.context.new_cdp_session(page)

    def touch(kind, *points):
        points = [{"x": px, "y": py, "id": place} for place, (px, py) in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", (x - 20, y), (x + 20, y))
    for apart in (30, 45, 60):
        touch("touchMove", (x - apart, y), (x + apart, y))
    touch("touchEnd")
    ann.until(lambda: "scale(1)" not in ann.transform("pane-a"))
    assert ann.transform("pane-a") == ann.transform("pane-b")


@pytest.mark.parametrize("context", [{}, PHONE, {"color_scheme": "light"}], ids=["desktop", "phone", "light"])
def test_axe_finds_no_serious_violation(small, run_server, visit, axe, context):
    server = run_server(small, labels=True)
    ann = visit(server.url, **context)
    ann.page.wait_for_selector("#login:not([hidden])")
    assert axe(ann.page) == []
    ann.page.fill("#name", "Ann")
    ann.page.press("#name", "Enter")
    ann.ready().shown()
    assert axe(ann.page) == [], "label stage"
    while ann.page.is_visible("#label-panel"):
        ann.decide()
    assert axe(ann.page) == [], "pairs"
    ann.page.keyboard.press("v")
    ann.page.keyboard.press("x")
    assert axe(ann.page) == [], "flicker and difference"
    ann.decide("u")
    ann.page.keyboard.press("z")
    ann.await_page("body[data-shown] #past:not([hidden])")
    assert axe(ann.page) == [], "undo"
    for key, dialog in (("?", "#keys"), ("b", "#confirm")):
        ann.page.keyboard.press(key)
        ann.page.wait_for_selector(f"{dialog}[open]")
        assert axe(ann.page) == [], dialog
        ann.page.keyboard.press("Escape")
        ann.page.wait_for_selector(dialog, state="hidden")
    ann.page.click("#person-button")
    assert axe(ann.page) == [], "person"
    ann.page.keyboard.press("Escape")
    ann.page.goto(server.url + "/admin")
    ann.page.wait_for_selector("#people td")
    assert axe(ann.page) == [], "admin"


def test_everything_has_a_name_and_the_focus_goes_through_all_of_it(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    page = ann.page
    visible = page.evaluate(
        """() => [...document.querySelectorAll("button, input, a[href]")]
        .filter(e => e.checkVisibility() && !e.closest("dialog")).map(e => e.id || e.dataset.action || e.className)"""
    )
    page.evaluate("() => document.activeElement.blur()")
    reached = []
    for _ in range(len(visible) + 2):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("() => { const e = document.activeElement; return e.id || e.dataset.action || e.className; }")
        )
    assert set(visible) <= set(reached)
    order = [name for name in dict.fromkeys(reached) if name in visible]
    first = order.index(visible[0])
    assert order[first:] + order[:first] == visible, "the focus follows the order on the page"


def test_help_is_there_for_fingers(small, run_server, visit):
    page = visit(run_server(small).url, "Ann", **PHONE).page
    page.tap("#keys-button")
    page.get_by_text("Pinch to zoom both frames together.").wait_for()
    assert not page.is_visible("#key-list"), "a phone has no keys to list"
    assert not page.is_visible("#keys-reset")
    page.tap("#keys-close")
