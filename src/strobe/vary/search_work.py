"""An unfinished search.

Its findings are stored inside the output folder, so that a killed process loses only one batch.
"""

import hashlib
import io
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import StrobeError, printable
from strobe.core.files import inside, read_json, sha256_of_file, write_bytes, write_json
from strobe.core.png import png_bytes
from strobe.core.ports import Image
from strobe.vary.searched_sets import Finding, Searched, SearchPlan, Stored

VERSION = 1
"""The version of the search. It increases when the same settings would give different findings."""

_WRITERS = 8

_CHANGES = "generator/changes"
"""The folder for changes that the difference of two images does not show."""


class SearchWork:
    """The images of a search and the record of every batch, in a hidden folder that is removed at the end.

    A batch's images are written before its record, so that a record only names existing files. `word` is the kind of
    search and also names the folder.
    """

    def __init__(self, folder: Path, word: str = "attack") -> None:
        self._folder, self._records, self._word = folder, folder / f".{word}", word

    @property
    def _settings(self) -> Path:
        return inside(self._folder, f".{self._word}/settings.json")

    @property
    def begun(self) -> bool:
        """Whether an unfinished search exists here."""
        return self._settings.is_file()

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Record the search's settings. Raises StrobeError if another search was started here."""
        said = json.loads(json.dumps({"version": VERSION, **settings}))
        if not self.begun:
            write_json(self._settings, said)
        elif read_json(self._settings) != said:
            raise StrobeError(
                f"{printable(self._folder)} contains an unfinished {self._word} with other settings; run that "
                "command again, or remove the folder first"
            )

    def done(self) -> None:
        """Remove the records after the dataset is complete."""
        shutil.rmtree(self._records, ignore_errors=True)

    def abandon(self) -> None:
        """Remove the records and the stored images of a search that cannot be made."""
        self.done()
        shutil.rmtree(inside(self._folder, "media"), ignore_errors=True)

    def store_input(self, anchor: str, pixels: Image) -> Stored:
        """Store an anchor as a model sees it. Models that see the same pixels share the file."""
        digest = hashlib.sha256(pixels.tobytes()).hexdigest()[:16]
        return self._store(f"media/{_short(anchor)}/input-{pixels.shape[1]}x{pixels.shape[0]}-{digest}.png", pixels)

    def kept(self, one: SearchPlan, names: Sequence[str], pictures: Sequence[Stored]) -> list[Searched] | None:
        """Return a batch's earlier outcome, or None if the batch must be searched or an image was changed."""
        place = self._record(one, names)
        try:
            return [self._again(*pair) for pair in zip(read_json(place), pictures, strict=True)]
        except (StrobeError, OSError, KeyError, TypeError, ValueError):  # the record is missing, or was changed
            return None

    def _again(self, said: Mapping[str, Any], picture: Stored) -> Searched:
        companions = {
            kind: [(float(far), self._sound(one, picture)) for far, one in some]
            for kind, some in said.get("beside", {}).items()
        }
        change = said.get("change", "")
        if change and sha256_of_file(inside(self._folder, change)) != said["change_sha256"]:
            raise StrobeError(f"{printable(change)} was changed after the search")
        return Searched(
            picture=picture,
            status=said["status"],
            reach=said["reach"],
            margin=said["margin"],
            found=None if said["found"] is None else self._sound(said["found"], picture),
            facts=said.get("facts", {}),
            change=change,
            beside=companions,
        )

    def _sound(self, said: Mapping[str, str], picture: Stored) -> Stored:
        """Return an image as stored, if it is unchanged."""
        stored = Stored(media=said["media"], sha256=said["sha256"], size_wh=picture.size_wh)
        if sha256_of_file(inside(self._folder, stored.media)) != stored.sha256:
            raise StrobeError(f"{printable(stored.media)} was changed after the search")
        return stored

    def keep(
        self, one: SearchPlan, names: Sequence[str], pictures: Sequence[Stored], findings: Sequence[Finding]
    ) -> list[Searched]:
        """Store a batch's findings, then their record."""
        with ThreadPoolExecutor(_WRITERS) as pool:  # in parallel, because writing to disk takes longest
            pairs = list(pool.map(lambda pair: self._kept(one, *pair), list(zip(findings, pictures, strict=True))))
        write_json(self._record(one, names), [record for _, record in pairs])
        return [done for done, _ in pairs]

    def _kept(self, one: SearchPlan, finding: Finding, picture: Stored) -> tuple[Searched, dict[str, Any]]:
        """Return one image's outcome, with its files stored, and its record."""
        head = f"{_short(one.name, 8)}-{picture.sha256[:8]}"
        parent = Path(picture.media).parent.as_posix()
        stored = None if finding.image is None else self._store(f"{parent}/{head}.png", finding.image)
        done = Searched(
            picture=picture,
            status=finding.status,
            reach=finding.reach,
            margin=_finite(finding.margin),
            found=stored,
            facts=finding.facts,
            change="" if finding.change is None else f"{_CHANGES}/{Path(parent).name}/{head}.npy",
            beside={
                kind: [
                    (far, self._store(f"{parent}/{head}-{kind}{index}.png", image))
                    for index, (far, image) in enumerate(some)
                ]
                for kind, some in finding.beside.items()
            },
        )
        record: dict[str, Any] = {
            "status": done.status,
            "reach": done.reach,
            "margin": done.margin,
            "found": None if stored is None else _said(stored),
        }
        if done.facts:
            record["facts"] = dict(done.facts)
        if finding.change is not None:
            content = npy_bytes(finding.change)
            write_bytes(self._folder / done.change, content)
            record |= {"change": done.change, "change_sha256": hashlib.sha256(content).hexdigest()}
        if done.beside:
            record["beside"] = {kind: [[far, _said(one)] for far, one in some] for kind, some in done.beside.items()}
        return done, record

    def forget(self, done: Searched) -> None:
        """Remove a rejected finding and its companions."""
        pictures = [one.media for some in done.beside.values() for _, one in some]
        for media in [*pictures, done.change, done.found.media if done.found else ""]:
            if media:
                inside(self._folder, media, replaced=True).unlink(missing_ok=True)

    def _store(self, media: str, pixels: Image) -> Stored:
        content = png_bytes(pixels)
        digest, place = hashlib.sha256(content).hexdigest(), inside(self._folder, media)
        if not place.is_file() or sha256_of_file(place) != digest:
            write_bytes(place, content)
        return Stored(media=media, sha256=digest, size_wh=(pixels.shape[1], pixels.shape[0]))

    def _record(self, one: SearchPlan, names: Sequence[str]) -> Path:
        said = json.dumps([VERSION, one.to_json(), list(names)], sort_keys=True)
        return self._records / f"{hashlib.sha256(said.encode()).hexdigest()[:24]}.json"


def npy_bytes(values: NDArray[Any]) -> bytes:
    """Return an array as the bytes of a .npy file, equal for equal arrays."""
    out = io.BytesIO()
    np.save(out, values, allow_pickle=False)
    return out.getvalue()


def _said(picture: Stored) -> dict[str, str]:
    return {"media": picture.media, "sha256": picture.sha256}


def _short(text: str, length: int = 16) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
