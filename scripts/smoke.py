"""Run every verb once, as a user does right after installing strobe.

Run this script with the Python of that installation. Needs only the standard library and strobe's own requirements. A
verb whose extra is missing must print one line that names the extra. `--torch` also runs the verbs that need torch.
"""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path

MODEL = """import numpy as np

def make():
    return bright, {names!r}

def bright(images):
    return np.array([[image.mean() * (1 + i % 3) % 7 for i in range({n})] for image in images])
"""


class Failed(Exception):
    """Raised if a verb fails its check."""


def strobe(*words: str, code: int = 0) -> str:
    """Run the installed command and return its output. Raises Failed on another exit code, or on a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "strobe", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode != code or "Traceback" in done.stderr:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Failed(f"strobe {' '.join(words)}: exit {done.returncode}, not {code}: {' '.join(last)}")
    return done.stdout + done.stderr


def expect(ok: bool, problem: str) -> None:
    """Raise Failed unless ok."""
    if not ok:
        raise Failed(problem)


def needs(module: str, extra: str, *words: str) -> bool:
    """Return whether the module is installed. If not, check that the verb names the extra to install."""
    if find_spec(module) is not None:
        return True
    said = strobe(*words, code=2)
    expect(f"strobe-vision[{extra}]" in said, f"strobe {words[0]} without {module} prints: {said.strip()}")
    return False


def about() -> None:
    """Run --version, --help, doctor and models."""
    from importlib import metadata

    expect(metadata.version("strobe-vision") in strobe("--version"), "--version does not print the version")
    strobe("--help")
    packages = json.loads(strobe("doctor", "--no-speed", "--json"))["packages"]
    expect(any(row["package"] == "numpy" and row["version"] for row in packages), "doctor does not see numpy")
    expect("preds" in strobe("models"), "models does not list preds:")
    expect("resnet50" in strobe("models", "--testbed"), "models --testbed is empty")


def synthesize() -> None:
    """Render a dataset, and make two prediction files from its labels: one right, one sometimes wrong."""
    strobe("synthesize", "world", "--videos", "6", "--size", "48", "--k", "2", "-q")
    with Path("world/truth.csv").open(encoding="utf-8", newline="") as file:
        truth = {row["frame"]: row["label"] for row in csv.DictReader(file)}
    names = sorted(set(truth.values()))
    Path("right.json").write_text(json.dumps(truth), encoding="utf-8")
    wrong = {frame: names[0] if place % 4 == 0 else label for place, (frame, label) in enumerate(truth.items())}
    Path("wrong.json").write_text(json.dumps(wrong), encoding="utf-8")
    Path("model.py").write_text(MODEL.format(names=names, n=len(names)), encoding="utf-8")


def build() -> None:
    """Encode a clip, build a dataset from it and score its frames."""
    if not needs("av", "video", "build", "right.json", "nowhere", "--label", "dog"):
        return
    import av
    import numpy as np

    with av.open("clip.mp4", "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for index in range(40):
            pixels = np.full((64, 96, 3), 60, dtype=np.uint8)
            pixels[10:40, index : index + 30] = (200, 4 * index, 90)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    strobe("build", "clip.mp4", "clips", "--label", "dog", "--k", "3", "-q")
    expect(len(list(Path("clips").rglob("*.zst"))) == 7, "build stored other than 7 frames")


def simulate() -> None:
    """Simulate a camera on a photo, through H.264 if PyAV is installed."""
    import numpy as np
    from PIL import Image

    Path("photos/dog").mkdir(parents=True)
    noise = np.random.default_rng(0).integers(0, 255, (120, 160, 3)).astype(np.uint8)
    Image.fromarray(noise).save("photos/dog/one.png")
    extra = ["--h264", "28"] if find_spec("av") else []
    strobe("simulate", "photos", "shaky", "--k", "2", "--size", "64", "--label-space", "imagenet-vid", "-q", *extra)


def vary() -> None:
    """Corrupt the anchors of a dataset. The corrupted images are rendered when they are read."""
    strobe("vary", "corruption", "shaky", "foggy", "--kind", "fog,jpeg_compression", "--severity", "1,5", "-q")
    strobe("inspect", "foggy", "--sheet", "foggy.png", "-q")
    expect(Path("foggy.png").stat().st_size > 1000, "the contact sheet of corrupted images is empty")


def ladder() -> None:
    """Make a background ladder with true boxes and masks."""
    strobe("synthesize", "masked", "--videos", "4", "--size", "48", "--k", "0", "--masks", "-q")
    strobe("vary", "background", "masked", "ladder", "-q")
    expect(Path("ladder/ladders.png").stat().st_size > 1000, "the image of the ladders is empty")


def inspect() -> None:
    """Print a dataset's content, and make a contact sheet."""
    strobe("inspect", "world", "--sheet", "sheet.png", "--sets", "2", "-q")
    expect(Path("sheet.png").stat().st_size > 1000, "the contact sheet is empty")


