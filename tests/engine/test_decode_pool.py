"""Decoding on worker processes: the same bits as on threads, and nothing left behind however a run ends."""

import importlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_decoding import workers_of
from PIL import Image as Pillow

import strobe.engine.prediction as workflow
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.labels import Projection
from strobe.core.ports import SendableSource, Silent
from strobe.core.records import ModelSpec
from strobe.core.tasks import Task
from strobe.engine.decode_pool import DecodePool, can_start_workers
from strobe.engine.engine import run_models
from strobe.engine.forward import Runner
from strobe.engine.running import Running
from strobe.engine.worker import EngineOptions
from strobe.models.detectors.boxes import PlacementPreparation
from strobe.models.detectors.py import detector
from strobe.models.exact_resize import SentPlan
from strobe.models.plan import AsDecoded, ImagePlan
from strobe.store.frame_names import FrameNames
from strobe.store.media import MediaSource
from strobe.store.shards import KEY_FACTS, ModelShards

pytestmark = pytest.mark.skipif(not can_start_workers(), reason="needs Linux")
Make = Callable[..., Dataset]
SMALL = SentPlan(ImagePlan(size_hw=(24, 20), resize=26))
OTHER = SentPlan(ImagePlan(size_hw=(30, 30), fit="squash", interpolation="bilinear", channels="bgr"))


class Sums:
    """A classifier whose scores change with any one bit of its pixels."""

    device, lanes = "cpu", 1

    def __init__(self, dataset: Dataset, plan: Any, *, batch_size: int = 4) -> None:
        self.plan = self.preparation = plan
        self.prepare, self.before = plan.prepare, lambda: None
        self.spec = ModelSpec(
            name="sums", provider="test", task="classification", label_space=dataset.info.label_space,
            weights="0" * 64, batch_size=batch_size,
        )  # fmt: skip

    def forward(self, prepared: Any) -> Any:
        self.before()
        if isinstance(self.plan, SentPlan):  # frames still to be resized, as a device would do it
            size_hw, resize = self.plan.plan.size_hw, self.plan.plan.prepare
            prepared = [image if image.shape[:2] == size_hw else resize(image) for image in prepared]
        pixels = np.stack(prepared).reshape(len(prepared), -1).astype(np.float64)
        weights = np.random.default_rng(1).integers(1, 1000, (pixels.shape[1], 3))
        return (pixels @ weights / 1e6).astype(np.float32)


def _run(
    dataset: Dataset, out: Path, models: dict[str, Any], *, processes: int, in_flight: int = 1,
    task: Task = Task.CLASSIFICATION,
) -> dict[str, Any]:  # fmt: skip
    space, ids = dataset.info.label_space, dataset.frame_ids()
    stores = {
        name: ModelShards(
            out,
            name,
            facts=dict.fromkeys(KEY_FACTS, ""),
            frames=FrameNames(dataset),
            task=task,
            n_classes=len(space),
        )
        for name in models
    }
    return run_models(
        [
            Runner(name=name, model=model, projection=Projection.identity(space))
            for name, model in models.items()
        ],
        stores, MediaSource(dataset), frame_names=[str(key) for key in dataset.frames.key], rows=np.arange(len(ids)),
        options=EngineOptions(shard_size=16, processes=processes, in_flight=in_flight),
        progress=Silent(),
    )  # fmt: skip


def _shards(out: Path) -> dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*.parquet"))}


