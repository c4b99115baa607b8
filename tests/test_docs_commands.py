"""Every command a page shows is run, in order, in a folder of the page's own with small data under the page's names.

`-q`-like additions in `SMALL` make a command cheaper; nothing of what the page says is left out. What would need the
network, hours or another machine is parsed against the real command line instead: `PARSED` lists all of it with the
reason, and nothing else goes unrun. Commands within sentences and tables are held to the options that exist.
"""

import asyncio
import glob
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow.parquet as pq
import pytest
from project_files import files

from strobe.cli import vary
from strobe.cli.main import COMMANDS, cli
from strobe.formats.registry import EXPORT_FORMATS, IMPORT_FORMATS
from strobe.train.recipe import shipped

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from fuzz.corpus import make_sources  # noqa: E402 (beside the tests, not installed)

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*files("*.md"), *files("docs/**/*.md")])

SMALL = {
    "strobe build": "--k 1",
    "strobe eval": "--no-report",
    "strobe eval data/ -m efficientnet-lite0 -o run/": "",
    "strobe import imagenet-c": "--severity 1-2",
    "strobe simulate": "--k 1 --size 32 --workers 1",
    "strobe synthesize": "--size 32 --k 1 --videos 12",
    "strobe review serve": "--port 0",
    "strobe view": "--port 0",
    "strobe view run/ --host 0.0.0.0": "--host 127.0.0.1",
    "strobe review serve DATASET --host 0.0.0.0": "--host 127.0.0.1",
    "strobe vary attack": "--steps 1 --image-size 32 --restarts 1",
    "strobe vary corruption": "--severity 3 --workers 1",
    "strobe train finetune": "--from-scratch --set steps=1 --set batch=4 --image-size 32 --threads 1 --evaluations 1",
    "strobe train autoencoder": "--set steps=1 --set batch=4 --image-size 32 --threads 1 --evaluations 1",
    "strobe train pmk": "--set batch=4 --image-size 32 --threads 1 --evaluations 1",
}
"""What is added to commands that begin so; of several the longest."""

