"""Clips for benchmarks/gpu_video.py: made with PyAV on any machine, with the digest of every frame beside each."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import space
from strobe.core.tables import Frames, Labels, Sets, Videos, texts

SETTINGS = {
    "720p-gop30": ((1280, 720), 30, 900),
    "720p-gop250": ((1280, 720), 250, 900),
    "1080p-gop30": ((1920, 1080), 30, 300),
}
"""Size, distance of key frames and number of frames of each clip."""


def make(folder: Path, video: Path) -> None:
    """Write the clips, the hard clips of the tests, and what `strobe build` says of their frames."""
    import av

    folder.mkdir(parents=True, exist_ok=True)
    with av.open(str(video)) as container:
        images = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    for name, (size, gop, n) in SETTINGS.items():
        encode(folder / f"{name}.mp4", images, size, gop, n)
        facts(folder / f"{name}.mp4")
    make_hard(folder / "hard")


def make_hard(folder: Path) -> None:
    """Write the hard clips of the tests and some more, at sizes that a GPU's engines take."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests/build"))
    clips: Any = import_module("made_clips")  # of the tests

    folder.mkdir(parents=True, exist_ok=True)
    for case, (name, settings) in (clips.CASES | clips.MORE_CASES).items():
        path = folder / ("".join(one if one.isalnum() else "_" for one in case) + Path(name).suffix)
        small = settings.get("codec", "libx264") in ("libx264", "mpeg4", "mpeg2video", "mjpeg")
        clips.encode(path, **({} if small else {"size": (256, 144)}) | settings)
        facts(path)
    for case, suffix in (("truncated", ".mkv"), ("truncated", ".ts"), ("damaged", ".mp4")):
        path = folder / f"{case}{suffix}"
        clips.encode(path, size=(256, 144))
        content, middle = bytearray(path.read_bytes()), path.stat().st_size // 2
        if case == "damaged":  # after the build
            facts(path)
            content[middle : middle + 600] = bytes(600)
        path.write_bytes(content if case == "damaged" else content[: middle + middle // 5])
        if case == "truncated":
            facts(path)


def encode(path: Path, images: Sequence[Any], size_wh: tuple[int, int], gop: int, n: int) -> None:
    """Encode the images forth and back, until there are n frames, as H.264 with B frames."""
    import av

    def looped() -> Iterator[Any]:
        for number in range(n):
            at = number % (2 * len(images) - 2)
            yield images[at if at < len(images) else 2 * len(images) - 2 - at]

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"preset": "veryfast", "crf": "27"})
        stream.width, stream.height = size_wh
        stream.pix_fmt = "yuv420p"
        stream.codec_context.gop_size = gop
        for number, image in enumerate(looped()):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(*size_wh, format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, 30)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def facts(path: Path) -> None:
    """Write beside a clip what a build says of its frames: times, sizes and digests of pixels."""
    from strobe.build.options import AnchorOptions
    from strobe.workflows.build import build
    from strobe.workflows.options import BuildOptions

    root = path.with_suffix(".tmp")
    shutil.rmtree(root, ignore_errors=True)
    options = BuildOptions(label=("dog",), sampling=AnchorOptions(k=0, every=1), reference=True, hints=False)
    frames = build([path], root, options).dataset.frames
    np.savez_compressed(
        path.with_name(path.name + ".npz"), pts=frames.pts, index=frames.index, sha256=frames.sha256.astype("U64"),
        width=frames.width, height=frames.height,
    )  # fmt: skip
    shutil.rmtree(root)


def dataset_of(clips: Sequence[Path], rows_of: Any = None) -> Dataset:
    """A dataset of every frame of these clips (or of the chosen positions of each), kept in the videos."""
    parts, n_frames = [], []
    for video, clip in enumerate(clips):
        with np.load(clip.resolve().with_name(clip.resolve().name + ".npz")) as found:
            told = dict(found)
        n_frames.append(len(told["pts"]))
        rows = np.arange(n_frames[-1]) if rows_of is None else rows_of(video, n_frames[-1])
        parts.append({"video": np.full(len(rows), video)} | {name: values[rows] for name, values in told.items()})
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    n, rows = len(columns["pts"]), np.arange(len(columns["pts"]))
    nothing = np.zeros(n, dtype=np.int64)
    return Dataset(
        info=DatasetInfo(name="benchmark", label_space=space("imagenet-vid"), k=10),
        videos=Videos(
            video_id=texts([f"{video:016x}" for video in range(len(clips))]), name=texts([str(v) for v in clips]),
            fps_num=np.full(len(clips), 30), fps_den=np.ones(len(clips), dtype=np.int64), n_frames=np.array(n_frames),
            path=texts([str(clip.absolute()) for clip in clips]), codec=texts([""] * len(clips)),
        ),
        frames=Frames(
            video=columns["video"], index=columns["index"], key=texts([f"{row:06d}" for row in rows]),
            pts=columns["pts"], time_num=nothing, time_den=nothing, pict_type=texts([""] * n), width=columns["width"],
            height=columns["height"], sha256=texts(columns["sha256"].tolist()), media=texts([""] * n),
        ),
        sets=Sets(
            set_id=texts(["all"]), set=nothing, frame=rows, distance=rows.astype(float), is_anchor=rows == 0
        ),
        labels=Labels(frame=rows, label=nothing),
    )  # fmt: skip
