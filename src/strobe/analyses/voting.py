"""The reliability of the votes on pairs: voters, agreement, attention checks and pace. Pure.

`review status`, review.json, results.json and the report all contain these figures.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

import numpy as np

from strobe.core.arrays import Ints
from strobe.core.codec import LEFT_OUT, Count, decode
from strobe.core.dataset import Dataset
from strobe.core.derivation import latest_votes
from strobe.core.errors import InvalidValue, printable
from strobe.core.estimate import Estimate
from strobe.core.records import DECISIONS, Verdict
from strobe.metrics.agreement import fleiss_kappa, rating_counts
from strobe.metrics.intervals import clopper_pearson

LEAST_SECONDS, LEAST_MORE = 0.4, 0.1
"""The shortest plausible time for a decision on two images, and for each further image of a set.

An eye rests for about a quarter of a second on each thing it looks at.
"""

MOST_QUICK, LEAST_QUICK = 0.1, 5
"""A pace is implausible if more than this share of a person's timed votes, and at least this many, are too quick."""

LEAST_RIGHT, LEAST_FAILED = 0.9, 2
"""A person fails the controls if less than this share is right and at least this many are wrong; one slip is normal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """One person: votes cast, correct share of control pairs, median seconds per vote, and implausibly quick votes."""

    person: str
    n_votes: Count
    controls: Estimate
    seconds: float | None
    too_quick: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResults:
    """The people who decided which pairs look the same, and how reliable their votes are.

    `fleiss_kappa` uses only votes of round one, over the `n_pairs_twice` pairs with two or more such votes. `round_two`
    is Fleiss' κ of doubtful pairs, if people voted on them again independently.
    `controls` is the share of hidden control pairs answered correctly. `seconds` is the median time of a vote.
    `too_quick` counts the votes cast faster than a person can view the images. `warnings` lists problems with the
    votes, and is empty if there are none.
    """

    n_people: Count
    n_votes: Count
    n_pairs: Count
    n_pairs_twice: Count
    fleiss_kappa: Estimate
    controls: Estimate
    seconds: float | None
    too_quick: Count
    people: tuple[Reviewer, ...]
    warnings: tuple[str, ...]
    round_two: Estimate | None = field(default=None, metadata=LEFT_OUT)

    def text(self) -> str:
        """Return the figures as one line of text."""
        votes, pairs = (f"{n:,} {noun}{'s' * (n != 1)}" for n, noun in ((self.n_votes, "vote"), (self.n_pairs, "pair")))
        out = [f"{votes} of {self.n_people:,} {'person' if self.n_people == 1 else 'people'} on {pairs}"]
        if self.fleiss_kappa.value is not None:
            kappa = f"Fleiss’ κ {self.fleiss_kappa.text(scale=1.0, digits=2)}"
            out.append(f"{kappa} in round one, on {self.n_pairs_twice:,} with two votes or more")
        else:
            out.append("agreement unknown (no pair has two votes in round one)")
        if self.round_two is not None and self.round_two.value is not None:
            out.append(
                f"κ {self.round_two.text(scale=1.0, digits=2)} in round two, on {self.round_two.n:,} doubtful pairs"
            )
        right = self.controls
        out.append(f"{right.count} of {right.n} control pairs right" if right.n else "no control pairs")
        out.append("no times" if self.seconds is None else f"{self.seconds:.1f} s a pair (median)")
        return "; ".join(out)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVotes:
    """Votes on neighbours, split into pairs of the dataset and hidden control pairs.

    `anchors` maps a set to its anchor's frame. A control pair with the anchor's own frame must be voted similar, and
    any other control pair dissimilar.
    """

    on_pairs: tuple[Verdict, ...]
    controls: tuple[Verdict, ...]
    anchors: dict[str, str]


def asked(dataset: Dataset, verdicts: Iterable[Verdict]) -> PairVotes:
    """Return the votes on neighbours in this dataset's sets, without votes on single anchors or on other datasets."""
    pairs, ids = dataset.candidates(), dataset.frame_ids()
    names = [str(name) for name in dataset.sets.set_id]
    anchors = {names[number]: ids[row] for number, row in enumerate(dataset.sets.anchor_frame.tolist())}
    found = [v for v in verdicts if v.stage != "anchor" and v.set_id in anchors]
    return PairVotes(
        on_pairs=tuple(v for v in found if (v.set_id, v.frame_id) in pairs),
        controls=tuple(v for v in found if (v.set_id, v.frame_id) not in pairs),
        anchors=anchors,
    )


