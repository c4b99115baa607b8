"""The builder of dataset tables."""

from fractions import Fraction

import pytest

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.tables import NO_PTS

INFO = DatasetInfo(name="pets", label_space=LabelSpace.of_names("pets", ("cat", "dog")), k=2)


def grown() -> DatasetBuilder:
    made = DatasetBuilder()
    video = made.video(video_id="v", name="clip", fps=Fraction(30000, 1001))
    made.frame(video=video, index=4, key="4", labels=[1, 0, 1], time_s=(50, 25))
    made.frame(video=video, index=5, key="5", labels=[0], pts=7, time_s=Fraction(50, 25), size_wh=(3, 2))
    made.frame(video=video, index=6, key="6")
    return made


def test_rows_stand_as_they_were_given_and_members_by_distance() -> None:
    made = grown()
    made.set(set_id="b", anchor=1, members=[(2, 1), (0, -1)])
    made.set(set_id="a", anchor=0, members=[])
    data = made.build(INFO)
    assert data.sets.set_id.tolist() == ["b", "a"]
    assert data.sets.frame.tolist() == [0, 1, 2, 0]
    assert data.sets.distance.tolist() == [-1.0, 0.0, 1.0, 0.0]
    assert data.sets.is_anchor.tolist() == [False, True, False, True]
    assert data.labels.frame.tolist() == [0, 0, 1]
    assert data.labels.label.tolist() == [1, 0, 0]
    assert (data.videos.fps(0), data.videos.n_frames.tolist()) == (Fraction(30000, 1001), [-1])
    assert data.frames.pts.tolist() == [NO_PTS, 7, NO_PTS]
    assert data.boxes is None


def test_rows_that_became_columns_on_the_way_stand_as_they_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def digest() -> str:
        made = grown()
        for row, members in enumerate([[(2, 1), (0, -1)], [], [(1, 1)]]):
            made.set(set_id=f"s{row}", anchor=(1, 2, 0)[row], members=members)
            made.box(frame=row, label=0, xyxy=(0, 1, 2, 3 + row), track=row)
        return made.build(INFO).digest()

    whole = digest()
    monkeypatch.setattr("strobe.core.builder._ROWS", 2)
    assert digest() == whole
