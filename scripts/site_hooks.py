"""What MkDocs asks of us while it builds the site: pages that lie outside docs/, the reference, the project's address.

The address stands in one place, `[tool.strobe]` in pyproject.toml.
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
"""Pages of the project's root and what they are called on the site."""

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s:]+)((?:#[^)\s]*)?)\)")


def repository() -> str:
    """The project's address, without a slash at its end; empty where it has none yet."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["strobe"]["repository"]
    return str(stated).rstrip("/")


def on_config(config: Any) -> Any:
    """The address, as a mark at the foot of every page; nothing is asked of it while a page is read."""
    config.markdown_extensions.append(Examples())
    if repository():
        config.extra["social"] = [{"icon": "fontawesome/brands/git-alt", "link": repository(), "name": "Source"}]
    return config


def on_files(files: Files, config: Any) -> Files:
    """The pages of the project's root are pages of the site, too."""
    for name, target in BESIDE.items():
        files.append(File.generated(config, target, content=rehomed((ROOT / name).read_text(encoding="utf-8"), "")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links from docs/ to the rest of the project, and the reference where it belongs."""
    if page.file.src_uri in BESIDE.values():
        return markdown
    return barred(rehomed(markdown, f"docs/{page.file.src_uri}")).replace("<!-- reference -->", reference())


def barred(markdown: str) -> str:
    """Code with a bar in a cell of a table: GitHub takes away the stroke before it, Markdown's own tables do not."""

    def shown(found: re.Match[str]) -> str:
        plain = escape(found[1]).replace(r"\|", "&#124;")
        return f"<code>{plain}</code>" if r"\|" in found[1] else found[0]

    lines = (re.sub(r"`([^`]+)`", shown, line) if line.startswith("|") else line for line in markdown.split("\n"))
    return "\n".join(lines)


def reference() -> str:
    """A directive of mkdocstrings for every public name: what one calls first, then what one is given."""
    public = {name: getattr(strobe, name) for name in strobe.__all__}
    called = [name for name, found in public.items() if not inspect.isclass(found)]
    parts = (("Functions", called), ("Classes", [name for name in public if name not in called]))
    return "\n\n".join(
        f"## {title}\n\n" + "\n\n".join(f"::: strobe.{name}" for name in names) for title, names in parts
    )


class Examples(Extension):  # type: ignore[misc]  # Markdown comes without types
    """Examples in docstrings (`>>>`) are code; Markdown would take them for quotations."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(_Fence(md), "examples", 100)


class _Fence(Preprocessor):  # type: ignore[misc]  # Markdown comes without types
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
    """The text of file `origin` (from the root; empty: a page of the root) with its links as the site needs them.

    A link to another file of the repository leads to its `address`; where that is empty, only its words are left.
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
