"""Every question in a real browser: it fits every screen, and axe-core finds nothing serious in any of its states."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strobe.annexes.web.review.conduct import Example

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SCREENS: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1024, "height": 600}},
    "light": {"viewport": {"width": 1920, "height": 1080}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True},
    "small phone": {"viewport": {"width": 360, "height": 640}, "has_touch": True, "is_mobile": True},
    "sideways": {"viewport": {"width": 780, "height": 390}, "has_touch": True, "is_mobile": True},
}
LOW = ("a pair", "in place", "an image", "a box", "search")
"""The states that fit a phone held sideways; in others one scrolls."""
CHOICES = "#decide button:visible, #extra button:visible, #tools button:visible, #view-button:visible, #search:visible"


def pairs(ann: Any) -> Iterator[str]:
    page = ann.page
    while page.is_visible("#label-panel"):
        yield "labels"
        while page.is_visible("#label-panel"):
            ann.decide()
    yield "a pair"
    page.locator("[data-action=view]").click()
    ann.await_page("#panes.flicker")
    yield "in place"
    page.keyboard.press("x")
    ann.decide("u")
    page.keyboard.press("z")
    ann.await_page("body[data-shown] #past:not([hidden])")
    yield "undo"


def sets(ann: Any) -> Iterator[str]:
    page = ann.page
    page.click("[data-action=similar]")
    yield "feedback"
    before = ann.card
    page.click("#go-on")
    ann.shown(after=before)
    page.click("#film li:nth-child(2) button")
    page.click("[data-action=blur]")
    yield "a set with a mark"


def name(ann: Any) -> Iterator[str]:
    page = ann.page
    yield "practice"
    page.click("[data-action=none]")
    ann.await_page("#feedback:not([hidden])")
    yield "what is right"
    page.click("#go-on")
    ann.await_page("#question:text-is('What is this?')")
    page.fill("#search", "a")
    yield "search"
    ann.await_page("#mask:not([hidden])")
    yield "time is up"


def box(ann: Any) -> Iterator[str]:
    yield "an image"
    for key in ("ArrowRight", "ArrowRight", "r"):
        ann.page.keyboard.press(key)
    yield "a box"
    ann.decide("Enter")
    ann.page.keyboard.press("z")
    ann.await_page("body[data-shown] #past:not([hidden])")
    yield "undo"


EXAMPLE = Example(set_id="set0", frame_id="vid0:1", decision="similar", note="A small shift.")
QUESTIONS: dict[str, tuple[Callable[[Any], Iterator[str]], dict[str, Any]]] = {
    "pairs": (pairs, {"labels": True}),
    "sets": (sets, {"at_once": "set", "guidelines": "# What is *the same*", "examples": (EXAMPLE,), "goal": 40}),
    "name": (name, {"ask": "name", "practice": 1, "limit_s": 3.0}),
    "box": (box, {"ask": "box"}),
}


def fits(page: Any, what: str, *, touch: bool) -> None:
    """Every choice is on the screen and large enough; the image is large and not distorted."""
    width, height = page.viewport_size["width"], page.viewport_size["height"]
    for choice in page.locator(CHOICES).all():
        frame = choice.bounding_box()
        assert min(frame["x"], frame["y"]) >= 0, what
        assert frame["x"] + frame["width"] <= width + 0.5, what
        assert frame["y"] + frame["height"] <= height + 0.5, (what, choice.inner_text())
        assert not touch or frame["height"] >= 36, f"{what}: large enough for a finger"
    for picture in page.locator("#pane-b img:visible, #pad img:visible").all():
        frame = picture.bounding_box()
        least = 0.02 if page.is_visible("#film") else 0.05 if touch else 0.09
        assert frame["width"] * frame["height"] > width * height * least, f"{what}: it is large"
        assert frame["width"] / frame["height"] == pytest.approx(320 / 200, rel=0.02), f"{what}: and not distorted"
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width, what


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_fits_every_screen_and_axe_finds_nothing(
    question: str, screen: str, helpers: Any, tmp_path: Any, run_server: Any, visit: Any, axe: Any
) -> None:
    states, settings = QUESTIONS[question]
    data = helpers.make_dataset(tmp_path / "data", n_sets=4, k=10 if question == "sets" else 1)
    server = run_server(data, **settings)
    ann, touch = visit(server.url, **SCREENS[screen]), "has_touch" in SCREENS[screen]
    seen = screen not in ("small phone", "sideways")  # by axe, too
    ann.page.wait_for_selector("#login:not([hidden])")
    assert not seen or axe(ann.page) == [], "log-in"
    ann.log_in("Ann")
    if question == "sets":
        ann.await_page("#guide[open]")
        assert not seen or axe(ann.page) == [], "guidelines"
        ann.page.click("#guide-close")
    ann.shown()
    for state in states(ann):
        if screen != "sideways" or state in LOW:
            fits(ann.page, state, touch=touch)
        assert not seen or axe(ann.page) == [], state
    if not seen:
        return
    for key, dialog in (("?", "#keys"), ("b", "#confirm")) if question == "pairs" else ():
        ann.page.keyboard.press(key)
        ann.page.wait_for_selector(f"{dialog}[open]")
        assert axe(ann.page) == [], dialog
        ann.page.keyboard.press("Escape")
        ann.page.wait_for_selector(dialog, state="hidden")
    ann.page.click("#person-button")
    assert axe(ann.page) == [], "person"
    ann.page.goto(server.url + "/admin")
    ann.page.wait_for_selector("#people td")
    assert axe(ann.page) == [], "admin"
