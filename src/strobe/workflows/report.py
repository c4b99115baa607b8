"""Write the report of a scored run from its results, dataset, predictions and images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from strobe.analyses.results import Results
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.labels import LabelSpace
from strobe.core.locks import writing
from strobe.core.ports import FrameSource, Progress, Silent
from strobe.core.seals import damaged_files, read_digests
from strobe.report.page import PageOptions, gallery_models, write_report
from strobe.report.study import STUDIES, applying
from strobe.report.tables import write_tables
from strobe.report.view import MOST_SHOWN, View
from strobe.report.wording import counted
from strobe.store.opening import NoImages, Opened, frame_source
from strobe.store.run_folder import AGAIN, OUTDATED, Run, StoredModel


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Options of a report: the options of the page, and the dataset's folder if it was moved.

    `show` names models that the figures and the gallery show first. `change` names the models before and after a
    change. Without `change`, a task with exactly two models compares them, in the order in which they were requested.
    """

    options: PageOptions = field(default_factory=PageOptions)
    dataset: Path | None = None
    subset: Path | None = None
    show: tuple[str, ...] = ()
    change: tuple[str, str] | None = None


def report_run(
    run: Path,
    request: ReportOptions | None = None,
    progress: Progress | None = None,
    *,
    opened: Opened | None = None,
    results: Results | None = None,
) -> Path:
    """Write report.html, figures/ and tables/ for a scored run folder and return the path of the page.

    `opened` and `results` are the dataset and its results if it was just scored. Its tables are then already written.
    """
    Run(run).about()  # raises an error if there is no run, before a folder is made for the lock
    with writing(run):
        return _write(Run(run), request or ReportOptions(), progress or Silent(), opened, results)


def _write(
    place: Run, request: ReportOptions, progress: Progress, opened: Opened | None, results: Results | None
) -> Path:
    run, about, results = place.path, place.about(), results or place.results()
    for name in sorted(results.study_names - set(STUDIES)):
        progress.note(f"the run has results of the study {printable(name)}, which is not installed; they are left out")
    _check_show(run, results, request.show)
    change = _change(run, results, request.change, place.asked())
    if opened is None:
        opened = Opened.of_run(place, moved_to=request.dataset, subset=request.subset)
        write_tables(run, results)
    dataset = opened.dataset
    if dataset.digest() != results.dataset.digest:
        subset = results.settings.subset
        hint = f"use the same <<subset>> ({printable(subset)})" if subset else "run strobe score on this run again"
        raise StrobeError(f"{printable(dataset.name)} is not the dataset of {printable(run)}/results.json; {hint}")
    stored = {model.name: model for model in place.models(dataset, allow_missing=True)}
    ranked = View(results=results).ranked
    if View(results=results).classifiers:
        dataset = dataset.labelled_sets()
    show = [
        *request.show,
        *(request.change or ()),
        *request.options.show,
        *(name for name in ranked if _is_own(name, stored, about)),
    ]
    view = View(results=results, show=show)
    others = [name for study in applying(view) for name in study.answers_of(view) if name in stored]
    answers = {name: stored[name].load() for name in dict.fromkeys([*gallery_models(view, stored), *others])}
    raw = {name: names for name, answer in answers.items() if (names := _own_classes(stored[name], answer)) is not None}
    options = replace(request.options, raw_names={**raw, **request.options.raw_names}, show=show, change=change)
    source = _source(opened.dataset, progress)
    page = write_report(run, results, dataset, answers, source, options, progress, all_sets=opened.dataset)
    if read_digests(run)["files"]:
        if place.is_outdated():
            progress.note(f"{printable(run)}: {OUTDATED}")
        place.seal()
        if damaged := damaged_files(run):
            progress.note(f"{counted(len(damaged), 'file')} of {printable(run)} damaged, first {damaged[0]}; {AGAIN}")
    return page


def _check_show(run: Path, results: Results, show: Sequence[str], *, option: str = "<<show>>") -> None:
    known = View(results=results).ranked
    strange = next((name for name in show if name not in known), None)
    if strange is not None:
        names = ", ".join(printable(name) for name in known) or "none"
        raise StrobeError(f"{option}: {printable(run)} has no results of {printable(strange)}; its models are {names}")
    if len(set(show)) > MOST_SHOWN:
        raise StrobeError(f"<<show>>: {len(set(show))} models given, but a figure can show at most {MOST_SHOWN}")


def _change(
    run: Path, results: Results, requested: tuple[str, str] | None, order: Sequence[str]
) -> tuple[str, str] | None:
    """Return the two models to compare. Return None if none were named and the task has more than two models."""
    if requested is not None:
        _check_show(run, results, requested, option="<<before>> and <<after>>")
        if requested[0] == requested[1]:
            raise StrobeError(
                f"<<before>> and <<after>>: {printable(requested[0])} is given twice; name two different models of the "
                "run"
            )
        if results.models[requested[0]].task is not results.models[requested[1]].task:
            raise StrobeError("<<before>> and <<after>>: a classifier and a detector cannot be compared")
        return requested
    names = sorted(results.models, key=lambda name: [*order, name].index(name))
    if len(names) != 2 or len({model.task for model in results.models.values()}) > 1:
        return None
    return names[0], names[1]


def _is_own(name: str, stored: Mapping[str, StoredModel], about: Mapping[str, Any]) -> bool:
    """Return whether a model is the user's own: it is from a file, not in the testbed, or named in the command."""
    from strobe.models.testbed import tags_of

    if name not in stored:
        return False
    named = name in str(about.get("command") or "").split()
    return named or "spec" not in stored[name].facts or tags_of(name)[0] is None


def _source(dataset: Dataset, progress: Progress) -> FrameSource | None:
    """Return the dataset's images, or None with a note, because a report without images is still useful."""
    try:
        return frame_source(dataset)
    except NoImages:
        progress.note(f"the gallery has no images: {printable(dataset.name)} was imported without its images")
        return None
    except StrobeError as error:
        progress.note(f"the gallery has no images: {error}")
        return None


def _own_classes(model: StoredModel, answers: Answers) -> Sequence[str] | None:
    """Return the model's own best class per frame, if strobe ran it and its classes differ from the dataset's."""
    if not isinstance(answers, ClassAnswers) or answers.own_label is None or "spec" not in model.facts:
        return None
    space = LabelSpace.from_json(model.facts["spec"]["label_space"])
    if space.ids == model.dataset.info.label_space.ids:
        return None
    return [space.names[label] if label >= 0 else "" for label in answers.own_label.tolist()]
