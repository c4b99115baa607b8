"""strobe inspect as a user meets it: the figures, and a contact sheet whose pixels are where they should be."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from strobe.cli.inspect import command
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import InvalidValue, StrobeError
from strobe.core.labels import space
from strobe.core.records import Verdict
from strobe.core.tables import Hints
from strobe.store import dataset_folder as folder
from strobe.workflows.inspect import inspect, lines, sheet

ANCHOR_BLUE, CROSS, YELLOW = (0, 114, 178), (213, 94, 0), (240, 228, 66)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three sets of ±2 of flat green frames with a box; the second set has a gap; a cow is out of ILSVRC's reach."""
    root, made, youtube = tmp_path / "set", DatasetBuilder(), space("youtube-bb")
    for v, name in enumerate(("dog", "cow", "bird")):
        video = made.video(video_id=f"v{v}", name=name, fps=Fraction(25), codec="h264")
        rows = []
        for i in range(5):
            media = f"media/{name}/{i}.png"
            (root / media).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (160, 90), (0, 40 * i + 40, 0)).save(root / media)
            rows.append(
                made.frame(
                    video=video, index=i, key=f"{name}/{i}.png", media=media, size_wh=(160, 90),
                    labels=[youtube.index(name)], pict_type="IPBPB"[i], time_s=Fraction(i, 25),
                )
            )  # fmt: skip
            made.box(frame=rows[-1], label=youtube.index(name), xyxy=(40, 30, 80, 60), track=1)
        near = [i for i in (0, 1, 3, 4) if (v, i) != (1, 0)]
        made.set(set_id=f"{name}@2", anchor=rows[2], members=[(rows[i], i - 2) for i in near])
    data = made.build(DatasetInfo(name="three", label_space=youtube, k=2, licence="CC0"))
    n = len(data.sets.set)
    hints = Hints(
        cut=np.linspace(0, 1, n), blur=np.zeros(n), motion=np.ones(n), exposure=np.zeros(n),
        duplicate=np.arange(n) == 0,
    )  # fmt: skip
    folder.write(replace(data, hints=hints), root)
    return root


def test_the_figures_in_words(place: Path) -> None:
    text = "\n".join(lines(inspect(place)))
    for part in (
        "three (version 1, digest ",
        "3 videos, 3 sets, 11 members, 14 frames, 14 boxes in 3 tracks",
        "members per set 3–4 (median 4), 2 full, 0 with only the anchor",
        "k = 2 (frame-offset), labels by frame, classes of youtube-bb",
        "images: 14 stored; licence: CC0",
        "fps 25–25",
        "sets reach 80–80 ms",
        "frame types: I 2 (0 anchors), P 6 (0 anchors), B 6 (3 anchors)",
        "codecs: h264 3",
        "sizes: 160×90 (14)",
        "motion 1 / 1, ",
        "1 near-duplicates",
        "review: not reviewed yet",
        "ceiling for ilsvrc-2012 models: acc_orig 66.7 %, acc_pmk 66.7 %; 1 of 3 anchors show only cow,",
        "  +0 ████████████████████████      3",
        "  -2 ████████████████········      2",
    ):
        assert part in text, part


def test_json_alone_on_stdout(place: Path) -> None:
    done = CliRunner().invoke(command, [str(place), "--json", "--sheet", str(place.parent / "s.png")])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == inspect(place)
    assert (place.parent / "s.png").is_file()


def has(picture: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((picture == np.array(colour)).all(axis=2).sum())


def drawn(place: Path, **options) -> np.ndarray:
    path = place.parent / "sheet.png"
    sheet(place, path, **options)
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def test_the_sheet_shows_every_set_with_its_anchor_and_boxes(place: Path) -> None:
    whole = drawn(place)
    one = drawn(place, named=["dog@2"])
    assert whole.shape[1] == one.shape[1]
    assert whole.shape[0] > 2 * one.shape[0]
    assert has(one, ANCHOR_BLUE) > 1000
    assert 2.8 < has(whole, ANCHOR_BLUE) / has(one, ANCHOR_BLUE) < 3.2
    assert has(one, YELLOW) > 5 * 60
    assert has(one, CROSS) == 0
    greens = {40 * i + 40 for i in range(5)}
    assert greens <= {int(pixel[1]) for pixel in one.reshape(-1, 3) if pixel[0] == 0 and pixel[2] == 0}


def test_rejected_members_are_crossed(place: Path) -> None:
    votes = [
        Verdict(
            verdict_id=str(i), annotator="ann", at="2026-01-01T00:00:00Z", stage="pair", set_id="dog@2",
            frame_id=f"v0:{i}", decision="similar" if i else "dissimilar", reason="" if i else "blur",
        )
        for i in (0, 1, 3, 4)
    ]  # fmt: skip
    folder.append_verdicts(place, votes)
    one = drawn(place, named=["dog@2"])
    assert 300 < has(one, CROSS) < 3000, "one tile of five is crossed out"
    text = "\n".join(lines(inspect(place)))
    assert "review: 4 votes of 1 annotator; anchors 1 reviewed, 1 kept; pairs 4 reviewed, 3 kept, 7 pending" in text
    assert "reasons: blur 1" in text
    assert inspect(place)["ceiling"]["n"] == 1, "the ceiling is that of what is scored"


def test_a_frame_that_cannot_be_read_is_counted_and_shown(place: Path) -> None:
    (place / "media/dog/0.png").write_bytes(b"broken")
    assert sheet(place, place.parent / "s.png") == 1
    done = CliRunner().invoke(command, [str(place), "-q", "--sheet", str(place.parent / "s.png")])
    assert "1 frame(s) could not be read" in done.stderr


def test_bad_requests(place: Path) -> None:
    with pytest.raises(InvalidValue, match=r"'wolf@1' is not a set of three; sets are named like 'dog@2'"):
        sheet(place, place.parent / "s.png", named=["wolf@1"])
    with pytest.raises(InvalidValue, match="--sets: expected >= 1"):
        sheet(place, place.parent / "s.png", how_many=0)
    with pytest.raises(InvalidValue, match="--columns"):
        sheet(place, place.parent / "s.png", columns=0)
    with pytest.raises(StrobeError, match=r"unknown file name extension; use \.png"):
        sheet(place, place.parent / "s.docx")
    data = folder.read(place)
    bare = replace(data, frames=replace(data.frames, media=np.full(len(data.frames), "", dtype=object)))
    folder.write(bare, place.parent / "bare")
    with pytest.raises(StrobeError, match="has no images"):
        sheet(place.parent / "bare", place.parent / "s.png")
    assert not (place.parent / "s.png").exists()
