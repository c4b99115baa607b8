"""Stored frames: upright RGB whatever the file holds, and one line for what cannot be read."""

import hashlib
import io
import os
import pickle
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.packed import packed
from strobe.core.tables import texts
from strobe.formats.import_photos import PhotoFiles
from strobe.store import dataset_folder as folder
from strobe.store.bring_media import ImportOptions
from strobe.store.media import MediaSource, decode_image, quick_png
from strobe.workflows.import_dataset import import_dataset


def encoded(picture: Image.Image, kind: str = "PNG", **options) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def decode(data: bytes) -> np.ndarray:
    image = decode_image(data, name="x")
    assert image.dtype == np.uint8
    assert image.ndim == 3
    assert image.shape[2] == 3
    assert image.flags.c_contiguous
    return image


RED = Image.new("RGB", (6, 4), (200, 10, 20))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_keep_the_high_byte_however_dark(kind: str) -> None:
    for values in ([0, 255, 256, 0x1234, 0xFFFF], [0, 100, 200, 254, 255]):
        deep = np.array([values], dtype=np.uint16)
        got = decode(encoded(Image.fromarray(deep), kind))
        np.testing.assert_array_equal(got[..., 0], (deep >> 8).astype(np.uint8))


def test_sixteen_bits_big_endian() -> None:
    deep = np.array([[0, 255, 256, 0x1234, 0xFFFF]], dtype=">u2")
    tags = [(256, 4, 5), (257, 4, 1), (258, 3, 16), (259, 3, 1), (262, 3, 1), (273, 4, 8), (278, 4, 1), (279, 4, 10)]
    head = b"MM\x00\x2a" + struct.pack(">I", 18) + deep.tobytes()
    entries = b"".join(
        struct.pack(">HHI", tag, kind, 1) + (struct.pack(">HH", value, 0) if kind == 3 else struct.pack(">I", value))
        for tag, kind, value in tags
    )
    got = decode(head + struct.pack(">H", len(tags)) + entries + struct.pack(">I", 0))
    np.testing.assert_array_equal(got[..., 0], (deep >> 8).astype(np.uint8))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_applied(orientation: int) -> None:
    """Whatever way the file stores the image, the red corner comes out top left."""
    upright = np.zeros((8, 16, 3), dtype=np.uint8)
    upright[:4, :4, 0] = 255
    stored = {
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1],
        5: upright.transpose(1, 0, 2), 6: upright.transpose(1, 0, 2)[::-1],
        7: upright.transpose(1, 0, 2)[::-1, ::-1], 8: upright.transpose(1, 0, 2)[:, ::-1],
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    got = decode(encoded(Image.fromarray(np.ascontiguousarray(stored)), "PNG", exif=exif))
    np.testing.assert_array_equal(got, upright)


def test_transparency_lies_over_black() -> None:
    half = Image.new("RGBA", (2, 2), (255, 255, 255, 128))
    assert decode(encoded(half))[0, 0].tolist() == [128, 128, 128]
    grey = Image.new("LA", (2, 2), (255, 0))
    assert decode(encoded(grey)).max() == 0
    palette = Image.new("P", (2, 2), 1)
    palette.putpalette([0, 0, 0, 255, 255, 255])
    assert decode(encoded(palette, transparency=1)).max() == 0


