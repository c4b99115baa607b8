"""One's own video on a GPU: ResNet-50, bf16, frames in H.264 clips or packed, to stored predictions.

    PYTHONPATH=src python benchmarks/gpu_video.py make CLIPS --video dog.mp4   # where PyAV is; no GPU needed
    PYTHONPATH=src python benchmarks/gpu_video.py run CLIPS                    # on the GPU; PyAV is not needed

The digests of `make` travel with the clips, and every frame is checked against them. Prints one JSON object: the bare
engines (one call for each packet, as people write it; our sessions in one process, and in several), the engine end to
end over clips with a key frame every 30 and 250 frames, zstd alone and packed frames, 1920×1080, the hard clips of the
tests, and windows of many clips.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from gpu_alone import say
from gpu_video_clips import dataset_of, make
from strobe.annexes.gpu.engine import NvidiaEngine, SessionPool
from strobe.annexes.gpu.frames import new_stream, wait_for
from strobe.annexes.gpu.video import VideosOnDevice
from strobe.build.source import VideoSource
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.packed import packed
from strobe.core.ports import Silent
from strobe.core.tables import texts
from strobe.engine.loading import decode_processes, engine_options, opened_frames
from strobe.engine.running import Running
from strobe.models.options import LoadOptions, ModelName
from strobe.models.timm import load
from strobe.store.media import MediaSource

PARTS = ("hard", "bare", "reference", "packed", "full-hd", "windows")
DEVICE = "cuda"
PROFILE = bool(os.environ.get("PROFILE"))
_HEAD_BYTES = 56
"""The size of what precedes the compressed bytes in a packed file."""
_ARRAY_HEAD_BYTES = 128
"""The size of what precedes the pixels in the array of a packed file."""


class Timeline(Silent):
    """Keeps when frames were done: a start takes its time, whatever the number of frames."""

    def __init__(self) -> None:
        self.done: list[tuple[float, int]] = []

    def task(self, label: str, total: int | None) -> Any:  # noqa: ARG002 (the port's)
        return nullcontext(lambda n: self.done.append((time.perf_counter(), n)))

    def tenths(self, begin: float) -> list[float]:
        """Seconds until each tenth of the frames was done."""
        when, n = np.array([one for one, _ in self.done]), np.cumsum([n for _, n in self.done])
        return [round(float(when[np.searchsorted(n, n[-1] * k / 10)] - begin), 2) for k in range(1, 11)]

    def second_half(self) -> float:
        """Frames a second in the second half of all frames."""
        when, n = np.array([one for one, _ in self.done]), np.cumsum([n for _, n in self.done])
        middle = int(np.searchsorted(n, n[-1] // 2))
        return round(float((n[-1] - n[middle]) / max(1e-9, when[-1] - when[middle])), 1)


@contextmanager
def sampled(wanted: bool) -> Iterator[None]:
    """While open, count where threads are, and print the most frequent places."""
    if not wanted:
        yield
        return
    found: Counter[str] = Counter()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.005):
            for frame in sys._current_frames().values():
                lines: list[str] = []
                place: Any = frame
                while place is not None and len(lines) < 3:
                    code = place.f_code
                    lines.append(f"{Path(code.co_filename).stem}:{place.f_lineno}:{code.co_name}")
                    place = place.f_back
                found[" < ".join(lines)] += 1

    thread = threading.Thread(target=look)
    thread.start()
    yield
    done.set()
    thread.join()
    for text, n in found.most_common(40):
        say(f"{n:6d} {text}")


class Aloud(Silent):
    """Prints notes."""

    def note(self, text: str) -> None:
        say(text)


def copies(folder: Path, clip: Path, n: int) -> list[Path]:
    """So many files of the same clip."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [folder / f"{clip.stem}-{number:03d}.mp4" for number in range(n)]
    for path in found:
        if not path.exists():
            shutil.copy(clip, path)
            shutil.copy(clip.with_name(clip.name + ".npz"), path.with_name(path.name + ".npz"))
    return found


def bare(clip: Path, *, sessions: int, rounds: int) -> float:
    """Frames a second out of the engines: so many sessions, each fed with whole clips, nothing done with frames."""
    engine = NvidiaEngine(DEVICE)
    opened = engine.open(clip)
    pool = SessionPool(engine, most=sessions, streams=lambda: new_stream(DEVICE))
    parts = list(opened.parts(range(len(opened.pts))))

    def whole(_: int) -> int:
        with pool.lent(opened) as (session, stream):
            n = sum(len(session.decode(data)) for part in parts for data in (*part.calls, b""))
            wait_for(stream)
        return n

    with ThreadPoolExecutor(sessions) as threads:
        list(threads.map(whole, range(sessions)))  # sessions are opened
        begin = time.perf_counter()
        n = sum(threads.map(whole, range(sessions * rounds)))
        return round(n / (time.perf_counter() - begin), 1)


