"""Make the sound inputs of every case: datasets, runs, prediction files, releases, clips, votes and weights.

They are made once, into one folder. Half of them come from `tests/golden` (folders of earlier versions). strobe makes
the rest, so that the fuzzer also tests folders of the current version.
"""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np

from fuzz.corpus_made import GOLDFISH, TENCH, make_datasets, text
from fuzz.process import watch
from strobe.core.labels import space

__all__ = ["GOLDEN", "make_corpus", "make_sources"]

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
TURTLE, CAT = "n01662784", "n02121808"


_NET = """
import torch
from strobe import LabelSpace
from strobe.models.options import ModelName
from strobe.models.plan import ImagePlan
from strobe.models.torch_classifier import classifier_of


class Net(torch.nn.Module):
    def forward(self, pixels):
        return 20 * pixels.mean((2, 3))


def make(options):
    torch.set_num_threads(1)
    plan, space = ImagePlan(size_hw=(8, 8), resize=8), LabelSpace.of_names("colours", ["red", "green", "blue"])
    return classifier_of(Net(), ModelName("py", "net"), plan=plan, label_space=space, options=options)
"""
"""A model with gradients, for attacks."""


_GENERATOR = """
import torch
from strobe.annexes.generators.layered import layered


def make(options):
    return layered(
        torch.nn.Identity(),
        [
            ("colour", "coarse", lambda z, y: (0.1 * z + 0.2 * torch.eye(3)[y]).view(-1, 3, 1, 1).expand(-1, 3, 8, 8)),
            ("image", "pixel", lambda a, y: a.sigmoid()),
        ],
        classes=["red", "green", "blue"], latent_size=3, image_hw=(8, 8), device=options.device,
    )
"""
"""A generator of coloured squares, for searches."""


def make_corpus(folder: Path) -> Path:
    """Fill the folder unless an earlier call has filled it, and return it. A half-filled folder is made again."""
    done = folder / "done"
    if done.is_file():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = watch(
        lambda: _fill(folder), cwd=folder, limit_s=600
    )  # in a child process, because this process is forked later and must stay small
    if made.code != 0:
        raise RuntimeError(f"the corpus could not be made: {made.ended}: {made.stderr[-2000:]}")
    done.touch()
    return folder


def _fill(folder: Path) -> None:
    shutil.copytree(GOLDEN / "datasets", folder / "datasets")
    shutil.copytree(GOLDEN / "runs", folder / "runs")
    shutil.copytree(GOLDEN / "inputs", folder / "inputs")
    shutil.copy(GOLDEN / "models.py", folder / "models.py")
    text(folder / "inputs/models.toml", "[[model]]", 'model = "py:models.py:logits"', 'model_type = "mine"')
    text(folder / "net.py", *_NET.strip().splitlines())
    text(folder / "generator.py", *_GENERATOR.strip().splitlines())
    make_sources(folder)
    _weights(folder / "weights")
    make_datasets(folder)
    made = json.loads((GOLDEN / "made.json").read_text(encoding="utf-8"))["runs"]
    for path in (folder / "runs").glob("*/run.json"):  # relative paths, because a case copies some of these folders
        about = json.loads(path.read_text(encoding="utf-8"))
        name = path.parent.name
        data = {"new-early": "video"}.get(name, name.removeprefix("new-"))
        about["dataset"]["path"] = f"datasets/{made[name]['dataset'] if name in made else data}"
        path.write_text(json.dumps(about, indent=1), encoding="utf-8")


def make_sources(folder: Path) -> None:
    """Make users' inputs: clips, photos, and small releases in every format that strobe imports."""
    _clips(folder / "clips")
    _photos(folder / "photos")
    _releases(folder)


def _picture(path: Path, number: int, size: tuple[int, int] = (16, 12)) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    ramp = (np.arange(size[0] * size[1] * 3) * (7 + number) + 31 * number) % 256
    Image.fromarray(ramp.astype(np.uint8).reshape(size[1], size[0], 3)).save(path)


# -- videos and photos -----------------------------------------------------------------------------------------------


