"""Make the golden files below tests/golden: small datasets, runs on them, and every figure of those runs.

    python scripts/make_golden.py OUT
    python scripts/make_golden.py --snapshots [PART…]

The files were made once, before a large restructuring of the code, and record the figures that must stay the same. Do
not make them again with later code, because then they could not detect a change. OUT must contain a copy of
tests/golden/models.py. The file's name is part of cache keys. Tables are written by hand, following docs/formats.md
(golden_folders.py). The script uses strobe only through its command line and public names.

--snapshots is another matter: it writes tests/golden/snapshots again with the code as it is, all of it or some parts
(golden_snapshots.py). Do this after a change of texts that is meant, and read the diff.
"""

import csv
import io
import json
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import golden_snapshots
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from golden_folders import MAKERS, Folder

import strobe

Row = dict[str, Any]

RUNS: dict[str, Row] = {
    "video-py": {
        "dataset": "video", "verb": "eval", "bring": [],
        "models": ["py:models.py:logits", "py:models.py:shares", "third=preds:inputs/video-logits.json"],
        "score": ["--types", "inputs/types.csv"],
    },
    "video-brought": {
        "dataset": "video", "verb": "score", "bring": [],
        "models": ["preds:inputs/video-logits.json", "preds:inputs/video-probabilities.csv",
                   "plain labels=preds:inputs/video-labels.jsonl"],
        "score": ["--k", "2", "--interval", "clopper-pearson"],
    },
    "video-part": {
        "dataset": "video", "verb": "score", "bring": ["--ignore-extra", "--kind", "logits"],
        "models": ["preds:inputs/video-part.json"],
        "score": ["--subset", "inputs/subset.txt", "--allow-missing", "--seed", "3"],
    },
    "boxes-py": {
        "dataset": "boxes", "verb": "eval", "bring": [], "models": ["py:models.py:blobs"], "score": [],
    },
    "boxes-coco": {
        "dataset": "boxes", "verb": "score", "bring": ["--empty-frames"],
        "models": ["coco=preds:inputs/boxes-coco.json"],
        "score": ["--iou", "0.5,0.75", "--interpolation", "voc-all-points", "--frame-ap", "mean", "--max-dets", "2"],
    },
    "votes": {
        "dataset": "votes", "verb": "score", "bring": [],
        "models": ["preds:inputs/votes-logits.json", "preds:inputs/votes-ilsvrc-labels.json"],
        "score": ["--compare-review"],
    },
    "severity": {
        "dataset": "severity", "verb": "score", "bring": [],
        "models": [f"preds:inputs/severity-{name}.json" for name in "abcde"], "score": ["--types", "inputs/types.csv"],
    },
    "anchor-py": {
        "dataset": "anchor", "verb": "eval", "bring": [],
        "models": ["py:models.py:animals", "py:models.py:thousand"], "score": [],
    },
    "anchor-sum": {
        "dataset": "anchor", "verb": "score", "bring": [],
        "models": ["thousand=preds:inputs/anchor-ilsvrc.parquet"], "score": ["--merge", "sum"],
    },
}  # fmt: skip
"""How each run is made: `verb DATASET -m MODEL… -o RUN`, plus the options in `bring` and `score`.

Scoring the run again uses only the options in `score`.
"""

ALWAYS = ["--bootstrap", "200", "--quiet"]


# -- predictions in files ------------------------------------------------------------------------------------------


def _scores(rng: np.random.Generator, folder: Folder, accuracy: float) -> dict[str, list[float]]:
    """Return scores in steps of a quarter, by frame key.

    With probability `accuracy`, a label of the frame ranks first.
    """
    ids = folder.info["label_space"]["ids"]
    of_frame: dict[str, list[int]] = {}
    for row in folder.tables["labels"]:
        of_frame.setdefault(row["frame_id"], []).append(ids.index(row["label"]))
    out = {}
    for row in folder.tables["frames"]:
        values = rng.integers(-20, 20, size=len(ids))
        right = of_frame.get(row["frame_id"], [])
        if right and rng.random() < accuracy:
            values[right[0]] = values.max() + 1 + rng.integers(0, 4)
        out[row["key"]] = (values / 4).tolist()
    return out


