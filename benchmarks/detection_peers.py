"""Compare one mAP over all frames with hotcoco, ultrafast-pycocotools and pycocotools, in one run on the same boxes.

    pip install --target SITE --no-deps hotcoco ultrafast-pycocotools
    PYTHONPATH=src:SITE python benchmarks/detection_peers.py [--frames 22179] [--slow-frames 1000] [--repeats 3]

The data is that of detection_metric.py. Every package computes the AP of each class at IoU 0.5 over the first frames,
with at most 100 boxes per frame. `loading` is the time from arrays of boxes to the package's own objects (sorting for
strobe), `evaluating` the rest. A time is the minimum over the repeats, in wall seconds. `grid` is the COCO grid, ten
thresholds and four areas: one pass for the peers, one pass per area for strobe. pycocotools is measured on fewer frames
and scaled. A package that is not installed is skipped. Exits with 1 if a figure differs by more than 1e-9,
or if strobe is less than twice as fast as hotcoco, both with loading and without.
"""

import argparse
import contextlib
import importlib
import importlib.util
import io
import json
import os
import sys
import time
from typing import Any

import numpy as np

from detection_metric import N_CLASSES, make
from strobe.core.answers import BoxAnswers
from strobe.metrics.detection.average import mean_over_classes
from strobe.metrics.detection.match import match
from strobe.metrics.detection.tables import TruthTable
from strobe.metrics.detection.worst import class_ap

TARGET = 2.0
AREAS = ((0.0, 1e10), (0.0, 32.0**2), (32.0**2, 96.0**2), (96.0**2, 1e10))


def of_strobe(data: dict[str, Any], n: int, *, grid: bool = False) -> tuple[float, float, float]:
    """Return the seconds of sorting and of evaluating, and mAP."""
    truth, (frame, label, xyxy, score) = data["truth"], data["columns"]
    use, mine = frame < n, truth.frame < n
    columns = frame[use], label[use], xyxy[use], score[use]
    known = TruthTable.of(truth.frame[mine], truth.label[mine], truth.xyxy[mine], n_frames=n, n_classes=N_CLASSES)
    begin = time.perf_counter()
    found = BoxAnswers.of(*columns, n_frames=n, n_classes=N_CLASSES)
    loaded = time.perf_counter()
    value = mean_over_classes(class_ap(known, found, match(known, found), np.arange(n)[:, None]))
    if grid:
        for area in AREAS:
            matches = match(known, found, iou=tuple(np.linspace(0.5, 0.95, 10).tolist()), area_range=area)
            class_ap(known, found, matches, np.arange(n)[:, None])
    return loaded - begin, time.perf_counter() - loaded, float(value[0])


def of_peer(name: str, data: dict[str, Any], n: int, *, grid: bool = False) -> tuple[float, float, float]:
    """Return the seconds of loading and of evaluating, and mAP, by a package with pycocotools' interface."""
    package = importlib.import_module(f"{name}.coco") if name == "pycocotools" else importlib.import_module(name)
    evaluating = importlib.import_module(f"{name}.cocoeval") if name == "pycocotools" else package
    truth, (frame, label, xyxy, score) = data["truth"], data["columns"]
    use, mine = frame < n, np.flatnonzero(truth.frame < n)
    wh = truth.xyxy[:, 2:] - truth.xyxy[:, :2]
    known = {
        "images": [{"id": i, "width": 2000, "height": 2000} for i in range(n)],
        "categories": [{"id": c, "name": str(c)} for c in range(N_CLASSES)],
        "annotations": [
            {
                "id": int(i) + 1, "image_id": int(truth.frame[i]), "category_id": int(truth.label[i]), "iscrowd": 0,
                "bbox": [*truth.xyxy[i, :2].tolist(), *wh[i].tolist()], "area": float(wh[i].prod()),
            }
            for i in mine
        ],
    }  # fmt: skip
    boxes = np.concatenate(
        [frame[use, None], xyxy[use, :2], xyxy[use, 2:] - xyxy[use, :2], score[use, None], label[use, None]], axis=1
    )
    with contextlib.redirect_stdout(io.StringIO()):
        coco = package.COCO(known) if name != "pycocotools" else package.COCO()
        if name == "pycocotools":
            coco.dataset = known
            coco.createIndex()
        begin = time.perf_counter()
        found = coco.load_res(boxes) if hasattr(coco, "load_res") else coco.loadRes(boxes)
        loaded = time.perf_counter()
        run = evaluating.COCOeval(coco, found, "bbox")
        params = run.params
        if not grid:
            for names, value in (
                (("iou_thrs", "iouThrs"), [0.5]), (("max_dets", "maxDets"), [100]),
                (("area_rng", "areaRng"), [[0.0, 1e10]]), (("area_rng_lbl", "areaRngLbl"), ["all"]),
            ):  # fmt: skip
                setattr(params, names[0] if hasattr(params, names[0]) else names[1], value)
            if isinstance(getattr(params, "iouThrs", None), list):
                params.iouThrs = np.array([0.5])
        run.params = params
        run.evaluate()
        run.accumulate()
    seconds = time.perf_counter() - loaded
    precision = np.asarray(run.eval["precision"])[0, :, :, 0, -1].mean(axis=0)
    return loaded - begin, seconds, float(precision[precision > -1].mean())


def main() -> int:
    """Run all packages in turn and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--frames", type=int, default=22_179)
    parser.add_argument("--slow-frames", type=int, default=1000, help="frames of pycocotools")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    data, n, slow = make(0), options.frames, options.slow_frames
    ways = {
        "strobe": lambda: of_strobe(data, n),
        "hotcoco": lambda: of_peer("hotcoco", data, n),
        "ultrafast_pycocotools": lambda: of_peer("ultrafast_pycocotools", data, n),
        "strobe, grid": lambda: of_strobe(data, n, grid=True),
        "hotcoco, grid": lambda: of_peer("hotcoco", data, n, grid=True),
        "ultrafast_pycocotools, grid": lambda: of_peer("ultrafast_pycocotools", data, n, grid=True),
    }
    skipped = [
        name for name in ways if not name.startswith("strobe") and importlib.util.find_spec(name.split(",")[0]) is None
    ]
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways if name not in skipped}
    for _ in range(options.repeats):
        for name in results:
            results[name].append(ways[name]())
    seconds = {name: [min(one[at] for one in runs) for at in (0, 1)] for name, runs in results.items()}
    ours, theirs = of_strobe(data, slow), of_peer("pycocotools", data, slow)
    seconds[f"pycocotools, {slow} frames, scaled"] = [theirs[0] * n / slow, theirs[1] * n / slow]
    differences = {name: abs(runs[0][2] - results["strobe"][0][2]) for name, runs in results.items()}
    differences["pycocotools"] = abs(ours[2] - theirs[2])
    both = [seconds["strobe"][1], sum(seconds["strobe"])]
    ratios = {name: [one[1] / both[0], sum(one) / both[1]] for name, one in seconds.items()}
    report = {
        "frames": n, "boxes": int((data["columns"][0] < n).sum()), "cores": os.cpu_count(), "load": os.getloadavg()[0],
        "skipped": skipped, "largest_difference": max(differences.values()),
        "loading_and_evaluating_s": {name: [round(part, 3) for part in one] for name, one in seconds.items()},
        "times_strobe_without_and_with_loading": {
            name: [round(part, 2) for part in one] for name, one in ratios.items()
        },
    }  # fmt: skip
    print(json.dumps(report, indent=1))
    return 0 if max(differences.values()) < 1e-9 and min(ratios.get("hotcoco", [TARGET])) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