# -- what cannot be read -----------------------------------------------------------------------------------------


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and carries next to nothing."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not a readable image"),
        (b"<html>404</html>", "not a readable image"),
        (encoded(RED, "JPEG")[:300], "not a readable image"),
        (encoded(Image.effect_noise((64, 64), 90))[:900], "not a readable image"),
        (packed(np.asarray(RED), "")[:70], "not a readable image"),
        (packed(np.asarray(RED), "")[:40], "damaged"),
        (
            packed(np.asarray(RED), "").replace(b"\x04\0\0\0\x06\0\0\0", b"\x10\x27\0\0\xf8\x2a\0\0", 1),
            "11000×10000 pixels",
        ),
        (png_header(20_000, 20_000), "decompression bomb|more than the limit"),
        (png_header(11_000, 10_000), "11000×10000 pixels, more than the limit of 100,000,000; shrink the image"),
    ],
)
def test_bad_files_are_one_line_with_their_name(data: bytes, problem: str) -> None:
    with pytest.raises(InvalidFile, match=problem) as caught:
        decode_image(data, name="clip/7.png")
    assert str(caught.value).startswith("clip/7.png: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(30))
def test_damaged_bytes_never_raise_anything_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = ("PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP", "packed")[seed % 7]
    exif = Image.Exif()
    exif[0x0112] = 6
    noise = Image.effect_noise((24, 16), 90)
    if kind == "packed":
        data = bytearray(packed(np.asarray(noise.convert("RGB")), ""))
    else:
        data = bytearray(encoded(noise, kind, **({"exif": exif} if kind == "JPEG" else {})))
    for place in rng.integers(0, len(data), 12):
        data[place] = rng.integers(0, 256)
    try:
        decode(bytes(data))
    except InvalidFile as error:
        assert "\n" not in str(error)  # noqa: PT017 (either outcome is fine)


# -- the source --------------------------------------------------------------------------------------------------


def dataset(root: Path | None, media: list[str]):
    made = DatasetBuilder()
    video = made.video(video_id="v", name="v")
    rows = [made.frame(video=video, index=i, key=f"k{i}", media=name) for i, name in enumerate(media)]
    made.set(set_id="s", anchor=rows[0], members=[(row, row) for row in rows[1:]])
    return made.build(DatasetInfo(name="d", label_space=LabelSpace.of_names("x", ["a"]), k=9), root=root)


def test_a_packed_frame_that_is_another_is_refused(tmp_path: Path) -> None:
    images = [np.full((4, 6, 3), value, dtype=np.uint8) for value in (1, 2)]
    digests = [hashlib.sha256(image.data).hexdigest() for image in images]
    made = dataset(tmp_path, ["a.zst", "b.zst"])
    source = MediaSource(replace(made, frames=replace(made.frames, sha256=texts(digests))))
    for name, image, digest in zip("ab", images, digests, strict=True):
        (tmp_path / f"{name}.zst").write_bytes(packed(image, digest))
    assert [int(source.read(row)[0, 0, 0]) for row in (0, 1)] == [1, 2]
    assert source.read_encoded(0) is None
    assert source.read_stored(0) == packed(images[0], digests[0])
    (tmp_path / "a.zst").write_bytes(packed(images[0], "sealed for somebody else"))  # the pixels decide
    assert int(source.read(0)[0, 0, 0]) == 1
    (tmp_path / "a.zst").write_bytes(packed(images[1], digests[1]))
    with pytest.raises(InvalidFile, match=r"a\.zst: not the image the dataset was made with"):
        source.read(0)
    (tmp_path / "a.zst").write_bytes(packed(images[0], digests[0])[:-3])
    with pytest.raises(InvalidFile, match=r"a\.zst: not a readable image"):
        source.read(0)


def test_a_large_png_has_the_same_pixels_whoever_decodes_it(tmp_path: Path) -> None:
    """By FFmpeg where the dataset's digest vouches for the pixels, else, and for odd PNG, by Pillow."""
    pytest.importorskip("av")
    pixels = np.random.default_rng(0).integers(0, 256, (160, 201, 3), dtype=np.uint8)
    plain, exif = encoded(Image.fromarray(pixels)), Image.Exif()
    exif[0x0112] = 3
    turned = encoded(Image.fromarray(pixels), exif=exif)
    clear = encoded(Image.fromarray(pixels), transparency=tuple(pixels[0, 0].tolist()))
    for data in (plain, turned, clear):
        quick = quick_png(data, max_pixels=10**6)
        assert quick is not None
        np.testing.assert_array_equal(quick, pixels)
    assert quick_png(plain, max_pixels=1000) is None
    assert quick_png(plain[:70_000], max_pixels=10**6) is None
    assert quick_png(encoded(Image.fromarray(pixels).convert("L")), max_pixels=10**6) is None
    names = ["plain.png", "turned.png", "clear.png"]
    for name, data in zip(names, (plain, turned, clear), strict=True):
        (tmp_path / name).write_bytes(data)
    made = dataset(tmp_path, names)
    right = [decode_image(data, name="x") for data in (plain, turned, clear)]
    for digests in ([hashlib.sha256(one.tobytes()).hexdigest() for one in right], [""] * 3):
        source = MediaSource(replace(made, frames=replace(made.frames, sha256=texts(digests))))
        for row, image in enumerate(right):
            np.testing.assert_array_equal(source.read(row), image)
    (tmp_path / "plain.png").write_bytes(encoded(Image.fromarray(255 - pixels)))
    with pytest.raises(InvalidFile, match=r"plain\.png: not the image"):
        MediaSource(
            replace(
                made, frames=replace(made.frames, sha256=texts([hashlib.sha256(right[0].tobytes()).hexdigest()] * 3))
            )
        ).read(0)


@pytest.mark.parametrize("of", ["pixels", "file"])
def test_a_frame_that_was_replaced_is_refused(tmp_path: Path, of: str) -> None:
    (tmp_path / "media").mkdir()
    names = ["media/a.png", "media/b.png", "media/c.jpg"]
    for name in names:
        (tmp_path / name).write_bytes(encoded(RED, "JPEG" if name.endswith("jpg") else "PNG"))
    made = dataset(tmp_path, names)
    contents = [(tmp_path / name).read_bytes() for name in names]
    digests = [hashlib.sha256(data if of == "file" else decode(data).tobytes()).hexdigest() for data in contents]
    made = replace(made, frames=replace(made.frames, sha256=texts(digests)))
    source = MediaSource(made)
    assert [source.read(row).shape for row in range(3)] == [(4, 6, 3)] * 3
    for name in names:
        other = Image.new("RGB", (6, 4), (1, 2, 3))
        (tmp_path / name).write_bytes(encoded(other, "JPEG" if name.endswith("jpg") else "PNG"))
    with pytest.raises(InvalidFile, match=r"a\.png: not the image the dataset was made with; build or import"):
        source.read(0)
    with pytest.raises(InvalidFile, match=r"b\.png"):
        source.only([1]).read(1)
    source.read(2)  # a JPEG's pixels depend on the decoder: nothing can be told


def test_frames_come_from_the_folder_and_nowhere_else(tmp_path: Path) -> None:
    root = tmp_path / "set"
    (root / "media").mkdir(parents=True)
    (root / "media/a.png").write_bytes(encoded(RED))
    secret = tmp_path / "secret.png"
    secret.write_bytes(encoded(RED))
    (root / "media/link.png").symlink_to(secret)
    (root / "media/inside.png").symlink_to(root / "media/a.png")
    names = ["media/a.png", "media/link.png", "../secret.png", str(secret), "media/gone.png", "", "media/inside.png"]
    data = dataset(root, names)
    source = MediaSource(data)
    assert source.read(0).shape == (4, 6, 3)
    assert source.read_encoded(0) == encoded(RED)
    assert source.read(6).shape == (4, 6, 3)
    for row in (1, 2, 3):
        with pytest.raises(InvalidFile, match=r"leads out of the folder|is not a file in this folder"):
            source.read(row)
    with pytest.raises(InvalidFile, match=r"gone\.png: cannot be read \(No such file"):
        source.read(4)
    with pytest.raises(StrobeError, match="frame k5 has no stored image"):
        source.read(5)
    with pytest.raises(StrobeError, match="has no folder"):
        MediaSource(dataset(None, ["media/a.png"]))


def test_a_pipe_or_a_name_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "media").mkdir()
    os.mkfifo(tmp_path / "media/pipe.png")
    (tmp_path / "media/round.png").symlink_to(tmp_path / "media/round.png")
    (tmp_path / "media/a.png").write_bytes(encoded(RED))
    bad = ["media/pipe.png", "media/a\0.png", "media/" + "x" * 400, "y" * 400 + "/a.png", "\0/a.png", "media/round.png"]
    source = MediaSource(dataset(tmp_path, [*bad, "media/a.png"]))
    for _ in range(2):  # the first look at a folder, and the quick way afterwards
        for row in range(len(bad)):
            with pytest.raises(InvalidFile):
                source.read(row)
        assert source.read(len(bad)).shape == (4, 6, 3)