PARSED = {
    "strobe eval data/ -m kserve:": "a service answers; tests/annexes/remote/ runs one",
    "strobe eval DATASET -m @forms.toml": "a log of a phone; tests/studies/test_forms.py runs the like",
    "strobe compare run/ -m efficientnet-lite0 -m int8": "of the line above",
    "strobe gate run/ -m int8": "of the line above",
    "strobe eval dog.mp4 -m efficientnet-lite1 --against": "exit code 1, because it is worse; test_against.py runs it",
    "strobe eval clips/ -m new=py:": "the reader's model; tests/workflows/test_action.py runs it",
    "strobe bless run/": "of the line above",
    "strobe gate run/ --min acc_pmk=50": "needs labels; tests/workflows/test_gate.py runs it",
    "strobe gate run/ --against main-run/": "needs an older run; tests/workflows/test_gate.py runs it",
    "strobe gate run/ -m new": "of the line above",
    "strobe import photos pictures/": "of the lines below",
    "strobe synthesize data/scenes": "tests/annexes/web/test_central.py runs this line",
    "strobe train stills data/scenes": "of the line above",
    "strobe eval data/scenes": "of the lines above",
    "strobe import photos ILSVRC2012/train data/loc": "tests/annexes/web/test_central.py runs this line on a fixture",
    "strobe import imagenet-a imagenet-a/ data/natural": "of the lines above",
    "strobe eval data/natural": "of the lines above",
    "strobe import imagenet-a-plus imagenet-a-plus/ data/cut": "of the lines above",
    "strobe review serve data/cut": "of the lines above",
    "strobe eval data/cut": "of the lines above",
    "strobe import photos ILSVRC2012/": "ILSVRC is not here; tests/annexes/train/test_photos.py trains on a small one",
    "strobe train photos data/ilsvrc": "of the line above",
    "strobe train noise data/ilsvrc": "of the lines above",
    "strobe train linf data/ilsvrc": "of the lines above",
    "strobe review serve data/pictures": "people draw; tests/annexes/web/test_crops_of_people.py goes this way",
    "strobe review export data/pictures": "of the line above",
    "strobe import imagenet-a-plus crops/": "of the line above",
    "strobe review serve data/crops --ask name": "people name; tests/annexes/web/review/test_whole_or_cropped.py",
    "strobe eval data/crops": "of the lines above",
    "strobe vary attack DATASET STRONGER": "many gradients; tests/workflows/test_vary_attack.py runs the like",
    "strobe vary attack DATASET SMALLEST": "many gradients; tests/workflows/test_vary_attack.py runs the like",
    "strobe vary attack DATASET BOTH": "many gradients; tests/workflows/test_vary_attack.py runs the like",
    "strobe eval BOTH": "of the line before",
    "strobe report run/ --gallery 60": "drawn by the line before it; tests/report run it",
    "strobe build videos/*.mp4 sets/ --unlabelled": "own videos; tests/build/test_build_bad_input.py does it",
    "strobe train agreement": "needs those sets; tests/annexes/train/test_agreement.py runs it",
    "strobe train gan": "minutes of training; tests/annexes/generators run it smaller",
    "strobe import mnist": "MNIST is fetched elsewhere; tests/annexes/releases/test_import_mnist.py reads a small one",
    "strobe eval data/changed": "of the line before",
    "strobe demo": "fetches 5 MB or trains for minutes; tests/workflows/test_demo*.py run it",
    "strobe train detector": "minutes of training; tests/annexes/train runs it with other settings",
    "strobe vary background data/photos": "fetches 5 MB; tests/annexes/backgrounds/test_ladder_estimates.py runs nets",
    "strobe vary generator": "minutes of searching; tests/annexes/generators/test_vary_generator.py runs it small",
    "strobe eval changed": "of what that finds",
    "strobe eval DATASET -m efficientnet-lite0 -o run/ --engine ray": "tests/annexes/ray/ runs a cluster",
    "strobe eval /shared/data": "other machines; tests/annexes/ray/ runs a cluster",
    "torchrun": "several processes; tests/annexes/train runs two",
    "strobe eval DATASET -m torchvision:": "weights from the network; tests/models/detectors run both kinds",
    "strobe predict DATASET -m timm:resnet18@mine.safetensors": "45 MB of weights; tests/contracts run the like",
    "strobe gate": "runs of such models; tests/workflows/test_gate.py runs every option",
    "strobe history": "runs of such models; tests/workflows/test_gate.py runs it",
    "strobe report run/ --show mine --show": "a run of those models; tests/report run it",
    "strobe eval data/ -m vlm=openai:": "a service; tests/annexes/remote/ runs one in the same process",
    "strobe eval data/ -m @orders.toml": "of the line above",
    "strobe compare orders/": "of the line before",
    "strobe report run/ --before": "a run of those models; tests/report run it",
}
"""Commands that are parsed and not run, and why."""

OF_ANNEXES = {
    *("review", "view"),
    *("finetune", "stills", "pmk", "agreement", "noise", "photos", "linf", "detector", "gan", "autoencoder"),
    *("background", "generator", "imagenet-a", "imagenet-a-plus", "imagenet-9", "objectnet"),
    *("imagenet-vid-robust", "ytbb-robust", "imagenet-vid", "youtube-bb", "trials", "imagenet-c", "mnist"),
}
"""Commands and formats of annexes, which pages of the house may show where the annex is not there."""

LAID = {
    "docs/start.md#Predictions": "release mine.json",
    "docs/start.md#Any video, no labels": "dog.mp4",
    "docs/start.md#A model": "dog.mp4",
    "docs/start.md#Videos": "clips labels.csv",
    "docs/start.md#Photos": "photos",
    "docs/start.md#People": "data",
    "docs/start.md#A first study": "clips labels.csv",
    "docs/environment.md": "data mine.py",
    "docs/vary.md": "DATASET data/photos data/clips",
    "docs/annexes/releases.md": "downloads cat-or-dog",
    "docs/datasets.md": "downloads",
    "docs/detection.md": "boxed coco_results.json",
    "docs/models.md": "colours matrix.npy",
    "docs/report.md": "DATASET scores.json",
    "docs/annexes/web-review.md": "DATASET votes.csv scores.json run runs/detector flicker guidelines.md examples.csv",
    "docs/remedies.md": "clips DATASET scores.json",
    "docs/simulate.md": "photos a.jpg b.jpg photo-labels",
    "docs/annexes/train.md": "world-as-clips",
    "docs/video.md": "clips-as-videos dog.mp4 labels.csv",
    "docs/annexes/web-view.md": "DATASET scores.json",
}
"""What lies in a page's folder before its first command; see `stock`."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a page under one heading: shell lines, or Python for the file the text names."""

    section: str
    language: str
    text: str
    file: str | None


