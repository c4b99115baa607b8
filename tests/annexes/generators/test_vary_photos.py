"""`strobe vary generator --photos` from photos to report, with an autoencoder that diffusers made."""

import json
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from strobe.annexes.generators.workflow import VaryGeneratorOptions, vary_generator
from strobe.cli.main import main
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.formats.import_photos import PhotoFiles
from strobe.models.options import LoadOptions
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.workflows.import_dataset import import_dataset

diffusers = pytest.importorskip("diffusers")

CPU = LoadOptions(device="cpu", batch_size=5)
SIDE = 16
NAMES = ("red", "green", "blue")
WANTED = VaryGeneratorOptions(images=6, steps=30, strips=1, scale_images=12, most=4.0, restarts=1,
                              granularity=("latent", "coarse", "pixel"))  # fmt: skip


class Told(Silent):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def photo(number: int) -> Any:
    """A photo of one colour, at first weak, wider than high."""
    rng = np.random.default_rng(number)
    pixels = rng.integers(70, 110, (20, 30, 3))
    pixels[..., number % 3] += 12 + 4 * number
    return np.clip(pixels, 0, 255).astype(np.uint8)


def prepared(number: int) -> Any:
    """The centre of the photo at the autoencoder's size, as Pillow resizes it: its short side is 16."""
    return np.asarray(Pillow.fromarray(photo(number)).resize((24, SIDE), Pillow.Resampling.BICUBIC))[:, 4:20]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    for number in range(12):
        (root / "files" / NAMES[number % 3]).mkdir(parents=True, exist_ok=True)
        Pillow.fromarray(photo(number)).save(root / "files" / NAMES[number % 3] / f"{number:02d}.png")
    import_dataset("photos", root / "files", root / "data", files=PhotoFiles())
    shutil.copy(Path(__file__).with_name("made_paint.py"), root / "paint.py")
    torch.manual_seed(0)
    module = diffusers.AutoencoderKL(
        block_out_channels=(8, 8), down_block_types=("DownEncoderBlock2D",) * 2, sample_size=SIDE,
        up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=4, mid_block_add_attention=False,
    )  # fmt: skip
    images = torch.from_numpy(np.stack([prepared(number) for number in range(12)])).permute(0, 3, 1, 2) / 127.5 - 1
    adam = torch.optim.Adam(module.parameters(), 4e-3)
    for _ in range(120):
        loss = (module.decode(module.encode(images).latent_dist.mode()).sample - images).abs().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    module.save_pretrained(root / "vae")
    return root


def nets(place: Path, *names: str) -> list[str]:
    return [f"{name}=py:{place / 'paint.py'}:{name}" for name in names or ("make", "bent")]


def vae(place: Path) -> str:
    return f"diffusers:{place / 'vae'}"


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


@pytest.fixture(scope="module")
def searched(place: Path, told: Told) -> Path:
    vary_generator(place / "out", vae(place), nets(place), WANTED, photos=place / "data", load=CPU, progress=told)
    return place / "out"


def own_reconstruction(place: Path, number: int) -> Any:
    """What diffusers itself makes of a photo, in 8 bits."""
    module = diffusers.AutoencoderKL.from_pretrained(place / "vae", low_cpu_mem_usage=False).eval()
    with torch.no_grad():
        pixels = torch.from_numpy(prepared(number).copy()).permute(2, 0, 1)[None] / 255 * 2 - 1
        made = module.decode(module.encode(pixels).latent_dist.mode().contiguous()).sample * 0.5 + 0.5
    return (made.clamp(0, 1) * 255).round().byte()[0].permute(1, 2, 0).numpy()


