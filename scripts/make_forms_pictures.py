"""Measure the forms of docs/before-it-ships.md on the demo's frames, and draw its pictures: docs/images/forms*.png.

    python scripts/make_forms_pictures.py FOLDER [FORM...]

FOLDER gets the demo's dataset, an int8 file, the answers to frames that are stored or decoded in another way, and the
run. The table is printed. The picture of a form has the first frames whose answer it changes. Without a FORM, all are
measured.
"""

import json
import sys
import textwrap
from collections.abc import Callable
from io import BytesIO
from itertools import islice
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import Colorspace
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

import strobe
from strobe.core.codec import decode
from strobe.core.ports import Silent
from strobe.store.opening import frame_source
from strobe.store.run_folder import Run
from strobe.studies.forms.records import FormScore
from strobe.workflows.demo import DemoOptions, demo_dataset

MODEL = "efficientnet-lite0"
IMAGES = Path(__file__).parents[1] / "docs/images"
Pixels = NDArray[np.uint8]
Change = Callable[[int, Pixels], Pixels]
SHOWN, LOUDER = 4, 8
"""The frames in a picture, and the factor by which a difference of pixels is enlarged."""


def as_jpeg(_: int, image: Pixels) -> Pixels:
    """Return the frame as JPEG at quality 95 stores it."""
    file = BytesIO()
    Image.fromarray(image).save(file, "jpeg", quality=95)
    return np.asarray(Image.open(file).convert("RGB"))


def decoded(dataset: strobe.Dataset, convert: Callable[[av.VideoFrame], av.VideoFrame]) -> Change:
    """Return the frames of the clip as another decoder gives them; other frames stay."""
    (row,) = np.flatnonzero(dataset.videos.name == "cockatoo")
    rows = np.flatnonzero(dataset.frames.video == row)
    wanted = dict(zip(dataset.frames.index[rows].tolist(), rows.tolist(), strict=True))
    path = next(path for path in Path.home().rglob("imageio-2.9.0/cockatoo.mp4"))
    frames: dict[int, Pixels] = {}
    with av.open(path) as file:
        for index, frame in enumerate(islice(file.decode(video=0), max(wanted) + 1)):
            if index in wanted:
                frames[wanted[index]] = convert(frame).to_ndarray(format="rgb24")
    return lambda row, image: frames.get(row, image)


def write_answers(dataset: strobe.Dataset, change: Change, file: Path, form: dict[str, str]) -> None:
    """Write the answers of the model to changed frames as a prediction file."""
    model, source, labels = strobe.load_model(MODEL), frame_source(dataset), {}
    ids = dataset.info.label_space.ids
    (known,) = Run(file.parent / "run").models(dataset, only=[MODEL])
    own = known.load().as_classes().label
    for row in np.unique(dataset.sets.frame).tolist():
        image = change(row, before := source.read(row))
        if image is before:
            labels[str(dataset.frames.key[row])] = ids[own[row]]
            continue
        prepared = model.prepare_input(image) if dataset.frames.as_input[row] else model.prepare(image)
        labels[str(dataset.frames.key[row])] = ids[int(np.argmax(np.asarray(model.forward([prepared])[0])))]
    content = {"form_of": MODEL, "form": form, "kind": "labels", "predictions": labels}
    file.write_text(json.dumps(content), encoding="utf-8")


def draw(form: FormScore, dataset: strobe.Dataset, file: str, change: Change | None = None) -> None:
    """Draw frames of the clip whose answer the form changes, above what `change` does to their pixels."""
    source, (clip,) = frame_source(dataset), np.flatnonzero(dataset.videos.name == "cockatoo")
    every = [(int(np.flatnonzero(dataset.frames.key == frame.frame)[0]), frame) for frame in form.frames]
    pairs = [(row, frame) for row, frame in every if dataset.frames.video[row] == clip][:SHOWN]
    figure = Figure(figsize=(2.2 * SHOWN, 2.4 if change is None else 3.4), dpi=75)
    grid = figure.subplots(1 if change is None else 2, SHOWN, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for (row, frame), axes in zip(pairs, grid.T, strict=False):
        image = source.read(row)
        axes[0].imshow(image)
        words = [f"{frame.old.split(',')[0]} → {frame.new.split(',')[0]}", f"right: {frame.right.split(',')[0]}"]
        axes[0].set_title("\n".join(line for text in words for line in textwrap.wrap(text, 30)), fontsize=8)
        if change is not None:
            axes[1].imshow(np.clip(128 + LOUDER * (change(row, image).astype(int) - image), 0, 255).astype(np.uint8))
            axes[1].set_title(f"difference × {LOUDER}", fontsize=8)
    figure.tight_layout()
    figure.savefig(IMAGES / file)


def main(folder: Path, only: list[str]) -> None:
    """Measure and draw."""
    dataset = demo_dataset(folder / "dataset", DemoOptions(), Silent())
    strobe.evaluate(dataset, [MODEL], folder / "run", report=False)
    strobe.quantise(MODEL, dataset, folder / "int8.onnx", frames=100, seed=0)
    changes = {
        "JPEG 95": as_jpeg,
        "NV12": decoded(dataset, lambda frame: frame.reformat(format="nv12")),
        "BT.709": decoded(dataset, lambda frame: frame.reformat(format="rgb24", src_colorspace=Colorspace.ITU709)),
    }
    models: list[dict[str, str]] = [
        {"model": MODEL, "name": "PyTorch", "backend": "torch"},
        {"model": MODEL, "name": "OpenVINO", "backend": "openvino"},
        {"model": MODEL, "name": "OpenVINO, bfloat16", "backend": "openvino", "precision": "bfloat16"},
        {"model": MODEL, "name": "PyTorch, bfloat16", "backend": "torch", "precision": "bfloat16"},
        {"model": f"onnx:{folder / 'int8.onnx'}", "name": "int8"},
    ]
    for name, change in changes.items():
        file = folder / f"{name}.json"
        if not only or name in only:
            write_answers(dataset, change, file, {"frames": name})
        models.append({"model": f"preds:{file}", "name": name})
    measured = [model for model in models if not only or model["name"] in only]
    strobe.evaluate(dataset, [MODEL, *measured], folder / "run")
    found = json.loads((folder / "run/results.json").read_text(encoding="utf-8"))
    forms = {form["model"]: decode(FormScore, form, where="forms") for form in found["studies"]["forms"]}
    for name, form in forms.items():
        figures = {key: f"{100 * (one.value or 0):.1f} ({one.count} of {one.n})" for key, one in form.pair.items()}
        own = {key: found["models"][name][key]["value"] for key in ("acc_orig", "acc_pmk", "flip_rate")}
        print(name, figures, own, form.size, form.frames_per_second)
    for name, picture in {"int8": "int8", "JPEG 95": "jpeg", "NV12": "decoder"}.items():
        if name in forms:
            draw(forms[name], dataset, f"forms-{picture}.png", changes.get(name))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
