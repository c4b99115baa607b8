"""Compute the pending work of a review: votes of round one, labels of anchors, and votes of round two."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from strobe.annexes.web.review.conduct import Conduct
from strobe.core.dataset import Dataset
from strobe.core.derivation import Derivation, is_clean
from strobe.core.records import Verdict


def pending(
    dataset: Dataset, verdicts: Sequence[Verdict], derivation: Derivation | None, conduct: Conduct | None
) -> dict[str, Any]:
    """Count the waiting pairs, the missing votes, and the votes that each person owes.

    The rules are the same as in the queue. Without a conduct, the requested number of votes is unknown. Then pairs
    without any vote wait for round one, doubtful pairs without any vote of round two wait for round two, and the number
    of votes is null. Round two is counted in the same way if it is off.
    """
    ids, sets = dataset.frame_ids(), dataset.sets
    names = [str(name) for name in sets.set_id]
    dropped = set()
    if derivation is not None:
        seen = zip(names, derivation.kept_set.tolist(), derivation.voted_set.tolist(), strict=True)
        dropped = {name for name, kept, voted in seen if voted and not kept}
    anchors = {(names[number], ids[row]) for number, row in enumerate(sets.anchor_frame.tolist())}
    labelled = {v.set_id for v in verdicts if v.stage == "anchor" and (v.set_id, v.frame_id) in anchors}
    unlabelled = set(names) - labelled - dropped if conduct is not None and conduct.settings.labels else set()

    latest: dict[tuple[str, str], tuple[dict[str, Verdict], dict[str, Verdict]]] = defaultdict(lambda: ({}, {}))
    for verdict in sorted(verdicts, key=lambda vote: (vote.at, vote.verdict_id)):
        if verdict.stage != "anchor":
            place = 0 if verdict.stage == "pair" else 1
            latest[verdict.set_id, verdict.frame_id][place][verdict.annotator] = verdict

    settings = None if conduct is None else conduct.settings
    everyone = conduct.people if conduct is not None else ()
    everyone = everyone or tuple(sorted({v.annotator for v in verdicts}))
    one, two = {"pairs": 0, "votes": 0}, {"pairs": 0, "votes": 0}
    people: Counter[str] = Counter()
    for name, frame in dataset.candidates():
        first, second = latest.get((name, frame), ({}, {}))
        missing = 1 - min(1, len(first) + len(second)) if settings is None else max(0, settings.votes - len(first))
        if missing:
            if name not in dropped:
                one["pairs"] += 1
                one["votes"] += missing
            continue
        # Everyone votes again on a pair with a bad anchor, although its set is dropped for now.
        accused = any(vote.bad_anchor for vote in _last_words(first, second))
        if all(map(is_clean, first.values())) or ((name in dropped or name in unlabelled) and not accused):
            continue
        if settings is not None and settings.verify:
            absent = [who for who in everyone if who not in second]
            two["votes"] += len(absent)
            two["pairs"] += bool(absent)
            people.update(absent)
        else:
            two["pairs"] += not second
    is_on = None if settings is None else settings.verify
    return {
        "round_one": {"pairs": one["pairs"], "votes": None if settings is None else one["votes"]},
        "anchors": len(unlabelled),
        "round_two": {
            "on": is_on,
            "pairs": two["pairs"],
            "votes": two["votes"] if is_on else None,
            "people": dict(sorted(people.items())),
        },
    }


def _last_words(first: dict[str, Verdict], second: dict[str, Verdict]) -> list[Verdict]:
    """Return the latest vote of each annotator, in any round."""
    both = [*first.values(), *second.values()]
    return list({v.annotator: v for v in sorted(both, key=lambda vote: (vote.at, vote.verdict_id))}.values())
