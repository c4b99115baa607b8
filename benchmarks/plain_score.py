"""Compute the score in plain Python, with loops and lists, directly from the definitions and without strobe's code.

It is slow on purpose. Tests compare the fast score with it, and benchmarks/score.py measures the speed-up.
"""

import statistics
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

from scipy.special import betaincinv, stdtrit

Share = dict[str, Any]


class FrameLike(Protocol):
    video: int
    index: int
    labels: set[int]
    time: Fraction | None
    pict: str


class SetLike(Protocol):
    anchor: int
    members: list[tuple[int, float]]


class WorldLike(Protocol):
    k: int
    n_classes: int
    rates: list[Fraction | None]
    label_source: str

    @property
    def frames(self) -> list[Any]: ...

    @property
    def sets(self) -> list[Any]: ...


def bounds(count: float, n: float) -> tuple[float, float]:
    low = 0.0 if count <= 0 else float(betaincinv(count, n - count + 1, 0.025))
    high = 1.0 if count >= n else float(betaincinv(count + 1, n - count, 0.975))
    return low, high


def share(right: list[bool], cluster: list[int]) -> Share:
    """Return a proportion with its interval by methods §5."""
    n, count = len(right), sum(right)
    if n == 0:
        return {"value": None, "low": None, "high": None, "n": 0, "count": None}
    per_video: dict[int, list[bool]] = {}
    for ok, video in zip(right, cluster, strict=True):
        per_video.setdefault(video, []).append(ok)
    videos = len(per_video)
    p = count / n
    effective: float = n
    if videos < n:
        if videos == 1:
            return {"value": p, "low": None, "high": None, "n": n, "count": count}
        exact = Fraction(count, n)
        residuals = sum((sum(group) - exact * len(group)) ** 2 for group in per_video.values()) / n**2
        even = Fraction(n * n, sum(len(group) ** 2 for group in per_video.values()))  # effective videos
        unequal, size = float(1 - even / videos), max(float(even), 20.0)
        shrunk = (p + unequal / size / 2) / (1 + unequal / size)
        scale = float(even) / max(float(even) - 1, 0.1)
        plain, more = scale * float(residuals), scale * (float(residuals) + unequal * ((0.5 - p) / size) ** 2)
        if count in (0, n):
            effective = float(even)
        elif more > 0:
            ratio = float(stdtrit(n - 1, 0.975) / stdtrit(max(float(even) - 1, 0.1), 0.975))
            sizes = [shrunk * (1 - shrunk) / more] + ([p * (1 - p) / plain] if plain > 0 else [])
            effective = min(n, min(sizes) * ratio**2)
    low, high = bounds(p * effective, effective)
    return {"value": p, "low": low, "high": high, "n": n, "count": count}


def mean(values: list[float]) -> Share:
    if not values:
        return {"value": None, "n": 0}
    return {"value": sum(values) / len(values), "n": len(values)}


class PlainData:
    """The values that the reference computes once per dataset: rows of sets with their labels, levels and times."""

    def __init__(self, world: WorldLike) -> None:
        self.world = world
        self.rows: list[list[tuple[int, float, bool]]] = []
        for part in world.sets:
            rows = [(part.anchor, 0.0, True)] + [(frame, distance, False) for frame, distance in part.members]
            self.rows.append(sorted((row for row in rows if abs(row[1]) <= world.k), key=lambda row: row[1]))
        self.video = [world.frames[part.anchor].video for part in world.sets]
        self.at = {(frame.video, frame.index): row for row, frame in enumerate(world.frames)}

    def truth(self, number: int, frame: int) -> set[int]:
        """Return the labels that count for a frame of a set."""
        judged = frame if self.world.label_source == "frame" else self.world.sets[number].anchor
        labels: set[int] = self.world.frames[judged].labels
        return labels

    def gap_ms(self, number: int, frame: int) -> Fraction | None:
        """Return |Δt| in ms, exactly."""
        a, b = self.world.frames[self.world.sets[number].anchor], self.world.frames[frame]
        if a.time is not None and b.time is not None:
            return Fraction(abs(a.time - b.time) * 1000)
        rate = self.world.rates[a.video]
        return None if rate is None else Fraction(abs(a.index - b.index) * 1000) / rate

    def time_cohort(self, sets: list[int]) -> tuple[int, list[int], dict[tuple[int, int], Fraction]] | None:
        """Return t_max, its cohort and every gap. None if there is no cohort."""
        gaps: dict[tuple[int, int], Fraction] = {}
        reach: dict[int, int] = {}
        for number in sets:
            found = [self.gap_ms(number, frame) for frame, _, _ in self.rows[number]]
            if any(gap is None for gap in found):
                continue
            whole = [gap for gap in found if gap is not None]
            for (frame, _, _), gap in zip(self.rows[number], whole, strict=True):
                gaps[number, frame] = gap
            t = 0
            while max(whole) > t + Fraction(1, 2):
                t = max(t + 1, int(max(whole)) - 1)
            reach[number] = t
        if not reach:
            return None
        ordered = sorted(reach.values())
        t_max = ordered[int(0.05 * (len(ordered) - 1))]
        return (t_max, [number for number in reach if reach[number] >= t_max], gaps) if t_max > 0 else None