def blocks(page: str) -> list[Block]:
    """The fenced and indented pieces of a page."""
    found: list[Block] = []
    section, paragraph, ended = "", "", True
    lines = iter((ROOT / page).read_text(encoding="utf-8").splitlines())
    for line in lines:
        goes_on = bool(found) and found[-1].language == "indented" and found[-1].text.endswith("\\")
        if fence := re.match(r"(`{3,})(\w*)", line):
            inside = "\n".join(iter(lambda mark=fence[1]: _until(lines, mark), None))
            named = re.findall(r"`(\w+\.(?:py|csv|json|toml))`", paragraph)
            found.append(Block(section, fence[2], inside, named[-1] if named else None))
        elif goes_on:
            found[-1] = replace(found[-1], text=found[-1].text[:-1] + line.strip())
        elif re.match(r"    (strobe|make|pip|torchrun) ", line):
            found.append(Block(section, "indented", line.strip(), None))
        elif line.startswith("## "):
            section = line[3:]
        elif line.strip():
            paragraph = f"{'' if ended else paragraph} {line}"
        ended = not line.strip()
    return found


def _until(lines: Iterator[str], mark: str) -> str | None:
    """The next line of a fenced piece; None at its end."""
    line = next(lines)
    return None if line.startswith(mark) else line


def lines_of(block: Block) -> list[str]:
    """The command lines of a piece, continued ones joined; prompts and what is printed after them are left out."""
    if block.language not in ("sh", "console", "indented"):
        return []
    whole = block.text.replace("\\\n", " ").splitlines()
    shown = [line[2:] for line in whole if line.startswith("$ ")] or whole
    return [line.strip() for line in shown if line.strip() and not line.startswith("#")]


def commands(page: str) -> list[str]:
    """All command lines of a page."""
    return [line for block in blocks(page) for line in lines_of(block)]


def reason(line: str) -> str | None:
    """Why a line is parsed and not run; None where it is run."""
    return next((why for start, why in PARSED.items() if line.startswith(start)), None)


def offered(line: str) -> bool:
    """Whether this installation has what a line names; the commands and formats of an annex may be away."""
    words = line.partition("strobe ")[2].split()
    formats = {"import": IMPORT_FORMATS.own, "export": EXPORT_FORMATS.own, "train": shipped()}
    formats["vary"] = vary.command.list_commands(click.Context(vary.command))
    if words and words[0] in OF_ANNEXES:
        return words[0] in COMMANDS
    named = OF_ANNEXES.intersection(words[1:]) if words and words[0] in formats else set()
    return all(name in formats[words[0]] for name in named)


