"""The chapter on flicker: a timeline for every video and model, and the frames around the most striking flips."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from strobe.analyses.video_plan import answer_labels, cut_frames, frames_along, without_cuts
from strobe.core.answers import Answers
from strobe.core.arrays import Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource
from strobe.metrics.flicker import spells
from strobe.report.gallery import picture
from strobe.report.study import Chapter, PageInput
from strobe.report.view import Lines
from strobe.report.wording import counted, percent, plain_number
from strobe.studies.unlabelled.chapter_links import life_strips, link_cases, outage_tables
from strobe.studies.unlabelled.records import FlickerResults
from strobe.studies.unlabelled.words import flicker_lines, ranked, spell_text

MOST_VIDEOS = 24
"""The most timelines on the page. Videos with more flips come first; tables/flicker_videos.csv has all of them."""

MOST_MODELS = 4
COLOURS = 7
"""How many of a video's most frequent answers have a colour of their own; all others are grey."""

MOST_FLIPS, MOST_PER_VIDEO = 18, 2
AROUND = 4
"""The number of frames shown before a flip, and from the flip on."""

SHOWN_PAIRS = 20


@dataclass(frozen=True)
class _Track:
    """The answers of one model along all videos, in the order of the frames."""

    name: str
    label: Ints
    confidence: Floats
    known: Any


def flicker_chapter(page: PageInput) -> Chapter | None:
    """Return the chapter, or None if these results have no flicker without labels."""
    flicker = page.view.results.flicker
    if flicker is None:
        return None
    content: dict[str, Any] = {
        "tables": [
            *flicker_lines(page.view, most=None),
            *_alternations(flicker),
            *outage_tables(page.all_sets, flicker),
        ],
        "cases": link_cases(page.all_sets, flicker, page.source),
        "strips": life_strips(page.all_sets, flicker, page.answers),
    }
    dataset = without_cuts(page.all_sets, page.view.results.dataset.k)[0]
    data: dict[str, Any] = {}
    if dataset is not None and flicker.models:
        frames, line = frames_along(dataset, np.unique(dataset.sets.frame), cut_frames(page.all_sets))
        names = [name for name in ranked(flicker) if name in page.answers][:MOST_MODELS]
        tracks = [_track(name, page.answers, frames) for name in names]
        flips = _striking(dataset, frames, line, tracks)
        data, shown = _films(dataset, frames, line, tracks, flips, page.source)
        videos, left_out = _timelines(dataset, frames, line, tracks, shown)
        spells_of = [(printable(name), spell_text(one)) for name, one in ranked(flicker).items()]
        content |= {"spells": spells_of, "videos": videos, "left_out": left_out, "flips": shown}
    return Chapter(
        name="flicker", title="Flicker", template="flicker.html.j2", content=content, data={"flicker-data": data}
    )


def _track(name: str, answers: Mapping[str, Answers], frames: Ints) -> _Track:
    one = answers[name].as_classes()
    confidence = one.confidence_at(frames) if one.has_shares else np.full(len(frames), np.nan)
    return _Track(name, answer_labels(one)[frames], confidence, one.scored[frames])


def _alternations(found: FlickerResults) -> list[Lines]:
    """Return the pairs of answers that alternate, with a table for each model."""
    out: list[Lines] = []
    for name, one in list(ranked(found).items())[:MOST_MODELS]:
        total = sum(video.flips for video in one.videos)
        pairs = [
            [f"{printable(row.one)} ↔ {printable(row.other)}", plain_number(row.flips), plain_number(row.videos)]
            for row in one.alternations[:SHOWN_PAIRS]
        ]
        if pairs:
            note = f"{counted(total, 'flip')} in all videos; tables/alternations.csv has more pairs."
            out.append((f"Which answers alternate? {printable(name)}", ["Answers", "Flips", "Videos"], pairs, [note]))
    return out


def _striking(dataset: Dataset, frames: Ints, line: Ints, tracks: list[_Track]) -> list[tuple[int, int]]:
    """Return flips as (model, place of the later frame), the surest on both sides first, with few from each video."""
    candidates: list[tuple[float, int, int]] = []
    for model, track in enumerate(tracks):
        pair = (line[1:] == line[:-1]) & track.known[1:] & track.known[:-1] & (track.label[1:] != track.label[:-1])
        places = np.flatnonzero(pair) + 1
        sure = np.nan_to_num(np.minimum(track.confidence[places], track.confidence[places - 1]), nan=0.0)
        candidates += [(-float(value), model, int(place)) for value, place in zip(sure, places, strict=True)]
    out: list[tuple[int, int]] = []
    taken: dict[tuple[int, int], list[int]] = {}
    for _, model, place in sorted(candidates):
        near = taken.setdefault((model, int(dataset.frames.video[frames[place]])), [])
        if len(near) < MOST_PER_VIDEO and all(abs(place - other) > AROUND for other in near):
            near.append(place)
            out.append((model, place))
        if len(out) == MOST_FLIPS:
            break
    return out


