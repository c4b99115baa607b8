"""`strobe build` on the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strobe.store import dataset_folder as folder

MakeClip = Callable[..., Path]


def test_json(make_clip: MakeClip, tmp_path: Path, command: Any) -> None:
    (tmp_path / "bad.mp4").write_text("no video")
    videos = [make_clip("good.mp4"), tmp_path / "bad.mp4"]
    code, out, err = command(
        "build", *videos, tmp_path / "out", "--label", "dog", "--json", "--workers", 1, "--drop-cuts"
    )
    said = json.loads(out)
    assert (code, err) == (1, "")
    assert said["n_videos"] == 1
    assert said["digest"] == folder.read(tmp_path / "out").digest()
    assert len(said["left_out"]) == 1
    assert said["dropped"]["members"] == said["dropped"]["cut"]


def test_what_was_left_out_is_said(make_clip: MakeClip, tmp_path: Path, command: Any) -> None:
    (tmp_path / "bad.mp4").write_text("no video")
    videos = [make_clip("good.mp4"), tmp_path / "bad.mp4"]
    for quiet in ([], ["-q"]):
        arguments = [*videos, tmp_path / f"out{len(quiet)}", "--label", "dog", "--workers", 1, *quiet]
        code, out, err = command("build", *arguments)
        assert code == 1
        assert err.count("skipped: bad.mp4: not a video") == 1
        assert "1 of 2 videos skipped" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the videos have no labels"),
        (("--label", "dog", "--k", -1), "--k"),
        (("--label", "dog", "--labels", "x.csv"), "--labels and --label both"),
        (("--label", "dog", "--k", 3, "--window", 100), "--window and --k both"),
        (
            ("--label", "dog", "--every", 3, "--anchors-per-video", 2),
            "--every and --anchors-per-video exclude each other",
        ),
        (("--label", "dog", "--anchors", "x.csv", "--every", 3), "--anchors names every anchor"),
        (("--label", "dog", "--cut-threshold", 0.2), "add --drop-cuts"),
        (("--label", "dog", "--reference", "--store", "webp"), "remove --store"),
        (("--labels", "absent.csv"), "no such file"),
        (("--label", "dog", "--store", "gif"), "gif"),
        (("--label", "dog", "--no-hints", "--drop-duplicates"), "--no-hints"),
        (("--label", "dog", "--label-space", "imagenet-vidd"), "imagenet-vid"),
    ],
)
def test_errors_are_one_line_and_exit_2(
    arguments: tuple[object, ...], message: str, make_clip: MakeClip, tmp_path: Path, command: Any
) -> None:
    code, out, err = command("build", make_clip("good.mp4"), tmp_path / "out", *arguments, "--workers", 1)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "out").exists()


def test_folders_of_classes_say_what_the_videos_show(make_clip: MakeClip, tmp_path: Path, command: Any) -> None:
    """Before, `build` refused the folder that `simulate` takes: "is a folder, not a video"."""
    for number, name in enumerate(("Dog", "dog", "cat")):
        (tmp_path / "videos" / name).mkdir(parents=True)
        make_clip(f"videos/{name}/clip.mp4", n=20 + number)
    (tmp_path / "videos/notes.txt").write_text("not a video")
    code, out, err = command("build", tmp_path / "videos", tmp_path / "out", "--k", 2, "--workers", 1, "-q")
    assert code == 0, err
    assert "3 videos" in out
    dataset = folder.read(tmp_path / "out")
    assert dataset.info.label_space.names == ("Dog", "cat", "dog")
    shown = dict(
        zip(dataset.videos.name[dataset.frames.video[dataset.labels.frame]], dataset.labels.label, strict=True)
    )
    names = dataset.info.label_space.names
    assert {video.partition("·")[0]: names[label] for video, label in shown.items()} == {n: n for n in names}
    code, _, err = command("build", tmp_path / "videos", tmp_path / "other", "--k", 2, "--workers", 1)
    assert "classes that differ only in case or spaces count as different: 'Dog' and 'dog'; use one spelling" in err
    code, out, _ = command("build", tmp_path / "videos", tmp_path / "third", "--label", "pet", "--k", 2, "-q")
    assert folder.read(tmp_path / "third").info.label_space.names == ("pet",), "what is said goes before folders"