def plain_score(
    data: PlainData,
    label: list[int],
    probability: list[list[float]] | None,
    scored: list[bool],
    *,
    ms: list[int],
    cohort: tuple[list[int], dict[tuple[int, int], Fraction]] | None,
    windows: tuple[int, ...],
    alphas: tuple[float, ...],
    exact: bool = False,
) -> dict[str, Any]:
    """Return all figures of point 5 except the bootstraps, for one model.

    `exact` resolves ties between windows exactly.
    """
    world, k = data.world, data.world.k
    sets = [number for number, rows in enumerate(data.rows) if all(scored[frame] for frame, _, _ in rows)]
    video = [data.video[number] for number in sets]
    right = {
        number: [label[frame] in data.truth(number, frame) for frame, _, _ in data.rows[number]] for number in sets
    }
    at_k: list[list[bool]] = []
    for limit in range(k + 1):
        column = [
            all(
                ok
                for ok, (_, distance, _) in zip(right[number], data.rows[number], strict=True)
                if abs(distance) <= limit
            )
            for number in sets
        ]
        at_k.append(column)
    orig, perturbed = at_k[0], at_k[k]
    lost = [a and not b for a, b in zip(orig, perturbed, strict=True)]
    out: dict[str, Any] = {
        "acc_orig": share(orig, video),
        "acc_pmk": share(perturbed, video),
        "drop": share(lost, video),
        "curve": [
            (share(column, video), share([a and not b for a, b in zip(orig, column, strict=True)], video))
            for column in at_k
        ],
    }
    classes: dict[int, list[int]] = {}
    for place, number in enumerate(sets):
        for name in world.frames[world.sets[number].anchor].labels:
            classes.setdefault(name, []).append(place)
    out["per_class"] = {
        name: tuple(
            share([column[place] for place in places], [video[place] for place in places])
            for column in (orig, perturbed, lost)
        )
        for name, places in sorted(classes.items())
    }
    if classes:
        out["median"] = [
            statistics.median(figures[i]["value"] for figures in out["per_class"].values()) for i in range(3)
        ]
    offsets: dict[float, tuple[list[bool], list[int]]] = {}
    for place, number in enumerate(sets):
        for ok, (_, distance, _) in zip(right[number], data.rows[number], strict=True):
            wrong, where = offsets.setdefault(distance, ([], []))
            wrong.append(not ok)
            where.append(video[place])
    out["per_offset"] = {distance: share(*offsets[distance]) for distance in sorted(offsets)}
    flat = [(ok, video[place]) for place, number in enumerate(sets) for ok in right[number]]
    out["mean_frame"] = share([ok for ok, _ in flat], [where for _, where in flat])
    good = [place for place, ok in enumerate(orig) if ok]
    out["given_sets"] = share([perturbed[place] for place in good], [video[place] for place in good])
    members = [
        (ok, video[place])
        for place in good
        for ok, (_, _, anchor) in zip(right[sets[place]], data.rows[sets[place]], strict=True)
        if not anchor
    ]
    out["given_members"] = share([ok for ok, _ in members], [where for _, where in members])
    out["flip"], out["rw_flip"] = _flips(data, sets, right, label)
    if probability is not None:
        top = [max(row) if seen else 0.0 for row, seen in zip(probability, scored, strict=True)]
        swings = []
        for number in sets:
            if len(data.rows[number]) > 1:
                values = [top[frame] for frame, _, _ in data.rows[number]]
                swings.append(max(values) - min(values))
        out["swing"] = mean(swings)
    out["survival"] = _survival([(data.rows[sets[place]], right[sets[place]]) for place in good])
    if cohort is not None:
        in_sets = set(sets)
        used = [number for number in cohort[0] if number in in_sets]
        out["time"] = [_at_time(data, used, right, cohort[1], t) for t in ms]
    out["smoothing"] = _smoothing(data, sets, video, label, probability, scored, windows, alphas, exact)
    return out


def _at_time(
    data: PlainData, used: list[int], right: dict[int, list[bool]], gaps: dict[tuple[int, int], Fraction], t: int
) -> Share:
    column = [
        all(
            ok
            for ok, (frame, _, _) in zip(right[number], data.rows[number], strict=True)
            if not ok and 2 * gaps[number, frame] <= 2 * t + 1
        )
        for number in used
    ]
    return share(column, [data.video[number] for number in used])


