"""The sets of a background ladder: every anchor of a dataset, and its rungs."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strobe.annexes.backgrounds.donors import Ground, donors_of
from strobe.annexes.backgrounds.drawing import VERSION, has_ground
from strobe.annexes.backgrounds.ladders import CONTEXTS, CONTROLS, LADDER, NEEDS_BOX, NEEDS_MASK, RUNGS, LadderPicture
from strobe.core.builder import DatasetBuilder
from strobe.core.crops import FITS, LEAST_SIDE, Cut, cut_of, share_of
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import UnknownName, expect
from strobe.core.variants import Variant
from strobe.vary.pictures import AnchorImage

_APART = 1_000_000
"""Frames of the rungs of anchor i are numbered from (i + 1) times this number, above the source's own frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderOptions:
    """The settings of a ladder: rungs, contexts and fit, and the origin of boxes and masks.

    The origin is `true`, `estimated:MODEL` or empty.
    """

    rungs: tuple[str, ...] = tuple(RUNGS)
    contexts: tuple[float, ...] = CONTEXTS
    fit: str = "squash"
    seed: int = 0
    store: bool = False
    boxes: str = "true"
    masks: str = ""

    def __post_init__(self) -> None:
        expect(self.fit in FITS, "<<fit>>", " or ".join(FITS), self.fit)
        fine = bool(self.contexts) and all(1.0 <= context <= 10.0 for context in self.contexts)
        expect(fine, "<<context>>", "numbers from 1 to 10", self.contexts)
        expect(self.seed >= 0, "<<seed>>", ">= 0", self.seed)
        rounded = sorted({round(float(context), 3) for context in self.contexts})
        object.__setattr__(self, "contexts", tuple(rounded))

    def variant(self, name: str) -> Variant:
        """Return the rung as a variant, with the origin of its boxes and masks."""
        fields: dict[str, Any] = {"kind": "background", "rung": name}
        if name != "usual":
            fields["fit"] = self.fit
        if name in NEEDS_BOX:
            fields["boxes"] = self.boxes
        if name in NEEDS_MASK:
            fields["masks"] = self.masks
        by_context = name == "crop"
        return Variant(
            variant=name,
            axis="context" if by_context else "rung",
            unit="x" if by_context else "",
            fields=fields,
            ordered=False,
            levels=self.contexts if by_context else (1.0,),
            role="control" if name in CONTROLS else "same",
            estimated=any(str(fields.get(one, "")).startswith("estimated:") for one in ("boxes", "masks")),
        )

    def members(self, name: str) -> list[tuple[str, float]]:
        """Return the names of a rung's frames, and each one's distance from the anchor."""
        if name != "crop":
            return [(name, 1.0)]
        return [(f"crop-{context:g}", context) for context in self.contexts]

    def to_json(self) -> dict[str, Any]:
        """Return everything that determines the result."""
        return {
            "rungs": list(self.rungs),
            "contexts": list(self.contexts),
            "fit": self.fit,
            "seed": self.seed,
            "stored": self.store,
            "boxes": self.boxes,
            "masks": self.masks,
            "version": VERSION,
        }


