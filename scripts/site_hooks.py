"""MkDocs hooks for building the site: pages outside docs/, the API reference, and the project's address.

The address is defined in one place, `[tool.strobe]` in pyproject.toml.
"""

import inspect
import re
import tomllib
from html import escape
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from mkdocs.structure.files import File, Files

import strobe

ROOT = Path(__file__).parents[1]
BESIDE = {name: f"{PurePosixPath(name).stem.lower()}.md" for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")}
"""Pages of the project's root, and their names on the site."""

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s:]+)((?:#[^)\s]*)?)\)")


def repository() -> str:
    """Return the project's address without a trailing slash, or an empty text if it has none yet."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["strobe"]["repository"]
    return str(stated).rstrip("/")


def on_config(config: Any) -> Any:
    """Add the address as a link at the foot of every page. Opening a page sends no request to this address."""
    config.markdown_extensions.append(Examples())
    if repository():
        config.extra["social"] = [{"icon": "fontawesome/brands/git-alt", "link": repository(), "name": "Source"}]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the project's root to the site."""
    for name, target in BESIDE.items():
        files.append(File.generated(config, target, content=rehomed((ROOT / name).read_text(encoding="utf-8"), "")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fix links from docs/ to the rest of the project, and insert the API reference."""
    if page.file.src_uri in BESIDE.values():
        return markdown
    return barred(rehomed(markdown, f"docs/{page.file.src_uri}")).replace("<!-- reference -->", reference())


def barred(markdown: str) -> str:
    """Remove the backslash before a bar in code in table cells. GitHub removes it, Python-Markdown does not."""

    def shown(found: re.Match[str]) -> str:
        plain = escape(found[1]).replace(r"\|", "&#124;")
        return f"<code>{plain}</code>" if r"\|" in found[1] else found[0]

    lines = (re.sub(r"`([^`]+)`", shown, line) if line.startswith("|") else line for line in markdown.split("\n"))
    return "\n".join(lines)


def reference() -> str:
    """Return a mkdocstrings directive for every public name: functions first, then the records they return."""
    public = {name: getattr(strobe, name) for name in strobe.__all__}
    called = [name for name, found in public.items() if not inspect.isclass(found)]
    parts = (("Functions", called), ("Classes", [name for name in public if name not in called]))
    return "\n\n".join(
        f"## {title}\n\n" + "\n\n".join(f"::: strobe.{name}" for name in names) for title, names in parts
    )


class Examples(Extension):  # type: ignore[misc]  # Markdown has no type hints
    """Treats examples in docstrings (`>>>`) as code. Markdown would treat them as quotations."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(_Fence(md), "examples", 100)


class _Fence(Preprocessor):  # type: ignore[misc]  # Markdown has no type hints
    def run(self, lines: list[str]) -> list[str]:
        out: list[str] = []
        inside = False
        for line in [*lines, ""]:
            if not inside and line.startswith(">>> "):
                out.append("```pycon")
                inside = True
            elif inside and not line.strip():
                out.append("```")
                inside = False
            out.append(line)
        return out


def rehomed(markdown: str, origin: str, address: str | None = None) -> str:
    """Return the text of the file `origin` with the site's links. An empty `origin` is a page of the root.

    A link to another file of the repository points to its `address`. Without an address, only the link's text remains.
    """
    folder = str(PurePosixPath(origin).parent)
    here = folder.removeprefix("docs").lstrip("/") if origin else ""
    home = repository() if address is None else address

    def moved(found: re.Match[str]) -> str:
        words, target, place = found[1], normpath(f"{folder}/{found[2]}"), found[3]
        if target in BESIDE:
            return f"[{words}]({relpath(BESIDE[target], here or '.')}{place})"
        if target.startswith("docs/"):
            return found[0] if origin else f"[{words}]({target.removeprefix('docs/')}{place})"
        return f"[{words}]({home}/blob/main/{target}{place})" if home else words

    return _LINK.sub(moved, markdown)
