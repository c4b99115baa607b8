"""What a user reads for the golden runs, as text: pages, the terminal, files of models. See tests/golden/snapshots.

`python scripts/make_golden.py --snapshots` writes the snapshots, and tests/test_snapshots.py compares them. A snapshot
has no path, version or time of the machine that made it. Numbers that stand alone inside a drawing, such as those at an
axis, are left out: the plotting library chooses them, and the golden files hold the figures themselves.
"""

import contextlib
import hashlib
import html.parser
import importlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from project_files import files

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
SNAPSHOTS = GOLDEN / "snapshots"
RUNS: dict[str, Any] = json.loads((GOLDEN / "made.json").read_text(encoding="utf-8"))["runs"]
ALWAYS = ["--bootstrap", "200", "--quiet"]
STUDIES = ("background", "search", "corruption", "attack", "photos")
OF_ANNEXES = {"background": ("background", "made_background"), "search": ("generator", "made_generator")}
"""The studies of annexes, which may be away, and the test modules that make them up."""
WIDTH = 118

BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "button", "caption", "dd", "details", "div", "dl", "dt",
    "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "head", "header", "hr", "html", "label", "li",
    "main", "nav", "noscript", "ol", "p", "pre", "section", "select", "summary", "svg", "table", "tbody", "tfoot",
    "thead", "title", "tr", "ul",
})  # fmt: skip
VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "use", "wbr"}
)
HEADINGS = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ", "figcaption": "Caption: ", "summary": "Summary: "}
NUMBER = re.compile(r"[−+±-]?[\d.,]+\s?(%|k|s|ms|×)?")
LONG = 1000
"""The characters of a value in a snapshot; the whole of a longer one is there as a digest."""
SETS = 2
"""The sets of a page's gallery that are in a snapshot; the others are there as a digest."""


class _PageText(html.parser.HTMLParser):
    """The text of a page in reading order: a line per block, a line per row of a table, a line per drawing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.folder = folder
        self.drawn: set[str] = set()
        self.lines: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.heading = ""
        self.script = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = {name: value or "" for name, value in attrs}
        in_drawing = "svg" in self.open
        if tag in BLOCKS:
            self.end_line()
            self.heading = HEADINGS.get(tag, self.heading)
        elif tag in ("td", "th"):
            self.words.append(" | ")
        elif in_drawing or tag == "option":
            self.words.append(" · ")
        elif tag in ("span", "small"):
            self.words.append(" ")
        if tag not in VOID:
            self.open.append(tag)
        self.script = about.get("id", "") if tag == "script" and "json" in about.get("type", "") else ""
        said = [f"{name}: {about[name]}" for name in ("alt", "aria-label", "placeholder", "title") if about.get(name)]
        if said and not in_drawing:
            self.words.append(" [" + "; ".join(said) + "] ")

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID or tag not in self.open:
            return
        self.script = ""
        while self.open.pop() != tag:
            pass
        if tag in BLOCKS:
            self.end_line()
        elif tag in ("span", "td", "th", "small", "i"):
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        if self.script == "gallery-data":
            content = json.loads(re.sub(r'"data:[^"]*"', '"(image)"', data))
            more = json.dumps(content.get("sets", [])[SETS:], sort_keys=True).encode()
            content["sets"] = content.get("sets", [])[:SETS]
            content["pictures"] = len(content.get("pictures", []))
            digest = hashlib.sha256(more).hexdigest()[:16]
            for line in [*data_lines(content), f"digest of further sets: {digest}"]:
                self.words.append(line)
                self.end_line()
        elif "svg" in self.open:
            text = " ".join(data.split())
            if text and "style" not in self.open and not NUMBER.fullmatch(text):
                self.words.append(text)
        elif not {"script", "style"} & set(self.open):
            self.words.append(data)

    def end_line(self) -> None:
        text = scrubbed(" ".join("".join(self.words).split()), self.folder).rstrip("\n")
        text = re.sub(r" (?=[,.;:)])", "", text)
        text = re.sub(r"( ·)+(?= ·)|^( ·)*(· )?|( ·)+$", "", text) if "svg" in self.open else text
        again = "svg" in self.open and text in self.drawn  # a drawing has a wide and a narrow form
        self.drawn |= {text} if "svg" in self.open else set()
        if text.strip(" ·|") and not again:
            self.lines += textwrap.wrap(
                self.heading + text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
        self.words, self.heading = [], ""


def page_text(page: str, folder: Path) -> str:
    """Return the text of a page: what is read, what is read out, and the data of the gallery without its images."""
    parser = _PageText(folder)
    parser.feed(page)
    parser.close()
    parser.end_line()
    return "\n".join(parser.lines) + "\n"


def data_lines(value: Any, path: str = "") -> Iterator[str]:
    """Yield a line per record of some JSON data. A record is a mapping without mappings below it."""
    if isinstance(value, dict) and any(isinstance(part, dict | list) for part in value.values()):
        plain = {key: part for key, part in value.items() if not isinstance(part, dict | list)}
        if plain:
            yield f"{path}: {_json(plain)}"
        for key, part in value.items():
            if isinstance(part, dict | list):
                yield from data_lines(part, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for place, part in enumerate(value):
            yield from data_lines(part, f"{path}[{place}]")
    else:
        yield f"{path}: {_json(value)}"


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return text if len(text) <= LONG else f"{text[:LONG]}… ({digest} in full)"


# -- the terminal --------------------------------------------------------------------------------------------------


class Terminal:
    """Runs commands in this process and keeps what they print, with the command before it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = ""

    def __call__(self, *words: str) -> str:
        from strobe.cli.main import main

        printed, code = io.StringIO(), 0
        sys.argv = ["strobe", *words]
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                main(list(words))
            except SystemExit as left:
                code = int(left.code or 0)
        text = scrubbed(printed.getvalue(), self.folder)
        self.text += f"$ strobe {' '.join(words)}\n" + text + ("" if code == 0 else f"exit code {code}\n") + "\n"
        return text


