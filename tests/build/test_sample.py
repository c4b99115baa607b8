"""Anchors and windows."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.build.index import VideoIndex
from strobe.build.options import AnchorOptions
from strobe.build.sample import choose_anchors, window_of
from strobe.core.errors import InvalidValue
from strobe.core.tables import NO_PTS


def index_of(pts: list[int], *, base: Fraction = Fraction(1, 25)) -> VideoIndex:
    return VideoIndex(
        path=Path("a.mp4"), container="mp4", codec="h264", time_base=base, fps=1 / base, size_wh=(8, 8),
        pts=np.array(pts, dtype=np.int64), keys=(),
    )  # fmt: skip


@given(n=st.integers(1, 300), k=st.integers(0, 12), wanted=st.integers(1, 12), seed=st.integers(0, 99))
def test_random_anchors_share_no_frame_and_are_as_many_as_fit(n: int, k: int, wanted: int, seed: int) -> None:
    index, sampling = index_of(list(range(n))), AnchorOptions(k=k, anchors_per_video=wanted, seed=seed)
    anchors, notes = choose_anchors(index, sampling, video_id="ab12", eligible=None)
    seen: list[int] = []
    for anchor in anchors:
        seen += window_of(index, anchor, sampling)
    assert len(seen) == len(set(seen))
    assert anchors == sorted(anchors)
    assert 0 <= anchors[0] <= anchors[-1] < n
    assert len(anchors) == min(wanted, -(-n // (2 * k + 1)))
    assert bool(notes) == (len(anchors) < wanted)
    assert choose_anchors(index, sampling, video_id="ab12", eligible=None)[0] == anchors


@given(
    allowed=st.sets(st.integers(0, 199), min_size=1),
    wanted=st.integers(1, 5),
    window=st.floats(0, 900),
    seed=st.integers(0, 9),
)
def test_anchors_come_from_labelled_frames(allowed: set[int], wanted: int, window: float, seed: int) -> None:
    index = index_of(list(range(200)))
    sampling = AnchorOptions(window_ms=window, anchors_per_video=wanted, seed=seed)
    anchors, _ = choose_anchors(index, sampling, video_id="ab12", eligible=sorted(allowed))
    assert set(anchors) <= allowed
    places = [place for anchor in anchors for place in window_of(index, anchor, sampling)]
    assert len(places) == len(set(places))


def test_seed_and_content_move_anchors_and_every_frame_can_be_one() -> None:
    index = index_of(list(range(12)))
    by_seed = {choose_anchors(index, AnchorOptions(seed=s), video_id="ab", eligible=None)[0][0] for s in range(200)}
    assert by_seed == set(range(12))
    by_video = {choose_anchors(index, AnchorOptions(), video_id=f"{v:x}", eligible=None)[0][0] for v in range(200)}
    assert by_video == set(range(12))


def test_window_in_milliseconds_follows_time_not_count() -> None:
    index = index_of([0, 1, 2, 30, 31, 32, 33, 60])  # 40 ms a step, then a pause
    assert window_of(index, 3, AnchorOptions(window_ms=80)) == range(3, 6)
    assert window_of(index, 4, AnchorOptions(window_ms=79)) == range(3, 6)
    assert window_of(index, 4, AnchorOptions(window_ms=79.6)) == range(3, 7)  # half a millisecond of slack
    assert window_of(index, 1, AnchorOptions(k=3)) == range(0, 5)


def test_window_in_milliseconds_needs_timestamps() -> None:
    with pytest.raises(InvalidValue, match="--k"):
        window_of(index_of([NO_PTS] * 5), 2, AnchorOptions(window_ms=10))


def test_every() -> None:
    index = index_of(list(range(100)))
    assert choose_anchors(index, AnchorOptions(every=21), video_id="ab", eligible=None)[0] == [10, 31, 52, 73, 94]
    assert choose_anchors(index, AnchorOptions(every=21), video_id="ab", eligible=range(30, 60))[0] == [31, 52]
    with pytest.raises(InvalidValue, match="--every"):
        choose_anchors(index, AnchorOptions(every=21), video_id="ab", eligible=[0])
    with pytest.raises(InvalidValue, match="label"):
        choose_anchors(index, AnchorOptions(), video_id="ab", eligible=[])
