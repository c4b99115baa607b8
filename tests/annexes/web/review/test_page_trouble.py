"""The review page when things go wrong: nothing is lost, nothing is decided that was not meant."""

import json
import random
import time

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def decisions(server):
    return [v.decision for v in server.store.all()]


def test_decisions_wait_for_their_own_review(helpers, tmp_path, run_server, visit):
    ours, theirs = (helpers.make_dataset(tmp_path / name) for name in ("ours", "theirs"))
    database = f"sqlite:///{tmp_path / 'ours.sqlite'}"
    server = run_server(ours, url=database)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.decide()
    ann.saved().quiet()
    port = int(server.url.rsplit(":", 1)[1])
    server.stop()
    for key in ("1", "u"):
        ann.decide(key)
    ann.await_page("#saved.offline")
    other = run_server(theirs, port=port)
    ann.await_page("#login:not([hidden])")
    claims = []
    ann.page.route("**/api/claim", lambda claim: claims.append(claim))  # not answered yet
    ann.page.fill("#name", "Ann")
    ann.page.keyboard.press("Enter")
    ann.await_page("#idle:not([hidden])")
    assert ann.page.inner_text("#idle-title") == "One moment", "who is in again is not offline any more"
    ann.until(lambda: claims)
    claims[0].continue_()
    ann.page.unroute("**/api/claim")
    assert ann.shown()
    ann.decide("2")
    ann.saved()
    assert decisions(other) == ["dissimilar"], "only what was decided here"
    other.stop()
    again = run_server(ours, url=database, port=port)
    ann.page.reload()
    ann.page.wait_for_selector("#login:not([hidden]), #review:not([hidden]), #idle:not([hidden])")
    if ann.page.is_visible("#login"):
        ann.page.fill("#name", "Ann")
        ann.page.keyboard.press("Enter")
    ann.ready().saved()
    ann.page.wait_for_function("() => !Object.keys(localStorage).some((key) => key.includes(':out:'))")
    assert decisions(again) == ["similar", "dissimilar", "unsure"]


@pytest.mark.parametrize("status", [403, 413])
def test_a_refusal_by_the_way_is_not_the_last_word(small, run_server, visit, status):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.page.route("**/api/decisions", lambda route: route.fulfill(status=status, body='{"error": "not here"}'))
    ann.decide("1")
    ann.decide("u")
    ann.await_page("#saved.held")
    assert "2 stored in this browser: not here" in ann.page.inner_text("#saved")
    ann.await_page("#alert:has-text('cannot take 2 decision(s) now: not here')")
    ann.page.unroute("**/api/decisions")
    ann.saved()
    assert not ann.page.is_visible("#alert")
    assert decisions(server) == ["dissimilar", "unsure"]


