"""The GPU's programs, compiled for the CPU: FFmpeg's colours, and SHA-256."""

import ctypes
import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from strobe.annexes.gpu.colour import MATRICES, Colour, rgb_of_nv12  # noqa: E402
from strobe.annexes.gpu.kernels import source  # noqa: E402

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
    colour, out = Colour("bt709", full_range=False), torch.empty((3, 64, 64, 3), dtype=torch.uint8, device="cuda")
    luma = torch.tensor([one.data_ptr() for one in planes], device="cuda")
    convert(luma, luma + 64 * 64, 64, out, colour.coefficients())
    assert torch.equal(out, rgb_of_nv12(planes, colour))
