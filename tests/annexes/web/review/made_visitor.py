"""One person's browser window, as tests of the review page use it."""

import time

import pytest

NOTHING_LEFT = "#idle:not([hidden]) #idle-title:not(:text-is('One moment'))"
"""Not while more may be on its way."""


class Visitor:
    """One person's browser window."""

    def __init__(self, chromium, url, name=None, path="/", **context):
        self.url = url
        self.context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **context})
        self.context.set_default_timeout(60_000)
        self.errors = []
        self.trouble = []
        self.under_way = set()
        self.page = self.open(path)
        if name is not None:
            self.log_in(name)

    def open(self, path="/"):
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda m: self.errors.append(m.text) if "Content Security" in m.text else None)
        page.on("response", lambda a: self.trouble.append(f"{a.status} {a.url}") if a.status >= 400 else None)
        page.on("requestfailed", lambda r: self.trouble.append(f"{r.failure} {r.url}"))
        page.on("request", lambda request: self.under_way.add(request))
        page.on("requestfinished", lambda request: self.under_way.discard(request))
        page.on("requestfailed", lambda request: self.under_way.discard(request))
        page.goto(self.url + path)
        return page

    def log_in(self, name):
        self.page.wait_for_selector("#login:not([hidden])")
        self.page.keyboard.type(name)  # the name field has the focus
        self.page.keyboard.press("Enter")
        self.ready()

    def ready(self):
        """Wait until a card is there, its images perhaps not yet, or nothing is left."""
        self.await_page(f"#review:not([hidden]), {NOTHING_LEFT}")
        return self

    @property
    def card(self):
        return self.page.get_attribute("body", "data-shown")

    def shown(self, *, after=None):
        """Wait until a card other than `after` stands there, or nothing is left; whether one stands there."""
        unlike = f':not([data-shown="{after}"])' if after else ""
        self.await_page(f"body[data-shown]{unlike} #review:not([hidden]), {NOTHING_LEFT}")
        return self.page.is_visible("#review")

    def await_page(self, selector):
        """Wait for this on the page; where it does not come, say what stands there instead."""
        from playwright.sync_api import TimeoutError as TooLate

        try:
            self.page.wait_for_selector(selector)
        except TooLate:
            state = """() => JSON.stringify({ shown: document.body.dataset.shown,
                dialog: document.querySelector("dialog[open]")?.id, focus: document.activeElement.id,
                open: ["login", "idle", "review", "alert"].filter((name) => !document.getElementById(name).hidden),
                alert: document.getElementById("alert-text").textContent,
                saved: document.getElementById("saved").textContent,
                panes: document.getElementById("panes")?.className })"""
            pytest.fail(f"{selector} did not come; the page: {self.page.evaluate(state)}; refused: {self.trouble}")

    def decide(self, key="s"):
        """Press the key once a card stands there and wait for the next; whether there is one."""
        if not self.shown():
            return False
        before = self.card
        self.page.keyboard.press(key)
        return self.shown(after=before)

    def decide_up_to(self, words, key="s"):
        """Decide card after card until the question has these words, or nothing is left; whether it came."""
        while self.shown():
            if words in self.page.inner_text("#question"):
                return True
            self.decide(key)
        return False

    def until(self, true):
        """Wait until `true()`, asked again and again of the page."""
        deadline = time.monotonic() + 60
        while not true():
            assert time.monotonic() < deadline, "it never came"
            self.page.wait_for_timeout(20)

    def quiet(self):
        """Wait until the page has all it asked for: the cards that come next, and their images."""
        still, deadline = 0, time.monotonic() + 60
        while still < 3:
            assert time.monotonic() < deadline, f"still under way: {[one.url for one in self.under_way]}"
            self.page.wait_for_timeout(100)
            self.page.evaluate("() => new Promise((done) => setTimeout(done, 0))")  # what came is taken in
            still = 0 if self.under_way else still + 1
        return self

    def transform(self, pane):
        """How a pane is zoomed and moved."""
        return self.page.evaluate(f"() => document.querySelector('#{pane} .zoom').style.transform")

    def saved(self):
        """Wait until the page says that everything is saved."""
        self.await_page("#saved.saved")
        return self

    def close(self):
        self.context.close()
        assert self.errors == []


def finish(*visitors, act=Visitor.decide):
    """Decide all that comes, each card by `act(visitor)`, until every page says that all is done and saved."""
    deadline = time.monotonic() + 120
    while True:
        for visitor in visitors:
            while visitor.shown():
                act(visitor)
        for visitor in visitors:  # others may have left something to do meanwhile: asked now, not in three seconds
            visitor.page.evaluate("() => { window.dispatchEvent(new Event('online')); }")
            visitor.quiet()
        stand = [visitor.page.is_visible("#idle") and visitor.page.inner_text("#idle-title") for visitor in visitors]
        if all(title in ("All done", "All done for you") for title in stand):
            break
        assert time.monotonic() < deadline, stand
    for visitor in visitors:
        visitor.saved()
