"""Derive reviewed sets from votes: the published protocol as a pure function of all votes cast.

The rules:

- Each annotator's latest vote on a pair counts, regardless of the round.
- A neighbour is similar iff more than half of those votes are similar. Unsure votes are in the denominator; ties are
  not similar.
- Its label is right iff more than half of the votes on the label call it right (a tie is not right).
- A vote of `bad_anchor` on any of a set's pairs drops the set, unless more than half of the votes on that pair (one per
  annotator) disagree.
- Votes on the anchor by itself: the set is kept iff more than half call it a good anchor (`similar`). A label belongs
  to the anchor iff more than half of the votes with labels list it. Such a label also applies to the neighbours.
- An anchor whose neighbours are all rejected is kept as a set of one. A pair without a vote is not kept. A set without
  a vote is not kept, unless it has no candidates to vote on, or the dataset has `unreviewed: keep`; in these two cases
  the whole set is kept.
- Votes on frames that are not candidates of the set (hidden control pairs) have no effect.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from strobe.core.arrays import Bools
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue
from strobe.core.people import LABEL, latest_answers
from strobe.core.records import Unreviewed, Verdict
from strobe.core.tables import Labels

Pair = tuple[str, str]
"""A pair by its names: (set_id, frame_id of the neighbour)."""


def is_clean(verdict: Verdict) -> bool:
    """Return whether a vote accepts its pair unchanged: similar, not wrongly labelled, not a bad anchor.

    Pairs with any other vote go to round two.
    """
    return verdict.decision == "similar" and verdict.label_right is not False and not verdict.bad_anchor


def latest_votes(verdicts: Iterable[Verdict], *, anchors: bool = False) -> dict[Pair, dict[str, Verdict]]:
    """Return each annotator's latest vote on each pair or, with `anchors`, on each anchor by itself.

    Votes are ordered by `at`. Of two votes at the same instant, the vote with the greater verdict_id counts. So the
    order of votes in a file never matters.
    """
    latest: dict[Pair, dict[str, Verdict]] = defaultdict(dict)
    for verdict in sorted(verdicts, key=lambda vote: (vote.at, vote.verdict_id)):
        if (verdict.stage == "anchor") == anchors:
            latest[verdict.set_id, verdict.frame_id][verdict.annotator] = verdict
    return dict(latest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of the latest votes on one pair or one anchor."""

    n: int
    similar: int
    label_right: int
    label_wrong: int
    bad_anchor: int

    @classmethod
    def of(cls, votes: Iterable[Verdict]) -> "Tally":
        """Count the votes."""
        votes = list(votes)
        return cls(
            n=len(votes),
            similar=sum(vote.decision == "similar" for vote in votes),
            label_right=sum(vote.label_right is True for vote in votes),
            label_wrong=sum(vote.label_right is False for vote in votes),
            bad_anchor=sum(vote.bad_anchor for vote in votes),
        )

    @property
    def is_similar(self) -> bool:
        """Whether a strict majority voted similar; ties and unsure do not count as similar.

        >>> Tally(n=4, similar=2, label_right=0, label_wrong=0, bad_anchor=0).is_similar
        False
        """
        return 2 * self.similar > self.n

    @property
    def is_label_right(self) -> bool:
        """Whether a strict majority of those asked voted that the label is right; True if no one was asked."""
        asked = self.label_right + self.label_wrong
        return asked == 0 or 2 * self.label_right > asked

    @property
    def is_bad_anchor(self) -> bool:
        """Whether someone voted bad anchor and no strict majority disagrees."""
        return self.bad_anchor > 0 and 2 * (self.n - self.bad_anchor) <= self.n

    @property
    def is_kept(self) -> bool:
        """Whether the pair is similar and rightly labelled."""
        return self.is_similar and self.is_label_right


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """The outcome of the votes. Masks have one entry per row of `dataset.sets`; `labels` are the labels after review.

    `kept` rows are the reviewed sets. `voted` rows are candidates with a vote. `pending` rows are candidates without a
    vote, in sets that are not dropped. `kept_set`, `voted_set` and `unvoted_set` (with candidates, but without any
    vote) have one entry per set.
    """

    kept: Bools
    voted: Bools
    pending: Bools
    kept_set: Bools
    voted_set: Bools
    unvoted_set: Bools
    labels: Labels
    undecided_labels: tuple[str, ...] = ()
    """Sets whose label votes gave no label a majority; they keep their previous labels."""

    def unvoted(self, dataset: Dataset) -> dict[str, int]:
        """The sets without any vote, each with the row of its video."""
        names, videos = dataset.sets.set_id[self.unvoted_set], dataset.video_of_set[self.unvoted_set]
        return dict(zip(map(str, names.tolist()), videos.tolist(), strict=True))

    def unseen(self, dataset: Dataset) -> dict[str, Unreviewed]:
        """The pairs of each kept set that are excluded because they have no vote."""
        sets, n = dataset.sets, len(self.kept_set)
        waiting = np.bincount(sets.set[self.pending & ~self.kept & self.kept_set[sets.set]], minlength=n)
        bare = np.bincount(sets.set[self.voted], minlength=n) == 0
        return {
            str(sets.set_id[place]): Unreviewed(pairs=int(waiting[place]), sets=int(bare[place]))
            for place in np.flatnonzero(waiting).tolist()
        }

    def counts(self, dataset: Dataset) -> dict[str, int]:
        """The counts in the papers' table: anchors and pairs reviewed, accepted, and still to be reviewed."""
        members = ~dataset.sets.is_anchor
        return {
            "anchors": len(self.kept_set),
            "anchors_reviewed": int(self.voted_set.sum()),
            "anchors_accepted": int((self.kept_set & self.voted_set).sum()),
            "sets_without_votes": int(self.unvoted_set.sum()),
            "pairs": int(members.sum()),
            "pairs_reviewed": int(self.voted.sum()),
            "pairs_accepted": int((self.kept & self.voted & members).sum()),
            "pairs_pending": int(self.pending.sum()),
        }


