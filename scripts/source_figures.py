"""Print figures about the source: lines, repeated blocks and class names, and the files that one eval runs through.

python scripts/source_figures.py            every figure of this checkout
python scripts/source_figures.py --blocks   also each block of six lines that occurs more than once
python scripts/source_figures.py --files    also each file that one eval runs through
"""

import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from project_files import files

from strobe.synthetic.classes import KINDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "strobe"
BLOCK = 6

TRACED = """
import sys, threading
from pathlib import Path
source, out, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
files = {}
def watch(frame, event, argument):
    if event == "call":
        code = frame.f_code
        is_function = code.co_flags & 1  # CO_OPTIMIZED, which bodies of modules and classes lack
        # A comprehension belongs to the code around it; Python 3.12 and later give most of them no frame.
        if code.co_filename.startswith(source) and is_function and not code.co_name.endswith(("comp>", "expr>")):
            files.setdefault(code.co_filename, set()).add(code.co_qualname)
threading.setprofile(watch)
sys.setprofile(watch)
from strobe.cli.main import main
try:
    main(arguments)
except SystemExit as end:
    assert not end.code, end.code
finally:
    sys.setprofile(None)
    Path(out).write_text("\\n".join(f"{len(names)} {name}" for name, names in sorted(files.items())))
"""

MODEL = """
import numpy as np
def make():
    return (lambda images: np.stack([np.resize(image.mean((0, 1)), 5) for image in images])), CLASSES
"""


def main() -> None:
    """Print every figure."""
    sources = files("src/strobe/**/*.py")
    texts = {path: path.read_text() for path in sources}
    print(f"{sum(text.count(chr(10)) for text in texts.values()):,} lines in {len(sources)} files")
    print(f"{formatted_without_skips(texts):,} lines when formatted without `# fmt: skip`")
    for mark, pattern in {"`# fmt: skip`": r"# fmt: skip", "an inner `__all__`": r"^__all__ ="}.items():
        print(f"{sum(len(re.findall(pattern, text, re.M)) for text in texts.values())} times {mark}")
    blocks = repeated_blocks(texts)
    print(f"{len(blocks)} blocks of {BLOCK} lines that occur more than once")
    if "--blocks" in sys.argv:
        for places in blocks:
            print("   ", " ~ ".join(f"{path.relative_to(SOURCE)}:{start}-{end}" for path, start, end in places))
    names = Counter(
        node.name for text in texts.values() for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)
    )
    twice = sorted(name for name, count in names.items() if count > 1)
    print(f"{len(twice)} class names used more than once {' '.join(twice)}")
    called = files_of_one_eval()
    print(f"{len(called)} files and {sum(called.values())} functions run in one eval")
    if "--files" in sys.argv:
        for path, count in called.items():
            print(f"    {count:4} {path}")


def formatted_without_skips(texts: dict[Path, str]) -> int:
    """Return the number of lines after `ruff format` of the sources without their skips."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in texts.items():
            copy = Path(folder) / path.relative_to(SOURCE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text.replace("  # fmt: skip", ""))
        ruff = [
            sys.executable,
            "-m",
            "ruff",
            "format",
            "-q",
            "--no-cache",
            "--config",
            str(ROOT / "pyproject.toml"),
            folder,
        ]
        subprocess.run(ruff, check=True)
        return sum(path.read_text().count("\n") for path in Path(folder).rglob("*.py"))


def repeated_blocks(texts: dict[Path, str]) -> list[list[tuple[Path, int, int]]]:
    """Return the runs of at least six equal lines of code that occur more than once, the longest form of each.

    Blank lines, comments, imports and lone brackets do not count, and indentation is ignored.
    """
    lines: list[tuple[Path, int, str]] = []
    for path, text in texts.items():
        imports = {
            number
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        for number, line in enumerate(text.splitlines(), 1):
            bare = line.strip()
            if number not in imports and re.search(r"\w", bare) and not bare.startswith("#"):
                lines.append((path, number, bare))
        lines.append((path, 0, f"end of {path}"))
    places: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for start in range(len(lines) - BLOCK):
        places[tuple(line for _, _, line in lines[start : start + BLOCK])].append(start)
    found: dict[tuple[int, ...], int] = {}
    for rows in places.values():
        if len(rows) < 2:
            continue
        starts = tuple(rows)
        before = tuple(start - 1 for start in starts)
        if before in found:  # the same places, one line on: extend that block
            found[starts] = found.pop(before) + 1
        else:
            found[starts] = BLOCK
    out = []
    for starts, length in found.items():
        first = [start - (length - BLOCK) for start in starts]
        out.append([(lines[at][0], lines[at][1], lines[at + length - 1][1]) for at in first])
    return out


def files_of_one_eval() -> dict[str, int]:
    """Run one eval of a made-up dataset with a plain function, and return the functions called in each file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        strobe = [sys.executable, "-m", "strobe"]
        subprocess.run([*strobe, "synthesize", str(folder / "data"), "--videos", "8", "-q"], check=True)
        classes = [one.name for one in KINDS]
        (folder / "model.py").write_text(MODEL.replace("CLASSES", repr(classes)).replace(", 5)", f", {len(classes)})"))
        (folder / "traced.py").write_text(TRACED)
        arguments = ["eval", str(folder / "data"), "-m", f"py:{folder}/model.py:make", "-o", str(folder / "run"), "-q"]
        subprocess.run(
            [sys.executable, str(folder / "traced.py"), str(SOURCE), str(folder / "files"), *arguments], check=True
        )
        rows = [line.split(" ", 1) for line in (folder / "files").read_text().splitlines()]
        return {str(Path(path).relative_to(SOURCE)): int(count) for count, path in rows}


if __name__ == "__main__":
    main()