def _labels(folder: Folder, scores: dict[str, list[float]]) -> dict[str, str]:
    names = folder.info["label_space"]["names"]
    return {key: names[int(np.argmax(row))] for key, row in scores.items()}


def inputs(out: Path, made: dict[str, Folder], rng: np.random.Generator) -> None:
    """Write prediction files in every supported format."""
    out.mkdir(parents=True, exist_ok=True)

    def text(name: str, content: str) -> None:
        (out / name).write_text(content, encoding="utf-8")

    one = made["video"]
    text("video-logits.json", json.dumps(_scores(rng, one, 0.9)))
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(["frame", *one.info["label_space"]["names"]])
    for key, row in _scores(rng, one, 0.8).items():
        shares = (np.array(row) * 4 + 64).astype(np.int64) ** 2
        exact = np.floor(shares / shares.sum() * 1024)
        exact[0] += 1024 - exact.sum()
        rows.writerow([key, *(exact / 1024).tolist()])
    text("video-probabilities.csv", table.getvalue())
    words = _labels(one, _scores(rng, one, 0.85))
    text("video-labels.jsonl", "".join(json.dumps({"frame": k, "label": v}) + "\n" for k, v in words.items()))
    part = {key: row for key, row in _scores(rng, one, 0.9).items() if rng.random() > 0.06}
    text("video-part.json", json.dumps({**part, "nowhere/000.png": [1.0, 0.0, 0.0, 0.0, 0.0]}))
    text("subset.txt", "# videos to score\nclip 0\nclip 1\nclip 3\n05aa05bb\n")
    standard = [
        "py:models.py:logits,shade",
        "py:models.py:shares,shade",
        *(f"severity-{name},file" for name in "abcde"),
    ]
    text(
        "types.csv", "\n".join(["model,model_type,standard", *(f"{one},true" for one in standard), "third,file,no", ""])
    )
    _coco(out / "boxes-coco.json", made["boxes"], rng)
    text("votes-logits.json", json.dumps(_scores(rng, made["votes"], 0.9)))
    said = _ilsvrc_labels(made["votes"], rng)
    text("votes-ilsvrc-labels.json", json.dumps({"kind": "labels", "space": "ilsvrc-2012", "predictions": said}))
    for name, accuracy in (("a", 0.95), ("b", 0.85), ("c", 0.75), ("d", 0.65), ("e", 0.5)):
        text(f"severity-{name}.json", json.dumps(_scores(rng, made["severity"], accuracy)))
    _thousand(out / "anchor-ilsvrc.parquet", made["anchor"], rng)


def _ilsvrc_labels(folder: Folder, rng: np.random.Generator) -> dict[str, int]:
    """Return ILSVRC-2012 class numbers by frame key. Most of them are children of the right class."""
    children = strobe.projection("ilsvrc-2012", "imagenet-vid").children
    out = {}
    for place, row in enumerate(folder.tables["frames"]):
        below = children[7 * int(row["video_id"].removeprefix("vid")) % 30]
        right = below[place % len(below)] if below else 0
        out[row["key"]] = right if rng.random() < 0.85 else int(rng.integers(1000))
    return out


def _coco(path: Path, folder: Folder, rng: np.random.Generator) -> None:
    """Write COCO results by frame key and class number. Most squares are found.

    Some are moved, doubled or misclassified.
    """
    ids = folder.info["label_space"]["ids"]
    key = {row["frame_id"]: row["key"] for row in folder.tables["frames"]}
    results = []
    for row in folder.tables["boxes"]:
        if row["crowd"] or rng.random() < 0.1:
            continue
        shift = int(rng.integers(0, 3)) / 2 if rng.random() < 0.5 else 0.0
        label = ids.index(row["label"]) if rng.random() < 0.95 else 2
        box = [row["x0"] + shift, row["y0"], row["x1"] - row["x0"] - shift, row["y1"] - row["y0"]]
        for score in [0.9, 0.4][: 1 + int(rng.random() < 0.2)]:
            score = round(score - int(rng.integers(0, 16)) / 64, 6)
            results.append({"image_id": key[row["frame_id"]], "category_id": label, "bbox": box, "score": score})
    path.write_text(json.dumps(results, indent=0), encoding="utf-8")


