"""Build the synthetic datasets of the golden files. They cover every optional table and every scoring rule."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

import strobe

Row = dict[str, Any]
Pixels = np.ndarray[Any, np.dtype[np.uint8]]

TEXT, INT, FLOAT, BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "videos": {
        "video_id": TEXT, "name": TEXT, "fps_num": INT, "fps_den": INT, "n_frames": INT, "path": TEXT, "codec": TEXT,
    },
    "frames": {
        "frame_id": TEXT, "video_id": TEXT, "index": INT, "key": TEXT, "pts": INT, "time_num": INT, "time_den": INT,
        "pict_type": TEXT, "width": INT, "height": INT, "sha256": TEXT, "media": TEXT,
    },
    "sets": {"set_id": TEXT, "frame_id": TEXT, "distance": FLOAT, "is_anchor": BOOL},
    "labels": {"frame_id": TEXT, "label": TEXT},
    "boxes": {
        "frame_id": TEXT, "label": TEXT, "x0": FLOAT, "y0": FLOAT, "x1": FLOAT, "y1": FLOAT, "track": INT,
        "crowd": BOOL,
    },
    "hints": {
        "set_id": TEXT, "frame_id": TEXT, "cut": FLOAT, "blur": FLOAT, "motion": FLOAT, "exposure": FLOAT,
        "duplicate": BOOL,
    },
    "verdicts": {
        "verdict_id": TEXT, "annotator": TEXT, "at": TEXT, "stage": TEXT, "set_id": TEXT, "frame_id": TEXT,
        "decision": TEXT, "label_right": BOOL, "reason": TEXT, "bad_anchor": BOOL, "labels": pa.list_(TEXT),
        "note": TEXT, "seconds": FLOAT, "page_version": TEXT,
    },
}  # fmt: skip


@dataclass
class Folder:
    """A dataset folder under construction: the fields of dataset.json and the rows of its tables."""

    root: Path
    info: Row
    tables: dict[str, list[Row]] = field(
        default_factory=lambda: {name: [] for name in ("videos", "frames", "sets", "labels")}
    )

    def add(self, table: str, **row: Any) -> None:
        """Add a row. Missing columns are null."""
        self.tables.setdefault(table, []).append({name: row.get(name) for name in COLUMNS[table]})

    def frame(self, video: str, index: int, **row: Any) -> str:
        """Add a frame's row and return its id."""
        name = f"{video}:{index}"
        self.add("frames", frame_id=name, video_id=video, index=index, **row)
        return name

    def picture(self, relative: str, pixels: Pixels) -> Row:
        """Store a PNG, and return the values for the frame's row, including the digest of its pixels."""
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, optimize=True)
        return {
            "media": relative, "width": pixels.shape[1], "height": pixels.shape[0],
            "sha256": hashlib.sha256(pixels.tobytes()).hexdigest(),
        }  # fmt: skip

    def write(self) -> None:
        """Write the tables, then read and rewrite them with strobe. The result is the golden folder."""
        self.root.mkdir(parents=True, exist_ok=True)
        for name, rows in self.tables.items():
            schema = pa.schema(list(COLUMNS[name].items()))
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), self.root / f"{name}.parquet")
        (self.root / "dataset.json").write_text(json.dumps({"schema": 1, **self.info}), encoding="utf-8")
        strobe.save_dataset(strobe.load_dataset(self.root, reviewed=False), self.root, overwrite=True)


def _info(name: str, k: int, space: strobe.LabelSpace, **more: Any) -> Row:
    return {
        "name": name, "version": "1", "axis": "frame-offset", "k": k, "label_source": "frame", "reviewed": "none",
        "licence": "made up", "provenance": {"made_by": "make_golden"}, "label_space": space.to_json(), **more,
    }  # fmt: skip


def _names(name: str, classes: list[str]) -> strobe.LabelSpace:
    return strobe.LabelSpace.of_names(name, classes)


def _shade(rng: np.random.Generator, colour: int, size: int = 8) -> Pixels:
    """Return a noisy image in which one colour is usually the strongest."""
    base = rng.integers(40, 90, size=3)
    base[colour] += int(rng.integers(-10, 70))
    return np.asarray(np.clip(base + rng.integers(-30, 31, size=(size, size, 3)), 0, 255), dtype=np.uint8)


