"""A remedy as a model of a run: derived, judged and compared like any other, with its forward passes counted."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from strobe.core.answers import ClassAnswers
from strobe.metrics.remedies import Remedy, majority
from strobe.models.crops import chosen_crop, shifted
from strobe.models.grammar import split_name, view_of
from strobe.models.requested import requested_models
from strobe.store import dataset_folder as folder
from strobe.store.run_folder import Run

Called = Callable[..., str]
TEXTURE = np.random.default_rng(0).integers(60, 160, (24, 32, 1), dtype=np.uint8)
MODEL = """
import numpy as np

def make():
    return colours, ["red", "green", "blue"]

def colours(images):
    with open("forwards.txt", "a") as file:
        own = [np.ptp(image[..., 1].astype(int) - image[..., 2]) == 0 for image in images]  # not those of a check
        file.write(f"{sum(own)} ")
    return np.array([image.reshape(-1, 3).mean(axis=0) / 10 for image in images])
"""
COLOURS = "rrrrgrrrggggggrggggg"
M = "py:m.py:make"


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[int, str, str]]) -> Called:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "clip").mkdir()
    for place, colour in enumerate(COLOURS):
        image = TEXTURE + np.array({"r": (30, 0, 0), "g": (0, 30, 0)}[colour], dtype=np.uint8)
        Image.fromarray(image).save(tmp_path / f"clip/{place:05d}.png")

    def call(*words: object, code: int = 0) -> str:
        ended, out, err = command(*map(str, words))
        assert ended == code, out + err
        return out + err

    return call


def evaluated(called: Called, *words: object, code: int = 0) -> str:
    return called("eval", "clip", "-o", "run", "--k", "2", "--bootstrap", "100", "--no-report", *words, code=code)


def labels(name: str) -> list[int]:
    answers = Run(Path("run")).models(folder.read(Path("run/dataset")), only=[name])[0].load()
    assert isinstance(answers, ClassAnswers)
    return answers.label.tolist()


def forwards() -> int:
    return sum(map(int, Path("forwards.txt").read_text(encoding="utf-8").split()))


def table() -> dict[tuple[str, str], dict[str, str]]:
    with Path("run/tables/remedies.csv").open(encoding="utf-8") as file:
        return {(row["model"], row["remedy"]): row for row in csv.DictReader(file)}


def test_remedies_over_stored_answers_cost_no_forward_pass(called: Called) -> None:
    evaluated(called, "-m", M, "--remedies")
    own, n = np.array(labels(M)), len(COLOURS)
    assert own.tolist() == ["rg".index(one) for one in COLOURS]
    assert forwards() == n
    text = evaluated(called, "-m", f"confirm=2:{M}", "-m", f"x=mode=3:confirm=2:{M}", "--remedies")
    assert forwards() == n, "the stored answers are used"
    confirmed = np.array(labels(f"confirm=2:{M}"))
    assert confirmed.tolist() == [0] * 9 + [1] * 11
    assert labels("x") == confirmed[majority(confirmed, np.zeros(n, int), np.arange(n), before=2)].tolist()
    rows = table()
    assert {key[1] for key in rows} >= {"none", "confirm=2", "mode=5", "mean=3", "confirm=2 + mode=3"}
    assert all(float(row["forwards"]) == 1 for row in rows.values())
    assert (rows[M, "none"]["changes"], rows[M, "confirm=2"]["changes"]) == ("5", "1")
    assert "confirm=2 *" in text
    before = Path("run/tables/remedies.csv").read_text(encoding="utf-8")
    called("score", "run", "--bootstrap", "100", "--remedies")
    assert Path("run/tables/remedies.csv").read_text(encoding="utf-8") == before
    called("score", "run", "--bootstrap", "100")
    assert set(table()) == {(M, "none"), (M, "confirm=2"), (M, "confirm=2 + mode=3")}


def test_crops_cost_forward_passes_that_are_counted(called: Called) -> None:
    evaluated(called, "-m", M)
    n = len(COLOURS)
    evaluated(called, "-m", f"crops=3:{M}", "-m", f"choice=0.9:{M}")
    rows = table()
    assert forwards() == n * (1 + 3 + 1)
    assert [float(rows[M, one]["forwards"]) for one in ("none", "crops=3", "choice=0.9")] == [1, 3, 1]
    assert labels(f"crops=3:{M}") == labels(M), "a crop of one colour has the same colour"
    names = [one.name for one in Run(Path("run")).models(folder.read(Path("run/dataset")))]
    assert sorted(names) == sorted([M, f"crops=3:{M}", f"choice=0.9:{M}"]), "the single crops are no models"
    evaluated(called, "-m", f"crops=3:{M}")
    assert forwards() == n * 5, "nothing runs twice"


def test_gate_and_compare_take_a_remedy_as_a_model(called: Called) -> None:
    evaluated(called, "-m", M, "-m", f"calm=confirm=2:{M}")
    assert "calm" in called("compare", "run", "-m", M, "-m", "calm")
    words = ("gate", "run", "--model", "calm", "--baseline", M, "--max-loss", "flicker=5")
    assert f"newly steady: 2 places ({M} keeps" not in called(*words)
    assert "newly steady: 2 places" in called(*words)


def test_a_file_of_labels_has_remedies(called: Called) -> None:
    evaluated(called, "-m", M)
    keys = folder.read(Path("run/dataset")).frames.key.tolist()
    rows = "".join(f"{key},{'red' if at % 5 else 'green'}\n" for at, key in enumerate(keys))
    Path("mine.csv").write_text(f"frame,label\n{rows}", encoding="utf-8")
    words = ("eval", "run/dataset", "-o", "other", "--bootstrap", "100", "--no-report", "-m", "mine=preds:mine.csv")
    called(*words, "-m", "calm=mode=3:mine")
    data = folder.read(Path("run/dataset"))
    calm = Run(Path("other")).models(data, only=["calm"])[0].load()
    assert isinstance(calm, ClassAnswers)
    assert calm.scores is None, "labels stay labels"
    # Green on every fifth frame: alone on the first frame, and later never the most frequent of three.
    assert calm.label.tolist() == [1, 0, *[0] * 18]
    text = called(*words, "-m", "hold=1:mine", code=1)
    assert "the times of some frames are unknown; use confirm=N" in text


def test_names_and_views() -> None:
    view = view_of("hold=0.5:crop:truth,context=1.2:efficientnet-lite0")
    assert view is not None
    assert view.source == "crop:truth,context=1.2:efficientnet-lite0"
    assert split_name("mode=5:a=b.pt") == (None, "mode=5:a=b.pt")
    asked = requested_models(["hold=0.5:mean=3:efficientnet-lite0", "x=mode=5:efficientnet-lite*"][:1])
    assert [one.name for one in asked] == [
        "efficientnet-lite0", "mean=3:efficientnet-lite0", "hold=0.5:mean=3:efficientnet-lite0",
    ]  # fmt: skip
    many = requested_models(["mode=5:efficientnet-lite*"])
    assert next(one.name for one in many if one.view is not None) == "mode=5:efficientnet-lite0"


@pytest.mark.parametrize(
    ("spec", "said", "code"),
    [
        (f"hold=x:{M}", "expected a number", 2),
        (f"hold=99:{M}", "from 0 to 10", 2),
        ("hold=0.5:", "a model is missing", 2),
        ("hold=0.5:preds:a.csv", "as a separate model", 2),
        (f"crops=3:mode=5:{M}", "expected a classifier", 2),
        (f"fill=0.5:{M}", "the times of some frames are unknown", 1),
        (f"hold:{M}", "unknown provider 'hold'", 1),
        ("mode=5:nobody", "no predictions of nobody", 1),
    ],
)
def test_a_wrong_remedy_is_one_line(called: Called, spec: str, said: str, code: int) -> None:
    text = evaluated(called, "-m", M, "-m", spec, code=code)
    assert said in text
    assert "Traceback" not in text


def test_shifted_crops_go_round_the_middle() -> None:
    boxes = np.array([shifted((200, 100), at, 5) for at in range(5)])
    assert boxes.tolist() == [
        [8, 4, 192, 96], [16, 4, 200, 96], [8, 8, 192, 100], [0, 4, 184, 96], [8, 0, 192, 92],
    ]  # fmt: skip


def test_the_chosen_crop_is_that_of_a_slow_search() -> None:
    image = np.random.default_rng(0).integers(0, 255, (15, 20, 3), dtype=np.uint8)
    grey = image.astype(float).mean(axis=2)

    def edges(x: int, y: int) -> float:
        """All differences with the pixel above or to the left, for the pixels of a crop."""
        pixels = [(row, column) for row in range(y, y + 12) for column in range(x, x + 16)]
        down = sum(abs(grey[row, column] - grey[row - 1, column]) for row, column in pixels if row)
        return float(down + sum(abs(grey[row, column] - grey[row, column - 1]) for row, column in pixels if column))

    best = max(((x, y) for x in range(5) for y in range(4)), key=lambda one: edges(*one))
    assert chosen_crop(image, 0.8).tolist() == [best[0], best[1], best[0] + 16, best[1] + 12]


def test_the_chosen_crop_follows_a_picture_that_shifts() -> None:
    """A shift by one pixel changes every middle crop, and few of the chosen ones."""
    same, rng = 0, np.random.default_rng(1)
    for _ in range(50):
        scene = np.kron(rng.integers(0, 255, (12, 16)), np.ones((4, 4))).astype(np.uint8)[..., None].repeat(3, axis=2)
        crops = []
        for first in (4, 5):
            image = scene[4:44, first : first + 50]
            left, top, right, bottom = map(int, chosen_crop(image, 0.8))
            crops.append(image[top:bottom, left:right])
        same += int((crops[0] == crops[1]).all())
    assert same >= 25


def test_a_kind_has_a_unit() -> None:
    assert Remedy.of("hold=0.27").rule.unit == "seconds"
