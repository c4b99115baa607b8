"""`strobe inspect`: describe a dataset in figures and as a contact sheet."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from strobe.analyses.overview import overview
from strobe.core.derivation import derive, with_names
from strobe.core.errors import printable
from strobe.core.people import PEOPLE
from strobe.core.ports import Progress, Silent
from strobe.report.view import sources
from strobe.report.wording import counted, join
from strobe.store import dataset_folder as folder

_BAR = 24
_MOST_LEVELS = 10


def inspect(path: Path) -> dict[str, Any]:
    """Return the figures of all candidates in a dataset folder.

    Kinds of sources are included only if not all sources are videos. Variants are included only if the dataset has
    them.
    """
    dataset = with_names(folder.read(path))
    facts, kinds = overview(dataset), dataset.kinds
    if set(kinds) != {"video"}:
        facts["kinds"] = kinds
    if dataset.variants is not None:
        status = dataset.sets.status
        facts["variants"] = [
            {
                "variant": variant.variant,
                "axis": variant.axis,
                "unit": variant.unit,
                "levels": list(variant.levels),
                "role": variant.role,
                "estimated": variant.estimated,
                "target": variant.target.name if variant.target else None,
                "sets": dict(Counter(status[dataset.sets.variant == row].tolist())),
            }
            for row, variant in enumerate(dataset.variants)
        ]
    for table in PEOPLE:
        if table != "verdicts" and (answers := getattr(dataset, table)):
            facts[table] = {"answers": len(answers), "people": len({answer.annotator for answer in answers})}
    return facts


def sheet(
    path: Path,
    target: Path,
    *,
    how_many: int = 12,
    named: Sequence[str] = (),
    columns: int = 11,
    progress: Progress | None = None,
) -> int:
    """Draw a contact sheet and return the number of frames that could not be read."""
    from strobe.formats.contact_sheet import choose_sets, draw_sheet
    from strobe.store.opening import frame_source

    dataset = with_names(folder.read(path))
    chosen = choose_sets(dataset, how_many, named=named)
    kept = derive(dataset).kept if dataset.verdicts else None
    return draw_sheet(
        dataset, frame_source(dataset), target, sets=chosen, n_columns=columns, kept=kept, progress=progress or Silent()
    )


def lines(facts: dict[str, Any]) -> Iterator[str]:
    """Return the figures as text lines."""
    counts, labels = facts["counts"], facts["labels"]
    yield f"{facts['name']} (version {facts['version']}, digest {facts['digest'][:16]})"
    boxes = f", {counts['boxes']:,} boxes in {counts['tracks']:,} tracks" if counts["boxes"] else ""
    kinds, variants = facts.get("kinds", {}), facts.get("variants", ())
    noun = "image" if kinds else "frame"
    if kinds:
        summary = sources(counts["videos"], kinds)
        summary += f", {counted(counts['sets'], 'set')}" if variants else ""
        summary += f", {counted(counts['frames'], 'image')} in total" if counts["members"] else ""
    else:
        summary = ", ".join(counted(counts[f"{noun}s"], noun) for noun in ("video", "set", "member", "frame"))
    yield f"  {summary}{boxes}"
    if kinds and not counts["members"]:
        yield f"  every image is its own set, classes of {facts['label_space']}"
    else:
        yield from _set_lines(facts)
    for variant in variants:
        yield _variant_line(variant)
    media = facts["media"]
    parts = [
        f"{media[key]:,} {text}"
        for key, text in (
            ("stored", "stored"),
            ("rendered", "rendered when read"),
            ("in_videos", "in their videos"),
            ("nowhere", "not available"),
        )
        if media.get(key)
    ]
    yield f"  images: {', '.join(parts)}" + (f"; licence: {facts['licence']}" if facts["licence"] else "")
    several, none = labels["anchors_with_several"], labels["anchors_without"]
    if not kinds:
        yield (
            f"  several labels: {labels['frames_with_several']:,} frames, {several:,} anchors; "
            f"no label: {labels['frames_without']:,} frames, {none:,} anchors"
        )
    else:  # these members are made from an image and are scored with its label
        yield (
            f"  several labels: {counted(several, 'set')}; no label: {counted(none, 'set')}"
            if variants
            else (f"  several labels: {counted(several, 'image')}; no label: {counted(none, 'image')}")
        )
    yield from _video_lines(facts)
    if not kinds or counts["members"]:
        yield from _review_lines(facts)
    for table in PEOPLE:
        what = "drawn boxes" if table == "drawn" else table
        if said := facts.get(table):
            whose = "1 person" if said["people"] == 1 else f"{said['people']:,} people"
            yield f"  {what}: {counted(said['answers'], 'answer')} of {whose}"
    yield from _ceiling_lines(facts)
    yield ""
    yield f"classes ({len(facts['classes'])} occur; a {noun} with several classes counts in each)"
    top = max((row["anchors"] for row in facts["classes"]), default=0)
    wide = max((len(row["name"]) for row in facts["classes"]), default=0)
    for row in facts["classes"]:
        extra = f", {row['boxes']:,} boxes" if row["boxes"] else ""
        held = f"{row['anchors']:>6,} anchors, {row['frames']:,} frames"
        if kinds:
            held = f"{row['anchors']:>6,} {'sets' if variants else 'images'}"
        yield f"  {row['name']:<{wide}} {_bar(row['anchors'], top)} {held}{extra}"
    if variants or (kinds and not counts["members"]):
        return
    yield ""
    yield "offsets (frames at each distance, the anchor at 0)"
    top = max(row["frames"] for row in facts["offsets"])
    for row in facts["offsets"]:
        yield f"  {row['offset']:>+6g} {_bar(row['frames'], top)} {row['frames']:>6,}"


def _set_lines(facts: dict[str, Any]) -> Iterator[str]:
    sets = facts["sets"]
    full = f", {sets['full']:,} full" if sets["full"] is not None else ""
    yield (
        f"  members per set {sets['members_min']}–{sets['members_max']} (median {sets['members_median']:g}){full}, "
        f"{sets['anchor_alone']:,} with only the anchor"
    )
    yield f"  k = {facts['k']} ({facts['axis']}), labels by {facts['label_source']}, classes of {facts['label_space']}"


def _variant_line(variant: dict[str, Any]) -> str:
    """Describe one variant: its scale, its target model, and the outcome of its sets."""
    marks = [
        mark for mark, on in (("control", variant["role"] == "control"), ("estimated", variant["estimated"])) if on
    ]
    unit, each = f" {variant['unit']}" if variant["unit"] else "", [f"{level:.3g}" for level in variant["levels"]]
    levels = ", ".join(each) + unit
    if len(each) > _MOST_LEVELS:  # this is the fine grid of a minimal search
        levels = f"{each[0]} to {each[-1]}{unit} in {len(each)} levels"
    told = f"  {printable(variant['variant'])}{f' ({join(marks)})' if marks else ''}: {variant['axis']} {levels}"
    told += f", against {printable(variant['target'])}" if variant["target"] else ""
    done = [f"{n:,} {status.replace('_', ' ')}" for status, n in variant["sets"].items()]
    return f"{told}; {', '.join(done)}"


def _bar(value: int, top: int) -> str:
    filled = round(_BAR * value / top) if top else 0
    return "█" * filled + "·" * (_BAR - filled)


def _video_lines(facts: dict[str, Any]) -> Iterator[str]:
    moves = "video" in facts.get("kinds", {"video": 0})
    if facts["fps"] and moves:
        fps = facts["fps"]
        yield f"  fps {fps['min']:.4g}–{fps['max']:.4g} (median {fps['median']:.4g}, {counted(fps['n'], 'video')})"
    if facts["reach_ms"] and moves:
        reach = facts["reach_ms"]
        yield f"  sets reach {reach['min']:.0f}–{reach['max']:.0f} ms (median {reach['median']:.0f})"
    kinds = [f"{kind} {row['frames']:,} ({row['anchors']:,} anchors)" for kind, row in facts["frame_types"].items()]
    if list(facts["frame_types"]) != ["unknown"]:
        yield f"  frame types: {', '.join(kinds)}"
    if facts["codecs"]:
        yield "  codecs: " + ", ".join(f"{name} {n:,}" for name, n in facts["codecs"].items())
    if facts["sizes"]:
        shown = ", ".join(f"{row['width']}×{row['height']} ({row['frames']:,})" for row in facts["sizes"][:4])
        yield f"  sizes: {shown}" + (f" and {len(facts['sizes']) - 4} more" if len(facts["sizes"]) > 4 else "")
    if facts["hints"]:
        hints = facts["hints"]
        shown = ", ".join(
            f"{name} {row['median']:.3g} / {row['p95']:.3g}" for name, row in hints.items() if "median" in row
        )
        yield f"  hints (median / 95th percentile): {shown}; {hints['duplicate']['true']:,} near-duplicates"


def _review_lines(facts: dict[str, Any]) -> Iterator[str]:
    review = facts["review"]
    if review is None:
        state = {"none": "not reviewed yet", "release": "reviewed before its release", "votes": "no votes yet"}
        yield f"  review: {state[facts['reviewed']]}"
        return
    yield (
        f"  review: {counted(review['votes'], 'vote')} of {counted(review['annotators'], 'annotator')}; anchors "
        f"{review['anchors_reviewed']:,} reviewed, {review['anchors_accepted']:,} kept; pairs "
        f"{review['pairs_reviewed']:,} reviewed, {review['pairs_accepted']:,} kept, "
        f"{review['pairs_pending']:,} pending"
    )
    if review["reasons"]:
        yield "  reasons: " + ", ".join(f"{name} {n:,}" for name, n in review["reasons"].items())


def _ceiling_lines(facts: dict[str, Any]) -> Iterator[str]:
    top = facts["ceiling"]
    if top is None:
        return
    if not top["childless"]:
        yield f"  ceiling for {top['source']} models: none, because they have every class of these sets"
        return
    yield (
        f"  ceiling for {top['source']} models: acc_orig {100 * top['acc_orig']:.1f} %, acc_pmk "
        f"{100 * top['acc_pmk']:.1f} %; {top['anchors_out_of_reach']:,} of {top['n']:,} anchors show only "
        f"{', '.join(top['childless'])}, which have no {top['source']} class"
    )
