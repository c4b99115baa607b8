"""Every caution of a printed interval is in the terminal."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from strobe.analyses.results import Results
from strobe.core.estimate import Estimate
from strobe.report.headline import headline_lines
from strobe.report.view import View


def estimates(value) -> Iterator[Estimate]:
    if isinstance(value, Estimate):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from estimates(getattr(value, field.name))
    elif isinstance(value, dict):
        for one in value.values():
            yield from estimates(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from estimates(one)


def check_cautions(results: Results) -> int:
    """Check it, and return the number of intervals with a caution."""
    view, n_found = View(results=results), 0
    printed = {}
    for one in estimates(results):
        if one.low is not None and one.value is not None:
            for text in (one.text(), one.text(scale=1.0, digits=2)):
                printed.setdefault(text.replace("-", "−"), set()).add(one.reason)
    for title, _, rows, notes in headline_lines(results):
        for cell in (cell for row in rows for cell in row if "[" in cell):
            reasons = printed.get(cell.rstrip(" *"), {None})
            if None not in reasons:  # otherwise the same interval also occurs without a caution
                n_found += 1
                assert any(view.words.say(reason) in notes for reason in reasons), (title, cell, reasons)
    return n_found
