"""Compare the speed of the detection metric (per-frame AP and pm-k mAP) with pycocotools, for the same figures.

    python benchmarks/detection_metric.py

The script makes a dataset of the size of ImageNet-Vid-Robust (1,109 videos, one set each, 22,179 frames, 30 classes)
with 100 simulated detections per frame. Most objects are found several times, under their own class and a similar one.
The other boxes have low scores and classes that the detector typically confuses with the scene.

Both sides start from unsorted columns of detections and compute the same figures: the AP of every frame (the mean over
its classes, as pycocotools computes it for one image), and mAP over the frames of every k. The loop of pycocotools over
frames is timed on a sample and scaled. Its run per k is timed at the last k and scaled. Both timings include sorting.
Neither includes making and reading the data, or pycocotools' index of its annotations.
"""

import argparse
import contextlib
import io
import json
import os
import resource
import statistics
import sys
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from strobe.core.answers import BoxAnswers
from strobe.metrics.detection.average import frame_ap, frame_class_ap, mean_over_classes
from strobe.metrics.detection.jackknife import drop_between, mean_ap
from strobe.metrics.detection.match import match
from strobe.metrics.detection.tables import TruthTable
from strobe.metrics.detection.worst import class_ap, class_ap_without, videos_of_class, worst_frames

N_SETS, N_FRAMES, N_CLASSES, PER_FRAME, K = 1109, 22_179, 30, 100, 10