def test_what_the_server_will_not_have_stays_with_the_person(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.page.route("**/api/decisions", lambda route: route.fulfill(status=422, body='{"error": "no"}'))
    ann.decide("1")
    ann.await_page("#saved.refused")
    ann.await_page("#alert:has-text('rejected')")
    ann.page.click("#alert-close")
    ann.page.click("#person-button")
    with ann.page.expect_download() as download:
        ann.page.click("#refused-save")
    (kept,) = json.loads(download.value.path().read_text())
    assert kept["body"]["reason"] == "motion"
    ann.page.unroute("**/api/decisions")
    ann.page.click("#refused-again")
    ann.saved()
    assert decisions(server) == ["dissimilar"]


def test_full_storage_keeps_decisions_in_the_tab_and_says_so(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.quiet()
    ann.page.evaluate(
        "() => { Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }; }"
    )
    ann.context.set_offline(True)
    ann.decide("s")
    ann.decide("u")
    ann.await_page("#saved:has-text('keep this tab open')")
    ann.context.set_offline(False)
    ann.saved()
    assert decisions(server) == ["similar", "unsure"]


def test_a_clock_that_steps_back_does_not_reorder(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.quiet()
    ann.context.set_offline(True)
    first = ann.card
    ann.decide("s")
    ann.page.evaluate("() => { const now = Date.now; Date.now = () => now() - 60000; }")
    ann.page.keyboard.press("z")
    ann.await_page(f'body[data-shown="{first}"]')
    ann.decide("1")
    ann.context.set_offline(False)
    ann.saved()
    assert decisions(server) == ["similar", "dissimilar"]


def test_while_undo_fetches_nothing_is_decided_or_asked(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    first = ann.card
    ann.decide("s")
    ann.saved()
    held = []
    ann.page.route("**/api/history*", lambda route: held.append(route))
    ann.page.reload()
    ann.ready().shown()
    for key in ("z", "1", "b"):
        ann.page.keyboard.press(key)
    assert not ann.page.is_visible("#confirm")
    ann.until(lambda: held)
    held[0].continue_()
    ann.await_page(f'body[data-shown="{first}"]')
    ann.saved()
    assert decisions(server) == ["similar"]


def test_the_pictures_of_the_pair_before_never_stay(helpers, tmp_path, run_server, visit):
    server = run_server(helpers.make_dataset(tmp_path / "data", n_sets=8))
    ann = visit(server.url)
    ann.page.wait_for_selector("#login:not([hidden])")
    good, asked_twice, known = [], [], False

    def answer(route):
        if len(good) < 2 or route.request.url in good:  # the first pair's two images
            good.append(route.request.url)
            route.continue_()
        elif route.request.resource_type == "image" or known:
            route.fulfill(status=422, body="{}")
        else:
            asked_twice.append(route)

    ann.page.route("**/media/*", answer)
    ann.log_in("Ann")
    ann.shown()
    assert ann.page.locator("#panes img").count() == 2
    ann.until(lambda: asked_twice)
    ann.page.keyboard.press("u")
    ann.page.wait_for_selector("#panes.loading")
    assert ann.page.locator("#panes img").count() == 0, "whether it is broken is not known yet"
    known = True
    for route in asked_twice:
        route.fulfill(status=422, body="{}")
    ann.await_page("#alert:has-text('cannot be read')")
    assert ann.page.locator("#panes img").count() == 0
    ann.page.keyboard.press("u")
    ann.saved()
    assert decisions(server) == ["unsure", "unsure"], "an unreadable image does not stop the review"


def test_a_link_that_does_not_work_lets_nobody_go_on_as_somebody_else(small, run_server, visit):
    server = run_server(small, token="a-long-shared-token")
    boss = visit(server.url, path=f"/admin#key={server.access.admin_key}")
    boss.page.wait_for_selector("#invite-section:not([hidden])")
    boss.page.goto(server.url + "/")
    boss.page.goto("about:blank")
    boss.page.goto(server.url + "/#key=no-such-key")
    boss.await_page("#login:not([hidden])")
    assert "not valid" in boss.page.inner_text("#alert")
    assert not boss.page.is_visible("#review")


def test_log_out_without_the_server_says_that_it_did_not(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.quiet()
    ann.context.set_offline(True)
    ann.page.click("#person-button")
    ann.page.click("#logout")
    ann.await_page("#person-text:has-text('still logged in')")
    ann.context.set_offline(False)
    ann.page.click("#logout")
    ann.await_page("#login:not([hidden])")


def test_what_waits_in_the_browser_is_not_asked_again(helpers, tmp_path, run_server, visit):
    server = run_server(helpers.make_dataset(tmp_path / "four pairs", n_sets=1))
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.quiet()
    ann.context.set_offline(True)
    answered = []
    for _ in range(3):
        answered.append(ann.card)
        ann.decide()
    ann.page.close()
    ann.context.set_offline(False)
    ann.context.route("**/api/decisions", lambda route: (time.sleep(0.5), route.continue_()))
    ann.page = ann.open()
    ann.ready()
    while ann.shown():
        assert ann.card not in answered
        answered.append(ann.card)
        ann.decide()
    ann.saved()
    assert len({v.frame_id for v in server.store.all()}) == len(decisions(server)) == len(answered)


def test_a_dropped_set_is_not_asked_while_the_drop_is_on_its_way(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.page.route("**/api/decisions", lambda route: (time.sleep(0.3), route.continue_()))
    before = ann.card
    ann.page.keyboard.press("b")
    ann.await_page("#confirm[open]")
    ann.page.keyboard.press("b")
    ann.shown(after=before)
    assert ann.decide_up_to("Second")
    ann.saved()
    votes = [v for v in server.store.all() if v.stage == "pair"]
    (bad,) = [v for v in votes if v.bad_anchor]
    assert [v for v in votes if v.set_id == bad.set_id] == [bad]


def test_after_a_long_break_others_pairs_are_not_shown(small, run_server, visit):
    server = run_server(small, lease_s=2)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.page.wait_for_timeout(2500)  # her leases run out
    bo = visit(server.url, "Bo")
    while bo.shown():
        bo.decide()
    bo.saved()
    ann.decide()
    ann.await_page("#idle:not([hidden])")
    ann.saved()
    votes = list(server.store.all())
    assert [v.annotator for v in votes].count("Ann") == 1, "what stood before her, and nothing more"


def test_a_paused_person_is_stopped_at_the_next_claim(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    boss = server.client("Boss")
    assert boss.post("/api/admin/pause", json={"name": "Ann", "action": "pause"}).status_code == 200
    while ann.decide():
        ann.quiet()
    ann.await_page("#idle-title:text-is('Paused')")
    ann.saved()
    assert len(decisions(server)) <= 4, "not all six that the page held"


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
        ann.await_page(f'body[data-shown="{card}"]')
    assert "unsure" in ann.page.inner_text("#past")
    ann.page.keyboard.press("s")
    ann.page.wait_for_selector(f'body[data-shown="{fresh}"]')
    ann.saved().page.reload()
    ann.ready()
    ann.page.wait_for_selector("body[data-shown]")
    # The server lists the latest word first: the corrected one, then the others backwards.
    for card in (cards[2], cards[4], cards[3], cards[1]):
        ann.page.keyboard.press("z")
        ann.await_page(f'body[data-shown="{card}"]')
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
        ann.await_page(f'body[data-shown="{card}"]')
    ann.page.keyboard.press("z")
    ann.page.wait_for_selector("#alert:not([hidden])")
    assert "no earlier decision" in ann.page.inner_text("#alert")


def test_offline_for_a_while_and_a_closed_tab(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.decide()
    ann.saved()
    ann.quiet()
    ann.context.set_offline(True)
    for _ in range(3):
        ann.decide()
    ann.page.wait_for_selector("#saved.offline")
    assert "3 stored in this browser" in ann.page.inner_text("#saved")
    assert len(list(server.store.all())) == 1
    ann.page.close()
    ann.context.set_offline(False)
    ann.page = ann.open()
    ann.ready().saved()
    votes = list(server.store.all())
    assert len(votes) == 4
    assert len({v.frame_id for v in votes}) == 4


def test_back_online_in_the_same_tab(small, helpers, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.quiet()
    ann.context.set_offline(True)
    while ann.decide():
        pass
    ann.page.wait_for_selector("#idle-title:text-is('Offline')")
    assert "stored in this browser" in ann.page.inner_text("#idle-text")
    ann.context.set_offline(False)
    ann.page.wait_for_selector("#review:not([hidden])")
    helpers.finish(ann)
    votes = list(server.store.all())
    assert len(votes) == 12
    assert len({v.frame_id for v in votes}) == 12


def _votes(root):
    from strobe.annexes.web.review.store import Store

    store = Store(f"sqlite:///{root / 'review.sqlite'}")
    try:
        return list(store.all())
    finally:
        store.close()


PAIR_KEYS = [*"sss1u3zzyw"]
SET_KEYS = ["ArrowRight", "ArrowLeft", "ArrowDown", "Enter", "Enter", *"s1u3zzyw"]


@pytest.mark.parametrize(("at_once", "keys", "rounds"), [("pair", PAIR_KEYS, 15), ("set", SET_KEYS, 15)])
def test_a_wild_quarter_of_a_minute_loses_nothing_and_doubles_nothing(
    helpers, tmp_path, visit, at_once, keys, rounds, started
):
    """Bursts of keys, undo, reloads, lost networks and killed servers, by two people at once, from a fixed seed."""
    root = tmp_path / "wild"
    helpers.make_dataset(root, n_sets=10 if at_once == "pair" else 30, k=3)
    server = helpers.Process(started, root, "--at-once", at_once)
    port = int(server.url.rsplit(":", 1)[1])
    # What goes into the browser's outbox is noted where a reload does not lose it.
    note = """(() => { const set = Storage.prototype.setItem; Storage.prototype.setItem = function (key, text) {
        const noted = JSON.parse(window.name || "[]");
        if (key.includes(":out:")) window.name = JSON.stringify([...noted, JSON.parse(text).body]);
        return set.call(this, key, text); }; })()"""
    visitors = []
    for name in ("Ann", "Bo"):
        visitors.append(visit(server.url))
        visitors[-1].context.add_init_script(note)
        visitors[-1].page.reload()
        visitors[-1].log_in(name)
        visitors[-1].shown()
    rng = random.Random(7)
    for _ in range(rounds):
        for visitor in visitors:
            page, chance = visitor.page, rng.random()
            if chance < 0.8:
                for _ in range(rng.randint(1, 6)):
                    page.keyboard.press(rng.choice(keys))
            elif chance < 0.85:
                page.reload()
            elif chance < 0.9:
                visitor.context.set_offline(True)
                for _ in range(4):
                    page.keyboard.press(rng.choice(["s", "1", "z", "Enter"]))
                visitor.context.set_offline(False)
            elif chance < 0.95:
                for key in ("b", "b", "b", "Escape"):
                    page.keyboard.press(key)
            else:
                server.kill()
                page.keyboard.press("s" if at_once == "pair" else "Enter")
                server = helpers.Process(started, root, "--at-once", at_once, port=port)
            page.wait_for_timeout(rng.random() * 200)
    try:
        for visitor in visitors:
            visitor.page.keyboard.press("Escape")
            visitor.saved()
    finally:
        server.kill()
    votes = _votes(root)
    for visitor, name in zip(visitors, ("Ann", "Bo"), strict=True):
        sent = visitor.page.evaluate("() => JSON.parse(window.name)")
        made = [vote for body in sent for vote in body.get("votes", [body])]
        stored = [v for v in votes if v.annotator == name]
        assert len(made) > 10
        assert [v.verdict_id for v in stored] == [one["verdict_id"] for one in made], "each once, in order"
        assert [v.decision for v in stored] == [one["decision"] for one in made]


def test_undo_at_once_after_a_reload_waits_for_what_is_under_way(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    cards = []
    for _ in range(4):
        cards.append(ann.card)
        ann.decide()
    ann.saved()
    ann.context.set_offline(True)
    cards.append(ann.card)
    ann.decide("u")
    ann.await_page("#saved.offline")
    ann.context.set_offline(False)
    ann.page.route("**/api/decisions", lambda route: (time.sleep(0.5), route.continue_()))
    ann.page.reload()
    ann.ready().shown()
    for _ in range(3):  # faster than the earlier decisions come
        ann.page.keyboard.press("z")
    ann.await_page(f'body[data-shown="{cards[2]}"]')
    for card in (cards[3], cards[4]):
        ann.page.keyboard.press("y")
        ann.await_page(f'body[data-shown="{card}"]')
    assert "unsure" in ann.page.inner_text("#past")
    ann.saved()
    assert len(list(server.store.all())) == 5


def test_someone_else_in_another_tab_never_gets_my_decisions(small, run_server, visit):
    server = run_server(small)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.quiet()
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
