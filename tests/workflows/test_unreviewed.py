"""Pairs nobody has looked at are said wherever they are left out, and are not credited to review."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import strobe
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.report.headline import headline_lines
from strobe.workflows.score import ScoreRunOptions, score_run

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture
def anchors_only(tmp_path):
    """A run on a dataset with votes on anchors alone, as an import without the file of pairs makes it."""
    dataset = strobe.load_dataset(GOLDEN / "datasets" / "votes", reviewed=False)
    example = next(vote for vote in dataset.verdicts if vote.stage != "anchor")
    ids = dataset.frame_ids()
    votes = tuple(
        replace(
            example, verdict_id=f"a{place}", stage="anchor", set_id=str(name), frame_id=ids[frame], decision="similar",
            label_right=None, reason="", bad_anchor=False,
        )
        for place, (name, frame) in enumerate(zip(dataset.sets.set_id, dataset.sets.anchor_frame.tolist(), strict=True))
    )  # fmt: skip
    folder = strobe.save_dataset(replace(dataset, verdicts=votes), tmp_path / "dataset")
    return shutil.copytree(GOLDEN / "runs" / "votes", tmp_path / "run"), folder


def test_sets_that_are_their_anchor_alone_are_said(anchors_only):
    run, folder = anchors_only
    found = score_run(run, ScoreRunOptions(), Silent(), dataset_path=folder).results
    facts = found.dataset
    assert facts.unreviewed_sets == facts.n_sets
    assert facts.unreviewed_pairs > facts.n_sets
    assert all(model.drop.value == 0 for model in found.models.values())
    ((_, _, _, notes),) = headline_lines(found)
    said = f"{facts.unreviewed_pairs} pairs of the scored sets have no vote yet"
    assert any(note.startswith(said) and "cannot break" in note for note in notes)
    written = json.loads((run / "results.json").read_text(encoding="utf-8"))["dataset"]
    assert written["unreviewed_pairs"] == facts.unreviewed_pairs


def test_a_review_that_saw_no_pair_is_not_compared(anchors_only):
    run, folder = anchors_only
    with pytest.raises(StrobeError, match="no pair has a vote"):
        score_run(run, ScoreRunOptions(compare_review=True), Silent(), dataset_path=folder)


# -- sets nobody voted on ------------------------------------------------------------------------------------------
