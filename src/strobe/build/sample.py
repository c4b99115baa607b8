"""Choose the frames that become anchors, and the frames around them that become candidates."""

from collections.abc import Sequence

import numpy as np

from strobe.build.index import VideoIndex
from strobe.build.options import AnchorOptions
from strobe.core.errors import InvalidValue

_SLACK_MS = 0.5
"""A window includes members up to half a millisecond beyond its end, because containers round frame times."""


def window_of(index: VideoIndex, anchor: int, sampling: AnchorOptions) -> range:
    """Return the frame indices of an anchor's set, including the anchor.

    There are fewer frames near the ends of the video.
    """
    if sampling.window_ms is None:
        return range(max(0, anchor - sampling.k), min(len(index), anchor + sampling.k + 1))
    times = index.times_s()
    if np.isnan(times[anchor]):
        raise InvalidValue("the video has no timestamps; use <<k>> instead of <<window>>")
    near = np.abs(times - times[anchor]) * 1000 <= sampling.window_ms + _SLACK_MS
    # Frames are in time order, so the frames near the anchor are contiguous.
    places = np.flatnonzero(near)
    return range(int(places[0]), int(places[-1]) + 1)


def choose_anchors(
    index: VideoIndex, sampling: AnchorOptions, *, video_id: str, eligible: Sequence[int] | None
) -> tuple[list[int], list[str]]:
    """Return a video's anchors in ascending order, and a note if there are fewer anchors than requested.

    Each video has its own seed, derived from its content, so other videos, their order and their names do not affect
    its anchors.
    """
    allowed = np.arange(len(index)) if eligible is None else np.asarray(eligible, dtype=np.int64)
    if not len(allowed):
        raise InvalidValue("the video has no labelled frame, so no set can be built")
    if sampling.every is not None:
        first = min(sampling.k, (len(index) - 1) // 2)
        grid = np.arange(first, len(index), sampling.every)
        chosen = np.intersect1d(grid, allowed).tolist()
        if not chosen:
            raise InvalidValue("<<every>> reaches no labelled frame; use a smaller step or random anchors")
        return chosen, []
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([sampling.seed, int(video_id, 16)])))
    if sampling.anchors_per_video == 1:
        return [int(allowed[rng.integers(len(allowed))])], []
    anchors = _apart(index, sampling, allowed, rng)
    wanted = sampling.anchors_per_video
    notes = (
        [] if len(anchors) == wanted else [f"only {len(anchors)} of {wanted} anchors fit, because sets share no frame"]
    )
    return anchors, notes


def _apart(
    index: VideoIndex,
    sampling: AnchorOptions,
    allowed: np.ndarray[tuple[int], np.dtype[np.int64]],
    rng: np.random.Generator,
) -> list[int]:
    """Sample random anchors whose sets share no frame."""
    how_many = sampling.anchors_per_video
    if len(allowed) == len(index) and sampling.window_ms is None:
        # Sample positions without gaps, then insert the gaps. So every choice of anchors at least 2k + 1 apart is
        # equally likely.
        gap = 2 * sampling.k
        how_many = min(how_many, (len(index) + gap) // (gap + 1))
        drawn = np.sort(rng.choice(len(index) - (how_many - 1) * gap, size=how_many, replace=False))
        return [int(place) for place in drawn + gap * np.arange(how_many)]
    anchors: list[int] = []
    taken: set[int] = set()
    for anchor in rng.permutation(allowed).tolist():
        frames = window_of(index, anchor, sampling)
        if taken.isdisjoint(frames):
            anchors.append(anchor)
            taken.update(frames)
            if len(anchors) == how_many:
                break
    return sorted(anchors)
