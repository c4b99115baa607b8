"""Compare ONNX Runtime, OpenVINO and torch.compile with the engine's own forward on a CPU.

    python benchmarks/cpu_backends.py [--frames 48] [--rounds 9] [--models efficientnet-lite0 …]
                                       [--candidates openvino …] [--pictures FOLDER]

Frames are decoded and prepared before timing, in batches of the model's default size, in float32. strobe's forward runs
in its lanes, as in the engine. Each candidate runs in the better of two forms: lanes of one thread each, or one forward
on all cores. Rounds alternate, so that load from other programs affects all candidates. A time is the minimum over the
rounds. A ratio is strobe's time over the candidate's (above 1, the candidate is faster). `cpu` is the same in CPU
seconds, which other programs affect less. Top-1 is compared on every frame (for a detector, the largest difference of
its outputs). Candidates that are not installed are skipped. The script prints one JSON object per model.
"""

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image as Pillow

from strobe.core.labels import space
from strobe.models.cores import cores, cpu_lanes
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan
from strobe.models.registry import load_model
from strobe.models.torch_classifier import classifier_of

MODELS = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "strobe-world", "strobe-tiny", "resnet50")
CANDIDATES = ("onnxruntime", "openvino", "torch.compile")
Forward = Callable[[torch.Tensor], np.ndarray[Any, Any]]


def resnet50() -> Any:
    """Return torchvision's ResNet-50 with random weights and a thousand classes."""
    from torchvision.models import resnet50 as network

    torch.manual_seed(0)
    plan = ImagePlan(
        size_hw=(224, 224), resize=256, divide=255.0, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
    )
    return classifier_of(
        network(weights=None), ModelName("torchvision", "resnet50"), plan=plan, label_space=space("ilsvrc-2012"),
        options=LoadOptions(device="cpu"),
    )  # fmt: skip


def frames(n: int, folder: Path | None) -> list[np.ndarray[Any, Any]]:
    """Return the images of a folder, or noise at two scales."""
    paths = sorted(
        path for path in (folder.rglob("*") if folder else ()) if path.is_file() and path.suffix in (".jpg", ".png")
    )
    if paths:
        chosen = [paths[place] for place in np.linspace(0, len(paths) - 1, min(n, len(paths))).round().astype(int)]
        return [np.array(Pillow.open(path).convert("RGB")) for path in chosen]
    rng, found = np.random.default_rng(0), []
    for _ in range(n):
        coarse, fine = (Pillow.fromarray(rng.integers(0, 256, (s, s, 3), dtype=np.uint8)) for s in (6, 60))
        mixed = 0.7 * np.asarray(coarse.resize((320, 320)), float) + 0.3 * np.asarray(fine.resize((320, 320)), float)
        found.append(mixed.astype(np.uint8))
    return found


def outputs(found: Any) -> np.ndarray[Any, Any]:
    """Return a network's outputs as one matrix, with a row per image."""
    parts = found if isinstance(found, tuple | list) else [found]
    return np.concatenate([np.asarray(part).reshape(len(part), -1) for part in parts], axis=1)


