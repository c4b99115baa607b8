"""The published review protocol by hand-made cases."""

from dataclasses import replace
from itertools import count, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.analyses.results import unreviewed
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.derivation import derive, latest_votes, review_views, reviewed
from strobe.core.errors import InvalidValue
from strobe.core.labels import LabelSpace
from strobe.core.records import Unreviewed, Verdict
from strobe.core.tables import Frames, Labels, Sets, Videos, texts

_clock = count()
SPACE = LabelSpace.of_names("pets", ["cat", "dog", "person"])


def tiny(n_sets=2, k=2, *, label_source="anchor") -> Dataset:
    """Sets of one video each: an anchor at k and candidates at −k … k; every frame is a cat."""
    width = 2 * k + 1
    n = n_sets * width
    zeros = np.zeros(n, dtype=np.int64)
    blank = texts([""] * n)
    return Dataset(
        info=DatasetInfo(name="tiny", label_space=SPACE, k=k, label_source=label_source, reviewed="votes"),
        videos=Videos(
            video_id=texts([f"v{i}" for i in range(n_sets)]), name=texts([f"v{i}" for i in range(n_sets)]),
            fps_num=np.full(n_sets, 30), fps_den=np.full(n_sets, 1), n_frames=np.full(n_sets, width),
            path=texts([""] * n_sets), codec=texts([""] * n_sets),
        ),
        frames=Frames(
            video=np.repeat(np.arange(n_sets), width), index=np.tile(np.arange(width), n_sets),
            key=texts([f"v{i // width}/{i % width}" for i in range(n)]), pts=zeros, time_num=zeros, time_den=zeros,
            pict_type=blank, width=zeros, height=zeros, sha256=blank, media=blank,
        ),
        sets=Sets(
            set_id=texts([f"s{i}" for i in range(n_sets)]), set=np.repeat(np.arange(n_sets), width),
            frame=np.arange(n), distance=np.tile(np.arange(-k, k + 1), n_sets).astype(float),
            is_anchor=np.tile(np.arange(-k, k + 1) == 0, n_sets),
        ),
        labels=Labels(frame=np.arange(n), label=np.zeros(n, dtype=np.int64)),
    )  # fmt: skip


def vote(who, offset, decision="similar", *, number=0, k=2, stage="pair", **fields) -> Verdict:
    moment = next(_clock)
    return Verdict(
        verdict_id=f"id{moment:06}", annotator=who, at=f"2026-01-01T00:00:00.{moment:06}Z", stage=stage,
        set_id=f"s{number}", frame_id=f"v{number}:{k + offset}", decision=decision, **fields,
    )  # fmt: skip


def kept(*votes, data=None) -> dict[str, list[int]]:
    """What stays: set → offsets of its members, the anchor (0) among them."""
    data = replace(data or tiny(), verdicts=votes)
    rows = np.flatnonzero(derive(data).kept)
    out: dict[str, list[int]] = {}
    for row in rows:
        out.setdefault(str(data.sets.set_id[data.sets.set[row]]), []).append(int(data.sets.distance[row]))
    return out


@pytest.mark.parametrize(
    ("decisions", "stays"),
    [
        (["similar"], True),
        (["dissimilar"], False),
        (["unsure"], False),
        (["similar", "dissimilar"], False),  # a tie is not similar
        (["similar", "unsure"], False),  # unsure is in the denominator
        (["similar", "similar", "dissimilar"], True),
        (["similar", "dissimilar", "unsure"], False),
        (["similar", "similar", "unsure", "dissimilar"], False),
        (["similar", "similar", "similar", "unsure", "dissimilar"], True),
    ],
)
def test_strict_majority(decisions, stays):
    votes = [vote(f"a{i}", 1, decision) for i, decision in enumerate(decisions)]
    assert kept(*votes) == {"s0": [0, 1] if stays else [0]}


def test_changed_mind_counts_once_and_latest():
    assert kept(vote("ann", 1, "dissimilar"), vote("ann", 1, "similar")) == {"s0": [0, 1]}
    assert kept(vote("ann", 1, "similar"), vote("ann", 1, "dissimilar")) == {"s0": [0]}
    first, second = vote("ann", 1, "similar"), vote("ann", 1, "dissimilar")
    assert kept(second, first) == {"s0": [0]}, "the order of rows does not matter, their time does"


