"""The tables of classifiers on sets: headline, curves, classes, offsets, slices, comparison and trend."""

from collections.abc import Callable, Mapping

from strobe.analyses.measures import figures_of
from strobe.analyses.model_results import ClassificationResult
from strobe.core.codec import encode
from strobe.core.errors import printable
from strobe.core.estimate import Missing
from strobe.core.variants import ANCHOR
from strobe.report.rows import Row, Table, as_row, each, spread
from strobe.report.view import Lines, View
from strobe.report.wording import called, with_interval
from strobe.studies.temporal.records import TypeSlice


def _headline(model: ClassificationResult) -> Row:
    out: Row = {"model_type": model.model_type}
    for name, found in figures_of(model).items():
        out |= spread(name, found)
    return out | {"unscored_frames": model.unscored.frames, "unscored_sets": model.unscored.sets}


def _frame_type(part: TypeSlice) -> Row:
    out = as_row(part, "without", "n_sets", "members_dropped")
    out.pop("control", None)
    return out | {f"control_{key}": value for key, value in (encode(part.control) or {}).items()}


def _trend(view: View) -> Table:
    trend = view.results.trend
    return [
        {"model": one.model, "model_type": one.model_type, "standard": one.standard, "in_fit": one.in_fit}
        | spread("linear", off.linear)
        | {"linear_verdict": off.linear.verdict}
        | spread("logit", off.logit)
        | {"logit_verdict": off.logit.verdict}
        for one in ([] if isinstance(trend, Missing) else trend.models)
        for off in (one.effective_robustness,)
    ]


TABLES: Mapping[str, Callable[[View], Table]] = {
    "headline": lambda view: each(view.classifiers, lambda model: [_headline(model)]),
    "curve": lambda view: each(view.classifiers, lambda model: map(as_row, model.curve)),
    "time_curve": lambda view: each(
        view.classifiers, lambda m: map(as_row, () if isinstance(m.time_curve, Missing) else m.time_curve.points)
    ),
    "per_class": lambda view: each(view.classifiers, lambda model: map(as_row, model.per_class)),
    # The model `all models` is the mean over models on their common members.
    "per_offset": lambda view: (
        each(view.classifiers, lambda model: map(as_row, model.per_offset))
        + [{"model": "all models", **as_row(one)} for one in view.results.offset_error_all_models]
    ),
    "smoothing": lambda view: each(
        view.classifiers,
        lambda model: (as_row(one, "method", "parameter", "delay_frames", "incomplete") for one in model.smoothing),
    ),
    "first_failure": lambda view: each(view.classifiers, lambda model: map(as_row, model.first_failure.survival)),
    "frame_types": lambda view: each(view.classifiers, lambda model: map(_frame_type, model.frame_types)),
    "by_fps": lambda view: each(view.classifiers, lambda model: map(as_row, model.by_fps)),
    "by_hint": lambda view: each(
        view.classifiers, lambda m: ({"hint": hint, **as_row(one)} for hint, bins in m.by_hint.items() for one in bins)
    ),
    "comparison": lambda view: [as_row(one) for one in view.results.comparison],
    "trend": _trend,
    "all_classes": lambda view: each(
        view.classifiers,
        lambda model: (
            ()
            if (of := model.all_classes) is None
            else ({"source": of.source, "n_own": of.n_own, "n_all": of.n_all, **as_row(one)} for one in of.pictures)
        ),
    ),
}


def all_class_lines(view: View) -> list[Lines]:
    """Return accuracy among the dataset's classes and among all classes of a model, if the former are a subset."""
    rows, own, every = [], 0, set[int]()
    for name, model in view.classifiers.items():
        for one in () if model.all_classes is None else model.all_classes.pictures:
            what = "" if one.variant == ANCHOR else f", {called(view.variants[one.variant])}"
            rows.append([f"{printable(name, limit=60)}{what}", with_interval(one.own), with_interval(one.all)])
        if model.all_classes is not None:
            own, every = model.all_classes.n_own, every | {model.all_classes.n_all}
    if not rows:
        return []
    among = " or ".join(f"{n:,}" for n in sorted(every))
    columns = ["model", f"among the {own:,} classes of the data", f"among all {among} of the model"]
    return [(f"{printable(view.results.dataset.name)}: accuracy by choice of classes", columns, rows, [])]
