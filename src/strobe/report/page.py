"""The report: one self-contained page, its figures as files, and its tables."""

import base64
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path

from strobe.analyses.gallery import Choice, Classified, Judge, choose
from strobe.analyses.gallery_detection import Detected
from strobe.analyses.results import Results
from strobe.analyses.variants_view import overall
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import expect, printable
from strobe.core.files import read_json, write_bytes, write_text
from strobe.core.inside import inside
from strobe.core.late import installed_version, require
from strobe.core.ports import FrameSource, Progress, Silent
from strobe.core.tasks import Task
from strobe.report import (
    change,
    figures_accuracy,
    figures_background,
    figures_boxes,
    figures_classes,
    figures_detection,
    figures_generator,
    figures_people,
    figures_review,
    figures_slices,
    figures_smoothing,
    figures_trend,
    figures_variants,
    story,
    story_background,
    story_generator,
    story_people,
    story_variants,
    trainings,
)
from strobe.report.drawing import Figure, FigureSpec
from strobe.report.explain import explained, glossary
from strobe.report.gallery import Gallery, as_script, build
from strobe.report.gallery_words import example, gallery_words
from strobe.report.headline import headline
from strobe.report.naming import in_short_names
from strobe.report.published import detection_rows
from strobe.report.strips import build_strips
from strobe.report.strips_background import background_chapter
from strobe.report.style import LIGHT
from strobe.report.subject import count_sources
from strobe.report.view import MOST_SHOWN, View
from strobe.report.wording import p_text, plain_number, spread_text

__all__ = ["PageOptions", "gallery_models", "write_report"]

