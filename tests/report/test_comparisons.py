"""A figure compares like with like. Every superlative checks for ties, and every caution of a printed interval is said.

The lists of places come from the code: a new sentence with a superlative, or a new choice of the largest, must use the
one function that checks for ties, and a new difference of shares must say here on which rows both are computed.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_cautions import check_cautions

import strobe
from strobe.analyses.results import Results
from strobe.core.codec import decode
from strobe.core.estimate import Estimate
from strobe.report.figures_trend import _trend_sentence
from strobe.report.wording import both_ends, extreme
from strobe.studies.noise.figures import _sentence as noise_sentence
from strobe.studies.stills.study import still_lead

SOURCE = Path(strobe.__file__).parent
STUDIES = [*(SOURCE / "studies").rglob("*.py"), *(SOURCE / "annexes").glob("*/study/*.py")]
TEXTS = sorted([*(SOURCE / "report").glob("*.py"), *STUDIES])

SUPERLATIVE = re.compile(
    r"\b(?<!at )(?:most|least|best|worst|largest|smallest|highest|lowest|hardest|easiest|strongest|weakest)\b"
)
DEFINITIONS = {
    "worst frames", "worst of", "On the worst", "The worst", "worst, to", "worst case", "most robust of",
    "then the most robust", "largest distance", "k: largest", "find the smallest", "at its highest level",
    "for the smallest objects", "for the largest", "best on this data",
    "since the best so far", "a few of the … videos hold most", "most outage seconds",
}  # fmt: skip
"""Texts that name a fixed thing (worst frames, pm-k; the largest distance) and not a winner among several figures."""


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    yield from (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef))


def texts_with_figures(function: ast.FunctionDef) -> Iterator[str]:
    """The texts of the function into which something is put: those that report, not those that define."""
    for node in ast.walk(function):
        if isinstance(node, ast.JoinedStr) and any(isinstance(part, ast.FormattedValue) for part in node.values):
            yield "…".join(part.value for part in node.values if isinstance(part, ast.Constant))


def calls(node: ast.AST) -> set[str]:
    return {
        one.func.id for one in ast.walk(node) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)
    }  # fmt: skip


def test_every_sentence_with_a_superlative_checks_for_ties():
    n_checked = 0
    for path in TEXTS:
        every = {function.name: function for function in functions(path)}
        checks = {name for name, function in every.items() if {"extreme", "both_ends"} & calls(function)}
        for name, function in every.items():
            for text in texts_with_figures(function):
                bare = text
                for known in DEFINITIONS:
                    bare = bare.replace(known, "")
                if SUPERLATIVE.search(bare):
                    n_checked += 1
                    assert name in checks or checks & calls(function), f"{path.name}, {name}: {text!r}"
    assert n_checked > 8


def test_no_winner_is_chosen_without_the_check_for_ties():
    """`max(…, key=…)` names one of several equals; only levels and lengths, which are no figures, may be chosen so."""
    n_seen = 0
    for path in TEXTS:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            key = next((one.value for one in node.keywords if one.arg == "key"), None)
            if node.func.id not in ("max", "min", "pick") or key is None:
                continue
            n_seen += 1
            text = ast.unparse(key)
            allowed = path.name == "wording.py" or text == "len" or text.endswith(".level")
            assert allowed, f"{path.relative_to(SOURCE)}: {ast.unparse(node)} must use wording.extreme"
    assert n_seen >= 3


SAME_ROWS = {
    "metrics/consistency.py: estimates": "κ of two raters on the images that both answered",
    "metrics/consistency.py: mean": "the mean of such κ",
    "studies/review/score.py: _difference": "stages A and C, each on its own sets: review decides which stay",
    "studies/temporal/score_trend.py: _off_the_line": "distance from a line fitted to models on the same sets",
    "annexes/backgrounds/backbones/score.py: _differences": "gaps of one array, by image",
    "studies/variants/score_contrasts.py: _corrected": "gaps of one array, by image",
    "annexes/backgrounds/study/score.py: _isolated": "gaps of one array, by image",
    "annexes/backgrounds/study/score.py: _relative": "images right when whole, on both rungs",
    "studies/people/score.py: _beside": "the images that people and the model answered",
    "analyses/preserved.py: _lost": "images whose original and change were both named",
    "metrics/columns.py: difference": "the rows that both models measured",
}


def differences() -> set[str]:
    """Every function that makes an estimate of a difference of two shares, as its call shows."""
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        for function in functions(path):
            for node in ast.walk(function):
                if isinstance(node, ast.Call):
                    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                    limits = {ast.unparse(one.value) for one in node.keywords if one.arg == "limits"}
                    if name == "paired_difference" or "DIFFERENCES" in limits:
                        found.add(f"{path.relative_to(SOURCE)}: {function.name}")
    return found


def test_every_difference_of_two_shares_says_its_rows():
    assert differences() == {one for one in SAME_ROWS if (SOURCE / one.partition(":")[0]).is_file()}


@given(st.dictionaries(st.text("abcde", min_size=1, max_size=3), st.sampled_from([0.1, 0.2, 0.2004, 0.5]), min_size=1))
def test_ends_against_a_loop(values):
    for (one, names, tie), sign in zip(both_ends(values, values.__getitem__, str), (-1, 1), strict=True):
        best = None
        for value in values.values():
            if best is None or sign * value > sign * best:
                best = value
        equal = [name for name, value in values.items() if f"{value:.3f}" == f"{best:.3f}"]
        assert (one, tie) == (equal[0], len(equal) > 1)
        assert names.startswith(equal[0])
        assert all(name in names for name in equal[:3])
        assert extreme(values, values.__getitem__, str, pick=max if sign > 0 else min) == (one, names, tie)


def share(value, **more):
    return Estimate(**{"value": value, "low": 0.0, "high": 1.0, "n": 8, **more})


def model(orig, drop=0.1):
    return SimpleNamespace(acc_orig=share(orig), drop=share(drop))


def sentence(models):
    words = SimpleNamespace(anchors="images", within="within k = 2")
    view = SimpleNamespace(words=words, variants={}, results=SimpleNamespace(trend=SimpleNamespace(reason="")))
    return _trend_sentence(view, models, None)


def test_three_that_tie_are_all_the_most_accurate():
    tied = {"cons": model(0.75), "wide": model(0.75, 0.2), "pmk": model(0.75, 0.1), "last": model(0.5, 0.3)}
    assert sentence(tied) == (
        "cons, wide and pmk are the most accurate on the images (75.0\xa0%), but cons and pmk have the smallest drop "
        "within k = 2 (10.0\xa0points)."
    )
    assert sentence({"a": model(0.75), "b": model(0.5, 0.2)}).startswith(
        "a is the most accurate on the images (75.0\xa0%), and also has the smallest drop"
    )
    noise = {name: SimpleNamespace(noise=share(value)) for name, value in (("a", 0.1), ("b", 0.1), ("c", 0.3))}
    assert noise_sentence(noise).startswith("Of 3 models, a and b have the least noise (10.0\xa0%), and c has the most")
    same = {name: SimpleNamespace(noise=share(0.1)) for name in "ab"}
    assert noise_sentence(same) == "All 2 models have the same noise (10.0\xa0%)."
    view = SimpleNamespace(pictures=lambda n: f"{n} images")
    head, below = still_lead(view, {"a": share(0.75), "b": share(0.75), "c": share(0.5)})
    assert head.startswith("a gets 75.0")
    assert below.startswith("None of the 3 models is right more often")


# -- cautions of printed intervals -----------------------------------------------------------------------------------


def golden(name: str) -> Results:
    path = Path(__file__).parents[1] / "golden" / "runs" / name / "results.json"
    import json

    return decode(Results, json.loads(path.read_text("utf-8")))


@pytest.mark.parametrize("name", ["severity", "video-py", "boxes-py", "anchor-py"])
def test_every_caution_of_a_printed_interval_is_in_the_terminal(name):
    check_cautions(golden(name))
