"""Every guess is stated with the data it was made on, and refused where two readings are plausible."""

import ast
import html
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import av
import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, save
from PIL import Image

import strobe
from strobe.analyses.results import Results, dataset_facts
from strobe.build.index import read_index
from strobe.cli.main import main
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError
from strobe.core.labels import LabelSpace, shipped_spaces, space
from strobe.core.ports import Silent
from strobe.core.projections import projection_between
from strobe.core.readings import GUESSES, Guess, is_reading, read_as, readings_of_videos
from strobe.core.score_kinds import kind_of_scores
from strobe.engine.forward import Runner, block_of
from strobe.engine.running import Running
from strobe.formats.prediction_files import FileOptions
from strobe.formats.read_predictions import read_predictions
from strobe.models.options import LoadOptions
from strobe.models.providers import PROVIDERS
from strobe.models.registry import load_model
from strobe.report.headline import headline_lines
from strobe.store import dataset_folder
from strobe.workflows.build import BuildOptions, build
from strobe.workflows.evaluate import evaluate
from strobe.workflows.report import ReportOptions, report_run
from strobe.workflows.score import ScoreRunOptions, score_dataset

SRC = Path(strobe.__file__).parent
SERVICES = Path(__file__).parent / "annexes/remote/servers"


def made(classes: LabelSpace, *, labels: int | None = 0, n: int = 4) -> Dataset:
    """Videos of three frames each, one set per video."""
    grown = DatasetBuilder()
    for name in (f"v{number}" for number in range(n)):
        video = grown.video(video_id=name, name=name)
        own = [] if labels is None else [labels]
        rows = [grown.frame(video=video, index=i, key=f"{name}/{i}.png", labels=own) for i in range(3)]
        grown.set(set_id=name, anchor=rows[1], members=[(rows[0], -1), (rows[2], 1)])
    return grown.build(DatasetInfo(name="tiny", label_space=classes, k=1))


def predictions(path: Path, dataset: Dataset, rows: list[object]) -> Path:
    path.write_text(json.dumps(dict(zip(dataset.frames.key.tolist(), rows, strict=True))))
    return path


def softmax(n: int, classes: int, *, spread: float, seed: int = 0) -> np.ndarray:
    scores = np.exp(spread * np.random.default_rng(seed).normal(size=(n, classes)))
    return scores / scores.sum(axis=1, keepdims=True)


# -- one case for every guess ------------------------------------------------------------------------------------

PETS = LabelSpace.of_names("pets", ["cat", "dog", "fox"])


def _scored(folder: Path, *, labels: int | None, width: int, classes: LabelSpace) -> list[str]:
    """The notes in results.json after the scoring of rounded probabilities, each also in the terminal's lines."""
    dataset = made(classes, labels=labels)
    dataset_folder.write(dataset, folder / "data")
    rows = softmax(12, width, spread=2).round(2).tolist()
    path = predictions(folder / "net.json", dataset, rows)
    results = score_dataset(folder / "data", [f"net=preds:{path}"], folder / "run", ScoreRunOptions(), Silent())
    stored = json.loads((folder / "run/results.json").read_text())
    models = stored["models"] or stored["flicker"]["models"]
    for note in filter(is_reading, models["net"]["notes"]):
        _is_shown(f"net: {note}", results, folder / "run")
    return list(models["net"]["notes"])


def _is_shown(line: str, results: Results, run: Path) -> None:
    """Check that the line is in the terminal and on the page."""
    assert line in [one for _, _, _, notes in headline_lines(results) for one in notes]
    page = report_run(run, ReportOptions(), Silent())
    assert f"{line[0].upper()}{line[1:]}".casefold() in html.unescape(page.read_text("utf-8")).casefold()


def _kind(folder: Path) -> list[str]:
    unlabelled = _scored(folder / "a", labels=None, width=3, classes=PETS)
    assert [one for one in _scored(folder / "b", labels=0, width=3, classes=PETS) if is_reading(one)] == unlabelled
    return unlabelled


def _space(folder: Path) -> list[str]:
    return _scored(folder, labels=0, width=1000, classes=space("imagenet-vid"))


def raw_video(
    path: Path, *, rate: Fraction | int = Fraction(30000, 1001), codec: str = "libx264", form: str = "h264"
) -> Path:
    with av.open(str(path), "w", format=form) as out:
        stream = out.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for value in range(24):
            out.mux(
                stream.encode(av.VideoFrame.from_ndarray(np.full((48, 64, 3), 8 * value, np.uint8), format="rgb24"))
            )
        out.mux(stream.encode())
    return path


