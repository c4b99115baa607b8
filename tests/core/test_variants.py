"""Variants: checked at birth, carried by every part of a dataset, and in the digest to the last field."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.dataset import Dataset, DatasetInfo, joined
from strobe.core.errors import InvalidValue
from strobe.core.labels import LabelSpace
from strobe.core.tables import Frames, Labels, Sets, Videos, texts
from strobe.core.variants import Target, Variant, Variants, level_numbers

SPACE = LabelSpace.of_names("pets", ["cat", "dog"])
FOG = Variant(variant="fog", axis="severity", levels=(1.0, 2.0), fields={"kind": "fog"})
NOISE = replace(FOG, variant="noise", fields={"kind": "noise"})


def corrupted(variants=(FOG, NOISE), *, prefix="", **info) -> Dataset:
    """Two photos, each under two variants with a member at each of two severities."""
    n_variants = len(variants)
    frames_each = 1 + 2 * n_variants
    n = 2 * frames_each
    rows = [(photo, v, m) for photo in range(2) for v in range(n_variants) for m in range(3)]
    return Dataset(
        info=DatasetInfo(**{"name": "c", "label_space": SPACE, "k": 2, "axis": "severity", "combine": "worst", **info}),
        videos=Videos(
            video_id=texts([f"{prefix}p0", f"{prefix}p1"]), name=texts(["p0", "p1"]), fps_num=np.zeros(2, int),
            fps_den=np.zeros(2, int), n_frames=np.ones(2, int), path=texts(["", ""]), codec=texts(["", ""]),
            kind=texts(["photo", "photo"]),
        ),
        frames=Frames(
            video=np.repeat([0, 1], frames_each), index=np.tile(np.arange(frames_each), 2),
            key=texts([f"{prefix}k{i}" for i in range(n)]), pts=np.arange(n), time_num=np.zeros(n, int),
            time_den=np.zeros(n, int), pict_type=texts([""] * n), width=np.full(n, 8), height=np.full(n, 8),
            sha256=texts([f"{i}" for i in range(n)]), media=texts([""] * n),
            recipe=texts(['{"kind": "fog"}' if i % frames_each else "" for i in range(n)]),
        ),
        sets=Sets(
            set_id=texts([f"{prefix}p{p}/{v.variant}" for p in range(2) for v in variants]),
            set=np.array([photo * n_variants + v for photo, v, _ in rows]),
            frame=np.array([photo * frames_each + (0 if m == 0 else 1 + 2 * v + m - 1) for photo, v, m in rows]),
            distance=np.array([float(m) for *_, m in rows]), is_anchor=np.array([m == 0 for *_, m in rows]),
            variant=np.tile(np.arange(n_variants), 2),
            group=texts([f"{prefix}p{p}" for p in range(2) for _ in variants]),
        ),
        labels=Labels(frame=np.arange(n), label=np.repeat([0, 1], frames_each)), variants=Variants.of(variants),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"variant": ""}, "a name, not anchor"),
        ({"variant": "anchor"}, "a name, not anchor"),
        ({"axis": ""}, "variants.axis"),
        ({"role": "other"}, "same, control, shown"),
        ({"levels": (0.0, 1.0)}, "ascending from above 0"),
        ({"levels": (2.0, 1.0)}, "ascending from above 0"),
        ({"levels": (1.0, float("nan"))}, "ascending from above 0"),
        ({"levels": (1.0, float("inf"))}, "ascending from above 0"),
        ({"fields": {"a": object()}}, "plain JSON"),
        ({"fields": {"a": float("nan")}}, "plain JSON"),
    ],
)
def test_a_broken_variant_is_refused(changes, rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule):
        replace(FOG, **changes)


def test_a_table_is_checked_row_by_row() -> None:
    table = Variants.of([FOG, NOISE])
    assert list(table) == [FOG, NOISE]
    with pytest.raises(InvalidValue, match="each variant once"):
        Variants.of([FOG, FOG])
    with pytest.raises(InvalidValue, match="at least one row"):
        Variants.of([])
    with pytest.raises(InvalidValue, match="same, control, shown"):
        replace(table, role=texts(["same", "sham"]))


@pytest.mark.parametrize(
    ("variants", "info", "rule"),
    [
        ((FOG, replace(NOISE, axis="blur")), {}, "dataset.axis: expected the axis of the variants, mixed"),
        ((FOG, replace(NOISE, unit="px")), {}, "dataset.combine: expected each, because the variants differ"),
        ((FOG, replace(NOISE, levels=(1.0, 3.0))), {}, "dataset.combine: expected each, because the variants differ"),
        ((FOG, replace(NOISE, levels=(1.0,))), {"combine": "each"}, "p0/noise has a member at 2, beyond every level"),
        ((FOG, NOISE), {"k": 3}, "dataset.k: expected the largest number of levels of a variant, 2"),
        ((FOG, NOISE), {"combine": "best"}, "each or worst"),
    ],
)
def test_a_dataset_its_variants_contradict_is_refused(variants, info, rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule):
        corrupted(variants, **info)


@pytest.mark.parametrize(
    "changes",
    [
        {"fields": {"kind": "mist"}}, {"target": Target(name="net")}, {"axis": "haze"}, {"unit": "m"},
        {"ordered": False}, {"levels": (1.0, 2.5)}, {"role": "control"}, {"estimated": True}, {"variant": "mist"},
        {"target": Target(name="net", weights="3f")}, {"target": Target(name="net", preprocessing={"resize": 8})},
    ],
)  # fmt: skip
def test_every_field_of_a_variant_is_in_the_digest(changes) -> None:
    data = corrupted(combine="each")
    table = Variants.of([replace(FOG, **changes), NOISE])
    other = replace(data, info=replace(data.info, axis=table.common_axis), variants=table)
    assert other.digest() != data.digest()
    assert other.frames_digest() == data.frames_digest()


def test_set_columns_are_in_the_digest_and_the_order_of_variants_is_not() -> None:
    data = corrupted()
    digests = {data.digest(), replace(data, info=replace(data.info, combine="each")).digest()}
    for name, values in (("status", "failed"), ("reach", 2.0), ("margin", 0.1), ("group", "z")):
        column = getattr(data.sets, name).copy()
        column[0] = values
        digests.add(replace(data, sets=replace(data.sets, **{name: column})).digest())
    turned = replace(data, sets=replace(data.sets, variant=1 - data.sets.variant))
    assert len(digests | {turned.digest()}) == 7
    same = replace(turned, variants=Variants.of([NOISE, FOG]))
    assert same.digest() == data.digest()


def test_parts_and_records_carry_what_the_sets_say() -> None:
    data = corrupted()
    sets = replace(data.sets, status=texts(["found", "censored", "complete", "anchor_wrong"]), margin=np.arange(4.0),
                   reach=np.array([1.0, 2.0, np.nan, np.nan]))  # fmt: skip
    data = replace(data, sets=sets)
    part = data.keep_rows(data.sets.set != 1)
    assert part.sets.status.tolist() == ["found", "complete", "anchor_wrong"]
    assert part.sets.margin.tolist() == [0.0, 2.0, 3.0]
    assert part.sets.group.tolist() == ["p0", "p1", "p1"]
    assert part.sets.variant.tolist() == [0, 0, 1]
    assert data.only_videos(["p1"]).sets.status.tolist() == ["complete", "anchor_wrong"]
    records = list(data)
    assert [one.variant for one in records] == ["fog", "noise"] * 2
    assert [one.reach for one in records] == [1.0, 2.0, None, None]
    assert (records[1].status, records[1].axis, records[1].group, records[1].margin) == (
        "censored",
        "severity",
        "p0",
        1.0,
    )
    assert records[0].members[0].frame.recipe == {"kind": "fog"}
    assert records[0].anchor.recipe is None


def test_joined_parts_find_their_variants_again() -> None:
    one, two = corrupted((FOG, NOISE)), corrupted((NOISE, FOG), prefix="b")
    both = joined([one, two], info=one.info)
    assert both.variants.variant.tolist() == ["fog", "noise"]
    assert both.variants.variant[both.sets.variant].tolist() == [*["fog", "noise"] * 2, *["noise", "fog"] * 2]
    assert both.videos.kind.tolist() == ["photo"] * 4
    with pytest.raises(InvalidValue, match="the same definition of each variant"):
        joined([one, corrupted((replace(FOG, unit="m"), replace(NOISE, unit="m")), prefix="b")], info=one.info)
    alone = replace(
        two, variants=None, info=replace(two.info, combine="each"), sets=replace(two.sets, variant=two.sets.variant * 0)
    )
    with pytest.raises(InvalidValue, match="variants in all parts or in no part"):
        joined([one, alone], info=one.info)


def test_the_format_is_the_old_one_where_nothing_new_is_used() -> None:
    data = corrupted((FOG,), combine="each")
    assert data.schema == 2
    plain = replace(
        data, variants=None, videos=replace(data.videos, kind=texts(["video"] * 2)),
        frames=replace(data.frames, recipe=texts([""] * len(data.frames))),
        sets=replace(data.sets, group=data.sets.set_id),
    )  # fmt: skip
    assert plain.schema == 1
    assert replace(plain, frames=data.frames).schema == 2
    assert replace(plain, videos=data.videos).schema == 2
    assert replace(plain, sets=data.sets).schema == 2


@given(st.lists(st.floats(0, 3), max_size=8), st.sets(st.sampled_from([0.1, 0.5, 1.0, 2.0])))
def test_a_level_holds_what_lies_within_it(distances: list[float], levels: set[float]) -> None:
    order = sorted(levels)
    for distance, number in zip(distances, level_numbers(np.array(distances), order).tolist(), strict=True):
        holding = [place + 1 for place, level in enumerate(order) if distance <= level * (1 + 1e-6)]
        assert number == (0 if distance == 0 else holding[0] if holding else len(order) + 1)


def test_what_is_only_to_look_at_stands_in_no_set_that_is_scored() -> None:
    data = corrupted((FOG, replace(NOISE, role="shown")))
    kept = data.scored_sets()
    assert kept.n_sets == 2
    assert len(kept.frames) == len(data.frames)
    assert corrupted().scored_sets().n_sets == 4
