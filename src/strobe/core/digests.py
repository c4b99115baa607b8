"""The digests of a dataset: SHA-256 over its tables as sorted lines of JSON, in constant memory."""

import hashlib
import json
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Ints, blocks
from strobe.core.records import Verdict
from strobe.core.scratch import making_room
from strobe.core.tables import Frames, Hints, Videos, recipe_of
from strobe.core.variants import NO_VARIANT

if TYPE_CHECKING:
    from strobe.core.dataset import Dataset


_LINES = 2**18
"""The number of lines sorted in memory. More lines are sorted through a file, one alphabetical range at a time."""

Rows = Ints | slice
Part = Callable[[Rows], Sequence[Any]]
"""A function that returns the columns of some rows of a table, as arrays or lists."""


def frames_digest_of(dataset: "Dataset") -> str:
    """Return a digest that changes exactly when the frames' identity or pixels change."""
    hasher = hashlib.sha256()
    sha256 = dataset.frames.sha256
    for text in _sorted(len(sha256), lambda rows: (dataset.frame_ids(rows), sha256[rows])):
        hasher.update(text)
    for text in _how_read(dataset):
        hasher.update(text)
    return hasher.hexdigest()


_LATER = ("label_space", "combine", "unreviewed")
"""Fields of the dataset's info that are hashed in another form, or only if they are used."""


def digest_of(dataset: "Dataset") -> str:
    """Return a digest of the content, independent of file order, encoding, compression and path."""
    info = dataset.info
    whole = {name: getattr(info, name) for name in type(info).__slots__ if name not in _LATER}
    whole["label_space"] = [info.label_space.name, info.label_space.digest]
    hasher = hashlib.sha256(json.dumps(whole, sort_keys=True, default=_plain).encode())
    for name, texts in (*_content(dataset), *_later_content(dataset)):
        hasher.update(f"\0{name}\0".encode())
        for text in texts:
            hasher.update(text)
    return hasher.hexdigest()


def _plain(value: object) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _content(dataset: "Dataset") -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield every table as lines, without paths, because a path is a location and not content."""
    frames, sets, labels, ids = dataset.frames, dataset.sets, dataset.labels, dataset.frame_ids
    videos = [getattr(dataset.videos, name) for name in Videos.__slots__ if name not in ("path", "kind")]
    yield "videos", _sorted(len(dataset.videos), lambda rows: [column[rows] for column in videos])
    left = ("video", "index", "media", "as_input", "recipe")
    own = [getattr(frames, name) for name in Frames.__slots__ if name not in left]
    yield "frames", _sorted(len(frames), lambda rows: [ids(rows), *(column[rows] for column in own)])

    def member(rows: Rows) -> list[Any]:
        return [sets.set_id[sets.set[rows]], ids(sets.frame[rows])]

    held = (sets.distance, sets.is_anchor)
    yield "sets", _sorted(len(sets.set), lambda rows: [*member(rows), *(column[rows] for column in held)])
    yield "labels", _sorted(len(labels.frame), lambda rows: [ids(labels.frame[rows]), labels.label[rows]])
    if (boxes := dataset.boxes) is not None:
        drawn = (boxes.label, boxes.xyxy, boxes.track, boxes.crowd)
        yield "boxes", _sorted(len(boxes.frame), lambda rows: [ids(boxes.frame[rows]), *(one[rows] for one in drawn)])
    if dataset.hints is not None:
        hints = [getattr(dataset.hints, name) for name in Hints.__slots__]
        yield "hints", _sorted(len(sets.set), lambda rows: [*member(rows), *(column[rows] for column in hints)])
    votes = sorted(json.dumps([getattr(vote, name) for name in Verdict.__slots__]) + "\n" for vote in dataset.verdicts)
    yield "verdicts", ["".join(votes).encode()]


def _later_content(dataset: "Dataset") -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield the features of schema 2 that the dataset uses; a dataset without such features thus keeps its digest."""
    videos, sets, variants = dataset.videos, dataset.sets, dataset.variants
    if (videos.kind != "video").any():
        yield "kinds", _sorted(len(videos), lambda rows: (videos.video_id[rows], videos.kind[rows]))
    if found := list(_how_read(dataset)):
        yield "how read", found
    if variants is not None:
        yield "variants", ["".join(sorted(variant.described() + "\n" for variant in variants)).encode()]
        yield "combine", [dataset.info.combine.encode()]
    if not sets.is_plain or variants is not None:
        own = (sets.group, sets.status, sets.reach, sets.margin)

        def said(rows: Rows) -> list[Any]:
            row = sets.variant[rows]
            name = [NO_VARIANT] * len(row) if variants is None else variants.variant[row]
            return [sets.set_id[rows], name, *(column[rows] for column in own)]

        yield "set info", _sorted(len(sets), said)
    if dataset.info.unreviewed != "exclude":
        yield "unreviewed", [dataset.info.unreviewed.encode()]


def _how_read(dataset: "Dataset") -> Iterator[bytes]:
    """Yield lines on frames with `as_input` or a recipe, which change a model's input; nothing if there are none."""
    frames = dataset.frames
    marked = np.flatnonzero(frames.as_input.astype(bool) | (frames.recipe != ""))

    def part(rows: Rows) -> list[Any]:
        at = marked[rows]
        recipes = [json.dumps(recipe_of(text), sort_keys=True) for text in frames.recipe[at].tolist()]
        return [dataset.frame_ids(at), frames.as_input[at], recipes]

    return _sorted(len(marked), part) if len(marked) else iter(())


# -- sorted lines --------------------------------------------------------------------------------------------------


def _sorted(n: int, part: Part) -> Iterator[bytes]:
    """Yield the rows of a table in pieces, as sorted lines of JSON, in which tabs and line breaks are unambiguous."""
    if n <= _LINES:
        yield "".join(sorted(_lines(part(slice(0, n))))).encode()
        return
    # Lines at even steps give the bounds of alphabetical ranges. Every sorted block of rows is split at these bounds.
    # The lines between two bounds are gathered from all blocks, sorted and yielded.
    many = 2 * n // _LINES + 1
    sample = sorted(_lines(part(np.linspace(0, n - 1, 32 * many).astype(np.int64))))
    cuts = sample[32::32]
    places: list[list[tuple[int, int]]] = [[] for _ in range(len(cuts) + 1)]
    with making_room(), tempfile.TemporaryFile(prefix="strobe-lines-") as file:
        for rows in blocks(n, _LINES):
            lines = sorted(_lines(part(rows)))
            ends = [0, *(bisect_left(lines, cut) for cut in cuts), len(lines)]
            for place, (low, high) in zip(places, pairwise(ends), strict=True):
                if high > low:
                    place.append((file.tell(), file.write("".join(lines[low:high]).encode())))
        for place in places:
            lines_of = (_read(file, at, size).splitlines(keepends=True) for at, size in place)
            yield b"".join(sorted(chain.from_iterable(lines_of)))


def _read(file: IO[bytes], at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _lines(columns: Sequence[NDArray[Any] | list[Any]]) -> list[str]:
    plain = [column if isinstance(column, list) else column.tolist() for column in columns]
    return [json.dumps(row) + "\n" for row in zip(*plain, strict=True)]
