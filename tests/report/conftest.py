"""A small made-up dataset with pictures, three made-up models, and results counted from them by plain code."""

import io
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw
from scipy.special import betaincinv

from strobe.core.dataset import Boxes, Dataset, DatasetInfo, Frames, Labels, Sets, Videos, texts
from strobe.core.labels import LabelSpace
from strobe.core.predictions import Predictions

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


def make_predictions(dataset: Dataset, *, seed: int = 5) -> dict[str, Predictions]:
    out = {}
    truth = np.zeros(len(dataset.frames), dtype=int)
    truth[dataset.labels.frame] = dataset.labels.label
    away = np.abs(dataset.frames.index - K)
    for place, name in enumerate(MODELS):
        rng = np.random.default_rng(seed + place)
        scores = rng.normal(size=(len(truth), len(CLASSES))).astype(np.float64)
        strength = (4.2, 3.2, 2.7)[place] - (0.05, 0.12, 0.2)[place] * away
        scores[np.arange(len(truth)), truth] += strength + rng.normal(size=len(dataset.videos))[dataset.frames.video]
        out[name] = Predictions.from_scores(name, scores, kind="logits")
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


def share(count: int, n: int) -> dict[str, Any]:
    """A proportion with its Clopper–Pearson interval, as results.json writes it."""
    if n == 0:
        return {"value": None, "low": None, "high": None, "n": 0, "count": None, "method": "none", "reason": "n = 0"}
    low = 0.0 if count == 0 else float(betaincinv(count, n - count + 1, 0.025))
    high = 1.0 if count == n else float(betaincinv(count + 1, n - count, 0.975))
    return {"value": count / n, "low": low, "high": high, "n": n, "count": count, "method": "clopper-pearson"}


def plain(value: float | None, n: int) -> dict[str, Any]:
    return {
        "value": value, "low": None, "high": None, "n": n, "count": None, "method": "none",
        "reason": "no interval in this made-up result",
    }  # fmt: skip


def _triple(first: np.ndarray, k: float, mask: np.ndarray) -> dict[str, Any]:
    n = int(mask.sum())
    c0, ck = int((first[mask] > 0).sum()), int((first[mask] > k).sum())
    return {"acc_orig": share(c0, n), "acc_pmk": share(ck, n), "drop": share(c0 - ck, n)}


def make_results(dataset: Dataset, predictions: dict[str, Predictions]) -> dict[str, Any]:
    sets, space = dataset.sets, dataset.info.label_space
    every = np.ones(dataset.n_sets, dtype=bool)
    models, anchor_label = {}, dataset.labels.label[sets.anchor_frame]
    for name, prediction in predictions.items():
        right = dataset.right_rows(prediction.label)
        first = np.full(dataset.n_sets, np.inf)
        np.minimum.at(first, sets.set[~right], np.abs(sets.distance[~right]))
        curve = [{"k": k, "acc": _triple(first, k, every)["acc_pmk"], "drop": _triple(first, k, every)["drop"]}
                 for k in range(K + 1)]  # fmt: skip
        fps = np.array([Fraction(int(n)) for n in dataset.videos.fps_num[dataset.video_of_set]], dtype=float)
        points = [{"ms": ms, "acc": share(int((first / fps * 1000 > ms + 0.5).sum()), dataset.n_sets)}
                  for ms in (0, 33, 42, 67, 83, 100, 125, 133, 167)]  # fmt: skip
        head = _triple(first, K, every)
        offsets = sorted({int(d) for d in sets.distance})
        smooth = [
            {"method": method, "parameter": w, "delay_frames": delay * w, "incomplete": 0.1 * w,
             **_triple(np.where(np.arange(dataset.n_sets) % 9 < w * gain, np.inf, first), K, every)}
            for method, delay, gain in (("centred", 1.0, 1), ("causal", 0.5, 0.5), ("ema", 0.8, 0.5))
            for w in (0, 1, 2, 3)
        ]  # fmt: skip
        types = {kind: dataset.frames.pict_type[sets.anchor_frame] != kind for kind in ("I", "P", "B")}
        models[name] = {
            "task": "classification", "kind": prediction.kind, "model_type": None, "standard": True, **head,
            "curve": curve, "time_curve": {"t_max_ms": 167, "n_sets": dataset.n_sets, "points": points},
            "per_class": [
                {"label": space.ids[c], "name": space.names[c], **_triple(first, K, anchor_label == c),
                 "small": int((anchor_label == c).sum()) < 10}
                for c in range(len(space))
            ],
            "per_class_median": None,
            "per_offset": [
                {"offset": o, "error": share(int((~right)[sets.distance == o].sum()), int((sets.distance == o).sum()))}
                for o in offsets
            ],
            "mean_frame": share(int(right.sum()), len(right)),
            "given_right_anchor": {"sets": share(head["acc_pmk"]["count"], head["acc_orig"]["count"]), "members": None},
            "flip_rate": plain(0.11, dataset.n_sets), "right_wrong_flip_rate": plain(0.09, dataset.n_sets),
            "confidence_swing": plain(0.31, dataset.n_sets),
            "first_failure": {
                "n": head["acc_orig"]["count"], "events": head["drop"]["count"], "median": None,
                "survival": [
                    {"distance": k, "at_risk": head["acc_orig"]["count"], "events": 0,
                     "alive": share(curve[k]["acc"]["count"], head["acc_orig"]["count"])}
                    for k in range(1, K + 1)
                ],
            },
            "smoothing": smooth,
            "frame_types": [
                {"without": kind, "n_sets": int(mask.sum()), **_triple(first, K, mask),
                 "control": {"drop_mean": 0.2, "drop_low": 0.1, "drop_high": 0.3, "seeds": 100}}
                for kind, mask in types.items()
            ],
            "by_fps": [{"range": f"{v} fps", "n_sets": int((fps == v).sum()), **_triple(first, K, fps == v)}
                       for v in FPS],
            "by_hint": {}, "review_impact": None,
            "unscored": {"frames": 0, "sets": 0}, "bounds": None,
        }  # fmt: skip
    names = list(models)
    comparison = []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            gap = models[a]["acc_pmk"]["value"] - models[b]["acc_pmk"]["value"]
            comparison.append({
                "a": a, "b": b, "metric": "acc_pmk", "only_a": 5, "only_b": 1, "p": 0.02, "p_holm": 0.05,
                "difference": {"value": gap, "low": gap - 0.1, "high": gap + 0.1, "n": dataset.n_sets, "count": None,
                               "method": "bootstrap"},
                "sentence": f"{a} and {b} differ by {100 * gap:.1f} points.",
            })  # fmt: skip
    return {
        "schema": 1,
        "dataset": {
            "name": dataset.name, "digest": dataset.digest(), "n_sets": dataset.n_sets,
            "n_frames": len(dataset.frames), "n_videos": len(dataset.videos), "k": K, "axis": dataset.info.axis,
            "label_source": dataset.info.label_source, "reviewed": dataset.info.reviewed,
        },
        "settings": {"interval": "auto", "seed": 0, "merge": "max", "subset": None, "allow_missing": False},
        "models": models,
        "offset_error_all_models": None,
        "comparison": comparison,
        "trend": {"reason": "3 models with distinct accuracy; a fit needs 5"},
    }  # fmt: skip


@pytest.fixture(scope="session")
def painted() -> tuple[Dataset, dict[str, Predictions], dict[str, Any], PaintedSource]:
    dataset = make_dataset()
    predictions = make_predictions(dataset)
    return dataset, predictions, make_results(dataset, predictions), PaintedSource(dataset)
