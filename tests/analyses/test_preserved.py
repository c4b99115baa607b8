"""What of a search is left when only findings that are still what they were count; the baseline; controls; classes."""

import numpy as np
import pytest

import strobe
from strobe.analyses.results import Results
from strobe.core.answers import ClassAnswers
from strobe.core.builder import DatasetBuilder
from strobe.core.codec import decode
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidValue
from strobe.core.labels import LabelSpace
from strobe.core.people import NameAnswer
from strobe.core.variants import Target, Variant

SPACE = LabelSpace.of_names("pets", ["cat", "dog"])
LEVELS = (1.0, 2.0, 4.0, 8.0)
REACH = {"standard": (1.0, 1.5, 2.0, 3.0, None), "robust": (2.0, 3.0, 4.0, None, None)}
"""Five images; None: nothing was found up to 8."""


def searched() -> Dataset:
    """Found for four and for three of five images; every finding has a random direction beside it."""
    made = DatasetBuilder()
    for target in REACH:
        fields = {"kind": "generator", "granularity": "coarse", "neurons": 16}
        same = {"axis": "magnitude", "unit": "std", "levels": LEVELS, "target": Target(name=target)}
        made.variant(Variant(variant=f"coarse/{target}", fields=fields, **same))
        made.variant(
            Variant(variant=f"coarse/{target}/random", fields=fields | {"control": "random"}, role="control", **same)
        )
        made.variant(Variant(variant=f"coarse/{target}/between", fields=fields, role="shown", **same))
    for number in range(5):
        video = made.video(video_id=f"v{number}", name=f"v{number}", kind="generated")
        anchor = made.frame(video=video, index=0, key=f"{number}", labels=[number % 2], size_wh=(8, 8))
        for place, (target, reaches) in enumerate(REACH.items()):
            reach = reaches[number]
            kinds = ("", "/random", "/between") if reach else ("",)
            for turn, kind in enumerate(kinds):
                row = reach and made.frame(
                    video=video, index=1 + 3 * place + turn, key=f"{number}/{target}{kind}", size_wh=(8, 8)
                )
                more = {} if kind else {"status": "found" if reach else "censored", "reach": reach or LEVELS[-1]}
                made.set(
                    set_id=f"{number}/{target}{kind}", anchor=anchor, members=[(row, reach)] if row else [],
                    variant=f"coarse/{target}{kind}", group=f"{number}", **more,
                )  # fmt: skip
    info = DatasetInfo(name="made", label_space=SPACE, k=4, axis="magnitude", label_source="anchor")
    return made.build(info)


def answers(data: Dataset, model: str, wrong: set[str]) -> ClassAnswers:
    """Right everywhere but on frames with these keys."""
    truth = np.array([int(str(key).split("/")[0]) % 2 for key in data.frames.key])
    off = np.array([key in wrong for key in data.frames.key])
    return ClassAnswers.from_labels(model, np.where(off, 1 - truth, truth))


def scored(data: Dataset, judge: set[str], **options) -> Results:
    models = [
        answers(data, "standard", {f"{n}/standard" for n in range(5)} | {"0/standard/random"}),
        answers(data, "robust", {f"{n}/robust" for n in range(5)}),
        answers(data, "judge", judge),
    ]
    return decode(Results, strobe.results(data, models, judges=["judge"], **options))


def test_the_baseline_is_below_and_can_be_named() -> None:
    first = scored(searched(), set()).contrasts
    assert [(one.a, one.b, one.n) for one in first] == [("coarse/robust", "coarse/standard", 5)]
    assert first[0].value.value == 2.0, "2/1, 3/1.5, 4/2, above 3/8, unknown: the median is 2 whatever those are"
    other = scored(searched(), set(), baseline="robust")
    assert [(one.a, one.b) for one in other.contrasts] == [("coarse/standard", "coarse/robust")]
    assert other.settings.baseline == "robust"


def test_only_findings_that_are_still_what_they_were_count() -> None:
    found = scored(searched(), {"1/robust", "3/standard"})
    (kept,) = found.preserved
    assert (kept.by, kept.who) == ("judges", ("judge",))
    assert [(one.searched, one.found, one.asked, one.kept) for one in kept.still] == [(5, 4, 4, 3), (5, 3, 3, 2)]
    assert kept.still[0].still.value == 3 / 5
    assert [(one.found, one.censored) for one in kept.searches] == [(3, 1), (2, 2)], (
        "a censored search is never dropped"
    )
    (ratio,) = kept.contrasts
    assert ratio.n == 3, "images 0, 2 and 4: of 1 and 3 one side is gone"
    said = {one.variant: one.kept.value for one in kept.preservation}
    assert said == {
        "anchor": 1.0, "coarse/standard": 0.75, "coarse/robust": 2 / 3, "coarse/standard/random": 1.0,
        "coarse/robust/random": 1.0,
    }  # fmt: skip


