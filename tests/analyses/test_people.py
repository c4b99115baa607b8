"""What follows from names people gave: by hand, against slow plain references, on real trials where they are here."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.analyses.naming import NamingTable
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.preserved import preserved_sets
from strobe.analyses.results import Results, dataset_facts
from strobe.core.builder import DatasetBuilder
from strobe.core.codec import decode, encode
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidValue
from strobe.core.labels import LabelSpace
from strobe.core.people import NameAnswer
from strobe.core.variants import Target, Variant
from strobe.store.bring_media import ImportOptions
from strobe.studies.people.records import PeopleResults
from strobe.studies.people.score import people_results
from strobe.workflows.import_dataset import import_dataset

EDGE = Path(__file__).parents[3] / "shared" / "reference" / "human-edge"
CLASSES = ("cat", "dog", "owl")
QUICK = ScoreOptions(replicates=50)


def answer(person: str, frame: str, said: str, *, at: str = "1", seconds: float | None = None, shown: str = ""):
    is_class = said in CLASSES
    return NameAnswer(
        answer_id=f"{person}/{frame}/{at}", annotator=person, at=at, frame_id=frame, seconds=seconds, condition=shown,
        said="class" if is_class else said, label=said if is_class else "",
    )  # fmt: skip


def photos(truth: list[list[int]], names: list[NameAnswer]) -> Dataset:
    """Images 0:0, 1:0, … that stand alone, with these labels and answers."""
    grown = DatasetBuilder()
    for number, labels in enumerate(truth):
        source = grown.video(video_id=str(number), name=f"{number}.png", kind="photo")
        row = grown.frame(video=source, index=0, key=f"{number}.png", labels=labels)
        grown.set(set_id=str(number), anchor=row, members=())
    info = DatasetInfo(name="pets", label_space=LabelSpace.of_names("pets", CLASSES), k=0, axis="none")
    return replace(grown.build(info), names=tuple(names))


def found_set(names: list[NameAnswer]) -> Dataset:
    """Four images (frames N:0), a search against `net` that found something on three (N:1), a control (N:2)."""
    grown = DatasetBuilder()
    grown.variant(Variant(variant="random", axis="magnitude", levels=(1.0,), role="control"))
    grown.variant(Variant(variant="search", axis="magnitude", levels=(1.0,), target=Target(name="net")))
    for number in range(4):
        source = grown.video(video_id=str(number), name=f"{number}.png", kind="generated")
        rows = [
            grown.frame(video=source, index=place, key=f"{number}/{place}", labels=[number % 3]) for place in range(3)
        ]
        status = "censored" if number == 3 else "found"
        grown.set(set_id=f"r{number}", anchor=rows[0], members=[(rows[2], 1.0)], variant="random", group=str(number))
        grown.set(
            set_id=f"s{number}", anchor=rows[0], members=[(rows[1], 1.0)], variant="search", group=str(number),
            status=status, reach=1.0,
        )  # fmt: skip
    info = DatasetInfo(
        name="found", label_space=LabelSpace.of_names("pets", CLASSES), k=1, axis="magnitude", label_source="anchor"
    )
    return replace(grown.build(info), names=tuple(names))


def results(dataset: Dataset, options: ScoreOptions = QUICK, **models: list[int]) -> PeopleResults:
    naming = NamingTable.of(dataset)
    judged = {name: naming.judge(np.maximum(labels, -1), np.array(labels) > -2) for name, labels in models.items()}
    return people_results(naming, judged, options)


def test_a_small_case_by_hand():
    """Cat, dog, owl, dog; ann 3 of 4 right, bo 2 of 4, cy 1 of 2."""
    names = [
        answer("ann", "0:0", "cat", seconds=1.0), answer("ann", "1:0", "dog", seconds=2.0),
        answer("ann", "2:0", "owl", seconds=3.0), answer("ann", "3:0", "cat", seconds=9.0),
        answer("bo", "0:0", "cat", seconds=4.0), answer("bo", "1:0", "unsure"), answer("bo", "2:0", "late"),
        answer("bo", "3:0", "dog"), answer("cy", "0:0", "cat"), answer("cy", "1:0", "none"),
    ]  # fmt: skip
    found = results(photos([[0], [1], [2], [1]], names), net=[0, 1, 0, 1])
    assert (found.n_people, found.n_pictures, found.n_answers, found.elsewhere) == (3, 4, 10, 0)
    (score,) = found.scores
    assert (score.variant, score.condition, score.role) == ("anchor", "", "same")
    assert (score.accuracy.count, score.accuracy.n, score.accuracy.method) == (6, 10, "korn-graubard")
    # Only the first image has more than half of its answers the same: dog/unsure/none, owl/late, cat/dog.
    assert (score.majority.count, score.majority.n, score.no_majority) == (1, 4, 3)
    assert encode(score.said) == {"class": 7, "none": 1, "unsure": 1, "late": 1}
    assert (score.seconds.median.value, score.seconds.quartile_low, score.seconds.quartile_high) == (3.0, 2.0, 4.0)
    assert [(one.person, one.accuracy.count, one.accuracy.n) for one in score.people] == [
        ("ann", 3, 4), ("bo", 2, 4), ("cy", 1, 2),
    ]  # fmt: skip
    kappas = {(one.person, one.other): one.kappa.value for one in score.pairs}
    # ann 1110, bo 1001: observed ¼, chance ¾·½ + ¼·½ = ½.
    assert kappas["ann", "bo"] == pytest.approx((1 / 4 - 1 / 2) / (1 / 2))
    # bo 10, cy 10 on the first two: the same.
    assert kappas["bo", "cy"] == pytest.approx(1.0)
    # ann is right on both: chance says as much.
    assert kappas["ann", "cy"] == pytest.approx(0.0)
    assert score.consistency.value == pytest.approx((-0.5 + 1 + 0) / 3)
    # net 1101: with ann observed ½, chance ¾·¾ + ¼·¼ = ⅝; with bo ¾ and ½; with cy ½ and ½.
    assert kappas["ann", "net"] == pytest.approx(-1 / 3)
    assert kappas["bo", "net"] == pytest.approx(0.5)
    assert kappas["cy", "net"] == pytest.approx(0.0)
    (net,) = score.models
    assert net.consistency.value == pytest.approx((-1 / 3 + 0.5 + 0) / 3)
    assert (net.accuracy.count, net.accuracy.n) == (3, 4)
    assert net.difference.value == pytest.approx(0.6 - 0.75)
    assert {(one.label, one.said, one.answer): one.n for one in score.confusion} == {
        ("cat", "class", "cat"): 3, ("dog", "class", "dog"): 2, ("dog", "class", "cat"): 1, ("dog", "unsure", ""): 1,
        ("dog", "none", ""): 1, ("owl", "class", "owl"): 1, ("owl", "late", ""): 1,
    }  # fmt: skip


def test_the_latest_word_counts_and_answers_about_other_pictures_are_counted_apart():
    names = [
        answer("ann", "0:0", "dog", at="1"), answer("ann", "0:0", "cat", at="2"), answer("ann", "7:0", "cat"),
        answer("bo", "0:0", "cat", at="3"), answer("bo", "0:0", "none", at="4"),
    ]  # fmt: skip
    found = results(photos([[0], [1]], names))
    assert (found.n_answers, found.elsewhere, found.scores[0].accuracy.count) == (2, 1, 1)


def test_controls_and_conditions_are_told_apart():
    names = [
        answer("ann", "0:0", "cat", shown="control"), answer("bo", "0:0", "dog", shown="control"),
        answer("ann", "1:0", "dog", shown="200 ms"), answer("bo", "1:0", "owl", shown="2 s"),
        answer("ann", "2:0", "owl", shown="2 s"), answer("bo", "2:0", "dog", shown="200 ms"),
        answer("cy", "1:0", "dog", shown="practice"), answer("cy", "0:0", "cat", shown="practice"),
    ]  # fmt: skip
    found = results(photos([[0], [1], [2]], names))
    assert (found.controls.count, found.controls.n) == (1, 2)
    assert (found.n_people, found.n_pictures, found.n_answers, found.elsewhere) == (2, 2, 4, 0)
    shown = {one.condition: (one.accuracy.count, one.accuracy.n, one.n_people) for one in found.scores}
    assert shown == {"2 s": (1, 2, 2), "200 ms": (1, 2, 2)}


def test_several_right_classes_and_models_without_predictions():
    names = [answer("ann", "0:0", "dog"), answer("bo", "0:0", "owl"), answer("ann", "1:0", "cat")]
    score = results(photos([[0, 1], [1]], names), half=[0, -2], none=[-2, -2]).scores[0]
    assert score.accuracy.count == 1
    assert {(one.label, one.answer): one.n for one in score.confusion} == {
        ("dog", "dog"): 1, ("cat", "owl"): 1, ("dog", "cat"): 1,
    }  # fmt: skip
    half, none = score.models
    # On the one image it answered people are right once of two.
    assert (half.accuracy.count, half.accuracy.n, half.difference.value) == (1, 1, -0.5)
    assert (none.accuracy.value, none.difference.value) == (None, None)
    assert none.accuracy.reason == "it has no prediction for these images"


def test_a_class_nobody_knows_is_refused():
    wrong = NameAnswer(answer_id="1", annotator="ann", at="1", frame_id="0:0", said="class", label="emu")
    with pytest.raises(InvalidValue, match=r"ann named the class 'emu'"):
        results(photos([[0]], [wrong]))


def test_nobody_was_asked():
    dataset = photos([[0]], [])
    assert "people" not in encode(Results(dataset=dataset_facts(dataset), models={}))


# -- is it still what it was? --------------------------------------------------------------------------------------

SEEN = [
    *(answer(person, f"{number}:0", CLASSES[number % 3]) for number in range(4) for person in ("ann", "bo")),
    # Found: 0 keeps its class for both, 1 for one of two, 2 for nobody. 3 was censored: its last member is no finding.
    answer("ann", "0:1", "cat"), answer("bo", "0:1", "cat"), answer("ann", "1:1", "dog"), answer("bo", "1:1", "none"),
    answer("ann", "2:1", "cat"), answer("bo", "2:1", "unsure"), answer("ann", "3:1", "owl"),
    answer("ann", "0:2", "cat"), answer("bo", "1:2", "dog"), answer("bo", "2:2", "cat"),
]  # fmt: skip


def test_label_preservation_by_hand():
    found = results(found_set(SEEN))
    assert [one.variant for one in found.scores] == ["anchor", "search", "random"]
    assert [one.role for one in found.scores] == ["same", "same", "control"]
    rows = {one.variant: one for one in found.preservation}
    assert list(rows) == ["anchor", "search", "random"]
    counted = {name: (one.role, one.target, one.n_pictures, one.named.count, one.named.n) for name, one in rows.items()}
    assert counted == {
        "anchor": ("anchor", None, 4, 8, 8), "search": ("same", "net", 3, 3, 6), "random": ("control", None, 3, 2, 3),
    }  # fmt: skip
    assert {name: (one.kept.count, one.kept.n) for name, one in rows.items()} == {
        "anchor": (4, 4), "search": (1, 3), "random": (2, 3),
    }  # fmt: skip
    assert rows["anchor"].lost is None
    assert rows["search"].lost.value == pytest.approx(0.5)
    assert rows["random"].lost.value == pytest.approx(1 / 3)
    assert rows["search"].lost.low <= 0.5 <= rows["search"].lost.high


def test_the_mask_of_preserved_sets():
    dataset = found_set(SEEN)
    found = preserved_sets(NamingTable.of(dataset))
    by_name = {
        name: ("kept" if kept else "lost") if asked else "not asked"
        for name, asked, kept in zip(dataset.sets.set_id, found.asked, found.kept, strict=True)
    }
    assert by_name == {
        "r0": "kept", "r1": "kept", "r2": "lost", "r3": "not asked",
        "s0": "kept", "s1": "lost", "s2": "lost", "s3": "lost",
    }  # fmt: skip
    kept = dataset.keep_rows(found.kept[dataset.sets.set])
    assert kept.sets.set_id.tolist() == ["r0", "s0", "r1"]


def test_controls_shown_to_see_who_looks_preserve_nothing():
    names = [answer("ann", "0:1", "cat", shown="control"), answer("bo", "0:1", "cat", shown="practice")]
    names += [answer("ann", "0:0", "cat")]
    assert not preserved_sets(NamingTable.of(found_set(names))).asked.any()
    assert results(found_set(names)).preservation == ()


# -- slow plain references -----------------------------------------------------------------------------------------


@st.composite
def namings(draw: st.DrawFn) -> Dataset:
    n = draw(st.integers(1, 6))
    truth = [sorted(draw(st.sets(st.integers(0, 2), min_size=1, max_size=2))) for _ in range(n)]
    names = []
    for person in ("ann", "bo", "cy"):
        for number in range(n):
            said = draw(st.sampled_from(["", "cat", "dog", "owl", "none", "unsure", "late"]))
            seconds = draw(st.sampled_from([None, 0.5, 1.0, 2.0]))
            shown = draw(st.sampled_from(["", "anchor", "anchor", "control", "brief", "practice"]))
            names += [answer(person, f"{number}:0", said, seconds=seconds, shown=shown)] if said else []
    return photos(truth, names)


@settings(max_examples=60, deadline=None)
@given(namings())
def test_scores_equal_a_plain_count(dataset):
    if not dataset.names:
        return
    found = results(dataset)
    truth = {
        frame: {CLASSES[label] for label in dataset.labels_of(row)} for row, frame in enumerate(dataset.frame_ids())
    }
    controls = [one for one in dataset.names if one.condition == "control"]
    assert (found.controls.n, found.controls.count or 0) == (
        len(controls), sum(one.label in truth[one.frame_id] for one in controls),
    )  # fmt: skip
    parts = {"": [], "brief": []}
    for one in dataset.names:
        if one.condition not in ("control", "practice"):
            parts["brief" if one.condition == "brief" else ""].append(one)
    assert [one.condition for one in found.scores] == [name for name in ("", "brief") if parts[name]]
    for score in found.scores:
        mine = parts[score.condition]
        right = [one.label in truth[one.frame_id] for one in mine]
        assert (score.accuracy.count, score.accuracy.n, score.n_answers) == (sum(right), len(mine), len(mine))
        by_frame = {frame: [one for one in mine if one.frame_id == frame] for frame in {one.frame_id for one in mine}}
        assert score.n_pictures == len(by_frame)
        said = {frame: Counter((one.said, one.label) for one in many) for frame, many in by_frame.items()}
        most = {
            frame: next((word for word, n in words.items() if 2 * n > words.total()), None)
            for frame, words in said.items()
        }
        assert score.no_majority == sum(word is None or word[0] != "class" for word in most.values())
        assert score.majority.count == sum(
            word is not None and word[0] == "class" and word[1] in truth[frame] for frame, word in most.items()
        )
        assert score.fleiss_kappa.value == plain_fleiss(said.values())
        times = [one.seconds for one in mine if one.seconds is not None]
        assert score.seconds.median.value == (median(times) if times else None)
        assert sum(one.n for one in score.confusion) == len(mine)
        assert sum(one.n for one in score.confusion if one.answer == one.label) == sum(right)
        people = sorted({one.annotator for one in mine})
        assert [one.person for one in score.people] == people
        assert [(one.person, one.other) for one in score.pairs] == list(combinations(people, 2))


def plain_fleiss(pictures) -> object:
    """Fleiss' kappa of counts of words, images with one answer left out, in fractions."""
    many = [words for words in pictures if words.total() > 1]
    if not many:
        return None
    agree = [Fraction(sum(n * (n - 1) for n in words.values()), words.total() * (words.total() - 1)) for words in many]
    whole = sum(many, Counter())
    chance = sum(Fraction(n, whole.total()) ** 2 for n in whole.values())
    observed = sum(agree) / len(agree)
    return None if chance == 1 else pytest.approx(float((observed - chance) / (1 - chance)))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["", "cat", "dog", "owl", "none", "late"]), min_size=36, max_size=36))