def test_round_two_supersedes_the_same_annotators_round_one():
    votes = [vote("ann", 1, "dissimilar", reason="blur")]
    votes += [vote(who, 1, "similar", stage="verify") for who in ("bo", "cy")]
    assert kept(*votes) == {"s0": [0, 1]}, "two of three"
    assert kept(*votes[:2]) == {"s0": [0]}, "a tie"
    assert kept(*votes[:2], vote("ann", 1, "similar", stage="joint")) == {"s0": [0, 1]}, "ann changed her mind"


def test_wrong_label_discards_the_neighbour():
    assert kept(vote("ann", 1, label_right=False)) == {"s0": [0]}
    assert kept(vote("ann", 1, label_right=False), vote("bo", 1, label_right=True)) == {"s0": [0]}, "a tie"
    three = [vote("ann", 1, label_right=False), vote("bo", 1, label_right=True), vote("cy", 1, label_right=True)]
    assert kept(*three) == {"s0": [0, 1]}


def test_bad_anchor_drops_the_set_unless_a_strict_majority_disagrees():
    good = vote("bo", -1)
    bad = vote("ann", 1, "dissimilar", bad_anchor=True)
    other = vote("bo", 1, number=1)
    assert kept(good, bad, other) == {"s1": [0, 1]}
    assert kept(good, bad, vote("bo", 1), other) == {"s1": [0, 1]}, "one against one: still dropped"
    saved = kept(good, bad, vote("bo", 1, stage="verify"), vote("cy", 1, stage="verify"), other)
    assert saved == {"s0": [-1, 0, 1], "s1": [0, 1]}
    assert kept(bad, vote("ann", 1, "similar"), other) == {"s0": [0, 1], "s1": [0, 1]}, "undone"


def test_unreviewed_pairs_and_sets_are_not_kept():
    data = replace(tiny(), verdicts=(vote("ann", 1),))
    derivation = derive(data)
    assert derivation.counts(data) == {
        "anchors": 2, "anchors_reviewed": 1, "anchors_accepted": 1, "pairs": 8, "pairs_reviewed": 1,
        "pairs_accepted": 1, "pairs_pending": 7, "sets_without_votes": 1,
    }  # fmt: skip


def test_control_votes_decide_nothing():
    same = vote("ann", 0, "dissimilar")
    other = replace(vote("ann", 1, "dissimilar"), frame_id="v1:0")
    assert kept(vote("ann", 1), same, other) == {"s0": [0, 1]}


def test_anchor_votes_drop_bad_and_unsure_anchors():
    pair = vote("ann", 1)
    assert kept(pair, vote("ann", 0, stage="anchor")) == {"s0": [0, 1]}
    assert kept(pair, vote("bo", 1, number=1), vote("ann", 0, "dissimilar", stage="anchor")) == {"s1": [0, 1]}
    assert kept(pair, vote("bo", 1, number=1), vote("ann", 0, "unsure", stage="anchor")) == {"s1": [0, 1]}


def labels_after(*votes, label_source="anchor"):
    data = tiny(label_source=label_source)
    table = derive(replace(data, verdicts=votes)).labels
    return {(f"s{f // 5}", f % 5 - 2): sorted(SPACE.ids[i] for i in table.label[table.frame == f]) for f in range(10)}


def test_densified_labels_are_carried_to_the_neighbours():
    found = labels_after(vote("ann", 0, stage="anchor", labels=("cat", "person")))
    assert {found["s0", offset] == ["cat", "person"] for offset in range(-2, 3)} == {True}
    assert found["s1", 0] == ["cat"]


def test_no_neighbour_is_left_without_a_label():
    """The anchor had two labels and keeps one; a neighbour that had only the other takes the anchor's."""
    data = tiny(label_source="frame")
    anchor, member = int(data.sets.anchor_frame[0]), int(data.sets.anchor_frame[0]) + 1
    dog = SPACE.index("dog")
    labels = Labels(
        frame=np.append(data.labels.frame, anchor).astype(np.int32),
        label=np.append(data.labels.label, dog).astype(np.int32),
    )
    order = np.lexsort((labels.label, labels.frame))
    data = replace(data, labels=Labels(frame=labels.frame[order], label=labels.label[order]))
    after = derive(replace(data, verdicts=(vote("ann", 0, stage="anchor", labels=("dog",)),))).labels
    assert after.label[after.frame == member].tolist() == [dog]


