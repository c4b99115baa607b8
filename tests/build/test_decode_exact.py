"""Seek and decode gives the same pixels as decoding from the start, for every codec and container that matters."""

import hashlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from made_clips import CASES, VFR, X264_OPEN
from PIL import Image

from strobe.build.decode import Reader, upright
from strobe.build.index import read_index
from strobe.build.options import Limits
from strobe.core.errors import InvalidFile, StrobeError

MakeClip = Callable[..., Path]
SHARED = Path(__file__).parents[2] / "../shared"

FROM_THE_START = {"h264 open gop, avi", "vp8 alternate references", "mpeg4 avi", "mpeg2 program stream", "mjpeg avi"}
"""Containers and codecs whose packets do not tell the order of the frames."""

DEAR = {"h264 intra refresh", "negative first pts, mp4", "negative first pts, kept"}
"""No clean key to start at near some frames: an earlier one is tried, or the start."""


def plain_hashes(path: Path) -> list[str]:
    """The pixels PyAV gives when it decodes the file from start to end, corrupt frames left out."""
    hashes = []
    with av.open(str(path)) as container:
        container.streams.video[0].codec_context.thread_count = 1
        frames = container.decode(video=0)
        while True:
            try:
                frame = next(frames)
            except (StopIteration, av.error.FFmpegError):
                return hashes
            if not frame.is_corrupt:
                hashes.append(hashlib.sha256(frame.to_ndarray(format="rgb24").tobytes()).hexdigest())


def exact_hashes(path: Path, reader: Reader, wanted: range) -> dict[int, str]:
    return {frame.index: hashlib.sha256(frame.image.tobytes()).hexdigest() for frame in reader.frames(wanted)}


def reference_hashes(path: Path) -> list[str]:
    """The same through this decoder, never seeking: what rotation and square pixels make of the plain frames."""
    index = read_index(path, by_decoding=True)
    with Reader(index) as reader:
        return [hashlib.sha256(frame.image.tobytes()).hexdigest() for frame in reader.frames(range(len(index)))]


