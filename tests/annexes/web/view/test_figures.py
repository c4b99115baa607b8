"""The figures of the table of runs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

import strobe
from strobe.annexes.web.view.runs import columns, results_figures
from strobe.core.ports import Silent
from strobe.core.tables import Labels
from strobe.workflows.score import ScoreRunOptions, score_dataset


def test_a_detector_without_labels_has_its_measures(tmp_path: Path) -> None:
    dataset = strobe.example_dataset(n_videos=2, k=2)
    none = Labels(frame=np.zeros(0, dtype=np.int32), label=np.zeros(0, dtype=np.int32))
    strobe.save_dataset(replace(dataset, labels=none), tmp_path / "data")
    box = {"category_id": 0, "bbox": [8, 8, 10, 10], "score": 0.9}
    rows = [box | {"image_id": key} for key in dataset.frames.key.tolist()]
    (tmp_path / "net.json").write_text(json.dumps(rows))
    score_dataset(tmp_path / "data", [f"net=preds:{tmp_path}/net.json"], tmp_path / "run", ScoreRunOptions(), Silent())
    figures = results_figures(tmp_path / "run")["net"]
    assert figures["completeness"].value is not None
    assert {"completeness", "outages"} <= set(figures) & set(columns())
