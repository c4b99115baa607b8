"""The number of videos that a gate needs, so that equal models pass and a loss of twice the margin fails."""

from dataclasses import dataclass, field

from strobe.analyses.clips import Scope
from strobe.analyses.gate import Limit
from strobe.core.codec import LEFT_OUT, Count, Share
from strobe.core.errors import StrobeError
from strobe.metrics.detection.jackknife import LEAST_VIDEOS
from strobe.metrics.paired import least_videos
from strobe.metrics.power import LossSpread, PairSpread, PlainSpread, fails, videos_needed

ENDS: dict[Scope, int] = {"these-clips": 0, "other-videos": 1}
"""What must be beyond the limit to fail: the figure, or the whole interval."""

ASSUMED = ("acc_orig", "acc_pmk", "drop", "flicker", "consistency")
"""The measures for which a set counts fully or not at all, so that their spread follows from the churn."""

CHURN = 0.1
"""The assumed share of sets that change between two equally good models, if none was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """The number of videos for one scope, and how often a loss of zero and of twice the margin fail."""

    scope: Scope
    videos: Count
    false_alarms: Share
    detected: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePlan:
    """The number of videos that one limit on a loss needs.

    `churn` is the share of sets that change between two equally good models (classifiers only). `measured_on` is the
    number of videos that the churn was measured on; it is omitted if the churn was assumed.
    """

    limit: Limit
    churn: Share | None
    rows: tuple[PlanRow, ...]
    measured_on: Count | None = field(default=None, metadata=LEFT_OUT)

    @property
    def videos(self) -> int:
        """The number of videos with which the figure itself decides about other videos."""
        return self.rows[0].videos


def plan_loss(limit: Limit, spread: LossSpread | None = None, *, n_videos: int | None = None) -> GatePlan:
    """Return the plan for a limit on a loss.

    `spread` was measured on `n_videos` videos. Without `n_videos` it is assumed.

    >>> plan_loss(Limit(kind="max_loss", measure="acc_pmk", value=2.0)).videos
    677
    """
    most = " to 25 points" if limit.unit == "share" else ""
    if limit.value <= 0 or (most and limit.value > 25):
        raise StrobeError(
            f"<<plan>> <<max_loss={limit.measure}={limit.value:g}>>: expected a margin from above 0{most}"
        )
    if limit.measure not in ASSUMED and (n_videos is None):
        raise StrobeError(
            f"<<plan>> <<max_loss={limit.measure}>>: its spread depends on the data; give a run and a baseline"
        )
    margin, measured = limit.at, spread or PairSpread(churn=CHURN, size=1.0)
    is_pair = isinstance(measured, PairSpread)
    least = least_videos() if is_pair else LEAST_VIDEOS
    rows = []
    for scope, ends in ENDS.items():
        videos = max(least, videos_needed(measured, n_videos or 1, limit=margin, ends=ends))
        rates = []
        for true in (0.0, 2 * margin):
            then = PlainSpread(error=measured.at(true) * ((n_videos or 1) / videos) ** 0.5)
            rates.append(fails(then, true, limit=margin, ends=ends))
        rows.append(PlanRow(scope=scope, videos=videos, false_alarms=rates[0], detected=rates[1]))
    churn = measured.churn if isinstance(measured, PairSpread) else None
    return GatePlan(limit=limit, churn=churn, rows=tuple(rows), measured_on=n_videos if spread else None)
