"""95 % intervals of mAP, AP and their drops, computed by leaving out each video once.

A percentile bootstrap of mAP is biased upwards, because pooled precision is a ratio and a draw has fewer distinct
videos. The delete-one-video jackknife on the logit scale is centred on the value, includes it, and needs no random
numbers. The drop combines the asymmetric intervals of its two ends by their jackknife correlation (MOVER).
"""

import numpy as np
from scipy.special import expit, logit, stdtrit

from strobe.core.arrays import Floats, Ints
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import ALPHA, LEAST_FREEDOM, nothing

METHOD = "video jackknife"
LEAST_VIDEOS = 10
"""Below this number of videos, mAP has no interval."""
LEAST_OF_CLASS = 5
"""Below this number of videos that show a class, its AP has no interval."""
FEW_VIDEOS = 50
"""Below this number of videos, the interval is marked, because its coverage is below 95 %."""
FEW_PER_CLASS = 20
"""Below this number of videos per class, mAP itself is higher than with many videos."""

NOTHING_THERE = "these frames contain no object to find"
NO_SPREAD = "no single video changes the value, so its uncertainty is unknown"
ONE_DECIDES = "without one of the videos, no object is left to find"


def mean_ap(value: float, without: Floats, *, of_class: Ints, n: int, effective: float | None = None) -> Estimate:
    """Return mAP with its interval.

    `without` (G,) is mAP without each video, and `of_class` is the number of videos per class.

    The `effective` number of videos, (Σm)²/Σm² for videos of m sets, gives the degrees of freedom. The default is the
    number of all videos.

    >>> mean_ap(0.5, np.tile([0.49, 0.51], 30), of_class=np.array([60]), n=60).text()
    '50.0 [35.1, 64.9]'
    """
    videos = len(without)
    if videos < LEAST_VIDEOS:
        return _estimate(
            value, without, videos, n, refused=f"only {videos} video(s): an interval of mAP needs at least ten"
        )
    marks = []
    weigh = videos if effective is None else effective
    if videos < FEW_VIDEOS:
        marks.append(f"only {videos} videos: the interval may be too narrow")
    elif weigh < FEW_VIDEOS:
        marks.append(f"{videos} videos of unequal size count like {weigh:.3g}: the interval may be too narrow")
    if 2 * int((of_class == 1).sum()) > int((of_class > 0).sum()):
        marks.append("most classes are in one video only: the interval may be too narrow")
    return _estimate(value, without, videos, n, effective=weigh, mark="; ".join(marks) or None)


def ap_of_class(value: float, without: Floats, *, videos: int, n: int, effective: float | None = None) -> Estimate:
    """Return AP of one class with its interval.

    `videos` is the number of videos that show the class, and `without` (G,) is AP without each video. `effective` is
    the equivalent number of videos of equal size.
    """
    refused = None
    if videos < LEAST_OF_CLASS:
        refused = f"only {videos} video(s) show the class: an interval of its AP needs at least five"
    elif len(without) < LEAST_VIDEOS:
        refused = f"only {len(without)} videos: an interval of AP needs at least ten"
    mark = f"only {videos} videos show the class: the interval may be too narrow" if videos < LEAST_VIDEOS else None
    return _estimate(value, without, videos, n, effective=effective, refused=refused, mark=mark)


def _estimate(
    value: float,
    without: Floats,
    videos: int,
    n: int,
    *,
    effective: float | None = None,
    refused: str | None = None,
    mark: str | None = None,
) -> Estimate:
    if np.isnan(value):
        return nothing(NOTHING_THERE)
    if refused is None and not np.isfinite(without).all():
        refused = ONE_DECIDES
    spread = 0.0 if refused else standard_error(without)
    # Values that differ only by rounding have no spread.
    if spread < 1e-12:
        return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=refused or NO_SPREAD)
    centre = float(np.clip(value, 1 / (2 * videos), 1 - 1 / (2 * videos)))
    freedom = max((videos if effective is None else effective) - 1, LEAST_FREEDOM)
    reach = stdtrit(freedom, 1 - ALPHA / 2) * spread / (centre * (1 - centre))
    # If the centre was clipped, the interval is extended on the side of the value, so no end equals the value, except
    # at 0 and 1.
    low = float(expit(min(logit(centre), logit(value)) - reach))
    high = float(expit(max(logit(centre), logit(value)) + reach))
    return Estimate(value=value, low=low, high=high, n=n, method=METHOD, reason=mark)


def drop_between(
    before: Estimate, after: Estimate, without_before: Floats, without_after: Floats, *, n: int
) -> Estimate:
    """Return `before` − `after` by MOVER: both intervals, combined by the correlation of the leave-one-out values.

    >>> x = np.tile([0.49, 0.51], 30)
    >>> one = mean_ap(0.5, x, of_class=np.array([60]), n=60)
    >>> drop_between(one, one, x[::-1], x, n=60).text()
    '0.0 [-29.8, 29.8]'
    """
    if before.value is None or after.value is None:
        return nothing(NOTHING_THERE)
    value = before.value - after.value
    if before.low is None or before.high is None or after.low is None or after.high is None:
        reason = before.reason if before.low is None else after.reason
        return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=reason)
    both = float(np.corrcoef(without_before, without_after)[0, 1])
    down = _joined(before.value - before.low, after.high - after.value, both)
    up = _joined(before.high - before.value, after.value - after.low, both)
    if min(down, up) < 1e-12 and abs(value) < 1:
        return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=NO_SPREAD)
    reason = before.reason or after.reason
    return Estimate(value=value, low=value - down, high=value + up, n=n, method=f"{METHOD}, MOVER", reason=reason)


def _joined(a: float, b: float, correlation: float) -> float:
    return float(np.sqrt(max(a * a + b * b - 2 * correlation * a * b, 0.0)))


def standard_error(without: Floats) -> float:
    """Return the jackknife standard error from the values with each video left out, (G,).

    >>> round(standard_error(np.array([0.4, 0.5, 0.6])), 4)
    0.1155
    """
    n = len(without)
    return float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))


def few_per_class(of_class: Ints) -> str | None:
    """Return the caution for mAP if classes have few videos.

    `of_class` (C,) is the number of videos of each class. The result is None if the median is at least twenty.

    >>> few_per_class(np.array([30, 40, 0]))
    """
    shown = of_class[of_class > 0]
    if not shown.size or np.median(shown) >= FEW_PER_CLASS:
        return None
    middle = float(np.median(shown))
    return (
        f"{middle:g} video{'' if middle == 1 else 's'} per class (median): with few videos, mAP itself is higher, so "
        "compare mAP and its interval only with results on data of this size"
    )
