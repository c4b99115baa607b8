"""Questions about images, What is this? and Where is it?: who is given which, what an answer may be, what comes out."""

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from strobe.annexes.web.review import queue
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.naming import NameQuestion, shown
from strobe.annexes.web.review.store import Store
from strobe.annexes.web.review.suggest import suggestions
from strobe.cli.main import main
from strobe.core.answers import BoxAnswers
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.people import BoxAnswer, NameAnswer
from strobe.core.records import Verdict
from strobe.core.variants import Variant
from strobe.formats.export_csv import export_csv
from strobe.formats.import_photos import PhotoFiles
from strobe.store import dataset_folder as folders
from strobe.workflows.import_dataset import import_dataset

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


def test_nobody_sees_two_pictures_of_one_group_and_everyone_as_many_of_each_condition(naming, ladder):
    seen = {who: finish(naming, who) for who in ("ann", "bo", "cy")}
    for tasks in seen.values():
        assert len({task.kin for task in tasks}) == len(tasks) == 12
        assert set(Counter(task.condition for task in tasks).values()) <= {3, 4, 5}
    assert len({task.frame_id for tasks in seen.values() for task in tasks}) == 36, "each image once"
    assert finish(naming, "di") == []
    assert queue.progress(naming, "di").open_for_me == 0


def test_groups_that_share_a_picture_are_one_kin(small):
    first = replace(small, sets=replace(small.sets, frame=small.sets.frame.copy()))
    assert len({one.kin for one in shown(first)}) == 3
    first.sets.frame[5] = 1  # a member of the second set is one of the first, too
    kins = {one.frame_id: one.kin for one in shown(first)}
    assert kins["vid0:0"] == kins["vid1:4"] != kins["vid2:0"]


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


BOX, NEAR, FAR = [40, 30, 140, 130], [42, 30, 142, 130], [150, 100, 300, 190]


@pytest.fixture
def say(claim):
    """Answers the image a person is given next; the card and the answer of the server."""
    number = iter(range(10_000))

    def one(client, box=BOX, *, task=None, **fields):
        card = task or claim(client)["tasks"][0]
        body = {
            "answer_id": f"answer-{next(number):08}", "task": card["task"], "stage": card["stage"],
            "label": card["labels"][0]["id"], "decision": "keep" if box else "discard", "xyxy": box,
            "reason": "" if box else "absent", "seconds": 2.5, "page_version": "abc123", **fields,
        }  # fmt: skip
        return card, client.post("/api/decisions", json=body)

    return one


def test_two_people_box_every_picture_and_only_what_disagrees_comes_again(small, run_server, say, claim):
    server = run_server(small, ask="box", votes=2)
    ann, bo = server.client("Ann"), server.client("Bo")
    first = claim(ann)
    assert len(first["tasks"]) == 3, "the anchors, each once"
    assert first["progress"]["tasks"] == 3
    names = {}
    for card in first["tasks"]:
        assert say(ann, task=card)[1].status_code == 200
    boxes = iter([NEAR, FAR, None])
    while tasks := [card for card in claim(bo)["tasks"] if card["stage"] == "draw"]:
        names[tasks[0]["task"]] = box = next(boxes)
        assert say(bo, box, task=tasks[0])[1].json()["fresh"] is True
    again = {card["task"] for card in claim(ann)["tasks"]}
    assert again == {name for name, box in names.items() if box is not NEAR}
    assert all(card["stage"] == "verify" for card in claim(bo)["tasks"])
    for client in (ann, bo):
        for card in claim(client)["tasks"]:
            say(client, BOX, task=card)
    assert claim(ann)["tasks"] == claim(bo)["tasks"] == []
    assert claim(ann)["progress"]["open_for_me"] == 0
    words = list(server.store.all())
    assert len(words) == 10
    assert len({(word.annotator, word.frame_id, word.stage) for word in words}) == 10, "none twice"
    assert [word.xyxy for word in words if word.stage == "verify"] == [tuple(BOX)] * 4


