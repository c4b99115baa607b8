"""Exports of ImageNet-Vid-Robust: the release comes back byte for byte."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_exports import made
from PIL import Image

from strobe.core.errors import InvalidValue
from strobe.core.labels import LabelSpace
from strobe.store import dataset_folder as folder
from strobe.workflows.export import export
from strobe.workflows.import_dataset import ImportOptions, import_dataset

REFERENCE = Path(__file__).parents[3] / "../shared/reference/imagenet-vid-robust"


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference folder is not at hand")
def test_the_real_release_comes_back_byte_for_byte(tmp_path: Path) -> None:
    import_dataset("imagenet-vid-robust", REFERENCE, tmp_path / "set", how=ImportOptions(media="none"))
    export(tmp_path / "set", "imagenet-vid-robust", tmp_path / "out")
    for name in ("pmsets.json", "labels.json"):
        assert (tmp_path / "out/metadata" / name).read_bytes() == (REFERENCE / name).read_bytes()


@st.composite
def releases(draw) -> tuple[dict[str, list[str]], dict[str, list[int]]]:
    """Lawful releases of the original's form: sorted keys, sorted neighbours, several labels, gaps, empty sets."""
    pmsets, labels = {}, {}
    for video in sorted(draw(st.sets(st.integers(0, 99), min_size=1, max_size=5))):
        name = f"val/ILSVRC2015_val_{video:08d}/{{:06d}}.JPEG"
        anchor = draw(st.integers(10, 500))
        near = sorted(draw(st.sets(st.integers(-10, 10).filter(bool))))
        pmsets[name.format(anchor)] = [name.format(anchor + offset) for offset in near]
        for index in sorted([anchor, *(anchor + offset for offset in near)]):
            labels[name.format(index)] = sorted(draw(st.sets(st.integers(0, 29), min_size=1, max_size=3)))
    return pmsets, labels


@settings(max_examples=12, deadline=None)
@given(made_up=releases())
def test_any_release_comes_back_byte_for_byte(made_up, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("release")
    (root / "src/metadata").mkdir(parents=True)
    for name, content in zip(("pmsets", "labels"), made_up, strict=True):
        (root / f"src/metadata/{name}.json").write_text(json.dumps(content, indent=1))
    import_dataset("imagenet-vid-robust", root / "src", root / "set", how=ImportOptions(media="none"))
    export(root / "set", "imagenet-vid-robust", root / "out")
    for name in ("pmsets.json", "labels.json"):
        assert (root / "out/metadata" / name).read_bytes() == (root / "src/metadata" / name).read_bytes()


def release(root: Path) -> Path:
    labels = {f"val/v{v}/{i:06d}.JPEG": [v] if i else [v, 9] for v in (3, 1) for i in range(4)}
    pmsets = {"val/v3/000002.JPEG": ["val/v3/000000.JPEG", "val/v3/000001.JPEG"], "val/v1/000001.JPEG": []}
    labels = {key: value for key, value in labels.items() if key in {*pmsets, *pmsets["val/v3/000002.JPEG"]}}
    for name, content in (("pmsets", pmsets), ("labels", labels)):
        (root / "metadata").mkdir(parents=True, exist_ok=True)
        (root / f"metadata/{name}.json").write_text(json.dumps(content, indent=1))
    for place, key in enumerate(labels):
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (place * 30, 0, 0)).save(root / key, "JPEG")
    return root


@pytest.mark.parametrize("mode", ["copy", "link"])
def test_a_release_with_images_comes_back_whole(tmp_path: Path, mode: str) -> None:
    source = release(tmp_path / "src")
    import_dataset("imagenet-vid-robust", source, tmp_path / "set")
    export(tmp_path / "set", "imagenet-vid-robust", tmp_path / "out", media=mode)
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert files == {path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*") if path.is_file()}
    for name in files:
        assert (tmp_path / "out" / name).read_bytes() == (source / name).read_bytes(), name


def test_a_dataset_of_ones_own_goes_through_the_release_format(tmp_path: Path) -> None:
    export(made(tmp_path / "set"), "imagenet-vid-robust", tmp_path / "out", media="copy", candidates=True)
    back = import_dataset("imagenet-vid-robust", tmp_path / "out", tmp_path / "back").dataset
    data = folder.read(tmp_path / "set")
    assert back.sets.distance.tolist() == data.sets.distance.tolist()
    assert back.labels.label.tolist() == data.labels.label.tolist()
    assert list(back.frames.key)[:2] == ["val/clip_0/000000.png", "val/clip_0/000001.png"]


def test_what_the_release_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    pets = LabelSpace.of_names("pets", ["cat", "dog", "fox"])
    with pytest.raises(InvalidValue, match="has the classes of pets; export it as coco or csv"):
        export(made(tmp_path / "a", label_space=pets), "imagenet-vid-robust", tmp_path / "out")
    data = folder.read(made(tmp_path / "b"))
    far = replace(data, sets=replace(data.sets, distance=data.sets.distance * 9), verdicts=())
    folder.write(far, tmp_path / "far")
    with pytest.raises(InvalidValue, match="up to 10 frames on either side, but made reaches 18"):
        export(tmp_path / "far", "imagenet-vid-robust", tmp_path / "out")
    keep = data.labels.frame != 3
    bare = replace(
        data, labels=replace(data.labels, frame=data.labels.frame[keep], label=data.labels.label[keep]), verdicts=()
    )
    folder.write(bare, tmp_path / "bare")
    with pytest.raises(InvalidValue, match="1 have none, first val/clip_0/000003"):
        export(tmp_path / "bare", "imagenet-vid-robust", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("mode", ["copy", "link"])
def test_packed_frames_become_pictures(tmp_path: Path, mode: str) -> None:
    root = made(tmp_path / "set", ending=".zst")
    for _ in range(2):  # the same again changes nothing
        export(root, "imagenet-vid-robust", tmp_path / "out", media=mode, candidates=True)
    with Image.open(tmp_path / "out/val/clip_1/000004.png") as picture:
        assert np.asarray(picture)[0, 0].tolist() == [1, 4, 0]
    assert not list((tmp_path / "out").rglob("*.zst"))
