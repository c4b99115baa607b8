"""A short explanation of the measurement and its terms, for single images and for variants."""

from strobe.core.errors import printable
from strobe.core.tasks import Task
from strobe.report.headline import measures
from strobe.report.studies import decided
from strobe.report.view import View
from strobe.report.wording import CAUSES, called, counted, join
from strobe.studies.background.words import ladder
from strobe.studies.variants.words import level_text, scale, searched_names

__all__ = [
    "explained",
    "glossary",
    "set_terms",
    "still_explanation",
    "still_terms",
    "variant_explanation",
    "variant_terms",
]


def explained(view: View) -> tuple[str, list[str]] | None:
    """Return the title and the paragraphs that explain the measurement, or None if the page explains pm-k."""
    return decided(lambda study: study.explanation(view))


def glossary(view: View) -> list[tuple[str, str]]:
    """Return the terms of the page with their meaning, for this kind of data."""
    return decided(lambda study: study.terms(view)) or []


def still_explanation(view: View) -> tuple[str, list[str]]:
    """Return the explanation of accuracy for single images."""
    noun = view.words.source if view.results.dataset.kinds else view.words.picture
    boxes = bool(view.detectors) and not view.classifiers
    right = "the average precision over all images" if boxes else f"the share of images that {_who(view)} right"
    what = "mAP" if boxes else "Accuracy"
    return "What is measured", [
        f"Every {noun} is its own set and is scored once. {what} is {right}. Its interval shows how much the "
        "value could differ with another sample of images."
    ]


def _who(view: View) -> str:
    """Return who gives the answers (a model, a person, or either), with the verb."""
    if not view.classifiers:
        return "people get" if view.results.people else "a model gets"
    return "a model, or a person, gets" if view.results.people else "a model gets"


def variant_explanation(view: View) -> tuple[str, list[str]]:
    """Return the explanation of variants, levels and searches."""
    facts = list(view.variants.values())
    searched = searched_names(view)
    out = []
    plain = [one for one in facts if one.variant not in searched and one.target is None]
    if (rungs := ladder(view)) is not None:
        out.append(
            f"Every image is shown on up to {len(rungs.steps)} rungs of a ladder: whole, and with its crop, its "
            "background or its object changed. Accuracy on a rung is the share of its images that are right. Two rungs "
            "that differ in one thing, compared on the same images, show the effect of that thing."
        )
    elif plain:
        out.append(
            f"Every image was changed in {counted(len(plain), 'way')}, called variants. Each variant has its own "
            "levels. Accuracy at a level is the share of changed images that are right at that level. Accuracy up to a "
            "level is the share of images that are right in the original and at every level so far."
        )
    if view.results.dataset.combine == "worst":
        same = [one for one in facts if one.role == "same"]
        last = level_text(same[0], same[0].levels[-1])
        out.append(
            f"All {len(same)} variants share one scale ({scale(same[0])}), so a mean and a worst case over them are "
            f"meaningful. The worst case up to {last} is the share of images that are right under every variant."
        )
    elif len(facts) > 1 and rungs is None:
        out.append(
            "These variants share no scale, so no overall worst case is given. The table counts the original images, "
            "and each variant is reported separately."
        )
    if searched:
        targets = list(dict.fromkeys(one.target for one in facts if one.target))
        whom = f" against {join([str(name) for name in targets[:4]])}" if targets else ""
        out.append(
            f"A search{whom} tries to find the smallest change that its target gets wrong. A finding is part of the "
            "set. A result without a finding is valid only up to the distance that the search tried. For other "
            "models, the report gives the share of findings that also fool these models."
        )
    if any(one.role == "control" for one in facts):
        out.append("Controls are for comparison. They are excluded from every mean and every worst case.")
    return "What is measured", out


_INTERVAL = (
    "95 %: if the study were repeated on other {source}s, about 95 of 100 intervals would contain the true value. "
    "{how}Means use the bootstrap over {source}s, and differences between models use the corrected test."
)
_OF_SETS = (
    "95 %: if the study were repeated on other {source}s, about 95 of 100 intervals would contain the true value. "
    "{how}Differences between models use the corrected test{means}."
)
_HOW = {
    Task.CLASSIFICATION: "Shares use Clopper–Pearson if every {source} has one set, else Korn–Graubard. ",
    Task.DETECTION: "mAP uses a jackknife over {source}s. ",
}


