"""--repeat: answers stored next to the first, resumed, scored, reported and judged."""

import csv
import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strobe
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folder
from strobe.store.run_folder import Run

PLUGIN = """
import hashlib, os
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
NAMES = (HERE / "names").read_text().split(",")


def make():
    asked, times = [], {}

    def forward(images):
        asked.extend(images)
        if len(asked) > int(os.environ.get("GUESS_MOST", 10_000)):
            raise RuntimeError("the power is out")
        out = []
        for image in images:
            name = hashlib.sha256(image.tobytes()).hexdigest()
            number = times[name] = times.get(name, 0) + 1
            guess = np.random.default_rng([number, int(name[:8], 16)])
            out.append(guess.integers(len(NAMES)) if guess.random() < 0.4 else int(name[8:10], 16) % 10 // 9)
        return np.eye(len(NAMES), dtype=np.float32)[out]

    return forward, NAMES, "probabilities"


def box():
    from strobe.models.detectors.py import detector
    forward, names, _ = make()

    def boxes(images):
        labels = forward(images).argmax(axis=1)
        return [(np.array([[1.0, 1, 30, 30]]), np.array([label]), np.array([0.9])) for label in labels]

    return detector(boxes, names, name="box")
"""
"""Answers the second class on a tenth of the frames, else the first; two answers in five are guesses, which differ from
time to time."""

Called = Callable[..., str]
N = 12 * 5


@pytest.fixture
def called(command: Callable[..., tuple[int, str, str]]) -> Called:
    """Call strobe; what it printed, after its exit code was checked."""

    def call(*words: object, code: int = 0) -> str:
        ended, out, err = command(*map(str, words))
        assert ended == code, out + err
        return out + err

    return call


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve clips, k = 2, and models that guess."""
    root = tmp_path_factory.mktemp("world")
    made = strobe.synthesize(root / "data", videos=12, k=2, size=32)
    (root / "guess.py").write_text(PLUGIN)
    (root / "names").write_text(",".join(made.info.label_space.names))
    return root


def model(world: Path, name: str = "guess", maker: str = "make") -> str:
    return f"{name}=py:{world / 'guess.py'}:{maker}"


def results(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "results.json").read_text())
    return found


def shards(run: Path, name: str = "guess") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "predictions" / name).glob("*.parquet")}


def labels(world: Path, run: Path, name: str = "guess") -> np.ndarray:
    """The classes of all answers, (R, F)."""
    one = Run(run).models(folder.read(world / "data"), only=[name])[0]
    found = [one.load(), *one.repeats()]
    assert all(isinstance(answers, ClassAnswers | BoxAnswers) for answers in found)
    return np.stack([answers.as_classes().label for answers in found])


def plain_figures(answers: np.ndarray, sets: np.ndarray) -> tuple[float, float]:
    """Noise and flips of the sets' frames in order (S, L), in plain Python."""
    noise, flips = [], []
    times = range(len(answers))
    for frames in sets:
        own, next_to = [], []
        for a, b in pairwise(frames):
            own += [answers[i, f] != answers[j, f] for f in (a, b) for i in times for j in times if i < j]
            next_to += [answers[i, a] != answers[j, b] for i in times for j in times]
        noise.append(np.mean(own))
        flips.append(np.mean(next_to))
    return float(np.mean(noise)), float(np.mean(flips))


