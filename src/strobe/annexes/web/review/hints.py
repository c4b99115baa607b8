"""Describe the notable hints of a pair in words. Most pairs have none."""

from strobe.core.tables import Hints

CUT, BLUR, MOTION, EXPOSURE = 0.35, 1.0, 3.0, 0.1
"""The smallest values worth a hint.

These are the cut score of `build --drop-cuts`, half or twice the sharpness (log2), motion in per cent of the diagonal,
and a tenth of the luma range.
"""


def hints_of(hints: Hints, row: int) -> list[str]:
    """Return the hints of one pair, in words.

    >>> import numpy as np
    >>> one = Hints(cut=np.array([0.5]), blur=np.array([-1.2]), motion=np.array([0.4]), exposure=np.array([0.0]),
    ...             duplicate=np.array([False]))
    >>> hints_of(one, 0)
    ['a cut between the frames', 'blurrier']
    """
    out = []
    if hints.duplicate[row]:
        out.append("almost the same pixels")
    if hints.cut[row] >= CUT:
        out.append("a cut between the frames")
    if abs(hints.blur[row]) >= BLUR:
        out.append("blurrier" if hints.blur[row] < 0 else "sharper")
    if hints.motion[row] >= MOTION:
        out.append(f"moved by {hints.motion[row]:.0f} % of the diagonal")
    if abs(hints.exposure[row]) >= EXPOSURE:
        out.append("darker" if hints.exposure[row] < 0 else "brighter")
    return out
