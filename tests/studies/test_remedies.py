"""What remedies gain and cost, on planted changes by hand, and beside today's smoothing."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from strobe.analyses.classification import score
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.remedied import Stretches
from strobe.core.answers import Answers, BoxAnswers, ClassAnswers, State
from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import ModelFailed
from strobe.core.labels import LabelSpace
from strobe.core.tables import CUTS_BETWEEN_SETS
from strobe.metrics.remedies import Remedy
from strobe.studies.remedies.records import NONE, RemedyScore
from strobe.studies.remedies.score import DEFAULT, Measured, Truth, default_answers, recommended, with_front

QUICK = ScoreOptions(bootstrap=False)
K = 10


def dataset_of(labels: Sequence[int | None], *, cut: int | None = None, fps: int = 10) -> Dataset:
    """One video with a set around every 21st frame; a cut lies before a frame."""
    grown = DatasetBuilder()
    name = frame_list_digest(["a"])
    video = grown.video(video_id=name, name="a", fps=Fraction(fps) if fps else None)
    rows = [
        grown.frame(video=video, index=index, key=f"a/{index}", labels=[] if label is None else [label])
        for index, label in enumerate(labels)
    ]
    for anchor in range(K, len(rows) - K, 2 * K + 1):
        near = [at for at in range(anchor - K, anchor + K + 1) if at != anchor]
        grown.set(set_id=f"s{anchor}", anchor=rows[anchor], members=[(rows[at], at - anchor) for at in near])
    cuts = {} if cut is None else {CUTS_BETWEEN_SETS: {name: [cut]}}
    space = LabelSpace.of_names("four", ("a", "b", "c", "d"))
    return grown.build(DatasetInfo(name="planted", label_space=space, k=K, provenance=cuts))


def row(dataset: Dataset, own: Answers, text: str) -> RemedyScore:
    remedied = Stretches.of(dataset, own.scored).with_remedy(own, Remedy.of(text))
    return Measured(Truth(dataset, QUICK), "m", own).score(remedied, text, 1.0)


def labelled(answers: Sequence[int]) -> ClassAnswers:
    return ClassAnswers.from_labels("m", np.array(answers))


def test_truth_lost_at_changing_labels_is_that_by_hand() -> None:
    """Frames are 0.1 s apart. The label is b from frame 20, c on frames 30 and 31 alone, then d."""
    truth = [*[0] * 20, *[1] * 10, 2, 2, *[3] * 10]
    found = row(dataset_of(truth), labelled(truth), "hold=0.3")
    assert (found.real_changes, found.delayed, found.swallowed) == (3, 2, 1)
    assert found.late_ms == found.delay_ms == pytest.approx(300)
    assert (found.changes, found.frames) == (2, 42)
    assert found.changes_per_s == pytest.approx(2 / 4.1)
    assert found.fewer == pytest.approx(1 / 3)
    assert found.altered == pytest.approx((3 + 2 + 3) / 42)
    none = Measured(Truth(dataset_of(truth), QUICK), "m", labelled(truth)).score(labelled(truth), NONE, 1.0)
    assert (none.real_changes, none.delayed, none.swallowed, none.delay_ms, none.changes) == (3, 0, 0, 0, 3)


def test_a_change_that_the_model_itself_misses_is_not_counted() -> None:
    truth = [*[0] * 20, *[1] * 10, *[3] * 12]
    found = row(dataset_of(truth), labelled([*[0] * 30, *[3] * 12]), "confirm=3")
    assert (found.real_changes, found.delayed, found.swallowed) == (1, 1, 0)
    assert found.late_ms == pytest.approx(200)


def test_a_cut_without_labels_counts_if_the_most_frequent_answer_changes() -> None:
    said = [*[0] * 20, 1, 0, 1, *[1] * 19]
    for cut, changes in ((20, 1), (None, 0)):
        found = row(dataset_of([None] * 42, cut=cut), labelled(said), "hold=0.2")
        assert (found.real_changes, found.delayed, found.swallowed) == (changes, changes, 0)
        assert found.acc_pmk is None
        if changes:
            assert found.late_ms == pytest.approx(400)  # first 1 at frame 20, held from frame 22 on for 0.2 s
    same = row(dataset_of([None] * 42, cut=20), labelled([0] * 42), "hold=0.2")
    assert same.real_changes == 0


def test_short_scenes_are_swallowed() -> None:
    said = [*[0] * 20, 1, 1, *[0] * 20]
    dataset = dataset_of([*[0] * 20, 1, 1, *[0] * 20])
    found = row(dataset, labelled(said), "hold=0.3")
    assert (found.real_changes, found.swallowed, found.delayed) == (2, 1, 0)
    assert found.changes == 0


def scores(n: int, seed: int) -> ClassAnswers:
    shares = np.random.default_rng(seed).dirichlet(np.ones(4), n)
    return ClassAnswers.from_scores("m", shares, kind="probabilities")


@pytest.mark.parametrize("seed", range(4))
def test_todays_smoothing_is_unmoved_where_a_set_is_a_stretch_of_its_own(seed: int) -> None:
    """Sets of 21 frames with a gap between them."""
    grown, n_sets = DatasetBuilder(), 6
    video = grown.video(video_id=frame_list_digest(["a"]), name="a", fps=Fraction(10))
    for number in range(n_sets):
        first = 30 * number
        rows = [grown.frame(video=video, index=at, key=f"a/{at}", labels=[0]) for at in range(first, first + 21)]
        near = [(rows[at], at - K) for at in range(21) if at != K]
        grown.set(set_id=f"s{number}", anchor=rows[K], members=near)
    space = LabelSpace.of_names("four", ("a", "b", "c", "d"))
    dataset = grown.build(DatasetInfo(name="apart", label_space=space, k=K))
    own = scores(21 * n_sets, seed)
    own = replace(own, label=own.label, scores=np.asarray(own.scores) + np.array([1.5, 0, 0, 0]))
    own = ClassAnswers.from_scores("m", np.asarray(own.scores), kind="probabilities")
    known = {
        (one.method, one.parameter): (one.acc_orig, one.acc_pmk) for one in score(dataset, own, options=QUICK).smoothing
    }
    same = {("ema", 0.5): "ema=0.5", ("ema", 0.2): "ema=0.2"}
    same |= {("causal", w): f"mean={w + 1}" for w in (1, 2, 5, 10)}
    same |= {("centred", w): f"mean-around={w}" for w in (1, 2, 5, 10)}
    assert known.keys() == {("none", 0), *same}
    for key, text in same.items():
        found = row(dataset, own, text)
        assert (found.acc_orig, found.acc_pmk) == known[key]
    votes = labelled(own.label.tolist())
    for one in score(dataset, votes, options=QUICK).smoothing[1:]:
        text = f"mode-around={one.parameter:g}" if "centred" in one.method else f"mode={one.parameter + 1:g}"
        found = row(dataset, votes, text)
        assert (found.acc_orig, found.acc_pmk) == (one.acc_orig, one.acc_pmk)


def test_stored_scores_rank_as_the_answer() -> None:
    """An average is stored with 32 bits; its answer stays the one of the exact average."""
    own = scores(42, 1)
    for text in ("mean=4", "ema=0.3", "mean-around=2", "hold=0.3", "mode=3", "hysteresis=0.2"):
        found = Stretches.of(dataset_of([0] * 42), own.scored).with_remedy(own, Remedy.of(text))
        assert isinstance(found, ClassAnswers)
        assert found.scores is not None
        assert np.asarray(found.scores[np.arange(42)]).argmax(axis=1).tolist() == found.label.tolist()
        light = Stretches.of(dataset_of([0] * 42), own.scored).with_remedy(own, Remedy.of(text), keep=False)
        assert light.as_classes().label.tolist() == found.label.tolist()


def test_answers_outside_the_classes_are_answers() -> None:
    said = [*[0] * 5, *[-1] * 5, *[0] * 32]
    found = Stretches.of(dataset_of([0] * 42), np.ones(42, bool)).with_remedy(labelled(said), Remedy.of("hold=0.2"))
    assert np.flatnonzero(found.state == State.OUTSIDE).tolist() == [7, 8, 9, 10, 11]


def test_what_a_remedy_is_not_for_is_one_line() -> None:
    line = Stretches.of(dataset_of([0] * 42), np.ones(42, dtype=bool))
    with pytest.raises(ModelFailed, match="labels without scores"):
        line.with_remedy(labelled([0] * 42), Remedy.of("mean=3"))
    with pytest.raises(ModelFailed, match="gives classes"):
        line.with_remedy(labelled([0] * 42), Remedy.of("fill=0.5"))
    boxes = BoxAnswers.of(np.zeros(0, int), np.zeros(0, int), np.zeros((0, 4)), np.zeros(0), n_frames=42, n_classes=4)
    with pytest.raises(ModelFailed, match="gives boxes"):
        line.with_remedy(boxes, Remedy.of("mode-around=2"))
    timeless = Stretches.of(dataset_of([0] * 42, fps=0), np.ones(42, dtype=bool))
    with pytest.raises(ModelFailed, match="use confirm=N"):
        timeless.with_remedy(labelled([0] * 42), Remedy.of("hold=0.5"))


def test_the_default_list_needs_no_forward_pass() -> None:
    assert not any(one.rule.looks for one in DEFAULT)
    of_labels = [one.text for one, _ in default_answers(dataset_of([0] * 42), labelled([0] * 42))]
    assert of_labels == ["hold=0.1", "hold=0.27", "hold=0.5", "hold=1", "confirm=2", "mode=5", "mode=11"]


def boxes_of(frames: Sequence[int], at: float = 10.0) -> BoxAnswers:
    n = len(frames)
    return BoxAnswers.of(
        np.array(frames), np.zeros(n, dtype=int), np.tile([at, 10, at + 30, 40], (n, 1)), np.full(n, 0.9),
        n_frames=42, n_classes=4,
    )  # fmt: skip


def test_objects_that_appear_and_leave_are_followed_as_by_hand() -> None:
    """A true object from frame 10 to 25; the detector misses frames 15 and 16. Frames are 0.1 s apart.

    The object leaves in the middle of the picture. Without labels, that is an outage up to the end.
    """
    grown = DatasetBuilder()
    video = grown.video(video_id=frame_list_digest(["a"]), name="a", fps=Fraction(10))
    rows = [grown.frame(video=video, index=at, key=f"a/{at}", labels=[0]) for at in range(42)]
    for at in range(10, 26):
        grown.box(frame=rows[at], label=0, xyxy=(10.0, 10.0, 40.0, 40.0), track=1)
    for anchor in (10, 31):
        near = [(rows[at], at - anchor) for at in range(anchor - 10, anchor + 11) if at != anchor]
        grown.set(set_id=f"s{anchor}", anchor=rows[anchor], members=near)
    space = LabelSpace.of_names("four", ("a", "b", "c", "d"))
    dataset = grown.build(DatasetInfo(name="boxes", label_space=space, k=K))
    own = boxes_of([at for at in range(10, 26) if at not in (15, 16)])
    held = row(dataset, own, "hold=0.5")
    assert (held.changes, held.real_changes, held.delayed, held.swallowed) == (1, 2, 1, 0)
    assert held.late_ms == pytest.approx(500)  # the box stays for 0.5 s after the object left
    assert held.fewer == 0.5
    assert held.altered == pytest.approx((2 + 5) / 42)
    confirmed = row(dataset, own, "confirm=3")
    assert (confirmed.delayed, confirmed.late_ms) == (1, pytest.approx(200))
    filled = row(dataset, own, "fill=0.3")
    assert (filled.changes, filled.delayed, filled.swallowed) == (1, 0, 0)
    assert filled.delay_ms == pytest.approx(300)  # it waits for the box that ends a gap


def scored(**more: object) -> RemedyScore:
    one = RemedyScore(
        model="m", remedy=NONE, frames=100, changes=10, changes_per_s=1.0, fewer=0.0, altered=0.0,
        delay_ms=0.0, forwards=1.0, real_changes=10, delayed=0, swallowed=0, late_ms=None,
    )  # fmt: skip
    return replace(one, **more)  # type: ignore[arg-type]


def test_what_is_recommended() -> None:
    bare = scored()
    slow = scored(remedy="hold=1", changes=1, fewer=0.9, altered=0.4, delay_ms=1000.0)
    fast = scored(remedy="confirm=2", changes=5, fewer=0.5, altered=0.1, delay_ms=33.0)
    assert recommended([bare, slow, fast]) == slow, "its fewer changes cost no real one"
    assert recommended([bare, replace(slow, swallowed=2), fast]) == fast
    assert recommended([bare, replace(slow, fewer=0.4)]) is None
    unknown = [replace(one, real_changes=0) for one in (bare, slow, fast)]
    assert recommended(unknown) == unknown[2], "what a remedy hides is unknown, so few frames are altered"
    crops = replace(slow, remedy="crops=5", changes=0, forwards=5.0)
    assert recommended([bare, slow, crops]) == slow
    front = with_front([bare, slow, fast, replace(slow, remedy="hold=2", delay_ms=2000.0)])
    assert [one.is_front for one in front] == [True, True, True, False]