def _how_of_pictures(source: str) -> str:
    """Return a sentence on the intervals of shares.

    A photo is its own source, while a video may have several images.
    """
    if source in ("video", "source"):
        return f"Shares use Clopper–Pearson if every {source} has one image, else Korn–Graubard. "
    return "Shares use Clopper–Pearson. "


def _interval_term(view: View) -> tuple[str, str]:
    return "interval", _INTERVAL.format(source=view.words.source, how=_how_of_pictures(view.words.source))


def still_terms(view: View) -> list[tuple[str, str]]:
    """Return the terms for single images."""
    if view.detectors and not view.classifiers:
        named = [(one.name, one.meaning) for one in measures(view, Task.DETECTION)]
        return [*named, *_DETECTION, _interval_term(view)]
    of = "; for people, share of answers that are right" if view.results.people else ""
    accuracy = ("accuracy", f"Share of images that the model gets right{of} (acc_orig in the files).")
    return [accuracy, _interval_term(view)]


def variant_terms(view: View) -> list[tuple[str, str]]:
    """Return the terms for data with variants."""
    out = [
        ("accuracy", "Share of original images that the model gets right (acc_orig in the files)."),
        ("variant", "One way of changing the images, with its own levels."),
        ("set", "One image under one variant: the original and its changed versions."),
    ]
    searched = searched_names(view)
    if (found := ladder(view)) is not None:
        rungs = {step.variant: called(step.facts) for step in found.steps if step.facts}
        files = "; ".join(f"{name}: {printable(one)}" for one, name in rungs.items())
        out += [*_RUNGS, ("rungs in the files", f"tables/ and results.json use short names. {files}.")]
    elif any(name not in searched and one.target is None for name, one in view.variants.items()):
        out += [
            (
                "at a level",
                "Share of the images changed to that level that are right, whether or not the original is right.",
            ),
            ("up to a level", "Share of images that are right in the original and at every level so far."),
        ]
    if view.results.dataset.combine == "worst":
        out += [
            (
                "worst",
                "Share of images that are right in the original and under every variant except controls "
                "(acc_pmk in the files).",
            )
        ]
    if searched:
        out += [
            ("found", "The search ended with a change that its target gets wrong."),
            (
                "nothing found",
                "The search ended without a finding. It counts as right up to the distance it tried (censored).",
            ),
            ("original wrong", "The target is wrong on the original image, so there was no search."),
            ("reproduced", "Share of findings that the target still gets wrong after they are saved and reloaded."),
            (
                "fooled",
                "For another model: share of findings that it gets wrong, among those whose original it gets right.",
            ),
        ]
    if any(one.estimated for one in view.variants.values()):
        out += [("estimated", "Made with boxes or masks that a model estimated.")]
    return [*out, _interval_term(view)]


_RUNGS = [
    ("rung", "One way an image is shown: whole, or a variant at one of its levels."),
    ("background", "Everything in the image except the object."),
    ("BG-Gap", "Accuracy on the background of another image of the same class, minus accuracy on the background of "
               "another class (Xiao et al. 2020: mixed-same − mixed-rand)."),
    ("names a class, coverage", "The answer is a class of the data. A detector that finds no box names no class and "
                               "counts as wrong."),
]  # fmt: skip

_DETECTION = [
    ("AP", "Average precision of one class, with boxes sorted by confidence. It is 100 % if no object is missed and no "
           "false box is more confident than a right one. The AP of a frame treats all its boxes as one list."),
    ("mAP", "The mean of AP over classes, with the boxes of all frames together."),
    ("overlap (IoU)", "The area that two boxes share, divided by the area they cover together. A box is right if it "
                      "has the class of an object and enough overlap with it. Each object matches only one box."),
    ("true, false box", "A true box is right. A false box matches no object."),
]  # fmt: skip


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
        out += _DETECTION
    for task in tasks:
        named = [(one.name, one.meaning) for one in measures(view, task)]
        out += [(f"{name} ({task})" if both and name == "drop" else name, meaning) for name, meaning in named]
    if Task.DETECTION in tasks:
        out += [(f"error: {name}", f"{text[:1].upper()}{text[1:]}.") for name, text in CAUSES.items()]
        out += [("track", "One object across frames, identified by an id in the data.")]
    how = "".join(_HOW[task] for task in tasks)
    means = ", and means use the bootstrap" if Task.CLASSIFICATION in tasks else ""
    return [*out, ("interval", _OF_SETS.replace("{how}", how).replace("{means}", means).format(source=words.source))]