# -- the data ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small data of every kind that pages talk of, made once."""
    root = tmp_path_factory.mktemp("stock")
    make_sources(root)
    for name, clip in (("dog", "a"), ("cockatoo", "b")):
        (root / "named").mkdir(exist_ok=True)
        shutil.copy(root / f"clips/{clip}.mp4", root / f"named/{name}.mp4")
    (root / "labels.csv").write_text("video,label\ndog,dog\ncockatoo,bird\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        run("build named/dog.mp4 named/cockatoo.mp4 data --labels labels.csv --label-space imagenet-vid --k 1 -q")
        run("synthesize world --videos 24 --size 32 --k 1 -q")
        run("import photos releases/imagenet-c/clean pictures -q")
    keys = [row["key"] for row in rows_of(root / "data")]
    write_json(root / "scores.json", {key: [float(len(key) % 7 == one) for one in range(30)] for key in keys})
    return root


def rows_of(dataset: Path) -> list[dict[str, Any]]:
    """The frames of a dataset folder."""
    found: list[dict[str, Any]] = pq.read_table(dataset / "frames.parquet").to_pylist()
    return found


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def lay(name: str, stock: Path, here: Path) -> None:
    """Put one thing of LAID into a page's folder."""
    copies = {
        "clips": {"clips": "named"},
        "clips-as-videos": {"videos": "named"},
        "dog.mp4": {"dog.mp4": "named/dog.mp4"},
        "DATASET": {"DATASET": "data"},
        "boxed": {"DATASET": "world"},
        "world-as-clips": {"clips": "world"},
        "data/photos": {"data/photos": "pictures"},
        "data/clips": {"data/clips": "data"},
        "photos": {"photos/tench": "photos/in/cat", "photos/goldfish": "photos/in/dog"},
        "a.jpg": {"a.jpg": "photos/in/cat/b.jpg"},
        "release": {"imagenet-vid-robust": "releases/vid-robust"},
        "downloads": {
            "downloads/imagenet-vid-robust": "releases/vid-robust",
            "downloads/ytbb-robust": "releases/ytbb-robust",
            "pair_labels.json": "releases/ytbb-robust/metadata/pair_labels.json",
            "ILSVRC2015": "releases/imagenet-vid",
            "ILSVRC2017": "releases/vid-robust/ILSVRC",
            "yt_bb_anchors.csv": "releases/ytbb-robust/yt_bb.csv",
            "yt_bb_detection_validation.csv": "releases/youtube-bb/yt_bb.csv",
            "videos": "releases/youtube-bb/videos",
            "anchors.csv": "releases/anchors.csv",
            "annotations.json": "releases/coco-vid/ann.json",
            "images": "releases/coco-vid/images",
            "clips": "releases/frames/in",
            "labels.csv": "releases/frames/in/labels.csv",
            "ILSVRC2012_val": "releases/imagenet-c/clean",
            "imagenet-c": "releases/imagenet-c/c",
            "imagenet-a": "releases/imagenet-a",
            "imagenet-a-plus": "releases/imagenet-a-plus",
            "bg_challenge": "releases/imagenet-9",
            "objectnet-1.0": "releases/objectnet",
            "human-trials": "releases/trials/csv",
            "stimuli": "releases/trials/images",
        },
    }
    copies |= {same: {same: same} for same in ("data", "labels.csv", "scores.json")}
    for target, source in copies.get(name, {}).items():
        (here / target).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (stock / source).is_dir() else shutil.copy)(stock / source, here / target)
    if name == "downloads":  # classes of imagenet-vid
        boxed = here / "annotations.json"
        boxed.write_text(boxed.read_text().replace("person", "bird"))
    elif name == "mine.json":
        frames = json.loads((stock / "releases/vid-robust/metadata/labels.json").read_text())
        scores = {frame: [float(one == right[0]) for one in range(30)] for frame, right in frames.items()}
        write_json(here / name, scores)
    elif name == "photo-labels":
        (here / "labels.csv").write_text("file,label\na.jpg,dog\nb.jpg,cat\n")
    elif name == "b.jpg":
        from PIL import Image

        Image.new("RGB", (40, 30), (200, 90, 10)).save(here / name)
    elif name == "guidelines.md":
        (here / name).write_text("# What counts\n\nA frame is similar if nobody would tell them apart.\n")
    elif name in ("votes.csv", "examples.csv"):
        shutil.copy(votes(here / "DATASET"), here / name)
    elif name == "run":
        run("score DATASET -m preds:scores.json -o run -q")
    elif name == "runs/detector":
        found = "[([[1, 1, 9, 9]], [0], [0.5])] * len(images)"
        made = f"def make():\n    return detector(lambda images: {found}, ['dog'], name='d')\n"
        (here / "finder.py").write_text(f"from strobe.models.detectors.py import detector\n\n{made}")
        run("predict DATASET -m py:finder.py:make -o runs/detector -q")
    elif name == "flicker":
        answers = "[[9.0 * float(image.mean() % 2 < 1), 4.5] for image in images]"
        (here / "unsteady.py").write_text(f"def make():\n    return lambda images: {answers}, ['dog', 'bird']\n")
        run(f"eval {stock}/named -m py:unsteady.py:make -o flicker --k 1 --no-report -q")
    elif name == "colours":
        (here / "colours.csv").write_text("video,label\ndog,red\ncockatoo,blue\n")
        run(f"build {stock}/named/*.mp4 DATASET --labels colours.csv --k 1 -q")
    elif name in ("mine.py", "cat-or-dog"):
        names = ["dog", "bird" if name == "mine.py" else "cat"]
        (here / "mine.py").write_text(f"def make():\n    return lambda images: [[1.0, 0.0] for _ in images], {names}\n")
    elif name == "matrix.npy":
        np.save(here / name, np.eye(3))
    elif name == "coco_results.json":
        same = {"category_id": 16, "bbox": [1, 1, 9, 9], "score": 0.5}
        write_json(here / name, [{"image_id": row["key"], **same} for row in rows_of(stock / "world")])