def exchange() -> None:
    """Export to every format, and import again."""
    table = (
        ("coco", "world"),
        ("csv", "world"),
        ("fiftyone", "world"),
        ("croissant", "world"),
        ("imagenet-vid-robust", "shaky"),
    )
    for form, dataset in table:
        strobe("export", dataset, form, f"as-{form}", "--media", "copy", "-q")
    strobe("export", "foggy", "huggingface", "as-huggingface", "-q")
    strobe("export", "world", "card", "as-card")
    expect(len(list(Path("as-huggingface").rglob("*.parquet"))) == 2, "huggingface is not two Parquet files")
    strobe("inspect", "as-croissant")
    strobe("import", "imagenet-vid-robust", "as-imagenet-vid-robust", "from-release", "-q")
    document = next(Path("as-coco").rglob("*.json"))
    strobe("import", "coco-vid", str(document), "from-coco", "--no-media", "-q")
    Path("frames/v1").mkdir(parents=True)
    for place, picture in enumerate(sorted(one for one in Path("shaky/media").rglob("*") if one.is_file())):
        shutil.copy(picture, f"frames/v1/{place:04d}{picture.suffix}")
    Path("labels.csv").write_text("video,label\nv1,cat\n", encoding="utf-8")
    strobe("import", "frames", "frames", "from-frames", "--labels", "labels.csv", "--k", "2", "-q")


def cut_off() -> None:
    """Check that an unreadable frame is excluded and reported, and that the run can be read again."""
    shutil.copytree("world", "cut")
    victim = sorted(Path("cut/media").rglob("*.*"))[0]
    victim.write_bytes(victim.read_bytes()[:100])
    for _ in range(2):
        said = strobe("predict", "cut", "-m", "py:model.py:make", "-o", "run-cut")
    expect("without an answer" in said, f"predict does not report a truncated frame: {said.strip()}")
    strobe("score", "run-cut", "-q")


def measure() -> None:
    """Predict with a plugin, score and compare. Run eval and the report if plotting is installed."""
    strobe("predict", "world", "-m", "py:model.py:make", "-o", "run-py", "-q")
    strobe("score", "run-py", "-q")
    cut_off()
    strobe("score", "world", "-m", "preds:right.json", "-m", "preds:wrong.json", "-o", "run", "-q")
    models = json.loads(Path("run/results.json").read_text(encoding="utf-8"))["models"]
    expect(models["right"]["acc_pmk"]["value"] == 1.0, f"the right predictions score {models['right']['acc_pmk']}")
    expect(models["wrong"]["acc_pmk"]["value"] < 1.0, f"the wrong predictions score {models['wrong']['acc_pmk']}")
    expect("right" in strobe("compare", "run", "-q"), "compare does not name the models")
    strobe("eval", "world", "-m", "preds:right.json", "-o", "run-eval", "--no-report", "-q")
    needs(
        "tensorboard", "tensorboard", "eval", "world", "-m", "preds:right.json", "-o", "run-log", "--log", "tensorboard"
    )
    strobe("export", "run", "run-eval", "run-py", "leaderboard", "board")
    board = json.loads(Path("board/leaderboard.json").read_text(encoding="utf-8"))["boards"]
    expect([one["rank"] for one in board[0]["entries"][:2]] == [1, 1], f"the right predictions are not first: {board}")


def decide() -> None:
    """Check that a gate passes the right predictions and fails the wrong ones, and print the history of two runs."""
    strobe("gate", "run", "-m", "right", "--baseline", "wrong", "--max-loss", "acc_pmk=1", "--min", "acc_pmk=50", "-q")
    said = strobe(
        "gate", "run", "-m", "wrong", "--baseline", "right", "--max", "drop=1", "--min", "acc_pmk=99", "-q", code=1
    )
    expect("acc_pmk" in said, f"gate does not print what failed: {said}")
    expect(Path("run/gate/gate.xml").is_file(), "gate wrote no JUnit file")
    expect("run-eval" in strobe("history", "run-eval", "run", "-m", "right", "-q"), "history does not name its runs")
    words = ("history", "run-eval", "run", "-o", "history", "-q")
    if needs("matplotlib", "report", *words):
        strobe(*words)
        expect(Path("history/history.csv").is_file(), "history wrote no table")


