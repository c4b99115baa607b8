"""The documentation as a site: every page in the menu, built without a warning, read and searched without a network."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from project_files import files
from site_hooks import BESIDE, rehomed

import strobe

ROOT = Path(__file__).parents[1]


def test_every_page_is_in_the_menu_once() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    menu = re.findall(r"([\w/-]+\.md)$", settings.partition("\nnav:")[2], re.MULTILINE)
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in files("docs/**/*.md")]
    assert sorted(menu) == sorted([*pages, *BESIDE.values()])


def test_links_of_pages_that_move_are_rehomed() -> None:
    assert rehomed("[a](docs/start.md#people) [b](SECURITY.md)", "") == "[a](start.md#people) [b](security.md)"
    assert rehomed("[a](../../CHANGELOG.md) [b](0002.md)", "docs/adr/1.md") == "[a](../changelog.md) [b](0002.md)"
    assert rehomed("[a](../x.toml#b)", "docs/x.md", "https://a.b/c") == "[a](https://a.b/c/blob/main/x.toml#b)"
    assert rehomed("[`a` [b]](../x.toml) c", "docs/x.md", "") == "`a` [b] c", "no address yet: no dead link"
    assert rehomed("![a](images/b.png)", "docs/x.md", "") == "![a](images/b.png)"
    assert rehomed("[a](https://a.b) [c](#d)", "docs/x.md") == "[a](https://a.b) [c](#d)"


@pytest.mark.parametrize("address", ["https://a.b/c", ""])
def test_a_package_index_gets_links_that_work(address: str) -> None:
    """One address, in pyproject.toml; every link to something that is there, and none where there is no address."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = runpy.run_path(str(ROOT / "setup.py"))["for_an_index"](readme, address)
    links = re.findall(r"\]\(([^)]+)\)", shown)
    assert len(links) > 15 if address else not links
    for link in links:
        place = re.fullmatch(rf"{address}/(?:blob|raw)/main/([^#]+)(?:#.*)?", link)
        assert place, link
        assert (ROOT / place[1]).exists(), link
    assert 'pip install "strobe-vision[' in shown
    assert "pip install -e" not in shown


@pytest.mark.slow
@pytest.mark.browser
def test_the_site_needs_no_network(tmp_path: Path, chromium: Any) -> None:
    """Built as `make site` does (a warning is an error there), opened from disk with the network off."""
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    for path in (tmp_path / "site").rglob("*.html"):
        fetched = re.findall(
            r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?:[^\"> ]+)", path.read_text("utf-8")
        )
        assert not fetched, f"{path.name} asks for {fetched}"
    asked: list[str] = []
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "site/index.html").as_uri())
    page.locator("input.md-search__input").click()
    page.locator("input.md-search__input").press_sequentially("exit codes")
    page.locator(".md-search-result__item a[href*='environment.html']").first.wait_for(timeout=60_000)
    for name in ("api.html", "start.html", "contributing.html"):
        page.goto((tmp_path / "site" / name).as_uri())
        assert page.locator("h1").count() == 1
    page.goto((tmp_path / "site/api.html").as_uri())
    headings = page.locator("h3.doc-heading .doc-object-name").all_inner_texts()
    assert sorted(headings) == sorted(strobe.__all__)
    assert page.locator(".md-content blockquote").count() == 0  # examples are code
    page.goto((tmp_path / "site/environment.html").as_uri())
    assert page.locator("code:text-is('| head')").count() == 1
    page.set_viewport_size({"width": 390, "height": 800})
    for name in ("index.html", "start.html", "cli.html", "methods.html"):
        page.goto((tmp_path / "site" / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    context.close()
    assert asked
    assert all(address.startswith(("file:", "data:", "blob:")) for address in asked), asked
