"""Draw the figures and tables of the generator study from its files: the report's figures, and strips as one image."""

import base64
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from strobe.analyses.results import Results
from strobe.annexes.generators.study import figures as figures_generator
from strobe.annexes.generators.study.words import GranularityView, granular, size_text
from strobe.core.codec import decode
from strobe.core.estimate import Estimate
from strobe.report.view import View

FIGURES = {
    "ratio": figures_generator.granularity_ratio,
    "curves": figures_generator.granularity_curves,
    "kept": figures_generator.granularity_kept,
}


def draw(source: Path, target: Path) -> None:
    """Write the figures of both datasets to the folder, and print the tables."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.json.gz")):
        name = path.name.removesuffix(".json.gz")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            study = json.load(file)
        results = decode(Results, study["results"])
        view = View(results=results)
        found = granular(view)
        if found is None:
            raise SystemExit(f"{path}: contains no searches in a generator")
        print(f"\n## {name}: {study['images']} images, {study['seconds']} on {study['machine']}")
        print("accepted:", json.dumps(study["provenance"].get("accepted")))
        for table in (
            _medians(found),
            _ratios(found),
            _preserved(found),
            _fooled(view, found),
            _random(study["random"]),
        ):
            print(f"\n{table}")
        for word, question in FIGURES.items():
            figure = question.figures(view)[0]
            print(f"\n{word}: {figure.sentence}")
            if figure.drawing is not None:
                (target / f"generator-{name}-{word}.png").write_bytes(figure.drawing.png)
        strips = json.loads((source / f"{name}-strips.json").read_text(encoding="utf-8"))
        if strips:
            for place, word in enumerate(strips["targets"]):
                _sheet(strips, place, target / f"generator-{name}-strips-{word}.png")


def _cell(found: Estimate | None, *, scale: float = 1.0, text: Any = None) -> str:
    if found is None or found.value is None:
        return "—" if found is None else f"— ({found.reason})"
    say = text or (lambda value: f"{100 * value:.1f}")
    ends = "" if found.low is None or found.high is None else f" [{say(found.low / scale)}, {say(found.high / scale)}]"
    return f"{say(found.value / scale)}{ends}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)])


def _medians(found: GranularityView) -> str:
    rows = []
    for name in found.granularities:
        cells = []
        for target in found.targets:
            search, per = found.searches[name, target], found.scale((name, target))
            many = f"{search.found}/{search.found + search.censored}"
            cells.append(f"{_cell(search.median, scale=per, text=size_text)}; {many}")
        rows.append([name, *cells])
    return _table(["half by, per neuron; found", *found.targets], rows)


def _ratios(found: GranularityView) -> str:
    def say(value: float) -> str:
        return f"{value:.2f}"

    head, rows = ["ratio", *(f"{one} ÷ {found.baseline}" for one in found.others)], []
    head += [f"{one}, kept" for one in found.others]
    for name in found.granularities:
        cells = []
        for table in (found.ratios, *(one.ratios for one in found.preserved)):
            for target in found.others:
                row = table.get((name, target))
                p = "" if row is None or row.p_holm is None else f", p {row.p_holm:.2g}, n {row.n}"
                cells.append("—" if row is None else _cell(row.value, text=say) + p)
        rows.append([name, *cells])
    return _table(head, rows)


def _preserved(found: GranularityView) -> str:
    head, rows = ["kept; the same images unchanged", *found.targets], []
    for name in found.granularities:
        for kept in found.preserved:
            cells = []
            for target in found.targets:
                share, before = kept.share.get((name, target)), kept.before.get((name, target))
                cells.append(f"{_cell(share)}; {_cell(before)}")
            rows.append([f"{name} ({kept.who})", *cells])
    return _table(head, rows)


def _fooled(view: View, found: GranularityView) -> str:
    models = list(view.classifiers)
    rows = []
    scores = {name: {one.variant: one for one in model.variants or ()} for name, model in view.classifiers.items()}
    for name in found.granularities:
        for target in found.targets:
            for variant in (found.searches[name, target].variant, found.random.get((name, target), "")):
                mine = [scores[model].get(variant) for model in models]
                cells = [
                    "—" if one is None else _cell(one.reproduced if one.is_target and one.reproduced else one.fooled)
                    for one in mine
                ]
                if variant:
                    rows.append([variant, *cells])
    return _table(["wrong on", *models], rows)


def _random(told: Mapping[str, Mapping[str, float]]) -> str:
    rows = [
        [name, f"{one['ratio']:.1f}" if one["ratio"] >= 0 else "beyond the cap", f"{100 * one['never']:.1f}",
         f"{100 * one['sooner']:.1f}"]
        for name, one in told.items()
    ]  # fmt: skip
    return _table(["random direction", "times as far, median", "never, %", "sooner, %"], rows)


def _picture(uri: str) -> Any:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",", 1)[1]))).convert("RGB"))


def _sheet(strips: Mapping[str, Any], target: int, path: Path, *, most: int = 6) -> None:
    """Draw rows of images: the start, then finding and difference from coarse to fine, with the target's answers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names, models, classes = strips["granularities"], strips["models"], strips["classes"]
    own = models.index(strips["targets"][target]) if strips["targets"][target] in models else None
    rows = strips["pictures"][:most]
    figure, grid = pyplot.subplots(
        len(rows), 1 + 2 * len(names), figsize=(1.05 * (1 + 2 * len(names)), 1.22 * len(rows)), squeeze=False, dpi=130,
        layout="constrained",
    )  # fmt: skip
    for line, picture in zip(grid, rows, strict=True):
        for axes in line:
            axes.axis("off")
        line[0].imshow(_picture(picture["image"]), interpolation="nearest")
        line[0].set_title(picture["name"], fontsize=8)
        mine = {strip["g"]: strip for strip in picture["strips"] if strip["t"] == target}
        for number, name in enumerate(names):
            strip, place = mine.get(number, {}), 1 + 2 * number
            if picture is rows[0]:
                line[place + 1].set_title(name, fontsize=8, fontweight="bold")
            if "film" not in strip:
                line[place].set(xlim=(0, 1), ylim=(0, 1))
                line[place].text(0.5, 0.5, "nothing\nfound" if strip else "not\nsearched", fontsize=8, color="#666666",
                                 ha="center", va="center")  # fmt: skip
                continue
            film = _picture(strip["film"])
            line[place].imshow(film[:, -film.shape[1] // strip["n"] :], interpolation="nearest")
            said = strip["says"][-1][own] if own is not None else None
            line[place].set_title(classes[int(said[0])] if said and said[0] >= 0 else "", fontsize=8, color="#c8501e")
            line[place + 1].imshow(_picture(strip["diff"]), interpolation="nearest")
    figure.savefig(path, facecolor="white")
    pyplot.close(figure)
