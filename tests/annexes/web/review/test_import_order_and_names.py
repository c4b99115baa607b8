"""Votes made elsewhere: the last line counts, what the page would refuse is refused, one person has one name."""

import json
import re
from itertools import permutations

import pytest

from strobe.annexes.web.review import queue
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.store import Store
from strobe.core.derivation import derive, latest_votes
from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folders


def write(path, *lines, header="set,frame,decision,annotator"):
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def votes_in(data):
    store = Store(f"sqlite:///{data.root / 'review.sqlite'}")
    try:
        return list(store.all())
    finally:
        store.close()


def last_word(data, frame="vid0:1"):
    return {v.decision for v in latest_votes(votes_in(data))["set0", frame].values()}


@pytest.mark.parametrize("said", list(permutations(["similar", "dissimilar", "unsure"])))
def test_the_last_line_without_a_time_wins(small, tmp_path, said):
    file = write(tmp_path / "votes.csv", *(f"set0,vid0:1,{one},Ann" for one in said))
    assert review.import_votes(small.root, file, annotator="x")["added"] == 3
    assert last_word(small) == {said[-1]}
    assert review.import_votes(small.root, file, annotator="x")["added"] == 0
    assert last_word(small) == {said[-1]}
    review.export(small.root)
    assert derive(folders.read(small.root)).kept[1] == (said[-1] == "similar")


def test_a_file_imported_later_corrects_an_earlier_one(small, tmp_path):
    for number, said in enumerate(["dissimilar", "unsure", "similar"]):
        before = [f"set0,vid0:{place},similar,Ann" for place in (3, 4)] if number == 0 else []
        file = write(tmp_path / f"{number}.csv", *before, f"set0,vid0:1,{said},Ann")
        review.import_votes(small.root, file, annotator="x")
        assert last_word(small) == {said}


def test_a_vote_on_the_page_still_counts_over_any_import(small, tmp_path):
    store = Store(f"sqlite:///{small.root / 'review.sqlite'}")
    store.prepare(small, ReviewOptions(controls=0))
    claimed = next(c for c in queue.claim(store, "Ann", tab="t", want=12) if c.task.frame_id == "vid0:1")
    file = write(tmp_path / "votes.csv", "set0,vid0:1,dissimilar,Ann", "set0,vid0:1,similar,Ann")
    review.import_votes(small.root, file, annotator="x")
    imported = next(v for v in store.all() if v.frame_id == claimed.task.frame_id)
    store.cast([type(imported)(
        verdict_id="on-the-page", annotator="Ann", at="", stage="pair", set_id="set0", frame_id="vid0:1",
        decision="unsure",
    )])  # fmt: skip
    store.close()
    assert last_word(small) == {"unsure"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 0)])
def test_the_last_entry_of_a_repeated_key_wins_in_json(small, tmp_path, order):
    entries = [
        {"key": "clip0/frame2,clip0/frame1", "notes": "", "labels": [0, 1]},
        {"key": "clip0/frame2,clip0/frame1", "notes": "", "labels": [2]},
    ]
    file = tmp_path / "pairs.json"
    labels = ["correct", "similar", "dissimilar"]
    file.write_text(json.dumps({"annotations": [entries[place] for place in order], "labels": labels}))
    assert review.import_votes(small.root, file, annotator="papers")["added"] == len(order)
    assert last_word(small) == {"similar" if order[-1] == 0 else "dissimilar"}
    assert review.import_votes(small.root, file, annotator="papers")["added"] == 0


# -- what the page would refuse ---------------------------------------------------------------------------------------


# -- one person, one name ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["ann lee", "ANN LEE", "Ann  Lee", "\uff21nn Lee"])
def test_another_spelling_of_a_name_is_refused(small, tmp_path, other):
    one = write(tmp_path / "one.csv", "set0,vid0:1,similar,Ann Lee")
    review.import_votes(small.root, one, annotator="x")
    two = write(tmp_path / "two.csv", "set0,vid0:3,similar,Bo", f"set0,vid0:1,dissimilar,{other}")
    says = re.escape("two.csv: line 3: the name") + ".*'Ann Lee'.*"
    with pytest.raises(StrobeError, match=says):
        review.import_votes(small.root, two, annotator="x")
    both = write(tmp_path / "both.csv", "set0,vid0:1,similar,Cy Day", f"set0,vid0:1,similar,{other}")
    with pytest.raises(StrobeError, match=re.escape("both.csv: line 3")):
        review.import_votes(small.root, both, annotator="x")
    assert [v.annotator for v in votes_in(small)] == ["Ann Lee"], "nothing of a refused file is kept"


def test_the_name_of_the_importer_is_checked_too(small, tmp_path):
    file = write(tmp_path / "one.csv", "set0,vid0:1,similar", header="set,frame,decision")
    review.import_votes(small.root, file, annotator="Ann")
    with pytest.raises(StrobeError, match="differs from 'Ann'"):
        review.import_votes(small.root, file, annotator="ann")
    review.export(small.root)
    (small.root / "review.sqlite").unlink()
    with pytest.raises(StrobeError, match="differs from 'Ann'"):
        review.import_votes(small.root, file, annotator="ann")


def test_two_spellings_already_there_stay_two(small, tmp_path):
    """A store from before the rule: each name goes on as it is."""
    store = Store(f"sqlite:///{small.root / 'review.sqlite'}")
    store.prepare(small, ReviewOptions(controls=0))
    pair = queue.claim(store, "Ann", tab="t", want=1)[0].task
    from strobe.core.records import Verdict

    for name in ("Ann", "ann"):
        store.cast([Verdict(
            verdict_id=f"v-{name}", annotator=name, at="", stage="pair", set_id=pair.set_id, frame_id=pair.frame_id,
            decision="similar",
        )])  # fmt: skip
    store.close()
    file = write(tmp_path / "one.csv", "set0,vid0:1,similar,ann", "set0,vid0:1,similar,Ann")
    assert review.import_votes(small.root, file, annotator="x")["added"] == 2
