"""Measure the time and size of a report with many models: 335 models on data of ImageNet-Vid-Robust's shape.

    python benchmarks/report_many.py OUT [--models 335] [--before PATH] [--rounds 1]

Answers are random, with accuracies from 30 to 95 % and drops of all sizes. Images are noise with the spectrum of
photos. OUT keeps the dataset and the scored run, so a second call only makes the report again. `strobe report` runs in
a separate process, also with the code of PATH (another checkout). The script prints wall seconds, CPU seconds, peak
memory, and the sizes of the page and its sources. It exits with 1 if the page takes over 60 s or 10 MB. Wall times need
an idle machine.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import strobe
from eval_time import strobe as strobe_of
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.ports import Silent
from strobe.core.tables import texts
from strobe.formats.bring import bring
from strobe.models.requested import RequestedModel
from strobe.store.opening import Opened
from strobe.store.run_folder import Run
from strobe.workflows.score import ScoreRunOptions, score_staged
from vid_shaped import dataset_of, vid_world

ROOT = Path(__file__).parents[1]
PICTURES, WIDTH, HEIGHT = 800, 500, 375
LIMIT_S, LIMIT_MB = 60.0, 10.0


def answers(dataset: Dataset, n_models: int, rng: np.random.Generator) -> dict[str, ClassAnswers]:
    """Return models for which the same sets are hard, each with its own accuracy and drop."""
    truth = np.zeros(len(dataset.frames), dtype=np.int64)
    truth[dataset.labels.frame] = dataset.labels.label
    of = np.zeros(len(truth), dtype=np.int64)
    of[dataset.sets.frame] = dataset.sets.set
    anchor = np.zeros(len(truth), dtype=bool)
    anchor[dataset.sets.anchor_frame] = True
    hard, n_classes, out = rng.random(dataset.n_sets), len(dataset.info.label_space), {}
    for number in range(n_models):
        orig = 0.3 + 0.65 * number / max(n_models - 1, 1)
        rank = np.argsort(np.argsort(hard + rng.normal(0, 0.12, dataset.n_sets))) / dataset.n_sets
        breaks = (rank < orig) & (rank >= orig * rng.uniform(0.7, 0.95))
        right = (rank < orig)[of] & ~(breaks[of] & ~anchor & (rng.random(len(truth)) < 0.35))
        other = (truth + 1 + rng.integers(0, n_classes - 1, len(truth))) % n_classes
        out[f"net-{number:03d}"] = ClassAnswers.from_labels(f"net-{number:03d}", np.where(right, truth, other))
    return out


def photo(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return coloured noise with the spectrum of photos."""
    down, across = np.fft.fftfreq(HEIGHT)[:, None], np.fft.rfftfreq(WIDTH)[None]
    fall = 1 / np.maximum(np.hypot(down, across), 1 / WIDTH) ** 1.3
    grey, *tint = (
        np.fft.irfft2(np.fft.rfft2(rng.normal(size=(HEIGHT, WIDTH))) * fall, (HEIGHT, WIDTH)) for _ in range(4)
    )
    whole = np.stack([grey + 0.3 * one for one in tint], axis=-1)
    return np.asarray(np.clip(128 + 50 * whole / whole.std(), 0, 255), dtype=np.uint8)


def make(out: Path, n_models: int) -> None:
    """Make the dataset with images, and a scored run of all models."""
    rng = np.random.default_rng(0)
    plain = dataset_of(vid_world(rng))
    (out / "dataset/frames").mkdir(parents=True)
    for number in range(PICTURES):
        Image.fromarray(photo(rng)).save(out / f"dataset/frames/{number}.jpg", quality=85)
    n = len(plain.frames)
    media = texts([f"frames/{row % PICTURES}.jpg" for row in range(n)])
    frames = replace(plain.frames, media=media, width=np.full(n, WIDTH), height=np.full(n, HEIGHT))
    strobe.save_dataset(replace(plain, frames=frames), out / "dataset")
    opened, run = Opened.of(out / "dataset"), Run(out / "run")
    files = [
        RequestedModel(name, "answers", answers=one) for name, one in answers(opened.dataset, n_models, rng).items()
    ]
    lines = [f"{one.name},{'standard' if place % 3 else 'robust'},{bool(place % 3)}" for place, one in enumerate(files)]
    (out / "types.csv").write_text("\n".join(["model,model_type,standard", *lines]), encoding="utf-8")
    request = ScoreRunOptions(options=ScoreOptions(replicates=100, control_seeds=5), types=out / "types.csv")
    begin = time.perf_counter()
    with run.stage() as stage:
        bring(opened.dataset, run, files, request, Silent(), stage=stage)
        score_staged(run, stage, opened, request, Silent(), asked_for=[one.name for one in files])
    print(f"{n_models} models scored and compared in {time.perf_counter() - begin:.1f} s")


def report(tree: Path, run: Path) -> float:
    """Run `strobe report` of a source tree and return its wall seconds."""
    used = strobe_of(tree, "report", str(run), "-q")
    page = (run / "report.html").stat().st_size / 1e6
    took = f"{used.wall_s:.1f} s wall, {used.cpu_s:.1f} s CPU"
    print(f"report: {took}, peak {used.peak_mb / 1e3:.2f} GB, page {page:.2f} MB")
    return used.wall_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=int, default=335)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    run = arguments.out / "run"
    if not (run / "results.json").is_file():
        make(arguments.out, arguments.models)
    tables = sum(path.stat().st_size for path in (run / "tables").glob("*.csv"))
    print(f"results.json {(run / 'results.json').stat().st_size / 1e6:.1f} MB, tables {tables / 1e6:.1f} MB")
    late = False
    for _ in range(arguments.rounds):
        if arguments.before is not None:
            print("before: ", end="", flush=True)
            report(arguments.before.resolve(), run)
        late |= report(ROOT, run) > LIMIT_S
    return 1 if late or (run / "report.html").stat().st_size > LIMIT_MB * 1e6 else 0


if __name__ == "__main__":
    sys.exit(main())
