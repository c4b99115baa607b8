"""From a run folder to its page: what `strobe report` joins, and what it says when something is not as it was."""

import io
import json
import re

import pytest
from click.testing import CliRunner
from PIL import Image

from strobe.cli.main import main
from strobe.cli.report import command
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.ports import Silent
from strobe.store import dataset_folder as folder
from strobe.workflows.report import ReportOptions, report_run
from strobe.workflows.score import ScoreRunOptions, score_dataset


def quick() -> ScoreRunOptions:
    from strobe.analyses.plan import ScoreOptions

    return ScoreRunOptions(options=ScoreOptions(replicates=100, control_seeds=5))


@pytest.fixture(scope="module")
def scored(painted, tmp_path_factory):
    """A dataset folder with stored images and a run scored from prediction files."""
    from dataclasses import replace

    from strobe.core.tables import texts

    dataset, predictions, _, source = painted
    root = tmp_path_factory.mktemp("whole")
    data, run = root / "data", root / "run"
    media = [f"media/{row:05d}.png" for row in range(len(dataset.frames))]
    (data / "media").mkdir(parents=True)
    for row, name in enumerate(media):
        out = io.BytesIO()
        Image.fromarray(source.read(row)).resize((80, 50)).save(out, "PNG")
        (data / name).write_bytes(out.getvalue())
    stored: Dataset = replace(dataset, frames=replace(dataset.frames, media=texts(media)))
    folder.write(stored, data)
    specs = []
    for name, one in list(predictions.items())[:2]:
        path = root / f"{name}.json"
        path.write_text(
            json.dumps({key: row.tolist() for key, row in zip(dataset.frames.key, one.probability, strict=True)})
        )
        specs.append(f"{name}=preds:{path}")
    score_dataset(data, specs, run, quick(), Silent())
    return root, data, run


def gallery(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="gallery-data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_command_writes_the_page_and_prints_its_path(scored):
    _, _, run = scored
    result = CliRunner().invoke(command, [str(run), "--gallery", "6", "-q"], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.output.strip() == str(run / "report.html")
    data = gallery(run / "report.html")
    assert data["models"] == ["steady-net", "quick-net"]
    assert len(data["sets"]) <= 6
    assert data["pictures"]
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "strobe " in page
    assert "Before and after: steady-net → quick-net" in page, "as they were scored"


def test_a_dataset_without_pictures_still_gets_a_report(scored, tmp_path, heard):
    import shutil

    _root, data, run = scored
    bare, copy = tmp_path / "bare", tmp_path / "run"
    shutil.copytree(data, bare, ignore=shutil.ignore_patterns("media"))
    shutil.copytree(run, copy)
    path = report_run(copy, ReportOptions(dataset=bare), heard)
    assert any("could not be read" in said or "no images" in said for said in heard.lines)
    assert all(frame["i"] == -1 for one in gallery(path)["sets"] for frame in one["f"])
    assert "The gallery has no images" in path.read_text(encoding="utf-8")


def test_one_line_for_what_is_missing_or_changed(scored, tmp_path):
    import shutil

    _root, _data, run = scored
    with pytest.raises(StrobeError, match="no such run folder"):
        report_run(tmp_path / "nowhere")
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (copy / "results.json").unlink()
    with pytest.raises(
        StrobeError, match=r"results.json: the file is missing, but digests.json lists it; run strobe score again"
    ):
        report_run(copy)
    (copy / "digests.json").unlink()
    for content, message in (
        ("[]", "no schema number"),
        ('{"schema": 99, "dataset": {}, "models": {}}', "newer than this version of strobe supports"),
        ('{"schema": 1}', "expected the key dataset"),
        ('{"schema": 1, "dataset": {"name": 3}}', r"dataset\.name: expected text, got 3; run strobe score again"),
        ('{"schema": 1,', "not JSON"),
    ):
        (copy / "results.json").write_text(content)
        with pytest.raises(InvalidFile, match=message):
            report_run(copy)
    results = json.loads((run / "results.json").read_text())
    results["dataset"]["digest"] = "0" * 64
    (copy / "results.json").write_text(json.dumps(results))
    with pytest.raises(StrobeError, match="run strobe score on this run again"):
        report_run(copy)


def test_a_subset_is_asked_for_and_honoured(scored, tmp_path):
    from dataclasses import replace

    from strobe.store.opening import ALL

    root, data, _run = scored
    some = tmp_path / "some.txt"
    some.write_text("\n".join(f"clip{video:03d}" for video in range(12)))
    specs = [f"quick-net=preds:{root / 'quick-net.json'}"]
    request = replace(quick(), subset=some, ignore_extra=True)
    part = tmp_path / "part"
    score_dataset(data, specs, part, request, Silent())
    with pytest.raises(StrobeError, match=r"use the same --subset \(some.txt\)"):
        report_run(part, ReportOptions(subset=ALL))
    path = report_run(part)  # the run remembers it
    assert {one["v"] for one in gallery(path)["sets"]} <= {f"clip{video:03d}" for video in range(12)}
    assert gallery(path)["n_sets"] == 12


def test_models_are_shown_as_asked_and_own_ones_before_those_of_the_testbed(scored):
    from types import SimpleNamespace

    from strobe.workflows.report import _is_own

    _root, _data, run = scored
    result = CliRunner().invoke(command, [str(run), "--show", "quick-net", "-q"], catch_exceptions=False)
    assert gallery(run / "report.html")["models"] == ["quick-net", "steady-net"], result.output
    with pytest.raises(StrobeError, match=r"--show: .* has no results of nobody; its models are steady-net, quick-net"):
        report_run(run, ReportOptions(show=("nobody",)))

    known, mine = "torchvision:resnet50/IMAGENET1K_V1", "timm:resnet50@mine.pth"
    here = {name: SimpleNamespace(facts={"spec": {}}) for name in (known, mine)} | {"f": SimpleNamespace(facts={})}
    assert [_is_own(name, here, {"command": "strobe eval d -m @testbed"}) for name in here] == [False, True, True]
    assert _is_own(known, here, {"command": f"strobe eval d -m @testbed -m {known} -o run"})
    assert not _is_own("gone", here, {})


def test_more_than_can_be_told_apart_are_refused(scored, monkeypatch):
    from strobe.workflows import report

    monkeypatch.setattr(report, "MOST_SHOWN", 1)
    with pytest.raises(StrobeError, match="2 models given, but a figure can show at most 1"):
        report_run(scored[2], ReportOptions(show=("quick-net", "steady-net")))


def test_two_models_are_set_beside_each_other_in_the_order_named(scored, capsys):
    _root, _data, run = scored
    page = report_run(run, ReportOptions(change=("quick-net", "steady-net"))).read_text(encoding="utf-8")
    assert "Before and after: quick-net → steady-net" in page
    for words, said in (
        (["--before", "steady-net"], "must be used together"),
        (["--before", "steady-net", "--after", "steady-net"], "twice"),
        (["--before", "steady-net", "--after", "nobody"], "has no results of nobody"),
    ):
        with pytest.raises(SystemExit) as left:
            main(["report", str(run), *words, "--quiet"])
        assert left.value.code == 2
        assert said in capsys.readouterr().err
