"""What MkDocs asks of us while it builds the site: pages that lie outside docs/, and the project's address.

The address stands in one place, `[project.urls]` in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
BESIDE = {name: f"{PurePosixPath(name).stem.lower()}.md" for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")}
"""Pages of the project's root and what they are called on the site."""

_LINK = re.compile(r"(?<=\]\()([^)#\s:]+)((?:#[^)\s]*)?)(?=\))")


def repository() -> str:
    """The project's address, without a slash at its end."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
    return str(stated).rstrip("/")


def on_config(config: Any) -> Any:
    """The address, as a mark at the foot of every page; nothing is asked of it while a page is read."""
    config.extra["social"] = [{"icon": "fontawesome/brands/git-alt", "link": repository(), "name": "Source"}]
    return config


def on_files(files: Files, config: Any) -> Files:
    """The pages of the project's root are pages of the site, too."""
    for name, target in BESIDE.items():
        files.append(File.generated(config, target, content=rehomed((ROOT / name).read_text(encoding="utf-8"), "")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links from docs/ to the rest of the project."""
    return markdown if page.file.src_uri in BESIDE.values() else rehomed(markdown, f"docs/{page.file.src_uri}")


def rehomed(markdown: str, origin: str) -> str:
    """The text of file `origin` (from the root; empty: a page of the root) with its links as the site needs them."""
    folder = str(PurePosixPath(origin).parent)
    here = folder.removeprefix("docs").lstrip("/") if origin else ""

    def moved(found: re.Match[str]) -> str:
        target, place = normpath(f"{folder}/{found[1]}"), found[2]
        if target in BESIDE:
            return relpath(BESIDE[target], here or ".") + place
        if target.startswith("docs/"):
            return found[0] if origin else target.removeprefix("docs/") + place
        return f"{repository()}/blob/main/{target}{place}"

    return _LINK.sub(moved, markdown)
