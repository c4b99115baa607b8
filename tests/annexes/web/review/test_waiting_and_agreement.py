"""What status and export say of a review that is not finished, and which votes count as independent."""

import json
import re
import shutil
from dataclasses import replace
from itertools import count

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strobe.annexes.web.review import queue
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.command import command
from strobe.annexes.web.review.conduct import Conduct, ReviewOptions
from strobe.annexes.web.review.people import People
from strobe.annexes.web.review.plan import plan
from strobe.annexes.web.review.store import Store
from strobe.annexes.web.review.summary import summarise
from strobe.core.records import Verdict
from strobe.store import dataset_folder as folders

_ids = count()


def vote(set_number, frame, who, decision="similar", *, stage="pair", at=None, **fields):
    number = next(_ids)
    return Verdict(
        verdict_id=f"vote-{number:06}", annotator=who, at=at or f"2026-01-01T00:00:00.{number:06}Z", stage=stage,
        set_id=f"set{set_number}", frame_id=f"vid{set_number}:{frame}", decision=decision, **fields,
    )  # fmt: skip


def round_one(*people, n_sets=3):
    return [vote(s, f, who) for who in people for s in range(n_sets) for f in (0, 1, 3, 4)]


def conduct(*people, shown=(), **chosen):
    return Conduct(settings=ReviewOptions(**chosen), people=people, shown=shown)


def waiting(data, votes, how):
    return summarise(data, votes, conduct=how)["waiting"]


# -- what is waited for -----------------------------------------------------------------------------------------------


def test_doubtful_pairs_wait_for_everyone(small):
    votes = [*round_one("Ann"), vote(0, 1, "Ann", "dissimilar"), vote(1, 3, "Ann", label_right=False)]
    votes += [vote(0, 1, "Ann", stage="verify"), vote(1, 3, "Bo", stage="joint")]
    found = waiting(small, votes, conduct("Ann", "Bo", "Cy"))["round_two"]
    assert found == {"on": True, "pairs": 2, "votes": 4, "people": {"Ann": 1, "Bo": 1, "Cy": 2}}
    votes += [vote(0, 1, who, stage="verify") for who in ("Bo", "Cy")]
    assert waiting(small, votes, conduct("Ann", "Bo", "Cy"))["round_two"]["people"] == {"Ann": 1, "Cy": 1}


def test_without_round_two_doubtful_pairs_are_counted(small):
    votes = [*round_one("Ann"), vote(0, 1, "Ann", "unsure"), vote(0, 3, "Ann", "unsure")]
    off = waiting(small, votes, conduct("Ann", verify=False))["round_two"]
    assert off == {"on": False, "pairs": 2, "votes": None, "people": {}}
    unknown = waiting(small, [*votes[4:], vote(0, 3, "Bo", stage="verify")], None)
    assert unknown["round_one"] == {"pairs": 2, "votes": None}
    assert unknown["round_two"] == {"on": None, "pairs": 1, "votes": None, "people": {}}