def derive(dataset: Dataset) -> Derivation:
    """Apply the rules at the top of this module to the dataset's votes, and return the outcome."""
    if not dataset.verdicts:
        raise InvalidValue(f"{dataset.name}: there are no votes yet; strobe review serve collects them")
    sets, ids = dataset.sets, dataset.frame_ids()
    names = [str(name) for name in sets.set_id]
    pairs = latest_votes(dataset.verdicts)
    place = dataset.candidates()
    voted = np.zeros(len(sets.set), dtype=bool)
    similar = np.zeros(len(sets.set), dtype=bool)
    bad_set = np.zeros(len(names), dtype=bool)
    for pair, votes in pairs.items():
        row = place.get(pair)
        if row is None:  # a control pair, or a vote made on another dataset
            continue
        tally = Tally.of(votes.values())
        voted[row], similar[row] = True, tally.is_kept
        bad_set[sets.set[row]] |= tally.is_bad_anchor

    voted_set = np.zeros(len(names), dtype=bool)
    voted_set[sets.set[voted]] = True
    anchor_ids = [ids[frame] for frame in sets.anchor_frame.tolist()]
    anchor_votes = latest_votes(dataset.verdicts, anchors=True)
    chosen: dict[int, frozenset[int]] = {}
    undecided = []
    for number, (name, frame) in enumerate(zip(names, anchor_ids, strict=True)):
        votes = anchor_votes.get((name, frame), {})
        if not votes:
            continue
        voted_set[number] = True
        tally = Tally.of(votes.values())
        bad_set[number] |= tally.is_bad_anchor or not tally.is_similar
        if any(vote.labels for vote in votes.values()):
            chosen[number] = majority_labels(dataset, votes)
            if not chosen[number]:
                undecided.append(name)
                del chosen[number]

    candidates = np.bincount(sets.set[~sets.is_anchor], minlength=len(names))
    unvoted_set = ~voted_set & (candidates > 0)
    as_built = unvoted_set if dataset.info.unreviewed == "keep" else np.zeros_like(unvoted_set)
    kept_set = ~bad_set & (~unvoted_set | as_built)
    kept = np.where(sets.is_anchor, kept_set[sets.set], similar & kept_set[sets.set]) | as_built[sets.set]
    return Derivation(
        kept=kept,
        voted=voted,
        pending=~voted & ~sets.is_anchor & ~bad_set[sets.set],
        kept_set=kept_set,
        voted_set=voted_set,
        unvoted_set=unvoted_set,
        labels=_carried(dataset, chosen),
        undecided_labels=tuple(undecided),
    )


def majority_labels(dataset: Dataset, votes: Mapping[str, Verdict]) -> frozenset[int]:
    """Return the classes listed by more than half of the annotators who listed labels; the result may be empty."""
    lists = [{dataset.info.label_space.index(label) for label in vote.labels} for vote in votes.values() if vote.labels]
    seen = set().union(*lists)
    return frozenset(label for label in seen if 2 * sum(label in one for one in lists) > len(lists))


def relabelled(own: frozenset[int], *, before: frozenset[int], after: frozenset[int]) -> frozenset[int]:
    """Change a frame's labels in the same way as its anchor's labels changed from `before` to `after`.

    A frame that has no label, before or after this change, takes the anchor's labels; otherwise every answer would be
    wrong.

    >>> sorted(relabelled(frozenset({1, 5}), before=frozenset({1, 2}), after=frozenset({2, 3})))
    [3, 5]
    >>> sorted(relabelled(frozenset({1}), before=frozenset({1, 2}), after=frozenset({2})))
    [2]
    """
    return (((own or after) | (after - before)) - (before - after)) or after