@pytest.mark.parametrize("case", CASES)
def test_seek_equals_full_decode(case: str, make_clip: MakeClip) -> None:
    name, settings = CASES[case]
    path = make_clip(name, **settings)
    plain = plain_hashes(path)
    straight = reference_hashes(path)
    index = read_index(path)
    assert len(index) == len(plain) == len(straight) > 0
    if "rotated" not in case and "square" not in case and "tall" not in case:
        assert straight == plain
    assert index.seekable == (case not in FROM_THE_START), index.notes
    for place in range(len(index)):  # every single frame, each by its own seek
        with Reader(index) as reader:
            assert exact_hashes(path, reader, range(place, place + 1)) == {place: straight[place]}, place
            assert not reader.missing
            if index.seekable and case not in DEAR:
                assert reader.decoded <= 12 + 8, f"frame {place} cost {reader.decoded} frames"
    with Reader.open(path) as reader:  # stretches through one container, in an order that jumps back and forth
        for start in (len(index) // 2, 0, max(0, len(index) - 5), len(index) // 3):
            stop = min(len(index), start + 9)
            assert exact_hashes(path, reader, range(start, stop)) == dict(
                zip(range(start, stop), straight[start:stop], strict=True)
            )


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts", "a.flv"])
def test_pts_time_and_type_match_what_the_decoder_says(name: str, make_clip: MakeClip) -> None:
    path = make_clip(name, options=X264_OPEN)
    with av.open(str(path)) as container:
        said = [(frame.pts, "?IPB"[frame.pict_type]) for frame in container.decode(video=0)]
        base = container.streams.video[0].time_base
    index = read_index(path)
    assert index.seekable
    with Reader(index) as reader:
        found = list(reader.frames(range(len(index))))
    assert [(frame.pts, frame.pict_type) for frame in found] == said
    assert {frame.pict_type for frame in found} == {"I", "P", "B"}
    assert [frame.time_s for frame in found] == [(pts - said[0][0]) * base for pts, _ in said]


def test_only_the_needed_stretch_is_decoded(make_clip: MakeClip) -> None:
    index = read_index(make_clip("a.mp4", n=240, options=X264_OPEN))
    with Reader(index) as reader:
        assert len(list(reader.frames(range(126, 135)))) == 9
        assert reader.decoded <= 12 + 9 + 4  # at most a GOP before, the stretch, and leading images
        before = reader.decoded
        assert [frame.index for frame in reader.frames([2, 200])] == [2, 200]  # jumps over what lies between
        assert reader.decoded - before <= 3 + 12 + 4


def test_variable_rate_times_are_exact(make_clip: MakeClip) -> None:
    index = read_index(make_clip("a.mp4", pts=VFR, n=30))
    assert [index.time_s(place) for place in range(30)] == [Fraction(pts, 25) for pts in VFR]


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_rotation_metadata_makes_frames_upright(turn: int, make_clip: MakeClip) -> None:
    plain, turned = make_clip("plain.mp4"), make_clip("turned.mp4", rotation=turn)
    with av.open(str(turned)) as container:
        says = next(container.decode(video=0)).rotation
    with Reader(read_index(plain)) as one, Reader(read_index(turned)) as two:
        straight, upright_image = next(one.frames([5])).image, next(two.frames([5])).image
    # FFmpeg's angle is counter-clockwise, and so is numpy's.
    assert np.array_equal(np.rot90(straight, says // 90), upright_image)
    assert says % 360 != 0


def test_mirrored_matrix_is_applied() -> None:
    image = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    assert upright(image, (-1, 0, 0, 1))[:, :, 0].tolist() == [[2, 1, 0], [5, 4, 3]]
    assert upright(image, (1, 0, 0, -1))[:, :, 0].tolist() == [[3, 4, 5], [0, 1, 2]]
    assert upright(image, (0, 1, 1, 0))[:, :, 0].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_non_square_pixels_become_square(make_clip: MakeClip) -> None:
    wide, tall = make_clip("w.mp4", sample_aspect=Fraction(4, 3)), make_clip("t.mp4", sample_aspect=Fraction(1, 2))
    with Reader(read_index(wide)) as one, Reader(read_index(tall)) as two:
        assert next(one.frames([0])).image.shape == (64, 128, 3)
        assert next(two.frames([0])).image.shape == (128, 96, 3)


@pytest.mark.parametrize(
    ("name", "options"), [("a.mkv", {}), ("a.ts", {}), ("a.mp4", {"movflags": "faststart"}), ("a.avi", {})]
)
@pytest.mark.parametrize("share", [0.5, 0.83])
def test_truncated_file_gives_its_good_frames(
    name: str, options: dict[str, str], share: float, make_clip: MakeClip
) -> None:
    path = make_clip(name, options=X264_OPEN, container_options=options, n=60)
    whole = set(plain_hashes(path))
    data = path.read_bytes()
    before = read_index(path).notes
    path.write_bytes(data[: int(len(data) * share)])
    kept = [pixels for pixels in plain_hashes(path) if pixels in whole]  # half a packet can give a wrong frame
    index = read_index(path)
    assert 0 < len(index) < 60
    if share == 0.5 and name != "a.ts":  # which does not say how long it is
        assert set(index.notes) - set(before), "that it breaks off is said"
    with Reader(index) as reader:
        found = exact_hashes(path, reader, range(len(index)))
        # A cut inside a GOP can leave a gap before the last frame: its pixels are right, its place moves up.
        assert set(found.values()) <= whole
        assert len(found) + len(reader.missing) == len(index)
        both = min(len(found), len(kept))  # a plain loop loses the frames the decoder still holds when the file breaks
        assert list(found.values())[:both] == kept[:both]
    for place in (0, len(index) // 2, len(index) - 1):
        with Reader(index) as reader:
            again = exact_hashes(path, reader, range(place, place + 1))
        assert again == ({place: found[place]} if place in found else {})


def test_bits_flipped_in_the_middle_never_give_wrong_pixels_by_seeking(make_clip: MakeClip) -> None:
    path = make_clip("a.mp4", options=X264_OPEN, n=60)
    data = bytearray(path.read_bytes())
    middle = data.find(b"mdat") + 8 + 4000
    data[middle : middle + 40] = bytes(40)
    path.write_bytes(bytes(data))
    straight = reference_hashes(path)
    index = read_index(path)
    with Reader(index) as reader:
        seen = exact_hashes(path, reader, range(len(index)))
    assert set(seen.values()) <= set(straight)


@pytest.mark.parametrize("name", ["a.avi", "a.mkv", "a.flv"])  # ts does not tell where its last packet ends
def test_a_file_cut_anywhere_gives_no_wrong_pixels(name: str, make_clip: MakeClip) -> None:
    path = make_clip(name, options=X264_OPEN, n=40)
    whole = set(plain_hashes(path))
    data = path.read_bytes()
    for cut in range(len(data) // 2, len(data), 211):
        path.write_bytes(data[:cut])
        with Reader.open(path) as reader:
            assert set(exact_hashes(path, reader, range(len(reader.index))).values()) <= whole, cut


@pytest.mark.skipif(not (SHARED / "clips/dog.mp4").exists(), reason="the shared clip is not here")
def test_real_clip() -> None:
    path = SHARED / "clips/dog.mp4"
    plain = plain_hashes(path)
    index = read_index(path)
    assert len(index) == len(plain) == 289
    with Reader(index) as reader:
        for start in (255, 40):
            found = exact_hashes(path, reader, range(start, start + 21))
            assert found == {place: plain[place] for place in range(start, start + 21)}


def test_limits_are_checked_before_decoding(make_clip: MakeClip) -> None:
    from strobe.core.errors import InvalidFile

    path = make_clip("a.mp4")
    for limits, word in (
        (Limits(max_side=95), "--max-side"),
        (Limits(max_pixels=96 * 64 - 1), "--max-pixels"),
        (Limits(max_frames=47), "--max-frames"),
        (Limits(max_duration_s=1.0), "--max-duration"),
    ):
        with pytest.raises(InvalidFile, match=word) as caught:
            read_index(path, limits)
        assert "\n" not in str(caught.value)


def test_animated_webp_is_read_to_the_pixel_with_its_times(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    pixels = [rng.integers(0, 256, (20, 30, 3)).astype(np.uint8) for _ in range(9)]
    times = [0, 40, 80, 200, 240, 280, 320, 360, 400]
    path = tmp_path / "moving.webp"
    first, *rest = map(Image.fromarray, pixels)
    lengths = [*np.diff(times).tolist(), 40]
    first.save(path, save_all=True, append_images=rest, duration=lengths, lossless=True, method=0)
    with Reader.open(path) as reader:
        assert [reader.index.time_s(place) for place in range(9)] == [Fraction(ms, 1000) for ms in times]
        assert reader.index.codec == "webp"
        for _ in range(2):  # the second time from the start again
            got = list(reader.frames([1, 5, 8]))
            assert [frame.index for frame in got] == [1, 5, 8]
            for frame in got:
                np.testing.assert_array_equal(frame.image, pixels[frame.index])
    with pytest.raises(StrobeError, match="20 pixels a side"):
        read_index(path, Limits(max_side=20))
    whole = path.read_bytes()
    for cut in (40, 400, len(whole) - 700):
        path.write_bytes(whole[:cut])
        try:
            n = len(read_index(path))
        except InvalidFile:
            n = 0
        assert n < 9
    first.save(path, lossless=True)
    with pytest.raises(StrobeError, match="is a single image, not an animation; for photos use strobe simulate"):
        read_index(path)