def _clips(folder: Path) -> None:
    from fractions import Fraction

    import av

    folder.mkdir()
    for place, (name, codec) in enumerate(
        (("a.mp4", "libx264"), ("b.mp4", "libx264"), ("c.mkv", "mpeg4"), ("d.avi", "mjpeg"))
    ):
        with av.open(str(folder / name), "w") as container:
            stream = container.add_stream(codec, rate=25)
            stream.width, stream.height = 48, 32
            stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
            stream.time_base = Fraction(1, 25)
            for index in range(14):
                pixels = np.full((32, 48, 3), 40 + 20 * place, dtype=np.uint8)
                pixels[4:20, index : index + 16] = (200, 12 * index, 90)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
            container.mux(stream.encode(None))
    _animation(folder / "e.webp")
    text(folder / "labels.csv", "video,label,start_s,end_s", "a,dog,,", "b,cat,0,0.5", "c,dog,,", "d,dog,,")
    text(folder / "anchors.csv", "video,frame", "a,6", "b,5")
    rows = [f"{video},{frame},dog,{frame},4,{frame + 16},20,1,0" for video in "ab" for frame in range(14)]
    text(folder / "boxes.csv", "video,frame,label,x0,y0,x1,y1,track,crowd", *rows)


def _animation(path: Path) -> None:
    from PIL import Image

    first, *rest = [Image.fromarray(np.full((12, 16, 3), 15 * place, dtype=np.uint8)) for place in range(8)]
    first.save(path, save_all=True, append_images=rest, duration=40, lossless=True)


def _photos(folder: Path) -> None:
    from PIL import Image

    for place, name in enumerate(("cat/a.png", "cat/b.jpg", "dog/c.png")):
        _picture(folder / "in" / name, place, (40, 30))
        mask = np.zeros((30, 40), dtype=np.uint8)
        mask[5:20, 5:25] = 1
        (folder / "masks" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask).save((folder / "masks" / name).with_suffix(".png"))
    for place, name in enumerate(("red/a.jpg", "green/b.jpg", "blue/c.jpg")):
        _picture(folder.with_name("colours") / name, place, (20, 16))
    text(folder / "labels.csv", "file,label", "cat/a.png,cat", "cat/b.jpg,cat", "dog/c.png,dog")
    rows = ("cat/a.png,cat,5,5,25,20,1", "cat/b.jpg,cat,5,5,25,20,1", "dog/c.png,dog,5,5,25,20,1")
    text(folder / "boxes.csv", "file,label,x0,y0,x1,y1,track", *rows)


# -- releases --------------------------------------------------------------------------------------------------------


def _releases(folder: Path) -> None:
    root = folder / "releases"
    _vid_robust(root / "vid-robust")
    _ytbb_robust(root / "ytbb-robust")
    _imagenet_vid(root / "imagenet-vid")
    _youtube_bb(root / "youtube-bb", folder / "clips")
    _coco_vid(root / "coco-vid")
    _corrupted(root / "imagenet-c")
    _backgrounds(root)
    _trials(root / "trials")
    for place in range(10):
        _picture(root / f"frames/in/{'xy'[place % 2]}/{place // 2:04d}.png", place)
    text(root / "frames/in/labels.csv", "video,label", "x,dog|pet", "y,cat")
    text(root / "frames/anchors.csv", "video,frame", "x,2", "y,1")
    text(root / "frames/boxes.csv", "video,frame,label,x0,y0,x1,y1,track", "x,2,dog,1,2,8,9,4", "y,1,cat,0,0,5,5,5")
    for number in (1, 2):
        _picture(root / f"ilsvrc/val/ILSVRC2012_val_{number:08d}.JPEG", number)
        _picture(root / f"devkit/val/ILSVRC2012_val_{number:08d}.JPEG", number)
    text(root / "ilsvrc/imagenet_2012_validation_synset_labels.txt", TENCH, GOLDFISH)
    text(root / "devkit/ILSVRC2012_validation_ground_truth.txt", "490", "361")
    from scipy.io import savemat

    kind = [("ILSVRC2012_ID", object), ("WNID", object)]
    savemat(root / "devkit/meta.mat", {"synsets": np.array([(490, TENCH), (361, GOLDFISH)], dtype=kind)})


def _vid_robust(root: Path) -> None:
    pmsets, labels, ids = {}, {}, space("imagenet-vid").ids
    for place, (video, indices) in enumerate({"ILSVRC2015_val_00000000": [8, 9, 11], "ILSVRC2015_val_1": [9]}.items()):
        name = f"val/{video}/{{:06d}}.JPEG"
        pmsets[name.format(10)] = [name.format(index) for index in indices]
        for index in sorted([10, *indices]):
            labels[name.format(index)] = [place] if index < 11 else [place, 20]
            _picture(root / name.format(index), index)
            objects = "".join(
                f"<object><trackid>0</trackid><name>{ids[label]}</name><bndbox><xmax>9</xmax><xmin>1</xmin>"
                "<ymax>9</ymax><ymin>1</ymin></bndbox></object>"
                for label in labels[name.format(index)]
            )
            size = "<size><width>16</width><height>12</height></size>"
            about = f"<annotation>{size}{objects}</annotation>"
            text(root / f"ILSVRC/Annotations/VID/val/{video}/{index:06d}.xml", about)
    text(root / "metadata/pmsets.json", json.dumps(pmsets))
    text(root / "metadata/labels.json", json.dumps(labels))


