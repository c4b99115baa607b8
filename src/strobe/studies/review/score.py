"""The effect of review: the drop before review, with kept anchors only, and after review."""

from dataclasses import dataclass, replace

import numpy as np

from strobe.analyses.classification import Prepared, score
from strobe.analyses.model_results import ClassificationScore, Impact, Stage
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import DIFFERENCES, Bootstrap
from strobe.metrics.intervals import nothing

NAMES = {
    "A": "all candidates, labels before densification",
    "B": "kept anchors, all their candidates",
    "C": "kept anchors and kept members",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewStages:
    """One dataset at three stages of review; all share the frame and video tables.

    `a`: all candidate sets, with the labels before densification. `b`: kept anchors with all candidates. `c`: kept
    anchors and members. Create it once and pass it to `impact` for every model.
    """

    a: Prepared
    b: Prepared
    c: Prepared

    @classmethod
    def of(cls, a: Dataset, b: Dataset, c: Dataset, *, options: ScoreOptions | None = None) -> "ReviewStages":
        """Build the stages from three datasets; single stages have no smoothing and no bootstrap."""
        for name, stage in (("b", b), ("c", c)):
            same = len(stage.frames) == len(a.frames) and len(stage.videos) == len(a.videos)
            expect(same, f"review stage {name}", "the frame and video tables of stage a", len(stage.frames))
        k = min(stage.info.k for stage in (a, b, c))
        plain = options or ScoreOptions()
        lean = replace(plain, k=k if plain.k is None else plain.k, bootstrap=False, windows=(), alphas=())
        return cls(a=Prepared(a, lean), b=Prepared(b, lean), c=Prepared(c, lean))


def impact(stages: ReviewStages, predictions: ClassAnswers, *, seed: int = 0, replicates: int = 2000) -> Impact:
    """Score one model at the three stages; the difference of drops A − C has a video-cluster bootstrap interval."""
    parts = [score(stage.plan.dataset, predictions, prepared=stage) for stage in (stages.a, stages.b, stages.c)]
    a, b, c = (
        Stage(
            what=NAMES[name],
            acc_orig=part.acc_orig,
            acc_pmk=part.acc_pmk,
            drop=part.drop,
            per_offset=part.per_offset,
            unscored=part.unscored,
        )
        for name, part in zip("ABC", parts, strict=True)
    )
    difference = _difference(stages, parts[0], parts[2], seed=seed, replicates=replicates)
    return Impact(a=a, b=b, c=c, drop_difference=difference)


def _difference(
    stages: ReviewStages, a: ClassificationScore, c: ClassificationScore, *, seed: int, replicates: int
) -> Estimate:
    """Return Δ_A − Δ_C; a drawn video contributes its sets at both stages."""
    if a.drop.value is None or c.drop.value is None:
        return nothing("a stage has no scored set")
    video_a, video_c = stages.a.plan.dataset.video_of_set, stages.c.plan.dataset.video_of_set
    draws = Bootstrap(np.concatenate([video_a, video_c]), replicates=replicates, seed=seed)
    before = np.arange(len(video_a) + len(video_c)) < len(video_a)
    lost = np.concatenate([part.right_at(0) & ~part.right_at(part.k) for part in (a, c)])
    scored = np.concatenate([a.scored, c.scored])
    drop_a = draws.ratio(lost & before, scored & before)
    drop_c = draws.ratio(lost & ~before, scored & ~before)
    n = int(a.scored.sum())
    return draws.estimate(a.drop.value - c.drop.value, drop_a - drop_c, n=n, limits=DIFFERENCES)