def candidates(
    names: Sequence[str], module: Any, sample: torch.Tensor, folder: Path
) -> Iterator[tuple[str, int, Forward]]:
    """Yield (name, lanes, forward of normalised pixels) for every installed runtime."""
    if "torch.compile" in names:
        for lanes in (1, cpu_lanes()):
            yield "torch.compile", lanes, compiled(module)
    path = folder / "network.onnx"
    torch.onnx.export(module, (sample.contiguous(),), str(path), input_names=["x"], dynamo=False)
    try:
        import onnxruntime

        for lanes in (1, cpu_lanes()) if "onnxruntime" in names else ():
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = max(1, cores() // lanes)
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

            def run(x: torch.Tensor, runs: Any = session) -> np.ndarray[Any, Any]:
                return outputs(runs.run(None, {"x": x.contiguous().numpy()}))

            yield "onnxruntime", lanes, run
    except ImportError:
        pass
    try:
        openvino = importlib.import_module("openvino")  # not a dependency, measured only if installed
        network = openvino.convert_model(str(path))
        for lanes in (1, cpu_lanes()) if "openvino" in names else ():
            said = {
                "INFERENCE_NUM_THREADS": cores(), "NUM_STREAMS": lanes, "INFERENCE_PRECISION_HINT": "f32",
            }  # fmt: skip
            session = openvino.Core().compile_model(network, "CPU", said)
            requests = [session.create_infer_request() for _ in range(lanes)]

            def infer(x: torch.Tensor, free: list[Any] = requests) -> np.ndarray[Any, Any]:
                one = free.pop()
                try:
                    found = one.infer([x.contiguous().numpy()])
                    return outputs([found[port].copy() for port in found])
                finally:
                    free.append(one)

            yield "openvino", lanes, infer
    except ImportError:
        pass


def compiled(module: Any) -> Forward:
    """Return the module compiled by torch.compile."""
    quick = torch.compile(module)
    return lambda x: outputs(quick(x))


def in_lanes(forward: Forward, batches: list[torch.Tensor], lanes: int) -> np.ndarray[Any, Any]:
    """Run every batch, with this many batches in parallel."""
    with torch.inference_mode():
        if lanes == 1:
            return np.concatenate([forward(one) for one in batches])

    def run(one: torch.Tensor) -> np.ndarray[Any, Any]:
        with torch.inference_mode():
            return forward(one)

    with ThreadPoolExecutor(lanes) as pool:
        return np.concatenate(list(pool.map(run, batches)))


def inputs(model: Any, pictures: list[np.ndarray[Any, Any]]) -> torch.Tensor:
    """Return the network's input, (N, 3, H, W), channels last."""
    if not hasattr(model, "plan"):  # the bundled detector normalises in a separate step
        return model.module.to_input(torch.from_numpy(np.stack([model.prepare(one)[0] for one in pictures])))
    plan = model.plan
    pixels = torch.from_numpy(np.stack([plan.prepare(one) for one in pictures])).permute(0, 3, 1, 2).float()
    mean, std = (torch.tensor(three).view(1, 3, 1, 1) for three in (plan.mean, plan.std))
    return ((pixels / plan.divide - mean) / std).contiguous(memory_format=torch.channels_last)


def measured(name: str, names: Sequence[str], pictures: list[np.ndarray[Any, Any]], rounds: int) -> dict[str, Any]:
    """Measure the engine's forward and every candidate on one model."""
    model: Any = resnet50() if name == "resnet50" else load_model(name, LoadOptions(device="cpu", backend="torch"))
    module, size = model.module, model.spec.batch_size
    pixels = inputs(model, pictures)
    batches = [pixels[start : start + size] for start in range(0, len(pixels) // size * size, size)]
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        ways = {("ours", model.lanes): lambda x: outputs(module(x))}
        ways |= {(way, lanes): forward for way, lanes, forward in candidates(names, module, batches[0], Path(folder))}
        found: dict[tuple[str, int], np.ndarray[Any, Any]] = {}
        wall: dict[tuple[str, int], list[float]] = {way: [] for way in ways}
        cpu: dict[tuple[str, int], list[float]] = {way: [] for way in ways}
        for turn in range(rounds + 1):
            for (way, lanes), forward in ways.items():
                torch.set_num_threads(max(1, cores() // lanes))
                begin, spent = time.perf_counter(), time.process_time()
                found[way, lanes] = in_lanes(forward, batches, lanes)
                if turn:  # the first is for warming up
                    wall[way, lanes].append(time.perf_counter() - begin)
                    cpu[way, lanes].append(time.process_time() - spent)
    ours = "ours", model.lanes
    n = len(batches) * size
    row: dict[str, Any] = {"model": name, "frames": n, "batch": size, "ours ms": round(1000 * min(wall[ours]) / n, 2),
                           "ours cpu ms": round(1000 * min(cpu[ours]) / n, 2)}  # fmt: skip
    for way in dict.fromkeys(way for way, _ in ways if way != "ours"):
        best = min(((way, lanes) for one, lanes in ways if one == way), key=lambda one: min(wall[one]))
        row[way] = {
            "faster": round(min(wall[ours]) / min(wall[best]), 2), "cpu": round(min(cpu[ours]) / min(cpu[best]), 2),
            "lanes": best[1],
            "same top-1": int((found[best].argmax(axis=1) == found[ours].argmax(axis=1)).sum()),
            "largest difference": float(f"{np.abs(found[best] - found[ours]).max():.2g}"),
        }  # fmt: skip
    return row


def main() -> None:
    """Print a line for every model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--candidates", nargs="+", default=CANDIDATES)
    parser.add_argument("--pictures", type=Path, default=None)
    options = parser.parse_args()
    pictures = frames(options.frames, options.pictures)
    for name in options.models:
        print(json.dumps(measured(name, options.candidates, pictures, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
