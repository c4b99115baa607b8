"""The engine on real plugins and images: what runs, what fails, what is kept."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from strobe.core.dataset import Dataset
from strobe.core.errors import CannotWrite, StrobeError
from strobe.core.files import read_json
from strobe.core.labels import Projection
from strobe.core.ports import Silent
from strobe.core.records import ModelSpec
from strobe.core.tables import texts
from strobe.core.tasks import Task
from strobe.engine.engine import run_models
from strobe.engine.forward import Runner
from strobe.engine.running import Running
from strobe.engine.worker import EngineOptions, Interrupted, ShardWorker
from strobe.store.frame_names import FrameNames
from strobe.store.media import MediaSource
from strobe.store.run_folder import Run
from strobe.store.shards import KEY_FACTS, ModelShards
from strobe.workflows.predict import predict

Make = Callable[..., Dataset]
OPTIONS = Running(device="cpu", shard_size=7)


class Brightness:
    """A classifier whose scores are the mean colour; counts what it is asked for."""

    device, lanes, preparation = "cpu", 1, None

    def __init__(self, dataset: Dataset, *, batch_size: int = 4, stop_after: int | None = None) -> None:
        self.spec = ModelSpec(
            name="brightness", provider="test", task="classification", label_space=dataset.info.label_space,
            weights="0" * 64, batch_size=batch_size,
        )  # fmt: skip
        self.batches: list[int] = []
        self.stop_after = stop_after

    def prepare(self, image: Any) -> Any:
        return image.reshape(-1, 3).mean(axis=0)

    def prepare_encoded(self, files: Any) -> Any:
        from strobe.store.media import decode_image

        return [self.prepare(decode_image(content, name="file")) + 1000 for content in files]

    def forward(self, prepared: Any) -> Any:
        if self.stop_after is not None and len(self.batches) >= self.stop_after:
            raise KeyboardInterrupt
        self.batches.append(len(prepared))
        return np.array(prepared, dtype=np.float32) / 10


class CountingSource:
    """A FrameSource that remembers how often each frame was read."""

    def __init__(self, dataset: Dataset) -> None:
        self.inner, self.reads, self.guard = MediaSource(dataset), [], threading.Lock()
        self.reads: list[int] = []

    def read(self, row: int) -> Any:
        with self.guard:
            self.reads.append(row)
        return self.inner.read(row)

    def read_encoded(self, row: int) -> Any:
        return self.inner.read_encoded(row)


def answers_of(run: Path, name: str, dataset: Dataset) -> Any:
    return Run(run).models(dataset, only=[name], allow_missing=True)[0].load()


def unreadable(run: Path, name: str, dataset: Dataset) -> dict[str, str]:
    return {str(dataset.frames.key[row]): why for row, why in sorted(answers_of(run, name, dataset).reasons.items())}


def store_of(run: Path, name: str, dataset: Dataset) -> ModelShards:
    space = dataset.info.label_space
    facts = dict.fromkeys(KEY_FACTS, "")
    return ModelShards(
        run, name, facts=facts, frames=FrameNames(dataset), task=Task.CLASSIFICATION, n_classes=len(space)
    )


def _run(
    dataset: Dataset, out: Path, models: dict[str, Any], *, options: EngineOptions | None = None, source: Any = None
) -> dict[str, Any]:
    space = dataset.info.label_space
    ids = dataset.frame_ids()
    stores = {name: store_of(out, name, dataset) for name in models}
    outcomes = run_models(
        [Runner(name=name, model=model, projection=Projection.identity(space)) for name, model in models.items()],
        stores, source or MediaSource(dataset), frame_names=[str(key) for key in dataset.frames.key],
        rows=np.arange(len(ids)), options=options or EngineOptions(shard_size=8), progress=Silent(),
    )  # fmt: skip
    return {name: (outcomes[name], stores[name].read()) for name in models}


def test_predictions_are_right_and_in_place(colours: Make, plugin: Path, tmp_path: Path) -> None:
    dataset = colours(n_sets=6, k=2)
    name = f"py:{plugin}:make"
    (run,) = predict(dataset, [name], tmp_path / "run", OPTIONS, Silent())
    assert run.ok
    found = answers_of(tmp_path / "run", name, dataset)
    assert found.scored.all()
    assert dataset.right_rows(found.label).all()
    assert (found.own_label == found.label).all()
    facts = read_json(tmp_path / "run" / "run.json")
    assert facts["models"][name]["status"] == "done"
    assert facts["models"][name]["frames"] == {"new": 30, "kept": 0, "unreadable": 0}


def test_one_decode_serves_all_models(colours: Make, tmp_path: Path) -> None:
    dataset = colours(n_sets=5, k=2)
    source = CountingSource(dataset)
    found = _run(
        dataset, tmp_path / "run",
        {"a": Brightness(dataset, batch_size=4), "b": Brightness(dataset, batch_size=3), "c": Brightness(dataset)},
        source=source,
    )  # fmt: skip
    assert sorted(source.reads) == list(range(25))
    scores = [stored.scores for _, stored in found.values()]
    assert all((scores[0] == one).all() for one in scores)


@pytest.mark.parametrize("batch", [1, 2, 3, 8, 64])
def test_batches_of_any_size_give_the_same(batch: int, colours: Make, tmp_path: Path) -> None:
    dataset = colours(n_sets=5, k=2)
    model = Brightness(dataset, batch_size=batch)
    _, stored = _run(dataset, tmp_path / "run", {"m": model}, options=EngineOptions(shard_size=10))["m"]
    _, plain = _run(dataset, tmp_path / "plain", {"m": Brightness(dataset, batch_size=1)})["m"]
    assert (stored.scores == plain.scores).all()
    assert sum(model.batches) == 25
    assert max(model.batches) <= batch


def test_the_same_command_again_does_nothing(colours: Make, tmp_path: Path) -> None:
    dataset = colours()
    first = Brightness(dataset)
    _run(dataset, tmp_path / "run", {"m": first})
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.parquet")}
    again = Brightness(dataset)
    outcome, _ = _run(dataset, tmp_path / "run", {"m": again})["m"]
    assert again.batches == []
    assert (outcome.n_new, outcome.n_kept) == (0, 20)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.parquet")} == files


def test_adding_a_model_runs_only_that_one(colours: Make, tmp_path: Path) -> None:
    dataset = colours()
    _run(dataset, tmp_path / "run", {"a": Brightness(dataset)})
    first, second = Brightness(dataset), Brightness(dataset)
    _run(dataset, tmp_path / "run", {"a": first, "b": second})
    assert first.batches == []
    assert sum(second.batches) == 20


@pytest.mark.parametrize("after", range(6))
def test_ctrl_c_keeps_whole_batches_and_the_rest_is_the_same(after: int, colours: Make, tmp_path: Path) -> None:
    dataset = colours(n_sets=5, k=2)
    options = EngineOptions(shard_size=16)
    _, whole = _run(dataset, tmp_path / "whole", {"m": Brightness(dataset)}, options=options)["m"]
    with pytest.raises(KeyboardInterrupt) as caught:
        _run(dataset, tmp_path / "run", {"m": Brightness(dataset, stop_after=after)}, options=options)
    assert not isinstance(caught.value, Interrupted)
    model = Brightness(dataset)
    outcome, stored = _run(dataset, tmp_path / "run", {"m": model}, options=options)["m"]
    assert (outcome.n_kept, outcome.n_new) == (4 * after, 25 - 4 * after)
    assert (stored.scores == whole.scores).all()
    assert sum(model.batches) == 25 - 4 * after


def test_device_batches_with_odd_files_fall_back_frame_by_frame(colours: Make, tmp_path: Path) -> None:
    dataset = colours(n_sets=4, k=2)
    root = dataset.root or Path()
    Pillow.new("RGB", (9, 9), (250, 0, 0)).save(root / "media/png.png")
    dataset.frames.media[2] = "media/png.png"
    (root / str(dataset.frames.media[6])).write_bytes(b"junk")
    (root / str(dataset.frames.media[13])).write_bytes((root / str(dataset.frames.media[13])).read_bytes()[:200])
    given: list[bytes] = []

    class Watched(Brightness):
        def prepare_encoded(self, files: Any) -> Any:
            given.extend(files)
            return super().prepare_encoded(files)

    options = EngineOptions(shard_size=20, on_device=True)
    _, stored = _run(dataset, tmp_path / "run", {"m": Watched(dataset)}, options=options)["m"]
    assert len(given) == 17, "a device would make something of a file that was cut off"
    assert sorted(stored.reasons) == [6, 13]
    assert stored.scored.sum() == 18
    assert stored.scores[2, 0] == 25  # by the threads


@pytest.mark.parametrize("lanes", [1, 2])
def test_decoding_on_the_device_feeds_as_many_forwards_as_there_are_lanes(
    lanes: int, colours: Make, tmp_path: Path
) -> None:
    dataset = colours(n_sets=16, k=2)
    at_once, seen, guard = [0, 0], set(), threading.Lock()

    class Watched(Brightness):
        device = "cuda"

        def prepare_encoded(self, files: Any) -> Any:
            seen.add(threading.current_thread().name.partition("_")[0])
            return super().prepare_encoded(files)

        def forward(self, prepared: Any) -> Any:
            with guard:
                seen.add(threading.current_thread().name)
                at_once[0] += 1
                at_once[1] = max(at_once)
            try:
                return super().forward(prepared)
            finally:
                with guard:
                    at_once[0] -= 1

    model = Watched(dataset)
    model.lanes = lanes
    options = EngineOptions(shard_size=8, on_device=True, in_flight=3)
    _, stored = _run(dataset, tmp_path / "run", {"m": model}, options=options)["m"]
    assert stored.scored.all()
    assert at_once[1] <= lanes
    assert "device" in seen
    assert seen - {"device"} <= {f"forward_{place}" for place in range(lanes)}


def test_bad_frames_are_recorded_and_not_tried_for_ever(colours: Make, plugin: Path, tmp_path: Path) -> None:
    dataset = colours()
    root = dataset.root or Path()
    good = (root / "media/00003.jpg").read_bytes()
    (root / "media/00003.jpg").write_bytes(good[: len(good) // 3])
    (root / "media/00007.jpg").unlink()
    name = f"py:{plugin}:make"
    (run,) = predict(dataset, [name], tmp_path / "run", OPTIONS, Silent())
    assert run.ok
    assert run.outcome is not None
    assert run.outcome.n_unreadable == 2
    assert run.outcome.first_problem is not None
    assert run.outcome.first_problem in set(unreadable(tmp_path / "run", name, dataset).values()), "why is said at once"
    found = answers_of(tmp_path / "run", name, dataset)
    assert np.flatnonzero(~found.scored).tolist() == [3, 7]
    reasons = unreadable(tmp_path / "run", name, dataset)
    assert set(reasons) == {"00003", "00007"}
    assert "00007.jpg" in reasons["00007"]
    (root / "media/00003.jpg").write_bytes(good)
    (again,) = predict(dataset, [name], tmp_path / "run", OPTIONS, Silent())
    assert again.outcome is not None
    assert (again.outcome.n_new, again.outcome.n_unreadable) == (0, 2)
    (retried,) = predict(dataset, [name], tmp_path / "run", replace(OPTIONS, retry_errors=True), Silent())
    assert retried.outcome is not None
    assert (retried.outcome.n_new, retried.outcome.n_unreadable) == (2, 1)
    assert answers_of(tmp_path / "run", name, dataset).scored.sum() == 19


def test_odd_images_are_read_as_rgb(colours: Make, plugin: Path, tmp_path: Path) -> None:
    dataset = colours(n_sets=2, k=2)
    root = dataset.root or Path()
    red = Pillow.new("RGB", (30, 20), (200, 10, 10))
    deep = (np.full((20, 30), 40_000)).astype(np.uint16)
    files = {
        "grey.png": red.convert("L"),
        "cmyk.jpg": red.convert("CMYK"),
        "deep.png": Pillow.fromarray(deep),
        "alpha.png": red.convert("RGBA"),
        "palette.gif": red.convert("P"),
    }
    for place, (file, image) in enumerate(files.items()):
        image.save(root / "media" / file)
        dataset.frames.media[place] = f"media/{file}"
    red.save(root / "media/move.gif", save_all=True, append_images=[Pillow.new("RGB", (30, 20), (0, 0, 250))])
    dataset.frames.media[5] = "media/move.gif"
    Pillow.new("L", (12_000, 12_000)).save(root / "media/bomb.png")
    dataset.frames.media[6] = "media/bomb.png"
    name = f"py:{plugin}:make"
    (run,) = predict(dataset, [name], tmp_path / "run", OPTIONS, Silent())
    assert run.ok
    found = answers_of(tmp_path / "run", name, dataset)
    assert found.scored[:6].all()
    assert found.label[[1, 3, 4, 5]].tolist() == [0, 0, 0, 0]
    assert "bomb.png" in unreadable(tmp_path / "run", name, dataset)["00006"]


@pytest.mark.parametrize(
    ("factory", "says"),
    [
        ("raises", "raised RuntimeError.*no such thing as a free lunch"),
        ("broken", "ValueError in line .*cannot be made"),
        ("nan", "NaN or infinity for .* first 00000"),
        ("short", r"shape \(7, 2\), expected \(7, 3\)"),
        ("greedy", "out of memory with a batch of 7; try --batch-size 3"),
        ("mak", "did you mean make"),
    ],
)
def test_a_model_that_fails_is_reported_and_the_rest_go_on(
    factory: str, says: str, colours: Make, plugin: Path, tmp_path: Path
) -> None:
    dataset = colours()
    names = [f"py:{plugin}:{factory}", f"py:{plugin}:make"]
    bad, good = predict(dataset, names, tmp_path / "run", OPTIONS, Silent())
    assert good.ok
    assert answers_of(tmp_path / "run", names[1], dataset).scored.all()
    assert not bad.ok
    with pytest.raises(StrobeError, match=says):
        raise StrobeError(bad.error)
    assert "\n" not in str(bad.error)
    assert read_json(tmp_path / "run" / "run.json")["models"][names[0]]["status"] == "failed"


def test_a_smaller_batch_goes_on_from_where_memory_ran_out(colours: Make, plugin: Path, tmp_path: Path) -> None:
    dataset = colours()
    name = f"py:{plugin}:greedy"
    (first,) = predict(dataset, [name], tmp_path / "run", OPTIONS, Silent())
    assert not first.ok
    small = replace(OPTIONS, batch_size=2)
    (second,) = predict(dataset, [name], tmp_path / "run", small, Silent())
    assert second.ok
    assert answers_of(tmp_path / "run", name, dataset).scored.all()


def test_a_changed_plugin_is_predicted_anew(colours: Make, plugin: Path, tmp_path: Path) -> None:
    dataset = colours()
    name = f"py:{plugin}:make"
    predict(dataset, [name], tmp_path / "run", OPTIONS, Silent())
    plugin.write_text(plugin.read_text().replace("/ 10", "/ -10"))
    (run,) = predict(dataset, [name], tmp_path / "run", OPTIONS, Silent())
    assert run.outcome is not None
    assert run.outcome.n_new == 20
    assert not dataset.right_rows(answers_of(tmp_path / "run", name, dataset).label).any()


def test_a_full_disk_is_one_line_and_finished_shards_stay(
    colours: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = colours()
    whole, n_written = Path.write_bytes, 0

    def full(path: Path, content: bytes) -> int:
        nonlocal n_written
        n_written += ".parquet" in path.name
        if n_written > 1:
            raise OSError(28, "No space left on device")
        return whole(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CannotWrite, match="the disk is full"):
        _run(dataset, tmp_path / "run", {"m": Brightness(dataset)})
    monkeypatch.undo()
    outcome, stored = _run(dataset, tmp_path / "run", {"m": Brightness(dataset)})["m"]
    assert outcome.n_kept == 8
    assert stored.scored.all()
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_shards_may_come_back_in_any_order(colours: Make, tmp_path: Path) -> None:
    dataset = colours(n_sets=6, k=2)
    source, ids = MediaSource(dataset), dataset.frame_ids()
    runner = Runner(name="m", model=Brightness(dataset), projection=Projection.identity(dataset.info.label_space))
    worker = ShardWorker([runner], source, options=EngineOptions(), frame_names=ids)

    class Backwards:
        def results(self, shards: Any, tick: Any) -> Any:
            return (worker(shard) for shard in reversed(list(shards)))

    results = []
    for place, (in_flight, elsewhere) in enumerate(((1, None), (3, None), (1, Backwards()))):
        store = store_of(tmp_path / str(place), "m", dataset)
        run_models(
            [runner], {"m": store}, source, frame_names=ids, rows=np.arange(30), progress=Silent(),
            options=EngineOptions(shard_size=8, in_flight=in_flight), elsewhere=elsewhere,
        )  # fmt: skip
        results.append(store.read().scores)
    worker.close()
    assert all((one == results[0]).all() for one in results)


def test_a_frame_with_other_pixels_is_predicted_again_and_no_other(colours: Make, plugin: Path, tmp_path: Path) -> None:
    dataset = colours()
    name = f"py:{plugin}:make"
    predict(dataset, [name], tmp_path / "run", OPTIONS, Silent())
    sha = texts(["f" * 64, *dataset.frames.sha256[1:].tolist()])
    dataset = replace(dataset, frames=replace(dataset.frames, sha256=sha))
    assert np.flatnonzero(~answers_of(tmp_path / "run", name, dataset).scored).tolist() == [0]
    (again,) = predict(dataset, [name], tmp_path / "run", OPTIONS, Silent())
    assert (again.outcome.n_new, again.outcome.n_kept) == (1, 19)
    with pytest.raises(StrobeError, match="has no predictions of nobody"):
        answers_of(tmp_path / "run", "nobody", dataset)