FEW_FAILURES = 3
"""The number of failed models listed openly; more are collapsed."""
MANY_DETAILS = 12
"""The number of models with a line each for their settings; those of more are collapsed into one."""
MANY_MODELS = 40
"""Above this number of models, tables show only the first rows, and the images get less room."""
SCRIPTS = ("page.js", "viewer.js", "gallery.js", "strips.js")
"""The page's scripts in the order of execution; each builds on those before."""
_ENDS = re.compile(r"(\[(?:[−\d.,\xa0]+|no\xa0interval)\])")
"""The interval of a figure in a sentence, in a muted style after the figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """The size limits of the page, and the order of models.

    `show` names models that figures and gallery show before the most robust. The gallery has at most `gallery_sets`
    sets, images `picture_px` on their longest side, and at most `max_megabytes` of images in total. None means 11, or
    7 with more than 40 models, whose tables are long; the page then stays below 10. `raw_names` may give the model's
    own best class for every frame (before projection). `change` names two models as before and after.
    """

    gallery_sets: int = 36
    picture_px: int = 400
    quality: int = 70
    max_megabytes: float | None = None
    raw_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    show: Sequence[str] = ()
    change: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        expect(self.gallery_sets >= 0, "gallery_sets", ">= 0", self.gallery_sets)
        expect(32 <= self.picture_px <= 2000, "picture_px", "32–2000", self.picture_px)
        expect(1 <= self.quality <= 100, "quality", "1–100", self.quality)
        expect(self.max_megabytes is None or self.max_megabytes > 0, "max_megabytes", "> 0", self.max_megabytes)

    def max_bytes(self, n_models: int) -> int:
        """Return the size limit of the images for this number of models."""
        return int(1e6 * (self.max_megabytes or (7.0 if n_models > MANY_MODELS else 11.0)))

    def renamed(self, names: Mapping[str, str]) -> "PageOptions":
        """Return the same options with other names of models."""
        change = self.change and (names.get(self.change[0], self.change[0]), names.get(self.change[1], self.change[1]))
        raw_names = {names.get(name, name): one for name, one in self.raw_names.items()}
        return replace(self, show=[names.get(name, name) for name in self.show], change=change, raw_names=raw_names)


def write_report(
    run: Path,
    results: Results,
    dataset: Dataset,
    answers: Mapping[str, Answers],
    source: FrameSource | None,
    options: PageOptions | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write report.html and figures/ into the run folder, and return the path of the page.

    `answers` are the models', aligned with the dataset's frames. `source` supplies the gallery's images; without it
    the gallery shows only answers.
    """
    options, progress = options or PageOptions(), progress or Silent()
    jinja2 = require("jinja2", what="the report", extra="report")
    results, names = in_short_names(results)
    if names:
        answers = {names.get(name, name): replace(one, model=names.get(name, name)) for name, one in answers.items()}
        options = options.renamed(names)
    view = View(
        results=results, show=options.show, by_kind=count_sources(dataset), change=options.change,
        whole={short: name for name, short in names.items()},
    )  # fmt: skip
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
    if k < overall(dataset).info.k:  # scored with a smaller k than the data has, so frames beyond it are in no set
        dataset = dataset.keep_rows(dataset.row_levels() <= k)
    searched = story_generator.granular(view)
    strips = build_strips(dataset, searched, source, answers) if searched is not None else None
    background = background_chapter(dataset, story_background.ladder(view), source, answers)
    dataset = dataset.scored_sets()
    choice = choose(dataset, _judges(view, dataset, answers), limit=options.gallery_sets, change=options.change)
    gallery = build(
        dataset,
        choice,
        source,
        longest=options.picture_px,
        quality=options.quality,
        max_bytes=options.max_bytes(len(results.models)),
        raw_names=options.raw_names,
        progress=progress,
    )
    if gallery.unreadable:
        progress.note(f"report: {gallery.unreadable} frames of the gallery could not be read: {gallery.first_problem}")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("strobe.report", "assets"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.get_template("report.html.j2").render(
        **_context(run, view, dataset, chapters, choice, gallery, options),
        generator=_generator(view, dataset, searched, strips),
        background=background,
        strips_json=as_script(strips or {}),
    )
    path = run / "report.html"
    write_text(path, page)
    return path


def _judges(view: View, dataset: Dataset, answers: Mapping[str, Answers]) -> list[Judge]:
    """Return the models that the gallery shows, if their answers are available."""
    return [_judge(dataset, name, answers[name], view) for name in gallery_models(view, answers)]


def _judge(dataset: Dataset, name: str, answers: Answers, view: View) -> Judge:
    if isinstance(answers, ClassAnswers):
        return Classified(dataset, answers)
    model = view.detectors[name]
    causes = {row.set: row.cause for row in model.chosen_frames}
    return Detected(dataset, name, answers, iou=model.settings.iou, max_dets=model.settings.max_dets, causes=causes)


def gallery_models(view: View, known: Collection[str]) -> list[str]:
    """Return the models the gallery shows: those in `show`, then classifiers and detectors, most robust first."""
    ranked = view.ranked
    return [name for name in dict.fromkeys([*view.show, *ranked]) if name in known and name in ranked][:MOST_SHOWN]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """The page's figures of one task, by chapter.

    `still` replaces `main` if every image is a set of its own, `varied` if images were changed on one scale.
    """

    main: tuple[FigureSpec, ...]
    compare: tuple[FigureSpec, ...] = ()
    slices: tuple[FigureSpec, ...] = ()
    still: tuple[FigureSpec, ...] = ()
    varied: tuple[FigureSpec, ...] = ()


TASKS = {
    Task.CLASSIFICATION: TaskPage(
        main=(
            figures_trend.trend, figures_accuracy.curve, figures_accuracy.time_curve, figures_classes.per_class,
            figures_slices.per_offset, figures_accuracy.first_failure, figures_smoothing.smoothing,
        ),
        compare=(figures_accuracy.comparison,),
        slices=(
            figures_slices.frame_types, figures_slices.by_fps, figures_slices.by_hint, figures_review.review_impact,
            figures_review.review_offsets,
        ),
        still=(figures_classes.class_accuracy,),
        varied=(
            replace(figures_trend.trend, title="Does a more accurate model hold up better?"),
            replace(figures_classes.per_class, title="Which classes suffer?"),
        ),
    ),
    Task.DETECTION: TaskPage(
        main=(
            figures_detection.overview, figures_detection.curve, figures_classes.detection_class,
            figures_detection.errors, figures_detection.temporal,
        ),
        still=(figures_classes.class_accuracy,),
        varied=(figures_detection.overview, figures_classes.detection_class),
    ),
}  # fmt: skip
"""Every task's part of the page; a new figure is a function in a `figures_*` file and a line here."""

ALONE = {"trend": "Where does it stand beside the papers’ models?"}
"""Questions about several models, reworded for one."""

VARIANTS = (
    figures_variants.means, figures_variants.levels, figures_variants.rungs, figures_variants.survival,
)  # fmt: skip
CONTRASTS = {
    "variants": figures_variants.contrasts_variants,
    "models": figures_variants.contrasts_models,
    "targets": figures_variants.contrasts_targets,
}
"""The figures of data with variants, for any task; those of contrasts by kind."""

BACKGROUND = (
    figures_background.background_contrasts, figures_background.background_rungs,
    figures_background.background_context, figures_background.background_models, figures_background.background_area,
)  # fmt: skip
"""The figures of a ladder of backgrounds, which replace the general one of rungs."""

GENERATOR = (
    figures_generator.granularity_ratio, figures_generator.granularity_curves, figures_generator.granularity_kept,
)  # fmt: skip
"""The figures of a generator's searches, from coarse to fine."""

PEOPLE = (
    figures_people.people_accuracy, figures_people.people_preservation, figures_people.people_consistency,
    figures_people.people_confusion, figures_people.people_times,
)  # fmt: skip
"""The figures of the names that people gave the images, for any task."""

BOXES = (figures_boxes.people_boxes,)
"""The figures of the boxes that people drew."""

QUESTIONS = [one for part in TASKS.values() for one in (*part.main, *part.compare, *part.slices)]
TRAININGS = (trainings.trainings,)
CHANGE = (change.before_after, change.before_after_curve)
QUESTIONS += [
    figures_classes.class_accuracy,
    *GENERATOR,
    *BACKGROUND,
    *VARIANTS,
    *CONTRASTS.values(),
    *CHANGE,
    *TRAININGS,
    *PEOPLE,
    *BOXES,
]
"""All figures; other pages ask the same question of a figure in other words."""


def _chapters(view: View) -> dict[str, list[list[Figure]]]:
    """Return figures by section; each entry is a list of alternatives (one per model) or of one."""
    told = [*(PEOPLE if view.results.people else ()), *(BOXES if view.results.drawn else ())]
    named = [one.figures(view) for one in told]
    people = {"people": [one for one in named if one[0].drawing is not None]}
    if not view.results.models and people["people"]:  # without models, a figure about models is not missing
        return {name: [] for name in ("change", "main", "compare", "slices", "variants", "contrasts")} | people
    parts = [TASKS[task] for task in Task if view.of(task)] or [TASKS[Task.CLASSIFICATION]]
    found: dict[str, list[FigureSpec]] = {
        "change": list(CHANGE) if view.change and not view.words.is_still else [],
        "trainings": list(TRAININGS) if view.results.trainings and not view.words.is_still else [],
    }
    if view.words.is_still or view.variants:
        has_ladder = story_background.ladder(view) is not None
        asked = [one for part in parts for one in (part.still if view.words.is_still else part.varied)]
        compare = [one for part in parts for one in part.compare] if len(view.classifiers) > 1 else []
        found |= {
            "main": list(dict.fromkeys(asked)),
            "compare": compare,
            "slices": [],
            "granularity": list(GENERATOR) if story_generator.granular(view) is not None else [],
            "background": list(BACKGROUND) if has_ladder else [],
            "variants": list(VARIANTS) if view.variants and not has_ladder else [],
            "contrasts": [] if has_ladder else [CONTRASTS[one.kind] for one in story_variants.contrasts(view)],
        }
        drawn = {name: [one.figures(view) for one in questions] for name, questions in found.items()}
        # A figure that does not apply to such data is not missing.
        kept = {name: [one for one in groups if one[0].drawing is not None] for name, groups in drawn.items()}
        return kept | people
    alone = len(view.results.models) == 1
    main = [one for part in parts for one in part.main]
    drawn = {name: [one.figures(view) for one in questions] for name, questions in found.items()}
    return {
        **{name: [one for one in groups if one[0].drawing is not None] for name, groups in drawn.items()},
        "main": [(replace(one, title=ALONE.get(one.name, one.title)) if alone else one).figures(view) for one in main],
        "compare": [] if alone else [one.figures(view) for part in parts for one in part.compare],
        "slices": [one.figures(view) for part in parts for one in part.slices],
        **people,
    }


def _remove_stale(folder: Path, drawn: set[str]) -> None:
    """Remove figures of an earlier report of this run that this one did not draw; other files are kept."""
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
    options: PageOptions,
) -> dict[str, object]:
    script = "\n".join(map(_asset, SCRIPTS))
    about = read_json(path) if (path := inside(run, "run.json")).is_file() else {}
    about = about if isinstance(about, Mapping) else {}
    head, lede = story.lead(view)
    pairs, left_out = story.comparisons(view)
    asked = "how often is it right?" if view.words.is_still or view.variants else "does it flicker?"
    if story_background.ladder(view) is not None:
        asked = "how much does the background decide?"
    info = replace(view.results.dataset, name=printable(view.results.dataset.name or dataset.name))
    return {
        "title": f"{info.name}: {asked} · strobe",
        "css": _asset("report.css"),
        "js": script,
        # The page may run only this script, whatever the name of a class or a video.
        "script_hash": base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii"),
        "icon": base64.b64encode(_asset("icon.svg").encode("utf-8")).decode("ascii"),
        "light": as_script(LIGHT),
        "version": installed_version() or "(not installed)",
        "made_at": printable(about.get("at") or "").replace("T", " ").replace("+00:00", " UTC"),
        "parts": _ENDS.split,
        "lead": head,
        "lede": lede,
        "dataset": info,
        "size": view.size,
        "explained": explained(view),
        "glossary": glossary(view),
        "varied": _varied(view, chapters),
        "people": story_people.people_chapter(view),
        "boxed": figures_boxes.boxes_quality(view),
        "people_text": story_people.people_text,
        "n_models": len(view.results.models),
        "headlines": [headline(view, task) for task in Task if view.of(task)],
        "failed": story.failures(view, about),
        "few_failures": FEW_FAILURES,
        "many_details": MANY_DETAILS,
        "words": view.words,
        "published": list(detection_rows()) if view.detectors else [],
        "only_detectors": bool(view.detectors) and not view.classifiers,
        "example": None if view.words.is_still else example(choice, gallery),
        "gallery": gallery_words(choice, gallery, dataset, view, limit=options.gallery_sets),
        "gallery_json": as_script(gallery.data),
        "chapters": chapters,
        "comparison": pairs,
        "change": change.change_table(view),
        "trainings": () if view.words.is_still else view.results.trainings or (),
        "spread_text": spread_text,
        "in_gallery": {one["id"] for one in gallery.data["sets"]} if choice.change else (),
        "pairs_left_out": left_out,
        "compared": story.compared(view, left_out),
        "off_the_line": story.off_the_line(view),
        "facts": story.facts(view, about),
        "details": story.run_details(view, about),
        "number": lambda value, digits: f"{value:z.{digits}f}".replace("-", "−"),  # z: no minus sign before zero
        "plain": plain_number,
        "printable": printable,
        "p_text": p_text,
    }


