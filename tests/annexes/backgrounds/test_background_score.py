"""Every figure of a ladder of backgrounds and of a shared backbone against a slow plain reference."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import made_background as made
import numpy as np
import pytest

import strobe
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Results
from strobe.annexes.backgrounds.backbones.records import SharedBackbone
from strobe.annexes.backgrounds.backbones.score import ImageRows, rows_of, shared_backbones
from strobe.core.answers import ClassAnswers
from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.codec import decode, encode
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.estimate import Estimate, Missing
from strobe.core.labels import LabelSpace
from strobe.core.variants import Variants
from strobe.metrics.intervals import clopper_pearson
from strobe.metrics.paired import holm, mcnemar
from strobe.studies.people.records import BesideModel, PeopleResults, PeopleScore, SaidCounts, Times
from strobe.studies.variants.score_contrasts import ByVariant

ISOLATES = {
    "background": ("anchor", "grey"),
    "background-cropped": ("crop-1", "tight"),
    "magnification": ("tight", "grey"),
    "magnification-with-ground": ("crop-1", "anchor"),
    "place": ("crop-1", "zoom"),
    "bg-gap": ("same", "other"),
    "fit": ("usual", "anchor"),
}


def plainly(data: Dataset, answers: ClassAnswers) -> dict[str, dict[str, bool]]:
    """Whether each image is right on each of its rungs, by names alone; what has no answer is not there."""
    out: dict[str, dict[str, bool]] = {}
    place = {key: row for row, key in enumerate(data.frames.key)}
    for one in data:
        for frame in (one.anchor, *(member.frame for member in one.members)):
            row = place[frame.key]
            rung = frame.key.split("/")[0] if frame.key.count("/") > 1 else "anchor"
            if answers.scored[row]:
                truth = data.labels_of(place[one.anchor.key])
                out.setdefault(one.group, {})[rung] = int(answers.label[row]) in truth
    return out


def both(found: dict[str, dict[str, bool]], a: str, b: str) -> Iterator[tuple[bool, bool]]:
    return ((one[a], one[b]) for one in found.values() if a in one and b in one)


@pytest.fixture(scope="module")
def small() -> Dataset:
    return made.ladder(24, absent={"grey": 5, "same": 3, "removed": 4})


def random_answers(data: Dataset, seed: int, *, silent: float = 0.0) -> ClassAnswers:
    rng = np.random.default_rng(seed)
    label = rng.integers(-1, 4, len(data.frames))
    return ClassAnswers.from_labels("m", label, scored=rng.random(len(label)) >= silent)


@pytest.mark.parametrize(("seed", "silent"), [(0, 0.0), (1, 0.0), (2, 0.1), (3, 0.4)])
def test_contrasts_of_two_rungs_are_on_the_pictures_that_have_both(small: Dataset, seed: int, silent: float) -> None:
    answers = random_answers(small, seed, silent=silent)
    found, reference = scored(small, [answers]), plainly(small, answers)
    planned = [one for one in found.contrasts if one.isolates is not None]
    assert [one.isolates for one in planned] == list(ISOLATES)
    p_values = []
    for one in planned:
        pairs = list(both(reference, *ISOLATES[one.isolates]))
        only_a, only_b = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
        assert (one.n, one.only_a, one.only_b) == (len(pairs), only_a, only_b)
        assert one.value.value == pytest.approx((only_a - only_b) / len(pairs))
        assert one.p == pytest.approx(mcnemar(only_a, only_b))
        p_values.append(one.p)
    assert [one.p_holm for one in planned] == pytest.approx(holm(p_values))
    others = [one for one in found.contrasts if one.of == "variants" and one.isolates is None]
    assert len(others) == 12 + 4  # every rung against the whole image, the crop at each of its contexts
    for one in others:
        pairs = list(both(reference, "anchor", f"crop-{one.level:g}" if one.b == "crop" else one.b))
        assert one.value.value == pytest.approx(sum(a - b for a, b in pairs) / len(pairs))


def scored(data: Dataset, answers: list[ClassAnswers], *, areas: dict[str, float] | None = None) -> Results:
    """The contrasts and the background of these models, and nothing else that would take time."""
    by = ByVariant(data, ScoreOptions(replicates=200), areas=areas)
    plain = decode(Results, BLANK)
    models = {one.model: by.add(replace(plain.models["m"], coverage=None), one) for one in answers}
    return by.into(Results(dataset=plain.dataset, models=models))


def _blank() -> dict[str, object]:
    data = made.ladder(4, masks=False)
    return strobe.results(data, [random_answers(data, 0)])


BLANK = _blank()


@pytest.mark.parametrize(("seed", "silent"), [(0, 0.0), (1, 0.0), (2, 0.1), (3, 0.4)])
def test_what_each_part_counts(small: Dataset, seed: int, silent: float) -> None:
    answers = random_answers(small, seed, silent=silent)
    reference = plainly(small, answers)
    found = scored(small, [answers]).models["m"].added["background"].sensitivity
    for part, rung in (("background", "grey"), ("foreground", "removed")):
        lost = [not b for a, b in both(reference, "anchor", rung) if a]
        assert (getattr(found, part).count, getattr(found, part).n) == (sum(lost) if lost else None, len(lost))
    pairs = list(both(reference, "grey", "removed"))
    b, f = (sum(one) / len(pairs) for one in zip(*pairs, strict=True))
    least = min((b + f) / 2, 1 - (b + f) / 2)
    if least:
        assert found.relative.value == pytest.approx((b - f) / (2 * least))
        if found.relative.low is None:
            assert "its uncertainty on that side is unknown" in found.relative.reason
        else:
            assert -1 <= found.relative.low <= found.relative.value <= found.relative.high <= 1
    else:
        assert found.relative.value is None


def test_relative_sensitivity_at_its_ends() -> None:
    """Right without the background and never without the object: 1; the other way round: −1."""
    data = made.ladder(16)
    truth = np.zeros(len(data.frames), dtype=int)
    truth[data.labels.frame] = data.labels.label
    rung = np.array([key.split("/")[0] for key in data.frames.key])
    for wrong, expected in (("removed", 1.0), ("grey", -1.0)):
        label = np.where(rung == wrong, (truth + 1) % 4, truth)
        found = scored(data, [ClassAnswers.from_labels("m", label)]).models["m"].added["background"].sensitivity
        assert found.relative.value == expected
    none = scored(data, [ClassAnswers.from_labels("m", truth)]).models["m"].added["background"].sensitivity
    assert none.relative.value is None
    assert none.background.value == none.foreground.value == 0


@pytest.mark.parametrize(("seed", "only_wrong"), [(0, False), (1, False), (2, True), (3, True)])
def test_best_of_the_crops_against_shuffled_answers(small: Dataset, seed: int, only_wrong: bool) -> None:
    """The chance is the mean over many shuffles of the answers, crop by crop, and worked out exactly."""
    answers = random_answers(small, seed)
    found = scored(small, [answers]).models["m"].added["background"]
    study = found.zoom_wrong if only_wrong else found.zoom
    reference = plainly(small, answers)
    used = [name for name, one in reference.items() if not (only_wrong and one["anchor"])]
    crops = ["zoom", "random", "crop-1", "crop-1.25", "crop-1.5", "crop-2"]
    assert (study.tries, study.n) == (6, len(used))
    assert study.best.count == sum(any(reference[name][rung] for rung in crops) for name in used)
    key = {name: row for row, name in enumerate(small.frames.key)}
    truth = {name: small.labels_of(key[name])[0] for name in used}
    chance = 0.0
    for name in used:
        missed = 1.0
        for rung in crops:
            said = [int(answers.label[key[f"{rung}/{other}"]]) for other in used]
            missed *= 1 - said.count(truth[name]) / len(used)
        chance += (1 - missed) / len(used)
    assert study.chance == pytest.approx(chance)
    assert study.beyond.value == pytest.approx(study.best.value - chance)
    rng, drawn = np.random.default_rng(seed), 0.0
    for _ in range(40):
        said = [
            [int(answers.label[key[f"{rung}/{used[one]}"]]) for one in rng.permutation(len(used))] for rung in crops
        ]
        drawn += np.mean([any(row[at] == truth[name] for row in said) for at, name in enumerate(used)]) / 40
    assert abs(drawn - chance) < 6 * math.sqrt(0.25 / (40 * len(used)))


@pytest.mark.parametrize(("seed", "n"), [(0, 24), (1, 48), (2, 75)])
def test_bins_of_area_hold_every_sized_picture_once(seed: int, n: int) -> None:
    data = made.ladder(n, masks=False)
    rng = np.random.default_rng(seed)
    sizes = {name: float(rng.random()) for name in sorted(set(data.sets.group)) if rng.random() < 0.9}
    answers = random_answers(data, seed)
    found = scored(data, [answers], areas=sizes).models["m"].added["background"]
    if len(sizes) < 40:
        assert found.by_area == ()
        assert found.reasons["by_area"] == "fewer than 40 images whose object's size is known"
        return
    assert len(found.by_area) == len(sizes) // 20
    assert sum(one.n for one in found.by_area) == len(sizes)
    assert max(one.n for one in found.by_area) - min(one.n for one in found.by_area) <= 1
    reference = plainly(data, answers)
    for one in found.by_area:
        mine = {name: reference[name] for name, size in sizes.items() if one.low <= size <= one.high}
        assert len(mine) == one.n
        assert (one.rungs[0].rung, one.rungs[0].share.count) == ("anchor", sum(row["anchor"] for row in mine.values()))
        place = next(row for row in one.isolated if row.isolates == "place")
        assert place.value.value == pytest.approx(np.mean([a - b for a, b in map(tuple, both(mine, "crop-1", "zoom"))]))


def test_classes_coverage_and_two_models() -> None:
    data = made.ladder(24)
    answers = [random_answers(data, 1), ClassAnswers.from_labels("n", np.maximum(random_answers(data, 2).label, 0))]
    found = scored(data, answers)
    first, second = (plainly(data, one) for one in answers)
    mine = found.models["m"].added["background"]
    assert [(one.name, one.n, one.small) for one in mine.per_class] == [(name, 6, True) for name in made.CLASSES]
    for place, one in enumerate(mine.per_class):
        part = {name: row for number, (name, row) in enumerate(first.items()) if number % 4 == place}
        gap = next(row.value for row in one.isolated if row.isolates == "bg-gap")
        assert gap.value == pytest.approx(np.mean([a - b for a, b in both(part, "same", "other")]))
        assert one.whole.count == sum(row["anchor"] for row in part.values())
    covered = {(one.rung, one.level): one.share for one in mine.covered}
    outside = {str(key) for key, label in zip(data.frames.key, answers[0].label, strict=True) if label < 0}
    assert covered["anchor", None].count == 24 - sum(key.count("/") == 1 for key in outside)
    assert covered["crop", 1.5].count == 24 - sum(key.startswith("crop-1.5/") for key in outside)
    assert found.models["n"].added["background"].covered is None
    told = ByVariant(data, ScoreOptions()).add(found.models["m"], answers[1])
    assert told.added["background"].covered is None
    told = ByVariant(data, ScoreOptions()).add(replace(found.models["m"], coverage=mine.covered[0].share), answers[1])
    assert {one.share.value for one in told.added["background"].covered} == {1.0}  # a detector says so all the same
    between = {(one.held, one.level): one for one in found.contrasts if one.of == "models"}
    assert len(between) == 17
    for (rung, level), one in between.items():
        name = f"crop-{level:g}" if rung == "crop" else rung
        assert one.only_a == sum(first[key][name] and not second[key][name] for key in first)


def test_what_cannot_be_said_says_why() -> None:
    """No masks, no sizes, one crop: reasons, not noughts."""
    data = made.ladder(12, masks=False)
    found = scored(data, [random_answers(data, 3)])
    one = found.models["m"].added["background"]
    assert one.reasons == {"by_area": "the sizes of the objects are unknown"}
    assert one.sensitivity.background.reason == "no rung removes the background"
    assert one.sensitivity.relative.value is None
    planned = [row.isolates for row in found.contrasts if row.isolates]
    assert planned == ["magnification-with-ground", "place", "fit"]
    usual = data.sets.variant[data.sets.set] == [one.variant for one in data.variants].index("usual")
    alone = data.keep_rows(usual)
    assert scored(alone, [random_answers(alone, 3)]).models["m"].added["background"].zoom == Missing(
        "there are fewer than two crops"
    )


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


def test_a_ladder_of_wider_crops_alone() -> None:
    """What the masked crop is held against is a crop of the same box, or nothing."""
    data = made.ladder(12)
    narrow = np.array([key.startswith("crop-1/") for key in data.frames.key])
    wide = data.keep_rows(~narrow[data.sets.frame])
    crop = [one.variant for one in data.variants].index("crop")
    rows = [replace(one, levels=one.levels[1:]) if place == crop else one for place, one in enumerate(data.variants)]
    wide = replace(wide, variants=Variants.of(rows), info=replace(wide.info, k=3))
    found = scored(wide, [random_answers(wide, 5)])
    planned = {one.isolates: one.level for one in found.contrasts if one.isolates}
    assert not {"background-cropped", "place"} & set(planned)  # the grey box and the centre are as large as the box
    assert planned["magnification-with-ground"] == 1.25
