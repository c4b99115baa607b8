"""Detectors take the same options as classifiers, and say them."""

import shutil
from pathlib import Path

import pytest

from strobe.analyses.plan import ScoreOptions
from strobe.core.ports import Silent
from strobe.workflows.score import ScoreRequest, score_run

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize("draws", [100, 500])
def test_the_draws_asked_for_are_those_of_the_means_along_tracks(draws, tmp_path):
    run = shutil.copytree(GOLDEN / "runs" / "boxes-py", tmp_path / "run")
    request = ScoreRequest(options=ScoreOptions(replicates=draws))
    found = score_run(run, request, Silent(), dataset_path=GOLDEN / "datasets" / "boxes").results
    (model,) = found.models.values()
    assert model.settings.replicates == draws
    assert model.temporal.found_lost_rate.low is not None
