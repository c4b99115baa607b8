"""The curves of a training run: the loss and the held-out figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strobe.core.errors import printable
from strobe.core.files import write_bytes
from strobe.report.drawing import per_cent
from strobe.report.style import INK, colour_of, draw, marker_of

__all__ = ["curves"]


def curves(
    path: Path, rows: Sequence[tuple[float, float | None, float, float]], *, names: tuple[str, str], title: str
) -> None:
    """Draw the points (epoch, loss, figure on anchors, figure on worst frames) as a PNG. The loss is on the left, and
    the held-out figures are on the right.
    """

    def paint(figure: Any, is_narrow: bool) -> None:
        left, right = figure.subplots(2 if is_narrow else 1, 1 if is_narrow else 2)
        known = [(epoch, loss) for epoch, loss, _, _ in rows if loss is not None]
        if known:
            left.plot(*zip(*known, strict=True), color=INK, marker="o", markersize=3)
            left.set_ylim(0, 1.05 * max(loss for _, loss in known) or 1)
        left.set_title("training loss")
        epochs = [row[0] for row in rows]
        for place, (name, column) in enumerate(((names[0], 2), (names[1], 3))):
            values = [row[column] for row in rows]
            right.plot(epochs, values, color=colour_of(place), marker=marker_of(place), markersize=4, label=name)
        right.set_ylim(0, 1)
        per_cent(right)
        right.set_title("on held-out clips")
        right.legend(loc="best")
        for axes in (left, right):
            axes.set_xlabel("epoch")
            axes.set_xlim(-0.02 * max(epochs), 1.02 * max(epochs))
        figure.suptitle(printable(title, limit=80), x=0.01, ha="left")

    write_bytes(path, draw("training", paint, wide=(8.4, 3.2), narrow=(4.2, 5.6)).png)
