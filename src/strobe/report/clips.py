"""The comparison of two models on the same clips as text: the verdict, the figures, and the places that differ."""

import io
from collections.abc import Iterator, Sequence

from strobe.analyses.clips import MOST_SPOTS, ClipComparison, Difference, Spot, about, number, sentence
from strobe.core.errors import printable
from strobe.core.ports import Image
from strobe.core.quoting import safe_markdown
from strobe.report.wording import aligned, counted


def clip_lines(found: ClipComparison) -> Iterator[str]:
    """Return the verdict, a row for each measure, the places that differ, and what the verdict is about."""
    yield sentence(found)
    rows = [
        [name, before, "→", now, *rest]
        for name, before, now, *rest in (
            clip_row(difference) for difference in found.differences if difference.change is not None
        )
    ]
    yield from (f"  {line}" for line in aligned(rows))
    for words, some in spot_lists(found):
        yield words
        yield from (f"  {spot_text(one)}" for one in some)
    yield from found.cautions or ()
    yield about(found)


def clip_row(one: Difference) -> list[str]:
    """Return a measure as cells: its name, both figures, the change and the verdict."""
    verdict = "saturated" if one.saturated else one.verdict or "not judged"
    change = number(one.change, one.unit, sign=True)
    return [one.measure, number(one.old, one.unit), number(one.new, one.unit), change, verdict]


def spot_lists(found: ClipComparison, *, most: int = MOST_SPOTS) -> list[tuple[str, Sequence[Spot]]]:
    """Return the heading and the first places of each kind: newly unsteady, and newly steady."""
    kinds = (("newly unsteady", found.unsteady, found.old), ("newly steady", found.steady, found.new))
    out: list[tuple[str, Sequence[Spot]]] = []
    for words, some, other in kinds:
        if some:
            shown = f", the first {most}" if len(some) > most else ""
            heading = f"{words}: {counted(len(some), 'place')} ({printable(other)} keeps its answer there){shown}"
            out.append((heading, some[:most]))
    return out


def spot_text(one: Spot) -> str:
    """Return a place as text: the clip, the time, and the answers.

    >>> spot_text(Spot(video="dog.mp4", frame=96, time_s=3.2, answers=("Labrador", "plate", "Labrador"), changes=2))
    'dog.mp4 00:03.20  Labrador → plate → Labrador'
    """
    when = f"frame {one.frame}" if one.time_s is None else clock(one.time_s)
    more = f" … ({counted(one.changes, 'change')})" if one.changes >= len(one.answers) else ""
    return f"{printable(one.video)} {when}  {' → '.join(map(printable, one.answers))}{more}"


def side_by_side(images: Sequence[Image], *, height: int = 240) -> bytes:
    """Return frames in one row as a JPEG file."""
    from PIL import Image as Pictures

    shown = [Pictures.fromarray(image) for image in images]
    shown = [one.resize((max(1, round(one.width * height / one.height)), height)) for one in shown]
    row = Pictures.new("RGB", (sum(one.width for one in shown) + 4 * (len(shown) - 1), height), "white")
    left = 0
    for one in shown:
        row.paste(one, (left, 0))
        left += one.width + 4
    out = io.BytesIO()
    row.save(out, "JPEG", quality=85)
    return out.getvalue()


def clock(seconds: float) -> str:
    """Return a time in minutes and seconds.

    >>> clock(63.25)
    '01:03.25'
    """
    minutes, rest = divmod(round(seconds, 2), 60)
    return f"{int(minutes):02}:{rest:05.2f}"


def clip_markdown(found: ClipComparison) -> str:
    """Return the same text for a pull request. External text is escaped."""
    alert = {"worse": "CAUTION", "regression": "CAUTION", "inconclusive": "WARNING"}.get(found.verdict or "", "NOTE")
    lines = [f"> [!{alert}]", f"> **{safe_markdown(sentence(found))}**", ""]
    lines += ["| measure | before | now | change | |", "|---|---|---|---|---|"]
    for one in found.differences:
        if one.change is not None:
            name, before, now, change, verdict = clip_row(one)
            lines.append(f"| {name} | {before} | {now} | {change} | {verdict} |")
    for words, some in spot_lists(found):
        lines += ["", f"<details><summary>{safe_markdown(words)}</summary>", ""]
        lines += [f"- {safe_markdown(spot_text(one))}" for one in some]
        lines += ["", "</details>"]
    lines += [line for text in (*(found.cautions or ()), about(found)) for line in ("", safe_markdown(text))]
    return "\n".join(lines) + "\n"