NO_ANSWERS = [
    ({"xyxy": [40, 30, 40, 130]}, "no area"),
    ({"xyxy": [140, 30, 40, 130]}, "no area"),
    ({"xyxy": [40, 30, 321, 130]}, "not inside the image of 320×200"),
    ({"xyxy": [40, 30, 140, 201]}, "not inside"),
    ({"xyxy": [-1, 30, 140, 130]}, "invalid fields: xyxy"),
    ({"xyxy": [1.5, 30, 140, 130]}, "invalid fields: xyxy"),
    ({"xyxy": [1, 30, 140]}, "invalid fields: xyxy"),
    ({"xyxy": ["1", 30, 140, 150]}, "invalid fields: xyxy"),
    ({"xyxy": None}, "BoxAnswer.xyxy: expected a box"),
    ({"label": "no such class"}, "no such class"),
    ({"label": "person"}, "expected a class of this image"),
    ({"decision": "discard"}, "a discarded image has no box"),
    ({"decision": "discard", "xyxy": None}, "BoxAnswer.reason: expected a reason"),
    ({"decision": "discard", "xyxy": None, "reason": "bored"}, "invalid fields: reason"),
    ({"reason": "absent"}, "BoxAnswer.reason: expected empty"),
    ({"stage": "pair"}, "invalid fields: stage"),
    ({"suggested": True}, "invalid fields: suggested"),
    ({"note": "a\u202eb"}, "note"),
]


def test_what_is_no_answer_is_refused_and_nothing_kept(small, run_server, say, claim):
    server = run_server(small, ask="box")
    ann = server.client("Ann")
    card = claim(ann)["tasks"][0]
    for change, why in NO_ANSWERS:
        _, answer = say(ann, task=card, **change)
        assert answer.status_code == 422, change
        assert why in answer.json()["error"], change
    assert list(server.store.all()) == []


def test_the_same_answer_twice_is_one_and_another_under_its_name_is_refused(small, run_server, say, claim):
    server = run_server(small, ask="box")
    ann = server.client("Ann")
    card, first = say(ann, answer_id="the-very-same")
    assert first.json() == {"saved": "the-very-same", "fresh": True}
    assert say(ann, task=card, answer_id="the-very-same")[1].json()["fresh"] is False
    assert say(ann, NEAR, task=card, answer_id="the-very-same")[1].status_code == 409
    assert say(ann, NEAR, task=card)[1].status_code == 200, "another word on it, which counts"
    assert [word.xyxy for word in server.store.all()] == [tuple(BOX), tuple(NEAR)]
    past = ann.get("/api/history").json()["decisions"]
    assert [one["decision"]["xyxy"] for one in past] == [NEAR], "one image, one step back"


def test_a_suggestion_taken_as_it_is_is_known_without_being_told(small, run_server, say, claim):
    frame = small.frame_ids()[int(small.sets.anchor_frame[0])]
    server = run_server(small, ask="box", suggestions={frame: tuple(FAR)})
    ann = server.client("Ann")
    cards = claim(ann)["tasks"]
    assert sorted(card["suggestion"] is not None for card in cards) == [False, False, True]
    for card in cards:
        say(ann, card["suggestion"] or FAR, task=card)
    assert {word.frame_id for word in server.store.all() if word.suggested} == {frame}


def test_earlier_boxes_are_shown_in_round_two_only_where_asked_for(small, run_server, say, claim):
    for show in (False, True):
        server = run_server(small, ask="box", votes=2, show_votes=show)
        ann, bo = server.client("Ann"), server.client("Bo")
        card, _ = say(ann, BOX)
        (same,) = [one for one in claim(bo)["tasks"] if one["task"] == card["task"]]
        assert same["votes"] == []
        say(bo, FAR, task=same)
        (again,) = [one for one in claim(ann)["tasks"] if one["stage"] == "verify"]
        assert [vote["xyxy"] for vote in again["votes"]] == ([FAR] if show else [])


def test_how_much_overlap_is_asked_for(small, run_server, say, claim):
    for agree, rounds in ((0.99, 1), (0.5, 0)):
        server = run_server(small, ask="box", votes=2, agree=agree)
        ann, bo = server.client("Ann"), server.client("Bo")
        card, _ = say(ann, BOX)
        (same,) = [one for one in claim(bo)["tasks"] if one["task"] == card["task"]]
        say(bo, NEAR, task=same)
        assert sum(one["stage"] == "verify" for one in claim(ann)["tasks"]) == rounds


