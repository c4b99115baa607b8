"""What is this? Who is given which image, what an answer may be, and what is kept of it; on both databases."""

from collections import Counter
from dataclasses import replace

import pytest

from strobe.annexes.web.review import queue
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.naming import NameQuestion, shown
from strobe.annexes.web.review.questions import QUESTIONS
from strobe.annexes.web.review.store import Store
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.people import BoxAnswer, NameAnswer
from strobe.core.records import Verdict
from strobe.core.variants import Variant
from strobe.formats.export_csv import export_csv
from strobe.store import dataset_folder as folders

SPACE = LabelSpace.of_names("pets", ["cat", "dog"])


@pytest.fixture
def ladder(tmp_path):
    """Twelve photos, each whole, cropped and greyed: a group of three images, two sets."""
    made = DatasetBuilder()
    for name in ("crop", "grey"):
        made.variant(Variant(variant=name, axis="rung", unit="", ordered=False, levels=(1.0,)))
    for photo in range(12):
        video = made.video(video_id=f"p{photo}", name=f"p{photo}", kind="photo")
        rows = [
            made.frame(video=video, index=place, key=f"{name}/{photo}.png", labels=[photo % 2])
            for place, name in enumerate(("whole", "crop", "grey"))
        ]
        for place, name in enumerate(("crop", "grey"), start=1):
            made.set(
                set_id=f"{name}{photo}", anchor=rows[0], members=[(rows[place], 1.0)], variant=name, group=f"g{photo}"
            )
    info = DatasetInfo(name="ladder", label_space=SPACE, k=1, axis="rung")
    place = folders.write(made.build(info), tmp_path / "ladder")
    return folders.read(place)


@pytest.fixture
def naming(database_url, ladder, clock):
    made = Store(database_url, ask="name", clock=clock)
    made.prepare(ladder, ReviewOptions(controls=0, practice=0))
    yield made
    made.close()


def answer(task, who, said="class", number=0, **fields):
    label = {"label": "cat"} if said == "class" else {}
    whole = {"answer_id": f"{who}-{task.task_id}-{number}", "annotator": who, "at": "", "frame_id": task.frame_id}
    return NameAnswer(**{**whole, "said": said, **label, "condition": task.condition, **fields})


def finish(store, who, **fields):
    tasks = []
    while claimed := queue.claim(store, who, tab="t", want=4):
        for one in claimed:
            store.cast([answer(one.task, who, **fields)])
            tasks.append(one.task)
    return tasks


def test_the_list_of_questions_is_one():
    assert list(QUESTIONS) == ["pairs", "name", "box", "check"]


def test_nobody_sees_two_pictures_of_one_group_and_everyone_as_many_of_each_condition(naming, ladder):
    seen = {who: finish(naming, who) for who in ("ann", "bo", "cy")}
    for tasks in seen.values():
        assert len({task.kin for task in tasks}) == len(tasks) == 12
        assert set(Counter(task.condition for task in tasks).values()) <= {3, 4, 5}
    assert len({task.frame_id for tasks in seen.values() for task in tasks}) == 36, "each image once"
    assert finish(naming, "di") == []
    assert queue.progress(naming, "di").open_for_me == 0


def test_two_tabs_never_hold_two_pictures_of_one_group(naming):
    one = queue.claim(naming, "ann", tab="one", want=6)
    two = queue.claim(naming, "ann", tab="two", want=6)
    assert len({claimed.task.kin for claimed in (*one, *two)}) == 12
    rest = queue.claim(naming, "ann", tab="three", want=6)
    assert {claimed.task.task_id for claimed in rest} <= {claimed.task.task_id for claimed in (*one, *two)}


def test_groups_that_share_a_picture_are_one_kin(small):
    first = replace(small, sets=replace(small.sets, frame=small.sets.frame.copy()))
    assert len({one.kin for one in shown(first)}) == 3
    first.sets.frame[5] = 1  # a member of the second set is one of the first, too
    kins = {one.frame_id: one.kin for one in shown(first)}
    assert kins["vid0:0"] == kins["vid1:4"] != kins["vid2:0"]


