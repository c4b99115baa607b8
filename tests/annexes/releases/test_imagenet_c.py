"""ImageNet-C and CIFAR-10-C, from fixtures in the real layouts; scored, they equal a plain count."""

import json
from pathlib import Path

import numpy as np
import pytest
from made_imports import picture, run
from PIL import Image

from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folder
from strobe.workflows.import_dataset import ImportOptions, import_dataset

TENCH, GOLDFISH = "n01440764", "n01443537"
FILES = [f"{TENCH}/a.png", f"{TENCH}/b.png", f"{GOLDFISH}/a.png"]


def corrupted(root: Path, *, group: str = "") -> tuple[Path, Path]:
    for place, name in enumerate(FILES):
        picture(root / "clean" / name, place)
        for kind, corruption in enumerate(("fog", "gaussian_noise")):
            for severity in range(1, 6):
                at = root / "c" / group / corruption / str(severity) / name
                picture(at, 100 * (kind + 1) + 10 * severity + place)
    return root / "c", root / "clean"


@pytest.mark.parametrize("group", ["", "weather"])
def test_folders_of_corruptions(tmp_path: Path, group: str) -> None:
    source, clean = corrupted(tmp_path, group=group)
    picture(source / group / "fog/1" / TENCH / "stray.png", 3)
    done = import_dataset("imagenet-c", source, tmp_path / "set", options={"clean": clean})
    assert done.notes == ("1 corrupted image(s) have no clean original and were left out",)
    data = folder.read(tmp_path / "set")
    assert (data.info.k, data.info.axis, data.info.combine, data.n_sets) == (5, "severity", "worst", 6)
    assert data.variants is not None
    assert [variant.variant for variant in data.variants] == ["fog", "gaussian_noise"]
    assert len(data.frames) == 3 * (1 + 2 * 5)
    assert len(data.videos) == 3, "one image, one source"
    first = next(iter(data))
    assert [member.distance for member in first.members] == [1, 2, 3, 4, 5]
    assert (data.root / str(data.frames.media[1])).is_file()


def test_a_part_of_the_corruptions(tmp_path: Path) -> None:
    source, clean = corrupted(tmp_path)
    wanted = {"corruption": ("fog",), "severity": (1, 3), "max_images": 2, "seed": 1}
    data = import_dataset(
        "imagenet-c", source, tmp_path / "set", how=ImportOptions(media="none"), options={"clean": clean, **wanted}
    ).dataset
    assert (data.n_sets, len(data.frames), data.info.k) == (2, 6, 2)
    with pytest.raises(StrobeError, match="unknown corruption 'frog'; did you mean fog"):
        import_dataset("imagenet-c", source, tmp_path / "x", options={"clean": clean, "corruption": ("frog",)})


def test_corruptions_are_scored_as_counted(tmp_path: Path) -> None:
    source, clean = corrupted(tmp_path)
    run("import", "imagenet-c", source, tmp_path / "set", "--clean", clean, "-q")
    data = folder.read(tmp_path / "set")
    rng = np.random.default_rng(3)
    right = dict(zip(data.frames.key.tolist(), (rng.random(len(data.frames)) < 0.7).tolist(), strict=True))
    truth = {key: 0 if TENCH in key else 1 for key in right}
    said = {key: truth[key] if ok else 999 for key, ok in right.items()}
    (tmp_path / "p.json").write_text(json.dumps(said))
    run("eval", tmp_path / "set", "-m", f"preds:{tmp_path / 'p.json'}", "-o", tmp_path / "run", "-q")
    model = json.loads((tmp_path / "run/results.json").read_text())["models"]["p"]
    for variant in model["variants"]:
        name = variant["variant"]
        for level in variant["levels"]:
            severity = int(level["level"])
            at = [right[f"{name}/{severity}/{file}"] for file in FILES]
            upto = [
                right[f"clean/{file}"] and all(right[f"{name}/{s}/{file}"] for s in range(1, severity + 1))
                for file in FILES
            ]
            assert level["at"]["count"] == sum(at)
            assert level["upto"]["count"] == sum(upto)
    worst = [all(ok for key, ok in right.items() if key.endswith(file)) for file in FILES]
    assert model["acc_pmk"]["count"] == sum(worst), "worst over corruptions and severities"
    assert model["acc_orig"]["count"] == sum(right[f"clean/{file}"] for file in FILES)


def test_arrays_as_cifar_10_c(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    source = tmp_path / "CIFAR-10-C"
    source.mkdir()
    np.save(tmp_path / "clean.npy", clean)
    np.save(source / "labels.npy", np.tile(np.array([3, 1, 0, 9]), 5))
    array = rng.integers(0, 256, (20, 8, 8, 3), dtype=np.uint8)
    np.save(source / "fog.npy", array)
    done = import_dataset("imagenet-c", source, tmp_path / "set", options={"clean": tmp_path / "clean.npy"})
    data = folder.read(tmp_path / "set")
    assert data.info.label_space.names[3] == "cat"
    assert [data.labels_of(int(row)) for row in data.sets.anchor_frame] == [(3,), (1,), (0,), (9,)]
    third = list(data)[2]
    stored = np.asarray(Image.open(tmp_path / "set/media" / third.members[4].frame.key))
    assert (stored == array[4 * 4 + 2]).all()
    assert done.dataset.n_sets == 4


def _archive(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), a=np.zeros(2))
    path.with_suffix(".npz").rename(path)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: np.save(root / "c/fog.npy", np.zeros((3, 8, 8, 3), np.uint8)), "expected (20, 8, 8, 3)"),
        (lambda root: np.save(root / "c/labels.npy", np.full(4, 12)), "outside the 10 classes; give --classes"),
        (lambda root: (root / "c/fog.npy").write_bytes(b"no"), "not a .npy file of numbers"),
        (lambda root: (root / "c/fog.npy").write_bytes(b"\x93NUMPY\x01\x00\x03\x00{'("), "not a .npy file of numbers"),
        (lambda root: _archive(root / "c/fog.npy"), "several arrays"),
        (lambda root: np.save(root / "clean.npy", np.zeros((4, 8, 8), np.uint8)), "expected (N, height, width, 3)"),
    ],
)
def test_bad_arrays_are_one_line(tmp_path: Path, spoil, said: str) -> None:
    (tmp_path / "c").mkdir()
    np.save(tmp_path / "clean.npy", np.zeros((4, 8, 8, 3), np.uint8))
    np.save(tmp_path / "c/labels.npy", np.zeros(4, int))
    np.save(tmp_path / "c/fog.npy", np.zeros((20, 8, 8, 3), np.uint8))
    spoil(tmp_path)
    out = run("import", "imagenet-c", tmp_path / "c", tmp_path / "set", "--clean", tmp_path / "clean.npy", code=2)
    assert said in out
    assert out.count("\n") == 1
    assert not (tmp_path / "set/dataset.json").exists()