def test_preservation_equals_a_plain_count(words):
    frames = [f"{number}:{place}" for number in range(4) for place in range(3)]
    pairs = [(person, frame) for person in ("ann", "bo", "cy") for frame in frames]
    names = [answer(person, frame, word) for (person, frame), word in zip(pairs, words, strict=True) if word]
    if not names:
        return
    dataset = found_set(names)
    rows = {one.variant: one for one in results(dataset).preservation}
    for place, variant, numbers in ((0, "anchor", range(4)), (1, "search", range(3)), (2, "random", range(4))):
        said = {number: [one.label for one in names if one.frame_id == f"{number}:{place}"] for number in numbers}
        said = {number: many for number, many in said.items() if many}
        if variant not in rows:
            assert not said or variant == "anchor"
            continue
        same = {number: sum(label == CLASSES[number % 3] for label in many) for number, many in said.items()}
        one = rows[variant]
        assert (one.named.count or 0, one.named.n) == (sum(same.values()), sum(map(len, said.values())))
        assert one.n_pictures == len(said)
        assert (one.kept.count or 0) == sum(2 * n > len(said[number]) for number, n in same.items())


def test_records_survive_being_written():
    found = results(found_set(SEEN), net=[0] * 12)
    assert decode(PeopleResults, encode(found)) == found


@pytest.mark.skipif(not EDGE.is_dir(), reason="the shared trials are not here")
def test_real_trials_give_the_known_figures(tmp_path):
    made = import_dataset("trials", EDGE, tmp_path / "edge", how=ImportOptions(media="none"))
    (score,) = people_results(NamingTable.of(made.dataset), {}, ScoreOptions()).scores
    assert (score.n_people, score.n_pictures, score.n_answers, score.said.late) == (10, 160, 1600, 34)
    assert score.accuracy.value == pytest.approx(0.8713, abs=5.1e-5)  # 1394 of 1600 lies just between two roundings
    assert score.consistency.value == pytest.approx(0.3184, abs=5e-5)
    assert score.fleiss_kappa.value == pytest.approx(0.7902, abs=5e-5)
    assert score.consistency.low < 0.3184 < score.consistency.high
    assert len(score.pairs) == 45