def _ytbb_robust(root: Path) -> None:
    words = ["good", "unsure", "bad", "person", "bird", "car"]
    pair_words = ["correct", "problematic", "similar", "dissimilar", "blur-increase", "bad-anchor"]
    anchors, pairs = [], []
    for clip, index in {"04rVDII50JU_66600": 1998, "0AkiHGXwcYU_162600": 4065}.items():
        anchor = f"{clip}/frame-{index}.jpg"
        anchors.append({"key": f"/home/someone/{anchor}", "notes": "", "labels": [0]})
        for offset in (-1, 0, 1):
            frame = f"{clip}/frame-{index + offset}.jpg"
            _picture(root / "ytbb_videos" / frame, offset + 2)
            if offset:
                pairs.append({"key": f"{anchor},{frame}", "notes": "n", "labels": [2, 0] if offset > 0 else [3]})
    text(root / "metadata/anchor_labels.json", json.dumps({"annotations": anchors, "labels": words}))
    text(root / "metadata/pair_labels.json", json.dumps({"annotations": pairs, "labels": pair_words}))
    listed = ("ytid,time_ms,label", "04rVDII50JU,66600,22", "0AkiHGXwcYU,162600,16")
    text(root / "metadata/ytbb_robustness_test_anchors_full.csv", *listed)
    second = space("youtube-bb").names[16]
    rows = ("04rVDII50JU,66600,22,car,0,present,0.1,0.5,0.1,0.5", f"0AkiHGXwcYU,162600,16,{second},0,present,0,1,0,1")
    text(root / "yt_bb.csv", *rows)


def _imagenet_vid(root: Path) -> None:
    for video, name in (("ILSVRC2015_val_00000000", TURTLE), ("ILSVRC2015_val_00001000", CAT)):
        for index in range(4):
            about = (
                "<annotation><size><width>16</width><height>12</height></size>"
                f"<object><trackid>{index % 2}</trackid><name>{name}</name><bndbox><xmax>9</xmax><xmin>{index}</xmin>"
                "<ymax>9</ymax><ymin>1</ymin></bndbox><occluded>0</occluded><generated>0</generated></object>"
                "</annotation>"
            )
            text(root / f"Annotations/VID/val/{video}/{index:06d}.xml", about)
            _picture(root / f"Data/VID/val/{video}/{index:06d}.JPEG", index)


def _youtube_bb(root: Path, clips: Path) -> None:
    (root / "videos").mkdir(parents=True)
    shutil.copy(clips / "a.mp4", root / "videos/AAAAAAAAAAA.mp4")
    shutil.copy(clips / "b.mp4", root / "videos/BBBBBBBBBBB.mp4")
    rows = (
        "AAAAAAAAAAA,200,19,dog,0,present,0.1,0.5,0.1,0.5",
        "AAAAAAAAAAA,400,19,dog,0,absent,-1,-1,-1,-1",
        "BBBBBBBBBBB,240,9,potted_plant,0,present,0,1,0,1",
    )
    text(root / "yt_bb.csv", *rows)
    text(root.with_name("anchors.csv"), "ytid,time_ms,label", "AAAAAAAAAAA,200,19", "BBBBBBBBBBB,240,9")


def _coco_vid(root: Path) -> None:
    images, annotations = [], []
    for number in range(6):
        file = f"park/{number:05d}.png"
        images.append({"id": number, "video_id": 1, "frame_id": number, "file_name": file, "width": 16, "height": 12})
        box = {"id": number, "image_id": number, "category_id": 18, "bbox": [number, 1, 5.5, 9], "instance_id": 5}
        annotations += [box, {**box, "id": 50 + number, "category_id": 1, "iscrowd": 1}]
        _picture(root / "images" / file, number)
    data = {
        "videos": [{"id": 1, "name": "park", "fps": 25}],
        "categories": [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}],
        "images": images,
        "annotations": annotations,
    }
    text(root / "ann.json", json.dumps(data))