def shaped_video(path: Path, *, aspect: Fraction | None = None) -> Path:
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 120, "yuv420p"
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        for value in range(6):
            frame = av.VideoFrame.from_ndarray(np.full((120, 64, 3), 8 * value, np.uint8), format="rgb24")
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return path


def turned_video(path: Path, degrees: float) -> Path:
    """An mp4 whose display matrix turns by any angle, written into its track header."""
    data = bytearray(shaped_video(path).read_bytes())
    identity = b"".join(number.to_bytes(4, "big") for number in (1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30))
    at = data.index(identity, data.index(b"tkhd"))
    cos, sin = (round(65536 * function(np.radians(degrees))) for function in (np.cos, np.sin))
    for place, number in ((0, cos), (1, sin), (3, -sin), (4, cos)):
        data[at + 4 * place : at + 4 * place + 4] = number.to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    return path


def _built(video: Path, folder: Path) -> list[str]:
    options = BuildOptions(label=("dog",))
    dataset = build([video], folder / "out", options).dataset
    return list(dataset_facts(dataset).readings or ())


def _frame_rate(folder: Path) -> list[str]:
    return _built(raw_video(folder / "clip.h264"), folder)


def _pixel_aspect(folder: Path) -> list[str]:
    return _built(shaped_video(folder / "clip.mp4", aspect=Fraction(991, 1000)), folder)


def _rotation(folder: Path) -> list[str]:
    return _built(turned_video(folder / "clip.mp4", 30.0), folder)


CASES: dict[Guess, tuple[Callable[[Path], list[str]], str]] = {
    "kind": (_kind, "probabilities (its rows sum to 1 within rounding (2 decimals)"),
    "space": (_space, "ilsvrc-2012 (1000 scores)"),
    "frame rate": (_frame_rate, "29.97 frames per second (the file is a raw stream, and its codec states it)"),
    "pixel aspect": (_pixel_aspect, "0.991 (the file states it, so 64×120 pixels become 64×121)"),
    "rotation": (_rotation, "0° (the file states 30°, and strobe turns by multiples of 90° only)"),
}


