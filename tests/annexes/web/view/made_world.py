"""A small world to look at: a dataset with images, a scored run of three models, and a viewer in a thread."""

import threading
import time
from pathlib import Path

import numpy as np
from PIL import Image

import strobe
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

SPACE = LabelSpace(name="toy", ids=("n01", "n02", "n03"), names=("cat", "dog", "<b>fox</b>"))
K, PER_VIDEO, VIDEOS = 2, 3, 8


def make_dataset(root: Path, *, images: bool = True) -> Dataset:
    """Eight videos of three sets of five frames, with hints."""
    width, n_sets = 2 * K + 1, PER_VIDEO * VIDEOS
    n, rng = n_sets * width, np.random.default_rng(3)
    owner = np.repeat(np.arange(n_sets), width)
    video, index = owner // PER_VIDEO, np.arange(n) % (PER_VIDEO * width)
    offset = np.tile(np.arange(-K, K + 1), n_sets)
    zeros = np.zeros(n, dtype=np.int64)
    names = texts([f"clip{number}" for number in range(VIDEOS)])
    (root / "media").mkdir(parents=True)
    if images:
        for row in range(n):
            shade = rng.integers(0, 255, (36, 48, 3)).astype(np.uint8)
            Image.fromarray(shade).save(root / f"media/{row}.jpg")
    dataset = Dataset(
        info=DatasetInfo(name="toys", label_space=SPACE, k=K),
        videos=Videos(
            video_id=names, name=names, fps_num=np.full(VIDEOS, 30), fps_den=np.ones(VIDEOS, dtype=np.int64),
            n_frames=np.full(VIDEOS, PER_VIDEO * width), path=texts([""] * VIDEOS), codec=texts([""] * VIDEOS),
        ),
        frames=Frames(
            video=video, index=index, key=texts([f"clip{v}/{i:03d}" for v, i in zip(video, index, strict=True)]),
            pts=zeros, time_num=index, time_den=zeros + 30, pict_type=texts([""] * n), width=zeros + 48,
            height=zeros + 36, sha256=texts([""] * n),
            media=texts([f"media/{row}.jpg" if images else "" for row in range(n)]),
        ),
        sets=Sets(
            set_id=texts([f"clip{one // PER_VIDEO}@{one % PER_VIDEO}" for one in range(n_sets)]), set=owner,
            frame=np.arange(n), distance=offset.astype(float), is_anchor=offset == 0,
        ),
        labels=Labels(frame=np.arange(n), label=(video % len(SPACE))),
        hints=Hints(
            cut=zeros.astype(float), blur=zeros.astype(float), motion=np.where(offset == 2, 5.0 * (owner % 2), 0.0),
            exposure=zeros.astype(float), duplicate=zeros > 0,
        ),
    )  # fmt: skip
    strobe.save_dataset(dataset, root)
    return strobe.load_dataset(root)


def answers(dataset: Dataset, n_models: int = 3) -> list[ClassAnswers]:
    """Models of which each is right, flickers and is wrong somewhere."""
    rng, out = np.random.default_rng(5), []
    truth = dataset.labels.label
    for number in range(n_models):
        scores = rng.random((len(dataset.frames), len(SPACE)))
        scores[np.arange(len(truth)), truth] += 0.45 + 0.2 * number
        out.append(ClassAnswers.from_scores(f"net:{number}", scores, kind="logits"))
    return out


def make_run(folder: Path, data: Path, models: list[ClassAnswers]) -> Path:
    """A scored run with these answers."""
    opened, run = Opened.of(data), Run(folder)
    request = ScoreRunOptions(options=ScoreOptions(replicates=50, control_seeds=2))
    files = [RequestedModel(one.model, "answers", answers=one) for one in models]
    with run.stage() as stage:
        bring(opened.dataset, run, files, request, Silent(), stage=stage)
        score_staged(run, stage, opened, request, Silent(), asked_for=[one.name for one in files])
    return folder


class ViewServer:
    """A viewer in a thread of this process, and clients that talk to it as the page does."""

    def __init__(self, *places: Path, invite: tuple[str, ...] = ("Guest",)) -> None:
        import uvicorn

        from strobe.annexes.web.guard import ServerAddress
        from strobe.annexes.web.serve import bind, config_of
        from strobe.annexes.web.view.access import ViewKeys
        from strobe.annexes.web.view.app import ViewWork, make_view_app
        from strobe.annexes.web.view.library import Library
        from strobe.annexes.web.view.workflow import compare_aside, write_selection

        self._listener = bind("127.0.0.1", 0)
        address = ServerAddress.of("127.0.0.1", self._listener.getsockname()[1])
        self.url = address.url
        self.keys = ViewKeys({"Ann": "owner", **dict.fromkeys(invite, "guest")}, secret=b"own", scope=str(places))
        self.library = Library(places, secret=b"sealed" * 6)
        self.guard = make_view_app(
            self.library, self.keys, ViewWork(compare=compare_aside, write=write_selection), address
        )
        self._server = uvicorn.Server(config_of(self.guard))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + 60
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        self._clients = []

    def link(self, name="Ann"):
        return f"{self.url}/#key={self.keys.key_of(name)}"

    def client(self, name=None):
        """A client with a cookie jar of its own, logged in where a name is given."""
        import httpx

        made = httpx.Client(base_url=self.url, headers={"origin": self.url}, timeout=30)
        self._clients.append(made)
        if name is not None:
            assert made.post("/api/login", json={"key": self.keys.key_of(name)}).status_code == 200
        return made

    @property
    def data(self) -> str:
        return next(iter(self.library.datasets))

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        self._server.should_exit = True
        self._thread.join(20)
        self._listener.close()
