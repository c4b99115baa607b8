"""The review page loses nothing: undo, offline, a closed tab, the server killed under it, two people in one browser."""

import random
import time

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]


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


@pytest.mark.parametrize(("at_once", "keys", "rounds"), [("pair", PAIR_KEYS, 30), ("set", SET_KEYS, 30)])
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
