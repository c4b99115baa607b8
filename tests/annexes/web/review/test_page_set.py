"""A set at a time in a real browser: marks, undo, reloads, an outage, two people; guidelines, practice, goal, hints."""

from dataclasses import replace

import numpy as np
import pytest

from strobe.annexes.web.review.conduct import Example
from strobe.core.tables import Hints

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
