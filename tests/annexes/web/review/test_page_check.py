"""Sets of a sample in a real browser: checked for one thing throughout, and named by the plan's order."""

from collections import Counter

import pytest

from strobe.annexes.web.review import workflow as review
from strobe.core.people import LABEL, SampledSet
from strobe.store import dataset_folder as folders

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}


def drawn(purpose, names):
    return [
        SampledSet(
            sample_id=f"{purpose}:0:{name}", purpose=purpose, wave=0, set_id=name, stratum="s", place=place,
            chance=0.5, seed=0,
        )
        for place, name in enumerate(names)
    ]  # fmt: skip


@pytest.fixture
def many(helpers, tmp_path):
    """Eight sets of three images, of which four are checked and two are named."""
    made = helpers.make_dataset(tmp_path / "many", n_sets=8, k=1)
    names = made.sets.set_id.tolist()
    rows = [*drawn("check", names[:4]), *drawn("name", [names[5], names[2]])]
    return folders.append_answers(made.root, "samples", rows)


def test_sets_are_checked_by_keyboard_and_by_touch(many, run_server, visit, tmp_path):
    server = run_server(many, url=f"sqlite:///{many.root / 'review.sqlite'}", ask="check", votes=2)
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
    figures = review.export(many.root, ask="check")
    assert figures["sets"] == {"asked": 4, "answered": 4, "waiting": 0}
    assert len(folders.read(many.root).checks) == 8


def test_only_the_sets_of_a_plan_are_named_and_become_labels(many, run_server, visit):
    server = run_server(many, url=f"sqlite:///{many.root / 'review.sqlite'}", ask="name")
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
    sets = dict(zip(many.frame_ids(many.sets.anchor_frame), many.sets.set_id.tolist(), strict=True))
    names = many.sets.set_id.tolist()
    assert [sets[one.frame_id] for one in answers] == [names[5], names[2]], "in the order of the plan"
    assert {one.condition for one in answers} == {LABEL}
