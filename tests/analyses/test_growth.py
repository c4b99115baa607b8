"""Datasets of millions of rows: what is kept for each row stays narrow, and working in blocks moves no figure."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import strobe.core.digests as digests_module
from growth import WIDTH, made
from strobe.analyses.classification import Prepared, score
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.scoring import class_sets, set_facts
from strobe.analyses.slices import OffsetPool
from strobe.core.answers import ClassAnswers
from strobe.core.arrays import blocks
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.tables import texts
from strobe.store import dataset_folder as folder

SETS = 120
QUICK = ScoreOptions(replicates=50, control_seeds=2)


def world(sets_a_video: int = 1) -> Dataset:
    """Twenty-one frames a set, labels of two classes on some frames, every video cut into some sets."""
    one = made(SETS * WIDTH)
    n = SETS // sets_a_video
    video = one.frames.video // sets_a_video
    index = one.frames.index + 1000 * (one.frames.video % sets_a_video)
    columns = {name: getattr(one.videos, name)[:n] for name in type(one.videos).__slots__}
    more = np.arange(0, len(one.frames), 7, dtype=np.int32)
    both = (
        np.concatenate([one.labels.frame, more]),
        np.concatenate([one.labels.label, (one.labels.label[more] + 1) % 30]),
    )
    return replace(
        one,
        videos=type(one.videos)(**columns),
        frames=replace(one.frames, video=video, index=index),
        labels=type(one.labels)(frame=both[0], label=both[1].astype(np.int32)),
    )


def answers(dataset: Dataset) -> ClassAnswers:
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(len(dataset.frames), 30)).astype(np.float32)
    scores[dataset.labels.frame, dataset.labels.label] += 4
    return ClassAnswers.from_scores("model", scores, kind="logits")


def kept(thing: Any, seen: set[int]) -> int:
    """The bytes of every array that can be reached, each once."""
    if id(thing) in seen or isinstance(thing, Dataset | ScoreOptions | str | int | float | type(None)):
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return kept(thing.base, seen) if isinstance(thing.base, np.ndarray) else thing.nbytes
    if isinstance(thing, dict | list | tuple):
        return sum(kept(one, seen) for one in (thing.values() if isinstance(thing, dict) else thing))
    slots = [name for cls in type(thing).__mro__ for name in getattr(cls, "__slots__", ())]
    return sum(kept(one, seen) for one in (getattr(thing, "__dict__", {}), *(getattr(thing, name) for name in slots)))


@pytest.mark.parametrize(("sets_a_video", "most"), [(1, 32), (4, 40)])
def test_what_scoring_keeps_for_a_row_is_a_few_bytes(sets_a_video: int, most: int) -> None:
    dataset = world(sets_a_video)
    rows = len(dataset.sets.set)
    prepared = Prepared(dataset, replace(QUICK, bootstrap=False))
    prepared.slices.types.clear()  # up to a million rows, deletions are drawn
    pool = OffsetPool(prepared.plan)
    score(dataset, answers(dataset), prepared=prepared, pool=pool)
    shared = {id(getattr(dataset.sets, name)) for name in type(dataset.sets).__slots__}
    assert kept([prepared, pool], shared) / rows < most
    assert (dataset.right_labels.dtype, prepared.plan.level.dtype) == (np.int8, np.int8)


@pytest.mark.parametrize("sets_a_video", [1, 4])
def test_blocks_change_no_figure(sets_a_video: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def figures() -> Any:
        dataset = world(sets_a_video)
        said, prepared = answers(dataset), Prepared(dataset, QUICK)
        pool = OffsetPool(prepared.plan)
        found = score(dataset, said, prepared=prepared, pool=pool)
        table = class_sets(dataset, set_facts(dataset), said)
        columns = {name: column.tolist() for name, column in table.columns.items()}
        return encode(found), found.fingerprint, encode(pool.estimates()), table.row.tolist(), repr(columns)

    whole = figures()
    monkeypatch.setattr(blocks, "__defaults__", (100,))
    monkeypatch.setattr("strobe.analyses.plan.BLOCK", 100)
    assert figures() == whole


@pytest.mark.slow
def test_a_large_table_is_sorted_through_a_file_to_the_same_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    def digests() -> tuple[str, str, int]:
        one = made(500 * WIDTH)
        names = texts([f'odd "name"\n{row % 13} é{row}' for row in range(len(one.frames))])  # what JSON must escape
        one = replace(one, frames=replace(one.frames, key=names))
        tracemalloc.start()
        found = one.digest(), one.frames_digest()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return *found, peak

    *whole, at_once = digests()
    monkeypatch.setattr(digests_module, "_LINES", 1000)
    *again, in_parts = digests()
    assert again == whole
    assert in_parts < at_once / 3


def test_tables_written_in_blocks_are_read_as_they_were(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = world(4)
    folder.write(dataset, tmp_path / "whole")
    monkeypatch.setattr(blocks, "__defaults__", (100,))
    folder.write(dataset, tmp_path / "parts")
    for name in ("whole", "parts"):
        path = tmp_path / name / "dataset.json"
        path.write_text(path.read_text().replace('"checked"', '"unchecked"'))  # every rule is checked again
        assert folder.read(tmp_path / name).digest() == dataset.digest()
