"""The report: one self-contained page, its figures as files, and its tables."""

import base64
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from strobe.analyses.gallery import Choice, Classified, Judge, choose
from strobe.analyses.gallery_detection import Detected
from strobe.analyses.results import Results
from strobe.analyses.variants_view import overall
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import expect, printable
from strobe.core.files import inside, read_json, write_bytes, write_text
from strobe.core.late import installed_version, require
from strobe.core.ports import FrameSource, Progress, Silent
from strobe.core.tasks import Task
from strobe.report import story
from strobe.report.brief import brief
from strobe.report.drawing import Figure
from strobe.report.gallery import Gallery, as_script, build
from strobe.report.headline import headline
from strobe.report.pdf import Paper, chromium, print_pdf
from strobe.report.story import examples, explained, gallery_words, glossary
from strobe.report.study import STUDIES, PageInput, applying, decided, studies
from strobe.report.style import LIGHT
from strobe.report.view import MOST_SHOWN, View, count_sources, in_short_names
from strobe.report.wording import plain_number

_BRIEF_EXAMPLES = 3
FEW_FAILURES = 3
"""The largest number of failed models in an open list. A longer list is collapsed."""
MANY_DETAILS = 12
"""The largest number of models whose settings get a line each.

With more models, all settings are collapsed into one section.
"""
MANY_MODELS = 40
"""Above this number of models, tables show only the first rows, and the images get less room."""
SCRIPTS = ("page.js", "viewer.js", "gallery.js", "flicker.js")
"""The page's scripts in the order of execution. Each script uses the earlier ones."""
_ENDS = re.compile(r"(\[(?:[−\d.,\xa0]+|no\xa0interval)\])")
"""The interval of a figure in a sentence, in a muted style after the figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """The size limits of the page, and the order of models.

    `show` names models that figures and gallery show before the most robust models. The gallery has at most
    `gallery_sets` sets. Its images have at most `picture_px` pixels on their longest side, and `max_megabytes` limits
    their total size. With None, the limit is 11 megabytes. With more than 40 models, whose tables are long, it is 7
    megabytes, and the page stays below 10 megabytes. `raw_names` may give the model's own best class for every frame
    (before projection). `change` names two models as before and after. With `paper`, the report is also printed to
    report.pdf on paper of this size.
    """

    gallery_sets: int = 36
    picture_px: int = 400
    quality: int = 70
    max_megabytes: float | None = None
    raw_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    show: Sequence[str] = ()
    change: tuple[str, str] | None = None
    paper: Paper | None = None

    def __post_init__(self) -> None:
        expect(self.gallery_sets >= 0, "<<gallery>>", ">= 0", self.gallery_sets)
        expect(32 <= self.picture_px <= 2000, "<<image_px>>", "32 to 2000", self.picture_px)
        expect(1 <= self.quality <= 100, "quality", "1–100", self.quality)
        expect(self.max_megabytes is None or self.max_megabytes > 0, "<<max_mb>>", "> 0", self.max_megabytes)

    def max_bytes(self, n_models: int) -> int:
        """Return the size limit of the images for this number of models."""
        return int(1e6 * (self.max_megabytes or (7.0 if n_models > MANY_MODELS else 11.0)))

    def renamed(self, names: Mapping[str, str]) -> "PageOptions":
        """Return the same options with the models renamed."""
        change = self.change and (names.get(self.change[0], self.change[0]), names.get(self.change[1], self.change[1]))
        raw_names = {names.get(name, name): raw_name for name, raw_name in self.raw_names.items()}
        return replace(self, show=[names.get(name, name) for name in self.show], change=change, raw_names=raw_names)


def write_report(
    run: Path,
    results: Results,
    dataset: Dataset,
    answers: Mapping[str, Answers],
    source: FrameSource | None,
    options: PageOptions | None = None,
    progress: Progress | None = None,
    *,
    all_sets: Dataset | None = None,
) -> Path:
    """Write report.html and figures/ into the run folder, and return the path of the page.

    `answers` has the models' answers, aligned with the dataset's frames. `source` supplies the gallery's images.
    Without a source, the gallery shows only answers. `all_sets` is the dataset with the sets that have no label.
    """
    options, progress = options or PageOptions(), progress or Silent()
    require("jinja2", what="the report", extra="report")  # before figures are drawn
    if options.paper is not None:
        chromium()
    results, names = in_short_names(results)
    if names:
        answers = {
            names.get(name, name): replace(answer, model=names.get(name, name)) for name, answer in answers.items()
        }
        options = options.renamed(names)
    view = View(
        results=results,
        show=options.show,
        by_kind=count_sources(dataset),
        change=options.change,
        whole={short: name for name, short in names.items()},
    )
    STUDIES.report(progress.note)
    with progress.task("figures", None) as advance:
        figures = section_figures(view)
        figure_names = set()
        for figure in (f for groups in figures.values() for group in groups for f in group):
            if figure.drawing is not None:
                write_text(run / "figures" / f"{figure.name}.svg", figure.drawing.svg)
                write_bytes(run / "figures" / f"{figure.name}.png", figure.drawing.png)
                figure_names.add(figure.name)
                advance(1)
        _remove_stale(run / "figures", figure_names)
    k, merged = results.dataset.k, dataset if dataset.variants is None else overall(dataset)
    if k < merged.info.k:  # the score's k is smaller than the data's, so frames beyond it are in no set
        dataset = dataset.keep_rows(dataset.row_levels() <= k)
    page = PageInput(
        view=view, dataset=dataset, all_sets=all_sets or dataset, source=source, answers=answers, figures=figures
    )
    chapters = [made for study in applying(view) if (made := study.chapter(page)) is not None]
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
    content = _context(run, view, dataset, choice, gallery, options)
    flips = next((chapter.content["flips"] for chapter in chapters if chapter.content.get("flips")), None)
    content |= {"figures": figures, "chapters": chapters, "brief": None, "flips": flips}
    path = run / "report.html"
    scripts = [*SCRIPTS, *(name for study in studies() for name in study.scripts)]
    write_text(path, render("report.html.j2", content, scripts=scripts))
    if options.paper is not None:
        shown = examples(choice, gallery, most=_BRIEF_EXAMPLES)
        content["brief"] = brief(view, figures, shown, paper=options.paper)
        with progress.task("PDF", None):
            print_pdf(render("report.html.j2", content, scripts=scripts), run / "report.pdf")
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
    """Return the models in the gallery: the models in `show`, then classifiers and detectors, most robust first."""
    ranked = view.ranked
    return [name for name in dict.fromkeys([*view.show, *ranked]) if name in known and name in ranked][:MOST_SHOWN]


def section_figures(view: View) -> dict[str, list[list[Figure]]]:
    """Return the figures of every study by section.

    Each entry is a list with one figure, or with an alternative for each model.
    """
    out: dict[str, list[list[Figure]]] = {}
    for study in applying(view):
        for part in study.figures(view):
            found = [figure.figures(view) for figure in part.figures]
            kept = [one for one in found if part.lists_missing or one[0].drawing is not None]
            out.setdefault(part.section, []).extend(kept)
    return out


def _remove_stale(folder: Path, drawn: set[str]) -> None:
    """Remove figures of an earlier report of this run that this report did not draw. Other files are kept."""
    for path in folder.glob("*"):
        ours = path.suffix in (".svg", ".png") and any(
            drawing.owns(path.stem) for study in studies() for drawing in study.drawings
        )
        if ours and path.stem not in drawn:
            path.unlink()


def _context(
    run: Path,
    view: View,
    dataset: Dataset,
    choice: Choice,
    gallery: Gallery,
    options: PageOptions,
) -> dict[str, object]:
    about = read_json(path) if (path := inside(run, "run.json")).is_file() else {}
    about = about if isinstance(about, Mapping) else {}
    head, lede = story.lead(view)
    subtitle = decided(view, lambda study: study.question(view))
    info = replace(view.results.dataset, name=printable(view.results.dataset.name or dataset.name))
    shared = {name: value for study in applying(view) for name, value in study.content(view).items()}
    return shared | {
        "title": f"{info.name}: {subtitle} · strobe",
        "light": as_script(LIGHT),
        "made_at": printable(about.get("at") or "").replace("T", " ").replace("+00:00", " UTC"),
        "parts": _ENDS.split,
        "lead": head,
        "lede": lede,
        "dataset": info,
        "size": view.size,
        "explained": explained(view),
        "glossary": glossary(view),
        "varied": bool(view.variants),
        "n_models": len(view.results.models),
        "n_flicker": 0 if (found := view.results.flicker) is None else len(found.models) + len(found.detectors or ()),
        "headlines": [headline(view, task) for task in Task if view.of(task)],
        "failed": story.failures(view, about),
        "few_failures": FEW_FAILURES,
        "many_details": MANY_DETAILS,
        "words": view.words,
        "only_detectors": bool(view.detectors) and not view.classifiers,
        "example": None if view.words.is_still else next(iter(examples(choice, gallery, most=1)), None),
        "gallery": gallery_words(choice, gallery, dataset, view, limit=options.gallery_sets),
        "gallery_json": as_script(gallery.data),
        "comparison": story.comparison_tables(view),
        "as_script": as_script,
        "in_gallery": {one["id"] for one in gallery.data["sets"]} if choice.change else (),
        "facts": story.facts(view, about),
        "details": story.run_details(view, about),
        "plain": plain_number,
    }


def asset(name: str) -> str:
    """Return the text of a file in report/assets, or "package:file" of a file elsewhere."""
    package, _, file = name.rpartition(":")
    folder = resources.files(package) if package else resources.files("strobe.report") / "assets"
    return (folder / file).read_text(encoding="utf-8")


def render(template: str, content: Mapping[str, object], *, scripts: Sequence[str]) -> str:
    """Return the page of a template of report/assets, filled with `content`.

    `scripts` run in this order. The page may run only these scripts, so names of classes or videos cannot inject
    another.
    """
    jinja2 = require("jinja2", what="the report", extra="report")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    script = "\n".join(map(asset, scripts))
    shared = {
        "css": asset("report.css"),
        "js": script,
        "script_hash": base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii"),
        "icon": base64.b64encode(asset("icon.svg").encode("utf-8")).decode("ascii"),
        "version": installed_version() or "(not installed)",
        "number": lambda value, digits: f"{value:z.{digits}f}".replace("-", "−"),  # z: no minus sign before zero
        "printable": printable,
    }
    text: str = environment.get_template(template).render(**shared, **content)
    return text
