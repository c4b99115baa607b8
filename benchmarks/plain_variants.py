"""Make random datasets of every kind of study, and score them in slow plain Python, directly from the definitions."""

from collections import defaultdict
from fractions import Fraction
from itertools import combinations, product
from statistics import median
from typing import Any

from hypothesis import strategies as st

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.variants import Target, Variant

SPACE = LabelSpace.of_names("pets", ["cat", "dog", "fox"])
STANDARD, ROBUST = Target(name="standard", weights="aa"), Target(name="robust", weights="bb")
SEVERITY = (1.0, 2.0, 3.0)
EPSILON = (2 / 255, 4 / 255, 8 / 255)

CORRUPTION = [
    Variant(variant=k, axis="severity", levels=SEVERITY, fields={"kind": k}) for k in ("fog", "noise", "jpeg")
]
ATTACK = [
    Variant(variant=f"{norm}/{t.name}", axis="epsilon", unit="of 1", levels=EPSILON, fields={"norm": norm}, target=t)
    for norm in ("linf", "l2")
    for t in (STANDARD, ROBUST)
]
GENERATOR = [
    Variant(
        variant=f"{name}/{t.name}", axis="magnitude", unit="std", levels=levels, target=t,
        fields={"granularity": name, "target": t.name},
    )
    for name, levels in (("latent", (0.5, 1.0, 2.0)), ("pixel", (0.01, 0.1)))
    for t in (STANDARD, ROBUST)
]  # fmt: skip
LADDER = [
    Variant(variant="box", axis="context-factor", levels=(1.0, 1.5, 2.0), fields={"rung": "box"}),
    Variant(variant="grey", axis="background", levels=(1.0,), ordered=False, estimated=True),
    Variant(variant="zoom", axis="background", levels=(1.0,), ordered=False, role="control"),
    Variant(variant="names", axis="background", levels=(1.0, 2.0), ordered=False, role="control"),
]
KINDS = {"corruption": CORRUPTION, "attack": ATTACK, "generator": GENERATOR, "ladder": LADDER}
SEARCHED = ("attack", "generator")


@st.composite
def datasets(draw: Any, kind: str) -> Dataset:
    """Return a few images of a few sources, with missing sets and members, and every outcome of a search."""
    variants = KINDS[kind]
    made = DatasetBuilder()
    for variant in variants:
        made.variant(variant)
    pictures = 0
    for source in range(draw(st.integers(1, 4))):
        video = made.video(
            video_id=f"s{source}", name=f"s{source}", kind="generated" if kind == "generator" else "photo"
        )
        index = 0

        def frame(label: int, video: int = video, **options: Any) -> int:
            nonlocal index
            index += 1
            return made.frame(video=video, index=index, key=f"{video}/{index}", labels=[label], **options)

        for _ in range(draw(st.integers(1, 3))):
            label = draw(st.integers(0, 2))
            anchor = frame(label)
            for variant in variants:
                if draw(st.integers(0, 5)) == 0 and pictures:
                    continue
                own = frame(label, as_input=True) if kind == "generator" else anchor
                members, status, reach = draw(_contents(variant, searched=kind in SEARCHED))
                made.set(
                    set_id=f"{pictures}/{variant.variant}", anchor=own, variant=variant.variant, group=f"g{pictures}",
                    members=[(frame(label, recipe={"at": at}), at) for at in members], status=status, reach=reach,
                )  # fmt: skip
            pictures += 1
    axes = {variant.axis for variant in variants}
    info = DatasetInfo(
        name=kind, label_space=SPACE, k=max(len(variant.levels) for variant in variants),
        axis=axes.pop() if len(axes) == 1 else "mixed", combine="worst" if kind == "corruption" else "each",
        label_source=draw(st.sampled_from(["frame", "anchor"])),
    )  # fmt: skip
    return made.build(info)


@st.composite
def _contents(draw: Any, variant: Variant, *, searched: bool) -> tuple[list[float], str, float | None]:
    if not searched:
        many = [draw(st.integers(0, 2)) if draw(st.booleans()) else 1 for _ in variant.levels]
        return [level for level, n in zip(variant.levels, many, strict=True) for _ in range(n)], "complete", None
    status = draw(st.sampled_from(["found", "found", "censored", "anchor_wrong", "failed"]))
    at = draw(st.sampled_from(variant.levels)) * draw(st.sampled_from([1.0, 0.9]))
    if status == "found":
        return [at], status, at
    return [], status, at if status == "censored" or draw(st.booleans()) else None


