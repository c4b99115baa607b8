"""What a training leaves behind: weights, curves, and a card that says what the model is and how it came about."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strobe.core.answers import ClassAnswers
from strobe.core.arrays import Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import MissingExtra, printable
from strobe.core.estimate import Estimate
from strobe.core.files import write_text
from strobe.core.late import installed_version
from strobe.train.recipe import Recipe

if TYPE_CHECKING:
    from strobe.analyses.classification import ClassificationScore
    from strobe.models.trainable import Start
    from strobe.train.folder import Point, TrainFolder
    from strobe.train.trainer import Trainer

__all__ = ["CARD", "HELD", "SPLIT", "WEIGHTS", "About", "finish"]

WEIGHTS, CARD, CURVES = "model.safetensors", "card.md", "curves.png"
SPLIT, HELD = "split.csv", "held-out.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the card tells besides the weights and the curves.

    `held_out` holds the sets measured on alone, a part of the same dataset where `is_part`. `answers` is the trained
    model's class for each of its frames, −1 where it was not asked.
    """

    recipe: Recipe
    model: str
    dataset: Dataset
    n_training: int
    held_out: Dataset
    answers: Ints
    is_part: bool
    device: str
    processes: int


def finish(folder: "TrainFolder", trainer: "Trainer", start: "Start", history: "Sequence[Point]", about: About) -> None:
    """Score what it answered, with intervals, and write everything in one swap."""
    from strobe.models.header import write_weights

    score, versions = _score(about), _versions(about)
    training = {"name": folder.name, "facts": folder.facts, "versions": versions}
    with folder.finishing(history, {"versions": versions}) as staged:
        write_weights(
            staged.root / WEIGHTS, _state(trainer.result, start), label_space=about.dataset.info.label_space,
            plan=start.plan, training=training,
        )  # fmt: skip
        has_curves = _draw(staged.root / CURVES, history, about)
        write_text(staged.root / "recipe.toml", about.recipe.to_toml())
        model = start.written(folder.path / WEIGHTS)
        write_text(
            staged.root / CARD, _card(folder, model, start, history, score, about, versions, has_curves=has_curves)
        )


def _state(module: Any, start: "Start") -> dict[str, Any]:
    """The tensors of the whole model."""
    from strobe.models.trainable import Backbone

    state: dict[str, Any] = start.with_head(*module.folded()) if isinstance(start, Backbone) else module.state_dict()
    return state


def _score(about: About) -> "ClassificationScore":
    from strobe.analyses.classification import ScoreOptions, score
    from strobe.analyses.variants_view import overall

    answers = ClassAnswers.from_labels(about.recipe.name, about.answers, scored=about.answers >= 0)
    return score(overall(about.held_out), answers, options=ScoreOptions())


def _versions(about: About) -> dict[str, str]:
    found = {name: installed_version(name) for name in ("torch", "torchvision", "timm", "numpy", "pillow")}
    strobe = installed_version() or "from source"
    said = {"strobe": strobe, "python": platform.python_version(), **{key: one for key, one in found.items() if one}}
    return said | {"device": _device_name(about.device), "processes": str(about.processes)}


def _device_name(device: str) -> str:
    if not device.startswith("cuda"):
        return device
    import torch

    return str(torch.cuda.get_device_name(device))


def _draw(path: Path, history: "Sequence[Point]", about: About) -> bool:
    """Whether the curves could be drawn; without matplotlib the table is there all the same."""
    from strobe.report.figures_training import curves

    rows = [(point.epoch, point.loss, point.acc_orig, point.acc_pmk) for point in history]
    try:
        curves(path, rows, k=about.held_out.info.k, title=f"{about.recipe.name}: {about.model.partition('@')[0]}")
    except MissingExtra:
        return False
    return True


def _card(
    folder: "TrainFolder",
    model: str,
    start: "Start",
    history: "Sequence[Point]",
    score: "ClassificationScore",
    about: About,
    versions: Mapping[str, str],
    *,
    has_curves: bool,
) -> str:
    recipe, data, held, k = about.recipe, about.dataset, about.held_out, about.held_out.info.k
    first, last = history[0], history[-1]
    began = "random weights" if start.is_random else f"`{printable(about.model)}`"
    known = not (start.is_random or start.new_head)
    before = [("before training", _share(first.acc_orig), _share(first.acc_pmk), "")] if known else []
    rows = [*before, ("trained", _text(score.acc_orig), _text(score.acc_pmk), _text(score.drop))]
    names = ", ".join(printable(name) for name in data.info.label_space.names[:12])
    more = f" and {len(data.info.label_space) - 12} more" if len(data.info.label_space) > 12 else ""
    lines = [
        f"# {printable(start.name)}, trained by the recipe {printable(recipe.name)}",
        "",
        f"{printable(recipe.about)} Use it as `{printable(model)}`: classes and preprocessing are in the file.",
        "",
        "## On clips it never saw",
        f"{held.n_sets} sets of {_count(held)} source(s), split by source; per cent [95 % interval].",
        "",
        f"| | acc_orig | acc_pm-{k} | drop |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        *([f"![Loss and held-out accuracy over the epochs]({CURVES})", ""] if has_curves else []),
        f"The held-out side decided nothing: these are the weights of the last of {last.step} steps.",
        "",
        "## Data",
        f"- trained on {about.n_training} sets of {printable(data.name)}, digest `{data.digest()[:16]}`"
        + (f", licence {printable(data.info.licence)}" if data.info.licence else ""),
        f"- held out: {_held(folder.path, about)}",
        f"- {len(data.info.label_space)} classes: {names}{more}",
        "",
        "## How it came about",
        f"- start: {began}{', its last layer new' if start.new_head else ''}, digest `{start.weights[:16]}`",
        f"- seed {folder.facts['seed']}, {folder.facts['precision']}, {last.step} steps in {last.seconds:.0f} s; this "
        f"training is `{folder.name}`",
        f"- {', '.join(f'{key} {value}' for key, value in versions.items())}",
        "",
        "```toml",
        recipe.to_toml().rstrip(),
        "```",
        "",
        "## What it is not",
        "It knows the classes above and nothing else, from the sources above. An accuracy on their like says little of "
        "other cameras, places or objects.",
        "",
    ]
    return "\n".join(lines)


def _held(folder: Path, about: About) -> str:
    if not about.is_part:
        return f"{printable(about.held_out.name)}, a dataset of its own, digest `{about.held_out.digest()[:16]}`"
    alone = f"`strobe eval DATASET -m … --subset {printable(folder / HELD)}` scores these alone"
    return f"{_count(about.held_out)} source(s) of the same dataset, named in `{SPLIT}`; {alone}"


def _count(dataset: Dataset) -> int:
    return len(np.unique(dataset.video_of_set))


def _share(value: float) -> str:
    return f"{100 * value:.1f}"


def _text(estimate: Estimate) -> str:
    return "unknown" if estimate.value is None else estimate.text()