def votes(dataset: Path, ask: str = "pairs") -> Path:
    """What a person may have answered on the review page, of every pair or anchor, as a file to import."""
    tables = {name: pq.read_table(dataset / f"{name}.parquet").to_pylist() for name in ("sets", "labels")}
    label = {row["frame_id"]: row["label"] for row in tables["labels"]}
    path = dataset.parent / f"{dataset.name}-{ask}.csv"
    columns = {
        "pairs": "set,frame,decision",
        "box": "frame,label,x0,y0,x1,y1",
        "name": "frame,label",
        "check": "set,said",
    }
    lines = [columns[ask]]
    for place, row in enumerate(tables["sets"]):
        frame = row["frame_id"]
        if ask == "pairs" and not row["is_anchor"]:
            lines.append(f"{row['set_id']},{frame},{'similar' if place % 5 else 'dissimilar'}")
        elif ask == "box" and row["is_anchor"]:
            lines.append(f"{frame},{label[frame]},2,2,9,9")
        elif ask == "name" and row["is_anchor"]:
            lines.append(f"{frame},dog")
        elif ask == "check" and row["is_anchor"]:
            lines.append(f"{row['set_id']},one")
    path.write_text("\n".join(lines) + "\n")
    return path


# -- running -----------------------------------------------------------------------------------------------------------


class Visitor(webbrowser.BaseBrowser):
    """Who opens the review page: looks at it once and presses Ctrl-C where the server runs."""

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        return True


def serves(words: list[str]) -> bool:
    """Whether a command serves a page until Ctrl-C."""
    return words[:2] == ["review", "serve"] or (words[0] == "view" and not {"--list", "--json"} & set(words))


def with_last(words: list[str]) -> list[str]:
    """The words with the last value of each option with a number or an address: what SMALL adds replaces what is shown.

    >>> with_last("synthesize world --videos 24 --set a=1 --videos 2 --set b=2".split())
    ['synthesize', 'world', '--set', 'a=1', '--videos', '2', '--set', 'b=2']
    """
    again = [
        place
        for place, word in enumerate(words)
        if word in ("--videos", "--host", "--port", "--severity", "--k", "--size", "--workers", "--steps")
        and word in words[place + 1 :]
    ]
    return [word for place, word in enumerate(words) if place not in again and place - 1 not in again]


def run(line: str) -> None:
    """Run the words after `strobe` in this process; a server is stopped as soon as its page is opened."""
    words = [found for word in shlex.split(line, comments=True) for found in sorted(glob.glob(word)) or [word]]  # noqa: PTH207 (as shells do)
    words = with_last(words)
    if serves(words):
        webbrowser.register("visitor", None, Visitor(), preferred=True)
    try:
        if serves(words) and asyncio._get_running_loop() is not None:
            code = served(words)  # a browser of other tests has its loop in this thread
        else:
            code = cli.main(args=words, prog_name="strobe", standalone_mode=False)
    except KeyboardInterrupt:
        assert serves(words)
        code = 0
    except click.exceptions.Exit as error:
        code = error.exit_code
    assert code in (None, 0), f"strobe {line}: exit {code}"
    if words[:2] == ["review", "serve"]:  # and somebody answers
        ask = words[words.index("--ask") + 1] if "--ask" in words else "pairs"
        if ask != "name" or "--plan" in words:
            run(f"review import {words[2]} {votes(Path(words[2]), ask)} --ask {ask}")