def _films(
    dataset: Dataset,
    frames: Ints,
    line: Ints,
    tracks: list[_Track],
    flips: list[tuple[int, int]],
    source: FrameSource | None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the images of the frames around each flip for the script, and the cards for the page."""
    images: dict[int, str] = {}
    films, cards = [], []
    for number, (model, place) in enumerate(flips):
        track = tracks[model]
        near = [at for at in range(place - AROUND, place + AROUND) if 0 <= at < len(frames) and line[at] == line[place]]
        film = []
        for at in near:
            row = int(frames[at])
            if row not in images:
                images[row] = _image(source, row)
            film.append({"i": row, "a": _answer(dataset, track, at), "c": _sure(track, at), "n": _when(dataset, row)})
        video = printable(str(dataset.videos.name[dataset.frames.video[frames[place]]]))
        films.append({"f": film, "at": near.index(place)})
        cards.append(
            {
                "id": f"flip-{number}",
                "number": number,
                "place": place,
                "model": printable(track.name),
                "video": video,
                "before": _answer(dataset, track, place - 1),
                "after": _answer(dataset, track, place),
                "when": _when(dataset, int(frames[place])),
                "images": [images[int(frames[at])] for at in (place - 1, place)],
                "sure": [_sure(track, place - 1), _sure(track, place)],
            }
        )
    return {"films": films, "images": images}, cards


def _image(source: FrameSource | None, row: int) -> str:
    if source is None:
        return ""
    try:
        return picture(source.read(row), longest=320, quality=70)
    except StrobeError:
        return ""


def _answer(dataset: Dataset, track: _Track, at: int) -> str:
    if not track.known[at]:
        return "no answer"
    label = int(track.label[at])
    return "none of the classes" if label < 0 else printable(dataset.info.label_space.names[label])


def _sure(track: _Track, at: int) -> str:
    return percent(float(track.confidence[at]), digits=0) if np.isfinite(track.confidence[at]) else ""


def _when(dataset: Dataset, row: int) -> str:
    time = float(dataset.frames.time_s[row])
    return f"{time:.2f} s" if np.isfinite(time) else f"frame {int(dataset.frames.index[row])}"


def _timelines(
    dataset: Dataset, frames: Ints, line: Ints, tracks: list[_Track], cards: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], str]:
    """Return the timelines of the videos with most flips, and how many are left out."""
    video = dataset.frames.video[frames]
    flips = np.zeros(len(dataset.videos), dtype=np.int64)
    for track in tracks:
        pair = (line[1:] == line[:-1]) & (track.label[1:] != track.label[:-1])
        flips += np.bincount(video[1:][pair], minlength=len(flips))
    seen = np.unique(video)
    first = seen[np.argsort(-flips[seen], kind="stable")]
    out = []
    for one in first[:MOST_VIDEOS].tolist():
        places = np.flatnonzero(video == one)
        colours, legend = _colours(dataset, tracks, places)
        rows = [_row(dataset, track, line, places, colours, cards) for track in tracks]
        out.append(
            {
                "name": printable(str(dataset.videos.name[one])),
                "length": _length(dataset, frames[places]),
                "flips": counted(int(flips[one]), "flip"),
                "n": len(places),
                "rows": rows,
                "legend": legend,
            }
        )
    rest = len(first) - len(out)
    return out, f"{counted(rest, 'more video')}: tables/flicker_videos.csv." if rest else ""


def _colours(dataset: Dataset, tracks: list[_Track], places: Ints) -> tuple[dict[int, int], list[tuple[int, str]]]:
    """Return a colour for each of the most frequent answers of a video, and the legend."""
    labels, many = np.unique(np.concatenate([track.label[places] for track in tracks]), return_counts=True)
    top = labels[np.argsort(-many, kind="stable")][:COLOURS].tolist()
    colours = {label: index + 1 for index, label in enumerate(top)}
    names = [
        (colours[label], "none of the classes" if label < 0 else printable(dataset.info.label_space.names[label]))
        for label in top
    ]
    return colours, [*names, (0, "other answers")] if len(labels) > COLOURS else names


def _row(
    dataset: Dataset, track: _Track, line: Ints, places: Ints, colours: dict[int, int], cards: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return one model's strip: its spells, the marks of its flips, and its confidence."""
    own_spells = spells(track.label[places], line[places])
    names = dataset.info.label_space.names
    parts = [
        {
            "x": int(start),
            "w": int(length),
            "c": colours.get(int(label), 0),
            "t": f"{'none of the classes' if label < 0 else printable(names[label])}, {counted(int(length), 'frame')}",
        }
        for start, length, label in zip(own_spells.start, own_spells.length, own_spells.answer, strict=True)
    ]
    begin = {int(place): at for at, place in enumerate(places)}
    marks = [
        {"x": begin[card["place"]], "id": card["id"]}
        for card in cards
        if card["model"] == printable(track.name) and card["place"] in begin
    ]
    sure = track.confidence[places]
    points = " ".join(f"{at + 0.5:g},{10 - 10 * value:.1f}" for at, value in enumerate(sure) if np.isfinite(value))
    n_flips = int((own_spells.timeline[1:] == own_spells.timeline[:-1]).sum())
    return {"model": printable(track.name), "parts": parts, "marks": marks, "points": points, "flips": n_flips}


def _length(dataset: Dataset, rows: Ints) -> str:
    times = dataset.frames.time_s[rows]
    if len(times) and np.isfinite(times).all():
        return f"{counted(len(rows), 'frame')}, {float(times.max() - times.min()):.1f} s"
    return counted(len(rows), "frame")
