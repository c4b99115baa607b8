"""What a dataset holds, against plain counting; the ceiling childless classes set."""

import csv
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.analyses.ceilings import ceiling
from strobe.analyses.overview import overview
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace, projection, space

LISTED = Path(__file__).parents[2] / "../shared/reference/ytbb-robust/ytbb_robustness_test_anchors_full.csv"
PETS = LabelSpace.of_names("pets", ["cat", "dog", "fox"])


@st.composite
def datasets(draw, label_space: LabelSpace = PETS) -> Dataset:
    made = DatasetBuilder()
    number = st.integers(0, len(label_space) - 1)
    for v in range(draw(st.integers(1, 4))):
        fps = draw(st.none() | st.sampled_from([Fraction(25), Fraction(30000, 1001)]))
        video = made.video(video_id=f"v{v}", name=f"v{v}", fps=fps)
        rows = [
            made.frame(
                video=video, index=i, key=f"{v}/{i}", labels=draw(st.sets(number, max_size=2)),
                pict_type=draw(st.sampled_from(["I", "P", "B", ""])), time_s=i / fps if fps else None,
                media=draw(st.sampled_from(["", "media/x.png"])), size_wh=draw(st.sampled_from([(0, 0), (8, 6)])),
            )
            for i in range(9)
        ]  # fmt: skip
        for row in rows:
            if draw(st.booleans()):
                made.box(frame=row, label=draw(number), xyxy=(0, 0, 1, 1), track=draw(st.integers(-1, 1)))
        for s, anchor in enumerate(sorted(draw(st.sets(st.sampled_from([2, 6]), min_size=1)))):
            near = [i for i in range(anchor - 2, anchor + 3) if i != anchor and draw(st.booleans())]
            made.set(set_id=f"{v}-{s}", anchor=rows[anchor], members=[(rows[i], i - anchor) for i in near])
    info = DatasetInfo(name="d", label_space=label_space, k=2, label_source=draw(st.sampled_from(["frame", "anchor"])))
    return made.build(info)


@settings(max_examples=60, deadline=None)
@given(datasets())
def test_counts_equal_plain_counting(data: Dataset) -> None:
    facts = overview(data)
    sets = list(data)
    ids = data.frame_ids()
    frames = {frame.id for one in sets for frame in (one.anchor, *(m.frame for m in one.members))}
    labels = {name: set(data.labels_of(row)) for row, name in enumerate(ids)}
    assert facts["counts"]["sets"] == len(sets)
    assert facts["counts"]["videos"] == len({one.anchor.video_id for one in sets})
    assert facts["counts"]["members"] == sum(len(one.members) for one in sets)
    assert facts["counts"]["frames"] == len(frames)
    boxes = [] if data.boxes is None else [
        (ids[f], int(label), int(track))
        for f, label, track in zip(data.boxes.frame, data.boxes.label, data.boxes.track, strict=True)
        if ids[f] in frames
    ]  # fmt: skip
    assert facts["counts"]["boxes"] == len(boxes)
    assert facts["counts"]["tracks"] == len({(name.split(":")[0], track) for name, _, track in boxes if track >= 0})
    sizes = [len(one.members) for one in sets]
    assert (facts["sets"]["members_min"], facts["sets"]["members_max"]) == (min(sizes), max(sizes))
    assert facts["sets"]["full"] == sum(size == 4 for size in sizes)
    assert facts["sets"]["anchor_alone"] == sum(size == 0 for size in sizes)
    assert facts["labels"]["frames_with_several"] == sum(len(labels[name]) > 1 for name in frames)
    assert facts["labels"]["anchors_without"] == sum(not labels[one.anchor.id] for one in sets)
    offsets = Counter([0.0] * len(sets) + [m.distance for one in sets for m in one.members])
    assert {row["offset"]: row["frames"] for row in facts["offsets"]} == dict(offsets)
    for row in facts["classes"]:
        label = PETS.index(row["label"])
        assert row["anchors"] == sum(label in labels[one.anchor.id] for one in sets)
        assert row["frames"] == sum(label in labels[name] for name in frames)
        assert row["boxes"] == sum(found == label for _, found, _ in boxes)
    kinds = Counter(data.frame(ids.index(name)).pict_type or "unknown" for name in frames)
    assert {kind: row["frames"] for kind, row in facts["frame_types"].items()} == dict(kinds)
    assert sum(facts["media"].values()) == len(frames)
    reach = [
        max(
            [abs(m.frame.time_s - one.anchor.time_s) for m in one.members] + [Fraction(0)]
        )
        for one in sets
        if one.anchor.time_s is not None
    ]  # fmt: skip
    if reach:
        assert facts["reach_ms"]["max"] == pytest.approx(float(max(reach)) * 1000)
    else:
        assert facts["reach_ms"] is None
    assert facts["ceiling"] is None, "no map leads to these classes"


@settings(max_examples=60, deadline=None)
@given(datasets(space("youtube-bb")))
def test_ceiling_is_the_score_of_a_perfect_model_of_the_other_space(data: Dataset) -> None:
    """A model that answers rightly whenever it has a class for it."""
    found = projection("ilsvrc-2012", "youtube-bb")
    can = set(range(24)) - set(found.childless)
    label_of = {name: set(data.labels_of(row)) & can for row, name in enumerate(data.frame_ids())}
    own = data.info.label_source == "frame"
    n_orig = n_pmk = 0
    for one in data:
        right = bool(label_of[one.anchor.id])
        n_orig += right
        n_pmk += right and all(label_of[m.frame.id if own else one.anchor.id] for m in one.members)
    top = ceiling(data)
    assert top.acc_orig == pytest.approx(n_orig / data.n_sets)
    assert top.acc_pmk == pytest.approx(n_pmk / data.n_sets)
    assert top.anchors_out_of_reach == data.n_sets - n_orig


@pytest.mark.skipif(not LISTED.is_file(), reason="the reference folder is not at hand")
def test_the_listed_anchors_of_ytbb() -> None:
    made = DatasetBuilder()
    youtube = space("youtube-bb")
    videos: dict[str, int] = {}
    with LISTED.open(newline="") as file:
        for number, line in enumerate(csv.DictReader(file)):
            if line["ytid"] not in videos:
                videos[line["ytid"]] = made.video(video_id=line["ytid"], name=line["ytid"])
            label = youtube.index("car") if line["label"] == "22" else int(line["label"])
            row = made.frame(video=videos[line["ytid"]], index=number, key=str(number), labels=[label])
            made.set(set_id=str(number), anchor=row, members=[])
    top = ceiling(made.build(DatasetInfo(name="listed", label_space=youtube, k=10, label_source="anchor")))
    assert (top.n, top.anchors_out_of_reach) == (2529, 286)
    # `none` has no ILSVRC class either, but no anchor has it.
    assert set(top.childless) == {"cow", "giraffe", "skateboard", "toilet"}


def test_figures_are_plain_json() -> None:
    import json

    made = DatasetBuilder()
    row = made.frame(video=made.video(video_id="v", name="v"), index=0, key="k", labels=[np.int64(1)])
    made.set(set_id="s", anchor=row, members=[])
    assert json.loads(json.dumps(overview(made.build(DatasetInfo(name="d", label_space=PETS, k=0)))))["k"] == 0