def _thousand(path: Path, folder: Folder, rng: np.random.Generator) -> None:
    """Write a thousand logits per frame, with few distinct values so that the file stays small."""
    children = strobe.projection("ilsvrc-2012", "youtube-bb").children
    names = folder.info["label_space"]["names"]
    rows = []
    for number, row in enumerate(folder.tables["frames"]):
        scores = ((7 * number + np.arange(1000)) % 23) / 4
        right = children[names.index(("cat", "dog", "bird")[int(row["video_id"][2:]) % 3])]
        if rng.random() < 0.85:
            scores[list(right[:2])] = 7.25 + number % 5
        rows.append({"frame": row["key"], "scores": scores.tolist()})
    schema = pa.schema([("frame", pa.string()), ("scores", pa.list_(pa.float32()))])
    table = pa.Table.from_pylist(rows, schema=schema).replace_schema_metadata({"kind": "logits"})
    pq.write_table(table, path, compression="zstd")


# -- runs ----------------------------------------------------------------------------------------------------------


def command(name: str, dataset: str, run: str) -> list[str]:
    """Return the words after `strobe` that make a run."""
    about = RUNS[name]
    models = [word for model in about["models"] for word in ("-m", model)]
    more = ["--no-report"] if about["verb"] == "eval" else []
    return [about["verb"], dataset, *models, "-o", run, *about["bring"], *about["score"], *ALWAYS, *more]


def scrub(run: Path) -> None:
    """Remove machine-dependent values from run.json, remove the lock, and write long files without indentation."""
    content = json.loads((run / "run.json").read_text(encoding="utf-8"))
    content |= {"versions": {}, "command": "", "at": ""}
    content.pop("sha256", None)
    (run / "digests.json").unlink(missing_ok=True)
    content["dataset"]["path"] = "moved"
    for one in content.get("models", {}).values():
        one.pop("seconds", None)
    (run / "run.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for path in (run / "results.json", *run.glob("predictions/*/model.json")):
        plain = json.dumps(json.loads(path.read_text(encoding="utf-8")), separators=(",", ":"), ensure_ascii=False)
        path.write_text(plain + "\n", encoding="utf-8")
    (run / "predictions" / ".lock").unlink(missing_ok=True)


def main() -> int:
    if sys.argv[1:2] == ["--snapshots"]:
        print(f"{golden_snapshots.write(sys.argv[2:])} files changed")
        return 0
    out = Path(sys.argv[1]).resolve()
    if not (out / "models.py").is_file():
        raise SystemExit(f"{out} has no models.py; copy tests/golden/models.py there first")
    for name in ("datasets", "inputs", "runs"):
        shutil.rmtree(out / name, ignore_errors=True)
    made = {}
    for number, (name, make) in enumerate(MAKERS.items()):
        made[name] = make(out / "datasets" / name, np.random.default_rng(number))
        made[name].write()
    inputs(out / "inputs", made, np.random.default_rng(99))
    for name, about in RUNS.items():
        words = command(name, f"datasets/{about['dataset']}", f"runs/{name}")
        print("strobe", *words, flush=True)
        subprocess.run([sys.executable, "-m", "strobe", *words], cwd=out, check=True, stdout=subprocess.DEVNULL)
        scrub(out / "runs" / name)
    digests = {}
    for name in MAKERS:
        dataset = strobe.load_dataset(out / "datasets" / name, reviewed=False)
        digests[name] = {"digest": dataset.digest(), "frames_digest": dataset.frames_digest()}
    versions = {name: metadata.version(name) for name in ("numpy", "scipy", "pyarrow")}
    content = {"versions": versions | {"machine": platform.machine()}, "datasets": digests, "always": ALWAYS}
    text = json.dumps(content | {"runs": RUNS}, indent=1)
    (out / "made.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
