"""Compare how long one `strobe eval` of real metadata takes with two source trees, in alternating rounds.

    python benchmarks/eval_time.py --before PATH --after PATH [--rounds 5] [--data FOLDER]

PATH is a checkout (the folder with src/). Both evaluate the same prediction files of random models on the same dataset,
into a new run. The dataset has ImageNet-Vid-Robust's real sets if FOLDER (default
../shared/reference/imagenet-vid-robust) contains them, otherwise simulated sets of that shape. Both trees run in every
round, in alternating order, so that load from other programs affects both. The script prints the CPU seconds, wall
seconds and peak memory of each, and the ratio after/before as the median over the rounds. It exits with 1 if the
results differ, or if the ratio of CPU time is above
--limit.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Turn:
    """One process: its CPU seconds, wall seconds and peak memory in MB."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def strobe(tree: Path, *words: str) -> Turn:
    """Run strobe of a source tree in a separate process."""
    return python("-m", "strobe", *words, environment={"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"})


def python(*words: str, environment: Mapping[str, str]) -> Turn:
    """Run Python with these arguments and changes to the environment. An empty value removes a variable."""
    given = {name: value for name, value in (os.environ | environment).items() if value}
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([sys.executable, *words], env=given, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)  # resources of this process only
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if process.returncode:
            place = environment.get("PYTHONPATH", "")
            raise SystemExit(f"{place}: python {' '.join(words[:4])} … failed: {errors.read().strip()[-500:]}")
    return Turn(cpu_s=used.ru_utime + used.ru_stime, wall_s=wall, peak_mb=_megabytes(used))


def _megabytes(used: resource.struct_rusage) -> float:
    return used.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)  # in kilobytes, except on macOS


def make_dataset(tree: Path, source: Path, target: Path) -> str:
    """Make a dataset of the real sets, or of their shape, and return its description."""
    if (source / "pmsets.json").is_file() or (source / "metadata" / "pmsets.json").is_file():
        strobe(tree, "import", "imagenet-vid-robust", str(source), str(target), "--no-media", "--quiet")
        return "ImageNet-Vid-Robust's own sets"
    code = (
        "import sys, numpy, strobe; sys.path.insert(0, sys.argv[1]); from vid_shaped import dataset_of, vid_world; "
        "strobe.save_dataset(dataset_of(vid_world(numpy.random.default_rng(0))), sys.argv[2])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", code, str(ROOT / "benchmarks"), str(target)], env=environment, check=True)
    return "simulated sets of ImageNet-Vid-Robust's shape"


def make_predictions(dataset: Path, folder: Path, *, models: int) -> list[str]:
    """Write random models of several accuracies as Parquet files: logits, probabilities and labels in turn."""
    rng = np.random.default_rng(1)
    ids = json.loads((dataset / "dataset.json").read_text(encoding="utf-8"))["label_space"]["ids"]
    frames = pq.read_table(dataset / "frames.parquet", columns=["frame_id", "key"])
    labels = pq.read_table(dataset / "labels.parquet").to_pylist()
    right = {row["frame_id"]: ids.index(row["label"]) for row in labels}
    truth = np.array([right.get(name, 0) for name in frames.column("frame_id").to_pylist()])
    folder.mkdir()
    out = []
    for number in range(models):
        scores = rng.normal(size=(len(truth), len(ids)))
        rows = np.flatnonzero(rng.random(len(truth)) < 0.9 + 0.09 * number / models)
        scores[rows, truth[rows]] = scores[rows].max(axis=1) + 1
        kind = ("logits", "probabilities", "labels")[number % 3]
        columns: dict[str, Any] = {"frame": frames.column("key")}
        if kind == "labels":
            columns["label"] = pa.array([ids[place] for place in scores.argmax(axis=1).tolist()])
        else:
            raw = np.exp(scores)
            values = raw / raw.sum(axis=1, keepdims=True) if kind == "probabilities" else scores
            starts = np.arange(0, values.size + 1, len(ids))
            columns["scores"] = pa.ListArray.from_arrays(starts, pa.array(values.ravel()))
        path = folder / f"model{number}.parquet"
        pq.write_table(pa.table(columns).replace_schema_metadata({"kind": kind}), path)
        out.append(f"preds:{path}")
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/reference/imagenet-vid-robust")
    parser.add_argument("--report", action="store_true", help="include the report; otherwise only results and tables")
    parser.add_argument("--limit", type=float, default=1.1)
    arguments = parser.parse_args()
    trees = {"before": arguments.before.resolve(), "after": arguments.after.resolve()}
    for tree in trees.values():
        if not (tree / "src/strobe/__init__.py").is_file():  # otherwise an installed strobe would be timed instead
            raise SystemExit(f"{tree} has no src/strobe")
    turns: dict[str, list[Turn]] = {"before": [], "after": []}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        what = make_dataset(trees["before"], arguments.data, place / "dataset")
        models = make_predictions(place / "dataset", place / "predictions", models=arguments.models)
        print(f"{what}, {len(models)} models, {arguments.rounds} rounds after a warm-up")
        words = [word for model in models for word in ("-m", model)] + ([] if arguments.report else ["--no-report"])
        results: dict[str, Any] = {}
        for number in range(arguments.rounds + 1):
            for name in ("before", "after") if number % 2 else ("after", "before"):
                run = place / f"{name}-{number}"
                turn = strobe(trees[name], "eval", str(place / "dataset"), *words, "-o", str(run), "--quiet")
                results[name] = json.loads((run / "results.json").read_text(encoding="utf-8"))
                if number:  # the first round reads files from the disk
                    turns[name].append(turn)
    for name, found in turns.items():
        cpu, wall, peak = (
            statistics.median(getattr(turn, field) for turn in found) for field in ("cpu_s", "wall_s", "peak_mb")
        )
        print(f"{name}: {cpu:.2f} s CPU, {wall:.2f} s wall, peak {peak:.0f} MB (medians)")
    pairs = list(zip(turns["after"], turns["before"], strict=True))
    cpu_ratio = statistics.median(after.cpu_s / before.cpu_s for after, before in pairs)
    wall_ratio = statistics.median(after.wall_s / before.wall_s for after, before in pairs)
    print(f"after/before: {cpu_ratio:.3f} CPU, {wall_ratio:.3f} wall (medians of paired rounds)")
    same = results["before"]["models"] == results["after"]["models"]
    print("the figures are the same" if same else "THE FIGURES DIFFER: run scripts/compare_results.py to list them")
    return 0 if same and cpu_ratio <= arguments.limit else 1


if __name__ == "__main__":
    sys.exit(main())
