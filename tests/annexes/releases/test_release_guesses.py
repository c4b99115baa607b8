"""What the importers of public sets guess is stated with the data, and refused where two readings are plausible."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from strobe.analyses.results import dataset_facts
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile
from strobe.core.labels import space
from strobe.core.ports import Silent
from strobe.core.readings import GUESSES, is_reading
from strobe.report.headline import headline_lines
from strobe.workflows.import_dataset import import_dataset
from strobe.workflows.score import ScoreRunOptions, score_dataset


def annotated(folder: Path, *, filename: str = "", video: str = "", size: str = "64,80") -> Path:
    """The release of ImageNet-Vid-Robust with one set, and the XML of its three frames."""
    name = "ILSVRC2015_val_00000000"
    keys = [f"val/{name}/{index:06d}.JPEG" for index in (4, 5, 6)]
    (folder / "src/metadata").mkdir(parents=True)
    (folder / "src/metadata/labels.json").write_text(json.dumps({key: [27] for key in keys}))
    (folder / "src/metadata/pmsets.json").write_text(json.dumps({keys[1]: [keys[0], keys[2]]}))
    (folder / f"src/val/{name}").mkdir(parents=True)
    (folder / f"xml/val/{name}").mkdir(parents=True)
    width, height = size.split(",")
    for index, key in zip((4, 5, 6), keys, strict=True):
        Image.new("RGB", (64, 80), (index, 0, 0)).save(folder / "src" / key)
        (folder / f"xml/val/{name}/{index:06d}.xml").write_text(
            f"<annotation><folder>{video}</folder><filename>{filename and filename.format(index)}</filename>"
            f"<size><width>{width}</width><height>{height}</height></size><object><trackid>0</trackid>"
            f"<name>{space('imagenet-vid').ids[27]}</name><bndbox><xmin>3</xmin><ymin>4</ymin><xmax>30</xmax>"
            "<ymax>40</ymax></bndbox></object></annotation>"
        )
    return folder


def _with_annotations(folder: Path) -> Dataset:
    options = {"annotations": folder / "xml"}
    return import_dataset("imagenet-vid-robust", folder / "src", folder / "out", options=options).dataset


def corrupted(folder: Path, names: tuple[str, ...]) -> Dataset:
    for kind in ("clean", *(f"{'extra' if name == 'speckle_noise' else 'noise'}/{name}/1" for name in names)):
        for label in ("cat", "dog"):
            path = folder / ("clean" if kind == "clean" else f"c/{kind}") / label / "a.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (len(kind), len(label), ord(label[0]))).save(path)
    options = {"clean": folder / "clean", "severity": (1,)}
    return import_dataset("imagenet-c", folder / "c", folder / "out", options=options).dataset


def test_a_guess_is_stated_in_the_results(tmp_path: Path) -> None:
    annotations = _with_annotations(annotated(tmp_path / "a"))
    corruptions = corrupted(tmp_path / "b", ("shot_noise", "fog", "speckle_noise"))
    for guess, dataset, words in (
        ("annotations", annotations, "(3 of 3 files do not name their frame and video; only classes and 3 sizes were"),
        (
            "corruptions",
            corruptions,
            "2 of the published 15 and 1 others (the published mean leaves out speckle_noise)",
        ),
    ):
        stated = [line for line in dataset_facts(dataset).readings or () if f"{GUESSES[guess]} read as" in line]
        assert len(stated) == 1, stated
        assert words in stated[0]
        assert is_reading(stated[0])


def test_annotations_of_another_frame_or_video_are_refused(tmp_path: Path) -> None:
    own = {"video": "ILSVRC2015_val_00000000", "filename": "{0:06d}"}
    right = _with_annotations(annotated(tmp_path / "right", **own))
    assert dataset_facts(right).readings is None
    for name, change in (
        ("shifted", {"filename": "{0:06d}1"}),
        ("other", {"video": "ILSVRC2015_val_00000001"}),
    ):
        with pytest.raises(InvalidFile, match="so it belongs to another frame or video"):
            _with_annotations(annotated(tmp_path / name, **own | change))
    with pytest.raises(InvalidFile, match=r"its sizes contradict 3 of 3 images; first .*: 64×64 instead of 64×80"):
        _with_annotations(annotated(tmp_path / "sizes", size="64,64"))


def test_the_published_mean_leaves_out_extra_corruptions(tmp_path: Path) -> None:
    """A plain loop over the images gives both means."""
    dataset = corrupted(tmp_path, ("shot_noise", "fog", "speckle_noise"))
    right = {"clean": 1, "shot_noise": 1, "fog": 0, "speckle_noise": 0}
    keys = dataset.frames.key.tolist()
    rows = [dataset.info.label_space.names[(("dog" in key) + 1 - right[key.split("/")[0]]) % 2] for key in keys]
    path = tmp_path / "net.json"
    path.write_text(json.dumps(dict(zip(keys, rows, strict=True))))
    results = score_dataset(tmp_path / "out", [f"net=preds:{path}"], None, ScoreRunOptions(), Silent())
    (mean,) = results.models["net"].means
    each = {name: np.mean([right[name] for key in keys if key.startswith(name)]) for name in right if name != "clean"}
    assert mean.at.value == pytest.approx(np.mean(list(each.values())))
    assert mean.published.value == pytest.approx((each["shot_noise"] + each["fog"]) / 2)
    assert any(
        "over ImageNet-C's published corruptions (2)" in note for *_, notes in headline_lines(results) for note in notes
    )
