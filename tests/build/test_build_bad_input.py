"""Bad input: one line each, and nothing is lost of the rest."""

import os
import re
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from strobe.build.index import read_index
from strobe.build.options import AnchorOptions
from strobe.core.errors import InvalidFile, StrobeError
from strobe.store import dataset_folder as folder
from strobe.workflows.build import build
from strobe.workflows.options import BuildOptions

MakeClip = Callable[..., Path]

DOG = BuildOptions(label=("dog",), sampling=AnchorOptions(k=3))


def sound_only(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(16000))


def unknown_codec(good: bytes) -> bytes:
    """The mp4 with a codec tag nobody knows."""
    return good.replace(b"avc1", b"zzzz").replace(b"avcC", b"zzzC")


PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nhttp://example.invalid/x.ts\n#EXT-X-ENDLIST\n"

CASES: dict[str, tuple[str, Callable[[Path, bytes], object], str]] = {
    "not a video": ("x.mp4", lambda path, _: path.write_text("This is a letter, not a video.\n" * 50), "not a video"),
    "random bytes": ("x.mkv", lambda path, _: path.write_bytes(os.urandom(5000)), "not a video"),
    "empty file": ("x.mp4", lambda path, _: path.write_bytes(b""), r"empty \(0 bytes\)"),
    "a folder": ("x.mp4", lambda path, _: path.mkdir(), "is a folder"),
    "missing": ("x.mp4", lambda path, _: None, "no such file"),
    "sound only": ("x.wav", lambda path, _: sound_only(path), "sound but no image"),
    "unknown codec": ("x.mp4", lambda path, good: path.write_bytes(unknown_codec(good)), "codec|decoded"),
    "header only": ("x.mp4", lambda path, good: path.write_bytes(good[:40]), "not a video|no video|no frame"),
    "playlist to a URL": ("x.m3u8", lambda path, _: path.write_text(PLAYLIST), "playlist"),
    "playlist named mp4": ("x.mp4", lambda path, _: path.write_text(PLAYLIST), "playlist"),
    "concat script": (
        "x.mp4",
        lambda path, _: path.write_text("ffconcat version 1.0\nfile '/etc/passwd'\n"),
        "playlist",
    ),
    "dash manifest": ("x.mpd", lambda path, _: path.write_text('<?xml version="1.0"?><MPD></MPD>'), "playlist"),
    "sdp": (
        "x.sdp",
        lambda path, _: path.write_text("v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n"),
        "playlist",
    ),
    "a fifo": ("x.mp4", lambda path, _: os.mkfifo(path), "not a regular file"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_bad_video_is_one_line_and_the_rest_goes_on(case: str, make_clip: MakeClip, tmp_path: Path) -> None:
    name, spoil, message = CASES[case]
    good = make_clip("good.mp4")
    bad = tmp_path / name
    spoil(bad, good.read_bytes())
    built = build([good, bad], tmp_path / "out", DOG)
    assert len(built.problems) == 1
    assert "\n" not in built.problems[0]
    assert name in built.problems[0]
    assert str(tmp_path) not in built.problems[0]
    with pytest.raises(StrobeError, match=message):
        raise StrobeError(built.problems[0])
    dataset = folder.read(tmp_path / "out")
    assert list(dataset.videos.name) == ["good"]
    assert dataset.info.provenance["left_out"] == list(built.problems)
    with pytest.raises(StrobeError, match="no video could be used"):
        build([bad], tmp_path / "alone", DOG)
    assert not folder.is_dataset(tmp_path / "alone")
    with pytest.raises(StrobeError, match="--strict"):
        build([good, bad], tmp_path / "strict", BuildOptions(label=("dog",), strict=True))
    assert not folder.is_dataset(tmp_path / "strict")


@pytest.mark.parametrize(("name", "codec"), [("x.mp4", "libx264"), ("x.mkv", "libx264"), ("x.avi", "mpeg4")])
def test_zero_frames(name: str, codec: str, make_clip: MakeClip, tmp_path: Path) -> None:
    import av

    with av.open(str(tmp_path / name), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        container.start_encoding()
    built = build([make_clip("good.mp4"), tmp_path / name], tmp_path / "out", DOG)
    (problem,) = built.problems
    assert "no frame" in problem or "no video stream" in problem or "not a video" in problem
    assert "\n" not in problem


def test_a_title_that_is_not_utf8_is_no_fault(make_clip: MakeClip, tmp_path: Path) -> None:
    clip = make_clip("good.mkv")
    whole = clip.read_bytes()
    assert whole.count(b"Lavf") > 0
    clip.write_bytes(whole.replace(b"Lavf", b"\xff\xfeav"))
    assert build([clip], tmp_path / "out", DOG).problems == ()


def test_pyav_without_metadata_errors(make_clip: MakeClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyAV 19 dropped the setting: it must not be given where it is not known."""
    import av

    clip, plain = make_clip("good.mp4"), av.open

    def as_in_19(file: str, mode: str = "r", **settings: object) -> object:
        if "metadata_errors" in settings:
            raise TypeError("open() got an unexpected keyword argument 'metadata_errors'")
        return plain(file, mode, **settings)

    monkeypatch.setattr(av, "open", as_in_19)
    monkeypatch.setattr(av.container, "InputContainer", type("InputContainer", (), {}))
    assert build([clip], tmp_path / "out", BuildOptions(label=("dog",), workers=1)).problems == ()


def test_two_files_of_one_stem_get_names_of_their_own(make_clip: MakeClip, tmp_path: Path) -> None:
    good, beside, other = make_clip("good.mp4", n=12), make_clip("good.mkv", n=14), make_clip("other.mp4", n=16)
    (tmp_path / "b").mkdir()
    apart = make_clip("moved.mp4", n=20).rename(tmp_path / "b/good.mp4")
    folder_name = good.parent.name
    named = [f"{folder_name}·good.mkv", f"{folder_name}·good.mp4", "b·good", "other"]
    labels = tmp_path / "labels.csv"
    labels.write_text(f"video,label\n{good},dog\ngood.mkv,cat\nb·good,fox\nother,fox\n")
    built = build(
        [good, beside, apart, other], tmp_path / "out", BuildOptions(labels=labels, sampling=AnchorOptions(k=2))
    )
    assert built.dataset.videos.name.tolist() == sorted(named)
    said = dict(zip(built.dataset.frames.key.tolist(), built.dataset.labels.label.tolist(), strict=True))
    assert {key.partition("/")[0]: built.dataset.info.label_space.names[label] for key, label in said.items()} == {
        named[0]: "cat", named[1]: "dog", named[2]: "fox", "other": "fox",
    }  # fmt: skip
    labels.write_text("video,label\ngood,dog\n")
    with pytest.raises(StrobeError, match=r"labels.csv: 'good' matches 3 videos; write b·good or .*, or its path"):
        build([good, beside, apart], tmp_path / "out2", BuildOptions(labels=labels))
    assert not (tmp_path / "out2").exists()


def test_given_twice_and_copies(make_clip: MakeClip, tmp_path: Path) -> None:
    good = make_clip("good.mp4")
    with pytest.raises(StrobeError, match="given twice"):
        build([good, good], tmp_path / "out", DOG)
    assert not (tmp_path / "out").exists()
    copy = tmp_path / "zcopy.mp4"
    copy.write_bytes(good.read_bytes())
    built = build([good, copy], tmp_path / "out", DOG)
    assert built.problems == ("zcopy: it has the same content as good",)


def test_labels_for_videos_that_are_not_there_and_the_reverse(make_clip: MakeClip, tmp_path: Path) -> None:
    good, bare = make_clip("good.mp4"), make_clip("bare.mp4", n=20)
    labels = tmp_path / "labels.csv"
    labels.write_text("video,label\ngood.mp4,dog\nghost.mp4,cat\n")
    with pytest.raises(StrobeError, match=r"labels.csv: names 1 video\(s\) that were not given: ghost.mp4"):
        build([good], tmp_path / "out", BuildOptions(labels=labels))
    labels.write_text("video,label\ngood.mp4,dog\n")
    with pytest.raises(StrobeError, match=r"no label for 1 of 2 video\(s\): bare.mp4"):
        build([good, bare], tmp_path / "out", BuildOptions(labels=labels))
    assert not (tmp_path / "out").exists()
    built = build([good, bare], tmp_path / "out", BuildOptions(labels=labels, unlabelled=True))
    assert not built.problems
    with pytest.raises(StrobeError, match="the videos have no labels"):
        build([good], tmp_path / "out2", BuildOptions())
    with pytest.raises(StrobeError, match="--label-space"):
        build([good], tmp_path / "out2", BuildOptions(unlabelled=True))
    empty = build([good], tmp_path / "out2", BuildOptions(unlabelled=True, label_space="imagenet-vid")).dataset
    assert len(empty.info.label_space) == 30
    with pytest.raises(StrobeError, match="unknown class of imagenet-vid 'dgo'; did you mean dog"):
        build([good], tmp_path / "out3", BuildOptions(label=("dgo",), label_space="imagenet-vid"))


def test_a_span_outside_the_video_spoils_that_video_only(make_clip: MakeClip, tmp_path: Path) -> None:
    good, other = make_clip("good.mp4"), make_clip("other.mp4", n=20)
    labels = tmp_path / "labels.csv"
    labels.write_text("video,label,start_s,end_s\ngood,dog,0,1\nother,dog,90,95\n")
    built = build([good, other], tmp_path / "out", BuildOptions(labels=labels))
    assert built.problems == ("other.mp4: labels.csv, line 3: the span 90–95 s is outside the video (0–0.760 s)",)
    assert list(built.dataset.videos.name) == ["good"]


def test_frames_too_large_are_refused_before_they_are_decoded(make_clip: MakeClip, tmp_path: Path) -> None:
    wide = make_clip("wide.mkv", codec="ffv1", size=(30_000, 16), n=2)
    built = build([wide, make_clip("good.mp4")], tmp_path / "out", DOG)
    assert len(built.problems) == 1
    assert "30000×16 pixels; the limit is 16384 pixels a side" in built.problems[0]
    assert "--max-side" in built.problems[0]


def test_frames_that_change_size_on_the_way(make_clip: MakeClip, tmp_path: Path) -> None:
    one, two = make_clip("one.ts", n=20), make_clip("two.ts", n=20, size=(128, 80))
    path = tmp_path / "both.ts"
    path.write_bytes(one.read_bytes() + two.read_bytes())
    options = BuildOptions(label=("dog",), sampling=AnchorOptions(k=30, every=100))
    dataset = build([path], tmp_path / "out", options).dataset
    sizes = list(zip(dataset.frames.width.tolist(), dataset.frames.height.tolist(), strict=True))
    assert sizes == [(96, 64)] * 20 + [(128, 80)] * 20
    assert dataset.hints is not None
    assert dataset.hints.cut[20:].min() == 1.0  # a new size is a new scene


def test_odd_names_stay_inside_the_folder(make_clip: MakeClip, tmp_path: Path) -> None:
    made = make_clip("plain.mp4")
    odd = [made.with_name(name) for name in ("...mp4", "a\nb.mp4", "-rf.mp4", "ünï cödé.mp4", "x" * 200 + ".mp4")]
    for number, path in enumerate(odd):
        path.write_bytes(make_clip("plain.mp4", n=20 + number).read_bytes())
    out = tmp_path / "deep" / "out"
    built = build(odd, out, DOG)
    assert not built.problems
    assert len(built.dataset.videos) == 5
    media = {(out / name).resolve() for name in built.dataset.frames.media}
    assert all(path.is_relative_to((out / "media").resolve()) and path.is_file() for path in media)


def test_a_gif_whose_images_have_no_delays_is_refused(tmp_path):
    """FFmpeg shows one image of such a file, so five frames silently became one."""
    rng = np.random.default_rng(0)
    first, *rest = [Image.fromarray(rng.integers(0, 255, (32, 32, 3)).astype(np.uint8)) for _ in range(5)]
    path = tmp_path / "five.gif"
    first.save(path, save_all=True, append_images=rest, duration=20, disposal=2)
    assert len(read_index(path)) == 5
    path.write_bytes(re.sub(rb"\x21\xf9\x04....\x00", b"", path.read_bytes(), flags=re.DOTALL))
    with pytest.raises(InvalidFile, match="has 5 images without delays, of which FFmpeg shows one; give each image"):
        read_index(path)
