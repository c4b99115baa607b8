"""Frames on a device: the plan's pixels, the GPU's programs compiled for the CPU, and the engine's answers."""

import ctypes
import hashlib
import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_clips import encode
from PIL import Image as Pillow
from software_engine import SoftwareEngine

import strobe
from strobe.annexes.gpu.colour import MATRICES, Colour, rgb_of_nv12
from strobe.annexes.gpu.jpeg import DeviceDecoder, DeviceResize
from strobe.annexes.gpu.kernels import source
from strobe.annexes.gpu.sources import frames_on_gpu
from strobe.annexes.gpu.video import VideosOnDevice
from strobe.build.options import AnchorOptions
from strobe.build.source import VideoSource
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue
from strobe.core.labels import Projection
from strobe.core.ports import Silent
from strobe.core.tasks import Task
from strobe.engine.engine import run_models
from strobe.engine.forward import Runner
from strobe.engine.worker import EngineOptions
from strobe.models.plan import ImagePlan
from strobe.store.shards import KEY_FACTS, FrameNames, ModelShards
from strobe.workflows.build import build
from strobe.workflows.options import BuildOptions

SIZES = [(500, 375), (333, 517), (1280, 720), (224, 300), (90, 70)]


def _picture(width: int, height: int) -> Any:
    rng = np.random.default_rng(width)
    coarse = Pillow.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    return np.array(coarse.resize((width, height), Pillow.Resampling.BICUBIC))


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_plans_pixels_but_for_rounding(width: int, height: int, interpolation: Any) -> None:
    plan = ImagePlan(size_hw=(64, 64), resize=70, interpolation=interpolation, channels="bgr")
    frames = np.stack(
        [_picture(width, height), np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)]
    )
    found = DeviceResize(plan, device="cpu")(torch.from_numpy(frames).permute(0, 3, 1, 2))
    assert found.dtype == torch.uint8
    far = np.abs(found.permute(0, 2, 3, 1).numpy().astype(int) - np.stack([plan.prepare(frame) for frame in frames]))
    assert far.max() <= 1
    assert far.mean() < 0.3


def test_what_it_cannot_do_is_said() -> None:
    with pytest.raises(InvalidValue, match="cannot do lanczos resizing; use --decode cpu"):
        DeviceResize(ImagePlan(size_hw=(32, 32), resize=40, interpolation="lanczos"), device="cpu")
    small = torch.zeros((1, 3, 20, 20), dtype=torch.uint8)
    with pytest.raises(InvalidValue, match="cannot pad frames smaller than the model's input; use --decode cpu"):
        DeviceResize(ImagePlan(size_hw=(32, 32)), device="cpu")(small)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="nvJPEG needs a CUDA device")
@pytest.mark.parametrize("how", [{}, {"subsampling": 0}, {"subsampling": 1}, {"progressive": True}])
def test_the_engines_pixels_are_torchvisions(how: dict[str, Any]) -> None:
    files = []
    for size in SIZES:
        buffer = io.BytesIO()
        Pillow.fromarray(_picture(*size)).save(buffer, "JPEG", quality=90, **how)
        files.append(buffer.getvalue())
    decoder = DeviceDecoder(ImagePlan(size_hw=(64, 64), resize=70), device="cuda")
    found = decoder(files)
    decoder._engines = None
    assert torch.equal(found, decoder(files))


