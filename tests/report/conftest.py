"""A small made-up dataset with images, three made-up models, and their results by the project's own score."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from strobe.analyses.classification import Prepared, score
from strobe.analyses.comparison import compare
from strobe.analyses.detection import score as detection_score
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Results, dataset_facts
from strobe.analyses.slices import OffsetPool
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.records import Detections
from strobe.core.tables import Boxes, Frames, Labels, Sets, Videos, texts
from strobe.studies.temporal.score_trend import fit

sys.path.insert(0, str(Path(__file__).parent))

K = 5
CLASSES = ("ball", "crate", "kite", "lizard & <b>snake</b>")
MODELS = ("steady-net", "quick-net", "jitter-net</script>")
FPS = (24, 30)


class PaintedSource:
    """Frames painted on the spot: a shape of the set's class wandering over a gradient."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.size = (320, 200)

    def read(self, row: int) -> np.ndarray:
        video = int(self.dataset.frames.video[row])
        index = int(self.dataset.frames.index[row])
        label = self.dataset.labels_of(row)[0]
        rng = np.random.default_rng(video)
        width, height = self.size
        low, high = rng.integers(60, 200, size=(2, 3))
        ramp = np.linspace(0, 1, width)[None, :, None]
        base = np.broadcast_to(low + (high - low) * ramp, (height, width, 3)).astype(np.uint8)
        picture = Image.fromarray(np.ascontiguousarray(base))
        draw = ImageDraw.Draw(picture)
        x, y = 60 + index * 9, 100 + 30 * np.sin(index / 2 + video)
        fill = tuple(int(v) for v in rng.integers(0, 255, 3))
        if label == 0:
            draw.ellipse((x - 34, y - 34, x + 34, y + 34), fill=fill)
        elif label == 1:
            draw.rectangle((x - 32, y - 32, x + 32, y + 32), fill=fill)
        elif label == 2:
            draw.polygon([(x, y - 40), (x + 30, y), (x, y + 40), (x - 30, y)], fill=fill)
        else:
            draw.line([(x - 60, y), (x - 20, y + 20), (x + 20, y - 20), (x + 60, y)], fill=fill, width=16)
        return np.asarray(picture)

    def read_encoded(self, row: int) -> bytes | None:
        buffer = io.BytesIO()
        Image.fromarray(self.read(row)).save(buffer, "PNG")
        return buffer.getvalue()


def make_dataset(n_videos: int = 24, *, name: str = "painted-clips", seed: int = 3) -> Dataset:
    rng = np.random.default_rng(seed)
    n = 2 * K + 1
    columns: dict[str, list[Any]] = {key: [] for key in ("video", "index", "key", "time_num", "time_den", "type")}
    sets: dict[str, list[Any]] = {key: [] for key in ("set", "frame", "distance", "anchor")}
    labels: list[tuple[int, int]] = []
    for video in range(n_videos):
        fps = FPS[video % 2]
        label = video % len(CLASSES)
        for index in range(n):
            frame = len(columns["video"])
            columns["video"].append(video)
            columns["index"].append(index)
            columns["key"].append(f"clip{video:03d}/{index:06d}.png")
            columns["time_num"].append(index)
            columns["time_den"].append(fps)
            columns["type"].append("I" if index == 0 else ("P" if index % 3 == 0 else "B"))
            labels.append((frame, label))
            if index != K and rng.random() < 0.08:
                continue
            sets["set"].append(video)
            sets["frame"].append(frame)
            sets["distance"].append(float(index - K))
            sets["anchor"].append(index == K)
    total = len(columns["video"])
    unknown = texts([""] * total)
    return Dataset(
        info=DatasetInfo(name=name, label_space=LabelSpace.of_names("painted", CLASSES), k=K, reviewed="release"),
        videos=Videos(
            video_id=texts([f"{video:016x}" for video in range(n_videos)]),
            name=texts([f"clip{video:03d}" for video in range(n_videos)]),
            fps_num=np.array([FPS[video % 2] for video in range(n_videos)]),
            fps_den=np.ones(n_videos, dtype=int),
            n_frames=np.full(n_videos, n),
            path=texts([""] * n_videos),
            codec=texts([""] * n_videos),
        ),
        frames=Frames(
            video=np.array(columns["video"]), index=np.array(columns["index"]), key=texts(columns["key"]),
            pts=np.array(columns["index"]), time_num=np.array(columns["time_num"]),
            time_den=np.array(columns["time_den"]), pict_type=texts(columns["type"]), width=np.full(total, 320),
            height=np.full(total, 200), sha256=unknown, media=unknown,
        ),
        sets=Sets(
            set_id=texts([f"clip{video:03d}@{K}" for video in range(n_videos)]), set=np.array(sets["set"]),
            frame=np.array(sets["frame"]), distance=np.array(sets["distance"]), is_anchor=np.array(sets["anchor"]),
        ),
        labels=Labels(frame=np.array([f for f, _ in labels]), label=np.array([c for _, c in labels])),
    )  # fmt: skip


