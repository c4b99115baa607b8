"""Models that fail, print or are given other options, as a user of `predict` and `eval` meets them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strobe.core.dataset import Dataset
from strobe.store import dataset_folder as folder

MINE = """\
import sys
import numpy as np
print("at import")

def make(options):
    size = options.image_size or 1
    def scores(images):
        print("while predicting")
        return np.stack([image.reshape(-1, 3).mean(0) * size for image in images])
    return scores, ["red", "green", "blue"]

def leaves_early():
    sys.exit(0)

def leaves_late():
    return (lambda images: sys.exit(0)), ["red", "green", "blue"]
"""


@pytest.fixture
def data(colours: Callable[..., Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder.write(colours(), tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "data"


def test_json_stays_json_whatever_the_model_prints(data: Path, command: Any) -> None:
    code, said, noted = command("predict", str(data), "-m", "py:mine.py:make", "-o", "run", "--json")
    assert code == 0
    assert list(json.loads(said)) == ["py:mine.py:make"]
    assert "while predicting" in noted