def control_answers(controls: Iterable[Verdict], anchors: dict[str, str]) -> dict[str, Estimate]:
    """Return the share of control pairs answered correctly: pairs of the `same` image, or of `different` videos.

    `all` covers both kinds of pairs; the latest vote of each person counts.
    """
    right: dict[str, list[bool]] = {"same": [], "different": []}
    for (set_id, frame_id), votes in latest_votes(controls).items():
        same = anchors[set_id] == frame_id
        for verdict in votes.values():
            right["same" if same else "different"].append(verdict.decision == ("similar" if same else "dissimilar"))
    both = right["same"] + right["different"]
    answers = {"all": both, **right}
    return {kind: clopper_pearson(sum(answer), len(answer)) for kind, answer in answers.items()}


def too_quick(verdict: Verdict) -> bool:
    """Return whether a vote was faster than a person can view its images; False for a vote without a time.

    >>> from dataclasses import replace
    >>> vote = Verdict(verdict_id="1", annotator="Ann", at="", stage="pair", set_id="a", frame_id="b",
    ...                decision="similar", seconds=0.25)
    >>> too_quick(vote), too_quick(replace(vote, page_version="1f.set20"))
    (True, False)
    """
    if verdict.seconds is None or verdict.stage == "joint":
        return False
    return verdict.seconds * verdict.at_once < LEAST_SECONDS + LEAST_MORE * (verdict.at_once - 1)


def is_alone(verdict: Verdict) -> bool:
    """Return whether a vote was cast independently, as far as its record shows."""
    return verdict.stage != "joint"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTwo:
    """Whether round two of a review showed earlier votes: since when it showed or hid them, oldest first.

    `otherwise` holds before the first of these times. A vote's `at` is compared with them.
    """

    shown: tuple[tuple[str, bool], ...] = ()
    otherwise: bool = False

    def showed_votes(self, at: str) -> bool:
        """Whether round two showed earlier votes at that time.

        >>> two = RoundTwo(shown=(("", True), ("2026-02", False)))
        >>> two.showed_votes("2026-01-31"), two.showed_votes("2026-02-01")
        (True, False)
        """
        return next((on for since, on in reversed(self.shown) if since <= at), self.otherwise)

    def is_alone(self, verdict: Verdict) -> bool:
        """Whether a vote is independent. Joint decisions are not independent, and neither are votes of round two if
        earlier votes were shown.
        """
        return is_alone(verdict) and (verdict.stage != "verify" or not self.showed_votes(verdict.at))

    @classmethod
    def from_json(cls, figures: object) -> "RoundTwo | None":
        """Read the figures of a review as its last export wrote them (review.json). Return None without a valid record.

        >>> RoundTwo.from_json({"conduct": {"settings": {"show_votes": True}}})
        RoundTwo(shown=(), otherwise=True)
        """
        conduct = figures.get("conduct") if isinstance(figures, dict) else None
        settings = conduct.get("settings") if isinstance(conduct, dict) else None
        if not isinstance(conduct, dict) or not isinstance(settings, dict):
            return None
        recorded = {"shown": conduct.get("shown", []), "otherwise": settings.get("show_votes", False)}
        try:
            return decode(cls, recorded)
        except InvalidValue:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratings:
    """The latest votes of one round: `ratings` (pairs, people) are indices into DECISIONS, −1 for none.

    `cluster` (pairs,) holds the videos, which intervals resample.
    """

    people: tuple[str, ...]
    ratings: Ints
    cluster: Ints

    @property
    def counts(self) -> Ints:
        """Count each decision on each pair (pairs, decisions)."""
        return rating_counts(self.ratings, n_classes=len(DECISIONS))

    @property
    def n_twice(self) -> int:
        """The number of pairs with two votes or more."""
        return int(((self.ratings >= 0).sum(axis=1) >= 2).sum())


