"""Agreement is that of round one: who votes again on doubtful pairs, or decides together, does not change it."""

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from strobe.analyses.voting import review_results
from strobe.annexes.web.review.summary import summarise
from strobe.core.derivation import derive
from strobe.core.records import Verdict

PEOPLE = ("Ann", "Bo", "Cy")
DESIGNS = ("one round", "two rounds", "joint")


def protocol(dataset, answer, design, *, rng, similar=0.8):
    """Every pair goes to everybody. Pairs with a vote other than similar are answered again by everybody (two rounds)
    or get one decision under every name (joint).
    """
    votes = []

    def cast(pair, who, decision, stage):
        number = len(votes)
        votes.append(
            Verdict(
                verdict_id=f"{number:06}", annotator=who, at=f"2026-01-01T00:00:00.{number:06}Z", stage=stage,
                set_id=pair[0], frame_id=pair[1], decision=decision,
            )
        )  # fmt: skip

    pairs = sorted(dataset.candidates())
    truth = {pair: "similar" if rng.random() < similar else "dissimilar" for pair in pairs}
    first = {(pair, who): answer(truth[pair], rng) for pair in pairs for who in PEOPLE}
    for (pair, who), decision in first.items():
        cast(pair, who, decision, "pair")
    doubtful = [pair for pair in pairs if any(first[pair, who] != "similar" for who in PEOPLE)]
    for pair in doubtful:
        together = answer(truth[pair], rng)
        for who in PEOPLE:
            if design == "two rounds":
                cast(pair, who, answer(truth[pair], rng), "verify")
            elif design == "joint":
                cast(pair, who, together, "joint")
    return first, votes


def chance(truth, rng):
    return "similar" if rng.random() < 0.5 else "dissimilar"


def errors_10(truth, rng):
    other = {"similar": "dissimilar", "dissimilar": "similar"}
    return truth if rng.random() < 0.9 else other[truth]


def latest_of(votes):
    """The latest vote of each person on each pair, whatever the round, except joint ones: what must not be used."""
    return {((v.set_id, v.frame_id), v.annotator): v.decision for v in votes if v.stage != "joint"}


def plain_kappa(said):
    """Fleiss' κ with equal numbers of votes, in a slow loop."""
    pairs = sorted({pair for pair, _ in said})
    agree, shares = 0.0, Counter(said.values())
    for pair in pairs:
        both = [said[pair, a] == said[pair, b] for a, b in combinations(PEOPLE, 2)]
        agree += sum(both) / len(both)
    observed = agree / len(pairs)
    expected = sum((n / len(said)) ** 2 for n in shares.values())
    return (observed - expected) / (1 - expected)


@pytest.fixture
def pairs(helpers, tmp_path):
    return helpers.make_dataset(tmp_path / "data", n_sets=150, images=False)


@pytest.mark.parametrize("answer", [chance, errors_10])
@pytest.mark.parametrize("design", DESIGNS)
def test_agreement_does_not_depend_on_later_rounds(pairs, answer, design):
    first, votes = protocol(pairs, answer, design, rng=random.Random(7))
    found = summarise(pairs, votes)["agreement"]
    kappa = found["fleiss_kappa"]
    assert kappa["value"] == pytest.approx(plain_kappa(first))
    assert found["pairs_with_two_votes"] == found["pairs"] == 600
    truly = 0.0 if answer is chance else 0.532  # 80 % similar, 10 % errors: (0.82 − 0.6152) / (1 − 0.6152)
    assert abs(kappa["value"] - truly) < 0.08
    two = found["round_two"]
    assert (two["pairs"] > 0) == (design == "two rounds")
    if design == "two rounds":
        assert plain_kappa(latest_of(votes)) > kappa["value"] + 0.08, "votes of both rounds together look better"
        again = {((v.set_id, v.frame_id), v.annotator): v.decision for v in votes if v.stage == "verify"}
        assert two["fleiss_kappa"]["value"] == pytest.approx(plain_kappa(again))
    if design == "joint":
        assert found["votes_left_out"] == sum(vote.stage == "joint" for vote in votes) > 0


@pytest.mark.parametrize("design", DESIGNS)
def test_results_and_kept_sets(pairs, design):
    first, votes = protocol(pairs, errors_10, design, rng=random.Random(3))
    voted = replace(pairs, verdicts=tuple(votes))
    found = review_results(voted)
    assert found.fleiss_kappa.value == pytest.approx(plain_kappa(first))
    assert found.n_pairs_twice == 600
    assert (found.round_two is None) == (design != "two rounds")
    assert "in round one, on 600 with two votes or more" in found.text()
    assert ("in round two" in found.text()) == (design == "two rounds")
    # The sets still follow from the latest vote of each person, whatever the round.
    latest = {((v.set_id, v.frame_id), v.annotator): v.decision for v in votes}
    kept = derive(voted).kept
    for pair, row in pairs.candidates().items():
        assert kept[row] == (sum(latest[pair, who] == "similar" for who in PEOPLE) >= 2)
