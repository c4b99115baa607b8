"""Measure `strobe view` in Chromium on a made-up dataset: 100,000 sets × 10 models.

    python benchmarks/view.py OUT [--sets 100000] [--models 10] [--rounds 5]

Answers are random, with accuracies from 50 to 95 %, and every model has probabilities. Images are noise with the
spectrum of photos. OUT keeps the dataset and the scored run, so a second call only measures. The script starts the
server as a user does and drives it with Playwright. It prints the seconds until the first screen is complete, the time
of a change of filter in the browser and on the server, the longest time that a visible thumbnail stays blank while the
grid scrolls, and the peak memory of the server. It exits with 1 if a limit of issue 32 is exceeded. Times need an idle
machine.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import strobe
from report_many import photo
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.core.tables import Frames, Hints, Labels, Sets, Videos, texts
from strobe.formats.bring import bring
from strobe.models.requested import RequestedModel
from strobe.store.opening import Opened
from strobe.store.run_folder import Run
from strobe.workflows.score import ScoreRunOptions, score_staged

ROOT = Path(__file__).parents[1]
PICTURES, CLASSES, PER_VIDEO, K = 800, 20, 50, 2
FIRST_S, FILTER_S, BLANK_S, MEMORY_MB = 2.0, 0.3, 0.2, 1000.0


def dataset_of(n_sets: int, rng: np.random.Generator) -> Dataset:
    """Return sets of five consecutive frames, fifty to a video, so that every video is covered."""
    width, n_videos = 2 * K + 1, -(-n_sets // PER_VIDEO)
    n, zeros = n_sets * width, np.zeros(n_sets * width, dtype=np.int64)
    owner = np.repeat(np.arange(n_sets), width)
    video, index = owner // PER_VIDEO, np.arange(n) % (PER_VIDEO * width)
    offset = np.tile(np.arange(-K, K + 1), n_sets)
    names = texts([f"clip{number:05d}" for number in range(n_videos)])
    label = rng.integers(0, CLASSES, n_videos)[video]
    space = LabelSpace(
        name="made", ids=tuple(f"c{i:02d}" for i in range(CLASSES)), names=tuple(f"class {i}" for i in range(CLASSES))
    )
    return Dataset(
        info=DatasetInfo(name=f"made-{n_sets}", label_space=space, k=K),
        videos=Videos(
            video_id=names,
            name=names,
            fps_num=np.full(n_videos, 30),
            fps_den=np.ones(n_videos, dtype=np.int64),
            n_frames=np.full(n_videos, PER_VIDEO * width),
            path=texts([""] * n_videos),
            codec=texts([""] * n_videos),
        ),
        frames=Frames(
            video=video,
            index=index,
            key=texts([f"clip{v:05d}/{i:06d}" for v, i in zip(video.tolist(), index.tolist(), strict=True)]),
            pts=zeros,
            time_num=index,
            time_den=zeros + 30,
            pict_type=texts([""] * n),
            width=zeros + 500,
            height=zeros + 375,
            sha256=texts([""] * n),
            media=texts([f"frames/{row // width % PICTURES}.jpg" for row in range(n)]),
        ),
        sets=Sets(
            set_id=texts([f"clip{one // PER_VIDEO:05d}@{one % PER_VIDEO}" for one in range(n_sets)]),
            set=owner,
            frame=np.arange(n),
            distance=offset.astype(float),
            is_anchor=offset == 0,
        ),
        labels=Labels(frame=np.arange(n), label=label),
        hints=Hints(
            cut=np.where(offset == 0, 0.0, rng.random(n) ** 8),
            blur=np.where(offset == 0, 0.0, rng.normal(0, 0.4, n)),
            motion=np.where(offset == 0, 0.0, rng.random(n) * 6),
            exposure=np.where(offset == 0, 0.0, rng.normal(0, 0.05, n)),
            duplicate=(rng.random(n) < 0.02) & (offset != 0),
        ),
    )


def answers(dataset: Dataset, n_models: int, rng: np.random.Generator) -> Iterator[ClassAnswers]:
    """Yield models for which the same sets are hard, each with its own accuracy and drop."""
    n, truth = len(dataset.frames), dataset.labels.label
    of, hard = dataset.sets.set, rng.random(dataset.n_sets)
    for number in range(n_models):
        orig = 0.5 + 0.45 * number / max(n_models - 1, 1)
        rank = np.argsort(np.argsort(hard + rng.normal(0, 0.12, dataset.n_sets))) / dataset.n_sets
        breaks = (rank < orig) & (rank >= orig * rng.uniform(0.7, 0.95))
        right = (rank < orig)[of] & ~(breaks[of] & ~dataset.sets.is_anchor & (rng.random(n) < 0.35))
        said = np.where(right, truth, (truth + 1 + rng.integers(0, CLASSES - 1, n)) % CLASSES)
        shares: NDArray[np.float32] = rng.random((n, CLASSES), dtype=np.float32)
        shares[np.arange(n), said] += rng.random(n, dtype=np.float32) * 12 + 1
        shares /= shares.sum(axis=1, keepdims=True)
        yield ClassAnswers.from_scores(f"net-{number:02d}", shares, kind="probabilities")


def make(out: Path, n_sets: int, n_models: int) -> None:
    """Make the dataset with images, and a scored run of all models."""
    rng = np.random.default_rng(0)
    dataset = dataset_of(n_sets, rng)
    (out / "dataset/frames").mkdir(parents=True)
    for number in range(PICTURES):
        Image.fromarray(photo(rng)).save(out / f"dataset/frames/{number}.jpg", quality=85)
    strobe.save_dataset(dataset, out / "dataset")
    opened, run, begin = Opened.of(out / "dataset"), Run(out / "run"), time.perf_counter()
    request = ScoreRunOptions(options=ScoreOptions(replicates=100, control_seeds=5))
    with run.stage() as stage:
        names = []
        for one in answers(opened.dataset, n_models, rng):
            names.append(one.model)
            files = [RequestedModel(one.model, "answers", answers=one)]
            bring(opened.dataset, run, files, request, Silent(), stage=stage)
        score_staged(run, stage, opened, request, Silent(), asked_for=names)
    print(f"{n_models} models scored on {n_sets} sets in {time.perf_counter() - begin:.0f} s")


@contextmanager
def server(*places: Path) -> Iterator[tuple[str, subprocess.Popen[str], float]]:
    """Run `strobe view` as a user does. Yield its link, its process and the seconds until the link was printed."""
    command = [sys.executable, "-m", "strobe", "view", *map(str, places), "--port", "0", "--no-open"]
    begin = time.perf_counter()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    try:
        line = process.stdout.readline() if process.stdout else ""
        yield line.split()[-1], process, time.perf_counter() - begin
    finally:
        process.terminate()
        process.wait(20)


def peak_mb(process: subprocess.Popen[str]) -> float:
    """Return the peak memory of a process in MB, read from the system (Linux)."""
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def cpu_s(process: subprocess.Popen[str]) -> float:
    """Return the processor time of a process in seconds (Linux). Unlike a wall time, it hardly depends on the load."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


