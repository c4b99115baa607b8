"""Read and write dataset.json, the description of a dataset folder. It contains a digest of its own content."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from strobe.core.codec import decode
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError, expect, in_file, printable
from strobe.core.files import inside
from strobe.core.people import GROWING
from strobe.core.seals import digest_of_json, read_numbered

SCHEMA = 2
"""The newest folder format this version reads. It writes format 1 if that suffices."""


def read_info(folder: Path) -> tuple[DatasetInfo, dict[str, str], int, tuple[str, str] | None]:
    """Return the content of dataset.json, the tables' hashes, the format, and the recorded digests.

    There is one digest of the dataset and one of its frames; None if the file records none.
    """
    path = folder / "dataset.json"
    if folder.is_file():
        raise StrobeError(
            f"{printable(folder)} is a file, not a dataset folder; give the folder that holds dataset.json"
        )
    if not folder.is_dir():
        raise StrobeError(f"no such dataset folder: {printable(folder)}")
    if not path.is_file():
        raise StrobeError(
            f"{printable(folder)} is not a dataset folder, because it has no dataset.json; "
            "make one with strobe build, simulate or import"
        )
    data = read_numbered(inside(folder, path.name), SCHEMA)
    with in_file(path):
        for key in ("axis", "label_source"):
            expect(key in data, key, "a value", None)
        info = decode(DatasetInfo, data)
        files = decode(Mapping[str, str], data.get("files", {}), where="files")  # type: ignore[type-abstract]
    return info, dict(files), data["schema"], _recorded(path, data)


def _recorded(path: Path, data: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the digests in `checked`, or None without `checked`.

    Raises InvalidFile if anything in dataset.json was changed after it was written.
    """
    checked = data.get("checked")
    if checked is None:
        return None
    rest = {key: value for key, value in data.items() if key != "checked"}
    if isinstance(checked, dict):
        digests = {key: checked.get(key) for key in ("digest", "frames_digest")}
        known = digest_of_json({**rest, "checked": digests})
        if all(isinstance(digest, str) for digest in digests.values()) and checked.get("of") == known:
            return cast("tuple[str, str]", tuple(digests.values()))
    raise InvalidFile(
        path,
        "its content differs from the digest in it",
        hint='it is damaged or was edited; make the dataset again, or remove "checked" to use it as it is',
    )


def write_info(
    path: Path, info: DatasetInfo, files: Mapping[str, str], schema: int, *, digests: tuple[str, str] | None
) -> None:
    """Write dataset.json. `digests` are those of the dataset and of its frames, if the content was checked."""
    content = {
        "schema": schema,
        "name": info.name,
        "version": info.version,
        "axis": info.axis,
        "k": info.k,
        **({"combine": info.combine} if schema > 1 else {}),
        "label_source": info.label_source,
        "reviewed": info.reviewed,
        **({"unreviewed": info.unreviewed} if info.unreviewed != "exclude" else {}),
        "licence": info.licence,
        "provenance": dict(info.provenance),
        # People's answers are not listed: every new answer changes their files, and the folder must stay readable.
        "files": {name: digest for name, digest in files.items() if name.removesuffix(".parquet") not in GROWING},
        "label_space": info.label_space.to_json(),
    }
    if digests is not None:
        checked = {"digest": digests[0], "frames_digest": digests[1]}
        content["checked"] = {"of": digest_of_json({**content, "checked": checked}), **checked}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