def test_a_late_answer_is_seen_but_is_none(naming):
    (claimed, *_) = queue.claim(naming, "ann", tab="t", want=1)
    naming.cast([answer(claimed.task, "ann", "late")])
    assert claimed.task.kin not in {one.task.kin for one in queue.claim(naming, "ann", tab="t", want=12)}
    given = [one.task.task_id for one in queue.claim(naming, "bo", tab="t", want=12)]
    others = [one.task.task_id for one in queue.claim(naming, "cy", tab="t", want=12)]
    assert claimed.task.task_id in (*given, *others), "somebody else is asked"


def test_practice_comes_first_controls_are_mixed_in_and_neither_is_part_of_the_study(database_url, ladder, clock):
    store = Store(database_url, ask="name", clock=clock)
    settings = ReviewOptions(controls=0.25, practice=2)
    store.prepare(ladder, settings)
    plan = NameQuestion().plan(ladder, settings, secret=store.secret())
    assert Counter(task.kind for task in plan) == {"practice": 2, "control": 3, "picture": 21}
    aside = {task.kin for task in plan if task.kind != "picture"}
    assert not aside & {task.kin for task in plan if task.kind == "picture"}
    for who in ("ann", "bo"):
        tasks = finish(store, who)
        assert [task.kind for task in tasks[:2]] == ["practice", "practice"]
        kinds = Counter(task.kind for task in tasks)
        assert kinds["practice"] == 2
        assert 1 <= kinds["control"] <= 3
        assert kinds["picture"] == 7, "one of each group that is left"
    figures = review.status(ladder.root, ask="name", db=database_url)
    assert figures["pictures"]["asked"] == 21
    assert figures["controls"]["n"] == sum(one.condition == "control" for one in store.all())
    assert sum(one["answers"] for one in figures["conditions"]) == 14
    store.close()


# -- over HTTP --------------------------------------------------------------------------------------------------------


def body(card, number, **fields):
    return {
        "answer_id": f"answer-{number:08}", "task": card["task"], "stage": card["stage"], "said": "class",
        "label": "n01", "seconds": 1.5, "page_version": "abc123", **fields,
    }  # fmt: skip


def test_what_cannot_be_an_answer_is_refused(small, run_server, claim, decision):
    server = run_server(small, ask="name", practice=0)
    ann = server.client("Ann")
    (card, *_) = claim(ann)["tasks"]
    wrong = [
        {"label": "no such class"}, {"label": ""}, {"said": "late"}, {"said": "none"}, {"said": "perhaps"},
        {"seconds": -1}, {"seconds": "soon"}, {"stage": "pair"}, {"note": "\u0000"}, {"decision": "similar"},
    ]  # fmt: skip
    for number, fields in enumerate(wrong):
        answer = ann.post("/api/decisions", json=body(card, number, **fields))
        assert answer.status_code == 422, (fields, answer.text)
    assert ann.post("/api/decisions", json=decision(card, 1)).status_code == 422, "a vote on a pair is no name"
    assert ann.post("/api/decisions", json=body({**card, "task": "0" * 24}, 1)).status_code == 404
    assert list(server.store.all()) == []
    assert ann.post("/api/decisions", json=body(card, 20)).json() == {"saved": "answer-00000020", "fresh": True}
    assert ann.post("/api/decisions", json=body(card, 20)).json()["fresh"] is False
    assert ann.post("/api/decisions", json=body(card, 20, said="unsure", label="")).status_code == 409
    assert ann.post("/api/joint/claim", json={"members": ["Ann"]}).status_code == 404


def test_an_answer_after_the_limit_is_kept_as_late(small, run_server, claim):
    server = run_server(small, ask="name", practice=0, limit_s=2.0)
    ann = server.client("Ann")
    cards = claim(ann)["tasks"]
    late = ({"seconds": 2.0}, {"seconds": 2.001}, {"seconds": 9, "said": "late", "label": ""})
    for number, (card, fields) in enumerate(zip(cards, late, strict=True)):
        assert ann.post("/api/decisions", json=body(card, number, **fields)).status_code == 200
    assert [(one.said, one.label) for one in server.store.all()] == [("class", "n01"), ("late", "n01"), ("late", "")]
    for fields in ({"seconds": None}, {"seconds": 1, "said": "late", "label": ""}):
        assert ann.post("/api/decisions", json=body(cards[0], 9, **fields)).status_code == 422


