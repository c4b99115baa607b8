"""Run the short benchmarks and compare their ratios with the recorded ratios: `make bench`.

    python scripts/bench.py [--record] [--only NAME …]
    python scripts/bench.py --page

A ratio is the time of a plain method divided by strobe's time. Both are measured in one run, so the ratio depends
little on the machine. If a ratio is more than a tenth below the recorded ratio, the script prints a line and exits with
1. `--record` writes the new ratios to benchmarks/recorded.json, with the machine and the date, and the table of all
recorded ratios into docs/performance.md. `--page` only writes this table.
"""

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "benchmarks" / "recorded.json"
PAGE = ROOT / "docs" / "performance.md"
TENTH = 0.1


@dataclass(frozen=True)
class Bench:
    """A benchmark's arguments and the pattern of its figure.

    If `over`, the figure is strobe's time over the plain time.
    """

    words: tuple[str, ...]
    pattern: str
    over: bool = False


BENCHES = {
    "50 scores, against plain Python": Bench(("benchmarks/score.py",), r"^ratio: ([\d.]+)×"),
    "detection metric, against pycocotools": Bench(
        ("benchmarks/detection_metric.py", "--sample", "100"), r'^ "ratio": ([\d.]+)'
    ),
    "strobe score, against importing numpy and pyarrow": Bench(
        ("benchmarks/cold.py", "--rounds", "3"), r"^strobe score {2,}.*cpu .*\( *([\d.]+)×\)", over=True
    ),
    "build of a video, against a bare PyAV loop": Bench(
        ("benchmarks/build.py", "--rounds", "1"), r"^build over bare loop \(cpu\) +([\d.]+)", over=True
    ),
    "one anchor, against decoding its clip": Bench(
        ("benchmarks/build.py", "--rounds", "1"), r"^speed-up over decoding \(cpu\) +([\d.]+)"
    ),
}


def ratio_of(bench: Bench, output: str) -> float:
    """Return the plain time divided by strobe's time, from the output of a benchmark.

    >>> ratio_of(Bench((), r"^took ([\\d.]+) times", over=True), "took 4 times as long")
    0.25
    """
    found = re.search(bench.pattern, output, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{' '.join(bench.words)} printed no ratio ({bench.pattern}):\n{output}")
    return 1 / float(found[1]) if bench.over else float(found[1])


def fallen(ratios: dict[str, float], recorded: dict[str, dict[str, object]]) -> list[str]:
    """Return a line for each ratio that is more than a tenth below the recorded ratio.

    >>> fallen({"a": 80.0, "b": 95.0}, {"a": {"ratio": 100}, "b": {"ratio": 100}})
    ['a: 80 now, 100 recorded (20 % lower)']
    """
    out = []
    for name, ratio in ratios.items():
        before = float(str(recorded[name]["ratio"])) if name in recorded else 0.0
        if ratio < (1 - TENTH) * before:
            out.append(f"{name}: {ratio:.3g} now, {before:.3g} recorded ({100 * (1 - ratio / before):.0f} % lower)")
    return out


def table(recorded: dict[str, dict[str, object]]) -> str:
    """Return the recorded ratios as a Markdown table.

    >>> print(table({"a, against b": {"ratio": 0.75, "machine": "2 cores", "date": "2026-01-31"}}))
    | benchmark | ratio | machine |
    |---|---|---|
    | a, against b | 0.75 | 2 cores |
    """
    rows = (f"| {name} | {record['ratio']} | {record['machine']} |" for name, record in recorded.items())
    return "\n".join(["| benchmark | ratio | machine |", "|---|---|---|", *rows])


def write_page(recorded: dict[str, dict[str, object]]) -> None:
    """Replace the table of ratios in docs/performance.md."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(r"(?m)^\| benchmark \|(?:.*\n\|)+.*", lambda _: table(recorded), page), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks. Return 1 if a ratio fell by more than a tenth."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write the ratios to benchmarks/recorded.json")
    parser.add_argument("--only", nargs="+", choices=list(BENCHES), default=list(BENCHES))
    parser.add_argument("--page", action="store_true", help="only write the table of docs/performance.md")
    options = parser.parse_args(arguments)
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    if options.page:
        write_page(recorded)
        return 0
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    outputs: dict[tuple[str, ...], str] = {}
    ratios: dict[str, float] = {}
    for name in options.only:
        bench = BENCHES[name]
        if bench.words not in outputs:
            outputs[bench.words] = subprocess.run(
                [sys.executable, *bench.words], cwd=ROOT, env=settings, stdout=subprocess.PIPE, text=True, check=False
            ).stdout
        ratios[name] = ratio_of(bench, outputs[bench.words])
        before = f"{float(recorded[name]['ratio']):8.3g} recorded" if name in recorded else "nothing recorded"
        print(f"{name:52} {ratios[name]:8.3g}   {before}", flush=True)
    lines = fallen(ratios, recorded)
    for line in lines:
        print(f"fell by more than a tenth: {line}")
    if options.record:
        machine = f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.0f}"
        date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        new = {
            name: {"ratio": float(f"{ratio:.3g}"), "machine": machine, "date": date} for name, ratio in ratios.items()
        }
        recorded |= new
        RECORDED.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        write_page(recorded)
        return 0
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
