"""Measure time and memory for a million sets of another format: import, check, inspect and score.

    python benchmarks/growth_sets.py FOLDER [--sets 10000,100000,1000000] [--keep]

The script makes a release in ImageNet-Vid-Robust's layout in FOLDER (metadata/pmsets.json and labels.json, no images;
four sets per video, three frames per set), and a file with one class per frame. Each step is a command in a separate
process: `import`, `check`, `inspect`, `score` (`strobe score DATA -m preds:FILE -o RUN`) and `again` (`strobe score
RUN`). `check` is `strobe inspect` without the recorded checks in dataset.json, so that strobe checks every rule again.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from growth import step

SETS_A_VIDEO = 4


def make(release: Path, n_sets: int) -> None:
    """Write the release line by line, and predictions that are right nine times in ten."""
    (release / "metadata").mkdir(parents=True)
    rng = np.random.default_rng(0)
    truth = rng.integers(30, size=n_sets)
    labels = (release / "metadata/labels.json").open("w")
    sets = (release / "metadata/pmsets.json").open("w")
    labels.write("{")
    sets.write("{")
    keys: list[str] = []
    for row in range(n_sets):
        video, at = f"val/video_{row // SETS_A_VIDEO:07d}", 10 * (row % SETS_A_VIDEO + 1)
        low, anchor, high = own = [f"{video}/{at + step:06d}.JPEG" for step in (-1, 0, 1)]
        comma = "," if row else ""
        labels.write(comma + ",".join(f'"{key}":[{truth[row]}]' for key in own))
        sets.write(f'{comma}"{anchor}":["{low}","{high}"]')
        keys += own
    labels.write("}")
    sets.write("}")
    labels.close()
    sets.close()
    said = np.where(rng.random(3 * n_sets) < 0.9, np.repeat(truth, 3), rng.integers(30, size=3 * n_sets))
    pq.write_table(pa.table({"frame": keys, "label": said}), release / "answers.parquet")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default="10000,100000,1000000")
    parser.add_argument("--keep", action="store_true", help="keep the files in FOLDER")
    arguments = parser.parse_args()
    rows = []
    for n in map(int, arguments.sets.split(",")):
        release, data, run = (arguments.folder / f"{name}-{n}" for name in ("release", "data", "run"))
        make(release, n)
        given = str(release), str(data), "--no-media"
        rows.append(step("import", n, "-m", "strobe", "import", "imagenet-vid-robust", *given))
        said = (data / "dataset.json").read_text(encoding="utf-8")
        without = {name: value for name, value in json.loads(said).items() if name != "checked"}
        (data / "dataset.json").write_text(json.dumps(without), encoding="utf-8")
        rows.append(step("check", n, "-m", "strobe", "inspect", str(data)))
        (data / "dataset.json").write_text(said, encoding="utf-8")
        rows.append(step("inspect", n, "-m", "strobe", "inspect", str(data)))
        answers = f"preds:{release / 'answers.parquet'}"
        rows.append(step("score", n, "-m", "strobe", "score", str(data), "-m", answers, "-o", str(run)))
        rows.append(step("again", n, "-m", "strobe", "score", str(run)))
        if not arguments.keep:
            for made in (release, data, run):
                shutil.rmtree(made)
    (arguments.folder / "growth_sets.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
