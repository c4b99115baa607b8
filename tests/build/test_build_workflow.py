"""`strobe build` from videos to a dataset folder."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from strobe.build.options import AnchorOptions, DropRules
from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.workflows.build import build
from strobe.workflows.options import BuildOptions

MakeClip = Callable[..., Path]

DOG = BuildOptions(label=("dog",), sampling=AnchorOptions(k=3, anchors_per_video=2))


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


SLOW = """
import sys, time
from pathlib import Path
from strobe.build import extract
from strobe.build.options import AnchorOptions
from strobe.workflows.build import build
from strobe.workflows.options import BuildOptions

# A build slow enough to be interrupted in the middle: it rests after every frame it stores, in worker processes, too.
store = extract._FrameWriter._store
def slowly(self, frame):
    row = store(self, frame)
    time.sleep(2)
    return row
extract._FrameWriter._store = slowly

if __name__ == "__main__":
    videos, out, workers = sys.argv[3:], Path(sys.argv[1]), int(sys.argv[2])
    options = BuildOptions(label=("dog",), sampling=AnchorOptions(k=3, anchors_per_video=2), workers=workers)
    build([Path(video) for video in videos], out, options)
"""


@pytest.mark.slow
def test_ctrl_c_ends_workers_at_once_and_loses_nothing(clips: list[Path], tmp_path: Path, started: Any) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    out = tmp_path / "out"
    command = [sys.executable, str(script), str(out), "2", *map(str, clips)]
    process = started(command, start_new_session=True, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(out.rglob("*.zst")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    _, said = process.communicate(timeout=600)
    assert len(list((out / ".build").glob("*.json"))) < len(clips), "it ends before the work does"
    assert b"KeyboardInterrupt" in said
    build(clips, out, DOG)
    build(clips, tmp_path / "whole" / "out", DOG)
    assert contents(out) == contents(tmp_path / "whole" / "out")


CRASHING = """
import os, sys
from pathlib import Path
from strobe.build import extract
from strobe.workflows.build import build
from strobe.workflows.options import BuildOptions

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
    assert done.stdout.strip() == "two.mkv: the decoder crashed on this video|['one', 'three']"


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
    for row in range(len(other.frames)):  # the hash is of the pixels a reader sees, or of a JPEG's file
        data = (tmp_path / store / other.frames.media[row]).read_bytes()
        if not exact:
            assert hashlib.sha256(data).hexdigest() == other.frames.sha256[row]
            continue
        with Pillow.open(io.BytesIO(data)) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        assert hashlib.sha256(pixels.tobytes()).hexdigest() == other.frames.sha256[row]


def test_a_mix_of_two_builds_is_seen(make_clip: MakeClip, tmp_path: Path) -> None:
    """Frames of JPEG had digests that nobody could check: with a frame of another build all went on in silence."""
    jpeg = replace(DOG, store="jpeg")
    one = build([make_clip("one.mp4")], tmp_path / "one", jpeg).dataset
    source = MediaSource(one)
    assert source.path(3).read_bytes() != source.path(9).read_bytes()
    source.path(3).write_bytes(source.path(9).read_bytes())
    for read in (source.read, source.read_encoded):
        with pytest.raises(StrobeError, match="not the image the dataset was made with"):
            read(3)
        read(4)


def test_scene_cuts_are_dropped_on_request_and_counted(make_clip: MakeClip, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def scene(warm: bool) -> np.ndarray:
        small = rng.integers(0, 120, (8, 12, 3), dtype=np.uint8)
        small[..., 0 if warm else 2] += 130
        return np.asarray(Pillow.fromarray(small).resize((96, 64), Pillow.Resampling.BICUBIC))

    before, after = scene(True), scene(False)
    path = make_clip("cut.mp4", images=[before] * 12 + [after] * 12)
    (tmp_path / "anchors.csv").write_text("video,frame\ncut,10\n")
    plain = BuildOptions(label=("dog",), anchors=tmp_path / "anchors.csv", sampling=AnchorOptions(k=5))
    everything = build([path], tmp_path / "all", plain).dataset
    assert len(everything.sets.set) == 11
    assert everything.hints is not None
    beyond = everything.frames.index[everything.sets.frame] >= 12
    assert ((everything.hints.cut > 0.35) == beyond).all()
    options = BuildOptions(
        label=("dog",), anchors=tmp_path / "anchors.csv", sampling=AnchorOptions(k=5), drop=DropRules(cut=0.35)
    )
    built = build([path], tmp_path / "dropped", options)
    assert built.dropped == {"cut": 4, "members": 4}
    dataset = folder.read(tmp_path / "dropped")
    assert dataset.frames.index[dataset.sets.frame].tolist() == list(range(5, 12))
    assert dataset.info.provenance["dropped"] == {"cut": 4, "members": 4}
    assert len(dataset.frames) == 11  # smoothing over time still sees what was dropped


def test_a_variable_rate_is_that_of_the_timestamps(make_clip: MakeClip, tmp_path: Path) -> None:
    """A header of 30 frames a second over timestamps of some 13: what is stored is what is shown."""
    pts = np.cumsum([0] + [40, 110, 75, 75] * 11 + [75] * 3).tolist()
    path = make_clip("one.mkv", pts=pts, time_base=Fraction(1, 1000), rate=30)
    built = build([path], tmp_path / "out", BuildOptions(label=("dog",)))
    fps = built.dataset.videos.fps(0)
    assert fps is not None
    assert float(fps) == pytest.approx(47 / (pts[-1] / 1000))
    assert any("its timestamps give it, its header 30" in note for note in built.notes)


def test_sets_at_an_end_and_long_sets_are_said(make_clip: MakeClip, tmp_path: Path) -> None:
    sampling = AnchorOptions(k=10, every=8)
    built = build([make_clip("one.mp4", rate=10)], tmp_path / "out", BuildOptions(label=("dog",), sampling=sampling))
    assert built.dataset.sets.set_id.tolist() == ["one@10", "one@18", "one@26", "one@34", "one@42"]
    assert "1 of 5 set(s) are shorter than k, because their video starts or ends there" in built.notes
    assert any("k = 10 spans ±1 s in one (10 fps), but ±0.33 s at 30" in note for note in built.notes)
    quick = AnchorOptions(k=3, every=8)
    built = build([make_clip("two.mp4", rate=25)], tmp_path / "quick", BuildOptions(label=("dog",), sampling=quick))
    assert built.notes == ()
