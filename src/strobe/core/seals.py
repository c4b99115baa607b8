"""Digests of the files that strobe wrote into a folder, in one file (`digests.json`) that every reader checks.

A JSON file may also contain the digest of its own content. A folder without digests.json, or a JSON file without a
digest, is read unchecked, so removing the digest allows an edit by hand.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.files import inside, read_json, sha256_of_file, write_json
from strobe.core.swaps import settle

DIGESTS = "digests.json"
"""The file of a folder with the digests of the folder's other files."""

_TRIES = 3


def digest_of_json(content: Mapping[str, Any]) -> str:
    """Return a digest of JSON content, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def with_digest(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a JSON file with its own digest.

    >>> without_digest(Path("a.json"), with_digest({"k": 1}))
    {'k': 1}
    """
    return {**content, "sha256": digest_of_json(content)}


def without_digest(path: Path, content: Mapping[str, Any], *, hint: str | None = None) -> dict[str, Any]:
    """Return the content without its digest. Raise InvalidFile if the two do not match."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    if content.get("sha256", known := digest_of_json(rest)) != known:
        raise InvalidFile(path, "damaged: its content does not match its digest", hint=hint)
    return rest


def read_numbered(path: Path, newest: int, *, hint: str | None = None) -> dict[str, Any]:
    """Return the content of a JSON file with the number of its format, its `schema`. A newer format is refused."""
    content = read_json(path, hint=hint)
    schema = content.get("schema") if isinstance(content, dict) else None
    if not isinstance(schema, int):
        raise InvalidFile(path, "no schema number", where="schema", hint=hint)
    if schema > newest:
        problem = f"format {schema} is newer than this version of strobe supports ({newest})"
        raise InvalidFile(path, problem, where="schema", hint="upgrade strobe")
    return dict(content)


def read_sealed(path: Path) -> dict[str, Any] | None:
    """Return the content of a JSON file that has a digest, or None if it is missing or damaged."""
    try:
        content = read_json(path)
        return without_digest(path, content) if isinstance(content, dict) and "sha256" in content else None
    except (StrobeError, RecursionError):
        return None


def read_digests(folder: Path) -> dict[str, Any]:
    """Return the content of a folder's digests.json; without this file, nothing is listed."""
    path = inside(folder, DIGESTS)
    if not path.is_file():
        return {"files": {}}
    hint = "make the folder again, or remove this file to use the others unchecked"
    content = read_json(path, hint=hint)
    if not isinstance(content, dict) or "sha256" not in content or not isinstance(content.get("files"), dict):
        raise InvalidFile(path, "damaged: it has no digests", hint=hint)
    return without_digest(path, content, hint=hint)


def write_digests(folder: Path, files: Iterable[Path], *, keep: Mapping[str, str], more: Mapping[str, Any]) -> None:
    """Write digests.json with the digests of these files of the folder, of the files to `keep`, and `more` facts."""
    found = {path.relative_to(folder).as_posix(): sha256_of_file(path) for path in files}
    write_json(folder / DIGESTS, with_digest({"schema": 1, "files": dict(sorted({**keep, **found}.items())), **more}))


def check_file(folder: Path, name: str, *, hint: str) -> Path:
    """Return the path of a file of the folder. Raise InvalidFile if it is missing or differs from its digest."""
    path = inside(folder, name)
    for _ in range(_TRIES):
        known = read_digests(folder)["files"].get(name)
        if known is None or (path.is_file() and sha256_of_file(path) == known):
            return path
        settle(folder)  # another process may be replacing the file and its digest right now
    if not path.exists():
        raise InvalidFile(path, f"the file is missing, but {DIGESTS} lists it", hint=hint)
    raise InvalidFile(path, f"damaged: its content does not match its digest in {DIGESTS}", hint=hint)


def damaged_files(folder: Path) -> list[str]:
    """Return the names of all files of the folder that are missing or differ from their digests."""
    damaged = []
    for name in read_digests(folder)["files"]:
        try:
            check_file(folder, name, hint="")
        except InvalidFile:
            damaged.append(name)
    return damaged
