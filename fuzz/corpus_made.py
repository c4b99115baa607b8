"""Run strobe on the sound inputs to make datasets, runs, votes and related files."""

import json
import shutil
from pathlib import Path

import numpy as np

from fuzz.offered import is_offered, is_there
from fuzz.process import call

__all__ = ["GOLDFISH", "TENCH", "make_datasets", "text"]

TENCH, GOLDFISH = "n01440764", "n01443537"
_SEARCH = "--images=3 --scale-images=8 --steps 4 --strips 1 --device cpu -q"


def text(path: Path, *lines: str) -> None:
    """Write lines to a text file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_datasets(folder: Path) -> None:
    """Make datasets and runs with the code under test, by the commands that are fuzzed later."""
    _made(folder)
    _ladder_files(folder)
    _votes(folder)


def _made(folder: Path) -> None:
    few, quick = "--k 2 -q --workers 1", "--no-report -q --bootstrap 100 --workers 1"
    for line in (
        f"build clips/a.mp4 datasets/clips --label dog {few}",
        f"build clips/b.mp4 datasets/reference --label cat --reference {few}",
        "simulate photos/in datasets/shaky --k 1 --size 24 -q --workers 1",
        "synthesize datasets/world --videos 3 --size 32 --k 1 -q",
        "vary corruption datasets/shaky datasets/varied --kind fog,glass_blur --severity 1,3 -q --workers 1",
        "synthesize datasets/masked --videos 4 --size 32 --k 0 --masks -q",
        "vary background datasets/masked datasets/ladder --context 1,2 -q --workers 1",
        "import imagenet-c releases/imagenet-c/c datasets/variants --clean releases/imagenet-c/clean --severity 1-2 -q",
        "import photos colours datasets/photos -q",
        "import imagenet-vid-robust releases/vid-robust datasets/robust -q",
        "import ytbb-robust releases/ytbb-robust datasets/ytbb -q",
        f"vary generator datasets/changed --generator py:generator.py:make -m py:net.py:make {_SEARCH}",
        f"eval datasets/video -m py:models.py:logits -m py:models.py:shares --stop-early -o runs/new-early {quick}",
        "import trials releases/trials/csv datasets/named --images releases/trials/images -q",
        "eval datasets/video -m py:models.py:logits -m py:models.py:shares -m third=preds:inputs/video-logits.json "
        f"-o runs/new-video {quick}",
        "eval datasets/boxes -m py:models.py:blobs -m preds:inputs/boxes-coco.json --empty-frames "
        f"-o runs/new-boxes {quick}",
    ):
        _call(folder, line)
    if not is_there(["datasets/variants"]):
        return
    media = folder / "datasets/variants/media"
    pictures = [path.relative_to(media).as_posix() for path in sorted(media.rglob("*.png"))]
    answers = {picture: [TENCH, GOLDFISH][place % 2] for place, picture in enumerate(pictures)}
    text(folder / "inputs/variants.json", json.dumps(answers))
    _call(folder, "score datasets/variants -m preds:inputs/variants.json -o runs/new-variants -q")


def _ladder_files(folder: Path) -> None:
    """Make boxes and masks of the anchors of `masked`, in the formats of other tools."""
    from PIL import Image

    from strobe.store import dataset_folder as folders

    keys = [str(key) for key in folders.read(folder / "datasets/masked").frames.key]
    text(folder / "inputs/ladder.csv", "key,x0,y0,x1,y1", *(f"{key},4,5,20,24" for key in keys))
    crops = [{"file": key, "key": key, "xyxy": [4, 5, 20, 24]} for key in keys]
    text(folder / "inputs/ladder.json", json.dumps({"schema": 1, "crops": crops}))
    boxes = [{"image_id": key, "category_id": 0, "bbox": [4, 5, 16, 19], "score": 0.5} for key in keys]
    text(folder / "inputs/ladder-coco.json", json.dumps(boxes))
    mask = np.zeros((32, 32), dtype=np.uint8)
    mask[5:24, 4:20] = 255
    for key in keys:
        path = (folder / "inputs/masks" / key).with_suffix(".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask).save(path)


def _votes(folder: Path) -> None:
    """Make votes on the golden video dataset, names of its frames, and a copy with an unfinished review."""
    import csv

    _call(folder, "export datasets/video csv as-csv -q")
    with (folder / "as-csv/sets.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    members = [row for row in rows if row["is_anchor"] == "false"]
    anchors = dict.fromkeys(row["frame_id"] for row in rows if row["is_anchor"] == "true")
    words = ["dissimilar", *["similar"] * 4]
    votes = [f"{row['set_id']},{row['frame_id']},{words[place % 5]},Ann" for place, row in enumerate(members)]
    text(folder / "inputs/votes.csv", "set,frame,decision,annotator", *votes)
    with (folder / "as-csv/labels.csv").open(encoding="utf-8", newline="") as file:
        label = {row["frame_id"]: row["label"] for row in csv.DictReader(file)}
    named = [f"{frame},{said},Ann,{place}.5" for place, (frame, said) in enumerate(label.items())]
    text(folder / "inputs/names.csv", "frame,label,annotator,seconds", *named)
    shutil.copytree(folder / "datasets/video", folder / "datasets/reviewing")
    _call(folder, "review import datasets/reviewing inputs/votes.csv")
    _call(folder, "review import datasets/reviewing inputs/names.csv --ask name")
    shutil.copytree(folder / "datasets/reviewing", folder / "datasets/reviewed")
    _call(folder, "review export datasets/reviewed")
    _call(folder, "review export datasets/reviewed --ask name")
    lines = [
        f"{frame},{label[frame]},{'0,0,8,8,' if person == 'Ann' or place % 3 else ',,,,several'},{person}"
        for place, frame in enumerate(anchors)
        for person in ("Ann", "Bo")
    ]
    text(folder / "inputs/boxes.csv", "frame,label,x0,y0,x1,y1,reason,annotator", *lines)
    shutil.copytree(folder / "datasets/video", folder / "datasets/boxing")
    _call(folder, "review import datasets/boxing inputs/boxes.csv --ask box")
    _call(folder, "review export datasets/boxing --ask box")


def _call(folder: Path, line: str) -> None:
    if not is_offered(line.split()):
        return
    done = call(line.split(), cwd=folder, limit_s=300)
    if done.code != 0:
        raise RuntimeError(f"the corpus: strobe {line}: {done.ended}: {done.stderr[-500:]}")
