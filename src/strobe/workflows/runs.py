"""The run folder: what was run, on what, and where each model's predictions are."""

import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import make_folder, read_json, write_json
from strobe.core.late import installed_version
from strobe.core.protocol import reviewed
from strobe.datasets import folder as dataset_folder

__all__ = [
    "SCHEMA",
    "Incomplete",
    "RunModel",
    "check_frames",
    "dataset_of_run",
    "is_run",
    "open_dataset",
    "read_run",
    "record_run",
    "run_models",
    "versions",
]

SCHEMA = 1

_PACKAGES = ("numpy", "scipy", "pyarrow", "pillow", "av", "torch", "torchvision", "timm", "transformers", "onnxruntime")


class Incomplete(StrobeError):
    """A model of the run has no prediction for some frames yet."""


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
        lines = path.read_text(encoding="utf-8-sig").splitlines()
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
    found = {"strobe": "from source", "python": platform.python_version()}  # PYTHONPATH=src: nothing is installed
    known = {"strobe": installed_version(), **{name: installed_version(name) for name in _PACKAGES}}
    return found | {name: version for name, version in known.items() if version is not None}


def check_frames(run: Path, dataset: Dataset) -> dict[str, Any]:
    """What run.json says, empty where the run is new; a run on other frames than the dataset's is refused."""
    if dataset_folder.is_dataset(run):
        raise StrobeError(f"{printable(run)} is a dataset folder; choose another folder for the run with -o")
    if not is_run(run):
        return {}
    before = read_run(run)
    if before["dataset"]["frames_digest"] != dataset.frames_digest():
        raise StrobeError(
            f"{printable(run)} holds a run on other frames ({printable(before['dataset'].get('name'))}); "
            "choose another folder with -o"
        )
    return before


def record_run(run: Path, dataset: Dataset, *, path: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """Write run.json, what was known before kept; another dataset than before is refused."""
    before = check_frames(run, dataset)
    make_folder(run)
    content = {
        **before,
        "schema": SCHEMA,
        "dataset": {
            "name": dataset.name,
            "path": str(path.resolve()),
            "digest": dataset.digest(),
            "frames_digest": dataset.frames_digest(),
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
    about = data.get("dataset")
    if not isinstance(about, dict) or not all(isinstance(about.get(key), str) for key in ("path", "frames_digest")):
        raise InvalidFile(run / "run.json", "expected the dataset's path and frames_digest", where="dataset")
    return data


def dataset_of_run(run: Path, *, moved_to: Path | None = None) -> tuple[Path, Dataset]:
    """Where the run's dataset lies (`moved_to` where it was moved) and the dataset, checked to be the same frames."""
    about = read_run(run)["dataset"]
    path = moved_to or Path(about["path"])
    if moved_to is None and not dataset_folder.is_dataset(path):
        raise StrobeError(
            f"the dataset of {printable(run)} is no longer at {printable(path)}; say where it lies now with --dataset"
        )
    dataset = dataset_folder.read(path)
    if dataset.frames_digest() != about["frames_digest"]:
        raise StrobeError(
            f"{printable(run)} was predicted on other frames than {printable(path)} holds; name the right dataset with "
            "--dataset, or predict again into another folder"
        )
    return path, dataset


def run_models(run: Path, dataset: Dataset, *, only: Sequence[str] = (), allow_missing: bool = False) -> list[RunModel]:
    """The models of a run, those run here first, then those brought as files; `only` keeps some, in that order.

    Loading one that lacks frames of the dataset's sets raises Incomplete, unless `allow_missing`.
    """
    from strobe.datasets.external import external_models, read_external, read_external_detections
    from strobe.predict import reading, store

    found = []
    for name in store.models_of(run):
        facts = reading.model_facts(run, name)
        task = str(facts.get("task"))
        reader: Callable[[Path, str, Dataset], Any] = (
            reading.read_detections if task == "detection" else reading.read_predictions
        )
        load = partial(_load, reader, run, name, dataset, allow_missing=allow_missing, here=True)
        found.append(RunModel(name=name, task=task, load=load, facts=facts))
    for name, said in external_models(run).items():
        task = said.get("task", "classification")
        reader = read_external_detections if task == "detection" else read_external
        load = partial(_load, reader, run, name, dataset, allow_missing=allow_missing, here=False)
        found.append(RunModel(name=name, task=task, load=load, facts=dict(said)))
    if not only:
        return found
    by_name = {model.name: model for model in found}
    missing = [name for name in only if name not in by_name]
    if missing:
        names = ", ".join(printable(name) for name in by_name) or "none"
        raise StrobeError(f"{printable(run)} has no predictions of {printable(missing[0])}; it has {names}")
    return [by_name[name] for name in dict.fromkeys(only)]


def _load(
    reader: Callable[[Path, str, Dataset], Any],
    run: Path,
    name: str,
    dataset: Dataset,
    *,
    allow_missing: bool,
    here: bool,
) -> Any:
    """A model's predictions; Incomplete where frames of the sets were neither predicted nor found unreadable."""
    loaded = reader(run, name, dataset)
    scored = np.array([one is not None for one in loaded], dtype=bool) if isinstance(loaded, list) else loaded.scored
    needed = np.zeros(len(dataset.frames), dtype=bool)
    needed[dataset.sets.frame] = True
    missing = needed & ~scored
    if allow_missing or not missing.any():
        return loaded
    undone = [str(key) for key in dataset.frames.key[missing]]
    if here:
        from strobe.predict.reading import unreadable

        given_up = unreadable(run, name, dataset)
        undone = [key for key in undone if key not in given_up]
    if not undone:
        return loaded
    way_out = "run the same predict command again" if here else "bring a file that has them"
    raise Incomplete(
        f"{printable(name)}: {len(undone)} of {int(needed.sum())} frames have no prediction yet, first "
        f"{printable(undone[0])}; {way_out}, or score what is there with --allow-missing"
    )
