"""An attack half done: what was found so far, kept inside the folder to be made, so that a kill costs one batch."""

import hashlib
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from strobe.core.errors import StrobeError, printable
from strobe.core.files import read_json, sha256_of_file, write_bytes, write_json
from strobe.core.png import png_bytes
from strobe.core.ports import Image
from strobe.vary.attack import Finding
from strobe.vary.attacked_sets import Attacked, Attacking, Stored

__all__ = ["AttackWork"]

VERSION = 1
"""Of the search: goes up when the same settings would find something else."""


class AttackWork:
    """The pictures of an attack and the record of every batch: `.attack/` in the folder, gone when it is whole.

    A batch's pictures are written before its record, so that a record speaks of files that are there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._records = folder, folder / ".attack"

    @property
    def begun(self) -> bool:
        """Whether an attack was begun here and not ended."""
        return (self._records / "settings.json").is_file()

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Say what is attacked; StrobeError where another attack was begun here."""
        said = json.loads(json.dumps({"version": VERSION, **settings}))
        if not self.begun:
            write_json(self._records / "settings.json", said)
        elif read_json(self._records / "settings.json") != said:
            raise StrobeError(
                f"{printable(self._folder)} holds an unfinished attack with other settings; run that command again, or "
                "remove the folder first"
            )

    def done(self) -> None:
        """Take the records away: the dataset says everything."""
        shutil.rmtree(self._records, ignore_errors=True)

    def store_input(self, anchor: str, pixels: Image) -> Stored:
        """An anchor as a model sees it; models that see the same share the file."""
        digest = hashlib.sha256(pixels.tobytes()).hexdigest()[:16]
        return self._store(f"media/{_short(anchor)}/input-{pixels.shape[1]}x{pixels.shape[0]}-{digest}.png", pixels)

    def kept(self, one: Attacking, names: Sequence[str], pictures: Sequence[Stored]) -> list[Attacked] | None:
        """What became of a batch before; None where it has to be searched, or a picture is not what it was."""
        place = self._record(one, names)
        try:
            return [self._again(*pair) for pair in zip(read_json(place), pictures, strict=True)]
        except (StrobeError, OSError, KeyError, TypeError, ValueError):  # not there, or not as it was written
            return None

    def _again(self, said: Mapping[str, Any], picture: Stored) -> Attacked:
        found = None
        if said["found"] is not None:
            found = Stored(media=said["found"]["media"], sha256=said["found"]["sha256"], size_wh=picture.size_wh)
            if sha256_of_file(self._folder / found.media) != found.sha256:
                raise StrobeError(f"{printable(found.media)} is not what was found")
        return Attacked(picture=picture, status=said["status"], reach=said["reach"], margin=said["margin"], found=found)

    def keep(
        self, one: Attacking, names: Sequence[str], pictures: Sequence[Stored], findings: Sequence[Finding]
    ) -> list[Attacked]:
        """Store what was found in a batch, then the record of it."""
        out, records = [], []
        for finding, picture in zip(findings, pictures, strict=True):
            found = None
            if finding.image is not None:
                name = f"{_short(one.name, 8)}-{picture.sha256[:8]}.png"
                found = self._store(f"{Path(picture.media).parent.as_posix()}/{name}", finding.image)
            done = Attacked(
                picture=picture, status=finding.status, reach=finding.reach, margin=_finite(finding.margin), found=found
            )
            out.append(done)
            records.append({
                "status": done.status, "reach": done.reach, "margin": done.margin,
                "found": None if found is None else {"media": found.media, "sha256": found.sha256},
            })  # fmt: skip
        write_json(self._record(one, names), records)
        return out

    def forget(self, picture: Stored | None) -> None:
        """Take away a finding that was none."""
        if picture is not None:
            (self._folder / picture.media).unlink(missing_ok=True)

    def _store(self, media: str, pixels: Image) -> Stored:
        content = png_bytes(pixels)
        digest, place = hashlib.sha256(content).hexdigest(), self._folder / media
        if not place.is_file() or sha256_of_file(place) != digest:
            write_bytes(place, content)
        return Stored(media=media, sha256=digest, size_wh=(pixels.shape[1], pixels.shape[0]))

    def _record(self, one: Attacking, names: Sequence[str]) -> Path:
        said = json.dumps([VERSION, one.to_json(), list(names)], sort_keys=True)
        return self._records / f"{hashlib.sha256(said.encode()).hexdigest()[:24]}.json"


def _short(text: str, length: int = 16) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