def calls() -> dict[str, list[str]]:
    """The modules of the house that state each guess; an annex tests its own."""
    found: dict[str, list[str]] = {}
    for path in sorted(set(SRC.rglob("*.py")) - set(SRC.glob("annexes/**/*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "read_as":
                first = node.args[0]
                assert isinstance(first, ast.Constant), f"{path}: the guess is a word of `Guess`"
                found.setdefault(str(first.value), []).append(path.name)
    return found


def test_every_guess_of_the_code_has_a_case() -> None:
    assert set(calls()) == set(CASES) <= set(get_args(Guess)) == set(GUESSES)


@pytest.mark.parametrize("guess", CASES)
def test_a_guess_is_stated_in_the_results(guess: Guess, tmp_path: Path) -> None:
    make, words = CASES[guess]
    stated = [line for line in make(tmp_path) if f"{GUESSES[guess]} read as" in line]
    assert len(stated) == 1, stated
    assert words in stated[0]
    assert is_reading(stated[0])


@pytest.mark.parametrize("answers", ["classes", "classes without labels", "boxes without labels"])
def test_every_guess_of_a_dataset_is_in_the_terminal_and_on_the_page(answers: str, tmp_path: Path) -> None:
    dataset = made(PETS, labels=0 if answers == "classes" else None)
    notes = [read_as(guess, "this", f"a reason for {guess}") for guess in GUESSES]
    info = replace(dataset.info, provenance={**dataset.info.provenance, "notes": notes})
    dataset_folder.write(replace(dataset, info=info), tmp_path / "data")
    keys = dataset.frames.key.tolist()
    box = {"category_id": 0, "bbox": [1, 2, 10, 12], "score": 0.9}
    rows = [box | {"image_id": key} for key in keys] if "boxes" in answers else dict.fromkeys(keys, "cat")
    (tmp_path / "net.json").write_text(json.dumps(rows))
    run = tmp_path / "run"
    found = score_dataset(tmp_path / "data", [f"net=preds:{tmp_path}/net.json"], run, ScoreRunOptions(), Silent())
    for note in notes:
        _is_shown(note, found, run)


def test_a_guess_about_several_videos_is_one_line() -> None:
    notes = ["a: rotation of b", "a: frame rate read as 25 (x: y)", "b: frame rate read as 25 (z)"]
    assert readings_of_videos([*notes, "c: frame rate read as 25 (z)"]) == (
        notes[1],
        "b and 1 more: frame rate read as 25 (z)",
    )


# -- the kind of scores ------------------------------------------------------------------------------------------


def _bfloat16(values: np.ndarray) -> np.ndarray:
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


ROUNDED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "unrounded": lambda p: p,
    "2 decimals": lambda p: p.round(2),
    "3 decimals": lambda p: p.round(3),
    "4 decimals": lambda p: p.round(4),
    "per cent": lambda p: (100 * p).round(1),
    "per cent, 2 decimals": lambda p: (100 * p).round(2),
    "float16": lambda p: p.astype(np.float16).astype(np.float64),
    "bfloat16": _bfloat16,
    "one-hot": lambda p: np.eye(p.shape[1])[p.argmax(axis=1)],
}


@pytest.mark.parametrize("form", ROUNDED)
@pytest.mark.parametrize("classes", [2, 10, 30, 1000, 21_000])
def test_rounded_probabilities_are_never_logits(form: str, classes: int) -> None:
    """They are recognised, or refused where rounding lost more than half of a row; never read as logits."""
    for spread in (1.0, 3.0, 8.0):
        shares = ROUNDED[form](softmax(12 if classes > 1000 else 60, classes, spread=spread, seed=classes))
        if not shares.any():  # nothing is left, so every class ties, which a note of the model states
            continue
        sums = shares.sum(axis=1) / (100 if form.startswith("per cent") else 1)
        if sums.min() > 0.5 - 1e-9:
            assert kind_of_scores(shares).kind == "probabilities", (form, classes, spread)
            assert kind_of_scores(shares).scale == (0.01 if form.startswith("per cent") else 1.0)
        else:
            with pytest.raises(InvalidValue, match="--kind probabilities or --kind logits"):
                kind_of_scores(shares)


def test_sigmoids_parts_and_small_logits_are_refused() -> None:
    rng = np.random.default_rng(1)
    shares = softmax(60, 1000, spread=3)
    top = np.where(shares >= -np.sort(-shares, axis=1)[:, 4:5], shares, 0.0)
    sigmoids = 1 / (1 + np.exp(-rng.normal(size=(60, 10)) * 2))
    for scores in (
        sigmoids,
        sigmoids.round(2),
        top,
        top.round(3),
        100 * sigmoids,
        rng.random((60, 10)),
    ):
        with pytest.raises(InvalidValue, match="declare the kind with --kind"):
            kind_of_scores(scores)


def test_values_beyond_every_share_are_logits() -> None:
    rng = np.random.default_rng(1)
    for scores in (
        rng.normal(size=(9, 5)),
        30 * rng.random((9, 100)),
        500 * rng.random((9, 5)),
        np.full((4, 1), 0.3),
        np.zeros((3, 2)),
    ):
        assert kind_of_scores(scores).kind == "logits"


@pytest.mark.parametrize("digits", [2, 3, 4])
def test_rounding_does_not_move_confidence(digits: int, tmp_path: Path) -> None:
    """A plain loop: the confidence of rounded probabilities is the largest value over the sum of its row."""
    dataset, shares = made(PETS), softmax(12, 3, spread=2)
    rows = (100 * shares).round(digits - 2).tolist()
    answers = read_predictions(predictions(tmp_path / "p.json", dataset, rows), dataset).answers
    for row, found in zip(rows, answers.confidence, strict=True):
        assert found == pytest.approx(max(row) / sum(row), abs=1e-6)


def test_a_row_of_zeros_is_refused_however_it_is_declared(tmp_path: Path) -> None:
    dataset = made(PETS)
    path = predictions(tmp_path / "p.json", dataset, [[0.2, 0.3, 0.5]] * 11 + [[0.0, 0.0, 0.0]])
    with pytest.raises(InvalidFile, match="every probability is 0"):
        read_predictions(path, dataset, FileOptions(kind="probabilities"))


# -- the kind of the scores of models that run ------------------------------------------------------------------------

MATRIX = np.array([[9.0, -3, -2], [-2, 8, -3], [-3, -2, 10]])
SETTINGS = {"mean": [0, 0, 0], "std": [1, 1, 1], "labels": ["red", "green", "blue"], "interpolation": "bilinear"}
PY_FILE = """
import numpy as np
import torch
from strobe import ImagePlan

MATRIX = {matrix}
PLAN = ImagePlan(size_hw=(24, 32), fit="squash", mean=(0, 0, 0), std=(1, 1, 1))

def made(end, *declared):
    def scores(images):
        x = np.array([image.reshape(-1, 3).mean(axis=0) / 255 for image in images]) @ np.array(MATRIX)
        e = np.exp(x)
        if end == "sigmoids":
            return 1 / (1 + 1 / e)
        return x if end == "logits" else (100 if end == "per cent" else 1) * e / e.sum(axis=1, keepdims=True)
    return scores, ["red", "green", "blue"], *declared

class Net(torch.nn.Module):
    def __init__(self, end):
        super().__init__()
        self.end = end
        self.register_buffer("matrix", torch.tensor(MATRIX))
    def forward(self, pixels):
        x = pixels.mean((2, 3)) @ self.matrix
        if self.end == "sigmoids":
            return x.sigmoid()
        return x if self.end == "logits" else (100 if self.end == "per cent" else 1) * x.softmax(1)

def module(end, *declared):
    return Net(end).eval(), PLAN, ["red", "green", "blue"], *declared
"""


def _py(folder: Path, end: str, declared: str | None, factory: str = "made") -> tuple[str, LoadOptions]:
    given = ", ".join(map(repr, [end] if declared is None else [end, declared]))
    text = PY_FILE.format(matrix=MATRIX.tolist()) + f"\ndef make():\n    return {factory}({given})\n"
    (folder / f"{end}.py").write_text(text)
    return f"py:{folder / end}.py:make", LoadOptions(device="cpu")


def _module(folder: Path, end: str, declared: str | None) -> tuple[str, LoadOptions]:
    return _py(folder, end, declared, "module")


def _settings(path: Path, declared: str | None) -> LoadOptions:
    path.write_text(json.dumps(SETTINGS | ({} if declared is None else {"kind": declared})))
    return LoadOptions(device="cpu", settings=path)


def _onnx(folder: Path, end: str, declared: str | None) -> tuple[str, LoadOptions]:
    numbers = [
        numpy_helper.from_array(MATRIX.astype(np.float32), "matrix"),
        numpy_helper.from_array(np.array(100, dtype=np.float32), "hundred"),
    ]
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "matrix"], ["x"]),
        helper.make_node("Softmax", ["x"], ["softmax"]),
        helper.make_node("Sigmoid", ["x"], ["sigmoids"]),
        helper.make_node("Mul", ["softmax", "hundred"], ["per cent"]),
    ]
    nodes.append(helper.make_node("Identity", ["x" if end == "logits" else end], ["scores"]))
    sizes = {"image": ["n", 3, 24, 32], "scores": ["n", 3]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in sizes.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], numbers)
    path = folder / f"{end}.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    return f"onnx:{path}", _settings(path.with_suffix(".json"), declared)


