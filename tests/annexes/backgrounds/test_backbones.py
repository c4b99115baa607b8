"""One backbone as classifier and as detector: equal to what is counted by hand, paired by image and by seed."""

from typing import Any

import numpy as np
import pytest

from strobe.annexes.backgrounds.backbones.records import SharedBackbone
from strobe.annexes.backgrounds.backbones.score import ImageRows, rows_of, shared_backbones
from strobe.core.answers import ClassAnswers
from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.codec import decode, encode
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.estimate import Estimate
from strobe.core.labels import LabelSpace
from strobe.metrics.intervals import clopper_pearson
from strobe.studies.people.records import BesideModel, PeopleResults, PeopleScore, SaidCounts, Times

N = 40
CLASSIFIER = {"spec": {"name": "timm:resnet50.a1_in1k@cls.pth"}}
DETECTOR = {"view": "boxes", "detector": "timm:resnet50@det.safetensors", "spec": {"name": "any"}}
ORACLE = {**CLASSIFIER, "view": "crop", "preprocessing": {"view": "crop:truth,context=1,pick=label"}}
DETECTED = {**CLASSIFIER, "view": "crop", "preprocessing": {"view": "crop:timm:resnet50@det,context=1"}}


@pytest.fixture(scope="module")
def photos() -> Dataset:
    grown = DatasetBuilder()
    for number in range(N):
        name = f"{number}.jpg"
        photo = grown.video(video_id=frame_list_digest([name]), name=name, n_frames=1, kind="photo")
        row = grown.frame(video=photo, index=0, key=name, labels=(number % 2,))
        grown.set(set_id=name, anchor=row, members=())
    return grown.build(DatasetInfo(name="photos", label_space=LabelSpace.of_names("two", ["a", "b"]), k=0, axis="none"))


def _answers(name: str, right: list[bool]) -> ClassAnswers:
    truth = np.arange(N) % 2
    label = np.where(right, truth, 1 - truth)
    return ClassAnswers.from_labels(name, label, scored=np.ones(N, dtype=bool))


def _right(seed: int, share: float) -> list[bool]:
    return (np.random.default_rng(seed).uniform(size=N) < share).tolist()


def _shared(photos: Dataset, models: dict[str, tuple[dict[str, Any], list[bool]]], people: Any = None) -> Any:
    images = ImageRows(photos)
    rows = [
        row for name, (facts, right) in models.items() for row in rows_of(name, facts, _answers(name, right), images)
    ]
    return shared_backbones(rows, images, people, interval="auto")


def test_rows_are_counted_and_paired_as_by_hand(photos: Dataset) -> None:
    right = {name: _right(place, share) for place, (name, share) in enumerate(
        {"cls": 0.4, "boxes": 0.7, "found": 0.5, "oracle": 0.6}.items()
    )}  # fmt: skip
    facts = {"cls": CLASSIFIER, "boxes": DETECTOR, "found": DETECTED, "oracle": ORACLE}
    # The order of the models does not matter.
    (one,) = _shared(photos, {name: (facts[name], right[name]) for name in ("oracle", "boxes", "cls", "found")})
    assert (one.backbone, one.n, one.people) == ("timm:resnet50", N, None)
    assert [row.role for row in one.rows] == ["classifier", "detector", "detected-crop", "oracle-crop"]
    for row in one.rows:
        mean = {name: sum(values) / N for name, values in right.items()}
        assert row.accuracy == clopper_pearson(sum(right[row.model]), N)
        if row.role == "classifier":
            assert row.over_classifier is None
        else:
            assert row.over_classifier.value == pytest.approx(mean[row.model] - mean["cls"])
        if row.role == "detector":
            assert row.below_detector is None
        else:
            assert row.below_detector.value == pytest.approx(mean["boxes"] - mean[row.model])
    assert decode(SharedBackbone, encode(one), where="x") == one


def test_a_difference_is_significant_only_after_the_correction(photos: Dataset) -> None:
    """Six images that only the detector gets right: p = 1/32, below 0.05 alone, not among three."""
    plain = [False] * N
    better = [place < 6 for place in range(N)]
    (alone,) = _shared(photos, {"cls": (CLASSIFIER, plain), "boxes": (DETECTOR, better)})
    models = {"cls": (CLASSIFIER, plain), "boxes": (DETECTOR, better), "a": (ORACLE, plain), "b": (DETECTED, plain)}
    (among,) = _shared(photos, models)
    assert alone.rows[1].over_classifier.low > 0
    assert among.rows[1].over_classifier.low <= 0 < among.rows[1].over_classifier.value


def test_other_backbones_other_seeds_and_other_classifiers_are_not_mixed(photos: Dataset) -> None:
    other = {"spec": {"name": "timm:resnet18@cls.pth"}}
    assert _shared(photos, {"cls": (other, _right(0, 0.5)), "boxes": (DETECTOR, _right(1, 0.5))}) == ()
    assert _shared(photos, {"cls": (CLASSIFIER, _right(0, 0.5)), "oracle": (ORACLE, _right(1, 0.5))}) == ()
    second = {"spec": {"name": "timm:resnet50@second.pth"}}
    models = {
        "cls~0": (CLASSIFIER, _right(0, 0.5)), "cls~1": (second, _right(1, 0.5)), "boxes~0": (DETECTOR, _right(2, 0.5)),
        "boxes~1": (DETECTOR, _right(3, 0.5)), "oracle~0": (ORACLE, _right(4, 0.5)),
    }  # fmt: skip
    first, last = _shared(photos, models)
    assert [row.model for row in first.rows] == ["cls~0", "boxes~0", "oracle~0"]
    assert [row.model for row in last.rows] == ["cls~1", "boxes~1"]


def test_people_stand_in_the_same_rows(photos: Dataset) -> None:
    def estimate(value: float) -> Estimate:
        return Estimate(value=value, low=value, high=value, n=9)

    said, times = (
        SaidCounts(named=9, none=0, unsure=0, late=0),
        Times(median=estimate(1), quartile_low=None, quartile_high=None),
    )
    models = tuple(
        BesideModel(model=name, accuracy=estimate(0.5), difference=estimate(gap), consistency=estimate(0))
        for name, gap in (("cls", 0.4), ("boxes", 0.1))
    )
    score = PeopleScore(
        variant="anchor", condition="", role="same", n_pictures=9, n_people=1, n_answers=9, said=said,
        accuracy=estimate(0.9), majority=estimate(0.9), no_majority=0, fleiss_kappa=estimate(0),
        consistency=estimate(0), seconds=times, people=(), models=models, pairs=(), confusion=(),
    )  # fmt: skip
    people = PeopleResults(
        n_people=1, n_pictures=9, n_answers=9, elsewhere=0, controls=estimate(1), scores=(score,), preservation=()
    )
    (one,) = _shared(photos, {"cls": (CLASSIFIER, _right(0, 0.5)), "boxes": (DETECTOR, _right(1, 0.8))}, people)
    assert one.people == score.accuracy
    assert [row.below_people.value for row in one.rows] == [0.4, 0.1]
