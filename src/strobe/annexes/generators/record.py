"""The record of a generator search, stored next to its tables, and how to render each finding again from it.

`generator/` has `latents.npy` (a row per source), `sources.json` (their names and classes, the photos that they encode,
and how many of the drawn images each model got right), `scale.npz` (the standard deviation of every neuron),
`record.parquet` (a row per search) and `changes/` (the changes in half precision, in standard deviations).
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from strobe.annexes.generators.changing import ChangeableGenerator, eight_bits, places_of
from strobe.annexes.generators.providers import load_generator
from strobe.annexes.generators.sets import GeneratorSearchPlan, Sampled, TriedPhoto
from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, printable
from strobe.core.files import inside, read_json, replacing, write_bytes, write_json
from strobe.core.parquet import read_bounded
from strobe.core.ports import Image
from strobe.core.readers import read_array, read_arrays
from strobe.models.options import LoadOptions
from strobe.store import dataset_folder as folder
from strobe.vary.search_work import npy_bytes
from strobe.vary.searched_sets import Searched

PLACE = "generator"
"""The name of the record's folder."""

_AGAIN = "make the dataset again"


def store_begun(place: Path, scale: Sequence[NDArray[np.float32]], sampled: Sampled) -> None:
    """Store scale and latents. The names are written last, so that their existence marks a complete record."""
    packed = io.BytesIO()
    np.savez(packed, **{f"place{number}": one for number, one in enumerate(scale)})  # type: ignore[arg-type]  # the keys are not options of savez
    write_bytes(place / "scale.npz", packed.getvalue())
    write_bytes(place / "latents.npy", npy_bytes(sampled.latents))
    facts = {"names": sampled.names, "classes": sampled.classes, "rates": dict(sampled.rates)}
    if sampled.photos:
        facts["photos"] = [encode(photo) for photo in sampled.photos]
    write_json(place / "sources.json", facts)


def stored_scale(place: Path) -> list[NDArray[np.float32]]:
    """Return the standard deviation of every neuron, by layer."""
    packed = read_arrays(inside(place, "scale.npz"), hint=_AGAIN)
    try:
        return [packed[f"place{number}"] for number in range(len(packed))]
    except KeyError as error:
        raise InvalidFile(place / "scale.npz", f"it has no array {error}", hint=_AGAIN) from error


def stored_samples(place: Path) -> Sampled:
    """Return the latents, in the order of the sources."""
    facts = read_json(inside(place, "sources.json"))
    try:
        latents = read_array(inside(place, "latents.npy"), hint=_AGAIN)
        sampled = Sampled(
            latents=latents,
            classes=tuple(facts["classes"]),
            names=tuple(facts["names"]),
            rates=facts["rates"],
            photos=tuple(decode(TriedPhoto, one, where="photos") for one in facts.get("photos", ())),
        )
        if latents.ndim != 2 or not len(latents) == len(sampled.classes) == len(sampled.names):
            raise ValueError("the numbers of latents and names differ")
        return sampled
    except (ValueError, KeyError, TypeError, InvalidValue) as error:
        raise InvalidFile(place / "latents.npy", "cannot be read", hint=_AGAIN) from error


_SCHEMA = pa.schema([
    ("set_id", pa.string()), ("variant", pa.string()), ("source", pa.int64()), ("status", pa.string()),
    ("magnitude", pa.float64()), ("rms", pa.float64()), ("neurons", pa.int64()), ("lead", pa.float64()),
    ("random_reach", pa.float64()), ("random_fooled", pa.bool_()), ("attempt", pa.int64()), ("change", pa.string()),
    ("after", pa.list_(pa.float64())),
])  # fmt: skip


def write_record(
    place: Path,
    names: Sequence[str],
    searches: Sequence[GeneratorSearchPlan],
    findings: Mapping[tuple[int, int], Searched],
) -> None:
    """Write a row for each search.

    `magnitude` is the finding's magnitude, or the limit of a search without a finding. `random_reach` is the magnitude
    at which the model first erred along a random direction, or null if it never did. `source` is the latent's row.
    `after` has the magnitude after each restart, if there were any.
    """
    rows = [
        {
            "set_id": f"{names[row]}@{searches[number].name}",
            "variant": searches[number].name,
            "source": row,
            "status": search.status,
            "magnitude": search.reach,
            "rms": search.facts.get("rms"),
            "neurons": searches[number].neurons,
            "lead": search.margin,
            "random_reach": search.facts.get("random_reach"),
            "random_fooled": search.facts.get("random_fooled"),
            "attempt": search.facts.get("attempt"),
            "change": search.change,
            "after": search.facts.get("after"),
        }
        for (row, number), search in findings.items()
    ]
    with replacing(place / "record.parquet") as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), temporary)


def read_record(path: Path) -> list[dict[str, Any]]:
    """Return the rows of the record of a searched folder."""
    file = inside(path, f"{PLACE}/record.parquet")
    try:
        table, _ = read_bounded(file)
        found: list[dict[str, Any]] = table.select(_SCHEMA.names).cast(_SCHEMA).to_pylist()
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise InvalidFile(file, "cannot be read", hint=_AGAIN) from error
    return found


def made_again(
    path: Path, *, set_ids: Iterable[str] | None = None, generator: str | None = None, load: LoadOptions | None = None
) -> dict[str, Image]:
    """Render the findings of a folder again from their latents and changes, by set.

    `generator` is the path or name of the generator. Other weights raise an error. On the device of the search, the
    result equals the stored images. On another device, a few pixels may differ by one level.
    """
    dataset, record = folder.read(path), read_record(path)
    told = dataset.info.provenance.get("generator", {})
    classes = dataset.info.label_space if told.get("encodes") else None
    made = load_generator(generator or str(told.get("name")), replace(load or LoadOptions(), label_space=classes))
    if made.spec.weights != told.get("weights"):
        raise StrobeError(
            f"{printable(path)} was not made with the weights of {printable(made.spec.name)}; use the same weights"
        )
    scale, sampled = stored_scale(inside(path, PLACE)), stored_samples(inside(path, PLACE))
    chosen = None if set_ids is None else set(set_ids)
    out: dict[str, Image] = {}
    for variant in dataset.variants or ():
        rows = [
            row
            for row in record
            if row["variant"] == variant.variant and row["change"] and (chosen is None or row["set_id"] in chosen)
        ]
        if not rows:
            continue
        changing = ChangeableGenerator(made, scale, places_of(made.spec, str(variant.fields["granularity"])))
        for start in range(0, len(rows), made.spec.batch_size):
            some = rows[start : start + made.spec.batch_size]
            out |= zip([row["set_id"] for row in some], _made(path, changing, sampled, some), strict=True)
    return out


def _made(
    path: Path, changing: ChangeableGenerator, sampled: Sampled, rows: Sequence[Mapping[str, Any]]
) -> NDArray[np.uint8]:
    sources = [int(row["source"]) for row in rows]
    changes = np.stack([read_array(inside(path, row["change"]), hint=_AGAIN) for row in rows])
    base = changing.begin(sampled.latents[sources], [sampled.classes[source] for source in sources])
    return eight_bits(changing.pixels(base, *changing.given(changes)))