def _corrupted(root: Path) -> None:
    for place, name in enumerate((f"{TENCH}/a.png", f"{GOLDFISH}/b.png")):
        _picture(root / "clean" / name, place)
        for corruption in ("fog", "gaussian_noise"):
            for severity in (1, 2):
                _picture(root / "c" / corruption / str(severity) / name, place + 10 * severity + len(corruption))
    (root / "npy").mkdir()
    pixels = np.arange(10 * 8 * 8 * 3).astype(np.uint8).reshape(10, 8, 8, 3)
    np.save(root / "npy/fog.npy", pixels)
    np.save(root / "npy/labels.npy", np.arange(10) % 3)
    np.save(root / "clean.npy", pixels[:2])


def _backgrounds(root: Path) -> None:
    """Make ImageNet-A with crops, ImageNet-9 and ObjectNet in their released layout."""
    crops = []
    for place, name in enumerate(("n01498041/a.jpg", "n02106662/b.jpg")):
        _picture(root / "imagenet-a" / name, place, (30, 24))
        for folder in ("imagenet-a-plus", "crops"):
            _picture(root / folder / name, place, (12, 9))
        digests = [hashlib.sha256((root / one / name).read_bytes()).hexdigest() for one in ("crops", "imagenet-a")]
        about = {"file": name, "key": name, "sha256": digests[0], "source_sha256": digests[1], "xyxy": [2, 3, 14, 12]}
        crops.append(about)
    text(root / "crops/manifest.json", json.dumps({"schema": 1, "crops": crops}))
    for place, name in enumerate(("00_dog", "01_bird")):
        for variation in ("original", "mixed_same", "mixed_rand", "only_fg", "only_bg_t"):
            file = f"fg_n0208562{place}_1_bg_n01440764_2" if variation.startswith("mixed") else f"n0208562{place}_1"
            _picture(root / f"imagenet-9/{variation}/val/{name}/{file}.JPEG", place + len(variation), (24, 24))
    kinds = {"bicycle": "Bicycle", "air_freshener": "Air freshener"}
    for place, name in enumerate(kinds):
        _picture(root / f"objectnet/images/{name}/{place}.png", place, (24, 20))
    text(root / "objectnet/mappings/folder_to_objectnet_label.json", json.dumps(kinds))
    known = {"Bicycle": "mountain bike, all-terrain bike, off-roader; bicycle-built-for-two, tandem bicycle, tandem"}
    text(root / "objectnet/mappings/objectnet_to_imagenet_1k.json", json.dumps(known))
    text(root / "objectnet.csv", "folder,label", "bicycle,mountain bike", "air_freshener,n03916031")


def _trials(root: Path) -> None:
    """Make three images named by two people, in the format of model-vs-human."""
    pictures = [("cat", "0_cat_00_cat1.png"), ("dog", "0_dog_00_dog1.png"), ("dog", "0_dog_00_dog2.png")]
    for place, (_, name) in enumerate(pictures):
        _picture(root / "images" / name, place)
    for number, person in enumerate(("ann", "bo"), start=1):
        said = ("cat", "dog", "na") if number == 1 else ("dog", "none", "dog")
        rows = [
            f"{person},1,{trial},{0.5 * trial},{word},{label},0,{trial:04d}_pet_s0{number}_{name}"
            for trial, ((label, name), word) in enumerate(zip(pictures, said, strict=True), start=1)
        ]
        text(root / f"csv/{person}.csv", "subj,session,trial,rt,object_response,category,condition,imagename", *rows)


# -- weights ---------------------------------------------------------------------------------------------------------


def _weights(folder: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    folder.mkdir()
    rng = np.random.default_rng(0)
    tensors = [numpy_helper.from_array(rng.normal(0, 1, (3, 3)).astype(np.float32), "matrix")]
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["a"]),
        helper.make_node("Flatten", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "matrix"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 3])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / "net.onnx"))
    _salient(folder / "salient.onnx")
    settings = {
        "mean": [0.5, 0.5, 0.5],
        "std": [0.2, 0.2, 0.2],
        "labels": ["red", "green", "blue"],
        "resize": 18,
        "interpolation": "bilinear",
    }
    text(folder / "net.json", json.dumps(settings))


def _salient(path: Path) -> None:
    """Make a saliency network that marks red pixels."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    red = np.array([4, -2, -2], dtype=np.float32).reshape(1, 3, 1, 1)
    nodes = [
        helper.make_node("Conv", ["image", "red"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["map"]),
    ]
    graph = helper.make_graph(
        nodes,
        "salient",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("map", TensorProto.FLOAT, [1, 1, 16, 16])],
        [numpy_helper.from_array(red, "red")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
