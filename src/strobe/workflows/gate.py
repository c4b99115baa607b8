"""`strobe gate`: does a model pass? Limits on its figures, and on what it lost against another on the same sets."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from strobe.analyses.gate import FailOn, Gate, Limit, Unsure, judge
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.variants_contrasts import own_contrasts
from strobe.analyses.variants_records import Contrast
from strobe.analyses.variants_view import overall
from strobe.core.answers import ClassAnswers
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.files import swapping, write_json, write_text
from strobe.core.names import short_names, shown_models
from strobe.core.ports import Progress
from strobe.report.gate import as_junit, as_markdown
from strobe.report.subject import Subject, kinds_of
from strobe.runs.folder import Held, Run
from strobe.workflows.compare import compare_scores, of_one_dataset, scores_of

__all__ = ["GateRequest", "gate", "write_gate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What is asked: the limits, which model of the run, against which, and how sure one must be."""

    limits: tuple[Limit, ...]
    model: str | None = None
    against: Path | None = None
    baseline: str | None = None
    fail_on: FailOn = "shown"
    unsure: Unsure = "fail"
    options: ScoreOptions = field(default_factory=ScoreOptions)
    subset: Path | None = None
    dataset: Path | None = None
    allow_missing: bool = False


def gate(new: Path, request: GateRequest, progress: Progress) -> Gate:
    """Hold a model of a run against the limits.

    The baseline is the model of the same name, or the only one, of the run `against`; or another model of the same run.
    """
    if not request.limits:
        raise StrobeError("nothing to decide: give --max-loss acc_pmk=1, --min acc_pmk=50 or --max drop=10")
    runs = [new] if request.against is None else [new, request.against]
    if request.against is not None and not request.against.exists():
        hint = "; a model of the same run is named with --baseline"
        raise StrobeError(f"--against: no such run folder: {printable(request.against)}{hint}")
    opened = of_one_dataset(runs, subset=request.subset, dataset_path=request.dataset)
    given, dataset = opened.dataset, overall(opened.dataset)
    held = [Run(run).models(dataset, allow_missing=request.allow_missing, k=request.options.k) for run in runs]
    model = _chosen(new, held[0], request.model, option="-m", but=request.baseline if len(runs) == 1 else None)
    models, baseline = {model.name: model}, None
    if request.against is not None or request.baseline is not None:
        same = [one for one in held[-1] if one.name == model.name] if request.against is not None else []
        other = same[0] if same and request.baseline is None else _chosen(
            runs[-1], held[-1], request.baseline, option="--baseline"
        )  # fmt: skip
        if other is model or (len(runs) == 1 and other.name == model.name):
            raise StrobeError(
                f"{printable(model.name)} against itself; name another with --baseline, or a run: --against"
            )
        if other.task is not model.task:
            raise StrobeError(
                f"{printable(model.name)} and {printable(other.name)} are of two kinds, a classifier and a detector"
            )
        baseline = other.name if other.name != model.name else _apart(runs, other.name)
        models[baseline] = other
    lost = next((limit for limit in request.limits if limit.kind == "max_loss"), None)
    if lost is not None and baseline is None:
        raise StrobeError(
            f"--max-loss {lost.measure} needs something to lose against: --against RUN, or --baseline MODEL"
        )
    scores = scores_of(dataset, models, request.options, progress)
    comparisons = compare_scores(dataset, [scores[name] for name in models]) if baseline is not None else ()
    found = scores[model.name]
    shown = shown_models(one.name for part in held for one in part)
    checks, change = judge(
        request.limits, found, comparisons, model=model.name, contrasts=_contrasts(given, model, request),
        fail_on=request.fail_on, unsure=request.unsure,
    )  # fmt: skip
    kinds = kinds_of(given)
    words = Subject(kinds=kinds)
    checks = tuple(replace(one, sentence=words.say(one.sentence)) for one in checks)
    return Gate(
        passed=all(one.passed for one in checks),
        model=model.name,
        baseline=baseline,
        dataset=dataset.name,
        n_sets=dataset.n_sets,
        n_sources=len(set(dataset.video_of_set.tolist())),
        k=dataset.info.k if request.options.k is None else request.options.k,
        fail_on=request.fail_on,
        unsure=request.unsure,
        checks=checks,
        change=change,
        short={one.name: shown[one.name] for one in models.values() if shown[one.name] != one.name} or None,
        kinds=kinds or None,
        subset=None if opened.subset is None else opened.subset.name,
    )


def _contrasts(dataset: Dataset, model: Held, request: GateRequest) -> dict[str, Contrast]:
    """What the model loses between the variants of the dataset, where there are any and a rule may be about it."""
    if dataset.variants is None or not any(limit.is_contrast for limit in request.limits):
        return {}
    answers = model.load()
    return own_contrasts(dataset, answers, request.options) if isinstance(answers, ClassAnswers) else {}


def _chosen(run: Path, held: Sequence[Held], name: str | None, *, option: str, but: str | None = None) -> Held:
    """The model of that name; without one, the only model there is."""
    names = ", ".join(printable(one.name) for one in held) or "none"
    if name is not None:
        found = next((one for one in held if one.name == name), None)
        if found is None:
            raise StrobeError(f"{option}: {printable(run)} has no predictions of {printable(name)}; it has {names}")
        return found
    left = [one for one in held if one.name != but]
    if len(left) != 1:
        raise StrobeError(f"{printable(run)} holds {names}; say which one with {option}")
    return left[0]


def _apart(runs: Sequence[Path], name: str) -> str:
    """The baseline's name where it is that of the model, told apart by its run's folder."""
    return f"{short_names([str(run.resolve()) for run in runs])[-1]}/{name}"


def write_gate(found: Gate, folder: Path) -> None:
    """gate.md for a pull request, gate.xml (JUnit) for a CI server, gate.json for programs; all or none of them."""
    with swapping(folder) as staged:
        write_text(staged.root / "gate.md", as_markdown(found))
        write_text(staged.root / "gate.xml", as_junit(found))
        write_json(staged.root / "gate.json", encode(found))
