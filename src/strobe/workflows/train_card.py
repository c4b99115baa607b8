"""Write the output of a training: weights, curves, and a card that describes the model and its training."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strobe.analyses.answer_patterns import AnswerPattern
from strobe.core.dataset import Dataset
from strobe.core.errors import MissingExtra, printable
from strobe.core.estimate import Estimate
from strobe.core.files import write_bytes, write_text
from strobe.core.labels import LabelSpace
from strobe.core.late import installed_version
from strobe.core.ports import Progress
from strobe.core.quoting import safe_markdown
from strobe.train.recipe import Recipe
from strobe.train.split import HELD, SPLIT

if TYPE_CHECKING:
    from strobe.train.folder import Point, TrainFolder


WEIGHTS, CARD, CURVES = "model.safetensors", "card.md", "curves.png"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The content of the card in addition to the weights and the curves.

    `written` is the model string of the trained model. `start` is the model string of the model before training.
    `names` are the names of the figures in the curves. `scored` has the trained model's figures by name. `notes` are
    notes on its answers. `knew` is True if the model before training had these classes, so that its figures are
    meaningful. `held_out` has only the evaluated sets, which are part of the training dataset if `is_part`.
    `trained_on` is a sentence about the training data.
    """

    recipe: Recipe
    name: str
    written: str
    start: str
    knew: bool
    classes: LabelSpace
    trained_on: str
    held_out: Dataset
    is_part: bool
    names: tuple[str, ...]
    scored: Mapping[str, Estimate]
    notes: tuple[str, ...]
    device: str
    processes: int


def began(model: str, weights: str, *, is_random: bool, new_head: bool) -> str:
    """Return a short description of the start of a training."""
    what = "random weights" if is_random else f"`{printable(model)}`"
    return f"{what}{', its last layer new' if new_head and not is_random else ''}, digest `{weights[:16]}`"


def trained_on(dataset: Dataset, n_sets: int) -> str:
    """Return a short description of the training sets of a dataset."""
    licence = f", licence {safe_markdown(dataset.info.licence)}" if dataset.info.licence else ""
    return f"{n_sets} sets of {safe_markdown(dataset.name)}, digest `{dataset.digest()[:16]}`{licence}"


def noted(answers: AnswerPattern | None, say: Progress) -> tuple[str, ...]:
    """Return the notes on the trained model's answers to held-out frames, after printing them."""
    notes = () if answers is None else tuple(answers.sentences())
    for note in notes:
        say.note(f"on held-out clips, {note}")
    return notes


def finish(
    folder: "TrainFolder",
    history: "Sequence[Point]",
    about: About,
    write: Callable[[Path, Mapping[str, Any]], None],
) -> None:
    """Write all files in one atomic step. `write` writes the weights to a file, with the facts about their training."""
    versions = versions_of(about.device, about.processes)
    with folder.finishing(history, {"versions": versions}) as staged:
        write(staged.root / WEIGHTS, {"name": folder.name, "facts": folder.facts, "versions": versions})
        title = f"{about.recipe.name}: {about.name}"
        has_curves = draw_curves(staged.root / CURVES, history, names=about.names, title=title)
        write_text(staged.root / "recipe.toml", about.recipe.to_toml())
        write_text(staged.root / CARD, _card(folder, history, about, versions, has_curves=has_curves))


def versions_of(device: str, processes: int = 1) -> dict[str, str]:
    """Return the package versions of a training."""
    found = {name: installed_version(name) for name in ("torch", "torchvision", "timm", "numpy", "pillow")}
    strobe = installed_version() or "from source"
    said = {"strobe": strobe, "python": platform.python_version(), **{key: one for key, one in found.items() if one}}
    return said | {"device": _device_name(device), "processes": str(processes)}


def _device_name(device: str) -> str:
    if not device.startswith("cuda"):
        return device
    import torch

    return str(torch.cuda.get_device_name(device))