# -- bringing media in -------------------------------------------------------------------------------------------


def bring(source: Path, target: Path, names: list[str], mode: str = "copy"):
    return ImportOptions(media=mode).files(source, target, names)


def test_copy_link_and_resume(tmp_path: Path) -> None:
    (tmp_path / "src/v").mkdir(parents=True)
    origin = tmp_path / "src/v/1.png"
    origin.write_bytes(encoded(RED))
    found = bring(tmp_path / "src", tmp_path / "dst", ["v/1.png"])
    assert found["v/1.png"][1] == (6, 4)
    copied = tmp_path / "dst/media/v/1.png"
    assert copied.read_bytes() == origin.read_bytes()
    stamp = copied.stat().st_mtime_ns
    assert bring(tmp_path / "src", tmp_path / "dst", ["v/1.png"]) == found
    assert copied.stat().st_mtime_ns == stamp, "a file that is there is not copied again"
    copied.write_bytes(b"half")
    assert bring(tmp_path / "src", tmp_path / "dst", ["v/1.png"]) == found
    bring(tmp_path / "src", tmp_path / "linked", ["v/1.png"], "link")
    assert (tmp_path / "linked/media/v/1.png").samefile(origin)


@pytest.mark.parametrize("name", ["../out.png", "/etc/passwd", "a/../../out.png", "a\\..\\out.png"])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "out.png").write_bytes(encoded(RED))
    (tmp_path / "src").mkdir()
    with pytest.raises(StrobeError, match="points outside the release's folder"):
        bring(tmp_path / "src", tmp_path / "dst", [name])
    assert not (tmp_path / "dst").exists()


# -- digests of JPEG files ----------------------------------------------------------------------------------------


def jpeg(colour: tuple[int, int, int]) -> bytes:
    return encoded(Image.new("RGB", (32, 24), colour), "JPEG")


@pytest.mark.parametrize("read", ["read", "read_encoded"])
def test_a_jpeg_of_another_dataset_is_refused(tmp_path: Path, read: str) -> None:
    """Two imports at once left frames of both behind, and nobody saw it: JPEG files were never held against digests."""
    (tmp_path / "in/dog").mkdir(parents=True)
    for number, colour in enumerate([(200, 10, 10), (10, 200, 10)]):
        (tmp_path / f"in/dog/{number}.jpg").write_bytes(jpeg(colour))
    import_dataset("photos", tmp_path / "in", tmp_path / "set", files=PhotoFiles())
    data = folder.read(tmp_path / "set")
    source = MediaSource(data)
    assert getattr(source, read)(0) is not None
    victim = source.path(0)
    victim.write_bytes(source.path(1).read_bytes())
    for one in (MediaSource(data), pickle.loads(pickle.dumps(MediaSource(data).only([0])))):
        with pytest.raises(InvalidFile, match=r"\.jpg: not the image the dataset was made with"):
            getattr(one, read)(0)
    assert getattr(source, read)(1) is not None
