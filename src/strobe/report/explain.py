"""The explanation of the measurement in a few sentences, and its terms: for single images and for variants."""

from strobe.core.errors import printable
from strobe.core.tasks import Task
from strobe.report.headline import measures
from strobe.report.story_background import ladder
from strobe.report.story_variants import level_text, scale, searched_names
from strobe.report.view import View
from strobe.report.wording import CAUSES, called, counted, join

__all__ = ["explained", "glossary"]


def explained(view: View) -> tuple[str, list[str]] | None:
    """Return a title and paragraphs for data that is not video; None if the page explains pm-k."""
    if view.variants:
        return "What is measured", _variants(view)
    if view.words.is_still:
        noun = view.words.source if view.results.dataset.kinds else view.words.picture
        boxes = bool(view.detectors) and not view.classifiers
        right = "the average precision over all of them" if boxes else f"the share {_who(view)} right"
        what = "mAP" if boxes else "Accuracy"
        return "What is measured", [
            f"Every {noun} is asked about once and stands alone. {what} is {right}; its interval says how far that may "
            "be off by the luck of which images were picked."
        ]
    return None


def _who(view: View) -> str:
    """Return who answers: models, people, or both."""
    if not view.classifiers:
        return "people get" if view.results.people else "a model gets"
    return "a model, or a person, gets" if view.results.people else "a model gets"


def _variants(view: View) -> list[str]:
    facts = list(view.variants.values())
    searched = searched_names(view)
    out = []
    plain = [one for one in facts if one.variant not in searched and one.target is None]
    if (rungs := ladder(view)) is not None:
        out.append(
            f"Every image stands on a ladder of up to {len(rungs.steps)} rungs: whole, and with its frame, its "
            "background or its object changed. Accuracy on a rung counts the images that are right "
            "there. Two rungs that differ in one thing, compared on the same images, say what that thing does."
        )
    elif plain:
        out.append(
            f"Every image was changed in {counted(len(plain), 'way')}, its variants, each at levels of its own. "
            "Accuracy at a level counts the changed images there that are right. Accuracy up to a level counts the "
            "images that are right as they are and at every level so far: one wrong answer, and the image is lost."
        )
    if view.results.dataset.combine == "worst":
        same = [one for one in facts if one.role == "same"]
        last = level_text(same[0], same[0].levels[-1])
        out.append(
            f"All {len(same)} share one scale ({scale(same[0])}), so a mean and a worst over them mean something: the "
            f"worst up to {last} counts the images that no variant breaks."
        )
    elif len(facts) > 1 and rungs is None:
        out.append(
            "What was done cannot be put on one scale, so there is no worst over all of it: the table counts the "
            "images as they are, and each variant is reported on its own."
        )
    if searched:
        targets = list(dict.fromkeys(one.target for one in facts if one.target))
        whom = f" against {join([str(name) for name in targets[:4]])}" if targets else ""
        out.append(
            f"A search{whom} looks for the smallest change that is answered wrongly. Where it finds one, the set holds "
            "it; where it finds none, that is known only as far as it went. What was found for one model tells of "
            "another only by the share that fools it too."
        )
    if any(one.role == "control" for one in facts):
        out.append("Controls are there to compare with. They count in no mean and no worst.")
    return out


_INTERVAL = (
    "95 %: were the study repeated on other {source}s, about 95 of 100 such intervals would hold the true value. "
    "{how}The bootstrap over {source}s gives those of means, the corrected test those of differences between models."
)
_OF_SETS = (
    "95 %: were the study repeated on other {source}s, about 95 of 100 such intervals would hold the true value. "
    "{how}The corrected test itself gives those of differences between models{means}."
)
_HOW = {
    Task.CLASSIFICATION: "Clopper–Pearson where every {source} has one set, Korn–Graubard where some have several. ",
    Task.DETECTION: "A jackknife over {source}s for mAP. ",
}


def _how_of_pictures(source: str) -> str:
    """Return what the intervals of shares resample: a photo is its own source, a video may have several images here."""
    if source in ("video", "source"):
        return f"Clopper–Pearson where every {source} has one image, Korn–Graubard where some have several. "
    return "Clopper–Pearson for shares. "


