"""A small world to look at: a dataset with images, a scored run of three models, and a viewer in a thread."""

from fractions import Fraction
from pathlib import Path

import numpy as np
from made_server import ServerInThread
from PIL import Image

import strobe
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import ClassAnswers
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.core.tables import Hints
from strobe.formats.bring import bring
from strobe.models.requested import RequestedModel
from strobe.store.opening import Opened
from strobe.store.run_folder import Run
from strobe.workflows.score import ScoreRunOptions, score_staged

SPACE = LabelSpace(name="toy", ids=("n01", "n02", "n03"), names=("cat", "dog", "<b>fox</b>"))
K, PER_VIDEO, VIDEOS = 2, 3, 8


def make_dataset(root: Path, *, images: bool = True) -> Dataset:
    """Eight videos of three sets of five frames, with hints."""
    width, made, rng, moves = 2 * K + 1, DatasetBuilder(), np.random.default_rng(3), []
    (root / "media").mkdir(parents=True)
    for number in range(VIDEOS):
        video = made.video(video_id=f"clip{number}", name=f"clip{number}", fps=Fraction(30), n_frames=PER_VIDEO * width)
        for of_video in range(PER_VIDEO):
            rows = []
            for index in range(of_video * width, (of_video + 1) * width):
                media = f"media/{number * PER_VIDEO * width + index}.jpg" if images else ""
                if images:
                    Image.fromarray(rng.integers(0, 255, (36, 48, 3)).astype(np.uint8)).save(root / media)
                rows.append(
                    made.frame(
                        video=video, index=index, key=f"clip{number}/{index:03d}", time_s=(index, 30), media=media,
                        size_wh=(48, 36), labels=[number % len(SPACE)],
                    )
                )  # fmt: skip
            members = [(row, float(place - K)) for place, row in enumerate(rows) if place != K]
            made.set(set_id=f"clip{number}@{of_video}", anchor=rows[K], members=members)
            moves += [0.0] * (width - 1) + [5.0 * ((number * PER_VIDEO + of_video) % 2)]
    none = np.zeros(len(moves))
    hints = Hints(cut=none, blur=none, motion=np.array(moves), exposure=none, duplicate=none > 0)
    strobe.save_dataset(made.build(DatasetInfo(name="toys", label_space=SPACE, k=K), hints=hints), root)
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


class ViewServer(ServerInThread):
    """A viewer of an owner and guests."""

    def __init__(self, *places: Path, invite: tuple[str, ...] = ("Guest",)) -> None:
        from strobe.annexes.web.view.access import ViewKeys
        from strobe.annexes.web.view.app import ViewWork, make_view_app
        from strobe.annexes.web.view.library import Library
        from strobe.annexes.web.view.workflow import compare_aside, write_selection

        self.keys = ViewKeys({"Ann": "owner", **dict.fromkeys(invite, "guest")}, secret=b"own", scope=str(places))
        self.library = Library(places, secret=b"sealed" * 6)
        work = ViewWork(compare=compare_aside, write=write_selection)
        super().__init__(lambda address: make_view_app(self.library, self.keys, work, address))

    def link(self, name="Ann"):
        return f"{self.url}/#key={self.keys.key_of(name)}"

    def client(self, name=None, **headers):
        return super().client(None if name is None else {"key": self.keys.key_of(name)}, **headers)

    @property
    def data(self) -> str:
        return next(iter(self.library.datasets))
