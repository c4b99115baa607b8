"""Measure how long one `strobe score` takes from process start to end, compared with its unavoidable imports.

    python benchmarks/cold.py [--rounds 7] [--before PATH] [--run RUN --dataset DATASET] [--model NAME]

PATH is another checkout (the folder with src/), timed in the same rounds. Without RUN, the script makes one model's run
on data of the demo's shape (53 sets, 1,113 frames, 1,000 classes). A warm-up round fills the page cache and compiles
modules. The script prints medians over the rounds: wall seconds, CPU seconds, and both as multiples of `import numpy,
pyarrow`. Exits with 1 if a score takes a second or more.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import strobe
from eval_time import python
from vid_shaped import dataset_of, random_scores, vid_world

ROOT = Path(__file__).parents[1]
UNIT = "import numpy, pyarrow"
LIMIT_S = 1.0


def make_run(place: Path) -> tuple[Path, Path]:
    """Make a dataset of the demo's shape, and a run with one model on it."""
    rng = np.random.default_rng(0)
    world = vid_world(rng, n_sets=53, n_classes=1000, n_frames=1113)
    dataset = dataset_of(world)
    strobe.save_dataset(dataset, place / "dataset")
    logits = random_scores(rng, world, 0.95)
    starts = np.arange(0, logits.size + 1, logits.shape[1])
    scores = pa.ListArray.from_arrays(starts, pa.array(logits.ravel()))
    table = pa.table({"frame": dataset.frames.key.tolist(), "scores": scores})
    pq.write_table(table.replace_schema_metadata({"kind": "logits"}), place / "made.parquet")
    words = [str(place / "dataset"), "-m", f"preds:{place / 'made.parquet'}", "-o", str(place / "run")]
    turn(ROOT, ["-m", "strobe", "score", *words], place / "made")
    return place / "dataset", place / "run"


def turn(tree: Path, words: list[str], cache: Path) -> tuple[float, float]:
    """Return the wall and CPU seconds that Python takes with these arguments."""
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache)}
    used = python(*words, environment={"PYTHONPATH": str(tree / "src"), **compiled})
    return used.wall_s, used.cpu_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--model")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        dataset, run = make_run(place) if arguments.run is None else (arguments.dataset, arguments.run)
        score = ["-m", "strobe", "score", str(run.resolve()), "-q"]
        score += ["--dataset", str(dataset.resolve())] if dataset else []
        score += ["-m", arguments.model] if arguments.model else []
        commands = {
            ("python -c pass", ROOT): ["-c", "pass"],
            (UNIT, ROOT): ["-c", UNIT],
            (f"{UNIT}.parquet, scipy.special", ROOT): ["-c", f"{UNIT}.parquet, scipy.special"],
        }
        for name, tree in (("", ROOT), (", before", arguments.before)):
            if tree is not None:
                commands |= {
                    (f"strobe --help{name}", tree): ["-m", "strobe", "--help"],
                    (f"strobe score --help{name}", tree): ["-m", "strobe", "score", "--help"],
                    (f"strobe score{name}", tree): score,
                }
        rounds = [
            {name: turn(tree.resolve(), words, place / f"cache-{tree.resolve() == ROOT.resolve()}")
             for (name, tree), words in commands.items()}
            for _ in range(arguments.rounds + 1)
        ][1:]  # fmt: skip
    for name, _ in commands:
        wall, cpu = (statistics.median(one[name][place] for one in rounds) for place in (0, 1))
        times = [statistics.median(one[name][place] / one[UNIT][place] for one in rounds) for place in (0, 1)]
        print(f"{name:48} {wall:6.3f} s ({times[0]:5.2f}×)   cpu {cpu:6.3f} s ({times[1]:5.2f}×)")
    return 0 if statistics.median(one["strobe score"][0] for one in rounds) < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