def test_a_picture_of_unknown_size_is_looked_at(small, run_server, say):
    nothing = small.frames.width * 0
    unknown = replace(small, frames=replace(small.frames, width=nothing, height=nothing))
    server = run_server(unknown, ask="box")
    ann = server.client("Ann")
    assert say(ann, [0, 0, 320, 200])[1].status_code == 200
    assert "320×200" in say(ann, [0, 0, 321, 200])[1].json()["error"]


def word(dataset, number, annotator, box, *, stage="draw", at=0, label=None, suggested=False):
    row = int(dataset.sets.anchor_frame[number])
    space = dataset.info.label_space
    return BoxAnswer(
        answer_id=f"{annotator}-{number}-{stage}", annotator=annotator, at=f"2026-01-01T00:00:{at:02}.000000Z",
        stage=stage, frame_id=dataset.frame_ids()[row], label=label or space.ids[dataset.labels_of(row)[0]],
        decision="keep" if box else "discard", xyxy=box, reason="" if box else "several", suggested=suggested,
        seconds=3.0,
    )  # fmt: skip


@pytest.fixture
def boxed(small):
    """The small dataset, boxed by two people: alike, apart, and once discarded by both."""
    said = [
        word(small, 0, "Ann", (40, 30, 140, 130)), word(small, 0, "Bo", (42, 30, 142, 131)),
        word(small, 1, "Ann", (10, 10, 60, 60)), word(small, 1, "Bo", (10, 10, 60, 180)),
        word(small, 2, "Ann", None), word(small, 2, "Bo", None),
    ]  # fmt: skip
    folders.append_answers(small.root, "drawn", said)
    return folders.read(small.root)


@pytest.fixture
def run(capsys):
    """Runs a command as the shell does: exit code and everything it said."""

    def one(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(one) for one in arguments])
        said = capsys.readouterr()
        return SimpleNamespace(exit_code=left.value.code, output=said.out, error=said.err)

    return one


def test_export_writes_answers_figures_a_dataset_and_crops(boxed, tmp_path, run):
    before = {path: path.read_bytes() for path in boxed.root.glob("*.parquet")}
    out, crops = tmp_path / "boxed", tmp_path / "crops"
    done = run("review", "export", boxed.root, "--ask", "box", "-o", out, "--crops", crops)
    assert done.exit_code == 0, done.error
    assert f"written: {boxed.root}/drawn.parquet, drawn.json, {out}/, {crops}/" in done.output
    assert "1 image not reviewed in round two" in done.error
    assert {path: path.read_bytes() for path in before} == before, "nothing of the dataset is changed"
    made = folders.read(out)
    assert made.sets.set_id.tolist() == ["set0", "set1"]
    assert [made.boxes.of_frame(row)[0].xyxy for row in made.sets.anchor_frame.tolist()] == [
        (41, 30, 141, 130.5), (10, 10, 60, 120),
    ]  # fmt: skip
    assert made.drawn == ()
    assert made.info.provenance["boxed_from"] == boxed.digest()
    assert (out / made.frames.media[0]).is_file()
    manifest = json.loads((crops / "manifest.json").read_text())
    assert [entry["file"] for entry in manifest["crops"]] == ["n01/clip0__frame2.jpg", "n02/clip1__frame2.jpg"]
    assert manifest["crops"][1]["agreement"] == pytest.approx(50 / 170)
    with Image.open(crops / "n01/clip0__frame2.jpg") as picture:
        assert picture.size == (100, 101)
    again = import_dataset("photos", crops, tmp_path / "again", files=PhotoFiles()).dataset
    assert [again.info.label_space.ids[label] for label in again.labels.label] == ["n01", "n02"]
    figures = json.loads((boxed.root / "drawn.json").read_text())
    assert figures["schema"] == 1
    once = {path: path.stat().st_mtime_ns for path in crops.rglob("*.jpg")}
    assert run("review", "export", boxed.root, "--ask", "box", "-o", out, "--crops", crops).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in once} == once, "again: nothing is cut twice"