def test_first_answers_stay_and_the_others_give_the_noise(world: Path, tmp_path: Path, called: Called) -> None:
    data, run = world / "data", tmp_path / "run"
    called("eval", data, "-m", model(world), "-m", "strobe-world", "-o", run, "--no-report")
    once, before = results(run), shards(run)
    assert "noise" not in once["models"]["guess"]
    assert not (run / "tables" / "noise.csv").exists()
    said = called("gate", run, "-m", "guess", "--max", "noise=5", code=2)
    assert (
        "guess: each frame was asked once, so noise is unknown; run strobe eval or predict again with --repeat 3"
        in said
    )

    shutil.rmtree(run)
    said = called("eval", data, "-m", model(world), "-m", "strobe-world", "-o", run, "--repeat", 3)
    after, now = results(run), shards(run)
    assert before.items() <= now.items()
    assert len(now) == 3 * len(before)
    noise = {name: one.pop("noise") for name, one in after["models"].items()}
    assert after["models"] == once["models"]
    about = json.loads((run / "run.json").read_text())["models"]["guess"]
    assert about["frames"] == {"new": N, "kept": 0, "unreadable": 0}
    assert about["repeated"] == {"times": 3, "new": 2 * N, "kept": 0}

    answers, dataset = labels(world, run), folder.read(data)
    assert answers.shape == (3, len(dataset.frames))
    order = np.lexsort((dataset.sets.distance, dataset.sets.set))
    expected = plain_figures(answers, dataset.sets.frame[order].reshape(12, 5))
    found = noise["guess"]
    assert (found["noise"]["value"], found["flips"]["value"]) == pytest.approx(expected)
    assert found["beyond_noise"]["value"] == pytest.approx(expected[1] - expected[0])
    assert (found["repeat"], found["unscored"], found["noise"]["n"]) == (3, 0, 12)
    steady = noise["strobe-world"]
    assert steady["noise"]["value"] == steady["changed_frames"]["value"] == 0
    assert steady["flips"]["value"] == pytest.approx(once["models"]["strobe-world"]["flip_rate"]["value"])

    page = (run / "report.html").read_text()
    for text in (said, page):
        assert "Asked twice about the same frame, guess changes its answer in" in text.replace("\xa0", " ")
        assert "strobe-world gives the same answer each time it is asked about a frame (3 times, 12 sets)" in text
    assert '<section id="noise"' in page
    rows = (run / "tables" / "noise.csv").read_text().splitlines()
    assert [row.partition(",")[0] for row in rows] == ["model", "guess", "strobe-world"]
    assert "noise" in (run / "tables" / "headline.csv").read_text().splitlines()[0]

    said = called("gate", run, "-m", "guess", "--max", "noise=5", "--max", "beyond_noise=90", code=1)
    assert "FAILED  noise at most 5 %" in said
    assert "passed  beyond_noise at most 90 %" in said
    called("gate", run, "-m", "strobe-world", "--max", "noise=50", "--min", "acc_orig=0")

    against = ("gate", run, "-m", "guess", "--baseline", "strobe-world")
    said = called(*against, "--max-loss", "noise=5", "--json", code=1)
    assert json.loads(said)["checks"][0]["figure"]["value"] == pytest.approx(expected[0])
    pairs = json.loads(called("compare", run, "--json"))
    (pair,) = (one for one in pairs if one["metric"] == "noise")
    assert (pair["difference"]["value"], pair["n_sets"]) == (pytest.approx(expected[0]), 12)
    assert pair["sentence"].startswith("guess is more noisy than strobe-world: its noise on the same frames is larger")
    assert " noise " in called("history", run, "-o", tmp_path / "history").splitlines()[1]
    rows = list(csv.DictReader((tmp_path / "history" / "history.csv").read_text().splitlines()))
    assert [float(row["noise"]) for row in rows] == [pytest.approx(expected[0], abs=1e-6), 0]