def packet_by_packet(clip: Path, *, decoders: int, rounds: int) -> float:
    """The loop that people write: a decoder for each thread, one call for each packet."""
    import PyNvVideoCodec as library

    def whole(_: int) -> int:
        if not hasattr(own, "decoder"):
            own.decoder = library.CreateDecoder(gpuid=0, codec=library.cudaVideoCodec.H264, usedevicememory=True)
        return sum(len(own.decoder.Decode(packet)) for packet in library.CreateDemuxer(filename=str(clip)))

    own = threading.local()
    with ThreadPoolExecutor(decoders) as threads:
        list(threads.map(whole, range(decoders)))
        begin = time.perf_counter()
        n = sum(threads.map(whole, range(decoders * rounds)))
        return round(n / (time.perf_counter() - begin), 1)


def bare_processes(clip: Path, *, processes: int, sessions: int) -> float:
    """The same in several processes at once."""
    command = [sys.executable, __file__, "bare", str(clip), "--sessions", str(sessions)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return round(sum(float(one.communicate()[0].split()[-1]) for one in running), 1)


def loaded(batch: int) -> dict[str, Any]:
    """Load the model of this benchmark."""
    torch.manual_seed(0)
    how = LoadOptions(device=DEVICE, batch_size=batch, pretrained=False, precision="bfloat16", progress=Aloud())
    return {"resnet50": load(ModelName("timm", "resnet50"), how)}


def end_to_end(dataset: Dataset, options: Running, batch: int) -> dict[str, Any]:
    """Frames to stored predictions through the engine, as `strobe predict` runs it.

    As there, the source of frames opens while the model is loaded; the time of loading is not counted.
    """
    from strobe.core.labels import projection
    from strobe.core.tasks import Task
    from strobe.engine.engine import run_models
    from strobe.engine.forward import Runner
    from strobe.store.frame_names import FrameNames
    from strobe.store.shards import KEY_FACTS, ModelShards

    source: Any = MediaSource(dataset) if dataset.root else VideoSource(dataset)
    n_cores = os.cpu_count() or 1
    begin = time.perf_counter()
    source = opened_frames(DEVICE, source, dataset).source
    models = loaded(batch)
    loading = time.perf_counter() - begin
    processes = decode_processes(options, models, source, n_cores)
    how = engine_options(options, models, n_cores, processes=processes, source=source)
    runners = [Runner(name=name, model=model, projection=projection("ilsvrc-2012", "imagenet-vid"))
               for name, model in models.items()]  # fmt: skip
    keys = [str(key) for key in dataset.frames.key]
    with tempfile.TemporaryDirectory() as folder:
        stores = {
            name: ModelShards(
                Path(folder), name, facts=dict.fromkeys(KEY_FACTS, ""), frames=FrameNames(dataset),
                task=Task.CLASSIFICATION, n_classes=30,
            )
            for name in models
        }  # fmt: skip
        begin, cpu = time.perf_counter(), time.process_time()
        progress = Timeline()
        with sampled(PROFILE):
            outcomes = run_models(
                runners, stores, source, frame_names=keys, rows=np.arange(len(keys)), options=how, progress=progress
            )
        took = time.perf_counter() - begin
        cores = (time.process_time() - cpu) / took
        first = next(iter(models))
        scores = np.asarray(cast(ClassAnswers, stores[first].read()).scores)
    handed = getattr(source, "handed_over", {})
    if hasattr(source, "close"):
        source.close()
    bad = {name: (one.error, one.n_unreadable, one.first_problem) for name, one in outcomes.items()}
    found: dict[str, Any] = {
        "loading the model, s": round(loading, 2),
        "frames/s": round(len(keys) / took, 1),
        "frames": len(keys),
        "cores": round(cores, 2),
    }
    if any(any(one) for one in bad.values()) or handed:
        found |= {"problems": bad, "handed over": handed}
    found["seconds to each tenth"] = progress.tenths(begin)
    found["in the second half"] = progress.second_half()
    found["scores"] = float(np.nansum(scores, dtype=np.float64))
    found["gpu GB"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    return found


def packed_dataset(folder: Path, dataset: Dataset) -> Dataset:
    """The same frames in our own store: decoded by the GPU's engines, packed on all cores."""
    videos = VideoSource(dataset)
    source = VideosOnDevice(dataset, videos, NvidiaEngine(DEVICE), path=videos.path, device=DEVICE, sessions=8)
    (folder / "media").mkdir(parents=True, exist_ok=True)
    names = np.array([f"media/{row:06d}.zst" for row in range(len(dataset.frames))])

    def write(task: list[int]) -> None:
        for rows, frames in source.batches(task):
            for row, image in zip(rows, frames.cpu().numpy(), strict=True):
                (folder / names[row]).write_bytes(packed(image, str(dataset.frames.sha256[row])))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write, source.tasks(range(len(dataset.frames)))))
    source.close()
    return replace(dataset, frames=replace(dataset.frames, media=texts(names.tolist())), root=folder)


