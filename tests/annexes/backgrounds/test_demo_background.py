"""The background demo on its shipped weights: a few images to the report, and again without doing anything twice."""

from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from strobe.annexes.backgrounds import demo as demo_module
from strobe.annexes.backgrounds.demo import demo_background
from strobe.cli import demo as cli_demo
from strobe.core.errors import CannotDownload
from strobe.core.ports import Silent
from strobe.workflows.evaluate import Evaluation

GROUND, OBJECT = "strobe-ground", "strobe-object"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def found(folder: Path) -> Evaluation:
    done = demo_background(folder, Silent(), images=24, photos=False, device="cpu")
    assert done.photos is None
    return done.world


def test_the_report_says_who_looks_at_the_ground(found: Evaluation) -> None:
    assert found.failed == ()
    assert found.report is not None
    gap = {one.held: one.value.value for one in found.results.contrasts if one.isolates == "bg-gap"}
    assert gap[GROUND] >= 0.5
    assert abs(gap[OBJECT]) <= 0.2
    page = found.report.read_text(encoding="utf-8")
    assert "How much do models rely on the background?" in page
    assert found.results.dataset.kinds == ("image",)
    assert "24 images under 13 variants" in page
    assert "24 videos" not in page


def test_again_without_the_network_only_the_report_is_drawn_and_the_photos_are_left_out_in_one_line(
    folder: Path, found: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet") if "tables" not in path.parts}
    assert any("predictions" in path.parts for path in made)

    def nothing(*_: object, **__: object) -> None:
        raise CannotDownload("the photos are not in the cache")

    monkeypatch.setattr(demo_module, "fetch", nothing)
    monkeypatch.setattr(demo_module, "demo_background", partial(demo_background, images=24, device="cpu"))
    done = CliRunner().invoke(cli_demo.command, ["--background", "-o", str(folder), "-q"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "report:" in done.output
    assert "skipped the photos: the photos are not in the cache" in done.output
    assert {path: path.stat().st_mtime_ns for path in made} == made
