"""Videos without labels in `strobe eval`: sets that cover each video become a dataset inside the run folder.

The frames stay in the videos. A folder of numbered frames is a video, too; its images are linked. The dataset has the
classes of the first model, so nobody has to choose any.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from strobe.build.labels import read_label_space
from strobe.build.options import AnchorOptions
from strobe.build.video_files import video_files
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable, spelled, without_name
from strobe.core.files import sha256_of_file
from strobe.core.labels import LabelSpace
from strobe.core.ports import Classifier, Detector, Progress
from strobe.engine.running import Running
from strobe.formats.bring import label_space_of
from strobe.formats.prediction_files import FileOptions
from strobe.models.grammar import CropView
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.models.requested import RequestedModel
from strobe.store import dataset_folder as folder
from strobe.store.run_folder import Run
from strobe.workflows.build import build, video_names
from strobe.workflows.frame_folders import check_same_frames, dataset_of_frames, frame_folders
from strobe.workflows.options import BuildOptions, VideoOptions

DATASET = "dataset"
"""The folder inside the run for the dataset that is made from videos."""

K = 10
"""Frames before and after an anchor, unless `--k` gives another number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoDataset:
    """The dataset made from videos, an error for each skipped video, and the models (one may be loaded)."""

    path: Path
    problems: tuple[str, ...]
    models: tuple[RequestedModel, ...]


def check_source(source: Path) -> None:
    """Raise StrobeError if a folder that is no dataset has neither videos nor folders of numbered frames."""
    if source.is_dir() and not _videos([source]) and not (found := frame_folders([source])).frames:
        if Run(source).exists:
            raise StrobeError(
                f"{printable(source)} is a run; give its dataset or its videos, or score it again with strobe score"
            )
        raise StrobeError(
            f"{printable(source)} is not a dataset folder, because it has no dataset.json, and it has no videos "
            f"and no folders of numbered frames{_first(found.left_out)}; give videos, or make a dataset with "
            "strobe build, simulate or import"
        )


def _videos(sources: Sequence[Path]) -> list[Path]:
    """Return the video files among the sources and in their folders."""
    return [path for path in video_files(sources)[0] if not path.is_dir()]


def _note_unused(reasons: Sequence[str], progress: Progress) -> None:
    """Print how many folders of images are not used, and the first reason."""
    if reasons:
        what = "folder of images is" if len(reasons) == 1 else "folders of images are"
        progress.note(f"note: {len(reasons)} {what} not used, {'first ' if len(reasons) > 1 else ''}{reasons[0]}")


def _first(reasons: Sequence[str]) -> str:
    """Return the first reason and the number of others in brackets, or nothing."""
    more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f" ({reasons[0]}{more})" if reasons else ""


def dataset_of_videos(
    sources: Sequence[Path],
    run: Run,
    models: Sequence[RequestedModel],
    options: VideoOptions,
    *,
    k: int | None,
    prediction: Running,
    brought: FileOptions,
    progress: Progress,
) -> VideoDataset:
    """Make the dataset of the videos inside the run, or return the dataset that the same videos already have there.

    Options that are not given keep the value that the run was made with.
    """
    in_memory = next((model for model in models if model.answers is not None), None)
    if in_memory is not None:
        raise StrobeError(
            f"{printable(in_memory.name)}: answers in memory need a dataset that names their frames; make one with "
            "strobe build, and give it instead of the videos, or pass a file of predictions"
        )
    place, files, folders = run.path / DATASET, _videos(sources), frame_folders(sources)
    named = video_names(files) if files else {name: folders.root / name for name in folders.frames}
    old = folder.read(place) if folder.is_dataset(place) else None
    if old is None and run.exists:
        run_on = run.about()["dataset"].get("name")
        raise StrobeError(
            f"{printable(run.path)} contains a run on a dataset ({printable(run_on)}); choose another folder with "
            "<<out>>"
        )
    classes_of: str | None
    if old is not None:
        k, every = _settings_of(run, old, named, options, k=k)
        label_space, classes_of = old.info.label_space, old.info.provenance.get("classes_of")
        if not files:
            check_same_frames(old, folders, run=printable(run.path))
            return VideoDataset(path=place, problems=(), models=tuple(models))
        # A video that was skipped may have been repaired since, so all are looked at again if there is one.
        if set(named) == set(_usable(old)) and all(str(path.resolve()) in old.videos.path for path in named.values()):
            return VideoDataset(path=place, problems=(), models=tuple(models))
    else:
        k = K if k is None else k
        every = options.every or 2 * k + 1
        label_space, classes_of, models = _classes(options, models, prediction, brought, progress)
    facts = {"given": sorted(named), "classes_of": classes_of}
    name = next(iter(named)) if len(named) == 1 else f"{len(named)} videos"
    if not files:
        made = dataset_of_frames(
            folders, place, k=k, every=every, label_space=label_space, facts=facts, name=name, progress=progress
        )
        for note in made.notes:
            progress.note(f"note: {note}")
        _note_unused(folders.left_out, progress)
        return VideoDataset(path=place, problems=(), models=tuple(models))
    unused = tuple(
        spelled(
            f"{printable(folders.root / frames)}: a folder of frames is not used together with videos; give such "
            "folders alone, with another <<out>>"
        )
        for frames in folders.frames
    )
    _note_unused(unused, progress)
    built = build(
        files,
        place,
        BuildOptions(
            sampling=AnchorOptions(k=k, every=every),
            label_space=label_space,
            unlabelled=True,
            reference=True,
            least_frames=2,
            facts=facts,
            name=name,
            workers=prediction.workers or os.cpu_count() or 1,
            engine=prediction.executor(),
        ),
        progress=progress,
    )
    for note in built.notes:
        progress.note(f"note: {note}")
    return VideoDataset(path=place, problems=(*built.problems, *unused), models=tuple(models))