def make(seed: int) -> dict[str, Any]:
    """Return true boxes, detections and sets. The seed is fixed, because the ratio depends on the mix of classes."""
    rng = np.random.default_rng(seed)
    sizes = np.full(N_SETS, 21)  # 889 full sets and 220 near the ends of their videos, as in the real one
    sizes[889:] = 16
    sizes[889:899] = 15
    owner = np.repeat(np.arange(N_SETS), sizes)
    starts = np.cumsum(sizes) - sizes
    distance = (np.arange(N_FRAMES) - starts[owner] - sizes[owner] // 2).astype(np.float64)
    look_alikes = np.array([rng.permutation(N_CLASSES)[:8] for _ in range(N_CLASSES)])

    video_class = rng.integers(0, N_CLASSES, N_SETS)
    objects = rng.choice([1, 2, 3, 5], p=[0.6, 0.22, 0.12, 0.06], size=N_SETS)
    frame = np.repeat(np.arange(N_FRAMES), objects[owner])
    track = np.arange(len(frame)) - np.searchsorted(frame, frame)
    other = rng.random((N_SETS, 5)) < 0.15
    label = np.where(
        other[owner[frame], track] & (track > 0),
        look_alikes[video_class[owner[frame]], track],
        video_class[owner[frame]],
    )
    centre = rng.uniform(150, 900, (N_SETS, 5, 2))[owner[frame], track] + 4 * distance[frame, None]
    size = rng.uniform(60, 400, (N_SETS, 5, 2))[owner[frame], track]
    truth_xyxy = np.concatenate([centre - size / 2, centre + size / 2], axis=1)
    truth = TruthTable.of(frame, label, truth_xyxy, n_frames=N_FRAMES, n_classes=N_CLASSES)

    # Of 100 boxes, 8 are around each object (fewer if there are many objects), half of them with its own class.
    pick = rng.integers(0, objects[owner][:, None], (N_FRAMES, PER_FRAME))
    target = np.searchsorted(frame, np.arange(N_FRAMES))[:, None] + pick
    about = np.arange(PER_FRAME)[None, :] < np.minimum(8 * objects[owner], 24)[:, None]
    box_size = np.where(about[..., None], size[target], rng.uniform(20, 400, (N_FRAMES, PER_FRAME, 2)))
    spread = np.where(about, 0.12, 0.0)[..., None] * rng.standard_normal((N_FRAMES, PER_FRAME, 2))
    box_centre = np.where(about[..., None], centre[target], rng.uniform(50, 1000, (N_FRAMES, PER_FRAME, 2)))
    box_centre = box_centre + spread * box_size
    box_size = box_size * np.exp(np.where(about, 0.15, 0.0)[..., None] * rng.standard_normal(box_size.shape))
    own = rng.random((N_FRAMES, PER_FRAME))
    alike = look_alikes[label[target], rng.integers(0, 8, (N_FRAMES, PER_FRAME))]
    anything = rng.integers(0, N_CLASSES, (N_FRAMES, PER_FRAME))
    found_label = np.where(
        about,
        np.where(own < 0.5, label[target], alike),
        np.where(own < 0.08, label[target], np.where(own < 0.5, alike, anything)),
    )
    skill = np.clip(rng.beta(6, 2, N_SETS)[owner] - 0.012 * np.abs(distance) * rng.random(N_SETS)[owner], 0, 1)[:, None]
    right = about & (found_label == label[target])
    sure = skill * rng.beta(9, 2, (N_FRAMES, PER_FRAME))
    unsure = rng.beta(2, 5, (N_FRAMES, PER_FRAME))
    score = np.where(right, sure, np.where(about, unsure, 0.3 * rng.beta(1, 12, (N_FRAMES, PER_FRAME))))
    rows = np.repeat(np.arange(N_FRAMES), PER_FRAME)
    xyxy = np.concatenate([box_centre - box_size / 2, box_centre + box_size / 2], axis=2).reshape(-1, 4)
    columns = (rows.astype(np.int32), found_label.ravel().astype(np.int32), xyxy, score.ravel())
    return {"truth": truth, "columns": columns, "set": owner, "frame": np.arange(N_FRAMES), "distance": distance}


def table(data: dict[str, Any]) -> BoxAnswers:
    """Return the detection table from columns in file order: by frame, scores in any order."""
    return BoxAnswers.of(*data["columns"], n_frames=N_FRAMES, n_classes=N_CLASSES)


def ours(data: dict[str, Any], merge: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return per-frame AP, the chosen frames and pm-k mAP for every k, computed from the tables."""
    truth, found = data["truth"], data["found"]
    matches = match(truth, found)
    per_frame = (frame_ap if merge == "pooled" else frame_class_ap)(truth, found, matches)
    worst = worst_frames(per_frame, data["set"], data["frame"], data["distance"], ks=range(K + 1))
    return per_frame, worst.frame, mean_over_classes(class_ap(truth, found, matches, worst.frame))


def coco_objects(data: dict[str, Any], frames: np.ndarray) -> tuple[Any, Any]:
    """Return pycocotools' objects for some frames."""
    from pycocotools.coco import COCO

    truth, found = data["truth"], data["found"]
    wanted = set(frames.tolist())

    def rows(table: Any) -> np.ndarray:
        return np.flatnonzero(np.isin(table.frame, frames))

    def annotation(side: Any, i: int) -> dict[str, Any]:
        x0, y0, x1, y1 = side.xyxy[i].tolist()
        return {
            "id": int(i) + 1, "image_id": int(side.frame[i]), "category_id": int(side.label[i]),
            "bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0), "iscrowd": 0,
            "score": float(side.score[i]) if side is found else 1.0,
        }  # fmt: skip

    sides = []
    for side in (truth, found):
        coco: Any = COCO()
        coco.dataset = {
            "images": [{"id": i} for i in sorted(wanted)],
            "categories": [{"id": c} for c in range(N_CLASSES)],
            "annotations": [annotation(side, i) for i in rows(side)],
        }
        with contextlib.redirect_stdout(io.StringIO()):
            coco.createIndex()
        sides.append(coco)
    return sides[0], sides[1]


def coco_run(gt: Any, dt: Any, frames: list[int]) -> np.ndarray:
    """Return pycocotools' AP per class over these frames at IoU 0.5, −1 if a class is absent."""
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        run = COCOeval(gt, dt, "bbox")
        run.params.iouThrs = np.array([0.5])
        run.params.maxDets = [100]
        run.params.areaRng, run.params.areaRngLbl = [[0, 1e10]], ["all"]
        run.params.imgIds = frames
        run.evaluate()
        run.accumulate()
    return np.asarray(run.eval["precision"][0, :, :, 0, 0].mean(axis=0))


def loop_sample(data: dict[str, Any], sample: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Return the seconds per frame of the pycocotools loop, and its largest difference from our per-frame AP."""
    gt, dt = coco_objects(data, sample)
    times, worst = [], 0.0
    for frame in sample.tolist():
        begin = time.perf_counter()
        precision = coco_run(gt, dt, [frame])
        value = precision[precision > -1].mean()
        times.append(time.perf_counter() - begin)
        worst = max(worst, abs(value - expected[frame]))
    return statistics.fmean(times), worst


def intervals(data: dict[str, Any], chosen: np.ndarray, map_k: np.ndarray) -> list[str]:
    """Return the score's estimates of mAP at 0 and at K, and of the drop, as text."""
    matches, videos = match(data["truth"], data["found"]), np.arange(N_SETS)
    without = mean_over_classes(class_ap_without(data["truth"], data["found"], matches, chosen, videos))
    shown = videos_of_class(data["truth"], matches[0], chosen, videos)
    before, after = (mean_ap(float(map_k[k]), without[k], of_class=shown[:, k], n=N_SETS) for k in (0, -1))
    drop = drop_between(before, after, without[0], without[-1], n=N_SETS)
    return [before.text(), after.text(), drop.text()]


def main() -> int:
    """Run the benchmark and print one JSON object. Exits with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--sample", type=int, default=300, help="number of frames on which the pycocotools loop is timed"
    )
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    data = make(options.seed)
    loaded_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    times, pooled_times, sort_times = [], [], []
    for _ in range(options.repeats):
        begin = time.perf_counter()
        data["found"] = table(data)
        sort_times.append(time.perf_counter() - begin)
        by_class, chosen, map_k = ours(data, "mean")
        times.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        _, chosen_pooled, map_pooled = ours(data, "pooled")
        pooled_times.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    found = intervals(data, chosen_pooled, map_pooled)
    jackknife_s = time.perf_counter() - begin
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    sample = np.sort(np.random.default_rng(options.seed + 1).choice(N_FRAMES, options.sample, replace=False))
    per_frame_s, difference = loop_sample(data, sample, by_class)
    last = np.unique(chosen[:, -1])
    gt, dt = coco_objects(data, last)
    begin = time.perf_counter()
    reference = coco_run(gt, dt, last.tolist())
    per_k_s = time.perf_counter() - begin
    map_difference = abs(float(reference[reference > -1].mean()) - float(map_k[-1]))

    ours_s, theirs_s = statistics.median(times), per_frame_s * N_FRAMES + per_k_s * (K + 1)
    result = {
        "frames": N_FRAMES, "detections": len(data["found"]), "classes": N_CLASSES, "sets": N_SETS,
        "ours_s": round(ours_s, 4), "ours_s_all": [round(one, 4) for one in times],
        "of_it_sorting_s": round(statistics.median(sort_times), 4),
        "pycocotools_s": round(theirs_s, 2), "ratio": round(theirs_s / ours_s, 1),
        "pycocotools_sample": options.sample, "pycocotools_ms_per_frame": round(1000 * per_frame_s, 3),
        "pycocotools_s_per_k": round(per_k_s, 3),
        "pooled_over_classes_sorted_s": round(statistics.median(pooled_times), 4),
        "jackknife_all_k_s": round(jackknife_s, 3),
        "data_mb": round(loaded_mb), "peak_mb": round(peak_mb),
        "largest_difference": difference, "pmk_map_difference": map_difference,
        "pooled_map_orig_pm10_drop": found,
    }  # fmt: skip
    print(json.dumps(result, indent=1, ensure_ascii=False))
    met = result["ratio"] >= 150 and peak_mb < 1024 and jackknife_s < 5 and difference < 1e-9 and map_difference < 1e-9
    print("targets met" if met else "TARGETS MISSED", file=sys.stderr)
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
