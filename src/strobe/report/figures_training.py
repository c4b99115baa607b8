"""The curves of a training: the loss, and what the held-out side says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strobe.core.errors import printable
from strobe.core.files import write_bytes
from strobe.report.drawing import per_cent
from strobe.report.style import INK, colour_of, draw, marker_of

__all__ = ["curves"]


def curves(path: Path, rows: Sequence[tuple[float, float | None, float, float]], *, k: int, title: str) -> None:
    """Draw (epoch, loss, acc_orig, acc_pm-k) as a PNG: the loss on the left, held-out accuracy on the right."""

    def paint(figure: Any, is_narrow: bool) -> None:
        left, right = figure.subplots(2 if is_narrow else 1, 1 if is_narrow else 2)
        known = [(epoch, loss) for epoch, loss, _, _ in rows if loss is not None]
        if known:
            left.plot(*zip(*known, strict=True), color=INK, marker="o", markersize=3)
            left.set_ylim(0, 1.05 * max(loss for _, loss in known) or 1)
        left.set_title("training loss")
        epochs = [row[0] for row in rows]
        for place, (name, column) in enumerate((("acc_orig", 2), (f"acc_pm-{k}", 3))):
            values = [row[column] for row in rows]
            right.plot(epochs, values, color=colour_of(place), marker=marker_of(place), markersize=4, label=name)
        right.set_ylim(0, 1)
        per_cent(right)
        right.set_title("held-out accuracy")
        right.legend(loc="best")
        for axes in (left, right):
            axes.set_xlabel("epoch")
            axes.set_xlim(-0.02 * max(epochs), 1.02 * max(epochs))
        figure.suptitle(printable(title, limit=80), x=0.01, ha="left")

    write_bytes(path, draw("training", paint, wide=(8.4, 3.2), narrow=(4.2, 5.6)).png)
