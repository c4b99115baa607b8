"""Why a frame's AP is low, and what happens to tracks, against plain loops."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.answers import BoxAnswers
from strobe.metrics.detection.diagnose import KINDS, SOME_OVERLAP, diagnose
from strobe.metrics.detection.match import match
from strobe.metrics.detection.tables import TruthTable
from strobe.metrics.detection.tracks import track_figures


def iou(a, b):
    """Overlap of two boxes, the plain way."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def plain_ap(hits, n):
    """AP over 101 recalls of a list of hit or miss, in the order of scores."""
    if n == 0:
        return 1.0
    precision, recall, right = [], [], 0
    for place, hit in enumerate(hits):
        right += hit
        precision.append(right / (place + 1))
        recall.append(right / n)
    total = 0.0
    for r in np.linspace(0, 1, 101):
        total += max((p for p, c in zip(precision, recall, strict=True) if c >= r), default=0.0)
    return total / 101


@st.composite
def frames(draw):
    """Two frames with objects and detections that lie near them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 6)), draw(st.integers(0, 14))
    corner = rng.integers(0, 12, (n, 2)).astype(float)
    objects = np.concatenate([corner, corner + rng.integers(3, 9, (n, 2))], axis=1)
    near = objects[rng.integers(0, n, d)] + rng.integers(-3, 4, (d, 4)) * rng.integers(0, 2, (d, 1))
    near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
    near[rng.random(d) < 0.15] += 100
    truth = TruthTable.of(
        rng.integers(0, 2, n), rng.integers(0, 2, n), objects, n_frames=2, n_classes=2, crowd=rng.random(n) < 0.1
    )
    found = BoxAnswers.of(
        rng.integers(0, 2, d), rng.integers(0, 2, d), near, rng.permutation(d) / 20, n_frames=2, n_classes=2
    )
    return truth, found


@settings(deadline=None, max_examples=150)
@given(frames())
def test_diagnosis_against_a_plain_loop(scene):
    truth, found = scene
    one = match(truth, found)[0]
    result = diagnose(truth, found, one, np.array([1, 0]), enough=np.full(len(truth), 0.5))
    counts = np.ones(len(found), dtype=bool) if one.counts is None else one.counts
    for place, frame in enumerate((1, 0)):
        rows = [i for i in range(len(found)) if found.frame[i] == frame]
        objects = [g for g in range(len(truth)) if truth.frame[g] == frame and one.wanted[g]]
        if not objects:
            continue  # undefined: such a frame is never a worst frame
        hits = set(one.found.tolist())
        lost = [g for g in objects if g not in set(one.object.tolist())]
        kinds, about = {}, {}
        for i in rows:
            if i in hits or not counts[i]:
                continue
            best = {}
            for same in (True, False):
                options = [(iou(found.xyxy[i], truth.xyxy[g]), g) for g in objects
                           if (truth.label[g] == found.label[i]) == same]  # fmt: skip
                best[same] = max(options, default=(0.0, -1))
            for name, same, least in (
                ("duplicate", True, 0.5), ("classification", False, 0.5),
                ("localization", True, SOME_OVERLAP), ("both", False, SOME_OVERLAP), ("background", True, -1.0),
            ):  # fmt: skip
                if best[same][0] >= least:
                    kinds[i], about[i] = name, best[same][1]
                    break

        def ap(removed=(), made=(), n=None, rows=rows, hits=hits, objects=objects):
            kept = [i for i in rows if counts[i] and i not in removed]
            return plain_ap([i in hits or i in made for i in kept], len(objects) if n is None else n)

        before = ap()
        expected, covered = {}, set()
        for name in ("classification", "localization"):
            mine = [i for i in rows if kinds.get(i) == name]
            made, used = [], set()
            for i in mine:
                if about[i] in lost and about[i] not in used:
                    used.add(about[i])
                    made.append(i)
            covered |= used
            expected[name] = ap(removed=set(mine) - set(made), made=made) - before
        for name in ("both", "duplicate", "background"):
            expected[name] = ap(removed={i for i in rows if kinds.get(i) == name}) - before
        expected["missed"] = ap(n=len(objects) - len([g for g in lost if g not in covered])) - before
        np.testing.assert_allclose(result.gain[place], [expected[kind] for kind in KINDS], atol=1e-9)
        if before < 1 - 1e-9:
            assert result.present[place].any()  # something is always to blame for an AP below 1
            assert KINDS[result.main[place]] == max(KINDS, key=lambda kind: round(expected[kind], 9))
        else:
            assert result.main[place] == -1


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_tracks_against_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    n_frames, n_tracks = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    index = np.sort(rng.permutation(12)[:n_frames])  # gaps on purpose
    frame, track = (grid.ravel() for grid in np.meshgrid(np.arange(n_frames), np.arange(n_tracks), indexing="ij"))
    there = rng.random(len(frame)) < 0.8
    frame, track = frame[there], track[there]
    corner = np.stack([100.0 * track, 5.0 * frame], axis=1)
    xyxy = np.concatenate([corner, corner + 40.0], axis=1)
    truth = TruthTable.of(frame, np.zeros(len(frame), int), xyxy, n_frames=n_frames, n_classes=1, track=track)
    found_there = rng.random(len(frame)) < 0.7
    score = rng.random(len(frame))
    shifted = xyxy + rng.integers(-5, 6, (len(frame), 1))
    found = BoxAnswers.of(
        frame[found_there], np.zeros(int(found_there.sum()), int), shifted[found_there], score[found_there],
        n_frames=n_frames, n_classes=1,
    )  # fmt: skip
    sets = [list(range(n_frames)), list(range(0, n_frames, 2))]
    rows = [(s, f) for s, members in enumerate(sets) for f in members]
    figures = track_figures(
        truth, found, match(truth, found)[0],
        set_of_row=np.array([r[0] for r in rows]), frame_of_row=np.array([r[1] for r in rows]),
        index_of_frame=index, confidence=0.3,
    )  # fmt: skip
    answer = {(int(f), int(t)): (shifted[i], score[i]) for i, (f, t) in enumerate(zip(frame, track, strict=True))
              if found_there[i] and score[i] >= 0.3}  # fmt: skip
    box = {(int(f), int(t)): xyxy[i] for i, (f, t) in enumerate(zip(frame, track, strict=True))}
    expected = []
    for s, members in enumerate(sets):
        for t in range(n_tracks):
            path = [f for f in members if (f, t) in box]
            if len(path) < 2:
                continue
            seen = [(f, t) in answer for f in path]
            text = "".join("x" if one else "." for one in seen)
            pairs = [(a, b) for a, b in itertools.pairwise(path) if index[b] - index[a] == 1]
            flips = [((a, t) in answer) != ((b, t) in answer) for a, b in pairs]
            shakes = []
            for a, b in pairs:
                if (a, t) in answer and (b, t) in answer:
                    moved = [(answer[f, t][0] - np.tile(box[f, t][:2], 2)) / 40 for f in (a, b)]
                    shakes.append(1 - iou(*moved))
            scores = [answer[f, t][1] for f in path if (f, t) in answer]
            expected.append(
                (
                    s,
                    "." in text.strip("."),
                    len(path) >= 3,
                    np.mean(flips) if flips else np.nan,
                    np.mean(shakes) if shakes else np.nan,
                    max(scores) - min(scores) if len(scores) > 1 else np.nan,
                )
            )
    got = (figures.set, figures.flickers, figures.can_flicker, figures.flips, figures.jitter, figures.swing)
    assert len(figures.set) == len(expected)
    for mine, theirs in zip(got, zip(*expected, strict=True), strict=False):
        np.testing.assert_allclose(np.asarray(mine, dtype=float), np.array(theirs, dtype=float), atol=1e-12)


def test_an_overlap_of_exactly_a_tenth_is_some_overlap():
    zero = np.zeros(1, int)
    truth = TruthTable.of(zero, zero, np.array([[0.0, 0.0, 11.0, 1.0]]), n_frames=1, n_classes=1)
    box = np.array([[9.0, 0.0, 20.0, 1.0]])  # two of twenty pixels are shared
    found = BoxAnswers.of(zero, zero, box, np.ones(1), n_frames=1, n_classes=1)
    result = diagnose(truth, found, match(truth, found)[0], zero, enough=np.full(1, 0.5))
    assert KINDS[result.main[0]] == "localization"
