"""What is trained on: labels of frames, members that count, the split, and the same accuracy as strobe score."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strobe
from strobe.core.answers import ClassAnswers
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace
from strobe.train.sets import HeldOut, TrainingSets, targets_of
from strobe.train.split import check_classes, check_leaks, split_by_source

SPACE = LabelSpace.of_names("three", ["a", "b", "c"])


def made(labels: list[list[list[int]]], *, boxes: bool = False, pixels: list[list[str]] | None = None) -> Dataset:
    """A set per clip, `labels[clip][frame]` the labels of each frame; the middle frame is the anchor."""
    grown = DatasetBuilder()
    for clip, frames in enumerate(labels):
        video = grown.video(video_id=f"v{clip}", name=f"clip{clip}")
        rows = [
            grown.frame(
                video=video, index=index, key=f"{clip}/{index}", labels=found,
                sha256="" if pixels is None else pixels[clip][index],
            )
            for index, found in enumerate(frames)
        ]  # fmt: skip
        if boxes:
            for row, found in zip(rows, frames, strict=True):
                for place, label in enumerate(found):
                    grown.box(frame=row, label=label, xyxy=(0, 0, 10 + place, 10), track=place, crowd=False)
        middle = len(rows) // 2
        members = [(row, place - middle) for place, row in enumerate(rows) if place != middle]
        grown.set(set_id=f"s{clip}", anchor=rows[middle], members=members)
    return grown.build(DatasetInfo(name="made", label_space=SPACE, k=2), with_boxes=boxes)


def test_the_largest_object_is_the_label() -> None:
    dataset = made([[[0, 2], [2, 1], [1]]], boxes=True)
    # The last one named has the largest box here.
    assert targets_of(dataset).label.tolist() == [2, 1, 1]
    crowd = replace(dataset, boxes=replace(dataset.boxes, crowd=np.array([False, True, False, True, False])))
    assert targets_of(crowd).label.tolist() == [0, 2, 1]


def test_several_labels_without_boxes_are_refused_unless_all_count() -> None:
    dataset = made([[[0], [0, 1], [0]]])
    with pytest.raises(StrobeError, match="--multi-label"):
        targets_of(dataset)
    assert targets_of(dataset, multi_label=True).every.sum(axis=1).tolist() == [1, 2, 1]


def test_no_labels_at_all_is_one_line() -> None:
    with pytest.raises(StrobeError, match="no frame has a label"):
        targets_of(made([[[], [], []]]))


@given(
    st.lists(
        st.lists(st.integers(-1, 2), min_size=3, max_size=7).filter(lambda one: len(one) % 2 == 1),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 3),
)
def test_members_are_those_near_whose_label_is_the_anchors(clips: list[list[int]], k: int) -> None:
    labels = [[[] if label < 0 else [label] for label in clip] for clip in clips]
    if not any(label >= 0 for clip in clips for label in clip):
        return
    dataset = made(labels)
    found = TrainingSets.of(dataset, np.arange(dataset.n_sets), np.arange(len(dataset.frames)), k=k)
    first = np.cumsum([0, *(len(clip) for clip in clips)])
    expected = []
    for clip, start in zip(clips, first, strict=False):
        middle = len(clip) // 2
        if clip[middle] < 0:
            continue
        near = [place for place in range(len(clip)) if not k or abs(place - middle) <= k]
        expected.append([int(start) + place for place in near if clip[place] == clip[middle]])
    assert [found.pixel[rows[rows >= 0]].tolist() for rows in found.member] == expected
    assert found.lengths.tolist() == [len(rows) for rows in expected]
    for place in range(len(found)):
        assert found.anchor[place] in found.member[place]


def test_an_average_takes_every_labelled_frame_and_a_detector_every_one() -> None:
    dataset = made([[[0], [1], [1], [], [2]], [[], [], [], [0], [0]]])
    for which, expected in (("matching", [1, 2]), ("labelled", [0, 1, 2, 4]), ("all", list(range(10)))):
        found = TrainingSets.of(dataset, np.arange(2), np.arange(10), which=which)
        assert found.frame.tolist() == expected, which
        assert found.label.tolist() == [targets_of(dataset).label[row] for row in expected]


def test_accuracy_while_training_is_what_score_says() -> None:
    rng = np.random.default_rng(0)
    dataset = made([[[int(label)]] * 5 for label in rng.integers(0, 3, 30)])
    predicted = np.where(rng.uniform(size=150) < 0.9, np.repeat(dataset.labels.label[::5], 5), 0)
    held = HeldOut.of(dataset, np.arange(30), np.arange(150))
    score = strobe.score(dataset, ClassAnswers.from_labels("m", predicted))
    assert held.accuracy(predicted) == pytest.approx((score.acc_orig.value, score.acc_pmk.value))
    some = HeldOut.of(dataset, np.arange(10, 20), np.arange(150))
    part = dataset.keep_rows(np.isin(dataset.sets.set, np.arange(10, 20)))
    score = strobe.score(part, ClassAnswers.from_labels("m", predicted))
    assert some.accuracy(predicted[some.frames]) == pytest.approx((score.acc_orig.value, score.acc_pmk.value))


# -- the split ---------------------------------------------------------------------------------------------------


def test_every_class_is_on_both_sides_and_no_source_is() -> None:
    dataset = made([[[place % 3]] * 3 for place in range(30)])
    label = np.arange(30) % 3
    split = split_by_source(dataset, label, share=0.2, seed=0)
    assert sorted([*split.training, *split.held_out]) == list(range(30))
    assert np.bincount(label[split.held_out]).tolist() == [2, 2, 2]
    other = split_by_source(dataset, label, share=0.2, seed=1)
    assert other.held_out.tolist() != split.held_out.tolist()
    check_leaks(dataset, split.training, dataset, split.held_out)
    text = split.csv(dataset)
    assert text.count("held-out") == 6
    assert text.count("\n") == 31


def test_clips_with_common_pixels_stay_together() -> None:
    pixels = [[f"{clip}{frame}" for frame in range(3)] for clip in range(6)]
    pixels[4][2] = pixels[1][0] = "same"
    dataset = made([[[0]] * 3] * 6, pixels=pixels)
    for seed in range(8):
        split = split_by_source(dataset, np.zeros(6, int), share=0.4, seed=seed)
        assert (1 in split.held_out) == (4 in split.held_out)
        check_leaks(dataset, split.training, dataset, split.held_out)
    with pytest.raises(StrobeError, match="on both the training and the held-out side"):
        check_leaks(dataset, np.array([1]), dataset, np.array([4]))
    with pytest.raises(StrobeError, match="first clip1"):
        check_leaks(dataset, np.array([1]), made([[[0]] * 3] * 2), np.array([1]))


def test_what_cannot_be_split_is_one_line() -> None:
    with pytest.raises(StrobeError, match="share one source"):
        split_by_source(made([[[0]] * 3]), np.zeros(1, int), share=0.2, seed=0)
    with pytest.raises(StrobeError, match="no class has two sources"):
        split_by_source(made([[[0]] * 3, [[1]] * 3]), np.array([0, 1]), share=0.2, seed=0)
    with pytest.raises(StrobeError, match="class c: it is held out, but has no training clip"):
        check_classes(made([[[0]] * 3]), np.array([0, 1]), np.array([1, 2]))
    assert check_classes(made([[[0]] * 3]), np.array([0, 1]), np.array([1])) == ["a"]
