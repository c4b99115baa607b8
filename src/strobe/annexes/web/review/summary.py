"""Compute the figures of a review from its votes: progress, agreement, attention and pace."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import median, quantiles
from typing import Any

import numpy as np

from strobe.analyses.voting import (
    PairVotes,
    Ratings,
    asked,
    control_answers,
    is_alone,
    ratings_of,
    reviewers,
    warnings,
)
from strobe.annexes.web.review.conduct import Conduct
from strobe.annexes.web.review.pending import pending
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.derivation import Derivation, derive, latest_votes
from strobe.core.records import DECISIONS, REASONS, Verdict
from strobe.metrics.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha, raw_agreement


def summarise(
    dataset: Dataset, verdicts: Sequence[Verdict], *, conduct: Conduct | None = None, seed: int = 0
) -> dict[str, Any]:
    """Return the figures of `strobe review status` and review.json, each estimate with its n and interval.

    `conduct` records how the review is run, if known. It determines the pending work and which votes are independent.
    """
    dataset = replace(dataset, verdicts=tuple(verdicts))
    derivation = derive(dataset) if verdicts else None
    pair_votes = asked(dataset, verdicts)
    return {
        "votes": len(verdicts),
        "table": _table(dataset, derivation),
        "waiting": pending(dataset, verdicts, derivation, conduct),
        "annotators": _annotators(verdicts, pair_votes),
        "classes": _classes(dataset, derivation),
        "agreement": _agreement(dataset, pair_votes.on_pairs, conduct, seed),
        "controls": encode(control_answers(pair_votes.controls, pair_votes.anchors)),
        "warnings": list(warnings(pair_votes)),
        "reasons": _reasons(pair_votes.on_pairs),
        "seconds": _seconds(v.seconds for v in verdicts if v.stage != "joint"),
        "conduct": encode(conduct),
    }


def _table(dataset: Dataset, derivation: Derivation | None) -> dict[str, int]:
    if derivation is not None:
        return derivation.counts(dataset)
    pairs, with_pairs = (
        int((~dataset.sets.is_anchor).sum()),
        len(set(dataset.sets.set[~dataset.sets.is_anchor].tolist())),
    )
    return {
        "anchors": dataset.n_sets,
        "anchors_reviewed": 0,
        "anchors_accepted": 0,
        "sets_without_votes": with_pairs,
        "pairs": pairs,
        "pairs_reviewed": 0,
        "pairs_accepted": 0,
        "pairs_pending": pairs,
    }


def _annotators(verdicts: Sequence[Verdict], found: PairVotes) -> list[dict[str, Any]]:
    of_name: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        of_name[verdict.annotator].append(verdict)
    nobody = control_answers((), found.anchors)["all"]
    care = {reviewer.person: reviewer for reviewer in reviewers(found)}
    out = []
    for name, cast in sorted(of_name.items()):
        latest = {(v.stage, v.set_id, v.frame_id): v for v in sorted(cast, key=lambda v: (v.at, v.verdict_id))}
        stages = Counter(v.stage for v in latest.values())
        decisions: Counter[str] = Counter(v.decision for v in latest.values() if v.stage != "anchor")
        out.append(
            {
                "name": name,
                "votes": len(cast),
                "corrected": len(cast) - len(latest),
                "stages": {stage: stages[stage] for stage in ("anchor", "pair", "verify", "joint")},
                "decisions": {decision: decisions[decision] for decision in DECISIONS},
                "controls": encode(care[name].controls if name in care else nobody),
                "seconds": _seconds(v.seconds for v in cast if v.stage != "joint"),
                "too_quick": care[name].too_quick if name in care else 0,
                "last_at": max(v.at for v in cast),
            }
        )
    return out


def _classes(dataset: Dataset, derivation: Derivation | None) -> list[dict[str, Any]]:
    """Return the numbers of sets and pairs by class of the anchor: all, reviewed and accepted. A set counts in each of
    its classes.
    """
    sets, space = dataset.sets, dataset.info.label_space
    n_sets, member, labels = dataset.n_sets, ~sets.is_anchor, dataset.labels
    if derivation is not None:
        labels = derivation.labels
        voted, kept_set = derivation.voted, derivation.kept_set & derivation.voted_set
        kept = derivation.kept & voted & member
    else:
        voted = kept = np.zeros(len(sets.set), dtype=bool)
        kept_set = np.zeros(n_sets, dtype=bool)
    per_set = [np.bincount(sets.set[mask], minlength=n_sets) for mask in (member, voted, kept)]
    owner: dict[int, list[int]] = defaultdict(list)
    for number, frame in enumerate(sets.anchor_frame.tolist()):
        owner[frame].append(number)
    members: dict[int, list[int]] = defaultdict(list)
    for frame, label in zip(labels.frame.tolist(), labels.label.tolist(), strict=True):
        members[label] += owner.get(frame, [])
    return [
        {
            "label": space.ids[label],
            "name": space.names[label],
            "anchors": len(numbers),
            "anchors_accepted": int(kept_set[numbers].sum()),
            "pairs": int(per_set[0][numbers].sum()),
            "pairs_reviewed": int(per_set[1][numbers].sum()),
            "pairs_accepted": int(per_set[2][numbers].sum()),
        }
        for label, numbers in sorted(members.items())
        if numbers
    ]


def _agreement(dataset: Dataset, on_pairs: Sequence[Verdict], conduct: Conduct | None, seed: int) -> dict[str, Any]:
    """Return the agreement of the votes of round one, and below it that of round two, which has doubtful pairs only.

    Joint decisions are excluded, and so are votes of round two that were given with earlier votes shown.
    """
    alone = is_alone if conduct is None else conduct.round_two.is_alone
    one, two = (_of_round(ratings_of(dataset, on_pairs, alone, stage=stage), seed) for stage in ("pair", "verify"))
    return {**one, "votes_left_out": len(on_pairs) - sum(map(alone, on_pairs)), "round_two": two}


def _of_round(votes: Ratings, seed: int) -> dict[str, Any]:
    ratings, counts, cluster, people = votes.ratings, votes.counts, votes.cluster, votes.people
    shared = [
        (a, b) for a, b in combinations(range(len(people)), 2) if ((ratings[:, a] >= 0) & (ratings[:, b] >= 0)).any()
    ]
    return {
        "pairs": len(ratings),
        "pairs_with_two_votes": votes.n_twice,
        "raw": encode(raw_agreement(counts, cluster=cluster, seed=seed)),
        "fleiss_kappa": encode(fleiss_kappa(counts, cluster=cluster, seed=seed)),
        "krippendorff_alpha": encode(krippendorff_alpha(counts, cluster=cluster, seed=seed)),
        "cohen_kappa": [
            {
                "a": people[a],
                "b": people[b],
                **encode(
                    cohen_kappa(ratings[:, a], ratings[:, b], n_classes=len(DECISIONS), cluster=cluster, seed=seed)
                ),
            }
            for a, b in shared
        ],
    }


def _reasons(on_pairs: Sequence[Verdict]) -> dict[str, int]:
    tally: Counter[str] = Counter()
    for votes in latest_votes(on_pairs).values():
        against = [v for v in votes.values() if v.decision == "dissimilar"]
        # If the anchor is bad, that is the reason, so the vote is not counted as "none given".
        tally.update(v.reason or "none given" for v in against if v.reason or not v.bad_anchor)
        tally.update("wrong label" for v in votes.values() if v.label_right is False)
        tally.update("bad anchor" for v in votes.values() if v.bad_anchor)
    return {reason: tally[reason] for reason in (*REASONS, "none given", "wrong label", "bad anchor") if tally[reason]}


def _seconds(values: Iterable[float | None]) -> dict[str, Any]:
    known = sorted(value for value in values if value is not None)
    if not known:
        return {"n": 0, "median": None, "p90": None, "reason": "no vote has a time"}
    p90 = quantiles(known, n=10, method="inclusive")[-1] if len(known) > 1 else known[0]
    return {"n": len(known), "median": median(known), "p90": p90}