def _usable(dataset: Dataset) -> Mapping[str, str]:
    """Return the digest of each video file by name, without skipped files."""
    videos: Mapping[str, str] = dataset.info.provenance.get("videos", {})
    return videos


def _settings_of(
    run: Run, old: Dataset, named: Mapping[str, Path], options: VideoOptions, *, k: int | None
) -> tuple[int, int]:
    """Return k and the distance between anchors of an existing dataset.

    Raises StrobeError if the command's videos or options differ from those that the run was made with.
    """
    where, about = printable(run.path), old.info.provenance
    try:
        sampling: Mapping[str, Any] = about["settings"]["sampling"]
        made, names = (int(sampling["k"]), int(sampling["every"])), [str(name) for name in about["given"]]
    except (KeyError, TypeError, ValueError) as error:
        raise StrobeError(
            f"{printable(run.path / DATASET)} was not made from videos by strobe eval; give it instead of the videos"
        ) from error
    if names != sorted(named):
        some = printable(", ".join(names), limit=200)
        raise StrobeError(f"{where} is a run on other videos ({some}); choose another folder with <<out>>")
    for name, digest in _usable(old).items():
        if sha256_of_file(named[name]) != digest:
            raise StrobeError(
                f"{printable(named[name])} is not the video that {where} was made with; choose another folder with "
                "<<out>>"
            )
    if (made[0] if k is None else k, options.every or made[1]) != made:
        raise StrobeError(
            f"{where} was made with <<k={made[0]}>> and <<every={made[1]}>>; use these values, or choose another "
            "folder with <<out>>"
        )
    if options.label_space is not None and read_label_space(options.label_space).ids != old.info.label_space.ids:
        raise StrobeError(
            f"{where} was made with other classes ({printable(old.info.label_space.name)}); use the same "
            "<<label_space>>, or choose another folder with <<out>>"
        )
    return made


def _classes(
    options: VideoOptions,
    models: Sequence[RequestedModel],
    prediction: Running,
    brought: FileOptions,
    progress: Progress,
) -> tuple[LabelSpace, str | None, Sequence[RequestedModel]]:
    """Return the classes of the dataset, the model that they are from, and the models.

    The model that gives the classes is not loaded again when it runs, unless it runs on other machines.
    """
    if options.label_space is not None:
        return read_label_space(options.label_space), None, models
    first: StrobeError | None = None
    for index, model in enumerate(models):
        if model.file is not None:
            label_space, why = label_space_of(model.file, brought)
            progress.note(f"classes: the {len(label_space):,} of {printable(model.name)} ({spelled(why)})")
            return label_space, model.name, models
        view = model.view
        text = model.spec if view is None else view.classifier if isinstance(view, CropView) else view.source
        try:
            other = next((one for one in models if one.name == text), None)  # boxes: and crop: may name a model
            loaded = _loaded(other or model, other.spec if other else text, prediction, progress)
        except StrobeError as error:
            first = first or StrobeError(f"{printable(model.name)}: {without_name(model.name, str(error))}")
            continue
        if view is None and prediction.executor().name == "local":
            models = [*models[:index], replace(model, live=partial(_given_model, loaded)), *models[index + 1 :]]
        label_space = loaded.spec.label_space
        progress.note(f"classes: the {len(label_space):,} of {printable(model.name)}")
        return label_space, model.name, models
    raise StrobeError(f"no model could be loaded, so there are no classes; {first}")


def _given_model(model: Classifier | Detector, options: LoadOptions) -> Classifier | Detector:  # noqa: ARG001 (the signature of all loaders)
    """Return a model that is already loaded."""
    return model


def _loaded(model: RequestedModel, text: str, prediction: Running, progress: Progress) -> Classifier | Detector:
    """Load a model as the run does, with its own classes."""
    options = model.settings.applied(prediction.loading(progress))
    return load_model(text, options) if model.live is None else model.live(options)
