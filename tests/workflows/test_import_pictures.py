"""Stills, from fixtures in the real layouts; scored, they equal a plain count."""

import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from made_imports import picture, run
from scipy.io import savemat

from strobe.core.errors import StrobeError
from strobe.formats.import_photos import PhotoFiles
from strobe.store import dataset_folder as folder
from strobe.workflows.import_dataset import import_dataset

TENCH, GOLDFISH, SHARK = "n01440764", "n01443537", "n01484850"


# -- photos --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="names are bytes there")
@pytest.mark.parametrize("words", [("import", "photos"), ("simulate",), ("import", "frames", "--label", "cat")])
def test_a_name_that_is_no_text_is_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = picture(tmp_path / "photos/cat/a.png", 1, (48, 40))
    os.rename(os.fsencode(path), os.fsencode(path.parent) + b"/\xff.png")  # noqa: PTH104 (its name is no text)
    out = run(*words[:2], tmp_path / "photos", tmp_path / "set", *words[2:], "-q", code=2)
    assert out.count("\n") == 1
    assert "cat/?.png: the file name is not UTF-8 text; rename the file" in out


def test_class_folders_by_name(tmp_path: Path) -> None:
    for place, name in enumerate(("cat/a.png", "cat/b.png", "dog/a.png")):
        picture(tmp_path / "photos" / name, place)
    done = import_dataset("photos", tmp_path / "photos", tmp_path / "set", files=PhotoFiles())
    data = folder.read(tmp_path / "set")
    assert data.digest() == done.dataset.digest()
    assert (data.info.k, data.info.axis, data.n_sets, len(data.videos)) == (0, "none", 3, 3)
    assert data.info.label_space.ids == ("cat", "dog")
    assert data.videos.kind.tolist() == ["photo"] * 3
    assert [data.labels_of(row) for row in range(3)] == [(0,), (0,), (1,)]
    assert json.loads((tmp_path / "set/dataset.json").read_text())["schema"] == 2


def test_flat_folder_with_a_csv_and_boxes(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        picture(tmp_path / "photos" / name, 3)
    labels = tmp_path / "labels.csv"
    labels.write_text("file,label\na.png,cat\na.png,dog\nb.png,dog\n")
    data = import_dataset("photos", tmp_path / "photos", tmp_path / "one", files=PhotoFiles(labels=labels)).dataset
    assert [data.labels_of(row) for row in range(2)] == [(0, 1), (1,)]
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("file,label,x0,y0,x1,y1\na.png,cat,1,1,5,5\nb.png,dog,0,0,4,4\n")
    data = import_dataset("photos", tmp_path / "photos", tmp_path / "two", files=PhotoFiles(boxes=boxes)).dataset
    assert data.boxes is not None
    assert data.boxes.xyxy.tolist() == [[1, 1, 5, 5], [0, 0, 4, 4]]


def _validation(root: Path) -> Path:
    for number in (1, 2, 3):
        picture(root / f"val/ILSVRC2012_val_{number:08d}.JPEG", number)
    return root


def _kaggle(root: Path) -> None:
    rows = [(3, SHARK), (1, TENCH), (2, GOLDFISH)]
    lines = [f"ILSVRC2012_val_{number:08d},{name} 1 2 3 4 {name} 5 6 7 8" for number, name in rows]
    (root / "LOC_val_solution.csv").write_text("\n".join(["ImageId,PredictionString", *lines]))


def _synset_list(root: Path) -> None:
    (root / "imagenet_2012_validation_synset_labels.txt").write_text(f"{TENCH}\n{GOLDFISH}\n{SHARK}\n")


def _devkit(root: Path) -> None:
    (root / "devkit/data").mkdir(parents=True)
    (root / "devkit/data/ILSVRC2012_validation_ground_truth.txt").write_text("490\n361\n171\n")
    rows = [(171, SHARK), (361, GOLDFISH), (490, TENCH)]
    table = np.array(rows, dtype=[("ILSVRC2012_ID", object), ("WNID", object)])
    savemat(root / "devkit/data/meta.mat", {"synsets": table})


@pytest.mark.parametrize("say", [_kaggle, _synset_list, _devkit])
def test_validation_images_by_each_file_that_names_them(tmp_path: Path, say) -> None:
    source = _validation(tmp_path / "ILSVRC")
    say(source)
    data = import_dataset("photos", source, tmp_path / "set", files=PhotoFiles()).dataset
    assert [data.labels_of(row) for row in range(3)] == [(0,), (1,), (2,)]
    assert data.frames.key.tolist() == [f"val/ILSVRC2012_val_{number:08d}.JPEG" for number in (1, 2, 3)]


def test_a_damaged_devkit_is_named(tmp_path: Path) -> None:
    """scipy's reader dies (a signal) of some of these; nothing of ours does."""
    source = _validation(tmp_path / "ILSVRC")
    _devkit(source)
    path = source / "devkit/data/meta.mat"
    whole = path.read_bytes()
    for at in (128, 160, 200, len(whole) // 2):
        path.write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])
        with suppress(StrobeError):
            import_dataset("photos", source, tmp_path / f"set{at}", files=PhotoFiles())
    path.write_bytes(b"\0" * 200)
    with pytest.raises(StrobeError, match=r"meta\.mat: not the devkit's meta\.mat"):
        import_dataset("photos", source, tmp_path / "set", files=PhotoFiles())


@pytest.mark.parametrize("say", [_kaggle, _synset_list, _devkit])
def test_a_pipe_among_the_lists_is_refused(tmp_path: Path, say) -> None:
    """Opening it would wait for a writer who never comes."""
    source = _validation(tmp_path / "ILSVRC")
    say(source)
    for path in [path for end in ("*.txt", "*.csv", "*.mat") for path in source.rglob(end)]:
        whole = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        out = run("import", "photos", source, tmp_path / "set", "-q", code=2)
        assert out.endswith(f"{path.name}: not a regular file; save its content in a file first\n")
        path.unlink()
        path.write_bytes(whole)
