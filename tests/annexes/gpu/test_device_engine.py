"""Frames on a device through the engine: the answers of the CPU's way, to the bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("av")

from made_clips import encode  # noqa: E402
from software_engine import SoftwareEngine  # noqa: E402

import strobe  # noqa: E402
from strobe.annexes.gpu.sources import frames_on_gpu  # noqa: E402
from strobe.annexes.gpu.video import VideosOnDevice  # noqa: E402
from strobe.build.options import AnchorOptions  # noqa: E402
from strobe.build.source import VideoSource  # noqa: E402
from strobe.core.answers import ClassAnswers  # noqa: E402
from strobe.core.dataset import Dataset  # noqa: E402
from strobe.core.labels import Projection  # noqa: E402
from strobe.core.ports import Silent  # noqa: E402
from strobe.core.tasks import Task  # noqa: E402
from strobe.engine.engine import run_models  # noqa: E402
from strobe.engine.forward import Runner  # noqa: E402
from strobe.engine.worker import EngineOptions  # noqa: E402
from strobe.store.shards import (  # noqa: E402
    KEY_FACTS,
    FrameNames,
    ModelShards,
)
from strobe.workflows.build import build  # noqa: E402
from strobe.workflows.options import BuildOptions  # noqa: E402

WINDOWS = AnchorOptions(k=3, anchors_per_video=2)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("videos")
    return [
        encode(folder / "one.mp4", n=60),
        encode(folder / "two.mp4", n=41, rotation=90),
        encode(folder / "three.mkv", codec="mpeg4", b_frames=2, n=40),
    ]


def _answers(folder: Path, dataset: Dataset, source: Any, names: list[str], rows: Any = None) -> dict[str, Any]:
    model: Any = strobe.load_model("strobe-world", running=strobe.Running(device="cpu", offline=True))
    space = model.spec.label_space
    way = Projection(source=space, target=space, children=tuple((n,) for n in range(len(space))))
    runners = [Runner(name=name, model=model, projection=way) for name in names]
    stores = {
        name: ModelShards(folder, name, facts=dict.fromkeys(KEY_FACTS, ""), frames=FrameNames(dataset),
                          task=Task.CLASSIFICATION, n_classes=len(space))
        for name in names
    }  # fmt: skip
    keys = [str(key) for key in dataset.frames.key]
    options = EngineOptions(shard_size=16, threads=4, ahead=6)
    outcomes = run_models(
        runners, stores, source, frame_names=keys, rows=np.arange(len(keys)) if rows is None else rows,
        options=options, progress=Silent(),
    )  # fmt: skip
    found: dict[str, Any] = {}
    for name in names:
        stored = stores[name].read()
        assert isinstance(stored, ClassAnswers)
        found[name] = (np.asarray(stored.scores), outcomes[name].n_new, outcomes[name].n_unreadable)
    return found


def test_the_answers_are_those_of_the_cpus_frames(clips: list[Path], tmp_path: Path) -> None:
    """Two models share each frame; a video that is left to the CPU is among them; a second call goes on."""
    dataset = build(clips, tmp_path / "kept", BuildOptions(label=("dog",), sampling=WINDOWS, reference=True)).dataset
    first = np.arange(len(dataset.frames))[:9]
    _answers(tmp_path / "plain", dataset, VideoSource(dataset), ["a", "b"], first)
    plain = _answers(tmp_path / "plain", dataset, VideoSource(dataset), ["a", "b"])
    videos, engine = VideoSource(dataset), SoftwareEngine()
    source = VideosOnDevice(dataset, videos, engine, path=videos.path, device="cpu", sessions=2)
    _answers(tmp_path / "there", dataset, source, ["a", "b"], first)
    found = _answers(tmp_path / "there", dataset, source, ["a", "b"])
    for name in ("a", "b"):
        assert np.array_equal(found[name][0], plain[name][0])
        assert found[name][1:] == (len(dataset.frames) - 9, 0)
    assert [dataset.videos.name[video] for video in source.handed_over] == ["three"]


def test_without_a_gpu_nothing_changes(clips: list[Path], tmp_path: Path) -> None:
    dataset = build(clips, tmp_path / "kept", BuildOptions(label=("dog",), sampling=WINDOWS, reference=True)).dataset
    source = VideoSource(dataset)
    assert frames_on_gpu(source, dataset, "cpu", False) == (None, "")