def video(root: Path, rng: np.random.Generator) -> Folder:
    """Build videos with two overlapping sets each, several labels per frame, hints, times and image types.

    One video has no times.
    """
    classes = ["red", "green", "blue", "yellow", "dark"]
    out = Folder(root, _info("golden-video", 4, _names("golden colours", classes)))
    rates = [(25, 1), (30000, 1001), (25, 1), (24, 1), (50, 1), None]
    for number, rate in enumerate(rates):
        name, colour = f"{number:02x}aa{number:02x}bb", number % 3
        fps = {} if rate is None else {"fps_num": rate[0], "fps_den": rate[1]}
        out.add("videos", video_id=name, name=f"clip {number}", n_frames=13 if number else None, codec="h264", **fps)
        for index in range(13):
            time = {} if rate is None else {"time_num": index * rate[1], "time_den": rate[0], "pts": 512 * index}
            about = out.picture(f"media/{name}/{index:03d}.png", _shade(rng, colour))
            kind = "I" if index % 12 == 0 else "P" if index % 3 == 0 else "B"
            frame = out.frame(name, index, key=f"clip-{number}/{index:03d}.png", pict_type=kind, **time, **about)
            out.add("labels", frame_id=frame, label=classes[colour])
            for label, chance in (("yellow", 0.2), ("dark", 0.1), (classes[(colour + 1) % 3], 0.1)):
                if rng.random() < chance:
                    out.add("labels", frame_id=frame, label=label)
        for anchor in (4, 8):
            for index in range(anchor - 4, anchor + 5):
                if index != anchor and rng.random() < 0.08:
                    continue
                pair = {"set_id": f"{name}-{anchor}", "frame_id": f"{name}:{index}"}
                out.add("sets", **pair, distance=float(index - anchor), is_anchor=index == anchor)
                values = (rng.integers(0, 1000, size=4) / 1000).tolist()
                hints = dict(zip(("cut", "blur", "motion", "exposure"), values, strict=True))
                out.add("hints", **pair, **hints, duplicate=bool(rng.random() < 0.05))
    return out


def boxes(root: Path, rng: np.random.Generator) -> Folder:
    """Build frames with two moving squares and tracks. Some frames have a crowd, and some are empty."""
    classes = ["red", "green", "blue"]
    out = Folder(root, _info("golden-boxes", 3, _names("golden squares", classes)))
    for number in range(6):
        name = f"box{number}"
        out.add("videos", video_id=name, name=name, fps_num=30, fps_den=1, n_frames=7)
        for index in range(7):
            pixels = 40 * rng.integers(0, 3, size=(16, 16, 3), dtype=np.uint8)
            squares: list[tuple[int, list[float], int | None, bool]] = []
            for track in range(1 + number % 2):
                colour = (number + track) % 3
                x, y = 1 + index + 2 * track, 2 + 6 * track + number % 2
                bright = 200 if rng.random() < 0.85 else 110
                pixels[y : y + 5, x : x + 5, colour] = bright
                wide = 5.0 + (0.0 if rng.random() < 0.8 else 2.5)
                squares.append((colour, [float(x), float(y), x + wide, y + 5.0], track, False))
            if index == 3 and number == 2:
                squares.append((0, [0.0, 12.0, 16.0, 16.0], None, True))
            about = out.picture(f"media/{name}/{index}.png", pixels)
            frame = out.frame(name, index, key=f"{name}/{index}.png", time_num=index, time_den=30, **about)
            for colour in sorted({square[0] for square in squares}):
                out.add("labels", frame_id=frame, label=classes[colour])
            for colour, (x0, y0, x1, y1), one, crowd in squares:
                place = {"x0": x0, "y0": y0, "x1": x1, "y1": y1}
                out.add("boxes", frame_id=frame, label=classes[colour], **place, track=one, crowd=crowd)
            out.add("sets", set_id=f"{name}-3", frame_id=frame, distance=float(index - 3), is_anchor=index == 3)
    return out


def votes(root: Path, rng: np.random.Generator) -> Folder:
    """Build a dataset with ImageNet-Vid's classes and votes of every stage: pair, verify, joint and anchor."""
    space = strobe.space("imagenet-vid")
    out = Folder(root, _info("golden-votes", 3, space, reviewed="votes"))
    for number in range(14):
        name = f"vid{number:02d}"
        out.add("videos", video_id=name, name=f"ILSVRC_made_{number:02d}", fps_num=25, fps_den=1)
        label = space.ids[(7 * number) % 30]
        for index in range(7):
            frame = out.frame(name, index, key=f"val/{name}/{index:06d}.JPEG")
            out.add("labels", frame_id=frame, label=label)
            out.add("sets", set_id=f"{name}-3", frame_id=frame, distance=float(index - 3), is_anchor=index == 3)
            if index != 3:
                _vote_on_pair(out, rng, number, f"{name}-3", frame)
        if number % 2 == 0:
            for one in ("ann", "ben"):
                seen = [label] if number % 4 else [label, space.ids[(7 * number + 3) % 30]]
                _vote(out, number, one, "anchor", f"{name}-3", f"{name}:3", "similar", labels=seen)
    _vote(out, 9, "ann", "anchor", "vid09-3", "vid09:3", "dissimilar")
    _vote(out, 0, "ann", "pair", "vid00-3", "vid01:0", "dissimilar", reason="other", note="a control pair")
    return out


