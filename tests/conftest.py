"""What all tests share: hypothesis without clocks or luck, a real Chromium for those marked `browser`, and the zoo, a
small dataset with boxes and tracks and detections that break on named frames."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.core.tables import Boxes, Frames, Labels, Sets, Videos, texts

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))  # for project_files, and what tests try of the scripts

# Machines are shared and noisy: no deadlines; and the same examples every time, so that a red test is red again.
settings.register_profile("strobe", deadline=None, derandomize=True)
settings.register_profile("mutants", deadline=None, derandomize=True, max_examples=25)  # scripts/mutants.py: many runs
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)  # make quick
settings.load_profile(os.environ.get("STROBE_HYPOTHESIS", "strobe"))

# As many test processes run as there are cores: with more threads each, they wait for one another most of the time.
os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it as it is imported; so do our children

# A shell that starts us in the background has SIGINT ignored, and children inherit that: Ctrl-C tests need it back.
signal.signal(signal.SIGINT, signal.default_int_handler)

LAUNCH_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(autouse=True)
def forgotten_keys() -> Iterator[None]:
    """Forget the keys of a test after it: they may be words that another test expects in a message."""
    from strobe.core import secrets

    yield
    secrets._known.clear()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A Playwright `Browser`: $STROBE_CHROMIUM, else the system's chromium, else Playwright's own."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = os.environ.get("STROBE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=LAUNCH_ARGS, headless=True)
        yield browser
        browser.close()


class PageLog:
    """What a page did that a quiet page does not do: console errors, exceptions, requests."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []


