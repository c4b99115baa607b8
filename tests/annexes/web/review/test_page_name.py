"""What is this? in a real browser: two people, phone and desktop, keyboard alone, in time and late, offline, killed."""

from collections import Counter

import pytest

from strobe.annexes.web.review import workflow as review
from strobe.store import dataset_folder as folders

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def many(helpers, tmp_path):
    """Eight groups of three images."""
    return helpers.make_dataset(tmp_path / "many", n_sets=8, k=1)


def name(visitor, text, key="Enter"):
    """Type and choose; whether there is a next image. What is right is shown of a practice image, then gone on."""
    before = visitor.card
    visitor.page.keyboard.type(text)
    visitor.page.keyboard.press(key)
    if visitor.page.is_visible("#go-on"):
        visitor.page.keyboard.press("Enter")
    return visitor.shown(after=before)


def tap(visitor, place):
    before = visitor.card
    visitor.page.locator("#classes li").nth(place).tap()
    visitor.until(lambda: visitor.page.is_visible("#go-on") or visitor.card != before)
    if visitor.page.is_visible("#go-on"):
        visitor.page.tap("#go-on")
    return visitor.shown(after=before)


def test_two_people_name_a_dataset_by_keyboard_and_by_touch(many, run_server, visit):
    database = f"sqlite:///{many.root / 'review.sqlite'}"
    server = run_server(many, url=database, ask="name", practice=2, votes=2)
    ann, bo = visit(server.url, "Ann"), visit(server.url, "Bo", **PHONE)
    made = Counter()
    for visitor, act in ((ann, lambda: name(ann, "do")), (bo, lambda: tap(bo, 1))):
        visitor.shown()
        assert "Practice" in visitor.page.inner_text("#question")
        more = True
        while more:
            more = act()
            made[visitor] += 1
            if made[visitor] == 4:  # loaded anew in the middle: it goes on from there
                visitor.saved()
                visitor.page.reload()
                visitor.ready().shown()
        visitor.saved()
        visitor.await_page("#idle-title:text-is('All done for you')")
    answers = list(server.store.all())
    assert (made[ann], made[bo]) == (8, 8), "two to practise on, one image of each of six groups"
    assert len(answers) == len({(one.annotator, one.frame_id) for one in answers}) == 16, "stored = made, none twice"
    for who in ("Ann", "Bo"):
        groups = [one.frame_id.split(":")[0] for one in answers if one.annotator == who]
        assert len(set(groups)) == len(groups) == 8, "nobody saw two images of one group"
    assert {one.label for one in answers if one.annotator == "Ann"} == {"n02"}
    assert {one.said for one in answers} == {"class"}
    assert Counter(one.condition for one in answers)["practice"] == 4
    figures = review.export(many.root, ask="name")
    given = Counter(one.frame_id for one in answers if one.condition != "practice")
    assert figures["pictures"] == {"asked": 18, "answered": len(given), "waiting": 18 - list(given.values()).count(2)}
    assert len(folders.read(many.root).names) == 16
    assert folders.read(many.root).verdicts == ()


def test_practice_says_what_is_right(many, run_server, visit):
    server = run_server(many, ask="name", practice=1)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.page.keyboard.press("?")
    ann.await_page("#feedback:not([hidden])")
    assert ann.page.inner_text("#feedback-text").startswith("Not quite. This is: ")
    right = ann.page.inner_text("#feedback-text b")
    assert right in ("cat", "dog", "bird", "person")
    assert list(server.store.all()) == []
    ann.page.keyboard.type("cat")
    ann.page.keyboard.press("Enter")
    ann.await_page("#question:text-is('What is this?')")
    ann.saved()
    assert [(one.said, one.condition) for one in server.store.all()] == [("unsure", "practice")]


def test_search_recent_none_undo_and_keep(many, run_server, visit):
    server = run_server(many, ask="name", practice=0)
    ann = visit(server.url, "Ann")
    ann.shown()
    page = ann.page
    lines = lambda: page.locator("#classes li").all_inner_texts()  # noqa: E731
    assert lines() == ["bird", "cat", "dog", "person"]
    page.keyboard.press("Enter")
    assert page.is_visible("#review"), "Enter alone chooses nothing"
    page.keyboard.type("zebra")
    assert lines() == ["No matching class"]
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.keyboard.type("r")
    assert lines() == ["bird", "person"]
    assert list(server.store.all()) == []
    page.keyboard.press("ArrowDown")
    cards = [ann.card]
    assert name(ann, "")
    assert lines()[0] == "person", "what was chosen last comes first"
    cards.append(ann.card)
    assert name(ann, "", "-")
    cards.append(ann.card)

    def walk(key, to, said):
        page.keyboard.press(key)
        ann.await_page(f'body[data-shown="{cards[to]}"]')
        assert said in page.inner_text("#past")

    walk("Backspace", 1, "none of these")
    walk("Backspace", 0, "person")
    page.keyboard.type("cat")
    page.keyboard.press("Enter")
    ann.await_page(f'body[data-shown="{cards[2]}"]')
    walk("Backspace", 1, "none of these")
    page.keyboard.press("ArrowRight")
    ann.await_page(f'body[data-shown="{cards[2]}"]')
    ann.saved()
    assert [(one.said, one.label) for one in server.store.all()] == [("class", "n04"), ("none", ""), ("class", "n01")]
    page.reload()
    ann.ready().shown()
    page.keyboard.press("Backspace")
    ann.await_page("#past:has-text('cat')")
    page.keyboard.press("F1")
    ann.await_page("#keys[open]")


def test_another_name_of_a_class_finds_it(many, run_server, visit):
    from dataclasses import replace

    from strobe.core.labels import space

    names = replace(many, info=replace(many.info, label_space=space("ilsvrc-2012")))
    server = run_server(names, ask="name", practice=0)
    ann = visit(server.url, "Ann")
    ann.shown()
    ann.page.keyboard.type("carassius")
    assert ann.page.locator("#classes li").all_inner_texts() == ["goldfish Carassius auratus"]
    name(ann, "")
    ann.saved()
    assert [one.label for one in server.store.all()] == ["n01443537"]


def test_after_the_limit_the_picture_is_covered_and_an_answer_is_late(many, run_server, visit):
    server = run_server(many, ask="name", practice=0, limit_s=1.0)
    ann = visit(server.url, "Ann")
    ann.shown()
    page = ann.page
    ann.await_page("#mask:not([hidden])")
    assert page.locator("#pane-a img").count() == 0
    page.reload()
    ann.ready().shown()
    ann.await_page("#mask:not([hidden])")
    assert page.locator("#pane-a img").count() == 0, "loading the page anew gives no second look"
    assert name(ann, "cat")
    ann.await_page("#mask:not([hidden])")
    assert name(ann, "")
    page.keyboard.press("Backspace")
    ann.await_page("#past:has-text('too late')")
    ann.await_page("#mask:not([hidden])")
    ann.saved()
    assert [(one.said, one.label) for one in server.store.all()] == [("late", "n01"), ("late", "")]
    assert all(one.seconds > 1 for one in server.store.all())
