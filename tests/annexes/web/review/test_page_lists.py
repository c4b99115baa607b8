"""Lists of a review: one's own decisions to go back to, and for the lead, disagreements and answers over time."""

import pytest

from strobe.annexes.web.review.disagreements import MOST_BARS, answers_over_time, disagreements
from strobe.annexes.web.review.pictures import FrameImages
from strobe.annexes.web.review.places import TableLookup
from strobe.core.people import BoxAnswer, NameAnswer
from strobe.core.records import Verdict
from strobe.store.opening import frame_source

PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}


def vote(number, who, decision="similar", *, frame="vid0:1", at="2026-11-18T09:00:00.000000Z", **more):
    return Verdict(
        verdict_id=f"v{number}", annotator=who, at=at, stage="pair", set_id="set0", frame_id=frame,
        decision=decision, **more,
    )  # fmt: skip


@pytest.fixture
def listed(small):
    images = FrameImages(small, frame_source(small), secret=b"s")
    return lambda answers, **more: disagreements(answers, TableLookup(small), images, **more)


def test_latest_answers_that_differ_are_listed(listed):
    votes = [
        vote(1, "Ann"), vote(2, "Bo", "dissimilar", reason="blur", at="2026-11-18T09:05:00.000000Z"),
        vote(3, "Ann", frame="vid0:0"), vote(4, "Bo", "unsure", frame="vid0:0"), vote(5, "Bo", frame="vid0:0"),
        vote(6, "Ann", "dissimilar", frame="vid0:3", reason="blur"),
        vote(7, "Bo", "dissimilar", frame="vid0:3", reason="motion"),
        vote(8, "Ann", frame="vid1:1"), vote(9, "Bo", "unsure", frame="vid1:1"),
    ]  # fmt: skip
    found = listed(votes)
    assert found["n"] == 1, "Bo changed one answer, two reasons are no disagreement, and a control is left out"
    (row,) = found["rows"]
    assert row["answers"] == [{"name": "Ann", "said": "similar"}, {"name": "Bo", "said": "dissimilar (blur)"}]
    assert len(row["images"]) == 2
    assert row["frame"] == "vid0:1"


def test_names_and_boxes_that_differ_are_listed(listed):
    at = "2026-11-18T09:00:00.000000Z"
    names = [
        NameAnswer(answer_id=f"n{who}", annotator=who, at=at, frame_id="vid0:2", said="class", label=label)
        for who, label in (("Ann", "n01"), ("Bo", "n02"))
    ]
    assert [one["said"] for one in listed(names)["rows"][0]["answers"]] == ["n01", "n02"]
    boxes = [
        BoxAnswer(
            answer_id=f"b{who}", annotator=who, at=at, stage="draw", frame_id="vid0:2", label="n01", decision="keep",
            xyxy=(0, 0, side, side),
        )
        for who, side in (("Ann", 20), ("Bo", 22))
    ]  # fmt: skip
    assert listed(boxes)["n"] == 0
    assert listed(boxes, agree=0.9)["n"] == 1


def test_answers_are_counted_over_time():
    assert answers_over_time([])["bars"] == []
    times = [("Ann", "09:01"), ("Ann", "09:09"), ("Bo", "09:02"), ("Bo", "09:25")]
    votes = [vote(n, who, at=f"2026-11-18T{at}:00.000000Z") for n, (who, at) in enumerate(times)]
    old = vote(9, "Cem", at="1970-01-01T00:00:01.000000Z")
    assert answers_over_time([*votes, old]) == {
        "step": "10 minutes",
        "bars": [
            {"at": "2026-11-18 09:00", "people": {"Ann": 2, "Bo": 1}},
            {"at": "2026-11-18 09:10", "people": {}},
            {"at": "2026-11-18 09:20", "people": {"Bo": 1}},
        ],
    }
    hours = answers_over_time([*votes, vote(5, "Ann", at="2026-11-19T20:59:00.000000Z")])
    assert (hours["step"], len(hours["bars"])) == ("hour", 36)
    assert sum(sum(bar["people"].values()) for bar in hours["bars"]) == 5
    days = answers_over_time([*votes, vote(5, "Ann", at="2027-11-18T00:00:00.000000Z")])
    assert (days["step"], len(days["bars"])) == ("day", MOST_BARS)
    assert days["bars"][-1] == {"at": "2027-11-18 00:00", "people": {"Ann": 1}}


@pytest.mark.browser
@pytest.mark.slow
def test_one_goes_back_to_any_decision(small, run_server, visit, axe):
    ann = visit(run_server(small).url, "Ann", **PHONE)
    page = ann.page
    shown = []
    for key in "s1u":
        assert ann.shown()
        shown.append(ann.card)
        ann.decide(key)
    ann.saved()
    page.reload()
    ann.shown()
    page.click("#person-button")
    page.click("#mine-button")
    lines = page.locator("#mine-list button")
    page.get_by_text("dissimilar (motion)").wait_for()
    assert lines.all_inner_texts() == ["unsure", "dissimilar (motion)", "similar"]
    assert axe(page) == []
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    lines.nth(1).click()
    page.get_by_text("Your decision: dissimilar (motion).").wait_for()
    ann.await_page(f'body[data-shown="{shown[1]}"]')
    page.click("[data-action=similar]")
    assert ann.shown(after=shown[1])
    ann.saved()
    assert ann.card not in shown, "the page continues with a new pair"
    page.click("#person-button")
    page.click("#mine-button")
    assert lines.all_inner_texts() == ["unsure", "similar", "similar"]
    lines.nth(2).click()
    ann.await_page(f'body[data-shown="{shown[0]}"]')
    page.click("#forward-button")
    assert ann.shown(after=shown[0])
    assert ann.card not in shown, "keeping a chosen decision leads back to the new pairs"


@pytest.mark.browser
@pytest.mark.slow
def test_one_sees_what_is_left_for_oneself_with_two_votes(small, run_server, visit):
    server = run_server(small, votes=2, verify=False)
    ann = visit(server.url, "Ann")
    ann.until(lambda: "0 by you · 12 left" in ann.page.inner_text("#counts"))
    while ann.decide():
        pass
    ann.saved()
    ann.until(lambda: "12 by you · 0 left" in ann.page.inner_text("#counts"))
    assert ann.page.get_attribute("#bar", "aria-valuenow") == "100"


@pytest.mark.browser
@pytest.mark.slow
def test_the_lead_sees_disagreements_and_the_time(small, run_server, visit, axe):
    server = run_server(small, votes=2)
    for name, key in (("Ann", "s"), ("Bo", "2")):
        visitor = visit(server.url, name)
        assert visitor.shown()
        for _ in range(12):
            visitor.decide(key)
        visitor.saved()
    page = visitor.open("/admin")
    page.get_by_text("The latest answers of two people differ on 12 tasks.").wait_for()
    assert page.locator("#disputes li").count() == 12
    assert page.locator("#disputes li").first.inner_text().startswith("Ann: similar · Bo: dissimilar (background)")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#disputes img')].slice(0, 2).every((i) => i.naturalWidth)"
    )
    assert "24 answers of 2 people, by " in page.get_attribute("#over-time svg", "aria-label")
    assert axe(page) == []
