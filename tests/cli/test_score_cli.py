"""strobe score as a user meets it: tables, JSON, files, and one line for everything that can be mended."""

import json
import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

import strobe
from strobe.analyses.results import results_schema
from strobe.cli.main import cli
from strobe.core.dataset import Dataset

SHARED = Path(__file__).parents[2] / "../shared/reference/imagenet-vid-robust"


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    made = strobe.example_dataset(n_videos=12, k=3)
    strobe.save_dataset(made, tmp_path / "data")
    return made


def predictions(dataset: Dataset, *, seed: int = 0, accuracy: float = 0.9) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(len(dataset.frames), 2))
    right = rng.random(len(dataset.frames)) < accuracy
    scores[dataset.labels.frame, dataset.labels.label] = np.where(right, 5.0, -5.0)
    return {key: row.tolist() for key, row in zip(dataset.frames.key, scores, strict=True)}


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "strobe", *map(str, words)], capture_output=True, text=True)


def plain_counts(dataset: Dataset, scores: dict[str, list[float]]) -> list[int]:
    """How many sets are right for every k, in plain Python."""
    answer: dict[int, set[int]] = {}
    for frame, label in zip(dataset.labels.frame, dataset.labels.label, strict=True):
        answer.setdefault(int(frame), set()).add(int(label))
    right = []
    for row, key in enumerate(dataset.frames.key):
        values = scores[key]
        right.append(values.index(max(values)) in answer[row])
    counts = []
    for k in range(dataset.info.k + 1):
        good = [True] * dataset.n_sets
        for place, frame, distance in zip(
            dataset.sets.set.tolist(), dataset.sets.frame.tolist(), dataset.sets.distance.tolist(), strict=True
        ):
            if abs(distance) <= k and not right[frame]:
                good[place] = False
        counts.append(sum(good))
    return counts