def test_a_loss_is_that_of_the_searched_images_alone() -> None:
    """The judge is wrong on image 4, in which one search found nothing: that is no gain of the findings."""
    (kept,) = scored(searched(), {"4", "1/robust"}).preserved
    said = {one.variant: one for one in kept.preservation}
    assert said["anchor"].kept.value == 0.8
    for variant, reaches in (("coarse/standard", REACH["standard"]), ("coarse/robust", REACH["robust"])):
        images = [number for number, reach in enumerate(reaches) if reach]
        right = [number != 4 for number in images]
        still = [variant == "coarse/standard" or number != 1 for number in images]
        one = said[variant]
        assert (one.before.value, one.before.n) == (sum(right) / len(images), len(images))
        assert one.kept.value == sum(still) / len(images)
        assert one.lost.value == pytest.approx((sum(right) - sum(still)) / len(images))


def test_people_are_asked_by_the_same_rule() -> None:
    from dataclasses import replace

    data = searched()
    ids = dict(zip(data.frames.key.tolist(), data.frame_ids(), strict=True))

    def said(key: str, label: str) -> NameAnswer:
        return NameAnswer(
            answer_id=f"{key}-{label}", annotator="ada", at="2026-01-01T00:00:00+00:00", frame_id=ids[key],
            said="class", label=SPACE.ids[SPACE.names.index(label)], condition="",
        )  # fmt: skip

    named = replace(data, names=(said("0/standard", "cat"), said("1/standard", "cat"), said("1/robust", "dog")))
    people, judges = scored(named, set()).preserved
    assert (people.by, people.who, judges.by) == ("people", ("ada",), "judges")
    assert [(one.searched, one.found, one.asked, one.kept) for one in people.still] == [(2, 2, 2, 1), (2, 2, 1, 1)]


def test_controls_say_whom_a_random_direction_fools_and_what_is_shown_counts_nowhere() -> None:
    found = scored(searched(), set())
    standard = {one.variant: one for one in found.models["standard"].variants}
    assert standard["coarse/standard/random"].fooled.value == 1 / 4
    assert standard["coarse/standard"].reproduced.value == 1
    assert not any("between" in one for one in standard)
    assert not any("between" in one.variant for one in found.variants)
    assert {one.of for one in found.contrasts} == {"targets"}


def test_searches_are_told_by_class() -> None:
    first = scored(searched(), set()).searches[0]
    assert [(one.name, one.searched, one.found) for one in first.by_class] == [("cat", 3, 2), ("dog", 2, 2)]


def test_a_target_is_no_judge() -> None:
    data = searched()
    with pytest.raises(InvalidValue, match="coarse/robust was made against robust"):
        strobe.results(data, [answers(data, "robust", set())], judges=["robust"])


def test_people_are_shown_findings_controls_and_pictures_as_they_were_mixed() -> None:
    naming = pytest.importorskip("strobe.annexes.web.review.naming")
    seen = naming.shown(searched())
    assert {one.condition for one in seen} == {
        "anchor", "coarse/standard", "coarse/robust", "coarse/standard/random", "coarse/robust/random",
    }  # fmt: skip
    assert len({one.kin for one in seen}) == 5, "nobody sees two images of one latent"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"baseline": "judge"}, "unknown model for --baseline 'judge'.*standard"),
        ({"judges": ("judge",)}, "unknown model for --judge 'judge'"),
    ],
)
def test_a_baseline_or_judge_that_is_not_there_is_refused_before_anything_is_written(tmp_path, options, said) -> None:
    from strobe.analyses.plan import ScoreOptions
    from strobe.core.errors import StrobeError
    from strobe.core.ports import Silent
    from strobe.store import dataset_folder as folder
    from strobe.workflows.score import ScoreRunOptions, score_dataset

    data = searched()
    folder.write(data, tmp_path / "data")
    found = answers(data, "standard", set())
    rows = [f"{frame},{SPACE.names[label]}" for frame, label in zip(data.frame_ids(), found.label, strict=True)]
    (tmp_path / "standard.csv").write_text("frame,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    request = ScoreRunOptions(options=ScoreOptions(**options))
    with pytest.raises(StrobeError, match=said):
        score_dataset(tmp_path / "data", [f"preds:{tmp_path / 'standard.csv'}"], tmp_path / "run", request, Silent())
    assert not (tmp_path / "run" / "results.json").exists()


def test_searches_of_no_model_have_no_baseline(tmp_path) -> None:
    from strobe.analyses.plan import ScoreOptions
    from strobe.core.errors import StrobeError
    from strobe.store import dataset_folder as folder
    from strobe.store.opening import Opened
    from strobe.workflows.score import ScoreRunOptions, check_request

    folder.write(strobe.example_dataset(), tmp_path / "data")
    request = ScoreRunOptions(options=ScoreOptions(baseline="a"))
    with pytest.raises(StrobeError, match="--baseline: nothing in example was searched against a model"):
        check_request(request, Opened.of(tmp_path / "data"))