def test_an_interrupted_command_resumes_each_answer(
    world: Path, tmp_path: Path, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, words = tmp_path / "run", ("predict", world / "data", "-m", model(world), "--batch-size", 4)
    monkeypatch.setenv("GUESS_MOST", str(N + 20))
    said = called(*words, "-o", run, "--repeat", 3, code=2)
    monkeypatch.delenv("GUESS_MOST")
    assert "the power is out" in said
    kept = int((labels(world, run)[1:] >= 0).sum())
    assert 0 < kept <= 20, "the answers before the fault are stored"
    called("score", run)
    assert results(run)["models"]["guess"].get("noise", {}).get("unscored", 12) > 0
    if "noise" in results(run)["models"]["guess"]:
        said = called("gate", run, "--max", "noise=90", code=3)
        assert "lack predictions, and their effect cannot be bounded" in said
    said = called(*words, "-o", run, "--repeat", 3)
    assert f"0 new, {N} cached; asked 3 times: {2 * N - kept} more answers new, {kept} cached" in said
    said = called(*words, "-o", run, "--repeat", 4)
    assert f"asked 4 times: {N} more answers new, {2 * N} cached" in said
    assert f"0 new, {N} cached" in called(*words, "-o", run), "without the option, nothing is asked again"
    assert len(labels(world, run)) == 4


def test_unreadable_frames_are_retried_in_each_answer(world: Path, tmp_path: Path, called: Called) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    shutil.copytree(world / "data", data)
    dataset = folder.read(data)
    media = data / str(dataset.frames.media[0])
    content = media.read_bytes()
    media.unlink()
    words = ("predict", data, "-m", model(world), "-o", run, "--repeat", 2)
    called(*words)
    one = Run(run).models(dataset, allow_missing=True)[0]
    assert [int((~answers.scored).sum()) for answers in (one.load(), *one.repeats())] == [1, 1]
    media.write_bytes(content)
    assert f"0 new, {N} cached" in called(*words)
    said = called(*words, "--retry-errors")
    assert f"1 new, {N - 1} cached" in said
    assert f"asked 2 times: 1 more answers new, {N - 1} cached" in said
    assert all(answers.scored.all() for answers in (one.load(), *one.repeats()))


def test_it_needs_every_frame(world: Path, tmp_path: Path, called: Called) -> None:
    words = ("eval", world / "data", "-m", model(world), "-o", tmp_path / "run", "--repeat")
    said = called(*words, 2, "--stop-early", code=2)
    assert "--repeat needs every frame, which --stop-early does not predict; remove one of the two options" in said
    assert "--repeat" in called(*words, 0, code=2)
    assert not (tmp_path / "run").exists()
    with pytest.raises(StrobeError, match=r"^running.repeat needs every frame, which running.stop_early does not"):
        strobe.evaluate(
            world / "data", "strobe-world", tmp_path / "run", running=strobe.Running(repeat=2, stop_early=True)
        )


def test_detectors_are_compared_by_their_most_confident_box(world: Path, tmp_path: Path, called: Called) -> None:
    run = tmp_path / "run"
    detector = model(world, "box", "box")
    said = called("eval", world / "data", "-m", detector, "-m", f"boxes:{detector[4:]}", "-o", run, "--repeat", 2)
    assert "is not asked again: it uses the first boxes of" in said
    found = results(run)["models"]
    assert sum("noise" in one for one in found.values()) == 1
    answers = labels(world, run, "box")
    assert found["box"]["noise"]["changed_frames"]["value"] == pytest.approx((answers[0] != answers[1]).mean())
    assert "the class of its most confident box" in (run / "report.html").read_text()


def test_crops_of_a_helper_are_asked_again_and_the_helper_is_not(world: Path, tmp_path: Path, called: Called) -> None:
    run, detector = tmp_path / "run", model(world, "box", "box")[4:]
    called(
        "predict", world / "data", "-m", f"cut=crop:{detector},context=1.2:{model(world)[6:]}", "-o", run, "--repeat", 2
    )
    dataset = folder.read(world / "data")
    stored = {one.name: len(list(one.repeats())) for one in Run(run).models(dataset)}
    assert stored == {"cut": 1}
    helper = next(path for path in (run / "predictions").iterdir() if path.name != "cut")
    assert len(list(helper.glob("*.parquet"))) == 1


def test_python_and_videos_without_labels(world: Path, tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    for video in range(8):
        with av.open(str(tmp_path / f"{video}.mkv"), "w") as container:
            stream = container.add_stream("ffv1", rate=25, width=32, height=24, pix_fmt="bgr0")
            for index in range(10):
                pixels = np.random.default_rng(0).integers(60, 160, (24, 32, 3), dtype=np.uint8)
                pixels[0, :2, 0] = video, index  # frames that differ by so little are no scene cut
                for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
                    container.mux(packet)
            for packet in stream.encode():
                container.mux(packet)
    found = strobe.evaluate(
        sorted(tmp_path.glob("*.mkv")), {"guess": model(world)[6:]}, tmp_path / "run", k=2,
        running=strobe.Running(repeat=3),
    )  # fmt: skip
    assert found.results.flicker is not None
    score = found.results.flicker.models["guess"]
    assert score.noise is not None
    assert score.noise.flicker == score.flicker
    assert score.noise.repeat == 3
    assert (score.noise.noise.value or 0) > 0.2
    page = (tmp_path / "run" / "report.html").read_text()
    assert '<section id="noise"' in page
