"""Measure the cost of a training step: pm-k compared with 21 passes, and `finetune` compared with a bare loop.

    PYTHONPATH=src python benchmarks/train_step.py               # CPU, and GPU if available
    PYTHONPATH=src python benchmarks/train_step.py --quick       # a dry run

The plain pm-k loss runs forward and backward through every member of every set: 21 passes at k = 10. The cheap form
scores the members without gradients and trains only on the worst one. `pmk_share` is its time as a share of the 21
passes (target: at most 0.25). `finetune_share` is the speed of the full step (draw, crop, mirror, normalise, forward,
backward, optimiser) as a share of a bare loop over normalised tensors on the device (target on a GPU: at least 0.8).
Both are medians of alternating rounds, so that load from other programs affects both. The script prints one JSON
object.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from strobe.annexes.train.trainer import Normal, Trainer, quick_precision
from strobe.models.strobe_net_layers import StrobeNet
from strobe.train.pixels import Pixels
from strobe.train.recipe import find
from strobe.train.sets import TrainingSets

MEMBERS, CLASSES = 21, 12
NORMAL = Normal(255.0, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def made_sets(sets: int, side: int) -> tuple[TrainingSets, np.ndarray[Any, np.dtype[np.uint8]]]:
    """Make labelled sets of noise. The cost of a step does not depend on the pixels."""
    rng = np.random.default_rng(0)
    rows = np.arange(sets * MEMBERS)
    label = rng.integers(0, CLASSES, sets).repeat(MEMBERS)
    every = np.zeros((len(rows), CLASSES), dtype=bool)
    every[rows, label] = True
    member = rows.reshape(sets, MEMBERS)
    made = TrainingSets(frame=rows, pixel=rows, label=label, every=every, anchor=member[:, MEMBERS // 2], member=member)
    return made, rng.integers(0, 256, (len(rows), side, side, 3), dtype=np.uint8)


class Bench:
    """One device: trainers of both recipes on the same pixels, and the plain loops to compare with."""

    def __init__(self, device: str, *, batch: int, side: int, sets: int, model: str) -> None:
        self.device, self.batch = device, batch
        self.precision = "bfloat16" if device.startswith("cuda") else "float32"
        self.sets, table = made_sets(sets, side)
        self.pixels = Pixels(table, device=device)
        self._model = model
        floats = (torch.from_numpy(table).to(device).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25
        self.floats = floats.contiguous(memory_format=torch.channels_last)
        self.labels = torch.from_numpy(self.sets.label).to(device)

    def module(self) -> Any:
        torch.manual_seed(0)
        if self._model == "strobe-net":
            return StrobeNet(CLASSES)
        import timm

        return timm.create_model(self._model.removeprefix("timm:"), num_classes=CLASSES)

    def trainer(self, recipe: str, *changes: str) -> Trainer:
        """Return a trainer of a recipe with this batch size."""
        wanted = find(recipe, changes=[f"batch={self.batch}", "epochs=10000", *changes])
        scoring = quick_precision(self.device, self.precision)  # as in strobe train
        return Trainer(self.module(), wanted, self.sets, self.pixels, NORMAL, precision=self.precision, scoring=scoring)

    def bare(self) -> tuple[Any, Any]:
        """Return a network and its optimiser, like the trainer's."""
        module = self.module().to(self.device, memory_format=torch.channels_last).train()
        return module, torch.optim.AdamW(module.parameters(), lr=1e-4, fused=self.device.startswith("cuda"))

    def passes(self, module: Any, rows: Any) -> Any:
        """Return the loss of these rows, without a backward pass."""
        kind = self.device.partition(":")[0]
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=self.precision == "bfloat16"):
            scores = module(self.floats[rows])
        return functional.cross_entropy(scores.float(), self.labels[rows])

    def seconds(self, *rounds: Callable[[int], None], times: int, each: int) -> list[float]:
        """Return the median seconds of one call of each function, in alternating rounds after a warm-up."""
        found: list[list[float]] = [[] for _ in rounds]
        number = 0
        for turn in range(times + 1):
            for place, one in enumerate(rounds):
                self.wait()
                begin = time.perf_counter()
                for _ in range(each):
                    one(number)
                    number += 1
                self.wait()
                if turn:
                    found[place].append((time.perf_counter() - begin) / each)
        return [statistics.median(one) for one in found]

    def wait(self) -> None:
        """Wait until the device has finished."""
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()


def measure(bench: Bench, *, times: int, each: int) -> dict[str, Any]:
    """Return both shares on one device."""
    rng = np.random.default_rng(1)
    pmk, finetune = bench.trainer("pmk"), bench.trainer("finetune")
    plain, optimiser = bench.bare()
    whole, _ = bench.bare()

    def rows() -> Any:
        return torch.from_numpy(rng.integers(0, len(bench.labels), bench.batch)).to(bench.device)

    def all_members(_: int) -> None:
        for _member in range(MEMBERS):
            bench.passes(whole, rows()).backward()
        whole.zero_grad(set_to_none=True)

    def bare_step(_: int) -> None:
        bench.passes(plain, rows()).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    pmk_s, members_s = bench.seconds(lambda n: _do(pmk, n), all_members, times=times, each=max(1, each // 4))
    tuned_s, bare_s = bench.seconds(lambda n: _do(finetune, n), bare_step, times=times, each=each)
    name = f"cpu, {torch.get_num_threads()} threads"
    if bench.device.startswith("cuda"):
        name = torch.cuda.get_device_name()
    return {
        "device": name,
        "precision": bench.precision,
        "scoring": quick_precision(bench.device, bench.precision),
        "batch": bench.batch,
        "pmk_step_ms": round(1000 * pmk_s, 2),
        "passes_21_ms": round(1000 * members_s, 2),
        "pmk_share": round(pmk_s / members_s, 3),
        "finetune_images_s": round(bench.batch / tuned_s),
        "bare_images_s": round(bench.batch / bare_s),
        "finetune_share": round(bare_s / tuned_s, 3),
    }  # fmt: skip


def _do(trainer: Trainer, number: int) -> None:
    trainer.step(number)


def main() -> None:
    """Parse the options, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, help="number of torch threads on the CPU")
    parser.add_argument("--model", default="strobe-net", help="strobe-net, or timm:NAME")
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--device", choices=["cpu", "cuda"], help="measure only this device")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    found: dict[str, Any] = {"model": args.model, "side": args.side, "members": MEMBERS,
                             "torch": torch.__version__, "python": platform.python_version()}  # fmt: skip
    if args.device != "cuda":
        few = 8 if args.quick else 16
        bench = Bench("cpu", batch=few, side=args.side, sets=2 * few, model=args.model)
        found["cpu"] = measure(bench, times=2 if args.quick else 7, each=2 if args.quick else 4)
    if torch.cuda.is_available() and args.device != "cpu":
        bench = Bench("cuda", batch=128, side=args.side, sets=512, model=args.model)
        found["cuda"] = measure(bench, times=3 if args.quick else 9, each=10 if args.quick else 40)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
