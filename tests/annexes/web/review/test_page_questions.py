"""Other questions in a real browser: a set at a time, What is this?, sets of a sample; guidelines, practice, goal."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import Example
from strobe.core.people import LABEL, SampledSet
from strobe.core.tables import Hints
from strobe.store import dataset_folder as folders

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
HOSTILE = """# What is *the same*
- a **small** shift is fine
  - but no other side
1. look twice

> If something distinctive is visible in one frame only, choose dissimilar.

[paper](https://example.org/p) [bad](javascript:document.title='owned') [worse](data:text/html,x)
<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>

```
<b>code</b>
```
"""


def said(server, name):
    """The latest word of someone on each pair, by frame."""
    return {v.frame_id: v for v in server.store.all() if v.annotator == name}


def test_a_set_by_keyboard_marks_undo_reload_and_a_bad_anchor(helpers, tmp_path, run_server, visit):
    data = helpers.make_dataset(tmp_path / "sets", n_sets=4, k=3)
    server = run_server(data, at_once="set")
    ann = visit(server.url, "Ann")
    ann.shown()
    page, first = ann.page, ann.card
    assert page.inner_text("#question") == "Which images do not look like the anchor?"
    assert page.inner_text("#save-set").startswith("All 6 similar")
    for key in ("1", "ArrowDown", "3", "w"):  # the first, the last, and the label of the one before it
        page.keyboard.press(key)
    page.keyboard.press("n")
    page.keyboard.type("blurred <b>label</b>")
    page.keyboard.press("Enter")  # leaves the note
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("u")
    marks = page.locator("#film .mark").all_inner_texts()
    assert marks == ["motion", "", "", "unsure", "label, note", "blur"]
    assert page.inner_text("#save-set").startswith("The other 3 similar")
    page.keyboard.press("z")
    assert page.locator("#film .mark").nth(3).inner_text() == "", "undo takes back the last mark first"
    page.reload()
    ann.ready().shown()
    assert ann.card == first
    assert page.locator("#film .mark").all_inner_texts()[4:] == ["label, note", "blur"], "marks outlive a reload"
    ann.decide("Enter")
    ann.saved()
    votes = list(server.store.all())
    assert [(v.decision, v.reason) for v in votes] == [
        ("dissimilar", "motion"), ("similar", ""), ("similar", ""), ("similar", ""), ("similar", ""),
        ("dissimilar", "blur"),
    ]  # fmt: skip
    assert [int(v.frame_id.split(":")[1]) for v in votes] == [0, 1, 2, 4, 5, 6]
    assert (votes[4].label_right, votes[4].note) == (False, "blurred <b>label</b>")
    assert {v.at_once for v in votes} == {6}
    assert len({v.seconds for v in votes}) == 1, "the time of the page, shared by its pairs"
    page.reload()
    ann.ready().shown()
    page.keyboard.press("z")
    ann.await_page(f'body[data-shown="{first}"]')
    assert "all similar except 2 of 6" in page.inner_text("#past")
    page.keyboard.press("s")  # the first is similar after all
    ann.decide("Enter")
    ann.saved()
    assert len(list(server.store.all())) == 7, "only what changed is said again"
    assert said(server, "Ann")[votes[0].frame_id].decision == "similar"
    before = ann.card
    page.keyboard.press("b")
    ann.await_page("#confirm[open]")
    page.keyboard.press("b")
    ann.shown(after=before)
    ann.saved()
    bad = [v for v in server.store.all() if v.bad_anchor]
    assert len(bad) == 2, "one of them could be a control"
    page.keyboard.press("z")
    ann.await_page(f'body[data-shown="{before}"]')
    assert "bad anchor" in page.inner_text("#past")
    for key in ("s", "s"):  # it is a good one after all
        page.keyboard.press(key)
    ann.decide("Enter")
    assert page.locator("#past").is_hidden()
    films = set()

    def act(visitor):
        second = "Second look" in page.inner_text("#question")
        films.add((second, page.locator("#film li:visible").count()))
        visitor.decide("s" if second else "Enter")

    helpers.finish(ann, act=act)
    of_set = {v.frame_id for v in server.store.all() if v.set_id == bad[0].set_id and v.stage == "pair"}
    assert len(of_set) == 6, "the rest is asked again"
    assert films == {(False, 6), (False, 4), (True, 0)}, "a second look is at one pair"


def test_nothing_is_asked_for_or_called_done_before_what_was_decided_is_in(helpers, tmp_path, run_server, visit):
    server = run_server(helpers.make_dataset(tmp_path / "one", n_sets=1), at_once="set", verify=False)
    ann = visit(server.url, "Ann")
    ann.shown()
    first = ann.card
    ann.page.keyboard.press("b")
    ann.await_page("#confirm[open]")
    ann.page.keyboard.press("b")
    ann.await_page("#idle-title:text-is('All done')")
    ann.page.keyboard.press("z")
    ann.await_page(f'body[data-shown="{first}"]')
    held, order = [], []
    ann.page.route("**/api/decisions/set", lambda route: held.append(route))
    ann.page.on("request", lambda one: order.append(f"{one.url.split('/api/')[-1]} asked"))
    ann.page.on("requestfinished", lambda one: order.append(f"{one.url.split('/api/')[-1]} answered"))
    for key in ("s", "s", "Enter"):  # a good anchor after all: its other pairs are to be asked
        ann.page.keyboard.press(key)
    ann.await_page("#idle:not([hidden])")
    assert ann.page.inner_text("#idle-title") == "One moment"
    while not held:
        ann.page.wait_for_timeout(20)
    held[0].continue_()
    assert ann.shown()
    assert ann.page.locator("#film li").count() == 2
    of_queue = [one for one in order if "media" not in one]
    assert of_queue[:3] == ["decisions/set asked", "decisions/set answered", "claim asked"]


def test_guidelines_practice_goal_and_hints(small, run_server, visit):
    n = len(small.sets.set)
    zeros = np.zeros(n)
    hints = Hints(cut=zeros, blur=zeros, motion=np.full(n, 6.0), exposure=zeros, duplicate=zeros > 0)
    examples = (
        Example(set_id="set0", frame_id="vid0:1", decision="similar", note="A <i>small</i> shift."),
        Example(set_id="set1", frame_id="vid1:4", decision="dissimilar", reason="motion"),
    )
    server = run_server(replace(small, hints=hints), guidelines=HOSTILE, examples=examples, goal=2)
    ann = visit(server.url, "Ann")
    page = ann.page
    ann.await_page("#guide[open]")
    assert page.locator("#guide-text img, #guide-text script, #guide-text b").count() == 0
    assert [a.get_attribute("href") for a in page.locator("#guide-text a").all()] == ["https://example.org/p"]
    assert page.locator("#guide-text ul ul li").inner_text() == "but no other side"
    assert page.locator("#guide-text ol li").inner_text() == "look twice"
    assert "<script>document.title" in page.inner_text("#guide-text")
    assert page.inner_text("#guide-text pre") == "<b>code</b>"
    page.keyboard.press("Escape")
    page.wait_for_selector("#guide", state="hidden")
    ann.shown()
    assert page.inner_text("#question") == "Practice 1 of 2: do these two look the same?"
    page.keyboard.press("1")
    assert page.inner_text("#feedback-text") == "Not quite. The guidelines call this similar. A <i>small</i> shift."
    page.keyboard.press("s")  # nothing more is decided while the answer stands there
    page.reload()
    ann.ready().shown()
    assert not page.is_visible("#guide"), "read once"
    assert "Practice 2 of 2" in page.inner_text("#question"), "where one stopped"
    page.keyboard.press("2")
    assert page.inner_text("#feedback-text") == "Right: dissimilar (motion)."
    before = ann.card
    page.keyboard.press("Enter")
    ann.shown(after=before)
    assert list(server.store.all()) == [], "practice is nobody's vote"
    assert page.inner_text("#question") == "Do these two look the same?"
    assert "0 of 2 today" in page.inner_text("#counts")
    assert not page.is_visible("#suggested"), "not before the vote"
    ann.decide("s")
    assert "You just voted similar, but the pixels suggest: moved by 6 %" in page.inner_text("#suggested")
    ann.decide("1")
    assert not page.is_visible("#suggested")
    ann.saved().page.reload()
    ann.ready().shown()
    assert "2 of 2 today: goal reached" in page.inner_text("#counts")
    assert page.title() == "strobe review"


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


def drawn(purpose, names):
    return [
        SampledSet(
            sample_id=f"{purpose}:0:{name}", purpose=purpose, wave=0, set_id=name, stratum="s", place=place,
            chance=0.5, seed=0,
        )
        for place, name in enumerate(names)
    ]  # fmt: skip


@pytest.fixture
def sampled(helpers, tmp_path):
    """Eight sets of three images, of which four are checked and two are named."""
    made = helpers.make_dataset(tmp_path / "sampled", n_sets=8, k=1)
    names = made.sets.set_id.tolist()
    rows = [*drawn("check", names[:4]), *drawn("name", [names[5], names[2]])]
    return folders.append_answers(made.root, "samples", rows)


def test_sets_are_checked_by_keyboard_and_by_touch(sampled, run_server, visit, tmp_path):
    server = run_server(sampled, url=f"sqlite:///{sampled.root / 'review.sqlite'}", ask="check", votes=2)
    ann, bo = visit(server.url, "Ann"), visit(server.url, "Bo", **PHONE)
    for visitor, act in (
        (ann, lambda: ann.page.keyboard.press("1")),
        (bo, lambda: bo.page.tap("[data-action=changed]")),
    ):
        visitor.shown()
        assert "one thing throughout" in visitor.page.inner_text("#question")
        assert visitor.page.locator("#panes img").count() == 3, "the frames of the set"
        visitor.page.screenshot(path=tmp_path / f"check-{visitor is bo}.png")
        more = True
        while more:
            before = visitor.card
            act()
            more = visitor.shown(after=before)
        visitor.saved()
    said = Counter((one.annotator, one.said) for one in server.store.all())
    assert said == {("Ann", "one"): 4, ("Bo", "changed"): 4}
    figures = review.export(sampled.root, ask="check")
    assert figures["sets"] == {"asked": 4, "answered": 4, "waiting": 0}
    assert len(folders.read(sampled.root).checks) == 8


def test_only_the_sets_of_a_plan_are_named_and_become_labels(sampled, run_server, visit):
    server = run_server(sampled, url=f"sqlite:///{sampled.root / 'review.sqlite'}", ask="name")
    ann = visit(server.url, "Ann")
    ann.shown()
    more = True
    while more:
        before = ann.card
        ann.page.keyboard.type("do")
        ann.page.keyboard.press("Enter")
        more = ann.shown(after=before)
    ann.saved()
    answers = list(server.store.all())
    sets = dict(
        zip(
            sampled.frame_ids(sampled.sets.anchor_frame),
            sampled.sets.set_id.tolist(),
            strict=True,
        )
    )
    names = sampled.sets.set_id.tolist()
    assert [sets[one.frame_id] for one in answers] == [names[5], names[2]], "in the order of the plan"
    assert {one.condition for one in answers} == {LABEL}