_SETTLED = "() => document.body.dataset.state === 'ready' && !document.querySelector('.cell.blank')"

_BLANK = """async ({places, pause}) => {
  const box = document.getElementById('grid'), one = box.querySelector('.cell'), since = new Map();
  const tall = one.offsetHeight + 10, wide = one.offsetWidth + 10, live = { on: true, worst: 0 };
  const columns = Math.round((box.querySelector('.inner').offsetWidth + 10) / wide);
  const look = () => {
    const now = performance.now(), seen = new Set();
    const first = Math.floor(box.scrollTop / tall), last = Math.floor((box.scrollTop + box.clientHeight - 24) / tall);
    const shown = new Map([...box.querySelectorAll('.cell')].map((cell) => [Number(cell.dataset.place), cell]));
    for (let place = first * columns; place < (last + 1) * columns; place += 1) {
      const image = shown.get(place)?.querySelector('img');
      if (image?.complete && image.naturalWidth) continue;
      seen.add(place);
      if (!since.has(place)) since.set(place, now);
      live.worst = Math.max(live.worst, now - since.get(place));
    }
    for (const key of [...since.keys()]) if (!seen.has(key)) since.delete(key);
    if (live.on) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  for (const place of places) {
    box.scrollTop = place < 1 ? box.scrollTop + box.clientHeight * place : place;
    await new Promise((done) => setTimeout(done, pause));
  }
  live.on = false;
  return live.worst;
}"""
"""The longest time for which a visible place had no image. A place below 1 scrolls by that share of a screen."""


def measure(link: str, process: subprocess.Popen[str], rounds: int) -> dict[str, float]:
    """Open the page, change filters and scroll. Return seconds by name."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("STROBE_CHROMIUM") or shutil.which("chromium")
    out: dict[str, float] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        page: Any = browser.new_page(viewport={"width": 1280, "height": 900})
        begin, used = time.perf_counter(), cpu_s(process)
        page.goto(link.replace("/#", "/?page=sets#"))
        page.wait_for_function(_SETTLED)
        out["first screen"] = time.perf_counter() - begin
        out["first screen, processor time of the server"] = cpu_s(process) - used
        used = cpu_s(process)
        took, on_server = [], []
        for number in range(rounds):
            query = f"net-{number:02d}"
            found = page.evaluate(
                """async (model) => {
                  const begin = performance.now();
                  await window.strobeView.toggle('m', `${model}:breaks`);
                  const drawn = performance.now() - begin;
                  const asked = performance.now();
                  await (await fetch('/api/sets' + location.search + '&facets=1&limit=60')).json();
                  return [drawn, performance.now() - asked];
                }""",
                query,
            )
            took.append(found[0] / 1000)
            on_server.append(found[1] / 1000)
        # Each round asks the server twice.
        out["filter, processor time of the server"] = (cpu_s(process) - used) / (2 * rounds)
        out["filter, median"], out["filter, slowest"] = statistics.median(took), max(took)
        out["filter on the server, slowest"] = max(on_server)
        page.goto(link.split("#")[0] + "?page=sets")
        page.wait_for_function(_SETTLED)
        out["blank, longest"] = page.evaluate(_BLANK, {"places": [0.35] * 40, "pause": 150}) / 1000
        jumps = [page.evaluate(_BLANK, {"places": [200_000 * one], "pause": 1500}) / 1000 for one in range(1, 10)]
        out["blank after a jump, median"] = statistics.median(jumps)
        browser.close()
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", type=int, default=100_000)
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--make-only", action="store_true")
    arguments = parser.parse_args()
    if not (arguments.out / "run/results.json").is_file():
        make(arguments.out, arguments.sets, arguments.models)
    if arguments.make_only:
        return 0
    with server(arguments.out) as (link, process, start_s):
        found = {"start of the server": start_s, **measure(link, process, arguments.rounds)}
        found["memory, MB"] = peak_mb(process)
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=1))
    late = found["first screen"] > FIRST_S or found["filter, slowest"] > FILTER_S
    return 1 if late or found["blank, longest"] > BLANK_S or found["memory, MB"] > MEMORY_MB else 0


if __name__ == "__main__":
    sys.exit(main())