def _generator(
    view: View, dataset: Dataset, found: story_generator.GranularityView | None, strips: Mapping[str, object] | None
) -> dict[str, object] | None:
    """Return the content of the chapter on a generator's searches, except its figures; None if there are none."""
    if found is None:
        return None
    return {
        "strips": strips is not None,
        "accepted": story_generator.accepted_text(dataset.info.provenance),
        "medians": story_generator.medians(view, found),
        "by_class": story_generator.by_class(found),
        "kept": found.preserved,
    }


def _varied(view: View, chapters: Mapping[str, list[list[Figure]]]) -> dict[str, object] | None:
    """Return the content of the chapter on variants, except its figures; None if there are none."""
    if not view.variants:
        return None
    models, rows = story_variants.fooled(view)
    drawn = {groups[0].group: groups for groups in chapters["contrasts"]}
    return {
        "study": story_variants.study(view),
        "heat": story_variants.heat(view),
        "searches": [(one, *story_variants.median_text(view, one)) for one in story_variants.own_scale(view)],
        "robust": story_variants.robust(view),
        "survives": story_variants.survives(view),
        "fooled_models": models,
        "fooled": rows,
        "contrasts": [(one, drawn.get(f"contrasts_{one.kind}")) for one in story_variants.contrasts(view)],
        "sided": partial(story_variants.sided, view),
    }