# -- the definitions, one by one ---------------------------------------------------------------------------------


class Plain:
    """A dataset as a list of each set's content, with one model's answers."""

    def __init__(self, data: Dataset, label: dict[str, int], seen: set[str]) -> None:
        self.variants = {variant.variant: variant for variant in data.variants or ()}
        truth = {data.frame(row).id: set(data.labels_of(row)) for row in range(len(data.frames))}
        self.sets = []
        for one in data:
            judged = {
                m.frame.id: one.anchor.id if data.info.label_source == "anchor" else m.frame.id for m in one.members
            }
            right = {frame: label[frame] in truth[of] for frame, of in judged.items()}
            self.sets.append(
                {
                    "variant": one.variant, "group": one.group, "source": one.anchor.video_id, "status": one.status,
                    "reach": one.reach, "orig": label[one.anchor.id] in truth[one.anchor.id],
                    "members": [(m.distance, right[m.frame.id]) for m in one.members],
                    "scored": {one.anchor.id, *judged} <= seen,
                }
            )  # fmt: skip

    def of(self, variant: str, *, scored: bool = True) -> list[dict[str, Any]]:
        return [one for one in self.sets if one["variant"] == variant and (one["scored"] or not scored)]

    def level(self, variant: str, distance: float) -> int:
        return next(n for n, level in enumerate(self.variants[variant].levels, 1) if distance <= level * (1 + 1e-6))

    def at(self, variant: str, number: int) -> list[tuple[bool, str]]:
        """Return whether each member at a level is right, and its source."""
        return [
            (right, one["source"])
            for one in self.of(variant)
            for distance, right in one["members"]
            if self.level(variant, distance) == number
        ]

    def holds(self, one: dict[str, Any], number: int) -> bool:
        """Return whether a set's anchor and every member within a level are right."""
        ordered = self.variants[one["variant"]].ordered
        near = [
            right
            for distance, right in one["members"]
            if (found := self.level(one["variant"], distance)) == number or (ordered and found < number)
        ]
        return one["orig"] and all(near)

    def upto(self, variant: str, number: int) -> list[tuple[bool, str]]:
        return [(self.holds(one, number), one["source"]) for one in self.of(variant)]

    def given(self, variant: str, number: int) -> list[tuple[bool, str]]:
        return [(self.holds(one, number), one["source"]) for one in self.of(variant) if one["orig"]]

    def orig(self, variant: str) -> list[tuple[bool, str]]:
        return [(one["orig"], one["source"]) for one in self.of(variant)]

    def findings(self, variant: str, *, given: bool) -> list[tuple[bool, str]]:
        """Return whether each found member is wrong. `given` keeps only those with a right anchor."""
        return [
            (not right, one["source"])
            for one in self.of(variant)
            if one["status"] == "found" and (one["orig"] or not given)
            for _, right in one["members"]
        ]

    def all_right_at(self, variant: str, number: int) -> dict[str, bool]:
        """Return, for each image, whether every member at a level is right. Images without one are excluded."""
        out = {}
        for one in self.of(variant):
            there = [right for distance, right in one["members"] if self.level(variant, distance) == number]
            if there:
                out[one["group"]] = all(there)
        return out

    def source_of(self, variant: str) -> dict[str, str]:
        return {one["group"]: one["source"] for one in self.of(variant, scored=False)}

    def failures(self, variant: str, *, is_target: bool) -> list[tuple[float, bool]]:
        """Return, for sets with a right anchor, the smallest wrong distance, otherwise the set's end."""
        out = []
        for one in self.of(variant):
            if not one["orig"]:
                continue
            wrong = [distance for distance, right in one["members"] if not right]
            seen = max([0.0, *(distance for distance, _ in one["members"])])
            searched = any(other["status"] != "complete" for other in self.of(variant, scored=False))
            end = one["reach"] if one["reach"] is not None and (is_target or not searched) else seen
            out.append((min(wrong), True) if wrong else (end, False))
        return out

    def searched(self, variant: str) -> list[tuple[float, bool]]:
        ran = [one for one in self.of(variant, scored=False) if one["status"] in ("found", "censored")]
        return [(one["reach"], one["status"] == "found") for one in ran]