def _pt2(folder: Path, end: str, declared: str | None) -> tuple[str, LoadOptions]:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("matrix", torch.tensor(MATRIX, dtype=torch.float32))

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            x = pixels.mean((2, 3)) @ self.matrix
            shares = {"softmax": lambda: x.softmax(1), "per cent": lambda: 100 * x.softmax(1), "sigmoids": x.sigmoid}
            return x if end == "logits" else shares[end]()

    free = ({0: torch.export.Dim("n", min=1, max=64)},)
    program = torch.export.export(Net().eval(), (torch.zeros(2, 3, 24, 32),), dynamic_shapes=free)
    torch.export.save(program, folder / f"{end}.pt2")
    return f"pt2:{folder / end}.pt2", _settings(folder / f"{end}.json", declared)


SERVERS = ExitStack()


@pytest.fixture(scope="module", autouse=True)
def _stop_servers() -> Iterator[None]:
    yield
    SERVERS.close()


def _kserve(folder: Path, end: str, declared: str | None) -> tuple[str, LoadOptions]:
    v2_server = pytest.importorskip("v2_server", reason="the annex remote")
    _, options = _onnx(folder, end, declared)
    running = SERVERS.enter_context(v2_server.V2Server({"net": folder / f"{end}.onnx"}))
    return f"kserve:net@{running.url}", options


