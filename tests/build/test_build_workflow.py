"""`strobe build` from videos to a dataset folder."""

import gc
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from strobe.build.decode import Reader
from strobe.build.hints import DropRules
from strobe.build.sample import Sampling
from strobe.build.source import VideoSource
from strobe.core.errors import StrobeError
from strobe.datasets import folder
from strobe.datasets.media import MediaSource
from strobe.workflows.build import BuildOptions, build

MakeClip = Callable[..., Path]

DOG = BuildOptions(label=("dog",), sampling=Sampling(k=3, anchors_per_video=2))


@pytest.fixture
def clips(make_clip: MakeClip) -> list[Path]:
    return [
        make_clip("one.mp4"),
        make_clip("two.mkv", codec="mpeg4", b_frames=2, n=40),
        make_clip("three.webm", codec="libvpx-vp9", options={"cpu-used": "8"}, n=30),
        make_clip("four.avi", codec="mjpeg", pix_fmt="yuvj420p", options={"strict": "-1"}, n=25),
    ]


def contents(root: Path) -> dict[str, str]:
    """Every file and the hash of its bytes."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_frames_are_stored_without_loss(clips: list[Path], tmp_path: Path) -> None:
    built = build(clips, tmp_path / "out", DOG)
    dataset = folder.read(tmp_path / "out")
    assert dataset.digest() == built.dataset.digest()
    assert not built.problems
    assert dataset.n_sets == 8
    assert dataset.info.k == 3
    assert dataset.info.label_source == "frame"
    source = MediaSource(dataset)
    for row in range(len(dataset.frames)):
        assert hashlib.sha256(source.read(row).tobytes()).hexdigest() == dataset.frames.sha256[row]
    assert set(dataset.frames.pict_type) <= {"I", "P", "B"}
    assert {"P", "B"} <= set(dataset.frames.pict_type[dataset.videos.name[dataset.frames.video] == "one"])
    first = next(iter(dataset))
    assert first.set_id == f"four@{first.anchor.index}"
    assert first.anchor.key == f"four/{first.anchor.index:06d}.png"
    assert first.anchor.video_id == hashlib.sha256(clips[3].read_bytes()).hexdigest()[:16]
    assert first.anchor.time_s == Fraction(first.anchor.index, 25)
    assert dataset.hints is not None
    assert not np.isnan(dataset.hints.motion).any()


@pytest.mark.slow
def test_same_bytes_for_any_workers_order_and_place(clips: list[Path], tmp_path: Path) -> None:
    build(clips, tmp_path / "a" / "out", DOG)
    build(clips[::-1], tmp_path / "b" / "out", BuildOptions(label=("dog",), sampling=DOG.sampling, workers=2))
    moved = [path.rename(tmp_path / path.name) for path in clips]
    build(moved, tmp_path / "c" / "out", DOG)
    one = contents(tmp_path / "a" / "out")
    assert len(one) > 40  # how many frames depends on where anchors fall: mkv and webm files have random ids
    assert one == contents(tmp_path / "b" / "out") == contents(tmp_path / "c" / "out")


KILLED = """
import sys, time
from pathlib import Path
from strobe.build import extract
from strobe.build.sample import Sampling
from strobe.workflows.build import BuildOptions, build

# A build slow enough to be killed in the middle: it rests after every frame it stores, in worker processes, too.
store = extract._Storing._store
def slowly(self, frame):
    row = store(self, frame)
    time.sleep(0.05)
    return row
extract._Storing._store = slowly

if __name__ == "__main__":
    videos, out, workers = sys.argv[3:], Path(sys.argv[1]), int(sys.argv[2])
    options = BuildOptions(label=("dog",), sampling=Sampling(k=3, anchors_per_video=2), workers=workers)
    build([Path(video) for video in videos], out, options)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("after", "workers"), [(1, 1), (20, 1), (40, 1), (20, 2)])