def zstd_alone(dataset: Dataset, threads: int) -> float:
    """Packed frames a second: files in memory, decompressed on so many threads, nothing else."""
    import pyarrow as pa

    source = MediaSource(dataset)
    files = [source.read_stored(row)[_HEAD_BYTES:] for row in range(min(1024, len(dataset.frames)))]
    n_bytes = _ARRAY_HEAD_BYTES + 3 * int(dataset.frames.width[0]) * int(dataset.frames.height[0])

    def some(first: int) -> None:
        for content in files[first::threads]:
            pa.Codec("zstd").decompress(content, n_bytes)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(some, range(threads)))
        begin = time.perf_counter()
        for _ in range(3):
            list(pool.map(some, range(threads)))
        return round(3 * len(files) / (time.perf_counter() - begin), 1)


def hard(folder: Path) -> dict[str, str]:
    """The hard clips of the tests: how many frames are equal, how many are left to the CPU, and why."""
    out = {}
    for clip in sorted(folder.glob("*.*")):
        if clip.suffix == ".npz":
            continue
        dataset = dataset_of([clip])
        videos = VideoSource(dataset)
        source = VideosOnDevice(dataset, videos, NvidiaEngine(DEVICE), path=videos.path, device=DEVICE, sessions=2)
        count: Counter[str] = Counter()
        try:
            for task in source.tasks(range(len(dataset.frames))):
                for rows, frames in source.batches(task):
                    count["left to the CPU" if frames is None else "equal"] += len(rows)
                    if frames is not None:
                        import hashlib

                        for row, image in zip(rows, frames.cpu().numpy(), strict=True):
                            same = hashlib.sha256(image.tobytes()).hexdigest() == dataset.frames.sha256[row]
                            count["WRONG"] += not same
        except StrobeError as error:
            count[str(error)] += 1
        source.close()
        conversion = str(source._conversions.get(0, ""))
        out[clip.name] = f"{dict(+count)} {source.handed_over.get(0, '')} {conversion}"
        say(f"{clip.name}: {out[clip.name]}")
    return out