def alive(ends: list[tuple[float, bool]], at: float) -> Fraction | None:
    """Return Kaplan–Meier: the product over distances with failures, up to `at`. None if no set reaches it."""
    share = Fraction(1)
    for distance in sorted({end for end, failed in ends if failed and end <= at * (1 + 1e-6)}):
        at_risk = sum(end >= distance for end, _ in ends)
        share *= 1 - Fraction(sum(failed and end == distance for end, failed in ends), at_risk)
    if not ends or (share > 0 and max(end for end, _ in ends) < at * (1 - 1e-6)):
        return None
    return share


def half(ends: list[tuple[float, bool]]) -> float | None:
    return next((at for at in sorted(end for end, _ in ends) if (alive(ends, at) or 0) <= Fraction(1, 2)), None)


Gap = tuple[float, dict[str, int], int, int, int]
"""The level, the gap of every source, the pairs, and the pairs in which only a or only b is right."""


def flipped(gaps: dict[str, int]) -> float:
    """Return the two-sided sign-flip test over sources, by enumerating every choice of signs."""
    sizes, total = list(gaps.values()), abs(sum(gaps.values()))
    sums = [
        abs(sum(sign * size for sign, size in zip(signs, sizes, strict=True)))
        for signs in product((1, -1), repeat=len(sizes))
    ]
    return sum(one >= total for one in sums) / len(sums)


def holm(ps: list[float]) -> list[float]:
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    out, so_far = [0.0] * len(ps), 0.0
    for rank, place in enumerate(order):
        so_far = max(so_far, ps[place] * (len(ps) - rank))
        out[place] = min(1.0, so_far)
    return out


def differences(models: dict[str, Plain], combine: str) -> dict[tuple[str, ...], Gap]:
    """Return (of, a, b, held) → (level, {source: gap}, n, only_a, only_b) for every contrast of accuracies."""
    out: dict[tuple[str, ...], Gap] = {}
    plain = next(iter(models.values()))
    usable = [
        variant
        for variant in plain.variants
        if (sets := plain.of(variant, scored=False)) and all(one["status"] == "complete" for one in sets)
    ]
    if combine == "each":
        for name, model in models.items():
            for variant in usable:
                levels = model.variants[variant].levels
                b = model.all_right_at(variant, len(levels))
                a = {one["group"]: one["orig"] for one in model.of(variant)}
                out["variants", "anchor", variant, name] = _gap(a, b, levels[-1], model.source_of(variant))
            for one, two in combinations(usable, 2):
                common = set(model.variants[one].levels) & set(model.variants[two].levels)
                if common:
                    at = max(common)
                    a, b = (model.all_right_at(v, model.variants[v].levels.index(at) + 1) for v in (one, two))
                    out["variants", one, two, name] = _gap(a, b, at, model.source_of(one))
    for variant in usable:
        levels = plain.variants[variant].levels
        for one, two in combinations(models, 2):
            a, b = (models[name].all_right_at(variant, len(levels)) for name in (one, two))
            out["models", one, two, variant] = _gap(a, b, levels[-1], plain.source_of(variant))
    return out


def _gap(a: dict[str, bool], b: dict[str, bool], level: float, source: dict[str, str]) -> Gap:
    both = a.keys() & b.keys()
    gaps: dict[str, int] = defaultdict(int)
    for group in both:
        gaps[source[group]] += a[group] - b[group]
    return level, dict(gaps), len(both), sum(a[g] > b[g] for g in both), sum(a[g] < b[g] for g in both)


def ratios(plain: Plain, one: str, two: str) -> list[tuple[str, float, float, int]]:
    """Return (source, lowest, highest, sign) of the ratio of two searches per image, with sign 0 if undecided."""
    out = []
    second = {s["group"]: s for s in plain.of(two, scored=False) if s["status"] in ("found", "censored")}
    for a in plain.of(one, scored=False):
        b = second.get(a["group"])
        if a["status"] in ("found", "censored") and b:
            ratio = a["reach"] / b["reach"]
            most = ratio if a["status"] == "found" else float("inf")
            far, near = a["reach"] >= b["reach"], a["reach"] <= b["reach"]
            sign = {
                ("found", "found"): far - near,
                ("censored", "found"): int(far),  # a was not found up to the magnitude at which b was
                ("found", "censored"): -int(near),
                ("censored", "censored"): 0,
            }[a["status"], b["status"]]
            out.append((a["source"], ratio if b["status"] == "found" else 0.0, most, sign))
    return out


def middle(values: list[float]) -> float:
    return median(values)