def test_photos_keep_their_labels_and_are_paired_with_their_reconstructions(place: Path, searched: Path) -> None:
    data = folder.read(searched)
    assert data.variants is not None
    first = data.variants[0]
    assert (first.variant, first.role, first.target) == ("photo", "control", None)
    assert set(data.videos.kind) == {"photo"}
    source, ids = MediaSource(data), {one: row for row, one in enumerate(data.frame_ids())}
    pairs = [one for one in data if one.set_id.endswith("@photo")]
    assert len(pairs) == data.info.provenance["accepted"]["drawn"] >= 6
    for one in pairs:
        number = int(Path(one.set_id.split("@")[0]).stem)
        (member,) = one.members
        row, anchor = ids[member.frame.id], ids[one.anchor.id]
        assert data.labels_of(anchor) == data.labels_of(row) == (data.info.label_space.index(NAMES[number % 3]),)
        assert (source.read(row) == prepared(number)).all()
        made = np.abs(source.read(anchor).astype(int) - own_reconstruction(place, number))
        assert made.max() <= 1, "alone or in a batch"
    starts = {one.anchor.id for one in data if one.set_id.endswith(("@coarse/make", "@coarse/bent"))}
    assert len(starts) == 6
    assert starts <= {one.anchor.id for one in pairs}, "a search starts at the reconstruction itself"


def test_reconstruction_is_reported_first(place: Path, searched: Path, told: Told) -> None:
    sizes = [
        "make: images of 16x16 are resized to its input, 8x8",
        "bent: images of 16x16 are resized to its input, 12x12",
    ]
    assert told.notes[:2] == sizes
    accepted = folder.read(searched).info.provenance["accepted"]
    assert told.notes[2].startswith(f"reconstruction alone, {accepted['drawn']} photos: make is right on ")
    run = place / "run"
    words = [word for net in nets(place) for word in ("-m", net)]
    shown = StringIO()
    with redirect_stdout(shown), pytest.raises(SystemExit) as ended:
        main(["eval", str(searched), *words, "-o", str(run), "-q", "--device", "cpu"])
    assert not ended.value.code
    results = json.loads((run / "results.json").read_text())
    for name, model in results["models"].items():
        first = model["variants"][0]
        assert first["variant"] == "photo"
        assert first["n_sets"] == accepted["drawn"]
        assert first["acc_orig"]["value"] == pytest.approx(accepted["right"][name] / accepted["drawn"])
        assert first["levels"][0]["at"]["value"] == pytest.approx(accepted["photos"][name] / accepted["drawn"])
        assert first["acc_orig"]["low"] is not None
        assert model["acc_orig"]["n"] == accepted["drawn"], "the headline is about reconstructions alone"
        paired = next(one for one in results["contrasts"] if (one["b"], one["held"]) == ("photo", name))
        assert paired["a"] == "anchor"
        assert paired["n"] == accepted["drawn"]
        own = [one for one in model["variants"] if one["variant"].endswith(f"/{name}") and one["reproduced"]]
        assert all(one["reproduced"]["value"] == 1.0 for one in own), "resized by the engine as in the search"
    text, page = shown.getvalue(), (run / "report.html").read_text(encoding="utf-8")
    assert text.lower().index("what reconstruction alone does") < text.lower().index("from coarse to fine")
    assert re.search(r"Reconstruction alone changes the accuracy of .+ by [+−]\d+\.\d points\.", page)
    assert "What reconstruction alone does" in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: {"generator": f"py:{p / 'paint.py'}:paint"}, "it draws its own images .*; remove --photos"),
        (lambda p: {"photos": None}, "an autoencoder changes photos .*; add --photos DATASET"),
        (lambda p: {"models": nets(p, "contrary")}, "no image of 12 is classified correctly by every model"),
        (lambda p: {"models": nets(p, "some")}, r"it has 2 of the photos' 3 classes .*blue is missing"),
        (lambda p: {"options": replace(WANTED, classes=("red",), aim="red")}, "every image is already of that class"),
        (lambda p: {"photos": p / "never"}, "is the dataset of the photos"),
    ],
)
def test_what_does_not_fit_is_one_line_and_leaves_nothing(
    place: Path, change: Callable[[Path], dict[str, Any]], said: str
) -> None:
    given: dict[str, Any] = {
        "generator": vae(place), "models": nets(place), "options": WANTED, "photos": place / "data", **change(place),
    }  # fmt: skip
    with pytest.raises(StrobeError, match=said) as caught:
        vary_generator(place / "never", load=CPU, **given)
    assert "\n" not in str(caught.value)
    left = list((place / "never").rglob("*")) if (place / "never").exists() else []
    assert not [one for one in left if one.is_file()]