def _carried(dataset: Dataset, chosen: Mapping[int, frozenset[int]]) -> Labels:
    """Re-label the anchors, apply the same changes to their neighbours, and return all labels."""
    if not chosen:
        return dataset.labels
    sets = dataset.sets
    of_frame = {frame: frozenset(labels) for frame, labels in dataset.labels.by_frame().items()}
    before = {number: of_frame.get(int(sets.anchor_frame[number]), frozenset()) for number in chosen}
    bounds = np.searchsorted(sets.set, np.arange(len(sets.set_id) + 1))
    for number, labels in chosen.items():
        for row in range(int(bounds[number]), int(bounds[number + 1])):
            frame = int(sets.frame[row])
            own = of_frame.get(frame, frozenset())
            of_frame[frame] = relabelled(own, before=before[number], after=labels)
    rows = sorted((frame, label) for frame, labels in of_frame.items() for label in labels)
    table = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return Labels(frame=table[:, 0].astype(np.int32), label=table[:, 1].astype(np.int32))


def reviewed(dataset: Dataset, derivation: Derivation | None = None) -> Dataset:
    """Return the dataset reduced to the rows that the votes keep, with the labels after review. Votes are kept."""
    derivation = derivation or derive(dataset)
    if not derivation.kept_set.any():
        raise InvalidValue(f"{dataset.name}: the votes reject every set; strobe review status lists the votes")
    whole = replace(
        dataset, labels=derivation.labels, unseen=derivation.unseen(dataset), unvoted=derivation.unvoted(dataset)
    )
    return whole.keep_rows(derivation.kept)


def with_names(dataset: Dataset) -> Dataset:
    """Return the dataset with the labels that people gave to anchors by naming them for this purpose.

    A class is the label of a set if more than half of its annotators named it. Only sets without a label get one. If
    members are scored with their own labels, they take the label of their anchor.
    """
    if not dataset.names:
        return dataset
    named = latest_answers(answer for answer in dataset.names if answer.condition == LABEL)
    if not named:
        return dataset
    sets, space = dataset.sets, dataset.info.label_space
    has = np.zeros(len(dataset.frames), dtype=bool)
    has[dataset.labels.frame] = True
    rows: set[tuple[int, int]] = set()
    bounds = np.searchsorted(sets.set, np.arange(dataset.n_sets + 1))
    ids = dataset.frame_ids(sets.anchor_frame)
    for number in np.flatnonzero(~dataset.labelled).tolist():
        said = [answer.label if answer.said == "class" else "" for answer in named.get(ids[number], {}).values()]
        chosen = next((label for label in said if label and 2 * said.count(label) > len(said)), None)
        if chosen is None:
            continue
        members = sets.frame[bounds[number] : bounds[number + 1]]
        frames = members if dataset.info.label_source == "frame" else sets.anchor_frame[number : number + 1]
        rows |= {(frame, space.index(chosen)) for frame in frames[~has[frames]].tolist()}
    if not rows:
        return dataset
    table = np.array(sorted(rows), dtype=np.int32)
    frame = np.concatenate([dataset.labels.frame, table[:, 0]])
    label = np.concatenate([dataset.labels.label, table[:, 1]])
    return replace(dataset, labels=Labels(frame=frame, label=label))


def review_views(dataset: Dataset) -> tuple[Dataset, Dataset, Dataset]:
    """The three datasets whose comparison shows the effect of review.

    Dataset A has all candidates, with the labels before densification. Dataset B has the kept anchors with all their
    candidates. Dataset C has the kept anchors and the kept members. Review is credited only with the pairs that people
    voted on. So sets without any vote, and pairs still pending, are in none of the three datasets. Sets without a label
    in A are excluded too, because A cannot score them.
    """
    derivation, sets = derive(dataset), dataset.sets
    seen = ~derivation.pending & ~derivation.unvoted_set[sets.set]
    if not (derivation.kept & seen).any():
        raise InvalidValue(f"{dataset.name}: the votes reject every set, so there is nothing to compare")
    before = dataset.keep_rows(seen).labelled_sets()
    seen &= np.isin(sets.set_id.astype(str), before.sets.set_id.astype(str))[sets.set]
    after = replace(dataset, labels=derivation.labels)
    kept_sets, kept_rows = derivation.kept_set[sets.set] & seen, derivation.kept & seen
    if not kept_rows.any():
        raise InvalidValue(f"{dataset.name}: no kept set had a label before review, so nothing can be compared")
    return before, after.keep_rows(kept_sets).labelled_sets(), after.keep_rows(kept_rows).labelled_sets()
