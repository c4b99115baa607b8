"""The generator demo on its shipped weights: a few images, to the report, and again without doing anything twice."""

from pathlib import Path

import pytest

from strobe.annexes.generators.demo import demo_autoencoder, demo_generator
from strobe.core.ports import Silent


class Told(Silent):
    """Keeps the names of the tasks that were begun."""

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def task(self, name: str, total: int | None):
        self.tasks.append(name)
        return super().task(name, total)


def test_the_demo_ends_in_a_report_and_resumes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    made = {"images": 2, "steps": 4, "granularity": ("fine", "pixel"), "device": "cpu"}
    found = demo_generator(tmp_path, Silent(), **made)
    assert found.failed == ()
    html = found.report.read_text(encoding="utf-8")
    assert "From coarse to fine" in html
    assert 'id="strips-data"' in html
    assert {one.target for one in found.results.searches} == {"standard", "robust"}
    assert found.results.preserved[0].who == ("judge",)
    assert all(one.found + one.censored + one.failed == 2 for one in found.results.searches), "nothing is dropped"
    told = Told()
    again = demo_generator(tmp_path, told, **made)
    assert not [name for name in told.tasks if name.startswith(("search", "predict", "latents"))]
    assert again.results.searches == found.results.searches


def test_the_demo_of_photos_reports_reconstruction_first(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = demo_autoencoder(tmp_path, Silent(), images=2, photos=12, steps=4, granularity=("pixel",), device="cpu")
    assert found.failed == ()
    assert set(found.results.models) == {"standard", "robust", "judge"}
    for model in found.results.models.values():
        first = model.variants[0]
        assert first.variant == "photo"
        assert first.acc_orig.n == first.levels[0].at.n >= 2
        assert first.levels[0].at.value > 0.9, "on photos"
    html = found.report.read_text(encoding="utf-8")
    assert html.index("What does reconstruction alone do?") < html.index('id="strips-data"')
    assert {one.target for one in found.results.searches} == {"standard", "robust"}
