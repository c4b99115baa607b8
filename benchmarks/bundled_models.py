"""Compare the bundled classifiers on ONNX Runtime (the default) and on PyTorch: answers and speed.

    python benchmarks/bundled_models.py strobe-demo/dataset [--models efficientnet-lite0 …] [--timed 96] [--rounds 5]

Both get the same prepared pixels, in batches of the model's default size, in as many lanes as the engine uses. The
timed rounds alternate, so that load from other programs affects both. The time is the smallest of the rounds, in
wall-clock and in processor seconds. The script prints one JSON object per model, with the frames whose top-1 differs
and their margins.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from strobe.models.cores import sharing_cores
from strobe.models.lite import SIZES
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.store.opening import Opened, frame_source

Scores = np.ndarray[Any, Any]


def forward_all(model: Any, prepared: list[Any]) -> Scores:
    """Return the scores of all prepared images, in the model's lanes."""
    size = model.spec.batch_size
    batches = [prepared[begin : begin + size] for begin in range(0, len(prepared), size)]
    with sharing_cores([model]), ThreadPoolExecutor(model.lanes) as lanes:
        return np.concatenate(list(lanes.map(model.forward, batches)))


def margin(scores: Scores) -> float:
    """Return by how much the best score exceeds the second."""
    second, best = np.sort(scores)[-2:]
    return float(best - second)


def compare(name: str, dataset: Path, *, timed: int, rounds: int) -> dict[str, Any]:
    """Return the comparison of both runtimes for one model."""
    opened = Opened.of(dataset).dataset
    source, rows = frame_source(opened), range(len(opened.frames))
    models = {"onnxruntime": "auto", "torch": "torch"}
    loaded: dict[str, Any] = {
        runtime: load_model(name, LoadOptions(device="cpu", backend=backend)) for runtime, backend in models.items()
    }
    prepared = [loaded["onnxruntime"].prepare(source.read(row)) for row in rows]
    scores = {runtime: forward_all(model, prepared) for runtime, model in loaded.items()}
    best = {runtime: one.argmax(axis=1) for runtime, one in scores.items()}
    differing = np.flatnonzero(best["onnxruntime"] != best["torch"])
    seconds: dict[str, list[tuple[float, float]]] = {runtime: [] for runtime in loaded}
    chosen = [prepared[row] for row in np.linspace(0, len(prepared) - 1, timed).round().astype(int)]
    for _ in range(rounds):
        for runtime, model in loaded.items():
            begin, used = time.perf_counter(), time.process_time()
            forward_all(model, chosen)
            seconds[runtime].append((time.perf_counter() - begin, time.process_time() - used))
    wall = {runtime: timed / min(one for one, _ in pairs) for runtime, pairs in seconds.items()}
    processor = {runtime: timed / min(one for _, one in pairs) for runtime, pairs in seconds.items()}
    return {
        "model": name,
        "frames": len(prepared),
        "same_top1": int(len(prepared) - len(differing)),
        "differing": [
            {"frame": int(row), **{f"margin_{runtime}": margin(one[row]) for runtime, one in scores.items()}}
            for row in differing
        ],
        "largest_difference": float(np.abs(scores["onnxruntime"] - scores["torch"]).max()),
        "smallest_margin": min(margin(one) for one in scores["torch"]),
        "frames_per_s": {runtime: round(one, 1) for runtime, one in wall.items()},
        "frames_per_processor_s": {runtime: round(one, 1) for runtime, one in processor.items()},
        "ratio": round(wall["onnxruntime"] / wall["torch"], 2),
        "ratio_processor": round(processor["onnxruntime"] / processor["torch"], 2),
        "timed": timed,
        "rounds": rounds,
    }


def main() -> None:
    """Compare every model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--models", nargs="+", default=list(SIZES))
    parser.add_argument("--timed", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for name in options.models:
        print(json.dumps(compare(name, options.dataset, timed=options.timed, rounds=options.rounds)), flush=True)


if __name__ == "__main__":
    main()