def test_killed_and_resumed_gives_the_same_bytes(after: int, workers: int, clips: list[Path], tmp_path: Path) -> None:
    whole = tmp_path / "whole" / "out"
    build(clips, whole, DOG)
    script = tmp_path / "slow.py"
    script.write_text(KILLED)
    out = tmp_path / "killed" / "out"
    process = subprocess.Popen([sys.executable, str(script), str(out), str(workers), *map(str, clips)])
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if len(list(out.rglob("*.zst"))) >= after:
            break
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not folder.is_dataset(out)
    seen = -1
    while workers > 1 and seen != (seen := len(list(out.rglob("*")))):
        time.sleep(1)  # workers see that their parent is gone, and end
    finished = len(list((out / ".build").glob("*.json")))
    again = build(clips, out, DOG)
    assert again.reused == finished < len(clips)
    assert contents(out) == contents(whole)
    third = build(clips, out, DOG)
    assert (third.reused, third.decoded) == (len(clips), 0)
    assert contents(out) == contents(whole)


@pytest.mark.slow
def test_ctrl_c_ends_workers_at_once_and_loses_nothing(clips: list[Path], tmp_path: Path, started: Any) -> None:
    script = tmp_path / "slow.py"
    script.write_text(KILLED.replace("sleep(0.05)", "sleep(2)"))
    out = tmp_path / "out"
    command = [sys.executable, str(script), str(out), "2", *map(str, clips)]
    process = started(command, start_new_session=True, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(out.rglob("*.zst")) and time.monotonic() < deadline:
        time.sleep(0.01)
    begin = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - begin < 15  # the videos under way would take longer than that
    assert b"KeyboardInterrupt" in said
    build(clips, out, DOG)
    build(clips, tmp_path / "whole" / "out", DOG)
    assert contents(out) == contents(tmp_path / "whole" / "out")


CRASHING = """
import os, sys
from pathlib import Path
from strobe.build import extract
from strobe.workflows.build import BuildOptions, build

run = extract._run
def crashing(job, say):
    if job.name == "two":
        os.abort()
    return run(job, say)
extract._run = crashing

if __name__ == "__main__":
    built = build([Path(video) for video in sys.argv[2:]], Path(sys.argv[1]), BuildOptions(label=("dog",), workers=2))
    print(*built.problems, list(built.dataset.videos.name), sep="|")
"""


@pytest.mark.slow
def test_a_decoder_that_crashes_costs_one_video(clips: list[Path], tmp_path: Path) -> None:
    script = tmp_path / "crashing.py"
    script.write_text(CRASHING)
    command = [sys.executable, str(script), str(tmp_path / "out"), *map(str, clips[:3])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "two.mkv: the decoder crashed on it|['one', 'three']"


def test_two_builds_into_one_folder_do_not_meet(clips: list[Path], tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    out = tmp_path / "out"
    (out / ".build").mkdir(parents=True)
    with (out / ".build" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StrobeError, match="another build is writing"):
            build(clips, out, DOG)
    assert build(clips, out, DOG).reused == 0


def test_damaged_media_are_made_again(clips: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(clips, out, DOG)
    before = contents(out)
    victim = next((out / "media" / "one").iterdir())
    victim.write_bytes(victim.read_bytes()[:100])
    assert build(clips, out, DOG).reused == len(clips) - 1
    assert contents(out) == before


@pytest.mark.parametrize("damage", ["a member that is not there", "another hash"])
def test_a_damaged_note_of_a_video_is_made_again(clips: list[Path], tmp_path: Path, damage: str) -> None:
    out = tmp_path / "out"
    build(clips, out, DOG)
    before = contents(out)
    path = out / ".build" / "one.json"
    note = json.loads(path.read_text())
    if damage == "another hash":
        note["frames"][0]["sha256"] = note["frames"][1]["sha256"]
    else:
        note["sets"][0]["members"].append(10**30)
    path.write_text(json.dumps(note))
    assert build(clips, out, DOG).reused == len(clips) - 1
    assert contents(out) == before


def test_a_pipe_where_notes_lie_is_not_waited_for(clips: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(clips, out, DOG)
    path = out / ".build" / "one.json"
    path.unlink()
    os.mkfifo(path)
    assert build(clips, out, DOG).reused == len(clips) - 1
    assert path.is_file()


def test_more_videos_are_added_to_what_is_there(clips: list[Path], tmp_path: Path) -> None:
    build(clips[:2], tmp_path / "a" / "out", DOG)
    assert build(clips, tmp_path / "a" / "out", DOG).reused == 2
    build(clips, tmp_path / "b" / "out", DOG)
    assert contents(tmp_path / "a" / "out") == contents(tmp_path / "b" / "out")


def test_reference_gives_the_same_frames_from_the_videos(clips: list[Path], tmp_path: Path) -> None:
    stored = build(clips, tmp_path / "stored", DOG).dataset
    build(clips, tmp_path / "kept", BuildOptions(label=("dog",), sampling=DOG.sampling, reference=True))
    kept = folder.read(tmp_path / "kept")
    assert not list((tmp_path / "kept").rglob("*.zst"))
    assert kept.frames_digest() == stored.frames_digest()
    source, media = VideoSource(kept), MediaSource(folder.read(tmp_path / "stored"))
    forward = list(range(len(kept.frames)))
    jumping = np.random.default_rng(0).permutation(forward).tolist()
    for row in forward + jumping:
        assert np.array_equal(source.read(row), media.read(row))
    small = VideoSource(kept, cache_bytes=1)  # keeps as few as it may
    for row in jumping:
        assert np.array_equal(small.read(row), media.read(row))
    assert len(small._passed) + len(small._given) <= 21
    assert source.read_encoded(0) is None
    source.close()


def test_reference_reads_each_stretch_once(clips: list[Path], tmp_path: Path) -> None:
    options = BuildOptions(label=("dog",), sampling=Sampling(k=3, every=7), reference=True)
    dataset = build(clips[:1], tmp_path / "kept", options).dataset
    source = VideoSource(dataset)
    for row in range(len(dataset.frames)):
        source.read(row)
    (opened,) = source._open.values()
    assert opened.reader.decoded <= 48


def test_many_threads_read_a_reference_in_order_and_once(clips: list[Path], tmp_path: Path) -> None:
    """Whoever of eight comes first, the decoder goes on and never back, and little is kept."""
    options = BuildOptions(label=("dog",), sampling=Sampling(k=3, every=7), reference=True)
    dataset = build(clips, tmp_path / "kept", options).dataset
    alone, source = VideoSource(dataset), VideoSource(dataset, cache_bytes=1)
    rows = range(len(dataset.frames) // 8 * 8)
    expected, together = [alone.read(row) for row in rows], threading.Barrier(8)

    def every_eighth(first: int) -> list[np.ndarray]:
        out = []
        for row in rows[first::8]:
            together.wait()
            out.append(source.read(row))
        return out

    with ThreadPoolExecutor(8) as pool:
        shares = list(pool.map(every_eighth, range(8)))
    found = [shares[row % 8][row // 8] for row in rows]
    assert all(np.array_equal(one, other) for one, other in zip(expected, found, strict=True))
    counts = [{video: opened.reader.decoded for video, opened in one._open.items()} for one in (alone, source)]
    assert counts[0] == counts[1]
    assert not source._waiting
    with pytest.raises(IndexError):
        source.read(10**6)
    assert not source._decoding
    source.close()


def test_decoded_frames_are_let_go(clips: list[Path]) -> None:
    """PyAV ties a frame to its side data; left to the garbage collector, a video's frames pile up in memory."""
    gc.collect()
    before = sum(type(one).__name__ == "VideoFrame" for one in gc.get_objects())
    gc.disable()
    try:
        with Reader.open(clips[0]) as reader:
            for frame in reader.frames(range(48)):
                alive = sum(type(one).__name__ == "VideoFrame" for one in gc.get_objects()) - before
                assert alive <= 8, f"{alive} at frame {frame.index}"
    finally:
        gc.enable()


def test_reference_notices_a_changed_video(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    options = BuildOptions(label=("dog",), sampling=DOG.sampling, reference=True)
    dataset = build([path], tmp_path / "kept", options).dataset
    make_clip("one.mp4", options={"crf": "40"})
    with pytest.raises(StrobeError, match="pixels are not those of the build"):
        VideoSource(dataset).read(0)
    make_clip("one.mp4", n=2)
    with pytest.raises(StrobeError, match="2 frames, the build saw 48"):
        VideoSource(dataset).read(0)
    path.unlink()
    with pytest.raises(StrobeError, match="is not there"):
        VideoSource(dataset).read(0)


@pytest.mark.parametrize(
    ("store", "suffix", "exact"), [("png", ".png", True), ("webp", ".webp", True), ("jpeg", ".jpg", False)]
)
def test_other_stores(store: str, suffix: str, exact: bool, make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    usual = build([path], tmp_path / "usual", DOG).dataset
    other = build([path], tmp_path / store, BuildOptions(label=("dog",), sampling=DOG.sampling, store=store)).dataset  # type: ignore[arg-type]
    assert all(name.endswith(suffix) for name in other.frames.media)
    assert (other.frames_digest() == usual.frames_digest()) is exact
    assert (other.frames.key.tolist() == usual.frames.key.tolist()) is (store == "png")
    for row in range(len(other.frames)):  # the hash is of the pixels a reader sees
        data = (tmp_path / store / other.frames.media[row]).read_bytes()
        with Pillow.open(io.BytesIO(data)) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        assert hashlib.sha256(pixels.tobytes()).hexdigest() == other.frames.sha256[row]


def test_a_folder_goes_on_as_it_was_begun(make_clip: MakeClip, tmp_path: Path) -> None:
    """The command that made a folder of PNG, before packed frames were the default, adds to it."""
    first, second = make_clip("one.mp4"), make_clip("two.mp4", n=30)
    build([first], tmp_path / "out", replace(DOG, store="png"))
    grown = build([first, second], tmp_path / "out", DOG)
    assert grown.reused == 1
    assert all(name.endswith(".png") for name in grown.dataset.frames.media)
    assert len(list((tmp_path / "out").rglob("*.png"))) == len(grown.dataset.frames)
    with pytest.raises(StrobeError, match="already holds a dataset made otherwise"):
        build([first], tmp_path / "out", replace(DOG, store="zstd"))


def test_labels_spans_boxes_and_anchors(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    (tmp_path / "labels.csv").write_text("video,label,start_s,end_s\none.mp4,dog,0.4,1.0\none,cat|dog,0.8,1.2\n")
    (tmp_path / "boxes.csv").write_text("video,frame,label,x0,y0,x1,y1\none,20,dog,1,2,30,40.5\none,47,cat,0,0,5,5\n")
    (tmp_path / "anchors.csv").write_text("video,frame\none.mp4,20\n")
    options = BuildOptions(
        labels=tmp_path / "labels.csv", boxes=tmp_path / "boxes.csv", anchors=tmp_path / "anchors.csv"
    )
    built = build([path], tmp_path / "out", options)
    dataset = folder.read(tmp_path / "out")
    names = dataset.info.label_space.names
    assert names == ("cat", "dog")
    labels = {
        int(dataset.frames.index[row]): {names[label] for label in dataset.labels_of(row)}
        for row in range(len(dataset.frames))
    }
    assert labels[10] == {"dog"}
    assert labels[20] == labels[25] == {"cat", "dog"}
    assert labels[30] == {"cat", "dog"}
    assert list(dataset.sets.set_id) == ["one@20"]
    assert dataset.boxes is not None
    assert dataset.boxes.xyxy.tolist() == [[1, 2, 30, 40.5]]
    assert any("1 box(es) are on frames that are in no set" in note for note in built.notes)
    assert dataset.info.label_source == "frame"


def test_frame_labels_score_members_with_their_anchors(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    (tmp_path / "labels.csv").write_text("video,label,frame\none,dog,12\n")
    dataset = build([path], tmp_path / "out", BuildOptions(labels=tmp_path / "labels.csv")).dataset
    assert dataset.info.label_source == "anchor"
    assert list(dataset.sets.set_id) == ["one@12"]


def test_boxes_alone_give_labels(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    (tmp_path / "boxes.csv").write_text("video,frame,label,x0,y0,x1,y1\none,12,dog,1,2,3,4\n")
    (tmp_path / "anchors.csv").write_text("video,time_s\none,0.48\n")
    options = BuildOptions(boxes=tmp_path / "boxes.csv", anchors=tmp_path / "anchors.csv")
    dataset = build([path], tmp_path / "out", options).dataset
    anchor = int(dataset.sets.anchor_frame[0])
    assert dataset.labels_of(anchor) == (0,)
    assert dataset.info.label_space.names == ("dog",)


def test_window_in_milliseconds(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4", rate=50)
    options = BuildOptions(label=("dog",), sampling=Sampling(window_ms=100, every=100))
    dataset = build([path], tmp_path / "out", options).dataset
    assert sorted(dataset.sets.distance.tolist()) == [float(offset) for offset in range(-5, 6)]
    assert dataset.info.k == 5


def test_scene_cuts_are_dropped_on_request_and_counted(make_clip: MakeClip, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def scene(warm: bool) -> np.ndarray:
        small = rng.integers(0, 120, (8, 12, 3), dtype=np.uint8)
        small[..., 0 if warm else 2] += 130
        return np.asarray(Pillow.fromarray(small).resize((96, 64), Pillow.Resampling.BICUBIC))

    before, after = scene(True), scene(False)
    path = make_clip("cut.mp4", images=[before] * 12 + [after] * 12)
    (tmp_path / "anchors.csv").write_text("video,frame\ncut,10\n")
    plain = BuildOptions(label=("dog",), anchors=tmp_path / "anchors.csv", sampling=Sampling(k=5))
    everything = build([path], tmp_path / "all", plain).dataset
    assert len(everything.sets.set) == 11
    assert everything.hints is not None
    beyond = everything.frames.index[everything.sets.frame] >= 12
    assert ((everything.hints.cut > 0.35) == beyond).all()
    options = BuildOptions(
        label=("dog",), anchors=tmp_path / "anchors.csv", sampling=Sampling(k=5), drop=DropRules(cut=0.35)
    )
    built = build([path], tmp_path / "dropped", options)
    assert built.dropped == {"cut": 4, "members": 4}
    dataset = folder.read(tmp_path / "dropped")
    assert dataset.frames.index[dataset.sets.frame].tolist() == list(range(5, 12))
    assert dataset.info.provenance["dropped"] == {"cut": 4, "members": 4}
    assert len(dataset.frames) == 11  # smoothing over time still sees what was dropped


def boxes_on(path: Path, frames: Iterable[int], video: str = "one") -> Path:
    rows = [f"{video},{frame},dog,1,2,30,40" for frame in frames]
    path.write_text("\n".join(["video,frame,label,x0,y0,x1,y1", *rows]) + "\n")
    return path


def test_frames_without_a_box_are_no_members_and_no_anchors(make_clip: MakeClip, tmp_path: Path) -> None:
    """Boxes on some frames make a detection dataset, labels by frame, and not one whose members borrow labels."""
    path = make_clip("one.mp4")
    boxes = boxes_on(tmp_path / "boxes.csv", range(20, 26))
    built = build([path], tmp_path / "out", BuildOptions(boxes=boxes, sampling=Sampling(k=4)))
    data = built.dataset
    assert data.info.label_source == "frame"
    assert 20 <= int(data.frames.index[data.sets.anchor_frame[0]]) <= 25
    assert set(data.frames.index[data.sets.frame].tolist()) <= set(range(20, 26))
    assert any("have no box and were left out" in note for note in built.notes)
    kept = build([path], tmp_path / "kept", BuildOptions(boxes=boxes, label_source="anchor", sampling=Sampling(k=4)))
    assert len(kept.dataset.sets.set) == 9
    assert not any("left out" in note for note in kept.notes)


def test_boxes_on_every_frame_draw_the_same_anchor_as_labels(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    boxes = boxes_on(tmp_path / "boxes.csv", range(48))
    by_box = build([path], tmp_path / "a", BuildOptions(boxes=boxes)).dataset
    by_label = build([path], tmp_path / "b", BuildOptions(label=("dog",))).dataset
    assert by_box.sets.set_id.tolist() == by_label.sets.set_id.tolist()


def test_a_box_on_a_frame_the_video_has_not_is_refused(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    boxes = boxes_on(tmp_path / "boxes.csv", [12, 900])
    for label in ((), ("dog",)):
        with pytest.raises(StrobeError, match=r"boxes, line 3: .*frame 900, .* has frames 0–47"):
            build([path], tmp_path / f"out{len(label)}", BuildOptions(boxes=boxes, label=label))


def test_a_given_anchor_without_a_box_is_refused(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    (tmp_path / "anchors.csv").write_text("video,frame\none,12\n")
    options = BuildOptions(boxes=boxes_on(tmp_path / "boxes.csv", [13, 14]), anchors=tmp_path / "anchors.csv")
    with pytest.raises(StrobeError, match=r"1 given anchor\(s\) have no box, first one/000012.png"):
        build([path], tmp_path / "out", options)


def test_a_variable_rate_is_that_of_the_timestamps(make_clip: MakeClip, tmp_path: Path) -> None:
    """A header of 30 frames a second over timestamps of some 13: what is stored is what is shown."""
    pts = np.cumsum([0] + [40, 110, 75, 75] * 11 + [75] * 3).tolist()
    path = make_clip("one.mkv", pts=pts, time_base=Fraction(1, 1000), rate=30)
    built = build([path], tmp_path / "out", BuildOptions(label=("dog",)))
    fps = built.dataset.videos.fps(0)
    assert fps is not None
    assert float(fps) == pytest.approx(47 / (pts[-1] / 1000))
    assert any("by its timestamps, 30 by its header" in note for note in built.notes)


def test_a_steady_rate_stays_the_headers(make_clip: MakeClip, tmp_path: Path) -> None:
    for name in ("one.mp4", "one.mkv", "one.ts", "one.avi"):
        built = build([make_clip(name, rate=30)], tmp_path / name, BuildOptions(label=("dog",)))
        assert built.dataset.videos.fps(0) == 30
        assert not any("frames a second by" in note for note in built.notes)


def test_sets_at_an_end_and_long_sets_are_said(make_clip: MakeClip, tmp_path: Path) -> None:
    sampling = Sampling(k=10, every=8)
    built = build([make_clip("one.mp4", rate=10)], tmp_path / "out", BuildOptions(label=("dog",), sampling=sampling))
    assert built.dataset.sets.set_id.tolist() == ["one@10", "one@18", "one@26", "one@34", "one@42"]
    assert "1 of 5 set(s) are cut short by an end of their video" in built.notes
    assert any("k = 10 is ±1 s in one (10 a second), ±0.33 s at 30" in note for note in built.notes)
    quick = Sampling(k=3, every=8)
    built = build([make_clip("two.mp4", rate=25)], tmp_path / "quick", BuildOptions(label=("dog",), sampling=quick))
    assert built.notes == ()
