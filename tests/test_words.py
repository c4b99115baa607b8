"""Plain words and spelling in documentation, help, messages, pages and docstrings (docs/glossary.md)."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from project_files import files, project_files

ROOT = Path(__file__).parents[1]

PHRASES = {
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"whence": "where it comes from",
    r"(?:is|are|was|were|be|been) (?:said|told)": "is reported, is printed",
    r"says so": "prints a note",
    r"kept apart": "stored separately, cached separately",
    r"for want of": "without",
    r"be it what|be what (?:it|they) may": "whatever it is",
    r"in passing": "at the same time",
    r"how-manieth": "the number of",
    r"beyond chance": "significant",
    r"held against": "compared with",
    r"told apart": "distinguished",
    r"goes on where": "resumes where",
    r"anew": "again",
    r"lies (?:in|under|beside|at|where|elsewhere)": "is in",
    r"nought": "zero",
    r"as ever": "as before",
    r"at hand": "available, installed",
    r"one's own": "your own",
}
"""Each phrase as a pattern, and what to write instead."""

PATTERN = re.compile(r"\b(?:" + "|".join(PHRASES) + r")\b", re.IGNORECASE)


def prose_of_page(path: Path) -> str:
    """The text of a Markdown page without code, file names and link targets."""
    text = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def strings_of_source(path: Path) -> Iterator[str]:
    """Docstrings, messages and help texts of a module: every string with a space in it, without `names`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield re.sub(r"`[^`]*`", "", node.value)


def hits(texts: Iterator[str]) -> list[str]:
    """Every phrase found, with the text around it."""
    return [
        f"…{text[max(0, found.start() - 30) : found.end() + 30]}…" for text in texts for found in PATTERN.finditer(text)
    ]


PAGES = [*files("*.md"), *files("docs/*.md"), *files("docs/annexes/*.md")]
TEMPLATES = [path for ending in ("*.html", "*.j2") for path in files(f"src/**/{ending}")]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_is_written_in_plain_words(page: Path) -> None:
    assert hits(iter([prose_of_page(page)])) == []


def test_messages_help_and_docstrings_are_written_in_plain_words() -> None:
    found = {path.name: hits(strings_of_source(path)) for path in files("src/**/*.py")}
    assert {name: phrases for name, phrases in found.items() if phrases} == {}


def test_pages_of_report_and_review_are_written_in_plain_words() -> None:
    texts = (re.sub(r"<[^>]*>|\{[{%#].*?[}%#]\}", " ", path.read_text(encoding="utf-8")) for path in TEMPLATES)
    assert hits(texts) == []


def test_the_check_finds_what_it_looks_for() -> None:
    assert len(hits(iter(["It is said when a model is held against another.", "Answers are kept apart."]))) == 3


def codespell(*words: str | Path, folder: Path = ROOT) -> str:
    """Run codespell with the settings of pyproject.toml and return the misspellings it prints."""
    command = [sys.executable, "-m", "codespell_lib", "--toml", ROOT / "pyproject.toml", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 65), done.stderr
    return done.stdout


def test_the_text_of_the_project_is_spelled_correctly() -> None:
    assert codespell(*(path.relative_to(ROOT) for path in project_files())) == ""


def test_a_misspelling_is_found(tmp_path: Path) -> None:
    text = "Answers are cached separately.".replace("para", "pera")
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    assert "separately" in codespell("page.md", folder=tmp_path)
