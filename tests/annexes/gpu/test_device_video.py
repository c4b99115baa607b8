"""Videos on a device: FFmpeg's colours bit for bit, every frame checked by its digest, the rest left to the CPU.

The engines are a GPU's; here FFmpeg's decoders take their place behind the same port, on the packets as they would get
them. On a CUDA device with PyNvVideoCodec the same tests run with the engines themselves.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

av = pytest.importorskip("av")
torch = pytest.importorskip("torch")

from av.video.reformatter import Interpolation  # noqa: E402
from made_clips import CASES, MORE_CASES, encode, picture  # noqa: E402
from software_engine import SoftwareEngine, SoftwareSession  # noqa: E402

from strobe.annexes.gpu.clip import CompressedPacket, EncodedClip, NotForTheEngines  # noqa: E402
from strobe.annexes.gpu.colour import MATRICES, Colour, rgb_of_nv12  # noqa: E402
from strobe.annexes.gpu.engine import EngineHangs  # noqa: E402
from strobe.annexes.gpu.video import VideosOnDevice  # noqa: E402
from strobe.build.options import AnchorOptions  # noqa: E402
from strobe.build.source import VideoSource  # noqa: E402
from strobe.core.errors import StrobeError  # noqa: E402
from strobe.workflows.build import build  # noqa: E402
from strobe.workflows.options import BuildOptions  # noqa: E402

WHOLE = BuildOptions(label=("dog",), sampling=AnchorOptions(k=0, every=1), reference=True)
SPACES = {"bt709": 1, "bt601": 5, "bt2020": 9, "smpte240m": 7, "fcc": 4}


def _ffmpegs(planes: Any, colour: Colour) -> Any:
    """The frame as `strobe build` converts it."""
    height, width = planes.shape[0] * 2 // 3, planes.shape[1]
    frame = av.VideoFrame(width, height, "yuv420p")
    parts = planes[:height], planes[height:, 0::2], planes[height:, 1::2]
    for plane, values in zip(frame.planes, parts, strict=True):
        room = np.zeros((plane.height, plane.line_size), np.uint8)
        room[:, : values.shape[1]] = values
        plane.update(room.tobytes())
    frame.colorspace, frame.color_range = SPACES[colour.matrix], 2 if colour.full_range else 1
    return frame.to_ndarray(format="rgb24", interpolation=Interpolation.BILINEAR | Interpolation.BITEXACT, threads=1)


@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("size_wh", [(64, 48), (98, 66), (426, 240), (1366, 768), (2, 2)])
def test_colours_are_ffmpegs_to_the_bit(size_wh: tuple[int, int], matrix: str, full_range: bool) -> None:
    width, height = size_wh
    planes = np.random.default_rng(width).integers(0, 256, (height * 3 // 2, width), dtype=np.uint8)
    colour = Colour(matrix, full_range)
    found = rgb_of_nv12(torch.from_numpy(planes)[None], colour)[0].numpy()
    assert np.array_equal(found, _ffmpegs(planes, colour))


def test_every_combination_of_luma_and_chroma() -> None:
    """All 2²⁴ of them, in one picture."""
    side = 4096
    number = np.arange((side // 2) ** 2).reshape(side // 2, side // 2)
    planes = np.empty((side * 3 // 2, side), np.uint8)
    planes[side:, 0::2], planes[side:, 1::2] = number & 255, number >> 8 & 255
    for k in range(4):
        planes[k // 2 : side : 2, k % 2 :: 2] = (number >> 16) * 4 + k
    colour = Colour("bt709", full_range=False)
    found = rgb_of_nv12(torch.from_numpy(planes)[None], colour)[0].numpy()
    assert np.array_equal(found, _ffmpegs(planes, colour))


MakeClip = Any
HARD = CASES | MORE_CASES
LEFT_TO_THE_CPU = {
    "vp8 alternate references": "vp8 is not decoded",
    "mpeg4 mp4": "mpeg4 is not decoded",
    "mpeg4 avi": "mpeg4 is not decoded",
    "mpeg2 ts": "mpeg2video is not decoded",
    "mpeg2 program stream": "mpeg2video is not decoded",
    "mjpeg avi": "mjpeg is not decoded",
    "mjpeg mov": "mjpeg is not decoded",
    "odd size": "odd size",
    "odd size 4:2:0": "odd size",
    "non-square pixels": "not square",
    "tall pixels": "not square",
    "10 bit": "not 8-bit 4:2:0",
    "h264 10 bit": "not 8-bit 4:2:0",
    "h264 4:4:4": "not 8-bit 4:2:0",
    "h264 4:2:2": "not 8-bit 4:2:0",
}


def _source(dataset: Any, engine: Any = None, *, sessions: int = 2) -> VideosOnDevice:
    videos = VideoSource(dataset)
    return VideosOnDevice(
        dataset, videos, engine or SoftwareEngine(), path=videos.path, device="cpu", sessions=sessions
    )


def _frames(source: VideosOnDevice, rows: list[int]) -> tuple[dict[int, Any], list[int]]:
    """What comes from the engines, and the rows that are left to the CPU."""
    found: dict[int, Any] = {}
    left: list[int] = []
    for task in source.tasks(rows):
        for some, frames in source.batches(task):
            if frames is None:
                left += some
            else:
                found |= dict(zip(some, frames.numpy(), strict=True))
    return found, left


@pytest.mark.parametrize("case", HARD)
def test_hard_clips_are_equal_or_left_to_the_cpu(case: str, make_clip: MakeClip, tmp_path: Path) -> None:
    name, settings = HARD[case]
    if "1080" in case:
        settings = {**settings, "n": 6}
    dataset = build([make_clip(name, **settings)], tmp_path / "kept", WHOLE).dataset
    rows = list(range(len(dataset.frames)))
    source = _source(dataset)
    found, left = _frames(source, rows)
    assert sorted([*found, *left]) == rows
    for row, image in found.items():
        assert hashlib.sha256(image.tobytes()).hexdigest() == dataset.frames.sha256[row]
    if case in LEFT_TO_THE_CPU:
        assert not found
        assert LEFT_TO_THE_CPU[case] in source.handed_over[0]
    elif case != "h264 interlaced":  # FFmpeg's decoder weaves both fields; a GPU's engines deinterlace
        assert not left, source.handed_over


def test_windows_that_jump_decode_from_the_key_before_each(make_clip: MakeClip, tmp_path: Path) -> None:
    dataset = build([make_clip("a.mp4", n=120)], tmp_path / "kept", WHOLE).dataset
    for rows in ([100, 101, 102, 3], [5], [0, 119], list(range(0, 119, 13))):
        found, left = _frames(_source(dataset), sorted(rows))
        assert sorted(found) == sorted(rows)
        assert not left


def test_frames_that_follow_one_key_frame_stay_together(make_clip: MakeClip, tmp_path: Path) -> None:
    options = {"x264-params": "keyint=50:min-keyint=50:scenecut=0"}
    dataset = build([make_clip("a.mp4", n=250, options=options)], tmp_path / "kept", WHOLE).dataset
    assert [len(task) for task in _source(dataset).tasks(range(len(dataset.frames)))] == [200, 50]


def test_a_changed_video_gives_no_frame(make_clip: MakeClip, tmp_path: Path) -> None:
    """The file is another of the same times: no digest fits, the CPU is asked, and says so."""
    path = make_clip("a.mp4")
    dataset = build([path], tmp_path / "kept", WHOLE).dataset
    encode(path, images=[np.roll(picture(index, 96, 64), 5, axis=0) for index in range(48)])
    source = _source(dataset)
    found, left = _frames(source, list(range(48)))
    assert not found
    assert len(left) == 48
    assert source.handed_over == {0: "the GPU's engines and the build give different pixels"}
    with pytest.raises(StrobeError, match="its pixels differ from those of the build"):
        source.read(0)


class _Breaking(SoftwareEngine):
    """Sessions of the first kind never answer; those of a clip of another size fail half-way."""

    def __init__(self, error: Exception, *, times: int) -> None:
        super().__init__()
        self._error, self._times = error, times

    def session(self, codec: str, size_wh: tuple[int, int], stream: Any) -> SoftwareSession:
        session = super().session(codec, size_wh, stream)
        if self.sessions <= self._times:
            session.decode = self._fail  # type: ignore[method-assign]
        return session

    def _fail(self, data: bytes) -> Any:
        raise self._error


def test_a_session_that_hangs_is_replaced(make_clip: MakeClip, tmp_path: Path) -> None:
    dataset = build([make_clip("a.mp4")], tmp_path / "kept", WHOLE).dataset
    engine = _Breaking(EngineHangs("no answer"), times=1)
    found, left = _frames(_source(dataset, engine), list(range(48)))
    assert (len(found), left, engine.sessions) == (48, [], 2)
    source = _source(dataset, _Breaking(EngineHangs("no answer"), times=9))
    found, left = _frames(source, list(range(48)))
    assert not found
    assert len(left) == 48
    assert source.handed_over == {0: "no answer"}


def test_a_damaged_clip_costs_its_own_frames_alone(make_clip: MakeClip, tmp_path: Path) -> None:
    paths = [make_clip(f"{n}.mp4", n=n, gop=10) for n in (60, 61, 59)]
    dataset = build(paths, tmp_path / "kept", WHOLE).dataset
    content = bytearray(paths[1].read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = bytes(400)
    paths[1].write_bytes(content)
    source = _source(dataset)
    found, left = _frames(source, list(range(180)))
    hurt = dataset.videos.name.tolist().index("61")
    assert {int(dataset.frames.video[row]) for row in left} == {hurt}
    assert set(source.handed_over) == {hurt}
    assert all(row in found for row in range(180) if dataset.frames.video[row] != hurt)
    for row, image in found.items():
        assert hashlib.sha256(image.tobytes()).hexdigest() == dataset.frames.sha256[row]


def test_sessions_are_reused_between_clips(make_clip: MakeClip, tmp_path: Path) -> None:
    paths = [make_clip(f"{n}.mp4", n=24 + n) for n in range(6)]
    dataset = build(paths, tmp_path / "kept", WHOLE).dataset
    engine = SoftwareEngine()
    found, left = _frames(_source(dataset, engine), list(range(len(dataset.frames))))
    assert (len(found), left, engine.sessions) == (len(dataset.frames), [], 1)


def test_where_decoding_can_start() -> None:
    def clip(*packets: tuple[int, bool]) -> EncodedClip:
        return EncodedClip("H264", (2, 2), [CompressedPacket(pts, key, bytes([pts])) for pts, key in packets])

    closed = clip((0, True), (3, False), (1, False), (2, False), (4, True), (6, False), (5, False))
    assert [closed.start(place) for place in range(7)] == [0, 0, 0, 0, 1, 1, 1]
    assert [part.n_packets for part in closed.parts([1, 5])] == [3, 3]
    opened = clip((0, True), (3, True), (1, False), (2, False), (6, True), (4, False), (5, False))
    assert {opened.start(place) for place in range(7)} == {0}, "frames before the key follow it: no place to start"
    for bad in ([(0, False)], [(2, True), (1, False)], [(0, True), (0, False)]):
        with pytest.raises(NotForTheEngines):
            clip(*bad)


class _Refusing(SoftwareEngine):
    """Its first two sessions cannot be opened."""

    def session(self, codec: str, size_wh: tuple[int, int], stream: Any) -> Any:
        made = super().session(codec, size_wh, stream)
        if self.sessions <= 2:
            raise RuntimeError("no room on the device")
        return made


@pytest.mark.parametrize("engine", [SoftwareEngine, _Refusing])
def test_frames_are_the_same_if_sessions_open_ahead_or_cannot(
    engine: type[SoftwareEngine], make_clip: MakeClip, tmp_path: Path
) -> None:
    dataset = build([make_clip("a.mp4", n=48)], tmp_path / "kept", WHOLE).dataset
    rows = list(range(len(dataset.frames)))
    source = _source(dataset, engine())
    source.open_ahead()
    (ahead, left), (plain, _) = _frames(source, rows), _frames(_source(dataset), rows)
    assert left == []
    assert all(np.array_equal(ahead[row], plain[row]) for row in rows)
    source.close()
    assert not any(source._pool._idle.values())
