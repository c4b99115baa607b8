"""The demo on its real assets (fetched through pip by version and hash), with one of its models."""

from dataclasses import replace

import numpy as np
import pytest

import strobe.workflows.demo as demo_module
from strobe.analyses.model_results import Unscored
from strobe.core.errors import CannotDownload, InvalidFile
from strobe.core.labels import space
from strobe.core.ports import Silent
from strobe.formats.assets import COCKATOO, PHOTOS, fetch
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.store.media import decode_image
from strobe.workflows.demo import MODELS, DemoOptions, demo, photo_label


def test_a_changed_file_is_never_used(tmp_path):
    first = fetch(COCKATOO, progress=Silent())[0]
    folder = tmp_path / "assets" / f"{COCKATOO.package}-{COCKATOO.version}"
    folder.mkdir(parents=True)
    (folder / first.name).write_bytes(first.read_bytes()[:-1] + b"\0")
    with pytest.raises(CannotDownload):
        fetch(COCKATOO, cache=tmp_path, offline=True, progress=Silent())


def test_a_wheel_with_other_content_is_refused(tmp_path):
    import zipfile

    from strobe.formats.assets import unpack

    wheel = tmp_path / "imageio.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("imageio/resources/images/cockatoo.mp4", b"something else")
    with pytest.raises(InvalidFile, match=r"sha256 .* expected 5fde35f5a288"):
        unpack(COCKATOO, wheel, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", MODELS)
def test_bundled_models_know_the_photos(name):
    photos = fetch(PHOTOS, progress=Silent())
    model = load_model(name, LoadOptions(device="cpu"))
    images = [decode_image(path.read_bytes(), name=path) for path in photos]
    scores = model.forward([model.prepare(image) for image in images])
    labels = [space("ilsvrc-2012").index(photo_label(path.name)) for path in photos]
    right = np.asarray(scores).argmax(axis=1) == labels
    wrong = {path.name for path, ok in zip(photos, right, strict=True) if not ok}
    # The two jeeps look like other open cars, one spoonbill like a stork: 18 of 20 each, and never another photo.
    assert wrong <= {"imagenet_06_609.jpg", "imagenet_07_609.jpg", "imagenet_14_129.jpg"}
    assert right.sum() == 18


@pytest.mark.slow
def test_demo_ends_in_a_report_and_resumes(tmp_path, monkeypatch):
    """On every fourth photo: a camera over all twenty takes as long as everything else."""
    monkeypatch.setattr(demo_module, "fetch", lambda asset, **how: fetch(asset, **how)[::4])
    options = DemoOptions(models=("efficientnet-lite0",), every=70, sets_per_photo=1, workers=1)
    found = demo(tmp_path, options, Silent())
    model = found.results.models["efficientnet-lite0"]
    assert found.results.dataset.n_sets == 4 + 5
    assert model.acc_orig.value > 0.7
    assert model.drop.count >= 1, "a demo without flicker convinces nobody"
    assert model.unscored == Unscored(frames=0, sets=0)
    assert found.report is not None
    assert found.report.stat().st_size > 100_000
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "run/predictions").rglob("*.parquet")}
    again = demo(tmp_path, replace(options, offline=True), Silent())
    assert again.results == found.results
    assert stamps == {path: path.stat().st_mtime_ns for path in (tmp_path / "run/predictions").rglob("*.parquet")}