def make_predictions(dataset: Dataset, *, seed: int = 5) -> dict[str, ClassAnswers]:
    out = {}
    truth = np.zeros(len(dataset.frames), dtype=int)
    truth[dataset.labels.frame] = dataset.labels.label
    away = np.abs(dataset.frames.index - K)
    for place, name in enumerate(MODELS):
        rng = np.random.default_rng(seed + place)
        scores = rng.normal(size=(len(truth), len(CLASSES))).astype(np.float64)
        strength = (4.2, 3.2, 2.7)[place] - (0.05, 0.12, 0.2)[place] * away
        scores[np.arange(len(truth)), truth] += strength + rng.normal(size=len(dataset.videos))[dataset.frames.video]
        out[name] = ClassAnswers.from_scores(name, scores, kind="logits")
    return out


def make_detection_dataset() -> Dataset:
    dataset = make_dataset(12, name="painted-boxes")
    source = dataset.frames
    x = 60.0 + source.index * 9
    y = 100 + 30 * np.sin(source.index / 2 + source.video)
    xyxy = np.stack([x - 34, y - 34, x + 34, y + 34], axis=1).astype(np.float64)
    n = len(source)
    boxes = Boxes(
        frame=np.arange(n), label=dataset.labels.label, xyxy=xyxy, track=np.zeros(n, dtype=int),
        crowd=np.zeros(n, dtype=bool),
    )  # fmt: skip
    return Dataset(
        info=dataset.info, videos=dataset.videos, frames=source, sets=dataset.sets, labels=dataset.labels, boxes=boxes
    )


def make_detections(dataset: Dataset, *, seed: int = 7) -> dict[str, BoxAnswers]:
    """Two made-up detectors: the truth jittered, at times missed or misnamed, with false boxes; worse far off."""
    out: dict[str, BoxAnswers] = {}
    for place, name in enumerate(("near-sighted", "sharp-eyed")):
        rng = np.random.default_rng(seed + place)
        worse = (0.05, 0.02)[place]
        found: list[Detections | None] = []
        for row in range(len(dataset.frames)):
            away = abs(int(dataset.frames.index[row]) - K)
            xyxy, label, score = [], [], []
            for box in dataset.boxes.of_frame(row):
                if rng.random() < worse * away:
                    continue
                xyxy.append(np.array(box.xyxy) + rng.normal(scale=2 + away * (2.5, 1.0)[place], size=4))
                label.append((box.label + (rng.random() < worse * away)) % len(CLASSES))
                score.append(rng.uniform(0.6, 0.99))
            if rng.random() < 0.15:
                corner = rng.uniform(0, 120, size=2)
                xyxy.append(np.array([*corner, *(corner + rng.uniform(20, 70, size=2))]))
                label.append(int(rng.integers(len(CLASSES))))
                score.append(rng.uniform(0.1, 0.8))
            order = np.argsort(score)[::-1]
            found.append(
                Detections(
                    xyxy=np.array(xyxy, dtype=np.float64).reshape(-1, 4)[order],
                    label=np.array(label, dtype=np.int32)[order],
                    score=np.array(score, dtype=np.float64)[order],
                )
            )
        out[name] = BoxAnswers.of_frames(found, n_classes=len(CLASSES), model=name)
    return out


def score_detectors(dataset: Dataset, detections: dict[str, BoxAnswers]) -> Results:
    """results.json of these detectors, by the project's own score."""
    how = ScoreOptions(replicates=100)
    models = {name: detection_score(dataset, found, model=name, how=how) for name, found in detections.items()}
    return Results(dataset=dataset_facts(dataset), models=models)


def score_all(dataset: Dataset, predictions: dict[str, ClassAnswers]) -> Results:
    """results.json of these predictions, by the project's own score; few draws, since only the look matters here."""
    options = ScoreOptions(replicates=200, control_seeds=20)
    prepared = Prepared(dataset, options)
    pool = OffsetPool(prepared.plan)
    scores = [score(dataset, one, prepared=prepared, pool=pool, standard=True) for one in predictions.values()]
    return Results(
        dataset=dataset_facts(dataset),
        models={one.model: one for one in scores},
        offset_error_all_models=pool.estimates(),
        comparison=compare(dataset, scores),
        trend=fit(dataset, scores, replicates=200),
    )


@pytest.fixture(scope="session")
def painted() -> tuple[Dataset, dict[str, ClassAnswers], Results, PaintedSource]:
    dataset = make_dataset()
    predictions = make_predictions(dataset)
    return dataset, predictions, score_all(dataset, predictions), PaintedSource(dataset)


@pytest.fixture(scope="session")
def address(painted, tmp_path_factory) -> str:
    """Where the report of the painted dataset lies."""
    from strobe.report.page import write_report

    dataset, predictions, results, source = painted
    return write_report(tmp_path_factory.mktemp("browser"), results, dataset, predictions, source).as_uri()


@pytest.fixture
def opened(browser_page, address):
    """That report in a browser; afterwards it has said nothing to the console and asked for nothing."""
    page, log = browser_page
    page.goto(address)
    yield page
    assert log.errors == []
    assert {url.partition("#")[0] for url in log.requests if not url.startswith("data:")} == {address}


@pytest.fixture(scope="session")
def make_results() -> Any:
    return score_all


@pytest.fixture(scope="session")
def boxed() -> tuple[Dataset, dict[str, BoxAnswers], Results, PaintedSource]:
    dataset = make_detection_dataset()
    detections = make_detections(dataset)
    return dataset, detections, score_detectors(dataset, detections), PaintedSource(dataset)
