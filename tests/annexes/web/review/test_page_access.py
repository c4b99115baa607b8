"""The review page for everyone: it fits every screen, works by touch, and axe-core finds nothing serious."""

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}


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
