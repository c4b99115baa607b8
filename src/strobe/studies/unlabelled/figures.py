"""Plots of flicker: by k and by time."""

from dataclasses import replace

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.charts_lines import bands_text, line_chart, lines_of
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.view import View
from strobe.report.wording import percent, value_of
from strobe.studies.unlabelled.records import FlickerPoint, FlickerScore
from strobe.studies.unlabelled.words import ranked


def _models(view: View) -> dict[str, FlickerScore]:
    return {} if view.results.flicker is None else dict(list(ranked(view.results.flicker).items())[:8])


def _known(point: FlickerPoint) -> Estimate:
    """Return the estimate of a point. At k = 0 it is 0 by definition, so its interval is a point."""
    found = point.flicker
    return found if point.k or found.low is None else replace(found, low=found.value, high=found.value)


@question("flicker_curve", "How fast does flicker grow with the set?")
def flicker_curve(view: View) -> Answer:
    """Flicker against k."""
    series = lines_of(_models(view), lambda one: ((point.k, _known(point)) for point in one.curve))
    if not series:
        return Missing("no model has answers on every frame of a set.")
    first = series[0]
    soon, last = (percent(value_of(first.y[place])) for place in (min(1, len(first.y) - 1), -1))
    return FigureContent(
        sentence=f"{printable(first.name)} changes its answer within one frame of the anchor in {soon} of the sets, "
        f"and {view.words.up_to(f'{first.x[-1]:.0f}')} in {last}.",
        how="The curve starts at 0, because an anchor agrees with itself. It can only rise." + bands_text(series),
        paint=line_chart(series, view.words.k_label, "flicker"),
        inches=(4.0, 3.9),
    )


@question("flicker_time_curve", "How fast does flicker grow with time?")
def flicker_time_curve(view: View) -> Answer:
    """Flicker against milliseconds."""
    curves = {name: model.time_curve for name, model in _models(view).items()}
    series = lines_of(
        curves, lambda one: () if isinstance(one, Missing) else ((point.ms, point.flicker) for point in one.points)
    )
    if not series:
        return Missing("neither times nor frame rates of the videos are known.")
    first = series[0]
    return FigureContent(
        sentence=f"Within {first.x[-1]:.0f} ms of the anchor, {printable(first.name)} changes its answer in "
        f"{percent(value_of(first.y[-1]))} of the sets.",
        how="On a time axis, videos with different frame rates are comparable." + bands_text(series),
        paint=line_chart(series, "milliseconds on either side of the anchor", "flicker", steps=True, whole=False),
        inches=(4.0, 3.9),
    )
