"""Counts of a dataset's content: classes, offsets, frame types and rates, hints, review, and unreachable sets."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.ceilings import ceiling
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.derivation import Derivation, derive, latest_votes, reviewed
from strobe.core.tables import Hints


def overview(dataset: Dataset) -> dict[str, Any]:
    """Return plain figures of a dataset, ready for JSON. Only frames in a set are counted.

    All candidates are counted. Only the ceiling uses the scored sets; if people voted, these are the sets kept by
    review.
    """
    sets, frames = dataset.sets, dataset.frames
    used = np.unique(sets.frame)
    members = ~sets.is_anchor
    sizes = np.bincount(sets.set[members], minlength=dataset.n_sets)
    per_video = np.bincount(dataset.video_of_set)
    n_labels = np.bincount(dataset.labels.frame, minlength=len(frames))
    decided = derive(dataset) if dataset.verdicts else None
    scored = reviewed(dataset) if decided is not None and decided.kept_set.any() else dataset
    return {
        "name": dataset.name,
        "version": dataset.info.version,
        "digest": dataset.digest(),
        "axis": dataset.info.axis,
        "k": dataset.info.k,
        "label_space": dataset.info.label_space.name,
        "label_source": dataset.info.label_source,
        "reviewed": dataset.info.reviewed,
        "licence": dataset.info.licence,
        "counts": {
            "videos": int((per_video > 0).sum()),
            "sets": dataset.n_sets,
            "members": int(members.sum()),
            "frames": len(used),
            "boxes": 0 if dataset.boxes is None else int(np.isin(dataset.boxes.frame, used).sum()),
            "tracks": _n_tracks(dataset, used),
            "sets_per_video_max": int(per_video.max()),
        },
        "sets": {
            "members_min": int(sizes.min()),
            "members_median": float(np.median(sizes)),
            "members_max": int(sizes.max()),
            "full": int((sizes == 2 * dataset.info.k).sum()) if dataset.info.axis == "frame-offset" else None,
            "anchor_alone": int((sizes == 0).sum()),
        },
        "labels": {
            "frames_with_several": int((n_labels[used] > 1).sum()),
            "frames_without": int((n_labels[used] == 0).sum()),
            "anchors_with_several": int((n_labels[sets.anchor_frame] > 1).sum()),
            "anchors_without": int((n_labels[sets.anchor_frame] == 0).sum()),
        },
        "classes": _classes(dataset, used),
        "offsets": _offsets(dataset),
        "frame_types": _frame_types(dataset, used),
        "fps": _spread(dataset.videos.fps_float[np.unique(dataset.video_of_set)]),
        "reach_ms": _spread(_reach_ms(dataset)),
        "sizes": [{"width": w, "height": h, "frames": n} for (w, h), n in _sizes(dataset, used)],
        "codecs": dict(Counter(codec for codec in dataset.videos.codec.tolist() if codec).most_common()),
        "media": _media(dataset, used),
        "hints": _hints(dataset, members),
        "review": _review(dataset, decided) if decided is not None else None,
        "ceiling": encode(ceiling(scored.labelled_sets()) if scored.labelled.any() else None),
    }


def _n_tracks(dataset: Dataset, used: NDArray[Any]) -> int:
    if dataset.boxes is None:
        return 0
    boxes = dataset.boxes
    kept = (boxes.track >= 0) & np.isin(boxes.frame, used)
    return len(set(zip(dataset.frames.video[boxes.frame[kept]].tolist(), boxes.track[kept].tolist(), strict=True)))


def _classes(dataset: Dataset, used: NDArray[Any]) -> list[dict[str, Any]]:
    """Count anchors, frames and boxes of every class that occurs; the class with the most anchors comes first."""
    n, space = len(dataset.info.label_space), dataset.info.label_space
    is_anchor = np.zeros(len(dataset.frames), dtype=np.int64)
    np.add.at(is_anchor, dataset.sets.anchor_frame, 1)
    in_use = np.zeros(len(dataset.frames), dtype=bool)
    in_use[used] = True
    anchors = np.bincount(dataset.labels.label, weights=is_anchor[dataset.labels.frame], minlength=n)
    frames = np.bincount(dataset.labels.label, weights=in_use[dataset.labels.frame], minlength=n)
    boxes: NDArray[Any] = np.zeros(n)
    if dataset.boxes is not None:
        boxes = np.bincount(dataset.boxes.label, weights=in_use[dataset.boxes.frame], minlength=n)
    order = np.lexsort((np.arange(n), -anchors))
    return [
        {
            "label": space.ids[place],
            "name": space.names[place],
            "anchors": int(anchors[place]),
            "frames": int(frames[place]),
            "boxes": int(boxes[place]),
        }
        for place in order.tolist()
        if anchors[place] or frames[place] or boxes[place]
    ]


def _offsets(dataset: Dataset) -> list[dict[str, Any]]:
    found, counts = np.unique(dataset.sets.distance, return_counts=True)
    return [
        {"offset": int(offset) if float(offset).is_integer() else float(offset), "frames": int(count)}
        for offset, count in zip(found.tolist(), counts.tolist(), strict=True)
    ]


def _frame_types(dataset: Dataset, used: NDArray[Any]) -> dict[str, dict[str, int]]:
    """Count frames and anchors of each type; the type is `unknown` if the source does not give it."""
    kinds = dataset.frames.pict_type
    frames = Counter(kinds[used].tolist())
    anchors = Counter(kinds[dataset.sets.anchor_frame].tolist())
    return {
        kind or "unknown": {"frames": frames[kind], "anchors": anchors[kind]}
        for kind in ("I", "P", "B", "")
        if frames[kind]
    }


def _reach_ms(dataset: Dataset) -> NDArray[np.float64]:
    """Return how far each set extends in time from its anchor; NaN if unknown."""
    sets, times = dataset.sets, dataset.frames.time_s
    gap = np.abs(times[sets.frame] - times[sets.anchor_frame[sets.set]]) * 1000
    out = np.full(dataset.n_sets, np.nan)
    known = np.isfinite(gap)
    np.fmax.at(out, sets.set[known], gap[known])
    return out


def _spread(values: NDArray[np.float64]) -> dict[str, Any] | None:
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    low, middle, high = np.percentile(known, [0, 50, 100]).tolist()
    return {"n": len(known), "min": low, "median": middle, "max": high}


def _sizes(dataset: Dataset, used: NDArray[Any]) -> list[tuple[tuple[int, int], int]]:
    pairs = zip(dataset.frames.width[used].tolist(), dataset.frames.height[used].tolist(), strict=True)
    return Counter(pair for pair in pairs if pair[0]).most_common()


def _media(dataset: Dataset, used: NDArray[Any]) -> dict[str, int]:
    rendered = dataset.frames.recipe[used] != ""
    stored = (dataset.frames.media[used] != "") & ~rendered
    in_video = (dataset.videos.path[dataset.frames.video[used]] != "") & ~stored & ~rendered
    more = {"rendered": int(rendered.sum())} if rendered.any() else {}
    return {
        "stored": int(stored.sum()),
        "in_videos": int(in_video.sum()),
        "nowhere": int((~stored & ~in_video & ~rendered).sum()),
        **more,
    }


def _hints(dataset: Dataset, members: NDArray[np.bool_]) -> dict[str, Any] | None:
    """Return the median and 95th percentile of every hint's size over the members, and the number of duplicates."""
    if dataset.hints is None or not members.any():
        return None
    out: dict[str, Any] = {}
    for name in Hints.__slots__:
        values = getattr(dataset.hints, name)[members]
        if values.dtype == bool:
            out[name] = {"n": len(values), "true": int(values.sum())}
            continue
        known = np.abs(values[np.isfinite(values)])
        if len(known):
            middle, high = np.percentile(known, [50, 95]).tolist()
            out[name] = {"n": len(known), "median": middle, "p95": high, "max": float(known.max())}
    return out


def _review(dataset: Dataset, decided: Derivation) -> dict[str, Any]:
    ids = dataset.frame_ids()
    pairs = {(str(dataset.sets.set_id[s]), ids[f]) for s, f in zip(dataset.sets.set, dataset.sets.frame, strict=True)}
    # Counted as in review status: the latest vote of each annotator, without hidden control pairs.
    latest = [
        vote for pair, votes in latest_votes(dataset.verdicts).items() if pair in pairs for vote in votes.values()
    ]
    return {
        **decided.counts(dataset),
        "votes": len(dataset.verdicts),
        "annotators": len({vote.annotator for vote in dataset.verdicts}),
        "reasons": dict(Counter(vote.reason for vote in latest if vote.reason).most_common()),
        "undecided_labels": len(decided.undecided_labels),
    }
