"""The report: one self-contained page, its figures as files, and its tables."""

import base64
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

import numpy as np

from strobe.analyses.gallery import Choice, Classified, Judge, ModelView, SetView, choose
from strobe.analyses.gallery_detection import Detected
from strobe.analyses.model_results import ClassificationResult, DetectionResult
from strobe.analyses.results import Results
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import expect, printable
from strobe.core.files import read_json, write_bytes, write_text
from strobe.core.late import installed_version, require
from strobe.core.ports import FrameSource, Progress, Silent
from strobe.core.tasks import Task
from strobe.report import (
    figures_accuracy,
    figures_classes,
    figures_detection,
    figures_review,
    figures_slices,
    figures_smoothing,
    story,
)
from strobe.report.drawing import Figure, Question
from strobe.report.gallery import Gallery, as_script, build
from strobe.report.published import detection_rows
from strobe.report.subject import n_photos
from strobe.report.view import MOST_SHOWN, View
from strobe.report.wording import cause_text, join, p_text, percent, plain_number

__all__ = ["ReportOptions", "gallery_models", "write_report"]

FEW_FAILURES = 3
"""Failed models listed openly; more are folded away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """How large the page may grow, and which models come first.

    `show` names models that figures and gallery show before the most robust. `gallery_sets` sets at most, pictures
    `picture_px` on their longest side, and no more than `max_megabytes` of pictures in all. `raw_names` may name the
    model's own best class for every frame (before projection).
    """

    gallery_sets: int = 36
    picture_px: int = 400
    quality: int = 70
    max_megabytes: float = 11.0
    raw_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    show: Sequence[str] = ()

    def __post_init__(self) -> None:
        expect(self.gallery_sets >= 0, "gallery_sets", ">= 0", self.gallery_sets)
        expect(32 <= self.picture_px <= 2000, "picture_px", "32–2000", self.picture_px)
        expect(1 <= self.quality <= 100, "quality", "1–100", self.quality)
        expect(self.max_megabytes > 0, "max_megabytes", "> 0", self.max_megabytes)


def write_report(
    run: Path,
    results: Results,
    dataset: Dataset,
    answers: Mapping[str, Answers],
    source: FrameSource | None,
    options: ReportOptions | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write report.html and figures/ into the run folder; the path of the page.

    `answers` are the models', aligned with the dataset's frames. `source` gives the gallery its pictures; without it
    the gallery shows answers alone.
    """
    options, progress = options or ReportOptions(), progress or Silent()
    jinja2 = require("jinja2", what="the report", extra="report")
    view = View(results=results, show=options.show, n_photos=n_photos(dataset))
    with progress.task("figures", None) as advance:
        chapters = _chapters(view)
        drawn = set()
        for figure in (f for groups in chapters.values() for group in groups for f in group):
            if figure.drawing is not None:
                write_text(run / "figures" / f"{figure.name}.svg", figure.drawing.svg)
                write_bytes(run / "figures" / f"{figure.name}.png", figure.drawing.png)
                drawn.add(figure.name)
                advance(1)
        _remove_stale(run / "figures", drawn)
    k = results.dataset.k
    if k < dataset.info.k:  # scored with a smaller k than the data has: what lies beyond is not part of the sets
        dataset = dataset.keep_rows(np.abs(dataset.sets.distance) <= k)
    choice = choose(dataset, _judges(view, dataset, answers), limit=options.gallery_sets)
    gallery = build(
        dataset,
        choice,
        source,
        longest=options.picture_px,
        quality=options.quality,
        max_bytes=int(options.max_megabytes * 1e6),
        raw_names=options.raw_names,
        progress=progress,
    )
    if gallery.unreadable:
        progress.note(f"report: {gallery.unreadable} frames of the gallery could not be read: {gallery.first_problem}")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("strobe.report", "assets"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.get_template("report.html.j2").render(
        **_context(run, view, dataset, chapters, choice, gallery, options)
    )
    path = run / "report.html"
    write_text(path, page)
    return path


def _judges(view: View, dataset: Dataset, answers: Mapping[str, Answers]) -> list[Judge]:
    """The models the gallery shows, as far as their answers are at hand."""
    return [_judge(dataset, name, answers[name], view) for name in gallery_models(view, answers)]


def _judge(dataset: Dataset, name: str, answers: Answers, view: View) -> Judge:
    if isinstance(answers, ClassAnswers):
        return Classified(dataset, answers)
    model = view.detectors[name]
    causes = {row.set: row.cause for row in model.chosen_frames}
    return Detected(dataset, name, answers, iou=model.settings.iou, max_dets=model.settings.max_dets, causes=causes)


def gallery_models(view: View, known: Collection[str]) -> list[str]:
    """Which of these models the gallery shows: those to `show`, then classifiers and detectors, the robust first."""
    ranked = view.ranked
    return [name for name in dict.fromkeys([*view.show, *ranked]) if name in known and name in ranked][:MOST_SHOWN]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """What the page holds of one task: its headline table, and its figures by chapter."""

    headline: Callable[[View], story.HeadlineTable[ClassificationResult] | story.HeadlineTable[DetectionResult]]
    main: tuple[Question, ...]
    compare: tuple[Question, ...] = ()
    slices: tuple[Question, ...] = ()


TASKS = {
    Task.CLASSIFICATION: TaskPage(
        headline=story.classification,
        main=(
            figures_accuracy.trend, figures_accuracy.curve, figures_accuracy.time_curve, figures_classes.per_class,
            figures_slices.per_offset, figures_accuracy.first_failure, figures_smoothing.smoothing,
        ),
        compare=(figures_accuracy.comparison,),
        slices=(
            figures_slices.frame_types, figures_slices.by_fps, figures_slices.by_hint, figures_review.review_impact,
            figures_review.review_offsets,
        ),
    ),
    Task.DETECTION: TaskPage(
        headline=story.detection,
        main=(
            figures_detection.overview, figures_detection.curve, figures_classes.detection_class,
            figures_detection.errors, figures_detection.temporal,
        ),
    ),
}  # fmt: skip
"""Every task's part of the page; a new figure is a function in a `figures_*` file and a line here."""

QUESTIONS = [one for part in TASKS.values() for one in (*part.main, *part.compare, *part.slices)]


def _chapters(view: View) -> dict[str, list[list[Figure]]]:
    """Figures by section; each entry is a list of alternatives (one per model) or of one."""
    parts = [TASKS[task] for task in Task if view.of(task)] or [TASKS[Task.CLASSIFICATION]]
    return {
        "main": [one.figures(view) for part in parts for one in part.main],
        "compare": [one.figures(view) for part in parts for one in part.compare],
        "slices": [one.figures(view) for part in parts for one in part.slices],
    }


def _remove_stale(folder: Path, drawn: set[str]) -> None:
    """Take away figures an earlier report of this run drew and this one did not; other files are left alone."""
    for path in folder.glob("*"):
        ours = path.suffix in (".svg", ".png") and any(one.owns(path.stem) for one in QUESTIONS)
        if ours and path.stem not in drawn:
            path.unlink()


def _asset(name: str) -> str:
    return (resources.files("strobe.report") / "assets" / name).read_text(encoding="utf-8")


def _context(
    run: Path,
    view: View,
    dataset: Dataset,
    chapters: Mapping[str, list[list[Figure]]],
    choice: Choice,
    gallery: Gallery,
    options: ReportOptions,
) -> dict[str, object]:
    script = _asset("report.js")
    about = read_json(run / "run.json") if (run / "run.json").is_file() else {}
    about = about if isinstance(about, Mapping) else {}
    head, lede = story.lead(view)
    pairs, left_out = story.comparisons(view)
    info = replace(view.results.dataset, name=printable(view.results.dataset.name or dataset.name))
    return {
        "title": f"{info.name}: does it flicker? · strobe",
        "css": _asset("report.css"),
        "js": script,
        # The page may run this one script and nothing else, whatever a class or a video is called.
        "script_hash": base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii"),
        "icon": base64.b64encode(_asset("icon.svg").encode("utf-8")).decode("ascii"),
        "version": installed_version() or "(not installed)",
        "made_at": printable(about.get("at") or "").replace("T", " ").replace("+00:00", " UTC"),
        "lead": head,
        "lede": lede,
        "dataset": info,
        "n_models": len(view.results.models),
        "headlines": [TASKS[task].headline(view) for task in Task if view.of(task)],
        "failed": story.failures(view, about),
        "few_failures": FEW_FAILURES,
        "words": view.words,
        "published": list(detection_rows()) if view.detectors else [],
        "only_detectors": bool(view.detectors) and not view.classifiers,
        "example": _example(choice, gallery),
        "gallery": _gallery_words(choice, gallery, dataset, view, options),
        "gallery_json": as_script(gallery.data),
        "chapters": chapters,
        "comparison": pairs,
        "pairs_left_out": left_out,
        "off_the_line": story.off_the_line(view),
        "facts": story.facts(view, about),
        "details": story.run_details(view, about),
        "number": lambda value, digits: f"{value:.{digits}f}".replace("-", "−"),
        "plain": plain_number,
        "printable": printable,
        "p_text": p_text,
    }


def _gallery_words(
    choice: Choice, gallery: Gallery, dataset: Dataset, view: View, options: ReportOptions
) -> dict[str, object]:
    shown = len(gallery.data["sets"])
    intro = _flickers_text(choice, gallery, view)
    has_pictures = any(gallery.pictures.values())
    if not has_pictures:
        intro += " There are no pictures: this data has none at hand."
    if gallery.left_out:
        intro += f" {gallery.left_out} more were left out to keep the file small."
    if gallery.unreadable:
        intro += f" {gallery.unreadable} frames could not be read; the first: {gallery.first_problem}."
    names = dataset.info.label_space.names
    present = {label for one in gallery.data["sets"] for label in one["y"]}
    said = {model["s"] for one in gallery.data["sets"] for model in one["m"]}
    if not choice.counts:
        why = "No predictions are at hand, so no flicker can be shown."
    elif options.gallery_sets == 0:
        why = "The gallery was switched off."
    else:
        why = "No model has a prediction for every frame of any set, so no flicker can be shown."
    return {
        "n_shown": shown,
        "intro": intro,
        "pictures": has_pictures,
        "why": why,
        "models": list(choice.counts),
        # Only what can be found in it is offered, and the first of these is what the page opens with.
        "statuses": [status for status in ("breaks", "wrong", "holds") if status in said],
        "classes": [(place, names[place]) for place in sorted(present, key=lambda place: names[place])],
        "detection": any(gallery.data["detectors"]),
        "only_detection": all(gallery.data["detectors"]),
    }


def _flickers_text(choice: Choice, gallery: Gallery, view: View) -> str:
    """How many flickers there are, and what is shown of them."""
    words, n_models = view.words, len(choice.counts)
    detectors = bool(gallery.data["detectors"]) and all(gallery.data["detectors"])
    alike = f"one of the {words.frames} around it" if words.is_video else f"one of its {words.frames}"
    what = f"finds less on {alike} than on the anchor" if detectors else f"is right on the anchor and wrong on {alike}"
    every = len(view.ranked)
    # The count is of the models at hand here; with more in the run it must not be read as that of all.
    who = f"one of the {n_models} models shown here" if n_models < every else "one model"
    shown = len(gallery.data["sets"])
    n_sets = plain_number(choice.n_sets)
    if not choice.n_flickers:
        whom = f"any of the {n_models} models shown here" if n_models < every else "any model"
        if n_models == every == 1:
            whom = printable(next(iter(choice.counts)))
        kinds = {"wrong": "wrong on the anchor already", "holds": "right throughout"}
        found = {model["s"] for one in gallery.data["sets"] for model in one["m"]}
        seen = " or ".join(text for kind, text in kinds.items() if kind in found)
        text = f"None of the {n_sets} sets breaks for {whom}. Here are {shown} of them, {seen or 'not scored'}."
    else:
        parts = [
            f"{printable(model)} breaks in {plain_number(count['breaks'])}"
            for model, count in list(choice.counts.items())[:6]
        ]
        text = (
            f"In {plain_number(choice.n_flickers)} of {n_sets} sets at least {who} {what} ({join(parts)}). Here are "
            f"{shown} sets, every model and class in turn, the most striking first. Pick a model to see what it said; "
            "play the set to see how little changes."
        )
    if n_models < every:
        robust = list(choice.counts) == view.ranked[:n_models]
        how = "the most robust" if robust else "those asked for or your own, then the most robust"
        text += f" The gallery shows {n_models} of {every} models: {how}."
    return text


def _example(choice: Choice, gallery: Gallery) -> dict[str, object] | None:
    """A real set as the example of the explanation: the best flicker, the frames around what broke it."""
    for one in choice.sets[: len(gallery.data["sets"])]:
        for view in one.models:
            if view.breaker is None:
                continue
            low = max(0, min(one.anchor, view.breaker, one.anchor - 2))
            high = min(len(one.rows), max(one.anchor, view.breaker, one.anchor + 2) + 1)
            places = set(range(low, high))
            if len(places) > 9:
                places = {i for i in places if abs(i - one.anchor) <= 3} | {view.breaker}
            frames = [
                {
                    "right": bool(view.right[i]),
                    "anchor": i == one.anchor,
                    "offset": _signed(one.distance[i]),
                    "image": gallery.pictures.get(int(one.rows[i]), ""),
                }
                for i in sorted(places)
            ]
            text = printable(_example_text(one, view, view.breaker, gallery.data["classes"]), limit=600)
            return {"frames": frames, "text": text, "alt": text, "detection": view.boxes is not None}
    return None


def _example_text(one: SetView, view: ModelView, breaker: int, names: Sequence[str]) -> str:
    where = _signed(one.distance[breaker])
    if view.boxes is not None:
        why = f", mainly because of: {cause_text(view.cause)}" if view.cause else ""
        return (
            f"From this data: {view.model} has an AP of {percent(_known(view.truth[one.anchor]))} on the anchor and of "
            f"{percent(_known(view.truth[breaker]))} at {where}{why}. In pm-k mAP, that frame stands for the set."
        )
    said = names[view.label[breaker]] if view.label[breaker] >= 0 else "none of the classes"
    answer = " / ".join(names[label] for label in one.labels) or "the anchor’s label"
    return (
        f"From this data: {view.model} says {answer} on the anchor and {said} at {where}. The set counts as right in "
        "acc_orig and as wrong in acc_pm-k."
    )


def _signed(distance: float) -> str:
    return f"{distance:+g}".replace("-", "−")


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
