"""Run the study of docs/annexes/generators.md: how far a generator's activations must change until classifiers err.

    PYTHONPATH=src python benchmarks/generator_study.py OUT                            # both datasets, 1,000 images
    each PYTHONPATH=src python benchmarks/generator_study.py OUT --images 12 --device cpu   # a dry run PYTHONPATH=src
    python benchmarks/generator_study.py OUT --restarts 3               # four tries per search PYTHONPATH=src python
    benchmarks/generator_study.py OUT --data mnist --granularity pixel --restarts 3   # one cell PYTHONPATH=src python
    benchmarks/generator_study.py OUT --draw docs/images         # figures and tables from OUT

`strobe vary generator` searches the shipped generators (the synthetic world, MNIST) at every granularity against the
standard, the ℓ∞-trained and the ℓ2-trained classifier. `strobe eval --judge` scores the findings. Each dataset has its
own process. The script writes OUT/NAME.json.gz (results.json, acceptance, times, magnitudes of random directions),
OUT/NAME-strips.json (the report's strips) and, if the report can be made, OUT/NAME-report.html. Datasets stay in
--work.
"""

import argparse
import gzip
import json
import multiprocessing
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

DATA = {
    "world": ("strobe-gan", "strobe-world"),
    "mnist": ("strobe-gan-mnist", "strobe-mnist"),
}
"""The generator of each dataset, and the prefix of its classifiers' names."""

ROLES = {"standard": "", "linf": "-linf", "l2": "-l2"}
JUDGE = "judge"


def study(name: str, args: argparse.Namespace) -> None:
    """Search, score and write the results of one dataset."""
    from strobe.analyses.plan import ScoreOptions
    from strobe.annexes.generators.workflow import VaryGeneratorOptions, vary_generator
    from strobe.core.codec import encode
    from strobe.engine.running import Running
    from strobe.models.options import LoadOptions
    from strobe.workflows.evaluate import evaluate
    from strobe.workflows.score import ScoreRunOptions

    talk, begin = _talk(name), time.monotonic()
    generator, stem = DATA[name]
    targets = [f"{role}={_spec(f'{stem}{tail}', args)}" for role, tail in ROLES.items()]
    folder, run = args.work / name / "dataset", args.work / name / "run"
    load = LoadOptions(device=args.device, batch_size=args.batch_size)
    options = VaryGeneratorOptions(
        images=args.images, granularity=tuple(args.granularity), strips=args.strips, seed=args.seed, changes=False,
        steps=args.steps, restarts=args.restarts, name=name,
    )  # fmt: skip
    searched = vary_generator(folder, _spec(generator, args), targets, options, load=load, progress=talk)
    searched_s = time.monotonic() - begin
    talk.note(f"search finished: {len(searched.dataset.frames)} images")
    evaluation = evaluate(
        folder,
        [*targets, f"{JUDGE}={_spec(f'{stem}-{JUDGE}', args)}"],
        run,
        prediction=Running.of(load),
        request=ScoreRunOptions(options=ScoreOptions(judges=(JUDGE,))),
        progress=talk,
    )
    talk.note(f"scored; report: {evaluation.report or evaluation.no_report}")
    record = {
        "data": name,
        "images": args.images,
        "seconds": {"search": round(searched_s, 1), "all": round(time.monotonic() - begin, 1)},
        "machine": _machine(),
        "provenance": dict(searched.dataset.info.provenance),
        "random": _random(folder),
        "results": encode(evaluation.results),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    with gzip.open(args.out / f"{name}.json.gz", "wt", encoding="utf-8") as file:
        json.dump(record, file)
    strips = _strips(folder, run, evaluation.results)
    (args.out / f"{name}-strips.json").write_text(json.dumps(strips), encoding="utf-8")
    if evaluation.report is not None:
        shutil.copy(evaluation.report, args.out / f"{name}-report.html")
    talk.note(f"results written after {time.monotonic() - begin:.0f} s")


def _spec(name: str, args: argparse.Namespace) -> str:
    """Return a shipped model or generator, or the one in the folder of weights."""
    if args.weights is None:
        return name
    places = (args.weights / f"{name}.safetensors", args.weights / name / "model.safetensors")
    return f"{name}@{next((one for one in places if one.is_file()), places[0])}"


def _talk(name: str) -> Any:
    from strobe.core.ports import Silent

    begin = time.monotonic()

    class Talk(Silent):
        """Prints notes with the dataset and the time."""

        def note(self, text: str) -> None:
            print(f"{name:6} {time.monotonic() - begin:6.1f} s  {text}", flush=True)

    return Talk()


def _machine() -> dict[str, str]:
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return {"device": device, "torch": torch.__version__, "python": platform.python_version()}


def _random(folder: Path) -> dict[str, dict[str, float]]:
    """Return, per search, how much further a random direction goes than the finding, and the share that never errs.

    The first is a median that counts directions without an error as infinite.
    """
    from strobe.annexes.generators.record import read_record

    rows: dict[str, list[tuple[float, float]]] = {}
    for row in read_record(folder):
        if row["status"] == "found":
            far = row["random_reach"]
            rows.setdefault(row["variant"], []).append((row["magnitude"], np.inf if far is None else float(far)))
    out = {}
    for variant, pairs in rows.items():
        ratio = np.array([far / size for size, far in pairs])
        middle = float(np.median(ratio))
        out[variant] = {
            "n": len(ratio), "ratio": middle if np.isfinite(middle) else -1.0,
            "never": float(np.isinf(ratio).mean()), "sooner": float((ratio < 1).mean()),
        }  # fmt: skip
    return out


def _strips(folder: Path, run: Path, results: Any) -> Any:
    from strobe.annexes.generators.study.chapter import build_strips
    from strobe.annexes.generators.study.words import granular
    from strobe.report.view import View
    from strobe.store import dataset_folder as dataset_folder
    from strobe.store.opening import frame_source
    from strobe.store.run_folder import Run

    dataset = dataset_folder.read(folder)
    searched = granular(View(results=results))
    if searched is None:
        return {}
    answers = {model.name: model.load() for model in Run(run).models(dataset, allow_missing=True)}
    return build_strips(dataset, searched, frame_source(dataset), answers) or {}


def main() -> int:
    """Parse the options, and run each dataset in a separate process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA))
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--granularity", nargs="*", default=("latent", "coarse", "middle", "fine", "pixel", "all"))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--restarts", type=int, default=0, help="further tries of each search, from random directions")
    parser.add_argument("--strips", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--weights", type=Path, help="a folder of NAME.safetensors or NAME/model.safetensors")
    parser.add_argument("--work", type=Path, help="folder for datasets; default: a temporary folder")
    parser.add_argument("--draw", type=Path, help="only draw figures from OUT into this folder")
    args = parser.parse_args()
    if args.draw:
        from generator_figures import draw

        draw(args.out, args.draw)
        return 0
    args.work = args.work or Path(tempfile.mkdtemp(prefix="generator-study-"))
    if len(args.data) == 1:
        study(args.data[0], args)
        return 0
    fresh = multiprocessing.get_context("spawn")
    workers = [fresh.Process(target=study, args=(name, args)) for name in args.data]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    return max(one.exitcode or 0 for one in workers)


if __name__ == "__main__":
    sys.exit(main())