def scrubbed(text: str, folder: Path) -> str:
    """Return the text without this folder's path, versions, times, and blanks at the ends of lines."""
    from strobe.core.late import installed_version

    for path in {str(folder.resolve()), str(folder)}:
        text = text.replace(path + "/", "").replace(path, ".")
    text = text.replace(f"strobe {installed_version()}", "strobe VERSION")
    text = re.sub(r"python \d[\w.+]*(, [\w-]+ \d[\w.+-]*)*", "python VERSION, packages", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?", "DATE", text)
    text = re.sub(r'"(forward|wall)": [\d.e-]+', r'"\1": SECONDS', text)
    text = re.sub(r'"frames_per_second": [\d.e+-]+', '"frames_per_second": RATE', text)
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


# -- parts ---------------------------------------------------------------------------------------------------------


def of_run(name: str, folder: Path) -> dict[str, str]:
    """Make a golden run anew, then score, report, compare, judge and export it."""
    about, run = RUNS[name], f"made/{name}"
    dataset = f"datasets/{about['dataset']}"
    models = [word for model in about["models"] for word in ("-m", model)]
    strobe = Terminal(folder)
    strobe(about["verb"], dataset, *models, "-o", run, *about["bring"], *about["score"], *ALWAYS,
           *(["--no-report"] if about["verb"] == "eval" else []))  # fmt: skip
    strobe("score", run, *about["score"], *ALWAYS)
    subset = ["--subset", "inputs/subset.txt"] if "--subset" in about["score"] else []
    partly = ["--allow-missing"] if "--allow-missing" in about["score"] else []
    strobe("report", run, *subset, "--gallery", "2", "--quiet")
    names = list(json.loads((folder / run / "results.json").read_text(encoding="utf-8"))["models"])
    shared = [*subset, *partly, "--quiet"]
    if len(names) > 1:
        strobe("compare", run, *shared)
    measure = "map_pmk" if about["dataset"] == "boxes" else "acc_pmk"
    strobe("gate", run, "-m", names[0], "--min", f"{measure}=10", "--max", "drop=30", *shared)
    strobe("history", run, "-o", f"{run}/history", *shared)
    strobe("export", run, "latex", f"{run}/latex", "--quiet")
    strobe("view", "--list", run)
    files = sorted((folder / run).glob("predictions/*/model.json"))
    facts = "\n".join(line for path in files for line in [f"# {path.parent.name}", *_facts(path)])
    made = {
        f"{name}.terminal.txt": strobe.text,
        f"{name}.page.txt": page_text((folder / run / "report.html").read_text(encoding="utf-8"), folder),
    }
    return made | ({f"{name}.models.txt": facts + "\n"} if facts else {})


def _facts(path: Path) -> list[str]:
    return [f"{key}: {_json(value)}" for key, value in json.loads(path.read_text(encoding="utf-8")).items()]


def of_datasets(folder: Path) -> dict[str, str]:
    """Describe and export every golden dataset."""
    strobe = Terminal(folder)
    for name in sorted({about["dataset"] for about in RUNS.values()}):
        strobe("inspect", f"datasets/{name}")
        strobe("review", "status", f"datasets/{name}")
        for form in ("csv", "coco", "card"):
            strobe("export", f"datasets/{name}", form, f"exported/{name}-{form}", "--quiet")
    return {"datasets.terminal.txt": strobe.text}


def of_stored(folder: Path) -> dict[str, str]:
    """Read the stored runs together: the list of the viewer, a leaderboard, a comparison, checkpoints, a gate."""
    strobe = Terminal(folder)
    strobe("view", "--list", "runs", "datasets")
    strobe("export", *(f"runs/{name}" for name in ("video-py", "video-brought")), "leaderboard", "board", "--quiet")
    both = ["runs/video-py", "runs/video-brought"]
    where = ["--dataset", "datasets/video", "--quiet"]
    strobe("compare", *both, "-m", "third", "-m", "plain labels", *where)
    strobe("history", *both, *where, "-o", "board/history", "--order", "given")
    limits = ["--max-loss", "acc_pmk=5", "--min", "acc_orig=50"]
    strobe("gate", both[0], "-m", "third", "--against", both[1], "--baseline", "plain labels", *limits, *where)
    strobe("export", "runs/video-py", "flickers", "flickers", *where)
    table = (folder / "board" / "leaderboard.csv").read_text(encoding="utf-8")
    return {"stored.terminal.txt": strobe.text, "stored.leaderboard.csv": scrubbed(table, folder)}


def of_made(name: str, folder: Path) -> dict[str, str]:
    """Write the page of a made-up study of the tests of the report."""
    for path in files("tests/report/conftest.py") + files("tests/annexes/*/conftest.py"):
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
    made = importlib.import_module(OF_ANNEXES[name][1] if name in OF_ANNEXES else "made_studies")
    if name in ("background", "search"):
        page = made.report(folder / "page")
    else:
        page = made.report(
            folder / "page", name, **({"variants": made.corruption(4)[0]} if name == "corruption" else {})
        )
    text = page_text(page.read_text(encoding="utf-8"), folder)
    return {f"study-{name}.page.txt": text}


def _is_there(name: str) -> bool:
    from strobe.report.study import STUDIES as REGISTERED

    return name not in OF_ANNEXES or OF_ANNEXES[name][0] in REGISTERED.own


PARTS: dict[str, Callable[[Path], dict[str, str]]] = {
    **{name: partial(of_run, name) for name in RUNS},
    "datasets": of_datasets,
    "stored": of_stored,
    **{f"study-{name}": partial(of_made, name) for name in STUDIES if _is_there(name)},
}
"""Every part of the snapshots, and the function that makes its files from a copy of the golden folder."""


def snapshots(part: str) -> dict[str, str]:
    """Return the snapshots of a part: text by the name of the file."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "golden"
        shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("snapshots", "older"))
        environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        before, arguments, writes = dict(os.environ), sys.argv, sys.dont_write_bytecode
        try:
            os.environ.update(environment)
            sys.dont_write_bytecode = True
            with contextlib.chdir(folder):
                return PARTS[part](folder)
        finally:
            os.environ.clear()
            os.environ.update(before)
            sys.argv, sys.dont_write_bytecode = arguments, writes


def write(parts: list[str]) -> int:
    """Write the snapshots of these parts, or of all, and return how many files changed."""
    SNAPSHOTS.mkdir(exist_ok=True)
    changed, kept = 0, set()
    for part in parts or PARTS:
        for name, text in snapshots(part).items():
            path = SNAPSHOTS / name
            kept.add(path)
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
                print(f"changed: {path.relative_to(ROOT)}", flush=True)
                changed += 1
    for path in set() if parts else set(SNAPSHOTS.iterdir()) - kept:
        path.unlink()
        print(f"removed: {path.relative_to(ROOT)}")
        changed += 1
    return changed
