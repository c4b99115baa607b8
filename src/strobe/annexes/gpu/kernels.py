"""Two GPU programs: NV12 to RGB in FFmpeg's arithmetic, and SHA-256 of many frames at once.

SHA-256 processes the bytes of a frame one after another, so one GPU thread reads one frame. This is slow for a single
frame, but a GPU runs thousands of such threads in addition to its other work. The compiler that comes with torch
compiles the programs when they are first used.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

_THREADS = 256
_LANES = 32

SOURCE = r"""
typedef unsigned int word;

__device__ __forceinline__ word turned(word x, int n) { return (x >> n) | (x << (32 - n)); }

__device__ __forceinline__ word swapped(word x) {
    return (x << 24) | ((x & 0xff00u) << 8) | ((x >> 8) & 0xff00u) | (x >> 24);
}

__device__ const word ROUNDS[64] = {@ROUNDS@};

extern "C" __global__ void sha256_frames(const long long* at, const int* sizes, word* out, int n) {
    int frame = blockIdx.x * blockDim.x + threadIdx.x;
    if (frame >= n) return;
    const word* from = (const word*)at[frame];
    int n_words = sizes[frame];
    word s[8] = {@STARTS@};
    int n_blocks = (n_words + 3 + 15) / 16;
    word next[16];
    #pragma unroll
    for (int t = 0; t < 16; t++) next[t] = t < n_words ? from[t] : 0;
    for (int block = 0; block < n_blocks; block++) {
        word w[16];
        #pragma unroll
        for (int t = 0; t < 16; t++) {
            int at = block * 16 + t;
            w[t] = at == n_words ? 0x80000000u : swapped(next[t]);
            next[t] = at + 16 < n_words ? from[at + 16] : 0;
        }
        if (block == n_blocks - 1) {
            w[14] = (word)n_words >> 27;
            w[15] = (word)n_words << 5;
        }
        word a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
        #pragma unroll
        for (int t = 0; t < 64; t++) {
            if (t >= 16) {
                word x = w[(t + 1) & 15], y = w[(t + 14) & 15];
                w[t & 15] += (turned(x, 7) ^ turned(x, 18) ^ (x >> 3)) + w[(t + 9) & 15]
                    + (turned(y, 17) ^ turned(y, 19) ^ (y >> 10));
            }
            word t1 = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[t] + w[t & 15];
            word t2 = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g; g = f; f = e; e = d + t1; d = c; c = b; b = a; a = t1 + t2;
        }
        s[0] += a; s[1] += b; s[2] += c; s[3] += d; s[4] += e; s[5] += f; s[6] += g; s[7] += h;
    }
    for (int t = 0; t < 8; t++) out[frame * 8 + t] = s[t];
}

__device__ __forceinline__ unsigned char clipped(int x) { return x < 0 ? 0 : x > 255 ? 255 : x; }

extern "C" __global__ void nv12_to_rgb(
    const long long* luma_at, const long long* chroma_at, int pitch, unsigned char* out, int width, int height,
    int luma, int offset, int red, int blue, int green_u, int green_v
) {
    int half = width / 2, cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= half * (height / 2)) return;
    int row = cell / half, column = cell % half, frame = blockIdx.y;
    const unsigned char* y_plane = (const unsigned char*)luma_at[frame];
    const unsigned char* uv = (const unsigned char*)chroma_at[frame] + (long long)row * pitch + 2 * column;
    int u = uv[0] * 8 - 1024, v = uv[1] * 8 - 1024;
    int more_red = (v * red) >> 16, more_blue = (u * blue) >> 16;
    int more_green = ((u * green_u) >> 16) + ((v * green_v) >> 16);
    for (int k = 0; k < 4; k++) {
        int line = 2 * row + k / 2, place = 2 * column + k % 2;
        int y = ((y_plane[(long long)line * pitch + place] * 8 - offset) * luma) >> 16;
        unsigned char* pixel = out + (((long long)frame * height + line) * width + place) * 3;
        pixel[0] = clipped(y + more_red);
        pixel[1] = clipped(y + more_green);
        pixel[2] = clipped(y + more_blue);
    }
}
"""
"""The programs, in CUDA C. SHA-256's constants are filled in."""


def _roots(power: int, n: int) -> str:
    """Return, as C code, the first 32 fractional bits of the square or cube roots of the first n primes."""
    primes: list[int] = []
    number = 2
    while len(primes) < n:
        if all(number % prime for prime in primes):
            primes.append(number)
        number += 1
    out = []
    for prime in primes:
        low, high = 0, 1 << 64
        while low < high - 1:
            middle = (low + high) // 2
            low, high = (middle, high) if middle**power <= prime << (32 * power) else (low, middle)
        out.append(f"{low & 0xFFFFFFFF:#x}u")
    return ", ".join(out)


def source() -> str:
    """Return the programs as text for the compiler."""
    return SOURCE.replace("@ROUNDS@", _roots(3, 64)).replace("@STARTS@", _roots(2, 8))


@cache
def _program(name: str) -> Any:
    import torch

    return torch.cuda._compile_kernel(source(), name)  # public in later torch; if it is missing, the CPU is used


def convert(luma_at: Any, chroma_at: Any, pitch: int, out: Any, coefficients: tuple[int, ...]) -> None:
    """Convert the planes at these addresses (N,) to RGB in `out` (N, height, width, 3), in the current stream."""
    n, height, width = out.shape[:3]
    blocks = -(-(height * width // 4) // _THREADS)
    args = [luma_at, chroma_at, pitch, out, width, height, *coefficients]
    _program("nv12_to_rgb")(grid=(blocks, n, 1), block=(_THREADS, 1, 1), args=args)


def sha256(batches: Sequence[Any]) -> Any:
    """Return the digests (N, 8) of contiguous batches of frames, in the current stream.

    The size of a frame is a multiple of four bytes.
    """
    import torch

    at: list[int] = []
    sizes: list[int] = []
    for frames in batches:
        step = frames[0].numel()
        at += range(frames.data_ptr(), frames.data_ptr() + step * len(frames), step)
        sizes += [step // 4] * len(frames)
    device = batches[0].device
    where = torch.tensor(at).pin_memory().to(device, non_blocking=True)
    words = torch.tensor(sizes, dtype=torch.int32).pin_memory().to(device, non_blocking=True)
    out = torch.empty((len(at), 8), dtype=torch.int32, device=device)
    args = [where, words, out, len(at)]
    _program("sha256_frames")(grid=(-(-len(at) // _LANES), 1, 1), block=(_LANES, 1, 1), args=args)
    return out