def known_rungs(names: Sequence[str]) -> tuple[str, ...]:
    """Return the rungs of these names, each once, in the ladder's order. Raise UnknownName for any other name."""
    for name in names:
        if name not in RUNGS:
            raise UnknownName("rung", name, RUNGS, hint=f"the rungs are {', '.join(RUNGS)}")
    return tuple(name for name in RUNGS if name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorObject:
    """The facts about an anchor's object.

    `xyxy` is its box, and `around` is the box around all objects of its classes. `mask` has the mask's file and digest,
    and `mask_share` is the object's share of the image. `why_no_box` and `why_no_mask` explain a missing box or mask.
    """

    xyxy: tuple[float, float, float, float] | None = None
    around: tuple[float, float, float, float] | None = None
    mask: tuple[str, str] | None = None
    mask_share: float | None = None
    why_no_box: str = ""
    why_no_mask: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPlan:
    """Every anchor by row, with its object and its frames' recipes by name. Skipped anchors have no recipes."""

    pictures: Mapping[int, LadderPicture]
    recipes: Mapping[int, Mapping[str, Mapping[str, Any]]]

    def files(self) -> dict[int, dict[str, Mapping[str, Any]]]:
        """Return the recipes of the members that are stored as files: all except the image itself."""
        return {
            row: {name: recipe for name, recipe in recipes.items() if name != "usual"}
            for row, recipes in self.recipes.items()
        }


def ladder_of(
    source: Dataset, pictures: Mapping[int, AnchorImage], things: Mapping[int, AnchorObject], how: LadderOptions
) -> LadderPlan:
    """Plan which rungs each image gets, with their recipes, and record why other rungs cannot be made."""
    ids, frames = source.frame_ids(), source.frames
    labels = source.labels.by_frame()
    seen: dict[str, str] = {}
    about: dict[int, LadderPicture] = {}
    cuts: dict[int, tuple[Cut, Cut]] = {}
    for row, picture in pictures.items():
        thing, key = things[row], str(frames.key[row])
        cut = None if thing.xyxy is None else cut_of(thing.xyxy, picture.size_wh)
        around = None if thing.around is None else cut_of(thing.around, picture.size_wh)
        why = _left_out(thing, cut, picture, labels.get(row, []))
        if not why and seen.setdefault(picture.sha256, key) != key:
            why = f"the same image as {seen[picture.sha256]}"
        about[row] = LadderPicture(
            picture=key,
            frame_id=ids[row],
            size_wh=picture.size_wh,
            xyxy=thing.xyxy if cut else None,
            area_share=None if cut is None else share_of(cut, picture.size_wh),
            mask_share=thing.mask_share,
            boxes=how.boxes if cut else "",
            masks=how.masks if thing.mask else "",
            mask=thing.mask[0] if thing.mask else "",
            absent={LADDER: why} if why else {},
        )
        if not why and cut is not None:
            cuts[row] = (cut, around or cut)
    grounds = [
        Ground(
            row=row,
            name=ids[row],
            source=int(frames.video[row]),
            labels=frozenset(labels[row]),
            gives=has_ground(around, pictures[row].size_wh),
        )
        for row, (_, around) in cuts.items()
    ]
    donors = {name: donors_of(grounds, shared=name == "same", seed=how.seed) for name in ("same", "other")}
    recipes: dict[int, dict[str, Mapping[str, Any]]] = {row: {} for row in pictures}
    for row, (cut, around) in cuts.items():
        rungs = _Rungs(how, ids[row], pictures[row], things[row], cut, around)
        reasons: dict[str, str] = {}
        for name in how.rungs:
            other = donors.get(name, {}).get(row)
            reason = rungs.cannot(name, donor=other)
            if reason:
                reasons[name] = reason
                continue
            donor = None if other is None else (pictures[other], cuts[other][1])
            recipes[row] |= {member: rungs.recipe(name, level, donor=donor) for member, level in how.members(name)}
        about[row] = replace(about[row], absent=reasons)
    return LadderPlan(pictures=about, recipes=recipes)


def _left_out(thing: AnchorObject, cut: Cut | None, picture: AnchorImage, labels: Sequence[int]) -> str:
    """Return why an image gets no ladder, or an empty text if it gets one."""
    if not labels:
        return "it has no label"
    if thing.xyxy is None:
        return thing.why_no_box
    x0, y0, x1, y1 = thing.xyxy
    if x0 >= x1 or y0 >= y1:
        return "its box has no area"
    if cut is None:
        return f"its box is outside the image of {picture.size_wh[0]}×{picture.size_wh[1]}"
    wide, high = cut[2] - cut[0], cut[3] - cut[1]
    if min(wide, high) < LEAST_SIDE:
        return f"its box is {wide}×{high} pixels; a crop needs {LEAST_SIDE}"
    return ""


@dataclass(frozen=True, slots=True)
class _Rungs:
    """The recipes of one image's rungs."""

    how: LadderOptions
    name: str
    picture: AnchorImage
    thing: AnchorObject
    cut: Cut
    around: Cut

    def cannot(self, rung: str, *, donor: int | None) -> str:
        """Return why a rung cannot be made, or an empty text if it can be made."""
        if rung in NEEDS_MASK and self.thing.mask is None:
            return self.thing.why_no_mask
        if rung == "ground" and not has_ground(self.around, self.picture.size_wh):
            return "its box leaves no background to tile"
        if rung in ("same", "other") and donor is None:
            return f"no image of {'its' if rung == 'same' else 'another'} class has a background to lend"
        return ""

    def recipe(self, rung: str, level: float, *, donor: tuple[AnchorImage, Cut] | None = None) -> dict[str, Any]:
        """Return the recipe of a frame: every value that determines its pixels."""
        out: dict[str, Any] = {"kind": "rung", "rung": rung, "fit": self.how.fit, "version": VERSION}
        if rung in ("zoom", "random", "crop", "tight"):
            out["cut"] = list(self._cut(rung, level))
        if rung == "ground":
            out["cut"] = list(self.around)
        if rung in NEEDS_MASK and self.thing.mask is not None:
            file, digest = self.thing.mask
            out["mask"] = {"file": file, "sha256": digest}
        if rung == "plain":
            out["colour"] = self._colour()
        if donor is not None:
            picture, around = donor
            out["donor"] = {"media": picture.media, "sha256": picture.sha256, "cut": list(around)}
        return out

    def _cut(self, rung: str, level: float) -> Cut:
        (width, height), (x0, y0, x1, y1) = self.picture.size_wh, self.cut
        wide, high = x1 - x0, y1 - y0
        if rung == "crop" and level > 1 and self.thing.xyxy is not None:
            return cut_of(self.thing.xyxy, self.picture.size_wh, context=level) or self.cut
        if rung in ("crop", "tight"):
            return self.cut
        left, top = (width - wide) // 2, (height - high) // 2
        if rung == "random":
            rng = self._rng("random")
            left, top = int(rng.integers(0, width - wide + 1)), int(rng.integers(0, height - high + 1))
        return left, top, left + wide, top + high

    def _colour(self) -> list[int]:
        """Return a random background colour of medium brightness."""
        import colorsys

        hue, saturation, light = self._rng("plain").uniform((0, 0.2, 0.45), (1, 0.5, 0.7)).tolist()
        return [round(255 * part) for part in colorsys.hls_to_rgb(hue, light, saturation)]

    def _rng(self, what: str) -> np.random.Generator:
        digest = hashlib.sha256(f"rung {what} {self.name} {self.how.seed}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:6]))


def member_index(anchor: int, name: str, level: float) -> int:
    """Return a rung's frame index in its anchor's source. It does not depend on which other rungs are requested.

    >>> member_index(0, "zoom", 1.0), member_index(12, "crop", 1.25)
    (1000000, 13011250)
    """
    return _APART * (anchor + 1) + (10_000 + round(1000 * level) if name == "crop" else list(RUNGS).index(name))


def ladder_dataset(
    source: Dataset,
    pictures: Mapping[int, AnchorImage],
    ladder: LadderPlan,
    how: LadderOptions,
    *,
    name: str,
    provenance: Mapping[str, Any],
) -> Dataset:
    """Make one set per image and rung. Members are scored with their anchor's labels.

    `pictures` are keyed by the anchors' rows in the source, with the members' files if stored.
    """
    grown, rungs = _LadderTables(source, how), _made(ladder, how)
    for rung in rungs:
        grown.tables.variant(how.variant(rung))
    for anchor, recipes in ladder.recipes.items():
        if recipes:
            grown.add(anchor, pictures[anchor], recipes)
    axes = {"context" if rung == "crop" else "rung" for rung in rungs}
    info = DatasetInfo(
        name=name,
        label_space=source.info.label_space,
        k=len(how.contexts) if "crop" in rungs else 1,
        axis=axes.pop() if len(axes) == 1 else "mixed",
        label_source="anchor",
        combine="each",
        licence=source.info.licence,
        provenance=provenance,
    )
    return grown.tables.build(info)


class _LadderTables:
    """The tables of a ladder, extended image by image."""

    def __init__(self, source: Dataset, how: LadderOptions) -> None:
        self.tables = DatasetBuilder()
        self._source, self._how = source, how
        self._labels = source.labels.by_frame()
        self._videos: dict[int, int] = {}

    def add(self, anchor: int, picture: AnchorImage, recipes: Mapping[str, Mapping[str, Any]]) -> None:
        """Add an image's sets."""
        how, frames = self._how, self._source.frames
        video, index, key = self._video(int(frames.video[anchor])), int(frames.index[anchor]), str(frames.key[anchor])
        first = self.tables.frame(
            video=video,
            index=index,
            key=key,
            media=picture.media,
            sha256=picture.sha256,
            as_input=True,
            recipe=(whole := _whole(how)),
            size_wh=_size(picture.size_wh, whole),
            labels=self._labels[anchor],
        )
        for rung in how.rungs:
            members = []
            for name, level in how.members(rung):
                if name not in recipes:
                    continue
                recipe = None if rung == "usual" else recipes[name]
                media, sha256 = picture.members.get(name, (picture.media, picture.sha256))
                row = self.tables.frame(
                    video=video,
                    index=member_index(index, rung, level),
                    key=f"{name}/{key}",
                    media=media,
                    sha256=sha256,
                    as_input=rung != "usual",
                    size_wh=_size(picture.size_wh, recipe),
                    recipe=None if name in picture.members else recipe,
                )
                members.append((row, level))
            if members:
                self.tables.set(set_id=f"{key}@{rung}", anchor=first, members=members, variant=rung, group=key)

    def _video(self, row: int) -> int:
        if row not in self._videos:
            self._videos[row] = self.tables.video_of(self._source.videos, row)
        return self._videos[row]


def _whole(how: LadderOptions) -> dict[str, Any] | None:
    """Return the recipe of the anchors. With the fit `squash`, the anchors are their own files and have no recipe."""
    return {"kind": "rung", "rung": "whole", "fit": how.fit, "version": VERSION} if how.fit == "pad" else None


def _made(ladder: LadderPlan, how: LadderOptions) -> list[str]:
    """Return the rungs that at least one image has."""
    have = {member for recipes in ladder.recipes.values() for member in recipes}
    return [rung for rung in how.rungs if have & {member for member, _ in how.members(rung)}]


def _size(size_wh: tuple[int, int], recipe: Mapping[str, Any] | None) -> tuple[int, int]:
    """Return a rendered frame's size."""
    if recipe is None:
        return size_wh
    if "cut" in recipe and recipe["rung"] != "ground":
        x0, y0, x1, y1 = recipe["cut"]
        size_wh = (x1 - x0, y1 - y0)
    return (max(size_wh),) * 2 if recipe["fit"] == "pad" else size_wh
