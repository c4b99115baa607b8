"""The dataset in memory: rules at birth, right and wrong, parts, and the digest."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.dataset import Dataset, DatasetInfo, joined
from strobe.core.errors import InvalidValue
from strobe.core.labels import LabelSpace
from strobe.core.records import Verdict
from strobe.core.tables import Boxes, Frames, Hints, Labels, Sets, Videos, texts

SPACE = LabelSpace.of_names("pets", ["cat", "dog", "fox"])


def small(*, label_source="frame") -> Dataset:
    """Two videos, two sets of an anchor and two members; everything that can be known is known."""
    n = 6
    return Dataset(
        info=DatasetInfo(name="small", label_space=SPACE, k=1, label_source=label_source, provenance={"seed": 1}),
        videos=Videos(
            video_id=texts(["va", "vb"]), name=texts(["a", "b"]), fps_num=np.array([30000, 25]),
            fps_den=np.array([1001, 1]), n_frames=np.array([3, 3]), path=texts(["a.mp4", ""]),
            codec=texts(["h264", ""]),
        ),
        frames=Frames(
            video=np.repeat([0, 1], 3), index=np.tile(np.arange(3), 2), key=texts([f"k{i}" for i in range(n)]),
            pts=np.arange(n), time_num=np.arange(n), time_den=np.full(n, 25), pict_type=texts(list("IPBIPB")),
            width=np.full(n, 64), height=np.full(n, 48), sha256=texts([f"{i}" for i in range(n)]),
            media=texts([f"media/{i}.png" for i in range(n)]),
        ),
        sets=Sets(
            set_id=texts(["sa", "sb"]), set=np.repeat([0, 1], 3), frame=np.arange(n),
            distance=np.tile([-1.0, 0.0, 1.0], 2), is_anchor=np.tile([False, True, False], 2),
        ),
        labels=Labels(frame=np.array([0, 1, 1, 2, 3, 4, 5]), label=np.array([0, 0, 1, 0, 2, 2, 1])),
        boxes=Boxes(
            frame=np.array([1, 4]), label=np.array([0, 2]), xyxy=np.array([[0.0, 0, 5, 5], [1, 2, 3, 4]]),
            track=np.array([7, -1]), crowd=np.array([False, True]),
        ),
        hints=Hints(
            cut=np.linspace(0, 1, n), blur=np.zeros(n), motion=np.zeros(n), exposure=np.zeros(n),
            duplicate=np.zeros(n, dtype=bool),
        ),
        verdicts=(
            Verdict(
                verdict_id="1", annotator="ann", at="2026-01-01T00:00:00Z", stage="pair", set_id="sa",
                frame_id="va:0", decision="similar",
            ),
        ),
    )  # fmt: skip


def changed(data: Dataset, table: str, column: str, place: int, value: object) -> Dataset:
    """The dataset with one cell of one table set to another value."""
    part = getattr(data, table)
    values = getattr(part, column).copy()
    values[place] = value
    return replace(data, **{table: replace(part, **{column: values})})


CELLS = [
    ("videos", "video_id", "vc"), ("videos", "name", "c"), ("videos", "fps_num", 1), ("videos", "fps_den", 7),
    ("videos", "n_frames", 9), ("videos", "codec", "av1"), ("frames", "index", 9), ("frames", "key", "other"),
    ("frames", "pts", 77), ("frames", "time_num", 77), ("frames", "time_den", 77), ("frames", "pict_type", ""),
    ("frames", "width", 1), ("frames", "height", 1), ("frames", "sha256", "x"), ("sets", "distance", -0.5),
    ("sets", "set_id", "sc"), ("labels", "label", 2), ("boxes", "label", 1), ("boxes", "xyxy", (0, 0, 5, 5.5)),
    ("boxes", "track", 8), ("boxes", "crowd", True), ("hints", "cut", 0.5), ("hints", "blur", 0.5),
    ("hints", "motion", 0.5), ("hints", "exposure", 0.5), ("hints", "duplicate", True), ("videos", "kind", "photo"),
    ("frames", "as_input", True), ("frames", "recipe", '{"kind": "fog"}'), ("sets", "group", "g"),
    ("sets", "status", "failed"), ("sets", "reach", 0.5), ("sets", "margin", 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("table", "column", "value"), CELLS, ids=lambda value: str(value))
def test_every_value_changes_the_digest(table: str, column: str, value: object) -> None:
    data = small()
    assert changed(data, table, column, 0, value).digest() != data.digest()


def test_every_column_is_either_in_the_digest_or_says_only_where_things_lie() -> None:
    covered = {(table, column) for table, column, _ in CELLS}
    rows_by_place = {("frames", "video"), ("sets", "set"), ("sets", "frame"), ("sets", "is_anchor"),
                     ("sets", "variant"), ("labels", "frame"), ("boxes", "frame")}  # fmt: skip
    paths = {("videos", "path"), ("frames", "media")}
    data = small()
    for table in ("videos", "frames", "sets", "labels", "boxes", "hints"):
        for column in type(getattr(data, table)).__slots__:
            assert (table, column) in covered | rows_by_place | paths, f"{table}.{column} is tested nowhere"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"}, {"version": "2"}, {"axis": "severity"}, {"k": 2}, {"label_source": "anchor"},
        {"reviewed": "votes"}, {"licence": "CC0"}, {"provenance": {"seed": 2}},
        {"label_space": LabelSpace.of_names("pets", ["cat", "dog", "wolf"])},
        {"label_space": LabelSpace.of_names("animals", ["cat", "dog", "fox"])},
    ],
)  # fmt: skip
def test_every_field_of_the_whole_changes_the_digest(changes) -> None:
    data = small()
    assert replace(data, info=replace(data.info, **changes)).digest() != data.digest()


def test_votes_and_missing_tables_change_the_digest() -> None:
    data = small()
    others = [
        replace(data, verdicts=()),
        replace(data, verdicts=(replace(data.verdicts[0], note="hm"),)),
        replace(data, boxes=None),
        replace(data, hints=None),
        replace(data, boxes=None, hints=None),
    ]
    assert len({data.digest(), *(other.digest() for other in others)}) == 6


def test_place_and_order_do_not_change_the_digest() -> None:
    data = small()
    moved = changed(changed(data, "videos", "path", 0, "/elsewhere.mp4"), "frames", "media", 0, "media/x.png")
    assert moved.digest() == data.digest()
    back = np.array([5, 4, 3, 2, 1, 0])
    place = np.argsort(back)
    shuffled = replace(
        data,
        frames=replace(data.frames, **{name: getattr(data.frames, name)[back] for name in Frames.__slots__}),
        sets=replace(data.sets, frame=place[data.sets.frame]),
        labels=Labels(frame=place[data.labels.frame][::-1], label=data.labels.label[::-1]),
        boxes=replace(data.boxes, frame=place[data.boxes.frame]),
    )
    assert shuffled.digest() == data.digest()
    assert shuffled.frames_digest() == data.frames_digest()


@settings(max_examples=50, deadline=None)
@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_no_text_can_pass_for_another(a: str, b: str, c: str, d: str) -> None:
    """Tabs and line breaks in names do not blur where one value ends and the next begins."""
    one = changed(changed(small(), "videos", "name", 0, a), "videos", "codec", 0, b)
    two = changed(changed(small(), "videos", "name", 0, c), "videos", "codec", 0, d)
    assert (one.digest() == two.digest()) == ((a, b) == (c, d))


def test_the_digest_is_that_of_the_code_before_variants() -> None:
    """Old runs name these; what schema 2 added must not move them."""
    assert small().digest() == "7eb21e6749b85a44e3feeb48112eb8e42527d0940c86e6b696db9f1012b01d92"
    assert small().frames_digest() == "aaf1b4724cca9efd18be16f76f9d9cc06962e8b543d8c60aa65ed8d8aafe9714"


def test_predictions_survive_votes_and_labels_but_not_pixels() -> None:
    data = small()
    assert changed(data, "frames", "as_input", 0, True).frames_digest() != data.frames_digest()
    assert changed(data, "frames", "recipe", 0, "{}").frames_digest() != data.frames_digest()
    kept = replace(changed(data, "labels", "label", 0, 2), verdicts=())
    assert kept.frames_digest() == data.frames_digest()
    assert changed(data, "frames", "sha256", 0, "x").frames_digest() != data.frames_digest()


# -- rules at birth ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "column", "place", "value", "rule"),
    [
        ("sets", "is_anchor", 1, False, "set sa has 0 anchors"),
        ("sets", "is_anchor", 0, True, "set sa has 2 anchors"),
        ("sets", "distance", 1, 0.5, "0 for every anchor"),
        ("sets", "distance", 0, 5.0, "sorted by set"),
        ("sets", "distance", 2, np.nan, "finite"),
        ("sets", "frame", 0, 1, "each frame once per set"),
        ("sets", "frame", 0, 99, "rows of the frames table"),
        ("sets", "set_id", 0, "sb", "each set once"),
        ("frames", "video", 0, 7, "rows of the videos table"),
        ("frames", "key", 0, "k1", "each key to appear once"),
        ("frames", "index", 0, 1, "each index once per video"),
        ("frames", "index", 0, -1, ">= 0"),
        ("videos", "video_id", 0, "vb", "each video once"),
        ("labels", "label", 0, 3, "0–2"),
        ("labels", "label", 2, 0, "each label once per frame"),
        ("boxes", "frame", 0, 6, "rows of the frames table"),
        ("videos", "kind", 0, "film", "one of video, photo, image, generated"),
        ("frames", "recipe", 0, "fog", "expected JSON"),
        ("frames", "recipe", 0, "[1]", "a JSON object"),
        ("sets", "status", 0, "lost", "one of complete, found"),
        ("sets", "status", 0, "censored", "set sa has the status censored but no reach"),
        ("sets", "reach", 0, np.inf, "finite and >= 0"),
        ("sets", "reach", 0, -1.0, "finite and >= 0"),
        ("sets", "margin", 0, np.inf, "finite"),
        ("sets", "variant", 0, 1, "rows of the variants table"),
        ("sets", "variant", 0, -1, "rows of the variants table"),
    ],
)
def test_a_broken_dataset_is_refused(table: str, column: str, place: int, value: object, rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule):
        changed(small(), table, column, place, value)


# -- questions and parts -----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-1, 2), min_size=6, max_size=6), st.sampled_from(["frame", "anchor"]))
def test_right_rows_equals_the_plain_rule(predicted: list[int], source: str) -> None:
    data = small(label_source=source)
    labels = {row: set(data.labels_of(row)) for row in range(6)}
    want = []
    for s, f in zip(data.sets.set, data.sets.frame, strict=True):
        judged = int(f) if source == "frame" else int(data.sets.anchor_frame[s])
        want.append(predicted[f] in labels[judged])
    assert data.right_rows(np.array(predicted)).tolist() == want


@given(st.floats(0, 20))
def test_level_is_the_smallest_k_that_holds_the_distance(distance: float) -> None:
    data = small()
    level = int(replace(data, sets=replace(data.sets, distance=np.tile([-1.0, 0.0, distance], 2))).row_levels()[2])
    assert distance <= level
    assert level == 0 or distance > level - 1


def test_keep_rows_drops_sets_without_anchor_and_keeps_hints_in_step() -> None:
    data = small()
    part = data.keep_rows(np.array([True, False, True, True, True, False]))
    assert part.sets.set_id.tolist() == ["sb"]
    assert part.sets.distance.tolist() == [-1.0, 0.0]
    assert part.hints.cut.tolist() == data.hints.cut[3:5].tolist()
    with pytest.raises(InvalidValue, match="at least one set left"):
        data.keep_rows(np.zeros(6, dtype=bool))


def test_only_videos_by_name_or_id() -> None:
    data = small()
    assert data.only_videos(["a"]).sets.set_id.tolist() == ["sa"]
    assert data.only_videos(["vb"]).sets.set_id.tolist() == ["sb"]
    with pytest.raises(InvalidValue, match=r"1 video.* the first is zebra"):
        data.only_videos(["a", "zebra"])


def test_joined_parts_equal_the_whole() -> None:
    data = small()
    parts = []
    for video in range(2):
        rows = slice(3 * video, 3 * video + 3)
        mine = data.labels.frame // 3 == video
        box = data.boxes.frame // 3 == video
        parts.append(
            Dataset(
                info=data.info,
                videos=Videos(**{n: getattr(data.videos, n)[video : video + 1] for n in Videos.__slots__}),
                frames=Frames(
                    **{n: getattr(data.frames, n)[rows] if n != "video" else np.zeros(3, int) for n in Frames.__slots__}
                ),
                sets=Sets(
                    set_id=data.sets.set_id[video : video + 1], set=np.zeros(3, int), frame=np.arange(3),
                    distance=data.sets.distance[rows], is_anchor=data.sets.is_anchor[rows],
                ),
                labels=Labels(frame=data.labels.frame[mine] - 3 * video, label=data.labels.label[mine]),
                boxes=Boxes(
                    frame=data.boxes.frame[box] - 3 * video, label=data.boxes.label[box], xyxy=data.boxes.xyxy[box],
                    track=data.boxes.track[box], crowd=data.boxes.crowd[box],
                ),
                hints=Hints(**{n: getattr(data.hints, n)[rows] for n in Hints.__slots__}),
                verdicts=data.verdicts if video == 0 else (),
            )
        )  # fmt: skip
    assert joined(parts, info=data.info).digest() == data.digest()
    with pytest.raises(InvalidValue, match="each video once"):
        joined([parts[0], parts[0]], info=data.info)
