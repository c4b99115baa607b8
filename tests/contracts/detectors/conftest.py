"""Real detectors with local weights: small torchvision and transformers models, and ONNX files exported here."""

import json
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def scene(width, height, box, colour=(255, 60, 60)):
    """A black image with one coloured rectangle."""
    image = np.zeros((height, width, 3), dtype=np.uint8)
    x0, y0, x1, y1 = box
    image[y0:y1, x0:x1] = colour
    return image


def bright_box(layout, size):
    """A real network without weights: it finds the one bright rectangle; its class is the brightest channel.

    It answers in the form of `layout`, with what the layout's decoder has to cope with: duplicates to be suppressed,
    background cells, undecoded grids, logits.
    """
    import torch

    class BrightBox(torch.nn.Module):
        def corners(self, x):  # x (B, 3, H, W), 0–1 RGB
            high, wide = x.shape[2], x.shape[3]
            mask = (x.amax(dim=1) > 0.8).float()
            column, row = mask.amax(dim=1), mask.amax(dim=2)
            across, down = torch.arange(wide).float(), torch.arange(high).float()
            x0 = torch.where(column > 0, across, torch.tensor(1e4)).amin(dim=1)
            x1 = (column * (across + 1)).amax(dim=1)
            y0 = torch.where(row > 0, down, torch.tensor(1e4)).amin(dim=1)
            y1 = (row * (down + 1)).amax(dim=1)
            area = mask.sum(dim=(1, 2)).clamp(min=1)
            colour = (x * mask[:, None]).sum(dim=(2, 3)) / area[:, None]
            one_hot = (colour == colour.amax(dim=1, keepdim=True)).float()
            return torch.stack([x0, y0, x1, y1], dim=1), one_hot

        def forward(self, x):
            if layout.startswith("tf-yolo"):
                x = x.permute(0, 3, 1, 2)
            if layout == "yolox":
                x = x.flip(1) / 255
            elif layout == "detr" or layout == "ssd":
                x = x * torch.tensor(IMAGENET_STD).view(1, 3, 1, 1) + torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1)
            elif layout == "tf-ssd":
                x = x.permute(0, 3, 1, 2).float() / 255
            xyxy, one_hot = self.corners(x)
            n = xyxy.shape[0]
            box = torch.cat([(xyxy[:, :2] + xyxy[:, 2:]) / 2, xyxy[:, 2:] - xyxy[:, :2]], dim=1)
            shifted = box + torch.tensor([2.0, 2.0, 0.0, 0.0])
            far = torch.tensor([[20.0, 20.0, 8.0, 8.0]]).expand(n, 4)
            if layout in ("yolov5", "yolov8", "tf-yolov5"):
                boxes = torch.stack(
                    [box, shifted, box, far], dim=1
                )  # the best, its duplicate, another class, background
                other = one_hot.roll(1, dims=1)
                scores = torch.stack([0.9 * one_hot, 0.8 * one_hot, 0.3 * other, 0.0002 * one_hot], dim=1)
                if layout == "yolov8":
                    return torch.cat([boxes, scores], dim=2).repeat(1, 5, 1).transpose(1, 2)
                sure = torch.tensor([0.5, 0.5, 0.5, 0.5]).view(1, 4, 1).expand(n, 4, 1)
                if layout == "tf-yolov5":
                    boxes = boxes / torch.tensor([size[1], size[0], size[1], size[0]]).float()
                return torch.cat([boxes, sure, 2 * scores.clamp(max=0.5)], dim=2).repeat(1, 5, 1)
            if layout == "end2end":
                label = one_hot.argmax(dim=1, keepdim=True).float()
                first = torch.cat([xyxy, torch.full((n, 1), 0.9), label], dim=1)
                return torch.stack([first, first * torch.tensor([1, 1, 1, 1, 0.0001, 1])], dim=1)
            if layout == "yolox":
                cells = sum((size[0] // s) * (size[1] // s) for s in (8, 16, 32))
                first = torch.cat([box[:, :2] / 8, torch.log(box[:, 2:] / 8), torch.full((n, 1), 0.9), one_hot], dim=1)
                rest = torch.zeros(n, cells - 1, 8)
                return torch.cat([first[:, None], rest], dim=1)
            scale = torch.tensor([size[1], size[0], size[1], size[0]]).float()
            if layout in ("detr", "rtdetr"):
                boxes = torch.stack([box / scale, far / scale], dim=1)
                if layout == "rtdetr":
                    return torch.stack([8 * one_hot - 4, torch.full((n, 3), -9.0)], dim=1), boxes
                nothing = torch.cat([torch.zeros(n, 3), torch.full((n, 1), 9.0)], dim=1)
                return torch.stack([torch.cat([9 * one_hot, torch.zeros(n, 1)], dim=1), nothing], dim=1), boxes
            corners = torch.stack([xyxy / scale, xyxy / scale * 0.5], dim=1)
            label, scores = one_hot.argmax(dim=1, keepdim=True).repeat(1, 2), torch.tensor([[0.9, 0.2]]).repeat(n, 1)
            if layout == "tf-ssd":
                return corners[..., [1, 0, 3, 2]], label.float() + 1, scores, torch.ones(n)
            return corners, label, scores

    return BrightBox().eval()


OUTPUTS = {
    "detr": ["logits", "pred_boxes"],
    "rtdetr": ["logits", "pred_boxes"],
    "ssd": ["bboxes", "labels", "scores"],
    "tf-ssd": ["detection_boxes", "detection_classes", "detection_scores", "num_detections"],
}


def export(path: Path, layout: str, *, size=(64, 96), settings=None):
    """The network as an ONNX file, exported by torch; its settings beside it."""
    import torch

    shape = (1, *size, 3) if layout.startswith("tf-") else (1, 3, *size)
    example = torch.zeros(shape, dtype=torch.uint8 if layout == "tf-ssd" else torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            bright_box(layout, size), (example,), str(path), input_names=["images"],
            output_names=OUTPUTS.get(layout, ["output0"]), dynamo=False,
        )  # fmt: skip
    if settings is not None:
        path.with_suffix(".json").write_text(json.dumps(settings))
    return path


@pytest.fixture(scope="session")
def real():
    return SimpleNamespace(scene=scene, export=export)


@pytest.fixture(scope="module")
def images():
    """Two of one size and one of another, with something to see."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (60, 90, 3), dtype=np.uint8)
    return [scene(90, 60, (20, 10, 70, 50)), noise, scene(50, 80, (5, 30, 45, 70), colour=(40, 255, 40))]
