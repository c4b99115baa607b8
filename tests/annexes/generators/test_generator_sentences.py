"""What the page and the terminal say of searches in generators compares like with like."""

from types import SimpleNamespace

import made_generator as made
import numpy as np
import pytest
from made_cautions import check_cautions

from strobe.analyses.results import Results
from strobe.annexes.generators.study.words import granular, ratio_text
from strobe.core.estimate import Estimate
from strobe.report.headline import headline_lines
from strobe.report.view import View


def share(value, **more):
    return Estimate(**{"value": value, "low": 0.0, "high": 1.0, "n": 8, **more})


def ratios(*p_values):
    from strobe.studies.variants.records import Contrast

    blank = {
        "of": "targets",
        "held": None,
        "form": "ratio",
        "level": None,
        "n": 8,
        "only_a": 1,
        "only_b": 1,
        "test": "t",
    }
    rows = {
        (name, "robust"): Contrast(
            a=f"{name}/robust", b=f"{name}/plain", value=share(0.9 + n, high=4.0), p=p, p_holm=p, **blank
        )
        for n, (name, p) in enumerate(zip(("coarse", "pixel"), p_values, strict=True))
    }
    return SimpleNamespace(others=("robust",), granularities=("coarse", "pixel"), ratios=rows, baseline="plain")


def test_a_ratio_that_is_not_significant_says_so():
    assert ratio_text(ratios(0.086, 0.4)) == (
        "To be fooled, robust needs changes 0.90 (coarse, not significant) to 1.90 (pixel, not significant) times as "
        "large as plain. No ratio is significant."
    )
    assert ratio_text(ratios(0.5, 0.01)) == (
        "To be fooled, robust needs changes 0.90 (coarse, not significant) to 1.90 (pixel) times as large as plain."
    )


def few_photos() -> Results:
    dataset = made.study(n=8, strips=0, granularities=("coarse", "pixel"))
    return made.results(dataset, made.answers(dataset))


def test_every_caution_of_a_printed_interval_is_in_the_terminal():
    assert check_cautions(few_photos())


def test_the_ratios_of_eight_photos_have_their_note():
    results = few_photos()
    ratio = next(iter(granular(View(results=results)).ratios.values()))
    assert ratio.value.reason.startswith("only 8 videos")
    notes = next(notes for title, _, _, notes in headline_lines(results) if "coarse to fine" in title)
    assert any(note.startswith("only 8 ") for note in notes)


def test_a_loss_uses_the_same_images_before_and_after():
    """The judge is wrong on unchanged images that have no finding; these must not count in what a search loses."""
    dataset = made.study(n=9, strips=0, granularities=("coarse", "pixel"))
    answers = made.answers(dataset)
    (found,) = made.results(dataset, answers).preserved
    judge = next(one for one in answers.values() if one.model == "judge") if isinstance(answers, dict) else None
    judge = judge or next(one for one in answers if one.model == "judge")
    right = judge.label == np.array([min(dataset.labels_of(row)) for row in range(len(dataset.frames))])
    sets = dataset.sets
    anchor_right = [bool(right[frame]) for frame in sets.anchor_frame.tolist()]
    names = [one.variant for one in dataset.variants]
    n_checked = 0
    for one in found.preservation:
        if one.variant == "anchor":
            continue
        before, after = [], []
        for row, number in enumerate(sets.set.tolist()):
            searched = one.variant == names[sets.variant[number]] and not sets.is_anchor[row]
            is_search = any(s != "complete" for s in sets.status[sets.variant == sets.variant[number]].tolist())
            if searched and (not is_search or sets.status[number] == "found"):
                own = set(dataset.labels_of(int(sets.anchor_frame[number])))
                before.append(anchor_right[number])
                after.append(int(judge.label[sets.frame[row]]) in own)
        assert one.lost.n == one.before.n == len(after)
        assert one.before.value == pytest.approx(np.mean(before))
        assert one.lost.value == pytest.approx(np.mean(before) - np.mean(after))
        n_checked += 1
    assert n_checked > 4
