"""What is this?, asked of whole images and of crops: nobody sees both, whatever becomes of what they were given.

The dataset is one that `import imagenet-a-plus` makes; queue and store are the real ones, on both databases.
"""

import json
import random
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from strobe.annexes.web.review import leases, queue
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.naming import shown
from strobe.annexes.web.review.store import Store
from strobe.core.people import NameAnswer
from strobe.core.ports import Silent
from strobe.store import dataset_folder as folder
from strobe.workflows.import_dataset import import_dataset
from strobe.workflows.score import ScoreRunOptions, score_dataset

N = 12
CLASSES = ("cat", "dog")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Twelve images and a crop of each, imported once."""
    root, rng = tmp_path_factory.mktemp("plus"), np.random.default_rng(0)
    for number in range(N):
        pixels = rng.integers(0, 255, (20, 24, 3), dtype=np.uint8)
        for kind, part in (("whole", pixels), ("crops", pixels[4:14, 3:15])):
            path = root / kind / CLASSES[number % 2] / f"{number:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(part).save(path)
    import_dataset("imagenet-a-plus", root / "crops", root / "set", options={"originals": root / "whole"})
    return root / "set"


@pytest.fixture
def plus(made, tmp_path):
    shutil.copytree(made, tmp_path / "set")
    return folder.read(tmp_path / "set")


def opened(url, dataset, clock, **settings) -> Store:
    """The store as a server that starts opens it."""
    store = Store(url, ask="name", clock=clock)
    store.prepare(dataset, ReviewOptions(controls=0, practice=0, **settings))
    return store


def said(task, who: str, label: str, number: int = 0) -> NameAnswer:
    return NameAnswer(
        answer_id=f"{who}-{task.task_id}-{number}", annotator=who, at="", frame_id=task.frame_id, said="class",
        label=label, condition=task.condition, seconds=1.0,
    )  # fmt: skip


def test_whole_and_crop_are_asked_about_and_the_control_of_the_same_pixels_is_not(plus) -> None:
    pictures = shown(plus)
    assert Counter(one.condition for one in pictures) == {"anchor": N, "crop": N}
    assert len({one.kin for one in pictures}) == N


def test_nobody_sees_a_picture_whole_and_cropped_through_restarts_skips_and_lost_tabs(
    database_url, plus, clock
) -> None:
    """Seven people answer, leave tasks lying until the lease is over, close tabs, come back in others, and the server
    is started anew: of every image each has been given the whole or the crop, and about as many of either."""
    chance, people = random.Random(5), [f"person {number}" for number in range(7)]
    store = opened(database_url, plus, clock, votes=2, lease_s=60.0)
    seen: dict[str, dict[str, str]] = {who: {} for who in people}
    answered: Counter[str] = Counter()
    for step in range(240):
        who = chance.choice(people)
        tab = f"tab {chance.randrange(2)}"
        for one in queue.claim(store, who, tab=tab, want=chance.randrange(1, 4)):
            before = seen[who].setdefault(one.task.kin, one.task.frame_id)
            assert before == one.task.frame_id, f"{who} saw {before} and is given {one.task.frame_id}, step {step}"
            if chance.random() < 0.5:
                store.cast([said(one.task, who, "cat", step)])
                answered[one.task.frame_id] += 1
        act = chance.random()
        if act < 0.15:
            leases.release(store, who, tab=tab)
        elif act < 0.3:
            clock.now += 61.0
        elif act < 0.35:
            store.close()
            store = opened(database_url, plus, clock, votes=2, lease_s=60.0)
    for who in people:
        conditions = Counter(one.condition for one in shown(plus) if one.frame_id in seen[who].values())
        # Of the last images that are open there is no choice.
        assert abs(conditions["anchor"] - conditions["crop"]) <= 4, (who, conditions)
    assert len(answered) == 2 * N, "every image was answered, whole and cropped"
    assert [queue.progress(store, who).tasks_open for who in people] == [0] * 7
    assert [queue.progress(store, who).open_for_me for who in people] == [0] * 7
    store.close()


def test_what_was_skipped_comes_back_as_it_was_or_not_at_all(database_url, plus, clock) -> None:
    store = opened(database_url, plus, clock, lease_s=60.0)
    (first, *_) = queue.claim(store, "Ann", tab="t", want=1)
    clock.now += 61.0
    rest = queue.claim(store, "Ann", tab="t", want=2 * N)
    assert [one.task.task_id for one in rest if one.task.kin == first.task.kin] == [first.task.task_id]
    assert Counter(one.task.condition for one in rest) == {"anchor": N // 2, "crop": N // 2}
    clock.now += 61.0
    for one in queue.claim(store, "Bo", tab="t", want=2 * N):
        store.cast([said(one.task, "Bo", "dog")])
    for one in queue.claim(store, "Cy", tab="t", want=2 * N):
        store.cast([said(one.task, "Cy", "dog")])
    assert queue.progress(store, "Ann").open_for_me == 0
    assert queue.claim(store, "Ann", tab="t", want=2 * N) == []
    store.close()


def test_people_stand_beside_models_whole_and_cropped(plus, clock, tmp_path: Path) -> None:
    """Two people name all that is there: right on every whole image, on crops of cats alone; a model beside them."""
    store = opened(f"sqlite:///{plus.root / 'review.sqlite'}", plus, clock)
    place = {frame: row for row, frame in enumerate(plus.frame_ids())}
    labels = plus.info.label_space.ids
    right = {str(plus.frames.key[row]): plus.labels_of(row) for row in np.unique(plus.sets.anchor_frame).tolist()}
    for who in ("Ann", "Bo"):
        for one in queue.claim(store, who, tab="t", want=2 * N):
            key = str(plus.frames.key[place[one.task.frame_id]])
            whole = right.get(key) or right[f"whole/{key.removeprefix('crop/')}"]
            label = labels[whole[0]] if one.task.condition == "anchor" else "cat"
            store.cast([said(one.task, who, label)])
    store.close()
    review.export(plus.root, ask="name")
    keys = [str(key) for key in plus.frames.key]
    scores = {key: [0.0, 1.0] if key.startswith("whole/dog") else [1.0, 0.0] for key in keys}
    (tmp_path / "model.json").write_text(json.dumps(scores))
    results = score_dataset(plus.root, [f"preds:{tmp_path / 'model.json'}"], None, ScoreRunOptions(), Silent())
    assert results.people is not None
    whole, crop = results.people.scores
    assert (whole.variant, whole.n_people, whole.n_pictures, whole.n_answers) == ("anchor", 2, N, N)
    assert (crop.variant, crop.n_people, crop.n_pictures, crop.n_answers) == ("crop", 2, N, N)
    assert (whole.accuracy.count, crop.accuracy.count) == (N, N // 2)
    assert [one.accuracy.count for one in whole.models] == [N], "the model, on the same images"
    assert [one.accuracy.count for one in crop.models] == [N // 2]
    assert [(one.variant, one.named.count) for one in results.people.preservation] == [("anchor", N), ("crop", N // 2)]