def test_a_card_tells_nothing_but_the_picture_and_a_practice_card_what_is_right(
    ladder, helpers, tmp_path, run_server, claim
):
    data = helpers.make_dataset(tmp_path / "many", n_sets=8, k=1)
    server = run_server(data, ask="name", controls=0.25, practice=1)
    ann = server.client("Ann")
    seen = claim(ann, want=12)["tasks"]
    for number, card in enumerate(seen):
        assert ann.get(f"/media/{card['picture']}").status_code == 200
        ann.post("/api/decisions", json=body(card, number))
    practice, others = seen[0], seen[1:]
    assert (practice["stage"], [one["id"][:1] for one in practice["right"]]) == ("practice", ["n"])
    assert {tuple(sorted(card)) for card in others} == {("picture", "stage", "task")}
    assert {card["stage"] for card in others} == {"name"}
    assert "control" in {one.condition for one in server.store.all()}
    session = ann.get("/api/session").json()
    assert session["ask"] == "name"
    assert session["classes"][0] == {"id": "n01", "name": "cat", "also": []}


# -- three questions in one store -------------------------------------------------------------------------------------


def test_a_vote_a_name_and_a_box_on_one_frame_are_three_things(database_url, small, clock):
    """Cast under one id by one person on one frame of one store, exported, taken in again by another store."""
    common = {"annotator": "Ann", "at": "", "frame_id": "vid0:2"}
    cast = {
        "pairs": Verdict(**common, verdict_id="one", stage="anchor", set_id="set0", decision="dissimilar"),
        "name": NameAnswer(**common, answer_id="one", said="class", label="n01"),
        "box": BoxAnswer(
            **common, answer_id="one", stage="draw", label="n01", decision="keep", xyxy=(10.0, 20.0, 110.0, 120.0)
        ),
    }
    settings = ReviewOptions(controls=0)
    stores = {ask: Store(database_url, ask=ask, clock=clock) for ask in cast}
    counts = {}
    for ask, store in stores.items():
        store.prepare(small, settings)
        store.cast([cast[ask]])
        counts[ask] = queue.progress(store, "Ann")
    kept = {ask: list(store.all()) for ask, store in stores.items()}
    assert {ask: [type(one) for one in found] for ask, found in kept.items()} == {
        "pairs": [Verdict], "name": [NameAnswer], "box": [BoxAnswer],
    }  # fmt: skip
    for ask, store in stores.items():
        store.prepare(small, settings)  # every counter anew
        assert queue.progress(store, "Ann") == counts[ask]
        assert counts[ask].mine == 1
        assert [one for _, one, _ in store.history("Ann")] == kept[ask]
        review.export(small.root, ask=ask, db=database_url)
    back = folders.read(small.root)
    assert (list(back.verdicts), list(back.names), list(back.drawn)) == (kept["pairs"], kept["name"], kept["box"])
    for store in stores.values():
        store.close()
    for ask in cast:
        fresh = Store(f"sqlite:///{small.root / 'fresh.sqlite'}", ask=ask)
        fresh.prepare(back, settings)
        assert list(fresh.all()) == kept[ask]
        assert queue.progress(fresh, "Ann").mine == 1
        fresh.close()


# -- files ------------------------------------------------------------------------------------------------------------


def test_names_go_out_as_csv_and_come_in_again(small, tmp_path):
    file = tmp_path / "given.csv"
    file.write_text(
        "frame,label,annotator,seconds,said\nclip0/frame0,cat,Ann,1.5,\nvid1:2,,Ann,,unsure\nelsewhere,cat,Ann,,\n"
    )
    found = review.import_votes(small.root, file, annotator="imported", ask="name")
    assert found == {"read": 2, "added": 2, "elsewhere": 1}
    assert review.import_votes(small.root, file, annotator="imported", ask="name")["added"] == 0
    review.export(small.root, ask="name")
    names = folders.read(small.root).names
    assert [(one.said, one.label, one.condition, one.seconds) for one in names] == [
        ("class", "n01", "member", 1.5), ("unsure", "", "anchor", None),
    ]  # fmt: skip
    written = tmp_path / "names.csv"
    written.write_text(str(export_csv(folders.read(small.root), media="none").files["names.csv"]), encoding="utf-8")
    (small.root / "review.sqlite").unlink()
    (small.root / "names.parquet").unlink()
    (small.root / "digests.json").unlink()
    assert review.import_votes(small.root, written, annotator="x", ask="name")["added"] == 2
    review.export(small.root, ask="name")
    assert folders.read(small.root).names == names
