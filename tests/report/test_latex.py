"""LaTeX tables and figures for papers: every number is that of results.json, and no name is read as a command."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.cli.main import main
from strobe.report.latex import LONG, escaped, latex_tables, letters
from strobe.store.run_folder import Run

RUNS = Path(__file__).parents[1] / "golden" / "runs"


def export(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["export", *map(str, words)])
    return int(ended.value.code or 0)


@given(
    st.integers(1, 7).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
    )
)
def test_two_models_share_a_letter_exactly_if_they_do_not_differ(drawn: tuple[int, set[tuple[int, int]]]) -> None:
    n, pairs = drawn
    names = [f"m{place}" for place in range(n)]
    different = {frozenset((names[a], names[b])) for a, b in pairs if a != b}
    marks = letters(names, different)
    for a in names:
        assert marks[a]
        for b in names:
            assert bool(set(marks[a]) & set(marks[b])) == (frozenset((a, b)) not in different)


def test_many_groups_get_two_signs() -> None:
    names = [f"m{place}" for place in range(30)]
    marks = letters(names, {frozenset((a, b)) for a in names for b in names if a != b})
    assert marks["m0"] == "a"
    assert marks["m27"] == "ab"
    assert len(set(marks.values())) == 30


@given(st.text(max_size=40))
def test_no_name_is_a_command(text: str) -> None:
    plain = escaped(text)
    words = r"\\(textbackslash|textasciitilde|textasciicircum|ldots)\{\}|\\[&%$#_{}]"
    signs = r"\$(-|\\pm|\\times|\\leq|\\geq|\\Delta)\$"
    assert not re.search(r"[\\$&%#_{}^]", re.sub(f"{words}|{signs}", "", plain))


@pytest.mark.parametrize("run", ["video-py", "boxes-py", "severity"])
def test_every_figure_of_the_headline_is_in_the_table(run: str) -> None:
    results = Run(RUNS / run).results()
    table = latex_tables(results)
    for name, model in results.models.items():
        (row,) = [line for line in table.splitlines() if line.strip().startswith(escaped(name) + " &")]
        for found in model.headline:
            assert found.low is not None
            assert f"{100 * (found.value or 0):.1f}" in row
            assert f"[{100 * found.low:.1f}, {100 * found.high:.1f}]" in row


def test_no_figure_is_bold() -> None:
    """The smallest drop is often that of the least accurate model, so no figure stands out."""
    assert "textbf" not in latex_tables(Run(RUNS / "severity").results())


def test_long_tables_break_over_pages(tmp_path: Path) -> None:
    data = json.loads((RUNS / "severity" / "results.json").read_text())
    first = next(iter(data["models"].values()))
    data["models"] = {f"m{place}": first for place in range(LONG + 1)}
    data["comparison"] = []
    (tmp_path / "results.json").write_text(json.dumps(data))
    table = latex_tables(Run(tmp_path).results())
    assert "\\begin{longtable}" in table
    assert "share a letter" not in table  # no pair was tested


def test_the_command_writes_tables_and_figures_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RUNS / "boxes-py"
    assert export(run, "latex", tmp_path / "t") == 0
    assert (tmp_path / "t" / "tables.tex").read_text() == latex_tables(Run(run).results())
    assert export(run, "figures", tmp_path / "f", "--width", "6.5", "-q") == 0
    assert export(run, "figures", tmp_path / "f", "--width", "6.5", "-q") == 0  # the same bytes, so nothing is refused
    names = {path.stem for path in (tmp_path / "f").glob("*.pdf")}
    assert names == {path.stem for path in (tmp_path / "f").glob("*.svg")}
    assert names == set(re.findall(r"includegraphics\{(.*)\.pdf\}", (tmp_path / "f" / "figures.tex").read_text()))
    assert all(path.read_bytes().startswith(b"%PDF") for path in (tmp_path / "f").glob("*.pdf"))
    capsys.readouterr()
    for words, text in (
        ((run, "figures", tmp_path / "g", "--font", "Comic Sons"), "unknown font 'Comic Sons'"),
        ((run, "figures", tmp_path / "t"), "contains other files (tables.tex)"),
        ((run, "latex", tmp_path / "g", "--width", "3"), "--width only works with figures"),
        ((run, run, "latex", tmp_path / "g"), "only leaderboard takes several"),
    ):
        assert export(*words) == 2
        assert text in capsys.readouterr().err
    assert not (tmp_path / "g").exists()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX is installed")
def test_tex_compiles_what_is_written(tmp_path: Path) -> None:
    assert export(RUNS / "video-py", "latex", tmp_path / "t") == 0
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\\input{t/tables.tex}\\end{document}"
    )
    done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "paper.tex"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stdout[-2000:]
