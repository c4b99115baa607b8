"""All figures that the documentation gives for a GPU, each beside its limit and its peers from the same run.

    PYTHONPATH=src python benchmarks/gpu_table.py CLIPS              # six minutes; CLIPS is from gpu_video.py make
    PYTHONPATH=src python benchmarks/gpu_table.py CLIPS --record     # also writes the ratios to recorded.json

It runs predict_gpu.py, gpu_video.py and train_photos.py, prints a table, and writes their JSON to `--out`. A rate is in
images or frames per second. A script that fails leaves its rows out and its last line in the table.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.json"
Row = tuple[str, str, float, str, float]
"""The work, the name and rate of a limit or peer, and the name and rate of strobe."""


def of_training(told: dict[str, Any]) -> list[Row]:
    """Return the rows of train_photos.py."""
    photos, tuned, bare = told["photos"]["images/s"], told["finetune"], told["bare"]
    handed = told["handed"]
    return [
        ("train photos from JPEG files", "bare step", bare, "strobe", photos),
        ("train photos from JPEG files", "timm's loader and loop", told["timm"], "strobe", photos),
        ("photos handed over, no network", "timm's loader", handed["timm's loader"][0], "strobe", handed["strobe"][0]),
        ("finetune, packed 720p", "bare step", bare, "prepared once", tuned["prepared once"]["images/s"]),
        ("finetune, packed 720p", "bare step", bare, "read at every step", tuned["read at every step"]["images/s"]),
    ]


def of_predicting(told: dict[str, Any]) -> list[Row]:
    """Return the rows of predict_gpu.py."""
    compiled, exact = told["device"]["compiled"]["now"]["images/s"], told["exact"]["now"]["images/s"]
    alone = told["exact"]["alone"]
    fast, slow = "predict JPEG, decoded on the device, compiled", "predict JPEG, exact"
    return [
        (fast, "bare compiled", told["bare"]["compiled"], "strobe", compiled),
        (fast, "bare eager", told["bare"]["eager"], "strobe", compiled),
        (fast, "DataLoader and PIL", told["loader"], "strobe", compiled),
        (slow, "decoding alone", alone["decoded"][0], "strobe", exact),
        (slow, "decoding, resized on the device", alone["and resized on the device"][0], "strobe", exact),
    ]


def of_videos(told: dict[str, Any]) -> list[Row]:
    """Return the rows of gpu_video.py."""
    own, alone = told["reference, gop 30"], told["bare engines, 8 sessions, gop 30"]
    name = f"own 720p video (--reference), {own['frames']:,} frames"
    return [
        (name, "NVDEC alone, 8 sessions", alone, "whole", own["frames/s"]),
        (name, "NVDEC alone, 8 sessions", alone, "second half", own["in the second half"]),
        (name, "NVDEC alone, 4 processes", told["bare engines, 4 processes of 4"], "whole", own["frames/s"]),
        ("packed 720p", "decoding alone", told["zstd alone, all cores"], "strobe", told["packed"]["frames/s"]),
    ]


def ran(script: str, words: list[str], out: Path, rows_of: Callable[[dict[str, Any]], list[Row]]) -> list[Row] | str:
    """Run a script and return its rows, or why there are none."""
    path = out / script.replace(".py", ".json")
    begin = time.perf_counter()
    command = [sys.executable, str(HERE / script), *words, "--out", str(path)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    print(f"{script}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    try:
        return rows_of(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{script}: exit code {done.returncode}, no figures ({type(error).__name__}: {error})"


def main() -> None:
    """Run the scripts, print the table, and record the ratios on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", type=Path)
    parser.add_argument("--frames", type=int, default=49152)
    parser.add_argument("--only", nargs="+", choices=["predict", "video", "train"])
    parser.add_argument("--parts", help="parts of the one script in --only")
    parser.add_argument("--out", type=Path, help="folder for the JSON of the scripts")
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="strobe-table-"))
    out = args.out or root
    first, frames = str(args.frames // 3), str(args.frames)
    predict = ["--frames", frames, "--first", first, "--root", str(root)]
    scripts = {
        "train": ("train_photos.py", ["--photos", str(args.frames // 2), "--root", str(root)], of_training),
        "predict": ("predict_gpu.py", [*predict, "--parts", args.parts or "bare,device,exact,loader"], of_predicting),
        "video": (
            "gpu_video.py",
            ["run", str(args.clips), "--parts", args.parts or "bare,reference,packed"],
            of_videos,
        ),
    }
    lines, ratios = [], {}
    for name in args.only or scripts:
        script, words, rows_of = scripts[name]
        rows = ran(script, words, out, rows_of)
        if isinstance(rows, str):
            lines.append(rows)
            continue
        for work, peer, limit, ours, rate in rows:
            lines.append(f"| {work} | {peer} {limit:,.0f} | {ours} {rate:,.0f} | {rate / limit:.2f} |")
            ratios[f"{work}: {ours}, against {peer}"] = rate / limit
    print("| work | limit or peer | strobe | ratio |\n|---|---|---|---|")
    print("\n".join(lines))
    if args.record:
        recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
        about = {"machine": f"GPU, {os.cpu_count()} cores", "date": datetime.datetime.now(tz=datetime.UTC).date()}
        new = {name: {"ratio": float(f"{ratio:.3g}"), **about} for name, ratio in ratios.items()}
        text = json.dumps({**recorded, **new}, indent=1, ensure_ascii=False, default=str)
        RECORDED.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