def glossary(view: View) -> list[tuple[str, str]]:
    """Return the terms of the page with their meaning, for this kind of data."""
    if not view.variants and not view.words.is_still:
        return _of_sets(view)
    interval = ("interval", _INTERVAL.format(source=view.words.source, how=_how_of_pictures(view.words.source)))
    if view.words.is_still and not view.variants:
        boxes = bool(view.detectors) and not view.classifiers
        if boxes:
            named = [(one.name, one.meaning) for one in measures(view, Task.DETECTION)]
            return [*named, *_DETECTION, interval]
        of = "; of people, of answers" if view.results.people else ""
        return [("accuracy", f"Share of images the model gets right{of} (acc_orig in the files)."), interval]
    out = [
        ("accuracy", "Share of images, as they are, that the model gets right (acc_orig in the files)."),
        ("variant", "One thing done to the images, with levels of its own."),
        ("set", "One image under one variant: the image itself and what was made of it."),
    ]
    searched = searched_names(view)
    if (found := ladder(view)) is not None:
        rungs = {step.variant: called(step.facts) for step in found.steps if step.facts}
        files = "; ".join(f"{name}: {printable(one)}" for one, name in rungs.items())
        out += [*_RUNGS, ("rungs in the files", f"tables/ and results.json have short names. {files}.")]
    elif any(name not in searched and one.target is None for name, one in view.variants.items()):
        out += [
            (
                "at a level",
                "Share of what was made at that level that is right, whatever the answer to the image itself.",
            ),
            ("up to a level", "Share of images right as they are and at every level so far."),
        ]
    if view.results.dataset.combine == "worst":
        out += [
            (
                "worst",
                "The same over all variants but controls: one wrong answer anywhere, and the image is lost "
                "(acc_pmk in the files).",
            )
        ]
    if searched:
        out += [
            ("found", "The search ended with something its target gets wrong."),
            (
                "nothing found",
                "The search ended without (it is censored): counted as holding out as far as it went, never dropped.",
            ),
            ("wrong from the start", "The target was wrong on the image itself, so nothing was searched."),
            ("reproduced", "Of what was found: still wrong for its target when read back from the disk."),
            ("fooled", "For another model: wrong on what was found, among images it gets right as they are."),
        ]
    if any(one.estimated for one in view.variants.values()):
        out += [("estimated", "It rests on boxes or masks that nobody drew.")]
    return [*out, interval]


_RUNGS = [
    ("rung", "One way an image is shown: whole, or a variant at one of its levels."),
    ("ground, background", "What is in the image beside the object."),
    ("BG-Gap", "Right on the ground of another image of its class, less right on that of another class (Xiao et al. "
               "2020: mixed-same − mixed-rand)."),
    ("names a class, coverage", "The answer is a class of the data. A detector that finds no box names none, and is "
                               "wrong."),
]  # fmt: skip

_DETECTION = [
    ("AP", "Average precision: how well the boxes of one class find its objects, the surest boxes first; 100 % is no "
           "object missed and no false box before a right one. A frame’s own AP takes all its boxes as one list."),
    ("mAP", "The mean of AP over classes, all frames together."),
    ("overlap (IoU)", "The area two boxes share, of the area they cover together. A box is right if it has the right "
                      "class and overlaps an object, one that no surer box has taken, by at least the least overlap."),
    ("true, false box", "A box that is right; a box that is not."),
]  # fmt: skip


def _of_sets(view: View) -> list[tuple[str, str]]:
    """Return the terms for sets around an anchor: of classifiers, of detectors, or of both."""
    words, tasks = view.words, [task for task in Task if view.of(task)] or [Task.CLASSIFICATION]
    out = [
        ("anchor", f"The {words.picture} a set is built around; it carries the label."),
        ("set", words.set_text),
        ("k", f"How far from its anchor a set reaches: here {words.within}."),
    ]
    both = len(tasks) > 1
    if Task.CLASSIFICATION in tasks:
        out.append(("holds, breaks", "Right on the anchor and everywhere; right on the anchor and wrong somewhere."))
    if Task.DETECTION in tasks:
        who = "holds, breaks (detectors)" if both else "holds, breaks"
        means = (
            "AP above 0 on the anchor, and nowhere lower; lower somewhere. The frame where it is lowest is the worst."
        )
        out.append((who, means))
        out += _DETECTION
    for task in tasks:
        named = [(one.name, one.meaning) for one in measures(view, task)]
        out += [(f"{name} ({task})" if both and name == "drop" else name, meaning) for name, meaning in named]
    if Task.DETECTION in tasks:
        out += [(f"error: {name}", f"{text[:1].upper()}{text[1:]}.") for name, text in CAUSES.items()]
        out += [("track", "One object followed from frame to frame by an id in the data.")]
    how = "".join(_HOW[task] for task in tasks)
    means = ", the bootstrap those of means" if Task.CLASSIFICATION in tasks else ""
    return [*out, ("interval", _OF_SETS.replace("{how}", how).replace("{means}", means).format(source=words.source))]
