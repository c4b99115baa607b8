"""The sentences and terms of classifiers on sets of frames."""

from collections.abc import Mapping

from strobe.analyses.model_results import ClassificationResult
from strobe.core.errors import printable
from strobe.core.estimate import Missing
from strobe.core.tasks import Task
from strobe.report.headline import measures
from strobe.report.view import Lines, View
from strobe.report.wording import (
    CAUSES,
    DETECTION_TERMS,
    both_ends,
    counted,
    is_known,
    measured,
    plain_number,
    value_of,
    with_interval,
)

_OF_SETS = (
    "95 %: if the study were repeated on other {source}s, about 95 of 100 intervals would contain the true value. "
    "{how}Differences between models use the corrected test{means}."
)


_HOW = {
    Task.CLASSIFICATION: "Shares use Clopper–Pearson if every {source} has one set, else Korn–Graubard. ",
    Task.DETECTION: "mAP uses a jackknife over {source}s. ",
}


def set_terms(view: View) -> list[tuple[str, str]]:
    """Return the terms for sets around an anchor, for classifiers, detectors or both."""
    words, tasks = view.words, [task for task in Task if view.of(task)] or [Task.CLASSIFICATION]
    out = [
        ("anchor", f"The {words.picture} that a set is built around. It has the label."),
        ("set", words.set_text),
        ("k", f"The largest distance from the anchor in a set. In this report: {words.within}."),
    ]
    both = len(tasks) > 1
    if Task.CLASSIFICATION in tasks:
        out.append(
            (
                "holds, breaks",
                "A set holds if every member is right. It breaks if the anchor is right and another member is wrong.",
            )
        )
    if Task.DETECTION in tasks:
        who = "holds, breaks (detectors)" if both else "holds, breaks"
        means = (
            "A set holds if AP is above 0 on the anchor and no frame has a lower AP. It breaks if some frame has "
            "a lower AP. The worst frame has the lowest AP."
        )
        out.append((who, means))
        out += DETECTION_TERMS
    for task in tasks:
        named = [(measure.name, measure.meaning) for measure in measures(view, task)]
        out += [(f"{name} ({task})" if both and name == "drop" else name, meaning) for name, meaning in named]
    if Task.DETECTION in tasks:
        out += [(f"error: {name}", f"{text[:1].upper()}{text[1:]}.") for name, text in CAUSES.items()]
        out += [("track", "One object across frames, identified by an id in the data.")]
    how = "".join(_HOW[task] for task in tasks)
    means = ", and means use the bootstrap" if Task.CLASSIFICATION in tasks else ""
    return [*out, ("interval", _OF_SETS.replace("{how}", how).replace("{means}", means).format(source=words.source))]


def temporal_lead(view: View, scored: Mapping[str, ClassificationResult]) -> tuple[str, str]:
    """Return how often the most robust classifier is right on anchors, and on whole sets."""
    words, (first, best) = view.words, next(iter(scored.items()))
    sets = f"the {counted(best.acc_pmk.n, 'set')} from {view.sources}"
    head = (
        f"{printable(first)} gets {measured(best.acc_orig)} of the anchors right. In {measured(best.acc_pmk)} of "
        f"{sets}, it is also right on all {words.around}."
        if value_of(best.acc_orig) > value_of(best.acc_pmk)
        else f"{printable(first)} does not flicker on this data. It is right on {measured(best.acc_orig)} of the "
        f"anchors, and holds on the same share of {sets}."
    )
    return head, _lede(scored, view)


def _lede(models: Mapping[str, ClassificationResult], view: View) -> str:
    words = view.words
    if len(models) == 1:
        (one,) = models.values()
        right, lost = one.acc_orig.count, one.drop.count
        if not right or lost is None:
            return f"The drop {words.within} is {measured(one.drop, 'points')}. It is the cost of flicker."
        broken = "no set breaks" if not lost else "1 set breaks" if lost == 1 else f"{plain_number(lost)} sets break"
        cost = f"a drop of {measured(one.drop, 'points')}"
        return f"Of {counted(right, 'set')} with a right anchor, {broken} {words.within}: {cost}."
    drops = {name: model.drop for name, model in models.items() if is_known(model.drop)}
    # Not "the most robust": the model that holds most sets may also be the one that loses most.
    text = f"None of the other {len(models) - 1} models holds on more sets. "
    if len(models) == 2:
        text = "The other model does not hold on more sets. "
    if not drops:
        return text.rstrip()
    (least, fewest, _), (worst, most, _) = both_ends(drops, lambda name: value_of(drops[name]), str)
    if fewest == most:
        same = (
            f"The drop of each model is {measured(drops[worst], 'points')}"
            if drops[worst].value
            else "No set breaks for any model"
        )
        return text + f"{same} {words.within}."
    low, high = (f"{measured(drops[name], 'points')} ({who})" for name, who in ((least, fewest), (worst, most)))
    return text + f"Drops {words.within} range from {low} to {high}."


def robustness_table(view: View) -> Lines | None:
    """Return the effective robustness of every model, highest first, if a line could be fitted."""
    trend = view.results.trend
    models = () if isinstance(trend, Missing) or view.words.is_still else trend.models
    robust = [(model, model.effective_robustness) for model in models]
    known = [(model, off) for model, off in robust if is_known(off.linear, off.logit)]
    if not known:
        return None
    rows = [
        [printable(model.model), *map(with_interval, (off.linear, off.logit)), model.sentence]
        for model, off in sorted(known, key=lambda pair: -value_of(pair[1].linear))
    ]
    figures = ("the accuracy under every variant", "accuracy") if view.variants else ("acc_pmk", "acc_orig")
    note = (
        f"Effective robustness is {figures[0]} minus the value that the line of the other models predicts for the same "
        f"{figures[1]}, in points. It is given on two axes, because the choice of axis can change the sign."
    )
    return "Which models are above or below the line?", ["Model", "Linear", "Logit", "Verdict"], rows, [note]