@pytest.mark.parametrize("in_flight", [1, 2])
def test_shards_are_byte_for_byte_those_of_threads(
    in_flight: int, colours: Make, tmp_path: Path, nothing_left: None
) -> None:
    dataset = colours(n_sets=9, k=2)
    root = dataset.root or Path()
    whole = (root / "media/00003.jpg").read_bytes()
    (root / "media/00003.jpg").write_bytes(whole[: len(whole) // 3])
    (root / "media/00007.jpg").unlink()
    (root / "media/00011.jpg").write_bytes(b"junk")
    Pillow.new("L", (12_000, 12_000)).save(root / "media/bomb.png")
    Pillow.new("LA", (50, 70), (90, 120)).save(root / "media/alpha.png")
    dataset.frames.media[[20, 21, 22, 23]] = ["media/bomb.png", "media/alpha.png", "", "../data.jpg"]

    def models() -> dict[str, Any]:
        first, third = Sums(dataset, SMALL), Sums(dataset, SMALL, batch_size=3)
        unresized = {name: Sums(dataset, replace(plan, on_device=True)) for name, plan in (("d", SMALL), ("e", OTHER))}
        return {"a": first, "b": Sums(dataset, OTHER, batch_size=5), "c": third, **unresized}

    threads = _run(dataset, tmp_path / "threads", models(), processes=0)
    processes = _run(dataset, tmp_path / "processes", models(), processes=2, in_flight=in_flight)
    want, got = _shards(tmp_path / "threads"), _shards(tmp_path / "processes")
    assert len(want) == 15
    assert want == got
    for name, outcome in processes.items():
        assert (outcome.n_new, outcome.n_unreadable, outcome.error) == (45, 6, None)
        assert outcome.first_problem == threads[name].first_problem


def test_boxes_are_those_of_threads_and_one_lane(colours: Make, tmp_path: Path, nothing_left: None) -> None:
    dataset = colours(n_sets=9, k=2)
    ((dataset.root or Path()) / "media/00007.jpg").unlink()

    def find(images: list[Any]) -> list[Any]:
        """As many boxes as the first pixel says, of a place and score that any other pixel changes."""
        out = []
        for image in images:
            place, whole = np.arange(int(image[0, 0, 0]) % 5), float(image.sum())
            corner = place + whole % 97
            boxes = np.stack([corner, corner, corner + 1 + place, corner + 2], axis=1)
            out.append((boxes, place % 3, 1 / (2 + place + whole)))
        return out

    def model(lanes: int) -> dict[str, Any]:
        made = detector(find, list(dataset.info.label_space.names), name="boxes", batch_size=4)
        made.lanes = lanes
        return {"boxes": made}

    _run(dataset, tmp_path / "one", model(1), processes=0, task=Task.DETECTION)
    fared = _run(dataset, tmp_path / "lanes", model(3), processes=2, in_flight=2, task=Task.DETECTION)["boxes"]
    assert (fared.n_new, fared.n_unreadable, fared.error) == (45, 1, None)
    want = _shards(tmp_path / "one")
    assert len(want) == 3
    assert want == _shards(tmp_path / "lanes")


@pytest.mark.parametrize("seen", [True, False])
def test_a_killed_worker_is_replaced(
    seen: bool, colours: Make, tmp_path: Path, nothing_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, killed = colours(n_sets=20, k=2), []
    model = Sums(dataset, SMALL)
    if not seen:  # one hears of a death only by asking: a killed process takes a moment to be gone
        monkeypatch.setattr(subprocess.Popen, "poll", lambda process: None)

    def kill() -> None:
        if not killed and len(workers_of(os.getpid())) == 2:
            killed.extend(workers_of(os.getpid()))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    model.before = kill
    outcome = _run(dataset, tmp_path / "run", {"m": model}, processes=2)["m"]
    assert len(killed) == 2
    assert (outcome.n_new, outcome.error) == (100, None)
    _run(dataset, tmp_path / "threads", {"m": Sums(dataset, SMALL)}, processes=0)
    assert _shards(tmp_path / "run") == _shards(tmp_path / "threads")


ODD = """
import os
from dataclasses import dataclass
import numpy as np

@dataclass(frozen=True)
class Odd:
    what: str
    n_bytes = 3

    def prepare(self, image):
        if len(image) == 77 and self.what == "dies":
            os.kill(os.getpid(), 9)
        if len(image) == 77 and self.what == "raises":
            raise ValueError("not that\\none")
        return np.full((1, 1, 3), image[0, 0], dtype=np.uint8)
"""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "odd_plan.py").write_text(ODD)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("odd_plan").Odd
    sys.modules.pop("odd_plan")


def _with_an_odd_frame(dataset: Dataset, row: int) -> Dataset:
    Pillow.new("RGB", (40, 77)).save((dataset.root or Path()) / str(dataset.frames.media[row]))
    return dataset


def test_frames_that_kill_every_worker_are_one_line_and_finished_batches_stay(
    odd: Any, colours: Make, tmp_path: Path, nothing_left: None
) -> None:
    dataset = _with_an_odd_frame(colours(n_sets=8, k=2), 29)
    models = {"m": Sums(dataset, odd("dies")), "other": Sums(dataset, SMALL)}
    for outcome in _run(dataset, tmp_path / "run", models, processes=2).values():
        assert outcome.error is not None
        assert "died twice (SIGKILL: out of memory?); try fewer --workers" in outcome.error
        assert "at 00028 or shortly after" in outcome.error
        assert outcome.n_new == 28, "a whole shard of 16, and three batches of the next"


def test_a_preparation_that_raises_says_the_same_as_on_threads(
    odd: Any, colours: Make, tmp_path: Path, nothing_left: None
) -> None:
    dataset = _with_an_odd_frame(colours(n_sets=4, k=2), 9)
    found = [
        _run(dataset, tmp_path / str(processes), {"m": Sums(dataset, odd("raises"))}, processes=processes)["m"]
        for processes in (0, 2)
    ]
    assert found[0].error == found[1].error == "m: raised ValueError on preparing 00009: not that one"
    assert found[0].n_new == found[1].n_new == 8


def test_ctrl_c_keeps_whole_batches(colours: Make, tmp_path: Path, nothing_left: None) -> None:
    dataset, n_seen = colours(n_sets=8, k=2), [0]
    model = Sums(dataset, SMALL)

    def interrupt() -> None:
        n_seen[0] += 1
        if n_seen[0] > 5:
            raise KeyboardInterrupt

    model.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        _run(dataset, tmp_path / "run", {"m": model}, processes=2)
    outcome = _run(dataset, tmp_path / "run", {"m": Sums(dataset, SMALL)}, processes=2)["m"]
    assert (outcome.n_kept, outcome.n_new) == (20, 20)


def test_a_closed_pool_answers_nobody_and_starts_nothing(colours: Make, nothing_left: None) -> None:
    source = MediaSource(colours())
    pool = DecodePool(source, {"m": SMALL}, processes=2, chunk=4)
    found = pool.read(list(range(11)), [["m"]] * 11)  # more than go into the shared memory at once
    for row, values in enumerate(found):
        assert isinstance(values, list)
        np.testing.assert_array_equal(values[0], SMALL.prepare(source.read(row)))
    pool.close()
    for _ in range(3):
        with pytest.raises(CancelledError):
            pool.read([0], [["m"]])


def test_frames_that_somebody_holds_are_not_written_over(colours: Make, nothing_left: None) -> None:
    source = MediaSource(colours(n_sets=8, k=2))
    pool = DecodePool(source, {"m": SMALL}, processes=1, chunk=2)

    def read(rows: range) -> list[Any]:
        return [found[0] for found in pool.read(rows, [["m"]] * len(rows)) if isinstance(found, list)]

    held = read(range(40))  # five times what is lent: the rest are copies
    for row, pixels in enumerate(held):
        np.testing.assert_array_equal(pixels, SMALL.prepare(source.read(row)))
    lent = [pixels.base is not None for pixels in held]
    assert lent == [True] * 8 + [False] * 32
    held[0] = held[1] = pixels = None
    again = read(range(4))
    assert [pixels.base is not None for pixels in again] == [True] * 2 + [False] * 2, "what was let go is lent"
    np.testing.assert_array_equal(held[2], SMALL.prepare(source.read(2)))
    held.clear()
    again.clear()
    assert all(pixels.base is not None for pixels in read(range(8)))
    pool.close()


def test_a_frame_as_it_is_is_sent_once_for_all(colours: Make, nothing_left: None) -> None:
    source = MediaSource(colours())
    plans = {f"m{size}": SentPlan(ImagePlan(size_hw=(size, size), resize=26), on_device=True) for size in (20, 22, 60)}
    pool = DecodePool(source, plans, processes=1, chunk=4)
    (found,) = pool.read([3], [list(plans)])
    pool.close()
    assert isinstance(found, list)
    assert found[0] is found[1]
    np.testing.assert_array_equal(found[0], source.read(3))
    np.testing.assert_array_equal(found[2], plans["m60"].plan.prepare(source.read(3)))


def test_what_is_larger_than_its_room_or_comes_in_a_pair_arrives_whole(colours: Make, nothing_left: None) -> None:
    source, placing = MediaSource(colours()), PlacementPreparation(size_hw=(50, 40))
    plans = {"whole": AsDecoded(), "large": AsDecoded(n_bytes=10), "turned": AsDecoded(bgr=True), "boxes": placing}
    pool = DecodePool(source, plans, processes=1, chunk=4)
    (found,) = pool.read([3], [list(plans)])
    pool.close()
    assert isinstance(found, list)
    image = source.read(3)
    np.testing.assert_array_equal(found[0], image)
    np.testing.assert_array_equal(found[1], image)
    np.testing.assert_array_equal(found[2], image[..., ::-1])
    pixels, placement = placing.prepare(image)
    np.testing.assert_array_equal(found[3][0], pixels)
    assert found[3][1] == placement


def test_no_python_to_start_is_one_line(colours: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    pool = DecodePool(MediaSource(colours()), {"m": SMALL}, processes=1, chunk=4)
    with pytest.raises(StrobeError, match=r"cannot start a process to decode frames \(No such file"):
        pool.read([0], [["m"]])
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(StrobeError, match=r"died twice \(exit code 1\); try fewer --workers .1 uses a thread instead"):
        pool.read([0], [["m"]])
    pool.close()


def test_a_worker_needs_no_torch() -> None:
    ours = "strobe.engine.decode_pool, strobe.store.media, strobe.models.exact_resize, strobe.models.detectors.boxes"
    code = f"import {ours}, sys; print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("torch", "pyarrow", "scipy", "timm", "rich"):
        assert f"'{heavy}'" not in loaded


def test_what_is_sent_does_not_grow_with_the_dataset(colours: Make) -> None:
    few, many = colours("few", n_sets=2), colours("many", n_sets=40)
    sizes = [len(pickle.dumps(MediaSource(dataset).only([1, 2, 3]))) for dataset in (few, many)]
    assert abs(sizes[1] - sizes[0]) < 10
    assert isinstance(MediaSource(few), SendableSource)


def test_when_processes_decode(colours: Make) -> None:
    class Model:
        device: str = "cuda"
        preparation: Any = SMALL
        spec = Sums(colours(), SMALL).spec

    source, models = MediaSource(colours()), {"a": Model(), "b": Model()}

    def processes(source: Any = source, n_cores: int = 16, **options: Any) -> int:
        return workflow.decode_processes(Running(**options), models, source, n_cores)  # type: ignore[arg-type]

    assert processes() == 16
    assert processes(workers=3) == 3
    assert processes(workers=1) == 0
    assert processes(decode="device") == 16, "for what is no JPEG; none is started before there is such a frame"
    assert processes(source=object()) == 0, "videos are decoded here"
    models["b"].device = "cpu"
    assert processes() == 0, "a model on the CPU needs the cores"
    models["b"].device = "cuda:1"
    assert processes() == 16
    engine = workflow.engine_options(Running(), models, 16, processes=16, source=source)  # type: ignore[arg-type]
    assert (engine.shard_size, engine.in_flight) == (2048, 2), "whatever kind of model it is"
    assert engine.chunk == 2, "half a batch of four"
    models["b"].preparation = None
    assert processes() == 0
    models["b"].preparation = SMALL
    assert processes(workers=8, n_cores=2) == 0


def test_only_a_plain_torch_classifier_is_its_plan() -> None:
    pytest.importorskip("torch")
    from strobe.models.torch_classifier import TorchClassifier

    class Blurred(TorchClassifier):
        def prepare(self, image: Any) -> Any:
            return super().prepare(image) // 2

    for kind, plan, want in (
        (TorchClassifier, SMALL.plan, SMALL),
        (Blurred, SMALL.plan, None),
        (TorchClassifier, abs, None),
    ):
        model = kind.__new__(kind)
        model.plan, model._cuda = plan, False
        assert model.preparation == want
