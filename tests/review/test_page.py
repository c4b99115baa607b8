"""The review page in a real browser: by keyboard alone, by touch, offline, and with the server killed under it."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from playwright import sync_api

from strobe.core.protocol import derive
from strobe.datasets import folder as folders
from strobe.workflows import review

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
SHOWN = "body[data-shown]"


class Visitor:
    """One person's browser window."""

    def __init__(self, chromium, url, name=None, path="/", **context):
        self.url = url
        self.context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **context})
        self.context.set_default_timeout(20_000)
        self.errors = []
        self.page = self.open(path)
        if name is not None:
            self.log_in(name)

    def open(self, path="/"):
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda m: self.errors.append(m.text) if "Content Security" in m.text else None)
        page.goto(self.url + path)
        return page

    def log_in(self, name):
        self.page.wait_for_selector("#login:not([hidden])")
        self.page.keyboard.type(name)  # the name field has the focus
        self.page.keyboard.press("Enter")
        self.ready()

    def ready(self):
        self.page.wait_for_selector("#review:not([hidden]), #idle:not([hidden])")
        return self

    @property
    def card(self):
        return self.page.get_attribute("body", "data-shown")

    def shown(self, *, after=None, timeout=20000):
        """Wait until a pair other than `after` stands there, or nothing is left; whether one stands there."""
        other = f'body[data-shown]:not([data-shown="{after}"]) #review:not([hidden])' if after else f"{SHOWN} #review"
        self.page.wait_for_selector(f"{other}, #idle:not([hidden])", timeout=timeout)
        return self.page.is_visible("#review")

    def decide(self, key="s"):
        """Press the key until the pair is decided: on a busy machine one may fall between two pairs."""
        before = self.card
        for _ in range(4):
            self.page.keyboard.press(key)
            try:
                return self.shown(after=before, timeout=8000)
            except sync_api.TimeoutError:
                assert not self.page.is_visible("dialog[open]")
        return self.shown(after=before)

    def saved(self):
        self.page.wait_for_selector("#saved.saved")
        return self

    def close(self):
        self.context.close()
        assert self.errors == []


@pytest.fixture
def visit(chromium):
    visitors = []

    def come(url, name=None, **context):
        visitors.append(Visitor(chromium, url, name, **context))
        return visitors[-1]

    yield come
    for visitor in visitors:
        visitor.close()


def test_three_annotators_review_a_dataset_to_an_exported_set(helpers, tmp_path, run_server, visit):
    small = helpers.make_dataset(tmp_path / "team", n_sets=5)
    database = f"sqlite:///{small.root / 'review.sqlite'}"
    server = run_server(small, url=database)
    ann, bo, cy = visit(server.url, "Ann"), visit(server.url, "Bo"), visit(server.url, "Cy", **PHONE)
    for number in range(40):
        busy = [v for v in (ann, bo) if v.page.is_visible("#review")]
        for visitor in busy:
            visitor.decide("3" if number == 1 and visitor is ann else "u" if number == 2 and visitor is bo else "s")
        if cy.page.is_visible("#review"):
            before = cy.card
            cy.page.tap("[data-action=background]" if number == 0 else "[data-action=similar]")
            cy.shown(after=before)
        if not busy and not cy.page.is_visible("#review"):
            break
    # Those who were through first are given the others' doubts as soon as they ask again.
    for _ in range(12):
        for visitor in (ann, bo, cy):
            visitor.page.reload()
            visitor.ready()
            while visitor.page.is_visible("#review"):
                visitor.decide()
        time.sleep(0.1)
        if len([v for v in server.store.all() if v.stage == "verify"]) == 9:
            break
    for visitor in (ann, bo, cy):
        visitor.saved()
    votes = list(server.store.all())
    assert len([v for v in votes if v.stage == "pair"]) == 20
    assert sorted(v.decision for v in votes if v.stage == "pair" and v.decision != "similar") == [
        "dissimilar", "dissimilar", "unsure",
    ]  # fmt: skip
    assert len([v for v in votes if v.stage == "verify"]) == 9, "three doubts, seen by three"
    assert len({v.verdict_id for v in votes}) == len(votes)
    assert all(v.seconds is not None and v.page_version for v in votes)
    figures = review.export(small.root)
    assert figures["table"] == {
        "anchors": 5, "anchors_reviewed": 5, "anchors_accepted": 5, "pairs": 20, "pairs_reviewed": 20,
        "pairs_accepted": 20, "pairs_pending": 0,
    }  # fmt: skip
    assert [one["name"] for one in figures["annotators"]] == ["Ann", "Bo", "Cy"]
    data = folders.read(small.root)
    assert data.info.reviewed == "votes"
    assert derive(data).kept.all()


