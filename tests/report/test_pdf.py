"""The report as PDF: a brief of two pages, then the whole report; and one line where Chromium is missing."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from strobe.cli.main import main
from strobe.report.brief import next_steps
from strobe.report.view import View
from strobe.store.run_folder import Run

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "runs" / "video-py", tmp_path / "run")
    shutil.copytree(GOLDEN / "datasets" / "video", tmp_path / "video")
    return tmp_path / "run"


def report(run: Path, *words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["report", str(run), "--dataset", str(run.parent / "video"), "-q", *words])
    return int(ended.value.code or 0)


@pytest.mark.browser
@pytest.mark.parametrize(("paper", "box"), [("A4", rb"\[0 0 59\d\S* 84\d\S*\]"), ("letter", rb"\[0 0 612 792\]")])
def test_the_brief_has_two_pages_and_the_report_follows(
    run: Path, chromium: object, paper: str, box: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(run, "--pdf", "--paper", paper) == 0
    assert capsys.readouterr().out.splitlines() == [str(run / "report.html"), str(run / "report.pdf")]
    pdf = (run / "report.pdf").read_bytes()
    pages = len(re.findall(rb"/Type /Page\b(?!s)", pdf))
    assert pages > 5
    assert len(re.findall(rb"/MediaBox " + box, pdf)) == pages
    assert 'class="brief"' not in (run / "report.html").read_text()


def test_without_a_browser_nothing_is_written(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and not path.name.startswith(".")}
    monkeypatch.delenv("STROBE_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", os.devnull)
    assert report(run, "--pdf") == 2
    assert "a PDF needs Chromium or Chrome, and none was found; install one" in capsys.readouterr().err
    monkeypatch.setenv("STROBE_CHROMIUM", "/no/such/browser")
    assert report(run, "--pdf") == 2
    assert "STROBE_CHROMIUM is /no/such/browser, which is not a file" in capsys.readouterr().err
    for path, content in before.items():
        if path.suffix != ".csv":
            assert path.read_bytes() == content
    assert not (run / "report.pdf").exists()
    assert report(run, "--paper", "letter") == 2
    assert "--paper only works with --pdf" in capsys.readouterr().err


def test_a_browser_that_fails_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    browser = run.parent / "browser"
    browser.write_text("#!/bin/sh\necho it cannot start >&2\nexit 3\n")
    browser.chmod(0o755)
    monkeypatch.setenv("STROBE_CHROMIUM", str(browser))
    assert report(run, "--pdf") == 2
    assert "could not print the report: it cannot start" in capsys.readouterr().err
    assert not (run / "report.pdf").exists()


def test_steps_name_their_reason() -> None:
    results = Run(GOLDEN / "runs" / "video-py").results()
    steps = next_steps(View(results=results))
    assert steps == [
        "Do not choose between these models by robustness: no difference between them is significant.",
        "Let people confirm that the frames of a set look the same (strobe review serve): nobody has done so yet.",
        "Add videos: the results rest on few of them, so the intervals are unreliable.",
    ]
    rows = [replace(row, p=0.01, p_holm=0.02) if row.metric == "acc_pmk" else row for row in results.comparison]
    assert next_steps(View(results=replace(results, comparison=tuple(rows))))[0].startswith("Prefer third. ")
    equal = next(row for row in rows if row.metric == "acc_pmk" and "third" in (row.a, row.b))
    rows[rows.index(equal)] = replace(equal, p=0.5, p_holm=1.0)
    other = equal.a if equal.b == "third" else equal.b
    assert next_steps(View(results=replace(results, comparison=tuple(rows))))[0] == (
        f"Choose between third and {other}: none is significantly worse than third. Exclude the others."
    )
    reviewed = replace(results, dataset=replace(results.dataset, reviewed="votes"), comparison=())
    assert not any("Let people" in step for step in next_steps(View(results=reviewed)))
