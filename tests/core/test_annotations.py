"""The papers' annotation files read as votes: the reference rule for a pair and for an anchor, word by word."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.annotations import Annotation, anchor_verdict, pair_verdict, parse_annotations
from strobe.core.derivation import Tally
from strobe.core.errors import InvalidFile

AGAINST = {
    "dissimilar", "problematic", "incorrect", "dont know", "deformation", "background-change", "occlusion-increased",
    "blur-increase", "bad-anchor",
}  # fmt: skip
PAIR_WORDS = sorted(AGAINST | {"similar", "correct"})


def pair(words) -> Tally:
    said = Annotation(keys=("a/f-1.jpg", "a/f-2.jpg"), words=frozenset(words), note="")
    vote = pair_verdict(said, annotator="release", at="2019-01-01T00:00:00Z", set_id="s", frame_id="v:2")
    return Tally.of([vote])


@given(st.sets(st.sampled_from(PAIR_WORDS)))
def test_a_pair_counts_if_similar_and_nothing_speaks_against_it(words: set[str]) -> None:
    tally = pair(words)
    kept = tally.is_kept and not tally.is_bad_anchor
    assert kept == ("similar" in words and not words & AGAINST)
    assert tally.is_bad_anchor == ("bad-anchor" in words)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("deformation", "deformation"), ("background-change", "background"), ("occlusion-increased", "occlusion"),
        ("blur-increase", "blur"), ("problematic", "other"), ("dissimilar", "other"),
    ],
)  # fmt: skip
def test_the_reference_vocabulary_becomes_ours(word: str, reason: str) -> None:
    said = Annotation(keys=("a/1", "a/2"), words=frozenset({word}), note="n")
    vote = pair_verdict(said, annotator="r", at="2019", set_id="s", frame_id="v:2")
    assert (vote.decision, vote.reason, vote.note) == ("dissimilar", reason, "n")


def test_a_vote_has_the_same_id_every_time_and_another_for_other_words() -> None:
    ids = set()
    for words in ({"similar"}, {"similar"}, {"dissimilar"}):
        said = Annotation(keys=("a/1", "a/2"), words=frozenset(words), note="")
        ids.add(pair_verdict(said, annotator="r", at="2019", set_id="s", frame_id="v:2").verdict_id)
    assert len(ids) == 2


@given(st.sets(st.sampled_from(["good", "bad", "unsure", "bird", "car"])))
def test_an_anchor_needs_good_and_neither_bad_nor_unsure(words: set[str]) -> None:
    said = Annotation(keys=("a/1",), words=frozenset(words), note="")
    vote = anchor_verdict(said, annotator="r", at="2019", set_id="s", frame_id="v:1", given=("car",))
    good = "good" in words and not words & {"bad", "unsure"}
    assert (vote.decision == "similar" and not vote.bad_anchor) == good
    assert set(vote.labels) == {"car"} | (words & {"bird", "car"})
    assert len(set(vote.labels)) == len(vote.labels)


@pytest.mark.parametrize(
    "data",
    [
        [], {"annotations": []}, {"annotations": {}, "labels": []}, {"annotations": [1], "labels": []},
        {"annotations": [{"key": "a", "labels": ["x"]}], "labels": ["x"]},
        {"annotations": [{"key": 3, "labels": []}], "labels": ["x"]},
        {"annotations": [{"key": "a", "labels": 3}], "labels": ["x"]},
        {"annotations": [{"key": "a,b,c", "labels": []}], "labels": ["x"]},
        {"annotations": [{"key": "a", "labels": [-1]}], "labels": ["x"]},
        {"annotations": [{"key": "a", "labels": [0]}], "labels": 7},
    ],
)  # fmt: skip
def test_a_broken_file_is_one_line(data) -> None:
    with pytest.raises(InvalidFile, match=r"^f\.json: "):
        parse_annotations(data, Path("f.json"))
