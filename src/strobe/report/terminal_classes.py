"""The terminal table of accuracy among the dataset's classes and among all classes of a model."""

from strobe.core.errors import printable
from strobe.core.variants import ANCHOR
from strobe.report.view import Lines, View
from strobe.report.wording import called, with_interval

__all__ = ["all_class_lines"]


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
