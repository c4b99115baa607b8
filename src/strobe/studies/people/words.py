"""The text of the chapter on people who named images, and how they compare with models."""

from strobe.analyses.naming import MEMBER
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.variants import ANCHOR
from strobe.metrics.consistency import FEW_PICTURES
from strobe.report.view import View
from strobe.report.wording import EstimateText, called, counted, is_known, join, measured, percent, points, value_of
from strobe.studies.people.records import PeopleResults, PeopleScore

TERMS = (
    ("majority", "The answer that more than half of the people give. An image without a majority counts as wrong."),
    (
        "Fleiss’ κ",
        "Agreement between people, corrected for chance. “None of these”, “cannot tell” and “too late” are answers.",
    ),
    (
        "error consistency",
        "Cohen’s κ of being right. It is above 0 if two people or models err on the same images more often than by "
        "chance.",
    ),
    ("controls", "Images with a known answer that test attention. They count in no other figure."),
)


def people_text(n: int) -> str:
    """Return a number of people in words.

    >>> people_text(1), people_text(10)
    ('1 person', '10 people')
    """
    return counted(n, "person") if n == 1 else counted(n, "people").removesuffix("s")


def kappa(found: Estimate) -> str:
    """Return an agreement with two decimals and a true minus sign, or a dash.

    >>> kappa(Estimate(value=-0.125, low=-0.25, high=0.0, n=9))
    '−0.12 [−0.25, 0.00]'
    """
    return EstimateText(found.text(scale=1.0, digits=2).replace("-0.00", "0.00").replace("-", "−"), found)


def asked(view: View) -> dict[str, PeopleScore]:
    """Return the scores by the kind of images that people saw. With several kinds, each score names its condition."""
    found = view.results.people
    scores = () if found is None else found.scores
    several = len({score.condition for score in scores}) > 1
    return {_shown(view, score, several=several): score for score in scores}


def _shown(view: View, one: PeopleScore, *, several: bool) -> str:
    alone = view.words.is_still and not view.variants
    anchors = "images" if alone else "original images" if view.variants else view.words.anchors
    names = {ANCHOR: anchors, MEMBER: view.words.frames}
    facts = view.variants.get(one.variant)
    text = names.get(one.variant, printable(one.variant) if facts is None else called(facts))
    return f"{text}, {printable(one.condition or 'no condition')}" if several else text


def quality(found: PeopleResults) -> str:
    """Return the amount and quality of the answers: people, answers, images, agreement, controls."""
    parts = [
        f"{people_text(found.n_people)}, {counted(found.n_answers, 'answer')} to {counted(found.n_pictures, 'image')}"
    ]
    known = [score.fleiss_kappa for score in found.scores if is_known(score.fleiss_kappa)]
    if len(known) == 1:
        parts.append(f"agreement (Fleiss’ κ) {kappa(known[0])}")
    elif known:
        ends = sorted(value_of(one) for one in known)
        parts.append(f"agreement (Fleiss’ κ) {ends[0]:.2f} to {ends[-1]:.2f}".replace("-", "−"))
    if is_known(found.controls):
        parts.append(f"{found.controls.count} of {found.controls.n} controls right")
    else:
        parts.append("no controls")
    return "; ".join(parts)


def people_notes(view: View) -> list[str]:
    """Return notes on missing or too narrow intervals, and on excluded answers."""
    people = view.results.people
    if people is None:
        return []
    out = [
        view.words.say(f"{reason[0].upper()}{reason[1:]}.")
        for reason in dict.fromkeys(score.accuracy.reason for score in people.scores)
        if reason
    ]
    agreed = [figure for score in people.scores for figure in (score.fleiss_kappa, score.consistency)]
    if any(one.reason and one.low is not None for one in agreed):
        out.append(
            f"Some figures of agreement or error consistency use fewer than {FEW_PICTURES} images that the same people "
            "named. Their intervals are too narrow."
        )
    if people.elsewhere:
        out.append(f"{counted(people.elsewhere, 'answer')} excluded: the images are not scored in this run.")
    return out


def people_lead(view: View) -> tuple[str, str] | None:
    """Return the page's first and second sentence for data with people's answers and no model."""
    rows = asked(view)
    if not rows:
        return None
    name, first = next(iter(rows.items()))
    head = f"{_whom(first)} {measured(first.accuracy)} of {_things(name, first)} right."
    parts = []
    if first.n_people > 1:
        parts.append(f"their majority is right on {measured(first.majority)}")
    rest = [f"{measured(one.accuracy)} of {other}" for other, one in list(rows.items())[1:4]]
    if rest:
        parts.append(f"they get {join(rest)} right")
    text = "; ".join(parts)
    return head, f"{text[:1].upper()}{text[1:]}." if text else "Every answer has the same weight."


def _whom(score: PeopleScore) -> str:
    return "One person gets" if score.n_people == 1 else "People get"


def _things(name: str, score: PeopleScore) -> str:
    return counted(score.n_pictures, "image") if name == "images" else f"the {name}"


def ahead(found: Estimate) -> str:
    """Return in words how far people are ahead of a model, or behind it."""
    value = value_of(found)
    sure = found.low is not None and found.high is not None and (found.low > 0 or found.high < 0)
    word = "ahead of" if value >= 0 else "behind"
    return f"{points(abs(value))} {word}" if sure else f"{points(abs(value))} {word} (not significant)"


def boxes_quality(view: View) -> str | None:
    """Return how many images people drew boxes on, how many images they kept, and why they discarded the rest.

    Return None without boxes.
    """
    boxes = view.results.drawn
    if boxes is None or not boxes.n_pictures:
        return None
    text = f"{people_text(boxes.n_people)} marked the object in {counted(boxes.n_pictures, 'image')}; "
    text += f"{boxes.kept.count} images are kept ({percent(boxes.kept)})"
    if boxes.reasons:
        reasons = ", ".join(f"{printable(name)} {count}" for name, count in boxes.reasons.items())
        text += f". Reasons for discarding images: {reasons}"
    if boxes.unsettled:
        text += f". In {boxes.unsettled} kept images, two boxes overlap by less than {boxes.agree:g}"
    return f"{text}."
