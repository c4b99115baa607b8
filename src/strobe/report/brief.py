"""The brief at the start of a printed report: what was found and what to do, on two pages."""

from collections.abc import Mapping, Sequence

from strobe.core.errors import printable
from strobe.core.tasks import Task
from strobe.report.drawing import Figure
from strobe.report.headline import few_videos, headline
from strobe.report.view import View
from strobe.report.wording import better_first, extreme, is_sure, percent, points, some, value_of

MOST_MODELS = 8
"""The largest number of models in the brief's table. The appendix has all of them."""
MOST_STEPS = 4
_FIGURES = 2


def brief(
    view: View,
    figures: Mapping[str, list[list[Figure]]],
    examples: Sequence[Mapping[str, object]],
    *,
    paper: str,
) -> dict[str, object]:
    """Return the content of the brief: table, what to do next, figures (the first two of the page) and examples.

    There is no table if no set has a label. `n_more` models are only in the appendix. `paper` is the paper size in CSS.
    """
    task = next((task for task in Task if view.of(task)), None)
    table = None if task is None else headline(view, task)
    names = [] if table is None else list(table.models)[:MOST_MODELS]
    drawn = [group[0] for groups in figures.values() for group in groups if group[0].drawing is not None]
    return {
        "table": table,
        "names": names,
        "n_more": 0 if table is None else len(table.models) - len(names),
        "steps": next_steps(view)[:MOST_STEPS],
        "figures": drawn[:_FIGURES],
        "examples": examples,
        "paper": paper,
    }


def next_steps(view: View) -> list[str]:
    """Return what to do about these results, the most important step first. Each step gives its reason."""
    steps = [_which_model(view), _weakest_class(view), _review(view), _more_videos(view)]
    if not view.results.models and view.results.flicker is not None:
        steps.append(
            "Label some sets to learn how often the model is right: flicker only shows how often its answer changes."
        )
    return [step for step in steps if step]


def _which_model(view: View) -> str:
    metrics = ("acc_pmk", "map_pmk", "flicker")
    rows = [row for row in view.results.comparison if row.metric in metrics]
    if not rows:
        return ""
    sure = [better_first(row) for row in rows if is_sure(row)]
    if not sure:
        return "Do not choose between these models by robustness: no difference between them is significant."
    best = view.ranked[0] if view.ranked else sure[0].a
    order = {name: index for index, name in enumerate(view.ranked)}
    beaten = sorted((row for row in sure if row.a == best), key=lambda row: order.get(row.b, 0))
    equal = [row.b if row.a == best else row.a for row in rows if best in (row.a, row.b) and not is_sure(row)]
    if equal or not beaten:
        rest = " Exclude the others." if beaten else ""
        names = some([printable(name) for name in [best, *sorted(equal, key=lambda name: order.get(name, 0))]], 3)
        return f"Choose between {names}: none is significantly worse than {printable(best)}.{rest}"
    return f"Prefer {printable(best)}. {view.words.say(beaten[0].sentence, names=(best, beaten[0].b))}"


def _weakest_class(view: View) -> str:
    """Return the class with the largest drop among those with at least ten sets."""
    name, model = next(iter(view.classifiers.items()), ("", None))
    if model is None or view.variants:
        return ""
    known = [one for one in model.per_class if one.acc_orig.n >= 10 and one.drop.value]
    if len(known) < 2:
        return ""
    worst, names, tie = extreme(known, lambda one: value_of(one.drop), lambda one: one.name)
    if tie:
        return f"Collect training video of {names}: {printable(name)} loses {points(worst.drop)} on each of them."
    text = f"{percent(worst.acc_orig)} to {percent(worst.acc_pmk)} (n = {worst.acc_orig.n})"
    return f"Collect training video of “{printable(worst.name)}”: {printable(name)} falls there from {text}."


def _review(view: View) -> str:
    if view.results.dataset.reviewed != "none" or not view.words.is_video or view.words.is_still:
        return ""
    return "Let people confirm that the frames of a set look the same (strobe review serve): nobody has done so yet."


def _more_videos(view: View) -> str:
    return "Add videos: the results rest on few of them, so the intervals are unreliable." if few_videos(view) else ""