def windows(folder: Path, clip: Path, batch: int, *, n_clips: int, n_windows: int) -> dict[str, Any]:
    """Windows of 21 frames over many clips; resident memory and the GPU's at each quarter of the way."""
    clips, each = copies(folder, clip, n_clips), n_windows // n_clips

    def rows_of(video: int, n: int) -> Any:
        starts = np.random.default_rng(video).integers(0, n - 20, size=each)
        return np.unique(starts[:, None] + np.arange(21))

    dataset, memory, done = dataset_of(clips, rows_of), [], threading.Event()

    def watch() -> None:
        while not done.wait(1.0):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            memory.append((round(pages * 4096 / 1e9, 2), round(torch.cuda.memory_reserved() / 1e9, 2)))

    thread = threading.Thread(target=watch)
    thread.start()
    found = end_to_end(dataset, Running(), batch)
    done.set()
    thread.join()
    some = memory[:: max(1, len(memory) // 12)]
    return found | {"windows": each * n_clips, "GB of the process and of torch on the GPU": some}


def run(options: argparse.Namespace) -> None:
    """All parts, one after the other."""
    parts, clips, result = options.parts.split(","), options.clips, {}
    torch.set_num_threads(1)
    root = Path(tempfile.mkdtemp(prefix="strobe-video-"))
    batch = options.batch

    def keep(name: str, value: Any) -> None:
        result[name] = value
        say(f"{name}: {json.dumps(value)}")
        if options.out:
            options.out.write_text(json.dumps(result, indent=1))

    if "hard" in parts:
        keep("hard clips", hard(clips / "hard"))
    gop30, gop250 = clips / "720p-gop30.mp4", clips / "720p-gop250.mp4"
    both = {f"gop {name}": clip for name, clip in ((30, gop30), (250, gop250)) if clip.exists()}
    if "bare" in parts:
        keep("a call for each packet, 7 decoders", packet_by_packet(gop30, decoders=7, rounds=2))
        for sessions in (1, 8):
            keep(f"bare engines, {sessions} sessions, gop 30", bare(gop30, sessions=sessions, rounds=2))
        if gop250.exists():
            keep("bare engines, 8 sessions, gop 250", bare(gop250, sessions=8, rounds=2))
        keep("bare engines, 4 processes of 4", bare_processes(gop30, processes=4, sessions=4))
    if "reference" in parts:
        for name, clip in both.items():
            dataset = dataset_of(copies(root / "ref", clip, options.copies))
            end_to_end(dataset_of([clip]), Running(), batch)  # programs are compiled
            keep(f"reference, {name}", end_to_end(dataset, Running(), batch))
    if "packed" in parts:
        end_to_end(dataset_of([gop30]), Running(), batch)  # programs are compiled
        dataset = packed_dataset(root / "packed", dataset_of([*both.values()]))
        keep("MB a packed frame", round(sum(one.stat().st_size for one in (root / "packed/media").iterdir())
                                       / len(dataset.frames) / 1e6, 3))  # fmt: skip
        again = np.tile(np.arange(len(dataset.frames)), options.again)
        dataset = many_times(dataset, again)
        keep("zstd alone, all cores", zstd_alone(dataset, os.cpu_count() or 1))
        keep("packed", end_to_end(dataset, Running(), batch))
    if "full-hd" in parts:
        clip = clips / "1080p-gop30.mp4"
        keep("bare engines, 8 sessions, 1080p", bare(clip, sessions=8, rounds=2))
        keep("reference, 1080p", end_to_end(dataset_of(copies(root / "hd", clip, options.copies)), Running(),
                                            batch))  # fmt: skip
    if "windows" in parts:
        keep("windows", windows(root / "many", gop30, batch, n_clips=options.many, n_windows=options.windows))
    result["peak memory of the process, GB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2)
    shutil.rmtree(root, ignore_errors=True)
    print(json.dumps(result))


def many_times(dataset: Dataset, rows: Any) -> Dataset:
    """The same stored frames again and again, as frames of their own."""
    from strobe.core.tables import Frames, Labels, Sets

    n, frames = len(rows), dataset.frames
    nothing, place = np.zeros(n, dtype=np.int64), np.arange(n)
    return replace(
        dataset,
        frames=Frames(
            video=np.zeros(n, dtype=np.int64), index=place, key=texts([f"{row:06d}" for row in place]),
            pts=frames.pts[rows], time_num=nothing, time_den=nothing, pict_type=texts([""] * n),
            width=frames.width[rows], height=frames.height[rows], sha256=texts(frames.sha256[rows].tolist()),
            media=texts(frames.media[rows].tolist()),
        ),
        sets=Sets(set_id=texts(["all"]), set=nothing, frame=place, distance=place.astype(float),
                  is_anchor=place == 0),
        labels=Labels(frame=place, label=nothing),
    )  # fmt: skip


def main() -> None:
    """Make clips, run, or be one of several processes of the bare engines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["make", "run", "bare"])
    parser.add_argument("clips", type=Path)
    parser.add_argument("--video", type=Path, help="make: a video of natural content")
    parser.add_argument("--parts", default=",".join(PARTS), help="run: comma-separated: " + ", ".join(PARTS))
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--copies", type=int, default=40, help="run: files of each clip")
    parser.add_argument("--again", type=int, default=12, help="run: how often each packed frame is read")
    parser.add_argument("--many", type=int, default=200, help="run: clips of the windows")
    parser.add_argument("--windows", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=4, help="bare: sessions of this process")
    parser.add_argument("--out", type=Path, help="run: a file for the JSON object as it grows")
    options = parser.parse_args()
    if options.verb == "make":
        make(options.clips, options.video)
    elif options.verb == "bare":
        print(bare(options.clips, sessions=options.sessions, rounds=6))
    else:
        run(options)


if __name__ == "__main__":
    main()