BEFORE = """
#define __device__
#define __global__
#define __forceinline__ inline
struct Three { int x, y, z; };
static Three blockIdx, blockDim, threadIdx;
"""
AFTER = """
extern "C" void digests(const long long* at, const int* sizes, word* out, int n) {
    blockDim = {32, 1, 1};
    for (int i = 0; i < (n + 31) / 32 * 32; i++) {
        blockIdx = {i / 32, 0, 0}; threadIdx = {i % 32, 0, 0};
        sha256_frames(at, sizes, out, n);
    }
}
extern "C" void colours(const long long* y, const long long* uv, int pitch, unsigned char* out, int n, int w, int h,
                        int a, int b, int c, int d, int e, int f) {
    blockDim = {256, 1, 1};
    for (int frame = 0; frame < n; frame++)
        for (int i = 0; i < (w * h / 4 + 255) / 256 * 256; i++) {
            blockIdx = {i / 256, frame, 0}; threadIdx = {i % 256, 0, 0};
            nv12_to_rgb(y, uv, pitch, out, w, h, a, b, c, d, e, f);
        }
}
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("programs")
    (folder / "programs.cpp").write_text(BEFORE + source() + AFTER)
    made = folder / "programs.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(made), str(folder / "programs.cpp")]
    subprocess.run(command, check=True, capture_output=True)
    return ctypes.CDLL(str(made))


def _at(array: Any) -> Any:
    return array.ctypes.data_as(ctypes.c_void_p)


@pytest.mark.parametrize("n_bytes", [4, 52, 56, 60, 64, 120, 128, 2400])
def test_digests(programs: Any, n_bytes: int) -> None:
    frames = np.random.default_rng(n_bytes).integers(0, 256, (40, n_bytes), dtype=np.uint8)
    where = np.array([frame.ctypes.data for frame in frames], dtype=np.int64)
    sizes, out = np.full(40, n_bytes // 4, dtype=np.int32), np.zeros((40, 8), dtype=np.uint32)
    programs.digests(_at(where), _at(sizes), _at(out), 40)
    found = [words.astype(">u4").tobytes().hex() for words in out]
    assert found == [hashlib.sha256(frame.tobytes()).hexdigest() for frame in frames]


@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("matrix", MATRICES)
def test_colours(programs: Any, matrix: str, full_range: bool, tmp_path: Path) -> None:
    planes = np.random.default_rng(1).integers(0, 256, (2, 99, 98), dtype=np.uint8)
    colour = Colour(matrix, full_range)
    expected = rgb_of_nv12(torch.from_numpy(planes), colour).numpy()
    found = np.zeros_like(expected)
    luma = np.array([one.ctypes.data for one in planes], dtype=np.int64)
    programs.colours(_at(luma), _at(luma + 66 * 98), 98, _at(found), 2, 98, 66, *colour.coefficients())
    assert np.array_equal(found, expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu() -> None:
    from strobe.annexes.gpu.kernels import convert, sha256

    frames = torch.randint(0, 256, (5, 64, 48, 3), dtype=torch.uint8, device="cuda")
    words = sha256([frames[:2], frames[2:]]).cpu().numpy().view(np.uint32)
    found = [one.astype(">u4").tobytes().hex() for one in words]
    assert found == [hashlib.sha256(one.tobytes()).hexdigest() for one in frames.cpu().numpy()]
    planes = torch.randint(0, 256, (3, 96, 64), dtype=torch.uint8, device="cuda")
    colour, out = (Colour("bt709", full_range=False), torch.empty((3, 64, 64, 3), dtype=torch.uint8, device="cuda"))
    luma = torch.tensor([one.data_ptr() for one in planes], device="cuda")
    convert(luma, luma + 64 * 64, 64, out, colour.coefficients())
    assert torch.equal(out, rgb_of_nv12(planes, colour))


WINDOWS = AnchorOptions(k=3, anchors_per_video=2)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("videos")
    return [
        encode(folder / "one.mp4", n=60),
        encode(folder / "two.mp4", n=41, rotation=90),
        encode(folder / "three.mkv", codec="mpeg4", b_frames=2, n=40),
    ]


def _answers(folder: Path, dataset: Dataset, source: Any, names: list[str], rows: Any = None) -> dict[str, Any]:
    model: Any = strobe.load_model("strobe-world", running=strobe.Running(device="cpu", offline=True))
    space = model.spec.label_space
    way = Projection(source=space, target=space, children=tuple((n,) for n in range(len(space))))
    runners = [Runner(name=name, model=model, projection=way) for name in names]
    stores = {
        name: ModelShards(folder, name, facts=dict.fromkeys(KEY_FACTS, ""), frames=FrameNames(dataset),
                          task=Task.CLASSIFICATION, n_classes=len(space))
        for name in names
    }  # fmt: skip
    keys = [str(key) for key in dataset.frames.key]
    options = EngineOptions(shard_size=16, threads=4, ahead=6)
    outcomes = run_models(
        runners, stores, source, frame_names=keys, rows=np.arange(len(keys)) if rows is None else rows,
        options=options, progress=Silent(),
    )  # fmt: skip
    found: dict[str, Any] = {}
    for name in names:
        stored = stores[name].read()
        assert isinstance(stored, ClassAnswers)
        found[name] = (np.asarray(stored.scores), outcomes[name].n_new, outcomes[name].n_unreadable)
    return found


def test_the_answers_are_those_of_the_cpus_frames(clips: list[Path], tmp_path: Path) -> None:
    """Two models share each frame; a video that is left to the CPU is among them; a second call goes on."""
    dataset = build(clips, tmp_path / "kept", BuildOptions(label=("dog",), sampling=WINDOWS, reference=True)).dataset
    first = np.arange(len(dataset.frames))[:9]
    _answers(tmp_path / "plain", dataset, VideoSource(dataset), ["a", "b"], first)
    plain = _answers(tmp_path / "plain", dataset, VideoSource(dataset), ["a", "b"])
    videos, engine = VideoSource(dataset), SoftwareEngine()
    source = VideosOnDevice(dataset, videos, engine, path=videos.path, device="cpu", sessions=2)
    _answers(tmp_path / "there", dataset, source, ["a", "b"], first)
    found = _answers(tmp_path / "there", dataset, source, ["a", "b"])
    for name in ("a", "b"):
        assert np.array_equal(found[name][0], plain[name][0])
        assert found[name][1:] == (len(dataset.frames) - 9, 0)
    assert [dataset.videos.name[video] for video in source.handed_over] == ["three"]


def test_without_a_gpu_nothing_changes(clips: list[Path], tmp_path: Path) -> None:
    dataset = build(clips, tmp_path / "kept", BuildOptions(label=("dog",), sampling=WINDOWS, reference=True)).dataset
    source = VideoSource(dataset)
    assert frames_on_gpu(source, dataset, "cpu", False) == (None, "")
