"""Variants in results.json, in one view of the whole, and after review."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

import plain_variants as plain
import strobe
from strobe.analyses.classification import score
from strobe.analyses.detection import score as score_boxes
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Results, results_schema
from strobe.analyses.variants_view import WORST, overall
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.core.builder import DatasetBuilder
from strobe.core.codec import decode, encode
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.derivation import reviewed
from strobe.core.errors import InvalidValue
from strobe.core.records import Verdict
from strobe.core.tables import texts
from strobe.studies.variants.score import VariantPlan


def study(variants, *, combine="each", boxes=False, searched=False) -> Dataset:
    """Twelve photos, each under every variant with one member at every level; a search finds at the first level."""
    made = DatasetBuilder()
    for variant in variants:
        made.variant(variant)
    for number in range(12):
        video = made.video(video_id=f"v{number}", name=f"v{number}", kind="photo")
        rows = [
            made.frame(video=video, index=i, key=f"{number}/{i}", labels=[number % 3], size_wh=(8, 8))
            for i in range(1 + sum(len(variant.levels) for variant in variants))
        ]
        for row in rows if boxes else ():
            made.box(frame=row, label=number % 3, xyxy=(1, 1, 5, 5))
        free = iter(rows[1:])
        for variant in variants:
            members = [(next(free), level) for level in variant.levels]
            options = {}
            if searched:
                members = members[:1] if number % 2 else []
                options = {"status": "found" if members else "censored", "reach": variant.levels[0 if members else -1]}
            made.set(
                set_id=f"{number}/{variant.variant}", anchor=rows[0], members=members, variant=variant.variant,
                group=f"p{number}", **options,
            )  # fmt: skip
    axes = {variant.axis for variant in variants}
    k = max(len(variant.levels) for variant in variants)
    axis = axes.pop() if len(axes) == 1 else "mixed"
    return made.build(DatasetInfo(name="made", label_space=plain.SPACE, k=k, axis=axis, combine=combine))


def answers(data: Dataset, wrong=()) -> ClassAnswers:
    """Right everywhere but at the frames with these indices."""
    right = data.labels.label[np.argsort(data.labels.frame)]
    return ClassAnswers.from_labels("standard", np.where(np.isin(data.frames.index, wrong), (right + 1) % 3, right))


@pytest.mark.parametrize(
    ("kind", "combine"), [(kind, "worst" if kind == "corruption" else "each") for kind in plain.KINDS]
)
def test_results_say_more_and_obey_their_schema(kind: str, combine: str) -> None:
    data = study(plain.KINDS[kind], combine=combine, searched=kind in plain.SEARCHED)
    found = strobe.results(data, [answers(data, [2]), replace(answers(data, [3]), model="other")])
    jsonschema.validate(json.loads(json.dumps(found, allow_nan=False)), results_schema())
    back = decode(Results, found)
    assert encode(back) == found
    assert [one.variant for one in back.variants] == [one.variant for one in plain.KINDS[kind]]
    assert found["dataset"]["combine"] == combine
    assert found["dataset"]["kinds"] == ["photo"]
    assert found["dataset"]["digest"] == data.digest()
    assert found["models"]["standard"]["acc_orig"]["n"] == 12
    assert bool(back.searches) == (kind in plain.SEARCHED)
    assert {one.of for one in back.contrasts} == (
        {"targets"} if kind in plain.SEARCHED else {"models"} if combine == "worst" else {"models", "variants"}
    )
    assert strobe.score(data, answers(data, [2])).variants == back.models["standard"].variants


def test_a_video_dataset_gains_no_key() -> None:
    data = strobe.example_dataset()
    labels = data.labels.label[data.labels.frame.argsort()]
    found = strobe.results(data, [ClassAnswers.from_labels("m", labels)])
    assert not {"variants", "searches", "contrasts"} & found.keys()
    assert not {"variants", "means"} & found["models"]["m"].keys()
    assert not {"combine", "kinds"} & found["dataset"].keys()
    assert overall(data) is data
    with pytest.raises(InvalidValue, match="has no variants"):
        VariantPlan(data, ScoreOptions())


def test_one_variant_is_its_own_view_and_k_counts_its_levels() -> None:
    """An ε grid of 2, 4 and 8 of 255: whole numbers of it would all be 1."""
    data = study(plain.ATTACK[:1])
    assert overall(data) is data
    found = score(data, answers(data, [2]), options=ScoreOptions(control_seeds=1))
    assert [point.acc.value for point in found.curve] == [1, 1, 0, 0]
    assert found.first_failure.median == plain.EPSILON[1]
    cut = score(data, answers(data, [2]), options=ScoreOptions(k=1, control_seeds=1))
    assert cut.acc_pmk.value == 1


def test_first_failure_is_censored_at_reach() -> None:
    data = study(plain.ATTACK[:1], searched=True)
    found = score(data, answers(data), options=ScoreOptions(control_seeds=1))
    assert [(row.distance, row.at_risk, row.events) for row in found.first_failure.survival] == [
        (plain.EPSILON[0], 12, 0), (plain.EPSILON[2], 6, 0)
    ]  # fmt: skip
    cut = score(data, answers(data), options=ScoreOptions(k=1, control_seeds=1))
    assert [row.distance for row in cut.first_failure.survival] == [plain.EPSILON[0]]
    plan = VariantPlan(data, ScoreOptions())
    for name, last in (("standard", plain.EPSILON[2]), ("other", plain.EPSILON[0])):
        one = plan.score(plan.mark(replace(answers(data), model=name)))[0]
        assert one.first_failure.survival[-1].distance == last
        assert one.is_target == (name == "standard")


def test_weights_know_the_target_better_than_names() -> None:
    data = study(plain.ATTACK[:1], searched=True)
    plan = VariantPlan(data, ScoreOptions())
    renamed = plan.score(plan.mark(replace(answers(data, [1]), model="mine"), weights="aa"))[0]
    assert renamed.reproduced.value == 1
    assert renamed.fooled is None
    changed = plan.score(plan.mark(answers(data, [1]), weights="other weights"))[0]
    assert changed.reproduced is None
    assert changed.fooled.value == 1


def test_several_anchors_of_a_group_stay_in_the_worst() -> None:
    data = study(plain.CORRUPTION[:2], combine="worst")
    sets = data.sets
    # The second variant gets an anchor of its own: the frame that was its first member.
    rows = np.flatnonzero(sets.variant[sets.set] == 1)
    frame, anchor = sets.frame.copy(), sets.is_anchor[rows]
    first = rows[~anchor].reshape(12, 3)[:, 0]
    frame[rows[anchor]], keep = frame[first], np.ones(len(frame), dtype=bool)
    keep[first] = False
    data = replace(data, sets=replace(sets, frame=sets.frame), info=data.info).keep_rows(keep)
    data = replace(data, sets=replace(data.sets, frame=frame[keep]))
    view = overall(data)
    assert view.variants.variant.tolist() == [WORST]
    assert (view.row_levels() == 0).sum() == 24
    found = score(view, answers(data, [4]), options=ScoreOptions(control_seeds=1))
    assert found.acc_orig.value == 0  # index 4 is the second anchor
    assert score(view, answers(data, [5]), options=ScoreOptions(control_seeds=1)).acc_orig.value == 1


@pytest.mark.parametrize("combine", ["worst", "each"])
def test_detectors_are_scored_on_the_same_whole(combine: str) -> None:
    data = study(plain.CORRUPTION, combine=combine, boxes=True)
    box = data.boxes
    lost = np.isin(data.frames.index[box.frame], [2])
    table = BoxAnswers.of(
        box.frame[~lost], box.label[~lost], box.xyxy[~lost], np.ones((~lost).sum()), n_frames=len(data.frames),
        n_classes=3,
    )  # fmt: skip
    found = score_boxes(overall(data), table, model="d", how=ScoreOptions(bootstrap=False))
    assert found.map_orig.value == 1
    assert found.map_pmk.value == (0 if combine == "worst" else 1)
    assert len(found.curve) == (4 if combine == "worst" else 1)


def test_review_takes_a_finding_and_leaves_the_search_record() -> None:
    data = study(plain.ATTACK[:1], searched=True)
    ids = data.frame_ids()
    votes = tuple(
        Verdict(
            verdict_id=one.set_id, annotator="ann", at="2026-01-01T00:00:00Z", stage="pair", set_id=one.set_id,
            frame_id=one.members[0].frame.id, decision="dissimilar" if one.set_id.startswith("1/") else "similar",
        )
        for one in data
        if one.members
    )  # fmt: skip
    kept = reviewed(replace(data, verdicts=votes))
    assert len(kept.sets) == 12
    assert VariantPlan(kept, ScoreOptions()).searches() == VariantPlan(data, ScoreOptions()).searches()
    assert (
        VariantPlan(kept, ScoreOptions()).score(VariantPlan(kept, ScoreOptions()).mark(answers(kept)))[0].reproduced.n
        == 5
    )
    assert ids == kept.frame_ids()
    assert set(kept.sets.status) == set(texts(["found", "censored"]))
