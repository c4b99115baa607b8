"""Held-out sets without a label are in no figure of a training: not in its curves, not on its card."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from strobe.annexes.train.classifiers import train
from strobe.core.ports import Silent
from strobe.train.recipe import find
from strobe.train.split import split_by_source
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material

NET = "timm:test_resnet"
OPTIONS = TrainOptions(image_size=32, from_scratch=True, evaluations=2, held_share=0.3, device="cpu")


def test_a_training_with_unlabelled_held_out_sets_is_that_without_them(
    material: Material, tmp_path: Path, heard: Any
) -> None:
    """They counted as wrong in every point of the curves. Nothing stops early by them: a plateau is one of the loss."""
    dataset = material.dataset
    label = np.full(len(dataset.frames), -1)
    label[dataset.labels.frame] = dataset.labels.label
    split = split_by_source(dataset, label[dataset.sets.frame[dataset.sets.is_anchor]], share=0.4, seed=0)
    trained_on, held = (dataset.keep_rows(np.isin(dataset.sets.set, side)) for side in (split.training, split.held_out))
    blank = np.arange(held.n_sets) % 3 == 0
    kept = ~np.isin(held.labels.frame, held.sets.frame[blank[held.sets.set]])
    labels = replace(held.labels, frame=held.labels.frame[kept], label=held.labels.label[kept])
    recipe = find("stills", changes=["epochs=2", "batch=12", "schedule=plateau"], model=NET)
    found = {}
    for name, side in (
        ("blank", replace(held, labels=labels)),
        ("without", held.keep_rows(~blank[held.sets.set])),
    ):
        given = [Material(dataset=one, source=material.source) for one in (trained_on, side)]
        say = heard if name == "blank" else Silent()
        found[name] = train(recipe, given[0], NET, tmp_path / name, OPTIONS, say, held_out=given[1])
    figures = {name: [(one.loss, one.acc_orig, one.acc_pmk) for one in done.history] for name, done in found.items()}
    assert figures["blank"] == figures["without"]
    assert f"{int(blank.sum())} held-out set(s) without a label are skipped" in heard.lines
    cards = [done.card.read_text("utf-8").splitlines() for done in found.values()]
    rows = [[line for line in card if line.startswith("| trained") or " source(s), k = " in line] for card in cards]
    assert rows[0] == rows[1]
    assert rows[0][0].startswith(f"{int((~blank).sum())} sets of ")
