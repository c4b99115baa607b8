"""The sentences of the noise floor, for page and terminal."""

from strobe.core.errors import printable
from strobe.metrics.paired import LEVEL
from strobe.report.view import Lines, View
from strobe.report.wording import counted, is_known, measured, p_text, percent, with_interval
from strobe.studies.noise.records import NoiseScore

TERMS = (
    ("Noise", "The share of pairs of answers to one and the same frame that differ."),
    ("Beyond noise", "Flips between neighbouring frames minus noise, over all answers to the same frames, in points."),
)


def intro(view: View) -> str:
    """Return what was measured, in two or three sentences."""
    most = max(one.repeat for one in view.results.noise.values())
    boxes = " A detector's answer is the class of its most confident box." if _has_detectors(view) else ""
    return (
        f"Each frame was asked {most} times. A model that changes its answer on the same frame is guessing, not "
        f"flickering. Every other figure of this page uses the first answers.{boxes}"
    )


def _has_detectors(view: View) -> bool:
    found, flicker = view.results.noise, view.results.flicker
    return any(name in view.detectors or (flicker and name in (flicker.detectors or ())) for name in found)


def noise_sentence(name: str, one: NoiseScore) -> str:
    """Return what several answers to the same frames show, in one or two sentences."""
    who = printable(name)
    if one.noise.value == 0:
        text = (
            f"{who} gives the same answer each time it is asked about a frame "
            f"({counted(one.repeat, 'time')}, {counted(one.noise.n, 'set')})"
        )
        return f"{text}: all its flips come from the frames." if is_known(one.flips) else f"{text}."
    text = f"Asked twice about the same frame, {who} changes its answer in {measured(one.noise)}"
    if not is_known(one.flips, one.beyond_noise):
        return f"{text} of the cases."
    text, gap = f"{text}; about the next frame in {percent(one.flips)}", measured(one.beyond_noise, "points")
    equals = "" if one.p is not None and one.p < 0.001 else "= "
    p = f"p {equals}{p_text(one.p)}".replace(" ", "\N{NO-BREAK SPACE}")
    if (one.beyond_noise.value or 0) <= 0:
        return f"{text}: no more than its own noise (difference {gap}, {p})."
    if one.p is None or one.p >= LEVEL:
        return f"{text}: {gap} more than its own noise, which is not significant ({p})."
    return f"{text}: {gap} more than its own noise ({p})."


def noise_lines(view: View) -> list[Lines]:
    """Return the table: one row per model, and a sentence for each."""
    found = view.results.noise
    if not found:
        return []
    columns = ["model", "answers", "noise", "flips", "beyond_noise", "p", "changed_frames"]
    rows = [
        [
            printable(name, limit=60),
            str(one.repeat),
            with_interval(one.noise),
            with_interval(one.flips),
            with_interval(one.beyond_noise),
            p_text(one.p),
            with_interval(one.changed_frames),
        ]
        for name, one in found.items()
    ]
    notes = ["% [95 % interval]; beyond_noise in points. All other figures use the first answers"]
    notes += [noise_sentence(name, one) for name, one in found.items()]
    notes += [
        f"{printable(name)}: {counted(one.unscored, 'set')} without two answers on every frame excluded"
        for name, one in found.items()
        if one.unscored
    ]
    return [("The same frames asked again", columns, rows, notes)]