def _vote_on_pair(out: Folder, rng: np.random.Generator, number: int, set_id: str, frame: str) -> None:
    decisions = []
    for one in ("ann", "ben"):
        luck = rng.random()
        decision = "similar" if luck < 0.75 else "dissimilar" if luck < 0.9 else "unsure"
        reason = "blur" if decision == "dissimilar" else ""
        right = None if luck < 0.3 else bool(luck < 0.7 or decision != "similar")
        _vote(out, number, one, "pair", set_id, frame, decision, reason=reason, label_right=right, seconds=luck * 8)
        decisions.append(decision)
    if decisions[0] != decisions[1]:
        verdict = "similar" if rng.random() < 0.5 else "dissimilar"
        _vote(out, number, "cleo", "verify", set_id, frame, verdict, reason="motion" if verdict != "similar" else "")
    if decisions == ["unsure", "unsure"] or rng.random() < 0.05:
        _vote(out, number, "ann", "joint", set_id, frame, "similar", bad_anchor=number == 11)


def _vote(out: Folder, number: int, who: str, stage: str, set_id: str, frame: str, decision: str, **more: Any) -> None:
    place = len(out.tables.get("verdicts", []))
    plain = {"reason": "", "bad_anchor": False, "labels": [], "note": "", "page_version": "golden"}
    out.add(
        "verdicts", **(plain | more), verdict_id=f"vote-{place:04d}", annotator=who, stage=stage, set_id=set_id,
        frame_id=frame, decision=decision, at=f"2024-05-{number + 1:02d}T10:{place % 60:02d}:00+00:00",
    )  # fmt: skip


def severity(root: Path, rng: np.random.Generator) -> Folder:
    """Build a dataset with a severity axis: two variants of five levels per image, with a shared anchor.

    Some top levels are missing.
    """
    classes = ["lion", "wolf", "bear", "fox"]
    out = Folder(root, _info("golden-severity", 5, _names("golden animals", classes), axis="severity"))
    for number in range(10):
        name = f"pic{number}"
        out.add("videos", video_id=name, name=name, n_frames=11)
        for index in range(11):
            out.frame(name, index, key=f"{name}/{index}", sha256=hashlib.sha256(f"{name} {index}".encode()).hexdigest())
            out.add("labels", frame_id=f"{name}:{index}", label=classes[number % 4])
        for ladder, first in (("noise", 1), ("blur", 6)):
            top = 4 if rng.random() < 0.2 else 5
            out.add("sets", set_id=f"{name}-{ladder}", frame_id=f"{name}:0", distance=0.0, is_anchor=True)
            for step in range(1, top + 1):
                frame = f"{name}:{first + step - 1}"
                out.add("sets", set_id=f"{name}-{ladder}", frame_id=frame, distance=float(step), is_anchor=False)
    return out


def anchor(root: Path, rng: np.random.Generator) -> Folder:
    """Build a dataset with Youtube-BB's classes.

    Members are scored with their anchor's labels, and one image is unreadable. One label, cow, is not a class of
    ILSVRC-2012.
    """
    space = strobe.space("youtube-bb")
    out = Folder(root, _info("golden-anchor", 2, space, label_source="anchor", reviewed="release"))
    for number in range(7):
        name, label = f"yt{number}", ("cat", "dog", "bird")[number % 3] if number != 3 else "cow"
        out.add("videos", video_id=name, name=f"youtube {number}", fps_num=30000, fps_den=1001)
        for index in range(5):
            about = out.picture(f"media/{name}/{index}.png", _shade(rng, number % 3))
            time = {"time_num": index * 1001, "time_den": 30000}
            frame = out.frame(name, index, key=f"{name}_1000/frame-{index}.jpg", **time, **(about | {"sha256": None}))
            if index == 2:
                out.add("labels", frame_id=frame, label=label)
                if number == 4:
                    out.add("labels", frame_id=frame, label="person")
            elif number == 5:
                out.add("labels", frame_id=frame, label="boat")
            out.add("sets", set_id=f"{name}-2", frame_id=frame, distance=float(index - 2), is_anchor=index == 2)
    (root / "media/yt6/4.png").write_bytes(b"no image at all\n")
    return out


MAKERS = {"video": video, "boxes": boxes, "votes": votes, "severity": severity, "anchor": anchor}
