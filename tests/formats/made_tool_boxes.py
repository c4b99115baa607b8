"""Make the files in tests/formats/tools with the tools themselves: python tests/formats/made_tool_boxes.py.

It needs ultralytics, supervision and fiftyone, which are large; each tool is used if it is installed. The boxes are
those of `BOXES`: on fifteen frames of a clip of 160 × 120 pixels, two objects, one of which is lost on three frames.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

FRAMES, WIDTH, HEIGHT = 15, 160, 120
NAMES = {0: "person", 16: "dog"}
TOOLS = Path(__file__).parent / "tools"

BOXES: dict[int, list[tuple[int, float, tuple[float, float, float, float]]]] = {
    frame: [
        *([] if 4 <= frame < 7 else [(0, 0.875, (8.0 + 2 * frame, 12.0, 40.0 + 2 * frame, 84.0))]),
        *([(16, 0.75, (96.0, 48.0, 128.0, 72.0))] if frame != 9 else []),
    ]
    for frame in range(FRAMES)
}
"""The class, score and corners of the boxes on each frame, counted from 0."""


def clip(path: Path, *, fps: int) -> Path:
    """A clip of as many frames, each different."""
    import av

    texture = np.random.default_rng(0).integers(60, 160, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for index in range(FRAMES):
            image = texture.copy()
            image[:8, : 8 + index] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    return path


def ultralytics(folder: Path) -> Path:
    """What `yolo predict source=clip.mkv save_txt save_conf` writes: its own results, saved by its own method."""
    import torch
    from ultralytics.engine.results import Results

    for frame, boxes in BOXES.items():
        rows = torch.tensor([[*xyxy, score, label] for label, score, xyxy in boxes]).reshape(-1, 6)
        image = np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)
        result = Results(orig_img=image, path="clip.mkv", names=NAMES, boxes=rows)
        result.save_txt(str(folder / "labels" / f"clip_{frame + 1}.txt"), save_conf=True)
    return folder


def supervision() -> list[Any]:
    """A `supervision.Detections` for each frame."""
    import supervision as sv

    return [
        sv.Detections(
            xyxy=np.array([xyxy for *_, xyxy in boxes], dtype=float).reshape(-1, 4),
            confidence=np.array([score for _, score, _ in boxes], dtype=float),
            class_id=np.array([label for label, *_ in boxes], dtype=int),
            data={"class_name": np.array([NAMES[label] for label, *_ in boxes], dtype=object)},
        )
        for boxes in BOXES.values()
    ]


def fiftyone_dataset() -> Any:
    """A FiftyOne dataset of one video with predictions on its frames."""
    import fiftyone as fo

    dataset = fo.Dataset()
    sample = fo.Sample(filepath="clip.mkv")
    for frame, boxes in BOXES.items():
        found = [
            fo.Detection(
                label=NAMES[label],
                confidence=score,
                bounding_box=[x0 / WIDTH, y0 / HEIGHT, (x1 - x0) / WIDTH, (y1 - y0) / HEIGHT],
            )
            for label, score, (x0, y0, x1, y1) in boxes
        ]
        sample.frames[frame + 1] = fo.Frame(predictions=fo.Detections(detections=found))
    dataset.add_sample(sample)
    return dataset


def fiftyone(folder: Path) -> Path:
    """What FiftyOne's own exporter writes, without the media."""
    import fiftyone as fo

    fiftyone_dataset().export(export_dir=str(folder), dataset_type=fo.types.FiftyOneDataset, export_media=False)
    return folder


def mot() -> str:
    """MOT text: frame and identity from 1, corner and size in pixels, score, class and visibility unknown."""
    rows = [
        (frame + 1, -1, x0, y0, x1 - x0, y1 - y0, score, -1, -1, -1)
        for frame, boxes in BOXES.items()
        for _, score, (x0, y0, x1, y1) in boxes
    ]
    return "".join(",".join(f"{value:g}" for value in row) + "\n" for row in rows)


def coco_video() -> dict[str, Any]:
    """COCO JSON of a video: images with the number of their frame, and results."""
    return {
        "videos": [{"id": 1, "name": "clip"}],
        "images": [
            {"id": 100 + frame, "file_name": f"elsewhere/{frame:04d}.jpg", "video_id": 1, "frame_id": frame}
            for frame in BOXES
        ],
        "categories": [{"id": label + 1, "name": name} for label, name in NAMES.items()],
        "annotations": [
            {
                "id": 10 * frame + place + 1,
                "image_id": 100 + frame,
                "category_id": label + 1,
                "bbox": [x0, y0, x1 - x0, y1 - y0],
                "area": (x1 - x0) * (y1 - y0),
                "iscrowd": 0,
                "score": score,
            }
            for frame, boxes in BOXES.items()
            for place, (label, score, (x0, y0, x1, y1)) in enumerate(boxes)
        ],
    }


def tracks() -> dict[str, Any]:
    """COCO JSON of a video as YouTube-VIS writes it: a track with a box or none on every frame."""
    lanes = {}
    for label in NAMES:
        own = {frame: box for frame, boxes in BOXES.items() for box in boxes if box[0] == label}
        lanes[label] = [
            None if frame not in own else [x0, y0, x1 - x0, y1 - y0]
            for frame in range(FRAMES)
            for x0, y0, x1, y1 in [own[frame][2] if frame in own else (0.0, 0.0, 0.0, 0.0)]
        ]
    scores = {label: score for boxes in BOXES.values() for label, score, _ in boxes}
    return {
        "videos": [{"id": 1, "name": "clip", "length": FRAMES}],
        "categories": [{"id": label + 1, "name": name} for label, name in NAMES.items()],
        "annotations": [
            {"id": label + 1, "video_id": 1, "category_id": label + 1, "score": scores[label], "bboxes": bboxes}
            for label, bboxes in lanes.items()
        ],
    }


def main() -> None:
    """Write the files."""
    for make in (ultralytics, fiftyone):
        folder = TOOLS / make.__name__
        shutil.rmtree(folder, ignore_errors=True)  # Ultralytics adds lines to files that exist
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)
    (TOOLS / "mot.txt").write_text(mot(), encoding="utf-8")
    for name, data in (("coco-video", coco_video()), ("coco-tracks", tracks())):
        (TOOLS / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print("wrote", TOOLS, "with Python", sys.version.split()[0])


if __name__ == "__main__":
    main()
