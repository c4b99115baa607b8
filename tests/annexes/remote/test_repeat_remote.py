"""--repeat of a model behind an address: its noise and flicker are known."""

import json
from pathlib import Path

import numpy as np
import pytest
from made_remote import Colours

import strobe

ASKING = """
import os, sys

sys.path.insert(0, {folder!r})

from made_remote import ColourModel, LabelSpace, LoadOptions, RequestLimits


def make(options: LoadOptions) -> ColourModel:
    space = LabelSpace.of_names("world", {names!r})
    return ColourModel(os.environ["COLOUR_ADDRESS"], RequestLimits.of(options.limits), space=space)
"""


def test_an_endpoint_with_known_noise_and_flicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are recovered within their intervals, and the service counts each question."""
    guesses, others, n_classes = 0.15, 0.1, 4
    data = strobe.synthesize(tmp_path / "data", videos=40, k=3, size=32)
    space = data.info.label_space
    answer_to: dict[tuple[str, int], int] = {}

    def planted(name: str, number: int) -> list[float]:
        """The second class on a tenth of the images, else the first; some answers are another of four classes."""
        of_image, rng = np.random.default_rng(int(name, 16)), np.random.default_rng([int(name, 16), number])
        mode = int(of_image.random() < others)
        answer_to[name, number] = int(mode + (rng.random() < guesses) * rng.integers(1, n_classes)) % n_classes
        return np.eye(len(space))[answer_to[name, number]].tolist()

    service = Colours(planted)
    try:
        (tmp_path / "asking.py").write_text(ASKING.format(folder=str(Path(__file__).parent), names=list(space.names)))
        monkeypatch.setenv("COLOUR_ADDRESS", service.address)
        asked = f"py:{tmp_path / 'asking.py'}:make"
        found = strobe.evaluate(data, {"net": asked}, tmp_path / "run", running=strobe.Running(repeat=3))
    finally:
        service.close()
    n = len(data.frames)
    assert set(service.attempts.values()) == {1}
    assert {number for _, number in service.attempts} == {0, 1, 2}
    assert sum(service.tries.values()) == 3 * n
    about = json.loads((tmp_path / "run" / "run.json").read_text())["models"]["net"]
    assert about["repeated"] == {"times": 3, "new": 2 * n, "kept": 0}
    assert about["spent"]["requests"] == 3 * n
    score = found.results.models["net"].noise
    assert score is not None
    other = guesses / (n_classes - 1)
    noise = 1 - (1 - guesses) ** 2 - (n_classes - 1) * other**2
    apart = 1 - 2 * (1 - guesses) * other - (n_classes - 2) * other**2
    change = 2 * others * (1 - others)
    flips = (1 - change) * noise + change * apart
    for estimate, true in ((score.noise, noise), (score.flips, flips), (score.beyond_noise, flips - noise)):
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= true <= estimate.high
        assert estimate.high - estimate.low < 0.15
    assert score.p is not None
    assert score.p < 0.001