def report() -> None:
    """Make the report, with its figures inside."""
    if not needs("matplotlib", "report", "report", "run", "-q"):
        return
    strobe("report", "run", "-q")
    page = Path("run/report.html").read_text(encoding="utf-8")
    expect("<svg" in page and "<style" in page and len(page) > 50_000, f"the report has {len(page)} characters")


def review() -> None:
    """Import and export votes, print the progress, and serve the page."""
    if not needs("sqlalchemy", "review", "review", "serve", "world", "--no-open"):
        return
    with Path("as-csv/sets.csv").open(encoding="utf-8", newline="") as file:
        members = list(csv.DictReader(file))
    rows = [(row["set_id"], row["frame_id"], "similar") for row in members if row["is_anchor"] == "false"]
    with Path("votes.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("set", "frame", "decision"), *rows])
    strobe("review", "import", "world", "votes.csv")
    strobe("review", "status", "world")
    strobe("review", "export", "world", "-o", "reviewed")
    serve()


def serve() -> None:
    """Check that the server delivers the page and its script, and that Ctrl-C ends it."""
    server = subprocess.Popen(
        [sys.executable, "-u", "-m", "strobe", "review", "serve", "world", "--port", "0", "--no-open"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        output = ""
        for line in server.stdout or ():
            output += line
            if found := re.search(r"http://127\.0\.0\.1:\d+\S*", line):
                break
        else:
            raise Failed(f"review serve printed no address: {output.strip()[-300:]}")
        for _ in range(50):
            try:
                page = urllib.request.urlopen(found[0], timeout=10).read().decode()
                break
            except OSError:
                time.sleep(0.2)
        else:
            raise Failed(f"no server answers at {found[0]}")
        expect("<html" in page, "the review page is not HTML")
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)


def with_torch() -> None:
    """Run the verbs that need torch: a bundled classifier, a short training, the shipped detector, the demo."""
    few = [word for change in ("clips=8", "steps=2", "test_clips=1") for word in ("--set", change)]
    strobe("train", "detector", "-m", "strobe-tiny", "-o", "tiny", *few, "-q")
    strobe("eval", "world", "-m", "strobe-tiny", "-m", "strobe-tiny@tiny/model.safetensors", "-o", "run-tiny", "-q")
    two = ("-m", "boxes:strobe-tiny", "-m", "crop:truth,context=1.5:strobe-world")
    said = strobe("eval", "world", *two, "-o", "run-two", "--no-report")
    expect("from the boxes of strobe-tiny" in said and "coverage" in said, f"two models together print: {said}")
    strobe("synthesize", "many", "--videos", "40", "--size", "32", "--k", "1", "-q")
    quick = ("--set", "epochs=1", "--evaluations", "1", "--image-size", "32", "-q")
    strobe("train", "finetune", "many", "-m", "strobe-net", "--from-scratch", "-o", "tuned", *quick)
    strobe("eval", "many", "-m", "strobe-net@tuned/model.safetensors", "-o", "run-tuned", "-q")
    strobe("demo", "-q")


def without_torch() -> None:
    """Check that verbs that need torch name the extra, and that bundled models run without it."""
    if find_spec("torch") is None:
        detector = ("train", "detector", "-m", "strobe-tiny", "-o", "tiny")
        train = ("train", "finetune", "world", "-m", "timm:resnet18", "-o", "tuned")
        for words in (("demo", "--offline", "--training"), detector, train):
            expect("strobe-vision[" in strobe(*words, code=2), f"strobe {words[0]} does not print what to install")
        strobe("eval", "world", "-m", "strobe-world", "-m", "strobe-tiny", "-o", "run-graphs", "-q")


def main() -> None:
    """Run every step in an empty folder. Exit with 1 if a step failed."""
    steps: list[Callable[[], None]] = [
        about, synthesize, build, simulate, vary, ladder, inspect, exchange, measure, decide, report, review,
        without_torch,
    ]  # fmt: skip
    steps += [with_torch] if "--torch" in sys.argv else []
    failed = []
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory(prefix="strobe-smoke-") as place, chdir(place):
        for step in steps:
            begin = time.perf_counter()
            try:
                step()
                outcome = "ok"
            except Exception as error:
                failed.append(step.__name__)
                outcome = f"FAILED {type(error).__name__}: {error}"
            print(f"  {step.__name__:<14} {time.perf_counter() - begin:5.1f} s  {outcome}", flush=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
