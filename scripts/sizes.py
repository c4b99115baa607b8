"""Measure what extras take on disk: each is installed with pip into an empty environment, in a temporary folder.

python scripts/sizes.py                    measure the extras of docs/performance.md
python scripts/sizes.py demo demo,review   measure these
python scripts/sizes.py --write            also write the table into docs/performance.md
python scripts/sizes.py demo --most 820    exit with 1 if one takes more MB, or has torch

MB are those of `du -sm`, of the whole environment: packages, their compiled files, strobe, pip.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/performance.md"
EXTRAS = ("", "report", "onnx", "video", "review", "demo", "demo,review", "quick", "models", "demo,models")
LARGEST = """
from importlib.metadata import distributions
paths = {one.name: [file.locate() for file in one.files or []] for one in distributions()}
size = {name: sum(path.stat().st_size for path in found if path.is_file()) for name, found in paths.items()}
print(*(f"{name} {size[name] / 2**20:.0f}" for name in sorted(size, key=size.get)[:-5:-1]), sep=", ")
"""
TABLE = re.compile(r"\| install \|.*?\n(?!\|)", re.DOTALL)


def measured(extras: str) -> tuple[int, float, str, bool]:
    """Return the MB, the seconds, the largest packages with their MB, and whether torch is among the packages."""
    with tempfile.TemporaryDirectory(prefix="strobe-sizes-") as place:
        home = Path(place, "venv")
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        python = home / "bin" / "python"
        target = f"{ROOT}[{extras}]" if extras else str(ROOT)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", target]
        subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - begin
        size = subprocess.run(["du", "-sm", home], check=True, capture_output=True, text=True).stdout
        largest = subprocess.run([python, "-c", LARGEST], check=True, capture_output=True, text=True).stdout
        has_torch = subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0
    return int(size.split()[0]), seconds, largest.strip(), has_torch


def main() -> None:
    """Print the table. Exits with 1 if an extra takes more than --most."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", help="extras, several of one environment separated by commas")
    parser.add_argument("--most", type=int, help="the most MB that each may take, without torch")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    lines = ["| install | MB on disk | PyTorch | largest packages, MB |", "|---|---|---|---|"]
    too_large = False
    print(*lines, sep="\n")
    for extras in options.extras or EXTRAS:
        size, seconds, largest, has_torch = measured(extras)
        line = f"| `{f'.[{extras}]' if extras else '.'}` | {size:,} | {'yes' if has_torch else 'no'} | {largest} |"
        lines.append(line)
        print(line, f" {seconds:.0f} s", flush=True)
        too_large |= options.most is not None and (size > options.most or has_torch)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(TABLE.sub("\n".join(lines) + "\n", page, count=1), encoding="utf-8")
    sys.exit(1 if too_large else 0)


if __name__ == "__main__":
    main()
