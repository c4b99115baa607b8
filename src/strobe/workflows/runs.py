"""The run folder: what was run, on what, and where each model's predictions are."""

import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import make_folder, read_json, write_json
from strobe.core.protocol import reviewed
from strobe.datasets import folder as dataset_folder

__all__ = ["SCHEMA", "RunModel", "is_run", "open_dataset", "read_run", "record_run", "run_models", "versions"]

SCHEMA = 1

_PACKAGES = ("numpy", "scipy", "pyarrow", "pillow", "av", "torch", "torchvision", "timm", "transformers", "onnxruntime")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModel:
    """A model of a run: how to load its predictions, and what is known of how they were made."""

    name: str
    task: str
    load: Callable[[], Any]
    facts: dict[str, Any]


def is_run(folder: Path) -> bool:
    """Whether the folder is a run."""
    return (folder / "run.json").is_file()


def open_dataset(path: Path, *, subset: Path | None = None, reviewed_only: bool = True) -> Dataset:
    """The dataset to score: what review kept where it has votes, and only the videos a subset file names."""
    dataset = dataset_folder.read(path)
    if reviewed_only and dataset.info.reviewed == "votes" and dataset.verdicts:
        dataset = reviewed(dataset)
    if subset is not None:
        dataset = dataset.only_videos(_read_subset(subset))
    return dataset


def _read_subset(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise StrobeError(f"no such file: {printable(path)}; give a text file with one video name a line") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(path, "not a readable text file") from error
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not names:
        raise InvalidFile(path, "no video names in it", hint="one name a line")
    return names


def versions() -> dict[str, str]:
    """The versions of what can change a figure."""
    found = {"strobe": metadata.version("strobe"), "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def record_run(run: Path, dataset: Dataset, *, path: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """Write run.json, what was known before kept; another dataset than before is refused."""
    make_folder(run)
    before = read_json(run / "run.json") if is_run(run) else {}
    frames = dataset.frames_digest()
    known = before.get("dataset", {}).get("frames_digest")
    if known is not None and known != frames:
        raise StrobeError(
            f"{printable(run)} holds a run on other frames ({printable(before['dataset'].get('name'))}); "
            "choose another folder with -o"
        )
    content = {
        **before,
        "schema": SCHEMA,
        "dataset": {
            "name": dataset.name,
            "path": str(path.resolve()),
            "digest": dataset.digest(),
            "frames_digest": frames,
        },
        "versions": versions(),
        "command": " ".join(["strobe", *sys.argv[1:]]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **changes,
    }
    write_json(run / "run.json", content)
    return content


def read_run(run: Path) -> dict[str, Any]:
    """run.json, checked."""
    if not run.is_dir():
        raise StrobeError(f"no such run folder: {printable(run)}")
    if not is_run(run):
        raise StrobeError(
            f"{printable(run)} is no run folder: it has no run.json; make one with strobe eval or predict"
        )
    data = read_json(run / "run.json")
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise InvalidFile(run / "run.json", "no schema number", where="schema")
    if data["schema"] > SCHEMA:
        raise InvalidFile(run / "run.json", f"format {data['schema']} is newer than this strobe reads ({SCHEMA})")
    return data


def run_models(run: Path, dataset: Dataset, *, only: Sequence[str] = (), allow_missing: bool = False) -> list[RunModel]:
    """The models of a run, those run here first, then those brought as files; `only` keeps some, in that order."""
    from strobe.datasets.external import external_models, read_external, read_external_detections
    from strobe.predict import store

    found = []
    for name in store.models_of(run):
        facts = read_json(store.folder_of(run, name) / "model.json")
        load = _loader(run, name, dataset, task=str(facts["task"]), allow_missing=allow_missing)
        found.append(RunModel(name=name, task=facts["task"], load=load, facts=facts))
    for name, said in external_models(run).items():
        reader = read_external_detections if said["task"] == "detection" else read_external
        found.append(RunModel(name=name, task=said["task"], load=partial(reader, run, name, dataset), facts=dict(said)))
    if not only:
        return found
    by_name = {model.name: model for model in found}
    missing = [name for name in only if name not in by_name]
    if missing:
        raise StrobeError(
            f"{printable(run)} has no predictions of {printable(missing[0])}; it has {', '.join(by_name) or 'none'}"
        )
    return [by_name[name] for name in only]


def _loader(run: Path, name: str, dataset: Dataset, *, task: str, allow_missing: bool) -> Callable[[], Any]:
    def load() -> Any:
        from strobe.predict.reading import read_detections, read_predictions, unreadable

        if task == "detection":
            boxes = read_detections(run, name, dataset)
            scored = np.array([one is not None for one in boxes], dtype=bool)
        else:
            predictions = read_predictions(run, name, dataset)
            scored = predictions.scored
        needed = np.zeros(len(dataset.frames), dtype=bool)
        needed[dataset.sets.frame] = True
        missing = needed & ~scored
        if missing.any() and not allow_missing:
            given_up = unreadable(run, name, dataset)
            undone = [key for key in dataset.frames.key[missing] if key not in given_up]
            if undone:
                raise StrobeError(
                    f"{printable(name)}: {len(undone)} of {int(needed.sum())} frames have no prediction yet, first "
                    f"{printable(undone[0])}; run the same predict command again, or score what is there with "
                    "--allow-missing"
                )
        return boxes if task == "detection" else predictions

    return load
