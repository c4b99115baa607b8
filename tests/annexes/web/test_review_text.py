"""The text of a review on a terminal."""

from strobe.annexes.web.review.command_text import text_of
from strobe.core.codec import encode
from strobe.metrics.intervals import clopper_pearson


def test_a_question_without_a_text_of_its_own_prints_counts_and_shares() -> None:
    figures = {"schema": 1, "dataset": "clips", "answers": 4, "images": 1200, "said": {"sharp": 3, "blurred": 1}}
    figures |= {"sharp": encode(clopper_pearson(3, 4)), "people": [{"name": "ann"}], "conduct": None}
    assert text_of("sharp", figures).splitlines() == [
        "clips: 4 answers",
        "",
        "images: 1,200",
        "said: sharp 3, blurred 1",
        "sharp: 75.0 [19.4, 99.4] (n = 4)",
    ]