def test_undo_any_number_of_steps_also_after_a_reload(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    cards = []
    for key in ("s", "2", "u", "s", "s"):
        ann.shown()
        cards.append(ann.card)
        ann.decide(key)
    fresh = ann.card
    for card in reversed(cards[2:]):
        ann.page.keyboard.press("z")
        ann.page.wait_for_selector(f'body[data-shown="{card}"]')
    assert "unsure" in ann.page.inner_text("#past")
    ann.page.keyboard.press("s")
    ann.page.wait_for_selector(f'body[data-shown="{fresh}"]')
    ann.saved().page.reload()
    ann.ready()
    ann.page.wait_for_selector(SHOWN)
    # The server lists the latest word first: the corrected one, then the others backwards.
    for card in (cards[2], cards[4], cards[3], cards[1]):
        ann.page.keyboard.press("z")
        ann.page.wait_for_selector(f'body[data-shown="{card}"]')
    assert "dissimilar (background)" in ann.page.inner_text("#past")
    ann.page.keyboard.press("y")
    ann.page.wait_for_selector(f'body[data-shown="{cards[3]}"]')
    assert len(list(server.store.all())) == 6, "keeping a decision adds none"


def test_undo_past_what_one_answer_of_the_server_holds(helpers, tmp_path, run_server, visit):
    server = run_server(helpers.make_dataset(tmp_path / "many", n_sets=6, k=5))
    ann = visit(server.url, "Ann")
    ann.shown()
    cards = []
    for number in range(58):
        if number == 2:
            ann.saved()
            ann.page.reload()
            ann.ready().shown()
        cards.append(ann.card)
        ann.decide()
    for card in reversed(cards):
        ann.page.keyboard.press("z")
        ann.page.wait_for_selector(f'body[data-shown="{card}"]')
    ann.page.keyboard.press("z")
    ann.page.wait_for_selector("#alert:not([hidden])")
    assert "no decision before" in ann.page.inner_text("#alert")


def test_offline_for_a_while_and_a_closed_tab(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.decide()
    ann.saved()
    ann.page.wait_for_load_state("networkidle")
    ann.context.set_offline(True)
    for _ in range(3):
        ann.decide()
    ann.page.wait_for_selector("#saved.offline")
    assert "3 kept in this browser" in ann.page.inner_text("#saved")
    assert len(list(server.store.all())) == 1
    ann.page.close()
    ann.context.set_offline(False)
    ann.page = ann.open()
    ann.ready().saved()
    votes = list(server.store.all())
    assert len(votes) == 4
    assert len({v.frame_id for v in votes}) == 4


def test_back_online_in_the_same_tab(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.page.wait_for_load_state("networkidle")
    ann.context.set_offline(True)
    while ann.decide():
        pass
    ann.page.wait_for_selector("#idle-title:text-is('Offline')")
    assert "kept in this browser" in ann.page.inner_text("#idle-text")
    ann.context.set_offline(False)
    ann.page.wait_for_selector("#review:not([hidden])")
    finish(ann)
    votes = list(server.store.all())
    assert len(votes) == 12
    assert len({v.frame_id for v in votes}) == 12


def finish(*visitors):
    """Decide until nobody has anything left."""
    for _ in range(400):
        busy = [visitor for visitor in visitors if visitor.page.is_visible("#review")]
        for visitor in busy:
            visitor.decide()
        if not busy:
            if all(v.page.inner_text("#idle-title") == "All done" for v in visitors if v.page.is_visible("#idle")):
                break
            visitors[0].page.wait_for_timeout(100)
    for visitor in visitors:
        visitor.saved()


class Process:
    """`strobe review serve` as people run it, to be killed."""

    def __init__(self, root, port=0):
        call = "from strobe.cli.review import command; command()"
        arguments = ["serve", str(root), "--no-open", "--port", str(port), "--controls", "0"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", call, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.url = self.process.stdout.readline().split()[-1]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)
        self.process.stdout.close()


def test_server_killed_in_the_middle_of_a_burst(helpers, tmp_path, visit):
    root = tmp_path / "burst"
    helpers.make_dataset(root, n_sets=5, k=4)
    server = Process(root)
    visitors = [visit(server.url, name) for name in ("Ann", "Bo")]
    acknowledged = []
    for visitor in visitors:

        def keep(answer):
            if answer.url.endswith("/api/decisions") and answer.status == 200:
                acknowledged.append(answer.json()["saved"])

        visitor.page.on("response", keep)
        visitor.shown()
    for _ in range(6):
        for visitor in visitors:
            visitor.page.keyboard.press("s")
    for _ in range(500):
        if acknowledged:
            break
        visitors[0].page.wait_for_timeout(10)
    server.kill()  # -9, while decisions are on their way
    for visitor in visitors:
        visitor.page.keyboard.press("s")
        visitor.page.wait_for_selector("#saved.offline")
    before = list(acknowledged)
    server = Process(root, port=int(server.url.rsplit(":", 1)[1]))
    try:
        finish(*visitors)
    finally:
        server.kill()
    from strobe.review.store import Store

    store = Store(f"sqlite:///{root / 'review.sqlite'}")
    votes = list(store.all())
    store.close()
    ids = [v.verdict_id for v in votes]
    assert before, "some were acknowledged before the kill"
    assert set(before) <= set(acknowledged) <= set(ids), "every acknowledged decision is there"
    assert len(ids) == len(set(ids)), "none twice"
    assert len({(v.set_id, v.frame_id) for v in votes}) == 40
    assert len(votes) == 40, "no pair was given to two people"


def test_the_next_pair_stands_there_in_under_100_ms(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.page.wait_for_load_state("networkidle")
    ann.page.evaluate(
        """() => {
        window.times = [];
        let pressed = 0;
        document.addEventListener("keydown", () => { pressed = performance.now(); }, true);
        new MutationObserver(() => window.times.push(performance.now() - pressed))
            .observe(document.body, { attributes: true, attributeFilter: ["data-shown"] });
        }"""
    )
    for _ in range(4):
        ann.decide()
        ann.page.wait_for_timeout(150)
    times = sorted(ann.page.evaluate("() => window.times"))
    assert len(times) == 4
    assert times[1] < 100, times  # the median of four; the machine may stumble once


def transform(page, pane):
    return page.evaluate(f"() => document.querySelector('#{pane} .zoom').style.transform")


def test_view_zoom_and_difference(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    page = ann.page
    page.keyboard.press("+")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert transform(page, "pane-a") == transform(page, "pane-b") != ""
    assert page.inner_text("#zoom-level") == "225 %"
    box = page.locator("#pane-a .frame").bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 50)
    page.mouse.wheel(0, -200)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 70, steps=3)
    page.mouse.up()
    assert transform(page, "pane-a") == transform(page, "pane-b")
    page.keyboard.press("0")
    assert page.inner_text("#zoom-level") == "100 %"
    page.keyboard.press("x")
    assert page.is_visible("#diff")
    painted = page.evaluate(
        """() => { const c = document.getElementById("diff");
        const pixels = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return pixels.some((value, place) => place % 4 === 0 && value > 200); }"""
    )
    assert painted, "the moved disc lights up"
    page.keyboard.press("x")
    page.keyboard.press("v")
    assert page.is_visible("#pane-b")
    assert not page.is_visible("#pane-a")
    page.keyboard.press("Space")
    assert page.is_visible("#pane-a")
    assert not page.is_visible("#pane-b")
    page.keyboard.press("v")
    assert page.is_visible("#pane-a")
    assert page.is_visible("#pane-b")


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
        for choice in ann.page.locator("#decide button, #extra button:visible, #view-button").all():
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
    assert page.is_visible("#pane-b")
    page.tap("#pane-b .frame")
    assert page.is_visible("#pane-a")
    assert not page.is_visible("#pane-b")
    page.tap("#pane-a .frame")
    page.tap("#view-button")
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
    assert transform(page, "pane-a") == transform(page, "pane-b")
    assert "scale(1)" not in transform(page, "pane-a")


def test_someone_else_in_another_tab_never_gets_my_decisions(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.page.wait_for_load_state("networkidle")
    other = ann.open()
    other.wait_for_selector("#review:not([hidden])")
    other.evaluate(
        """() => fetch("/api/login", { method: "POST", headers: { "content-type": "application/json" },
        body: JSON.stringify({ name: "Bo" }) })"""
    )
    ann.page.keyboard.press("s")
    ann.page.wait_for_selector("#login:not([hidden])")
    assert list(server.store.all()) == []
    ann.page.keyboard.type("Ann")
    ann.page.keyboard.press("Enter")
    ann.saved()
    assert [v.annotator for v in server.store.all()] == ["Ann"]


def test_keys_can_be_changed_and_stay_changed(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    page = ann.page
    page.keyboard.press("?")
    page.click("#key-list li:has-text('Unsure') button")
    page.keyboard.press("s")  # taken by “similar”, which gets U in exchange
    page.keyboard.press("Escape")
    assert page.inner_text("[data-action=unsure] kbd") == "S"
    assert page.inner_text("[data-action=similar] kbd") == "U"
    ann.decide("s")
    ann.saved()
    assert [v.decision for v in server.store.all()] == ["unsure"]
    page.reload()
    ann.ready()
    assert page.inner_text("[data-action=unsure] kbd") == "S"


def test_a_held_key_decides_once(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    before = ann.card
    for _ in range(4):
        ann.page.keyboard.down("s")
    ann.page.keyboard.up("s")
    ann.shown(after=before)
    ann.saved()
    assert len(list(server.store.all())) == 1


def test_wrong_label_note_and_bad_anchor(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    page = ann.page
    page.keyboard.press("w")
    page.keyboard.press("n")
    page.keyboard.type("a <b>note</b>")
    page.keyboard.press("Enter")
    ann.decide("s")
    page.keyboard.press("b")
    assert page.is_visible("#confirm"), "asks once"
    page.keyboard.press("Escape")
    assert not page.is_visible("#confirm")
    before = ann.card
    page.keyboard.press("b")
    page.keyboard.press("b")
    ann.shown(after=before)
    ann.saved()
    first, second = server.store.all()
    assert (first.label_right, first.note, first.bad_anchor) == (False, "a <b>note</b>", False)
    assert second.bad_anchor
    assert second.note == ""
    while page.is_visible("#review") and "Second" not in page.inner_text("#question"):
        ann.decide("s")
    ann.saved()
    dropped = [v for v in server.store.all() if v.set_id == second.set_id and v.stage == "pair"]
    assert len(dropped) < 4, "the rest of the dropped set is not asked"


def test_labels_by_keyboard(small, run_server, visit):
    server = run_server(small, labels=True)
    ann = visit(server.url, "Ann")
    ann.shown()
    page = ann.page
    had = page.inner_text("#chips")
    page.keyboard.press("/")
    page.keyboard.type("pers")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert "person" in page.inner_text("#chips")
    ann.decide("s")
    ann.saved()
    (vote,) = server.store.all()
    assert vote.stage == "anchor"
    assert "n04" in vote.labels
    assert len(vote.labels) == 2
    assert had.strip()


def test_notes_and_names_are_never_html(small, run_server, visit):
    server = run_server(small, show_votes=True)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.page.fill("#note", "<img src=x onerror=\"document.title='owned'\">")
    ann.page.locator("#note").blur()
    ann.decide("u")
    while "Second" not in ann.page.inner_text("#question"):
        ann.decide()
    ann.saved()
    bo = visit(server.url, "Bo")
    bo.shown()
    assert "<img src=x" in bo.page.inner_text("#votes")
    assert bo.page.locator("#votes img").count() == 0
    assert bo.page.title() == "strobe review"


def test_invite_links_admin_page_and_deciding_together(small, run_server, visit):
    server = run_server(small, token="a-long-shared-token")
    boss = visit(server.url, path=f"/admin#key={server.access.admin_key}")
    boss.page.wait_for_selector("#invite-section:not([hidden])")
    assert "key=" not in boss.page.url
    links = {}
    for name in ("Ann", "Bo"):
        boss.page.fill("#invite-name", name)
        boss.page.press("#invite-name", "Enter")
        boss.page.wait_for_selector(f"#people td:text-is('{name}')")
        links[name] = boss.page.input_value("#invite-link")
    ann = visit(links["Ann"].split("/#")[0], path="/#" + links["Ann"].split("/#")[1])
    ann.ready().shown()
    assert "key=" not in ann.page.url, "the key does not stay in the address bar"
    ann.decide("u")
    while "Second" not in ann.page.inner_text("#question"):
        ann.decide()
    ann.saved()
    for name in ("Ann", "Bo"):
        boss.page.check(f"input[value={name}]")
    boss.page.click("#joint button")
    boss.page.wait_for_selector("#members")
    boss.shown()
    boss.page.keyboard.press("s")  # everyone
    boss.page.keyboard.press("]")
    boss.page.keyboard.press("]")
    boss.page.keyboard.press("1")  # Bo differs
    boss.page.keyboard.press("Enter")
    boss.page.wait_for_selector("#idle:not([hidden])")
    boss.saved()
    together = [(v.annotator, v.decision, v.reason) for v in server.store.all() if v.stage == "joint"]
    assert together == [("Ann", "similar", ""), ("Bo", "dissimilar", "motion")]


def test_an_unreadable_picture_is_said_and_does_not_stop_the_review(small, run_server, visit):
    for row in range(15):
        (small.root / small.frames.media[row]).write_bytes(b"\xff\xd8\xff no picture")
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.page.wait_for_selector("#alert:not([hidden])")
    assert "cannot be read" in ann.page.inner_text("#alert")
    ann.page.keyboard.press("u")
    ann.saved()
    assert [v.decision for v in server.store.all()] == ["unsure"]


# -- accessibility ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def axe():
    """The text of axe-core, fetched by npm into a cache outside the tree; nothing of it is shipped."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not here, so axe-core cannot be fetched")
    cache = Path(tempfile.gettempdir()) / "strobe-axe-core"
    script = cache / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        cache.mkdir(exist_ok=True)
        command = [npm, "install", "--prefix", str(cache), "--no-audit", "--no-fund", "--ignore-scripts", "axe-core@4"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
        if done.returncode or not script.exists():
            pytest.skip("axe-core cannot be fetched by npm here")
    return script.read_text(encoding="utf-8")


def serious(page, axe):
    page.evaluate(axe)
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        (one["id"], [node["html"][:100] for node in one["nodes"]])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("context", [{}, PHONE], ids=["desktop", "phone"])
def test_axe_finds_no_serious_violation(small, run_server, visit, axe, context):
    server = run_server(small, labels=True)
    ann = visit(server.url, **context)
    ann.page.wait_for_selector("#login:not([hidden])")
    assert serious(ann.page, axe) == []
    ann.page.fill("#name", "Ann")
    ann.page.press("#name", "Enter")
    ann.ready().shown()
    assert serious(ann.page, axe) == [], "label stage"
    while ann.page.is_visible("#label-panel"):
        ann.decide()
    assert serious(ann.page, axe) == [], "pairs"
    ann.page.keyboard.press("v")
    ann.page.keyboard.press("x")
    assert serious(ann.page, axe) == [], "flicker and difference"
    ann.decide("u")
    ann.page.keyboard.press("z")
    ann.page.wait_for_selector("#past:not([hidden])")
    assert serious(ann.page, axe) == [], "undo"
    for key, dialog in (("?", "#keys"), ("b", "#confirm")):
        ann.page.keyboard.press(key)
        ann.page.wait_for_selector(f"{dialog}[open]")
        assert serious(ann.page, axe) == [], dialog
        ann.page.keyboard.press("Escape")
    ann.page.click("#person-button")
    assert serious(ann.page, axe) == [], "person"
    ann.page.keyboard.press("Escape")
    ann.page.goto(server.url + "/admin")
    ann.page.wait_for_selector("#people td")
    assert serious(ann.page, axe) == [], "admin"


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