def _flips(data: PlainData, sets: list[int], right: dict[int, list[bool]], label: list[int]) -> tuple[Share, Share]:
    flips, rw_flips = [], []
    for number in sets:
        by_index = {
            data.world.frames[frame].index: (label[frame], ok)
            for (frame, _, _), ok in zip(data.rows[number], right[number], strict=True)
        }
        pairs = [(by_index[index], by_index[index + 1]) for index in by_index if index + 1 in by_index]
        if pairs:
            flips.append(sum(a[0] != b[0] for a, b in pairs) / len(pairs))
            rw_flips.append(sum(a[1] != b[1] for a, b in pairs) / len(pairs))
    return mean(flips), mean(rw_flips)


def _survival(cases: list[tuple[list[tuple[int, float, bool]], list[bool]]]) -> dict[str, Any]:
    times = []
    for rows, right in cases:
        wrong = [abs(distance) for (_, distance, _), ok in zip(rows, right, strict=True) if not ok]
        times.append((min(wrong), True) if wrong else (max(abs(distance) for _, distance, _ in rows), False))
    alive, curve, median = 1.0, [], None
    for t in sorted({time for time, _ in times}):
        risk = sum(time >= t for time, _ in times)
        events = sum(time == t and failed for time, failed in times)
        alive *= (risk - events) / risk
        curve.append((t, risk, events, alive))
        if median is None and alive <= 0.5 + 1e-12:
            median = t
    return {"curve": curve, "median": median, "n": len(times)}


def _smoothing(
    data: PlainData,
    sets: list[int],
    video: list[int],
    label: list[int],
    probability: list[list[float]] | None,
    scored: list[bool],
    windows: tuple[int, ...],
    alphas: tuple[float, ...],
    exact: bool,
) -> dict[tuple[str, float], tuple[Share, Share, Share, float]]:
    k = data.world.k
    summed: Sequence[Sequence[float]] | None = None
    variants: list[tuple[str, float]] = [(kind, w) for kind in ("centred", "causal") for w in windows if w <= k]
    if probability is not None:
        variants += [("ema", alpha) for alpha in alphas]
        summed = probability
        if exact:  # sums in integer multiples of 2^−48, so that ties do not depend on the order
            rows = zip(probability, scored, strict=True)
            summed = [[int(p * 2.0**48) for p in row] if seen else [] for row, seen in rows]
    out = {}
    for kind, parameter in variants:
        orig, perturbed, short, total = [], [], 0, 0
        for number in sets:
            anchor = data.world.frames[data.world.sets[number].anchor]
            strip = {}
            for index in range(anchor.index - k, anchor.index + k + 1):
                row = data.at.get((anchor.video, index))
                if row is not None and scored[row]:
                    strip[index] = row
            averages = _ema(strip, probability, label, parameter, exact) if kind == "ema" else {}
            everywhere, at_anchor = True, True
            for frame, _, is_anchor in data.rows[number]:
                index = data.world.frames[frame].index
                total += 1
                if kind == "ema":
                    new = averages[index]
                    short += index - 1 not in strip
                else:
                    last = index + int(parameter) if kind == "centred" else index
                    inside = [strip[j] for j in range(index - int(parameter), last + 1) if j in strip]
                    short += len(inside) < last - index + int(parameter) + 1
                    new = _window(inside, frame, label, summed)
                ok = new in data.truth(number, frame)
                everywhere = everywhere and ok
                if is_anchor:
                    at_anchor = ok
            orig.append(at_anchor)
            perturbed.append(everywhere)
        lost = [a and not b for a, b in zip(orig, perturbed, strict=True)]
        figures = (share(orig, video), share(perturbed, video), share(lost, video))
        out[kind, parameter] = (*figures, short / total if total else 0.0)
    return out


def _best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=lambda place: (values[place], -place))


def _window(inside: list[int], frame: int, label: list[int], summed: Sequence[Sequence[float]] | None) -> int:
    if len(inside) == 1:
        return label[frame]
    if summed is not None:
        return _best([sum(column) for column in zip(*(summed[row] for row in inside), strict=True)])
    votes: dict[int, int] = {}
    for row in inside:
        votes[label[row]] = votes.get(label[row], 0) + 1
    top = max(votes.values())
    winners = [name for name, many in votes.items() if many == top]
    return winners[0] if len(winners) == 1 else label[frame]


def _ema(
    strip: dict[int, int], probability: list[list[float]] | None, label: list[int], alpha: float, exact: bool
) -> dict[int, int]:
    out: dict[int, int] = {}
    if probability is None:
        return out
    state: list[float] | None = None
    before = 0
    for index in sorted(strip):
        row = strip[index]
        weight = 1.0 if state is None else 1.0 - (1.0 - alpha) ** (index - before)
        if state is None or weight == 1.0:
            state = list(probability[row])
            out[index] = label[row]
        else:
            state = [new * weight + (1.0 - weight) * old for old, new in zip(state, probability[row], strict=True)]
            out[index] = _best([int(p * 2.0**48) for p in state] if exact else state)
        before = index
    return out
