"""pycocotools asked the same questions, for tests to compare with."""

import contextlib
import io
from types import SimpleNamespace

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from strobe.core.answers import BoxAnswers
from strobe.metrics.detection.tables import TruthTable


def coco_objects(truth: TruthTable, found: BoxAnswers) -> tuple[COCO, COCO]:
    """Ground truth and results as pycocotools holds them; ids start at 1, images and categories at 0."""
    gt = COCO()
    gt.dataset = {
        "images": [{"id": i} for i in range(truth.n_frames)],
        "categories": [{"id": c, "name": str(c)} for c in range(truth.n_classes)],
        "annotations": [
            {
                "id": i + 1,
                "image_id": int(truth.frame[i]),
                "category_id": int(truth.label[i]),
                "bbox": _xywh(truth.xyxy[i]),
                "area": float(truth.area[i]),
                "iscrowd": int(truth.crowd[i]),
            }
            for i in range(len(truth))
        ],
    }
    dt = COCO()
    dt.dataset = {
        "images": gt.dataset["images"],
        "categories": gt.dataset["categories"],
        "annotations": [
            {
                "id": i + 1,
                "image_id": int(found.frame[i]),
                "category_id": int(found.label[i]),
                "bbox": _xywh(found.xyxy[i]),
                "area": float((found.xyxy[i, 2] - found.xyxy[i, 0]) * (found.xyxy[i, 3] - found.xyxy[i, 1])),
                "iscrowd": 0,
                "score": float(found.score[i]),
            }
            for i in range(len(found))
        ],
    }
    with contextlib.redirect_stdout(io.StringIO()):
        gt.createIndex()
        dt.createIndex()
    return gt, dt


def coco_ap(
    gt: COCO,
    dt: COCO,
    *,
    iou=(0.5,),
    max_dets: int = 100,
    area_range=(0.0, 1e10),
    use_cats: bool = True,
    frames=None,
) -> np.ndarray:
    """AP per class (C,) or of all classes merged (1,), NaN where pycocotools says −1."""
    with contextlib.redirect_stdout(io.StringIO()):
        run = COCOeval(gt, dt, "bbox")
        run.params.iouThrs = np.asarray(iou)
        run.params.maxDets = [max_dets]
        run.params.areaRng = [list(area_range)]
        run.params.areaRngLbl = ["all"]
        run.params.useCats = int(use_cats)
        if frames is not None:
            run.params.imgIds = list(frames)
        run.evaluate()
        run.accumulate()
    precision = run.eval["precision"][:, :, :, 0, 0]  # (T, R, C)
    out = precision.mean(axis=(0, 1))
    return np.where((precision > -1).all(axis=(0, 1)), out, np.nan)


def _xywh(xyxy) -> list[float]:
    x0, y0, x1, y1 = (float(v) for v in xyxy)
    return [x0, y0, x1 - x0, y1 - y0]


@pytest.fixture(scope="session")
def coco():
    """pycocotools behind two functions: `objects(truth, found)` and `ap(gt, dt, …)`."""
    return SimpleNamespace(objects=coco_objects, ap=coco_ap)