def test_table_json_and_files_agree(dataset: Dataset, tmp_path: Path) -> None:
    scores = predictions(dataset)
    (tmp_path / "mine.json").write_text(json.dumps(scores))
    done = run("score", tmp_path / "data", "-m", f"preds:{tmp_path}/mine.json", "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "mine" in done.stdout
    written = json.loads((tmp_path / "run/results.json").read_text())
    Draft202012Validator(results_schema()).validate(written)
    assert written["strobe"] == version("strobe-vision"), "results carry the version that wrote them"
    model = written["models"]["mine"]
    assert [point["acc"]["count"] for point in model["curve"]] == plain_counts(dataset, scores)
    assert model["acc_orig"]["count"] - model["acc_pmk"]["count"] == model["drop"]["count"]
    assert {path.stem for path in (tmp_path / "run/tables").glob("*.csv")} >= {"headline", "curve", "per_class"}
    again = run("score", tmp_path / "run", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["models"]["mine"] == model
    assert again.stderr == ""


def test_python_gives_the_same_estimates(dataset: Dataset, tmp_path: Path) -> None:
    words, held = [], []
    for seed, name in enumerate(("mine", "yours")):
        scores = predictions(dataset, seed=seed)
        (tmp_path / f"{name}.json").write_text(json.dumps(scores))
        words += ["-m", f"preds:{tmp_path}/{name}.json"]
        matrix = np.array([scores[key] for key in dataset.frames.key])
        held.append(strobe.Predictions.from_scores(name, matrix, kind="logits"))
    done = json.loads(run("score", tmp_path / "data", *words, "--kind", "logits", "--json").stdout)
    loaded = strobe.load_dataset(tmp_path / "data")
    found = strobe.score(loaded, held[0])
    assert done["models"]["mine"] == json.loads(json.dumps(found.to_json()))
    assert done == json.loads(json.dumps(strobe.results(loaded, held)))
    assert strobe.score(loaded, strobe.load_predictions(tmp_path / "mine.json", loaded)).acc_pmk == found.acc_pmk


@pytest.mark.skipif(not SHARED.is_dir(), reason="the released metadata is not here")
@pytest.mark.parametrize("accuracy", [0.3, 0.8, 0.99])
def test_released_metadata_equals_a_plain_count(tmp_path: Path, accuracy: float) -> None:
    from strobe.store.bring_media import ImportOptions
    from strobe.workflows.import_dataset import import_dataset

    dataset = import_dataset("imagenet-vid-robust", SHARED, tmp_path / "data", how=ImportOptions(media="none")).dataset
    assert dataset.n_sets == 1109
    rng = np.random.default_rng(7)
    matrix = rng.normal(size=(len(dataset.frames), 30))
    right = rng.random(len(dataset.frames)) < accuracy
    matrix[dataset.labels.frame, dataset.labels.label] += np.where(right, 9.0, -9.0)[dataset.labels.frame]
    scores = {key: row.tolist() for key, row in zip(dataset.frames.key, matrix, strict=True)}
    found = strobe.score(dataset, strobe.Predictions.from_scores("m", matrix, kind="logits"))
    assert [point.acc.count for point in found.curve] == plain_counts(dataset, scores)


def test_missing_frames_and_allow_missing(dataset: Dataset, tmp_path: Path) -> None:
    scores = predictions(dataset)
    first = str(dataset.frames.key[0])
    del scores[first]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(scores))
    done = run("score", tmp_path / "data", "-m", f"preds:{path}")
    assert done.returncode == 2
    assert "1 of 84 frames have no prediction" in done.stderr
    assert first in done.stderr
    done = run("score", tmp_path / "data", "-m", f"preds:{path}", "--allow-missing", "--json")
    model = json.loads(done.stdout)["models"]["mine"]
    assert model["unscored"] == {"frames": 1, "sets": 1}
    assert model["acc_orig"]["n"] == 11
    shown = run("score", tmp_path / "data", "-m", f"preds:{path}", "--allow-missing")
    assert "unscored" in shown.stdout


Change = Callable[[dict[str, list[float]]], object]

BAD: dict[str, tuple[Change, str]] = {
    "NaN": (lambda s: {**s, next(iter(s)): [math.nan, 1.0]}, "NaN"),
    "+inf": (lambda s: {**s, next(iter(s)): [math.inf, 1.0]}, "+inf"),
    "all -inf": (lambda s: {**s, next(iter(s)): [-math.inf, -math.inf]}, "only −inf"),
    "wrong length": (lambda s: {key: [*row, 0.0] for key, row in s.items()}, "3 scores per frame"),
    "one wrong length": (lambda s: {**s, list(s)[-1]: [1.0]}, "1 scores, but 2 in the first frame"),
    "unknown frame": (lambda s: {**s, "clip-999/000000.jpg": [0.0, 1.0]}, "not in example"),
    "no object": (lambda s: [1, 2], "expected a JSON object"),
    "text scores": (lambda s: {**s, next(iter(s)): ["a", "b"]}, "not a number"),
    "empty": (lambda s: {}, "it contains no predictions"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_predictions_are_one_line(dataset: Dataset, tmp_path: Path, name: str) -> None:
    change, expected = BAD[name]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(change(predictions(dataset))))
    done = run("score", tmp_path / "data", "-m", f"preds:{path}", "-o", tmp_path / "run")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert expected in done.stderr
    assert "mine.json" in done.stderr
    assert not (tmp_path / "run/results.json").exists()


def test_minus_inf_alone_is_lawful(dataset: Dataset, tmp_path: Path) -> None:
    scores = predictions(dataset)
    scores[next(iter(scores))] = [-math.inf, 1.0]
    (tmp_path / "mine.json").write_text(json.dumps(scores))
    assert run("score", tmp_path / "data", "-m", f"preds:{tmp_path}/mine.json").returncode == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("score", "nowhere"), "no such folder"),
        (("score", "data"), "nothing to score"),
        (("score", "nowhere", "-m", "preds:x.json"), "no such folder"),
        (("score", "data", "-m", "preds:nowhere.json"), "no such file"),
        (("score", "data", "-m", "timm:resnet50"), "run models with strobe eval"),
        (("score", "data", "-m", "preds:cut.json"), "is it truncated?"),
        (("scor", "data"), "did you mean score"),
        (("score", "data", "--nonsense"), "--nonsense"),
        (("score", "data", "-m", "preds:mine.json", "--k", "99", "-q"), "k: expected at most 3"),
        (("score", "data", "-m", "preds:mine.json", "--iou", "2"), "--iou"),
        (("score", "data", "-m", "preds:mine.json", "--bootstrap", "9" * 20), "100 to 1,000,000 draws"),
    ],
)
def test_bad_words_are_one_line(
    dataset: Dataset, tmp_path: Path, words: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text(json.dumps(predictions(dataset)))
    (tmp_path / "cut.json").write_text(json.dumps(predictions(dataset))[:-40])
    done = run(*words)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert expected in done.stderr


def test_a_disk_that_fills_half_way_changes_nothing(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(predictions(dataset)))
    assert run("score", tmp_path / "data", "-m", f"preds:{path}", "-o", tmp_path / "run").returncode == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    path.write_text(json.dumps(predictions(dataset, seed=5, accuracy=0.2)))

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    done = subprocess.run(
        [sys.executable, "-m", "strobe", "score", "data", "-m", f"preds:{path}", "-o", "run"],
        cwd=tmp_path, capture_output=True, text=True, preexec_fn=small_files,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "cannot write run/" in done.stderr
    assert ".incoming" not in done.stderr
    # The predictions may have come in, whole; what was found before stays together, and nothing lies about.
    after = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert set(after) == set(before)
    assert [path for path in before if after[path] != before[path] and path.suffix in (".csv", ".html")] == []
    assert after[tmp_path / "run/results.json"] == before[tmp_path / "run/results.json"]


def test_no_write_permission_is_one_line(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(predictions(dataset)))
    (tmp_path / "file").write_text("in the way")
    done = run("score", tmp_path / "data", "-m", f"preds:{tmp_path}/mine.json", "-o", tmp_path / "file/run")
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_subset_scores_some_videos(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(predictions(dataset)))
    (tmp_path / "some.txt").write_text("clip-000\nclip-003\n")
    words = [
        "score",
        str(tmp_path / "data"),
        "-m",
        f"preds:{tmp_path}/mine.json",
        "--subset",
        str(tmp_path / "some.txt"),
    ]
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert json.loads(done.stdout)["dataset"]["n_sets"] == 2
    (tmp_path / "some.txt").write_text("clip-404\n")
    done = run(*words)
    assert done.returncode == 2
    assert "clip-404" in done.stderr


def test_compare_says_it_in_a_sentence(dataset: Dataset, tmp_path: Path) -> None:
    for name, accuracy in (("good", 0.99), ("poor", 0.6)):
        (tmp_path / f"{name}.json").write_text(json.dumps(predictions(dataset, accuracy=accuracy)))
    models = [word for name in ("good", "poor") for word in ("-m", f"preds:{tmp_path}/{name}.json")]
    assert run("score", tmp_path / "data", *models, "-o", tmp_path / "run").returncode == 0
    done = run("compare", tmp_path / "run", "-q")
    assert done.returncode == 0, done.stderr
    assert "good" in done.stdout
    assert "poor" in done.stdout
    found = json.loads(run("compare", tmp_path / "run", "--json").stdout)
    assert {part["metric"] for part in found} == {"acc_orig", "acc_pmk", "drop"}
    done = run("compare", tmp_path / "run", "-m", "good")
    assert done.returncode == 2
    assert "two models" in done.stderr


def test_a_thousand_columns_are_projected_and_any_other_width_is_refused() -> None:
    vid, ilsvrc = strobe.space("imagenet-vid"), strobe.space("ilsvrc-2012")
    plain = strobe.example_dataset(n_videos=6)
    dataset = replace(plain, info=replace(plain.info, label_space=vid))
    truth = dataset.labels.label[dataset.labels.frame.argsort()]
    children = strobe.projection("ilsvrc-2012", "imagenet-vid").children
    own = np.array([children[label][0] for label in truth])
    scores = np.zeros((len(truth), len(ilsvrc)))
    scores[np.arange(len(truth)), own] = 5.0
    perfect = strobe.Predictions.from_scores("m", scores, kind="logits")
    assert strobe.score(dataset, perfect).acc_orig.value == 1.0
    assert strobe.score(dataset, perfect, space="ilsvrc-2012").acc_pmk.value == 1.0
    assert strobe.results(dataset, [perfect])["models"]["m"]["acc_pmk"]["value"] == 1.0
    labels = strobe.Predictions.from_labels("m", own)
    assert strobe.score(dataset, labels, space=ilsvrc).acc_pmk.value == 1.0
    with pytest.raises(strobe.StrobeError, match=r"class .* but example has 30 classes"):
        strobe.score(dataset, labels)
    with pytest.raises(
        strobe.StrobeError, match="got 40 scores per frame, but example has 30 classes; name their label space"
    ):
        strobe.score(dataset, strobe.Predictions.from_scores("m", scores[:, :40], kind="logits"))
    with pytest.raises(strobe.StrobeError, match="1000 scores per frame"):
        strobe.score(dataset, strobe.Predictions.from_scores("m", scores[:, :40], kind="logits"), space="ilsvrc-2012")