def test_votes_decide_which_sets_get_boxes(boxed, tmp_path):
    from strobe.core.records import Verdict

    ids = boxed.frame_ids()
    votes = [
        Verdict(
            verdict_id=f"v{number}-{row}", annotator="Ann", at="2026-01-01", stage="pair",
            set_id=str(boxed.sets.set_id[number]), frame_id=ids[row], decision="similar", bad_anchor=number == 0,
        )
        for number in range(3)
        for row in boxed.sets.frame[(boxed.sets.set == number) & ~boxed.sets.is_anchor].tolist()
    ]  # fmt: skip
    folders.append_verdicts(boxed.root, votes)
    review.export(boxed.root, ask="box", out=tmp_path / "boxed")
    made = folders.read(tmp_path / "boxed")
    assert made.sets.set_id.tolist() == ["set1"], "the set of the bad anchor stays dropped"
    assert made.info.reviewed == "release"


def test_anchors_without_labels_are_said(small):
    nothing = np.zeros(0, dtype=np.int64)
    bare = replace(small, labels=replace(small.labels, frame=nothing, label=nothing))
    from strobe.annexes.web.review.boxing import BoxQuestion
    from strobe.annexes.web.review.conduct import ReviewOptions

    with pytest.raises(StrobeError, match="no anchor has a label"):
        BoxQuestion().plan(bare, ReviewOptions(), secret=b"s")


def test_boxes_from_csv(small, tmp_path, run):
    file = tmp_path / "boxes.csv"
    head = "frame,label,x0,y0,x1,y1,reason,annotator\n"
    file.write_text(
        head + "clip0/frame2,cat,1,2,30,40,,Ann\nclip1/frame2,dog,,,,,absent,Ann\nelsewhere,cat,1,1,2,2,,Ann\n"
    )
    done = run("review", "import", small.root, file, "--ask", "box")
    assert done.exit_code == 0, done.error
    assert "2 votes read, 2 new; 1 skipped because they are about frames outside the dataset" in done.output
    assert "0 new" in run("review", "import", small.root, file, "--ask", "box").output
    assert review.status(small.root, ask="box")["table"]["kept"] == 1
    assert review.status(small.root, ask="box")["answers"] == 2


def test_suggestions_from_a_file_and_from_a_run(small, tmp_path):
    keys = ("clip0/frame2", "clip1/frame2", "clip9/not-here")
    rows = [{"image_id": key, "category_id": "cat", "bbox": [10, 20, 100.4, 90.6], "score": 0.9} for key in keys]
    file = tmp_path / "found.json"
    file.write_text(json.dumps(rows))
    found = suggestions(small, f"preds:{file}")
    ids = small.frame_ids()
    assert found == {ids[int(small.sets.anchor_frame[number])]: (10, 20, 110, 111) for number in (0, 1)}
    from strobe.store.brought import keep_brought
    from strobe.store.frame_names import FrameNames
    from strobe.store.run_folder import Run

    run_folder = Run(tmp_path / "run")
    answers = BoxAnswers.of(
        np.array([2]), np.array([0]), np.array([[1.0, 2.0, 50.0, 60.0]]), np.array([0.5]), n_frames=len(small.frames),
        n_classes=4, model="finder",
    )  # fmt: skip
    run_folder.record(small, path=small.root, changes={})
    keep_brought(run_folder.path, answers, frames=FrameNames(small), source=file, facts={})
    assert suggestions(small, str(run_folder.path)) == {ids[2]: (1, 2, 50, 60)}
    assert suggestions(small, f"finder={run_folder.path}") == {ids[2]: (1, 2, 50, 60)}
    with pytest.raises(StrobeError, match="no predictions of nobody"):
        suggestions(small, f"nobody={run_folder.path}")
    keep_brought(
        run_folder.path, replace(answers, model="other"), frames=FrameNames(small), source=file,
        facts={},
    )  # fmt: skip
    with pytest.raises(StrobeError, match=r"several detectors \(finder, other\)"):
        suggestions(small, str(run_folder.path))
