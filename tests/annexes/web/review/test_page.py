"""The review page in a real browser: by keyboard alone, by touch, together, and for everyone."""

import pytest

from strobe.annexes.web.review import workflow as review
from strobe.core.derivation import derive
from strobe.store import dataset_folder as folders

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}


def test_three_annotators_review_a_dataset_to_an_exported_set(helpers, tmp_path, run_server, visit):
    small = helpers.make_dataset(tmp_path / "team", n_sets=5)
    database = f"sqlite:///{small.root / 'review.sqlite'}"
    server = run_server(small, url=database)
    ann, bo, cy = visit(server.url, "Ann"), visit(server.url, "Bo"), visit(server.url, "Cy", **PHONE)
    doubts = {ann: "3", bo: "u", cy: "background"}

    def act(visitor):
        said = doubts.pop(visitor, None)
        if visitor is not cy:
            return visitor.decide(said or "s")
        before = cy.card
        cy.page.tap(f"[data-action={said or 'similar'}]")
        return cy.shown(after=before)

    for visitor in (ann, bo, cy):
        visitor.shown()
        act(visitor)
        visitor.saved()
    # Those who are through first are given the others' doubts too.
    helpers.finish(ann, bo, cy, act=act)
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
        "pairs_accepted": 20, "pairs_pending": 0, "sets_without_votes": 0,
    }  # fmt: skip
    assert [one["name"] for one in figures["annotators"]] == ["Ann", "Bo", "Cy"]
    data = folders.read(small.root)
    assert data.info.reviewed == "votes"
    assert derive(data).kept.all()


def test_the_next_pair_waits_for_no_picture(small, run_server, visit):
    """Images of the cards that come next are there before they are asked for: none has to arrive after a key."""
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.quiet()
    ann.page.route("**/media/**", lambda route: None)  # from now on no image arrives
    assert ann.decide()
    ann.page.unroute("**/media/**")


def test_view_zoom_and_difference(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    page = ann.page
    page.keyboard.press("+")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert ann.transform("pane-a") == ann.transform("pane-b") != ""
    assert page.inner_text("#zoom-level") == "225 %"
    box = page.locator("#pane-a .frame").bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 50)
    page.mouse.wheel(0, -200)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 70, steps=3)
    page.mouse.up()
    assert ann.transform("pane-a") == ann.transform("pane-b")
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