UNDECLARED = {"py": _py, "py, a module": _module, "onnx": _onnx, "pt2": _pt2, "kserve": _kserve}
_DECLARED = {
    "timm": "its heads give logits",
    "torchvision": "its heads give logits",
    "openclip": "similarities times the temperature are logits",
    "hf": "its heads give logits",
    "openai": "its spec declares probabilities",
    "ultralytics": "a detector",
}


def _loaded(provider: str, folder: Path, end: str, monkeypatch: pytest.MonkeyPatch, declared: str | None = None) -> Any:
    monkeypatch.syspath_prepend(SERVICES)
    return load_model(*UNDECLARED[provider](folder, end, declared))


def test_every_provider_declares_the_kind_or_has_a_case() -> None:
    assert set(PROVIDERS.own_members()) == set(_DECLARED) | {name.partition(",")[0] for name in UNDECLARED}


@pytest.mark.parametrize("provider", UNDECLARED)
def test_a_model_that_runs_is_read_by_its_scores(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Softmaxes and per cent have the confidences of the logits by a plain loop; sigmoids are refused or declared."""
    pixels = (
        np.random.default_rng(0).integers(0, 256, (6, 24, 32, 3), dtype=np.uint8)
        // np.arange(1, 7)[:, None, None, None]
    )
    images = list(pixels.astype(np.uint8))
    blocks = {}
    for end in ("logits", "softmax", "per cent"):
        model = _loaded(provider, tmp_path, end, monkeypatch)
        spec = model.spec
        runner = Runner(name=end, model=model, projection=projection_between(spec.label_space, spec.label_space))
        scores = np.asarray(model.forward([model.prepare(image) for image in images]))
        blocks[end] = block_of(runner, list(range(6)), scores)
        assert spec.kind == ("logits" if end == "logits" else "probabilities")
        assert [is_reading(one) for one in spec.readings] == ([] if end == "logits" else [True])
    for row, image in enumerate(images):
        x = [float(image.reshape(-1, 3).mean(axis=0) / 255 @ column) for column in MATRIX.T]
        wanted = max(np.exp(x)) / sum(np.exp(x))
        for block in blocks.values():
            assert block.own_confidence[row] == pytest.approx(wanted, abs=1e-5)
    with pytest.raises(StrobeError, match="could be logits, sigmoids or a part of the probabilities; declare the kind"):
        _loaded(provider, tmp_path, "sigmoids", monkeypatch)
    assert _loaded(provider, tmp_path, "sigmoids", monkeypatch, "probabilities").spec.kind == "probabilities"
    told = _loaded(provider, tmp_path, "softmax", monkeypatch, "logits").spec
    assert (told.kind, told.readings) == ("logits", ())


def _painted(folder: Path) -> Path:
    """Unlabelled videos whose frames change from red to green."""
    rng, grown = np.random.default_rng(1), DatasetBuilder()
    (folder / "data/media").mkdir(parents=True)
    for number in range(4):
        name, rows = f"v{number}", []
        video = grown.video(video_id=name, name=name)
        for index in range(3):
            pixels = rng.integers(0, 60, (24, 32, 3), dtype=np.uint8)
            pixels[:, :, (index + number) % 2] += 150 if number < 2 else 20
            path = folder / f"data/media/{number}-{index}.png"
            Image.fromarray(pixels).save(path)
            key, media = f"{name}/{index}.png", f"media/{path.name}"
            rows.append(grown.frame(video=video, index=index, key=key, labels=[], media=media))
        grown.set(set_id=name, anchor=rows[1], members=[(rows[0], -1), (rows[2], 1)])
    colours = LabelSpace.of_names("colours", ["red", "green", "blue"])
    dataset_folder.write(grown.build(DatasetInfo(name="tiny", label_space=colours, k=1)), folder / "data")
    return folder / "data"


def test_sure_flips_of_a_softmax_are_those_of_its_logits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{end.replace(' ', '')}={_onnx(tmp_path, end, None)[0]}" for end in ("logits", "softmax", "per cent")]
    found = evaluate(
        _painted(tmp_path), names, tmp_path / "run", prediction=Running(), request=ScoreRunOptions(),
        progress=Silent(), with_report=False,
    ).results  # fmt: skip
    models = found.flicker.models
    assert 0 < models["logits"].sure_flip_rate.value < 1
    for name in ("softmax", "percent"):
        assert models[name].sure_flip_rate == models["logits"].sure_flip_rate
        (reading,) = filter(is_reading, models[name].notes)
        assert reading.startswith("kind of the scores read as probabilities (on test images, its rows sum to 1")
    folded = "percent and 1 more: kind of the scores read as probabilities (percent: on test images, its rows"
    assert any(folded in note for *_, notes in headline_lines(found) for note in notes)
    assert not any(map(is_reading, models["logits"].notes or ()))
    run, printed = str(tmp_path / "run"), f"softmax: {GUESSES['kind']} read as probabilities"
    limit = ("--baseline", "logits", "-m", "softmax", "--max", "flicker=100")
    for command in (("compare", run), ("gate", run, *limit), ("history", run)):
        with pytest.raises(SystemExit):
            main(command)
        assert printed in " ".join(capsys.readouterr().out.split()), command


def test_a_function_without_scores_for_test_images_must_declare_the_kind(tmp_path: Path) -> None:
    text = """
def make():
    def scores(images):
        if any(image.shape != (8, 8, 3) for image in images):
            raise ValueError("not mine")
        return [[0.2, 0.8] for _ in images]
    return scores, ["cat", "dog"]{}
"""
    image = np.zeros((8, 8, 3), dtype=np.uint8)
    (tmp_path / "a.py").write_text(text.format(""))
    model: Any = load_model(f"py:{tmp_path}/a.py:make", LoadOptions())
    with pytest.raises(StrobeError, match=r"no scores for test images.* as the last value that the factory returns"):
        model.forward([image])
    (tmp_path / "b.py").write_text(text.format(', "probabilities"'))
    told: Any = load_model(f"py:{tmp_path}/b.py:make", LoadOptions())
    assert told.spec.kind == "probabilities"
    assert told.forward([image]).shape == (1, 2)


# -- the names of classes ----------------------------------------------------------------------------------------


def test_a_name_of_several_classes_is_refused_with_every_id() -> None:
    seen = 0
    for known in map(space, shipped_spaces()):
        for name in {name for name in known.names if known.names.count(name) > 1}:
            places = [place for place, other in enumerate(known.names) if other == name]
            with pytest.raises(InvalidValue) as refused:
                known.index(name)
            assert all(known.ids[place] in str(refused.value) for place in places)
            assert [known.index(known.ids[place]) for place in places] == places
            seen += 1
    assert seen == 2  # crane and maillot


_BY_NAME = {
    "api/given.py": "columns are sorted only if they are exactly the names, and equal names keep their order",
    "annexes/backgrounds/objectnet.py": "by all synonyms together, which differ",
}
"""The modules that find the position of a class by its name without `LabelSpace.index`, and why they may.

A filter of the viewer shows every class of a name."""


def test_no_other_module_resolves_names_of_classes() -> None:
    found = set()
    for path in sorted(set(SRC.rglob("*.py")) - set(SRC.glob("annexes/web/view/*"))):
        for node in ast.walk(ast.parse(path.read_text())):
            by_index = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("names.index")
            by_dict = (
                isinstance(node, ast.DictComp)
                and isinstance(node.value, ast.Name)
                and isinstance(node.generators[0].iter, ast.Call)
                and ast.unparse(node.generators[0].iter.func) == "enumerate"
                and any(".names" in ast.unparse(one.iter) for one in node.generators)
            )
            if by_index or by_dict:
                found.add(path.relative_to(SRC).as_posix())
    known = {name for name in _BY_NAME if (SRC / name).is_file()}  # an annex may be away
    assert found - {"annexes/backgrounds/study/chapter.py"} == known  # that one has names of variants


# -- videos --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [Fraction(30000, 1001), Fraction(50), Fraction(24)])
def test_a_raw_stream_has_the_rate_of_its_codec(rate: Fraction, tmp_path: Path) -> None:
    index = read_index(raw_video(tmp_path / "clip.h264", rate=rate))
    assert index.fps == rate
    assert index.time_s(3) is None


@pytest.mark.parametrize(("codec", "form"), [("mpeg4", "m4v"), ("mjpeg", "mjpeg")])
def test_a_raw_stream_whose_codec_states_no_rate_has_none(codec: str, form: str, tmp_path: Path) -> None:
    """MPEG-4 Part 2 states the resolution of its times, here 30000 a second, which is no frame rate."""
    path = raw_video(tmp_path / f"clip.{form}", codec=codec, form=form)
    assert read_index(path).fps is None
    assert (
        "frame rate read as unknown (the file is a raw stream, and its codec does not state it)"
        in _built(path, tmp_path)[0]
    )
