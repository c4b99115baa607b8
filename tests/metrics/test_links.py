"""Links of boxes beside a slow, plain reference, and what must not change them."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.answers import BoxAnswers
from strobe.core.errors import InvalidValue
from strobe.metrics.links import LinkedBoxes, LinkRules, best_pairs, follow, jitter, link_boxes

Box = tuple[int, int, float, tuple[float, ...]]
"""Frame, label, score, corners."""


def answers_of(boxes: list[Box], n_frames: int) -> BoxAnswers:
    frame, label, score = (np.array([box[at] for box in boxes]) for at in range(3))
    xyxy = np.array([box[3] for box in boxes]).reshape(-1, 4)
    return BoxAnswers.of(frame.astype(int), label.astype(int), xyxy, score, n_frames=n_frames, n_classes=9)


def linked(found: BoxAnswers, rules: LinkRules, line: np.ndarray | None = None) -> tuple[np.ndarray, LinkedBoxes]:
    frames = np.arange(found.n_frames)
    line = np.zeros(len(frames), dtype=int) if line is None else line
    link = link_boxes(found, frames, line, rules=rules)
    return link, follow(found, link, frames, line, confidence=rules.confidence)


def iou(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return width * height / (areas - width * height)


def plain_pairs(overlap: list[list[float]], least: float) -> list[tuple[int, int]]:
    """The pairs of the largest total among all ways to pair rows with columns."""
    rows, columns = len(overlap), len(overlap[0]) if overlap else 0
    best, chosen = -1.0, []
    for order in permutations([*range(columns), *[-1] * rows], rows):
        pairs = [(row, column) for row, column in enumerate(order) if column >= 0]
        if any(overlap[row][column] < least for row, column in pairs):
            continue
        total = sum(overlap[row][column] for row, column in pairs)
        if total > best + 1e-12:
            best, chosen = total, pairs
    return chosen


def plain_links(boxes: list[Box], n_frames: int, rules: LinkRules, line: list[int]) -> list[list[int]]:
    """The links as lists of places in `boxes`, one frame after the other."""
    links: list[list[int]] = []
    open_links: list[list[int]] = []
    for frame in range(n_frames):
        if frame and line[frame] != line[frame - 1]:
            open_links = []
        here = [at for at, box in enumerate(boxes) if box[0] == frame and box[2] >= rules.faint]
        here.sort(key=lambda at: -boxes[at][2])
        kept: list[int] = []
        for at in here:
            others = [other for other in kept if boxes[other][1] != boxes[at][1]]
            if all(iou(boxes[other][3], boxes[at][3]) < rules.duplicate for other in others):
                kept.append(at)
        free = set(kept)
        open_links = [one for one in open_links if frame - boxes[one[-1]][0] <= rules.max_gap + 1]
        for fresh in (True, False):
            for sure in (True, False):
                olds = [one for one in open_links if boxes[one[-1]][0] < frame]
                olds = [one for one in olds if (boxes[one[-1]][0] == frame - 1) == fresh]
                news = [at for at in kept if at in free and (boxes[at][2] >= rules.confidence) == sure]
                overlap = [[iou(boxes[old[-1]][3], boxes[new][3]) for new in news] for old in olds]
                for a, b in plain_pairs(overlap, rules.iou):
                    olds[a].append(news[b])
                    free.discard(news[b])
        for at in kept:
            if at in free and boxes[at][2] >= rules.confidence:
                open_links.append([at])
                links.append(open_links[-1])
    for one in links:
        while boxes[one[-1]][2] < rules.confidence:
            one.pop()
    return links


def drawn(seed: int, n_frames: int = 7) -> list[Box]:
    """A few objects that move, vanish, change class and score; drawn from a seed, so that no two overlaps tie."""
    rng = np.random.default_rng(seed)
    boxes: list[Box] = []
    for _ in range(int(rng.integers(1, 4))):
        corner, size, speed = rng.uniform(0, 15, 2), rng.uniform(8, 14, 2), rng.normal(0, 1.5, 2)
        for frame in range(n_frames):
            if rng.uniform() < 0.25:
                continue
            at = corner + speed * frame + rng.normal(0, 1, 2)
            score = float(rng.choice([0.9, 0.4, 0.1], p=[0.6, 0.3, 0.1]) + rng.uniform(0, 0.05))
            boxes.append((frame, int(rng.integers(0, 2)), score, (*at, *(at + size))))
    return boxes


RULES = st.builds(
    LinkRules,
    iou=st.sampled_from([0.1, 0.3, 0.6]),
    max_gap=st.integers(0, 3),
    duplicate=st.sampled_from([0.5, 0.8, 1.0]),
)


def parts(link: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(np.flatnonzero(link == name).tolist()) for name in np.unique(link[link >= 0])}


@settings(deadline=None)
@given(st.integers(0, 2**32), RULES, st.integers(1, 7))
def test_links_beside_the_plain_reference(seed: int, rules: LinkRules, cut: int) -> None:
    found = answers_of(drawn(seed), 7)
    line = (np.arange(7) >= cut).astype(int)
    rows = list(zip(found.frame.tolist(), found.label.tolist(), found.score.tolist(), found.xyxy.tolist(), strict=True))
    boxes: list[Box] = [(frame, label, score, tuple(xyxy)) for frame, label, score, xyxy in rows]
    plain = plain_links(boxes, 7, rules, line.tolist())
    link, figures = linked(found, rules, line)
    assert parts(link) == {tuple(sorted(one)) for one in plain}
    by_first = {one[0]: one for one in plain}
    assert len(figures) == len(plain)
    for number in range(len(figures)):
        one = by_first[int(figures.row[figures.link == number][0])]
        frames, sure = [boxes[at][0] for at in one], [at for at in one if boxes[at][2] >= rules.confidence]
        steps = [b - a - 1 for a, b in pairwise(frames)]
        above = [boxes[at][2] >= rules.confidence for at in one]
        assert figures.span[number] == frames[-1] - frames[0] + 1
        assert figures.seen[number] == len(one)
        assert figures.gaps[number] == sum(step > 0 for step in steps)
        assert figures.gap_frames[number] == sum(steps)
        assert figures.class_changes[number] == sum(boxes[a][1] != boxes[b][1] for a, b in pairwise(sure))
        assert figures.crossings[number] == sum(a != b for a, b in pairwise(above))
        first, last = (0, cut - 1) if frames[0] < cut else (cut, 6)
        assert figures.cut_off[number] == (frames[0] == first or frames[-1] == last)
    assert max((int(gap) for gap in figures.step[figures.gap[:, 1]] - figures.step[figures.gap[:, 0]]), default=0) <= (
        rules.max_gap + 1
    )


@given(st.integers(0, 4), st.integers(0, 4), st.data())
def test_pairs_have_the_largest_total(rows: int, columns: int, data: st.DataObject) -> None:
    share = st.sampled_from([0.0, 0.2, 0.3, 0.5, 0.9])
    overlap = np.array(data.draw(st.lists(share, min_size=rows * columns, max_size=rows * columns)))
    overlap = overlap.reshape(rows, columns)
    one, other = best_pairs(overlap, least=0.3)
    assert len(set(one.tolist())) == len(set(other.tolist())) == len(one)
    assert (overlap[one, other] >= 0.3).all()
    plain = plain_pairs(overlap.tolist(), 0.3)
    assert overlap[one, other].sum() == pytest.approx(sum(overlap[pair] for pair in plain))


@given(st.integers(0, 2**32), st.randoms(), st.integers(-3, 6), st.integers(-40, 40))
def test_order_scale_and_place_change_nothing(seed: int, random: object, power: int, shift: int) -> None:
    boxes = [
        (frame, label, round(score, 1), tuple(np.round(xyxy).tolist())) for frame, label, score, xyxy in drawn(seed)
    ]
    rules = LinkRules()
    mixed = list(boxes)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    scale = 2.0**power  # exact, so that ties stay ties
    moved = [(*box[:3], tuple(scale * (value + shift) for value in box[3])) for box in mixed]
    one, other = (linked(answers_of(these, 7), rules)[1] for these in (boxes, moved))
    for name in ("span", "gaps", "gap_frames", "class_changes", "crossings"):
        assert sorted(getattr(one, name).tolist()) == sorted(getattr(other, name).tolist()), name
    for name in ("centre_jitter", "size_jitter"):
        assert np.allclose(np.sort(getattr(one, name)), np.sort(getattr(other, name)), equal_nan=True)


@given(st.lists(st.integers(-20, 20), min_size=8, max_size=8), st.integers(5, 12))
def test_cubic_paths_have_no_jitter(factor: list[int], n: int) -> None:
    time = np.arange(n) / n
    path = np.stack([np.polyval(factor[4 * at : 4 * at + 4], time) for at in (0, 1)], axis=1)
    size = np.stack([50 + 30 * time**2, 80 - 40 * time], axis=1)
    xyxy = np.concatenate([path - size / 2, path + size / 2], axis=1)
    centre, extent = jitter(xyxy, np.zeros(n, dtype=int), np.arange(n), n_links=1)
    assert centre[0] < 1e-12
    assert extent[0] < 1e-12


@pytest.mark.parametrize("length", [5, 6, 40])
def test_jitter_is_the_standard_deviation_of_independent_errors(length: int) -> None:
    rng = np.random.default_rng(1)
    n = 4000
    box = np.tile([[10.0, 20, 50, 120]], (n * length, 1))
    size = np.array([40.0, 100])
    centre, extent = 0.03 * size * rng.standard_normal((2, n * length, 2))
    box += np.concatenate([centre - extent / 2, centre + extent / 2], axis=1)
    link, step = np.repeat(np.arange(n), length), np.tile(np.arange(length), n)
    for part in jitter(box, link, step, n_links=n):
        assert part.mean() == pytest.approx(0.03, rel=0.03)


def test_jitter_needs_five_consecutive_boxes() -> None:
    box = np.tile([[0.0, 0, 9, 9]], (9, 1))
    link = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    centre, _ = jitter(box, link, np.array([0, 1, 2, 3, 0, 1, 2, 3, 5]), n_links=3)
    assert np.isnan(centre).all()
    centre, _ = jitter(box, link, np.array([0, 1, 2, 3, 4, 5, 6, 7, 8]), n_links=3)
    assert np.isnan(centre).tolist() == [True, False, True]


def test_duplicates_of_another_class_are_one_object() -> None:
    """Two classes for one object alternate in score: one link with class changes, not two links with gaps."""
    corners = (0.0, 0.0, 10.0, 10.0)
    scores = [(0.8, 0.6), (0.6, 0.8), (0.8, 0.6)]
    boxes = [(frame, label, pair[label], corners) for frame, pair in enumerate(scores) for label in (0, 1)]
    _, figures = linked(answers_of(boxes, 3), LinkRules())
    assert (len(figures), figures.class_changes.tolist(), figures.gaps.tolist()) == (1, [2], [0])
    _, figures = linked(answers_of([box for box in boxes if box[1] == 0], 3), LinkRules())
    assert (len(figures), figures.class_changes.tolist()) == (1, [0])


def test_faint_boxes_neither_start_nor_end_a_link() -> None:
    corners = (0.0, 0.0, 10.0, 10.0)
    boxes = [(frame, 0, score, corners) for frame, score in enumerate([0.3, 0.9, 0.3, 0.4, 0.9, 0.3])]
    link, figures = linked(answers_of(boxes, 6), LinkRules())
    assert link.tolist() == [-1, 0, 0, 0, 0, -1]
    assert (figures.span.tolist(), figures.crossings.tolist(), figures.gaps.tolist()) == ([4], [2], [0])
    assert figures.dip.tolist() == [[0, 3]]


def test_nothing_to_link() -> None:
    for boxes in ([], [(0, 0, 0.1, (0.0, 0.0, 5.0, 5.0))], [(0, 0, 0.9, (0.0, 0.0, 0.0, 5.0))]):
        link, figures = linked(answers_of(boxes, 2), LinkRules())
        assert (link >= 0).sum() == len(figures) == 0
    _, figures = linked(answers_of([(0, 0, 0.9, (0.0, 0.0, 5.0, 5.0))], 1), LinkRules())
    assert (figures.span.tolist(), figures.gaps.tolist()) == ([1], [0])
    none = answers_of([], 0)
    assert len(linked(none, LinkRules())[1]) == 0


def test_bad_rules_are_named() -> None:
    for rules, name in (({"iou": 0.0}, "iou"), ({"max_gap": -1}, "max_gap"), ({"faint": 0.7}, "faint")):
        with pytest.raises(InvalidValue, match=name):
            LinkRules(**rules)
    with pytest.raises(InvalidValue, match="duplicate"):
        LinkRules(duplicate=1.5)