def test_keys_can_be_changed_and_stay_changed(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    page = ann.page
    page.keyboard.press("?")
    page.click("#key-list li:has-text('Unsure') button")
    page.keyboard.press("s")  # taken by “similar”, which gets U in exchange
    page.keyboard.press("Escape")
    page.wait_for_selector("#keys", state="hidden")
    assert page.inner_text("[data-action=unsure] kbd") == "S"
    assert page.inner_text("[data-action=similar] kbd") == "U"
    ann.decide("s")
    ann.saved()
    assert [v.decision for v in server.store.all()] == ["unsure"]
    for action, key in (("Similar", "+"), ("Zoom out", "=")):
        page.keyboard.press("?")
        page.click(f"#key-list li:has(span:text-is('{action}')) button")
        page.keyboard.press(key)
        page.keyboard.press("Escape")
        page.wait_for_selector("#keys", state="hidden")
    page.reload()
    ann.ready().shown()
    assert page.inner_text("[data-action=unsure] kbd") == "S"
    before = ann.card
    page.keyboard.press("=")
    assert ann.card == before, "zooms out, as it was told"
    for _ in range(4):
        page.keyboard.down("+")
    page.keyboard.up("+")
    ann.shown(after=before)
    ann.saved()
    assert [v.decision for v in server.store.all()] == ["unsure", "similar"], "a key held down decides once"


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
    ann.await_page("#confirm[open]")  # asks once
    page.keyboard.press("Escape")
    page.wait_for_selector("#confirm", state="hidden")
    before = ann.card
    page.keyboard.press("b")
    page.keyboard.press("b")
    ann.shown(after=before)
    ann.saved()
    first, second = server.store.all()
    assert (first.label_right, first.note, first.bad_anchor) == (False, "a <b>note</b>", False)
    assert second.bad_anchor
    assert second.note == ""
    assert ann.decide_up_to("Second")
    ann.saved()
    dropped = [v for v in server.store.all() if v.set_id == second.set_id and v.stage == "pair"]
    assert len(dropped) < 4, "the rest of the dropped set is not asked"


def test_a_press_right_after_escape_asks_again(small, run_server, visit):
    # The browser leaves the focus inside the closed dialog for a moment; a key that lands there was never asked about.
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    page = ann.page
    late = """(key) => document.getElementById("confirm-yes").dispatchEvent(
        new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }))"""
    page.keyboard.press("b")
    ann.await_page("#confirm[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#confirm", state="hidden")
    page.evaluate(late, "b")
    ann.await_page("#confirm[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#confirm", state="hidden")
    page.evaluate("() => document.getElementById('confirm-yes').click()")
    before = ann.card
    page.evaluate(late, "s")
    ann.shown(after=before)
    ann.saved()
    assert [(v.decision, v.bad_anchor) for v in server.store.all()] == [("similar", False)]


def test_nobody_decides_what_they_have_not_seen(small, run_server, visit):
    server = run_server(small)
    held, busy = [], None

    def answer(route):
        nonlocal busy
        if busy is None:
            held.append(route)
        elif route.request.url in busy:
            route.continue_()
        else:
            busy.append(route.request.url)
            route.fulfill(status=429, body="{}")

    ann = visit(server.url)
    ann.page.wait_for_selector("#login:not([hidden])")
    ann.page.route("**/media/*", answer)
    ann.log_in("Ann")
    ann.await_page("#review:not([hidden])")
    for key in ("s", "1", "u", "b"):
        ann.page.keyboard.press(key)
    assert not ann.page.is_visible("#confirm")
    ann.await_page("#alert:has-text('not loaded yet')")
    busy = []
    for route in held:
        route.abort()
    ann.shown()
    assert busy, "the server was too busy at first"
    assert not ann.page.is_visible("#alert"), "and nobody was told that the image is broken"
    assert list(server.store.all()) == []
    ann.decide("2")
    ann.saved()
    assert [v.reason for v in server.store.all()] == ["background"]


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
    assert ann.decide_up_to("Second")
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
        boss.page.wait_for_selector(f"#invited:text-is('{name}')")
        links[name] = boss.page.input_value("#invite-link")
    ann = visit(links["Ann"].split("/#")[0], path="/#" + links["Ann"].split("/#")[1])
    ann.ready().shown()
    assert "key=" not in ann.page.url, "the key does not stay in the address bar"
    ann.decide("u")
    ann.decide("u")
    assert ann.decide_up_to("Second")
    ann.saved()
    for name in ("Ann", "Bo"):
        boss.page.check(f"input[value={name}]")
    boss.page.click("#joint button")
    boss.page.wait_for_selector("#members")
    boss.shown()
    for key in ("s", "]", "]", "1"):  # similar for everyone, but Bo differs
        boss.page.keyboard.press(key)
    assert boss.decide("Enter")
    for key in ("]", "w", "s"):  # Ann: the label is wrong, and similar
        boss.page.keyboard.press(key)
    assert "similar, label wrong" in boss.page.inner_text("#members")
    boss.page.keyboard.press("s")  # Bo: similar, and nothing of Ann's
    assert not boss.decide("Enter")
    boss.saved()
    boss.page.keyboard.press("z")
    boss.await_page("#past:has-text('The group decided')")
    assert "similar, label wrong" in boss.page.inner_text("#members")
    boss.page.keyboard.press("y")
    boss.await_page("#idle:not([hidden])")
    together = [(v.annotator, v.decision, v.reason, v.label_right) for v in server.store.all() if v.stage == "joint"]
    assert together == [
        ("Ann", "similar", "", True), ("Bo", "dissimilar", "motion", True),
        ("Ann", "similar", "", False), ("Bo", "similar", "", True),
    ], "and keeping a decision adds nothing"  # fmt: skip


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