def test_pairs_nobody_looked_at_are_counted():
    anchors = [vote("ann", 0, number=number, stage="anchor") for number in (0, 1)]
    data = replace(tiny(), verdicts=tuple(anchors))
    assert unreviewed(reviewed(data)) == Unreviewed(pairs=8, sets=2)
    some = replace(data, verdicts=(*anchors, vote("ann", 1), vote("ann", -1, "dissimilar")))
    assert unreviewed(reviewed(some)) == Unreviewed(pairs=6, sets=1)
    dropped = replace(data, verdicts=(vote("ann", 0, "dissimilar", stage="anchor"), vote("ann", 1, number=1)))
    assert unreviewed(reviewed(dropped)) == Unreviewed(pairs=3, sets=0)
    first = reviewed(some).only_videos([str(some.videos.name[some.video_of_set[0]])])
    assert unreviewed(first) == Unreviewed(pairs=2, sets=0)
    assert unreviewed(data) == Unreviewed(pairs=0, sets=0)  # of candidates nothing was left out


def test_labels_need_a_strict_majority():
    one = vote("ann", 0, stage="anchor", labels=("cat", "dog"))
    two = vote("bo", 0, stage="anchor", labels=("cat", "person"))
    assert labels_after(one, two)["s0", 0] == ["cat"]
    assert labels_after(one, two, vote("cy", 0, stage="anchor", labels=("dog",)))["s0", 0] == ["cat", "dog"]
    three = [vote(who, 0, stage="anchor", labels=(name,)) for who, name in zip("abc", SPACE.ids, strict=True)]
    data = replace(tiny(), verdicts=tuple(three))
    assert derive(data).undecided_labels == ("s0",)
    assert labels_after(*three)["s0", 0] == ["cat"], "no label has a majority: the labels stay as they were"


def test_views_for_review_impact():
    votes = [vote("ann", 1), vote("ann", -1, "dissimilar"), vote("ann", 0, stage="anchor", labels=("cat", "dog"))]
    votes += [vote("ann", 1, number=1, bad_anchor=True, decision="dissimilar")]
    data = replace(tiny(), verdicts=tuple(votes))
    before, anchors, members = review_views(data)
    assert (before.n_sets, anchors.n_sets, members.n_sets) == (2, 1, 1)
    waiting = 2  # pairs of the kept set without a vote: review is not credited with what nobody looked at
    assert (len(before.sets.set), len(anchors.sets.set), len(members.sets.set)) == (10 - waiting, 5 - waiting, 2)
    assert before.labels_of(2) == (0,)
    assert anchors.labels_of(2) == members.labels_of(2) == (0, 1)
    assert reviewed(data).n_sets == 1


def test_no_votes_and_nothing_kept_are_one_line_errors():
    with pytest.raises(InvalidValue, match="no votes yet"):
        derive(tiny())
    nothing = replace(tiny(n_sets=1), verdicts=(vote("ann", 1, "dissimilar", bad_anchor=True),))
    for ask in (reviewed, review_views):
        with pytest.raises(InvalidValue, match="reject every set"):
            ask(nothing)


def test_ties_in_time_are_broken_by_id_not_by_place():
    one, two = vote("ann", 1, "similar"), vote("ann", 1, "dissimilar")
    one, two = replace(one, at="t"), replace(two, at="t")
    for order in permutations([one, two]):
        assert latest_votes(order)["s0", "v0:3"]["ann"] == two


one_vote = st.tuples(
    st.sampled_from("abc"), st.sampled_from([-2, -1, 1, 2]), st.sampled_from(["similar", "dissimilar", "unsure"])
)
choices = st.lists(one_vote, min_size=1, max_size=30)


@settings(max_examples=80, deadline=None)
@given(choices, st.randoms())
def test_against_a_plain_reference(drawn, random):
    votes = [vote(who, offset, decision) for who, offset, decision in drawn]
    expected = [0]
    for offset in (-2, -1, 1, 2):
        last = {who: decision for who, place, decision in drawn if place == offset}
        if sum(decision == "similar" for decision in last.values()) * 2 > len(last) > 0:
            expected.append(offset)
    random.shuffle(votes)
    assert kept(*votes) == {"s0": sorted(expected)}