@pytest.fixture
def browser_page(chromium: Any) -> Iterator[tuple[Any, PageLog]]:
    """A fresh page of its own context (1280×900) and the log of its console errors and requests."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(60_000)
    page = context.new_page()
    log = PageLog()
    page.on(
        "console", lambda message: log.errors.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: log.errors.append(str(error)))
    page.on("request", lambda request: log.requests.append(request.url))
    yield page, log
    context.close()


@pytest.fixture(scope="session")
def axe() -> Any:
    """Asks axe-core for the serious faults of a page. Fetched by npm into a cache outside the tree; not shipped."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not here, so axe-core cannot be fetched")
    cache = Path(tempfile.gettempdir()) / "strobe-axe-core"
    script = cache / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        cache.mkdir(exist_ok=True)
        command = [npm, "install", "--prefix", str(cache), "--no-audit", "--no-fund", "--ignore-scripts", "axe-core@4"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
        if done.returncode or not script.exists():
            pytest.skip("axe-core cannot be fetched by npm here")
    text = script.read_text(encoding="utf-8")

    def serious(page):
        page.evaluate(text)
        found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
        return [
            (one["id"], [node["html"][:100] for node in one["nodes"]])
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    return serious


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in a browser get another try: on a busy machine they stumble now and then.

    A rerun is counted in the summary: one that comes again and again is a fault of the page or of the test. No other
    test gets one.
    """
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=1))


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[Any]]]:
    """`subprocess.Popen`; what a failed test leaves running is ended, its pipes closed: no later one trips on it."""
    with ExitStack() as at_end:

        def start(command: list[str], **options: Any) -> subprocess.Popen[Any]:
            process = at_end.enter_context(subprocess.Popen(command, **options))
            at_end.callback(process.kill)
            return process

        yield start


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: exit code, stdout and stderr of the words it is given."""
    from strobe.cli.main import main

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


class Heard(Silent):
    """A Progress that keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def heard() -> Heard:
    return Heard()


KILLED = """
import os, sys
from pathlib import Path
%s

def mortal(at, names):
    calls = 0

    def deadly(real):
        def call(*args, **options):
            nonlocal calls
            calls += 1
            if calls > at:
                os._exit(9)
            return real(*args, **options)
        return call

    for name in names:
        setattr(os, name, deadly(getattr(os, name)))

for at in range(1000):  # one child for each number of calls it may make; the first to get through is the last
    place = Path(sys.argv[1]) / str(at)
    begin(place)
    child = os.fork()
    if not child:
        change(place, lambda *names: mortal(at, names))
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


@pytest.fixture
def killed_at_every_call(tmp_path: Path) -> Callable[[str], list[Path]]:
    """Folders whose change was killed, each at a later call of the system, by a script with two functions.

    `begin(place)` lays the folder out. `change(place, mortal)` changes it; after `mortal("rename", …)` the process dies
    in a call of one of these functions of `os`.
    """

    def run(script: str) -> list[Path]:
        (tmp_path / "killed").mkdir()
        subprocess.run([sys.executable, "-c", KILLED % script, tmp_path / "killed"], check=True)
        return sorted((tmp_path / "killed").iterdir(), key=lambda place: int(place.name))

    return run


SPACE = LabelSpace.of_names("zoo", ["fox", "sheep", "bird"])


def make_dataset(*, n_videos=4, k=2, tracks=True, label_source="frame", boxes=True) -> Dataset:
    """One set per video, 2k + 1 frames, one object of class (video mod 3) that moves by 3 pixels a frame."""
    width = 2 * k + 1
    n = n_videos * width
    video, index = np.repeat(np.arange(n_videos), width), np.tile(np.arange(width), n_videos)
    label = video % 3
    corner = 20.0 + 3.0 * index
    xyxy = np.stack([corner, np.full(n, 10.0), corner + 40.0, np.full(n, 60.0)], axis=1)
    return Dataset(
        info=DatasetInfo(name="zoo", label_space=SPACE, k=k, label_source=label_source),
        videos=Videos(
            video_id=texts([f"v{i}" for i in range(n_videos)]),
            name=texts([f"video {i}" for i in range(n_videos)]),
            fps_num=np.full(n_videos, 30),
            fps_den=np.ones(n_videos, dtype=int),
            n_frames=np.full(n_videos, width),
            path=texts([""] * n_videos),
            codec=texts([""] * n_videos),
        ),
        frames=Frames(
            video=video,
            index=index,
            key=texts([f"v{v}/{i}.png" for v, i in zip(video, index, strict=True)]),
            pts=np.zeros(n, dtype=int),
            time_num=index,
            time_den=np.full(n, 30),
            pict_type=texts([""] * n),
            width=np.full(n, 200),
            height=np.full(n, 100),
            sha256=texts([""] * n),
            media=texts([""] * n),
        ),
        sets=Sets(
            set_id=texts([f"s{i}" for i in range(n_videos)]),
            set=video,
            frame=np.arange(n),
            distance=(index - k).astype(float),
            is_anchor=index == k,
        ),
        labels=Labels(frame=np.arange(n), label=label),
        boxes=Boxes(
            frame=np.arange(n),
            label=label,
            xyxy=xyxy,
            track=np.zeros(n, dtype=int) if tracks else np.full(n, -1),
            crowd=np.zeros(n, dtype=bool),
        )
        if boxes
        else None,
    )


def perfect(dataset: Dataset) -> dict[int, list[tuple[int, tuple[float, ...], float]]]:
    """Per frame the right answer at 0.9: {frame: [(label, box, score)]}; tests spoil some of it."""
    boxes = dataset.boxes
    return {frame: [(int(boxes.label[frame]), tuple(boxes.xyxy[frame]), 0.9)] for frame in range(len(dataset.frames))}


def table(dataset: Dataset, answers) -> BoxAnswers:
    """The answers as a table; a frame that is not among them was not looked at."""
    rows = [(frame, *one) for frame, found in sorted(answers.items()) for one in found]
    scored = np.zeros(len(dataset.frames), dtype=bool)
    scored[list(answers)] = True
    return BoxAnswers.of(
        np.array([row[0] for row in rows], dtype=int),
        np.array([row[1] for row in rows], dtype=int),
        np.array([row[2] for row in rows], dtype=float).reshape(-1, 4),
        np.array([row[3] for row in rows], dtype=float),
        n_frames=len(dataset.frames),
        n_classes=3,
        scored=scored,
    )


class Zoo:
    """What tests need, behind one fixture."""

    dataset = staticmethod(make_dataset)
    perfect = staticmethod(perfect)
    table = staticmethod(table)


@pytest.fixture(scope="session")
def zoo():
    return Zoo
