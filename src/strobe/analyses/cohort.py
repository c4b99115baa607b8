"""The sets behind every figure: how many are scored, how many are not, and why. Pure."""

from dataclasses import dataclass

from strobe.core.dataset import Dataset
from strobe.core.derivation import unreviewed

__all__ = ["Cohort"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The number of scored sets (`n_sets`), and the numbers of sets excluded before any model was scored.

    `unlabelled_sets` lack a label, so no answer is right or wrong. `sets_without_votes` have no vote. Of these sets,
    `kept_without_votes` are scored as built, and the rest are excluded. `unreviewed_pairs` are candidates of scored
    sets without a vote. `unreviewed_sets` are the sets reduced to their anchor because of such candidates.
    """

    n_sets: int
    unlabelled_sets: int = 0
    sets_without_votes: int = 0
    kept_without_votes: int = 0
    unreviewed_pairs: int = 0
    unreviewed_sets: int = 0

    @classmethod
    def of(cls, dataset: Dataset, *, needs_labels: bool = True) -> "Cohort":
        """Return the cohort of a dataset before scoring.

        Boxes need no label (`needs_labels` False). Sets without a label are then scored by their boxes, and are still
        counted.
        """
        scored = dataset.labelled_sets() if needs_labels else dataset
        unseen, without, kept = unreviewed(scored), len(dataset.unvoted), 0
        if without:
            names = set(dataset.sets.set_id.tolist())
            kept = sum(name in names for name in dataset.unvoted)
        else:  # an exported dataset has no votes, but records how many sets had no vote
            without, kept = (_count(dataset, name) for name in ("sets_without_votes", "kept_without_votes"))
        return cls(
            n_sets=scored.n_sets,
            unlabelled_sets=int((~dataset.labelled).sum()),
            sets_without_votes=without,
            kept_without_votes=min(kept, scored.n_sets),
            unreviewed_pairs=unseen.pairs,
            unreviewed_sets=unseen.sets,
        )

    def cautions(self) -> tuple[str, ...]:
        """Return cautions about the figures; empty if every set was scored and reviewed.

        >>> Cohort(n_sets=5, unlabelled_sets=1).cautions()
        ('1 set without a label is excluded from every accuracy figure',)
        >>> Cohort(n_sets=3, sets_without_votes=9).cautions()  # doctest: +ELLIPSIS
        ('9 sets without any vote are excluded from every figure; strobe review export --unreviewed keep ...',)
        """
        notes = []
        if self.unlabelled_sets:
            notes.append(f"{_excluded(self.unlabelled_sets, 'a label')} accuracy figure")
        if dropped := self.sets_without_votes - self.kept_without_votes:
            way = "strobe review export --unreviewed keep includes them"
            notes.append(f"{_excluded(dropped, 'any vote')} figure; {way}")
        if self.kept_without_votes:
            notes.append(
                f"{self.kept_without_votes} of the {self.n_sets} scored sets have no vote; they are scored with all "
                "their candidates, as built"
            )
        if self.unreviewed_pairs:
            text = f"{self.unreviewed_pairs} pairs of the scored sets have no vote yet and count as rejected"
            if self.unreviewed_sets:
                text += (
                    f"; this leaves only the anchor in {self.unreviewed_sets} of {self.n_sets} sets, which cannot break"
                )
            notes.append(text)
        return tuple(notes)


def _count(dataset: Dataset, name: str) -> int:
    found = dataset.info.provenance.get(name, 0)
    return found if isinstance(found, int) and found > 0 else 0


def _excluded(n: int, lacks: str) -> str:
    return f"{n} set{'' if n == 1 else 's'} without {lacks} {'is' if n == 1 else 'are'} excluded from every"
