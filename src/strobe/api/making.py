"""Datasets from videos, photos and nothing: `build`, `simulate`, `synthesize`. Each returns the dataset it wrote.

What could not be used (a video that does not decode, say) is a warning, and stands in the dataset's provenance.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from strobe.api.words import in_python, opened, watching
from strobe.core.dataset import Dataset
from strobe.core.errors import expect
from strobe.core.ports import Progress

if TYPE_CHECKING:
    from strobe.build.camera_path import CameraOptions
    from strobe.build.hints import DropRules
    from strobe.build.index import Limits
    from strobe.synthetic.world import WorldOptions

__all__ = ["build", "simulate", "synthesize"]

Paths = str | Path | Sequence[str | Path]


@in_python
def build(
    videos: Paths,
    out: str | Path,
    *,
    labels: str | Path | Mapping[str, str | Sequence[str]] | None = None,
    label: str | Sequence[str] = (),
    boxes: str | Path | None = None,
    anchors: str | Path | None = None,
    label_space: str | None = None,
    label_source: Literal["frame", "anchor"] | None = None,
    unlabelled: bool = False,
    k: int = 10,
    window_ms: float | None = None,
    anchors_per_video: int = 1,
    every: int | None = None,
    seed: int = 0,
    store: Literal["zstd", "png", "webp", "jpeg"] | None = None,
    reference: bool = False,
    hints: bool = True,
    drop: "DropRules | None" = None,
    limits: "Limits | None" = None,
    name: str = "",
    licence: str = "",
    strict: bool = False,
    workers: int = 1,
    progress: bool | Progress = False,
) -> Dataset:
    """Make a dataset folder from videos: anchors and the frames around them, exact and stored without loss.

    `labels` is a CSV, or a dict from a video's file name to its class or classes; `label` names classes that every
    video shows. Sets reach `k` frames, or `window_ms` milliseconds, before and after the anchor. A folder of videos may
    be given, too, or one with a folder per class, which then says what they show. The same call again does only what is
    missing.
    """
    from strobe.build.hints import DropRules
    from strobe.build.index import Limits
    from strobe.build.labels import LabelRow
    from strobe.build.sample import AnchorOptions
    from strobe.workflows.build import BuildOptions
    from strobe.workflows.build import build as run

    rows: Path | list[LabelRow] | None = None
    if isinstance(labels, Mapping):
        rows = [LabelRow(video=video, label=one) for video, said in labels.items() for one in _several(said)]
        expect(len(rows) > 0, "labels", "a class for every video", {})
    elif labels is not None:
        rows = Path(labels)
    sampling = AnchorOptions(k=k, window_ms=window_ms, anchors_per_video=anchors_per_video, every=every, seed=seed)
    done = run(
        _files(videos), Path(out),
        BuildOptions(
            sampling=sampling,
            labels=rows, label=_several(label), boxes=None if boxes is None else Path(boxes),
            anchors=None if anchors is None else Path(anchors), label_space=label_space, label_source=label_source,
            unlabelled=unlabelled, store=store, reference=reference, hints=hints, drop=drop or DropRules(),
            limits=limits or Limits(), name=name, licence=licence, strict=strict, workers=workers,
        ),
        progress=watching(progress),
    )  # fmt: skip
    return _made(out, done.problems)


@in_python
def simulate(
    photos: Paths,
    out: str | Path,
    *,
    labels: str | Path | None = None,
    label: str | Sequence[str] = (),
    boxes: str | Path | None = None,
    masks: str | Path | None = None,
    label_space: str | None = None,
    sets_per_photo: int = 1,
    k: int = 10,
    camera: "CameraOptions | None" = None,
    seed: int = 0,
    name: str = "",
    licence: str = "",
    workers: int = 1,
    progress: bool | Progress = False,
) -> Dataset:
    """Make a dataset folder from photos: a simulated hand-held camera moves over each.

    `photos` are files, or folders with one folder per class. `camera` says how it moves and what its sensor does
    (`strobe.build.camera_path.CameraOptions`); its k is then the one that counts. The same call again does only what is
    missing.
    """
    from strobe.build.camera_path import CameraOptions
    from strobe.workflows.simulate import SimulateOptions
    from strobe.workflows.simulate import simulate as run

    done = run(
        _several_paths(photos), Path(out),
        SimulateOptions(
            camera=camera or CameraOptions(k=k), labels=None if labels is None else Path(labels),
            label=_several(label), boxes=None if boxes is None else Path(boxes),
            masks=None if masks is None else Path(masks), label_space=label_space, sets_per_photo=sets_per_photo,
            seed=seed, name=name, licence=licence, workers=workers,
        ),
        progress=watching(progress),
    )  # fmt: skip
    return _made(out, done.problems)


@in_python
def synthesize(
    out: str | Path,
    *,
    videos: int = 48,
    k: int = 10,
    size: int = 128,
    world: "WorldOptions | None" = None,
    seed: int = 0,
    masks: bool = False,
    name: str = "synthetic",
    workers: int = 1,
    progress: bool | Progress = False,
) -> Dataset:
    """Render a dataset of moving objects on which every answer is known: labels, boxes and masks are exact.

    `world` says what it is like (`strobe.synthetic.world.WorldOptions`); its size and length are then those that count.
    """
    from strobe.synthetic.sets import SyntheticOptions
    from strobe.synthetic.world import WorldOptions
    from strobe.workflows.synthesize import synthesize as run

    options = SyntheticOptions(
        world=world or WorldOptions(size=size, frames=2 * k + 1), videos=videos, seed=seed, name=name, masks=masks
    )
    return replace(run(Path(out), options, progress=watching(progress), workers=workers).dataset, root=Path(out))


def _made(out: str | Path, problems: Sequence[str]) -> Dataset:
    """What was made, read back; the line where it was asked for hears what was left out."""
    for problem in problems:
        warnings.warn(f"left out: {problem}", stacklevel=4)
    return opened(Path(out))


def _several(said: str | Sequence[str]) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else tuple(said)


def _several_paths(given: Paths) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(one) for one in given]


def _files(given: Paths) -> list[Path]:
    """The videos; a folder stands for the files in it, hidden ones and text aside, or for its folders of classes."""
    found: list[Path] = []
    for path in _several_paths(given):
        inside = sorted(one for one in path.iterdir() if one.is_file() and not _is_other(one)) if path.is_dir() else []
        found += inside or [path]
    return found


def _is_other(path: Path) -> bool:
    return path.name.startswith(".") or path.suffix.lower() in (".csv", ".txt", ".json", ".md", ".xml")
