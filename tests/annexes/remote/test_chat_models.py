"""A vision-language model in a run: from the command to the tables, with faults, keys and orders of the choices."""

import csv
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_endpoint import Asked, ChatEndpoint
from faulty_proxy import FaultyProxy

from strobe.annexes.remote.chat_images import ImageEncoding
from strobe.store import dataset_folder
from strobe.store.opening import frame_source

SECRET = "sk-very-secret-key"
Command = Callable[..., tuple[int, str, str]]


class Clips:
    """A rendered dataset, and the class and number of each frame by the image that is sent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        dataset = dataset_folder.read(path)
        source, encoding = frame_source(dataset), ImageEncoding(encoding="png")
        self.names = dataset.info.label_space.names
        self.n_frames, self.n_sets = len(dataset.frames), len(dataset.sets.set_id)
        label = dict(zip(dataset.labels.frame.tolist(), dataset.labels.label.tolist(), strict=True))
        urls = [encoding.encode(source.read(row)).url for row in range(self.n_frames)]
        self.row = {url: row for row, url in enumerate(urls)}
        self.name = {url: self.names[label[row]] for url, row in self.row.items()}
        self.video = {url: int(dataset.frames.video[row]) for url, row in self.row.items()}


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    from strobe.cli.main import main

    path = tmp_path_factory.mktemp("chat") / "clips"
    with pytest.raises(SystemExit):
        main(["synthesize", str(path), "--videos", "26", "--k", "2", "--size", "48", "-q"])
    return Clips(path)


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "STROBE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def serve() -> Iterator[Callable[..., ChatEndpoint]]:
    running = []

    def start(answer: Any, **options: Any) -> ChatEndpoint:
        running.append(ChatEndpoint(answer, **options))
        return running[-1]

    yield start
    for one in running:
        one.__exit__()


def settings(folder: Path, name: str = "settings.json", **given: Any) -> Path:
    file = folder / name
    file.write_text(json.dumps({"encoding": "png", **given}))
    return file


def results(run: Path) -> Any:
    return json.loads((run / "results.json").read_text())


def test_from_the_question_to_the_tables(clips: Clips, serve: Any, command: Command, tmp_path: Path) -> None:
    """A model that is right on the first half, and sees a spaceship in one clip."""

    def answer(asked: Asked) -> str:
        if asked.url not in clips.row:
            return "A"  # the test image
        return "A spaceship!" if clips.video[asked.url] == 0 else asked.symbol(clips.name[asked.url])

    service, run = serve(answer), tmp_path / "run"
    words = ("eval", clips.path, "-m", f"vlm=openai:tiny@{service.url}", "--model-settings", settings(tmp_path))
    code, _, err = command(*words, "-o", run, "--no-report")
    assert code == 0, err
    assert "scores=the choice" in err, "the source of the scores is printed"
    assert len(service.asked) == clips.n_frames + 1
    score = results(run)["models"]["vlm"]
    wrong = sum(video == 0 for video in clips.video.values())
    assert wrong == 5
    assert score["acc_orig"]["count"] == 25
    rows = list(csv.DictReader((run / "tables" / "outside.csv").read_text().splitlines()))
    assert [(row["said"], int(row["frames"])) for row in rows] == [("A spaceship!", 5)]
    again = command(*words, "-o", run, "--no-report")
    assert again[0] == 0
    assert len(service.asked) == clips.n_frames + 2, "only the question of loading is asked again"


def test_what_the_order_of_the_choices_does(clips: Clips, serve: Any, command: Command, tmp_path: Path) -> None:
    """A model that hesitates between two classes takes the choice that comes first. Frames of a set agree."""

    def answer(asked: Asked) -> str:
        right = clips.name.get(asked.url)
        if right is None:
            return "A"
        rival = clips.names[(clips.names.index(right) + 1) % len(clips.names)]
        return next(symbol for symbol, name in asked.choices.items() if name in (right, rival))

    service, run = serve(answer), tmp_path / "run"
    rows = "\n".join(
        f'[[model]]\nmodel = "openai:tiny@{service.url}"\nname = "order {order}"\n'
        f'model_settings = "{settings(tmp_path, f"order-{order}.json", order=order)}"\n'
        for order in (0, 1)
    )
    (tmp_path / "orders.toml").write_text(rows)
    code, _, err = command("eval", clips.path, "-m", f"@{tmp_path / 'orders.toml'}", "-o", run, "--no-report")
    assert code == 0, err
    found = results(run)["models"]
    for name in ("order 0", "order 1"):
        assert found[name]["flip_rate"]["value"] == 0, "all frames of a set get the same question"
        assert 0 < found[name]["acc_orig"]["count"] < clips.n_sets
    code, out, err = command("compare", run, "-m", "order 0", "-m", "order 1", "-q")
    assert code == 0, err
    changed = re.search(r"From order 0 to order 1: (\d+) sets? newly held, (\d+) sets? newly broken, of 26", out)
    assert changed is not None, out
    assert int(changed[1]) > 0, "sets are newly held only because of the order"
    assert int(changed[2]) > 0


def test_every_fault_in_one_run(clips: Clips, serve: Any, command: Command, tmp_path: Path) -> None:
    """Passing faults are asked again, lasting ones fail their frame, and late answers belong to their own frame."""
    gate, lock, waiting = threading.Event(), threading.Lock(), []

    def answer(asked: Asked) -> str:
        if asked.url not in clips.row:
            return "A"
        with lock:
            waiting.append(asked.url)
            first = len(waiting) == 1
            if len(waiting) == 5:
                gate.set()
        if first:
            gate.wait(30)  # the first frame is answered after four others
        return asked.symbol(clips.name[asked.url])

    service, run = serve(answer), tmp_path / "run"
    faults = ["ok"] * 12 + ["429", "drop", "ok", "503", "json", "cut", "ok", "length", "filter", "refusal"]
    with FaultyProxy(service.root, faults) as proxy:
        words = ("eval", clips.path, "-m", f"vlm=openai:tiny@{proxy.url}/v1", "--model-settings", settings(tmp_path))
        code, _, err = command(*words, "-o", run, "--no-report", "--allow-missing")
        assert code in (0, 3), err
        n_failed = sum(fault in ("json", "length", "filter") for fault in proxy.used)
        n_refused = proxy.used.count("refusal")
        n_again = sum(fault in ("429", "drop", "503", "cut") for fault in proxy.used)
        assert n_again > 5
        assert len(proxy.used) == 1 + clips.n_frames + n_again
        rows = list(csv.DictReader((run / "tables" / "outside.csv").read_text().splitlines()))
        assert [(row["said"], int(row["frames"])) for row in rows] == [
            ("I'm sorry, I can't help with that.", n_refused)
        ]
        proxy.faults = ("ok",)
        before = len(proxy.used)
        code, _, err = command(*words, "-o", run, "--no-report", "--retry-errors")
        assert code == 0, err
        assert len(proxy.used) == before + 1 + n_failed, "only frames without an answer are asked again"
    right = results(run)["models"]["vlm"]["acc_orig"]["count"]
    assert right >= clips.n_sets - n_refused


def test_a_detector_by_chat(clips: Clips, serve: Any, command: Command, tmp_path: Path) -> None:
    def answer(asked: Asked) -> str:
        name = clips.name.get(asked.url, clips.names[0])
        return json.dumps(
            [{"label": name, "box": [10, 10, 40, 40], "score": 0.8}, {"label": "ufo", "box": [0, 0, 9, 9]}]
        )

    service, run = serve(answer), tmp_path / "run"
    words = ("eval", clips.path, "-m", f"vlm=openai:tiny@{service.url}", "-o", run, "--no-report")
    code, _, err = command(*words, "--model-settings", settings(tmp_path, task="detection"))
    assert code == 0, err
    assert results(run)["models"]["vlm"]["task"] == "detection"
    assert results(run)["models"]["vlm"]["map_orig"]["value"] > 0