def ratings_of(
    dataset: Dataset,
    on_pairs: Iterable[Verdict],
    alone: Callable[[Verdict], bool] = is_alone,
    *,
    stage: Literal["pair", "verify"] = "pair",
) -> Ratings:
    """Return the votes for measuring agreement: each person's latest independent vote (`alone`) of one round on a pair.

    Rounds are never mixed. Only doubtful pairs reach round two, and there people correct their disagreements, so votes
    of both rounds together would show agreement even between people who guess.
    """
    latest = latest_votes(vote for vote in on_pairs if vote.stage == stage and alone(vote))
    video = dict(zip((str(name) for name in dataset.sets.set_id), dataset.video_of_set.tolist(), strict=True))
    people = sorted({name for votes in latest.values() for name in votes})
    place = {name: column for column, name in enumerate(people)}
    keys = sorted(latest)
    ratings = np.full((len(keys), len(people)), -1, dtype=np.int64)
    for row, key in enumerate(keys):
        for name, verdict in latest[key].items():
            ratings[row, place[name]] = DECISIONS.index(verdict.decision)
    cluster = np.array([video[set_id] for set_id, _ in keys], dtype=np.int64)
    return Ratings(people=tuple(people), ratings=ratings, cluster=cluster)


def reviewers(found: PairVotes) -> tuple[Reviewer, ...]:
    """Return measures of each person's attention, from the votes on pairs and controls."""
    of_name: dict[str, list[Verdict]] = defaultdict(list)
    hidden: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in (*found.on_pairs, *found.controls):
        of_name[verdict.annotator].append(verdict)
    for verdict in found.controls:
        hidden[verdict.annotator].append(verdict)
    return tuple(
        Reviewer(
            person=name,
            n_votes=len(cast),
            controls=control_answers(hidden[name], found.anchors)["all"],
            seconds=_middle(cast),
            too_quick=sum(map(too_quick, cast)),
        )
        for name, cast in sorted(of_name.items())
    )


def against(person: str, controls: Estimate, *, quick: int, timed: int, what: str, limit_s: float) -> list[str]:
    """Return problems with one person's answers: failed controls, or an implausible pace (`quick` of `timed` votes)."""
    name, out = printable(person), []
    if _fails(controls):
        out.append(f"{name} got {controls.count} of {controls.n} control {what} right: their answers may be guesses")
    if quick >= LEAST_QUICK and quick > MOST_QUICK * timed:
        how = f"came faster than {what} can be viewed (less than {limit_s:g} s)"
        out.append(f"{quick:,} of {timed:,} answers by {name} {how}")
    return out


def warnings(found: PairVotes) -> tuple[str, ...]:
    """Return the problems with the votes, one sentence for each problem."""
    people = reviewers(found)
    timed = Counter(v.annotator for v in (*found.on_pairs, *found.controls) if v.seconds is not None)
    out: list[str] = []
    for reviewer in people:
        n = timed[reviewer.person]
        out += against(
            reviewer.person, reviewer.controls, quick=reviewer.too_quick, timed=n, what="pairs", limit_s=LEAST_SECONDS
        )
    every = control_answers(found.controls, found.anchors)["all"]
    if _fails(every) and not any(_fails(reviewer.controls) for reviewer in people):
        out.append(f"only {every.count} of {every.n} control pairs were answered right: some votes may be guesses")
    return tuple(out)


def review_results(
    dataset: Dataset, *, alone: Callable[[Verdict], bool] = is_alone, seed: int = 0
) -> ReviewResults | None:
    """Return the record in results.json of the votes on a dataset's candidates; None if no pair has a vote."""
    votes = asked(dataset, dataset.verdicts)
    if not votes.on_pairs:
        return None
    ratings, again = (ratings_of(dataset, votes.on_pairs, alone, stage=stage) for stage in ("pair", "verify"))
    kappas = [fleiss_kappa(one.counts, cluster=one.cluster, seed=seed) for one in (ratings, again)]
    people = reviewers(votes)
    return ReviewResults(
        n_people=len(people),
        n_votes=len(votes.on_pairs),
        n_pairs=len({(v.set_id, v.frame_id) for v in votes.on_pairs}),
        n_pairs_twice=ratings.n_twice,
        fleiss_kappa=kappas[0],
        round_two=kappas[1] if len(again.ratings) else None,
        controls=control_answers(votes.controls, votes.anchors)["all"],
        seconds=_middle(votes.on_pairs),
        too_quick=sum(one.too_quick for one in people),
        people=people,
        warnings=warnings(votes),
    )


def _fails(controls: Estimate) -> bool:
    n, right = controls.n or 0, controls.count or 0
    return n - right >= LEAST_FAILED and right < LEAST_RIGHT * n


def _middle(cast: Sequence[Verdict]) -> float | None:
    known = [v.seconds for v in cast if v.seconds is not None and v.stage != "joint"]
    return median(known) if known else None