def served(words: list[str]) -> int:
    """A server in a process of its own, stopped by Ctrl-C once it has said where it is."""
    command = [sys.executable, "-m", "strobe", *words, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        said = []
        for line in running.stdout:
            said.append(line)
            if "http://" in line:
                running.send_signal(signal.SIGINT)
                break
        said += running.stdout.readlines()
    assert any("http://" in line for line in said), said
    return 0 if running.returncode in (0, 130) else running.returncode


def in_shell(line: str, here: Path) -> None:
    """A line that needs a shell: variables, pipes, redirections."""
    env = {**os.environ, "HOME": str(here), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], cwd=here, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"


def added(line: str) -> str:
    """What makes the line cheap."""
    fits = [(len(start), more) for start, more in SMALL.items() if line.startswith(start)]
    return max(fits)[1] if fits else ""


def parse(line: str) -> None:
    """Hold a line against the command line: commands, options, values. Nothing is done."""
    words = shlex.split(line, comments=True)
    words = words[words.index("strobe") + 1 :]
    command: click.Command = cli
    context = click.Context(cli, info_name="strobe")
    while isinstance(command, click.Group):
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None, f"{line}: no command {name}"
        command, context = found, click.Context(found, info_name=name, parent=context)
    command.make_context(command.name, words, parent=context.parent)


SHOWN = [page for page in PAGES if any(not reason(line) for line in commands(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in SHOWN if page not in ("README.md", "docs/testing.md")])
def test_what_a_page_shows_can_be_run(
    page: str, stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not all(offered(line) for line in commands(page)):
        pytest.skip("it shows commands of an annex that is not here")
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    here = None
    for block in blocks(page):
        if here is None or (page == "docs/start.md" and here.name != block.section):  # several ways, each separately
            here = tmp_path / block.section
            here.mkdir(exist_ok=True)
            monkeypatch.chdir(here)
            for name in LAID.get(f"{page}#{block.section}", LAID.get(page, "")).split():
                lay(name, stock, here)
        if block.language == "python":
            if block.file:
                (here / block.file).write_text(block.text, encoding="utf-8")
            else:
                exec(compile(block.text, f"{page}: {block.section}", "exec"), {})
        for line in lines_of(block):
            if reason(line):
                continue
            if line.startswith("strobe ") and not re.search(r"[|>]|\$\(", line):
                run(f"{line.partition('#')[0].removeprefix('strobe ')} {added(line)}")
            else:
                in_shell(line, here)


def test_what_is_not_run_is_parsed_and_has_a_reason() -> None:
    everywhere = [line for page in PAGES for line in commands(page)]
    for line in everywhere:
        if reason(line) and "strobe " in line and offered(line):
            parse(line)
    for start in PARSED:
        assert any(line.startswith(start) for line in everywhere), f"no page shows {start}: take it out of PARSED"


def test_make_and_pip_lines_name_what_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"(?:^ {4}|\$ |`)make ([a-z-]+)", text, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page}: make {target}"
        for names in re.findall(r"(?:\.|strobe-vision)\[([a-z,]+)\]", text):
            for name in names.split(","):
                assert name in extras, f"{page}: extra {name}"


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])  # which tells of old names
def test_commands_within_the_text_have_the_options_they_name(page: str) -> None:
    for text in re.findall(r"`strobe ([^`]+)`", (ROOT / page).read_text(encoding="utf-8")):
        words = text.split()
        for name in words[0].split("|"):
            assert name.startswith("-") or name in {*COMMANDS, *OF_ANNEXES, "VERB"}, f"{page}: strobe {text}"
            if name in COMMANDS:
                hold(cli, [name, *words[1:]], f"{page}: strobe {text}")


def hold(command: click.Command, words: list[str], where: str) -> None:
    """Every option among the words is one of the command they name."""
    context = click.Context(command)
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        found = command.get_command(context, words[0])
        assert found is not None, f"{where}: no {words[0]}"
        command, words = found, words[1:]
    if not isinstance(command, click.Group):
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {
            "--help",
            "-h",
            "--debug",
        }
        for word in words:
            option = re.match(r"\[?(--?[a-z][a-z-]*)", word)
            assert option is None or option[1] in known, f"{where}: no {word}"