def draw_curves(path: Path, history: "Sequence[Point]", *, names: tuple[str, ...], title: str) -> bool:
    """Draw a PNG, the loss on the left and the held-out figures on the right, and return whether that worked.

    Without matplotlib, only the table is written.
    """
    from strobe.report.charts import set_unit
    from strobe.report.style import INK, colour_of, draw, marker_of

    def paint(figure: Any, is_narrow: bool) -> None:
        left, right = figure.subplots(2 if is_narrow else 1, 1 if is_narrow else 2)
        known = [(point.epoch, point.loss) for point in history if point.loss is not None]
        if known:
            left.plot(*zip(*known, strict=True), color=INK, marker="o", markersize=3)
            left.set_ylim(0, 1.05 * max(loss for _, loss in known) or 1)
        left.set_title("training loss")
        epochs = [point.epoch for point in history]
        for index, name in enumerate(names):
            values = [point.figures[index] for point in history]
            right.plot(epochs, values, color=colour_of(index), marker=marker_of(index), markersize=4, label=name)
        right.set_ylim(0, 1)
        set_unit(right)
        right.set_title("on held-out clips")
        right.legend(loc="best")
        for axes in (left, right):
            axes.set_xlabel("epoch")
            axes.set_xlim(-0.02 * max(epochs), 1.02 * max(epochs))
        figure.suptitle(printable(title, limit=80), x=0.01, ha="left")

    try:
        write_bytes(path, draw("training", paint, wide=(8.4, 3.2), narrow=(4.2, 5.6)).png)
    except MissingExtra:
        return False
    return True


def _card(
    folder: "TrainFolder", history: "Sequence[Point]", about: About, versions: Mapping[str, str], *, has_curves: bool
) -> str:
    recipe, held, first, last = about.recipe, about.held_out, history[0], history[-1]
    known = {name: _share(value) for name, value in zip(about.names, first.figures, strict=True)}
    before = [("before training", *(known.get(name, "") for name in about.scored))] if about.knew else []
    rows = [*before, ("trained", *map(_text, about.scored.values()))]
    names = ", ".join(safe_markdown(name) for name in about.classes.names[:12])
    more = f" and {len(about.classes) - 12} more" if len(about.classes) > 12 else ""
    lines = [
        f"# {safe_markdown(about.name)}, trained by the recipe {safe_markdown(recipe.name)}",
        "",
        f"{safe_markdown(recipe.about)} Use it as `{printable(about.written)}`: classes and preprocessing are in the "
        "file.",
        "",
        "## On clips it never saw",
        f"{held.n_sets} sets of {_count(held)} source(s), k = {held.info.k}, split by source; per cent with 95 % "
        "intervals.",
        "",
        f"| | {' | '.join(about.scored)} |",
        f"|{'---|' * (1 + len(about.scored))}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        *(
            line
            for note in about.notes
            for line in (f"**Note**: {safe_markdown(note)}{'' if note.endswith('?') else '.'}", "")
        ),
        *([f"![Loss and held-out figures over the epochs]({CURVES})", ""] if has_curves else []),
        f"The held-out data did not influence the training: these are the weights of the last of {last.step} steps.",
        "",
        "## Data",
        f"- trained on {about.trained_on}",
        f"- held out: {_held(folder.path, about)}",
        f"- {len(about.classes)} classes: {names}{more}",
        "",
        "## Training",
        f"- start: {about.start}",
        f"- seed {folder.facts['seed']}, {folder.facts['precision']}, {last.step} steps in {last.seconds:.0f} s; this "
        f"training is `{folder.name}`",
        f"- {', '.join(f'{key} {value}' for key, value in versions.items())}",
        "",
        "```toml",
        recipe.to_toml().rstrip(),
        "```",
        "",
        "## Limits",
        "It only knows the classes above, from the sources above. Its figures on similar clips do not predict its "
        "results with other cameras, places or objects.",
        "",
    ]
    return "\n".join(lines)


def _held(folder: Path, about: About) -> str:
    if not about.is_part:
        return f"{safe_markdown(about.held_out.name)}, a separate dataset, digest `{about.held_out.digest()[:16]}`"
    alone = f"`strobe eval DATASET -m … --subset {printable(folder / HELD)}` scores only these"
    return f"{_count(about.held_out)} source(s) of the same dataset, named in `{SPLIT}`; {alone}"


def _count(dataset: Dataset) -> int:
    return len(np.unique(dataset.video_of_set))


def _share(value: float) -> str:
    return f"{100 * value:.1f}"


def _text(estimate: Estimate) -> str:
    return "unknown" if estimate.value is None else estimate.text()