one_vote = st.tuples(
    st.sampled_from(["ann", "bo", "cy"]),
    st.integers(0, 14),
    st.sampled_from(["similar", "similar", "similar", "dissimilar", "unsure"]),
    st.sampled_from([True, True, False, None]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from(["pair", "pair", "verify", "joint"]),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(one_vote, max_size=30), st.integers(1, 2), st.booleans(), st.booleans())
def test_what_is_waited_for_is_what_the_queue_holds(small, tmp_path_factory, drawn, votes, labels, verify):
    store = Store(f"sqlite:///{tmp_path_factory.mktemp('queue') / 'review.sqlite'}")
    store.prepare(small, ReviewOptions(controls=0, votes=votes, labels=labels, verify=verify))
    for name in ("ann", "bo", "cy"):
        People(store).add(name)
    tasks = plan(small, secret=store.secret(), seed=0, controls=0)
    for who, place, decision, right, bad, stage in drawn:
        task = tasks[place]
        cast = vote(0, 0, who, decision, label_right=right, bad_anchor=bad, stage=stage)
        stage = "anchor" if task.kind == "anchor" else stage
        store.cast([replace(cast, set_id=task.set_id, frame_id=task.frame_id, stage=stage)])
    found = waiting(small, list(store.all()), store.conduct())
    whole = queue.progress(store, "ann")
    assert found["round_one"]["pairs"] == whole.tasks_open
    assert found["anchors"] == whole.anchors_open
    if verify:
        own = {name: queue.progress(store, name) for name in ("ann", "bo", "cy")}
        left = {name: counts.verify - counts.verify_mine for name, counts in own.items()}
        assert found["round_two"]["people"] == {name: n for name, n in left.items() if n}
        assert found["round_two"]["votes"] == sum(left.values())
    store.close()


def served(data, cast, *people, **chosen):
    """A store that was served with these settings, with votes in it."""
    store = Store(f"sqlite:///{data.root / 'review.sqlite'}")
    store.prepare(data, ReviewOptions(controls=0, **chosen))
    for name in people:
        People(store).add(name)
    store.extend(cast)
    store.close()


def test_status_and_export_say_that_round_two_is_not_finished(small):
    served(small, [*round_one("Ann"), vote(0, 1, "Ann", "unsure")], "Ann", "Bo")
    runner = CliRunner()
    shown = runner.invoke(command, ["status", str(small.root)])
    assert "round one: every pair has its votes" in shown.output
    assert "round two: 2 votes on 1 doubtful pair pending: Ann 1, Bo 1" in shown.output
    exported = runner.invoke(command, ["export", str(small.root), "--json"])
    assert exported.exit_code == 0
    assert exported.stderr == (
        "note: the sets are based on an incomplete review: 1 doubtful pair not verified by everyone in round two\n"
    )
    assert json.loads(exported.stdout)["waiting"]["round_two"]["people"] == {"Ann": 1, "Bo": 1}
    served(small, [vote(0, 1, who, stage="verify") for who in ("Ann", "Bo")], "Ann", "Bo")
    assert "no doubtful pair is pending" in runner.invoke(command, ["status", str(small.root)]).output
    assert runner.invoke(command, ["export", str(small.root)]).stderr == ""


def test_who_is_paused_is_not_waited_for(small):
    served(small, [*round_one("Ann"), vote(0, 1, "Ann", "unsure"), vote(0, 1, "Ann", stage="verify")], "Ann", "Bo")
    assert review.status(small.root)["waiting"]["round_two"]["people"] == {"Bo": 1}
    store = Store(f"sqlite:///{small.root / 'review.sqlite'}")
    People(store).pause("Bo", paused=True)
    store.close()
    assert review.status(small.root)["waiting"]["round_two"]["pairs"] == 0


def test_imported_votes_alone_say_what_can_be_said(small, tmp_path):
    file = tmp_path / "votes.csv"
    file.write_text("set,frame,decision\nset0,vid0:0,similar\nset0,vid0:1,unsure\n")
    review.import_votes(small.root, file, annotator="imported")
    runner = CliRunner()
    shown = runner.invoke(command, ["status", str(small.root)]).output
    assert "round one: 10 pairs without a vote\n" in shown
    assert "round two: 1 doubtful pair never verified\n" in shown
    assert "the requested number of votes is unknown here" in shown
    assert review.status(small.root)["conduct"] is None


def test_a_folder_without_its_store_remembers_how_it_was_reviewed(small, tmp_path):
    served(small, round_one("Ann"), "Ann", votes=2, show_votes=True)
    review.export(small.root)
    before = review.status(small.root)
    copy = tmp_path / "copy"
    shutil.copytree(small.root, copy, ignore=shutil.ignore_patterns("*.sqlite*"))
    assert review.status(copy) == before
    assert before["conduct"]["settings"]["votes"] == 2
    figures = json.loads((copy / "review.json").read_text())
    (copy / "review.json").write_text(json.dumps({**figures, "conduct": {"settings": {"votes": "many"}}}))
    assert review.status(copy)["conduct"] is None, "not understood is not known"


# -- agreement --------------------------------------------------------------------------------------------------------


def test_agreement_over_few_videos_says_so(small, helpers, tmp_path):
    votes = [*round_one("Ann", "Bo"), vote(0, 1, "Bo", "dissimilar"), vote(1, 1, "Ann", "unsure")]
    served(small, votes, "Ann", "Bo", votes=2)
    agreement = review.status(small.root)["agreement"]
    says = "only 3 videos: the interval is too narrow"
    for one in (
        agreement["raw"],
        agreement["fleiss_kappa"],
        agreement["krippendorff_alpha"],
        *agreement["cohen_kappa"],
    ):
        assert one["low"] is not None
        assert one["reason"] == says
    shown = CliRunner().invoke(command, ["status", str(small.root)]).output
    assert re.search(rf"raw +83\.3 \[.*\] \({says}\)", shown)
    assert shown.count(says) == 4
    many = helpers.make_dataset(tmp_path / "many", n_sets=10, images=False)
    found = summarise(many, [*round_one("Ann", "Bo", n_sets=10), vote(0, 1, "Bo", "unsure")])["agreement"]["raw"]
    assert "reason" not in found


def test_votes_cast_with_the_others_in_sight_are_not_independent(small):
    votes = [*round_one("Ann", "Bo"), vote(0, 1, "Bo", "dissimilar")]
    alone = summarise(small, votes, conduct=conduct("Ann", "Bo", votes=2))["agreement"]
    assert alone["raw"]["value"] == pytest.approx(11 / 12)
    swayed = [*votes, vote(0, 1, "Bo", stage="verify"), vote(0, 1, "Cy", stage="verify")]
    hidden = summarise(small, swayed, conduct=conduct("Ann", "Bo", votes=2))["agreement"]
    assert hidden == {**alone, "round_two": hidden["round_two"]}
    assert (hidden["round_two"]["raw"]["value"], hidden["round_two"]["pairs_with_two_votes"]) == (1.0, 1)
    shown = summarise(small, swayed, conduct=conduct("Ann", "Bo", votes=2, show_votes=True))["agreement"]
    assert shown == {**alone, "votes_left_out": 2}
    together = summarise(small, [*votes, vote(0, 1, "Bo", stage="joint")], conduct=None)["agreement"]
    assert together == {**alone, "votes_left_out": 1}


def test_when_votes_were_shown_is_remembered(small, clock):
    store = Store(f"sqlite:///{small.root / 'review.sqlite'}", clock=clock)
    asked = [False, False, True, True, False]
    moments = []
    for shown in asked:
        store.prepare(small, ReviewOptions(controls=0, show_votes=shown))
        clock.now += 10
        cast = store.cast([vote(0, 1, "Ann", stage="verify")])
        moments.append(cast[0].answer.at)
        clock.now -= 15  # even where the clock runs backwards
    found = store.conduct()
    assert [found.round_two.showed_votes(at) for at in moments] == asked
    assert len(found.shown) == 3
    store.close()
    dataset = folders.read(small.root)
    assert review.status(dataset.root)["agreement"]["votes_left_out"] == 2


def test_a_bad_anchor_is_one_reason(small):
    votes = [
        vote(0, 1, "Ann", "dissimilar", bad_anchor=True),
        vote(0, 3, "Ann", "dissimilar"),
        vote(1, 1, "Ann", "dissimilar", reason="blur", bad_anchor=True),
        vote(1, 3, "Ann", "unsure", bad_anchor=True),
    ]
    assert summarise(small, votes)["reasons"] == {"blur": 1, "none given": 1, "bad anchor": 3}
